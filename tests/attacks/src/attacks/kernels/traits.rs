//! Attacks on the traits of declared kernels that safe code may implement: views, shapes, sources.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_safe::{
    Context, DeviceBuffer, DeviceSlice, DeviceSliceMut, GraphExec, IntoLaunchConfig, KernelSource,
    LaunchConfig, Module, ReadView, Result, Stream, WriteView, kernels,
};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

kernels! {
    struct Fill;
    // SAFETY: thread i writes element i if i < n; `add` reads element i of y besides.
    unsafe in r#"
        extern "C" __global__ void fill(unsigned v, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = v;
        }
        extern "C" __global__ void add(const unsigned* y, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += y[i];
        }
    "# {
        safe fn fill(#[any] v: u32, x: &mut [u32], n: u32) where n <= x.len();
        safe fn add(y: &[u32], x: &mut [u32], n: u32) where n <= x.len(), n <= y.len();
    }
}

/// Views and shapes that change each time somebody asks.
struct Fickle<'a> {
    asked: &'a Cell<usize>,
    long: &'a DeviceBuffer<u32>,
}

impl<'a> ReadView<'a, u32> for &'a Fickle<'_> {
    fn read_view(self) -> DeviceSlice<'a, u32> {
        let asked = self.asked.replace(self.asked.get() + 1);
        let long = self.long.as_slice();
        if asked.is_multiple_of(2) { long } else { long.slice(..1).unwrap_or(long) }
    }
}

struct Shape<'a>(&'a Cell<usize>);

impl IntoLaunchConfig for Shape<'_> {
    fn into_launch_config(self) -> LaunchConfig {
        match self.0.replace(self.0.get() + 1) % 2 {
            0 => LaunchConfig::cover(64, 32),
            _ => LaunchConfig::new((2, 2), 32),
        }
    }
}

/// Passes arguments whose views and shapes differ from one question to the next.
///
/// - row: launching foreign code is unsafe
/// - targets: `ReadView::read_view`, `IntoLaunchConfig::into_launch_config`, `DeviceSlice::slice`
fn views_that_change(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Fill::load(&context)?;
    let y = DeviceBuffer::from_slice(&stream, &[2u32; 64])?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
    let mut launched = 0;
    for start in 0..4 {
        let (asked, shaped) = (Cell::new(start), Cell::new(start / 2));
        let view = Fickle { asked: &asked, long: &y };
        let result = k.add(&stream, Shape(&shaped), &view, &mut x, 64);
        // What was asked first counts: a short view is refused, and so is a shape in two directions.
        ensure_eq!(result.is_ok(), start == 0, "start {start}");
        launched += u32::from(result.is_ok());
        ensure!(asked.get() <= start + 1, "the view was asked for {} times", asked.get() - start);
        ensure!(shaped.get() <= start / 2 + 1, "the shape was asked for more than once");
    }
    ensure_eq!(launched, 1);
    ensure_eq!(x.to_vec(&stream)?, [2; 64]);
    Ok(())
}

/// A view that uses the device when it is asked for.
struct Reentrant<'a> {
    stream: &'a Stream,
    kernels: &'a Fill,
    graph: &'a mut GraphExec<'static, DeviceBuffer<u32>>,
    panics: bool,
}

impl<'a> WriteView<'a, u32> for &'a mut Reentrant<'_> {
    fn write_view(self) -> DeviceSliceMut<'a, u32> {
        let done = (|| {
            self.graph.launch(self.stream)?;
            let seen = self.graph.state().to_vec(self.stream)?;
            self.kernels.fill(self.stream, (1, 64), seen[0] + 1, self.graph.state_mut(), 64)?;
            self.stream.synchronize()
        })();
        if self.panics || done.is_err() {
            std::panic::panic_any("in a view");
        }
        self.graph.state_mut().as_slice_mut()
    }
}

/// Launches a graph, a kernel and a download inside the question for an argument's view, and panics there.
///
/// - row: launching foreign code is unsafe
/// - row: nothing slips in between
/// - targets: `WriteView::write_view`, `GraphExec::launch`, `GraphExec::state_mut`
fn views_that_launch(lab: &Lab) -> TestResult {
    let (context, stream, other) = (lab.context()?, lab.stream()?, lab.stream()?);
    let k = Fill::load(&context)?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
    let mut graph = context.capture(x, |s, x| x.fill(s, 7))?;
    let y = DeviceBuffer::from_slice(&other, &[100u32; 64])?;
    for panics in [false, true, false] {
        let mut view = Reentrant { stream: &other, kernels: &k, graph: &mut graph, panics };
        let caught = catch_unwind(AssertUnwindSafe(|| k.add(&stream, (1, 64), &y, &mut view, 64)));
        ensure_eq!(caught.is_err(), panics);
        if let Ok(result) = caught {
            result?;
        }
        let expected = if panics { 8 } else { 108 };
        ensure_eq!(graph.state().to_vec(&stream)?, [expected; 64]);
    }
    Ok(())
}

/// A source that is loaded in another context than it is asked for.
struct Elsewhere(Context);

impl KernelSource for Elsewhere {
    fn load_kernels(self, _: &Context, names: &[&str]) -> Result<Module> {
        let source = r#"extern "C" __global__ void set(unsigned* x) {
            if (blockIdx.x == 0 && threadIdx.x == 0) x[0] = 1;
        }"#;
        source.load_kernels(&self.0, names)
    }
}

/// A source that has no such kernels, or fails, or panics.
struct Nothing(&'static str);

impl KernelSource for Nothing {
    fn load_kernels(self, context: &Context, _: &[&str]) -> Result<Module> {
        match self.0 {
            "panic" => std::panic::panic_any("in a source"),
            "error" => Err(cuda_safe::Error::invalid("on purpose")),
            _ => Module::compile(context, r#"extern "C" __global__ void other(unsigned* x) {}"#),
        }
    }
}

thread_local! {
    /// What the source of `Sources` is made of.
    static SOURCE: Cell<Option<Context>> = const { Cell::new(None) };
    static FAILS: Cell<&'static str> = const { Cell::new("error") };
}

struct Chosen;

impl KernelSource for Chosen {
    fn load_kernels(self, context: &Context, names: &[&str]) -> Result<Module> {
        match SOURCE.take() {
            Some(elsewhere) => Elsewhere(elsewhere).load_kernels(context, names),
            None => Nothing(FAILS.get()).load_kernels(context, names),
        }
    }
}

kernels! {
    struct Sources;
    // SAFETY: the source, if it makes kernels of this name at all, has one that writes element 0 in one thread.
    unsafe in Chosen {
        safe fn set(x: &mut [u32]) where 1 <= x.len();
    }
}

/// Loads kernels by a source that makes a module of another device's context, one without the kernel, none, or
/// panics.
///
/// - row: handles of different contexts or drivers do not mix
/// - row: arguments have the number, sizes, classes
/// - targets: `KernelSource::load_kernels`, `Module::context`
fn sources_that_lie(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let mut x = DeviceBuffer::<u32>::zeroed(&on_a, 4)?;
    let mut y = DeviceBuffer::<u32>::zeroed(&on_b, 4)?;
    SOURCE.set(Some(b.clone()));
    if let Ok(k) = Sources::load(&a) {
        ensure_eq!(k.module().context(), b);
        lab.refused(k.set(&on_a, (1, 1), &mut x), "context")?;
        lab.refused(k.set(&on_b, (1, 1), &mut x), "context")?;
        k.set(&on_b, (1, 1), &mut y)?;
        ensure_eq!(y.to_vec(&on_b)?, [1, 0, 0, 0]);
    }
    ensure_eq!(x.to_vec(&on_a)?, [0; 4]);
    lab.refused(Sources::load(&a), "on purpose")?;
    FAILS.set("without");
    lab.refused(Sources::load(&a), "set")?;
    FAILS.set("panic");
    ensure!(catch_unwind(AssertUnwindSafe(|| Sources::load(&b))).is_err());
    SOURCE.set(Some(a.clone()));
    Sources::load(&a)?.set(&on_a, (1, 1), &mut x)?;
    ensure_eq!(x.to_vec(&on_a)?, [1, 0, 0, 0]);
    Ok(())
}

attacks![
    "kernels",
    right(views_that_change),
    right(views_that_launch),
    right(sources_that_lie).devices(2),
];
