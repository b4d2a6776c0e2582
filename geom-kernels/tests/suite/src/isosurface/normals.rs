//! Normals: against the host's gradients, and across faces.

use geom_kernels::isosurface::Map;

use super::Fixture;
use super::inputs::{Values, broken, noise, sphere};
use super::oracle::Oracle;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["isosurface", device(normals_are_those_of_the_gradient), device(normals_of_a_sphere),]
}

/// Of the numbers on both sides of a corner those that are there and finite.
fn gradient(values: &Values, at: [usize; 3]) -> [f64; 3] {
    std::array::from_fn(|axis| {
        let beside = |step: usize| {
            let mut beside = at;
            beside[axis] = beside[axis].wrapping_add(step);
            let there = values.contains(beside).then(|| values.at(beside));
            there.filter(|x| x.is_finite()).map(f64::from)
        };
        let own = f64::from(values.at(at));
        match (beside(usize::MAX), beside(1)) {
            (Some(low), Some(high)) => (high - low) / 2.0,
            (Some(low), None) => own - low,
            (None, Some(high)) => high - own,
            (None, None) => 0.0,
        }
    })
}

fn normals_are_those_of_the_gradient(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(920);
    let dims = [6, 5, 34];
    // A rotation with a scale for each axis and a shear, and one that mirrors.
    let sheared = [[0.0, 2.0, 0.3, 1.0], [-0.5, 0.0, 0.0, 2.0], [0.0, 0.0, 4.0, 3.0]];
    let maps = [
        Map::default(),
        Map::scaled([1e-3, 2e-3, 5.0], [0.0; 3])?,
        Map::scaled([1.0, -3.0, 1.0], [0.0; 3])?,
        Map::from_rows(sheared)?,
    ];
    for map in maps {
        for values in [noise(&mut rng, dims), broken(&mut rng, dims, 9)] {
            let found = fixture.extract(&values, map, 0.0)?;
            let oracle = Oracle::new(&values, 0.0);
            ensure_eq!(found.normals.len(), oracle.edges.len());
            ensure!(found.normals.len() > 100);
            let [a, b, c] = map.rows();
            for (edge, normal) in oracle.edges.iter().zip(&found.normals) {
                let t = oracle.position(*edge).1;
                let mut end = edge.0;
                end[edge.1] += 1;
                let (from, to) = (gradient(&values, edge.0), gradient(&values, end));
                let g: [f64; 3] = std::array::from_fn(|i| from[i] + t * (to[i] - from[i]));
                // The world's gradient w is what the map's columns have these products with.
                let n = normal.map(f64::from);
                let back: [f64; 3] =
                    std::array::from_fn(|i| n[0] * a[i] + n[1] * b[i] + n[2] * c[i]);
                let length = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
                ensure!((length(n) - 1.0).abs() < 1e-6, "{edge:?}: {normal:?}");
                let scale = length(back) / length(g);
                for i in 0..3 {
                    let off = (back[i] - scale * g[i]).abs();
                    ensure!(off < 1e-6 * length(back), "{edge:?}: {back:?}, {g:?}");
                }
            }
        }
    }
    // No gradient at all: zero. (Differences of the two sides cancel.)
    let odd = Values::from_fn([4, 4, 4], |[x, y, z]| if (x + y + z) % 2 == 0 { -1.0 } else { 1.0 });
    let found = fixture.extract(&odd, Map::default(), 0.0)?;
    let inner = |p: &[f32; 3]| p.iter().all(|x| *x >= 1.0 && *x <= 2.0);
    let pairs = found.mesh.points.iter().zip(&found.normals).filter(|(p, _)| inner(p));
    ensure!(pairs.clone().count() > 0 && pairs.into_iter().all(|(_, n)| *n == [0.0; 3]));
    Ok(())
}

fn normals_of_a_sphere(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let center = [11.3, 11.8, 12.1];
    let ball = sphere([24, 24, 25], center, 9.0);
    for mirror in [1.0, -1.0] {
        let map = Map::scaled([mirror, 1.0, 1.0], [0.0; 3])?;
        let found = fixture.extract(&ball, map, 0.0)?;
        let out = |p: [f32; 3]| -> [f64; 3] {
            let center = [mirror * center[0], center[1], center[2]];
            std::array::from_fn(|i| (f64::from(p[i]) - center[i]) / 9.0)
        };
        let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        for (point, normal) in found.mesh.points.iter().zip(&found.normals) {
            ensure!(dot(out(*point), normal.map(f64::from)) > 0.995, "{point:?}: {normal:?}");
        }
        // Faces agree with the normals of their vertices.
        let normals = found.mesh.vertex_normals();
        let pairs = normals.iter().zip(&found.normals);
        for (face, normal) in pairs {
            ensure!(dot(face.map(f64::from), normal.map(f64::from)) > 0.8, "{face:?}: {normal:?}");
        }
    }
    Ok(())
}
