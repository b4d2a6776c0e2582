//! What users do with the safe layer, in small pieces. Tests run them all: with each driver call
//! failing once, and with other contexts current.

use cuda_safe::{
    ConsumeError, Context, DeviceBuffer, Error, Event, LaunchConfig, Module, PinnedBuffer,
    PitchedLayout, Result, Stream, launch,
};

use test_harness::lab::PTX;

/// Runs a scenario's steps, and looks at something after each of them.
pub(super) struct Steps<'a> {
    pub(super) context: &'a Context,
    /// Called after each public call.
    pub(super) after: &'a dyn Fn(),
}

impl Steps<'_> {
    /// Marks the end of a public call.
    fn at<R>(&self, result: Result<R>) -> Result<R> {
        (self.after)();
        result
    }

    fn drop<T>(&self, value: T) {
        drop(value);
        (self.after)();
    }

    fn stream(&self) -> Result<Stream> {
        self.at(self.context.stream())
    }

    fn module(&self) -> Result<Module> {
        self.at(Module::from_ptx(self.context, PTX))
    }
}

pub(super) type Scenario = fn(&Steps<'_>) -> Result<()>;

pub(super) const ALL: &[(&str, Scenario)] = &[
    ("device", device),
    ("streams", streams),
    ("events", events),
    ("modules", modules),
    ("kernels", kernels),
    ("launches", launches),
    ("cooperative", cooperative),
    ("attributes", attributes),
    ("two_streams", two_streams),
    ("parts", parts),
    ("uploads", uploads),
    ("large_copies", large_copies),
    ("fills", fills),
    ("copies", copies),
    ("boxes", boxes),
    ("pinned", pinned),
    ("abandoned", abandoned),
    ("globals", globals),
    ("host_functions", host_functions),
    ("raw_handles", raw_handles),
    ("graphs", graphs),
    ("closing", closing),
    ("closing_after_others", closing_after_others),
    ("upkeep", upkeep),
];

fn device(s: &Steps<'_>) -> Result<()> {
    let device = s.context.device();
    s.at(device.name())?;
    s.at(device.uuid())?;
    s.at(device.pci_bus_id())?;
    s.at(device.total_memory())?;
    s.at(device.compute_capability())?;
    s.at(device.arch())?;
    s.at(device.stream_priorities())?;
    s.at(device.context())?;
    s.at(s.context.driver().version())?;
    s.at(s.context.memory_info())?;
    s.at(s.context.synchronize())
}

fn streams(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let urgent = s.at(Stream::with_priority(s.context, -1))?;
    s.at(urgent.priority())?;
    s.at(urgent.wait_stream(&stream))?;
    s.at(stream.is_done())?;
    s.at(stream.synchronize())?;
    s.drop(stream);
    s.drop(urgent);
    Ok(())
}

fn events(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let start = s.at(Event::timing(s.context))?;
    let end = s.at(Event::timing(s.context))?;
    s.at(start.record(&stream))?;
    s.at(end.record(&stream))?;
    s.at(end.is_done())?;
    s.at(end.synchronize())?;
    s.at(start.elapsed_ms(&end))?;
    s.at(stream.wait_event(&end))?;
    s.drop(start);
    s.drop(stream);
    s.drop(end);
    Ok(())
}

fn modules(s: &Steps<'_>) -> Result<()> {
    let module = s.module()?;
    let kernel = s.at(module.kernel("saxpy"))?;
    s.drop(module);
    s.drop(kernel);
    s.at(s.context.free_deferred())
}

fn kernels(s: &Steps<'_>) -> Result<()> {
    let module = s.module()?;
    let kernel = s.at(module.kernel("saxpy"))?;
    s.at(kernel.attributes())?;
    s.at(kernel.max_active_blocks(256, 0))?;
    s.at(kernel.set_max_dynamic_shared(100_000))?;
    s.at(kernel.load())
}

fn launches(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let saxpy = s.at(s.module()?.kernel("saxpy"))?;
    let x = s.at(DeviceBuffer::<f32>::zeroed(&stream, 100))?;
    let mut out = s.at(DeviceBuffer::<f32>::zeroed(&stream, 100))?;
    for _ in 0..2 {
        // SAFETY: nothing runs on this driver.
        s.at(unsafe { launch!(saxpy<<<1, 128, 0, stream>>>(2.0f32, &x, &x, &mut out, 100u64)) })?;
    }
    s.at(stream.synchronize())?;
    s.drop(x);
    s.drop(out);
    Ok(())
}

fn attributes(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let nothing = s.at(s.module()?.kernel("nothing"))?;
    s.at(nothing.set_non_portable_cluster(true))?;
    // SAFETY: nothing runs on this driver.
    let launch = unsafe { LaunchConfig::new(16, 32).cluster(16).priority(-1).programmatic() };
    // SAFETY: as above.
    s.at(unsafe { nothing.launch(&stream, launch, ()) })
}

fn cooperative(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let nothing = s.at(s.module()?.kernel("nothing"))?;
    let launch = LaunchConfig::new(132, 256).cooperative();
    // SAFETY: nothing runs on this driver.
    s.at(unsafe { nothing.launch(&stream, launch, ()) })
}

fn two_streams(s: &Steps<'_>) -> Result<()> {
    let (home, other) = (s.stream()?, s.stream()?);
    let one = s.at(s.module()?.kernel("one"))?;
    let mut buffer = s.at(DeviceBuffer::<f32>::zeroed(&home, 100))?;
    // SAFETY: nothing runs on this driver.
    s.at(unsafe { one.launch(&other, (1, 1), (0u64, &buffer)) })?;
    // SAFETY: as above.
    s.at(unsafe { one.launch(&home, (1, 1), (0u64, &mut buffer)) })?;
    // SAFETY: as above.
    s.at(unsafe { one.launch(&other, (1, 1), (0u64, &buffer)) })?;
    s.drop(buffer);
    s.drop(other);
    s.drop(home);
    Ok(())
}

fn parts(s: &Steps<'_>) -> Result<()> {
    let (home, other) = (s.stream()?, s.stream()?);
    let one = s.at(s.module()?.kernel("one"))?;
    let mut buffer = s.at(DeviceBuffer::<f32>::zeroed(&home, 100))?;
    let (low, high) = buffer.split_at_mut(50)?;
    // SAFETY: nothing runs on this driver.
    s.at(unsafe { one.launch(&home, (1, 1), (0u64, low)) })?;
    // SAFETY: as above.
    s.at(unsafe { one.launch(&other, (1, 1), (0u64, high)) })?;
    s.at(buffer.to_vec(&other))?;
    s.drop(other);
    s.drop(buffer);
    Ok(())
}

fn uploads(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let mut buffer = s.at(DeviceBuffer::from_slice(&stream, &[1u32; 50_000]))?;
    for _ in 0..12 {
        s.at(buffer.upload(&stream, &[2; 50_000]))?;
    }
    s.at(buffer.to_vec(&stream))?;
    s.drop(stream);
    s.drop(buffer);
    Ok(())
}

fn large_copies(s: &Steps<'_>) -> Result<()> {
    // The calls of several threads come in any order; `threads.rs` looks at those.
    s.context.set_copy_threads(1);
    let stream = s.stream()?;
    let source = vec![3u8; (9 << 20) + 1];
    let buffer = s.at(DeviceBuffer::from_slice(&stream, &source))?;
    s.at(buffer.to_vec(&stream))?;
    s.drop(buffer);
    s.drop(stream);
    Ok(())
}

fn fills(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let mut words = s.at(DeviceBuffer::<u32>::zeroed(&stream, 100))?;
    s.at(words.as_slice_mut().fill(&stream, 0x0102_0304))?;
    let mut halves = s.at(DeviceBuffer::<u16>::zeroed(&stream, 100))?;
    s.at(halves.as_slice_mut().fill(&stream, 0x0102))?;
    let mut triples = s.at(DeviceBuffer::<[u8; 3]>::zeroed(&stream, 100_000))?;
    s.at(triples.as_slice_mut().fill(&stream, [1, 2, 3]))
}

fn copies(s: &Steps<'_>) -> Result<()> {
    let (home, other) = (s.stream()?, s.stream()?);
    let from = s.at(DeviceBuffer::<u64>::zeroed(&home, 100))?;
    let copy = s.at(from.try_clone(&other))?;
    let mut to = s.at(DeviceBuffer::<u64>::zeroed(&home, 50))?;
    let half = copy.slice(50..)?;
    s.at(to.as_slice_mut().copy_from(&home, half))?;
    s.drop(from);
    s.drop(copy);
    s.drop(to);
    Ok(())
}

fn boxes(s: &Steps<'_>) -> Result<()> {
    let (home, other) = (s.stream()?, s.stream()?);
    let extent = (1000, 1100, 3);
    let (to, from) = (PitchedLayout::pitched::<u8>(extent), PitchedLayout::compact(extent));
    let host = vec![5u8; from.len(extent)?];
    let mut first = s.at(DeviceBuffer::<u8>::zeroed(&home, to.len(extent)?))?;
    let mut second = s.at(DeviceBuffer::<u8>::zeroed(&home, to.len(extent)?))?;
    s.at(first.as_slice_mut().upload_3d(&home, to, &host, from, extent))?;
    let part = (500, 1100, 2);
    s.at(second.as_slice_mut().copy_3d_from(&other, to.at(9, 0, 1), &first, to, part))?;
    let mut target = vec![1u8; host.len()];
    s.at(second.as_slice().download_3d(&home, to, &mut target, from, extent))?;
    s.drop(first);
    s.drop(second);
    Ok(())
}

fn pinned(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let source = s.at(PinnedBuffer::from_slice(s.context, &[1u16; 100]))?;
    let mut buffer = s.at(DeviceBuffer::<u16>::zeroed(&stream, 100))?;
    let up = s.at(buffer.as_slice_mut().upload_pinned(&stream, source))?;
    let back = s.at(up.wait())?;
    let down = s.at(buffer.as_slice().download_pinned(&stream, back))?;
    s.at(down.is_done())?;
    let back = s.at(down.wait())?;
    s.drop(back);
    s.at(s.context.free_deferred())
}

fn abandoned(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let mut buffer = s.at(DeviceBuffer::<u16>::zeroed(&stream, 100))?;
    let source = s.at(PinnedBuffer::zeroed(s.context, 100))?;
    let up = s.at(buffer.as_slice_mut().upload_pinned(&stream, source))?;
    s.drop(up);
    let idle = s.at(PinnedBuffer::<u8>::zeroed(s.context, 100))?;
    s.drop(idle);
    s.drop(s.module()?);
    s.at(s.context.free_deferred())
}

fn globals(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let module = s.module()?;
    let table = s.at(module.global::<f32>(&stream, "table"))?;
    s.drop(module);
    s.at(table.write(&stream, &vec![1.0; table.len()]))?;
    s.at(table.read(&stream))?;
    s.drop(table);
    s.at(s.context.free_deferred())
}

fn host_functions(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    s.at(stream.host_function(|| ()))?;
    s.at(stream.synchronize())
}

fn raw_handles(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let buffer = s.at(DeviceBuffer::<u8>::zeroed(&stream, 10))?;
    let address = match buffer.into_raw() {
        Ok(address) => address,
        Err(_) => return Ok(()),
    };
    // SAFETY: given up just now; nothing else uses it.
    let buffer = s.at(unsafe { DeviceBuffer::<u8>::from_raw(&stream, address, 10, None) })?;
    s.drop(buffer);
    let event = s.at(Event::new(s.context))?;
    let raw = event.into_raw();
    // SAFETY: as above.
    s.drop(unsafe { Event::from_raw(s.context, raw, false) });
    // SAFETY: the context outlives this handle to it.
    let foreign = s.at(unsafe { Context::from_raw(s.context.driver(), s.context.as_raw(), ()) })?;
    s.at(foreign.memory_info())?;
    let met = foreign.take_drop_errors().pop();
    s.drop(foreign);
    met.map_or(Ok(()), Err)
}

/// The error alone: what came back with it is dropped.
fn closed<T>(result: Result<(), ConsumeError<T>>) -> Result<()> {
    Ok(result?)
}

fn graphs(s: &Steps<'_>) -> Result<()> {
    let (stream, one) = (s.stream()?, s.at(s.module()?.kernel("one"))?);
    let buffer = s.at(DeviceBuffer::<u8>::zeroed(&stream, 100))?;
    let record = |stream: &Stream, buffer: &mut DeviceBuffer<u8>| {
        s.at(buffer.upload(stream, &[1; 100]))?;
        let other = s.at(stream.fork())?;
        // SAFETY: nothing runs on this driver.
        s.at(unsafe { one.launch(&other, LaunchConfig::new(1, 1), (0u64, &*buffer)) })?;
        s.at(stream.host_function_mut(|| ()))
    };
    let mut graph = s.at(s.context.capture(buffer, record))?;
    s.at(graph.launch(&stream))?;
    s.at(graph.recapture(record))?;
    let mut copy = s.at(graph.try_clone(()))?;
    s.at(copy.launch(&stream))?;
    s.drop(copy);
    let buffer = s.at(graph.close().map_err(Error::from))?;
    s.drop(buffer);
    s.at(s.context.free_deferred())
}

fn closing(s: &Steps<'_>) -> Result<()> {
    let stream = s.stream()?;
    let mut buffer = s.at(DeviceBuffer::<u8>::zeroed(&stream, 100))?;
    let source = s.at(PinnedBuffer::<u8>::zeroed(s.context, 100))?;
    let transfer = s.at(buffer.upload_pinned(&stream, source))?;
    s.at(closed(transfer.close()))?;
    s.at(closed(s.at(PinnedBuffer::<u8>::zeroed(s.context, 100))?.close()))?;
    let event = s.at(Event::new(s.context))?;
    s.at(event.record(&stream))?;
    s.at(closed(event.close()))?;
    let (module, nothing) = (s.module()?, s.at(s.module()?.kernel("nothing"))?);
    s.at(closed(module.close()))?;
    s.at(closed(nothing.close()))?;
    s.at(closed(buffer.close()))?;
    s.at(closed(stream.close()))?;
    s.at(s.context.free_deferred())
}

fn closing_after_others(s: &Steps<'_>) -> Result<()> {
    let (stream, other) = (s.stream()?, s.stream()?);
    let one = s.at(s.module()?.kernel("one"))?;
    let buffer = s.at(DeviceBuffer::from_slice(&stream, &[1u8]))?;
    // SAFETY: nothing runs on this driver.
    s.at(unsafe { one.launch(&other, LaunchConfig::new(1, 1), (0u64, &buffer)) })?;
    s.at(stream.host_function_mut(|| ()))?;
    s.at(closed(buffer.close()))?;
    s.at(closed(stream.close()))?;
    s.at(closed(other.close()))
}

fn upkeep(s: &Steps<'_>) -> Result<()> {
    s.at(s.context.set_pool_release_threshold(1 << 20))?;
    s.at(s.context.trim_pool(0))?;
    let stream = s.stream()?;
    s.drop(s.at(DeviceBuffer::from_slice(&stream, &[1u8]))?);
    s.drop(stream);
    s.at(s.context.free_deferred())?;
    s.at(s.context.synchronize())
}
