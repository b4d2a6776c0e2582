//! How the surface lies in a cell, for each of the 256 ways in which its corners may be inside: the table of
//! `geom/isosurface/cases.cuh`, derived.
//!
//! On each face of a cell the surface is a set of segments, which only the signs of the face's four corners
//! decide, so that the cells on both sides agree: going around the face, every run of corners inside is cut
//! off by one segment. (Where two corners inside lie across from each other, each is cut off alone. That is one
//! of the two fixed rules with which no holes arise: P. Ning, J. Bloomenthal, "An Evaluation of Implicit
//! Surface Tilers", 1993.) Segments join to closed loops on the cell's edges, and loops are cut into
//! triangles.
//!
//! Corner 4 dx + 2 dy + dz lies at (dx, dy, dz). Edge 4 a + k runs along axis a, from the k-th of the
//! corners whose coordinate on that axis is 0.

use std::sync::LazyLock;

/// An edge of a cell: 4 a + k.
pub(super) type Edge = u8;

/// A piece of the surface's border on a face of the cell: from one edge to another. The corners inside lie
/// to its right, seen from outside the cell.
pub(super) type Segment = (Edge, Edge);

/// What a corner's number has for a step along an axis.
pub(super) fn step(axis: usize) -> usize {
    4 >> axis
}

/// The two corners of an edge, the lower one first.
pub(super) fn ends(edge: Edge) -> [usize; 2] {
    let axis = usize::from(edge) / 4;
    let mut lower = (0..8).filter(|corner| corner & step(axis) == 0);
    let corner = lower.nth(usize::from(edge) % 4).unwrap_or(0);
    [corner, corner + step(axis)]
}

fn edge_between(a: usize, b: usize) -> Edge {
    let wanted = [a.min(b), a.max(b)];
    (0..12).find(|edge| ends(*edge) == wanted).unwrap_or(Edge::MAX)
}

/// The four corners of a face, counter-clockwise seen from outside the cell. `side`: 0 or 1 on its axis.
pub(super) fn face(axis: usize, side: usize) -> [usize; 4] {
    let (u, v) = (step((axis + 1) % 3), step((axis + 2) % 3));
    let origin = side * step(axis);
    let mut corners = [origin, origin + u, origin + u + v, origin + v];
    if side == 0 {
        corners.reverse();
    }
    corners
}

/// The surface on a face of a cell whose corners inside are the bits of `case`.
pub(super) fn segments(case: u8, axis: usize, side: usize) -> Vec<Segment> {
    let corners = face(axis, side);
    let inside = |place: usize| case >> corners[place % 4] & 1 == 1;
    let begins = (0..4).filter(|place| inside(place + 1) && !inside(*place));
    let segment = |before: usize| {
        let last = (before + 1..).take_while(|place| inside(*place)).last().unwrap_or(before);
        let edge = |place: usize| edge_between(corners[place % 4], corners[(place + 1) % 4]);
        (edge(before), edge(last))
    };
    begins.map(segment).collect()
}

/// The closed loops that the segments of all faces make, each from its least edge on, counter-clockwise seen
/// from the side of greater values.
pub(super) fn loops(case: u8) -> Vec<Vec<Edge>> {
    let mut next = [None; 12];
    for (axis, side) in (0..3).flat_map(|axis| [(axis, 0), (axis, 1)]) {
        for (from, to) in segments(case, axis, side) {
            next[usize::from(from)] = Some(to);
        }
    }
    let mut loops = Vec::new();
    for edge in 0..12 {
        let mut one = Vec::new();
        let mut at = edge;
        while let Some(to) = next[at].take() {
            one.push(at as Edge);
            at = usize::from(to);
        }
        if !one.is_empty() {
            loops.push(one);
        }
    }
    loops
}

/// Whether both edges belong to one face of the cell.
pub(super) fn share_a_face(a: Edge, b: Edge) -> bool {
    let all = ends(a).into_iter().chain(ends(b));
    let (ones, zeros) = all.fold((7, 7), |(ones, zeros), corner| (ones & corner, zeros & !corner));
    ones != 0 || zeros & 7 != 0
}

/// The middle of an edge, in half steps.
fn middle(edge: Edge) -> [i32; 3] {
    let [a, b] = ends(edge);
    std::array::from_fn(|axis| {
        [a, b].map(|corner| i32::from(corner & step(axis) != 0)).iter().sum()
    })
}

/// Four times the squared area over the square of the longest squared edge, with crossings in the middle.
fn quality(triangle: [Edge; 3]) -> f64 {
    let [a, b, c] = triangle.map(middle);
    let sub = |a: [i32; 3], b: [i32; 3]| -> [i32; 3] { std::array::from_fn(|i| a[i] - b[i]) };
    let squared = |a: [i32; 3]| -> i32 { a.iter().map(|x| x * x).sum() };
    let (u, v) = (sub(b, a), sub(c, a));
    let normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    let longest = [u, v, sub(c, b)].map(squared).into_iter().max().unwrap_or(1);
    f64::from(squared(normal)) / f64::from(longest * longest)
}

/// All ways to cut a polygon into triangles whose inner edges lie on no face of the cell: there another cell could
/// have the same edge.
fn triangulations(polygon: &[Edge]) -> Vec<Vec<[Edge; 3]>> {
    let [first, .., last] = *polygon else { return vec![vec![]] };
    if polygon.len() < 3 {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for middle in 1..polygon.len() - 1 {
        let tip = polygon[middle];
        let inner = [(middle > 1, first), (middle + 2 < polygon.len(), last)];
        if inner.iter().any(|(is_inner, end)| *is_inner && share_a_face(tip, *end)) {
            continue;
        }
        for left in triangulations(&polygon[..=middle]) {
            for right in triangulations(&polygon[middle..]) {
                all.push([&[[first, tip, last]], left.as_slice(), right.as_slice()].concat());
            }
        }
    }
    all
}

/// The triangles of all cases, derived once: a volume has thousands of cells.
pub(super) fn all_triangles() -> &'static [Option<Vec<[Edge; 3]>>] {
    static ALL: LazyLock<Vec<Option<Vec<[Edge; 3]>>>> =
        LazyLock::new(|| (0..=255).map(triangles).collect());
    &ALL
}

/// The triangles of a case: of each loop the way to cut it whose worst triangle is best, and the first of
/// those.
pub(super) fn triangles(case: u8) -> Option<Vec<[Edge; 3]>> {
    let worst = |triangles: &[[Edge; 3]]| triangles.iter().map(|t| quality(*t)).fold(9.0, f64::min);
    let best = |polygon: Vec<Edge>| {
        let all = triangulations(&polygon).into_iter();
        all.reduce(|best, other| if worst(&other) > worst(&best) { other } else { best })
    };
    let cut: Option<Vec<_>> = loops(case).into_iter().map(best).collect();
    Some(cut?.concat())
}

/// A case as the device has it: the edges of its triangles' corners, 4 bits each from the least significant on,
/// and in the uppermost 4 bits how many triangles there are.
pub(super) fn packed(case: u8) -> Option<u64> {
    let triangles = triangles(case)?;
    if triangles.len() > 5 {
        return None;
    }
    let corners = triangles.iter().flatten().enumerate();
    let edges = corners.fold(0, |word, (place, edge)| word | u64::from(*edge) << (4 * place));
    Some(edges | (triangles.len() as u64) << 60)
}
