//! Tangents of memory and arguments, from outside.

use crate::space::Space;
use crate::space::tangent::TangentStore;
use crate::space::tangent::lost::Lost;
use crate::space::tangent::unit::{self, Number};

/// The type of numbers with tangents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Real {
    /// 16 bits, 5 of them exponent.
    F16,
    /// 16 bits, 8 of them exponent.
    Bf16,
    /// `float`
    F32,
    /// `double`
    F64,
}

impl Real {
    /// Returns its size in bytes, which is also its alignment.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// Why tangents cannot be set or returned.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TangentError {
    /// Tangents are not tracked.
    #[error(
        "tangents are not tracked: set `CUDA_EMU_TANGENTS=1` or `Config::tangents`, then call `cuInit`"
    )]
    Off,
    /// The numbers are not in an allocation.
    #[error("{bytes} bytes at {address:#x}: {place}")]
    Outside {
        /// The address of the first number.
        address: u64,
        /// Bytes of all numbers.
        bytes: u64,
        /// A description of the address.
        place: String,
    },
    /// The address or offset is no multiple of the numbers' size.
    #[error("{at:#x} is not a multiple of {size}, the size of a number")]
    Misaligned {
        /// The address or offset.
        at: u64,
        /// Bytes of a number.
        size: usize,
    },
    /// A tangent is infinite or NaN.
    #[error("the tangent at index {index} is {value}")]
    NotFinite {
        /// The index among the tangents that were given.
        index: usize,
        /// The tangent.
        value: f64,
    },
    /// No kernel has parameters there.
    #[error("parameters end at byte {LIMIT}, and the number would end at byte {end}")]
    NoParameter {
        /// The byte past the number.
        end: u64,
    },
}

impl std::fmt::Debug for TangentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Bytes of a kernel's parameters at most, since PTX ISA 8.1.
const LIMIT: u64 = 32_764;

/// The tangents of a space: derivatives in f64 that kernels propagate beside their values, which stay the same to the
/// bit.
///
/// Each number of memory or of a kernel's arguments has a tangent, zero unless set. Instructions compute the tangent of
/// their result from those of their sources, by the derivative of the ideal function. With tangents ẋ of all inputs,
/// the tangents of the outputs are J ẋ, which tests a gradient g = Jᵀ ȳ without another derivation: ⟨ȳ, J ẋ⟩ = ⟨g, ẋ⟩.
///
/// - Copies between device memory (also pinned and managed) take tangents along. Copies from other memory of the host,
///   fills and writes of stream operations make constants, as does allocation. The host's own writes to pinned and
///   managed memory are not seen.
/// - Launches run on one worker. A call waits for nothing: synchronise before [`Tangents::get`] and [`Tangents::lost`].
/// - Textures and functions that the device refuses have no tangents because they don't run.
///
/// ```
/// use cuda_emu::{Config, Real};
/// # use cuda_safe::{DeviceBuffer, Driver, Module, launch};
/// # const SQUARE: &str = ".version 8.0
/// # .target sm_75
/// # .address_size 64
/// # .visible .entry square(.param .u64 x) {
/// # .reg .b64 %rd<2>;
/// # .reg .f32 %f<2>;
/// # ld.param.u64 %rd1, [x];
/// # ld.global.f32 %f1, [%rd1];
/// # mul.f32 %f1, %f1, %f1;
/// # st.global.f32 [%rd1], %f1;
/// # ret;
/// # }";
///
/// Config::new().tangents(true).install();
/// # let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
/// # let stream = context.stream()?;
/// # let square = Module::from_ptx(&context, SQUARE)?.kernel("square")?;
/// let mut x = DeviceBuffer::from_slice(&stream, &[3f32])?;
/// stream.synchronize()?;
/// let tangents = cuda_emu::tangents()?;
/// tangents.set(x.device_ptr(), Real::F32, &[1.0])?;
/// // SAFETY: the kernel squares its one element.
/// unsafe { launch!(square<<<1, 1, 0, stream>>>(&mut x)) }?;
/// stream.synchronize()?;
/// assert_eq!(tangents.get(x.device_ptr(), Real::F32, 1)?, [6.0]);
/// assert!(tangents.lost().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Tangents<'a> {
    space: &'a Space,
    store: &'a TangentStore,
}

impl<'a> Tangents<'a> {
    /// Returns the tangents of a space, if they are tracked ([`Space::track_tangents`]).
    #[must_use]
    pub fn of(space: &'a Space) -> Option<Self> {
        Some(Self { space, store: space.tangent_store()? })
    }

    /// Checks that `count` numbers are in an allocation, and returns their bytes.
    fn checked(&self, address: u64, real: Real, count: usize) -> Result<u64, TangentError> {
        if !address.is_multiple_of(real.bytes() as u64) {
            return Err(TangentError::Misaligned { at: address, size: real.bytes() });
        }
        let bytes = (count as u64).saturating_mul(real.bytes() as u64);
        if bytes != 0 && self.space.find_range(address, bytes).is_none() {
            let place = self.space.describe(address);
            return Err(TangentError::Outside { address, bytes, place });
        }
        Ok(bytes)
    }

    /// Sets the tangents of the numbers from `address` on, one after the other.
    ///
    /// # Errors
    /// If the numbers are not in one allocation, `address` is misaligned, or a tangent is infinite or NaN. Nothing has
    /// changed then.
    pub fn set(&self, address: u64, real: Real, tangents: &[f64]) -> Result<(), TangentError> {
        self.checked(address, real, tangents.len())?;
        finite(tangents)?;
        let mut held = self.store.lock();
        let mut units = [0; 4];
        let units = &mut units[..real.bytes() / 2];
        for (at, &tangent) in (address..).step_by(real.bytes()).zip(tangents) {
            unit::write(units, tangent);
            for (at, &unit) in (at..).step_by(2).zip(&*units) {
                held.put(at, unit);
            }
        }
        Ok(())
    }

    /// Returns the tangents of `count` numbers from `address` on. A lost one is noted for [`Tangents::lost`], and NaN.
    ///
    /// # Errors
    /// If the numbers are not in one allocation, or `address` is misaligned.
    pub fn get(&self, address: u64, real: Real, count: usize) -> Result<Vec<f64>, TangentError> {
        self.checked(address, real, count)?;
        let mut held = self.store.lock();
        let mut units = [0; 4];
        let units = &mut units[..real.bytes() / 2];
        let each = (address..).step_by(real.bytes()).take(count);
        Ok(each
            .map(|at| {
                for (at, unit) in (at..).step_by(2).zip(&mut *units) {
                    *unit = held.get(at);
                }
                match unit::read(units) {
                    Number::Tangent(tangent) => tangent,
                    Number::Lost(origin) => {
                        held.origins.note(origin);
                        f64::NAN
                    }
                    Number::Torn => f64::NAN,
                }
            })
            .collect())
    }

    /// Sets the tangent of a number in an argument, for all launches of the kernels of this name (in PTX) that begin
    /// from now on. `offset` is counted in bytes from the first parameter, with padding, as `cuFuncGetParamInfo` does.
    ///
    /// A launch of a kernel whose parameters end before the number fails with `CUDA_ERROR_INVALID_VALUE`.
    ///
    /// # Errors
    /// If the offset is misaligned or beyond all parameters, or the tangent is infinite or NaN. Nothing has changed
    /// then.
    pub fn set_argument(
        &self,
        kernel: &str,
        offset: usize,
        real: Real,
        tangent: f64,
    ) -> Result<(), TangentError> {
        let (at, size) = (offset as u64, real.bytes());
        if !at.is_multiple_of(size as u64) {
            return Err(TangentError::Misaligned { at, size });
        }
        let end = at.saturating_add(size as u64);
        if end > LIMIT {
            return Err(TangentError::NoParameter { end });
        }
        finite(&[tangent])?;
        let mut units = vec![0; size / 2];
        unit::write(&mut units, tangent);
        let mut held = self.store.lock();
        held.arguments.entry(kernel.to_owned()).or_default().insert(at, units);
        Ok(())
    }

    /// Makes all arguments of all kernels constants again.
    pub fn clear_arguments(&self) {
        self.store.lock().arguments.clear();
    }

    /// Makes all arguments of the kernels of this name constants again.
    pub fn clear_arguments_of(&self, kernel: &str) {
        self.store.lock().arguments.remove(kernel);
    }

    /// Makes all memory constant.
    pub fn clear(&self) {
        self.store.lock().clear(0, u64::MAX);
    }

    /// Takes the instructions at which tangents were lost so far, in the order of their first execution. Unless it is
    /// empty, tangents that depend on these are NaN, not numbers.
    #[must_use]
    pub fn lost(&self) -> Vec<Lost> {
        self.store.lock().origins.take()
    }
}

/// Checks that tangents are numbers.
fn finite(tangents: &[f64]) -> Result<(), TangentError> {
    match tangents.iter().position(|tangent| !tangent.is_finite()) {
        Some(index) => Err(TangentError::NotFinite { index, value: tangents[index] }),
        None => Ok(()),
    }
}
