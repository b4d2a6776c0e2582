//! Attacks on the host's guards of managed variables, and on declared globals.

use std::sync::atomic::{AtomicBool, Ordering};

use cuda_safe::{DeviceBuffer, kernels};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

const SOURCE: &str = r#"
    __managed__ unsigned shared[4] = {1, 2, 3, 4};
    __device__ unsigned own[4];
    namespace one { __device__ float real; }
    extern "C" __global__ void put(unsigned value) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < 4) shared[i] = value;
    }
    extern "C" __global__ void take(unsigned* x, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = shared[i % 4];
    }
"#;

kernels! {
    struct Kernels;
    // SAFETY: thread i writes element i alone, of `shared` if i < 4, of x if i < n.
    unsafe in SOURCE {
        safe fn put(#[any] value: u32) over 4;
        safe fn take(x: &mut [u32], n: u32 = x.len()) over n;
        global shared: [u32; 4];
        global own: [u32; 4];
    }
}

const N: usize = 1 << 12;

/// Uses a managed variable by kernels, graphs, copies and other handles while guards live or were leaked.
///
/// - row: the host reaches a managed variable
/// - targets: `Global::host`, `Global::host_mut`, `Module::global`, `Context::capture`
pub(super) fn managed_variables_under_guards(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let (mut first, mut second) = (kernels.shared(&stream)?, kernels.shared(&stream)?);
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut graph = context.capture((), |stream, ()| kernels.put(stream, 9))?;
    for round in 0..20 {
        kernels.put(&stream, round)?;
        let seen = first.host()?;
        ensure_eq!(*seen, [round; 4]);
        for refused in
            [kernels.put(&stream, 7), graph.launch(&stream), second.write(&stream, &[7; 4])]
        {
            lab.refused(refused, "the host is reading a global")?;
        }
        lab.refused(second.host_mut().map(drop), "another guard of the global")?;
        kernels.take(&stream, &mut x)?;
        ensure_eq!(*seen, [round; 4]);
        drop(seen);
        first.host_mut()?.fill(100 + round);
        ensure!(x.to_vec(&stream)?.iter().all(|seen| *seen == round), "round {round}");
        kernels.take(&stream, &mut x)?;
        ensure!(x.to_vec(&stream)?.iter().all(|seen| *seen == 100 + round), "round {round}");
    }
    // The guard of an element type that covers the variable otherwise.
    let mut pairs = kernels.module().global::<[u32; 2]>(&stream, "shared")?;
    std::mem::forget(pairs.host_mut()?);
    drop(pairs);
    lab.refused(kernels.take(&stream, &mut x), "the host is writing a global")?;
    lab.refused(graph.launch(&stream), "the host is writing a global")?;
    lab.refused(first.read(&stream), "the host is writing a global")?;
    kernels.own(&stream)?.write(&stream, &[1; 4])?;
    lab.refused(first.host().map(drop), "guard")
}

/// Writes a managed variable through guards on one thread while another launches kernels that write it.
///
/// - row: the host reaches a managed variable
/// - targets: `Global::host_mut`, `Global::host`
pub(super) fn managed_variables_of_two_threads(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut variable = kernels.shared(&stream)?;
    variable.host_mut()?.fill(7);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let launches = scope.spawn(|| -> cuda_safe::Result<()> {
            let other = context.stream()?;
            while !ended.load(Ordering::SeqCst) {
                // Refused while a guard lives.
                match kernels.put(&other, 7) {
                    Err(error) if error.code().is_some() => return Err(error),
                    _ => other.synchronize()?,
                }
            }
            Ok(())
        });
        let mut guarded = || -> TestResult {
            for round in 100..300 {
                let mut guard = variable.host_mut()?;
                let before = guard[0];
                ensure!(*guard == [before; 4], "{:?} was torn", &*guard);
                guard.fill(round);
                std::thread::yield_now();
                ensure_eq!(*guard, [round; 4], "a kernel wrote under a guard");
            }
            Ok(())
        };
        let result = guarded();
        ended.store(true, Ordering::SeqCst);
        let launched = launches.join().map_err(|_| Failure::new("a thread panicked"))?;
        result.and(Ok(launched?))
    })
}

/// Declares globals as what they are not, and takes the host's guards of variables that only the device has.
///
/// - row: the type of a declared global fits the variable
/// - targets: `Module::globals`, `Module::global`, `Global::host`
pub(super) fn declared_globals_that_do_not_fit(lab: &Lab) -> TestResult {
    macro_rules! declared {
        ($($name:ident { $global:ident: $ty:ty = $symbol:literal } $part:literal;)*) => {$({
            kernels! {
                struct $name;
                // SAFETY: it has no kernels.
                unsafe in SOURCE {
                    #[name = $symbol]
                    global $global: $ty;
                }
            }
            lab.refused($name::load(&lab.context()?), $part)?;
        })*};
    }
    declared! {
        Long { own: u64 = "own" } "has 8 bytes, but the variable has 16";
        Empty { own: () = "own" } "has 0 bytes, but the variable has 16";
        Many { own: [[u32; 4]; 1 << 60] = "own" } "too many bytes, but the variable has 16";
        Integer { real: u32 = "one::real" } "declared as u32, but the variable is a float";
    }
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut own = kernels.own(&stream)?;
    lab.refused(own.host().map(drop), "not declared with __managed__")?;
    lab.refused(own.host_mut().map(drop), "not declared with __managed__")?;
    for global in kernels.module().globals().unwrap_or_default() {
        let bytes = kernels.module().global::<u8>(&stream, &global.name)?;
        ensure_eq!(bytes.read(&stream)?.len(), global.size);
    }
    Ok(())
}
