//! Samples: values at positions.

use cuda_safe::{Error, Result};

use super::Volume;
use super::interpolate::{
    Interpolate, Source, ToIndex, Tricubic, Trilinear, View, in_reach, nearest_voxel, sample_at,
};
use super::map::{Map, To};
use crate::Real;
use crate::lengths::same_length;
use crate::structures::volume::fma::{Query, each, one};
use crate::volume::{
    Index, Interpolated, Interpolation, OnIndex, RawMap, VolumeValue, no_gradient,
};

/// A value and its gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "rust-kernels", derive(cuda_safe::kernel::Device))]
#[repr(C)]
pub struct Sample<V: Interpolated> {
    /// The value.
    pub value: V,
    /// The derivatives along x, y and z; for an array, those of each of its numbers.
    pub gradient: V::Gradient,
}

/// Positions in index space or in the world.
///
/// A position that is not finite, or has a coordinate beyond 2^30 in index space, has the background and a gradient
/// of zeros.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a, P> {
    points: &'a [[P; 3]],
    in_world: bool,
}

impl<'a, P: Real> Samples<'a, P> {
    /// Creates samples at positions in index space, where voxel (i, j, k) has its value at the point (i, j, k).
    #[must_use]
    pub const fn index(points: &'a [[P; 3]]) -> Self {
        Self { points, in_world: false }
    }

    /// Creates samples at positions in the world, which the volume's map transforms to index space. Gradients are with
    /// respect to the world's coordinates.
    #[must_use]
    pub const fn world(points: &'a [[P; 3]]) -> Self {
        Self { points, in_world: true }
    }
}

/// The values of the voxels of an index grid: index i has the value `values[i - 1]`, and index 0 the background.
#[derive(Debug, Clone, Copy)]
pub struct IndexedValues<'a, V> {
    values: &'a [V],
    pub(super) background: V,
}

impl<'a, V: Interpolated> IndexedValues<'a, V> {
    /// Creates the values from an array, and the background.
    #[must_use]
    pub const fn new(values: &'a [V], background: V) -> Self {
        Self { values, background }
    }

    #[inline(always)]
    pub(super) fn at(&self, index: u64) -> V {
        let place = usize::try_from(index.wrapping_sub(1)).unwrap_or(usize::MAX);
        self.values.get(place).copied().unwrap_or(self.background)
    }
}

impl ToIndex for Index {
    #[inline(always)]
    fn index(self) -> u64 {
        self.0
    }
}
impl ToIndex for OnIndex {
    #[inline(always)]
    fn index(self) -> u64 {
        self.0
    }
}

/// A query for the value of the nearest voxel.
struct Nearest<'a, T>(View<'a, T>, Option<&'a RawMap>);

impl<T: VolumeValue> Nearest<'_, T> {
    /// Returns the value at a position within reach.
    #[inline(always)]
    fn at<P: Real>(&self, p: &[P; 3]) -> Option<T> {
        // Positions are mapped in the precision of the position.
        let p = p.map(P::to_cpu);
        let p = self.1.map_or(p, |map| Map(To::Index, map).number(p));
        in_reach(p).then(|| self.0.lookup(nearest_voxel(p)))
    }
}

impl<T: VolumeValue, P: Real> Query<[P; 3]> for Nearest<'_, T> {
    type Output = T;

    #[inline(always)]
    fn get(&self, p: &[P; 3]) -> T {
        self.at(p).unwrap_or_else(|| self.0.background())
    }
}

/// The same with values in an array.
struct NearestIndexed<'a, T, V>(Nearest<'a, T>, IndexedValues<'a, V>);

impl<T: ToIndex, V: Interpolated, P: Real> Query<[P; 3]> for NearestIndexed<'_, T, V> {
    type Output = V;

    #[inline(always)]
    fn get(&self, p: &[P; 3]) -> V {
        self.1.at(self.0.at(p).map_or(0, ToIndex::index))
    }
}

/// A query for an interpolated value.
struct Value<'a, H, S>(H, S, Option<&'a RawMap>);

impl<H: Interpolate, S: Source, P: Real> Query<[P; 3]> for Value<'_, H, S> {
    type Output = S::Value;

    #[inline(always)]
    fn get(&self, p: &[P; 3]) -> S::Value {
        sample_at::<H, S, P, false>(&self.1, *p, self.2).value
    }
}

/// A query for an interpolated value and its gradient.
struct Both<'a, H, S>(H, S, Option<&'a RawMap>);

impl<H: Interpolate, S: Source, P: Real> Query<[P; 3]> for Both<'_, H, S> {
    type Output = (S::Value, <S::Value as Interpolated>::Gradient);

    #[inline(always)]
    fn get(&self, p: &[P; 3]) -> Self::Output {
        let Sample { value, gradient } = sample_at::<H, S, P, true>(&self.1, *p, self.2);
        (value, gradient)
    }
}

/// Samples many positions, with gradients if there is room for them.
fn sample_each<P: Real, S: Source>(
    source: S,
    map: &RawMap,
    samples: &Samples<'_, P>,
    interpolation: Interpolation,
    values: &mut [S::Value],
    gradients: Option<&mut [<S::Value as Interpolated>::Gradient]>,
) {
    let (map, points) = (samples.in_world.then_some(map), samples.points);
    match (interpolation, gradients) {
        (Interpolation::Tricubic, None) => each(&Value(Tricubic, source, map), points, values),
        (Interpolation::Tricubic, Some(gradients)) => {
            each(&Both(Tricubic, source, map), points, (values, gradients));
        }
        (_, None) => each(&Value(Trilinear, source, map), points, values),
        (_, Some(gradients)) => each(&Both(Trilinear, source, map), points, (values, gradients)),
    }
}

#[cfg_attr(feature = "rust-kernels", cuda_safe::kernel::device(structure))]
impl<T: VolumeValue> Volume<T> {
    /// Returns the value of the voxel nearest to a position in index space; of two, the one on the far side.
    #[must_use]
    pub fn sample_nearest<P: Real>(&self, p: [P; 3]) -> T {
        one(&Nearest(self.view(), None), &p)
    }

    /// Finds the value of the voxel nearest to each position.
    ///
    /// # Errors
    /// `values` has another length than there are positions.
    pub fn sample_nearest_all<P: Real>(
        &self,
        samples: &Samples<'_, P>,
        values: &mut [T],
    ) -> Result<()> {
        same_length("values", values.len(), samples.points.len())?;
        let map = samples.in_world.then_some(&self.map);
        each(&Nearest(self.view(), map), samples.points, values);
        Ok(())
    }
}

/// The methods of one query.
macro_rules! singles {
    ($($(#[$doc:meta])* $how:ident: $value:ident, $both:ident, $of_index:ident, $both_of_index:ident;)+) => {
        #[cfg_attr(feature = "rust-kernels", cuda_safe::kernel::device(structure))]
        impl<V: Interpolated> Volume<V> {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $value<P: Real>(&self, p: [P; 3]) -> V {
                    one(&Value($how, self.view(), None), &p)
                }

                $(#[$doc])*
                /// With the gradient.
                #[must_use]
                pub fn $both<P: Real>(&self, p: [P; 3]) -> Sample<V> {
                    let (value, gradient) = one(&Both($how, self.view(), None), &p);
                    Sample { value, gradient }
                }
            )+
        }
        #[expect(private_bounds, reason = "only index grids have indices")]
        impl<T: ToIndex> Volume<T> {
            $(
                $(#[$doc])*
                /// The values are in an array.
                #[must_use]
                pub fn $of_index<P: Real, V: Interpolated>(
                    &self,
                    p: [P; 3],
                    values: &IndexedValues<'_, V>,
                ) -> V {
                    one(&Value($how, (self.view(), *values), None), &p)
                }

                $(#[$doc])*
                /// The values are in an array. With the gradient.
                #[must_use]
                pub fn $both_of_index<P: Real, V: Interpolated>(
                    &self,
                    p: [P; 3],
                    values: &IndexedValues<'_, V>,
                ) -> Sample<V> {
                    let (value, gradient) = one(&Both($how, (self.view(), *values), None), &p);
                    Sample { value, gradient }
                }
            )+
        }
    };
}

singles! {
    /// Interpolates between the eight voxels around a position in index space.
    Trilinear: sample_trilinear, sample_trilinear_with_gradient, sample_trilinear_index,
        sample_trilinear_with_gradient_index;
    /// Interpolates between the 4^3 voxels around a position in index space, by Catmull-Rom splines.
    Tricubic: sample_tricubic, sample_tricubic_with_gradient, sample_tricubic_index,
        sample_tricubic_with_gradient_index;
}

macro_rules! of_indices {
    ($($index:ident)+) => {$(
        #[cfg_attr(feature = "rust-kernels", cuda_safe::kernel::device(structure))]
        impl Volume<$index> {
            /// Returns the value of the voxel nearest to a position in index space: `values[i - 1]` for index i, and
            /// the background for index 0 and indices that `values` does not have.
            #[must_use]
            pub fn sample_nearest_of<P: Real, V: Interpolated + Real>(
                &self,
                p: [P; 3],
                values: &[V],
                background: V,
            ) -> V {
                self.sample_nearest_index(p, &IndexedValues::new(values, background))
            }

            /// Interpolates between the eight voxels around a position in index space, with values as those of
            /// [`sample_nearest_of`](Self::sample_nearest_of).
            #[must_use]
            pub fn sample_trilinear_of<P: Real, V: Interpolated + Real>(
                &self,
                p: [P; 3],
                values: &[V],
                background: V,
            ) -> V {
                self.sample_trilinear_index(p, &IndexedValues::new(values, background))
            }

            /// Interpolates between the 4^3 voxels around a position in index space, by Catmull-Rom splines, with
            /// values as those of [`sample_nearest_of`](Self::sample_nearest_of).
            #[must_use]
            pub fn sample_tricubic_of<P: Real, V: Interpolated + Real>(
                &self,
                p: [P; 3],
                values: &[V],
                background: V,
            ) -> V {
                self.sample_tricubic_index(p, &IndexedValues::new(values, background))
            }
        }
    )+};
}
of_indices!(Index OnIndex);

impl<V: Interpolated> Volume<V> {
    /// Samples the value at each position.
    ///
    /// # Errors
    /// `values` has another length than there are positions.
    pub fn sample<P: Real>(
        &self,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: &mut [V],
    ) -> Result<()> {
        if interpolation == Interpolation::Nearest {
            return self.sample_nearest_all(samples, values);
        }
        same_length("values", values.len(), samples.points.len())?;
        sample_each(self.view(), &self.map, samples, interpolation, values, None);
        Ok(())
    }

    /// Samples the value at each position, and the gradient in the space of the positions.
    ///
    /// # Errors
    /// `values` or `gradients` has another length than there are positions; interpolation by the nearest voxel, which
    /// has no gradient.
    pub fn sample_with_gradient<P: Real>(
        &self,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: &mut [V],
        gradients: &mut [V::Gradient],
    ) -> Result<()> {
        check_both(samples, interpolation, values.len(), gradients.len())?;
        sample_each(self.view(), &self.map, samples, interpolation, values, Some(gradients));
        Ok(())
    }
}

fn check_both<P>(
    samples: &Samples<'_, P>,
    interpolation: Interpolation,
    values: usize,
    gradients: usize,
) -> Result<()> {
    same_length("values", values, samples.points.len())?;
    same_length("gradients", gradients, samples.points.len())?;
    if interpolation == Interpolation::Nearest { Err(no_gradient()) } else { Ok(()) }
}

#[expect(private_bounds, reason = "only index grids have indices")]
impl<T: ToIndex> Volume<T> {
    /// Returns the value of the voxel nearest to a position in index space. The values are in an array.
    #[must_use]
    pub fn sample_nearest_index<P: Real, V: Interpolated>(
        &self,
        p: [P; 3],
        values: &IndexedValues<'_, V>,
    ) -> V {
        one(&NearestIndexed(Nearest(self.view(), None), *values), &p)
    }

    /// Samples values that are in an array, as [`Volume::sample`] does. The array has an element for each index from 1
    /// on.
    ///
    /// # Errors
    /// The length of the array differs from the grid's number of indices, which is
    /// [`value_count`](nanovdb::Grid::value_count) less one; `out` has another length than there are positions.
    pub fn sample_indexed<P: Real, V: Interpolated>(
        &self,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: &IndexedValues<'_, V>,
        out: &mut [V],
    ) -> Result<()> {
        self.check_count(values)?;
        same_length("values", out.len(), samples.points.len())?;
        if interpolation == Interpolation::Nearest {
            let map = samples.in_world.then_some(&self.map);
            let query = NearestIndexed(Nearest(self.view(), map), *values);
            each(&query, samples.points, out);
        } else {
            let source = (self.view(), *values);
            sample_each(source, &self.map, samples, interpolation, out, None);
        }
        Ok(())
    }

    /// Samples values that are in an array, as [`Volume::sample_with_gradient`] does.
    ///
    /// # Errors
    /// As [`sample_indexed`](Self::sample_indexed), also for `gradients`; interpolation by the nearest voxel, which
    /// has no gradient.
    pub fn sample_indexed_with_gradient<P: Real, V: Interpolated>(
        &self,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: &IndexedValues<'_, V>,
        out: &mut [V],
        gradients: &mut [V::Gradient],
    ) -> Result<()> {
        self.check_count(values)?;
        check_both(samples, interpolation, out.len(), gradients.len())?;
        let source = (self.view(), *values);
        sample_each(source, &self.map, samples, interpolation, out, Some(gradients));
        Ok(())
    }

    fn check_count<V>(&self, values: &IndexedValues<'_, V>) -> Result<()> {
        let (count, wanted) = (values.values.len(), self.grid.value_count().saturating_sub(1));
        if count as u64 == wanted {
            return Ok(());
        }
        let what = format!("{count} values for a volume of {wanted} indices, from 1 on");
        Err(Error::invalid(what))
    }
}
