//! Inputs, the same in every run: from seeds of their own, by operations whose results IEEE 754 fixes. (Sines and
//! the like differ between libraries.)

use geom_kernels::Real;
use geom_kernels::mesh::{FacePoint, TriangleMesh, shapes};
use geom_kernels::volume::nanovdb::{self, Build, Builder, Grid, Map};
use geom_kernels::volume::{Bool, Index, Mask, OnIndex, Rgba8, VolumeValue};
use geom_kernels::{Aabb, Ray};

use super::calls::{Got, Plain};
use test_harness::Rng;

/// Sizes around a warp, beside the usual one.
pub(super) const SIZES: [usize; 5] = [0, 1, 31, 32, 33];

/// Numbers of one input, whatever `TEST_SEED` says.
pub(super) fn rng(input: u64) -> Rng {
    Rng::new(0x601d_b175_0000 + input)
}

/// From -1 to below 1, with all bits of a fraction.
pub(super) fn double(rng: &mut Rng) -> f64 {
    (rng.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Points with coordinates from -1 to 1, times `size`.
pub(super) fn points(rng: &mut Rng, n: usize, size: f32) -> Vec<[f32; 3]> {
    (0..n).map(|_| [0; 3].map(|_: i32| size * rng.float())).collect()
}

/// Coordinates of as many points, in either precision.
pub(super) fn coordinates<T: Real>(rng: &mut Rng, n: usize, size: f64) -> Vec<T> {
    (0..3 * n).map(|_| T::narrow(size * double(rng))).collect()
}

pub(super) fn positions<P: Real>(rng: &mut Rng, n: usize, size: f64) -> Vec<[P; 3]> {
    (0..n).map(|_| [0; 3].map(|_: i32| P::narrow(size * double(rng)))).collect()
}

/// Numbers that are hard to sort and to add: both zeros, infinities, denormals, NaNs.
pub(super) const ODD: [f64; 10] = [
    0.0,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-40,
    -1e-310,
    1.0,
    -1.0,
    16_777_217.0,
];

/// Boxes of all sizes; some are empty, not finite, or points.
pub(super) fn boxes(rng: &mut Rng, n: usize) -> Vec<Aabb<f32>> {
    let one = |rng: &mut Rng, i: usize| {
        let lower = [0; 3].map(|_: i32| rng.float());
        let size = [0.3f32, 0.05, 0.01][rng.below(3)];
        let mut upper = lower.map(|x| x + size * rng.float().abs());
        match i % 97 {
            40 => upper[1] = lower[1] - 0.5,
            41 => upper[2] = f32::NAN,
            42 => upper[0] = f32::INFINITY,
            43 => upper = lower,
            _ => {}
        }
        Aabb { lower, upper }
    };
    (0..n).map(|i| one(rng, i)).collect()
}

/// Rays from around to the middle; some are segments, some along an axis, some of no direction.
pub(super) fn rays(rng: &mut Rng, n: usize, size: f32) -> Vec<Ray> {
    let one = |rng: &mut Rng, i: usize| {
        let from = [0; 3].map(|_: i32| 2.0 * size * rng.float());
        let to = [0; 3].map(|_: i32| 0.7 * size * rng.float());
        let direction = std::array::from_fn(|k| to[k] - from[k]);
        match i % 16 {
            3 => Ray::segment(from, to),
            5 => Ray::new(from, direction).between(0.5, 0.9),
            7 => Ray::new([from[0], to[1], to[2]], [-from[0], 0.0, 0.0]),
            9 => Ray::new([to[0], to[1], -2.0 * size], [0.0, -0.0, 1.0]),
            11 => Ray::new(from, [0.0; 3]),
            13 => Ray::new([f32::NAN, 0.0, 0.0], direction),
            _ => Ray::new(from, direction),
        }
    };
    (0..n).map(|i| one(rng, i)).collect()
}

/// A closed mesh of 1,280 faces: a sphere with bumps.
pub(super) fn stone() -> Got<TriangleMesh> {
    let mut rng = rng(1);
    let mut mesh = shapes::icosphere(3, 1.0)?;
    for point in &mut mesh.points {
        let by = 1.0 + 0.08 * rng.float();
        *point = point.map(|x| x * by);
    }
    Ok(mesh)
}

/// The same with every point moved.
pub(super) fn moved(mesh: &TriangleMesh, input: u64) -> TriangleMesh {
    let mut rng = rng(input);
    let mut moved = mesh.clone();
    for point in &mut moved.points {
        *point = point.map(|x| x + 0.05 * rng.float());
    }
    moved
}

/// An open mesh: hills over a square of `cells` by `cells`.
pub(super) fn hills(cells: u32) -> TriangleMesh {
    let mut rng = rng(2);
    let (mut mesh, side) = (TriangleMesh::default(), cells + 1);
    for i in 0..side * side {
        let [x, y] = [i % side, i / side].map(|k| 2.0 * k as f32 / cells as f32 - 1.0);
        mesh.points.push([x, y, 0.1 * rng.float()]);
    }
    for i in 0..cells * cells {
        let a = i / cells * side + i % cells;
        mesh.faces.extend([[a, a + 1, a + side + 1], [a, a + side + 1, a + side]]);
    }
    mesh
}

/// Triangles that have nothing to do with each other, and faces of every fault: without area, with a point twice,
/// twice the same, with an edge of three faces; and, if `broken`, out of range and not finite.
pub(super) fn soup(n: usize, broken: bool) -> TriangleMesh {
    let (mut rng, mut mesh) = (rng(3), TriangleMesh::default());
    for i in 0..n as u32 {
        let [x, y, z] = [0; 3].map(|_: i32| rng.float());
        for _ in 0..3 {
            let [a, b, c] = [0; 3].map(|_: i32| 0.2 * rng.float());
            mesh.points.push([x + a, y + b, z + c]);
        }
        mesh.faces.push([3 * i, 3 * i + 1, 3 * i + 2]);
    }
    if n >= 4 {
        mesh.points.extend([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [1.0, 0.0, 0.0], [7.0, 7.0, 7.0]]);
        let line = 3 * n as u32;
        mesh.faces.extend([[line, line + 1, line + 2], [0, 0, 1], [0, 1, 2], [1, 0, 3], [0, 1, 4]]);
    }
    if broken {
        let last = mesh.points.len() as u32;
        mesh.points.push([f32::NAN, 0.0, 0.0]);
        mesh.faces.extend([[0, 1, last], [0, last + 1, 1], [u32::MAX, 0, 1]]);
    }
    mesh
}

/// Points of faces, some beyond their edges, some of no face.
pub(super) fn face_points(rng: &mut Rng, n: usize, faces: usize) -> Vec<FacePoint> {
    let one = |rng: &mut Rng, i: usize| FacePoint {
        face: if i % 50 == 49 { u32::MAX } else { rng.below(faces) as u32 },
        u: 0.7 * rng.float(),
        v: 0.7 * rng.float(),
    };
    (0..n).map(|i| one(rng, i)).collect()
}

/// A type of values, as the host makes grids of it and as the device gives them.
pub(super) trait Kind: 'static {
    type Build: Build;
    type Value: VolumeValue + Plain + Send + Sync;
    const NAME: &'static str;
    fn random(rng: &mut Rng) -> <Self::Build as Build>::Value;
    fn value(rng: &mut Rng) -> Self::Value;
}

macro_rules! kinds {
    ($($kind:ident: $build:ty, $value:ty, $random:expr, $of:expr;)+) => {$(
        pub(super) struct $kind;
        impl Kind for $kind {
            type Build = $build;
            type Value = $value;
            const NAME: &'static str = stringify!($kind);
            fn random(rng: &mut Rng) -> <$build as Build>::Value {
                let random: fn(&mut Rng) -> <$build as Build>::Value = $random;
                random(rng)
            }
            fn value(rng: &mut Rng) -> $value {
                let of: fn(<$build as Build>::Value) -> $value = $of;
                of(Self::random(rng))
            }
        }
    )+};
}

kinds! {
    F32: f32, f32, Rng::float, |x| x;
    F64: f64, f64, double, |x| x;
    I16: i16, i16, |rng| rng.next() as i16, |x| x;
    I32: i32, i32, |rng| rng.next() as i32, |x| x;
    I64: i64, i64, |rng| rng.next() as i64, |x| x;
    U8: u8, u8, |rng| rng.next() as u8, |x| x;
    U32: u32, u32, |rng| rng.next() as u32, |x| x;
    Vec3F: [f32; 3], [f32; 3], |rng| [0; 3].map(|_: i32| rng.float()), |x| x;
    Vec3D: [f64; 3], [f64; 3], |rng| [0; 3].map(|_: i32| double(rng)), |x| x;
    Vec4F: [f32; 4], [f32; 4], |rng| [0; 4].map(|_: i32| rng.float()), |x| x;
    Vec4D: [f64; 4], [f64; 4], |rng| [0; 4].map(|_: i32| double(rng)), |x| x;
    Colour: [u8; 4], Rgba8, |rng| (rng.next() as u32).to_le_bytes(), Rgba8;
    Bit: bool, Bool, |rng| rng.next() & 1 != 0, |x| Bool(x.into());
    Masked: nanovdb::ValueMask, Mask, |_| (), |()| Mask(0);
    Indexed: nanovdb::ValueIndex, Index, |_| (), |()| Index(0);
    OnIndexed: nanovdb::ValueOnIndex, OnIndex, |_| (), |()| OnIndex(0);
}

/// A map with every kind of term.
pub(super) fn map() -> Got<Map> {
    let matrix = [[0.5, 0.125, -0.0625], [-0.25, 0.75, 0.1], [0.3, -0.2, 0.4]];
    Ok(Map::affine(matrix, [1.0, -0.7, 0.33])?)
}

/// The place that inputs of volumes lie around: where eight upper nodes meet, and, of most types, in the middle of
/// one, as those are large.
pub(super) fn middle<K: Kind>() -> i32 {
    if K::NAME == "F32" { 0 } else { 128 }
}

/// A grid with voxels around a place and across a border of lower nodes, and tiles; some of both inactive.
pub(super) fn grid<K: Kind>(middle: i32) -> Got<Grid> {
    grid_with::<K>(middle, 3)
}

/// The same with tiles up to a level: surfaces around large ones are large.
pub(super) fn grid_with<K: Kind>(middle: i32, level_of_tiles: u32) -> Got<Grid> {
    let mut rng = rng(4);
    let mut builder = Builder::<K::Build>::new(K::random(&mut rng));
    builder.map(map()?);
    let tiles = [(1, [8, 0, 0]), (1, [-16, 3, -5]), (2, [256, 0, 0]), (3, [8192, 5, 5])];
    let tiles = tiles.into_iter().enumerate();
    for (k, (level, at)) in tiles.filter(|(_, (level, _))| *level <= level_of_tiles) {
        builder.fill_tile(level, at.map(|x| x + middle), K::random(&mut rng), k % 2 == 0);
    }
    for [from, to] in [[[-9, -9, -9], [6, 6, 6]], [[122, -4, 0], [132, 5, 5]]] {
        for x in from[0]..to[0] {
            for y in from[1]..to[1] {
                for z in from[2]..to[2] {
                    let at = [x + middle, y + middle, z + middle];
                    match rng.below(4) {
                        0 => builder.set_inactive(at, K::random(&mut rng)),
                        1 | 2 => builder.set(at, K::random(&mut rng)),
                        _ => continue,
                    };
                }
            }
        }
    }
    Ok(builder.build()?)
}

/// Voxels of such a grid, beside it, and where coordinates end.
pub(super) fn voxels(rng: &mut Rng, n: usize, middle: i32) -> Vec<[i32; 3]> {
    let one = |rng: &mut Rng| {
        let around = [[-2, -2, -2], [126, 0, 2], [256, 8, 8]][rng.below(3)];
        around.map(|x: i32| x + middle + rng.below(24) as i32 - 12)
    };
    let mut all: Vec<[i32; 3]> = (0..n).map(|_| one(rng)).collect();
    all.extend([[i32::MIN; 3], [i32::MAX; 3], [0; 3], [8192, 6, 7]]);
    all
}
