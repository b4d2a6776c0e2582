//! The linker: PTX by this project's own, the rest by the real nvJitLink 13.0.
//!
//! Where NVRTC or nvJitLink is not installed, its tests are reported as ignored, with the reason in their names: they
//! never count as passed.

use std::error::Error;
use std::path::PathBuf;

use cuda_safe_nvrtc::{Arch, Cache, Image, LinkError, Linker, Nvrtc, Options, Program};
use libtest_mimic::{Arguments, Failed, Trial};
use test_support::fatbin::{Entry, LTO, Packing, write};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The installed libraries.
struct Installed {
    nvrtc: Nvrtc,
    nvjitlink: PathBuf,
}

/// A test and its name.
type Test = (&'static str, fn(&Installed) -> Outcome);

const TESTS: [Test; 8] = [
    ("two_files_link_to_a_cubin", two_files_link_to_a_cubin),
    ("lto_ir_links_to_a_cubin_and_to_ptx", lto_ir_links_to_a_cubin_and_to_ptx),
    ("lto_ir_in_fat_binaries_links", lto_ir_in_fat_binaries_links),
    ("lto_ir_that_does_not_fit_is_named", lto_ir_that_does_not_fit_is_named),
    ("kinds_of_inputs_can_be_mixed", kinds_of_inputs_can_be_mixed),
    ("ptx_for_a_virtual_architecture_needs_no_library", ptx_needs_no_library),
    ("symbols_that_do_not_fit_are_named", symbols_that_do_not_fit_are_named),
    ("bad_inputs_are_refused", bad_inputs_are_refused),
];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (name, test) in TESTS {
        trials.push(match (nvrtc(), nvjitlink()) {
            (Some(nvrtc), Some(nvjitlink)) => Trial::test(name, move || {
                // SAFETY: NVIDIA's library, whose hash was checked when it was downloaded.
                let nvrtc = unsafe { Nvrtc::at(nvrtc) }?;
                test(&Installed { nvrtc, nvjitlink })
                    .map_err(|error| Failed::from(error.to_string()))
            }),
            _ => Trial::test(
                format!("{name} (not run: `cargo xtask test` fetches nvJitLink)"),
                || Err("run `cargo xtask setup` first".into()),
            )
            .with_ignored_flag(true),
        });
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn nvrtc() -> Option<PathBuf> {
    installed("nvidia-cuda-nvrtc-13.0.88/nvidia/cu13/lib/libnvrtc.so.13")
}

fn nvjitlink() -> Option<PathBuf> {
    installed("nvidia-nvjitlink-13.0.88/nvidia/cu13/lib/libnvJitLink.so.13")
}

fn installed(file: &str) -> Option<PathBuf> {
    let roots = match std::env::var_os("CUDA_SETUP_DIR") {
        Some(root) => vec![PathBuf::from(root)],
        None => {
            let program = std::env::current_exe().ok()?;
            program.ancestors().map(|folder| folder.join("target/cuda")).collect()
        }
    };
    roots.into_iter().map(|root| root.join(file)).find(|path| path.is_file())
}

const WEIGHT: &str = "__constant__ float table[2] = {2.0f, 3.0f};
static __device__ float own(float x) { return x * x; }
__device__ float weight(float x) { return own(x) * table[1]; }";

const APPLY: &str = "extern __constant__ float table[2];
static __device__ float own(float x) { return x + 1.0f; }
__device__ float weight(float x);
template <class T> __global__ void apply(T* x) { x[threadIdx.x] = weight(own(x[threadIdx.x])) + table[0]; }";

impl Installed {
    fn compile(&self, text: &str, options: Options, arch: Arch) -> Outcome<Image> {
        let program = Program::new(text).library(&self.nvrtc).cache(&Cache::off());
        let expressions = text.contains("template").then_some("apply<float>");
        let program =
            expressions.into_iter().fold(program, |program, name| program.name_expression(name));
        Ok(program.options(options).compile(arch)?)
    }

    fn relocatable(&self, text: &str, arch: Arch) -> Outcome<Image> {
        self.compile(text, Options::new().relocatable(true), arch)
    }

    fn lto(&self, text: &str) -> Outcome<Image> {
        self.compile(text, Options::new().lto(true), Arch::sm(9, 0))
    }

    fn linker(&self, arch: Arch) -> Linker {
        // SAFETY: NVIDIA's library, whose hash was checked when it was downloaded.
        unsafe { Linker::new(arch).library(&self.nvjitlink) }
    }
}

/// The name of the kernel in the image.
const KERNEL: &str = "_Z5applyIfEvPT_";

fn is_linked_cubin(image: &Image) -> Outcome {
    let cubin = image.cubin.as_deref().ok_or("a cubin")?;
    // An ELF file for CUDA that is no relocatable one.
    if !cubin.starts_with(b"\x7fELF") || cubin[16..20] != [2, 0, 190, 0] {
        return Err(format!("{:?}", &cubin[..20]).into());
    }
    let name = KERNEL.as_bytes();
    if !cubin.windows(name.len()).any(|bytes| bytes == name) {
        return Err("the kernel is not in the cubin".into());
    }
    Ok(())
}

fn two_files_link_to_a_cubin(installed: &Installed) -> Outcome {
    let arch = Arch::sm(9, 0);
    let weight = installed.relocatable(WEIGHT, arch)?;
    let apply = installed.relocatable(APPLY, arch)?;
    for images in [[&weight, &apply], [&apply, &weight]] {
        let linker = installed.linker(arch).image("a.cu", images[0]).image("b.cu", images[1]);
        let image = linker.link()?;
        is_linked_cubin(&image)?;
        let kernel = image.kernel("apply<float>").ok_or("the kernel's signature")?;
        assert_eq!((kernel.name.as_str(), kernel.params.len()), (KERNEL, 1));
        assert_eq!(image.version, apply.version);
    }
    Ok(())
}

fn lto_ir_links_to_a_cubin_and_to_ptx(installed: &Installed) -> Outcome {
    let (weight, apply) = (installed.lto(WEIGHT)?, installed.lto(APPLY)?);
    let link =
        |arch| installed.linker(arch).image("weight.cu", &weight).image("apply.cu", &apply).link();
    is_linked_cubin(&link(Arch::sm(9, 0))?)?;
    let image = link(Arch::compute(9, 0))?;
    let text = image.ptx.as_deref().ok_or("PTX")?;
    let module = ptx::parse(text)?;
    // Link-time optimisation has inlined the function of the other file.
    let names: Vec<_> = module.functions.iter().map(|function| &function.name).collect();
    assert_eq!(names, [KERNEL]);
    assert_eq!(image.kernel("apply<float>").map(|kernel| kernel.params.len()), Some(1));
    Ok(())
}

fn lto_ir_in_fat_binaries_links(installed: &Installed) -> Outcome {
    let [weight, encoded, plain] = LTO;
    for apply in [encoded, plain] {
        let link = |arch| {
            let linker = installed.linker(arch);
            linker.fatbin("weight.fatbin", weight).fatbin("apply.fatbin", apply).link()
        };
        is_linked_cubin(&link(Arch::sm(9, 0))?)?;
        let image = link(Arch::compute(9, 0))?;
        let module = ptx::parse(image.ptx.as_deref().ok_or("PTX")?)?;
        // The function of the other file is inlined: its LTO-IR was taken, and not its PTX.
        let names: Vec<_> = module.functions.iter().map(|function| &function.name).collect();
        assert_eq!(names, [KERNEL]);
    }
    // LTO-IR makes a link of fat binaries with PTX one with LTO-IR; beside machine code there is no need.
    for arch in [Arch::sm(9, 0), Arch::sm(10, 0)] {
        let compiled = installed.relocatable(WEIGHT, arch)?;
        let linker = installed.linker(arch).fatbin("apply", encoded);
        is_linked_cubin(&linker.image("weight", &compiled).link()?)?;
    }
    let apply = installed.relocatable(APPLY, Arch::sm(9, 0))?.cubin.ok_or("a cubin")?;
    is_linked_cubin(
        &installed.linker(Arch::sm(9, 0)).fatbin("weight", weight).cubin("apply", apply).link()?,
    )
}

fn lto_ir_that_does_not_fit_is_named(installed: &Installed) -> Outcome {
    let [weight, apply, _] = LTO;
    let text = refusal(&installed.linker(Arch::sm(7, 5)).fatbin("apply", apply))?.to_string();
    assert!(
        text.contains("input `apply`: the fatbin has no PTX") && text.contains("LTO-IR for sm_80"),
        "{text}"
    );
    let text = refusal(&installed.linker(Arch::sm(9, 0)).fatbin("apply", apply))?.to_string();
    assert!(text.contains("_Z6weightf"), "{text}");
    // PTX for a virtual architecture needs no library.
    // SAFETY: there is no such library, so none is loaded.
    let linker = unsafe { Linker::new(Arch::compute(9, 0)).library("/no/such/library") };
    let image = linker.fatbin("weight", weight).link()?;
    assert!(image.ptx.is_some_and(|text| text.contains("_Z6weightf")));
    for length in 0..apply.len() {
        let text =
            refusal(&installed.linker(Arch::sm(9, 0)).fatbin("cut", &apply[..length]))?.to_string();
        assert!(text.contains("input `cut`"), "{length}: {text}");
    }
    Ok(())
}

fn kinds_of_inputs_can_be_mixed(installed: &Installed) -> Outcome {
    let arch = Arch::sm(9, 0);
    let weight = installed.relocatable(WEIGHT, arch)?;
    let apply = installed.relocatable(APPLY, arch)?;
    let lto = installed.lto(WEIGHT)?;
    let text = weight.ptx.clone().ok_or("PTX")?;
    let cubin = apply.cubin.clone().ok_or("a cubin")?;
    let code = installed.linker(arch).cubin("apply", cubin.clone());
    is_linked_cubin(&code.clone().ptx("weight", text.clone()).link()?)?;
    let mut entry = Entry::ptx(90, &text, Packing::Zstd);
    entry.contents.push(0);
    is_linked_cubin(&code.clone().fatbin("weight", write(&[entry])).link()?)?;
    is_linked_cubin(&code.lto_ir("weight", lto.lto_ir.ok_or("LTO-IR")?).link()?)?;
    Ok(())
}

fn ptx_needs_no_library(installed: &Installed) -> Outcome {
    let arch = Arch::compute(7, 5);
    let weight = installed.relocatable(WEIGHT, arch)?;
    let apply = installed.relocatable(APPLY, arch)?;
    let text = weight.ptx.clone().ok_or("PTX")?;
    let entry = Entry::ptx(75, &text, Packing::Lz4);
    // SAFETY: there is no such library, so none is loaded.
    let linker = unsafe { Linker::new(arch).library("/no/such/library") }.image("apply.cu", &apply);
    let texts = [
        linker.clone().image("weight.cu", &weight).link()?,
        linker.fatbin("weight.fatbin", write(&[entry])).link()?,
    ];
    for image in &texts {
        let module = ptx::parse(image.ptx.as_deref().ok_or("PTX")?)?;
        assert!(module.functions.iter().all(|function| function.body.is_some()));
        assert!(image.cubin.is_none() && image.kernel("apply<float>").is_some());
    }
    // ptxas agrees that the text is whole: nvJitLink compiles it.
    let text = texts[0].ptx.clone().ok_or("PTX")?;
    is_linked_cubin(&installed.linker(Arch::sm(7, 5)).ptx("linked.ptx", text).link()?)
}

/// The error of a link that must fail.
fn refusal(linker: &Linker) -> Outcome<LinkError> {
    match linker.link() {
        Ok(_) => Err(format!("{linker:?} links").into()),
        Err(cuda_safe_nvrtc::Error::Link(error)) => Ok(*error),
        Err(error) => Err(error.into()),
    }
}

fn symbols_that_do_not_fit_are_named(installed: &Installed) -> Outcome {
    for arch in [Arch::sm(9, 0), Arch::compute(9, 0)] {
        let weight = installed.relocatable(WEIGHT, arch)?;
        let apply = installed.relocatable(APPLY, arch)?;
        let linker = installed.linker(arch).image("apply.cu", &apply);
        let text = refusal(&linker)?.to_string();
        assert!(text.contains("_Z6weightf"), "{text}");
        let twice = linker.image("a.cu", &weight).image("b.cu", &weight);
        let text = refusal(&twice)?.to_string();
        assert!(text.contains("` is defined in a.cu and in b.cu"), "{text}");
    }
    Ok(())
}

fn bad_inputs_are_refused(installed: &Installed) -> Outcome {
    for arch in [Arch::sm(9, 0), Arch::compute(9, 0)] {
        assert!(matches!(refusal(&installed.linker(arch))?, LinkError::NoInput));
        let linker = installed.linker(arch);
        for bad in [
            linker.clone().ptx("bad", "nonsense"),
            linker.clone().ptx("bad", ""),
            linker.clone().ptx("bad", ".version 8.0\n\0.target sm_75"),
            linker.clone().cubin("bad", vec![1, 2, 3]),
            linker.clone().cubin("bad", b"\x7fELF\x02\x01\x01".to_vec()),
            linker.clone().fatbin("bad", vec![0x50, 0xed, 0x55, 0xba]),
            linker.clone().lto_ir("bad", b"\xed\x43\x4e\x7f".to_vec()),
            linker.image("bad", &Image::new(arch)),
        ] {
            let text = refusal(&bad)?.to_string();
            assert!(text.contains("bad"), "{text}");
        }
    }
    let option = installed.linker(Arch::sm(9, 0)).option("-nonsense").ptx("a", "x");
    assert!(matches!(refusal(&option)?, LinkError::Failed { call: "nvJitLinkCreate", .. }));
    let folder = tempfile::tempdir()?;
    // SAFETY: the folder is empty, so nothing is loaded.
    let missing = unsafe { Linker::new(Arch::sm(9, 0)).library(folder.path()) }.ptx("a", "x");
    let error = refusal(&missing)?;
    assert!(matches!(&error, LinkError::NotFound { tried } if tried.len() == 4), "{error}");
    assert!(error.to_string().contains("CUDA_NVJITLINK"));
    Ok(())
}
