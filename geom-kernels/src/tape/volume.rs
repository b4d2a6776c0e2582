//! Samples of volumes, with gradients.

use cuda_safe::{
    DeviceSlice, DeviceSliceMut, Error, Kernel, KernelArg, Result, Stream, WriteView,
    arg::{ArgType, UseVisitor},
};
use tape::{Adjoint, CustomOp, Differentiable, Handle, Primal, Recorder, Saved};

use super::{share_memory, value};
use crate::lengths::same_length;
use crate::real::Real;
use crate::volume::nanovdb::ValueType;
use crate::volume::{
    IndexedValues, Interpolated, Interpolation, RawVolume, Samples, Volume, in_parts, no_gradient,
};

/// A value of a volume that gradients can be taken with respect to: all that are [`Interpolated`].
pub trait DifferentiableValue: Interpolated + Differentiable + Send {
    /// The numbers that it consists of.
    type Number: Differentiable + bytemuck::Pod;
    /// Its place among the types.
    #[doc(hidden)]
    const PLACE: usize;
}

macro_rules! values {
    ($($value:ty: $number:ty, $place:literal;)+) => {
        $(impl DifferentiableValue for $value {
            type Number = $number;
            const PLACE: usize = $place;
        })+
    };
}

values! {
    f32: f32, 0;
    f64: f64, 1;
    [f32; 3]: f32, 2;
    [f64; 3]: f64, 3;
    [f32; 4]: f32, 4;
    [f64; 4]: f64, 5;
}

impl Volume {
    /// The memory of the values of voxels, as numbers, to be watched. (It is that of the whole grid, so its
    /// gradient is as large as that.) [`gradients_of_voxels`](Self::gradients_of_voxels) finds those of voxels
    /// in it.
    ///
    /// Values that leaves store are variables, of active voxels and others; those of tiles and the background
    /// are constants.
    ///
    /// # Errors
    /// The volume's values are of another type; its last build has failed.
    pub fn variables<V: DifferentiableValue>(&self) -> Result<DeviceSlice<'_, V::Number>> {
        self.view::<V>()?;
        self.memory()?.as_slice().cast()
    }

    /// The gradient of each voxel's value, from the gradient by [`variables`](Self::variables):
    /// `tape.gradient(volume.variables::<f32>()?)?`. 0 of voxels that are no variables. The volume has the nodes
    /// that it had when it was sampled.
    ///
    /// # Errors
    /// `gradient` has not as many numbers as the volume's memory; otherwise as [`lookup`](Self::lookup).
    pub fn gradients_of_voxels<'a, 'b, 'c, V: DifferentiableValue>(
        &self,
        stream: &Stream,
        gradient: impl Into<DeviceSlice<'a, V::Number>>,
        voxels: impl Into<DeviceSlice<'b, [i32; 3]>>,
        out: impl WriteView<'c, V>,
    ) -> Result<()> {
        let (view, gradient, voxels) = (self.view::<V>()?, gradient.into(), voxels.into());
        let mut out: DeviceSliceMut<'_, V> = out.write_view();
        same_length("gradients", out.len(), voxels.len())?;
        let (there, wanted) = (gradient.len(), self.variables::<V>()?.len());
        if there != wanted {
            return Err(Error::invalid(format!("a gradient of {there} numbers for {wanted}"))
                .with_hint("it is that by `Volume::variables`, as a whole"));
        }
        let [.., kernel] = self.tape_kernels::<V>()?;
        in_parts(voxels.len(), |range, launch| {
            let n = range.len() as u32;
            let args = (view, voxels.slice(range.clone())?, n, gradient, out.slice_mut(range)?);
            // SAFETY: reads n voxels, and of the gradient what lies as the voxels' values do in a volume that is
            // as large; writes n answers.
            unsafe { kernel.launch(stream, launch, args) }
        })
    }

    /// [`sample`](Self::sample), recorded: gradients with respect to the positions and the values of voxels
    /// ([`variables`](Self::variables)).
    ///
    /// Between cells, where the trilinear value has a kink, the gradient of a position is that of the cell on the
    /// far side. The volume is not to change before the pass: if it is stored to or built again, that is an error.
    ///
    /// # Errors
    /// As [`sample`](Self::sample); the nearest value, whose position has no gradient.
    pub fn record_sample<'b, P, V: DifferentiableValue>(
        &self,
        t: &mut Recorder<'_>,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: impl WriteView<'b, V>,
    ) -> Result<()>
    where
        P: Real,
        [P; 3]: Differentiable,
    {
        let (variables, mut values) = (self.variables::<V>()?, values.write_view());
        same_length("values", values.len(), samples.len())?;
        let (points, in_world) = samples.points();
        let way = Way::of::<P>(interpolation)?;
        let kernels = self.tape_kernels::<V>()?;
        let [of_points, of_voxels] = [way.kernel(kernels, 0)?, way.kernel(kernels, 1)?];
        let mut custom = t.custom();
        let op = SampleOp {
            kernels: [of_points, of_voxels],
            raw: self.raw_at(0),
            variables: custom.reads(variables, Primal::Entry)?,
            points: custom.reads(points, Primal::Entry)?,
            out: custom.overwrites(&values)?,
            in_world,
            shared: share_memory(&points, &variables),
            adds: adds::<V>(samples.len(), way, share_memory(&points, &variables)),
        };
        custom.run(op, |stream| self.sample(stream, samples, interpolation, values.reborrow()))
    }

    /// [`sample_indexed`](Self::sample_indexed), recorded: gradients with respect to the positions and the array
    /// of values. That of the background has none.
    ///
    /// # Errors
    /// As [`sample_indexed`](Self::sample_indexed); the nearest value, whose position has no gradient.
    pub fn record_sample_indexed<'b, P, V: DifferentiableValue>(
        &self,
        t: &mut Recorder<'_>,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: &IndexedValues<'_, V>,
        out: impl WriteView<'b, V>,
    ) -> Result<()>
    where
        P: Real,
        [P; 3]: Differentiable,
    {
        let mut out = out.write_view();
        same_length("values", out.len(), samples.len())?;
        let (points, in_world) = samples.points();
        let (array, background) = values.parts();
        let way = Way::of::<P>(interpolation)?;
        let which = if self.value_type() == ValueType::Index { 2 } else { 3 };
        let kernel = way.kernel(self.tape_kernels::<V>()?, which)?;
        let grid = self.memory()?.as_slice().cast::<u32>()?;
        let mut custom = t.custom();
        let op = IndexedOp {
            kernel,
            raw: self.raw_at(0),
            background,
            grid: custom.keeps(grid)?,
            values: custom.reads(array, Primal::Entry)?,
            points: custom.reads(points, Primal::Entry)?,
            out: custom.overwrites(&out)?,
            in_world,
            shared: share_memory(&points, &array),
            adds: adds::<V>(samples.len(), way, share_memory(&points, &array)),
        };
        custom.run(op, |stream| {
            self.sample_indexed(stream, samples, interpolation, values, out.reborrow())
        })
    }

    fn tape_kernels<V: DifferentiableValue>(&self) -> Result<&[Kernel; 17]> {
        self.geometry().tape_kernels().volume(self.geometry(), V::PLACE, V::SUFFIX)
    }
}

/// How values are interpolated.
#[derive(Debug, Clone, Copy)]
struct Way {
    tricubic: bool,
    wide: bool,
}

impl Way {
    fn of<P: Real>(interpolation: Interpolation) -> Result<Self> {
        let tricubic = match interpolation {
            Interpolation::Nearest => return Err(no_gradient()),
            Interpolation::Trilinear => false,
            Interpolation::Tricubic => true,
        };
        Ok(Self { tricubic, wide: Samples::<P>::WIDE })
    }

    /// `of`: positions alone, voxels too, arrays of indices, those of active ones.
    fn kernel(self, kernels: &[Kernel; 17], of: usize) -> Result<Kernel> {
        let number = 8 * usize::from(self.tricubic) + 2 * of + usize::from(self.wide);
        kernels.get(number).cloned().ok_or_else(|| Error::invalid("a kernel is missing"))
    }
}

/// How often the adjoint of so many samples adds.
fn adds<V: DifferentiableValue>(samples: usize, way: Way, shared: bool) -> usize {
    let voxels = if way.tricubic { 64 } else { 8 };
    let numbers = size_of::<V>() / size_of::<V::Number>();
    samples.saturating_mul(voxels * numbers + if shared { 3 } else { 0 })
}

/// A volume as it was, in its memory or a copy.
#[derive(Debug)]
pub(super) struct Kept<'a, N> {
    pub(super) memory: Saved<'a, N>,
    /// As if it began at 0.
    pub(super) raw: RawVolume,
}

// SAFETY: as of `VolumeView`; all of the volume's memory is reported, or all of a copy.
unsafe impl<N: Copy + 'static> KernelArg for &Kept<'_, N> {
    type Abi = RawVolume;
    const TYPE: ArgType = ArgType::value::<RawVolume>();
    const IS_UNBORROWED: bool = true;

    fn abi(&self) -> RawVolume {
        let (from, raw) = (self.memory.device_ptr(), self.raw);
        RawVolume {
            grid: raw.grid + from,
            root: raw.root + from,
            directory: raw.directory + from,
            map: raw.map,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.memory.uses(visitor)
    }
}

fn samples<P: Real>(points: DeviceSlice<'_, [P; 3]>, in_world: bool) -> Samples<'_, P> {
    if in_world { Samples::world(points) } else { Samples::index(points) }
}

struct SampleOp<P, V: DifferentiableValue> {
    /// For gradients of positions alone, and of voxels too.
    kernels: [Kernel; 2],
    raw: RawVolume,
    variables: Handle<V::Number>,
    points: Handle<[P; 3]>,
    out: Handle<V>,
    in_world: bool,
    shared: bool,
    adds: usize,
}

impl<P, V: DifferentiableValue> CustomOp for SampleOp<P, V>
where
    P: Real,
    [P; 3]: Differentiable,
{
    fn name(&self) -> &str {
        "volume samples"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let volume = Kept { memory: pass.value(self.variables)?, raw: self.raw };
        let samples = samples(value(pass, self.points)?, self.in_world);
        let Some(g) = pass.gradient(self.out)?.as_slice()? else { return Ok(()) };
        let of = (pass.gradient(self.points)?, pass.gradient(self.variables)?);
        let [of_points, of_voxels] = &self.kernels;
        let kernel = if of.1.is_null() { of_points } else { of_voxels };
        let shared = u32::from(self.shared);
        samples.in_parts(|part, launch, range| {
            let args = (&volume, part, range.start as u64, g, of.0, of.1, shared, pass.frame());
            // SAFETY: thread i reads position and gradient i of the part, and adds to the gradients of that
            // position and of values that the volume's memory has.
            unsafe { kernel.launch(pass.stream(), launch, args) }
        })
    }

    fn log(&self) -> Option<usize> {
        Some(self.adds)
    }
}

struct IndexedOp<P, V: DifferentiableValue> {
    kernel: Kernel,
    raw: RawVolume,
    background: V,
    grid: Handle<u32>,
    values: Handle<V>,
    points: Handle<[P; 3]>,
    out: Handle<V>,
    in_world: bool,
    shared: bool,
    adds: usize,
}

impl<P, V: DifferentiableValue> CustomOp for IndexedOp<P, V>
where
    P: Real,
    [P; 3]: Differentiable,
{
    fn name(&self) -> &str {
        "volume samples of an array"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let volume = Kept { memory: pass.value(self.grid)?, raw: self.raw };
        let values = IndexedValues::new(value(pass, self.values)?, self.background);
        let samples = samples(value(pass, self.points)?, self.in_world);
        let Some(g) = pass.gradient(self.out)?.as_slice()? else { return Ok(()) };
        let of = (pass.gradient(self.points)?, pass.gradient(self.values)?);
        let shared = u32::from(self.shared);
        samples.in_parts(|part, launch, range| {
            let first = range.start as u64;
            let args = (&volume, part, values, first, g, of.0, of.1, shared, pass.frame());
            // SAFETY: thread i reads position and gradient i of the part, and adds to the gradients of that
            // position and of elements that the array has.
            unsafe { self.kernel.launch(pass.stream(), launch, args) }
        })
    }

    fn log(&self) -> Option<usize> {
        Some(self.adds)
    }
}
