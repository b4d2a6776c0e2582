//! Roots with many entries, in order and not.

use geom_kernels::Ray;
use geom_kernels::volume::VolumeHit;
use geom_kernels::volume::nanovdb::{Builder, Grid};

use super::Fixture;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["volume", device(roots_of_any_size_are_searched), device(rays_find_nodes_of_large_roots),]
}

/// Where the root of a grid of f32 of this crate's builder is, and what its parts have in bytes.
const ROOT_AT: usize = 672 + 24;
const ROOT: usize = 64;
const TILE: usize = 32;

/// The same grid with the root's entries in another order.
fn shuffled(grid: &Grid, order: impl FnOnce(&mut Vec<[u8; TILE]>)) -> Result<Grid, Failure> {
    let mut bytes = grid.bytes().to_vec();
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let root = 672 + word(ROOT_AT) as usize;
    let n = word(root + 24) as usize & 0xffff_ffff;
    let entries = &mut bytes[root + ROOT..][..n * TILE];
    let mut list: Vec<[u8; TILE]> = entries.as_chunks().0.to_vec();
    order(&mut list);
    entries.copy_from_slice(list.as_flattened());
    Ok(Grid::from_bytes_without_checksum(&bytes)?)
}

fn corner(rng: &mut Rng) -> [i32; 3] {
    std::array::from_fn(|_| 4096 * (rng.below(12) as i32 - 6))
}

/// As built, backwards, with two that are exchanged, and at random: `n` entries, most of them tiles.
fn orders(rng: &mut Rng, n: usize) -> Result<Vec<Grid>, Failure> {
    let mut places = Vec::new();
    while places.len() < n {
        let place = corner(rng);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mut builder = Builder::<f32>::new(-1.0);
    for (i, place) in places.iter().enumerate() {
        match i % 16 {
            3 => {
                let _ = builder.set(place.map(|x| x + 77), i as f32);
            }
            5 => {
                let _ = builder.fill_tile(2, *place, i as f32, true);
            }
            _ => {
                let _ = builder.fill_tile(3, *place, i as f32, i % 2 == 0);
            }
        }
    }
    let grid = builder.build()?;
    let backwards = shuffled(&grid, |list| list.reverse())?;
    let exchanged = shuffled(&grid, |list| {
        if n > 1 {
            list.swap(n - 2, n - 1);
        }
    })?;
    let random = shuffled(&grid, |list| {
        for i in 1..n {
            list.swap(i, rng.below(i + 1));
        }
    })?;
    Ok(vec![grid, backwards, exchanged, random])
}

fn roots_of_any_size_are_searched(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(915);
    for n in [0, 1, 2, 7, 8, 9, 10, 15, 16, 17, 31, 33, 64, 100, 257, 700] {
        let grids = orders(&mut rng, n)?;
        let mut asked: Vec<[i32; 3]> = grids[0].tiles().map(|tile| tile.origin).collect();
        asked.extend(grids[0].leaves().map(|leaf| leaf.origin().map(|x| x + 5)));
        asked.retain(|_| rng.below(3) != 0);
        for _ in 0..200 {
            asked.push(corner(&mut rng).map(|x| x + rng.below(4096) as i32));
        }
        // Beyond all of them.
        asked.extend([[i32::MIN; 3], [i32::MAX; 3], [i32::MAX, i32::MIN, 0], [0, 1 << 20, -1]]);
        let there = fixture.upload(&asked)?;
        for (round, grid) in grids.iter().enumerate() {
            let volume = fixture.volume(grid)?;
            let mut values = fixture.room::<f32>(asked.len())?;
            let mut active = fixture.room::<u8>(asked.len())?;
            volume.lookup(stream, &there, &mut values)?;
            volume.is_active(stream, &there, &mut active)?;
            let (values, active) = (values.to_vec(stream)?, active.to_vec(stream)?);
            for ((at, value), active) in asked.iter().zip(&values).zip(active) {
                ensure_eq!(*value, grid.get::<f32>(*at)?, "{n} in order {round}, {at:?}");
                ensure_eq!(active != 0, grid.is_active(*at), "{n} in order {round}, {at:?}");
            }
            for at in asked.iter().take(20).filter(|at| at.iter().all(|x| x.abs() < 1 << 20)) {
                let mut dense = fixture.room::<f32>(1)?;
                volume.to_dense(stream, *at, [1; 3], &mut dense)?;
                ensure_eq!(dense.to_vec(stream)?[0], grid.get::<f32>(*at)?, "{n}, {at:?}");
            }
        }
    }
    Ok(())
}

fn rays_find_nodes_of_large_roots(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(916);
    for n in [8, 9, 40] {
        let grids = orders(&mut rng, n)?;
        // At single voxels along each axis, from within their own entry of the root.
        let mut rays = Vec::new();
        for leaf in grids[0].leaves() {
            let at = leaf.origin().map(|x| (x & !4095) as f32 + 77.0);
            for axis in 0..3 {
                let (mut origin, mut direction) = (at, [0.0; 3]);
                origin[axis] -= 70.0;
                direction[axis] = 1.0;
                rays.push(Ray::new(origin, direction));
            }
        }
        ensure!(rays.len() >= 3);
        let there = fixture.upload(&rays)?;
        for grid in grids {
            let volume = fixture.volume(&grid)?;
            let mut hits = fixture.room::<VolumeHit>(rays.len())?;
            volume.first_crossings(stream, &there, 0.0, &mut hits)?;
            for (ray, hit) in rays.iter().zip(hits.to_vec(stream)?) {
                let axis =
                    usize::from(ray.direction[1] != 0.0) + 2 * usize::from(ray.direction[2] != 0.0);
                ensure!(hit.t > 69.0 && hit.t < 70.0, "{ray:?}: {hit:?}");
                ensure_eq!(f64::from(hit.cell[axis]), f64::from(ray.origin[axis]) + 69.0);
            }
        }
    }
    Ok(())
}
