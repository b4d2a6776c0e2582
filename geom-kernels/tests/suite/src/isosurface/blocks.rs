//! Sparse fields: the blocks of a dense one, of which some are missing, against that with unknown numbers in
//! their place.

use std::collections::HashMap;

use cuda_safe::DeviceBuffer;
use geom_kernels::isosurface::{BlockField, Map, TriangleBuffers};
use geom_kernels::mesh::MeshOptions;

use super::Fixture;
use super::inputs::{Values, broken, noise, sphere, steps};
use super::oracle::Oracle;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "isosurface",
        device(blocks_are_a_dense_field_with_unknown_numbers),
        device(a_sphere_in_the_blocks_around_it),
        device(blocks_that_contradict_each_other),
        device(wrong_blocks_are_refused),
    ]
}

/// Blocks in host memory.
struct Blocks {
    values: Vec<f32>,
    stride: usize,
    origins: Vec<[i32; 3]>,
    neighbors: Vec<[u32; 27]>,
}

impl Blocks {
    /// The blocks of a field at these places, in units of 8, in this order; `before` numbers lie before each.
    fn of(values: &Values, places: &[[usize; 3]], before: usize, origin: [i32; 3]) -> Self {
        let numbers: HashMap<[usize; 3], u32> =
            places.iter().enumerate().map(|(i, place)| (*place, i as u32)).collect();
        let stride = 512 + before;
        let mut all = Vec::new();
        let mut neighbors = Vec::new();
        for place in places {
            all.resize(all.len() + before, f32::NAN);
            let at =
                |i: usize| [place[0] * 8 + i / 64, place[1] * 8 + i / 8 % 8, place[2] * 8 + i % 8];
            all.extend((0..512).map(|i| values.at(at(i))));
            neighbors.push(std::array::from_fn(|i| {
                let step = [i / 9, i / 3 % 3, i % 3];
                let beside: [usize; 3] =
                    std::array::from_fn(|axis| (place[axis] + step[axis]).wrapping_sub(1));
                // One's own place is not asked for.
                let other = numbers.get(&beside).copied().unwrap_or(u32::MAX);
                if i == 13 { 12_345 } else { other }
            }));
        }
        let origins = places
            .iter()
            .map(|place| std::array::from_fn(|i| origin[i] + 8 * place[i] as i32))
            .collect();
        Self { values: all.split_off(before.min(all.len())), stride, origins, neighbors }
    }

    fn extract(&self, fixture: &Fixture, map: Map, iso: f32) -> Result<TriangleBuffers, Failure> {
        let stream = &fixture.stream;
        let values = DeviceBuffer::from_slice(stream, &self.values)?;
        let origins = DeviceBuffer::from_slice(stream, &self.origins)?;
        let neighbors = DeviceBuffer::from_slice(stream, &self.neighbors)?;
        let field = BlockField::new(&values, self.stride, &origins, &neighbors, map)?;
        ensure_eq!(field.blocks(), self.origins.len());
        Ok(fixture.cubes.extract_with_normals(stream, &field, iso)?)
    }
}

/// All places of blocks in a field.
fn places(values: &Values) -> Vec<[usize; 3]> {
    let [x, y, z] = values.dims.map(|n| n / 8);
    (0..x * y * z).map(|i| [i / (y * z), i / z % y, i % z]).collect()
}

fn shuffle(rng: &mut Rng, places: &mut [[usize; 3]]) {
    for i in (1..places.len()).rev() {
        places.swap(i, rng.below(i + 1));
    }
}

/// Without the numbers of blocks that are missing.
fn without_others(values: &Values, places: &[[usize; 3]]) -> Values {
    Values::from_fn(values.dims, |at| {
        if places.contains(&at.map(|x| x / 8)) { values.at(at) } else { f32::NAN }
    })
}

pub(super) type Corner = [u32; 3];

/// Faces by the bits of their corners, from the least one on, sorted; so their order does not matter.
pub(super) fn shapes(points: &[[f32; 3]], faces: &[[u32; 3]]) -> Vec<[Corner; 3]> {
    let mut shapes: Vec<[Corner; 3]> = faces
        .iter()
        .map(|face| {
            let mut corners = face.map(|v| points[v as usize].map(f32::to_bits));
            while corners[0] > corners[1] || corners[0] > corners[2] {
                corners.rotate_left(1);
            }
            corners
        })
        .collect();
    shapes.sort_unstable();
    shapes
}

pub(super) fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list
}

fn blocks_are_a_dense_field_with_unknown_numbers(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(950);
    let dims = [24, 16, 24];
    let scaled = Map::scaled([0.1, 0.2, -0.3], [0.5, -1.0, 2.0])?;
    let origins = [[0; 3], [-16, 8, -8], [1 << 20, -(1 << 20), 64]];
    let maps = [Map::default(), scaled];
    for round in 0..6 {
        let values = match round % 3 {
            0 => noise(&mut rng, dims),
            1 => steps(&mut rng, dims),
            _ => broken(&mut rng, dims, 200),
        };
        let mut some = places(&values);
        shuffle(&mut rng, &mut some);
        some.truncate([18, 18, 13, 9, 4, 1][round]);
        let before = [0, 24][round % 2];
        let origin = origins[round % 3];
        let map = maps[round / 3];
        let fail = |e: Failure| Failure::new(format!("round {round}: {e}"));

        let there = Blocks::of(&values, &some, before, origin).extract(&fixture, map, 0.0)?;
        let found = there.download(&fixture.stream)?;
        let dense = without_others(&values, &some);
        let mut oracle = Oracle::new(&dense, 0.0);
        oracle.origin = origin;
        let wanted = oracle.mesh(&map);
        ensure!(!wanted.faces.is_empty());
        let bits =
            |points: &[[f32; 3]]| sorted(points.iter().map(|p| p.map(f32::to_bits)).collect());
        ensure!(bits(&found.points) == bits(&wanted.points), "round {round}");
        let (shapes_found, shapes_wanted) =
            (shapes(&found.points, &found.faces), shapes(&wanted.points, &wanted.faces));
        ensure!(shapes_found == shapes_wanted, "round {round}");
        let finite = !some.iter().any(|place| {
            (0..512).any(|i| {
                let at = [place[0] * 8 + i / 64, place[1] * 8 + i / 8 % 8, place[2] * 8 + i % 8];
                !values.at(at).is_finite()
            })
        });
        ensure_eq!(there.counts.not_finite(), !finite);

        // Normals are those of the dense field, at vertices that lie nowhere else.
        if round % 3 == 0 && origin == [0; 3] {
            let of_dense = fixture.extract(&dense, map, 0.0).map_err(fail)?;
            let Some(normals) = &there.normals else {
                return Err(Failure::new("normals were asked for"));
            };
            let normals = normals.to_vec(&fixture.stream)?;
            let pairs = |points: &[[f32; 3]], normals: &[[f32; 3]]| -> Vec<[u32; 6]> {
                let pairs = points.iter().zip(normals).map(|(p, n)| {
                    let [x, y, z] = p.map(f32::to_bits);
                    let [u, v, w] = n.map(f32::to_bits);
                    [x, y, z, u, v, w]
                });
                sorted(pairs.collect())
            };
            let wanted = pairs(&of_dense.mesh.points, &of_dense.normals);
            ensure!(pairs(&found.points, &normals) == wanted, "round {round}");
        }
    }
    Ok(())
}

fn a_sphere_in_the_blocks_around_it(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let ball = sphere([56, 48, 48], [27.3, 24.1, 23.8], 17.2);
    // Those that a band of two steps passes.
    let mut some = places(&ball);
    some.retain(|place| {
        (0..512).any(|i| {
            let at = [place[0] * 8 + i / 64, place[1] * 8 + i / 8 % 8, place[2] * 8 + i % 8];
            ball.at(at).abs() < 2.0
        })
    });
    ensure!(some.len() > 50 && some.len() < places(&ball).len());
    shuffle(&mut device.rng(951), &mut some);
    let map = Map::scaled([0.1; 3], [0.0; 3])?;
    let there = Blocks::of(&ball, &some, 24, [-27, -24, -24]).extract(&fixture, map, 0.0)?;
    ensure!(there.counts.is_complete() && !there.counts.not_finite());
    let whole = fixture.extract(&ball, map, 0.0)?;
    ensure_eq!(
        (there.vertices.len(), there.faces.len()),
        (whole.mesh.points.len(), whole.mesh.faces.len())
    );
    let mesh = there.into_mesh(stream, &fixture.geometry, MeshOptions::default())?;
    let report = mesh.report(stream)?;
    ensure!(report.watertight && report.euler_characteristic == 2, "{report:?}");
    ensure!((report.volume / whole.mesh.volume() - 1.0).abs() < 1e-6);
    Ok(())
}

/// Neighbours that are not, in both directions: whatever comes out, nothing else is touched.
fn blocks_that_contradict_each_other(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(952);
    let values = noise(&mut rng, [24, 16, 16]);
    let mut blocks = Blocks::of(&values, &places(&values), 0, [0; 3]);
    let n = blocks.origins.len();
    for _ in 0..5 {
        for neighbors in &mut blocks.neighbors {
            for neighbor in neighbors {
                if rng.below(3) == 0 {
                    *neighbor = [rng.below(n) as u32, n as u32, 1 << 31][rng.below(3)];
                }
            }
        }
        let there = blocks.extract(&fixture, Map::default(), 0.0)?;
        ensure!(there.counts.vertices > 1000 && there.counts.faces > 1000);
        there.download(&fixture.stream)?;
    }
    Ok(())
}

fn wrong_blocks_are_refused(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let (stream, map) = (&fixture.stream, Map::default());
    let values = DeviceBuffer::<f32>::zeroed(stream, 1536)?;
    let origins = DeviceBuffer::<[i32; 3]>::zeroed(stream, 3)?;
    let neighbors = DeviceBuffer::<[u32; 27]>::zeroed(stream, 3)?;
    BlockField::new(&values, 512, &origins, &neighbors, map)?;
    for stride in [0, 511, 513, 1 << 32, usize::MAX] {
        let Err(error) = BlockField::new(&values, stride, &origins, &neighbors, map) else {
            return Err(Failure::new(format!("a stride of {stride}")));
        };
        ensure!(error.to_string().contains("1536 values for 3 blocks"), "{error}");
    }
    let few = neighbors.slice(1..)?;
    ensure!(BlockField::new(&values, 512, &origins, few, map).is_err());
    ensure!(BlockField::new(values.slice(1..)?, 512, &origins, &neighbors, map).is_err());
    // None at all.
    let none = Blocks { values: vec![], stride: 512, origins: vec![], neighbors: vec![] };
    let there = none.extract(&fixture, map, 0.0)?;
    ensure_eq!((there.counts.vertices, there.counts.faces, there.counts.status), (0, 0, 0));
    // One alone, without values behind it: its surface is open.
    let values = noise(&mut device.rng(953), [8, 8, 8]);
    let one = Blocks::of(&values, &[[0; 3]], 100, [0; 3]).extract(&fixture, map, 0.0)?;
    let wanted = Oracle::new(&values, 0.0).mesh(&map);
    ensure_eq!(one.download(stream)?.faces.len(), wanted.faces.len());
    Ok(())
}
