//! Hits of rays: t, u and v.

use super::differences::{OF_F32, OF_F64, Skipped, gradients, near};
use super::{MESH_SOURCE, both, count, point, row, single};
use geom_oracle::linear::{cross, dot, length, scale, sub};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["adjoints", device(hits_of_rays), device(rays_along_the_plane_have_subgradient_zero),]
}

/// t, u, v, by Cramer's rule, and how the ray's direction leans on the plane. None outside of the face.
fn hit(x: &[f64]) -> Option<([f64; 3], f64)> {
    let p = |i: usize| [x[3 * i], x[3 * i + 1], x[3 * i + 2]];
    let [a, b, c, o, d] = std::array::from_fn(p);
    let (ab, ac, ao) = (sub(b, a), sub(c, a), sub(o, a));
    let det = |x: [f64; 3], y: [f64; 3], z: [f64; 3]| dot(&x, &cross(y, z));
    // ao = u ab + v ac - t d
    let all = det(ab, ac, scale(d, -1.0));
    let minus = scale(d, -1.0);
    let [u, v, t] = [det(ao, ac, minus), det(ab, ao, minus), det(ab, ac, ao)].map(|x| x / all);
    let lean = all.abs() / (length(&cross(ab, ac)) * length(&d));
    (u > 0.0 && v > 0.0 && u + v < 1.0).then_some(([t, u, v], lean))
}

fn hits_of_rays(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1110);
    let mut rows = Vec::new();
    while rows.len() < count(6_000) {
        let corners = [0; 3].map(|_: i32| point(&mut rng));
        let (u, v) = (f64::from(rng.float()).abs(), f64::from(rng.float()).abs());
        let [a, b, c] = corners;
        let on: [f64; 3] = std::array::from_fn(|i| a[i] + u * (b[i] - a[i]) + v * (c[i] - a[i]));
        let o = point(&mut rng).map(|x| 2.0 * x);
        // Not unit, and aimed at the point but for a rounding.
        let size = 0.3 + f64::from(rng.float()).abs();
        let d = sub(on, o).map(|x| single(x * size));
        let area = length(&cross(sub(b, a), sub(c, a)));
        let x: [f64; 15] = row(&[corners.as_flattened(), &o, &d]);
        if area > 0.1 && length(&d) > 0.1 && hit(&x).is_some_and(|(_, lean)| lean > 0.05) {
            rows.push(row::<18>(&[&x, &point(&mut rng)]));
        }
    }
    let [wide, narrow] = both::<18, 15>(device, MESH_SOURCE, "ray_hit", &rows)?;
    let mut skipped = Skipped::default();
    for (row, (wide, narrow)) in rows.iter().zip(wide.iter().zip(&narrow)) {
        let failed = |e: Failure| Failure::new(format!("{row:?}: {e}"));
        near(narrow, wide, OF_F32).map_err(failed)?;
        let (x, g) = row.split_at(15);
        let lean = hit(x).map_or(0.0, |(_, lean)| lean);
        let loss = |x: &[f64]| hit(x).map(|(found, _)| [dot(&found, g)]);
        let Some([wanted]) = skipped.count(gradients(x, 5e-4 * lean.min(0.5), loss)) else {
            continue;
        };
        // The kernel has the ray first.
        let wanted: [f64; 15] = self::row(&[&wanted[9..], &wanted[..9]]);
        near(wide, &wanted, OF_F64).map_err(failed)?;
    }
    skipped.are_few()
}

fn rays_along_the_plane_have_subgradient_zero(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1111);
    let whole = |rng: &mut test_harness::Rng| [0; 3].map(|_: i32| rng.below(17) as f64 - 8.0);
    let mut rows = Vec::new();
    for i in 0..count(600) {
        let [a, b, c] = [0; 3].map(|_: i32| whole(&mut rng));
        let (ab, ac) = (sub(b, a), sub(c, a));
        let d = match i % 3 {
            // In the plane; along an edge; and none at all.
            0 => std::array::from_fn(|k| 2.0 * ab[k] - 3.0 * ac[k]),
            1 => ab,
            _ => [0.0; 3],
        };
        let o = whole(&mut rng);
        rows.push(row::<18>(&[&a, &b, &c, &o, &d, &point(&mut rng)]));
        // A face without area.
        let flat: [f64; 3] = std::array::from_fn(|k| a[k] + 2.0 * ab[k]);
        rows.push(row::<18>(&[&a, &b, &flat, &o, &c, &point(&mut rng)]));
    }
    for all in both::<18, 15>(device, MESH_SOURCE, "ray_hit", &rows)? {
        for (row, got) in rows.iter().zip(all) {
            ensure_eq!(got, [0.0; 15], "{row:?}");
        }
    }
    Ok(())
}
