//! The linker: one image from several PTX texts.

use core::ffi::{c_char, c_uint, c_void};
use std::sync::Arc;

use cuda_sys::{CUjit_option, CUjitInputType, CUlinkState, CUresult};
use ptx::ir::FunctionKind;
use ptx::link::{Input, Problem, link};

use super::device_runtime;
use super::file;
use super::jit::{Options, Refusal, Source};
use crate::driver::bridge::load;
use crate::driver::call::{Answer, functions, process, put, put_if_wanted, text};
use crate::driver::objects::{handle, number};
use crate::exec::is_system_function;

/// A link that is under way, or done.
pub(in crate::driver) struct Link {
    device: u32,
    options: Options,
    inputs: Vec<(String, Arc<str>)>,
    /// The linked text and its NUL; the program has its address.
    image: Option<Box<[u8]>>,
}

/// # Safety
/// `state` is null or valid for the write; the lists as [`Options::read`] takes them, and the log buffers in them stay
/// valid until the link is destroyed.
unsafe fn create(
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
    state: *mut CUlinkState,
) -> Answer {
    let process = process()?;
    let mut locked = process.lock();
    let (_, device) = locked.current_device()?;
    if state.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let options = unsafe { Options::read(count, options, values) }?;
    let link = Link { device, options, inputs: Vec::new(), image: None };
    let new = locked.objects.links.insert(link);
    // SAFETY: not null, and the caller's promise.
    unsafe { put(state, handle(new)) }
}

/// Adds a text. It is read at once, as the driver compiles it at once.
///
/// # Safety
/// The log buffers of the link are valid.
unsafe fn add(
    state: CUlinkState,
    kind: CUjitInputType,
    bytes: &[u8],
    name: Option<&str>,
) -> Answer {
    let process = process()?;
    let mut locked = process.lock();
    let link = locked.objects.links.get_mut(number(state))?;
    if link.image.is_some() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let named = name.filter(|name| !name.is_empty()).map(str::to_owned);
    let name = named.unwrap_or_else(|| format!("<input {}>", link.inputs.len() + 1));
    let info = process.devices.get(link.device as usize);
    let (major, minor) = info.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?.cc;
    let read = match kind {
        CUjitInputType::CU_JIT_INPUT_PTX | CUjitInputType::CU_JIT_INPUT_FATBINARY => {
            // SAFETY: the image is not in unknown memory: its length is known.
            unsafe { Source::Bytes(bytes).ptx(major * 10 + minor) }
        }
        CUjitInputType::CU_JIT_INPUT_LIBRARY if device_runtime::is_archive(bytes, &name) => {
            return Ok(());
        }
        CUjitInputType::CU_JIT_INPUT_CUBIN
        | CUjitInputType::CU_JIT_INPUT_OBJECT
        | CUjitInputType::CU_JIT_INPUT_LIBRARY
        | CUjitInputType::CU_JIT_INPUT_NVVM => {
            let why = "the software device links PTX and fat binaries with PTX\n";
            Err((CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU, why.to_owned()))
        }
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    let parsed = read.and_then(|text| match ptx::parse(&text) {
        Ok(_) => Ok(text),
        Err(ptx::Error { line, message, .. }) => {
            let log = format!(
                "ptxas application ptx input, line {line}; error   : {message}\n\
                 ptxas fatal   : Ptx assembly aborted due to errors"
            );
            Err((CUresult::CUDA_ERROR_INVALID_PTX, log))
        }
    });
    match parsed {
        Ok(text) => {
            link.inputs.push((name, text));
            Ok(())
        }
        Err((code, log)) => {
            let log = if log.starts_with("ptxas ") { log } else { format!("{name}: {log}") };
            // SAFETY: the caller's promise.
            unsafe { link.options.tell(Err(&log)) };
            Err(code)
        }
    }
}

/// # Safety
/// `data` is null or has `size` bytes, `name` is null or a string; the rest as [`Options::read`].
#[allow(clippy::too_many_arguments, reason = "the driver's")]
unsafe fn add_data(
    state: CUlinkState,
    kind: CUjitInputType,
    data: *mut c_void,
    size: usize,
    name: *const c_char,
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> Answer {
    if data.is_null() || size == 0 || isize::try_from(size).is_err() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise. Nothing here reads an input's own options.
    unsafe { Options::read(count, options, values) }?;
    let name = if name.is_null() {
        None
    } else {
        // SAFETY: the caller's promise.
        Some(unsafe { text(name) }?)
    };
    // SAFETY: the caller's promise: not null, `size` bytes.
    let bytes = unsafe { core::slice::from_raw_parts(data.cast::<u8>().cast_const(), size) };
    // SAFETY: the caller's promise at the link's creation.
    unsafe { add(state, kind, bytes, name) }
}

/// # Safety
/// `path` is null or a string; the rest as [`Options::read`].
unsafe fn add_file(
    state: CUlinkState,
    kind: CUjitInputType,
    path: *const c_char,
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> Answer {
    // SAFETY: the caller's promise.
    unsafe { Options::read(count, options, values) }?;
    // SAFETY: as above.
    let path = unsafe { text(path) }?;
    // SAFETY: the caller's promise at the link's creation.
    unsafe { add(state, kind, &file(path)?, Some(path)) }
}

/// Returns a problem in the words of NVIDIA's linker, as nvJitLink 13.0 writes them.
fn line(problem: &Problem) -> String {
    match problem {
        Problem::Undefined { name, input } => {
            format!("Undefined reference to '{name}' in '{input}'")
        }
        Problem::DefinedTwice { name, first, second } => {
            format!("Multiple definition of '{name}' in '{second}', first defined in '{first}'")
        }
        Problem::Clash { name, first, has, second, other } => {
            let space = |text: &'_ str| text.rsplit_once(" in ").map(|(_, space)| space.to_owned());
            let (what, how) = match (space(has), space(other)) {
                (None, None) => ("Prototype", "defined"),
                (one, two) if one == two => ("Size", "specified"),
                _ => ("Memory space", "specified"),
            };
            format!(
                "{what} doesn't match for '{name}' in '{second}', first {how} in '{first}' ({other}, not {has})"
            )
        }
        other => other.to_string(),
    }
}

/// Returns the text with a limit on the registers of its kernels. The image has the limit, as machine code would, since
/// it is loaded without the link's options.
fn limited(text: String, registers: u32) -> String {
    let Ok(mut module) = ptx::parse(&text) else { return text };
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Entry) {
        let own = function.directives.maxnreg.unwrap_or(registers);
        function.directives.maxnreg = Some(own.min(registers));
    }
    module.to_string()
}

/// Links the inputs, and tries whether the device can load the result. `registers` is the limit of a thread, 0 for none.
fn complete(
    inputs: &[(String, Arc<str>)],
    device: u32,
    registers: u32,
) -> Result<(Box<[u8]>, usize), Refusal> {
    let runtime = device_runtime::needed(inputs);
    let inputs = inputs.iter().chain(&runtime);
    let inputs: Vec<_> = inputs.map(|(name, text)| Input { name, text }).collect();
    let linked = link(&inputs, is_system_function);
    let linked = linked.map_err(|error| {
        let lines = error.problems.iter().map(|problem| format!("error   : {}", line(problem)));
        let lines: Vec<_> = lines.collect();
        // The code that a GPU's driver returns when symbols are missing.
        (CUresult::CUDA_ERROR_UNKNOWN, lines.join("\n"))
    })?;
    let process = process().map_err(|code| (code, String::new()))?;
    let linked = if registers == 0 { linked } else { limited(linked, registers) };
    let kernels = load(process, &linked, device, 0)?.entries().count();
    let mut image = linked.into_bytes();
    image.push(0);
    Ok((image.into(), kernels))
}

functions! {
    Device fn cuLinkCreate(
        count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void,
        state: *mut CUlinkState
    ) { create(count, options, values, state) }
    Device fn cuLinkCreate_v2(
        count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void,
        state: *mut CUlinkState
    ) { create(count, options, values, state) }
    Device fn cuLinkAddData(
        state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize,
        name: *const c_char, count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void
    ) { add_data(state, kind, data, size, name, count, options, values) }
    Device fn cuLinkAddData_v2(
        state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize,
        name: *const c_char, count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void
    ) { add_data(state, kind, data, size, name, count, options, values) }
    Device fn cuLinkAddFile(
        state: CUlinkState, kind: CUjitInputType, path: *const c_char, count: c_uint,
        options: *mut CUjit_option, values: *mut *mut c_void
    ) { add_file(state, kind, path, count, options, values) }
    Device fn cuLinkAddFile_v2(
        state: CUlinkState, kind: CUjitInputType, path: *const c_char, count: c_uint,
        options: *mut CUjit_option, values: *mut *mut c_void
    ) { add_file(state, kind, path, count, options, values) }
    Device fn cuLinkComplete(state: CUlinkState, image: *mut *mut c_void, size: *mut usize) {
        let process = process()?;
        let (inputs, device, registers) = {
            let mut locked = process.lock();
            let link = locked.objects.links.get_mut(number(state))?;
            if image.is_null() {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            (link.inputs.clone(), link.device, link.options.max_registers)
        };
        let linked = complete(&inputs, device, registers);
        let mut locked = process.lock();
        let link = locked.objects.links.get_mut(number(state))?;
        let outcome = linked.as_ref().map(|&(_, kernels)| kernels);
        link.options.tell(outcome.map_err(|(_, log)| log.as_str()));
        let (bytes, _) = linked.map_err(|(code, _)| code)?;
        let bytes = link.image.insert(bytes);
        put_if_wanted(size, bytes.len());
        put(image, bytes.as_mut_ptr().cast())
    }
    Device fn cuLinkDestroy(state: CUlinkState) {
        process()?.lock().objects.links.remove(number(state)).map(drop)
    }
}
