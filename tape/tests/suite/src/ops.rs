//! The operations of `kernels/tape/ops.cu`, for numbers of two types.

use bytemuck::Pod;
use cuda_safe::{
    DeviceRepr, DeviceSlice, KernelArg, LaunchConfig, Module, Result,
    arg::{ArgType, UseVisitor},
};
use tape::{Differentiable, DifferentiateError, Element, Op, OpSpec, Param, Primal};

use test_harness::{Failure, Rng, TestDevice};

pub(crate) const SOURCE: &str = include_str!("../kernels/ops.cu");

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

/// How adjoints are made.
#[derive(Clone, Copy)]
enum Made<'a> {
    ByHand,
    /// By [`OpSpec::differentiate`], without effects in the specification.
    Generated(&'a TestDevice),
}

impl Made<'_> {
    fn op<T: Number>(self, module: &Module, name: &str, params: Vec<Param>) -> Result<Op> {
        self.make(module, spec::<T>(name, params), |spec| spec.summands(|_| 0))
    }

    /// `by_hand` says what adjoints by hand need.
    fn make(
        self,
        module: &Module,
        spec: OpSpec,
        by_hand: impl FnOnce(OpSpec) -> OpSpec,
    ) -> Result<Op> {
        match self {
            Self::ByHand => register(module, by_hand(spec)),
            Self::Generated(device) => generate(device, spec).map_err(cuda_safe::Error::from),
        }
    }

    /// Says what the kernel does with a parameter, if that is not derived.
    fn says(self, param: Param, said: impl FnOnce(Param) -> Param) -> Param {
        match self {
            Self::ByHand => said(param),
            Self::Generated(_) => param,
        }
    }

    fn reads<T: Number>(self, name: &'static str) -> Param {
        let param = Param::buffer(name, <T as Number>::ELEMENT).len("n").active();
        self.says(param, |param| param.reads(Primal::Entry).each_element())
    }

    fn written<T: Number>(self, name: &'static str) -> Param {
        let param = Param::buffer(name, <T as Number>::ELEMENT).len("n").active();
        self.says(param, |param| param.overwrites().each_element())
    }
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

/// As [`register`], with an adjoint that is generated.
pub(crate) fn generate(
    device: &TestDevice,
    spec: OpSpec,
) -> std::result::Result<Op, DifferentiateError> {
    let program = tape::program(SOURCE).name("ops.cu");
    // SAFETY: as for `register`.
    unsafe { spec.differentiate(device.context(), &program) }
}

/// Which adjoints the operations of a test have.
pub(crate) trait Adjoints {
    const GENERATED: bool;

    fn ops<T: Number>(device: &TestDevice) -> std::result::Result<Ops, Failure> {
        if Self::GENERATED { Ops::generated::<T>(device) } else { Ops::of::<T>(device) }
    }
}

pub(crate) enum ByHand {}
pub(crate) enum Generated {}

impl Adjoints for ByHand {
    const GENERATED: bool = false;
}
impl Adjoints for Generated {
    const GENERATED: bool = true;
}

impl Ops {
    pub(crate) fn of<T: Number>(device: &TestDevice) -> std::result::Result<Self, Failure> {
        Self::in_module::<T>(&module(device)?)
    }

    /// Those of a module that may have been compiled otherwise.
    pub(crate) fn in_module<T: Number>(module: &Module) -> std::result::Result<Self, Failure> {
        Self::made::<T>(module, Made::ByHand)
    }

    /// Those with generated adjoints.
    pub(crate) fn generated<T: Number>(device: &TestDevice) -> std::result::Result<Self, Failure> {
        Self::made::<T>(&module(device)?, Made::Generated(device))
    }

    fn made<T: Number>(module: &Module, how: Made<'_>) -> std::result::Result<Self, Failure> {
        let element = <T as Number>::ELEMENT;
        let reads = |name| how.reads::<T>(name);
        let written = |name| how.written::<T>(name);
        let out = || how.written::<T>("out");
        let read = |param: Param| param.reads(Primal::Entry);
        let shared = |name| how.says(Param::buffer(name, element).len("n").active(), read);
        let updates = |param: Param| param.updates(Primal::Entry).each_element();
        let n = || Param::value("n");
        Ok(Self {
            scale: how.op::<T>(
                module,
                "scale",
                vec![Param::scalar("a", element).active(), reads("x"), out(), n()],
            )?,
            square_add: how.op::<T>(
                module,
                "square_add",
                vec![
                    reads("x"),
                    how.says(Param::buffer("y", element).len("n").active(), Param::accumulates),
                    n(),
                ],
            )?,
            bend: how.op::<T>(
                module,
                "bend",
                vec![how.says(Param::buffer("x", element).len("n").active(), updates), n()],
            )?,
            multiply: how.op::<T>(module, "multiply", vec![reads("x"), reads("y"), out(), n()])?,
            multiply_shared: how.make(
                module,
                spec::<T>("multiply_shared", vec![shared("x"), shared("y"), out(), n()]),
                |spec| spec.summands(|launch: &LaunchConfig| launch.threads() as usize * 2),
            )?,
            energy: how.op::<T>(
                module,
                "energy",
                vec![
                    reads("x"),
                    how.says(
                        Param::buffer("loss", element).len_fixed(1).active(),
                        Param::accumulates,
                    ),
                    n(),
                ],
            )?,
            gather: how.make(
                module,
                spec::<T>(
                    "gather",
                    vec![
                        how.says(Param::buffer("x", element).active(), |x| x.reads(Primal::None)),
                        Param::buffer("index", Element::bytes(4)).reads(Primal::Entry).len("n"),
                        out(),
                        n(),
                    ],
                ),
                |spec| spec.summands(|launch: &LaunchConfig| launch.threads() as usize),
            )?,
            power: how.make(module, spec::<T>("power", vec![reads("x"), out(), n()]), |spec| {
                spec.scratch(|launch| launch.threads() as usize * 32).summands(|_| 0)
            })?,
            power_times: how.make(
                module,
                spec::<T>(
                    "power_times",
                    vec![Param::scalar("a", element).active(), reads("x"), out(), n()],
                ),
                |spec| spec.scratch(|launch| launch.threads() as usize * 32).summands(|_| 0),
            )?,
            split: how.op::<T>(
                module,
                "split",
                vec![
                    how.says(reads("x"), |x| x.with_value(Primal::None)),
                    written("one"),
                    written("two"),
                    n(),
                ],
            )?,
            times: how.op::<T>(
                module,
                "times",
                vec![
                    reads("x"),
                    how.says(Param::buffer("y", element).len("n").active(), updates),
                    n(),
                ],
            )?,
            look_up: how.make(
                module,
                spec::<T>(
                    "look_up",
                    vec![
                        Param::structure("table", 16)
                            .pointer(0, element)
                            .reads(Primal::Entry)
                            .active(),
                        out(),
                        n(),
                    ],
                ),
                |spec| spec.summands(|launch: &LaunchConfig| launch.threads() as usize),
            )?,
            series: how.make(
                module,
                spec::<T>(
                    "series",
                    vec![how.says(reads("x"), |x| x.with_value(Primal::None)), out(), n()],
                ),
                |spec| spec.summands(|_| 0).two_pass_primal(format!("series_{}_primal", T::SUFFIX)),
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
