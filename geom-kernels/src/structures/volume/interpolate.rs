//! Interpolation between voxels, step by step as in `geom/volume/interpolate.cuh`.

use super::map::{Map, To};
use super::numbers::{Cubic, Numbers, difference, lerp};
use super::read::{CORNERS, Found, Read};
use super::tree::{Tree, leaf_place};
use super::{IndexedValues, Sample};
use crate::Real;
use crate::structures::volume::exact::Float;
use crate::structures::volume::fma::Query;
use crate::volume::{Interpolated, RawMap, VolumeValue};

/// The tree of a volume of `T`.
#[derive(Debug)]
pub(super) struct View<'a, T> {
    pub(super) bytes: &'a [u8],
    pub(super) tree: &'a Tree,
    pub(super) values: std::marker::PhantomData<fn() -> T>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for View<'_, T> {}

impl<T: Read> View<'_, T> {
    #[inline(always)]
    pub(super) fn lookup(self, voxel: [i32; 3]) -> T {
        T::read(self.bytes, self.tree.find(self.bytes, voxel), leaf_place(voxel))
    }

    pub(super) fn background(self) -> T {
        T::read(self.bytes, Found { node: 0, value: self.tree.background }, 0)
    }

    /// Returns the values of a cell, x slowest.
    #[inline(always)]
    fn cell(self, voxel: [i32; 3]) -> [T; 8] {
        let place = leaf_place(voxel);
        if !voxel.iter().fold(false, |crosses, c| crosses | (c & 7 == 7)) {
            return T::cell(self.bytes, self.tree.find(self.bytes, voxel), place);
        }
        let Some(leaves) = self.tree.directory.corners(voxel) else {
            return self.cell_by_voxels(voxel);
        };
        // The corner after the last voxel of a leaf is the first of the next.
        let far = leaf_place(voxel.map(|c| c.wrapping_add(1)));
        let axes = [7 << 6, 7 << 3, 7].map(|axis: usize| [place & axis, far & axis]);
        let mut corners = [T::zeroed(); 8];
        for k in 0..8 {
            let place = axes[0][k >> 2 & 1] | axes[1][k >> 1 & 1] | axes[2][k & 1];
            corners[k] = T::read(self.bytes, leaves[k], place);
        }
        corners
    }

    #[inline(never)]
    fn cell_by_voxels(self, voxel: [i32; 3]) -> [T; 8] {
        CORNERS.map(|n| {
            let by = [n >> 6, n >> 3 & 1, n & 1];
            self.lookup(std::array::from_fn(|axis| voxel[axis].wrapping_add(by[axis] as i32)))
        })
    }
}

/// Where values to interpolate come from: a volume, or an index grid and an array.
pub(super) trait Source: Copy + Sync {
    /// What the volume stores.
    type Stored: VolumeValue;
    /// The values.
    type Value: Interpolated;

    fn view(&self) -> View<'_, Self::Stored>;
    fn fetch(&self, stored: Self::Stored) -> Self::Value;
    fn outside(&self) -> Self::Value;
}

impl<T: Interpolated> Source for View<'_, T> {
    type Stored = T;
    type Value = T;

    #[inline(always)]
    fn view(&self) -> View<'_, T> {
        *self
    }
    #[inline(always)]
    fn fetch(&self, stored: T) -> T {
        stored
    }
    fn outside(&self) -> T {
        self.background()
    }
}

/// A stored value that is an index.
pub(super) trait ToIndex: VolumeValue {
    fn index(self) -> u64;
}

/// An index grid, and the array.
pub(super) type Indexed<'a, T, V> = (View<'a, T>, IndexedValues<'a, V>);

impl<T: ToIndex, V: Interpolated> Source for Indexed<'_, T, V> {
    type Stored = T;
    type Value = V;

    #[inline(always)]
    fn view(&self) -> View<'_, T> {
        self.0
    }
    #[inline(always)]
    fn fetch(&self, stored: T) -> V {
        self.1.at(stored.index())
    }
    fn outside(&self) -> V {
        self.1.background
    }
}

/// Returns whether a position is looked up; voxels around it have valid coordinates.
#[inline(always)]
pub(super) fn in_reach<C: Float>(p: [C; 3]) -> bool {
    let (least, most) = (C::of(-f64::from(1 << 30)), C::of(f64::from(1 << 30)));
    p.iter().fold(true, |all, x| all & (*x >= least) & (*x <= most))
}

/// Returns the voxel nearest to a position within reach; of two, the one on the far side.
#[inline(always)]
pub(super) fn nearest_voxel<P: Float>(p: [P; 3]) -> [i32; 3] {
    p.map(|x| {
        let floor = x.floor();
        // A difference of at least a half is exact.
        x.floor_to_int() + i32::from(x - floor >= P::of(0.5))
    })
}

/// An interpolation.
pub(super) trait Interpolate: Copy + Sync {
    /// Returns the value of a position, and the derivatives if `GRADIENT`; zeros if not.
    fn both<C: Float, S: Source, const GRADIENT: bool>(source: &S, p: [C; 3]) -> Of<C, S>;
}

/// The numbers of a value and of its derivatives.
type Of<C, S> = (
    <<S as Source>::Value as Interpolated>::Numbers<C>,
    [<<S as Source>::Value as Interpolated>::Numbers<C>; 3],
);

/// The interpolation between eight voxels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trilinear;

impl Interpolate for Trilinear {
    #[inline(always)]
    fn both<C: Float, S: Source, const GRADIENT: bool>(source: &S, p: [C; 3]) -> Of<C, S> {
        let [tx, ty, tz] = p.map(|x| x - x.floor());
        let v = source.view().cell(p.map(C::floor_to_int));
        let v = v.map(|stored| source.fetch(stored).apart::<C>());
        let (c00, c01) = (lerp(v[0], v[1], tz), lerp(v[2], v[3], tz));
        let (c10, c11) = (lerp(v[4], v[5], tz), lerp(v[6], v[7], tz));
        let (c0, c1) = (lerp(c00, c01, ty), lerp(c10, c11, ty));
        let value = lerp(c0, c1, tx);
        if !GRADIENT {
            return (value, [Numbers::ZERO; 3]);
        }
        let z0 = lerp(difference(v[1], v[0]), difference(v[3], v[2]), ty);
        let z1 = lerp(difference(v[5], v[4]), difference(v[7], v[6]), ty);
        let y = lerp(difference(c01, c00), difference(c11, c10), tx);
        (value, [difference(c1, c0), y, lerp(z0, z1, tx)])
    }
}

/// The interpolation between 4^3 voxels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tricubic;

impl Interpolate for Tricubic {
    #[inline(always)]
    fn both<C: Float, S: Source, const GRADIENT: bool>(source: &S, p: [C; 3]) -> Of<C, S> {
        let [tx, ty, tz] = p.map(|x| x - x.floor());
        let low = p.map(|x| x.floor_to_int() - 1);
        let view = source.view();
        // The leaves by side. Along an axis on which the stencil has one leaf, both sides are it.
        let leaves: [Found; 8] = std::array::from_fn(|k| {
            let far = [k >> 2 & 1, k >> 1 & 1, k & 1].map(|far| 3 * far as i32);
            view.tree.find(view.bytes, [low[0] + far[0], low[1] + far[1], low[2] + far[2]])
        });
        let zero = <S::Value as Interpolated>::Numbers::<C>::ZERO;
        let (mut values, mut along_y, mut along_z) = ([zero; 4], [zero; 4], [zero; 4]);
        for i in 0..4 {
            let (mut rows, mut slopes) = ([zero; 4], [zero; 4]);
            for j in 0..4 {
                let mut row = [zero; 4];
                for (k, number) in row.iter_mut().enumerate() {
                    let voxel = [i, j, k].map(|by| by as i32);
                    let voxel = [low[0] + voxel[0], low[1] + voxel[1], low[2] + voxel[2]];
                    let mut side = 0;
                    for axis in 0..3 {
                        side = side << 1 | usize::from(voxel[axis] >> 3 != low[axis] >> 3);
                    }
                    let stored = S::Stored::read(view.bytes, leaves[side & 7], leaf_place(voxel));
                    *number = source.fetch(stored).apart::<C>();
                }
                let row = Cubic::new(row);
                rows[j] = row.at(tz);
                if GRADIENT {
                    slopes[j] = row.slope(tz);
                }
            }
            let layer = Cubic::new(rows);
            values[i] = layer.at(ty);
            if GRADIENT {
                along_y[i] = layer.slope(ty);
                along_z[i] = Cubic::new(slopes).at(ty);
            }
        }
        let all = Cubic::new(values);
        if !GRADIENT {
            return (all.at(tx), [zero; 3]);
        }
        (all.at(tx), [all.slope(tx), Cubic::new(along_y).at(tx), Cubic::new(along_z).at(tx)])
    }
}

/// Returns the sample of a position in index space.
#[inline(always)]
fn sample_in<H: Interpolate, C: Float, S: Source, const GRADIENT: bool>(
    source: &S,
    p: [C; 3],
) -> Sample<S::Value> {
    if !in_reach(p) {
        let gradient = S::Value::gradient([Numbers::<C>::ZERO; 3]);
        return Sample { value: source.outside(), gradient };
    }
    let (value, slopes) = H::both::<C, S, GRADIENT>(source, p);
    Sample { value: S::Value::together(value), gradient: S::Value::gradient(slopes) }
}

/// Returns the sample of a position in index space or, with a map, in the world.
#[inline(always)]
pub(super) fn sample_at<H: Interpolate, S: Source, P: Real, const GRADIENT: bool>(
    source: &S,
    p: [P; 3],
    map: Option<&RawMap>,
) -> Sample<S::Value> {
    let is_wide = |bytes: usize| bytes == size_of::<f64>();
    let mut sample =
        if is_wide(size_of::<P>()) || is_wide(size_of::<<S::Value as Interpolated>::Component>()) {
            let p = p.map(Real::wide);
            let p = map.map_or(p, |map| Map(To::Index, map).number(p));
            sample_in::<H, f64, S, GRADIENT>(source, p)
        } else {
            let p = p.map(|x| x.wide() as f32);
            let p = map.map_or(p, |map| Map(To::Index, map).number(p));
            sample_in::<H, f32, S, GRADIENT>(source, p)
        };
    if GRADIENT && let Some(map) = map {
        let to_world = Map(To::WorldGradient, map);
        sample.gradient = S::Value::map_gradient(sample.gradient, |slope| to_world.get(&slope));
    }
    sample
}
