//! The host code of a kernel before its loop: conditions, and the shape of the output.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{BinOp, Expr, ItemFn, Stmt, Token};

use super::signature::Signature;
use crate::options::Options;
use crate::refuse::{Result, refuse, refused};

/// Returns the condition of a statement `assert!(condition)`, if it is one.
pub(super) fn condition_of(statement: &Stmt) -> Result<Option<Expr>> {
    let mac = match statement {
        Stmt::Macro(mac) => &mac.mac,
        Stmt::Expr(Expr::Macro(mac), _) => &mac.mac,
        _ => return Ok(None),
    };
    let name = mac.path.get_ident().map(ToString::to_string).unwrap_or_default();
    if name != "assert" && name != "assert_eq" {
        return refused(
            mac,
            "kernels have no such macro before their loop",
            "write `assert!(condition)`; it is checked on the host before the launch",
        );
    }
    let mut args =
        Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone())?.into_iter();
    match (args.next(), args.next(), name.as_str()) {
        (Some(condition), _, "assert") => Ok(Some(condition)),
        (Some(a), Some(b), _) => {
            let [a, b] = [a, b].map(operand);
            Ok(Some(syn::parse_quote!(#a == #b)))
        }
        _ => refused(mac, "`assert!` takes a condition", "write `assert!(x.len() == out.len())`"),
    }
}

/// Returns an operand of `==`.
fn operand(e: Expr) -> Expr {
    match &e {
        Expr::Binary(binary) if crate::operators::binds_less(&binary.op) => {
            syn::parse_quote!((#e))
        }
        _ => e,
    }
}

/// Returns the parts of a condition that are joined by `&&`.
fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::Paren(inner) => conjuncts(&inner.expr),
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            let mut parts = conjuncts(&binary.left);
            parts.extend(conjuncts(&binary.right));
            parts
        }
        _ => vec![condition],
    }
}

/// Returns the slice and its length for each `x.len() == e` in a condition.
pub(super) fn equal_lengths(condition: &Expr) -> Vec<(String, Expr)> {
    let mut found = Vec::new();
    for part in conjuncts(condition) {
        let Expr::Binary(binary) = part else { continue };
        if !matches!(binary.op, BinOp::Eq(_)) {
            continue;
        }
        match (slice_of(&binary.left), slice_of(&binary.right)) {
            (Some(slice), _) => found.push((slice, (*binary.right).clone())),
            (None, Some(slice)) => found.push((slice, (*binary.left).clone())),
            (None, None) => {}
        }
    }
    found
}

/// Returns whether an expression is a product of variables.
pub(super) fn is_product(e: &Expr) -> bool {
    match e {
        Expr::Paren(inner) => is_product(&inner.expr),
        Expr::Path(_) => true,
        Expr::Binary(binary) => {
            matches!(binary.op, BinOp::Mul(_))
                && is_product(&binary.left)
                && is_product(&binary.right)
        }
        _ => false,
    }
}

/// Returns `x` of `x.len()`.
fn slice_of(e: &Expr) -> Option<String> {
    let Expr::MethodCall(call) = e else { return None };
    let Expr::Path(path) = &*call.receiver else { return None };
    (call.method == "len" && call.args.is_empty())
        .then(|| path.path.get_ident().map(ToString::to_string))
        .flatten()
}

/// Returns the slices whose length is the extent: outputs of a loop of one dimension, and those that conditions compare
/// with them.
pub(super) fn whole(function: &ItemFn, signature: &Signature) -> Vec<String> {
    let Some((last, statements)) = function.block.stmts.split_last() else { return Vec::new() };
    if super::parts::is_blocks(last) {
        return Vec::new();
    }
    let conditions = statements.iter().filter_map(|statement| condition_of(statement).ok()?);
    let equal: Vec<(String, String)> = conditions
        .flat_map(|condition| equal_lengths(&condition))
        .filter_map(|(slice, len)| Some((slice, slice_of(&len)?)))
        .collect();
    let mut whole = super::elements::linear_outputs(last);
    for _ in 0..equal.len() {
        for (a, b) in &equal {
            match (whole.contains(a), whole.contains(b)) {
                (true, false) => whole.push(b.clone()),
                (false, true) => whole.push(a.clone()),
                _ => {}
            }
        }
    }
    whole.retain(|name| signature.slice(name).is_some());
    whole
}

/// Checks what stands before the loop of a kernel.
pub(super) fn check(function: &ItemFn, signature: &Signature) -> Result<()> {
    let Some((last, statements)) = function.block.stmts.split_last() else {
        return refused(
            &function.sig,
            "the kernel has no loop",
            "end it with `each(out, |i, out| …)`",
        );
    };
    for statement in statements {
        match (condition_of(statement)?, statement) {
            (Some(condition), _) => no_elements(&condition, signature)?,
            (None, Stmt::Local(_) | Stmt::Item(_)) => {}
            _ => {
                return refused(
                    statement,
                    "only `let` and `assert!` stand before a kernel's loop",
                    "move it into the closure of `each`, or compute the value before the launch",
                );
            }
        }
    }
    match last {
        Stmt::Expr(Expr::Call(call), _) if !call.args.is_empty() => Ok(()),
        _ => refused(
            last,
            "the last statement of a kernel is its parallel loop",
            "end it with `each(out, |i, out| …)`, where `out` is a parameter `&mut [T]`",
        ),
    }
}

/// Returns the test of a condition on the host. A device does not evaluate it, so it stands in a closure that can neither
/// change a variable nor leave the function with another extent.
pub(super) fn test(condition: &Expr, private: &TokenStream) -> TokenStream {
    let text = readable(condition);
    let values = values_of(condition);
    let shown = values.iter().map(readable);
    quote! {
        if !#private::unchanging::<bool>(|| #condition) {
            #private::condition_failed(#text, &[#((#shown, #private::shown(&(#values)))),*]);
        }
    }
}

/// Returns the extent of a launch on the host. Sizes are those of rustc's copy, which computes as a device does; functions
/// have their names in the source.
pub(super) fn extent(function: &ItemFn, copy: &[Stmt], options: &Options) -> Result<TokenStream> {
    let private = options.private();
    let (Some(last @ Stmt::Expr(Expr::Call(call), _)), Some(Stmt::Expr(Expr::Call(copy), _))) =
        (function.block.stmts.last(), copy.last())
    else {
        return Ok(TokenStream::new());
    };
    let blocks = super::parts::is_blocks(last);
    let (Some(out), Some(copied)) =
        (call.args.get(usize::from(blocks)), copy.args.get(usize::from(blocks)))
    else {
        return Ok(TokenStream::new());
    };
    if !blocks {
        let shape = shape(out, copied, &private);
        return Ok(quote!(#private::extent_of(#shape)));
    }
    let threads = call.args.first();
    let shape = super::parts::shape(out, copied, &private);
    let slices = super::parts::shared_slices(copy.args.last());
    let fits =
        options.min_blocks.iter().map(|least| quote!(#private::fit(#threads, [(); #least]);));
    let extent = match slices.is_empty() {
        true => quote!(#private::blocks_of(#threads, #shape)),
        false => {
            quote!(#private::with_shared(#private::blocks_of(#threads, #shape), &[#(#slices),*]))
        }
    };
    Ok(quote!({ #(#fits)* #extent }))
}

/// Refuses elements of slices in a condition: they are in device memory.
fn no_elements(condition: &Expr, signature: &Signature) -> Result<()> {
    struct Elements<'s>(&'s Signature, Option<syn::Error>);
    impl<'a> syn::visit::Visit<'a> for Elements<'_> {
        fn visit_expr_index(&mut self, index: &'a syn::ExprIndex) {
            let name = index.expr.to_token_stream().to_string();
            if self.0.slice(&name).is_some() && self.1.is_none() {
                self.1 = Some(refuse(
                    index,
                    "a condition before the loop is one of lengths and values, not of elements",
                    "move the `assert!` into the closure of `each`",
                ));
            }
            syn::visit::visit_expr_index(self, index);
        }
    }
    let mut elements = Elements(signature, None);
    syn::visit::Visit::visit_expr(&mut elements, condition);
    elements.1.map_or(Ok(()), Err)
}

/// Returns the shape of an output. `copied` is it in rustc's copy.
fn shape(out: &Expr, copied: &Expr, private: &TokenStream) -> TokenStream {
    match (out, copied) {
        (Expr::Tuple(tuple), Expr::Tuple(copied)) => {
            let parts = tuple.elems.iter().zip(&copied.elems);
            let parts = parts.map(|(part, copied)| shape(part, copied, private));
            quote!((#(#parts,)*))
        }
        (Expr::Paren(inner), Expr::Paren(copied)) => shape(&inner.expr, &copied.expr, private),
        (Expr::Call(_), Expr::Call(copied)) => {
            let args = &copied.args;
            quote!(#private::Shape::new(#args))
        }
        _ => quote!(#out),
    }
}

/// Returns the operands of a condition's comparisons, which the message shows with their values.
fn values_of(condition: &Expr) -> Vec<Expr> {
    struct Values(Vec<Expr>);
    impl<'a> syn::visit::Visit<'a> for Values {
        fn visit_expr(&mut self, e: &'a Expr) {
            match e {
                Expr::Lit(_) | Expr::Call(_) => {}
                Expr::Path(path) => {
                    if path
                        .path
                        .get_ident()
                        .is_some_and(|name| !name.to_string().starts_with(char::is_uppercase))
                    {
                        self.take(e);
                    }
                }
                Expr::MethodCall(call) if call.method == "len" => self.take(e),
                _ => syn::visit::visit_expr(self, e),
            }
        }
    }
    impl Values {
        fn take(&mut self, e: &Expr) {
            let text = readable(e);
            if self.0.iter().all(|known| readable(known) != text) {
                self.0.push(e.clone());
            }
        }
    }
    let mut values = Values(Vec::new());
    syn::visit::Visit::visit_expr(&mut values, condition);
    values.0
}

/// Returns the text of an expression, with the usual spaces of Rust.
fn readable(e: &Expr) -> String {
    let text = e.to_token_stream().to_string();
    [
        (" . ", "."),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" [", "["),
        ("[ ", "["),
        (" ]", "]"),
        ("& ", "&"),
        (" ,", ","),
    ]
    .iter()
    .fold(text, |text, (from, to)| text.replace(from, to))
    .replace("&&", "&& ")
    .replace("  ", " ")
}
