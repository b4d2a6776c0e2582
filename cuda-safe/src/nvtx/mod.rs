//! Ranges and marks for NVIDIA's profilers, such as Nsight Systems: NVTX without its C headers.
//!
//! A profiler that starts the program names its library in the environment variable `NVTX_INJECTION64_PATH`. The first
//! call here loads it and lets it put its functions into our tables, as NVTX 3 does. Where no profiler is attached a
//! call is one load and a branch.
//!
//! ```
//! use cuda_safe::nvtx;
//! let step = nvtx::range("step");
//! {
//!     let _inner = nvtx::range("inner");
//!     nvtx::mark("half of it");
//! }
//! drop(step);
//! ```

mod tables;

use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use tables::{
    CORE, CORE2, DOMAIN_CREATE, DOMAIN_DESTROY, DOMAIN_MARK, DOMAIN_POP, DOMAIN_PUSH, MARK, POP,
    PUSH, Slots,
};

use crate::sync::Once;

/// Not looked for yet.
const FRESH: u8 = 0;
/// No tool is attached, for the rest of the process.
const NONE: u8 = 1;
/// A tool has seen the tables.
const ATTACHED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(FRESH);

/// Returns whether a tool is attached; looks for one at the first call.
#[inline]
fn attached() -> bool {
    match STATE.load(Ordering::Acquire) {
        NONE => false,
        ATTACHED => true,
        _ => look(),
    }
}

#[cold]
fn look() -> bool {
    static LOOKED: Once<()> = Once::new();
    // A caller that can't wait here emits no ranges.
    let _ = LOOKED.get_or_init(|| {
        let state = if tables::attach() { ATTACHED } else { NONE };
        STATE.store(state, Ordering::Release);
    });
    STATE.load(Ordering::Acquire) == ATTACHED
}

/// A domain's handle, made by the tool; null is the default domain.
type Handle = *mut c_void;

/// The attributes of an event (`nvtxEventAttributes_v2`).
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

const _: () = assert!(size_of::<Attributes>() == 48 || size_of::<usize>() != 8);

impl Attributes {
    fn new(message: &CString) -> Self {
        Self {
            version: tables::VERSION,
            size: size_of::<Self>() as u16,
            category: 0,
            color_type: 0,
            color: 0,
            payload_type: 0,
            reserved: 0,
            payload: 0,
            // NVTX_MESSAGE_TYPE_ASCII, which tools read as UTF-8.
            message_type: 1,
            message: message.as_ptr(),
        }
    }
}

/// Returns the text for a tool. It can't hold a zero byte, whose sign takes its place.
fn text(name: &str) -> CString {
    CString::new(name.replace('\0', "\u{2400}")).unwrap_or_default()
}

type WithText = unsafe extern "system" fn(*const c_char) -> c_int;
type Plain = unsafe extern "system" fn() -> c_int;
type Create = unsafe extern "system" fn(*const c_char) -> Handle;
type Destroy = unsafe extern "system" fn(Handle);
type DomainEvent = unsafe extern "system" fn(Handle, *const Attributes) -> c_int;
type DomainPlain = unsafe extern "system" fn(Handle) -> c_int;
/// Marks have no result.
type Mark = unsafe extern "system" fn(*const c_char);
type DomainMark = unsafe extern "system" fn(Handle, *const Attributes);

/// Returns the function in a slot, if the tool has put one there.
///
/// # Safety
/// `F` is the type of the function that belongs there.
unsafe fn function<F: Copy>(slots: &Slots, id: usize) -> Option<F> {
    let raw = slots.get(id)?.load(Ordering::Acquire);
    if raw.is_null() {
        return None;
    }
    const { assert!(size_of::<F>() == size_of::<*mut ()>()) };
    // SAFETY: a function pointer of this type, by the caller's promise and the protocol's: the
    // tool puts nothing else into the slot. Its library is never unloaded.
    Some(unsafe { std::mem::transmute_copy::<*mut (), F>(&raw) })
}

/// Opens a range of time on this thread, from here until the guard is dropped, in the default domain.
///
/// Ranges of a thread nest: they end in the reverse of the order in which they began.
#[inline]
#[must_use = "the range ends when the guard is dropped"]
pub fn range(name: &str) -> RangeGuard<'static> {
    let open = attached();
    if open {
        push(name);
    }
    RangeGuard { open, domain: ptr::null_mut(), marker: PhantomData }
}

#[cold]
fn push(name: &str) {
    // SAFETY: nvtxRangePushA is of this type, and reads the text during the call.
    unsafe {
        if let Some(push) = function::<WithText>(&CORE, PUSH) {
            push(text(name).as_ptr());
        }
    }
}

/// Emits a mark at this moment, in the default domain.
#[inline]
pub fn mark(name: &str) {
    if attached() {
        // SAFETY: nvtxMarkA is of this type, and reads the text during the call.
        unsafe {
            if let Some(mark) = function::<Mark>(&CORE, MARK) {
                mark(text(name).as_ptr());
            }
        }
    }
}

/// A name space for ranges and marks, so that a library's are distinct from a program's.
///
/// Dropping it destroys it in the tool.
pub struct Domain {
    handle: Handle,
    /// Whether a tool knows it.
    known: bool,
}

// SAFETY: the handle names a domain of the process; NVTX allows its use on every thread.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    /// Creates a new domain.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut handle = ptr::null_mut();
        if attached() {
            // SAFETY: nvtxDomainCreateA is of this type, and reads the text during the call.
            unsafe {
                if let Some(create) = function::<Create>(&CORE2, DOMAIN_CREATE) {
                    handle = create(text(name).as_ptr());
                }
            }
        }
        Self { handle, known: !handle.is_null() }
    }

    /// Opens a range of time on this thread, which ends when the guard is dropped. Ranges nest separately in each
    /// domain.
    #[must_use = "the range ends when the guard is dropped"]
    pub fn range(&self, name: &str) -> RangeGuard<'_> {
        if !self.known {
            return RangeGuard { open: false, domain: ptr::null_mut(), marker: PhantomData };
        }
        let text = text(name);
        // SAFETY: nvtxDomainRangePushEx is of this type, and reads attributes and text during the
        // call; the domain is live.
        unsafe {
            if let Some(push) = function::<DomainEvent>(&CORE2, DOMAIN_PUSH) {
                push(self.handle, &Attributes::new(&text));
            }
        }
        RangeGuard { open: true, domain: self.handle, marker: PhantomData }
    }

    /// Emits a mark at this moment.
    pub fn mark(&self, name: &str) {
        if !self.known {
            return;
        }
        let text = text(name);
        // SAFETY: nvtxDomainMarkEx is of this type; else as for a range.
        unsafe {
            if let Some(mark) = function::<DomainMark>(&CORE2, DOMAIN_MARK) {
                mark(self.handle, &Attributes::new(&text));
            }
        }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if self.known {
            // SAFETY: nvtxDomainDestroy is of this type; the domain is live, and no range of it is
            // open: guards borrow it.
            unsafe {
                if let Some(destroy) = function::<Destroy>(&CORE2, DOMAIN_DESTROY) {
                    destroy(self.handle);
                }
            }
        }
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("known", &self.known).finish()
    }
}

/// A range that is open; dropping it ends it. It stays on its thread:
///
/// ```compile_fail,E0277
/// fn elsewhere(_: impl Send) {}
/// elsewhere(cuda_safe::nvtx::range("a range of this thread"));
/// ```
#[must_use = "the range ends when the guard is dropped"]
pub struct RangeGuard<'domain> {
    /// Whether its begin was passed to a tool.
    open: bool,
    /// Null for the default domain.
    domain: Handle,
    /// Not `Send`: the tool keeps a stack of ranges for each thread.
    marker: PhantomData<(&'domain Domain, *const ())>,
}

impl Drop for RangeGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.open {
            pop(self.domain);
        }
    }
}

#[cold]
fn pop(domain: Handle) {
    // SAFETY: nvtxRangePop and nvtxDomainRangePop are of these types; a domain outlives its guards.
    unsafe {
        if domain.is_null() {
            if let Some(pop) = function::<Plain>(&CORE, POP) {
                pop();
            }
        } else if let Some(pop) = function::<DomainPlain>(&CORE2, DOMAIN_POP) {
            pop(domain);
        }
    }
}

impl fmt::Debug for RangeGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeGuard").field("open", &self.open).finish()
    }
}
