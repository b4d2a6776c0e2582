//! Tests of declarations: launches that the `where` clauses of [`kernels!`](crate::kernels) allow, on a device that checks
//! them. With the feature `testing`.
//!
//! The author of an `unsafe in` promises that a kernel is sound in every launch that its declaration allows. A test can't
//! prove that, but it finds the usual mistakes: a bound that is missing or off by one, a kernel for whole tiles without the
//! clause, width and height confused, blocks that race.
//!
//! `#[test_launches]` on the struct adds the function `test_launches`; `#[cfg_attr(test, test_launches)]` adds it to tests
//! alone. (`kernels.test_loaded(&mut launches)` tests kernels that were loaded otherwise.) The software device of the crate `cuda-emu` checks the launches:
//!
//! ```ignore
//! kernels! {
//!     #[cfg_attr(test, test_launches)]
//!     pub struct Saxpy;
//!     // SAFETY: thread i touches element i alone, and only if i < n.
//!     unsafe in include_cuda!("saxpy.cu") {
//!         safe fn saxpy(a: f32, x: &[f32], y: &mut [f32], n: i32 = x.len()) over n
//!             where y.len() == n, n < 2_000_000_000;
//!     }
//! }
//!
//! #[test]
//! fn the_declaration_holds() -> Result<(), Box<dyn std::error::Error>> {
//!     let checks = cuda_emu::Checks { race: true, init: true, leak: false };
//!     cuda_emu::Config::from_env().check(checks).install();
//!     let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
//!     let observation = cuda_emu::observe()?;
//!     let report = Saxpy::test_launches(&mut Launches::new(&context, || observation.found())?)?;
//!     println!("{report}"); // saxpy: 200 launches, 9 without blocks, 0 refused
//!     Ok(())
//! }
//! ```
//!
//! # What is tried
//! Each `safe fn`, and each instance of its type parameters, is launched 200 times ([`Launches::count`]) through its
//! method, so that the clauses are evaluated as for any launch.
//! - **Integers and launches** are drawn from values at the edges of warps and blocks (0, 1, 31, 32, 33, 255, …), from
//!   numbers near the constants of the clauses, and at random; often, one is then moved to where a clause just holds. `a ==
//!   expression` is used as a definition. Integers that no clause reads have any value of their type.
//! - **Slices** are mostly as short as the clauses allow, so that a read behind the allowed length faults.
//! - **Contents** are random: small numbers, any bits, zeros, and for floats also NaN and infinity. Structures that are
//!   `bytemuck::AnyBitPattern` have random bytes. For other types the test supplies a function ([`Launches::values`],
//!   [`Launches::elements`]). `&mut [MaybeUninit<T>]` is not written before the launch.
//! - An **`unsafe fn`** is not launched; the report names it.
//!
//! # What is found
//! Each launch is waited for. It is wrong if the checkers report something, if the device is lost, or if the kernel wrote to
//! a `&[T]`. A wrong launch is made smaller as long as it stays wrong. The error has kernel, launch, lengths, integers, and
//! the report, with the line of the source, as the program is compiled with line information. The same seed makes the same
//! launches.
//!
//! # Limits
//! Launches are small: at most 4,096 elements in a slice and 16,384 threads, unless [`Launches::most_elements`] and
//! [`Launches::most_threads`] say otherwise; so overflows of large indices are not found. A kernel that does not end needs a limit, as `cuda_emu::Config::timeout`
//! sets it. Results are not compared with
//! anything. Declarations with conditions that are hard to meet may fail with [`Error::Unmet`]. On a GPU, a faulty launch
//! loses the device: it is reported, but not made smaller, and an access outside a slice is noticed only if it faults.

#[doc(hidden)]
pub mod declared;
mod drawn;
mod error;
mod problem;
mod random;
mod run;
mod solve;
#[cfg(test)]
mod tests;
#[doc(hidden)]
pub mod values;

use std::fmt;

use bytemuck::NoUninit;

#[doc(hidden)]
pub use drawn::Drawn;
pub use error::{Broken, Error, Report, Tested};
pub use random::Random;
use values::Generators;

use crate::context::Context;
use crate::stream::Stream;

/// The launches of a test of declarations: how many, how large, with which contents, and on which device.
pub struct Launches<'f> {
    context: Context,
    stream: Stream,
    found: Box<dyn FnMut() -> Vec<String> + 'f>,
    generators: Generators,
    count: usize,
    seed: u64,
    elements: u64,
    threads: u64,
    report: Report,
}

impl<'f> Launches<'f> {
    /// Creates launches in `context`. `found` takes what the device's checkers have found since its last call; on the
    /// software device, `cuda_emu::Observation::found`.
    ///
    /// # Errors
    /// The error of creating a stream.
    pub fn new(
        context: &Context,
        found: impl FnMut() -> Vec<String> + 'f,
    ) -> crate::error::Result<Self> {
        Ok(Self {
            context: context.clone(),
            stream: context.stream()?,
            found: Box::new(found),
            generators: Generators::default(),
            count: 200,
            seed: 0,
            elements: 4096,
            threads: 16_384,
            report: Report::default(),
        })
    }

    /// Sets how often each kernel is launched; 200 unless set.
    #[must_use]
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// Sets the seed; 0 unless set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the most elements of a slice; 4,096 unless set. A test whose launches have slices of more than 1 GiB fails.
    #[must_use]
    pub fn most_elements(mut self, elements: u64) -> Self {
        self.elements = elements;
        self
    }

    /// Sets the most threads of a launch; 16,384 unless set, and at least 1,024.
    #[must_use]
    pub fn most_threads(mut self, threads: u64) -> Self {
        self.threads = threads;
        self
    }

    /// Sets how values of `T` are made that are passed to kernels.
    #[must_use]
    pub fn values<T: 'static>(
        mut self,
        make: impl Fn(&mut Random) -> T + Send + Sync + 'static,
    ) -> Self {
        self.generators.set_values(make);
        self
    }

    /// Sets how elements `T` of slices are made: for example indices, if a kernel is sound for those in a range alone. (Then
    /// it should be an `unsafe fn`.)
    #[must_use]
    pub fn elements<T: NoUninit>(
        mut self,
        make: impl Fn(&mut Random) -> T + Send + Sync + 'static,
    ) -> Self {
        self.generators.set_elements(make);
        self
    }

    /// Returns the context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Notes a kernel that is not launched.
    #[doc(hidden)]
    pub fn skip(&mut self, kernel: &str) {
        self.report.skipped.push(kernel.to_owned());
    }

    /// Takes the report on the kernels so far.
    #[doc(hidden)]
    pub fn take_report(&mut self) -> Report {
        std::mem::take(&mut self.report)
    }
}

impl fmt::Debug for Launches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launches")
            .field("count", &self.count)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
