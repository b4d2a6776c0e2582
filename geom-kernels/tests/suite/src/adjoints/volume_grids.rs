//! Grids for the adjoints of samples, with what each voxel's value is: a variable or a constant.

use std::collections::HashMap;

use bytemuck::Pod;
use geom_kernels::Real;
use geom_kernels::volume::nanovdb::{self, Build, Builder, Grid, Map, Value};

use super::differences::largest;
use test_harness::{Failure, Rng};

type Coord = [i32; 3];

/// Boxes of leaves that are filled: around the origin, where nodes of all levels meet, across a border of lower
/// nodes, and across one of upper nodes. Nothing in a leaf is left out.
const BOXES: [[Coord; 2]; 3] =
    [[[-8, -8, -8], [8, 8, 8]], [[120, 0, 0], [136, 8, 8]], [[4088, 8, 248], [4104, 16, 256]]];

/// Tiles beside them, and active ones first: level and a voxel.
const TILES: [(u32, Coord); 5] =
    [(1, [8, 0, 0]), (1, [136, 0, 0]), (2, [256, 0, 0]), (1, [-16, 3, -5]), (2, [4100, 100, 300])];

fn voxels() -> impl Iterator<Item = Coord> {
    BOXES.into_iter().flat_map(|[from, to]| {
        let [x, y, z] = std::array::from_fn(|i| from[i]..to[i]);
        x.flat_map(move |x| {
            let z = z.clone();
            y.clone().flat_map(move |y| z.clone().map(move |z| [x, y, z]))
        })
    })
}

/// Number `k` of numbers that differ, in -1..1, and that f32 has.
fn distinct(k: usize) -> f64 {
    (k as u64 * 2_654_435_769 % (1 << 22)) as f64 / f64::from(1 << 21) - 1.0
}

/// What a voxel has.
#[derive(Clone)]
pub(super) struct Voxel {
    /// Its numbers.
    pub(super) value: Vec<f64>,
    /// Where they lie, if they are a variable: in bytes from the grid or array.
    pub(super) place: Option<usize>,
}

/// A grid, perhaps of indices, and the values that it or its array has.
pub(super) struct Field {
    pub(super) grid: Grid,
    /// Of a grid of indices.
    pub(super) array: Vec<f64>,
    pub(super) background: Vec<f64>,
    parts: usize,
    bytes: usize,
    /// Of a grid of its own values, by the bits of the first number.
    places: HashMap<u64, usize>,
}

pub(super) fn map() -> Result<Map, Failure> {
    let matrix = [[0.5, 0.125, -0.0625], [-0.25, 0.75, 0.1], [0.3, -0.2, 0.4]];
    Ok(Map::affine(matrix, [10.0, -3.7, 0.33])?)
}

fn build<B: Build>(mut value: impl FnMut(usize) -> B::Value) -> Result<Grid, Failure> {
    let mut builder = Builder::<B>::new(value(0));
    builder.map(map()?);
    for (k, (level, at)) in TILES.into_iter().enumerate() {
        builder.fill_tile(level, at, value(k + 1), k < 3);
    }
    for (k, at) in voxels().enumerate() {
        let value = value(k + 6);
        if k % 5 == 0 {
            builder.set_inactive(at, value);
        } else {
            builder.set(at, value);
        }
    }
    Ok(builder.build()?)
}

/// The numbers of a value.
fn numbers(k: usize, parts: usize) -> Vec<f64> {
    (0..parts).map(|i| distinct(parts * k + i)).collect()
}

impl Field {
    /// Of values of `parts` numbers of S, which make a `B::Value`.
    pub(super) fn stored<B: Build<Value: Pod>, S: Real>(parts: usize) -> Result<Self, Failure> {
        let grid = build::<B>(|k| {
            let value: Vec<S> = numbers(k, parts).into_iter().map(S::narrow).collect();
            bytemuck::pod_read_unaligned(bytemuck::cast_slice(&value))
        })?;
        let bits = |x: f64| S::narrow(x).wide().to_bits();
        let wanted: HashMap<u64, usize> =
            voxels().enumerate().map(|(k, _)| (bits(distinct(parts * (k + 6))), 0)).collect();
        // Tables of tiles have other numbers, and distances of nodes are no such numbers.
        let mut places = wanted;
        let bytes = grid.bytes();
        for place in (0..bytes.len() + 1 - size_of::<S>()).step_by(4) {
            let value: S = bytemuck::pod_read_unaligned(&bytes[place..place + size_of::<S>()]);
            if let Some(found) = places.get_mut(&value.wide().to_bits()) {
                // The last: minima and the like come before.
                *found = place;
            }
        }
        let (array, background) = (Vec::new(), numbers(0, parts));
        Ok(Self { grid, array, background, parts, bytes: size_of::<S>(), places })
    }

    pub(super) fn indexed<B: Build<Value = ()>>(
        parts: usize,
        bytes: usize,
    ) -> Result<Self, Failure> {
        let grid = build::<B>(|_| ())?;
        let count = grid.value_count() as usize - 1;
        let array = (0..count).flat_map(|k| numbers(k + 1, parts)).collect();
        let places = HashMap::new();
        Ok(Self { grid, array, background: numbers(0, parts), parts, bytes, places })
    }

    pub(super) fn voxel(&self, at: Coord) -> Voxel {
        let value = match self.grid.value(at) {
            Value::Index(0) => return Voxel { value: self.background.clone(), place: None },
            Value::Index(index) => {
                let first = (index as usize - 1) * self.parts;
                let value = self.array[first..first + self.parts].to_vec();
                return Voxel { value, place: Some(first * self.bytes) };
            }
            Value::F32(x) => vec![f64::from(x)],
            Value::F64(x) => vec![x],
            Value::Vec3F(v) => v.map(f64::from).to_vec(),
            Value::Vec3D(v) => v.to_vec(),
            _ => Vec::new(),
        };
        let place = value.first().and_then(|x| self.places.get(&x.to_bits())).copied();
        Voxel { value, place }
    }

    /// A position in a box or around it; with a variable among the voxels whose distance is at most one.
    pub(super) fn position(&self, rng: &mut Rng) -> [f64; 3] {
        loop {
            let [from, to] = BOXES[rng.below(BOXES.len())];
            let p: [f64; 3] = std::array::from_fn(|i| {
                let (from, to) = (f64::from(from[i]), f64::from(to[i]));
                let middle = (from + to) / 2.0;
                let x = middle + f64::from(rng.float()) * ((to - from) / 2.0 + 1.5);
                f64::from(x as f32)
            });
            let low = p.map(|x| x.floor() as i32);
            let near =
                (0..8).map(|k: i32| [low[0] + (k >> 2), low[1] + (k >> 1 & 1), low[2] + (k & 1)]);
            if near.into_iter().any(|at| self.voxel(at).place.is_some()) {
                return p;
            }
        }
    }
}

/// The weights of neighbours, and their derivatives: of two, or of the four of Catmull-Rom splines, as Hermite's
/// polynomials have them.
fn weights(t: f64, cubic: bool) -> Vec<[f64; 2]> {
    if !cubic {
        return vec![[1.0 - t, -1.0], [t, 1.0]];
    }
    let (t2, t3) = (t * t, t * t * t);
    // Of the values at both ends, and of the slopes there, each half of a difference.
    let (v1, d1) = (2.0 * t3 - 3.0 * t2 + 1.0, 6.0 * t2 - 6.0 * t);
    let (s1, ds1) = (t3 - 2.0 * t2 + t, 3.0 * t2 - 4.0 * t + 1.0);
    let (s2, ds2) = (t3 - t2, 3.0 * t2 - 2.0 * t);
    vec![
        [-s1 / 2.0, -ds1 / 2.0],
        [v1 - s2 / 2.0, d1 - ds2 / 2.0],
        [1.0 - v1 + s1 / 2.0, -d1 + ds1 / 2.0],
        [s2 / 2.0, ds2 / 2.0],
    ]
}

/// A loss of one sample: its value and gradient times given numbers.
pub(super) struct Loss<'a> {
    pub(super) cubic: bool,
    /// Of the value, then three for each number of it.
    pub(super) g: &'a [f64],
    pub(super) cell: Coord,
    /// In the order of the stencil, z the fastest.
    pub(super) voxels: Vec<Voxel>,
}

impl<'a> Loss<'a> {
    pub(super) fn new(field: &Field, cubic: bool, p: [f64; 3], g: &'a [f64]) -> Self {
        let cell = p.map(|x| x.floor() as i32);
        let (first, n) = if cubic { (-1, 4) } else { (0, 2) };
        let voxels = (0..n * n * n)
            .map(|k| {
                let at = [k / (n * n), k / n % n, k % n];
                field.voxel(std::array::from_fn(|i| cell[i] + first + at[i]))
            })
            .collect();
        Self { cubic, g, cell, voxels }
    }

    /// None in another cell.
    pub(super) fn at(&self, p: &[f64]) -> Option<f64> {
        let cell: Coord = std::array::from_fn(|i| p[i].floor() as i32);
        (cell == self.cell).then(|| self.weighted(p).iter().zip(&self.voxels).map(of_voxel).sum())
    }

    /// What each voxel's numbers are multiplied with.
    fn weighted(&self, p: &[f64]) -> Vec<Vec<f64>> {
        let parts = self.g.len() / 4;
        let w: [Vec<[f64; 2]>; 3] =
            std::array::from_fn(|i| weights(p[i] - f64::from(self.cell[i]), self.cubic));
        let n = w[0].len();
        (0..n * n * n)
            .map(|k| {
                let [x, y, z] = [w[0][k / (n * n)], w[1][k / n % n], w[2][k % n]];
                (0..parts)
                    .map(|i| {
                        let slopes = &self.g[parts + 3 * i..parts + 3 * i + 3];
                        self.g[i] * x[0] * y[0] * z[0]
                            + slopes[0] * x[1] * y[0] * z[0]
                            + slopes[1] * x[0] * y[1] * z[0]
                            + slopes[2] * x[0] * y[0] * z[1]
                    })
                    .collect()
            })
            .collect()
    }

    /// The gradients of the variables, by where they lie, from central differences; the loss is linear in them.
    pub(super) fn of_variables(&self, p: &[f64]) -> HashMap<usize, Vec<f64>> {
        let mut all: HashMap<usize, Vec<f64>> = HashMap::new();
        let weighted = self.weighted(p);
        for (weights, voxel) in weighted.iter().zip(&self.voxels) {
            let Some(place) = voxel.place else { continue };
            let sums = all.entry(place).or_insert_with(|| vec![0.0; weights.len()]);
            for (i, sum) in sums.iter_mut().enumerate() {
                let mut moved = voxel.clone();
                moved.value[i] += 0.5;
                let above = of_voxel((weights, &moved));
                moved.value[i] -= 1.0;
                *sum += above - of_voxel((weights, &moved));
            }
        }
        all
    }

    /// The largest size of a number that it has.
    pub(super) fn size(&self) -> f64 {
        let values = self.voxels.iter().map(|voxel| largest(&voxel.value));
        values.fold(0.0, f64::max) * largest(self.g)
    }
}

fn of_voxel((weights, voxel): (&Vec<f64>, &Voxel)) -> f64 {
    weights.iter().zip(&voxel.value).map(|(w, x)| w * x).sum()
}

/// The same grids of indices, by type.
pub(super) type Index = nanovdb::ValueIndex;
pub(super) type OnIndex = nanovdb::ValueOnIndex;
