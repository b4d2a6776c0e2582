//! Checks whether an operation's adjoint is right, at one launch.

mod args;
mod backward;
mod check;
mod differences;
mod investigate;
mod list;
mod numbers;
mod part;
mod pass;
mod report;
mod rig;
mod tangents;
mod variations;

use cuda_safe::{Error, IntoLaunchConfig, Result, Stream, arg::InspectArgs};

pub use report::{Compared, Finding, Oracle, Place, Problem, Report, Variation, Verdict};

use crate::spec::Op;
use check::Check;
use numbers::Random;
use rig::Rig;
use tangents::Tangents;

/// Checks the adjoint of an operation at one launch: compares the gradients that a tape computes with derivatives of
/// the kernel.
///
/// The arguments are those of [`Recorder::launch`](crate::Recorder::launch). Numbers that have a gradient may be
/// given as values or as [`Variable`](crate::Variable)s. The check works on copies and leaves the arguments' memory
/// unchanged. It waits.
///
/// ```no_run
/// # use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream};
/// # fn test(stream: &Stream, scale: &cuda_tape::Op) -> Result<()> {
/// let x = DeviceBuffer::from_slice(stream, &[2.0f32, 5.0, -1.0])?;
/// let mut out = DeviceBuffer::<f32>::zeroed(stream, 3)?;
/// let launch = LaunchConfig::cover(3, 256);
/// let report = cuda_tape::gradcheck(stream, scale, launch, (0.5f32, &x, &mut out, 3u32))?;
/// assert!(report.is_right(), "{report}");
/// # Ok(()) }
/// ```
///
/// A report of a wrong adjoint names the parameter, the element and the output:
/// ```text
/// the adjoint of `scale` is wrong, compared with tangents in f64 (seed 0)
///   a            1 numbers  error   3.1e-8  right
///   x            3 numbers  error   3.3e-1  WRONG
///   out          3 numbers  error   0.0e0   right
///   x[1] -> out[1]: expected 0.5, got -0.5 (1 of 3 numbers)
/// ```
///
/// # What is compared
/// For random directions ẋ of each active parameter and random weights ȳ of each output, ⟨ȳ, J ẋ⟩ is compared with
/// ⟨Jᵀ ȳ, ẋ⟩, relative to the sum of the terms' magnitudes. J ẋ comes from an oracle that does not use the adjoint:
/// - *tangents* of the software device, if it tracks them (`CUDA_EMU_TANGENTS=1`): derivatives of each executed
///   instruction, in f64;
/// - else *central differences* of the kernel with several steps. For each output, the step with the smallest
///   estimated error is taken. Outputs whose derivative is not known to 2% are left out.
///
/// Where the products differ, the check repeats the comparison at several points nearby. If the difference persists,
/// it searches for the input number and the output number that disagree. If not, the point is special:
/// [`Problem::Kink`] and similar findings are no fault of the adjoint. Rounding and nondeterministic sums change from
/// point to point, and are not reported either.
///
/// Old contents of overwritten memory are inputs, too: their gradient must be zero afterwards. (The check replaces
/// the contents by random numbers.)
///
/// Then the check takes the gradients in all ways in which passes may want them: see [`Variation`].
///
/// # Limits
/// The kernel runs some dozen times for each parameter, with differences some hundred times. The check finds a
/// mistake only if it shows at the given point and launch. A mistake in a single number of a large parameter may be
/// lost in the rounding of the others. During a check with tangents, no other launch of a kernel of the same name may
/// run on the software device.
///
/// # Errors
/// As [`Recorder::launch`](crate::Recorder::launch), before anything is enqueued; also if the operation has no
/// adjoint, if an element is a structure whose numbers have unknown offsets
/// ([`Element::numbers_at`](crate::Element::numbers_at)), or if the kernel writes to memory by pointers that the
/// specification does not list. Otherwise if the driver returns an error: a faulty adjoint may fault.
pub fn gradcheck<A: InspectArgs>(
    stream: &Stream,
    op: &Op,
    launch: impl IntoLaunchConfig,
    args: A,
) -> Result<Report> {
    Gradcheck::new().run(stream, op, launch, args)
}

/// The settings of a check, for others than [`gradcheck`]'s.
///
/// ```no_run
/// # fn test<A: cuda_safe::arg::InspectArgs>(stream: &cuda_safe::Stream, op: &cuda_tape::Op, launch: cuda_safe::LaunchConfig, args: A) -> cuda_safe::Result<()> {
/// let report = cuda_tape::Gradcheck::new().seed(7).directions(10).run(stream, op, launch, args)?;
/// report.ensure()
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Gradcheck {
    seed: u64,
    directions: usize,
    tolerance: Option<f64>,
    oracle: Option<Oracle>,
}

impl Default for Gradcheck {
    fn default() -> Self {
        Self { seed: 0, directions: 3, tolerance: None, oracle: None }
    }
}

impl Gradcheck {
    /// Creates the settings of [`gradcheck`]: seed 0, three directions for each parameter.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the seed of directions and weights. The same seed gives the same check.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of directions for each active parameter. The first direction moves all of its numbers, each
    /// further one fewer.
    pub fn directions(mut self, directions: usize) -> Self {
        self.directions = directions;
        self
    }

    /// Sets the relative difference at which a gradient is wrong. By default 1e-9 if all numbers are `double`, 1e-4 if
    /// some are `float`, 5e-3 with `__half` and 2e-2 with `__nv_bfloat16`.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Sets the oracle. By default tangents, if the device tracks them.
    pub fn oracle(mut self, oracle: Oracle) -> Self {
        self.oracle = Some(oracle);
        self
    }

    /// Runs the check; see [`gradcheck`].
    ///
    /// # Errors
    /// As [`gradcheck`]. [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the tolerance is not a positive
    /// number, or if [`Oracle::Tangents`] was set and the device tracks none.
    pub fn run<A: InspectArgs>(
        &self,
        stream: &Stream,
        op: &Op,
        launch: impl IntoLaunchConfig,
        args: A,
    ) -> Result<Report> {
        if stream.is_recording() {
            return Err(Error::invalid("a gradient can't be checked on a stream that captures"));
        }
        if self.tolerance.is_some_and(|most| !most.is_finite() || most <= 0.0) {
            return Err(Error::invalid("the tolerance is not a positive number"));
        }
        let mut random = Random::new(self.seed);
        let rig = Rig::new(stream, op, launch.into_launch_config(), &args, &mut random)?;
        let tangents = match self.oracle {
            Some(Oracle::Differences) => None,
            _ => Tangents::find(stream.context().driver())?,
        };
        if self.oracle == Some(Oracle::Tangents) && tangents.is_none() {
            return Err(Error::invalid("the device does not track tangents")
                .with_hint("the software device does, with CUDA_EMU_TANGENTS=1"));
        }
        Check::new(rig, tangents, random, self).run()
    }
}
