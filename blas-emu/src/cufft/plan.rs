//! Plans: lengths and places of transforms, their roots of unity on the device, and how they are run.

use core::ffi::c_int;
use core::{mem, ptr};
use std::collections::HashMap;
use std::f64::consts::TAU;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_sys::cufft::{cufftHandle, cufftType};
use cuda_sys::{CUcontext, CUstream};

use crate::call::{Error, Kind, Result};
use crate::cuda::Cuda;
use crate::kernels::{Compute, Module, Queue, blocks};

/// Where elements lie: the dimensions of the memory, and the distances of neighbours and of batches.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) embed: Vec<i64>,
    pub(super) stride: i64,
    pub(super) distance: i64,
}

/// What a plan transforms.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// The lengths of three dimensions, of which the first ones may be 1.
    dims: [i64; 3],
    rank: usize,
    layouts: Option<(Layout, Layout)>,
    ty: cufftType,
    batch: i64,
}

/// The form of elements, as the kernels number it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Complex = 0,
    Real = 1,
    Half = 2,
}

/// The arguments of the kernels that gather and scatter.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Places {
    at: u64,
    dims: [i64; 3],
    distances: [i64; 3],
    batch: i64,
    total: i64,
    form: c_int,
    pad: c_int,
    work: u64,
}

/// The arguments of the kernel of a factor.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Stage {
    from: u64,
    to: u64,
    roots: u64,
    total: i64,
    length: i64,
    inner: i64,
    done: i64,
    factor: i64,
    inverse: c_int,
    pad: c_int,
}

const _: () = assert!(size_of::<Places>() == 88 && size_of::<Stage>() == 72);

impl Shape {
    pub(super) fn new(
        lengths: &[i64],
        layouts: Option<(Layout, Layout)>,
        ty: cufftType,
        batch: i64,
    ) -> Result<Self> {
        let known = [
            cufftType::CUFFT_C2C,
            cufftType::CUFFT_R2C,
            cufftType::CUFFT_C2R,
            cufftType::CUFFT_Z2Z,
            cufftType::CUFFT_D2Z,
            cufftType::CUFFT_Z2D,
        ];
        if !known.contains(&ty) {
            return Err(Error::new(
                Kind::Type,
                format!("type {}: it is none of the header's", ty.0),
            ));
        }
        let size = |text: String| Error::new(Kind::Size, text);
        if let Some(length) = lengths.iter().find(|length| **length < 1) {
            return Err(size(format!("a length of {length}: it must be at least 1")));
        }
        if batch < 1 {
            return Err(size(format!("batch {batch}: it must be at least 1")));
        }
        for layout in layouts.iter().flat_map(|(input, output)| [input, output]) {
            if layout.stride < 1
                || layout.distance < 0
                || layout.embed.iter().skip(1).any(|one| *one < 1)
            {
                return Err(Error::value(format!("a layout with {layout:?}")));
            }
        }
        let mut dims = [1; 3];
        dims[3 - lengths.len()..].copy_from_slice(lengths);
        let shape = Self { dims, rank: lengths.len(), layouts, ty, batch };
        shape.work_size()?;
        Ok(shape)
    }

    fn is_double(&self) -> bool {
        matches!(self.ty, cufftType::CUFFT_Z2Z | cufftType::CUFFT_D2Z | cufftType::CUFFT_Z2D)
    }

    /// Returns the bytes of a complex number.
    fn width(&self) -> i64 {
        if self.is_double() { 16 } else { 8 }
    }

    /// Returns the number of elements of all transforms.
    fn total(&self) -> Option<i64> {
        self.dims.iter().try_fold(self.batch, |all, length| all.checked_mul(*length))
    }

    /// Returns the bytes of two dense arrays of complex numbers.
    pub(super) fn work_size(&self) -> Result<usize> {
        let bytes = self.total().and_then(|total| total.checked_mul(2 * self.width()));
        let bytes =
            bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes < 1 << 48);
        bytes.ok_or_else(|| {
            Error::new(Kind::Size, format!("{} transforms of {:?}", self.batch, self.dims))
        })
    }

    /// Returns the forms of input and output.
    fn forms(&self) -> [Form; 2] {
        match self.ty {
            cufftType::CUFFT_R2C | cufftType::CUFFT_D2Z => [Form::Real, Form::Half],
            cufftType::CUFFT_C2R | cufftType::CUFFT_Z2D => [Form::Half, Form::Real],
            _ => [Form::Complex; 2],
        }
    }

    /// Returns where the elements of input or output lie.
    fn places(&self, output: bool, at: u64, in_place: bool, work: u64) -> Result<Places> {
        let form = self.forms()[usize::from(output)];
        let half = self.dims[2] / 2 + 1;
        let rank = self.rank;
        let dense = || {
            let mut embed = self.dims[3 - rank..].to_vec();
            embed[rank - 1] = match form {
                Form::Half => half,
                // In place, the rows of both have the same length in bytes.
                Form::Real if in_place => 2 * half,
                _ => self.dims[2],
            };
            Layout { distance: embed.iter().product(), stride: 1, embed }
        };
        let given =
            self.layouts.as_ref().map(|(input, to)| if output { to } else { input }.clone());
        let layout = given.unwrap_or_else(dense);
        let mut distances = [0; 3];
        let mut distance = layout.stride;
        for dim in (0..rank).rev() {
            distances[3 - rank + dim] = distance;
            let next = distance.checked_mul(layout.embed[dim].max(1));
            distance = next.ok_or_else(|| Error::value(format!("a layout with {layout:?}")))?;
        }
        let (total, batch) = (self.total().unwrap_or(0), layout.distance);
        Ok(Places {
            at,
            dims: self.dims,
            distances,
            batch,
            total,
            form: form as c_int,
            pad: 0,
            work,
        })
    }
}

/// Returns the factors of a length: fours, and then primes.
fn factors(mut length: i64) -> Vec<i64> {
    let mut all = Vec::new();
    while length % 4 == 0 {
        all.push(4);
        length /= 4;
    }
    let mut prime = 2;
    while prime * prime <= length {
        while length % prime == 0 {
            all.push(prime);
            length /= prime;
        }
        prime += 1;
    }
    if length > 1 {
        all.push(length);
    }
    all
}

/// Returns the n-th roots of unity of a forward transform, as bytes of `f32` or `f64`.
fn roots(length: i64, double: bool) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let size = if double { 16 } else { 8 };
    let all = usize::try_from(length).unwrap_or(usize::MAX).saturating_mul(size);
    bytes.try_reserve_exact(all).map_err(|_| {
        Error::new(Kind::Memory, format!("there are no {all} bytes for the roots of a length"))
    })?;
    for number in 0..length {
        // The quarters of the circle are exact.
        let (sin, cos) = (TAU * number as f64 / length as f64).sin_cos();
        let (sin, cos) = match (4 * number) % length {
            0 => (sin.round(), cos.round()),
            _ => (sin, cos),
        };
        if double {
            bytes.extend(cos.to_le_bytes());
            bytes.extend((-sin).to_le_bytes());
        } else {
            bytes.extend((cos as f32).to_le_bytes());
            bytes.extend((-sin as f32).to_le_bytes());
        }
    }
    Ok(bytes)
}

/// A plan.
#[derive(Debug)]
pub(super) struct Plan {
    cuda: Cuda,
    context: CUcontext,
    stream: CUstream,
    auto: bool,
    shape: Option<Shape>,
    /// The roots of each dimension on the device; 0 for none.
    roots: [u64; 3],
    /// The work area, and whether it is the plan's.
    work: u64,
    owned: bool,
}

// SAFETY: the handles of the driver are only names, which any thread may use.
unsafe impl Send for Plan {}

/// A plan that threads share.
#[derive(Debug)]
pub(super) struct Shared(Mutex<Plan>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static PLANS: Mutex<Option<HashMap<cufftHandle, Arc<Shared>>>> = Mutex::new(None);

fn plans() -> MutexGuard<'static, Option<HashMap<cufftHandle, Arc<Shared>>>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(plan: cufftHandle) -> Error {
    Error::new(Kind::Handle, format!("plan {plan} does not exist"))
}

pub(super) fn find(plan: cufftHandle) -> Result<Arc<Shared>> {
    plans().as_ref().and_then(|all| all.get(&plan).cloned()).ok_or_else(|| unknown(plan))
}

pub(super) fn insert(number: cufftHandle, plan: Plan) {
    plans().get_or_insert_default().insert(number, Arc::new(Shared(Mutex::new(plan))));
}

pub(super) fn remove(plan: cufftHandle) -> Result<Arc<Shared>> {
    plans().as_mut().and_then(|all| all.remove(&plan)).ok_or_else(|| unknown(plan))
}

impl Plan {
    pub(super) fn new() -> Result<Self> {
        let cuda = Cuda::get()?;
        let context = cuda.context()?;
        let (stream, roots) = (ptr::null_mut(), [0; 3]);
        Ok(Self { cuda, context, stream, auto: true, shape: None, roots, work: 0, owned: false })
    }

    pub(super) fn make(&mut self, shape: Shape) -> Result {
        if self.shape.is_some() {
            return Err(Error::new(Kind::Handle, "the plan was made already"));
        }
        let made = self.allocate(&shape);
        if made.is_err() {
            let _ = self.free();
        }
        made?;
        self.shape = Some(shape);
        Ok(())
    }

    fn allocate(&mut self, shape: &Shape) -> Result {
        let cuda = self.cuda;
        let _relaxed = cuda.relaxed()?;
        let _current = cuda.push(self.context)?;
        // First: if the device lacks the memory, no roots are computed.
        if self.auto && self.work == 0 {
            self.work = cuda.alloc(shape.work_size()?)?;
            self.owned = true;
        }
        for (length, place) in shape.dims.iter().zip(&mut self.roots) {
            if *length > 1 {
                let roots = roots(*length, shape.is_double())?;
                *place = cuda.alloc(roots.len())?;
                cuda.upload(*place, &roots)?;
            }
        }
        Ok(())
    }

    pub(super) fn free(&mut self) -> Result {
        let cuda = self.cuda;
        let _relaxed = cuda.relaxed()?;
        let _current = cuda.push(self.context)?;
        let work = mem::take(&mut self.work);
        let owned = mem::take(&mut self.owned);
        let all = mem::take(&mut self.roots).into_iter().chain(owned.then_some(work));
        self.shape = None;
        let results: Vec<Result> = all.filter(|at| *at != 0).map(|at| cuda.free(at)).collect();
        results.into_iter().collect()
    }

    fn shape(&self) -> Result<&Shape> {
        self.shape
            .as_ref()
            .ok_or_else(|| Error::new(Kind::Handle, "the plan is empty: make it first"))
    }

    pub(super) fn work_size(&self) -> Result<usize> {
        self.shape()?.work_size()
    }

    pub(super) fn set_work(&mut self, at: u64) -> Result {
        let before = mem::replace(&mut self.work, at);
        if mem::take(&mut self.owned) {
            let _relaxed = self.cuda.relaxed()?;
            let _current = self.cuda.push(self.context)?;
            self.cuda.free(before)?;
        }
        Ok(())
    }

    pub(super) fn set_auto(&mut self, auto: bool) -> Result {
        if self.shape.is_some() {
            return Err(Error::new(Kind::Handle, "the plan was made already: set this before"));
        }
        self.auto = auto;
        Ok(())
    }

    pub(super) fn set_stream(&mut self, stream: CUstream) {
        self.stream = stream;
    }

    /// Enqueues a transform.
    pub(super) fn execute(&self, ty: cufftType, from: u64, to: u64, inverse: bool) -> Result {
        let shape = self.shape()?;
        if shape.ty != ty {
            return Err(Error::new(
                Kind::Type,
                format!("the plan is of type {}, and the call of {}", shape.ty.0, ty.0),
            ));
        }
        if self.work == 0 {
            return Err(Error::value("the plan has no work area: pass one to cufftSetWorkArea"));
        }
        let _current = self.cuda.push(self.context)?;
        let queue = Queue { cuda: self.cuda, stream: self.stream };
        let module = Module::Fft(if shape.is_double() { Compute::C64 } else { Compute::C32 });
        let total = shape.total().unwrap_or(0);
        let half = (total * shape.width()).cast_unsigned();
        let (mut work, mut other) = (self.work, self.work.wrapping_add(half));
        let grid = [blocks(total, 256), 256];
        queue.launch(module, c"fft_gather", grid, &shape.places(false, from, from == to, work)?)?;
        let mut inner = 1;
        for dim in (0..3).rev() {
            let length = shape.dims[dim];
            let mut done = 1;
            for factor in factors(length) {
                let (roots, inverse) = (self.roots[dim], c_int::from(inverse));
                let stage = Stage {
                    from: work,
                    to: other,
                    roots,
                    total,
                    length,
                    inner,
                    done,
                    factor,
                    inverse,
                    pad: 0,
                };
                queue.launch(module, c"fft_stage", grid, &stage)?;
                mem::swap(&mut work, &mut other);
                done *= factor;
            }
            inner *= length;
        }
        queue.launch(module, c"fft_scatter", grid, &shape.places(true, to, from == to, work)?)
    }
}

#[cfg(test)]
mod tests {
    use super::factors;

    #[test]
    fn factors_are_fours_and_primes() {
        for (length, expected) in
            [(1, vec![]), (8, vec![4, 2]), (257, vec![257]), (60, vec![4, 3, 5]), (49, vec![7, 7])]
        {
            assert_eq!(factors(length), expected);
        }
    }
}
