//! Parameters and launches that methods of [`kernels!`](crate::kernels) derive from their arguments.

use std::any::type_name;

use super::LaunchConfig;
use crate::error::{Error, ErrorKind, Result};

/// The names and values that an expression reads.
type Values<'a> = &'a [(&'static str, i128)];

/// Returns `value` as the type of the parameter that it fills in.
///
/// # Errors
/// [`ErrorKind::Precondition`] if the value is not in the type's range, or there is none.
#[inline]
pub fn fill<N: TryFrom<i128>>(
    kernel: &'static str,
    clause: &'static str,
    value: Option<i128>,
    values: Values<'_>,
) -> Result<N> {
    match value.map(N::try_from) {
        Some(Ok(filled)) => Ok(filled),
        _ => Err(refused(kernel, clause, values, value, |value| {
            format!("{value} is out of the range of {}", type_name::<N>())
        })),
    }
}

/// Returns the launch of one thread for each of `extents`, in blocks of `block` threads.
///
/// # Errors
/// [`ErrorKind::Precondition`] if an extent is negative, or has no value. An extent larger than any grid gives a launch
/// that is refused.
#[inline]
pub fn over<const D: usize>(
    kernel: &'static str,
    clause: &'static str,
    extents: [Option<i128>; D],
    block: [u32; D],
    values: Values<'_>,
) -> Result<LaunchConfig> {
    let (mut all, mut threads) = ([1; 3], [1; 3]);
    let places = all.iter_mut().zip(&mut threads);
    for (place, (extent, block)) in places.zip(extents.into_iter().zip(block)) {
        let Some(extent) = extent.filter(|extent| *extent >= 0) else {
            return Err(refused(kernel, clause, values, extent, |extent| {
                format!("an extent is {extent}")
            }));
        };
        (*place.0, *place.1) = (usize::try_from(extent).unwrap_or(usize::MAX), block);
    }
    Ok(LaunchConfig::cover_3d(all, threads))
}

/// Returns the error for a value that cannot be used, with what `hint` says about it, or that does not exist.
#[cold]
fn refused(
    kernel: &'static str,
    clause: &'static str,
    values: Values<'_>,
    value: Option<i128>,
    hint: impl FnOnce(i128) -> String,
) -> Error {
    let hint =
        value.map_or_else(|| "it divides by 0, or leaves the range of 128 bits".to_owned(), hint);
    Error::new(ErrorKind::Precondition { kernel, clause, values: values.to_vec() }).with_hint(hint)
}
