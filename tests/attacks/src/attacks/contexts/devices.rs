//! Attacks with two devices: foreign handles, peers, graphs of one device's memory on the other.

use cuda_safe::{
    Context, DeviceBuffer, Driver, Event, GraphBuilder, Module, PinnedBuffer, Stream,
    UnifiedBuffer, sys,
};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::attacks::graphs::kit::{Kit, LEN, N, all, on_purpose, unnamed};
use crate::lab::Lab;

/// Gives handles of one device's context to every call of the other's.
///
/// - row: handles of different contexts or drivers do not mix
/// - targets: `GraphExec::launch`, `GraphExec::upload`, `GraphExec::update`, `Module::global`,
///   `DeviceBuffer::upload_pinned`, `GraphBuilder::add`, `UnifiedBuffer::copy_from`
fn every_call_with_strangers(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let (kit_a, kit_b) = (Kit::load(&a)?, Kit::load(&b)?);
    let (kit_a, kit_b) = (&kit_a, &kit_b);
    let mut of_b = DeviceBuffer::from_slice(&on_b, &[7u32; N])?;
    let mine = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    let mut foreign = b.capture((), |_, ()| Ok(()))?;
    let x = DeviceBuffer::<u32>::zeroed(&on_a, N)?;
    let mut graph = a.capture(x, |s, x| {
        kit_a.add(s, all(), 1, &mut *x, LEN)?;
        s.last_node()?;
        // Nothing of the other context gets in.
        let refused = [
            kit_b.add(s, all(), 1, &mut *x, LEN).is_err(),
            kit_a.mix(s, all(), &of_b, &mut *x, LEN).is_err(),
            x.copy_from(s, &of_b).is_err(),
            s.wait_stream(&on_b).is_err(),
            on_b.wait_stream(s).is_err(),
        ];
        if refused.contains(&false) { Err(on_purpose()) } else { Ok(()) }
    })?;
    let node = graph.nodes().next().ok_or_else(unnamed)?;
    lab.refused(graph.launch(&on_b), "context")?;
    lab.refused(graph.upload(&on_b), "the graph belongs to another context than the stream")?;
    lab.refused(graph.update(node, |s, x| kit_b.add(s, all(), 1, x, LEN)), "context")?;
    lab.refused(
        graph.update(node, |s, x| kit_a.mix(s, all(), &mine, x, LEN)),
        "a graph can't use a buffer of another context",
    )?;
    lab.refused(graph.recapture(|s, _| foreign.launch(s)), "context")?;
    graph.launch(&on_a)?;
    ensure_eq!(graph.state().to_vec(&on_a)?, [1; N]);
    drop(graph);
    let mut builder = GraphBuilder::new(&a, ())?;
    lab.refused(
        builder.add(&[], |s, ()| kit_a.add(s, all(), 1, &mut of_b, LEN)),
        "a graph can't use a buffer of another context",
    )?;
    drop(builder);
    let module = Module::compile(&b, "__device__ unsigned weight = 4;")?;
    lab.refused(module.global::<u32>(&on_a, "weight"), "context")?;
    let global = module.global::<u32>(&on_b, "weight")?;
    lab.refused(global.read(&on_a), "context")?;
    lab.refused(global.write(&on_a, &[1]), "context")?;
    let pinned = PinnedBuffer::from_slice(&a, &[9u32; N])?;
    if let Ok(transfer) = of_b.upload_pinned(&on_b, pinned) {
        // Host memory of one context may serve the other's, or not.
        ensure_eq!(transfer.wait()?[..], [9; N]);
        ensure_eq!(of_b.to_vec(&on_b)?, [9; N]);
    }
    let mut unified = UnifiedBuffer::<u32>::managed(&on_a, N)?;
    lab.refused(unified.copy_from(&on_b, &of_b), "context")?;
    lab.refused(unified.prefetch_to_device(&on_b), "context")?;
    lab.refused(
        kit_b.add(&on_b, all(), 1, &mut unified, LEN),
        "the buffer belongs to another context than the stream it is used on",
    )?;
    ensure!(DeviceBuffer::<u32>::zeroed(&on_a, N)?.try_clone(&on_b).is_err());
    ensure_eq!(unified.host()?[..], [0; N]);
    ensure_eq!(global.read(&on_b)?, [4]);
    Ok(())
}

/// Waits on one device for streams, marks and events of the other, and copies in the order that follows.
///
/// - row: handles of different contexts or drivers do not mix
/// - row: memory of a peer is used only where
/// - targets: `Stream::wait_event`, `Stream::wait_stream`, `Stream::wait_mark`, `DeviceSliceMut::copy_from_peer`
fn waits_across_devices(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let (kit_a, kit_b) = (Kit::load(&a)?, Kit::load(&b)?);
    let mut x = DeviceBuffer::<u32>::zeroed(&on_a, N)?;
    let mut y = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    let event = Event::new(&a)?;
    let mut expected = 0u32;
    for round in 0..8 {
        kit_a.add(&on_a, all(), round, &mut x, LEN)?;
        expected += round;
        // May be refused; if it is not, it must not hang or fail later.
        match lab.variant() {
            "event" => drop(event.record(&on_a).and_then(|()| on_b.wait_event(&event))),
            "stream" => drop(on_b.wait_stream(&on_a)),
            "mark" => drop(on_a.mark().and_then(|mark| on_b.wait_mark(&mark))),
            _ => {}
        }
        let on = if round % 2 == 0 { &on_a } else { &on_b };
        y.as_slice_mut().copy_from_peer(on, &x)?;
        kit_b.add(&on_b, all(), 1, &mut y, LEN)?;
        expected += 1;
        x.as_slice_mut().copy_from_peer(if round % 3 == 0 { &on_a } else { &on_b }, &y)?;
    }
    ensure_eq!(x.to_vec(&on_a)?, [expected; N]);
    ensure_eq!(y.to_vec(&on_b)?, [expected; N]);
    let other: Stream = b.stream()?;
    let mut short = DeviceBuffer::<u32>::zeroed(&on_b, N - 1)?;
    lab.refused(
        short.as_slice_mut().copy_from_peer(&other, &x),
        "copy: 255 elements on one side and 256 on the other",
    )?;
    Ok(())
}

/// Gives a peer's memory to kernels before it is allowed, in the wrong direction, in graphs, and frees it in flight.
///
/// - row: memory of a peer is used only where
/// - row: a launch is ordered with all other work
/// - targets: `Context::enable_peer_access`, `Context::can_access_peer`, `Context::capture`,
///   `GraphExec::launch`
fn memory_of_a_peer(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let (kit_a, kit_b) = (Kit::load(&a)?, Kit::load(&b)?);
    let mut early = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    ensure!(a.can_access_peer(&b)? && !a.can_access_peer(&a)?);
    lab.refused(
        kit_a.add(&on_a, all(), 1, &mut early, LEN),
        "the buffer belongs to another context than the stream it is used on",
    )?;
    lab.refused(
        a.capture((), |s, ()| kit_a.add(s, all(), 1, &mut early, LEN)),
        "a graph can't use a buffer of another context",
    )?;
    a.enable_peer_access(&b)?;
    a.enable_peer_access(&b)?;
    a.enable_peer_access(&a)?;
    let mut of_a = DeviceBuffer::<u32>::zeroed(&on_a, N)?;
    lab.refused(
        kit_b.add(&on_b, all(), 1, &mut of_a, LEN),
        "the buffer belongs to another context than the stream it is used on",
    )?;
    let late = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    // A graph holds memory of its own context alone.
    let graph = a.capture((), |s, ()| kit_a.add(s, all(), 1, &mut early, LEN));
    lab.refused(graph, "another context")?;
    ensure_eq!(early.to_vec(&on_b)?, [0; N]);
    // What is on one device and what is on the other take turns with the same bytes.
    let mut graph = b.capture((early, late), |s, (early, late)| {
        kit_b.add(s, all(), 1, &mut *early, LEN)?;
        kit_b.mix(s, all(), &*early, late, LEN)
    })?;
    for _ in 0..3 {
        graph.launch(&on_b)?;
    }
    // x = 1, 2, 3; y = 1, 5, 18. While the graph lives its memory is its context's alone.
    lab.refused(kit_a.add(&on_a, all(), 100, &mut graph.state_mut().0, LEN), "graph")?;
    ensure_eq!(graph.state().0.to_vec(&on_b)?, [3; N]);
    ensure_eq!(graph.state().1.to_vec(&on_b)?, [18; N]);
    drop(graph);
    let mut early = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    let mut late = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    let (mut ex, mut ey) = (0u32, 0u32);
    for round in 0..6 {
        kit_a.add(&on_a, all(), 1, &mut early, LEN)?;
        kit_a.mix(&on_a, all(), &early, &mut late, LEN)?;
        ex += 1;
        ey = ey * 3 + ex;
        let (early, late) = (&mut early, &mut late);
        kit_b.add(&on_b, all(), 10, &mut *early, LEN)?;
        ex += 10;
        kit_a.mix(&on_a, all(), &*early, late, LEN)?;
        ey = ey * 3 + ex;
        let freed = DeviceBuffer::from_slice(&on_b, &[round; N])?;
        kit_a.mix(&on_a, all(), &freed, &mut of_a, LEN)?;
        drop(freed);
        drop(DeviceBuffer::from_slice(&on_b, &[77u32; N])?);
    }
    ensure_eq!(early.to_vec(&on_b)?, [ex; N]);
    ensure_eq!(late.to_vec(&on_b)?, [ey; N]);
    let expected = (0..6).fold(0u32, |sum, round| sum * 3 + round);
    ensure_eq!(of_a.to_vec(&on_a)?, [expected; N]);
    Ok(())
}

/// Gives kernels of a peer the memory of a graph that is gone, and then copies of it.
///
/// - row: nothing of that lives longer
/// - row: memory of a peer is used only where
/// - targets: `GraphExec::into_state`, `Context::enable_peer_access`, `DeviceSliceMut::copy_from_peer`
fn memory_of_a_graph_that_is_gone(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let (kit_a, kit_b) = (Kit::load(&a)?, Kit::load(&b)?);
    a.enable_peer_access(&b)?;
    let x = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    let mut graph = b.capture(x, |s, x| kit_b.add(s, all(), 1, x, LEN))?;
    graph.launch(&on_b)?;
    let mut x = graph.into_state();
    lab.refused(kit_a.add(&on_a, all(), 10, &mut x, LEN), "has used")?;
    // As the hint says.
    let mut y = DeviceBuffer::<u32>::zeroed(&on_a, N)?;
    y.as_slice_mut().copy_from_peer(&on_a, &x)?;
    ensure_eq!(y.to_vec(&on_a)?, [1; N]);
    y.as_slice_mut().fill(&on_a, 0)?;
    y.as_slice_mut().copy_from_peer(&on_b, &x)?;
    kit_a.add(&on_a, all(), 10, &mut y, LEN)?;
    ensure_eq!(y.to_vec(&on_a)?, [11; N]);
    ensure_eq!(x.to_vec(&on_b)?, [1; N]);
    Ok(())
}

/// Measures the time between events of two devices, and records events of one on a stream of the other.
///
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Event::elapsed_ms`, `Event::timing`, `Event::record`
fn events_of_two_devices(lab: &Lab) -> TestResult {
    let refusal = "context";
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let (start, end) = (Event::timing(&a)?, Event::timing(&b)?);
    if lab.variant() == "recorded" {
        lab.refused(start.record(&on_b), refusal)?;
        ensure!(start.is_done()?);
        return lab.refused(end.record(&on_a), refusal);
    }
    start.record(&on_a)?;
    end.record(&on_b)?;
    lab.refused(start.elapsed_ms(&end), refusal)?;
    lab.refused(end.elapsed_ms(&start), refusal)
}

/// Takes a condition's flag from another context's memory, and records on after the refusal.
///
/// - row: a capture is not spoilt by safe calls
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Stream::record_if`, `Stream::record_while`
fn flag_of_another_context(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let kit = Kit::load(&a)?;
    let flag = DeviceBuffer::from_slice(&on_b, &[1u32])?;
    let x = DeviceBuffer::<u32>::zeroed(&on_a, N)?;
    let mut graph = a.capture((x, flag, 0), |s, (x, flag, ran)| {
        kit.add(s, all(), 1, &mut *x, LEN)?;
        let one = s.record_if(&*flag, |_| {
            *ran += 1;
            Ok(())
        });
        let two = s.record_while(&mut *flag, |_, _| Ok(()));
        if one.is_ok() || two.is_ok() {
            return Err(on_purpose());
        }
        kit.add(s, all(), 10, x, LEN)
    })?;
    ensure_eq!(graph.state().2, 0);
    graph.launch(&on_a)?;
    ensure_eq!(graph.state().0.to_vec(&on_a)?, [11; N]);
    Ok(())
}

/// Closes a context that was a peer, opens it again, and goes on as if it still were one.
///
/// - row: memory of a peer is used only where
/// - row: a context is closed only when nothing of it is alive
/// - targets: `Context::enable_peer_access`, `Context::close`, `Device::context`
fn peer_opened_again(lab: &Lab) -> TestResult {
    let a = lab.context()?;
    let device = a.driver().device(1)?;
    let (on_a, kit) = (a.stream()?, Kit::load(&a)?);
    for round in 0..3 {
        let b = device.context()?;
        let on_b = b.stream()?;
        let mut x = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
        if round > 0 {
            // Either it is forgotten with the context, or it holds: nothing in between.
            if kit.add(&on_a, all(), 1, &mut x, LEN).is_ok() {
                ensure_eq!(x.to_vec(&on_b)?, [1; N]);
                x.fill(&on_b, 0)?;
            }
        }
        a.enable_peer_access(&b)?;
        kit.add(&on_a, all(), round, &mut x, LEN)?;
        ensure_eq!(x.to_vec(&on_b)?, [round; N]);
        drop((x, on_b));
        ensure!(b.close().is_ok(), "round {round}");
    }
    Ok(())
}

/// Asks for devices that are not there, attributes that are none, and sets what is out of range.
///
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Driver::device`, `Driver::devices`, `Driver::supports`, `Driver::as_sys`, `Driver::from_sys`,
///   `Device::driver`, `Device::raw_attribute`, `Context::set_pool_release_threshold`, `Context::trim_pool`,
///   `Context::set_copy_threads`
fn devices_that_are_not_there(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let driver = context.driver();
    for ordinal in [2, 3, 1 << 31, 1 << 32, (1 << 32) + 1, usize::MAX] {
        lab.refused(driver.device(ordinal), "the driver shows 2")?;
    }
    ensure_eq!(driver.devices().len(), 2);
    for device in driver.devices() {
        ensure_eq!(device.driver(), driver);
        ensure_eq!(device, driver.device(device.ordinal())?);
        for attribute in [0, 1, 50, 1000, 1 << 31, u32::MAX] {
            let _ = device.raw_attribute(sys::CUdevice_attribute(attribute));
        }
    }
    let same = Driver::from_sys(driver.as_sys())?;
    ensure_eq!(same, driver);
    ensure_eq!(same.device(0)?.context()?, context);
    for name in ["", "\0", "cuInit\0", "cuinit", "½", &"c".repeat(1 << 16)] {
        ensure!(!driver.supports(name), "supports {name:?}");
    }
    for bytes in [0, 1, u64::MAX, 1 << 63] {
        context.set_pool_release_threshold(bytes)?;
        context.trim_pool(usize::try_from(bytes).unwrap_or(0))?;
    }
    for threads in [usize::MAX, 0, 1 << 32, 9] {
        context.set_copy_threads(threads);
        ensure!((1..=8).contains(&context.copy_threads().max(1)), "{}", context.copy_threads());
    }
    let stream = context.stream()?;
    let large = vec![5u8; 9 << 20];
    let x = DeviceBuffer::from_slice(&stream, &large)?;
    ensure!(x.to_vec(&stream)? == large);
    Ok(())
}

/// Loads the default driver from a path that is none, a folder, and a file that is no library.
///
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Driver::load`, `Context::new`
fn drivers_that_are_none(lab: &Lab) -> TestResult {
    if lab.step().is_empty() {
        std::fs::create_dir("folder.so")?;
        std::fs::write("text.so", "no library\n")?;
        let path = format!("./{}.so", lab.variant());
        let status = lab.again("inside")?.env("CUDA_DRIVER", path).status()?;
        ensure!(status.success(), "{status}");
        return Ok(());
    }
    for _ in 0..2 {
        lab.refused(Driver::load(), lab.variant())?;
        lab.refused(Context::new(0), lab.variant())?;
        lab.refused(Context::new(usize::MAX), lab.variant())?;
    }
    // The software device, beside it, is not impressed.
    let stream = lab.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    ensure_eq!(x.to_vec(&stream)?, [1; N]);
    Ok(())
}

attacks![
    "contexts",
    right(every_call_with_strangers).devices(2),
    right(waits_across_devices).variants(&["event", "stream", "mark", "nothing"]).devices(2),
    right(memory_of_a_peer).devices(2),
    refused(memory_of_a_graph_that_is_gone).devices(2),
    refused(events_of_two_devices).variants(&["measured", "recorded"]).devices(2),
    right(flag_of_another_context).devices(2),
    right(peer_opened_again).devices(2),
    right(devices_that_are_not_there).devices(2),
    right(drivers_that_are_none).variants(&["missing", "folder", "text"]),
];
