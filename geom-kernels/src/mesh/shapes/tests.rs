//! Tests of shapes: closed, oriented outwards, of the right genus and size.

use std::collections::HashMap;
use std::f64::consts::{PI, TAU};

use super::noise::split_mix;
use super::*;
use crate::mesh::host::{length, sub};

/// Checks that every directed edge occurs once, and its reverse once (or never, at a border), and that all indices
/// are in range. Returns the Euler characteristic, and the number of border edges.
fn topology(mesh: &TriangleMesh) -> (i64, usize) {
    let mut edges: HashMap<(u32, u32), u32> = HashMap::new();
    let mut used = vec![false; mesh.points.len()];
    for face in &mesh.faces {
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            used[face[from] as usize] = true;
            *edges.entry((face[from], face[to])).or_default() += 1;
        }
    }
    assert!(used.iter().all(|used| *used), "points without faces");
    assert!(edges.values().all(|count| *count == 1), "edges that two faces go along the same way");
    assert!(edges.keys().all(|(from, to)| from != to));
    let border = edges.keys().filter(|(from, to)| !edges.contains_key(&(*to, *from))).count();
    let undirected = (edges.len() + border) / 2;
    (mesh.points.len() as i64 - undirected as i64 + mesh.faces.len() as i64, border)
}

fn is_within(value: f64, wanted: f64, part: f64) -> bool {
    (value - wanted).abs() <= wanted * part
}

#[test]
fn spheres_are_spheres() -> Result<()> {
    for subdivisions in 0..6 {
        let mesh = icosphere(subdivisions, 1.5)?;
        assert_eq!(mesh.faces.len(), 20 << (2 * subdivisions));
        assert_eq!(mesh.points.len(), (10 << (2 * subdivisions)) + 2);
        assert_eq!(topology(&mesh), (2, 0));
        for point in &mesh.points {
            let distance = point.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            assert!((distance - 1.5).abs() < 2e-7, "{point:?}");
        }
    }
    let mesh = icosphere(5, 1.5)?;
    let volume = 4.0 / 3.0 * PI * 1.5_f64.powi(3);
    assert!(mesh.volume() < volume && is_within(mesh.volume(), volume, 2e-3));
    assert!(is_within(mesh.area(), 4.0 * PI * 2.25, 2e-3));
    // The known volume is 5/12 (3 + √5) a³, where a = 1 / sin 72° at radius 1 is 1.0514622242382672.
    let known = 5.0 / 12.0 * (3.0 + 5.0_f64.sqrt()) * 1.051_462_224_238_267_2_f64.powi(3);
    assert!(is_within(icosphere(0, 1.0)?.volume(), known, 1e-6));
    Ok(())
}

#[test]
fn tori_have_a_hole() -> Result<()> {
    for (segments, sides) in [(3, 3), (3, 7), (32, 33), (256, 128)] {
        let mesh = torus(2.0, 0.5, segments, sides)?;
        assert_eq!(mesh.points.len(), (segments * sides) as usize);
        assert_eq!(topology(&mesh), (0, 0));
        assert!(mesh.volume() > 0.0);
    }
    let mesh = torus(2.0, 0.5, 256, 128)?;
    assert!(is_within(mesh.volume(), 2.0 * PI * PI * 2.0 * 0.25, 1e-3));
    let upper = mesh.bounds().map(|bounds| bounds.upper);
    assert_eq!(upper, Some([2.5, 2.5, 0.5]));
    Ok(())
}

#[test]
fn boxes_and_planes_are_what_they_say() -> Result<()> {
    for size in [[1.0, 1.0, 1.0], [0.5, 2.0, 3.0]] {
        let mesh = cuboid(size)?;
        assert_eq!(topology(&mesh), (2, 0));
        let [x, y, z] = size.map(f64::from);
        assert!(is_within(mesh.volume(), x * y * z, 1e-12));
        assert!(is_within(mesh.area(), 2.0 * (x * y + y * z + z * x), 1e-12));
    }
    assert_eq!(cube(2.0)?, cuboid([2.0; 3])?);
    for cells in [[1, 1], [3, 1], [31, 32]] {
        let mesh = plane([2.0, 1.0], cells)?;
        assert_eq!(topology(&mesh), (1, 2 * (cells[0] + cells[1]) as usize));
        assert!(is_within(mesh.area(), 2.0, 1e-6));
        assert!(mesh.vertex_normals().iter().all(|normal| *normal == [0.0, 0.0, 1.0]));
        let bounds = mesh.bounds().map(|bounds| (bounds.lower, bounds.upper));
        assert_eq!(bounds, Some(([-1.0, -0.5, 0.0], [1.0, 0.5, 0.0])));
    }
    Ok(())
}

#[test]
fn knots_are_closed_and_turned_outwards() -> Result<()> {
    for (along, around) in [(3, 3), (512, 64), (KNOT_ALONG, KNOT_AROUND)] {
        let mesh = knot(along, around)?;
        assert_eq!(mesh.points.len(), (along * around) as usize);
        assert_eq!(mesh.faces.len(), 2 * (along * around) as usize);
        assert_eq!(topology(&mesh), (0, 0));
    }
    let mesh = knot(KNOT_ALONG, KNOT_AROUND)?;
    assert_eq!(mesh.faces[0], [0, 257, 256]);
    assert_eq!(mesh.faces[1], [0, 1, 257]);
    // The volume of a tube is the length of its line times its cross-section (Pappus): the mean of r² is 0.35² (1 +
    // 0.05² / 4).
    let steps = 100_000;
    let at = |i: i32| {
        let u = TAU * f64::from(i) / f64::from(steps);
        let out = (3.0 * u).cos() + 2.0;
        [out * (2.0 * u).cos(), out * (2.0 * u).sin(), -(3.0 * u).sin()]
    };
    let line: f64 = (0..steps).map(|i| length(sub(at(i + 1), at(i)))).sum();
    let tube = line * PI * 0.35_f64.powi(2) * (1.0 + 0.05_f64.powi(2) / 4.0);
    assert!(is_within(mesh.volume(), tube, 2e-3), "{} {tube}", mesh.volume());
    // The first point is known: c = (3, 0, 0), the line goes towards (0, 6, -3), and n points away from the origin.
    assert!((mesh.points[0][0] - 3.35).abs() < 1e-3, "{:?}", mesh.points[0]);
    Ok(())
}

#[test]
fn noise_is_smooth_seeded_and_zero_at_whole_numbers() {
    let noise = Noise::new(1);
    let mut state = 5;
    let mut random = || split_mix(&mut state) as f64 / u64::MAX as f64 * 600.0 - 300.0;
    let (mut least, mut most, mut differ) = (0.0_f64, 0.0_f64, 0);
    let other = Noise::new(2);
    for _ in 0..20_000 {
        let point = [random(), random(), random()];
        let value = noise.at(point);
        assert_eq!(value.to_bits(), Noise::at(&noise.clone(), point).to_bits());
        assert_eq!(noise.at(point.map(f64::round)), 0.0);
        // No gradient is longer than 1.5 times the gradient of the steepest corner.
        let near = noise.at([point[0] + 1e-6, point[1], point[2]]);
        assert!((near - value).abs() < 5e-6, "{point:?}");
        assert!((noise.at([point[0] + 256.0, point[1], point[2] - 512.0]) - value).abs() < 1e-9);
        (least, most) = (least.min(value), most.max(value));
        differ += i32::from(other.at(point) != value);
    }
    assert!(least < -0.6 && most > 0.6 && least >= -1.1 && most <= 1.1, "{least} {most}");
    assert!(differ > 19_000);
    assert!(noise.at([f64::NAN, 0.0, 0.0]).is_nan());
    assert_eq!(noise.at([1e300, -1e300, 0.0]), 0.0);
    let mut seen = [false; 256];
    (0..=255).for_each(|i| seen[usize::from(noise.permuted(i))] = true);
    assert!(seen.iter().all(|seen| *seen), "a permutation");
}

#[test]
fn displaced_meshes_stay_closed() -> Result<()> {
    let smooth = icosphere(4, 1.0)?;
    let mut mesh = smooth.clone();
    mesh.displace(&Noise::new(3), 0.1, 2.5)?;
    assert_eq!(topology(&mesh), (2, 0));
    let moved = smooth.points.iter().zip(&mesh.points).map(|(a, b)| {
        let way = sub(b.map(f64::from), a.map(f64::from));
        length(way)
    });
    let most = moved.fold(0.0, f64::max);
    assert!(most > 0.04 && most < 0.11, "{most}");
    let mut again = smooth.clone();
    again.displace(&Noise::new(3), 0.1, 2.5)?;
    assert_eq!(mesh, again);
    again.displace(&Noise::new(4), 0.0, 2.5)?;
    assert_eq!(mesh, again);
    assert!(again.displace(&Noise::new(3), f32::NAN, 1.0).is_err());
    assert!(again.displace(&Noise::new(3), 1.0, f32::INFINITY).is_err());
    assert_eq!(mesh, again);
    Ok(())
}

#[test]
fn what_makes_no_shape_is_refused() {
    for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(icosphere(1, bad).is_err());
        assert!(cuboid([1.0, bad, 1.0]).is_err());
        assert!(plane([bad, 1.0], [1, 1]).is_err());
        assert!(torus(bad, 0.1, 8, 8).is_err());
        assert!(torus(1.0, bad, 8, 8).is_err());
    }
    assert!(torus(1.0, 1.0, 8, 8).is_err());
    assert!(torus(1.0, 0.5, 2, 8).is_err());
    assert!(knot(8, 2).is_err());
    assert!(plane([1.0, 1.0], [0, 1]).is_err());
    // More points, or more faces, than a u32 can index.
    assert!(knot(65_536, 65_536).is_err());
    assert!(knot(65_536, 32_768).is_err());
    assert!(torus(1.0, 0.5, u32::MAX, u32::MAX).is_err());
    assert!(plane([1.0, 1.0], [u32::MAX, u32::MAX]).is_err());
    assert!(icosphere(14, 1.0).is_err());
    assert!(icosphere(u32::MAX, 1.0).is_err());
}
