//! The tape's own kernels, from PTX that is part of this crate.

use cuda_safe::nvrtc::Program;
use cuda_safe::{Context, Module, PackedPtx, Result, kernels};

use crate::backward::{FrameArg, PlaceArg};
use crate::frame::Members;

const PTX: PackedPtx<'_> = PackedPtx::new("tape", include_bytes!("../ptx/tape.ptx.gz"));

/// Returns the PTX of the crate's own kernels. For this project's tests.
#[cfg(feature = "internals")]
#[must_use]
pub fn ptx() -> PackedPtx<'static> {
    PTX
}

/// The name and the text of the device header `geom/tape.cuh`.
pub const HEADER: (&str, &str) = ("geom/tape.cuh", include_str!("../device/geom/tape.cuh"));

/// The name and the text of the device header `geom/ad.cuh`, with `geom::ad::{rule, stop, lost}`. See
/// [`OpSpec::differentiate`](crate::OpSpec::differentiate).
pub const AD_HEADER: (&str, &str) = ("geom/ad.cuh", include_str!("../device/geom/ad.cuh"));

/// The header that gives derivatives to CUDA's mathematical functions.
pub(crate) const LIBM_HEADER: &str = "geom/ad/libm.cuh";

/// The header and the files that it includes. Programs do not include it: it renames the functions that follow.
pub(crate) const LIBM_HEADERS: [(&str, &str); 7] = [
    (LIBM_HEADER, include_str!("../device/geom/ad/libm.cuh")),
    ("geom/ad/bessel.cuh", include_str!("../device/geom/ad/bessel.cuh")),
    ("geom/ad/elementary.cuh", include_str!("../device/geom/ad/elementary.cuh")),
    ("geom/ad/intrinsics.cuh", include_str!("../device/geom/ad/intrinsics.cuh")),
    ("geom/ad/mark.cuh", include_str!("../device/geom/ad/mark.cuh")),
    ("geom/ad/rounding.cuh", include_str!("../device/geom/ad/rounding.cuh")),
    ("geom/ad/special.cuh", include_str!("../device/geom/ad/special.cuh")),
];

/// The headers for kernels that are differentiated, and for adjoints.
const HEADERS: &[(&str, &str)] = &[cuda_safe::arg::LAYOUT_HEADER, AD_HEADER, HEADER];

/// Returns the name and the text of each device header of this crate. They need no header of CUDA.
#[must_use]
pub fn headers() -> &'static [(&'static str, &'static str)] {
    HEADERS
}

/// Creates a program from this CUDA C++ text, which can `#include <geom/tape.cuh>` and `<geom/ad.cuh>`.
pub fn program(source: impl Into<String>) -> Program {
    HEADERS.iter().fold(Program::new(source), |program, (name, text)| program.header(*name, *text))
}

/// Loads the kernels. Each is compiled at its first launch: a pass needs few of them.
///
/// # Errors
/// As [`Module::load_lazily`].
pub(crate) fn load(context: &Context) -> Result<Kernels> {
    let module = Module::load_lazily(context, PTX)?;
    // SAFETY: the declaration is about `PTX`.
    unsafe { Kernels::from_module(&module) }
}

kernels! {
    #[name = "tape_{}"]
    pub(crate) struct Kernels;
    // SAFETY: the kernels have grid-stride loops, so they are right for a launch in x of any size, unless `# Safety`
    // names one. The status is read, and so is the memory of `from` and `other`.
    unsafe in PTX {
        /// # Safety
        /// Both places have `n` numbers, and do not overlap.
        unsafe fn add_f32(to: PlaceArg<'_>, from: PlaceArg<'_>, n: u64, status: PlaceArg<'_>);
        /// # Safety
        /// Both places have `n` numbers, and do not overlap.
        unsafe fn add_f64(to: PlaceArg<'_>, from: PlaceArg<'_>, n: u64, status: PlaceArg<'_>);
        /// # Safety
        /// The place has `n` words of 32 bits.
        unsafe fn zero(to: PlaceArg<'_>, n: u64, status: PlaceArg<'_>);
        /// # Safety
        /// Both places have `n` words of 32 bits, and do not overlap.
        unsafe fn copy(to: PlaceArg<'_>, from: PlaceArg<'_>, n: u64, status: PlaceArg<'_>);
        /// Adds the partial sums of each member, with one block of [`BLOCK`] threads for each.
        ///
        /// # Safety
        /// There are 2^`log2` partial sums, 128 bytes apart; the members lie in each of them and in `to`.
        unsafe fn sum_partials(
            partials: PlaceArg<'_>,
            log2: u32,
            members: Members,
            to: PlaceArg<'_>,
            assign: u32,
            status: PlaceArg<'_>,
        );
        /// # Safety
        /// `noted` is a [`Status`](crate::frame::Status), and the launch has one thread.
        unsafe fn note(noted: PlaceArg<'_>, step: u32);
        /// # Safety
        /// Both are a [`Status`](crate::frame::Status), and the launch has one thread.
        unsafe fn take(other: PlaceArg<'_>, status: PlaceArg<'_>);
        /// # Safety
        /// The frame's log has as many entries as the frame says. `sums` has `mask` + 1 places, a power of two and at
        /// least twice as many as there are entries, and they are zero.
        unsafe fn log_insert(frame: FrameArg<'_>, sums: PlaceArg<'_>, mask: u64);
        /// # Safety
        /// The log and `sums` are those of [`log_insert`](Self::log_insert).
        unsafe fn log_add(frame: FrameArg<'_>, sums: PlaceArg<'_>);
        /// # Safety
        /// The log and `sums` are those of [`log_add`](Self::log_add). The entries point into memory that `frame`
        /// reports as written.
        unsafe fn log_apply(frame: FrameArg<'_>, sums: PlaceArg<'_>);
    }
}

/// The block size of each of these kernels.
pub(crate) const BLOCK: u32 = 256;
