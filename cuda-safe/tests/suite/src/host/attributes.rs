//! Launches with attributes: which driver function they take, its arguments, what they cost.

use cuda_safe::sys::{CUlaunchAttributeID as Id, CUresult};
use cuda_safe::{ErrorKind, LaunchConfig};
use test_support::meter::allocations;

use test_harness::lab::Lab;
use test_harness::table::{ATTRIBUTES, Behaviour, Fault, attribute};
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "attributes",
        host(one_call),
        host(refused_before_the_driver),
        host(larger_clusters),
        host(the_drivers_answer),
        host(an_old_driver),
    ]
}

/// A programmatic launch, of kernels that do nothing.
fn programmatic(launch: LaunchConfig) -> LaunchConfig {
    // SAFETY: nothing runs on this driver.
    unsafe { launch.programmatic() }
}

fn one_call() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let nothing = lab.kernel("nothing")?;
    let plain = LaunchConfig::new((8, 4, 2), 32);
    let cluster = attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 0x0004_0201);
    let early = attribute(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1);
    let urgent = attribute(Id::CU_LAUNCH_ATTRIBUTE_PRIORITY, (-5_i32).cast_unsigned());
    let together = attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1);
    let launches: [(LaunchConfig, &[u64]); 5] = [
        (plain.cluster((4, 2)), &[cluster]),
        (plain.priority(-5), &[urgent]),
        (programmatic(plain), &[early]),
        (plain.priority(-5).cooperative(), &[together, urgent]),
        (programmatic(plain.cluster((4, 2)).priority(-5)), &[cluster, early, urgent]),
    ];
    for (launch, attributes) in launches {
        // The first one compares types, and a cooperative one asks how many blocks fit.
        // SAFETY: nothing runs on this driver.
        unsafe { nothing.launch(&stream, launch, ()) }?;
        lab.recorder.take();
        let before = allocations();
        // SAFETY: as above.
        unsafe { nothing.launch(&stream, launch, ()) }?;
        ensure_eq!(allocations() - before, 0, "{launch}");
        let calls = lab.recorder.take();
        ensure_eq!(calls.len(), 1, "{launch}");
        let call = calls[0];
        ensure_eq!(call.name, "cuLaunchKernelEx");
        ensure_eq!(call.args[1], nothing.as_raw().addr() as u64);
        ensure_eq!(call.args[ATTRIBUTES - 1], stream.as_raw().addr() as u64);
        ensure_eq!(call.args[ATTRIBUTES], attributes.len() as u64, "{launch}");
        ensure_eq!(call.args[ATTRIBUTES + 1..][..attributes.len()], *attributes, "{launch}");
    }
    // Without attributes the older functions are called, which all drivers have.
    // SAFETY: nothing runs on this driver.
    let (calls, ()) = lab.calls(|| unsafe { nothing.launch(&stream, plain.cooperative(), ()) })?;
    ensure_eq!(calls.last(), Some(&"cuLaunchCooperativeKernel"));
    // A grid without blocks is refused before the driver is asked.
    let empty = LaunchConfig::new((8, 0), 32).cluster(2).priority(1);
    // SAFETY: as above.
    let refused = unsafe { nothing.launch(&stream, empty, ()) };
    ensure!(refused.is_err_and(|error| error.to_string().contains("has no blocks")));
    let calls = lab.recorder.take();
    ensure!(calls.is_empty(), "{} calls", calls.len());
    drop((nothing, stream));
    lab.close()
}

fn refused_before_the_driver() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let nothing = lab.kernel("nothing")?;
    lab.recorder.take();
    let refused = |launch: LaunchConfig| {
        // SAFETY: nothing runs on this driver.
        match unsafe { nothing.launch(&stream, launch, ()) } {
            Ok(()) => Err(Failure::new(format!("launched: {launch}"))),
            Err(error) => Ok(error),
        }
    };
    let wide = refused(LaunchConfig::new(16, 32).cluster((4, 4)))?;
    ensure!(
        matches!(wide.kind(), ErrorKind::Limit { what: "blocks per cluster", value: 16, limit: 8 }),
        "{wide}"
    );
    let odd = refused(LaunchConfig::new((8, 9), 32).cluster((4, 2)))?;
    let text = "grid y: 9 blocks are no multiple of the cluster's 2; asked: kernel `nothing`, grid (8, 9, 1)";
    ensure!(odd.to_string().starts_with(text), "{odd}");
    let empty = refused(LaunchConfig::new(8, 32).cluster((2, 0)))?;
    let text = "a cluster of (2, 0, 1) has no blocks; asked: kernel `nothing`, grid (8, 1, 1)";
    ensure!(empty.to_string().starts_with(text), "{empty}");
    // What other launches may not do, these may not either.
    let block = refused(LaunchConfig::new(8, 1025).cluster(2))?;
    ensure!(
        matches!(block.kind(), ErrorKind::Limit { what: "threads per block", value: 1025, .. }),
        "{block}"
    );
    ensure!(lab.recorder.names().is_empty(), "the driver was asked");
    drop((nothing, stream));
    lab.close()
}

fn larger_clusters() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let nothing = lab.kernel("nothing")?;
    let launch = LaunchConfig::new(16, 32).cluster(16);
    // SAFETY: nothing runs on this driver.
    let launched = || unsafe { nothing.launch(&stream, launch, ()) };
    ensure!(launched().is_err());
    let (calls, ()) = lab.calls(|| nothing.set_non_portable_cluster(true))?;
    ensure_eq!(calls, ["cuFuncSetAttribute"]);
    let (calls, ()) = lab.calls(launched)?;
    ensure_eq!(calls, ["cuLaunchKernelEx"]);
    nothing.set_non_portable_cluster(false)?;
    ensure!(launched().is_err());
    drop((nothing, stream));
    lab.close()
}

fn the_drivers_answer() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let nothing = lab.kernel("nothing")?;
    lab.recorder.take();
    let code = CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE;
    lab.recorder.fail(Some(Fault { call: 0, code, repeated: false }));
    let launch = programmatic(LaunchConfig::new(8, 32).cluster(2).priority(-1));
    // SAFETY: nothing runs on this driver.
    let Err(error) = (unsafe { nothing.launch(&stream, launch, ()) }) else {
        return Err(Failure::new("launched"));
    };
    ensure_eq!(
        error.to_string(),
        "cuLaunchKernelEx: the cluster size does not fit this kernel \
         (CUDA_ERROR_INVALID_CLUSTER_SIZE); asked: kernel `nothing`, grid (8, 1, 1), block (32, 1, \
         1), 0 bytes shared, clusters of (2, 1, 1), priority -1, programmatic"
    );
    lab.recorder.fail(None);
    drop((nothing, stream));
    lab.close()
}

/// Without `cuLaunchKernelEx` a launch that needs it says so; others are made.
fn an_old_driver() -> TestResult {
    let lab = Lab::with(Behaviour::default(), &["cuLaunchKernelEx"])?;
    let stream = lab.context.stream()?;
    let nothing = lab.kernel("nothing")?;
    // SAFETY: nothing runs on this driver.
    let refused = unsafe { nothing.launch(&stream, LaunchConfig::new(1, 32).priority(0), ()) };
    let kind = refused.as_ref().map_err(cuda_safe::Error::kind);
    ensure!(matches!(kind, Err(ErrorKind::MissingSymbol(_))), "{refused:?}");
    // SAFETY: as above.
    unsafe { nothing.launch(&stream, LaunchConfig::new(1, 32), ()) }?;
    drop((nothing, stream));
    lab.close()
}
