//! Attacks on contexts, devices and threads.

pub(super) mod closing;
pub(super) mod devices;
pub(super) mod several;
pub(super) mod threads;

use cuda_safe::{
    Context, DeviceBuffer, Event, LaunchConfig, PinnedBuffer, Result, UnifiedBuffer, kernels,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: thread i writes element i if i < n.
    unsafe in r#"
        extern "C" __global__ void fill(unsigned v, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = v;
        }
    "# {
        safe fn fill(#[any] v: u32, x: &mut [u32], n: u32) where n <= x.len();
    }
}

/// The kinds of call that a program makes of a device, each with its result checked.
fn every_kind_of_call(context: &Context) -> Vec<(&'static str, TestResult)> {
    fn calls(context: &Context, done: &mut Vec<(&'static str, TestResult)>) -> Result<()> {
        let (stream, other) = (context.stream()?, context.stream()?);
        let n = 1000;
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        let mut call = |name, result: Result<bool>| {
            let result = match result {
                Ok(true) => Ok(()),
                Ok(false) => Err(Failure::new("wrong values")),
                Err(error) => Err(error.into()),
            };
            done.push((name, result));
        };
        call("upload", x.upload(&stream, &vec![1; n]).map(|()| true));
        call("download", x.to_vec(&stream).map(|x| x == vec![1; n]));
        call("fill", x.fill(&stream, 2).map(|()| true));
        call("clone", x.try_clone(&stream).and_then(|x| Ok(x.to_vec(&stream)? == vec![2; n])));
        let y = DeviceBuffer::from_slice(&other, &vec![3; n]);
        call("copy", y.and_then(|y| x.copy_from(&stream, &y)).map(|()| true));
        call("copied", x.to_vec(&other).map(|x| x == vec![3; n]));
        let kernels = Kernels::load(context);
        call("module", kernels.as_ref().map(|_| true).map_err(Clone::clone));
        let kernels = kernels?;
        call(
            "launch",
            kernels.fill(&other, LaunchConfig::cover(n, 128), 4, &mut x, 1000).map(|()| true),
        );
        call("launched", x.to_vec(&stream).map(|x| x == vec![4; n]));
        let event = Event::new(context);
        call(
            "event",
            event
                .and_then(|event| event.record(&stream).and_then(|()| event.synchronize()))
                .map(|()| true),
        );
        call("host function", stream.host_function(|| ()).map(|()| true));
        let pinned = PinnedBuffer::from_slice(context, &vec![5u32; n]);
        call(
            "pinned upload",
            pinned.and_then(|p| x.upload_pinned(&stream, p)?.wait()).map(|_| true),
        );
        let pinned = PinnedBuffer::<u32>::zeroed(context, n);
        call(
            "pinned download",
            pinned.and_then(|p| Ok(x.download_pinned(&stream, p)?.wait()?[..] == vec![5; n][..])),
        );
        let unified = UnifiedBuffer::<u32>::managed(&stream, n);
        call(
            "managed",
            unified.and_then(|mut u| {
                u.copy_from(&stream, &x)?;
                Ok(u.host()?[..] == vec![5; n][..])
            }),
        );
        let unified = UnifiedBuffer::<u32>::register(&stream, vec![0; n]);
        call(
            "registered",
            unified.and_then(|mut u| {
                u.copy_from(&stream, &x)?;
                Ok(u.host()?[..] == vec![5; n][..])
            }),
        );
        let graph = context.capture((), |s, ()| x.fill(s, 6));
        call("graph", graph.and_then(|mut graph| graph.launch(&other)).map(|()| true));
        call("graph ran", x.to_vec(&stream).map(|x| x == vec![6; n]));
        call("synchronize", context.synchronize().map(|()| true));
        Ok(())
    }
    let mut done = Vec::new();
    if let Err(error) = calls(context, &mut done) {
        done.push(("the rest", Err(error.into())));
    }
    done
}

/// Makes every kind of call on each of two devices while no context, the device's own, or the other device's is
/// current.
///
/// - row: no call changes which context is current
/// - row: no call depends on which context is current
/// - targets: `Context::stream`, `Event::new`, `PinnedBuffer::zeroed`, `UnifiedBuffer::managed`
fn calls_under_another_context(lab: &Lab) -> TestResult {
    for device in [0, 1] {
        let context = lab.context_of(device)?;
        lab.make_current(match lab.variant() {
            "none" => None,
            "own" => Some(device),
            _ => Some(1 - device),
        })?;
        let calls = every_kind_of_call(&context);
        ensure!(calls.len() >= 17, "only {} calls were made", calls.len());
        for (name, result) in calls {
            result
                .map_err(|failure| Failure::new(format!("{name} on device {device}: {failure}")))?;
        }
    }
    lab.make_current(None)
}

/// Uses buffers, events and kernels of one device on a stream of another.
///
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Event::new`, `DeviceBuffer::zeroed`
fn strangers(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let mut x = DeviceBuffer::<u32>::zeroed(&on_a, 100)?;
    let y = DeviceBuffer::<u32>::zeroed(&on_b, 100)?;
    let kernels = Kernels::load(&b)?;
    lab.refused(x.fill(&on_b, 1), "context")?;
    lab.refused(x.to_vec(&on_b), "context")?;
    lab.refused(
        kernels.fill(&on_b, LaunchConfig::cover(100, 32), 1, &mut x, 100),
        "the buffer belongs to another context than the stream it is used on",
    )?;
    lab.refused(kernels.fill(&on_a, LaunchConfig::cover(100, 32), 1, &mut x, 100), "context")?;
    lab.refused(Event::new(&a)?.record(&on_b), "another context")?;
    lab.refused(x.copy_from(&on_a, &y), "context")?;
    ensure_eq!(x.to_vec(&on_a)?, [0; 100]);
    Ok(())
}

/// Closes a context while something of it is alive.
///
/// - row: a context is closed only when nothing of it is alive
/// - targets: `Context::close`, `Context::stream`
fn closed_while_in_use(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[1u32; 10])?;
    let closed = stream.context().close();
    lab.refused(closed, "in use")?;
    drop(stream);
    let stream = lab.stream()?;
    ensure_eq!(x.to_vec(&stream)?, [1; 10]);
    Ok(())
}

attacks![
    "contexts",
    right(calls_under_another_context).variants(&["none", "own", "other"]).devices(2),
    right(strangers).devices(2),
    refused(closed_while_in_use),
];
