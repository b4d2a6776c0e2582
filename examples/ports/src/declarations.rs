//! The declarations of the ports, tried by launches that they allow on the software device.

use std::error::Error;
use std::sync::{Mutex, PoisonError};

use cuda_safe::nvrtc::Options;
use cuda_safe::testing::{self, Launches, Random, Report};
use cuda_safe::{Driver, Linker, Module, include_cuda};

use crate::functors::{Clamp, Scale};

/// The function `test_launches` of a port's kernels.
type Test = fn(&mut Launches<'_>) -> Result<Report, testing::Error>;

/// Launches each safe kernel 200 times; there must be `safe` of them, instances counted.
fn hold(
    test: Test,
    set: fn(Launches<'_>) -> Launches<'_>,
    safe: usize,
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
    Ok(())
}

/// Adds a test of a port, with the number of its safe kernels. (That of `conjugate_gradient` is an `unsafe fn`.)
macro_rules! declarations {
    ($($port:ident: $safe:literal;)*) => {$(
        #[test]
        fn $port() -> Result<(), Box<dyn Error>> {
            hold(crate::$port::Kernels::test_launches, |launches| launches, $safe)
        }
    )*};
}

declarations! {
    async_streams: 1;
    black_scholes: 1;
    fdtd3d: 1;
    matrix_mul: 1;
    nbody: 1;
    reduction: 2;
    simple_graphs: 1;
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
    hold(crate::functors::Kernels::test_launches, set, 2)
}

/// The declared file needs the other one.
#[test]
fn multi_file() -> Result<(), Box<dyn Error>> {
    let test: Test = |launches| {
        let (mut linker, device) = (Linker::new(launches.context()), launches.context().device());
        for (name, program) in [
            ("kernel", include_cuda!("multi_file/multi_file.cu")),
            ("functions", include_cuda!("multi_file/functions.cu")),
        ] {
            let options = Options::new().relocatable(true).lineinfo(true);
            let image = program.options(options).compile(device.arch()?);
            let image = image.map_err(|error| cuda_safe::Error::invalid(error.to_string()))?;
            linker = linker.image(name, &image);
        }
        let module = Module::load(launches.context(), &linker.link()?)?;
        // SAFETY: the module has been linked of the declared file and the one that it needs.
        let kernels = unsafe { crate::multi_file::Kernels::from_module(&module)? };
        kernels.test_loaded(launches)
    };
    hold(test, |launches| launches, 1)
}
