//! Recording launches of Rust kernels.

use cuda_safe::kernel::device::Device;
use cuda_safe::kernel::kernel::{Extent, Kernel};
use cuda_safe::kernel::recording::{Collected, collect};
use cuda_safe::kernel::target::{Activates, Active, Args, Record};
use cuda_safe::kernel::trust::Checked;
use cuda_safe::{DeviceRepr, Error, LaunchConfig, Result, Stream};

use super::{Collect, Launch, Recorder, Recording};
use crate::element::Differentiable;
use crate::spec::{Op, rust_op};
use crate::store::Store;
use crate::variable::Variable;

// SAFETY: what was given is collected and enqueued, once.
unsafe impl<'r> Record for Recorder<'r> {
    type Target = &'r Stream;

    #[inline]
    fn target(&self) -> &'r Stream {
        self.stream
    }

    #[inline]
    fn record<'a, A: Args<'a, &'r Stream>>(
        &mut self,
        kernel: &'static Kernel,
        extent: Extent,
        args: A,
        checked: Checked,
    ) -> Result<()> {
        collect(self.stream, kernel, extent, args, checked, |collected| {
            let op = rust_op(collected.loaded())?;
            let launch = *collected.config();
            op.threads_fit(&launch)?;
            self.record_launch(op, launch, Rust(collected))
        })
    }
}

impl<'a, 'r, T: Device> Activates<'a, T, T> for Recorder<'r> {
    #[inline]
    fn activate(value: T) -> Result<Active<'a, &'r Stream, T>> {
        Ok(Active { value, place: None })
    }
}

impl<'a, 'r, T: Device + Differentiable + DeviceRepr> Activates<'a, T, &'a Variable<T>>
    for Recorder<'r>
{
    #[inline]
    fn activate(variable: &'a Variable<T>) -> Result<Active<'a, &'r Stream, T>> {
        Ok(Active { value: variable.get(), place: Some(variable.view()?) })
    }
}

/// The arguments of a Rust kernel.
struct Rust<'a, 's, 'q>(Collected<'a, 's, 'q>);

impl Launch for Rust<'_, '_, '_> {
    #[inline]
    fn collect(&self, to: &mut Collect<'_>) -> Result<()> {
        let mut memories = self.0.memories().peekable();
        let mut structures = self.0.structures().peekable();
        self.0.each_parameter(|index, bytes| {
            let first = to.recording.found.len();
            let mut leads = false;
            while let Some((allocation, range, access, _)) = memories.next_if(|it| it.3 == index) {
                leads = true;
                to.found(index, allocation, range, access)?;
            }
            if let Some((structure, _)) = structures.next_if(|(_, at)| *at == index) {
                structure.reaches(&mut |allocation, range, access| {
                    to.found(index, allocation, range, access)
                })?;
            }
            to.argument(index, bytes, first, leads, false)
        })
    }

    fn is_view(&self, _: usize) -> bool {
        true
    }

    #[inline]
    fn enqueue(self, _: &Stream, _: &Op, _: LaunchConfig) -> Result<()> {
        self.0.enqueue()
    }

    fn run_primal(
        &self,
        _: &mut Recording,
        _: &Stream,
        _: &mut Store,
        op: &Op,
        _: &LaunchConfig,
    ) -> Result<u32> {
        Err(Error::invalid(format!("`{}` has no primal", op.name())))
    }
}
