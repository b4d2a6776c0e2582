//! The loop of a kernel over elements: its outputs and its closure.

use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Expr, Stmt};

use super::signature::{Kind, Param, Signature};
use super::straight;
use crate::refuse::{Result, refused};
use crate::translate::Translator;

/// Returns the slices whose lengths are the extent: the outputs of a loop of one dimension.
pub(super) fn linear_outputs(last: &Stmt) -> Vec<String> {
    let Stmt::Expr(Expr::Call(call), _) = last else { return Vec::new() };
    let outputs: Vec<&Expr> = match call.args.first() {
        Some(Expr::Tuple(tuple)) => tuple.elems.iter().collect(),
        Some(out) => vec![out],
        None => Vec::new(),
    };
    let names = outputs.into_iter().filter_map(|out| match out {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    });
    names.collect()
}

/// Translates the outputs of the loop: declares the variable `item` of C++, and returns the number of dimensions.
pub(super) fn outputs(
    s: &mut Translator<'_>,
    out: &mut Expr,
    signature: &Signature,
) -> Result<u32> {
    let mut dimensions = None;
    let item = output(s, out, signature, &mut dimensions)?;
    s.emit(&format!("auto out_item = {item};"));
    Ok(dimensions.unwrap_or(1))
}

/// Returns the item of one output in C++.
fn output(
    s: &mut Translator<'_>,
    out: &mut Expr,
    signature: &Signature,
    dimensions: &mut Option<u32>,
) -> Result<String> {
    let whole = out.clone();
    let (found, expression) = match out {
        Expr::Tuple(tuple) => {
            let items: Vec<String> = tuple
                .elems
                .iter_mut()
                .map(|part| output(s, part, signature, dimensions))
                .collect::<Result<_>>()?;
            return Ok(format!("tup({})", items.join(", ")));
        }
        Expr::Paren(inner) => return output(s, &mut inner.expr, signature, dimensions),
        Expr::Path(_) => (1, out),
        Expr::Call(call) => {
            let name = match &*call.func {
                Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
                _ => None,
            };
            let found = match name.as_deref() {
                Some("image") => 2,
                Some("volume") => 3,
                _ => return wrong_output(&whole),
            };
            let private = s.private();
            if let Expr::Path(path) = &*call.func {
                s.named.push(path.path.clone());
            }
            let function = format_ident!("{}", if found == 2 { "image" } else { "volume" });
            *call.func = Expr::Verbatim(quote!(#private::#function));
            let count = call.args.len();
            let (Some(Expr::Array(sizes)), 2) = (call.args.last_mut(), count) else {
                return refused(
                    &whole,
                    "the shape is not written here",
                    "write `image(out, [width, height])`",
                );
            };
            let (emitted, values) = s.captured(|s| s.operands(&mut sizes.elems))?;
            s.out.push_str(&emitted);
            // The launch has the extent from these values: then compilers see that they are equal.
            for ((size, value), extent) in sizes.elems.iter().zip(values).zip(["sx", "sy", "sz"]) {
                if matches!(size, Expr::Path(_)) {
                    s.emit(&format!("same_length({}, {extent});", value.code));
                }
            }
            match call.args.first_mut() {
                Some(first) => (found, first),
                None => return wrong_output(&whole),
            }
        }
        _ => return wrong_output(&whole),
    };
    if *dimensions.get_or_insert(found) != found {
        return refused(
            &whole,
            "the outputs of a loop have different numbers of dimensions",
            "give all one shape",
        );
    }
    let name = match &*expression {
        Expr::Path(path) => path.path.get_ident().cloned(),
        _ => None,
    };
    let param = name.as_ref().and_then(|name| signature.slice(&name.to_string()));
    let Some(Param { kind: Kind::Write, element, .. }) = param else {
        return wrong_output(&whole);
    };
    let Some(local) = name.as_ref().and_then(|name| s.local(&name.to_string())).cloned() else {
        return wrong_output(&whole);
    };
    s.outputs.push((local.cpp.clone(), is_number(element)));
    let at = match found {
        1 => "gx",
        _ => "(u64_raw(gz) * sy + gy) * sx + gx",
    };
    Ok(format!("mut_at({}.p, {at})", local.cpp))
}

/// Returns whether a type is a number of Rust, as written.
fn is_number(ty: &syn::Type) -> bool {
    let syn::Type::Path(path) = ty else { return false };
    let name = path.path.get_ident().map(ToString::to_string).unwrap_or_default();
    let digits = name.trim_start_matches(['i', 'u', 'f']);
    matches!(name.as_str(), "bool" | "isize" | "usize")
        || matches!(digits, "8" | "16" | "32" | "64")
}

fn wrong_output<T>(at: &Expr) -> Result<T> {
    refused(
        at,
        "this is no output of the kernel",
        "the loop runs over a parameter `out: &mut [T]`, over `image(out, [width, height])`, \
         `volume(out, [width, height, depth])`, or a tuple of them",
    )
}

/// Translates the closure of the loop.
pub(super) fn closure(
    s: &mut Translator<'_>,
    closure: &mut syn::ExprClosure,
    dimensions: u32,
) -> Result<()> {
    if let Some(capture) = &closure.capture {
        return refused(capture, "the closure of `each` borrows what it uses", "leave out `move`");
    }
    let inputs = closure.inputs.len();
    let mut params = closure.inputs.iter_mut();
    let (Some(index), Some(item), 2) = (params.next(), params.next(), inputs) else {
        return refused(
            &closure.inputs,
            "the closure of `each` takes the index and the element",
            "write `|i, out| …`, or `|[x, y], out| …` for an image",
        );
    };
    let at = match dimensions {
        1 => "usize(gx)",
        2 => "arr(usize(gx), usize(gy))",
        _ => "arr(usize(gx), usize(gy), usize(gz))",
    };
    s.emit(&format!("const auto out_index = {at};"));
    s.in_closure = 1;
    s.in_kernel = true;
    s.scoped(|s| {
        s.bind_pattern(index, "out_index")?;
        s.writable_names(item);
        s.bind_pattern(item, "out_item")?;
        s.number_items = s.number_items(item);
        if let Some(body) = straight::parts(&mut closure.body, item) {
            return straight::translate(s, body);
        }
        let value = match &mut *closure.body {
            Expr::Block(block) if block.label.is_none() => s.scoped(|s| {
                let value = s.statements(&mut block.block.stmts)?;
                Ok(value)
            })?,
            body => {
                s.line_marker(body.span());
                s.discarded(body)?
            }
        };
        if value.effect == crate::translate::Effect::Faults {
            s.emit(&format!("(void)({});", value.code));
        }
        Ok(())
    })
}
