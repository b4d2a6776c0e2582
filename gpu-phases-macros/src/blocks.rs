//! Code at block level, and the phases that it starts.

pub(crate) mod barriers;
pub(crate) mod loads;
pub(crate) mod methods;
mod phases;
pub(crate) mod reads;

use proc_macro2::Ident;
use syn::{Expr, Pat, Type};

use crate::translate::{Local, Translator};
use barriers::Plan;

/// What a local of block-level code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    Value,
    /// The block of threads.
    Block,
    /// A value of each thread.
    Own,
    /// Memory of the block, as it was declared.
    Memory,
    /// A part of such memory.
    Part,
    /// A value that may be, or have, a reference into such memory.
    Borrowed,
    /// One element of an output.
    Slot,
    /// What a phase hands to a thread: a value, but for its own methods.
    Item,
}

/// The state of the translation of block-level code.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) plan: Plan,
    /// The number of scopes around a statement of the kernel's closure. 0 in a device function.
    pub(crate) scopes: usize,
    /// Whether a thread may have left in a phase.
    pub(crate) phases: bool,
    /// Whether code until here, or of the loops around it, uses values of the memory of the block.
    pub(crate) reads: bool,
    /// Whether the block may have ended by a `return`.
    pub(crate) returns: bool,
}

/// The methods of a block that are no numbers: memory, phases, and what waits for one.
pub(crate) const PHASES: [&str; 23] = [
    "shared",
    "shared_slice",
    "per_thread",
    "each",
    "run",
    "one",
    "load",
    "load_matrix",
    "warp_sum",
    "warp_min",
    "warp_max",
    "warp_scan",
    "warp_xor",
    "warp_broadcast",
    "warp_ballot",
    "sum",
    "min",
    "max",
    "scan",
    "compact",
    "broadcast",
    "sort",
    "carry",
];

/// The methods of a block that are numbers.
const NUMBERS: [&str; 3] = ["index", "count", "threads"];

/// Those of [`OF_MEMORY`] that return parts of it.
const SPLITS: [&str; 6] = ["split_at_mut", "pairs", "cells", "rows", "atomic", "patches"];

/// The methods of memory of a block that access nothing.
const OF_MEMORY: [&str; 9] =
    ["split_at_mut", "pairs", "cells", "rows", "atomic", "patches", "origin", "start", "len"];

impl Translator<'_> {
    /// Returns the role of the local that an expression names.
    pub(crate) fn role(&self, e: &Expr) -> Role {
        match e {
            Expr::Paren(inner) => self.role(&inner.expr),
            Expr::Reference(inner) => self.role(&inner.expr),
            Expr::Unary(inner) if matches!(inner.op, syn::UnOp::Deref(_)) => self.role(&inner.expr),
            Expr::Path(path) => path
                .path
                .get_ident()
                .and_then(|name| self.local(&name.to_string()))
                .map_or(Role::Value, |local| match local.role {
                    Role::Item | Role::Borrowed => Role::Value,
                    role => role,
                }),
            _ => Role::Value,
        }
    }

    /// Gives the names of a pattern a role, and the memory that they lead to; none: each is memory of its own.
    pub(crate) fn give_role(&mut self, pat: &Pat, role: Role, roots: &[String]) {
        let mut names = Vec::new();
        names_of(pat, &mut names);
        for name in names {
            let name = name.to_string();
            let Some(local) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(&name))
            else {
                continue;
            };
            local.role = role;
            local.roots = if roots.is_empty() { vec![local.cpp.clone()] } else { roots.to_vec() };
        }
    }

    /// Notes something about the names of a pattern.
    pub(crate) fn mark(&mut self, pat: &Pat, note: impl Fn(&mut Local)) {
        let mut names = Vec::new();
        names_of(pat, &mut names);
        for name in names {
            let name = name.to_string();
            if let Some(local) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(&name))
            {
                note(local);
            }
        }
    }

    /// Returns the memory of the block that an expression may lead to: that of the handles which it names.
    pub(crate) fn roots_of(&self, e: &Expr) -> Vec<String> {
        let mut roots = Vec::new();
        for name in reads::names(e) {
            if let Some(local) = self.local(&name.to_string())
                && matches!(local.role, Role::Memory | Role::Part | Role::Borrowed)
            {
                roots.extend(local.roots.iter().cloned());
            }
        }
        roots.sort();
        roots.dedup();
        roots
    }

    /// Returns whether an expression names a block of threads.
    pub(crate) fn names_block(&self, e: &Expr) -> bool {
        reads::names(e).iter().any(|name| {
            self.local(&name.to_string()).is_some_and(|local| local.role == Role::Block)
        })
    }
}

/// Returns the role of a parameter of this type.
pub(crate) fn role_of(ty: &Type) -> Role {
    match ty {
        Type::Reference(reference) => role_of(&reference.elem),
        Type::Paren(inner) => role_of(&inner.elem),
        Type::Path(path) => match path.path.segments.last() {
            Some(last) if last.ident == "Block" => Role::Block,
            Some(last) if last.ident == "PerThread" => Role::Own,
            Some(last) if ["Shared", "Part", "Tile"].iter().any(|name| last.ident == name) => {
                Role::Part
            }
            _ => Role::Value,
        },
        _ => Role::Value,
    }
}

/// Collects the names of a pattern.
pub(crate) fn names_of<'p>(pat: &'p Pat, names: &mut Vec<&'p Ident>) {
    match pat {
        Pat::Ident(ident) => names.push(&ident.ident),
        Pat::Type(typed) => names_of(&typed.pat, names),
        Pat::Paren(inner) => names_of(&inner.pat, names),
        Pat::Reference(inner) => names_of(&inner.pat, names),
        Pat::Tuple(tuple) => tuple.elems.iter().for_each(|part| names_of(part, names)),
        Pat::Slice(slice) => slice.elems.iter().for_each(|part| names_of(part, names)),
        Pat::TupleStruct(tuple) => tuple.elems.iter().for_each(|part| names_of(part, names)),
        Pat::Struct(fields) => fields.fields.iter().for_each(|field| names_of(&field.pat, names)),
        _ => {}
    }
}
