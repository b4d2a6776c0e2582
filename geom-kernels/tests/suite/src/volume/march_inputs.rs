//! Volumes and rays to march through them.

use geom_kernels::Ray;
use nanovdb::{Build, Builder, Grid, GridClass, IndexBox, Map};

use super::march_oracle::Field;
use test_harness::{Failure, Rng};

/// A volume, and what is looked for in it.
pub(super) struct Input {
    pub(super) name: String,
    pub(super) field: Field,
    /// The voxels that rays are aimed at.
    pub(super) around: IndexBox,
    pub(super) iso: f64,
    /// Whether rays cross many cells that the oracle has to look at.
    pub(super) large: bool,
}

/// The maps that each volume is tried with, and their names.
fn maps() -> Result<Vec<(&'static str, Map)>, Failure> {
    Ok(vec![
        ("index space", Map::default()),
        ("halves", Map::uniform(0.5, [2.0, -4.0, 0.25])?),
        ("small", Map::uniform(0.013, [1.7, -0.3, 12.1])?),
        ("mirrored", Map::affine([[0.0, -0.1, 0.0], [0.1, 0.0, 0.0], [0.0, 0.0, -0.1]], [3.0; 3])?),
        ("sheared", Map::affine([[2.0, 0.5, 0.0], [-0.3, 1.1, 0.9], [0.0, 0.2, 0.4]], [1.0; 3])?),
        ("far", Map::uniform(1.0, [1_048_576.0, -2_097_152.0, 524_288.5])?),
    ])
}

fn cube(min: i32, max: i32) -> IndexBox {
    IndexBox { min: [min; 3], max: [max; 3] }
}

fn make<T: Build>(
    mut builder: Builder<T>,
    map: &Map,
    boxes: Vec<IndexBox>,
) -> Result<Field, Failure> {
    let grid: Grid = builder.map(*map).build()?;
    Field::new(grid, boxes)
}

/// The distance from a sphere, in a narrow band; inside of it tiles and voxels are inactive.
pub(super) fn band(centre: [i32; 3], radius: f64) -> Builder<f32> {
    let mut builder = Builder::<f32>::new(3.0);
    builder.class(GridClass::LEVEL_SET);
    let reach = radius as i32 + 4;
    let range = |axis: usize| centre[axis] - reach..=centre[axis] + reach;
    let distance = |p: [i32; 3]| {
        let square: i32 = (0..3).map(|axis| (p[axis] - centre[axis]).pow(2)).sum();
        f64::from(square).sqrt() - radius
    };
    for x in range(0).filter(|x| x & 7 == 0) {
        for y in range(1).filter(|y| y & 7 == 0) {
            for z in range(2).filter(|z| z & 7 == 0) {
                if distance([x + 4, y + 4, z + 4]) < -12.0 {
                    builder.fill_tile(1, [x, y, z], -3.0, false);
                }
            }
        }
    }
    for x in range(0) {
        for y in range(1) {
            for z in range(2) {
                let d = distance([x, y, z]);
                if d.abs() < 3.0 {
                    builder.set([x, y, z], d as f32);
                } else if d < 0.0 && distance([x & !7 | 4, y & !7 | 4, z & !7 | 4]) >= -12.0 {
                    builder.set_inactive([x, y, z], -3.0);
                }
            }
        }
    }
    builder
}

/// Random values in a box.
fn noise<T: Build>(
    rng: &mut Rng,
    background: f32,
    voxels: IndexBox,
    of: fn(f32) -> T::Value,
) -> Builder<T> {
    let mut builder = Builder::<T>::new(of(background));
    for x in voxels.min[0]..=voxels.max[0] {
        for y in voxels.min[1]..=voxels.max[1] {
            for z in voxels.min[2]..=voxels.max[2] {
                builder.set([x, y, z], of(rng.float()));
            }
        }
    }
    builder
}

pub(super) fn inputs(rng: &mut Rng) -> Result<Vec<Input>, Failure> {
    let mut all = Vec::new();
    let mut add = |name: &str, field: Field, around: IndexBox, iso: f64, large: bool| {
        all.push(Input { name: name.to_owned(), field, around, iso, large });
    };
    for (name, map) in maps()? {
        let around = cube(-16, 22);
        let sphere = make(band([3; 3], 14.3), &map, vec![around])?;
        add(&format!("a sphere, {name}"), sphere, around, 0.0, false);
        let voxels = cube(-5, 9);
        let field = make(noise::<f32>(rng, 0.3, voxels, |x| x), &map, vec![voxels])?;
        add(&format!("noise, {name}"), field, voxels, 0.1, false);
        let field = make(noise::<f64>(rng, -0.2, voxels, f64::from), &map, vec![voxels])?;
        add(&format!("noise in f64, {name}"), field, voxels, -0.25, false);
    }
    let identity = Map::default();
    // A linear field whose crossing lies in cells' faces.
    let mut planes = Builder::<f32>::new(100.0);
    let voxels = cube(-8, 15);
    for (x, y, z) in
        (-8..16).flat_map(|x| (-8..16).flat_map(move |y| (-8..16).map(move |z| (x, y, z))))
    {
        planes.set([x, y, z], (x + 2 * y - z) as f32);
    }
    add("planes", make(planes, &identity, vec![voxels])?, voxels, 3.0, false);

    // Tiles of all levels next to each other, to leaves, and to nothing.
    let mut tiles =
        noise::<f32>(rng, 1.0, IndexBox { min: [-3, 120, -9], max: [12, 140, 3] }, |x| x);
    tiles.fill_tile(2, [0, 0, 0], -1.0, true);
    tiles.fill_tile(2, [-128, 0, 0], -0.5, false);
    tiles.fill_tile(2, [128, 0, 0], 0.75, false);
    for place in [[0, 8, -8], [8, 8, -8], [-8, 128, 8], [0, 136, 16], [128, 128, 128]] {
        tiles.fill_tile(1, place, rng.float(), true);
    }
    let voxels = IndexBox { min: [-128, 0, -16], max: [255, 143, 135] };
    let all_of_it = IndexBox { min: [-128, 0, -16], max: [255, 151, 143] };
    add("tiles", make(tiles, &identity, vec![all_of_it])?, voxels, 0.0, false);
    let mut root = noise::<f64>(rng, 1.0, IndexBox { min: [-4; 3], max: [3; 3] }, f64::from);
    root.fill_tile(3, [-4096, 0, 0], -0.5, true).fill_tile(2, [-128, -128, -128], -2.0, true);
    root.fill_tile(3, [0, 0, -4096], 0.25, false);
    root.set([-4096, 0, 4095], 2.0).set([-1, 4096, 0], -1.0);
    let voxels = IndexBox { min: [-4200, -130, -4200], max: [4200, 4200, 4100] };
    let boxes = vec![IndexBox { min: [-4104, -128, -4096], max: [4095, 4104, 4103] }];
    add("tiles of the root", make(root, &identity, boxes)?, voxels, 0.0, true);

    // Far from each other, and as far out as there is anything.
    let mut scattered = Builder::<f32>::new(1.0);
    let mut boxes = Vec::new();
    for place in [[0; 3], [1 << 20, 5, -3], [-(1 << 20), 1 << 19, 77], [(1 << 30) - 11, 9, 1 << 29]]
    {
        let voxels = IndexBox { min: place, max: place.map(|x| x + 11) };
        for x in voxels.min[0]..=voxels.max[0] {
            for y in voxels.min[1]..=voxels.max[1] {
                for z in voxels.min[2]..=voxels.max[2] {
                    scattered.set([x, y, z], rng.float() - 0.5);
                }
            }
        }
        boxes.push(voxels);
    }
    for (i, around) in boxes.clone().into_iter().enumerate() {
        let field = make(scattered.clone(), &identity, boxes.clone())?;
        add(&format!("scattered, {i}"), field, around, 0.0, false);
    }
    for background in [1.0, -1.0] {
        let field = make(Builder::<f32>::new(background), &identity, Vec::new())?;
        add("nothing", field, cube(-5, 5), 0.0, false);
    }
    let background = Map::uniform(0.1, [5.0; 3])?;
    let around = IndexBox { min: [190, -310, -3], max: [210, -290, 17] };
    let field = make(band([200, -300, 7], 6.0), &background, vec![around])?;
    add("a small sphere", field, around, -0.5, false);
    Ok(all)
}

/// Rays of the world: of all kinds, towards what is there, from there, and past it.
pub(super) fn rays(rng: &mut Rng, input: &Input, n: usize) -> Vec<Ray> {
    let map = input.field.grid.map();
    let IndexBox { min, max } = input.around;
    let inside = |rng: &mut Rng| -> [f64; 3] {
        std::array::from_fn(|axis| {
            let (low, high) = (f64::from(min[axis]), f64::from(max[axis]));
            let x = low + (high - low) * f64::from(rng.float()).mul_add(0.55, 0.5);
            // Often in faces, edges and corners, or in the middle.
            match rng.below(4) {
                0 => x.round(),
                1 => x.floor() + 0.5,
                _ => x,
            }
        })
    };
    let size = (0..3).map(|a| f64::from(max[a]) - f64::from(min[a])).fold(1.0, f64::max);
    let mut rays = Vec::new();
    for i in 0..n {
        let target = inside(rng);
        let direction: [f64; 3] = match i % 4 {
            // Along an axis or a diagonal.
            0 | 1 => loop {
                let d: [f64; 3] = std::array::from_fn(|_| rng.below(3) as f64 - 1.0);
                if d != [0.0; 3] {
                    break d;
                }
            },
            // Nearly along an axis.
            2 => std::array::from_fn(|axis| {
                f64::from(rng.float()) * if axis == rng.below(3) { 1.0 } else { 1e-5 }
            }),
            _ => std::array::from_fn(|_| f64::from(rng.float())),
        };
        let back = [0.0, 0.0, 1.0, 2.0, 16.0][rng.below(5)] * size;
        let origin: [f64; 3] =
            std::array::from_fn(|axis| target[axis] - (back * direction[axis]).round());
        let world = |v: [f64; 3]| v.map(|x| x as f32);
        let mut ray = Ray::new(world(map.apply(origin)), world(map.apply_direction(direction)));
        match rng.below(8) {
            0 => ray = ray.between(-1.0, (rng.float().abs() * (size + back) as f32).max(1e-3)),
            1 => {
                let from = rng.float().abs() * size as f32;
                ray = ray.between(from, from + rng.float().abs() * 5.0);
            }
            2 => {
                let factor = [1e-6f32, 1e6, 3.7][rng.below(3)];
                ray.direction = ray.direction.map(|d| d * factor);
            }
            _ => {}
        }
        rays.push(ray);
    }
    rays
}

/// Rays that find nothing.
pub(super) fn no_rays() -> Vec<Ray> {
    let good = Ray::new([0.0; 3], [1.0, 0.5, 0.25]);
    let mut all = vec![Ray { direction: [0.0; 3], ..good }, good.between(2.0, 1.0)];
    all.push(good.between(-2.0, -1.0));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for axis in 0..3 {
            let (mut a, mut b) = (good, good);
            a.origin[axis] = bad;
            b.direction[axis] = bad;
            all.extend([a, b]);
        }
    }
    all.extend([good.between(f32::NAN, 1.0), good.between(0.0, f32::NAN)]);
    all.push(Ray { origin: [f32::MAX, 0.0, 0.0], ..good });
    all
}
