//! Functions that call themselves, which rustc does not refuse.

use syn::spanned::Spanned;
use syn::visit::{Visit, visit_expr_call, visit_expr_method_call};
use syn::{Block, Expr, ExprCall, ExprMethodCall, Ident, ImplItem, ItemFn, ItemImpl};

use crate::refuse::Result;

/// Calls of functions of the same `impl`, with their places. In a method a bare name is that of a function: `free`.
struct Calls {
    free: bool,
    found: Vec<(Ident, proc_macro2::Span)>,
}

impl<'a> Visit<'a> for Calls {
    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let segments = &path.path.segments;
            match path.path.get_ident() {
                Some(name) if self.free => self.found.push((name.clone(), call.func.span())),
                None if segments.len() == 2 && segments[0].ident == "Self" => {
                    self.found.push((segments[1].ident.clone(), call.func.span()));
                }
                _ => {}
            }
        }
        visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        if matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self")) {
            self.found.push((call.method.clone(), call.method.span()));
        }
        visit_expr_method_call(self, call);
    }
}

fn calls(block: &Block, free: bool) -> Vec<(Ident, proc_macro2::Span)> {
    let mut calls = Calls { free, found: Vec::new() };
    calls.visit_block(block);
    calls.found
}

fn refused(call: Option<&(Ident, proc_macro2::Span)>) -> Result<()> {
    match call {
        Some((_, span)) => Err(syn::Error::new(
            *span,
            "device functions do not call themselves: a thread has no stack to speak of\n\
             help: write a loop, with an array for what is left to do",
        )),
        None => Ok(()),
    }
}

/// Refuses a function that calls itself. In a method a bare name is that of a function: `free`.
pub(crate) fn of_function(function: &ItemFn, free: bool) -> Result<()> {
    refused(calls(&function.block, free).iter().rev().find(|(name, _)| *name == function.sig.ident))
}

/// Refuses methods of a block that call each other in a cycle.
pub(crate) fn of_methods(block: &ItemImpl) -> Result<()> {
    let methods = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(method) => Some((&method.sig.ident, calls(&method.block, false))),
        _ => None,
    });
    let methods: Vec<_> = methods.collect();
    for (method, calls) in &methods {
        let mut reached = calls.clone();
        let mut at = 0;
        while at < reached.len() {
            if reached[at].0 == **method {
                return refused(reached.get(at));
            }
            let called = methods.iter().find(|(name, _)| **name == reached[at].0);
            for call in called.iter().flat_map(|(_, calls)| calls) {
                if reached.iter().all(|(name, _)| *name != call.0) {
                    reached.push(call.clone());
                }
            }
            at += 1;
        }
    }
    Ok(())
}
