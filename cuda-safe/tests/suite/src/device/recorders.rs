//! Every method that takes a stream, or is one of a stream, on the streams that are none of the driver's
//! queues: one that records, the one of a change of a node, and one whose recording has ended. Each does what
//! it promises or is refused before the driver is asked: a null stream, or one that is gone, is the driver's
//! default stream or nothing.

use std::cell::RefCell;

use cuda_safe::{
    DeviceBuffer, Event, Extent, GraphExec, PinnedBuffer, PitchedLayout, Result, Stream,
    UnifiedBuffer,
};

use super::checks::{named, no_drop_errors};
use test_harness::programs::{BASIC, Basic};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "recorders",
        device(while_recording),
        device(while_a_node_changes),
        device(after_the_recording),
        device(other_threads_are_refused),
        device(memory_behind_a_lock),
    ]
}

const N: usize = 64;
const SHAPE: (u32, u32) = (1, 64);

/// Where a method works.
#[derive(Clone, Copy, PartialEq)]
enum Works {
    /// On ordinary streams alone.
    Never,
    /// It can be recorded.
    Recorded,
    /// It asks neither the stream nor the driver.
    Always,
}

type Call<'t> = Box<dyn Fn(&Stream) -> Result<()> + 't>;

struct Method<'t> {
    name: &'static str,
    works: Works,
    call: Call<'t>,
}

/// What the methods are called with.
struct Things<'d> {
    device: &'d TestDevice,
    ordinary: Stream,
    basic: Basic,
    event: Event,
    x: RefCell<DeviceBuffer<u32>>,
    y: DeviceBuffer<u32>,
    wide: RefCell<DeviceBuffer<[u32; 3]>>,
    flag: RefCell<DeviceBuffer<u32>>,
    managed: UnifiedBuffer<u32>,
    graph: RefCell<GraphExec<'static, DeviceBuffer<u32>>>,
}

impl<'d> Things<'d> {
    fn new(device: &'d TestDevice) -> std::result::Result<Self, Failure> {
        let stream = device.stream()?;
        let zeroed = || DeviceBuffer::<u32>::zeroed(&stream, N);
        let graph = device.context().capture(zeroed()?, |stream, data| data.fill(stream, 1))?;
        Ok(Self {
            device,
            basic: Basic::of(device)?,
            event: Event::new(device.context())?,
            x: RefCell::new(zeroed()?),
            y: zeroed()?,
            wide: RefCell::new(DeviceBuffer::zeroed(&stream, N)?),
            flag: RefCell::new(zeroed()?),
            managed: UnifiedBuffer::pinned(&stream, N)?,
            graph: RefCell::new(graph),
            ordinary: stream,
        })
    }

    fn pinned(&self) -> Result<PinnedBuffer<u32>> {
        PinnedBuffer::zeroed(self.device.context(), N)
    }

    fn methods(&self) -> Vec<Method<'_>> {
        use Works::{Always, Never, Recorded};
        let mut all = Vec::new();
        macro_rules! method {
            ($works:ident, $name:literal, $call:expr) => {
                all.push(Method { name: $name, works: $works, call: Box::new($call) });
            };
        }
        let n = N as u64;
        let layout = PitchedLayout::compact(Extent::from((N, 1, 1)));
        method!(Never, "Stream::synchronize", |s| s.synchronize());
        method!(Never, "Stream::is_done", |s| s.is_done().map(drop));
        method!(Never, "Stream::wait_event", |s| s.wait_event(&self.event));
        method!(Never, "Stream::wait_stream", |s| s.wait_stream(&self.ordinary));
        method!(Never, "Stream::wait_stream of it", |s| self.ordinary.wait_stream(s));
        method!(Never, "Stream::host_function", |s| s.host_function(|| ()));
        method!(Recorded, "Stream::host_function_mut", |s| s.host_function_mut(|| ()));
        method!(Recorded, "Stream::priority", |s| s.priority().map(drop));
        method!(Recorded, "Stream::fork", |s| s.fork().map(drop));
        method!(Never, "Stream::last_node", |s| s.last_node().map(drop));
        method!(Never, "Stream::mark", |s| s.mark().map(drop));
        method!(Never, "Stream::wait_mark", |s| s.wait_mark(&self.ordinary.mark()?));
        method!(Always, "Stream::graph_lock", |s| {
            s.graph_lock([self.y.allocation()]).run(|| Ok(()))
        });
        method!(Recorded, "Stream::enqueue", |s| {
            // SAFETY: nothing is enqueued.
            let null = unsafe { s.enqueue((&self.y,), |raw| raw.is_null()) }?;
            match null {
                true => Err(cuda_safe::Error::invalid("a null stream was handed out")),
                false => Ok(()),
            }
        });
        method!(Never, "Stream::into_raw", |s| { Ok(s.clone().into_raw().map(drop)?) });
        method!(Never, "Stream::close", |s| Ok(s.clone().close()?));
        method!(Recorded, "Stream::record_if", |s| s.record_if(&*self.flag.borrow(), |_| Ok(())));
        method!(Recorded, "Stream::record_while", |s| {
            s.record_while(&mut *self.flag.borrow_mut(), |_, _| Ok(()))
        });
        method!(Recorded, "Event::record", |s| Event::new(self.device.context())?.record(s));
        method!(Recorded, "Kernel::launch", move |s| {
            self.device.count(self.basic.fill(s, SHAPE, &mut *self.x.borrow_mut(), n, 1))
        });
        method!(Recorded, "DeviceBuffer::zeroed", |s| {
            DeviceBuffer::<u32>::zeroed(s, N).map(drop)
        });
        method!(Recorded, "DeviceBuffer::from_slice", |s| {
            DeviceBuffer::from_slice(s, &[1u32; N]).map(drop)
        });
        method!(Recorded, "DeviceBuffer::uninit", |s| {
            DeviceBuffer::<std::mem::MaybeUninit<u32>>::uninit(s, N).map(drop)
        });
        method!(Recorded, "DeviceBuffer::try_clone", |s| self.y.try_clone(s).map(drop));
        method!(Never, "DeviceBuffer::from_raw", |s| {
            // SAFETY: the memory outlives the buffer, whose token frees nothing.
            let made = unsafe {
                DeviceBuffer::<u32>::from_raw(s, self.y.device_ptr(), N, Some(Box::new(())))
            };
            made.map(drop)
        });
        method!(Recorded, "fill", |s| self.x.borrow_mut().fill(s, 0x0101_0101));
        method!(Recorded, "fill with words", |s| self.x.borrow_mut().fill(s, 0x0102_0304));
        method!(Recorded, "fill with a pattern", |s| self.wide.borrow_mut().fill(s, [1, 2, 3]));
        method!(Recorded, "upload", |s| self.x.borrow_mut().upload(s, &[1; N]));
        method!(Never, "download", |s| self.y.download(s, &mut [0; N]));
        method!(Never, "to_vec", |s| self.y.to_vec(s).map(drop));
        method!(Recorded, "copy_from", |s| self.x.borrow_mut().copy_from(s, &self.y));
        method!(Recorded, "copy_from_peer", |s| {
            self.x.borrow_mut().as_slice_mut().copy_from_peer(s, &self.y)
        });
        method!(Recorded, "upload_3d", move |s| {
            let extent = (N, 1, 1);
            let mut x = self.x.borrow_mut();
            x.as_slice_mut().upload_3d(s, layout, &[1; N], layout, extent)
        });
        method!(Recorded, "copy_3d_from", move |s| {
            let mut x = self.x.borrow_mut();
            x.as_slice_mut().copy_3d_from(s, layout, &self.y, layout, (N, 1, 1))
        });
        method!(Never, "download_3d", move |s| {
            self.y.as_slice().download_3d(s, layout, &mut [0; N], layout, (N, 1, 1))
        });
        method!(Never, "upload_pinned", |s| {
            self.x.borrow_mut().upload_pinned(s, self.pinned()?).map(drop)
        });
        method!(Never, "download_pinned", |s| {
            self.y.download_pinned(s, self.pinned()?).map(drop)
        });
        method!(Never, "UnifiedBuffer::pinned", |s| UnifiedBuffer::<u32>::pinned(s, N).map(drop));
        method!(Never, "UnifiedBuffer::managed", |s| {
            UnifiedBuffer::<u32>::managed(s, N).map(drop)
        });
        method!(Never, "UnifiedBuffer::register", |s| {
            UnifiedBuffer::register(s, vec![0u32; N]).map(drop)
        });
        method!(Never, "UnifiedBuffer::prefetch", |s| self.managed.prefetch_to_device(s));
        method!(Recorded, "a copy of unified memory", |s| {
            self.x.borrow_mut().copy_from(s, &self.managed)
        });
        method!(Never, "Module::global", |s| {
            let module = self.device.module(&BASIC);
            let module = module.map_err(|_| cuda_safe::Error::invalid("no module"))?;
            module.global::<u32>(s, "counters").map(drop)
        });
        method!(Recorded, "GraphExec::launch", |s| self.graph.borrow_mut().launch(s));
        method!(Never, "GraphExec::upload", |s| self.graph.borrow_mut().upload(s));
        all
    }

    /// All things are as usable as before.
    fn still_work(&self) -> TestResult {
        self.graph.borrow_mut().launch(&self.ordinary)?;
        self.ordinary.priority()?;
        self.x.borrow_mut().copy_from(&self.ordinary, &self.y)?;
        self.device.stream()?.synchronize()?;
        self.ordinary.synchronize()?;
        no_drop_errors(self.device.context())
    }
}

impl Method<'_> {
    /// The result is what it must be, and an error is none of the driver.
    fn check(&self, works: bool, result: Option<Result<()>>) -> TestResult {
        let name = self.name;
        match result {
            None => Err(Failure::new(format!("{name}: was not called"))),
            Some(Ok(())) => {
                ensure!(works, "{name}: works, and nothing can come of it");
                Ok(())
            }
            Some(Err(error)) => {
                ensure!(error.code().is_none(), "{name}: the driver was asked: {error}");
                ensure!(!works, "{name}: {error}");
                Ok(())
            }
        }
    }
}

fn while_recording(device: &TestDevice) -> TestResult {
    let things = Things::new(device)?;
    for method in things.methods() {
        let mut result = None;
        let captured = device.context().capture((), |stream, ()| {
            result = Some((method.call)(stream));
            Ok(())
        });
        let made = captured.map(drop);
        if let (None, Err(error)) = (&result, &made) {
            // The capture did not begin.
            return Err(error.clone().into());
        }
        method.check(method.works != Works::Never, result)?;
        ensure!(made.is_ok(), "{}: spoils the capture: {made:?}", method.name);
    }
    things.still_work()
}

fn while_a_node_changes(device: &TestDevice) -> TestResult {
    let things = Things::new(device)?;
    let (basic, n) = (&things.basic, N as u64);
    let mut data = DeviceBuffer::<u32>::zeroed(&things.ordinary, N)?;
    for method in things.methods() {
        // A launch is what the closure is for.
        let (launch, mut result) = (method.name == "Kernel::launch", None);
        let mut graph = device.context().capture((), |stream, ()| {
            device.count(basic.fill(stream, SHAPE, &mut data, n, 1))?;
            stream.last_node().map(drop)
        })?;
        let node = named(&graph)?;
        let updated = graph.update(node, |stream, ()| {
            result = Some((method.call)(stream));
            if launch {
                return Ok(());
            }
            let mut x = things.x.borrow_mut();
            device.count(basic.fill(stream, SHAPE, &mut *x, n, 2))
        });
        ensure!(updated.is_ok(), "{}: spoils the change: {updated:?}", method.name);
        drop(graph);
        method.check(launch || method.works == Works::Always, result)?;
        things.still_work()?;
    }
    Ok(())
}

fn after_the_recording(device: &TestDevice) -> TestResult {
    let things = Things::new(device)?;
    let mut of_capture = None;
    let captured = device.context().capture((), |stream, ()| {
        of_capture = Some(stream.clone());
        Ok(())
    })?;
    let (basic, n) = (&things.basic, N as u64);
    let mut of_change = None;
    let mut data = DeviceBuffer::<u32>::zeroed(&things.ordinary, N)?;
    let mut changed = device.context().capture((), |stream, ()| {
        device.count(basic.fill(stream, SHAPE, &mut data, n, 1))?;
        stream.last_node().map(drop)
    })?;
    let node = named(&changed)?;
    changed.update(node, |stream, ()| {
        of_change = Some(stream.clone());
        let mut x = things.x.borrow_mut();
        device.count(basic.fill(stream, SHAPE, &mut *x, n, 2))
    })?;
    drop((captured, changed));
    for ended in [of_capture, of_change] {
        let ended = ended.ok_or_else(|| Failure::new("no stream was kept".to_owned()))?;
        for method in things.methods() {
            let result = (method.call)(&ended);
            method.check(method.works == Works::Always, Some(result))?;
        }
    }
    things.still_work()
}

/// A graph can't keep borrowed what another thread has borrowed, so only the closure's thread records: in a
/// capture, on its forks, in a body and in a change. Forks and bodies of the thread work, and an attempt of
/// another thread spoils nothing.
fn other_threads_are_refused(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let (basic, n) = (&basic, N as u64);
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
    let mut bodies = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let refused = RefCell::new(Vec::new());
    // The thread borrows `x` for itself alone, as the reproducer did.
    let elsewhere = |recording: &Stream, x: &mut DeviceBuffer<u32>| {
        let recording = recording.clone();
        let results = std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let filled = x.fill(&recording, 9);
                let forked = recording.fork().map(drop);
                let body = recording.record_if(&*x, |_| Ok(()));
                let made = DeviceBuffer::<u32>::zeroed(&recording, N).map(drop);
                [filled, forked, body, made, recording.priority().map(drop)]
            });
            thread.join()
        });
        refused.borrow_mut().extend(results.into_iter().flatten());
    };
    let mut graph = device.context().capture((), |stream, ()| {
        elsewhere(stream, &mut x);
        let side = stream.fork()?;
        elsewhere(&side, &mut x);
        device.count(basic.fill(&side, SHAPE, &mut out, n, 3))?;
        stream.wait_stream(&side)?;
        stream.record_if(&flag, |stream| {
            elsewhere(stream, &mut x);
            device.count(basic.fill(stream, SHAPE, &mut bodies, n, 4))
        })?;
        device.count(basic.add(stream, SHAPE, &mut out, n, 1))?;
        stream.last_node().map(drop)
    })?;
    graph.launch(&stream)?;
    let node = named(&graph)?;
    let mut y = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut z = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut changed = device.context().capture((), |stream, ()| {
        device.count(basic.add(stream, SHAPE, &mut y, n, 1))?;
        stream.last_node().map(drop)
    })?;
    ensure!(changed.update(node, |_, ()| Ok(())).is_err(), "a node of another graph");
    let node = named(&changed)?;
    // A graph may be changed by another thread than the one that has recorded it.
    let updated = std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            changed.update(node, |stream, ()| {
                let other = stream.clone();
                let refused = std::thread::spawn(move || other.fork().map(drop)).join();
                let Ok(Err(_)) = refused else {
                    return Err(cuda_safe::Error::invalid("a thread was let in"));
                };
                device.count(basic.add(stream, SHAPE, &mut z, n, 5))
            })
        });
        changing.join()
    });
    updated.map_err(|_| Failure::new("a thread panicked".to_owned()))??;
    changed.launch(&stream)?;
    drop((graph, changed));
    let refused = refused.into_inner();
    ensure!(refused.len() == 15, "{} attempts", refused.len());
    for result in refused {
        super::checks::is_invalid(result, "only the thread that runs a recording's closure")?;
    }
    for (buffer, value) in [(&x, 0), (&out, 4), (&bodies, 4), (&y, 0), (&z, 5)] {
        super::checks::all_are(buffer, &stream, value)?;
    }
    no_drop_errors(device.context())
}

/// What is guaranteed for memory that a closure reaches behind a lock, or has made and moved elsewhere, and
/// that nothing keeps borrowed: it lives as long as the graph, the device orders launches with other uses, and
/// values may change between two reads of one view.
fn memory_behind_a_lock(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let shared = std::sync::Mutex::new(DeviceBuffer::<u32>::zeroed(&stream, N)?);
    let locked = || shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (give, take) = std::sync::mpsc::channel();
    let home = &stream;
    let mut graph = device.context().capture((), move |stream, ()| {
        locked().fill(stream, 9)?;
        let mut made = DeviceBuffer::<u32>::zeroed(home, N)?;
        made.fill(stream, 8)?;
        let _ = give.send(made);
        Ok(())
    })?;
    let moved = take.recv().map_err(|_| Failure::new("nothing was made".to_owned()))?;
    let guard = locked();
    let views = [guard.as_slice(), moved.as_slice()];
    for view in views {
        ensure!(view.to_vec(&other)? == vec![0; N], "before a launch");
    }
    graph.launch(&stream)?;
    // Read on another stream, and ordered behind the launch.
    for (view, value) in views.into_iter().zip([9, 8]) {
        ensure!(view.to_vec(&other)? == vec![value; N], "after a launch");
    }
    // The graph keeps the memory.
    drop((guard, moved));
    graph.launch(&other)?;
    other.synchronize()?;
    no_drop_errors(device.context())
}
