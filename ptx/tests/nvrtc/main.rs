//! The output of the real compilers, NVRTC 12.0 and 13.0 as `cargo xtask setup` installs them: every kernel,
//! architecture and set of flags is read, taken apart, printed, and reads the same again. ptxas accepts what passes make
//! of it, where nvJitLink is installed.
//!
//! Where a version is not installed its tests are reported as ignored, with the reason in their
//! names: they never count as passed.

mod passes;
mod variables;

use std::error::Error;
use std::path::PathBuf;

use libtest_mimic::{Arguments, Trial};
use nvrtc::{Arch, Cache, Nvrtc, Options, Program};
use ptx::ir::Op;

const SOURCES: [(&str, &str); 4] = [
    ("arithmetic", include_str!("arithmetic.cu")),
    ("memory", include_str!("memory.cu")),
    ("warps", include_str!("warps.cu")),
    ("assembly", include_str!("assembly.cu")),
];

/// The folder under `target/cuda`, the version, and its architectures.
const INSTALLED: [(&str, &str, &[&str]); 2] = [
    (
        "nvidia-cuda-nvrtc-cu12-12.0.140/nvidia/cuda_nvrtc/lib",
        "12.0",
        &["compute_50", "compute_60", "compute_75", "compute_90"],
    ),
    ("nvidia-cuda-nvrtc-13.0.88/nvidia/cu13/lib", "13.0", &["compute_75", "compute_90"]),
];

fn flags() -> [(&'static str, Options); 5] {
    [
        ("default", Options::new()),
        ("fast-math", Options::new().fast_math(true)),
        ("no-fmad", Options::new().fmad(false)),
        ("lineinfo", Options::new().lineinfo(true)),
        ("debug", Options::new().debug(true)),
    ]
}

fn main() {
    let mut trials = Vec::new();
    for (folder, version, arches) in INSTALLED {
        let Some(path) = installed(folder) else {
            let name = format!("{version} (not run: `cargo xtask setup` first)");
            trials.push(
                Trial::test(name, || Err("run `cargo xtask setup` first".into()))
                    .with_ignored_flag(true),
            );
            continue;
        };
        for (name, source) in SOURCES {
            for &arch in arches {
                for (flag, options) in flags() {
                    let path = path.clone();
                    trials.push(Trial::test(
                        format!("{version}/{name}/{arch}/{flag}"),
                        move || {
                            check(&path, source, arch, options).map_err(|e| e.to_string().into())
                        },
                    ));
                }
            }
        }
        for case in variables::CASES {
            for &arch in arches {
                // Without optimisation locals lie in memory, where addresses are not told apart.
                let debug = ("debug", Options::new().debug(true), false);
                for (flag, options, exact) in [("default", Options::new(), true), debug] {
                    let path = path.clone();
                    let name = format!("{version}/variables/{}/{arch}/{flag}", case.name);
                    trials.push(Trial::test(name, move || {
                        variables::check(&path, case, arch, options, exact)
                            .map_err(|error| error.to_string().into())
                    }));
                }
            }
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn installed(folder: &str) -> Option<PathBuf> {
    let roots = match std::env::var_os("CUDA_SETUP_DIR") {
        Some(root) => vec![PathBuf::from(root)],
        None => {
            let program = std::env::current_exe().ok()?;
            program.ancestors().map(|folder| folder.join("target/cuda")).collect()
        }
    };
    roots.into_iter().map(|root| root.join(folder)).find(|path| path.is_dir())
}

fn check(path: &PathBuf, source: &str, arch: &str, options: Options) -> Result<(), Box<dyn Error>> {
    // SAFETY: NVIDIA's library, as `cargo xtask setup` fetched it by its hash.
    let library = unsafe { Nvrtc::at(path) }?;
    let image = Program::new(source)
        .name("kernels.cu")
        .library(&library)
        .cache(&Cache::off())
        .options(options)
        .compile(arch.parse::<Arch>()?)?;
    let text = image.ptx.ok_or("no PTX")?;
    let mut module = ptx::parse(&text)?;
    for function in &module.functions {
        let graph = ptx::cfg::Cfg::new(&module, function);
        if graph.block_of.len() != function.instrs().len() {
            return Err(format!("{}: instructions without a block", function.name).into());
        }
        for instr in function.instrs() {
            if let Op::Other { opcode, .. } = &instr.op {
                return Err(format!("line {}: {opcode} is not taken apart", instr.line).into());
            }
        }
    }
    for kernel in ptx::entries(&text)? {
        let function = module.functions.iter().find(|f| f.name == kernel.name);
        let function = function.ok_or_else(|| format!("{} is missing", kernel.name))?;
        let (offsets, bytes) = function.param_layout();
        let same = kernel.params.iter().map(|p| p.offset as u64).eq(offsets);
        if !same || kernel.param_bytes() as u64 != bytes {
            return Err(format!("{}: the scan sees other parameters", kernel.name).into());
        }
    }
    // ptxas takes the longest; one architecture is enough.
    let linker = installed(passes::LINKER).filter(|_| arch == "compute_90");
    passes::check(&module, linker.as_deref())?;
    let printed = module.to_string();
    let mut again = ptx::parse(&printed)?;
    module.forget_lines();
    again.forget_lines();
    if again != module {
        return Err("printed, it reads as something else".into());
    }
    Ok(())
}
