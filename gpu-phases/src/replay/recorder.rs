//! A target that saves launches.

use std::sync::{Mutex, PoisonError};

use super::SavedLaunch;
use crate::cpu::target::{Collected, Cpu, Held};
use crate::device::Device;
use crate::kernel::{CpuError, Extent, Kernel, Refused};
use crate::structure::Structure;
use crate::target::{Args, Queries, Reads, Shares, Target, Writes};
use crate::trust::Checked;

/// The launches that a [`Recorder`] saves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Launches that fail.
    #[default]
    Failed,
    /// Launches that fail, and those that write a NaN over another value; see [`SavedLaunch::first_nan`].
    FailedOrNan,
    /// All launches.
    All,
}

/// Runs launches on the CPU, like [`Cpu`], and saves them: pass `&recorder` as the target.
///
/// It copies all arguments, before and after each launch.
#[derive(Debug, Default)]
pub struct Recorder {
    keep: Keep,
    launches: Mutex<Vec<SavedLaunch>>,
}

impl Recorder {
    /// Returns a recorder that keeps these launches.
    #[must_use]
    pub fn new(keep: Keep) -> Self {
        Self { keep, launches: Mutex::default() }
    }

    /// Takes the saved launches, in the order in which they ended.
    #[must_use]
    pub fn take(&self) -> Vec<SavedLaunch> {
        std::mem::take(&mut *self.launches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn run(
        &self,
        kernel: &'static Kernel,
        extent: Extent,
        held: &mut Collected<'_>,
    ) -> Result<Result<(), CpuError>, super::SaveError> {
        let before = held.0.iter().map(|held| held.bytes().to_vec()).collect();
        let mut saved = SavedLaunch::new(kernel, extent, before)?;
        let result = held.call(kernel);
        match &result {
            Ok(()) => {
                for (number, held) in held.0.iter().enumerate() {
                    if let Held::Write(after) = held {
                        saved = saved.with_results(kernel, number, after.to_vec())?;
                    }
                }
            }
            Err(CpuError::Fault(fault)) => saved = saved.with_fault(fault),
            Err(_) => {}
        }
        let keep = match self.keep {
            Keep::All => true,
            Keep::FailedOrNan => result.is_err() || saved.first_nan().is_some(),
            Keep::Failed => result.is_err(),
        };
        if keep {
            self.launches.lock().unwrap_or_else(PoisonError::into_inner).push(saved);
        }
        Ok(result)
    }
}

// SAFETY: as `Cpu`.
#[allow(unsafe_code, reason = "a target is given tokens")]
unsafe impl Target for &Recorder {
    type Error = CpuError;
    type Read<'a, T: Device> = &'a [T];
    type Write<'a, T: Device> = &'a mut [T];
    type Shared<'a, T: Device> = &'a mut [T];
    type Structure<'a, S: Structure> = &'a S;

    fn launch<'a, A: Args<'a, Self>>(
        self,
        kernel: &'static Kernel,
        extent: Extent,
        args: A,
        _: Checked,
    ) -> Result<(), CpuError> {
        let mut held = Collected::new(kernel);
        args.visit(&mut held)?;
        self.run(kernel, extent, &mut held)
            .map_err(|super::SaveError { kernel, message }| Refused { kernel, message })?
    }
}

impl<'a, S: Structure> Queries<'a, S, &'a S> for &Recorder {
    fn query(self, structure: &'a S) -> &'a S {
        structure
    }
}

impl<'a, T: Device, V> Reads<'a, T, V> for &Recorder
where
    Cpu: Reads<'a, T, V>,
{
    fn read(self, memory: V) -> &'a [T] {
        Cpu.read(memory)
    }
}

impl<'a, T: Device, V> Writes<'a, T, V> for &Recorder
where
    Cpu: Writes<'a, T, V>,
{
    fn write(self, memory: V) -> &'a mut [T] {
        Cpu.write(memory)
    }
}

impl<'a, T: Device, V> Shares<'a, T, V> for &Recorder
where
    Cpu: Shares<'a, T, V>,
{
    fn share(self, memory: V) -> &'a mut [T] {
        Cpu.share(memory)
    }
}
