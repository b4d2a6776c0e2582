//! Samples of volumes, with gradients.

use cuda_safe::{
    DeviceSlice, DeviceSliceMut, Error, KernelArg, Result, Stream, WriteView,
    arg::{ArgType, UseVisitor},
    kernels,
};
use tape::{Differentiable, Frame, Gradient, Primal, Recorder, Saved};

use super::{Recorded, share_memory, value};
use crate::geometry::{Source, of_source};
use crate::lengths::{in_parts, same_length};
use crate::real::Real;
use crate::volume::nanovdb::ValueType;
use crate::volume::{
    BLOCK, Index, IndexedValues, Interpolated, Interpolation, OnIndex, RawVolume, SamplePart,
    Samples, Volume, VolumeValue, VolumeView, no_gradient,
};

/// A value of a volume that can have gradients: every [`Interpolated`] type.
pub trait DifferentiableValue: Interpolated + Differentiable + Send {
    /// The type of the numbers in a value.
    type Number: Differentiable + bytemuck::Pod;
    /// The source of its kernels.
    #[doc(hidden)]
    const SOURCE: ValueSource;
}

/// The source of the kernels for a type of values.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct ValueSource(Source);

macro_rules! values {
    ($($value:ty: $number:ty, $source:ident;)+) => {
        $(impl DifferentiableValue for $value {
            type Number = $number;
            const SOURCE: ValueSource = ValueSource(Source::$source);
        })+
    };
}

values! {
    f32: f32, TAPE_VOLUME_F32;
    f64: f64, TAPE_VOLUME_F64;
    [f32; 3]: f32, TAPE_VOLUME_VEC3F;
    [f64; 3]: f64, TAPE_VOLUME_VEC3D;
    [f32; 4]: f32, TAPE_VOLUME_VEC4F;
    [f64; 4]: f64, TAPE_VOLUME_VEC4D;
}

/// How values are interpolated.
trait Weights: 'static {
    /// The number of voxels.
    const VOXELS: usize;
}

struct Trilinear;
struct Tricubic;

impl Weights for Trilinear {
    const VOXELS: usize = 8;
}

impl Weights for Tricubic {
    const VOXELS: usize = 64;
}

/// The inputs with gradients: positions alone, or voxels too.
struct Points;
struct Voxels;

kernels! {
    struct SampleAdjoints<V: DifferentiableValue in [
        f32 = "f32", f64 = "f64",
        [f32; 3] = "vec3f", [f64; 3] = "vec3d", [f32; 4] = "vec4f", [f64; 4] = "vec4d",
    ]>;
    // SAFETY: thread i reads position i of the part, and gradient i from `first` on, and adds to the gradients of
    // that position and of values that the volume's memory, or the array, has; if there is such a position.
    // `voxel_gradients` reads n voxels and writes n results.
    unsafe in V::SOURCE.0 {
        /// Adds the gradients of positions, and those of voxels if they are wanted.
        ///
        /// # Safety
        /// There are gradients of all samples before the part and in it, and of the volume's memory as a whole.
        #[name = "tape_{How}_{Of}_{V}_{P}"]
        unsafe fn sampled<
            How: Weights in [Trilinear = "trilinear", Tricubic = "tricubic"],
            Of: 'static in [Points = "points", Voxels = "voxels"],
            P: Real in [f32 = "f32", f64 = "f64"],
        >(
            volume: &Kept<'_, V::Number>,
            samples: SamplePart<'_>,
            first: u64,
            g: &[<V as Differentiable>::Gradient],
            of_points: Gradient<'_, [P; 3]>,
            of_grid: Gradient<'_, V::Number>,
            shared: u32,
            frame: impl KernelArg<Abi = Frame>,
        );
        /// Adds the gradients of positions and of an array.
        ///
        /// # Safety
        /// There are gradients of all samples before the part and in it, and of the array as a whole; the volume's
        /// values are `I`.
        #[name = "tape_{How}_{I}_{V}_{P}"]
        unsafe fn indexed<
            How: Weights in [Trilinear = "trilinear", Tricubic = "tricubic"],
            I: VolumeValue in [Index = "index", OnIndex = "on_index"],
            P: Real in [f32 = "f32", f64 = "f64"],
        >(
            volume: &Kept<'_, u32>,
            samples: SamplePart<'_>,
            values: IndexedValues<'_, V>,
            first: u64,
            g: &[<V as Differentiable>::Gradient],
            of_points: Gradient<'_, [P; 3]>,
            of_values: Gradient<'_, V>,
            shared: u32,
            frame: impl KernelArg<Abi = Frame>,
        );
        /// # Safety
        /// `of_grid` has as many numbers as the volume's memory.
        #[name = "tape_voxel_gradients_{V}"]
        unsafe fn voxel_gradients(
            volume: VolumeView<'_, V>,
            voxels: &[[i32; 3]],
            n: u32,
            of_grid: &[V::Number],
            out: &mut [V],
        ) where n <= voxels.len(), n <= out.len();
    }
}
of_source!(<V: DifferentiableValue> SampleAdjoints<V>, V::SOURCE.0);

impl Volume {
    /// Returns the memory of the values of voxels, as numbers, to be watched. It is the memory of the whole grid, so
    /// its gradient has the grid's size; [`gradients_of_voxels`](Self::gradients_of_voxels) gathers the gradients of
    /// voxels from it.
    ///
    /// Values in leaves are variables, whether their voxels are active or not; those of tiles and the background are
    /// constants.
    ///
    /// # Errors
    /// The volume's values are of another type; its last build has failed.
    pub fn variables<V: DifferentiableValue>(&self) -> Result<DeviceSlice<'_, V::Number>> {
        self.view::<V>()?;
        self.memory()?.as_slice().cast()
    }

    /// Gathers the gradient of each voxel's value from the gradient with respect to [`variables`](Self::variables):
    /// `tape.gradient(volume.variables::<f32>()?)?`. It is 0 for voxels that are not variables. The volume must have
    /// the same nodes as at the sample.
    ///
    /// # Errors
    /// `gradient` has another length than the volume's memory has numbers; otherwise as [`lookup`](Self::lookup).
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
        let kernels = self.geometry().kernels::<SampleAdjoints<V>>()?;
        in_parts(voxels.len(), BLOCK, |range, n, launch| {
            let (voxels, out) = (voxels.slice(range.clone())?, out.slice_mut(range.clone())?);
            // SAFETY: the gradient is as long as the volume's memory, as was just compared.
            unsafe { kernels.voxel_gradients(stream, launch, view, voxels, n, gradient, out) }
        })
    }

    /// Records [`sample`](Self::sample), with gradients with respect to the positions and the values of voxels
    /// ([`variables`](Self::variables)).
    ///
    /// Between cells, where the trilinear value has a kink, the gradient of a position is the gradient in the cell on
    /// the far side. The volume must not change before the pass: a store to it or a new build is an error.
    ///
    /// # Errors
    /// As [`sample`](Self::sample); interpolation by the nearest voxel, which has no gradient with respect to
    /// positions.
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
        let values = values.write_view();
        same_length("values", values.len(), samples.len())?;
        match interpolation {
            Interpolation::Nearest => Err(no_gradient()),
            Interpolation::Trilinear => {
                self.record_by::<Trilinear, P, V>(t, samples, interpolation, values)
            }
            Interpolation::Tricubic => {
                self.record_by::<Tricubic, P, V>(t, samples, interpolation, values)
            }
        }
    }

    fn record_by<How: Weights, P: Real, V: DifferentiableValue>(
        &self,
        t: &mut Recorder<'_>,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        mut values: DeviceSliceMut<'_, V>,
    ) -> Result<()>
    where
        [P; 3]: Differentiable,
    {
        let (variables, (points, in_world)) = (self.variables::<V>()?, samples.recorded()?);
        let kernels = self.geometry().kernels::<SampleAdjoints<V>>()?;
        let (raw, shared) = (self.raw_at(0), share_memory(&points, &variables));
        let mut custom = t.custom();
        let known = custom.reads(variables, Primal::Entry)?;
        let at = custom.reads(points, Primal::Entry)?;
        let out = custom.overwrites(&values, Primal::None)?;
        let (count, adds) = (samples.len(), adds::<How, V>(samples.len(), shared));
        let op = Recorded { name: "volume samples", out, count, adds }.adjoint(move |pass, g| {
            let volume = Kept { memory: pass.value(known)?, raw };
            let Some(g) = g.as_slice()? else { return Ok(()) };
            let (of_points, of_grid) = (pass.gradient(at)?, pass.gradient(known)?);
            let (stream, shared) = (pass.stream(), u32::from(shared));
            again(value(pass, at)?, in_world).in_parts(|part, launch, range| {
                let (first, frame) = (range.start as u64, pass.frame());
                // SAFETY: gradients of all samples and of the volume's memory.
                unsafe {
                    match of_grid.is_null() {
                        true => kernels.sampled::<How, Points, P>(
                            stream, launch, &volume, part, first, g, of_points, of_grid, shared,
                            frame,
                        ),
                        false => kernels.sampled::<How, Voxels, P>(
                            stream, launch, &volume, part, first, g, of_points, of_grid, shared,
                            frame,
                        ),
                    }
                }
            })
        });
        custom.run(op, |stream| self.sample(stream, samples, interpolation, values.reborrow()))
    }

    /// Records [`sample_indexed`](Self::sample_indexed), with gradients with respect to the positions and the array of
    /// values. The background has no gradient.
    ///
    /// # Errors
    /// As [`sample_indexed`](Self::sample_indexed); interpolation by the nearest voxel, which has no gradient with
    /// respect to positions.
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
        let out = out.write_view();
        same_length("values", out.len(), samples.len())?;
        let to = Indexed { samples, interpolation, values: *values, out };
        match (interpolation, self.value_type()) {
            (Interpolation::Nearest, _) => Err(no_gradient()),
            (Interpolation::Trilinear, ValueType::Index) => {
                self.record_indexed_by::<Trilinear, Index, P, V>(t, to)
            }
            (Interpolation::Trilinear, _) => {
                self.record_indexed_by::<Trilinear, OnIndex, P, V>(t, to)
            }
            (Interpolation::Tricubic, ValueType::Index) => {
                self.record_indexed_by::<Tricubic, Index, P, V>(t, to)
            }
            (Interpolation::Tricubic, _) => {
                self.record_indexed_by::<Tricubic, OnIndex, P, V>(t, to)
            }
        }
    }

    fn record_indexed_by<How: Weights, I: VolumeValue, P: Real, V: DifferentiableValue>(
        &self,
        t: &mut Recorder<'_>,
        Indexed { samples, interpolation, values, mut out }: Indexed<'_, P, V>,
    ) -> Result<()>
    where
        [P; 3]: Differentiable,
    {
        let ((points, in_world), (array, background)) = (samples.recorded()?, values.parts());
        let kernels = self.geometry().kernels::<SampleAdjoints<V>>()?;
        let (raw, shared) = (self.raw_at(0), share_memory(&points, &array));
        let mut custom = t.custom();
        let grid =
            custom.reads_inactive(self.memory()?.as_slice().cast::<u32>()?, Primal::Entry)?;
        let known = custom.reads(array, Primal::Entry)?;
        let at = custom.reads(points, Primal::Entry)?;
        let op = Recorded {
            name: "volume samples of an array",
            out: custom.overwrites(&out, Primal::None)?,
            count: samples.len(),
            adds: adds::<How, V>(samples.len(), shared),
        };
        let op = op.adjoint(move |pass, g| {
            let volume = Kept { memory: pass.value(grid)?, raw };
            let values = IndexedValues::new(value(pass, known)?, background);
            let Some(g) = g.as_slice()? else { return Ok(()) };
            let (of_points, of_values) = (pass.gradient(at)?, pass.gradient(known)?);
            again(value(pass, at)?, in_world).in_parts(|part, launch, range| {
                let (stream, first) = (pass.stream(), range.start as u64);
                let (shared, frame) = (u32::from(shared), pass.frame());
                // SAFETY: gradients of all samples and of the array; the forward has taken the volume for one of `I`.
                unsafe {
                    kernels.indexed::<How, I, P>(
                        stream, launch, &volume, part, values, first, g, of_points, of_values,
                        shared, frame,
                    )
                }
            })
        });
        custom.run(op, |stream| {
            self.sample_indexed(stream, samples, interpolation, &values, out.reborrow())
        })
    }
}

/// The samples of an array, and the memory for them.
struct Indexed<'a, P: Real, V: Interpolated> {
    samples: &'a Samples<'a, P>,
    interpolation: Interpolation,
    values: IndexedValues<'a, V>,
    out: DeviceSliceMut<'a, V>,
}

/// Returns the most additions of the adjoint of `samples` samples.
fn adds<How: Weights, V: DifferentiableValue>(samples: usize, shared: bool) -> usize {
    let numbers = size_of::<V>() / size_of::<V::Number>();
    samples.saturating_mul(How::VOXELS * numbers + if shared { 3 } else { 0 })
}

/// Returns the samples at recorded positions.
fn again<P: Real>(points: DeviceSlice<'_, [P; 3]>, in_world: bool) -> Samples<'_, P> {
    if in_world { Samples::world(points) } else { Samples::index(points) }
}

/// A recorded volume, in its memory or a copy.
#[derive(Debug)]
pub(super) struct Kept<'a, N> {
    pub(super) memory: Saved<'a, N>,
    /// The argument, with addresses relative to the volume's start.
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
