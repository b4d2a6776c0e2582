//! A test: its name and what runs it.

use cuda_safe::Driver;

use super::{Compiler, Language, TestDevice, TestResult};

/// A test of some tier.
#[derive(Clone, Copy)]
pub struct Case {
    /// `module::case`; the tier's name comes before it.
    pub name: &'static str,
    pub run: Run,
    /// Whether no other test may use the device meanwhile: it looks at what all of them share.
    pub serial: bool,
    /// Whether it takes long on one core: then it begins first, so that the other cores do not wait for it at the end.
    pub long: bool,
    /// Whether it runs only if the command line names tests.
    pub asked: bool,
    /// For cases with a process of their own: variables of that process.
    pub variables: &'static [(&'static str, &'static str)],
}

/// How the names of tests of several devices begin.
pub const SEVERAL: &str = "several::";

/// The variables of the process of such a test.
pub const SEVERAL_DEVICES: &[(&str, &str)] = &[("CUDA_EMU_DEVICES", "4")];

/// Opens the driver of a tier.
pub type Open = fn() -> cuda_safe::Result<Driver>;

/// What runs a test, and where.
#[derive(Clone, Copy)]
pub enum Run {
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
    /// As `Software`; the function takes the test's name.
    Named(fn(&'static str) -> TestResult),
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

impl Run {
    /// The name of its kind.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Host(_) => "host",
            Self::Compile(_) => "compile",
            Self::Tools(_) => "tools",
            Self::Foreign(..) => "foreign",
            Self::Software(_) | Self::Named(_) => "software",
            Self::Device(_) => "device",
            Self::Library(..) => "library",
            Self::Fault(_) => "fault",
            Self::Process(_) => "process",
            Self::Sweep(_) => "sweep",
            Self::SweepEnd(_) => "sweep end",
        }
    }
}

impl Case {
    const fn new(name: &'static str, run: Run) -> Self {
        Self { name, run, serial: false, long: false, asked: false, variables: &[] }
    }

    pub const fn host(name: &'static str, run: fn() -> TestResult) -> Self {
        Self::new(name, Run::Host(run))
    }

    pub const fn compile(name: &'static str, run: fn(&Compiler) -> TestResult) -> Self {
        Self::new(name, Run::Compile(run))
    }

    pub const fn tools(name: &'static str, run: fn() -> TestResult) -> Self {
        Self::new(name, Run::Tools(run))
    }

    pub const fn foreign(language: Language, name: &'static str, run: fn() -> TestResult) -> Self {
        Self::new(name, Run::Foreign(language, run))
    }

    pub const fn software(name: &'static str, run: fn() -> TestResult) -> Self {
        Self::new(name, Run::Software(run))
    }

    pub const fn named(name: &'static str, run: fn(&'static str) -> TestResult) -> Self {
        Self::new(name, Run::Named(run))
    }

    pub const fn device(name: &'static str, run: fn(&TestDevice) -> TestResult) -> Self {
        Self::new(name, Run::Device(run))
    }

    pub const fn library(
        name: &'static str,
        why_not: fn() -> Option<String>,
        run: fn(&TestDevice) -> TestResult,
    ) -> Self {
        Self::new(name, Run::Library(why_not, run))
    }

    pub const fn fault(name: &'static str, run: fn(&TestDevice) -> TestResult) -> Self {
        Self::new(name, Run::Fault(run))
    }

    /// On the first of several devices, whose name begins with [`SEVERAL`].
    pub const fn several(name: &'static str, run: fn(&TestDevice) -> TestResult) -> Self {
        Self::fault(name, run).variables(SEVERAL_DEVICES)
    }

    /// Whether it is a test of several devices.
    pub fn is_of_several(&self) -> bool {
        self.name.starts_with(SEVERAL) && matches!(self.run, Run::Fault(_))
    }

    pub const fn process(name: &'static str, run: fn(Open) -> TestResult) -> Self {
        Self::new(name, Run::Process(run))
    }

    /// The sweep of a device test.
    pub const fn sweep(name: &'static str, run: fn(&'static str) -> TestResult) -> Self {
        Self::new(name, Run::Sweep(run))
    }

    pub const fn sweep_end(name: &'static str, run: fn() -> TestResult) -> Self {
        Self::new(name, Run::SweepEnd(run))
    }

    /// With no other test on the device at the same time.
    pub const fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    /// Before other tests of its tier.
    pub const fn long(mut self) -> Self {
        self.long = true;
        self
    }

    /// Only if the command line names tests.
    pub const fn only_if_asked(mut self) -> Self {
        self.asked = true;
        self
    }

    /// With these environment variables in its own process.
    pub const fn variables(mut self, variables: &'static [(&'static str, &'static str)]) -> Self {
        self.variables = variables;
        self
    }

    /// Whether it runs in a process of its own.
    pub fn is_fault(&self) -> bool {
        matches!(self.run, Run::Fault(_) | Run::Process(_))
    }
}

/// Lists tests by the names of their functions: `cases!["order", device(f), device(g).serial(), host(h)]`. The first
/// argument is the module's name in the tests' names. `device(name = f::<f32>)` names a function that has another name
/// or none.
#[macro_export]
macro_rules! cases {
    [$module:literal, $($kind:ident($($case:tt)+) $(.$option:ident($($value:expr)?))*),+ $(,)?] => {
        vec![$($crate::case!($module, $kind, $($case)+)$(.$option($($value)?))*),+]
    };
}

/// One element of [`cases!`].
#[doc(hidden)]
#[macro_export]
macro_rules! case {
    ($module:literal, $kind:ident, $name:ident) => {
        $crate::case!($module, $kind, $name = $name)
    };
    ($module:literal, $kind:ident, $name:ident = $run:expr) => {
        $crate::Case::$kind(concat!($module, "::", stringify!($name)), $run)
    };
    ($module:literal, $kind:ident, $first:expr, $name:ident) => {
        $crate::Case::$kind($first, concat!($module, "::", stringify!($name)), $name)
    };
}
