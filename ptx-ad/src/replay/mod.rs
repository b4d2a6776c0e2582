//! Results of atomic operations that the kernel stores for its adjoint.
//!
//! An adjoint can't repeat an atomic operation: the result depends on the order of the threads. If the kernel stores
//! the result in a buffer that is declared as `replay`, the adjoint loads it from there, as it is after the launch. The
//! load takes the place of the operation, so the address of the store is computed before it.
//!
//! A kernel may use the result of an atomic operation to wait for other threads and read what they have written. The
//! adjoint can't: see [`check`].

mod search;

use std::collections::{HashMap, HashSet};

use ptx::ir::{Instr, Module, Op, Operand, RegId};

use crate::analysis::{Access, Analysis, Origin, Slot, is_global};
use crate::body::Body;
use crate::refusal::{Reason, Refusal};
use crate::spec::Spec;
use search::Search;

/// The replaced atomic operations.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Whether each pointer leads to a replay buffer.
    pub(crate) buffers: Vec<bool>,
    /// The atomic operations before the replacement.
    atoms: Vec<Instr>,
}

impl Replay {
    /// Returns whether there are replay buffers.
    pub(crate) fn is_used(&self) -> bool {
        self.buffers.contains(&true)
    }
}

/// Replaces the results of atomic operations by loads from replay buffers, and removes the stores to those.
///
/// # Errors
/// A replay buffer is not used as such, or a result can't be loaded at the place of its operation.
pub(crate) fn replace(
    module: &Module,
    spec: &Spec,
    body: &mut Body,
    analysis: &Analysis,
) -> Result<Replay, Vec<Refusal>> {
    let of = |index: usize| spec.params.get(index);
    let is_replay = |info: &crate::analysis::PointerInfo| {
        of(info.param).is_some_and(|param| param.replay.contains(&info.spec.offset))
    };
    let buffers: Vec<bool> = analysis.pointers.iter().map(is_replay).collect();
    let mut found = declared(spec);
    if found.is_empty() && !buffers.contains(&true) {
        return Ok(Replay::default());
    }
    let mut search = Search::new(module, body, analysis, &buffers);
    let sites = search.sites();
    let mut loads: HashMap<(usize, usize), Vec<Instr>> = HashMap::new();
    let (mut atoms, mut fresh) = (Vec::new(), Vec::new());
    let mut recorded = HashSet::new();
    for atom in search.atoms() {
        let Some(site) = search.site_of(&atom, &sites) else { continue };
        recorded.insert(site.pointer);
        if let Some(code) = search.load(&atom, &site, &sites, &mut fresh) {
            loads.insert((atom.block, atom.at), code);
            atoms.extend(search.instr(atom.block, atom.at).cloned());
        }
    }
    found.extend(search.found);
    // After another error the unused buffers are no news.
    let known = !found.is_empty();
    let unused = |&(index, is): &(usize, &bool)| *is && !known && !recorded.contains(&index);
    for (index, _) in buffers.iter().enumerate().filter(unused) {
        let name = analysis.pointers.get(index).and_then(|info| of(info.param));
        let name = name.map_or("", |param| &*param.name);
        let text = format!("no result of an atomic operation is stored in `{name}`");
        let instr = sites.iter().find(|site| site.pointer == index);
        let instr = instr.and_then(|site| body.blocks.get(site.block)?.code.get(site.at));
        let refusal = Refusal::new(Reason::Parameter, text);
        found.push(match instr {
            Some(instr) => refusal.at(module, &body.function, instr),
            None => refusal,
        });
    }
    if !found.is_empty() {
        return Err(found);
    }
    body.function.registers.extend(fresh);
    let stores: HashSet<(usize, usize)> = sites.iter().map(|site| (site.block, site.at)).collect();
    for (index, block) in body.blocks.iter_mut().enumerate() {
        let code = std::mem::take(&mut block.code);
        for (at, mut instr) in code.into_iter().enumerate() {
            if stores.contains(&(index, at)) {
                continue;
            }
            if let Some(load) = loads.remove(&(index, at)) {
                block.code.extend(load);
                if let Op::Atom { d, .. } = &mut instr.op {
                    *d = Box::default();
                }
            }
            block.code.push(instr);
        }
    }
    body.index();
    Ok(Replay { buffers, atoms })
}

/// Checks the declarations of replay buffers.
fn declared(spec: &Spec) -> Vec<Refusal> {
    let mut found = Vec::new();
    for param in &spec.params {
        for offset in &param.replay {
            let pointer = param.pointers.iter().find(|pointer| pointer.offset == *offset);
            let text = match pointer {
                Some(pointer) if pointer.active => {
                    format!("`{}` is active: a replay buffer holds no numbers", param.name)
                }
                Some(_) => continue,
                None => format!("`{}` has no pointer at offset {offset}", param.name),
            };
            found.push(Refusal::new(Reason::Parameter, text));
        }
    }
    found
}

/// Checks a kernel whose atomic operations were replaced, and returns the reasons against it and the pairs of pointers
/// that must not lead to the same memory.
///
/// The results are constants, so no value with a gradient may go into them. No thread may read memory that another one
/// writes: its adjoint would not find those values.
pub(crate) fn check(
    module: &Module,
    body: &Body,
    analysis: &Analysis,
    replay: &Replay,
) -> (Vec<Refusal>, Vec<(usize, usize)>) {
    let mut found: Vec<Refusal> = Vec::new();
    if !replay.is_used() {
        return (found, Vec::new());
    }
    let mut refuse = |reason: Reason, text: &str, instr: &Instr| {
        let refusal = Refusal::new(reason, text).at(module, &body.function, instr);
        if !found.contains(&refusal) {
            found.push(refusal);
        }
    };
    let origin = |instr: &Instr| {
        let access = Access::of(instr)?;
        Some(analysis.forms.address(body, access.address).origin)
    };
    let depends = |reg: RegId| {
        let activity = &analysis.activity;
        [Slot::low(reg), Slot::high(reg)]
            .into_iter()
            .any(|slot| activity.is_varied(slot) || activity.is_lost(slot))
    };
    for atom in &replay.atoms {
        let Op::Atom { ty, d, .. } = &atom.op else { continue };
        let is_number = |reg: RegId| {
            [Slot::low(reg), Slot::high(reg)]
                .into_iter()
                .any(|slot| analysis.kinds.get(slot).is_some())
        };
        let place = origin(atom);
        let is_active = matches!(place, Some(Origin::Pointer(pointer))
            if analysis.pointers.get(pointer).is_some_and(|info| info.slot.is_some()));
        if ty.is_float() || is_active || d.iter().flatten().any(|reg| is_number(*reg)) {
            let text = "the result of an atomic operation is a number, whose gradient a replay buffer does not have";
            refuse(Reason::AtomicResult, text, atom);
            continue;
        }
        let bits = body.instrs().map(|(_, instr)| instr).find(|instr| {
            let same = !matches!(instr.op, Op::Ld { .. }) && origin(instr) == place;
            // The third operand of `cas` is not among the values of an access.
            let third = match &instr.op {
                Op::Atom { c: Some(Operand::Reg(reg)), .. } => depends(*reg),
                _ => false,
            };
            let values = Access::of(instr);
            same && (third || values.is_some_and(|access| access.registers().any(depends)))
        });
        if let Some(instr) = bits {
            let text = "the result of an atomic operation depends on active inputs";
            refuse(Reason::AtomicResult, text, instr);
        }
    }
    let written = |pointer: usize| {
        let buffer = replay.buffers.get(pointer) == Some(&true);
        buffer || analysis.effects.get(pointer).is_some_and(|used| used.stored || used.added)
    };
    for (_, instr) in body.instrs() {
        let Op::Ld { access, .. } = &instr.op else { continue };
        let Some(origin) = origin(instr).filter(|_| is_global(access.space)) else { continue };
        let others = |pointer: usize| {
            let buffer = replay.buffers.get(pointer) == Some(&true);
            !buffer && written(pointer) && analysis.thread_owned.get(pointer).is_none()
        };
        let of_others = match origin {
            Origin::Pointer(pointer) => others(pointer),
            Origin::Choice(_) => {
                analysis.forms.pointers(origin).iter().any(|pointer| others(*pointer))
            }
            Origin::Unknown | Origin::Number => true,
            _ => false,
        };
        if of_others {
            let text = "memory is loaded that other threads may have written before: an atomic operation whose result is \
                        replayed may say so";
            refuse(Reason::LoadAfterStore, text, instr);
        }
    }
    let count = analysis.pointers.iter().count();
    let loaded = |pointer: usize| {
        let buffer = replay.buffers.get(pointer) == Some(&true);
        buffer || analysis.effects.get(pointer).is_some_and(|used| used.loaded)
    };
    let pairs = (0..count).filter(|&one| loaded(one)).flat_map(|one| {
        (0..count)
            .filter(move |&other| other != one && written(other))
            .map(move |other| (one, other))
    });
    let pairs = pairs.collect();
    (found, pairs)
}
