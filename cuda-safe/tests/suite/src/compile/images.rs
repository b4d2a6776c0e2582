//! Every program of the tests compiles, with every compiler and the options that change code most.

use nvrtc::{Arch, Options};

use test_harness::programs;
use test_harness::{Case, Compiler, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "images",
        compile(default_options = |c| all(c, &Options::new())),
        compile(without_fmad = |c| all(c, &Options::new().fmad(false))),
        compile(fast_math = |c| all(c, &Options::new().fast_math(true))),
        compile(fmad_is_written_out),
        compile(a_newer_gpu_gets_ptx),
        compile(clusters),
    ]
}

fn all(compiler: &Compiler, options: &Options) -> TestResult {
    for program in programs::ALL {
        let real = compiler.compile(program, Arch::sm(9, 0), options.clone())?;
        let (name, log) = (program.name, &real.log);
        ensure_eq!(log.trim(), "", "{name} compiles without warnings");
        ensure!(real.cubin.as_ref().is_some_and(|cubin| cubin.starts_with(b"\x7fELF")), "{name}");
        let ptx = real.ptx.as_deref().unwrap_or_default();
        ensure!(ptx.contains(".target sm_90"), "{name}");
        for expression in program.expressions {
            let lowered = real.lowered(expression).unwrap_or_default();
            ensure!(ptx.contains(&format!(".entry {lowered}(")), "{name}: {expression}");
        }

        let virtually = compiler.compile(program, Arch::compute(7, 5), options.clone())?;
        ensure!(virtually.cubin.is_none(), "{name}: compute_75 has no machine code");
        let ptx = virtually.ptx.as_deref().unwrap_or_default();
        ensure!(ptx.contains(".target sm_75"), "{name}");
        let names = |image: &nvrtc::Image| {
            let mut names: Vec<_> =
                image.kernels.iter().map(|kernel| kernel.name.clone()).collect();
            names.sort();
            names
        };
        ensure_eq!(names(&real), names(&virtually), "{name}");
        ensure!(!real.kernels.is_empty(), "{name}");
    }
    Ok(())
}

/// Bare `mul` and `add` may be fused by the driver's compiler, so `--fmad=false` has to say `.rn`.
fn fmad_is_written_out(compiler: &Compiler) -> TestResult {
    let ptx = |options| -> Result<String, test_harness::Failure> {
        let image = compiler.compile(&programs::SAXPY, Arch::compute(7, 5), options)?;
        Ok(image.ptx.unwrap_or_default())
    };
    let fused = ptx(Options::new())?;
    ensure!(fused.contains("fma.rn.f32"));
    let separate = ptx(Options::new().fmad(false))?;
    ensure!(!separate.contains("fma.rn.f32"));
    ensure!(separate.contains("mul.rn.f32") && separate.contains("add.rn.f32"));
    let flushed = ptx(Options::new().fast_math(true))?;
    ensure!(flushed.contains(".ftz.f32"));
    Ok(())
}

fn a_newer_gpu_gets_ptx(compiler: &Compiler) -> TestResult {
    let image = compiler.compile(&programs::SAXPY, Arch::sm(99, 0), Options::new())?;
    ensure!(!image.arch.is_real(), "clamped to {}", image.arch);
    ensure!(image.cubin.is_none());
    ensure!(image.ptx.is_some());
    Ok(())
}

/// For devices with clusters alone, so not among the programs of all.
fn clusters(compiler: &Compiler) -> TestResult {
    let image = compiler.compile(&programs::CLUSTERS, Arch::sm(9, 0), Options::new())?;
    ensure_eq!(image.log.trim(), "", "it compiles without warnings");
    let ptx = image.ptx.unwrap_or_default();
    ensure!(ptx.contains(".reqnctapercluster 4, 1, 1"), "{ptx}");
    ensure!(ptx.contains("griddepcontrol.wait") && ptx.contains("mapa.shared::cluster.u32"));
    Ok(())
}
