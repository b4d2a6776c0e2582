//! The table of cases, without a device.

use super::generator::{
    Edge, Segment, ends, face, loops, packed, segments, share_a_face, step, triangles,
};
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "isosurface",
        host(the_devices_table_is_the_derived_one),
        host(neighbouring_cells_agree_on_their_face),
        host(triangles_are_bounded_by_segments),
        host(triangles_face_outwards),
    ]
}

fn cut(case: u8) -> Result<Vec<[Edge; 3]>, Failure> {
    triangles(case).ok_or_else(|| Failure::new(format!("case {case:08b} can't be cut")))
}

fn the_devices_table_is_the_derived_one() -> TestResult {
    let header = geom_kernels::headers()
        .iter()
        .find(|(name, _)| *name == "geom/isosurface/cases.cuh")
        .ok_or_else(|| Failure::new("there is no such header"))?;
    let table: Result<Vec<u64>, _> = header
        .1
        .split("0x")
        .skip(1)
        .map(|text| u64::from_str_radix(text.split("ull").next().unwrap_or(""), 16))
        .collect();
    let derived: Option<Vec<u64>> = (0..=255).map(packed).collect();
    let table = table.ok();
    ensure!(derived.is_some(), "every case has a word");
    ensure_eq!(table, derived);
    Ok(())
}

/// Both sides of a face, with any signs of the corners of both cells: what is a segment of one is one of the
/// other, the other way.
fn neighbouring_cells_agree_on_their_face() -> TestResult {
    let mut compared = 0;
    for (low, high) in (0..=255u8).flat_map(|low| (0..=255u8).map(move |high| (low, high))) {
        for axis in 0..3 {
            // The upper face of `low` is the lower face of `high`.
            let fits = |c: &usize| low >> (c + step(axis)) & 1 == high >> c & 1;
            if !(0..8).filter(|c| c & step(axis) == 0).all(|c| fits(&c)) {
                continue;
            }
            let moved = |edge: Edge| -> Result<Edge, Failure> {
                let wanted = ends(edge).map(|c| c - step(axis));
                let found = (0..12).find(|edge| ends(*edge) == wanted);
                found.ok_or_else(|| Failure::new("an edge that is not of the face"))
            };
            let turned: Result<Vec<Segment>, Failure> = segments(low, axis, 1)
                .into_iter()
                .map(|(from, to)| Ok((moved(to)?, moved(from)?)))
                .collect();
            let (mut turned, mut other) = (turned?, segments(high, axis, 0));
            turned.sort_unstable();
            other.sort_unstable();
            ensure_eq!(turned, other, "{low:08b} {high:08b} axis {axis}");
            compared += 1;
        }
    }
    // 2^12 pairs for each axis.
    ensure_eq!(compared, 3 << 12);
    Ok(())
}

/// Triangles have every crossed edge as a corner; of their edges, those that no other triangle runs the other way
/// are the segments; and no other lies on a face of the cell.
fn triangles_are_bounded_by_segments() -> TestResult {
    for case in 0..=255u8 {
        let crossed = |edge: &Edge| {
            let [a, b] = ends(*edge).map(|corner| case >> corner & 1);
            a != b
        };
        let triangles = cut(case)?;
        ensure!(triangles.len() <= 5, "{case:08b}");
        let mut used: Vec<Edge> = triangles.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        ensure_eq!(used, (0..12).filter(crossed).collect::<Vec<_>>(), "{case:08b}");

        let mut edges: Vec<Segment> = Vec::new();
        for [a, b, c] in &triangles {
            edges.extend([(*a, *b), (*b, *c), (*c, *a)]);
        }
        edges.sort_unstable();
        let n = edges.len();
        edges.dedup();
        ensure_eq!(edges.len(), n, "{case:08b}: an edge twice");
        let (inner, mut border): (Vec<Segment>, Vec<Segment>) =
            edges.iter().partition(|(a, b)| edges.contains(&(*b, *a)));
        ensure!(inner.iter().all(|(a, b)| !share_a_face(*a, *b)), "{case:08b}");
        border.sort_unstable();
        let faces = (0..3).flat_map(|axis| [(axis, 0), (axis, 1)]);
        let mut wanted: Vec<Segment> =
            faces.flat_map(|(axis, side)| segments(case, axis, side)).collect();
        wanted.sort_unstable();
        ensure_eq!(border, wanted, "{case:08b}");
        // A loop of n edges has n - 2 triangles.
        let sum: usize = loops(case).iter().map(|one| one.len() - 2).sum();
        ensure_eq!(triangles.len(), sum, "{case:08b}");
    }
    Ok(())
}

/// A corner alone is cut off by a triangle that it is behind; a segment has the corners inside to its right.
fn triangles_face_outwards() -> TestResult {
    let at = |corner: usize| -> [i32; 3] {
        std::array::from_fn(|axis| i32::from(corner & step(axis) != 0))
    };
    let middle = |edge: Edge| -> [i32; 3] {
        let [a, b] = ends(edge).map(at);
        std::array::from_fn(|i| a[i] + b[i])
    };
    let sub = |a: [i32; 3], b: [i32; 3]| -> [i32; 3] { std::array::from_fn(|i| a[i] - b[i]) };
    let cross = |a: [i32; 3], b: [i32; 3]| {
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    };
    let dot = |a: [i32; 3], b: [i32; 3]| -> i32 { (0..3).map(|i| a[i] * b[i]).sum() };
    for corner in 0..8 {
        let [[a, b, c]] = cut(1 << corner)?[..] else {
            return Err(Failure::new("one triangle"));
        };
        let [a, b, c] = [a, b, c].map(middle);
        let normal = cross(sub(b, a), sub(c, a));
        ensure!(dot(normal, sub(a, at(corner).map(|x| 2 * x))) > 0, "{corner}");
    }
    for (axis, side) in (0..3).flat_map(|axis| [(axis, 0), (axis, 1)]) {
        // Counter-clockwise seen from outside.
        let [a, b, c, _] = face(axis, side).map(at);
        let out = cross(sub(b, a), sub(c, b));
        ensure_eq!(out[axis], if side == 1 { 1 } else { -1 });
        for case in 0..=255u8 {
            for (from, to) in segments(case, axis, side) {
                let along = sub(middle(to), middle(from));
                let ends = ends(from);
                let inside = ends.into_iter().find(|corner| case >> corner & 1 == 1);
                let inside = inside.ok_or_else(|| Failure::new("the edge is crossed"))?;
                let to_inside = sub(at(inside).map(|x| 2 * x), middle(from));
                ensure!(dot(cross(to_inside, along), out) > 0, "{case:08b}: {from} to {to}");
            }
        }
    }
    Ok(())
}
