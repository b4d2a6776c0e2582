//! Rays through volumes: the first crossing of a value, and integrals, as in `geom/volume/march.cuh`.

mod cubic;
mod walk;

use cuda_safe::Result;

use super::Volume;
use super::interpolate::View;
use super::map::{Map, To};
use crate::lengths::same_length;
use crate::structures::volume::exact::{Float, fma, max, min};
use crate::structures::volume::fma::{Query, each, one};
use crate::volume::{RawMap, VolumeHit, VolumeValue};
use crate::{Ray, Real};

use cubic::{RayCubic, lerp};
use walk::{Axis, CellCorners, IndexRay, Visit, walk};

/// Finds the first crossing. The side of the ray carries over from cell to cell: where rounding gives two cells
/// different sides at the plane between them, the crossing is there.
struct Crossing<'a> {
    ray: &'a IndexRay,
    iso: f64,
    /// Whether the ray is where the field is less; unknown before the first cell, and after one with a corner that is
    /// not finite.
    inside: Option<bool>,
    /// The last cell in which the field was on both sides.
    mixed: [i32; 3],
    found: Option<f64>,
}

impl Crossing<'_> {
    fn begins(&mut self, inside: bool, t0: f64) -> bool {
        if self.inside.is_some_and(|before| before != inside) {
            self.found = Some(t0);
        }
        self.inside = Some(inside);
        self.found.is_some()
    }
}

impl<T: Real> Visit<T> for Crossing<'_> {
    #[inline(always)]
    fn constant(&mut self, value: T, t0: f64, _: f64) -> bool {
        self.begins(value.wide() < self.iso, t0)
    }

    #[inline(always)]
    fn cell(&mut self, cell: [i32; 3], corners: &[T; 8], t0: f64, t1: f64) -> bool {
        let inside = corners.map(|value| value.wide() < self.iso);
        if inside == [inside[0]; 8] {
            return self.begins(inside[0], t0);
        }
        self.mixed = cell;
        let at = corners.map(|value| value.wide() - self.iso);
        if !at.iter().all(|value| value.is_finite()) {
            self.inside = None;
            return false;
        }
        let cubic = RayCubic::new(at, self.ray.in_cell(cell, t0), self.ray.in_cell(cell, t1));
        let begins = cubic.0[0] < 0.0;
        let place = match self.inside {
            Some(before) if before != begins => Some(0.0),
            _ => {
                self.inside = Some(begins);
                cubic.first_change()
            }
        };
        let Some(s) = place else { return false };
        self.found = Some(min(max(fma(s, t1 - t0, t0), t0), t1));
        self.inside = self.inside.map(|inside| !inside);
        true
    }
}

/// Sums the integral, in the precision `C`.
struct Integral<'a, C> {
    ray: &'a IndexRay,
    sum: C,
}

impl<C: Float> Integral<'_, C> {
    #[inline(always)]
    fn of<T: Real>(value: T) -> C {
        if size_of::<T>() == size_of::<f32>() {
            C::from_f32(f32_of(value))
        } else {
            C::of(value.wide())
        }
    }
}

/// Returns an f32 as it is.
fn f32_of<T: Real>(value: T) -> f32 {
    bytemuck::try_cast(value).unwrap_or(0.0)
}

impl<T: Real, C: Float> Visit<T> for Integral<'_, C> {
    #[inline(always)]
    fn constant(&mut self, value: T, t0: f64, t1: f64) -> bool {
        self.sum = fma(Self::of(value), C::of(t1 - t0), self.sum);
        false
    }

    #[inline(always)]
    fn cell(&mut self, cell: [i32; 3], corners: &[T; 8], t0: f64, t1: f64) -> bool {
        let place = |t| self.ray.in_cell(cell, t).map(C::of);
        let cubic = RayCubic::new(corners.map(Self::of), place(t0), place(t1));
        self.sum = fma(cubic.mean(), C::of(t1 - t0), self.sum);
        false
    }
}

/// Returns the gradient of a cell's field at a place in it, of length 1 in the world; 0 if it is 0.
#[inline(always)]
fn cell_normal(map: &RawMap, c: [f64; 8], [x, y, z]: [f64; 3]) -> [f32; 3] {
    let slope: [f64; 4] = std::array::from_fn(|i| c[2 * i + 1] - c[2 * i]);
    let value: [f64; 4] = std::array::from_fn(|i| lerp(c[2 * i], c[2 * i + 1], z));
    let g = [
        lerp(value[2], value[3], y) - lerp(value[0], value[1], y),
        lerp(value[1] - value[0], value[3] - value[2], x),
        lerp(lerp(slope[0], slope[1], y), lerp(slope[2], slope[3], y), x),
    ];
    let world = Map(To::WorldGradient, map).number(g);
    // The vector is divided by its greatest component first, so that squares are in range.
    let most = max(max(world[0].abs(), world[1].abs()), world[2].abs());
    if most <= 0.0 || !most.is_finite() {
        return [0.0; 3];
    }
    let [x, y, z] = world.map(|x| x / most);
    let size = fma(z, z, fma(y, y, x * x)).sqrt();
    [x, y, z].map(|x| (x / size) as f32)
}

struct First<'a, T>(View<'a, T>, &'a RawMap, f64);

impl<T: Real + VolumeValue> Query<Ray> for First<'_, T> {
    type Output = Option<VolumeHit>;

    #[inline(always)]
    fn get(&self, ray: &Ray) -> Option<VolumeHit> {
        let Self(view, map, iso) = *self;
        let ray = &IndexRay::new(map, ray)?;
        let mut crossing = Crossing { ray, iso, inside: None, mixed: [0; 3], found: None };
        walk(view, ray, &mut crossing);
        let (t, mixed) = (crossing.found?, crossing.mixed);
        let mut cell = CellCorners::new(view, mixed);
        cell.fetch();
        // The position selects the cell with the crossing among those with the same corners.
        let (p, bits) = (ray.at(t), cell.like_bits());
        let in_cell = std::array::from_fn(|axis| Axis::new(mixed[axis], bits).at(p[axis]));
        let place = ray.in_cell(in_cell, t);
        Some(VolumeHit {
            // The sum with 0 turns -0 into 0.
            t: t as f32 + 0.0,
            enters: u32::from(crossing.inside == Some(true)),
            cell: in_cell,
            place: place.map(|x| x as f32),
            normal: cell_normal(map, cell.corners.map(Real::wide), place),
        })
    }
}

/// The hit of a ray that crosses nothing.
const NO_HIT: VolumeHit =
    VolumeHit { t: f32::INFINITY, enters: 0, cell: [0; 3], place: [0.0; 3], normal: [0.0; 3] };

struct FirstOrNone<'a, T>(First<'a, T>);

impl<T: Real + VolumeValue> Query<Ray> for FirstOrNone<'_, T> {
    type Output = VolumeHit;

    #[inline(always)]
    fn get(&self, ray: &Ray) -> VolumeHit {
        self.0.get(ray).unwrap_or(NO_HIT)
    }
}

struct Integrate<'a, T>(View<'a, T>, &'a RawMap);

impl<T: Real + VolumeValue> Query<Ray> for Integrate<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn get(&self, ray: &Ray) -> f64 {
        let Some(ray) = IndexRay::new(self.1, ray) else { return 0.0 };
        let mut integral = Integral { ray: &ray, sum: 0.0 };
        walk(self.0, &ray, &mut integral);
        integral.sum
    }
}

struct IntegrateNarrow<'a, T>(Integrate<'a, T>);

impl<T: Real + VolumeValue> Query<Ray> for IntegrateNarrow<'_, T> {
    type Output = f32;

    #[inline(always)]
    fn get(&self, ray: &Ray) -> f32 {
        self.0.get(ray) as f32
    }
}

impl<T: Real + VolumeValue> Volume<T> {
    /// Finds the first crossing of a ray of the world with `iso`; `None` if there is none. See
    /// [`first_crossings`](crate::volume::Volume::first_crossings).
    #[must_use]
    pub fn first_crossing(&self, ray: &Ray, iso: f64) -> Option<VolumeHit> {
        one(&First(self.view(), &self.map, iso), ray)
    }

    /// Integrates the field along a ray of the world, over t from `t_min` to `t_max`. See
    /// [`integrals`](crate::volume::Volume::integrals).
    #[must_use]
    pub fn integrate(&self, ray: &Ray) -> f64 {
        one(&Integrate(self.view(), &self.map), ray)
    }

    /// Finds the first crossing of each ray of the world with `iso`.
    ///
    /// # Errors
    /// `hits` has another length than there are rays.
    pub fn first_crossings(&self, rays: &[Ray], iso: f64, hits: &mut [VolumeHit]) -> Result<()> {
        same_length("hits", hits.len(), rays.len())?;
        each(&FirstOrNone(First(self.view(), &self.map, iso)), rays, hits);
        Ok(())
    }

    /// Integrates the field along each ray of the world.
    ///
    /// # Errors
    /// `integrals` has another length than there are rays.
    pub fn integrals(&self, rays: &[Ray], integrals: &mut [f32]) -> Result<()> {
        same_length("integrals", integrals.len(), rays.len())?;
        each(&IntegrateNarrow(Integrate(self.view(), &self.map)), rays, integrals);
        Ok(())
    }
}
