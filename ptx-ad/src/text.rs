//! The text of an adjoint.

use std::collections::BTreeSet;

use ptx::ir::{Function, FunctionId, GlobalId, Item, Module};

/// Returns a text whose kernel is compiled for blocks of up to so many threads.
pub(crate) fn for_blocks_of(text: &str, kernel: &str, threads: u32) -> String {
    let head = format!(".entry {kernel}(");
    let body = text.find(&head).and_then(|entry| {
        let body = text.get(entry..)?.find("\n{")?;
        entry.checked_add(body)
    });
    match body.and_then(|at| text.split_at_checked(at)) {
        Some((before, after)) => {
            // `.maxntid` replaces a `.maxnreg`, which may allow too many registers for blocks of this size.
            let before = match before.rsplit_once('\n') {
                Some((head, last)) if last.starts_with(".maxnreg") => head,
                _ => before,
            };
            format!("{before}\n.maxntid {threads}, 1, 1{after}")
        }
        None => text.to_owned(),
    }
}

/// Returns the text of a module with this function, another that it calls, and the variables that it uses.
pub(crate) fn module(
    module: &Module,
    kept: &BTreeSet<GlobalId>,
    called: Option<FunctionId>,
    function: Function,
) -> String {
    let mut adjoint = module.clone();
    // `activemask` needs version 6.2.
    adjoint.version = adjoint.version.max((6, 2));
    for target in &mut adjoint.targets {
        // `red.relaxed` and `match` need sm_70.
        let number = target.strip_prefix("sm_").and_then(|number| number.parse::<u32>().ok());
        if number.is_some_and(|number| number < 70) {
            *target = "sm_70".to_owned();
        }
    }
    adjoint.items.retain(|item| match item {
        Item::Global(id) => kept.contains(id),
        Item::File(_) => true,
        _ => false,
    });
    adjoint.items.extend(called.map(Item::Function));
    let id = FunctionId(u32::try_from(adjoint.functions.len()).unwrap_or(u32::MAX));
    adjoint.functions.push(function);
    adjoint.aliases.clear();
    // The sections with the names of inlined functions are left out.
    for loc in adjoint.functions.last_mut().into_iter().flat_map(|function| &mut function.locs) {
        loc.inlined = None;
    }
    adjoint.items.push(Item::Function(id));
    adjoint.to_string()
}
