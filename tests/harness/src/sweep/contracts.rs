//! What the sweep has found once: these failures were reported to the wrong caller, or wrongly.

use cuda_emu::{Ledger, Moment, ledger, watch};
use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, Error, GraphBuilder, Stream};

use crate::programs::Basic;
use crate::{Failure, TestDevice, TestResult, ensure, ensure_eq};

const N: usize = 100;
const SHAPE: (u32, u32) = (1, 128);

/// All of them: there is one watch in a process.
pub(super) fn contracts() -> TestResult {
    let device = TestDevice::open("emu")?;
    a_changed_node(&device)?;
    a_recording(&device)?;
    a_drop_in_a_recording(&device)?;
    a_condition(&device)?;
    looking_at_the_context(&device)?;
    memory_given_away(&device)?;
    closing(device)
}

/// Acts while the first of these calls fails.
fn failing<R>(call: &str, moment: Moment, act: impl FnOnce() -> R) -> Result<R, Failure> {
    let code = CUresult::CUDA_ERROR_NOT_PERMITTED;
    let failure = cuda_emu::Failure { name: call.to_owned(), nth: 1, code };
    let watch = watch(Some((failure, moment)))
        .ok_or_else(|| Failure::new("somebody else watches the driver"))?;
    let answer = act();
    ensure!(watch.met(), "{call} was not called");
    Ok(answer)
}

fn names<T>(result: cuda_safe::Result<T>, call: &str) -> TestResult {
    let error = result.err().ok_or_else(|| Failure::new(format!("nobody is told of {call}")))?;
    ensure_eq!(error.call().unwrap_or_default(), call, "{error}");
    Ok(())
}

/// Changing a launch is not launching.
fn a_changed_node(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let (basic, n) = (&basic, N as u64);
    let data = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut graph = device.context().capture(data, move |stream, data| {
        basic.add(stream, SHAPE, &mut *data, n, 1)?;
        stream.last_node().map(drop)
    })?;
    let node = graph.nodes().next().ok_or_else(|| Failure::new("no node was named"))?;
    for (exported, call) in [
        ("cuGraphExecKernelNodeSetParams_v2", "cuGraphExecKernelNodeSetParams"),
        ("cuCtxPushCurrent_v2", "cuCtxPushCurrent"),
    ] {
        let changed = failing(exported, Moment::Before, || {
            graph.update(node, move |stream, data| basic.add(stream, SHAPE, &mut *data, n, 2))
        })?;
        names(changed, call)?;
    }
    Ok(())
}

/// What follows from a failure is not what the caller hears of.
fn a_recording(device: &TestDevice) -> TestResult {
    let basic = Basic::of(device)?;
    let made = failing("cuStreamGetCaptureInfo_v3", Moment::Before, || {
        let made = device.context().capture((), |stream, ()| {
            basic.nothing(stream, SHAPE)?;
            stream.last_node().map(drop)
        });
        made.map(drop)
    })?;
    names(made, "cuStreamGetCaptureInfo")
}

/// The error of a drop in a recording is reported once, by a call or as an error of a drop.
fn a_drop_in_a_recording(device: &TestDevice) -> TestResult {
    const CALL: &str = "cuMemFreeAsync";
    let (context, basic) = (device.context(), Basic::of(device)?);
    let dropped = |stream: &Stream| DeviceBuffer::<u32>::zeroed(stream, N).map(drop);
    let own = || Error::invalid("the closure's own");
    let reported = || context.take_drop_errors().iter().filter_map(Error::call).collect::<Vec<_>>();
    let fail = |record: &dyn Fn(&Stream) -> cuda_safe::Result<()>| {
        failing(CALL, Moment::Before, || context.capture((), |stream, ()| record(stream)).map(drop))
    };
    names(fail(&dropped)?, CALL)?;
    ensure_eq!(reported(), [""; 0]);
    // The next call on the recording returns it, and the closure returns that.
    names(fail(&|stream| dropped(stream).and(basic.nothing(stream, SHAPE)))?, CALL)?;
    ensure_eq!(reported(), [""; 0]);
    names(fail(&|stream| dropped(stream).and(Err(own())))?, "")?;
    ensure_eq!(reported(), [CALL]);
    // In a recording that has failed already.
    let flag = DeviceBuffer::<u32>::zeroed(&device.stream()?, 1)?;
    let failed = fail(&|stream| {
        let buffer = DeviceBuffer::<u32>::zeroed(stream, N)?;
        let refused = stream.record_if(&flag, |_| Err(own()));
        drop(buffer);
        refused
    })?;
    names(failed, "")?;
    ensure_eq!(reported(), [CALL]);
    // In a part of a graph that is dropped.
    let mut builder = GraphBuilder::new(context, ())?;
    let added = failing(CALL, Moment::Before, || {
        builder.add(&[], |stream, ()| dropped(stream).and(Err(own())))
    })?;
    names(added, "")?;
    ensure_eq!(reported(), [""; 0]);
    drop(builder);
    ensure_eq!(reported(), [CALL]);
    Ok(())
}

/// Half a condition spoils its graph, also if nobody looks at the error.
fn a_condition(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let flag = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let made = failing("cuGraphAddNode_v2", Moment::Before, || {
        let made = device.context().capture((), |stream, ()| {
            let _ = stream.record_if(&flag, |_| Ok(()));
            Ok(())
        });
        made.map(drop)
    })?;
    names(made, "cuGraphAddNode")
}

/// Who asks whether the context is there hears that the driver does not tell.
fn looking_at_the_context(device: &TestDevice) -> TestResult {
    let call = "cuDevicePrimaryCtxGetState";
    names(failing(call, Moment::Before, || device.context().check_alive())?, call)
}

/// A buffer that comes back leaves the reason.
fn memory_given_away(device: &TestDevice) -> TestResult {
    let (home, other, basic) = (device.stream()?, device.stream()?, Basic::of(device)?);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&home, N)?;
    basic.fill(&other, SHAPE, &mut buffer, N as u64, 1)?;
    let given = failing("cuStreamWaitEvent", Moment::Before, || buffer.into_raw())?;
    let refused = given.err().ok_or_else(|| Failure::new("it was given away"))?;
    ensure_eq!(refused.error().call(), Some("cuStreamWaitEvent"));
    ensure_eq!(device.context().take_drop_errors().len(), 0);
    Ok(())
}

/// Whatever fails while the context closes, it comes back and can be closed.
fn closing(device: TestDevice) -> TestResult {
    // An owner of memory in the bin keeps its own context.
    let (home, other, basic) = (device.stream()?, device.stream()?, Basic::of(&device)?);
    let owner = DeviceBuffer::<u32>::zeroed(&home, N)?;
    let (address, token) = (owner.device_ptr(), Some(Box::new(owner) as Box<_>));
    // SAFETY: the token keeps the words, which are written; its free is ordered on `home`.
    let mut lent = unsafe { DeviceBuffer::<u32>::from_raw(&home, address, N, token) }?;
    basic.fill(&other, SHAPE, &mut lent, N as u64, 1)?;
    failing("cuStreamWaitEvent", Moment::Before, || drop(lent))?;
    drop((home, other, basic));

    let mut context = device.into_context();
    ensure_eq!(context.take_drop_errors().len(), 1);
    for (exported, call) in
        [("cuCtxPopCurrent_v2", "cuCtxPopCurrent"), ("cuMemPoolDestroy", "cuMemPoolDestroy")]
    {
        let Err(refused) = failing(exported, Moment::After, || context.close())? else {
            return Err(Failure::new(format!("nobody is told of {call}")));
        };
        let (back, error) = refused.into_parts();
        names(Err::<(), _>(error), call)?;
        context = back;
    }
    context.close()?;
    ensure_eq!(ledger(), Ledger::default());
    Ok(())
}
