//! Values that blocks pass on in their order.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::target::{Dim, Dims};
use super::{Block, Element, THREAD};
use crate::cpu::raise::Raised;

/// The blocks of a group, whose values are combined for the blocks after it.
const GROUP: usize = 32;

/// The bytes of the largest value.
pub(crate) const LARGEST: usize = 16;

thread_local! {
    /// The order of the blocks that this thread runs.
    static ORDER: RefCell<Option<Arc<Order>>> = const { RefCell::new(None) };
    /// How many values the block that runs has passed on.
    static PASSED: Cell<usize> = const { Cell::new(0) };
}

/// What the blocks of a launch pass on. They begin in their order, so a block waits only for those that run or have
/// ended.
pub(crate) struct Order {
    carries: Box<[Carry]>,
    /// The lowest block that has failed: blocks after it leave.
    failed: AtomicUsize,
}

struct Carry {
    /// The block whose turn it is.
    turn: AtomicUsize,
    /// The values of blocks before it: a [`Totals`].
    totals: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The values of the groups that are not whole yet, at each level: those of blocks, of groups of blocks, and so on.
struct Totals<T>(Vec<Vec<T>>);

impl Order {
    pub(super) fn new(carries: usize) -> Self {
        let carry = || Carry { turn: AtomicUsize::new(0), totals: Mutex::new(None) };
        Self {
            carries: (0..carries).map(|_| carry()).collect(),
            failed: AtomicUsize::new(usize::MAX),
        }
    }

    /// Lets the blocks after this one leave where they wait.
    pub(crate) fn fail(&self, block: usize) {
        self.failed.fetch_min(block, Ordering::Relaxed);
    }

    /// Calls `f` for a block on this thread.
    #[inline(always)]
    pub(super) fn run(self: &Arc<Self>, f: impl FnOnce()) {
        let _end = End;
        ORDER.set(Some(self.clone()));
        PASSED.set(0);
        f();
        if PASSED.get() < self.carries.len() {
            Raised::Refused("a block ends before it passes its values on".to_owned()).throw();
        }
    }

    /// Waits until all blocks before this one have passed their values on.
    fn wait(&self, carry: &Carry, block: usize) {
        let mut waited = 0u32;
        while carry.turn.load(Ordering::Acquire) != block {
            if self.failed.load(Ordering::Relaxed) < block {
                std::panic::resume_unwind(Box::new(Left));
            }
            waited = waited.wrapping_add(1);
            if waited.is_multiple_of(64) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// The payload with which a block unwinds that waits for one that has failed.
pub(crate) struct Left;

/// The end of a block on this thread, also by unwinding.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        ORDER.set(None);
    }
}

impl<T: Copy> Totals<T> {
    /// Adds the value of a block, and returns the combination of those before. The order of operations is that of
    /// devices.
    #[inline(always)]
    fn pass(&mut self, own: T, first: T, last: bool, op: impl Fn(T, T) -> T) -> T {
        let mut before = None;
        // The value of the block, or of a group that ends with it, if later blocks need it.
        let mut whole = (!last).then_some(own);
        for group in &mut self.0 {
            let sum = (!group.is_empty()).then(|| combined(group, &op));
            before = match (sum, before) {
                (Some(sum), Some(before)) => Some(op(sum, before)),
                (sum, before) => sum.or(before),
            };
            if let Some(value) = whole.take() {
                group.push(value);
                if group.len() == GROUP {
                    group.clear();
                    whole = sum.map(|sum| op(sum, value));
                }
            }
        }
        self.0.extend(whole.map(|value| vec![value]));
        before.map_or(first, |before| op(first, before))
    }
}

/// Combines values, neighbours first, as the lanes of a warp do.
#[inline(always)]
fn combined<T: Copy>(values: &[T], op: impl Fn(T, T) -> T) -> T {
    let mut lanes: [T; GROUP] = std::array::from_fn(|lane| values[lane.min(values.len() - 1)]);
    for distance in [1, 2, 4, 8, 16] {
        for lane in (0..values.len().saturating_sub(distance)).step_by(2 * distance) {
            THREAD.set(lane);
            lanes[lane] = op(lanes[lane], lanes[lane + distance]);
        }
    }
    THREAD.set(0);
    lanes[0]
}

impl<const N: usize, const M: usize> Block<N, M>
where
    Dims<M>: Dim,
{
    /// Passes a value on to the blocks after this one, and returns the combination of `first` and of the values of all
    /// blocks before this one, in their order: `let before = block.carry(total, 0, |a, b| a + b);`.
    ///
    /// `op` is associative. How values are combined follows from the number of the block alone, so results have equal
    /// bits on all targets, also of floats, whose sums are not associative. A value has 16 bytes at most.
    ///
    /// In a kernel it is the value of a `let` that is a statement of its closure, before which no block returns.
    #[inline(always)]
    pub fn carry<T: Element, F: Fn(T, T) -> T + Sync>(&mut self, value: T, first: T, op: F) -> T {
        const {
            assert!(Self::WARPS > 0);
            assert!(
                T::STORED && size_of::<T>() <= LARGEST,
                "blocks pass on numbers, and structures of 16 bytes at most"
            );
        }
        let number = PASSED.replace(PASSED.get() + 1);
        let order = ORDER.with_borrow(Clone::clone);
        let carry = order.as_ref().and_then(|order| Some((order, order.carries.get(number)?)));
        let Some((order, carry)) = carry else {
            Raised::Refused("the blocks do not run in their order".to_owned()).throw();
        };
        order.wait(carry, self.index);
        let before = {
            let mut totals = carry.totals.lock().unwrap_or_else(PoisonError::into_inner);
            let totals = totals.get_or_insert_with(|| Box::new(Totals::<T>(Vec::new())));
            match totals.downcast_mut::<Totals<T>>() {
                Some(totals) => totals.pass(value, first, self.index + 1 == self.count, op),
                None => Raised::Refused("blocks pass on values of two types".to_owned()).throw(),
            }
        };
        carry.turn.store(self.index + 1, Ordering::Release);
        before
    }
}
