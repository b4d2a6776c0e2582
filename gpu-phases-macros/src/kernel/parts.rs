//! The loop of a kernel over blocks: its threads, the parts of its outputs, and its closure.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Expr, ExprCall, ExprClosure, Pat, Stmt};

use super::signature::{Kind, Signature};
use crate::blocks::methods::element_of_shared;
use crate::blocks::{Level, Role, barriers::Plan, loads};
use crate::exprs::replace;
use crate::refuse::{Result, refused};
use crate::translate::Translator;

/// A call `blocks(Threads::<N>, parts, |block, part| …)`.
pub(super) struct Blocks<'b> {
    pub(super) threads: &'b mut Expr,
    pub(super) parts: &'b mut Expr,
    pub(super) closure: &'b mut ExprClosure,
}

/// Returns the last name of the function that is called.
pub(super) fn called_name(call: &ExprCall) -> Option<String> {
    match &*call.func {
        Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

/// Returns the shape of parts on the host. `copied` is them in rustc's copy.
pub(super) fn shape(parts: &Expr, copied: &Expr, private: &TokenStream) -> TokenStream {
    match (parts, copied) {
        (Expr::Tuple(tuple), Expr::Tuple(copied)) => {
            let parts = tuple.elems.iter().zip(&copied.elems);
            let parts = parts.map(|(part, copied)| shape(part, copied, private));
            quote!((#(#parts,)*))
        }
        (Expr::Paren(inner), Expr::Paren(copied)) => shape(&inner.expr, &copied.expr, private),
        (Expr::Call(call), Expr::Call(copied)) => {
            let (Some(name), Expr::Path(path)) = (called_name(call), &*call.func) else {
                return quote!(#parts);
            };
            let function = format_ident!("{}", name);
            let arguments = path.path.segments.last().map(|last| sizes(&last.arguments));
            let args = call.args.iter().zip(&copied.args).enumerate();
            let args = args.map(|(at, (arg, copied))| match at {
                0 if name == "warps" => shape(arg, copied, private),
                _ => quote!(#copied),
            });
            quote!(#private::host_parts::#function #arguments (#(#args),*))
        }
        _ => quote!(#parts),
    }
}

fn sizes(arguments: &syn::PathArguments) -> TokenStream {
    match sizes_of_path(arguments) {
        Some((height, width)) => quote!(::<{ #height }, { #width }>),
        None => TokenStream::new(),
    }
}

fn sizes_of_path(arguments: &syn::PathArguments) -> Option<(TokenStream, TokenStream)> {
    match arguments {
        syn::PathArguments::AngleBracketed(args) => sizes_of(args),
        _ => None,
    }
}

/// Returns the sizes among generic arguments: the first two.
pub(crate) fn sizes_of(
    args: &syn::AngleBracketedGenericArguments,
) -> Option<(TokenStream, TokenStream)> {
    let mut args = args.args.iter().map(|arg| quote!(#arg));
    Some((args.next()?, args.next()?))
}

/// Returns the lengths of the block's shared slices with their elements' sizes, as the closure of `blocks` declares them in
/// rustc's copy.
pub(super) fn shared_slices(closure: Option<&Expr>) -> Vec<TokenStream> {
    let Some(Expr::Closure(closure)) = closure else { return Vec::new() };
    let (Some(Pat::Ident(block)), Expr::Block(body)) = (closure.inputs.first(), &*closure.body)
    else {
        return Vec::new();
    };
    let items = super::items(&body.block.stmts);
    let declared = body.block.stmts.iter().filter_map(|statement| {
        let Stmt::Local(local) = statement else { return None };
        let Expr::MethodCall(call) = &*local.init.as_ref()?.expr else { return None };
        let Expr::Path(receiver) = &*call.receiver else { return None };
        if call.method != "shared_slice" || !receiver.path.is_ident(&block.ident) {
            return None;
        }
        let (ty, len) = (element_of_shared(call)?, call.args.first()?);
        Some(quote!({ #(#items)* (#len, ::core::mem::size_of::<#ty>()) }))
    });
    declared.collect()
}

/// Returns whether a statement is the loop of a kernel over blocks.
pub(super) fn is_blocks(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Expr(Expr::Call(call), _) if called_name(call).as_deref() == Some("blocks"))
}

/// Translates the loop, and returns the type of its block and the columns of its threads in C++.
pub(super) fn translate(
    s: &mut Translator<'_>,
    blocks: &mut Blocks<'_>,
    signature: &Signature,
) -> Result<(String, String)> {
    let private = s.private();
    let threads = &*blocks.threads;
    // Other expressions may have effects, or leave the function with another extent.
    if !matches!(threads, Expr::Path(_)) {
        return refused(
            threads,
            "the threads of a block are a constant",
            "write `Threads::<256>` or `Threads::<16, 16>`",
        );
    }
    let block = s.hole(quote!(#private::block_name(#threads)));
    let columns = s.hole(quote!(::std::string::ToString::to_string(&#private::columns(#threads))));
    let part = part(s, blocks.parts, signature)?;
    let (Some(Pat::Ident(name)), Some(_), 2) =
        (blocks.closure.inputs.first(), blocks.closure.inputs.get(1), blocks.closure.inputs.len())
    else {
        return refused(
            &blocks.closure.inputs,
            "the closure of `blocks` takes the block and its part",
            "write `|block, part| …`, or `|block, _| …` for `grid(n)`",
        );
    };
    if let Some(capture) = &blocks.closure.capture {
        return refused(
            capture,
            "the closure of `blocks` borrows what it uses",
            "leave out `move`",
        );
    }
    let name = name.ident.to_string();
    s.emit(&format!("auto block_part = {part};\n[[maybe_unused]] u64_raw shared_bytes = 0;"));
    s.in_closure = 1;
    s.in_kernel = true;
    s.scoped(|s| {
        // A phase sees the atomic operations of earlier ones.
        for local in s.scopes.iter_mut().flat_map(|scope| scope.values_mut()) {
            if s.atomics.contains(&local.cpp) {
                (local.role, local.roots) = (Role::Part, vec![local.cpp.clone()]);
            }
        }
        let cpp = s.declare(&name, false);
        s.emit(&format!("[[maybe_unused]] const B {cpp}{{sx * sy, block_index}};"));
        let [own, pattern] = [0, 1].map(|at| blocks.closure.inputs[at].clone());
        s.give_role(&own, Role::Block, &[]);
        let mut pattern = pattern;
        s.bind_pattern(&mut pattern, "block_part")?;
        part_roles(s, &pattern, blocks.parts);
        blocks.closure.inputs[1] = pattern;
        s.level = Some(Level {
            plan: Plan::new(),
            scopes: s.scopes.len() + 1,
            phases: false,
            reads: false,
            returns: false,
        });
        s.of_block = true;
        let value = match &mut *blocks.closure.body {
            Expr::Block(block) if block.label.is_none() => s.block_value(&mut block.block)?,
            body => {
                // One phase, as a statement.
                let statement = std::mem::replace(body, Expr::Verbatim(TokenStream::new()));
                let mut block: syn::Block = syn::parse_quote!({ #statement });
                let value = s.block_value(&mut block)?;
                *body = Expr::Block(syn::ExprBlock { attrs: Vec::new(), label: None, block });
                value
            }
        };
        if value.effect == crate::translate::Effect::Faults {
            s.emit(&format!("(void)({});", value.code));
        }
        Ok(())
    })?;
    if let Some(level) = s.level.take() {
        s.out = loads::gathered(&level.plan.place(&s.out, loads::BARRIER));
    }
    Ok((block, columns))
}

impl Translator<'_> {
    /// Returns constants of Rust in C++.
    pub(crate) fn sizes<const N: usize>(&mut self, sizes: [TokenStream; N]) -> [String; N] {
        sizes.map(|n| {
            self.hole(
                quote!({ let phases_n: usize = #n; ::std::string::ToString::to_string(&phases_n) }),
            )
        })
    }
}

/// Gives the names of the part their roles: an element that the block writes once, or memory.
fn part_roles(s: &mut Translator<'_>, pattern: &Pat, parts: &Expr) {
    match (pattern, parts) {
        (_, Expr::Paren(inner)) => part_roles(s, pattern, &inner.expr),
        (Pat::Tuple(patterns), Expr::Tuple(parts)) => {
            for (pattern, part) in patterns.elems.iter().zip(&parts.elems) {
                part_roles(s, pattern, part);
            }
        }
        (_, Expr::Path(_)) => s.give_role(pattern, Role::Slot, &[]),
        _ => s.give_role(pattern, Role::Memory, &[]),
    }
}

/// Translates the size of a part. The size of another part may change what it reads.
fn size_of(s: &mut Translator<'_>, size: &mut Expr) -> Result<String> {
    let size = s.operand(size)?;
    Ok(s.keep(size).code)
}

/// Translates a part of an output.
fn part(s: &mut Translator<'_>, parts: &mut Expr, signature: &Signature) -> Result<String> {
    let whole = parts.clone();
    match parts {
        Expr::Paren(inner) => part(s, &mut inner.expr, signature),
        Expr::Tuple(tuple) => {
            let parts = tuple
                .elems
                .iter_mut()
                .map(|each| part(s, each, signature))
                .collect::<Result<Vec<_>>>()?;
            Ok(format!("tup({})", parts.join(", ")))
        }
        Expr::Path(_) => Ok(format!("slot_of(block_index, {})", output(s, parts, signature)?)),
        Expr::Call(call) => {
            let name = called_name(call).unwrap_or_default();
            let count = call.args.len();
            if !["chunks", "tiles", "grid", "warps", "rows"].contains(&name.as_str()) {
                return wrong(&whole);
            }
            let Expr::Path(path) = &mut *call.func else { return wrong(&whole) };
            s.named.push(super::without_arguments(&path.path));
            let arguments = path.path.segments.last().map(|last| last.arguments.clone());
            let (private, function) = (s.private(), format_ident!("{}", name));
            *call.func = Expr::Verbatim(quote!(#private::#function #arguments));
            let mut args = call.args.iter_mut();
            match (name.as_str(), args.next(), args.next()) {
                ("grid", Some(blocks), None) => {
                    // A device does not evaluate it.
                    replace(blocks, |blocks| quote!(#private::unchanging(|| #blocks)));
                    Ok("unit{}".to_owned())
                }
                ("chunks", Some(out), Some(size)) if count == 2 => {
                    let out = output(s, out, signature)?;
                    let size = size_of(s, size)?;
                    Ok(format!("chunk_of(block_index, {out}, {size})"))
                }
                ("rows", Some(out), Some(columns)) if count == 2 => {
                    let out = output(s, out, signature)?;
                    let columns = size_of(s, columns)?;
                    let ty = format!("plain<decltype(*{out}.p)>");
                    Ok(format!("rows_<{ty}>{{{out}, {columns}}}"))
                }
                ("tiles", Some(out), Some(size)) if count == 2 => {
                    let Some(sizes) = arguments.as_ref().and_then(sizes_of_path) else {
                        return refused(
                            &whole,
                            "the size of the tiles is not written here",
                            "write `tiles::<16, 16, _>(out, [rows, columns])`",
                        );
                    };
                    let [height, width] = s.sizes([sizes.0, sizes.1]);
                    let out = output(s, out, signature)?;
                    let size = match size {
                        Expr::Array(size) => {
                            let size = s.operands(&mut size.elems)?;
                            let size: Vec<_> = size.into_iter().map(|size| s.keep(size)).collect();
                            format!("arr({})", crate::exprs::codes(&size))
                        }
                        size => size_of(s, size)?,
                    };
                    Ok(format!("tile_of<{height}, {width}>(block_index, {out}, {size})"))
                }
                ("warps", Some(of), Some(warps)) if count == 2 => {
                    let of = match of {
                        Expr::Call(_) => part(s, of, signature)?,
                        out => output(s, out, signature)?,
                    };
                    let warps = size_of(s, warps)?;
                    Ok(format!("warps_of(block_index, {of}, {warps})"))
                }
                _ => wrong(&whole),
            }
        }
        _ => wrong(&whole),
    }
}

/// Returns the slice of an output in C++.
fn output(s: &mut Translator<'_>, out: &Expr, signature: &Signature) -> Result<String> {
    let name = match out {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    };
    let param = name.as_ref().and_then(|name| signature.slice(name));
    let local = name.as_ref().and_then(|name| s.local(name)).cloned();
    match (param, local) {
        (Some(param), Some(local)) if param.kind == Kind::Write => Ok(local.cpp),
        _ => wrong(out),
    }
}

fn wrong<T>(at: &Expr) -> Result<T> {
    refused(
        at,
        "this is no part of an output of the kernel",
        "`blocks` runs over a parameter `out: &mut [T]` (an element a block), over `chunks(out, n)`, \
         `tiles::<H, W, _>(out, [rows, columns])`, `warps(out, n)`, `grid(n)`, or a tuple of them",
    )
}
