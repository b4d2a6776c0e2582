//! Links code that was compiled apart, with the driver's linker.

use std::collections::{HashMap, HashSet, hash_map};
use std::ffi::{CString, c_void};
use std::fmt;

use cuda_sys::{CUjitInputType, CUlinkState};
use ptx::Signature;
use ptx::fatbin::{Fatbin, Kind};

use super::jit::{Arguments, JitOptions};
use super::load::wants_ptx;
use crate::context::{Context, ContextInner};
use crate::error::{Error, Result};
use crate::image::{self, ImageKind};
use crate::trace::timed;

/// Links PTX, cubins and fatbins that were compiled apart, as `nvcc -rdc=true` compiles the files of a program.
///
/// The result is an [`nvrtc::Image`], which [`Module::load`](crate::Module::load) and [`kernels!`](crate::kernels) take.
/// A function or variable that a file declares `extern` and another one defines is found by its name; names with
/// internal linkage stay apart. The driver's linker needs no library and no toolkit. It does not take LTO-IR.
///
/// ```no_run
/// # fn main() -> cuda_safe::Result<()> {
/// use cuda_safe::nvrtc::{Options, Program};
/// use cuda_safe::{Driver, Linker, Module};
///
/// let context = Driver::load()?.device(0)?.context()?;
/// let compile = |text: &str| {
///     let program = Program::new(text).options(Options::new().relocatable(true));
///     program.compile_for_driver(context.device().arch()?, context.driver().version()?).map_err(cuda_safe::Error::from)
/// };
/// let weight = compile("__device__ float weight(float x) { return x * x; }")?;
/// let kernel = compile(
///     "__device__ float weight(float x);
///      extern \"C\" __global__ void apply(float* x) { x[threadIdx.x] = weight(x[threadIdx.x]); }",
/// )?;
/// let linker = Linker::new(&context).image("weight.cu", &weight).image("kernel.cu", &kernel);
/// let module = Module::load(&context, &linker.link()?)?;
/// let apply = module.kernel("apply")?;
/// # Ok(())
/// # }
/// ```
///
/// [`ptx::link`] links PTX without a driver.
#[derive(Clone)]
#[must_use = "`link` links the inputs"]
pub struct Linker {
    context: Context,
    options: JitOptions,
    inputs: Vec<Input>,
}

/// An input and its name in messages.
#[derive(Clone)]
struct Input {
    name: String,
    contents: Contents,
}

#[derive(Clone)]
enum Contents {
    Ptx(String),
    Cubin(Vec<u8>),
    Fatbin(Vec<u8>),
    Image(Box<nvrtc::Image>),
}

impl fmt::Debug for Linker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.inputs.iter().map(|input| &input.name).collect();
        f.debug_struct("Linker").field("context", &self.context).field("inputs", &names).finish()
    }
}

impl Linker {
    /// Returns a linker without inputs, for modules of this context's device.
    #[doc(alias = "cuLinkCreate")]
    pub fn new(context: &Context) -> Self {
        Self { context: context.clone(), options: JitOptions::default(), inputs: Vec::new() }
    }

    /// Sets the options of the driver's compiler, which compiles PTX inputs.
    pub fn options(mut self, options: JitOptions) -> Self {
        self.options = options;
        self
    }

    fn add(mut self, name: impl Into<String>, contents: Contents) -> Self {
        self.inputs.push(Input { name: name.into(), contents });
        self
    }

    /// Adds PTX. `name` is its name in messages, such as the file's.
    #[doc(alias = "cuLinkAddData")]
    pub fn ptx(self, name: impl Into<String>, ptx: impl Into<String>) -> Self {
        self.add(name, Contents::Ptx(ptx.into()))
    }

    /// Adds relocatable machine code: a cubin of `nvcc -rdc=true -cubin`.
    pub fn cubin(self, name: impl Into<String>, cubin: impl Into<Vec<u8>>) -> Self {
        self.add(name, Contents::Cubin(cubin.into()))
    }

    /// Adds a fatbin, of which the driver takes the image for the device.
    pub fn fatbin(self, name: impl Into<String>, fatbin: impl Into<Vec<u8>>) -> Self {
        self.add(name, Contents::Fatbin(fatbin.into()))
    }

    /// Adds the output of NVRTC, compiled with
    /// [`Options::relocatable`](nvrtc::Options::relocatable): the cubin, or, if the driver can't use that, the PTX.
    pub fn image(self, name: impl Into<String>, image: &nvrtc::Image) -> Self {
        self.add(name, Contents::Image(Box::new(image.clone())))
    }

    /// Links the inputs.
    ///
    /// The image has the signatures of the kernels if every input has PTX, and the name expressions of all images.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there is no input, or one is not of its kind, is cut short or
    /// has only LTO-IR. Otherwise the error that the driver returns, with the linker's log: it names a symbol that two
    /// inputs define, that no input defines, or that has another size in another input.
    #[doc(alias = "cuLinkComplete")]
    pub fn link(&self) -> Result<nvrtc::Image> {
        self.context.inner().state.usable()?;
        if self.inputs.is_empty() {
            return Err(Error::invalid(
                "there is no input to link: add PTX, a cubin, a fatbin or an image",
            ));
        }
        for input in &self.inputs {
            check(&input.contents)
                .map_err(|why| Error::invalid(format!("input `{}`: {why}", input.name)))?;
        }
        let (bytes, log) = match self.attempt(true) {
            Err(error) if wants_ptx(&error) && self.inputs.iter().any(has_both) => {
                self.attempt(false)?
            }
            linked => linked?,
        };
        self.linked(bytes, log)
    }

    /// Links the inputs, with the cubins or the PTX of images that have both.
    fn attempt(&self, machine_code: bool) -> Result<(Vec<u8>, String)> {
        let context = self.context.inner();
        let mut arguments = Arguments::new(&self.options);
        let linked = context.with_current(|| {
            timed!(DEBUG, [inputs = self.inputs.len(), "link"], {
                let mut raw = std::ptr::null_mut();
                let (count, keys, values) = arguments.as_raw();
                // SAFETY: `raw` is a valid place for a handle; the arrays have `count` elements, and they and the log
                // buffers live until the state is destroyed, at the end of this block.
                let result =
                    unsafe { context.state.sys.cuLinkCreate_v2(count, keys, values, &raw mut raw) };
                context.answer("cuLinkCreate_v2", result)?;
                let state = State { context, raw };
                for input in &self.inputs {
                    state.add(input, machine_code)?;
                }
                state.complete()
            })
        });
        let log = arguments.log();
        match linked {
            Ok(bytes) => Ok((bytes, log)),
            Err(error) if error.is_fatal() || log.is_empty() => Err(error),
            Err(error) => {
                let names: Vec<_> = self.inputs.iter().map(|input| input.name.as_str()).collect();
                let names = names.join(", ");
                Err(error.with_asked(format!("a link of {names}; the driver's linker says: {log}")))
            }
        }
    }

    /// Makes an image of the linker's output.
    fn linked(&self, bytes: Vec<u8>, log: String) -> Result<nvrtc::Image> {
        let unknown =
            |why: String| Error::invalid(format!("the driver's linker returned no image: {why}"));
        let mut image = nvrtc::Image::new(self.context.device().arch()?);
        match image::check(&bytes).map_err(unknown)? {
            ImageKind::Ptx => {
                // The software device links to PTX.
                let text = String::from_utf8(bytes).map_err(|error| unknown(error.to_string()))?;
                image.kernels = ptx::entries(&text).unwrap_or_default();
                image.ptx = Some(text.trim_end_matches('\0').to_owned());
            }
            ImageKind::Cubin => {
                image.kernels = self.signatures().unwrap_or_default();
                image.cubin = Some(bytes);
            }
            ImageKind::Fatbin => return Err(unknown("a fatbin".to_owned())),
        }
        image.log = log;
        let (mut types, mut lowered) = (HashMap::new(), HashSet::new());
        for input in &self.inputs {
            if let Contents::Image(of_input) = &input.contents {
                let stated = of_input.kernels.iter().filter(|kernel| !kernel.types.is_empty());
                for kernel in stated {
                    types.entry(&*kernel.name).or_insert(&kernel.types);
                }
                let fresh = of_input.lowered.iter().filter(|pair| lowered.insert(*pair));
                image.lowered.extend(fresh.cloned());
                image.version = image.version.max(of_input.version);
            }
        }
        for kernel in image.kernels.iter_mut().filter(|kernel| kernel.types.is_empty()) {
            kernel.types = types.get(&*kernel.name).map(|&it| it.clone()).unwrap_or_default();
        }
        Ok(image)
    }

    /// Returns the kernels of all inputs; `None` if those of one are not known, or if two inputs differ.
    fn signatures(&self) -> Option<Vec<Signature>> {
        let mut all: Vec<Signature> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for input in &self.inputs {
            let found = match &input.contents {
                Contents::Ptx(text) => ptx::entries(text).ok()?,
                Contents::Image(image) if image.ptx.is_some() => image.kernels.clone(),
                _ => return None,
            };
            for signature in found {
                match known.entry(signature.name.clone()) {
                    hash_map::Entry::Vacant(free) => {
                        free.insert(all.len());
                        all.push(signature);
                    }
                    hash_map::Entry::Occupied(it) if all[*it.get()] == signature => {}
                    hash_map::Entry::Occupied(_) => return None,
                }
            }
        }
        Some(all)
    }
}

fn has_both(input: &Input) -> bool {
    matches!(&input.contents, Contents::Image(image) if image.cubin.is_some() && image.ptx.is_some())
}

/// Returns what is wrong with an input, before the driver reads it.
fn check(contents: &Contents) -> std::result::Result<(), String> {
    let ptx = |text: &str| match image::check(text.as_bytes())? {
        ImageKind::Ptx => Ok(()),
        _ => Err("not PTX".to_owned()),
    };
    match contents {
        Contents::Ptx(text) => ptx(text),
        Contents::Cubin(bytes) => image::check_relocatable(bytes),
        Contents::Fatbin(bytes) => {
            let fatbin = Fatbin::parse(bytes).map_err(|error| error.to_string())?;
            let mut kinds = fatbin.entries().iter().map(|entry| entry.kind);
            match fatbin.entries() {
                [_, ..] if kinds.all(|kind| kind == Kind::LtoIr) => Err(
                    "only LTO-IR, which the driver's linker does not take: link it by `nvrtc::Linker`, or compile \
                     without -dlto"
                        .to_owned(),
                ),
                _ => Ok(()),
            }
        }
        Contents::Image(image) => match (&image.cubin, &image.ptx) {
            (Some(cubin), _) => image::check_relocatable(cubin),
            (None, Some(text)) => ptx(text),
            (None, None) if image.lto_ir.is_some() => Err(
                "LTO-IR, which the driver's linker does not take: compile without `Options::lto`"
                    .to_owned(),
            ),
            (None, None) => Err("an image with neither a cubin nor PTX".to_owned()),
        },
    }
}

/// A link of the driver.
struct State<'a> {
    context: &'a ContextInner,
    raw: CUlinkState,
}

impl State<'_> {
    fn add(&self, input: &Input, machine_code: bool) -> Result<()> {
        let text;
        let (kind, bytes): (_, &[u8]) = match &input.contents {
            Contents::Cubin(bytes) => (CUjitInputType::CU_JIT_INPUT_CUBIN, bytes),
            Contents::Fatbin(bytes) => (CUjitInputType::CU_JIT_INPUT_FATBINARY, bytes),
            Contents::Ptx(ptx) => {
                text = terminated(ptx);
                (CUjitInputType::CU_JIT_INPUT_PTX, &text)
            }
            Contents::Image(image) => match (&image.cubin, &image.ptx) {
                (Some(cubin), None) => (CUjitInputType::CU_JIT_INPUT_CUBIN, cubin),
                (Some(cubin), _) if machine_code => (CUjitInputType::CU_JIT_INPUT_CUBIN, cubin),
                (_, Some(ptx)) => {
                    text = terminated(ptx);
                    (CUjitInputType::CU_JIT_INPUT_PTX, &text)
                }
                (None, None) => {
                    return Err(Error::invalid("an image with neither a cubin nor PTX"));
                }
            },
        };
        let name = CString::new(input.name.replace('\0', " ")).unwrap_or_default();
        let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the state is alive; the data has this size, and PTX ends with a NUL; the driver only reads it, before
        // it returns; the name is a string; there are no options.
        let result = unsafe {
            self.context.state.sys.cuLinkAddData_v2(
                self.raw,
                kind,
                bytes.as_ptr().cast_mut().cast::<c_void>(),
                bytes.len(),
                name.as_ptr(),
                0,
                none,
                nothing,
            )
        };
        let added = self.context.answer("cuLinkAddData_v2", result);
        added.map_err(|error| error.with_asked(format!("input `{}`", input.name)))
    }

    fn complete(&self) -> Result<Vec<u8>> {
        let (mut data, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: the state is alive, and both places are valid for the write.
        let result = unsafe {
            self.context.state.sys.cuLinkComplete(self.raw, &raw mut data, &raw mut size)
        };
        self.context.answer("cuLinkComplete", result)?;
        if data.is_null() || isize::try_from(size).is_err() {
            return Err(Error::invalid("the driver's linker returned no image"));
        }
        // SAFETY: the driver has returned the image and its size; it is valid until the state is destroyed.
        Ok(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec())
    }
}

impl Drop for State<'_> {
    fn drop(&mut self) {
        // SAFETY: the state is alive, and this is its last use. The context is current: the state lives in the closure
        // that it was made in.
        let result = unsafe { self.context.state.sys.cuLinkDestroy(self.raw) };
        if let Err(error) = self.context.answer("cuLinkDestroy", result) {
            self.context.keep_drop_error(error);
        }
    }
}

fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.trim_end_matches('\0').as_bytes().to_vec();
    bytes.push(0);
    bytes
}
