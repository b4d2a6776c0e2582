//! The memory of a call beside its matrices.

use cuda_safe::{DeviceSlice, DeviceSliceMut};

use crate::blas::call::Uses;
use crate::error::{Error, Result};

/// The memory of a call of a plan beside its matrices. It has what the [`Problem`](super::Problem) asks for, and nothing else.
#[derive(Debug)]
pub struct Extras<'a, T> {
    pub(super) bias: Option<DeviceSlice<'a, T>>,
    pub(super) save: Option<DeviceSliceMut<'a, u8>>,
    pub(super) saved: Option<DeviceSlice<'a, u8>>,
    pub(super) scales: [Option<DeviceSlice<'a, f32>>; 3],
    pub(super) amax: Option<DeviceSliceMut<'a, f32>>,
}

impl<'a, T: Copy + 'static> Extras<'a, T> {
    /// Returns extras without memory.
    #[must_use]
    pub fn none() -> Self {
        Self { bias: None, save: None, saved: None, scales: [None; 3], amax: None }
    }

    /// Gives the bias: an element for each column of the result.
    #[must_use]
    pub fn bias(self, bias: impl Into<DeviceSlice<'a, T>>) -> Self {
        Self { bias: Some(bias.into()), ..self }
    }

    /// Gives the memory for what the gradient needs, at an address that is a multiple of 16: at least [`Plan::saved_bytes`](super::Plan::saved_bytes).
    #[must_use]
    pub fn save(self, place: impl Into<DeviceSliceMut<'a, u8>>) -> Self {
        Self { save: Some(place.into()), ..self }
    }

    /// Gives what a plan for a `d` of the same shape and order has saved.
    #[must_use]
    pub fn saved(self, saved: impl Into<DeviceSlice<'a, u8>>) -> Self {
        Self { saved: Some(saved.into()), ..self }
    }

    /// Gives the factors of the 8-bit operands, and of an 8-bit result. Each is the first element of its slice,
    /// at an address that is a multiple of 16.
    #[must_use]
    pub fn scales(
        self,
        a: impl Into<DeviceSlice<'a, f32>>,
        b: impl Into<DeviceSlice<'a, f32>>,
        d: Option<DeviceSlice<'a, f32>>,
    ) -> Self {
        Self { scales: [Some(a.into()), Some(b.into()), d], ..self }
    }

    /// Gives the memory for the greatest absolute value of an 8-bit result: one element, at an address that is a multiple of 16.
    #[must_use]
    pub fn amax(self, place: impl Into<DeviceSliceMut<'a, f32>>) -> Self {
        Self { amax: Some(place.into()), ..self }
    }
}

impl<'a> Uses<'a> {
    /// Adds memory that is read, and returns its address. It must be given if so many elements are wanted, and only then.
    pub(super) fn given<T: Copy + 'static>(
        &mut self,
        call: &'static str,
        name: &'static str,
        given: &Option<DeviceSlice<'a, T>>,
        wanted: Option<usize>,
    ) -> Result<Option<u64>> {
        is_as_wanted(call, name, given.map(|slice| slice.len()), wanted)?;
        if let Some(slice) = given {
            self.reads(name, slice);
        }
        Ok(given.map(|slice| slice.device_ptr()))
    }

    /// Adds memory that is written, as [`given`](Self::given) does.
    pub(super) fn given_mut<T: Copy + 'static>(
        &mut self,
        call: &'static str,
        name: &'static str,
        given: &Option<DeviceSliceMut<'a, T>>,
        wanted: Option<usize>,
    ) -> Result<Option<u64>> {
        is_as_wanted(call, name, given.as_ref().map(DeviceSliceMut::len), wanted)?;
        if let Some(slice) = given {
            self.writes(name, slice);
        }
        Ok(given.as_ref().map(DeviceSliceMut::device_ptr))
    }
}

fn is_as_wanted(
    call: &'static str,
    name: &'static str,
    given: Option<usize>,
    wanted: Option<usize>,
) -> Result<()> {
    let message = match (given, wanted) {
        (Some(given), Some(wanted)) if given < wanted => {
            format!("has {given} elements; {wanted} are needed")
        }
        (Some(_), None) => "is given, but the plan takes none".to_owned(),
        (None, Some(wanted)) => format!("is missing; {wanted} elements are needed"),
        _ => return Ok(()),
    };
    Err(Error::invalid(call, name, message))
}
