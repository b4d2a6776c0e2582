//! The way from index space to the world and back.

use geom_kernels::Real;
use geom_kernels::volume::nanovdb::{Builder, Grid, Map};

use super::Fixture;
use super::grids::map;
use super::interpolation::{U32, U64};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases!["volume", device(maps_go_there_and_back),]
}

/// The numbers of a grid's map in a precision, as its bytes have them: matrix, inverse, translation.
struct Numbers {
    m: [[f64; 3]; 3],
    inverse: [[f64; 3]; 3],
    v: [f64; 3],
}

fn numbers<P: Real>(grid: &Grid) -> Numbers {
    let size = size_of::<P>();
    let begin = if size == 8 { 296 + 88 } else { 296 };
    let at = |n: usize| {
        let at = begin + n * size;
        bytemuck::pod_read_unaligned::<P>(&grid.bytes()[at..at + size]).wide()
    };
    let matrix =
        |from: usize| std::array::from_fn(|i| std::array::from_fn(|j| at(from + 3 * i + j)));
    Numbers { m: matrix(0), inverse: matrix(9), v: std::array::from_fn(|i| at(18 + i)) }
}

/// m d + v, and a bound of the sizes of its terms.
fn apply(m: [[f64; 3]; 3], d: [f64; 3], v: [f64; 3]) -> [(f64, f64); 3] {
    std::array::from_fn(|i| {
        let terms = [m[i][0] * d[0], m[i][1] * d[1], m[i][2] * d[2], v[i]];
        (terms.iter().sum(), terms.iter().map(|term| term.abs()).sum())
    })
}

fn transposed(m: [[f64; 3]; 3]) -> [[f64; 3]; 3] {
    std::array::from_fn(|i| std::array::from_fn(|j| m[j][i]))
}

fn maps_go_there_and_back(device: &TestDevice) -> TestResult {
    let turned = [[0.0, -0.25, 0.0], [0.25, 0.0, 0.0], [0.0, 0.0, -0.25]];
    for map in [map()?, Map::default(), Map::uniform(0.1, [5.0, -6.0, 7.5])?, {
        Map::affine(turned, [1e3, 0.0, -1e-3])?
    }] {
        each::<f32>(device, map)?;
        each::<f64>(device, map)?;
    }
    Ok(())
}

fn each<P: Real>(device: &TestDevice, map: Map) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut builder = Builder::<f32>::new(0.0);
    let grid = builder.map(map).build()?;
    let volume = fixture.volume(&grid)?;
    let of = numbers::<P>(&grid);
    let mut rng = device.rng(940);
    let any = |rng: &mut Rng| P::narrow(f64::from(rng.float()) * [1.0, 100.0, 1e4][rng.below(3)]);
    let vectors: Vec<[P; 3]> = (0..500).map(|_| [0; 3].map(|_: i32| any(&mut rng))).collect();
    let from = fixture.upload(&vectors)?;
    let mut to = fixture.room::<[P; 3]>(vectors.len())?;
    // Four roundings of sums no greater than all terms together; a difference before it is one more of each
    // term. As much again, and a sixteenth, for f64's sums here.
    let u = if size_of::<P>() == 8 { 2.0 * U64 } else { U32 };
    let check = |name: &str, to: Vec<[P; 3]>, wanted: &dyn Fn([f64; 3]) -> [(f64, f64); 3]| {
        for (from, to) in vectors.iter().zip(to) {
            for (got, (wanted, terms)) in to.into_iter().zip(wanted(from.map(Real::wide))) {
                let off = (got.wide() - wanted).abs();
                ensure!(off <= 5.0 * 1.0625 * u * terms, "{name}, {from:?}: {to:?}, {off} off");
            }
        }
        Ok::<(), Failure>(())
    };
    let zero = [0.0; 3];
    volume.index_to_world(stream, &from, &mut to)?;
    check("index_to_world", to.to_vec(stream)?, &|p| apply(of.m, p, of.v))?;
    volume.world_to_index(stream, &from, &mut to)?;
    check("world_to_index", to.to_vec(stream)?, &|p| {
        let [exact, bound] = [0, 1].map(|k| {
            let size = |a: f64, b: f64| if k == 0 { a - b } else { a.abs() + b.abs() };
            let d: [f64; 3] = std::array::from_fn(|i| size(p[i], of.v[i]));
            let m = if k == 0 { of.inverse } else { of.inverse.map(|row| row.map(f64::abs)) };
            apply(m, d, zero).map(|(sum, _)| sum)
        });
        std::array::from_fn(|i| (exact[i], bound[i]))
    })?;
    volume.index_to_world_directions(stream, &from, &mut to)?;
    check("index_to_world_directions", to.to_vec(stream)?, &|d| apply(of.m, d, zero))?;
    volume.world_to_index_directions(stream, &from, &mut to)?;
    check("world_to_index_directions", to.to_vec(stream)?, &|d| apply(of.inverse, d, zero))?;
    volume.index_to_world_gradients(stream, &from, &mut to)?;
    let inverse = transposed(of.inverse);
    check("index_to_world_gradients", to.to_vec(stream)?, &|g| apply(inverse, g, zero))?;
    volume.world_to_index_gradients(stream, &from, &mut to)?;
    let m = transposed(of.m);
    check("world_to_index_gradients", to.to_vec(stream)?, &|g| apply(m, g, zero))
}
