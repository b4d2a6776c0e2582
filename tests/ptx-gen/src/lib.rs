//! Random PTX programs, each with one result: a device with another result is wrong.
//!
//! A [`Program`] is drawn from a seed. Its instructions come from a [table](rows) of what the
//! software device supports, each row in at least [`TIMES`] of every thousand programs. Programs are
//! deterministic by construction: they end, threads touch memory of their own, or shared memory between
//! barriers, and what the PTX manual leaves open is avoided or made the same (which NaN, for instance).
//! Each thread leaves a hash of all registers and memory that it changed, so that any wrong bit shows.
//!
//! [`Pairs`] are programs of multiplications and additions that do not name their rounding, which ptxas
//! may fuse; [`reduce`] takes from a program what it can while something still fails. [`Smooth`] are differentiable
//! programs, with chosen constructs. [`Spelled`] are programs of what the grammar of PTX allows and NVRTC does not write,
//! with values that the generator computes.
//!
//! The binary prints programs: `cargo run -p ptx-gen -- 17` prints the one of seed 17, with `--smooth` the differentiable one,
//! with `--spelled` the spelled one.
//!
//! # Programs
//! Registers begin with inputs, memory belongs to one thread, loops count, and operations of several threads stand where
//! all of them arrive. So a program keeps its one result when statements are removed, and reduction needs no checker.
//!
//! - The table is text: words with alternatives, operands as letters. It cannot be derived from the device, whose table
//!   is its decoder. So a [second list](UNIVERSE), of every form that PTX has, is tried on the device one by one: a form
//!   that it executes is in the table, or among the [exceptions](EXCEPTIONS) with a reason. ptxas 13.0 accepts the whole
//!   table for `sm_90`.
//! - Rows are dealt like cards to the programs of a thousand seeds, so that none depends on chance.
//! - The NaN of a result is undefined where ptxas may reorder operands or leave out an operation: of f64, and of `neg`,
//!   `abs` and conversions. There the usual NaN is put in its place; the golden kernels test the others.
//! - Bare `mul` and `add` are separate programs ([`Pairs`]), one word for each pair: the word of a GPU is either that
//!   of `mul.rn` and `add.rn` or that of `fma.rn`, and the word of the software device is the one that it is set to.
//!
//! # What ptxas gets wrong
//! Runs on a GPU found errors of ptxas 12.8 and 13.0, by the PTX manual. `cuda-emu/tests/exec/untyped.rs` tests the software
//! device against the manual for operations of one thread. Programs avoid these errors:
//!
//! - **Guards.** The conversion of the result of a guarded `set` has no guard. `testp`, and `vadd4` and `vsub4` with
//!   `.add` of `.u32` alone, have none at all. They are not guarded.
//! - **Types.** A register of bits counts as a float if a float instruction wrote it. A `set` to a float that is read
//!   as an integer gives 1 instead of 0x3f800000. A store of fewer bits, and a shift of 64 bits by it, convert its value.
//!   Two conversions, of which the second reads the bits of the first as another type, become one, as do those of sums of
//!   integers that saturate. An atomic addition of halves in shared memory converts the result of a conversion, or half
//!   of a wider register. `abs.f16x2` of a value that is no negative f32 is left out.
//! - **Ranges.** `abs.s16` and `neg.s16` of the least number are positive for the instructions that read them.
//!   `cvt.rz.bf16.f32` of a `cnot` is 1 instead of 0. So an `xor` with a zero that the compiler cannot know follows all
//!   float instructions, conversions, saturations, `set`, `cnot`, `abs` and `neg`, and precedes stores of fewer bits.
//! - **Equal operands.** `min` of one register with itself is that register, even if it has a NaN. One of the two is
//!   hidden in the same way.
//! - **Predicates.** The second result of a `setp` with two results is wrong where a branch uses it. Both are copied.
//! - **Loops.** `mad.hi` of 16 and 32 bits that adds to one register in a loop adds half of the times once the loop is
//!   unrolled by four. The summand is hidden, which avoids most of these. Where all lanes count alike, the warp has one
//!   count; where they wait for a lock in the loop, as atomics of floats in shared memory do, each group of lanes that has
//!   the lock counts. Counts begin with the unknown zero of each lane. In a loop with a call, code behind a branch uses
//!   the branch's old predicate even after the loop has written it, so branches use copies.
//!
//! A difference that no rule explains is run again without optimisation. If the GPU then agrees with the software device,
//! ptxas is wrong; else a device is wrong, and the run fails.

mod coverage;
mod numbers;
mod pairs;
mod program;
mod reduce;
mod smooth;
mod spelled;
mod table;
mod text;
mod universe;

pub use coverage::Coverage;
pub use numbers::{Profile, Scratch};
pub use pairs::{Form, Pairs};
pub use program::{Program, ROUND, TIMES};
pub use reduce::reduce;
pub use smooth::{Construct, Set, Smooth};
pub use spelled::Spelled;
pub use table::{Needs, Row, expand, rows};
pub use text::{
    BLOCK, Ending, INPUTS, SCRATCH, THREADS, body, changed, instructions, kernel_name, module,
};
pub use universe::{EXCEPTIONS, UNIVERSE, probe};
