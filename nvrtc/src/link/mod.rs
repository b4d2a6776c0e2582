//! Links code that was compiled apart, without a device: nvJitLink, or, for PTX, this project's own linker.
#![allow(unsafe_code, reason = "calls nvJitLink")]

mod fatbin;
mod symbols;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cuda_sys::{NvJitLink, nvJitLinkHandle, nvJitLinkInputType, nvJitLinkResult};
use ptx::Signature;

use crate::error::LinkError;
use crate::find::library::{Sought, find};
use crate::{Arch, Error, Image, NvrtcVersion};
use symbols::{of_cubin, of_ptx};

/// Links PTX, cubins, fat binaries and LTO-IR that were compiled apart, without a device.
///
/// - For a real architecture (`sm_90`) it calls nvJitLink, and the image has a cubin.
/// - For a virtual one (`compute_75`) the image has PTX, which every newer device loads, and the software device too.
///   LTO-IR is linked by nvJitLink; PTX and PTX in fat binaries by [`ptx::link`], which needs no library.
///
/// nvJitLink is part of CUDA 12.0 and later (the PyPI package `nvidia-nvjitlink`). It is searched where
/// [`Nvrtc::find`](crate::Nvrtc::find) searches NVRTC, with the variable `CUDA_NVJITLINK` in place of `CUDA_NVRTC`, and
/// should be as new as the compiler. `cuda_safe::Linker` links with the driver instead: it needs a device and no
/// library, and takes no LTO-IR.
///
/// ```no_run
/// use cuda_safe_nvrtc::{Arch, Linker, Options, Program};
///
/// let compile = |text: &str| Program::new(text).options(Options::new().lto(true)).compile(Arch::sm(9, 0));
/// let weight = compile("__device__ float weight(float x) { return x * x; }")?;
/// let kernel = compile(
///     "__device__ float weight(float x);
///      extern \"C\" __global__ void apply(float* x) { x[threadIdx.x] = weight(x[threadIdx.x]); }",
/// )?;
/// let image = Linker::new(Arch::sm(9, 0)).image("weight.cu", &weight).image("kernel.cu", &kernel).link()?;
/// assert!(image.cubin.is_some());
/// # Ok::<(), cuda_safe_nvrtc::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "`link` links the inputs"]
pub struct Linker {
    arch: Arch,
    inputs: Vec<Input>,
    options: Vec<String>,
    library: Option<PathBuf>,
}

#[derive(Clone)]
struct Input {
    name: String,
    kind: Kind,
    bytes: Vec<u8>,
    /// The kernels, where they are known.
    kernels: Option<Vec<Signature>>,
    lowered: Vec<(String, String)>,
    version: Option<NvrtcVersion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ptx,
    Cubin,
    Fatbin,
    LtoIr,
    /// An image without contents.
    Nothing,
}

impl std::fmt::Debug for Linker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inputs: Vec<_> = self.inputs.iter().map(|input| (&input.name, input.kind)).collect();
        f.debug_struct("Linker")
            .field("arch", &self.arch)
            .field("inputs", &inputs)
            .finish_non_exhaustive()
    }
}

impl Linker {
    /// Returns a linker without inputs for an architecture.
    pub fn new(arch: Arch) -> Self {
        Self { arch, inputs: Vec::new(), options: Vec::new(), library: None }
    }

    fn add(mut self, name: impl Into<String>, kind: Kind, bytes: Vec<u8>) -> Self {
        let text = if kind == Kind::Ptx { std::str::from_utf8(&bytes).ok() } else { None };
        let kernels = text.and_then(|text| ptx::entries(text).ok());
        let (name, lowered, version) = (name.into(), Vec::new(), None);
        self.inputs.push(Input { name, kind, bytes, kernels, lowered, version });
        self
    }

    /// Adds PTX. `name` is its name in messages, such as the file's.
    pub fn ptx(self, name: impl Into<String>, ptx: impl Into<String>) -> Self {
        self.add(name, Kind::Ptx, ptx.into().into_bytes())
    }

    /// Adds relocatable machine code: a cubin of `nvcc -rdc=true -cubin`.
    pub fn cubin(self, name: impl Into<String>, cubin: impl Into<Vec<u8>>) -> Self {
        self.add(name, Kind::Cubin, cubin.into())
    }

    /// Adds a fat binary, of which the link takes the image for the architecture: machine code for exactly this one,
    /// or, in a link with LTO-IR, LTO-IR, or else PTX. LTO-IR alone, or beside PTX where the architecture is a real one
    /// (`nvcc -arch=sm_90 -dlto`), makes the link one with LTO-IR.
    ///
    /// nvJitLink trusts machine code and LTO-IR: bytes that no compiler has written can make it crash.
    pub fn fatbin(self, name: impl Into<String>, fatbin: impl Into<Vec<u8>>) -> Self {
        self.add(name, Kind::Fatbin, fatbin.into())
    }

    /// Adds LTO-IR. If there is any, the link optimises across all LTO-IR. nvJitLink trusts it, as in
    /// [`fatbin`](Self::fatbin).
    pub fn lto_ir(self, name: impl Into<String>, lto_ir: impl Into<Vec<u8>>) -> Self {
        self.add(name, Kind::LtoIr, lto_ir.into())
    }

    /// Adds the output of a compile with [`Options::relocatable`](crate::Options::relocatable) or
    /// [`Options::lto`](crate::Options::lto): its LTO-IR, or, for a real architecture, its cubin, or its PTX.
    pub fn image(mut self, name: impl Into<String>, image: &Image) -> Self {
        let real = self.arch.is_real();
        let (kind, bytes) = match (&image.lto_ir, &image.cubin, &image.ptx) {
            (Some(bytes), _, _) => (Kind::LtoIr, bytes.clone()),
            (None, Some(bytes), _) if real => (Kind::Cubin, bytes.clone()),
            (None, _, Some(text)) => (Kind::Ptx, text.clone().into_bytes()),
            (None, Some(bytes), None) => (Kind::Cubin, bytes.clone()),
            (None, None, None) => (Kind::Nothing, Vec::new()),
        };
        let kernels = image.ptx.is_some().then(|| image.kernels.clone());
        let (name, lowered, version) = (name.into(), image.lowered.clone(), Some(image.version));
        self.inputs.push(Input { name, kind, bytes, kernels, lowered, version });
        self
    }

    /// Adds an option of nvJitLink, such as `-maxrregcount=32`.
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Names the nvJitLink to use: the library, or a folder that holds it. Setting the variable `CUDA_NVJITLINK` needs
    /// no `unsafe`.
    ///
    /// # Safety
    /// As for [`Nvrtc::at`](crate::Nvrtc::at), with `nvJitLink.h`.
    pub unsafe fn library(mut self, path: impl AsRef<Path>) -> Self {
        self.library = Some(path.as_ref().to_owned());
        self
    }

    /// Links the inputs.
    ///
    /// The image has the signatures of the kernels if every input has PTX or the image is PTX, and the name expressions
    /// of all images.
    ///
    /// # Errors
    /// [`Error::Link`]: there is no input, or an empty one; nvJitLink is not there; an input is not of its kind; a
    /// symbol that two inputs define, that no input defines, or that inputs declare differently. The linker's log names
    /// it.
    pub fn link(&self) -> Result<Image, Error> {
        self.linked().map_err(|error| Error::Link(Box::new(error)))
    }

    fn linked(&self) -> Result<Image, LinkError> {
        if self.inputs.is_empty() {
            return Err(LinkError::NoInput);
        }
        for input in &self.inputs {
            let end = input.bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            let text = input.bytes.get(..end).unwrap_or_default();
            let why = if text.is_empty() {
                "it is empty"
            } else if input.kind == Kind::Ptx && text.contains(&0) {
                "it has a NUL"
            } else {
                continue;
            };
            return Err(LinkError::Input { name: input.name.clone(), why: why.to_owned() });
        }
        let lto = self.inputs.iter().any(|input| match input.kind {
            Kind::LtoIr => true,
            Kind::Fatbin => fatbin::wants_lto(&input.bytes, self.arch),
            _ => false,
        });
        let mut image = Image::new(self.arch);
        if self.arch.is_real() || lto {
            let (bytes, log) = self.by_library(lto)?;
            if self.arch.is_real() {
                image.cubin = Some(bytes);
            } else {
                let text = String::from_utf8_lossy(&bytes);
                image.ptx = Some(text.trim_end_matches('\0').to_owned());
            }
            image.log = log;
        } else {
            image.ptx = Some(self.as_ptx()?);
        }
        image.kernels = match &image.ptx {
            Some(text) => ptx::entries(text).unwrap_or_default(),
            None => self.signatures().unwrap_or_default(),
        };
        for kernel in image.kernels.iter_mut().filter(|kernel| kernel.types.is_empty()) {
            let mut known =
                self.inputs.iter().filter_map(|input| input.kernels.as_deref()).flatten();
            let same = known.find(|known| known.name == kernel.name && !known.types.is_empty());
            kernel.types = same.map(|known| known.types.clone()).unwrap_or_default();
        }
        for input in &self.inputs {
            let fresh = input.lowered.iter().filter(|pair| !image.lowered.contains(pair));
            let fresh: Vec<_> = fresh.cloned().collect();
            image.lowered.extend(fresh);
            image.version = image.version.max(input.version.unwrap_or(image.version));
        }
        Ok(image)
    }

    /// Returns the kernels of all inputs; `None` if those of one are not known, or if two inputs differ.
    fn signatures(&self) -> Option<Vec<Signature>> {
        let mut all: Vec<Signature> = Vec::new();
        for input in &self.inputs {
            for signature in input.kernels.as_ref()? {
                match all.iter().find(|known| known.name == signature.name) {
                    None => all.push(signature.clone()),
                    Some(known) if known == signature => {}
                    Some(_) => return None,
                }
            }
        }
        Some(all)
    }

    /// Returns the image of an input: what it is, or what a fat binary has for the architecture.
    fn image_of<'i>(
        &self,
        input: &'i Input,
        lto: bool,
    ) -> Result<(Kind, Cow<'i, [u8]>), LinkError> {
        if input.kind != Kind::Fatbin {
            return Ok((input.kind, Cow::Borrowed(&input.bytes)));
        }
        fatbin::image_of(&input.bytes, self.arch, lto)
            .map_err(|why| LinkError::Input { name: input.name.clone(), why })
    }

    /// Links PTX.
    fn as_ptx(&self) -> Result<String, LinkError> {
        let mut texts = Vec::new();
        for input in &self.inputs {
            let failed = |why: String| LinkError::Input { name: input.name.clone(), why };
            let (Kind::Ptx, bytes) = self.image_of(input, false)? else {
                let why = format!("machine code, which does not link to PTX for {}", self.arch);
                return Err(failed(why));
            };
            let text = String::from_utf8(bytes.into_owned());
            let text = text.map_err(|_| failed("PTX that is not UTF-8".to_owned()))?;
            texts.push((input.name.as_str(), text));
        }
        let inputs: Vec<_> =
            texts.iter().map(|(name, text)| ptx::link::Input { name, text }).collect();
        ptx::link::link(&inputs, |name| SYSTEM.contains(&name)).map_err(LinkError::Ptx)
    }

    /// Links with nvJitLink: the output and the log.
    fn by_library(&self, lto: bool) -> Result<(Vec<u8>, String), LinkError> {
        let version = self.inputs.iter().filter_map(|input| input.version).max();
        let sought = Sought { preferred: version.map(|version| version.major), ..NVJITLINK };
        let path = find(&sought, self.library.as_deref())
            .map_err(|tried| LinkError::NotFound { tried })?;
        // SAFETY: the user has named the library (`CUDA_NVJITLINK` and other variables), or the caller of `library` has
        // promised that it is one, or it was found under nvJitLink's name in a place to which only the user and root
        // can write.
        let raw = unsafe { loaded(&path) }?;
        let mut options = vec![format!("-arch={}", self.arch)];
        if lto {
            options.push("-lto".to_owned());
            if !self.arch.is_real() {
                options.push("-ptx".to_owned());
            }
        }
        options.extend(self.options.iter().cloned());
        let mut images = Vec::new();
        let mut defined: HashMap<String, &str> = HashMap::new();
        for input in &self.inputs {
            let (kind, bytes) = self.image_of(input, lto)?;
            let names = match kind {
                Kind::Ptx => of_ptx(&bytes),
                Kind::Cubin => of_cubin(&bytes),
                _ => Vec::new(),
            };
            for name in names {
                if let Some(first) = defined.insert(name.clone(), &input.name) {
                    let (first, second) = (first.to_owned(), input.name.clone());
                    return Err(LinkError::DefinedTwice { name, first, second });
                }
            }
            images.push((input.name.as_str(), kind, bytes));
        }
        let mut link = Link::new(raw, &options)?;
        for (name, kind, bytes) in images {
            link.add(name, kind, bytes.into_owned())?;
        }
        let code = |call| link.check(call, "the link");
        // SAFETY: the handle is alive.
        code(("nvJitLinkComplete", unsafe { raw.nvJitLinkComplete(link.handle) }))?;
        let ptx = !self.arch.is_real();
        let size_of = if ptx { "nvJitLinkGetLinkedPtxSize" } else { "nvJitLinkGetLinkedCubinSize" };
        let mut size = 0;
        // SAFETY: the handle is alive, and the place is valid for the write.
        let answer = unsafe {
            if ptx {
                raw.nvJitLinkGetLinkedPtxSize(link.handle, &raw mut size)
            } else {
                raw.nvJitLinkGetLinkedCubinSize(link.handle, &raw mut size)
            }
        };
        code((size_of, answer))?;
        let mut bytes = zeros(size).ok_or_else(|| LinkError::Failed {
            call: size_of,
            what: "the output".to_owned(),
            code: format!("a size of {size} bytes, more than there is memory"),
            log: String::new(),
        })?;
        // SAFETY: the handle is alive, and the buffer has as many bytes as the library has just said.
        let answer = unsafe {
            if ptx {
                raw.nvJitLinkGetLinkedPtx(link.handle, bytes.as_mut_ptr().cast())
            } else {
                raw.nvJitLinkGetLinkedCubin(link.handle, bytes.as_mut_ptr().cast())
            }
        };
        code((if ptx { "nvJitLinkGetLinkedPtx" } else { "nvJitLinkGetLinkedCubin" }, answer))?;
        Ok((bytes, link.log(false)))
    }
}

/// Returns the library at `path`. Each file is loaded once, since a table of functions is never freed.
///
/// # Safety
/// As for [`NvJitLink::load_from`].
unsafe fn loaded(path: &Path) -> Result<&'static NvJitLink, LinkError> {
    static LOADED: Mutex<Vec<(PathBuf, &'static NvJitLink)>> = Mutex::new(Vec::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, raw)) = loaded.iter().find(|(known, _)| known == path) {
        return Ok(raw);
    }
    // SAFETY: the caller's promise.
    let raw = unsafe { NvJitLink::load_from(path) }.map_err(LinkError::Load)?;
    loaded.push((path.to_owned(), raw));
    Ok(raw)
}

/// The library: of several in one place, the one of the compiler's major version is taken.
const NVJITLINK: Sought = Sought {
    name: "nvJitLink",
    variable: "CUDA_NVJITLINK",
    package: "nvjitlink",
    files: || {
        let versioned = (12..=20).rev().map(|major: u32| {
            let windows = format!("nvJitLink_{major}0_0.dll");
            (major, if cfg!(windows) { windows } else { format!("libnvJitLink.so.{major}") })
        });
        versioned.chain((!cfg!(windows)).then(|| (0, "libnvJitLink.so".to_owned()))).collect()
    },
    preferred: None,
    most: None,
};

/// The functions that a device has without a definition.
const SYSTEM: [&str; 5] = ["vprintf", "malloc", "free", "__assertfail", "cudaGraphSetConditional"];

/// A call and its return code.
type Called = (&'static str, Result<nvJitLinkResult, cuda_sys::MissingSymbol>);

/// A link that is under way.
struct Link {
    raw: &'static NvJitLink,
    handle: nvJitLinkHandle,
    /// The inputs and their names. nvJitLink 13.0 reads them until the link is complete.
    kept: Vec<(CString, Vec<u8>)>,
}

impl Link {
    fn new(raw: &'static NvJitLink, options: &[String]) -> Result<Self, LinkError> {
        let nul = |option: &String| LinkError::Input {
            name: format!("option {option:?}"),
            why: "it has a NUL".to_owned(),
        };
        let strings = options.iter().map(|o| CString::new(o.as_str()).map_err(|_| nul(o)));
        let strings: Vec<CString> = strings.collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = strings.iter().map(|string| string.as_ptr()).collect();
        let count = u32::try_from(pointers.len()).unwrap_or(u32::MAX);
        let mut handle = std::ptr::null_mut();
        // SAFETY: the place is valid for the write; the options are `count` strings.
        let code = unsafe { raw.nvJitLinkCreate(&raw mut handle, count, pointers.as_ptr()) };
        let link = Self { raw, handle, kept: Vec::new() };
        link.check(("nvJitLinkCreate", code), &format!("the options {}", options.join(" ")))?;
        Ok(link)
    }

    fn add(&mut self, name: &str, kind: Kind, mut bytes: Vec<u8>) -> Result<(), LinkError> {
        if kind == Kind::Ptx && bytes.last() != Some(&0) {
            bytes.push(0);
        }
        let kind = match kind {
            Kind::Ptx => nvJitLinkInputType::NVJITLINK_INPUT_PTX,
            Kind::Cubin => nvJitLinkInputType::NVJITLINK_INPUT_CUBIN,
            Kind::Fatbin => nvJitLinkInputType::NVJITLINK_INPUT_FATBIN,
            Kind::LtoIr | Kind::Nothing => nvJitLinkInputType::NVJITLINK_INPUT_LTOIR,
        };
        let c_name = CString::new(name.replace('\0', " ")).unwrap_or_default();
        let (data, size, title) = (bytes.as_ptr().cast::<c_void>(), bytes.len(), c_name.as_ptr());
        // Moving the vector and the string does not move their contents.
        self.kept.push((c_name, bytes));
        // SAFETY: the handle is alive; the data has this size, and PTX ends with a NUL; the name is a string; both stay
        // until the handle is destroyed.
        let code = unsafe { self.raw.nvJitLinkAddData(self.handle, kind, data, size, title) };
        self.check(("nvJitLinkAddData", code), &format!("input `{name}`"))
    }

    /// Turns the code that a call returned into a result, with the log.
    fn check(&self, (call, code): Called, what: &str) -> Result<(), LinkError> {
        match code {
            Ok(nvJitLinkResult::NVJITLINK_SUCCESS) => Ok(()),
            Ok(code) => Err(LinkError::Failed {
                call,
                what: what.to_owned(),
                code: code.name().map_or_else(|| code.0.to_string(), str::to_owned),
                log: self.log(true),
            }),
            Err(missing) => Err(LinkError::MissingSymbol {
                symbol: missing.name,
                library: self.raw.source().to_owned(),
            }),
        }
    }

    /// Returns the error log or the other one; nothing if there is none.
    fn log(&self, errors: bool) -> String {
        if self.handle.is_null() {
            return String::new();
        }
        let (raw, mut size) = (self.raw, 0);
        // SAFETY: the handle is alive, and the place is valid for the write.
        let code = unsafe {
            if errors {
                raw.nvJitLinkGetErrorLogSize(self.handle, &raw mut size)
            } else {
                raw.nvJitLinkGetInfoLogSize(self.handle, &raw mut size)
            }
        };
        if code != Ok(nvJitLinkResult::NVJITLINK_SUCCESS) || size == 0 {
            return String::new();
        }
        let Some(mut log) = zeros(size.saturating_add(1)) else { return String::new() };
        // SAFETY: the handle is alive, and the buffer has more bytes than the library has just said.
        let code = unsafe {
            if errors {
                raw.nvJitLinkGetErrorLog(self.handle, log.as_mut_ptr().cast())
            } else {
                raw.nvJitLinkGetInfoLog(self.handle, log.as_mut_ptr().cast())
            }
        };
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        match code {
            Ok(nvJitLinkResult::NVJITLINK_SUCCESS) => {
                let text = String::from_utf8_lossy(log.get(..end).unwrap_or_default());
                // `@E@` is the library's mark.
                text.replace("@E@", "").trim().to_owned()
            }
            _ => String::new(),
        }
    }
}

/// Returns as many zeros, unless there is no memory for them.
fn zeros(size: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).ok()?;
    bytes.resize(size, 0);
    Some(bytes)
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is alive, and this is its last use.
            let _ = unsafe { self.raw.nvJitLinkDestroy(&raw mut self.handle) };
        }
    }
}
