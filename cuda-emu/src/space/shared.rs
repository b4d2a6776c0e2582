//! Memory that processes share.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::{io, ptr};

use super::Region;

/// The words in a file's name: the process, the number of the region, the region's place in the file, its bytes, and 128
/// random bits, because another process may have the same numbers.
pub(crate) type Label = [u64; 6];

/// A mapping of a file: memory that other processes can map, too.
#[derive(Debug)]
pub(crate) struct Shared {
    start: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: the mapping belongs to the value, and no thread in particular.
unsafe impl Send for Shared {}

impl Shared {
    /// Returns the name of the file with this label. No other file of the machine has it.
    pub(crate) fn name(label: Label) -> String {
        format!("cuda-emu-{}", label.map(|word| format!("{word:x}")).join("-"))
    }

    /// Maps all of a file of another process.
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        map(file, ptr::null_mut(), bytes, 0).map(|start| Self { start, bytes })
    }

    /// Returns the address.
    pub(crate) fn start(&self) -> u64 {
        self.start.expose_provenance() as u64
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and the region in it is out of the space's table.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Maps a file, or with `MAP_FIXED` in `flags` puts it over the pages at an address.
fn map(
    file: &File,
    at: *mut libc::c_void,
    bytes: usize,
    flags: i32,
) -> io::Result<*mut libc::c_void> {
    let (both, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | flags);
    // SAFETY: a mapping at an address of the system's choice changes no memory that exists; with `MAP_FIXED` the caller
    // owns the pages.
    let start = unsafe { libc::mmap(at, bytes, both, flags, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start) }
}

/// Returns the whole pages that a region touches.
fn pages(region: &Region, page: u64) -> (*mut libc::c_void, usize, u64) {
    let start = region.start / page * page;
    let bytes = region.end.next_multiple_of(page) - start;
    (ptr::with_exposed_provenance_mut(start as usize), bytes as usize, region.start - start)
}

/// Moves the pages of a region of the reserve, which no other region touches, into a file. Returns it and its label.
pub(super) fn share(region: &Region, page: u64) -> io::Result<(File, Label)> {
    let (start, bytes, offset) = pages(region, page);
    let mut random = [[0; 8]; 2];
    File::open("/dev/urandom")?.read_exact(random.as_flattened_mut())?;
    let [first, second] = random.map(u64::from_ne_bytes);
    let maker = std::process::id().into();
    let label = [maker, region.id, offset, region.bytes(), first, second];
    let file = create(&CString::new(Shared::name(label))?)?;
    file.set_len(bytes as u64)?;
    // SAFETY: the pages are committed memory of the region and of the gaps around it, and nothing writes them now.
    let memory = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), bytes) };
    file.write_all_at(memory, 0)?;
    // SAFETY: the call changes a property of the file. Without the seal, other processes do not map it.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    map(&file, start, bytes, libc::MAP_FIXED)?;
    Ok((file, label))
}

/// Gives a region pages of its own again. Returns whether it could: otherwise the region's place must not be used again.
pub(super) fn unshare(region: &Region, page: u64) -> bool {
    let (start, bytes, _) = pages(region, page);
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the pages are of a slot of the reserve whose region is freed. If the call fails, they stay as they are.
    unsafe { libc::mmap(start, bytes, both, flags, -1, 0) != libc::MAP_FAILED }
}

fn create(name: &CStr) -> io::Result<File> {
    // SAFETY: the name is a C string.
    let file =
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else has it.
    Ok(unsafe { File::from_raw_fd(file) })
}
