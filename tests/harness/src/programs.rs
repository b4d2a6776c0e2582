//! The device programs of the tests, and their kernels as safe methods.

use cuda_safe::vector::Float4;
use cuda_safe::{Module, Stream, kernels};

use crate::{Failure, TestDevice};

/// A program of `kernels/`.
pub struct Program {
    pub name: &'static str,
    pub source: &'static str,
    /// Name expressions that it is compiled with.
    pub expressions: &'static [&'static str],
}

impl Program {
    pub fn to_nvrtc(&self) -> nvrtc::Program {
        let program = nvrtc::Program::new(self.source).name(self.name);
        self.expressions
            .iter()
            .fold(program, |program, expression| program.name_expression(*expression))
    }
}

/// Declares the programs, each in the file of its name, and lists them all.
macro_rules! programs {
    ($($program:ident: $file:literal $([$($expression:literal),+])?;)+) => {
        $(
            pub const $program: Program = Program {
                name: $file,
                source: include_str!(concat!("../kernels/", $file)),
                expressions: &[$($($expression),+)?],
            };
        )+

        pub const ALL: &[Program] = &[$($program),+];
    };
}

programs! {
    SAXPY: "saxpy.cu";
    BASIC: "basic.cu";
    DELAY: "delay.cu";
    ARGUMENTS: "arguments.cu";
    LAYOUT: "layout.cu";
    TEMPLATES: "templates.cu" ["axpy<float>", "axpy<double>", "math::times<3>"];
    LIMITS: "limits.cu";
    FAULTS: "faults.cu";
}

/// The same kernels, which let no time pass: where a seed decides what is done when, slow work is
/// like any other.
pub const NO_DELAY: Program = Program {
    name: "no_delay.cu",
    source: concat!("#define NO_DELAY\n", include_str!("../kernels/delay.cu")),
    expressions: &[],
};

/// Not among those that every device runs: older ones lack its instructions.
pub const CLUSTERS: Program = Program {
    name: "clusters.cu",
    source: include_str!("../kernels/clusters.cu"),
    expressions: &[],
};

/// With variables that kernels reach by name.
pub const VARIABLES: Program = Program {
    name: "variables.cu",
    source: include_str!("../kernels/variables.cu"),
    expressions: &[],
};

kernels! {
    pub struct Variables;
    // SAFETY: thread i writes element i alone, and only if i < n; of variables, one thread writes one.
    unsafe in VARIABLES.source {
        safe fn take(out: &mut [u32], n: u64) where n <= out.len();
        safe fn set(#[any] value: u32);
        safe fn peek(out: &mut [u32], n: u64) where n <= out.len();
        safe fn follow(#[any] value: u32);
        safe fn look(out: &mut [u32], n: u64) where n <= out.len();
    }
}

kernels! {
    pub struct Saxpy;
    // SAFETY: thread i reads and writes element i alone, and only if i < n; of four floats each in
    // `saxpy4`.
    unsafe in SAXPY.source {
        safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: u64)
            where n <= x.len(), n <= y.len(), n <= out.len();
        safe fn saxpy4(a: f32, x: &[Float4], y: &[Float4], out: &mut [Float4], n: u64)
            where n <= x.len(), n <= y.len(), n <= out.len();
    }
}

kernels! {
    pub struct Basic;
    // SAFETY: each index below n is visited by one thread, in any launch in x.
    unsafe in BASIC.source {
        safe fn fill(out: &mut [u32], n: u64, #[any] value: u32) where n <= out.len();
        safe fn iota(out: &mut [u32], n: u64, #[any] start: u32) where n <= out.len();
        safe fn add(data: &mut [u32], n: u64, #[any] value: u32) where n <= data.len();
        safe fn copy(input: &[u32], out: &mut [u32], n: u64)
            where n <= input.len(), n <= out.len();
        safe fn nothing();
    }
}

kernels! {
    pub struct Delay;
    // SAFETY: indices stay below n; blocks beyond the first write the same values again.
    unsafe in DELAY.source {
        safe fn delay(#[any] nanoseconds: u64);
        safe fn delayed_fill(out: &mut [u32], n: u64, #[any] value: u32, #[any] nanoseconds: u64)
            where n <= out.len();
        safe fn delayed_copy(input: &[u32], out: &mut [u32], n: u64, #[any] nanoseconds: u64)
            where n <= input.len(), n <= out.len();
    }
}

/// The kernels, from the module that all tests share.
macro_rules! shared {
    ($($kernels:ident of $program:ident;)+) => {$(
        impl $kernels {
            pub fn of(device: &TestDevice) -> Result<Self, Failure> {
                let module = device.module(&$program)?;
                // SAFETY: the module is made of the source that the declaration names.
                Ok(unsafe { Self::from_module(&module) }?)
            }
        }
    )+};
}

shared! {
    Saxpy of SAXPY;
    Basic of BASIC;
}

impl Delay {
    pub fn of(device: &TestDevice) -> Result<Self, Failure> {
        let program = if device.is_seeded() { &NO_DELAY } else { &DELAY };
        let module = device.module(program)?;
        // SAFETY: the module is made of the source that the declaration names, where `pass` perhaps
        // does nothing.
        Ok(unsafe { Self::from_module(&module) }?)
    }
}

impl Variables {
    /// From a module of its own, whose variables no other test uses.
    pub fn fresh(device: &TestDevice) -> Result<Self, Failure> {
        let module = Module::load(device.context(), &device.image(&VARIABLES)?)?;
        // SAFETY: the module is made of the source that the declaration names.
        Ok(unsafe { Self::from_module(&module) }?)
    }

    /// A copy to the variable, by a handle that is dropped at once.
    pub fn write(&self, stream: &Stream, name: &str, value: u32) -> cuda_safe::Result<()> {
        self.module().global::<u32>(stream, name)?.write(stream, &[value])
    }
}
