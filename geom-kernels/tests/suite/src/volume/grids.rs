//! Grids of every type, and where to ask them.

use geom_kernels::Real;
use geom_kernels::volume::nanovdb::{self, Build, Builder, Grid, Map};
use geom_kernels::volume::{Bool, Index, Mask, OnIndex, Rgba8, VolumeValue};

use test_harness::{Failure, Rng};

/// A type of values, as the host makes grids of it and as the device gives them.
pub(super) trait Kind: 'static {
    type Build: Build;
    type Value: VolumeValue;
    const NAME: &'static str;
    fn random(rng: &mut Rng) -> <Self::Build as Build>::Value;
}

macro_rules! kinds {
    ($($kind:ident: $build:ty, $value:ty, $random:expr;)+) => {
        $(
            pub(super) struct $kind;
            impl Kind for $kind {
                type Build = $build;
                type Value = $value;
                const NAME: &'static str = stringify!($kind);
                fn random(rng: &mut Rng) -> <$build as Build>::Value {
                    let random: fn(&mut Rng) -> <$build as Build>::Value = $random;
                    random(rng)
                }
            }
        )+
        /// A test of every type.
        macro_rules! each_kind {
            ($test:ident($arguments:tt)) => {{
                $($test::<$crate::volume::grids::$kind>$arguments?;)+
            }};
        }
    };
}

/// With all bits of a fraction.
fn double(rng: &mut Rng) -> f64 {
    (rng.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

kinds! {
    F32: f32, f32, Rng::float;
    F64: f64, f64, double;
    I16: i16, i16, |rng| rng.next() as i16;
    I32: i32, i32, |rng| rng.next() as i32;
    I64: i64, i64, |rng| rng.next() as i64;
    U8: u8, u8, |rng| rng.next() as u8;
    U32: u32, u32, |rng| rng.next() as u32;
    Vec3F: [f32; 3], [f32; 3], |rng| [0; 3].map(|_: i32| rng.float());
    Vec3D: [f64; 3], [f64; 3], |rng| [0; 3].map(|_: i32| double(rng));
    Vec4F: [f32; 4], [f32; 4], |rng| [0; 4].map(|_: i32| rng.float());
    Vec4D: [f64; 4], [f64; 4], |rng| [0; 4].map(|_: i32| double(rng));
    Colour: [u8; 4], Rgba8, |rng| (rng.next() as u32).to_le_bytes();
    Bit: bool, Bool, |rng| rng.next() & 1 != 0;
    OfMask: nanovdb::ValueMask, Mask, |_| ();
    OfIndex: nanovdb::ValueIndex, Index, |_| ();
    OfOnIndex: nanovdb::ValueOnIndex, OnIndex, |_| ();
}
pub(super) use each_kind as for_all_kinds;

const FAR: i32 = 1 << 30;

/// Boxes of voxels, from and to before: around the origin, where eight nodes of each level meet; across a border
/// of lower nodes; across one of upper nodes; far out; and at the end of what is sampled.
const CLUSTERS: [[[i32; 3]; 2]; 5] = [
    [[-9, -9, -9], [9, 9, 9]],
    [[122, -4, 0], [134, 8, 9]],
    [[4090, 4, 250], [4101, 12, 260]],
    [[FAR / 2 + 20, -30, 20], [FAR / 2 + 28, -24, 28]],
    [[FAR - 5, 5, 5], [FAR + 3, 11, 11]],
];

/// Tiles: level and a voxel of them.
const TILES: [(u32, [i32; 3]); 8] = [
    (1, [8, 0, 0]),
    (1, [-16, 3, -5]),
    (1, [16, 8, 8]),
    (1, [136, 0, 0]),
    (2, [256, 0, 0]),
    (2, [-256, -128, 128]),
    (3, [8192, 5, 5]),
    (3, [-5, -5, -5000]),
];

/// A grid with voxels and tiles, active and not, and the voxels that were set.
pub(super) fn grid<K: Kind>(rng: &mut Rng) -> Result<(Grid, Vec<[i32; 3]>), Failure> {
    let mut builder = Builder::<K::Build>::new(K::random(rng));
    builder.map(map()?);
    for (k, (level, at)) in TILES.into_iter().enumerate() {
        builder.fill_tile(level, at, K::random(rng), k % 2 == 0);
    }
    let mut voxels = Vec::new();
    for [from, to] in CLUSTERS {
        for x in from[0]..to[0] {
            for y in from[1]..to[1] {
                for z in from[2]..to[2] {
                    match rng.below(4) {
                        0 => builder.set_inactive([x, y, z], K::random(rng)),
                        1 | 2 => builder.set([x, y, z], K::random(rng)),
                        _ => continue,
                    };
                    voxels.push([x, y, z]);
                }
            }
        }
    }
    Ok((builder.build()?, voxels))
}

/// A map with every kind of term.
pub(super) fn map() -> Result<Map, Failure> {
    let matrix = [[0.5, 0.125, -0.0625], [-0.25, 0.75, 0.1], [0.3, -0.2, 0.4]];
    Ok(Map::affine(matrix, [10.0, -3.7, 0.33])?)
}

/// Voxels around those that were set, at the tiles' ends, and where coordinates end.
pub(super) fn voxels(rng: &mut Rng, set: &[[i32; 3]], n: usize) -> Vec<[i32; 3]> {
    let mut all: Vec<[i32; 3]> = (0..n)
        .map(|_| match rng.below(8) {
            0 => near_tile(rng),
            k => set[rng.below(set.len())].map(|x| x.wrapping_add(rng.below(4 * k) as i32 - 8)),
        })
        .collect();
    all.extend([[i32::MIN; 3], [i32::MAX; 3], [0; 3], [-1; 3], [i32::MAX, 0, -1], [FAR, 5, 5]]);
    all
}

fn near_tile(rng: &mut Rng) -> [i32; 3] {
    let (level, at) = TILES[rng.below(TILES.len())];
    let bits = [3, 7, 12][level as usize - 1];
    at.map(|x| {
        let low = (x >> bits) << bits;
        let end = low + (rng.below(2) << bits) as i32;
        end + rng.below(5) as i32 - 2
    })
}

/// Positions around such voxels: on them, halfway between, and anywhere.
pub(super) fn positions<P: Real>(rng: &mut Rng, set: &[[i32; 3]], n: usize) -> Vec<[P; 3]> {
    voxels(rng, set, n)
        .into_iter()
        .map(|voxel| {
            let how = rng.below(8);
            voxel.map(|x| {
                let by = match how {
                    0 => 0.0,
                    1 => 0.5,
                    2 => f64::from(rng.float()) * 1e-7,
                    3 => 0.5 + f64::from(rng.float()) * 1e-7,
                    _ => double(rng),
                };
                P::narrow(f64::from(x) + by)
            })
        })
        .chain(ends().map(|p| p.map(P::narrow)))
        .collect()
}

/// Where positions end: in reach, on the border, and beyond.
fn ends() -> impl Iterator<Item = [f64; 3]> {
    let far = f64::from(FAR);
    let numbers = [
        0.0,
        -0.0,
        1e-40,
        -1e-40,
        -1e-10,
        0.5,
        -0.5,
        0.499_999_999_999_999_94,
        0.499_999_97,
        -0.500_000_06,
        far,
        -far,
        far - 0.5,
        far + 128.0,
        far * 2.0,
        -far * 2.0,
        -far * 2.0 - 512.0,
        1e30,
        -1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    numbers.into_iter().flat_map(|x| [[x, 6.25, 6.25], [6.25, x, 6.25], [6.25, 6.25, x], [x; 3]])
}
