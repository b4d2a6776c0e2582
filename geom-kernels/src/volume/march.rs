//! Rays through volumes: the first crossing of a value, and integrals.

use bytemuck::{Pod, Zeroable};
use cuda_safe::{
    DeviceRepr, DeviceSlice, DeviceSliceMut, Error, Result, Stream, WriteView, kernels,
};
use nanovdb::ValueType;

use super::samples::BLOCK;
use super::{Volume, VolumeValue, VolumeView};
use crate::Ray;
use crate::geometry::{Source, of_source};
use crate::lengths::{in_parts, same_length};

kernels! {
    #[name = "volume_{}_{T}"]
    struct March;
    // SAFETY: thread i reads ray i and writes hit or integral i, if i < n. Of a volume it reads what its view gives.
    unsafe in Source::VOLUME_MARCH {
        safe fn first_crossings<T: VolumeValue in [f32 = "f32", f64 = "f64"]>(
            volume: VolumeView<'_, T>, rays: &[Ray], n: u32, iso: f64, hits: &mut [VolumeHit],
        ) where n <= rays.len(), n <= hits.len();
        safe fn integrals<T: VolumeValue in [f32 = "f32", f64 = "f64"]>(
            volume: VolumeView<'_, T>, rays: &[Ray], n: u32, integrals: &mut [f32],
        ) where n <= rays.len(), n <= integrals.len();
    }
}
of_source!(March, Source::VOLUME_MARCH);

/// The first crossing of a ray with a value of a volume. `geom::VolumeHit` of `geom/volume/march.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct VolumeHit {
    /// The ray parameter; infinite if there is no crossing, and then all other fields are 0.
    pub t: f32,
    /// 1 if the ray comes from the side where the field is not less than the value, else 0.
    pub enters: u32,
    /// The least corner of the crossing's cell. The position in index space is `cell + place`.
    pub cell: [i32; 3],
    /// The position in the cell, from 0 to 1 in each axis.
    pub place: [f32; 3],
    /// The direction of the field's gradient in the world, of length 1, which points to greater values. 0 if the
    /// gradient is 0.
    pub normal: [f32; 3],
}

// SAFETY: repr(C); LAYOUTS in src/layout/generated.rs has it as geom::VolumeHit.
unsafe impl DeviceRepr for VolumeHit {}

impl Volume {
    /// Finds the first crossing of each ray (in world space) with `iso`: the first t at which the field changes
    /// between less than `iso` and not less. For level sets, `iso` = 0 is the surface.
    ///
    /// The field is the trilinear interpolation of the voxels, including inactive ones, and of the background where
    /// nothing is stored. Along a ray it is a cubic in each cell; crossings are roots of these cubics, in f64. No
    /// cell is left out: tiles and empty space are skipped only as far as they are constant (K. Museth, "Hierarchical
    /// Digital Differential Analyzer for Efficient Ray-Marching in OpenVDB", SIGGRAPH 2014 Talks). A pair of
    /// crossings may be missed if the field between them differs from `iso` by no more than rounding. A ray that
    /// begins where the field is less than `iso` finds the point where it leaves that region. Nothing is found in
    /// cells with a corner that is not finite and corners on both sides of `iso`, nor beyond ±2^30 voxels. Results
    /// have the same bits on every device.
    ///
    /// # Errors
    /// Values that are neither `f32` nor `f64`; `hits` has another length than there are rays; otherwise if
    /// the driver returns an error.
    pub fn first_crossings<'a>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        iso: f64,
        hits: impl WriteView<'a, VolumeHit>,
    ) -> Result<()> {
        let (rays, hits) = (rays.into(), hits.write_view());
        same_length("hits", hits.len(), rays.len())?;
        match self.value_type() {
            ValueType::F32 => self.cross::<f32>(stream, rays, iso, hits),
            ValueType::F64 => self.cross::<f64>(stream, rays, iso, hits),
            other => Err(not_a_number(other)),
        }
    }

    /// Integrates the field along each ray (in world space), over t from `t_min` to `t_max`. Multiply by the length
    /// of the direction for the integral over length.
    ///
    /// The field is the same as for [`first_crossings`](Self::first_crossings); the integral of the cubic in each
    /// cell is exact up to rounding, in f64. The field counts as 0 beyond ±2^30 voxels, so integrals over unbounded
    /// rays are finite. For an invalid [`Ray`] the integral is 0.
    ///
    /// # Errors
    /// Values that are neither `f32` nor `f64`; `integrals` has another length than there are rays; otherwise
    /// if the driver returns an error.
    pub fn integrals<'a>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        integrals: impl WriteView<'a, f32>,
    ) -> Result<()> {
        let (rays, integrals) = (rays.into(), integrals.write_view());
        same_length("integrals", integrals.len(), rays.len())?;
        match self.value_type() {
            ValueType::F32 => self.add_up::<f32>(stream, rays, integrals),
            ValueType::F64 => self.add_up::<f64>(stream, rays, integrals),
            other => Err(not_a_number(other)),
        }
    }

    fn cross<T: VolumeValue>(
        &self,
        stream: &Stream,
        rays: DeviceSlice<'_, Ray>,
        iso: f64,
        mut hits: DeviceSliceMut<'_, VolumeHit>,
    ) -> Result<()> {
        let (kernels, view) = (self.geometry().kernels::<March>()?, self.view::<T>()?);
        in_parts(rays.len(), BLOCK, |range, n, launch| {
            let (rays, hits) = (rays.slice(range.clone())?, hits.slice_mut(range)?);
            kernels.first_crossings(stream, launch, view, rays, n, iso, hits)
        })
    }

    fn add_up<T: VolumeValue>(
        &self,
        stream: &Stream,
        rays: DeviceSlice<'_, Ray>,
        mut integrals: DeviceSliceMut<'_, f32>,
    ) -> Result<()> {
        let (kernels, view) = (self.geometry().kernels::<March>()?, self.view::<T>()?);
        in_parts(rays.len(), BLOCK, |range, n, launch| {
            let (rays, integrals) = (rays.slice(range.clone())?, integrals.slice_mut(range)?);
            kernels.integrals(stream, launch, view, rays, n, integrals)
        })
    }
}

fn not_a_number(there: ValueType) -> Error {
    let there = there.name();
    Error::invalid(format!("rays go through volumes of f32 or f64, and this one is of {there}"))
}
