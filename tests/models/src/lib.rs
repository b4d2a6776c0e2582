//! The parts of `cuda-safe` where threads meet, run in thousands of orders of the threads' steps.
//!
//! The files are those that ship, included with types of `shuttle` in place of `std`'s. `build.rs`
//! makes mutants of them, with one mistake each; the tests show that the models find every one.
//! `shuttle` takes all atomic operations as sequentially consistent: the models say nothing of
//! weaker orderings.

#![allow(dead_code, reason = "the models use only a part of what they include")]
#![allow(missing_docs, reason = "the models are described where they are")]

mod sync;

mod crew_of_helpers;
mod deferred;
mod guards;
mod host_functions;
mod lent_streams;
mod tracker;
mod versions_of_writes;

pub use crew_of_helpers::*;
pub use deferred::*;
pub use guards::*;
pub use host_functions::*;
pub use lent_streams::*;
pub use tracker::*;
pub use versions_of_writes::*;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

#[path = "../../../cuda-safe/src/context/deferred_list.rs"]
mod deferred_list;
#[path = "../../../cuda-safe/src/memory/copy/helpers.rs"]
mod helpers;
#[path = "../../../cuda-safe/src/memory/host/host_borrow.rs"]
mod host_borrow;
#[path = "../../../cuda-safe/src/context/lent_slot.rs"]
mod lent_slot;
#[path = "../../../cuda-safe/src/quiet.rs"]
mod quiet;
#[path = "../../../cuda-safe/src/memory/order/ranges.rs"]
mod ranges;
#[path = "../../../cuda-safe/src/memory/order/shared.rs"]
mod shared;
#[path = "../../../cuda-safe/src/stream/slab.rs"]
mod slab;
#[path = "../../../cuda-safe/src/memory/order/versions.rs"]
mod versions;

macro_rules! mutants {
    ($($name:ident)*) => {$(
        #[allow(unused_mut, reason = "a mutant need not be tidy")]
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    )*};
}

mutants! {
    shared_counts_first
    slab_numbers_in_two_steps slab_calls_under_its_lock
    list_waits_first list_takes_in_two_steps
    slot_takes_in_two_steps slot_forgets_what_was_left
    helpers_leaves_early helpers_tells_nobody helpers_joins_late
    versions_note_as_work
}

mod host_borrow_in_two_steps {
    include!(concat!(env!("OUT_DIR"), "/host_borrow_in_two_steps.rs"));

    /// `AtomicUsize::fetch_update`, if it were not atomic.
    fn two_steps(
        value: &AtomicUsize,
        order: Ordering,
        update: impl Fn(usize) -> Option<usize>,
    ) -> Result<usize, usize> {
        let old = value.load(order);
        let new = update(old).ok_or(old)?;
        value.store(new, order);
        Ok(old)
    }
}

/// As `cuda_safe::Access`, which `host_borrow.rs` asks for.
mod memory {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Access {
        Read,
        Write,
    }
}

/// The same orders in every run.
const SEED: u64 = 20_260_101;

/// Runs a model in `orders` orders, and in as many where the scheduler prefers some threads and
/// changes its mind at a few points.
fn explore(orders: usize, model: impl Fn() + Send + Sync + Copy + 'static) {
    run(RandomScheduler::new_from_seed(SEED, orders), model);
    run(PctScheduler::new_from_seed(SEED, 3, orders), model);
}

fn run(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    // Panics need more than the small default, without optimisation.
    config.stack_size = 1 << 18;
    // That weaker orderings are taken as stronger ones is said above.
    config.silence_warnings = true;
    shuttle::Runner::new(scheduler, config).run(model);
}
