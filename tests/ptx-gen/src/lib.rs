//! Random PTX programs, each with one answer: a device that runs one wrong is wrong.
//!
//! A [`Program`] is drawn from a seed. Its instructions come from a [table](rows) of what the
//! software device supports, each row in at least [`TIMES`] of every thousand programs. Programs are
//! deterministic by construction: they end, threads touch memory of their own, or shared memory between
//! barriers, and what the PTX manual leaves open is avoided or made the same (which NaN, for instance).
//! Each thread leaves a hash of all registers and memory that it changed, so that any wrong bit shows.
//!
//! [`Pairs`] are programs of multiplications and additions that do not name their rounding, which ptxas
//! may fuse; [`reduce`] takes from a program what it can while something still fails.
//!
//! The binary prints programs: `cargo run -p ptx-gen -- 17` prints the one of seed 17.

mod coverage;
mod pairs;
mod program;
mod reduce;
mod table;
mod text;
mod universe;

pub use coverage::Coverage;
pub use pairs::{Form, Pairs};
pub use program::{Program, ROUND, TIMES};
pub use reduce::reduce;
pub use table::{Needs, Row, expand, rows};
pub use text::{
    BLOCK, Ending, INPUTS, SCRATCH, THREADS, body, changed, instructions, kernel_name, module,
};
pub use universe::{EXCEPTIONS, UNIVERSE, probe};
