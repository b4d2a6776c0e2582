//! Positions, attributes and normals.

use super::differences::{OF_F32, OF_F64, Skipped, gradients, near};
use super::{MESH_SOURCE, both, count, point, row, single};
use geom_oracle::linear::{add, cross, dot, length, normalize, scale, sub};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "adjoints",
        device(positions_and_attributes),
        device(normals_of_faces),
        device(normals_of_vertices),
        device(normals_of_nothing_have_subgradient_zero),
    ]
}

/// Compares f32 with f64, and that with differences of a function of the first numbers of each row.
fn check<const N: usize, const R: usize>(
    device: &TestDevice,
    kernel: &str,
    rows: &[[f64; N]],
    variables: usize,
    h: f64,
    losses: impl Fn(&[f64], &[f64]) -> [f64; 2],
) -> TestResult {
    let [wide, narrow] = both::<N, R>(device, MESH_SOURCE, kernel, rows)?;
    let mut skipped = Skipped::default();
    for (row, (wide, narrow)) in rows.iter().zip(wide.iter().zip(&narrow)) {
        let (x, g) = row.split_at(variables);
        let wanted = skipped.count(gradients(x, h, |x| Some(losses(x, g))));
        let Some(wanted) = wanted else { continue };
        for (k, wanted) in wanted.iter().enumerate().take(R / variables) {
            let part = variables * k..variables * (k + 1);
            let failed = |e: Failure| Failure::new(format!("{row:?}: {e}"));
            near(&narrow[part.clone()], &wide[part.clone()], OF_F32).map_err(failed)?;
            near(&wide[part], wanted, OF_F64).map_err(failed)?;
        }
    }
    ensure_eq!(skipped.skipped, 0);
    Ok(())
}

fn points(x: &[f64]) -> Vec<[f64; 3]> {
    x.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect()
}

fn positions_and_attributes(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1120);
    let rows: Vec<[f64; 14]> = (0..count(2_000))
        .map(|_| row(&[&[0; 5].map(|_: i32| point(&mut rng)).as_flattened()[..14]]))
        .collect();
    check::<14, 22>(device, "position_at", &rows, 11, 1e-3, |x, g| {
        let (p, u, v) = (points(&x[..9]), x[9], x[10]);
        let sum = add(add(scale(p[0], 1.0 - u - v), scale(p[1], u)), scale(p[2], v));
        [dot(&sum, g); 2]
    })
}

fn normals_of_faces(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1121);
    let mut rows: Vec<[f64; 12]> = Vec::new();
    while rows.len() < count(3_000) {
        let p = [0; 4].map(|_: i32| point(&mut rng));
        if length(&cross(sub(p[1], p[0]), sub(p[2], p[0]))) > 0.1 {
            rows.push(row(&[p.as_flattened()]));
        }
    }
    check::<12, 18>(device, "normal", &rows, 9, 2e-5, |x, g| {
        let p = points(x);
        let area = cross(sub(p[1], p[0]), sub(p[2], p[0]));
        [dot(&normalize(area), g), dot(&area, g)]
    })
}

/// The unit sum of the normals of the fan around a vertex, by angles from their cosines.
fn fan_normal(p: &[[f64; 3]]) -> [f64; 3] {
    let sum = (0..5).fold([0.0; 3], |sum, i| {
        let (ab, ac) = (sub(p[1 + i], p[0]), sub(p[1 + (i + 1) % 5], p[0]));
        let angle = dot(&normalize(ab), &normalize(ac)).acos();
        add(sum, scale(normalize(cross(ab, ac)), angle))
    });
    normalize(sum)
}

fn normals_of_vertices(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1122);
    let rows: Vec<[f64; 21]> = (0..count(2_000))
        .map(|_| {
            let at = scale(point(&mut rng), 0.2);
            let around: [[f64; 3]; 5] = std::array::from_fn(|i| {
                let angle = std::f64::consts::TAU * (i as f64 + 0.2 * f64::from(rng.float())) / 5.0;
                let p = [angle.cos(), angle.sin(), 0.0];
                add(p, scale(point(&mut rng), 0.3)).map(single)
            });
            row(&[&at.map(single), around.as_flattened(), &point(&mut rng)])
        })
        .collect();
    check::<21, 18>(device, "vertex_normal", &rows, 18, 2e-4, |x, g| {
        [dot(&fan_normal(&points(x)), g); 2]
    })
}

/// Faces without area, and fans that fold back on themselves.
fn normals_of_nothing_have_subgradient_zero(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1123);
    let mut faces: Vec<[f64; 12]> = Vec::new();
    let mut fans: Vec<[f64; 21]> = Vec::new();
    for i in 0..count(200) {
        let quarter = |_: i32| [0; 3].map(|_: i32| rng.below(64) as f64 / 4.0);
        let [a, b, c] = [0; 3].map(quarter);
        let third = if i % 2 == 0 { b } else { add(b, sub(b, a)) };
        let g = point(&mut rng);
        faces.push(row(&[&a, &b, &third, &g]));
        // There and back: the normals cancel but for nothing.
        fans.push(row(&[&a, &b, &c, &b, &c, &b, &g]));
        fans.push(row(&[&a, &b, &b, &b, &b, &b, &g]));
    }
    for all in both::<12, 18>(device, MESH_SOURCE, "normal", &faces)? {
        for got in all {
            ensure_eq!(&got[..9], &[0.0; 9]);
        }
    }
    for all in both::<21, 18>(device, MESH_SOURCE, "vertex_normal", &fans)? {
        for (got, fan) in all.iter().zip(&fans) {
            ensure_eq!(*got, [0.0; 18], "{fan:?}");
        }
    }
    Ok(())
}
