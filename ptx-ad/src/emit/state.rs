//! The state of an adjoint that is being written, by idea. [`Emit`](super::Emit) has one of each.

use std::collections::{HashMap, HashSet};

use ptx::ir::{Base, Pred, RegId, Type, VarId};

use super::barriers::Common;
use super::block_sums::Rows;
use super::log::Log;
use super::memory::Taken;
use super::reload::Reloads;
use super::thread_owned::{OwnedSums, Pieces};
use super::warp_sums::WarpSums;
use crate::analysis::{Origin, Slot};

/// The copies of the kernel's code: the first is the kernel itself, the others repeat iterations of a loop.
#[derive(Debug)]
pub(super) struct Replay {
    /// The depth of the loop whose copy is written; 0 for the kernel.
    pub(super) level: usize,
    /// For each block, the predicate "executed in this iteration", and whether the block sets it; `None` if it always
    /// is.
    pub(super) executed: Vec<Option<(Pred, bool)>>,
    /// Registers of values in copies other than that of their own loop, by value and level.
    pub(super) versions: HashMap<(RegId, usize), RegId>,
    /// The iteration counter of each loop.
    pub(super) iterations: HashMap<usize, RegId>,
    /// What the threads of a block have in common, if they need each other.
    pub(super) common: Option<Common>,
    /// How often others came to a barrier after the thread had left, if some may leave before.
    pub(super) rounds: Option<RegId>,
    /// Loads that the reverse repeats.
    pub(super) reloads: Reloads,
}

/// The block whose reverse is written.
#[derive(Debug, Default)]
pub(super) struct BlockState {
    pub(super) index: usize,
    /// Gradients to be made zero before the jump over the reverse.
    pub(super) zeros: Vec<(RegId, Type)>,
    /// Addresses of gradients, by the memory and the register that the value's address is in.
    pub(super) addresses: HashMap<(Origin, Base), RegId>,
    /// Gradients that the reverse of a store takes, by the store's position, if they were loaded first.
    pub(super) taken: HashMap<usize, Vec<Taken>>,
    /// Sums that are added to the thread's elements at the end of the reverse.
    pub(super) late: Vec<Pieces>,
    /// Gradients that all threads of a warp add to the same addresses.
    pub(super) warp_sums: Vec<WarpSums>,
}

/// The gradients in registers.
#[derive(Debug)]
pub(super) struct Gradients {
    /// The register of each slot's gradient; `None` while it is zero.
    pub(super) registers: Vec<Option<RegId>>,
    /// Slots that leave their loop: the gradient is made zero at the definition, so that earlier iterations don't add
    /// it.
    pub(super) per_iteration: HashSet<Slot>,
}

/// Where the gradients of memory lie.
#[derive(Debug)]
pub(super) struct Shadows {
    /// For each pointer: the distance from values to gradients in bytes, and whether there are gradients.
    pub(super) pointers: Vec<Option<(RegId, RegId)>>,
    /// The same for registers that hold one of several addresses.
    pub(super) chosen: HashMap<RegId, (RegId, RegId)>,
    /// The distance from a variable of local memory to its gradients, and the variable's number in the adjoint.
    pub(super) locals: HashMap<VarId, (RegId, VarId)>,
    /// The variable's number in the adjoint, and the distance from a variable of shared memory to its gradients.
    pub(super) shared: HashMap<VarId, (VarId, i64)>,
    /// For each pointer whose gradients the adjoint covers: whether it adds to them. If not, it stores them, or there
    /// are none.
    pub(super) adds: Vec<Option<RegId>>,
    /// For each pointer whose gradients the frame may drop: whether the reverse of a store clears them.
    pub(super) clears: Vec<Option<RegId>>,
    /// Pairs of pointers whose gradients are loaded in another order than the kernel stores: they must not lead to the
    /// same memory.
    pub(super) apart: Vec<(usize, usize)>,
}

/// Sums over iterations, warps, blocks and launches.
#[derive(Debug)]
pub(super) struct Sums {
    /// The sums for numbers that were passed by value, by parameter and offset.
    pub(super) scalars: HashMap<(usize, u64), RegId>,
    /// The sums for elements that belong to the thread, by pointer.
    pub(super) thread_owned: HashMap<usize, OwnedSums>,
    /// Sums over warps that the block adds at the end.
    pub(super) rows: Rows,
    /// How many gradients were summed over warps.
    pub(super) warp_summed: usize,
    /// The log of a deterministic tape.
    pub(super) log: Option<Log>,
    /// How many numbers a thread adds to gradients to which others may add, by the number of loops around.
    pub(super) added: Vec<u64>,
}

impl Shadows {
    pub(super) fn new(pointers: usize) -> Self {
        Self {
            pointers: vec![None; pointers],
            chosen: HashMap::new(),
            locals: HashMap::new(),
            shared: HashMap::new(),
            adds: vec![None; pointers],
            clears: vec![None; pointers],
            apart: Vec::new(),
        }
    }
}

impl Sums {
    pub(super) fn new(depths: usize) -> Self {
        Self {
            scalars: HashMap::new(),
            thread_owned: HashMap::new(),
            rows: Rows::default(),
            warp_summed: 0,
            log: None,
            added: vec![0; depths],
        }
    }
}
