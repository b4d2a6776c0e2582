//! Items that the macros' expansions use. Not public API: it changes without notice.

use std::ops::Range;
use std::panic::Location;

pub use crate::blocks::{blocks, blocks_in_order, chunks, grid, rows, tiles, warps};
pub use crate::cpu::args::{args, read, shared, structure as queried, value, write};
pub use crate::cpu::each::{Index, Output, each, extent, image, volume};
use crate::cpu::raise::{self, Raised};
pub use crate::fault::FaultKind;
pub use crate::functions::Elementary;
pub use crate::math::{
    DefinedFloat, DefinedInt, DefinedSigned, DefinedUnsigned, Int, Number, Real,
};

pub use crate::cpu::run::{host, run};

/// Returns `i` if it is less than `len`. Otherwise a fault ends the kernel.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn index(i: usize, len: usize, line: u32) -> usize {
    if i < len {
        i
    } else {
        raise::fault(FaultKind::Index, line, i as u64, len as u64, Location::caller())
    }
}

/// Checks the bounds of a slice of `len` elements. Without `end`, it extends to the last element.
#[inline(always)]
#[track_caller]
fn bounds(start: usize, end: Option<usize>, len: usize, line: u32) -> Range<usize> {
    let end = end.unwrap_or(len);
    if start > end || end > len {
        let (index, len) = if start > end { (start, end) } else { (end, len) };
        raise::fault(FaultKind::Index, line, index as u64, len as u64, Location::caller())
    }
    start..end
}

/// Returns `&x[start..end]`.
#[inline(always)]
#[track_caller]
pub fn part<T>(x: &[T], start: usize, end: Option<usize>, line: u32) -> &[T] {
    x.get(bounds(start, end, x.len(), line)).unwrap_or_default()
}

/// Returns `&mut x[start..end]`.
#[inline(always)]
#[track_caller]
pub fn part_mut<T>(x: &mut [T], start: usize, end: Option<usize>, line: u32) -> &mut [T] {
    let len = x.len();
    x.get_mut(bounds(start, end, len, line)).unwrap_or_default()
}

/// Returns the C++ before a loop from `start` to `end`, in which the iterations of `inner` loops are.
///
/// In an unrolled nest of loops over arrays indices are constants, so elements stay in registers, and most checks vanish.
/// `otherwise` stands there if the loop has more than `most` iterations, or the nest more than 1,024.
#[must_use]
pub fn unroll(start: u64, end: u64, inner: &[u64], most: u64, otherwise: &str) -> String {
    let unrolled = end.saturating_sub(start) <= most && iterations(start, end, inner) <= 1024;
    if unrolled { "_Pragma(\"unroll\") ".to_owned() } else { otherwise.to_owned() }
}

/// Returns the number of iterations of the innermost loops of a nest.
#[must_use]
pub fn iterations(start: u64, end: u64, inner: &[u64]) -> u64 {
    let inner = inner.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    end.saturating_sub(start).saturating_mul(inner.max(1))
}

/// Ends the kernel with a fault of this kind.
#[cold]
#[inline(never)]
#[track_caller]
pub fn fault(kind: FaultKind, line: u32) -> ! {
    raise::fault(kind, line, 0, 0, Location::caller())
}

/// Ends the kernel with a fault if the condition of an `assert!` in the loop is false.
#[inline(always)]
#[track_caller]
pub fn check(condition: bool, line: u32) {
    if !condition {
        fault(FaultKind::Assert, line);
    }
}

/// Returns the value, or ends the kernel with a fault for `None`.
#[inline(always)]
#[track_caller]
pub fn unwrap<T>(value: Option<T>, line: u32) -> T {
    match value {
        Some(value) => value,
        None => fault(FaultKind::None, line),
    }
}

/// Refuses the launch: a condition before the loop is false.
#[cold]
#[inline(never)]
pub fn refuse(message: String) -> ! {
    Raised::Refused(message).throw()
}

/// The names in scope in kernels. Each expansion imports them, with lower priority than the user's imports.
pub mod loops {
    pub use crate::blocks::{Threads, blocks, chunks, grid, rows, tiles, warps};
    pub use crate::cpu::each::{each, image, volume};
    pub use crate::raw::Atomic;
}

pub use crate::composite::{
    Link, Links, by_reference, enumeration, structure, type_name, value_text, variant_value,
    variants,
};
pub use crate::contract::{
    add_product_assign, minus_product, plus_product, product_minus, product_plus,
    sub_product_assign,
};
pub use crate::host::{
    HostView, Len, NO_EXTENT, OutputShape, Shape, bare_failed, block_name, blocks_of, columns,
    condition_failed, extent_of, fit, overflow_checks, parts as host_parts, same_length, shown,
    unchanging, with_shared,
};
pub use crate::methods::{
    AnOption, BuiltIn, Handle, Length, TypesOfKernelsDoNotDeref, assigned, beside, built_in,
    handle, of_number, option, swap, the_block, type_of,
};
pub use crate::print::{conversion, print, printed};
pub use crate::probe::{InCpp, Named, Probe, Types, constructor, no_arguments, typed, variant_of};
/// Returns an iterator of a structure's, for a `for`.
#[inline(always)]
pub fn items<I: crate::structure::Items>(items: I) -> I {
    items
}

pub use crate::structure::{OfDevice, OfStructure};
pub use crate::text::fill;
pub use gpu_phases_macros::{CudaSafeDevice, cuda_safe_device, cuda_safe_kernel, pack_bytes};
