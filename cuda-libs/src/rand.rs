//! cuRAND: random numbers.

use std::mem::MaybeUninit;

use cuda_safe::{Access, Context, DeviceBuffer, DeviceSliceMut, Stream};
use cuda_sys::MissingSymbol;
use cuda_sys::curand::{
    Curand, curandGenerator_t, curandOrdering_t, curandRngType_t, curandStatus_t,
};

use crate::error::{Error, Result};
use crate::load::CurandLibrary;
use crate::park::{Owner, Park, owner};
use crate::uses::{Uses, WithWorkspace, is_own};

/// Why a call is refused on a stream that records. On an H200, cuRAND 10.4 writes other numbers at the second launch of a
/// graph, with each algorithm.
const RECORDS: &str = "records, but only the first launch of the graph would write these numbers: generate them before, or \
                       in a kernel by `cuda_safe::kernel::random`";

/// How many generators of dropped [`Generator`]s wait to be destroyed, in each context.
const PARKED: usize = 16;

static GENERATORS: Park<Raw> = Park::new();

/// The name of the constructors in messages.
const NEW: &str = "generator";

/// The result of a raw function.
type Status = Result<curandStatus_t, MissingSymbol>;

/// A sequence of random numbers: an algorithm, a seed, a position and an ordering. Equal sequences give equal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sequence {
    algorithm: Algorithm,
    seed: u64,
    offset: u64,
    ordering: Ordering,
}

/// How random numbers are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Philox-4x32-10, which computes each number from its position.
    Philox,
    /// XORWOW, whose states lie on the device.
    Xorwow,
}

/// How the numbers of cuRAND's sequences are arranged in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Ordering {
    /// That of the library, which its versions may change.
    #[default]
    Default,
    /// The best one of the library, which its versions may change.
    Best,
    /// The same in all versions of the library.
    Legacy,
    /// Less work to set up, and worse numbers.
    Seeded,
    /// The fastest on a device; it differs between devices.
    Dynamic,
}

impl Sequence {
    fn new(algorithm: Algorithm, seed: u64) -> Self {
        Self { algorithm, seed, offset: 0, ordering: Ordering::Default }
    }

    /// Returns the sequence of Philox, from its beginning.
    #[must_use]
    pub fn philox(seed: u64) -> Self {
        Self::new(Algorithm::Philox, seed)
    }

    /// Returns the sequence of XORWOW, from its beginning.
    #[must_use]
    pub fn xorwow(seed: u64) -> Self {
        Self::new(Algorithm::Xorwow, seed)
    }

    /// Sets how much of the sequence is skipped.
    ///
    /// - Philox: the number of results, of whichever type. 8 skips 8 numbers, also of `f64`.
    /// - XORWOW: the number of 32-bit numbers, which 4096 sequences give one after the other. An `f64` takes two numbers of
    ///   one sequence, and a pair of normal numbers is made by one sequence. So 16384 skips 16384 results, or 8192 of
    ///   `f64`. What is no multiple of 16384 skips random bits and uniform `f32`, and gives other numbers than those of the
    ///   sequence in other calls.
    #[must_use]
    pub fn offset(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// Sets the ordering.
    #[must_use]
    pub fn ordering(self, ordering: Ordering) -> Self {
        Self { ordering, ..self }
    }
}

/// A generator of random numbers: a [`Sequence`] and a position in it.
///
/// Its numbers are a function of the sequence and of the calls before: each call continues where the last one has
/// ended, on whichever stream. Two calls for n and m numbers give those of one call for n + m, if all are of one
/// distribution and type, the ordering is `Default`, `Best` or `Legacy`, and, for normal and log-normal numbers, n is a
/// multiple of 4. Poisson numbers are excepted.
///
/// Each call is ordered like a launch: after the generator's earlier calls and earlier uses of the memory on other
/// streams, and before later ones. It can't be recorded: cuRAND keeps states on the device, so only the first launch of a graph
/// would write these numbers. In a graph, use a kernel with `cuda_safe::kernel::random`.
///
/// Dropping it never waits: cuRAND may wait for the device when it destroys a generator, so [`new`](Self::new) destroys
/// those of dropped ones, when there are more than 16 in a context and after its work.
///
/// ```no_run
/// use cuda_libs::{Generator, Sequence};
/// use cuda_safe::{Context, DeviceBuffer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = Context::new(0)?;
/// let stream = context.stream()?;
/// let mut x = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
/// let mut generator = Generator::new(&stream, Sequence::philox(42))?;
/// generator.normal(&stream, 0.0, 1.0, &mut x)?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Generator {
    library: CurandLibrary,
    context: Context,
    owner: Owner,
    sequence: Sequence,
    raw: Raw,
    stream: Option<u64>,
    /// Each call writes it, so that calls on several streams run in order.
    order: DeviceBuffer<MaybeUninit<u8>>,
}

#[derive(Debug, Clone, Copy)]
struct Raw(curandGenerator_t);

// SAFETY: cuRAND allows the use of a generator by any thread, one at a time.
unsafe impl Send for Raw {}
// SAFETY: a shared reference to the handle calls nothing.
unsafe impl Sync for Raw {}

/// A type of uniform, normal and log-normal numbers: `f32` and `f64`. The trait is sealed.
pub trait Float: sealed::Float {}

/// A type of random bits: `u32`, and `u64` of two 32-bit numbers each, the first of which is the lower half. The trait
/// is sealed.
pub trait Bits: bytemuck::Pod + sealed::Bits {}

impl Float for f32 {}
impl Float for f64 {}
impl Bits for u32 {}
impl Bits for u64 {}

mod sealed {
    use super::{Curand, Status, curandGenerator_t};

    /// # Safety
    /// Of each function: the rules of cuRAND's function of that name.
    #[allow(clippy::missing_safety_doc, reason = "the trait's documentation has it")]
    pub trait Float: Copy + 'static {
        unsafe fn uniform(rand: &Curand, raw: curandGenerator_t, out: u64, n: usize) -> Status;
        unsafe fn normal(
            rand: &Curand,
            raw: curandGenerator_t,
            out: u64,
            n: usize,
            of: [Self; 2],
        ) -> Status;
        unsafe fn log_normal(
            rand: &Curand,
            raw: curandGenerator_t,
            out: u64,
            n: usize,
            of: [Self; 2],
        ) -> Status;
    }

    pub trait Bits {}
    impl Bits for u32 {}
    impl Bits for u64 {}
}

macro_rules! floats {
    ($($ty:ty, $uniform:ident $normal:ident $log_normal:ident;)*) => {$(
        impl sealed::Float for $ty {
            unsafe fn uniform(rand: &Curand, raw: curandGenerator_t, out: u64, n: usize) -> Status {
                // SAFETY: the caller's promise.
                unsafe { rand.$uniform(raw, out as *mut $ty, n) }
            }
            unsafe fn normal(rand: &Curand, raw: curandGenerator_t, out: u64, n: usize, of: [Self; 2]) -> Status {
                // SAFETY: the caller's promise.
                unsafe { rand.$normal(raw, out as *mut $ty, n, of[0], of[1]) }
            }
            unsafe fn log_normal(rand: &Curand, raw: curandGenerator_t, out: u64, n: usize, of: [Self; 2]) -> Status {
                // SAFETY: the caller's promise.
                unsafe { rand.$log_normal(raw, out as *mut $ty, n, of[0], of[1]) }
            }
        }
    )*};
}

floats! {
    f32, curandGenerateUniform curandGenerateNormal curandGenerateLogNormal;
    f64, curandGenerateUniformDouble curandGenerateNormalDouble curandGenerateLogNormalDouble;
}

impl Generator {
    /// Finds and loads cuRAND, creates a generator in the stream's context, and enqueues its setup on the stream.
    ///
    /// # Errors
    /// As [`Library::load`](crate::Library::load). [`Error::Invalid`] if the stream records, and the error of
    /// [`Context::outside_captures`] if another one of the context does. [`Error::Curand`] if the library lacks the
    /// algorithm, the offset or the ordering.
    #[doc(alias = "curandCreateGenerator")]
    pub fn new(stream: &Stream, sequence: Sequence) -> Result<Self> {
        cuda_safe::check_caller()?;
        Self::with(stream, sequence, CurandLibrary::load()?)
    }

    /// Works like [`new`](Self::new), with a library that is loaded already.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(stream: &Stream, sequence: Sequence, library: CurandLibrary) -> Result<Self> {
        cuda_safe::check_caller()?;
        let context = stream.context();
        library.is_for(&context)?;
        if stream.is_recording() {
            return Err(Error::invalid(NEW, "stream", "records; create the generator before"));
        }
        // The new generator does not need the memory of the others.
        let owner = owner(&context, library.as_sys());
        let _ = destroy_parked(library, &context, owner, PARKED);
        // cuRAND allocates memory and may wait.
        context.outside_captures(|| Self::create(stream, sequence, library, owner))?
    }

    fn create(
        stream: &Stream,
        sequence: Sequence,
        library: CurandLibrary,
        owner: Owner,
    ) -> Result<Self> {
        let context = stream.context();
        let order = DeviceBuffer::uninit(stream, 1)?;
        let kind = match sequence.algorithm {
            Algorithm::Philox => curandRngType_t::CURAND_RNG_PSEUDO_PHILOX4_32_10,
            Algorithm::Xorwow => curandRngType_t::CURAND_RNG_PSEUDO_XORWOW,
        };
        let functions = library.as_sys();
        let mut raw = std::ptr::null_mut();
        let created = context.with_current(|| {
            // SAFETY: `raw` is valid for the write.
            Ok(unsafe { functions.curandCreateGenerator(&raw mut raw, kind) })
        })?;
        check(library, &context, NEW, created)?;
        // It is parked if the rest fails.
        let raw = Raw(raw);
        let mut this = Self { library, context, owner, sequence, raw, stream: None, order };
        let ordering = match sequence.ordering {
            Ordering::Default => curandOrdering_t::CURAND_ORDERING_PSEUDO_DEFAULT,
            Ordering::Best => curandOrdering_t::CURAND_ORDERING_PSEUDO_BEST,
            Ordering::Legacy => curandOrdering_t::CURAND_ORDERING_PSEUDO_LEGACY,
            Ordering::Seeded => curandOrdering_t::CURAND_ORDERING_PSEUDO_SEEDED,
            Ordering::Dynamic => curandOrdering_t::CURAND_ORDERING_PSEUDO_DYNAMIC,
        };
        // SAFETY: the functions set up the generator, and use no other memory.
        unsafe {
            this.enqueue(NEW, stream, Uses::new(), |rand, raw| {
                let done = curandStatus_t::CURAND_STATUS_SUCCESS;
                let mut status = rand.curandSetPseudoRandomGeneratorSeed(raw, sequence.seed)?;
                if status == done {
                    status = rand.curandSetGeneratorOffset(raw, sequence.offset)?;
                }
                if status == done {
                    status = rand.curandSetGeneratorOrdering(raw, ordering)?;
                }
                // Otherwise the first call would do it.
                if status == done { rand.curandGenerateSeeds(raw) } else { Ok(status) }
            })
        }?;
        Ok(this)
    }

    /// Waits for all work of the context, and destroys the generator and those of dropped ones in the context. Needed only
    /// before [`Context::close`], to free their memory.
    ///
    /// # Errors
    /// The caller may not call the driver ([`check_caller`](cuda_safe::check_caller)), or the context records; the error of
    /// earlier work, or of cuRAND.
    #[doc(alias = "curandDestroyGenerator")]
    pub fn close(self) -> Result<()> {
        cuda_safe::check_caller()?;
        let (library, context, owner) = (self.library, self.context.clone(), self.owner);
        drop(self);
        destroy_parked(library, &context, owner, 0)
    }

    /// Returns the sequence from which the generator began.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Returns the library.
    #[must_use]
    pub fn library(&self) -> CurandLibrary {
        self.library
    }

    /// Fills `out` with random bits.
    ///
    /// # Errors
    /// [`Error::Invalid`] if memory or stream belong to another context, or the stream records; an error of cuRAND, or of
    /// the enqueue.
    #[doc(alias = "curandGenerate")]
    pub fn bits<'x, T: Bits>(
        &mut self,
        stream: &Stream,
        out: impl Into<DeviceSliceMut<'x, T>>,
    ) -> Result<()> {
        let out = out.into().cast_mut::<u32>()?;
        self.fill("bits", stream, &out, 1, |rand, raw, at, n| {
            // SAFETY: `fill` passes the address of n numbers.
            unsafe { rand.curandGenerate(raw, at as *mut u32, n) }
        })
    }

    /// Fills `out` with numbers that are uniform in 0..1, without 0 and with 1.
    ///
    /// # Errors
    /// As [`bits`](Self::bits).
    #[doc(alias = "curandGenerateUniform")]
    #[doc(alias = "curandGenerateUniformDouble")]
    pub fn uniform<'x, T: Float>(
        &mut self,
        stream: &Stream,
        out: impl Into<DeviceSliceMut<'x, T>>,
    ) -> Result<()> {
        self.fill("uniform", stream, &out.into(), 1, |rand, raw, at, n| {
            // SAFETY: `fill` passes the address of n numbers.
            unsafe { T::uniform(rand, raw, at, n) }
        })
    }

    /// Fills `out` with normal numbers of this mean and standard deviation.
    ///
    /// # Errors
    /// As [`bits`](Self::bits), and if the number of elements is odd, or the address is no multiple of the size of two
    /// elements: cuRAND makes the numbers in pairs.
    #[doc(alias = "curandGenerateNormal")]
    #[doc(alias = "curandGenerateNormalDouble")]
    pub fn normal<'x, T: Float>(
        &mut self,
        stream: &Stream,
        mean: T,
        deviation: T,
        out: impl Into<DeviceSliceMut<'x, T>>,
    ) -> Result<()> {
        self.fill("normal", stream, &out.into(), 2, |rand, raw, at, n| {
            // SAFETY: `fill` passes the address of n numbers.
            unsafe { T::normal(rand, raw, at, n, [mean, deviation]) }
        })
    }

    /// Fills `out` with numbers whose logarithms are normal, of this mean and standard deviation.
    ///
    /// # Errors
    /// As [`normal`](Self::normal).
    #[doc(alias = "curandGenerateLogNormal")]
    #[doc(alias = "curandGenerateLogNormalDouble")]
    pub fn log_normal<'x, T: Float>(
        &mut self,
        stream: &Stream,
        mean: T,
        deviation: T,
        out: impl Into<DeviceSliceMut<'x, T>>,
    ) -> Result<()> {
        self.fill("log_normal", stream, &out.into(), 2, |rand, raw, at, n| {
            // SAFETY: `fill` passes the address of n numbers.
            unsafe { T::log_normal(rand, raw, at, n, [mean, deviation]) }
        })
    }

    /// Fills `out` with numbers of the Poisson distribution of this mean, which is above 0 and at most 400,000. They are made
    /// in a temporary buffer, and copied: cuRAND may wait for the device while it makes them.
    ///
    /// # Errors
    /// As [`bits`](Self::bits), for another mean, and that of [`Context::outside_captures`] if the context records.
    #[doc(alias = "curandGeneratePoisson")]
    pub fn poisson<'x>(
        &mut self,
        stream: &Stream,
        mean: f64,
        out: impl Into<DeviceSliceMut<'x, u32>>,
    ) -> Result<()> {
        const CALL: &str = "poisson";
        if !(mean > 0.0 && mean <= 400_000.0) {
            return Err(Error::invalid(
                CALL,
                "mean",
                format!("is {mean}, which is not above 0 and at most 400000"),
            ));
        }
        let mut out = out.into();
        let context = self.context.clone();
        let mut uses = Uses::new();
        uses.writes("out", &out);
        uses.check(CALL, &context, "Generator")?;
        let made = context.outside_captures(|| {
            // Not in `out`: if a graph uses it, the call waits for that graph's lock, whose owner may wait to record.
            let mut made = DeviceBuffer::uninit(stream, out.len())?;
            self.fill(CALL, stream, &made.as_slice_mut(), 1, |rand, raw, at, n| {
                // SAFETY: `fill` passes the address of n numbers.
                unsafe { rand.curandGeneratePoisson(raw, at as *mut u32, n, mean) }
            })?;
            Ok::<_, Error>(made)
        })??;
        // SAFETY: cuRAND writes all elements, in the order of the stream.
        let made = unsafe { made.assume_init() };
        Ok(out.copy_from(stream, &made)?)
    }

    /// Generates numbers in groups of this size. `function` gets the generator, the address of the elements, and their
    /// number.
    fn fill<T: Copy + 'static>(
        &mut self,
        call: &'static str,
        stream: &Stream,
        out: &DeviceSliceMut<'_, T>,
        group: usize,
        function: impl FnOnce(&Curand, curandGenerator_t, u64, usize) -> Status,
    ) -> Result<()> {
        let (n, at) = (out.len(), out.device_ptr());
        if !n.is_multiple_of(group) {
            return Err(Error::invalid(
                call,
                "out",
                format!("has {n} elements; the numbers are made in pairs"),
            ));
        }
        if !at.is_multiple_of((group * size_of::<T>()) as u64) {
            return Err(Error::invalid(
                call,
                "out",
                "lies at an address that is no multiple of two elements' size",
            ));
        }
        let mut uses = Uses::new();
        uses.add("out", out.allocation(), out.byte_range(), Access::Write, true);
        if n == 0 {
            is_own(call, stream, &self.context, "Generator")?;
            return uses.check(call, &self.context, "Generator");
        }
        // SAFETY: `function` calls cuRAND with the generator, which writes the n elements.
        unsafe { self.enqueue(call, stream, uses, |rand, raw| function(rand, raw, at, n)) }
    }

    /// Enqueues a call of cuRAND that uses this memory.
    ///
    /// # Safety
    /// `function` calls cuRAND with the generator, and nothing else; the work uses device memory as `uses` says.
    unsafe fn enqueue(
        &mut self,
        call: &'static str,
        stream: &Stream,
        uses: Uses<'_>,
        function: impl FnOnce(&Curand, curandGenerator_t) -> Status,
    ) -> Result<()> {
        const DONE: curandStatus_t = curandStatus_t::CURAND_STATUS_SUCCESS;
        cuda_safe::check_caller()?;
        is_own(call, stream, &self.context, "Generator")?;
        uses.check(call, &self.context, "Generator")?;
        if stream.is_recording() {
            return Err(Error::invalid(call, "stream", RECORDS));
        }
        let (functions, raw, id) = (self.library.as_sys(), self.raw.0, stream.id());
        let is_bound = self.stream == Some(id);
        self.stream = None;
        let uses = WithWorkspace { uses: &uses, workspace: Some(&self.order) };
        let status = self.context.with_current(|| {
            // SAFETY: the generator belongs to the context, which is current, and to this call alone; the caller
            // promises the rest. The generator's states are covered by `order`. The closure calls cuRAND alone.
            unsafe {
                stream.enqueue(uses, |of| {
                    let status =
                        if is_bound { DONE } else { functions.curandSetStream(raw, of)? };
                    if status == DONE { function(functions, raw) } else { Ok(status) }
                })
            }
        })?;
        check(self.library, &self.context, call, status)?;
        self.stream = Some(id);
        Ok(())
    }
}

/// Returns the error of a status: that of the context, if it has lost the device.
fn check(
    library: CurandLibrary,
    context: &Context,
    call: &'static str,
    status: Status,
) -> Result<()> {
    match status {
        Ok(curandStatus_t::CURAND_STATUS_SUCCESS) => Ok(()),
        Ok(status) => match context.check_alive() {
            Err(error) => Err(error.into()),
            Ok(()) => Err(Error::Curand { call, status }),
        },
        Err(missing) => Err(library.lacks(call, missing.name)),
    }
}

fn destroy_parked(
    library: CurandLibrary,
    context: &Context,
    owner: Owner,
    most: usize,
) -> Result<()> {
    let functions = library.as_sys();
    GENERATORS.destroy_excess(context, owner, most, |raw| {
        let status = context.with_current(|| {
            // SAFETY: the generator is alive, no other thread has it, and its work is done. Its stream may be gone, so
            // it gets the legacy stream.
            Ok(unsafe {
                let _ = functions.curandSetStream(raw.0, std::ptr::null_mut());
                functions.curandDestroyGenerator(raw.0)
            })
        })?;
        check(library, context, "close", status)
    })
}

impl Drop for Generator {
    fn drop(&mut self) {
        GENERATORS.put(self.owner, self.raw, false);
    }
}
