//! The functions that kernels reach by calls, and what those need.

use std::collections::HashSet;

use super::check::MOST_LOCAL;
use super::variables::SharedVariable;
use crate::exec::config::SHARED_RESERVED;
use crate::exec::control::call::CALL_BYTES;
use crate::exec::decode::Code;

/// The needs of all functions that a kernel reaches.
#[derive(Debug)]
pub(super) struct Reach {
    /// The offset of each shared variable of the program.
    pub(super) shared: Vec<u32>,
    /// Bytes of static shared memory.
    pub(super) static_shared: u32,
    pub(super) dynamic_start: u32,
    /// Bytes of shared memory for the system that its functions can find.
    pub(super) reserved_shared: u32,
    pub(super) reads_workspace: bool,
    /// Local memory of all functions that it reaches.
    pub(super) local_bytes: u32,
    /// Whether it needs a stack.
    pub(super) calls: bool,
}

impl Reach {
    /// Finds the functions that the kernel `entry` reaches. `pointed` are the functions that indirect calls may call.
    pub(super) fn new(
        entry: u32,
        codes: &[Code],
        pointed: &[u32],
        variables: &[SharedVariable],
    ) -> Self {
        let reached = reached(entry, codes, pointed);
        let code = |f: &u32| codes.get(*f as usize);
        let reads = |what: fn(&Code) -> bool| reached.iter().filter_map(code).any(what);
        let reserved_shared = if reads(|c| c.reads_reserved) { SHARED_RESERVED } else { 0 };
        let reads_workspace = reads(|c| c.reads_workspace);
        let named = reached.iter().filter_map(code).flat_map(|code| code.shared.iter().copied());
        let mut named: Vec<u32> = named.collect();
        named.sort_unstable();
        named.dedup();
        let (shared, static_shared, dynamic_start) =
            place_shared(&named, variables, reserved_shared);
        let calls = reached.len() > 1;
        let own = codes.get(entry as usize);
        let local_bytes = if calls {
            reached.iter().filter_map(code).fold(0u32, |sum, c| {
                let own = c.local_bytes.next_multiple_of(16) + c.local_align + CALL_BYTES;
                sum.saturating_add(own)
            })
        } else {
            own.map_or(0, |own| own.local_bytes.min(MOST_LOCAL).next_multiple_of(16))
        };
        let calls = calls || own.is_some_and(|own| own.uses_stack);
        Self {
            shared,
            static_shared,
            dynamic_start,
            reserved_shared,
            reads_workspace,
            local_bytes,
            calls,
        }
    }
}

/// Returns the functions that a kernel may call, itself first.
fn reached(entry: u32, codes: &[Code], pointed: &[u32]) -> Vec<u32> {
    let mut reached = vec![entry];
    let mut seen = HashSet::from([entry]);
    let mut at = 0;
    let mut indirect = false;
    while let Some(&function) = reached.get(at) {
        at += 1;
        let Some(code) = codes.get(function as usize) else { continue };
        reached.extend(code.callees.iter().filter(|callee| seen.insert(**callee)));
        if code.indirect && !std::mem::replace(&mut indirect, true) {
            reached.extend(pointed.iter().filter(|callee| seen.insert(**callee)));
        }
    }
    reached
}

/// Returns for each function the nearest one that it reaches and that is refused, if there is one. Time is in
/// proportion to the calls of the text.
pub(super) fn refusals(codes: &[Code], pointed: &[u32]) -> Vec<Option<u32>> {
    // The last node stands for all indirect calls.
    let any = codes.len();
    let mut callers: Vec<Vec<u32>> = vec![Vec::new(); any + 1];
    let mut call = |from: usize, to: usize| {
        if let Some(callers) = callers.get_mut(to) {
            callers.push(from as u32);
        }
    };
    for (at, code) in codes.iter().enumerate() {
        code.callees.iter().for_each(|&callee| call(at, callee as usize));
        if code.indirect {
            call(at, any);
        }
    }
    pointed.iter().for_each(|&function| call(any, function as usize));
    let mut refusals = vec![None; any + 1];
    let mut next = Vec::new();
    for (at, code) in codes.iter().enumerate() {
        if code.refused.is_some() || code.insts.is_empty() {
            refusals[at] = Some(at as u32);
            next.push(at as u32);
        }
    }
    let mut at = 0;
    while let Some(&function) = next.get(at) {
        at += 1;
        let why = refusals[function as usize];
        for &caller in &callers[function as usize] {
            if refusals[caller as usize].is_none() {
                refusals[caller as usize] = why;
                next.push(caller);
            }
        }
    }
    refusals
}

/// Returns the next multiple of `align`. If that overflows, the result is larger than all shared memory, so that the
/// launch is refused.
fn above(end: u32, align: u32) -> u32 {
    end.checked_next_multiple_of(align.max(1)).unwrap_or(u32::MAX)
}

/// Lays out the shared variables `named`, after the bytes `reserved` for the system: the offset of each, the bytes of
/// the static ones, and where dynamic shared memory begins.
fn place_shared(
    named: &[u32],
    variables: &[SharedVariable],
    reserved: u32,
) -> (Vec<u32>, u32, u32) {
    let mut offsets = vec![0; variables.len()];
    let mut end = reserved;
    for &number in named {
        let Some(variable) = variables.get(number as usize).filter(|v| !v.dynamic) else {
            continue;
        };
        let start = above(end, variable.align);
        offsets[number as usize] = start;
        end = start.saturating_add(variable.bytes);
    }
    let dynamic = |number: &&u32| variables.get(**number as usize).is_some_and(|v| v.dynamic);
    let align = named
        .iter()
        .filter(dynamic)
        .filter_map(|&number| variables.get(number as usize))
        .map(|v| v.align)
        .fold(1, u32::max);
    let start = above(end, align);
    for &number in named.iter().filter(dynamic) {
        offsets[number as usize] = start;
    }
    (offsets, end - reserved, start)
}
