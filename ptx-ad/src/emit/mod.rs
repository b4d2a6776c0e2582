//! Writes the adjoint: the kernel again without its effects, then the reverse of its blocks from the last to the first.
//!
//! Values keep their registers, since each is defined once in a turn of its loop. Blocks that not every turn comes to leave
//! a predicate behind, by which their reverse is passed over. The reverse of a loop goes back turn by turn: it restores
//! what the turn began with, repeats it, and reverses it.

mod again;
mod batch;
mod builder;
mod dead;
mod early;
mod forward;
mod frame;
mod gather;
mod half;
mod local;
mod log;
mod memory;
mod own;
mod plan;
mod reverse;
mod rules;
mod stack;
mod sums;
mod thread;

use std::collections::{HashMap, HashSet};

use ptx::ir::{Base, Function, FunctionId, Pred, RegId, Type, VarId};

use crate::analysis::{Analysis, GradientSlot, Origin, Slot};
use crate::body::Body;
use crate::spec::{Effect, Real};
use again::Again;
use batch::Batch;
use builder::{Builder, Link};
use gather::Rows;
use log::Log;
use memory::Taken;
use own::{OwnSums, Pieces};
use plan::Plan;
use reverse::Open;
use stack::Stack;

pub(crate) use early::early;
pub(crate) use frame::{drops, stores_once};
pub(crate) use log::with_log;
pub(crate) use thread::shorten;

/// What is needed to write an adjoint.
#[derive(Debug)]
struct Emit<'a> {
    body: &'a Body,
    analysis: &'a Analysis,
    plan: &'a Plan,
    b: Builder,
    /// How many loops the copy that is written is repeated in.
    level: usize,
    /// The predicate of each block that a turn came to it, and whether the block sets it; `None` if every turn does.
    came: Vec<Option<(Pred, bool)>>,
    /// The registers of values in other copies than their own.
    versions: HashMap<(RegId, usize), RegId>,
    /// The counters of turns.
    turns: HashMap<usize, RegId>,
    stack: Option<Stack>,
    /// The gradient of each slot; `None` while it is zero.
    gradients: Vec<Option<RegId>>,
    /// Slots whose gradients are made zero where the slot is defined: what comes before belongs to an earlier turn.
    closed: HashSet<Slot>,
    /// The block whose reverse is written.
    block: usize,
    /// The loops around it, the outermost first.
    open: Vec<Open>,
    /// Gradients to be made zero before that block's reverse is passed over.
    zeros: Vec<(RegId, Type)>,
    /// From values to gradients in bytes, and whether there are gradients, for each pointer.
    shadows: Vec<Option<(RegId, RegId)>>,
    /// For registers with one of several addresses: from the value to its gradient in bytes, and whether there is one.
    chosen: HashMap<RegId, (RegId, RegId)>,
    /// From variables of local memory to their gradients, in bytes, and their numbers in the adjoint.
    local_shadows: HashMap<VarId, (RegId, VarId)>,
    /// Whether gradients are added to, for each pointer of which the adjoint says that it covers it: else they are stored,
    /// or there are none.
    adds: Vec<Option<RegId>>,
    /// Whether gradients are cleared once they are taken, for each pointer for which the frame may say that they are not.
    clears: Vec<Option<RegId>>,
    /// The sums for numbers that were passed by value, by parameter and offset.
    scalars: HashMap<(usize, u64), RegId>,
    /// Addresses of gradients in the block, by what they are the gradients of and register.
    addresses: HashMap<(Origin, Base), RegId>,
    own: HashMap<usize, OwnSums>,
    /// What is added to elements of the thread at the end of the block.
    late: Vec<Pieces>,
    /// Gradients of the block whose addresses are the same in all threads of a warp.
    batches: Vec<Batch>,
    /// How many such gradients there are.
    batched: usize,
    /// Sums over the block of sums over warps.
    rows: Rows,
    /// What is loaded again.
    again: Again,
    /// What the stores of the block take, by their positions, where that was loaded first.
    taken: HashMap<usize, Vec<Taken>>,
    /// Where shared sums go on a deterministic tape.
    log: Option<Log>,
    /// How many numbers a thread adds to gradients to which others may add, by the number of loops around.
    added: Vec<u64>,
    /// Pairs of pointers whose gradients are loaded in another order than the kernel stores: they must not lead to the same
    /// memory.
    apart: Vec<(usize, usize)>,
}

/// An adjoint, and what is known of it.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) function: Function,
    /// Pairs of pointers that it takes to lead to different memory.
    pub(crate) apart: Vec<(usize, usize)>,
    /// For each loop that keeps something, its region and how many words it keeps for each turn.
    pub(crate) kept: Vec<(usize, u32)>,
    /// Whether it takes scratch memory.
    pub(crate) scratch: bool,
    /// How many numbers a thread adds to gradients to which others may add, by the number of loops around.
    pub(crate) added: Vec<u64>,
}

/// Writes the adjoint of a kernel; with a log, that for deterministic tapes.
pub(crate) fn adjoint(
    body: &Body,
    analysis: &Analysis,
    private: &[bool],
    name: &str,
    log: Option<FunctionId>,
) -> Written {
    let mut plan = Plan::new(body, analysis, private);
    let mut once = write(body, analysis, &plan, name, log);
    plan.needs(once.links);
    if body.regions.len() > 1 || private.contains(&true) {
        // Now without what nobody reads.
        once = write(body, analysis, &plan, name, log);
    }
    let Once { function, apart, added, .. } = once;
    let kept = (1..body.regions.len()).map(|region| (region, plan.words(body, region)));
    let kept = kept.filter(|(_, words)| *words > 0).collect();
    Written { function, apart, kept, scratch: plan.has_stack(), added }
}

/// Adjoints that sum more gradients of uniform addresses than this hold as many values from the kernel's loads to their
/// reverse: 255 registers, so one block of 256 threads on a multiprocessor, which waits most of the time.
const MANY_BATCHED: usize = 64;
/// With so many there is room for two.
const FEW_REGISTERS: u32 = 128;
/// Adjoints with loops wait for what they have kept and for their neighbours' gradients, so more threads are worth more than
/// registers. Measured on an H200, bench/NOTES.md. Gradients of 64 bits would be spilled.
const FEW_REGISTERS_OF_LOOPS: u32 = 80;

/// Returns how many registers a thread may have, if that is limited.
fn most_registers(
    function: &Function,
    body: &Body,
    analysis: &Analysis,
    batched: usize,
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
        (false, _) => (batched > MANY_BATCHED).then_some(FEW_REGISTERS),
    }
}

/// Returns whether some gradient is of doubles.
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

/// An adjoint, what is read in it, the pointers that it takes to be apart, and how many numbers go to shared sums.
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
    let pointers = analysis.pointers.iter().count();
    let (function, frame) = frame::head(body, analysis, name);
    let mut emit = Emit {
        body,
        analysis,
        plan,
        b: Builder::new(function),
        level: 0,
        came: Vec::new(),
        versions: HashMap::new(),
        turns: HashMap::new(),
        stack: None,
        gradients: vec![None; slots],
        closed: HashSet::new(),
        block: 0,
        open: Vec::new(),
        zeros: Vec::new(),
        shadows: vec![None; pointers],
        chosen: HashMap::new(),
        local_shadows: HashMap::new(),
        adds: vec![None; pointers],
        clears: vec![None; pointers],
        scalars: HashMap::new(),
        addresses: HashMap::new(),
        own: HashMap::new(),
        late: Vec::new(),
        batches: Vec::new(),
        batched: 0,
        rows: Rows::default(),
        again: again::find(body, analysis, plan),
        taken: HashMap::new(),
        log: None,
        added: vec![0; body.regions.iter().map(|region| region.depth + 1).max().unwrap_or(1)],
        apart: Vec::new(),
    };
    emit.came = emit.predicates();
    let end = emit.begin(&frame);
    log.into_iter().for_each(|log| emit.log_begin(log, &frame));
    emit.forward(0, None, &frame);
    emit.stack_check(end);
    emit.locals_begin(&frame);
    emit.reverse_region(0, &frame);
    emit.stack_finish();
    emit.b.place(end);
    emit.finish(&frame);
    emit.rows_begin();
    let Builder { mut function, code, .. } = emit.b;
    let links = dead::remove(&mut function, code);
    if let Some(most) = most_registers(&function, body, analysis, emit.batched) {
        function.directives.maxnreg = Some(most);
    }
    Once { function, links, apart: emit.apart, added: emit.added }
}

impl Emit<'_> {
    /// Returns whether the adjoint writes the gradient of each element below the length.
    fn covers(&self, pointer: usize) -> bool {
        covers(self.analysis, pointer)
    }
}

/// Returns whether the adjoint adds to the gradient of each element below the length, or the kernel overwrites each.
pub(crate) fn covers(analysis: &Analysis, pointer: usize) -> bool {
    let Some(own) = analysis.own.get(pointer) else { return false };
    let effect = analysis.used.get(pointer).map(|used| used.effect());
    let info = analysis.pointers.get(pointer);
    match effect {
        // Parts of the element that are not loaded get zeros, number by number, so its size is a multiple of a number's.
        Some(Effect::Reads) => {
            let step =
                info.and_then(|info| info.spec.reals).map_or(4, |reals| reals.real().bytes());
            own.everywhere && own.stride.is_multiple_of(step)
        }
        Some(Effect::Overwrites) => own.everywhere && own.is_whole(),
        _ => false,
    }
}
