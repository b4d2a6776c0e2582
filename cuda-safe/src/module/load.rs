//! Passes an image to the driver. It is checked first, since the driver takes no length.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use cuda_sys::{CUmodule, CUresult};

use super::KernelSignatures;
use super::ModuleInner;
use super::fatbin::Facts;
use super::jit::{Arguments, JitOptions};
use super::variables::Variables;
use crate::context::{ContextInner, Counted};
use crate::error::{Error, Result};
use crate::image::{self, ImageKind};
use crate::trace::timed;

/// The source of a module.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ModuleImage<'a> {
    /// The output of NVRTC: cubin and PTX, the names and signatures of the kernels.
    Image(&'a nvrtc::Image),
    /// PTX text.
    Ptx(&'a str),
    /// PTX text compressed with gzip.
    #[cfg(feature = "packed-ptx")]
    PackedPtx(super::PackedPtx<'a>),
    /// Machine code for one architecture.
    Cubin(&'a [u8]),
    /// Images for several architectures in one.
    Fatbin(&'a [u8]),
}

impl<'a> From<&'a nvrtc::Image> for ModuleImage<'a> {
    fn from(image: &'a nvrtc::Image) -> Self {
        Self::Image(image)
    }
}

#[cfg(feature = "packed-ptx")]
impl<'a> From<super::PackedPtx<'a>> for ModuleImage<'a> {
    fn from(packed: super::PackedPtx<'a>) -> Self {
        Self::PackedPtx(packed)
    }
}

/// The part of an image that the driver loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LoadedFrom {
    /// Machine code, unchanged.
    Cubin,
    /// PTX, compiled by the driver.
    Ptx,
    /// A fatbin: the driver chose.
    Fatbin,
}

pub(super) fn load(
    context: &Arc<ContextInner>,
    image: ModuleImage<'_>,
    options: &JitOptions,
) -> Result<ModuleInner> {
    context.state.usable()?;
    match image {
        ModuleImage::Image(image) => load_image(context, image, options),
        ModuleImage::Ptx(ptx) => {
            let kernels = ptx::entries(ptx).unwrap_or_default();
            let signatures = KernelSignatures::new(kernels, Vec::new(), None);
            let loaded = load_bytes(context, ptx.as_bytes(), ImageKind::Ptx, options)?;
            let variables = Variables::of_ptx(ptx);
            Ok(module(context, loaded, signatures, LoadedFrom::Ptx, variables))
        }
        #[cfg(feature = "packed-ptx")]
        ModuleImage::PackedPtx(packed) => {
            let text = packed.unpack()?;
            load(context, ModuleImage::Ptx(&text), options).map_err(|error| packed.named(error))
        }
        ModuleImage::Cubin(bytes) => {
            let loaded = load_bytes(context, bytes, ImageKind::Cubin, options)?;
            let variables = Variables::of_machine_code(bytes);
            Ok(module(context, loaded, KernelSignatures::default(), LoadedFrom::Cubin, variables))
        }
        ModuleImage::Fatbin(bytes) => {
            let loaded = load_bytes(context, bytes, ImageKind::Fatbin, options)?;
            let Facts { signatures: kernels, reach } = Facts::of(bytes);
            let signatures = KernelSignatures::new(kernels, Vec::new(), None);
            Ok(module(context, loaded, signatures, LoadedFrom::Fatbin, Variables::new(reach)))
        }
    }
}

fn load_image(
    context: &Arc<ContextInner>,
    image: &nvrtc::Image,
    options: &JitOptions,
) -> Result<ModuleInner> {
    let attempt = |kind| match kind {
        LoadedFrom::Ptx => {
            let ptx = image.ptx.as_deref();
            ptx.map(|ptx| load_bytes(context, ptx.as_bytes(), ImageKind::Ptx, options))
        }
        _ => {
            let cubin = image.cubin.as_deref();
            cubin.map(|cubin| load_bytes(context, cubin, ImageKind::Cubin, options))
        }
    };
    let (loaded, from) = match (attempt(LoadedFrom::Cubin), &image.ptx) {
        (Some(Ok(loaded)), _) => (loaded, LoadedFrom::Cubin),
        (Some(Err(error)), Some(_)) if wants_ptx(&error) => match attempt(LoadedFrom::Ptx) {
            Some(loaded) => (loaded?, LoadedFrom::Ptx),
            None => return Err(error),
        },
        (Some(Err(error)), _) => return Err(error),
        (None, _) => match attempt(LoadedFrom::Ptx) {
            Some(loaded) => (loaded?, LoadedFrom::Ptx),
            None => return Err(Error::invalid("the image has neither a cubin nor PTX")),
        },
    };
    let variables = variables(image, from);
    // `variables` has those of the PTX.
    let signatures = KernelSignatures::new(image.kernels.clone(), image.lowered.clone(), None);
    let mut module = module(context, loaded, signatures, from, variables);
    module.compile_log.clone_from(&image.log);
    Ok(module)
}

/// Returns the variables of an image of which the driver has loaded cubin or PTX. The fields of an image are public: beside
/// a cubin may be the PTX of another program, which says nothing of the cubin's kernels.
fn variables(image: &nvrtc::Image, from: LoadedFrom) -> Variables {
    match (&image.ptx, &image.cubin) {
        (Some(_), Some(cubin)) if from == LoadedFrom::Cubin && !image.is_one_program() => {
            Variables::of_machine_code(cubin)
        }
        (Some(ptx), _) => Variables::of_ptx(ptx),
        (None, Some(cubin)) => Variables::of_machine_code(cubin),
        (None, None) => Variables::default(),
    }
}

/// Returns whether another form of the same program may load where this one did not: no code for the
/// device, a newer format than the driver knows, or a device that takes no machine code.
pub(super) fn wants_ptx(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(
            CUresult::CUDA_ERROR_INVALID_IMAGE
                | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
                | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                | CUresult::CUDA_ERROR_INVALID_SOURCE
        )
    )
}

pub(super) struct Loaded {
    pub(super) raw: CUmodule,
    pub(super) log: String,
}

pub(super) fn module(
    context: &Arc<ContextInner>,
    loaded: Loaded,
    signatures: KernelSignatures,
    loaded_from: LoadedFrom,
    variables: Variables,
) -> ModuleInner {
    context.census.add(Counted::Module);
    ModuleInner {
        context: context.clone(),
        raw: loaded.raw,
        lazy: None,
        signatures,
        loaded_from,
        log: loaded.log,
        compile_log: String::new(),
        variables,
        kernels: AtomicUsize::new(0),
        globals: AtomicUsize::new(0),
    }
}

pub(super) fn load_bytes(
    context: &ContextInner,
    bytes: &[u8],
    kind: ImageKind,
    options: &JitOptions,
) -> Result<Loaded> {
    let found = image::check(bytes).map_err(Error::invalid)?;
    if found != kind {
        return Err(Error::invalid(format!("expected {}, found {}", label(kind), label(found))));
    }
    // The driver needs a zero byte after PTX; other kinds are taken unchanged.
    let bytes: Cow<'_, [u8]> = match kind {
        ImageKind::Ptx if bytes.last() != Some(&0) => [bytes, &[0]].concat().into(),
        _ => bytes.into(),
    };
    let mut arguments = Arguments::new(options);
    let mut raw = std::ptr::null_mut();
    let result = context.with_current(|| {
        let (count, keys, values) = arguments.as_raw();
        let result = timed!(DEBUG, [kind = label(kind), bytes = bytes.len(), "load module"], {
            // SAFETY: `raw` is a valid place for a handle; the image is whole, which `check` has
            // established, or ends with a zero byte; the arrays have `count` elements, and the log
            // buffers live until after the call.
            unsafe {
                context.state.sys.cuModuleLoadDataEx(
                    &raw mut raw,
                    bytes.as_ptr().cast(),
                    count,
                    keys,
                    values,
                )
            }
        });
        context.answer("cuModuleLoadDataEx", result)
    });
    let log = arguments.log();
    match result {
        Ok(()) => Ok(Loaded { raw, log }),
        Err(error) if error.is_fatal() => Err(error),
        Err(error) => Err(explain(context, error, &bytes, kind, &log)),
    }
}

fn label(kind: ImageKind) -> &'static str {
    match kind {
        ImageKind::Cubin => "a cubin",
        ImageKind::Fatbin => "a fatbin",
        ImageKind::Ptx => "PTX",
    }
}

/// Says what the image is, what the driver can take, and what the compiler said.
#[cold]
pub(super) fn explain(
    context: &ContextInner,
    error: Error,
    bytes: &[u8],
    kind: ImageKind,
    log: &str,
) -> Error {
    let (label, size) = (label(kind), bytes.len());
    let asked = if log.is_empty() {
        format!("{label} of {size} bytes")
    } else {
        format!("{label} of {size} bytes; the driver's compiler says: {log}")
    };
    let unsupported = error.code() == Some(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    let error = error.with_asked(asked);
    if let (true, Some((major, minor)), Some(driver)) =
        (unsupported, image::ptx_version(bytes), context.state.sys.version())
    {
        return error.with_hint(format!(
            "the image is PTX {major}.{minor}, which this driver (CUDA {}.{}) does not know: use \
             an NVRTC no newer than the driver (`nvrtc::Program::compile_for_driver` chooses one), load a cubin for \
             the device instead, or update the driver",
            driver / 1000,
            driver % 1000 / 10,
        ));
    }
    if kind == ImageKind::Fatbin && !log.contains("-gencode") {
        return match missing_image(context, &error, bytes) {
            Some(missing) => error.with_hint(missing.to_string()),
            None => error,
        };
    }
    // Machine code has no target to query: there is no hint, and PTX may be tried next.
    let target = if kind == ImageKind::Ptx { image::ptx_target(bytes) } else { None };
    let Some(target) = target else { return error };
    match context.device.compute_capability() {
        Ok((major, minor)) => error.with_hint(format!(
            "the PTX is for {target} and newer; the device is sm_{major}{minor}"
        )),
        Err(_) => error,
    }
}

/// Returns what a fat binary lacks, where that is why the driver refused it.
#[cold]
fn missing_image(
    context: &ContextInner,
    error: &Error,
    bytes: &[u8],
) -> Option<ptx::fatbin::NoImage> {
    if error.code() != Some(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU) {
        return None;
    }
    let (major, minor) = context.device.compute_capability().ok()?;
    ptx::fatbin::Fatbin::parse(bytes).ok()?.ptx_for(major * 10 + minor).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_of_another_program_says_nothing_of_a_cubin() {
        let ptx = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n";
        let mut image = nvrtc::Image::new(nvrtc::Arch::sm(7, 5));
        image.ptx = Some(ptx.to_owned());
        assert!(variables(&image, LoadedFrom::Ptx).declared().is_some());
        image.cubin = Some(b"\x7fELF".to_vec());
        assert!(variables(&image, LoadedFrom::Cubin).declared().is_none());
        assert!(variables(&image, LoadedFrom::Ptx).declared().is_some());
    }
}
