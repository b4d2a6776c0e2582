//! A tool as NVTX attaches it: writes the events that it receives to the file that `NVTX_TOOL_LOG` names.
//! Compiled by the test into a library of its own, without dependencies.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::OpenOptions;
use std::io::Write;

type Slot = *mut *mut ();
type GetTable = unsafe extern "system" fn(c_int, *mut *const Slot, *mut c_uint) -> c_int;

#[repr(C)]
struct Callbacks {
    size: usize,
    get_table: GetTable,
}

#[repr(C)]
struct Version {
    size: usize,
    version: u32,
    reserved: u32,
    set: extern "system" fn(u32),
}

#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    unused: [u32; 5],
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

fn log(line: &str) {
    let path = std::env::var_os("NVTX_TOOL_LOG").expect("the test names a file");
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("a file");
    writeln!(file, "{line}").expect("written");
}

/// # Safety
/// `text` is a C string.
unsafe fn read(text: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().expect("UTF-8").to_owned()
}

/// # Safety
/// `attributes` are live, and their message is a C string.
unsafe fn message(attributes: *const Attributes) -> String {
    // SAFETY: the caller's promise.
    unsafe {
        let attributes = &*attributes;
        assert_eq!((attributes.version, attributes.size), (3, 48));
        assert_eq!((attributes.message_type, attributes.unused), (1, [0; 5]));
        assert_eq!(attributes.payload, 0);
        read(attributes.message)
    }
}

unsafe extern "system" fn mark(text: *const c_char) {
    // SAFETY: NVTX passes a C string.
    log(&format!("mark {}", unsafe { read(text) }));
}

unsafe extern "system" fn push(text: *const c_char) -> c_int {
    // SAFETY: as above.
    log(&format!("push {}", unsafe { read(text) }));
    0
}

unsafe extern "system" fn pop() -> c_int {
    log("pop");
    0
}

unsafe extern "system" fn create(text: *const c_char) -> *mut c_void {
    // SAFETY: as above.
    log(&format!("create {}", unsafe { read(text) }));
    std::ptr::without_provenance_mut(0x70)
}

unsafe extern "system" fn destroy(domain: *mut c_void) {
    log(&format!("destroy {:#x}", domain.addr()));
}

unsafe extern "system" fn domain_mark(domain: *mut c_void, attributes: *const Attributes) {
    // SAFETY: NVTX passes live attributes.
    log(&format!("{:#x} mark {}", domain.addr(), unsafe { message(attributes) }));
}

unsafe extern "system" fn domain_push(domain: *mut c_void, attributes: *const Attributes) -> c_int {
    // SAFETY: as above.
    log(&format!("{:#x} push {}", domain.addr(), unsafe { message(attributes) }));
    0
}

unsafe extern "system" fn domain_pop(domain: *mut c_void) -> c_int {
    log(&format!("{:#x} pop", domain.addr()));
    0
}

/// # Safety
/// As NVTX calls it.
#[unsafe(no_mangle)]
unsafe extern "system" fn InitializeInjectionNvtx2(
    export: extern "system" fn(u32) -> *const c_void,
) -> c_int {
    // SAFETY: the tables are what NVTX says they are; places of the sizes told are written.
    unsafe {
        let version = &*export(3).cast::<Version>();
        assert_eq!((version.size, version.version, version.reserved), (24, 3, 0));
        (version.set)(3);
        assert!(export(0).is_null() && export(2).is_null() && export(4).is_null());
        let callbacks = &*export(1).cast::<Callbacks>();
        assert_eq!(callbacks.size, 16);
        let mut sizes = Vec::new();
        for module in 0..8 {
            let (mut table, mut count) = (std::ptr::null(), 0);
            let found = (callbacks.get_table)(module, &raw mut table, &raw mut count);
            sizes.push(if found == 0 { 0 } else { count });
            if found == 0 {
                continue;
            }
            let slots = std::slice::from_raw_parts(table, count as usize + 1);
            assert!(slots[0].is_null() && slots[count as usize].is_null());
            assert!(slots[1..count as usize].iter().all(|slot| !slot.is_null()));
            let functions: &[(usize, *mut ())] = match module {
                1 => &[(2, mark as *mut ()), (9, push as *mut ()), (11, pop as *mut ())],
                5 => &[
                    (1, domain_mark as *mut ()),
                    (4, domain_push as *mut ()),
                    (5, domain_pop as *mut ()),
                    (12, create as *mut ()),
                    (14, destroy as *mut ()),
                ],
                _ => &[],
            };
            for (id, function) in functions {
                *slots[*id] = *function;
            }
        }
        assert_eq!(sizes, [0, 16, 9, 16, 7, 16, 7, 0]);
        log("attached");
        c_int::from(std::env::var_os("NVTX_TOOL_REFUSES").is_none())
    }
}
