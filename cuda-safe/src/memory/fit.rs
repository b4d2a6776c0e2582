//! Whether elements of a type fit a piece of memory, and errors that say why not.

use std::any::type_name;

use super::host::pages;
use crate::error::{Error, Result};

/// Returns the number of `T` in `bytes` bytes at `address`.
///
/// # Errors
/// The bytes are no whole number of `T`, or the address is not aligned for it. `what` begins the text.
pub(crate) fn elements<T>(what: &str, address: u64, bytes: usize) -> Result<usize> {
    let (size, element) = (size_of::<T>(), type_name::<T>());
    if size == 0 {
        return Err(Error::invalid(format!("{what}: {element} has no bytes")));
    }
    aligned::<T>(what, address)?;
    if !bytes.is_multiple_of(size) {
        return Err(Error::invalid(format!(
            "{what}: {bytes} bytes are not a whole number of {element}, which has {size}"
        )));
    }
    Ok(bytes / size)
}

/// Fails unless `address` is aligned for `T`.
pub(crate) fn aligned<T>(what: &str, address: u64) -> Result<()> {
    let (align, element) = (align_of::<T>() as u64, type_name::<T>());
    match address % align {
        0 => Ok(()),
        past => Err(Error::invalid(format!(
            "{what}: the address {address:#x} is not aligned for {element}: it must be a multiple of \
             {align} bytes, and is {past} past one"
        ))),
    }
}

/// The alignment that the driver guarantees of device memory and of managed memory, whatever allocates it.
pub(crate) const DEVICE_ALIGN: usize = 256;

/// Returns the size of `len` elements in pinned memory, which consists of pages of the host.
///
/// # Errors
/// As [`bytes`].
pub(crate) fn in_pages<T>(what: &str, len: usize) -> Result<usize> {
    bytes::<T>(what, len, pages::ALIGN)
}

/// Returns the size of `len` elements in memory that is allocated to be aligned to `align` bytes.
///
/// # Errors
/// They are more than memory can hold, or need a larger alignment. `what` begins the text.
pub(crate) fn bytes<T>(what: &str, len: usize, align: usize) -> Result<usize> {
    let (needed, element) = (align_of::<T>(), type_name::<T>());
    if needed > align {
        return Err(Error::invalid(format!(
            "{what}: {element} must be aligned to {needed} bytes, and the memory is to {align}"
        ))
        .with_hint(
            "make a larger buffer of `u8`, and cast a part of it that begins at such an address",
        ));
    }
    len.checked_mul(size_of::<T>()).ok_or_else(|| {
        Error::invalid(format!("{what}: {len} elements of {element} are more than memory can hold"))
    })
}
