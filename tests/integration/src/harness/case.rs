//! A test: its name and what runs it.

use cuda_safe::Driver;

use super::{Compiler, Language, TestDevice, TestResult};

/// A test of some tier.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `module::case`; the tier's name comes before it.
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    /// Whether no other test may use the device meanwhile: it looks at what all of them share.
    pub(crate) serial: bool,
    /// Whether it takes long on one core: then it begins first, so that the other cores do not wait for it at the end.
    pub(crate) long: bool,
    /// Whether it runs only if the command line names tests.
    pub(crate) asked: bool,
    /// For cases with a process of their own: variables of that process.
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

/// How the names of tests of several devices begin.
pub(crate) const SEVERAL: &str = "several::";

/// The variables of the process of such a test.
pub(crate) const SEVERAL_DEVICES: &[(&str, &str)] = &[("CUDA_EMU_DEVICES", "4")];

/// Opens the driver of a tier.
pub(crate) type Open = fn() -> cuda_safe::Result<Driver>;

/// What runs a test, and where.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Pure Rust.
    Host(fn() -> TestResult),
    /// Once with each NVRTC.
    Compile(fn(&Compiler) -> TestResult),
    /// With the tools of NanoVDB.
    Tools(fn() -> TestResult),
    /// Programs of others on the software device.
    Foreign(Language, fn() -> TestResult),
    /// With the software device, in processes that it starts itself.
    Software(fn() -> TestResult),
    /// On each device tier.
    Device(fn(&TestDevice) -> TestResult),
    /// On a GPU, with a library of NVIDIA's: the first function says why it is not there.
    Library(fn() -> Option<String>, fn(&TestDevice) -> TestResult),
    /// On each device tier in a process of its own: it loses the device, or provokes errors of the
    /// driver that a checker such as compute-sanitizer would report.
    Fault(fn(&TestDevice) -> TestResult),
    /// As `Fault`, but the process starts without touching the driver, which the argument opens.
    Process(fn(Open) -> TestResult),
    /// The faults of the device test of this name, which the function takes.
    Sweep(fn(&'static str) -> TestResult),
    /// What is to be said when all faults were tried.
    SweepEnd(fn() -> TestResult),
}

impl Case {
    const fn new(name: &'static str, run: Run) -> Self {
        Self { name, run, serial: false, long: false, asked: false, variables: &[] }
    }

    pub(crate) const fn host(name: &'static str, run: fn() -> TestResult) -> Self {
        Self::new(name, Run::Host(run))
    }

    pub(crate) const fn compile(name: &'static str, run: fn(&Compiler) -> TestResult) -> Self {
        Self::new(name, Run::Compile(run))
    }

    pub(crate) const fn tools(name: &'static str, run: fn() -> TestResult) -> Self {
        Self::new(name, Run::Tools(run))
    }

    pub(crate) const fn foreign(
        language: Language,
        name: &'static str,
        run: fn() -> TestResult,
    ) -> Self {
        Self::new(name, Run::Foreign(language, run))
    }

    pub(crate) const fn software(name: &'static str, run: fn() -> TestResult) -> Self {
        Self::new(name, Run::Software(run))
    }

    pub(crate) const fn device(name: &'static str, run: fn(&TestDevice) -> TestResult) -> Self {
        Self::new(name, Run::Device(run))
    }

    pub(crate) const fn library(
        name: &'static str,
        why_not: fn() -> Option<String>,
        run: fn(&TestDevice) -> TestResult,
    ) -> Self {
        Self::new(name, Run::Library(why_not, run))
    }

    pub(crate) const fn fault(name: &'static str, run: fn(&TestDevice) -> TestResult) -> Self {
        Self::new(name, Run::Fault(run))
    }

    /// On the first of several devices, whose name begins with [`SEVERAL`].
    pub(crate) const fn several(name: &'static str, run: fn(&TestDevice) -> TestResult) -> Self {
        Self::fault(name, run).variables(SEVERAL_DEVICES)
    }

    /// Whether it is a test of several devices.
    pub(crate) fn is_of_several(&self) -> bool {
        self.name.starts_with(SEVERAL) && matches!(self.run, Run::Fault(_))
    }

    pub(crate) const fn process(name: &'static str, run: fn(Open) -> TestResult) -> Self {
        Self::new(name, Run::Process(run))
    }

    /// The sweep of a device test.
    pub(crate) const fn sweep(name: &'static str, run: fn(&'static str) -> TestResult) -> Self {
        Self::new(name, Run::Sweep(run))
    }

    pub(crate) const fn sweep_end(name: &'static str, run: fn() -> TestResult) -> Self {
        Self::new(name, Run::SweepEnd(run))
    }

    /// With no other test on the device at the same time.
    pub(crate) const fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    /// Before other tests of its tier.
    pub(crate) const fn long(mut self) -> Self {
        self.long = true;
        self
    }

    /// Only if the command line names tests.
    pub(crate) const fn only_if_asked(mut self) -> Self {
        self.asked = true;
        self
    }

    /// With these environment variables in its own process.
    pub(crate) const fn variables(
        mut self,
        variables: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.variables = variables;
        self
    }

    /// Whether it runs in a process of its own.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self.run, Run::Fault(_) | Run::Process(_))
    }
}
