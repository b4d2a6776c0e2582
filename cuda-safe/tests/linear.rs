//! Time in proportion to the number of things, with the no-op driver: many kernels, gates, buffers and recorded values.

use std::error::Error;
use std::time::{Duration, Instant};

use cuda_safe::nvrtc::Arch;
use cuda_safe::sys::noop;
use cuda_safe::{Context, DeviceBuffer, Driver, Gate, KernelSignatures, Module};

type Outcome = Result<(), Box<dyn Error>>;

/// Many times what a case takes, and a part of what it takes without optimisation if its time grows with the square.
const LIMIT: Duration = Duration::from_secs(60);

fn timed(run: impl FnOnce(&Context) -> Outcome) -> Outcome {
    let context = Driver::from_sys(noop::driver())?.device(0)?.context()?;
    let begin = Instant::now();
    run(&context)?;
    let took = begin.elapsed();
    assert!(took < LIMIT, "{took:?}");
    Ok(())
}

#[test]
fn many_kernels_are_found() -> Outcome {
    const KERNELS: usize = 60_000;
    let entry = |i: usize| format!(".visible .entry _Z6k{i:05}i(.param .u32 n) {{ ret; }}\n");
    let entries: String = (0..KERNELS).map(entry).collect();
    let text = format!(".version 8.0\n.target sm_75\n.address_size 64\n{entries}");
    timed(|context| {
        let signatures = KernelSignatures::from_ptx(&text, Arch::sm(9, 0))?;
        let module = Module::from_ptx(context, &text)?;
        let parts = ptx::Parts::new(text.clone())?;
        for i in 0..KERNELS {
            signatures.check(&format!("k{i:05}"), &[None])?;
            drop(module.kernel(&format!("_Z6k{i:05}i"))?);
            assert!(parts.text_of(&format!("_Z6k{i:05}i"))?.is_some());
        }
        Ok(())
    })
}

#[test]
fn many_gates_of_one_allocation() -> Outcome {
    timed(|context| {
        let x = DeviceBuffer::<u8>::zeroed(&context.stream()?, 100)?;
        let gates: Vec<Gate> = (0..60_000).map(|_| Gate::new()).collect();
        gates.iter().try_for_each(|gate| gate.protect(x.allocation()))?;
        drop(x);
        // Each leaves the memory to the next.
        drop(gates);
        Ok(())
    })
}

#[test]
fn many_buffers_behind_a_gate() -> Outcome {
    for closed in [true, false] {
        timed(|context| {
            let stream = context.stream()?;
            let gate = Gate::new();
            let mut buffers = Vec::new();
            for _ in 0..150_000 {
                let x = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
                gate.protect(x.allocation())?;
                buffers.push(x);
            }
            if closed {
                gate.close()?;
            }
            drop(buffers);
            gate.open();
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn many_values_in_a_recording() -> Outcome {
    timed(|context| {
        let mut x = DeviceBuffer::<u32>::zeroed(&context.stream()?, 4)?;
        let graph = context.capture((), |stream, ()| {
            (0..150_000u32).try_for_each(|i| x.upload(stream, &[i; 4]))
        })?;
        drop(graph);
        Ok(())
    })
}
