//! Adjoints of single launches, without a tape.

mod call;
mod gradients;
mod primal;

use cuda_safe::{Error, IntoLaunchConfig, Result, Stream, arg::InspectArgs};

pub use gradients::Gradients;

use crate::record::Recording;
use crate::spec::Op;

impl Op {
    /// Runs the adjoint of one launch, with values and gradients of the caller. The kernel itself is not launched,
    /// and nothing is recorded: use this in programs that record by themselves, such as operators of a framework.
    ///
    /// `launch` and `args` are those of the launch. The adjoint reads the arguments' memory, which must have its
    /// contents from *before* the launch ([`Primal::Entry`](crate::Primal::Entry)), also where the kernel updates it.
    /// The call can't check this, so save a copy of memory that is overwritten. Memory that the adjoint does not read
    /// ([`Primal::None`](crate::Primal::None)) may hold anything; for a parameter with a declared length, pass
    /// [`NotSaved`](crate::NotSaved) instead. [`Op::derivation`] shows what a generated adjoint reads. Pass the
    /// memory as for a launch; the call does not write it.
    ///
    /// `gradients` gives the gradient of each output, and names memory for the gradients of inputs, which is
    /// overwritten:
    /// - For memory that the kernel updates, [`seed`](Gradients::seed) refers to the new contents, and
    ///   [`into_buffer`](Gradients::into_buffer) to the old.
    /// - For memory that it adds to, or overwrites in parts, `to` gets the gradient of the old contents: that of the
    ///   new, with zeros where the kernel overwrites.
    /// - Each parameter has its own gradient: arguments that share memory do not share it, and the gradient of that
    ///   memory is the sum.
    ///
    /// The gradients have the same bits as on a [`Tape`](crate::Tape). The host does not wait, unless the adjoint
    /// takes scratch memory ([`Gradients::scratch_bytes`]), the gradients are
    /// [`deterministic`](Gradients::deterministic), or the operation has a primal, which runs again. Working memory
    /// is allocated and freed in the order of `stream`.
    ///
    /// In a capture the adjoint becomes part of the graph, and must not wait: an adjoint that takes scratch memory
    /// needs `scratch_bytes`. If a launch of the graph has too little memory, or fails in another way that a direct
    /// call would return as an error, all gradients are NaN.
    ///
    /// ```
    /// # fn run(scale: &cuda_tape::Op, stream: &cuda_safe::Stream) -> cuda_safe::Result<()> {
    /// use cuda_safe::{DeviceBuffer, LaunchConfig};
    /// use cuda_tape::{Gradients, NotSaved};
    /// // scale(float a, const float* x, float* out, unsigned n): out[i] = a * x[i]
    /// let x = DeviceBuffer::from_slice(stream, &[2.0f32, 5.0])?;
    /// let g_out = DeviceBuffer::from_slice(stream, &[1.0f32, 10.0])?;
    /// let mut g_x = DeviceBuffer::<f32>::zeroed(stream, 2)?;
    /// let mut g_a = DeviceBuffer::<f32>::zeroed(stream, 1)?;
    /// let gradients = Gradients::new().seed("out", &g_out).into_buffer("x", &mut g_x).into_buffer("a", &mut g_a);
    /// scale.vjp(stream, LaunchConfig::cover(2, 256), (3.0f32, &x, NotSaved, 2u32), gradients)?;
    /// assert_eq!(g_x.to_vec(stream)?, [3.0, 30.0]);
    /// assert_eq!(g_a.to_vec(stream)?, [52.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) before anything is enqueued: the arguments do not fit,
    /// as for [`Recorder::launch`](crate::Recorder::launch); the operation has no adjoint; a gradient names a
    /// parameter without one, is of another type or length, or is named twice; the gradient of an output is missing;
    /// no gradient is wanted; a wanted gradient shares memory with another gradient or an argument; an argument that
    /// the adjoint reads shares memory with one that the launch writes; the adjoint reads results of the launch
    /// ([`vjp_from_outputs`](Self::vjp_from_outputs)). Otherwise if the driver returns an error, or memory is too small.
    /// After such an error the contents of the gradients are unspecified.
    pub fn vjp<A: InspectArgs>(
        &self,
        stream: &Stream,
        launch: impl IntoLaunchConfig,
        args: A,
        gradients: Gradients<'_>,
    ) -> Result<()> {
        let launch = launch.into_launch_config();
        let recording = Recording::of_call(self, &launch, &args, gradients.deterministic)?;
        // A primal runs again, and computes the results itself.
        let results = self.inner.tape_bytes.is_none();
        if let Some(what) = gradients::reads_results(self, &recording).filter(|_| results) {
            return Err(Error::invalid(format!(
                "the adjoint reads what the launch has written to {what}"
            ))
            .with_hint("`Op::vjp_from_outputs`, with the promise that the memory still holds it"));
        }
        call::run(self, stream, &launch, recording, gradients)
    }

    /// Works like [`vjp`](Self::vjp), also if the adjoint reads results of the launch
    /// ([`Primal::Exit`](crate::Primal::Exit)): the memory of those arguments must have its contents from *after* the
    /// launch.
    ///
    /// # Errors
    /// As [`vjp`](Self::vjp).
    ///
    /// # Safety
    /// Memory that the adjoint reads as results of the launch holds the results of a launch with these arguments. An
    /// adjoint may use results, such as indices, without checking them.
    pub unsafe fn vjp_from_outputs<A: InspectArgs>(
        &self,
        stream: &Stream,
        launch: impl IntoLaunchConfig,
        args: A,
        gradients: Gradients<'_>,
    ) -> Result<()> {
        let launch = launch.into_launch_config();
        let recording = Recording::of_call(self, &launch, &args, gradients.deterministic)?;
        call::run(self, stream, &launch, recording, gradients)
    }
}
