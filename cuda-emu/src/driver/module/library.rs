//! Libraries: PTX for every context that uses it, and its kernels.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use cuda_sys::{
    CUdevice, CUdeviceptr, CUfunc_cache, CUfunction, CUfunction_attribute, CUjit_option, CUkernel,
    CUlibrary, CUlibraryOption, CUmodule, CUresult,
};

use super::function::{attribute, parameter};
use super::jit::{Options, Source};
use super::{file, kernel_names, load_image};
use crate::driver::bridge::load;
use crate::driver::call::{Answer, functions, process, put, put_if_wanted, text};
use crate::driver::context::preference;
use crate::driver::objects::{Kernel, Library, Settings, handle, number};
use crate::driver::process::{Process, State};

impl State {
    /// Returns the library's module in a context, loaded at its first use there.
    fn module_of(&mut self, process: &Process, library: u64, context: u64) -> Answer<u64> {
        let device = self.objects.contexts.get(context)?.device;
        let known = self.objects.libraries.get(library)?;
        if let Some(&module) = known.modules.get(&context) {
            return Ok(module);
        }
        // The first context uses the program that the library was loaded with.
        let first = known.modules.is_empty() && device == 0 && !known.used;
        let program = if first {
            known.program.clone()
        } else {
            let loaded = load(process, &known.text, device, known.registers);
            Arc::new(loaded.map_err(|(code, _)| code)?)
        };
        let module = self.add_module(context, program);
        let library = self.objects.libraries.get_mut(library)?;
        library.used = true;
        library.modules.insert(context, module);
        Ok(module)
    }

    /// Returns the function that a handle means in a context: a function's own, or a library's kernel.
    pub(in crate::driver) fn function_in(
        &mut self,
        process: &Process,
        function: u64,
        context: u64,
    ) -> Answer<u64> {
        if self.objects.functions.get(function).is_ok() {
            return Ok(function);
        }
        let kernel = self.objects.kernels.get(function)?;
        let (library, name, settings) = (kernel.library, kernel.name.clone(), kernel.settings);
        let module = self.module_of(process, library, context)?;
        let name = name.to_str().map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let found = self.function_of(module, name)?;
        let made = self.objects.functions.get_mut(found)?;
        if made.kernel.is_none() {
            (made.kernel, made.settings) = (Some(function), settings);
        }
        Ok(found)
    }

    fn kernel_of(&mut self, library: u64, name: &str) -> Answer<u64> {
        let known = self.objects.libraries.get(library)?;
        if let Some(&kernel) = known.kernels.get(name) {
            return Ok(kernel);
        }
        let entry = known.program.entry(name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        if let Some(reason) = known.program.refused(entry) {
            eprintln!("cuda-emu: the kernel {name} is refused: {reason}");
            crate::run::note_refused(&format!("{name}: {reason}"));
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let c_name = CString::new(name).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let settings = Settings::default();
        let kernel = Kernel { library, name: Arc::new(c_name), settings };
        let kernel = self.objects.kernels.insert(kernel);
        self.objects.libraries.get_mut(library)?.kernels.insert(name.to_owned(), kernel);
        Ok(kernel)
    }
}

/// # Safety
/// `library` is null or valid for the write; the rest as [`load_image`].
unsafe fn load_library(
    library: *mut CUlibrary,
    image: Source<'_>,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
    count: c_uint,
) -> Answer {
    let process = process()?;
    if library.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    process.lock().forbidden_in_capture()?;
    // SAFETY: the caller's promise.
    let options = unsafe { Options::read(count, options, values) }?;
    // SAFETY: as above.
    let (text, program) = unsafe { load_image(process, image, &options, 0) }?;
    let new = process.lock().objects.libraries.insert(Library {
        text,
        registers: options.max_registers,
        modules: HashMap::new(),
        kernels: HashMap::new(),
        program: Arc::new(program),
        used: false,
    });
    // SAFETY: not null, and the caller's promise.
    unsafe { put(library, handle(new)) }
}

/// Returns the function of a kernel in the current context.
fn current_function(kernel: CUkernel) -> Answer<u64> {
    let process = process()?;
    let mut state = process.lock();
    let current = state.current()?;
    state.objects.kernels.get(number(kernel))?;
    state.function_in(process, number(kernel), current)
}

functions! {
    Device fn cuLibraryLoadData(
        library: *mut CUlibrary, code: *const c_void, options: *mut CUjit_option,
        values: *mut *mut c_void, count: c_uint, _library_options: *mut CUlibraryOption,
        _library_values: *mut *mut c_void, _library_count: c_uint
    ) { load_library(library, Source::Memory(code), options, values, count) }
    Device fn cuLibraryLoadFromFile(
        library: *mut CUlibrary, path: *const c_char, options: *mut CUjit_option,
        values: *mut *mut c_void, count: c_uint, _library_options: *mut CUlibraryOption,
        _library_values: *mut *mut c_void, _library_count: c_uint
    ) {
        let image = file(text(path)?)?;
        load_library(library, Source::Bytes(&image), options, values, count)
    }
    Device fn cuLibraryUnload(library: CUlibrary) {
        let process = process()?;
        let mut state = process.lock();
        state.objects.libraries.get(number(library))?;
        state.forbidden_in_capture()?;
        let pending = state.engine.pending(None);
        let mut state = process.wait_for(state, &pending)?;
        let gone = state.objects.libraries.remove(number(library))?;
        state.objects.kernels.retain(|_, kernel| kernel.library != number(library));
        for module in gone.modules.values() {
            state.objects.modules.retain(|known, _| known != *module);
            state.objects.functions.retain(|_, function| function.module != *module);
        }
        drop(state);
        drop(gone);
        Ok(())
    }
    Device fn cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) {
        let name = text(name)?;
        put(kernel, handle(process()?.lock().kernel_of(number(library), name)?))
    }
    Device fn cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary) {
        let state = process()?.lock();
        let library = state.objects.libraries.get(number(library))?;
        put(count, kernel_names(&library.program).len() as c_uint)
    }
    Device fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, room: c_uint, library: CUlibrary) {
        let mut state = process()?.lock();
        let names = kernel_names(&state.objects.libraries.get(number(library))?.program);
        if kernels.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        for (index, name) in names.iter().take(room as usize).enumerate() {
            kernels.add(index).write(handle(state.kernel_of(number(library), name)?));
        }
        Ok(())
    }
    Device fn cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary) {
        let process = process()?;
        let mut state = process.lock();
        let current = state.current()?;
        put(module, handle(state.module_of(process, number(library), current)?))
    }
    Device fn cuLibraryGetGlobal(
        address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char
    ) {
        let (process, name) = (process()?, text(name)?);
        let mut state = process.lock();
        let current = state.current()?;
        let module = state.module_of(process, number(library), current)?;
        let found = state.objects.modules.get(module)?.program.global(name);
        let (start, size) = found.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        put_if_wanted(address, start);
        put_if_wanted(bytes, size as usize);
        Ok(())
    }
    Device fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) {
        put(function, handle(current_function(kernel)?))
    }
    Device fn cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel) {
        put(library, handle(process()?.lock().objects.kernels.get(number(kernel))?.library))
    }
    Device fn cuKernelGetName(name: *mut *const c_char, kernel: CUkernel) {
        if kernel.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(name, process()?.lock().objects.kernels.get(number(kernel))?.name.as_ptr())
    }
    Device fn cuKernelGetParamInfo(
        kernel: CUkernel, index: usize, offset: *mut usize, size: *mut usize
    ) {
        let state = process()?.lock();
        state.current()?;
        let kernel = state.objects.kernels.get(number(kernel))?;
        let program = &state.objects.libraries.get(kernel.library)?.program;
        let name = kernel.name.to_str().map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let entry = program.entry(name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        let (at, bytes) = parameter(program, entry, index)?;
        put(offset, at)?;
        put_if_wanted(size, bytes);
        Ok(())
    }
    Device fn cuKernelGetParamCount(kernel: CUkernel, count: *mut usize) {
        let state = process()?.lock();
        let kernel = state.objects.kernels.get(number(kernel))?;
        let program = &state.objects.libraries.get(kernel.library)?.program;
        let name = kernel.name.to_str().map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let entry = program.entry(name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        put(count, program.params(entry).len())
    }
    Device fn cuKernelGetAttribute(
        value: *mut c_int, which: CUfunction_attribute, kernel: CUkernel, device: CUdevice
    ) {
        let process = process()?;
        let (_, info) = process.device(device)?;
        let state = process.lock();
        let kernel = state.objects.kernels.get(number(kernel))?;
        let program = &state.objects.libraries.get(kernel.library)?.program;
        let name = kernel.name.to_str().map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let entry = program.entry(name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        put(value, attribute(which, &program.attributes(entry), &kernel.settings, info)?)
    }
    Device fn cuKernelSetAttribute(
        which: CUfunction_attribute, value: c_int, kernel: CUkernel, device: CUdevice
    ) {
        let process = process()?;
        let (_, info) = process.device(device)?;
        let mut state = process.lock();
        let known = state.objects.kernels.get(number(kernel))?;
        let program = state.objects.libraries.get(known.library)?.program.clone();
        let name = known.name.clone();
        let name = name.to_str().map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let entry = program.entry(name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        let known = state.objects.kernels.get_mut(number(kernel))?;
        known.settings.set(which, value, &program.attributes(entry), info)?;
        let settings = known.settings;
        for function in state.objects.functions.values_mut() {
            if function.kernel == Some(number(kernel)) {
                function.settings = settings;
            }
        }
        Ok(())
    }
    Device fn cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, device: CUdevice) {
        preference(config)?;
        process()?.device(device)?;
        process()?.lock().objects.kernels.get(number(kernel)).map(drop)
    }
}
