//! Writes the adjoint: a copy of the kernel without its effects, then the reverse of its blocks from the last to the
//! first.
//!
//! Values keep their registers, since each is defined once in an iteration of its loop. A block that some iterations
//! skip sets a predicate; its reverse is skipped if the predicate is false. The reverse of a loop goes from the last
//! iteration to the first: it restores the values that the iteration began with, repeats it, and reverses it.

mod barriers;
mod block_sums;
mod builder;
mod dead;
mod exchange;
mod f16;
mod forward;
mod frame;
mod hoist_loads;
mod local;
mod log;
mod memory;
mod plan;
mod reload;
mod reverse;
mod rules;
mod shared;
mod stack;
mod state;
mod sums;
mod thread;
mod thread_owned;
mod warp_sums;

use std::collections::{HashMap, HashSet};

use ptx::ir::{Function, FunctionId};

use crate::analysis::{Analysis, GradientSlot};
use crate::body::Body;
use crate::legal::Checked;
use crate::spec::{Effect, Real};
use builder::{Builder, Link};
use plan::Plan;
use reverse::Open;
use stack::Stack;
use state::{BlockState, Gradients, Replay, Shadows, Sums};

pub(crate) use frame::{drops, stores_once};
pub(crate) use hoist_loads::hoist_loads;
pub(crate) use log::with_log;
pub(crate) use shared::shared_bytes;
pub(crate) use thread::shorten;

/// The state of an adjoint that is being written.
#[derive(Debug)]
struct Emit<'a> {
    body: &'a Body,
    analysis: &'a Analysis,
    plan: &'a Plan,
    b: Builder,
    replay: Replay,
    stack: Option<Stack>,
    /// The loops around the block whose reverse is written, the outermost first.
    open: Vec<Open>,
    block: BlockState,
    gradients: Gradients,
    shadows: Shadows,
    sums: Sums,
}

/// A written adjoint.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) function: Function,
    /// Pairs of pointers that the adjoint assumes lead to different memory.
    pub(crate) apart: Vec<(usize, usize)>,
    /// Each loop that keeps values, by region, and the words of 32 bits that it keeps for each iteration.
    pub(crate) kept: Vec<(usize, u32)>,
    /// Whether the adjoint needs scratch memory.
    pub(crate) scratch: bool,
    /// The most numbers that a thread adds to shared gradients, by the number of loops around.
    pub(crate) added: Vec<u64>,
}

/// Writes the adjoint of a kernel; with a log, that for deterministic tapes.
pub(crate) fn adjoint(
    body: &Body,
    analysis: &Analysis,
    checked: &Checked,
    name: &str,
    log: Option<FunctionId>,
) -> Written {
    let mut plan = Plan::new(body, analysis, checked);
    let mut once = write(body, analysis, &plan, name, log);
    plan.needs(once.links);
    if body.regions.len() > 1 || checked.private.contains(&true) || checked.barriers.kept {
        // The second time, `plan` leaves out what the first adjoint does not read.
        once = write(body, analysis, &plan, name, log);
    }
    let Once { function, apart, added, .. } = once;
    let kept = (1..body.regions.len()).map(|region| (region, plan.words(body, region)));
    let kept = kept.filter(|(_, words)| *words > 0).collect();
    Written { function, apart, kept, scratch: plan.has_stack(), added }
}

/// The most gradients of uniform addresses without a limit of registers. With more, as many values live from the
/// kernel's loads to their reverse: 255 registers, so a multiprocessor has one block of 256 threads, which mostly
/// waits.
const MANY_WARP_SUMS: usize = 64;
/// Registers a thread, so that a multiprocessor has two such blocks.
const FEW_REGISTERS: u32 = 128;
/// Registers a thread of an adjoint with loops. It waits for kept values and for its neighbours' gradients, so more
/// threads are worth more than registers (measured on an H200: `bench/NOTES.md`). Gradients of 64 bits would spill.
const FEW_REGISTERS_OF_LOOPS: u32 = 80;

/// Returns the most registers for a thread, if there is a limit.
fn most_registers(
    function: &Function,
    body: &Body,
    analysis: &Analysis,
    warp_summed: usize,
) -> Option<u32> {
    let directives = &function.directives;
    let said = directives.maxntid.is_some()
        || directives.reqntid.is_some()
        || directives.minnctapersm.is_some()
        || directives.maxnreg.is_some();
    let loops = body.regions.len() > 1;
    match (said, loops) {
        (true, _) => None,
        (false, true) if !has_doubles(analysis) => Some(FEW_REGISTERS_OF_LOOPS),
        (false, _) => (warp_summed > MANY_WARP_SUMS).then_some(FEW_REGISTERS),
    }
}

/// Returns whether any gradient is of doubles.
fn has_doubles(analysis: &Analysis) -> bool {
    let pointers = &analysis.pointers;
    let in_memory = pointers.iter().filter(|pointer| pointer.slot.is_some());
    let mut in_memory = in_memory.filter_map(|pointer| pointer.spec.reals);
    in_memory.any(|reals| reals.real() == Real::F64)
        || analysis.slots.iter().any(|slot| match slot {
            GradientSlot::Partials(param) => {
                pointers.numbers_of(*param).any(|(_, real)| real == Real::F64)
            }
            GradientSlot::Pointer(_) | GradientSlot::Structure(_) => false,
        })
}

/// An adjoint before [`Written`], and the links that it loads.
struct Once {
    function: Function,
    links: HashSet<Link>,
    apart: Vec<(usize, usize)>,
    added: Vec<u64>,
}

fn write(
    body: &Body,
    analysis: &Analysis,
    plan: &Plan,
    name: &str,
    log: Option<FunctionId>,
) -> Once {
    let slots = body.function.registers.len() * 2;
    let (function, frame) = frame::head(body, analysis, name);
    let mut emit = Emit {
        body,
        analysis,
        plan,
        b: Builder::new(function),
        replay: Replay {
            level: 0,
            executed: Vec::new(),
            versions: HashMap::new(),
            iterations: HashMap::new(),
            common: None,
            rounds: None,
            reloads: reload::find(body, analysis, plan),
        },
        stack: None,
        open: Vec::new(),
        block: BlockState::default(),
        gradients: Gradients { registers: vec![None; slots], per_iteration: HashSet::new() },
        shadows: Shadows::new(analysis.pointers.iter().count()),
        sums: Sums::new(body.regions.iter().map(|region| region.depth + 1).max().unwrap_or(1)),
    };
    emit.replay.executed = emit.predicates();
    let end = emit.begin(&frame);
    log.into_iter().for_each(|log| emit.log_begin(log, &frame));
    emit.forward(0, None, &frame);
    emit.wait_for_others();
    emit.stack_check(end);
    emit.locals_begin(&frame);
    emit.pass_rounds();
    emit.reverse_region(0, &frame);
    emit.stack_finish();
    emit.b.place(end);
    emit.finish(&frame);
    emit.rows_begin();
    let Builder { mut function, code, .. } = emit.b;
    let links = dead::remove(&mut function, code);
    if let Some(most) = most_registers(&function, body, analysis, emit.sums.warp_summed) {
        function.directives.maxnreg = Some(most);
    }
    Once { function, links, apart: emit.shadows.apart, added: emit.sums.added }
}

impl Emit<'_> {
    /// Returns whether the adjoint writes the gradient of each element below the length.
    fn covers(&self, pointer: usize) -> bool {
        covers(self.analysis, pointer)
    }
}

/// Returns whether the adjoint adds to the gradient of each element below the length, or the kernel overwrites each.
pub(crate) fn covers(analysis: &Analysis, pointer: usize) -> bool {
    let Some(owned) = analysis.thread_owned.get(pointer) else { return false };
    let effect = analysis.effects.get(pointer).map(|used| used.effect());
    let info = analysis.pointers.get(pointer);
    match effect {
        // Members that are not loaded get zeros, number by number, so the size must be a multiple of a number's.
        Some(Effect::Reads) => {
            let step =
                info.and_then(|info| info.spec.reals).map_or(4, |reals| reals.real().bytes());
            owned.everywhere && owned.stride.is_multiple_of(step)
        }
        Some(Effect::Overwrites) => owned.everywhere && owned.is_whole(),
        _ => false,
    }
}
