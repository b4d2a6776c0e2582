//! The operations of `kernels/tape/ops.cu`, for numbers of two types.

use bytemuck::Pod;
use cuda_safe::{
    DeviceRepr, DeviceSlice, KernelArg, LaunchConfig, Module, Result,
    arg::{ArgType, UseVisitor},
};
use tape::{Differentiable, Element, Op, OpSpec, Param, Primal};

use crate::harness::{Failure, Rng, TestDevice};

pub(crate) const SOURCE: &str = include_str!("../../kernels/tape/ops.cu");

/// `float` or `double`.
pub(crate) trait Number:
    Differentiable<Gradient = Self> + DeviceRepr + Pod + PartialEq + std::fmt::Debug + Send + Sync
{
    const SUFFIX: &'static str;
    const ELEMENT: Element;
    fn of(value: f64) -> Self;
    fn to(self) -> f64;
}

impl Number for f32 {
    const SUFFIX: &'static str = "f32";
    const ELEMENT: Element = Element::F32;
    fn of(value: f64) -> Self {
        value as f32
    }
    fn to(self) -> f64 {
        self.into()
    }
}

impl Number for f64 {
    const SUFFIX: &'static str = "f64";
    const ELEMENT: Element = Element::F64;
    fn of(value: f64) -> Self {
        value
    }
    fn to(self) -> f64 {
        self
    }
}

/// The operations of one type.
pub(crate) struct Ops {
    pub(crate) scale: Op,
    pub(crate) square_add: Op,
    pub(crate) bend: Op,
    pub(crate) multiply: Op,
    /// As `multiply`, whose factors may overlap.
    pub(crate) multiply_shared: Op,
    pub(crate) energy: Op,
    pub(crate) gather: Op,
    pub(crate) power: Op,
    pub(crate) power_times: Op,
    pub(crate) split: Op,
    pub(crate) times: Op,
    pub(crate) look_up: Op,
    pub(crate) series: Op,
}

pub(crate) fn module(device: &TestDevice) -> Result<Module> {
    Module::compile(device.context(), tape::program(SOURCE).name("ops.cu"))
}

fn reads<T: Number>(name: &'static str) -> Param {
    Param::buffer(name, <T as Number>::ELEMENT).reads(Primal::Entry).len("n").covers_all().active()
}

fn out<T: Number>() -> Param {
    written::<T>("out")
}

fn written<T: Number>(name: &'static str) -> Param {
    Param::buffer(name, <T as Number>::ELEMENT).overwrites().len("n").covers_all().active()
}

/// The specification of an operation, and registers it.
pub(crate) fn op<T: Number>(module: &Module, name: &str, params: Vec<Param>) -> Result<Op> {
    register(module, spec::<T>(name, params).log(|_| 0))
}

pub(crate) fn spec<T: Number>(name: &str, params: Vec<Param>) -> OpSpec {
    let spec = OpSpec::new(format!("{name}_{}", T::SUFFIX));
    params.into_iter().fold(spec, OpSpec::param)
}

pub(crate) fn register(module: &Module, spec: OpSpec) -> Result<Op> {
    // SAFETY: thread i of the kernels of ops.cu touches element i of each buffer, and only if i < n; those
    // that take an index or a structure are given such as lead to elements that there are.
    unsafe { spec.register(module) }
}

impl Ops {
    pub(crate) fn of<T: Number>(device: &TestDevice) -> std::result::Result<Self, Failure> {
        Self::in_module::<T>(&module(device)?)
    }

    /// Those of a module that may have been compiled otherwise.
    pub(crate) fn in_module<T: Number>(module: &Module) -> std::result::Result<Self, Failure> {
        let element = <T as Number>::ELEMENT;
        let n = || Param::value("n");
        Ok(Self {
            scale: op::<T>(
                module,
                "scale",
                vec![Param::scalar("a", element).active(), reads::<T>("x"), out::<T>(), n()],
            )?,
            square_add: op::<T>(
                module,
                "square_add",
                vec![
                    reads::<T>("x"),
                    Param::buffer("y", element).accumulates().len("n").active(),
                    n(),
                ],
            )?,
            bend: op::<T>(
                module,
                "bend",
                vec![
                    Param::buffer("x", element)
                        .updates(Primal::Entry)
                        .len("n")
                        .covers_all()
                        .active(),
                    n(),
                ],
            )?,
            multiply: op::<T>(
                module,
                "multiply",
                vec![reads::<T>("x"), reads::<T>("y"), out::<T>(), n()],
            )?,
            multiply_shared: register(
                module,
                spec::<T>(
                    "multiply_shared",
                    vec![
                        Param::buffer("x", element).reads(Primal::Entry).len("n").active(),
                        Param::buffer("y", element).reads(Primal::Entry).len("n").active(),
                        out::<T>(),
                        n(),
                    ],
                )
                .log(|launch: &LaunchConfig| launch.threads() as usize * 2),
            )?,
            energy: op::<T>(
                module,
                "energy",
                vec![
                    reads::<T>("x"),
                    Param::buffer("loss", element).accumulates().len_fixed(1).active(),
                    n(),
                ],
            )?,
            gather: register(
                module,
                spec::<T>(
                    "gather",
                    vec![
                        Param::buffer("x", element).reads(Primal::None).active(),
                        Param::buffer("index", Element::bytes(4)).reads(Primal::Entry).len("n"),
                        out::<T>(),
                        n(),
                    ],
                )
                .log(|launch: &LaunchConfig| launch.threads() as usize),
            )?,
            power: register(
                module,
                spec::<T>("power", vec![reads::<T>("x"), out::<T>(), n()])
                    .scratch(|launch| launch.threads() as usize * 32)
                    .log(|_| 0),
            )?,
            power_times: register(
                module,
                spec::<T>(
                    "power_times",
                    vec![Param::scalar("a", element).active(), reads::<T>("x"), out::<T>(), n()],
                )
                .scratch(|launch| launch.threads() as usize * 32)
                .log(|_| 0),
            )?,
            split: op::<T>(
                module,
                "split",
                vec![
                    reads::<T>("x").with_value(Primal::None),
                    written::<T>("one"),
                    written::<T>("two"),
                    n(),
                ],
            )?,
            times: op::<T>(
                module,
                "times",
                vec![
                    reads::<T>("x"),
                    Param::buffer("y", element)
                        .updates(Primal::Entry)
                        .len("n")
                        .covers_all()
                        .active(),
                    n(),
                ],
            )?,
            look_up: register(
                module,
                spec::<T>(
                    "look_up",
                    vec![
                        Param::structure("table", 16)
                            .pointer(0, element)
                            .reads(Primal::Entry)
                            .active(),
                        out::<T>(),
                        n(),
                    ],
                )
                .log(|launch: &LaunchConfig| launch.threads() as usize),
            )?,
            series: register(
                module,
                spec::<T>(
                    "series",
                    vec![reads::<T>("x").with_value(Primal::None), out::<T>(), n()],
                )
                .log(|_| 0)
                .counted_primal(format!("series_{}_primal", T::SUFFIX)),
            )?,
        })
    }
}

/// `Table` of ops.cu: a view of values, in a structure.
pub(crate) struct Table<'a, T>(pub(crate) DeviceSlice<'a, T>);

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawTable {
    values: u64,
    length: u32,
    unused: u32,
}
// SAFETY: repr(C), and the fields of Table in ops.cu.
unsafe impl DeviceRepr for RawTable {}

// SAFETY: the kernels read the values, as many as the length says.
unsafe impl<T: Number> KernelArg for &Table<'_, T> {
    type Abi = RawTable;
    const TYPE: ArgType = ArgType::value::<RawTable>();

    fn abi(&self) -> RawTable {
        RawTable { values: self.0.device_ptr(), length: self.0.len() as u32, unused: 0 }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        visitor.visit(self.0.allocation(), self.0.byte_range(), cuda_safe::Access::Read)
    }
}

/// A launch of `n` threads, in blocks of 64.
pub(crate) fn threads(n: usize) -> LaunchConfig {
    LaunchConfig::cover(n, 64)
}

/// Numbers from -1 to 1, which `T` holds exactly.
pub(crate) fn numbers<T: Number>(rng: &mut Rng, n: usize) -> Vec<T> {
    (0..n).map(|_| T::of(f64::from(rng.float()))).collect()
}
