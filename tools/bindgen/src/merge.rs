//! One set of functions and types from the two ways of reading cuda.h.
//!
//! In the current reading a plain name is a macro for its newest ABI, so that what is declared
//! is what the driver exports (`cuMemAlloc_v2`). The internal reading declares the older ABIs
//! under their exported names (`cuMemAlloc`), and the per-thread-stream variants (`_ptds`,
//! `_ptsz`). Neither has everything.

use std::collections::{BTreeMap, HashSet};

use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Item, TypeBareFn};

use crate::Failure;
use crate::clang::Parsed;

/// A function's types without the names of its parameters, which the header is not consistent in.
pub(crate) fn signature(function: &syn::ForeignItemFn) -> TypeBareFn {
    let output = &function.sig.output;
    let inputs = function.sig.inputs.iter().filter_map(|argument| match argument {
        syn::FnArg::Typed(typed) => Some(&typed.ty),
        syn::FnArg::Receiver(_) => None,
    });
    syn::parse_quote!(fn(#(#inputs),*) #output)
}

/// Everything that cuda.h declares, by exported name.
pub(crate) struct Merged {
    pub(crate) functions: BTreeMap<String, syn::ForeignItemFn>,
    /// `_ptds` and `_ptsz` names.
    pub(crate) per_thread: Vec<String>,
    pub(crate) items: Vec<Item>,
}

/// Merges the readings; an error if they disagree about a name or one has lost something.
pub(crate) fn merge(current: &Parsed, internal: &Parsed) -> Result<Merged, Failure> {
    let mut functions = current.functions.clone();
    let mut per_thread = Vec::new();
    for (name, function) in &internal.functions {
        if name.ends_with("_ptds") || name.ends_with("_ptsz") {
            per_thread.push(name.clone());
        } else if let Some(known) = functions.get(name) {
            if signature(known) != signature(function) {
                return Err(format!("{name} has two signatures under one exported name").into());
            }
        } else {
            functions.insert(name.clone(), function.clone());
        }
    }
    for name in &per_thread {
        if !functions.contains_key(&name[..name.len() - "_ptds".len()]) {
            return Err(format!("{name} has no counterpart for explicit streams").into());
        }
    }
    // Layouts must not depend on the reading: a superset of equal items is proof of that.
    let all: HashSet<&Item> = internal.items.iter().collect();
    if let Some(item) = current.items.iter().find(|item| !all.contains(item)) {
        return Err(format!("differs in the internal reading: {}", item.to_token_stream()).into());
    }
    let items = internal.items.clone();
    Ok(Merged { functions, per_thread, items })
}

/// Fails unless each function whose declaration stands in the header's text was found.
///
/// bindgen passes over what it cannot express; this counts without it.
pub(crate) fn complete(header: &str, merged: &Merged) -> Result<(), Failure> {
    let found = |name: &str| {
        merged.functions.contains_key(name) || merged.per_thread.iter().any(|known| known == name)
    };
    // Plain names that are macros for the newest ABI: `#define cuX cuX_v2`, or with
    // `__CUDA_API_PTSZ(cuX_v2)`.
    let mut macros = BTreeMap::new();
    for line in header.lines() {
        let Some(rest) = line.trim_start().strip_prefix("#define cu") else {
            continue;
        };
        let Some((name, target)) = rest.split_once(char::is_whitespace) else {
            continue;
        };
        let target = target.trim().trim_end_matches(')');
        let target = target.rsplit_once('(').map_or(target, |(_, argument)| argument);
        macros.insert(format!("cu{name}"), target.to_owned());
    }
    let mut declared = 0;
    for rest in header.split("CUDAAPI ").skip(1) {
        let name: &str =
            rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        if !name.starts_with("cu") || !rest[name.len()..].starts_with('(') {
            continue;
        }
        declared += 1;
        if !found(name) && !macros.get(name).is_some_and(|target| found(target)) {
            return Err(
                format!("{name} is declared in the header, but bindgen did not see it").into()
            );
        }
    }
    if declared < merged.functions.len() / 2 {
        return Err("the header declares its functions in another way than it used to".into());
    }
    Ok(())
}

/// Drops types that only the internal reading declares and that none of `functions` reaches
/// (the structs of the 32-bit ABI before CUDA 3.2).
pub(crate) fn prune(
    items: Vec<Item>,
    current: &Parsed,
    functions: Vec<syn::ForeignItemFn>,
) -> Vec<Item> {
    let public: HashSet<&Item> = current.items.iter().collect();
    let (mut kept, mut rest): (Vec<_>, Vec<_>) =
        items.into_iter().enumerate().partition(|(_, item)| public.contains(item));
    let mut used = Names::default();
    for mut function in functions {
        used.visit_foreign_item_fn_mut(&mut function);
    }
    loop {
        let (reached, unreached): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|(_, item)| subject(item).is_some_and(|name| used.0.contains(&name)));
        rest = unreached;
        if reached.is_empty() {
            break;
        }
        for (index, mut item) in reached {
            used.visit_item_mut(&mut item);
            kept.push((index, item));
        }
    }
    kept.sort_by_key(|(index, _)| *index);
    kept.into_iter().map(|(_, item)| item).collect()
}

/// The name of an item: the name that it defines, or the type whose layout it asserts.
pub(crate) fn subject(item: &Item) -> Option<String> {
    match item {
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Union(item) => Some(item.ident.to_string()),
        Item::Type(item) => Some(item.ident.to_string()),
        Item::Impl(item) => Some(item.self_ty.to_token_stream().to_string()),
        // `const _: () = { ["Size of X"][size_of::<X>() - 4]; … }`
        Item::Const(item) => {
            let text = item.expr.to_token_stream().to_string();
            let rest = text.split_once("\"Size of ")?.1;
            Some(rest.split_once('"')?.0.to_owned())
        }
        _ => None,
    }
}

/// Every identifier met.
#[derive(Default)]
struct Names(HashSet<String>);

impl VisitMut for Names {
    fn visit_ident_mut(&mut self, ident: &mut syn::Ident) {
        self.0.insert(ident.to_string());
        visit_mut::visit_ident_mut(self, ident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of bindgen for `functions` and `items`.
    fn parsed(functions: &[&str], items: &[&str]) -> Result<Parsed, Failure> {
        let mut parsed = Parsed { functions: BTreeMap::new(), items: Vec::new() };
        for text in functions {
            let function: syn::ForeignItemFn = syn::parse_str(text)?;
            parsed.functions.insert(function.sig.ident.to_string(), function);
        }
        for text in items {
            parsed.items.push(syn::parse_str(text)?);
        }
        Ok(parsed)
    }

    const NEW: &str = "fn cuFree_v2(at: u64) -> CUresult;";
    const OLD: &str = "fn cuFree(at: u32) -> CUresult;";

    #[test]
    fn both_readings_give_their_names() -> Result<(), Failure> {
        let current = parsed(&[NEW], &[])?;
        let internal = parsed(&["fn cuFree_v2(other: u64) -> CUresult;", OLD], &[])?;
        let merged = merge(&current, &internal)?;
        let names: Vec<_> = merged.functions.keys().map(String::as_str).collect();
        assert_eq!(names, ["cuFree", "cuFree_v2"], "names of parameters do not count");
        Ok(())
    }

    #[test]
    fn two_signatures_under_one_name_stop_it() -> Result<(), Failure> {
        let current = parsed(&[NEW], &[])?;
        let internal = parsed(&["fn cuFree_v2(at: u32) -> CUresult;"], &[])?;
        let error = merge(&current, &internal).err().ok_or("the types differ")?;
        assert!(error.to_string().contains("cuFree_v2"), "{error}");
        Ok(())
    }

    #[test]
    fn per_thread_names_need_a_plain_one() -> Result<(), Failure> {
        let thread = "fn cuFree_v2_ptsz(at: u64) -> CUresult;";
        let with = merge(&parsed(&[NEW], &[])?, &parsed(&[thread], &[])?)?;
        assert_eq!(with.per_thread, ["cuFree_v2_ptsz"]);
        assert!(merge(&parsed(&[], &[])?, &parsed(&[thread], &[])?).is_err());
        Ok(())
    }

    #[test]
    fn a_layout_that_depends_on_the_reading_stops_it() -> Result<(), Failure> {
        let current = parsed(&[], &["pub struct A { a: u32 }"])?;
        assert!(merge(&current, &parsed(&[], &["pub struct A { a: u64 }"])?).is_err());
        Ok(())
    }

    #[test]
    fn a_function_that_bindgen_missed_stops_it() -> Result<(), Failure> {
        let merged = merge(&parsed(&[NEW], &[])?, &parsed(&[], &[])?)?;
        let header = "#define cuFree  PTSZ(cuFree_v2)\nCUresult CUDAAPI cuFree(int);\n";
        complete(header, &merged)?;
        let header = format!("{header}CUresult CUDAAPI cuLost(void);");
        let error = complete(&header, &merged).err().ok_or("cuLost is not there")?;
        assert!(error.to_string().contains("cuLost"), "{error}");
        Ok(())
    }

    #[test]
    fn types_that_only_old_functions_use_are_dropped() -> Result<(), Failure> {
        let current = parsed(&[], &["pub struct Both { a: u32 }"])?;
        let internal = [
            "pub struct Both { a: u32 }",
            "pub struct Inner { a: u32 }",
            "pub struct Kept { inner: Inner }",
            "pub struct Narrow { a: u32 }",
        ];
        let internal = parsed(&["fn cuUse(at: *const Kept);"], &internal)?;
        let functions = internal.functions.values().cloned().collect();
        let kept = prune(internal.items, &current, functions);
        let names: Vec<_> = kept.iter().filter_map(subject).collect();
        assert_eq!(names, ["Both", "Inner", "Kept"]);
        Ok(())
    }
}
