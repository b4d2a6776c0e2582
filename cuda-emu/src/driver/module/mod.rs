//! Modules: PTX, also from a fat binary, in a context.

pub(super) mod cluster;
mod device_runtime;
pub(super) mod function;
pub(super) mod jit;
pub(super) mod launch;
pub(super) mod library;
pub(super) mod link;

use core::ffi::{c_char, c_uint, c_void};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use cuda_sys::{CUdeviceptr, CUfunction, CUjit_option, CUmodule, CUmoduleLoadingMode, CUresult};

use super::bridge::{Program, load};
use super::call::{Answer, functions, process, put, put_if_wanted, text};
use super::memory::wait_for_device;
use super::objects::{Function, Module, Settings, handle, number};
use super::process::{Process, State};
use jit::{Options, Source};

/// Loads a program for a device, and fills the logs.
///
/// # Safety
/// As [`Source::ptx`] and [`Options::tell`].
pub(super) unsafe fn load_image(
    process: &Process,
    image: Source<'_>,
    options: &Options,
    device: u32,
) -> Answer<(Arc<str>, Program)> {
    let known = process.devices.get(device as usize).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
    // SAFETY: the caller's promise.
    let text = unsafe { image.ptx(known.cc.0 * 10 + known.cc.1) };
    let loaded = text.and_then(|text| {
        load(process, &text, device, options.max_registers).map(|program| (text, program))
    });
    let outcome = match &loaded {
        Ok((_, program)) => Ok(program.entries().count()),
        Err((_, log)) => Err(log.as_str()),
    };
    // SAFETY: the caller's promise.
    unsafe { options.tell(outcome) };
    loaded.map_err(|(code, _)| code)
}

impl State {
    pub(super) fn add_module(&mut self, context: u64, program: Arc<Program>) -> u64 {
        self.objects.modules.insert(Module { context, program, functions: HashMap::new() })
    }

    /// Returns the function of a module with this name.
    pub(super) fn function_of(&mut self, module: u64, name: &str) -> Answer<u64> {
        let known = self.objects.modules.get(module)?;
        if let Some(&function) = known.functions.get(name) {
            return Ok(function);
        }
        let entry = known.program.entry(name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        if let Some(reason) = known.program.refused(entry) {
            eprintln!("cuda-emu: the kernel {name} is refused: {reason}");
            crate::run::note_refused(&format!("{name}: {reason}"));
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let c_name = CString::new(name).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let (context, program) = (known.context, known.program.clone());
        let function = self.objects.functions.insert(Function {
            module,
            context,
            program,
            entry,
            name: Arc::new(c_name),
            settings: Settings::default(),
            kernel: None,
        });
        self.objects.modules.get_mut(module)?.functions.insert(name.to_owned(), function);
        Ok(function)
    }
}

/// # Safety
/// `module` is null or valid for the write; the rest as [`load_image`].
unsafe fn load_module(
    module: *mut CUmodule,
    image: Source<'_>,
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    let (context, device) = state.current_device()?;
    state.forbidden_in_capture()?;
    // Loading waits for the device, as in the driver.
    drop(wait_for_device(process, state, context)?);
    if module.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let options = unsafe { Options::read(count, options, values) }?;
    // SAFETY: as above.
    let (_, program) = unsafe { load_image(process, image, &options, device) }?;
    let new = process.lock().add_module(context, Arc::new(program));
    // SAFETY: not null, and the caller's promise.
    unsafe { put(module, handle(new)) }
}

/// Returns the contents of a file.
pub(super) fn file(path: &str) -> Answer<Vec<u8>> {
    std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => CUresult::CUDA_ERROR_FILE_NOT_FOUND,
        _ => CUresult::CUDA_ERROR_OPERATING_SYSTEM,
    })
}

/// Names of a program's kernels, in order, without those that are refused.
pub(super) fn kernel_names(program: &Program) -> Vec<String> {
    let entries = program.entries().filter(|(_, entry)| program.refused(*entry).is_none());
    entries.map(|(name, _)| name.to_owned()).collect()
}

functions! {
    Device fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) {
        load_module(module, Source::Memory(image), 0, core::ptr::null_mut(), core::ptr::null_mut())
    }
    Device fn cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut CUjit_option,
        values: *mut *mut c_void
    ) { load_module(module, Source::Memory(image), count, options, values) }
    Device fn cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void) {
        load_module(module, Source::Memory(image), 0, core::ptr::null_mut(), core::ptr::null_mut())
    }
    Device fn cuModuleLoad(module: *mut CUmodule, path: *const c_char) {
        let image = file(text(path)?)?;
        let none = core::ptr::null_mut();
        load_module(module, Source::Bytes(&image), 0, none, core::ptr::null_mut())
    }
    Device fn cuModuleUnload(module: CUmodule) {
        let process = process()?;
        let mut state = process.lock();
        let context = state.objects.modules.get(number(module))?.context;
        state.current()?;
        state.forbidden_in_capture()?;
        let mut state = wait_for_device(process, state, context)?;
        let gone = state.objects.modules.remove(number(module))?;
        state.objects.functions.retain(|_, function| function.module != number(module));
        drop(state);
        drop(gone);
        Ok(())
    }
    Device fn cuModuleGetFunction(
        function: *mut CUfunction, module: CUmodule, name: *const c_char
    ) {
        let name = text(name)?;
        put(function, handle(process()?.lock().function_of(number(module), name)?))
    }
    Device fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule) {
        let state = process()?.lock();
        let module = state.objects.modules.get(number(module))?;
        put(count, kernel_names(&module.program).len() as c_uint)
    }
    Device fn cuModuleEnumerateFunctions(
        functions: *mut CUfunction, room: c_uint, module: CUmodule
    ) {
        let mut state = process()?.lock();
        let names = kernel_names(&state.objects.modules.get(number(module))?.program);
        if functions.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        for (index, name) in names.iter().take(room as usize).enumerate() {
            let function = state.function_of(number(module), name)?;
            functions.add(index).write(handle(function));
        }
        Ok(())
    }
    Device fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char
    ) {
        let name = text(name)?;
        let state = process()?.lock();
        let program = &state.objects.modules.get(number(module))?.program;
        let (start, size) = program.global(name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        put_if_wanted(address, start);
        put_if_wanted(bytes, size as usize);
        Ok(())
    }
    Init fn cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode) {
        put(mode, CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING)
    }
}
