//! The declarations of the ports, tried by launches that they allow on the software device.

use std::error::Error;
use std::sync::{Mutex, PoisonError};

use cuda_safe::Driver;
use cuda_safe::testing::{self, Launches, Random, Report};

use crate::functors::{Clamp, Scale};
use crate::multi_file;

/// The function `test_launches` of a port's kernels.
type Test = fn(&mut Launches<'_>) -> Result<Report, testing::Error>;

/// Launches each safe kernel 200 times; there must be `safe` of them, instances counted, and `skipped` others.
fn hold(
    test: Test,
    set: fn(Launches<'_>) -> Launches<'_>,
    safe: usize,
    skipped: &[&str],
) -> Result<(), Box<dyn Error>> {
    // There is one observation in a process.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let checks = cuda_emu::Checks { race: true, init: true, leak: false };
    cuda_emu::Config::from_env().check(checks).install();
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    let observation = cuda_emu::observe()?;
    let report = test(&mut set(Launches::new(&context, || observation.found())?))?;
    println!("{report}");
    assert_eq!(report.tested.len(), safe, "{report}");
    assert!(report.tested.iter().all(|kernel| kernel.launched == 200), "{report}");
    assert_eq!(report.skipped, skipped);
    Ok(())
}

/// Adds a test of a port: how many safe kernels it has, and the names of the others.
macro_rules! declarations {
    ($($port:ident: $safe:literal $skipped:tt;)*) => {$(
        #[test]
        fn $port() -> Result<(), Box<dyn Error>> {
            hold(crate::$port::Kernels::test_launches, |launches| launches, $safe, &$skipped)
        }
    )*};
}

declarations! {
    async_streams: 1 [];
    black_scholes: 1 [];
    conjugate_gradient: 0 ["solve"];
    fdtd3d: 1 [];
    matrix_mul: 1 [];
    nbody: 1 [];
    reduction: 2 [];
    simple_graphs: 1 [];
}

#[test]
fn functors() -> Result<(), Box<dyn Error>> {
    fn number(random: &mut Random) -> f32 {
        random.float() as f32
    }
    fn set(launches: Launches<'_>) -> Launches<'_> {
        launches
            .values(|random| Scale { factor: number(random) })
            .values(|random| Clamp { low: number(random), high: number(random) })
    }
    hold(crate::functors::Kernels::test_launches, set, 2, &[])
}

/// The declared file needs the other one.
#[test]
fn multi_file() -> Result<(), Box<dyn Error>> {
    let test: Test = |launches| multi_file::load(launches.context())?.test_loaded(launches);
    hold(test, |launches| launches, 1, &[])
}
