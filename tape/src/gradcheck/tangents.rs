//! Derivatives by tangents of the software device, whose driver has functions for them.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use cuda_safe::sys::{CUdeviceptr, CUresult};
use cuda_safe::{Driver, Error, Result, arg::InspectArgs};

use super::differences::Estimate;
use super::numbers::{Field, Home};
use super::rig::Rig;
use crate::element::FloatType;

type Set = unsafe extern "C" fn(CUdeviceptr, c_uint, usize, *const f64) -> CUresult;
type Get = unsafe extern "C" fn(CUdeviceptr, c_uint, usize, *mut f64) -> CUresult;
type SetArgument = unsafe extern "C" fn(*const c_char, usize, c_uint, f64) -> CUresult;
type ClearArguments = unsafe extern "C" fn(*const c_char) -> CUresult;
type Lost = unsafe extern "C" fn(*mut usize, *mut c_char, c_int) -> CUresult;

/// The functions of the software device for tangents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tangents {
    set: Set,
    get: Get,
    set_argument: SetArgument,
    clear_arguments: ClearArguments,
    lost: Lost,
}

/// The result for a direction.
pub(super) enum Found {
    Derivatives(Vec<Estimate>),
    /// An instruction without a known derivative, and its location.
    Lost(String),
}

/// The relative error of tangents, which the device computes in f64.
const ERROR: f64 = 1e-12;

fn answer(call: &'static str, code: CUresult) -> Result<()> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Error::driver(call, code)),
    }
}

impl Tangents {
    /// Returns the functions, if the driver has them and the device tracks tangents.
    pub(super) fn find(driver: Driver) -> Result<Option<Self>> {
        let find = |name: &CStr| -> Result<Option<*const c_void>> {
            Ok(Some(driver.extension(name)?).filter(|address| !address.is_null()))
        };
        // A device without tangents lacks this function, too.
        let Some(get) = find(c"cuEmuTangentsGet")? else { return Ok(None) };
        let others = (
            find(c"cuEmuTangentsSet")?,
            find(c"cuEmuTangentsSetArgument")?,
            find(c"cuEmuTangentsClearArguments")?,
            find(c"cuEmuTangentsLost")?,
        );
        let (Some(set), Some(set_argument), Some(clear_arguments), Some(lost)) = others else {
            return Ok(None);
        };
        // SAFETY: only the driver of `cuda-emu` has functions of these names, and these are their types.
        let this = unsafe {
            Self {
                set: std::mem::transmute::<*const c_void, Set>(set),
                get: std::mem::transmute::<*const c_void, Get>(get),
                set_argument: std::mem::transmute::<*const c_void, SetArgument>(set_argument),
                clear_arguments: std::mem::transmute::<*const c_void, ClearArguments>(
                    clear_arguments,
                ),
                lost: std::mem::transmute::<*const c_void, Lost>(lost),
            }
        };
        // SAFETY: the pointer is not used for zero numbers.
        match unsafe { (this.get)(0, index(FloatType::F32), 0, std::ptr::null_mut()) } {
            CUresult::CUDA_ERROR_NOT_SUPPORTED => Ok(None),
            code => answer("cuEmuTangentsGet", code).map(|()| Some(this)),
        }
    }

    /// Returns the derivatives of all outputs at a point in a direction. Waits.
    pub(super) fn derivatives<A: InspectArgs>(
        &self,
        rig: &mut Rig<'_, A>,
        point: &[f64],
        direction: &[f64],
    ) -> Result<Found> {
        let name = CString::new(rig.op.kernel().name())
            .map_err(|_| Error::invalid("the name of a kernel contains a NUL"))?;
        let found = self.launch(rig, point, direction, &name);
        // SAFETY: the text ends with NUL.
        let cleared =
            answer("cuEmuTangentsClearArguments", unsafe { (self.clear_arguments)(name.as_ptr()) });
        let found = found?;
        cleared.map(|()| found)
    }

    fn launch<A: InspectArgs>(
        &self,
        rig: &mut Rig<'_, A>,
        point: &[f64],
        direction: &[f64],
        name: &CStr,
    ) -> Result<Found> {
        // The tangents are set after the uploads, because an upload makes its memory constant.
        rig.forget();
        rig.set(point)?;
        rig.stream.synchronize()?;
        self.take_lost()?;
        for input in &rig.inputs {
            let given = direction.get(input.range()).unwrap_or_default();
            if given.iter().all(|tangent| *tangent == 0.0) {
                continue;
            }
            match input.home {
                Home::Memory(_) => self.set_memory(rig, input, given)?,
                Home::Value(param) => {
                    let start = rig.offset_of(param)?;
                    for (number, tangent) in given.iter().enumerate() {
                        let (at, real) = input.at(number);
                        // SAFETY: the text ends with NUL.
                        let code = unsafe {
                            (self.set_argument)(name.as_ptr(), start + at, index(real), *tangent)
                        };
                        answer("cuEmuTangentsSetArgument", code)?;
                    }
                }
            }
        }
        rig.launch()?;
        rig.stream.synchronize()?;
        let mut all = Vec::with_capacity(rig.output_count());
        for output in &rig.outputs {
            let tangents = self.get_memory(rig, output)?;
            let estimate = |value: f64| match value.is_finite() {
                true => Estimate::of(value, ERROR * value.abs()),
                false => Estimate::UNKNOWN,
            };
            all.extend(tangents.into_iter().map(estimate));
        }
        Ok(match self.take_lost()? {
            Some(place) => Found::Lost(place),
            None => Found::Derivatives(all),
        })
    }

    fn set_memory<A: InspectArgs>(
        &self,
        rig: &Rig<'_, A>,
        input: &Field,
        given: &[f64],
    ) -> Result<()> {
        let start = rig.address_of(input)?;
        let set = |address: u64, real: FloatType, values: &[f64]| {
            // SAFETY: `values` has that many numbers.
            let code = unsafe { (self.set)(address, index(real), values.len(), values.as_ptr()) };
            answer("cuEmuTangentsSet", code)
        };
        if let Some(real) = input.dense() {
            return set(start, real, given);
        }
        given.iter().enumerate().try_for_each(|(number, tangent)| {
            let (at, real) = input.at(number);
            set(start + (at - input.start) as u64, real, &[*tangent])
        })
    }

    fn get_memory<A: InspectArgs>(&self, rig: &Rig<'_, A>, output: &Field) -> Result<Vec<f64>> {
        let start = rig.address_of(output)?;
        let mut all = vec![0.0; output.count];
        let get = |address: u64, real: FloatType, values: &mut [f64]| {
            // SAFETY: the vector has room for that many numbers.
            let code =
                unsafe { (self.get)(address, index(real), values.len(), values.as_mut_ptr()) };
            answer("cuEmuTangentsGet", code)
        };
        if let Some(real) = output.dense() {
            get(start, real, &mut all)?;
            return Ok(all);
        }
        for (number, value) in all.iter_mut().enumerate() {
            let (at, real) = output.at(number);
            get(start + (at - output.start) as u64, real, std::slice::from_mut(value))?;
        }
        Ok(all)
    }

    /// Takes the list of instructions at which tangents were lost, and returns the first.
    fn take_lost(&self) -> Result<Option<String>> {
        let (mut count, mut text) = (0, [0u8; 1024]);
        let room = text.len() as c_int;
        // SAFETY: both pointers are valid, the second for `room` bytes.
        let code = unsafe { (self.lost)(&raw mut count, text.as_mut_ptr().cast(), room) };
        answer("cuEmuTangentsLost", code)?;
        let first = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy);
        Ok((count > 0).then(|| first.map(std::borrow::Cow::into_owned).unwrap_or_default()))
    }
}

/// Returns the index of a number type in the functions' interface.
fn index(real: FloatType) -> c_uint {
    match real {
        FloatType::F16 => 0,
        FloatType::Bf16 => 1,
        FloatType::F32 => 2,
        FloatType::F64 => 3,
    }
}
