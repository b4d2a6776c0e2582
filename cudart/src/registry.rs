//! What programs register before `main`: fat binaries, kernels, variables. All is loaded at its first use.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cuda_sys::{CUfunction, CUkernel, CUlibrary, CUstreamCaptureMode, Driver};

use crate::bindings::runtime::{cudaError, cudaError_t};
use crate::call::{CudaResult, check};
use crate::context::{driver, ready};
use crate::link;

/// The number that begins what `__cudaRegisterFatBinary` gets: `FATBINC_MAGIC` of `fatbinary_section.h`.
const WRAPPER_MAGIC: i32 = 0x4662_43b1;
/// The version of a wrapper with binaries that have to be linked: `FATBINC_LINK_VERSION`.
const TO_LINK: i32 = 2;

/// What `fatbinary_section.h` declares.
#[repr(C)]
struct Wrapper {
    magic: i32,
    version: i32,
    data: *const c_void,
    prelinked: *const *const c_void,
}

/// A fat binary that a program has registered.
struct Binary {
    wrapper: *const Wrapper,
    /// The library, or why it could not be loaded.
    library: Option<Result<CUlibrary, cudaError_t>>,
    /// The places of the addresses of managed variables, with their names.
    managed: Vec<(*mut *mut c_void, CString)>,
}

struct Function {
    binary: usize,
    name: CString,
    kernel: Option<CUkernel>,
}

#[derive(Clone)]
struct Variable {
    binary: usize,
    name: CString,
    size: usize,
}

#[derive(Default)]
struct Registry {
    binaries: HashMap<usize, Binary>,
    /// By the addresses of the functions that stand for kernels in the program.
    functions: HashMap<usize, Function>,
    /// By the addresses of the variables that stand for those of the device.
    variables: HashMap<usize, Variable>,
    /// Handles that the program has got, and may pass in place of a function.
    kernels: HashSet<usize>,
}

// SAFETY: handles are numbers for the driver, which takes them from every thread; wrappers are constants of the program
// that outlive their registration; the places of managed variables are written under the lock.
unsafe impl Send for Registry {}
// SAFETY: as above; nothing is written through a shared reference.
unsafe impl Sync for Registry {}

static REGISTRY: RwLock<Option<Registry>> = RwLock::new(None);
/// Held while a library is loaded, so that it is loaded once. Calls that need no loading do not wait for it.
static LOADING: Mutex<()> = Mutex::new(());
/// Why the kernel that was asked for last could not be had: the launch of a null kernel returns it.
static FAILURE: AtomicU32 = AtomicU32::new(cudaError::cudaErrorInvalidDeviceFunction.0);

fn read() -> RwLockReadGuard<'static, Option<Registry>> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Option<Registry>> {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the registry.
fn change<T>(act: impl FnOnce(&mut Registry) -> T) -> T {
    act(write().get_or_insert_default())
}

/// Returns a string of the program's.
///
/// # Safety
/// `name` is null or a string that ends in NUL.
unsafe fn string(name: *const c_char) -> CString {
    if name.is_null() {
        return CString::default();
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_owned()
}

/// Registers a fat binary, and returns its handle.
pub(crate) fn add_binary(wrapper: *const c_void) -> *mut *mut c_void {
    // The address of the box is the handle: it is unique while the binary is registered.
    let handle = Box::into_raw(Box::new(ptr::null_mut::<c_void>()));
    let binary = Binary { wrapper: wrapper.cast(), library: None, managed: Vec::new() };
    change(|registry| registry.binaries.insert(handle.addr(), binary));
    handle
}

/// Unloads a fat binary, and forgets its kernels and variables.
///
/// # Safety
/// `handle` came from [`add_binary`], or is null; no call uses a kernel or variable of the binary any more.
pub(crate) unsafe fn remove_binary(handle: *mut *mut c_void) {
    let removed = change(|registry| {
        let removed = registry.binaries.remove(&handle.addr())?;
        registry.functions.retain(|_, function| {
            let kept = function.binary != handle.addr();
            if !kept && let Some(kernel) = function.kernel {
                registry.kernels.remove(&kernel.addr());
            }
            kept
        });
        registry.variables.retain(|_, variable| variable.binary != handle.addr());
        Some(removed)
    });
    let Some(binary) = removed else { return };
    // SAFETY: the handle was registered, so it came from `add_binary`, and it is registered no longer.
    drop(unsafe { Box::from_raw(handle) });
    // A program that has not used the binary does not load the driver for this.
    let Some(Ok(library)) = binary.library else { return };
    if let Ok(driver) = driver() {
        // At the end of the process the driver may be gone: the code says nothing new.
        // SAFETY: the library was loaded for this binary alone.
        let _ = unsafe { driver.cuLibraryUnload(library) };
    }
}

/// # Safety
/// `name` is null or a string that ends in NUL.
pub(crate) unsafe fn add_function(
    handle: *mut *mut c_void,
    host: *const c_void,
    name: *const c_char,
) {
    // SAFETY: the caller's promise.
    let name = unsafe { string(name) };
    let function = Function { binary: handle.addr(), name, kernel: None };
    change(|registry| registry.functions.insert(host.addr(), function));
}

/// # Safety
/// `name` is null or a string that ends in NUL.
pub(crate) unsafe fn add_variable(
    handle: *mut *mut c_void,
    host: *const c_void,
    name: *const c_char,
    size: usize,
) {
    // SAFETY: the caller's promise.
    let name = unsafe { string(name) };
    let variable = Variable { binary: handle.addr(), name, size };
    change(|registry| registry.variables.insert(host.addr(), variable));
}

/// # Safety
/// `name` is null or a string that ends in NUL; `place` is valid for writes while the binary is registered.
pub(crate) unsafe fn add_managed(
    handle: *mut *mut c_void,
    place: *mut *mut c_void,
    name: *const c_char,
    size: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { add_variable(handle, place.cast(), name, size) };
    // SAFETY: as above.
    let name = unsafe { string(name) };
    change(|registry| {
        if let Some(binary) = registry.binaries.get_mut(&handle.addr()) {
            binary.managed.push((place, name));
        }
    });
}

/// Loads a fat binary, unless that is done, and returns its library.
fn library(binary: usize) -> CudaResult<CUlibrary> {
    let known = |registry: &Option<Registry>| {
        let binary = registry.as_ref().and_then(|registry| registry.binaries.get(&binary));
        binary.map(|binary| (binary.wrapper, binary.library)).ok_or(cudaError::cudaErrorUnknown)
    };
    if let (_, Some(loaded)) = known(&read())? {
        return loaded;
    }
    let driver = ready()?;
    let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    let (wrapper, loaded) = known(&read())?;
    if let Some(loaded) = loaded {
        return loaded;
    }
    // SAFETY: the wrapper is a constant of the program, and the binary is registered.
    let loaded = relaxed(driver, || unsafe { load(driver, wrapper) }).and_then(|library| {
        // The addresses are written before the library is known: from then on other threads do not wait.
        let managed = read()
            .as_ref()
            .and_then(|registry| registry.binaries.get(&binary))
            .map_or_else(Vec::new, |binary| binary.managed.clone());
        let resolved = managed
            .into_iter()
            .try_for_each(|(place, name)| resolve(driver, library, place, &name));
        if resolved.is_err() {
            // SAFETY: nothing else knows the library.
            let _ = unsafe { driver.cuLibraryUnload(library) };
        }
        resolved.map(|()| library)
    });
    change(|registry| {
        if let Some(binary) = registry.binaries.get_mut(&binary) {
            // An error of the image stays; others, such as no memory, may be gone at the next try.
            binary.library = match loaded {
                Ok(library) => Some(Ok(library)),
                Err(code) => of_image(code).then_some(Err(code)),
            };
        }
    });
    loaded
}

/// Returns whether a code is about the image, so that loading it again fails, too.
fn of_image(code: cudaError_t) -> bool {
    matches!(
        code,
        cudaError::cudaErrorInvalidKernelImage
            | cudaError::cudaErrorNoKernelImageForDevice
            | cudaError::cudaErrorInvalidPtx
            | cudaError::cudaErrorJitCompilerNotFound
            | cudaError::cudaErrorUnsupportedPtxVersion
            | cudaError::cudaErrorJitCompilationDisabled
            | cudaError::cudaErrorUnsupportedDevSideSync
            | cudaError::cudaErrorInvalidSource
            | cudaError::cudaErrorSymbolNotFound
            | cudaError::cudaErrorNotSupported
    )
}

/// Writes the address of a managed variable to its place.
fn resolve(
    driver: &Driver,
    library: CUlibrary,
    place: *mut *mut c_void,
    name: &CStr,
) -> CudaResult {
    let (address, _) = address_of(driver, library, name)?;
    // In the program, the symbol of a managed variable is its address.
    change(|registry| {
        // A binary that is unregistered meanwhile takes its places with it.
        if let Some(variable) = registry.variables.get(&place.addr()).cloned() {
            // SAFETY: the binary is registered, so the place is valid for writes.
            unsafe { place.write(address) };
            registry.variables.insert(address.addr(), variable);
        }
    });
    Ok(())
}

/// Writes the addresses of managed variables again, in the context that follows a reset.
pub(crate) fn refresh(driver: &Driver) -> CudaResult {
    let mut known = Vec::new();
    for binary in read().iter().flat_map(|registry| registry.binaries.values()) {
        if let Some(Ok(library)) = binary.library {
            known
                .extend(binary.managed.iter().map(|(place, name)| (library, *place, name.clone())));
        }
    }
    known.into_iter().try_for_each(|(library, place, name)| resolve(driver, library, place, &name))
}

/// Runs `act` in a mode in which captures of streams on this thread do not forbid loading.
fn relaxed<T>(driver: &Driver, act: impl FnOnce() -> T) -> T {
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the place is valid for reads and writes.
    let exchanged = check(unsafe { driver.cuThreadExchangeStreamCaptureMode(&raw mut mode) });
    let result = act();
    if exchanged.is_ok() {
        // SAFETY: as above.
        let _ = unsafe { driver.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    }
    result
}

/// # Safety
/// `wrapper` is null or points to what a compiler passes to `__cudaRegisterFatBinary`.
unsafe fn load(driver: &Driver, wrapper: *const Wrapper) -> CudaResult<CUlibrary> {
    // SAFETY: the caller's promise.
    let Some(wrapper) = (unsafe { wrapper.as_ref() }) else {
        return Err(cudaError::cudaErrorInvalidKernelImage);
    };
    if wrapper.magic != WRAPPER_MAGIC {
        return Err(cudaError::cudaErrorInvalidKernelImage);
    }
    if wrapper.version == TO_LINK {
        // SAFETY: such a wrapper has a list of binaries that ends in null.
        return unsafe { link::load(driver, wrapper.data, wrapper.prelinked) };
    }
    // SAFETY: the data of a wrapper is a fat binary.
    unsafe { load_image(driver, wrapper.data) }
}

/// Loads an image as a library.
///
/// # Safety
/// `image` points to an image that the driver can load.
pub(crate) unsafe fn load_image(driver: &Driver, image: *const c_void) -> CudaResult<CUlibrary> {
    let mut library = ptr::null_mut();
    let none = ptr::null_mut();
    // SAFETY: the place is valid for the write, the image by the caller's promise, and there are no options.
    check(unsafe {
        driver.cuLibraryLoadData(
            &raw mut library,
            image,
            none,
            ptr::null_mut(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
            0,
        )
    })?;
    Ok(library)
}

/// Returns the address and the size of a variable in the current context.
fn address_of(
    driver: &Driver,
    library: CUlibrary,
    name: &CStr,
) -> CudaResult<(*mut c_void, usize)> {
    let (mut address, mut size) = (0, 0);
    let (to_address, to_size) = (&raw mut address, &raw mut size);
    relaxed(driver, || {
        // SAFETY: the places are valid for the writes, the name ends in NUL, the library is loaded.
        check(unsafe { driver.cuLibraryGetGlobal(to_address, to_size, library, name.as_ptr()) })
    })
    .map_err(absent(cudaError::cudaErrorInvalidSymbol))?;
    Ok((ptr::with_exposed_provenance_mut(address as usize), size))
}

/// Makes "not found" the error that the runtime has for it.
fn absent(code: cudaError_t) -> impl Fn(cudaError_t) -> cudaError_t {
    move |found| if found == cudaError::cudaErrorSymbolNotFound { code } else { found }
}

/// Loads the binary of a handle, so that its managed variables have addresses.
pub(crate) fn initialise(handle: *mut *mut c_void) -> CudaResult {
    library(handle.addr()).map(|_| ())
}

/// Returns the kernel of a function of the program, or the kernel itself.
pub(crate) fn kernel(function: *const c_void) -> CudaResult<CUkernel> {
    let (binary, name) = {
        let registry = read();
        let registry = registry.as_ref().ok_or(cudaError::cudaErrorInvalidDeviceFunction)?;
        match registry.functions.get(&function.addr()) {
            Some(Function { kernel: Some(kernel), .. }) => return Ok(*kernel),
            Some(known) => (known.binary, known.name.clone()),
            None if registry.kernels.contains(&function.addr()) => {
                return Ok(function.cast_mut().cast());
            }
            None => return Err(cudaError::cudaErrorInvalidDeviceFunction),
        }
    };
    let library = library(binary)?;
    let driver = driver()?;
    let mut kernel = ptr::null_mut();
    // SAFETY: the place is valid for the write, the name ends in NUL, the library is loaded.
    check(unsafe { driver.cuLibraryGetKernel(&raw mut kernel, library, name.as_ptr()) })
        .map_err(absent(cudaError::cudaErrorInvalidDeviceFunction))?;
    change(|registry| {
        registry.kernels.insert(kernel.addr());
        if let Some(known) = registry.functions.get_mut(&function.addr()) {
            known.kernel = Some(kernel);
        }
    });
    Ok(kernel)
}

/// As [`kernel`], for the code that a compiler writes: a failure is what the launch of a null kernel then returns.
pub(crate) fn kernel_for_launch(function: *const c_void) -> CudaResult<CUkernel> {
    kernel(function).inspect_err(|code| FAILURE.store(code.0, Ordering::Relaxed))
}

/// Returns the error of the launch of a null kernel.
pub(crate) fn failure() -> cudaError_t {
    cudaError_t(FAILURE.load(Ordering::Relaxed))
}

/// Remembers a kernel that the program has got from a library.
pub(crate) fn remember(kernel: CUkernel) {
    change(|registry| registry.kernels.insert(kernel.addr()));
}

/// Returns the address and the size of a variable of the program.
pub(crate) fn variable(symbol: *const c_void) -> CudaResult<(*mut c_void, usize)> {
    let known =
        read().as_ref().and_then(|registry| registry.variables.get(&symbol.addr()).cloned());
    let Variable { binary, name, size } = known.ok_or(cudaError::cudaErrorInvalidSymbol)?;
    let library = library(binary)?;
    let (address, of_device) = address_of(ready()?, library, &name)?;
    Ok((address, if size == 0 { of_device } else { size }))
}

/// Returns the function of the program for a kernel or for its function in the current context; the handle itself if the
/// program has registered none.
pub(crate) fn function_of(kernel: CUkernel, function: CUfunction) -> *const c_void {
    let known: Vec<(usize, CUkernel)> = read()
        .iter()
        .flat_map(|registry| &registry.functions)
        .filter_map(|(&host, known)| known.kernel.map(|kernel| (host, kernel)))
        .collect();
    let Ok(driver) = driver() else { return function.cast() };
    let found = known.iter().find(|(_, known)| {
        let mut of_known = ptr::null_mut();
        // SAFETY: the place is valid for the write, and the kernel's library is loaded.
        let got = check(unsafe { driver.cuKernelGetFunction(&raw mut of_known, *known) });
        *known == kernel || (got.is_ok() && of_known == function)
    });
    match found {
        Some(&(host, _)) => ptr::with_exposed_provenance(host),
        None if function.is_null() => kernel.cast(),
        None => function.cast(),
    }
}
