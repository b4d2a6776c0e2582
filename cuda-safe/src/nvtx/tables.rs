//! Attaching a tool: it gets a function that returns tables, and fills the slots that they name with its functions.
//!
//! As in the headers of NVTX 3 (`nvtxTypes.h`, `nvtxInit.h`): the numbers are theirs.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

/// The version of NVTX that the tables and attributes follow.
pub(super) const VERSION: u16 = 3;

/// The functions of one module, by their number. Number 0 is none.
pub(super) type Slots = [AtomicPtr<()>];

/// `nvtxMarkA` among the core functions.
pub(super) const MARK: usize = 2;
/// `nvtxRangePushA`.
pub(super) const PUSH: usize = 9;
/// `nvtxRangePop`.
pub(super) const POP: usize = 11;
/// `nvtxDomainMarkEx` among those of domains.
pub(super) const DOMAIN_MARK: usize = 1;
/// `nvtxDomainRangePushEx`.
pub(super) const DOMAIN_PUSH: usize = 4;
/// `nvtxDomainRangePop`.
pub(super) const DOMAIN_POP: usize = 5;
/// `nvtxDomainCreateA`.
pub(super) const DOMAIN_CREATE: usize = 12;
/// `nvtxDomainDestroy`.
pub(super) const DOMAIN_DESTROY: usize = 14;

/// The addresses of the slots of a module, as the tool gets them. A null follows the last.
struct Table<const N: usize>([*mut *mut (); N]);

// SAFETY: the addresses are those of atomics in statics.
unsafe impl<const N: usize> Sync for Table<N> {}

impl<const N: usize> Table<N> {
    const fn of(slots: &'static Slots) -> Self {
        let mut places = [ptr::null_mut(); N];
        let mut id = 1;
        while id < slots.len() {
            places[id] = slots[id].as_ptr();
            id += 1;
        }
        Self(places)
    }
}

/// Defines the slots of each module, and finds its table by its number.
macro_rules! modules {
    ($($name:ident = $number:literal: $count:literal;)+) => {
        $(pub(super) static $name: [AtomicPtr<()>; $count] =
            [const { AtomicPtr::new(ptr::null_mut()) }; $count];)+

        /// Returns the table of the module with this number, and how many functions it has.
        fn table(module: c_int) -> Option<(*const *mut *mut (), c_uint)> {
            match module {
                $($number => {
                    static TABLE: Table<{ $count + 1 }> = Table::of(&$name);
                    Some((TABLE.0.as_ptr(), $count))
                })+
                _ => None,
            }
        }

        /// Empties all slots.
        fn clear() {
            $(for slot in &$name {
                slot.store(ptr::null_mut(), Ordering::Relaxed);
            })+
        }
    };
}

// A tool may take it amiss if one is missing, so all are there. We call those of two.
modules! {
    CORE = 1: 16;
    CUDA = 2: 9;
    OPENCL = 3: 16;
    CUDART = 4: 7;
    CORE2 = 5: 16;
    SYNC = 6: 7;
}

/// The table that a tool requests first (`NvtxExportTableCallbacks`).
#[repr(C)]
struct Callbacks {
    size: usize,
    module_table: unsafe extern "system" fn(c_int, *mut *const *mut *mut (), *mut c_uint) -> c_int,
}

static CALLBACKS: Callbacks = Callbacks { size: size_of::<Callbacks>(), module_table };

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    size: usize,
    version: u32,
    reserved: u32,
    set_tool_version: extern "system" fn(u32),
}

static VERSION_INFO: VersionInfo = VersionInfo {
    size: size_of::<VersionInfo>(),
    version: VERSION as u32,
    reserved: 0,
    set_tool_version,
};

/// It is ignored, as by NVTX's headers.
extern "system" fn set_tool_version(_version: u32) {}

/// # Safety
/// Each place is null or may be written to.
unsafe extern "system" fn module_table(
    module: c_int,
    to: *mut *const *mut *mut (),
    count: *mut c_uint,
) -> c_int {
    let Some((table, len)) = table(module) else { return 0 };
    // SAFETY: the caller's promise.
    unsafe {
        if !count.is_null() {
            *count = len;
        }
        if !to.is_null() {
            *to = table;
        }
    }
    1
}

extern "system" fn export_table(id: u32) -> *const c_void {
    match id {
        1 => (&raw const CALLBACKS).cast(),
        3 => (&raw const VERSION_INFO).cast(),
        _ => ptr::null(),
    }
}

type Initialize = unsafe extern "system" fn(extern "system" fn(u32) -> *const c_void) -> c_int;

const VARIABLE: &str =
    if size_of::<usize>() == 4 { "NVTX_INJECTION32_PATH" } else { "NVTX_INJECTION64_PATH" };

/// Loads the tool's library and lets it fill the slots. Returns whether that succeeded.
pub(super) fn attach() -> bool {
    let Some(path) = cuda_sys::environment(VARIABLE) else { return false };
    // SAFETY: the user set the variable to have the library loaded, with all that it does then.
    let Ok(library) = (unsafe { Library::new(path) }) else { return false };
    // SAFETY: the protocol says that the function is of this type.
    let initialize = unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") };
    let filled = initialize.is_ok_and(|initialize| {
        // SAFETY: the protocol's call, made once; the tables last as long as the process.
        let answer = unsafe { initialize(export_table) };
        answer != 0
    });
    if filled {
        // The library is never unloaded, because the slots hold its functions.
        std::mem::forget(library);
    } else {
        clear();
    }
    filled
}
