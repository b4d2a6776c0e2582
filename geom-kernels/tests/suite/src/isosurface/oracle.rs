//! What a surface must be, by going through every edge, every cell and every face of the lattice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use geom_kernels::isosurface::Map;
use geom_kernels::mesh::TriangleMesh;

use super::generator::{self, ends, step};
use super::inputs::Values;
use test_harness::{Failure, TestResult, ensure, ensure_eq};

type At = [usize; 3];

/// An edge of the lattice: where it begins, and its axis.
type LatticeEdge = (At, usize);

/// The vertices by their edges, in their order.
pub(super) struct Oracle<'a> {
    values: &'a Values,
    iso: f32,
    /// The indices of the first number.
    pub(super) origin: [i32; 3],
    pub(super) edges: Vec<LatticeEdge>,
    numbers: HashMap<LatticeEdge, u32>,
}

fn next(at: At, axis: usize) -> At {
    let mut next = at;
    next[axis] += 1;
    next
}

fn corner(cell: At, corner: usize) -> At {
    std::array::from_fn(|axis| cell[axis] + usize::from(corner & step(axis) != 0))
}

impl<'a> Oracle<'a> {
    pub(super) fn new(values: &'a Values, iso: f32) -> Self {
        let (edges, numbers) = (Vec::new(), HashMap::new());
        let mut this = Self { values, iso, origin: [0; 3], edges, numbers };
        let [nx, ny, nz] = values.dims;
        if nx < 2 || ny < 2 || nz < 2 {
            return this;
        }
        // Words of 32 along z; in each axis by axis.
        for (x, y) in (0..nx).flat_map(|x| (0..ny).map(move |y| (x, y))) {
            for word in (0..nz).step_by(32) {
                for axis in 0..3 {
                    for z in word..nz.min(word + 32) {
                        this.add(([x, y, z], axis));
                    }
                }
            }
        }
        this
    }

    fn add(&mut self, edge: LatticeEdge) {
        let end = next(edge.0, edge.1);
        if !self.values.contains(end) {
            return;
        }
        let [a, b] = [edge.0, end].map(|at| self.values.at(at));
        if a.is_finite() && b.is_finite() && (a < self.iso) != (b < self.iso) {
            self.numbers.insert(edge, self.edges.len() as u32);
            self.edges.push(edge);
        }
    }

    fn is_inside(&self, at: At) -> bool {
        self.values.at(at) < self.iso
    }

    fn cells(&self) -> impl Iterator<Item = At> + '_ {
        let [nx, ny, nz] = self.values.dims.map(|n| n.saturating_sub(1));
        (0..nx * ny * nz).map(move |i| [i / (ny * nz), i / nz % ny, i % nz])
    }

    fn is_known(&self, cell: At) -> bool {
        (0..8).all(|c| self.values.at(corner(cell, c)).is_finite())
    }

    /// Where a vertex lies in the field's indices, as far as f64 goes.
    pub(super) fn position(&self, (at, axis): LatticeEdge) -> ([f64; 3], f64) {
        let [a, b] = [at, next(at, axis)].map(|at| f64::from(self.values.at(at)));
        let t = (f64::from(self.iso) - a) / (b - a);
        let mut position: [f64; 3] =
            std::array::from_fn(|i| at[i] as f64 + f64::from(self.origin[i]));
        position[axis] += t;
        (position, t)
    }

    /// Bit for bit.
    pub(super) fn mesh(&self, map: &Map) -> TriangleMesh {
        let rows = map.rows();
        let mirrored = determinant(&rows) < 0.0;
        let place = |edge: &LatticeEdge| {
            let ([x, y, z], _) = self.position(*edge);
            rows.map(|[a, b, c, d]| c.mul_add(z, b.mul_add(y, a.mul_add(x, d))) as f32)
        };
        let triangles = generator::all_triangles();
        let mut faces = Vec::new();
        for cell in self.cells().filter(|cell| self.is_known(*cell)) {
            let case = (0..8).filter(|c| self.is_inside(corner(cell, *c)));
            let case = case.fold(0, |case, c| case | 1u8 << c);
            for triangle in triangles[usize::from(case)].iter().flatten() {
                let [a, b, c] = triangle.map(|edge| {
                    let edge = (corner(cell, ends(edge)[0]), usize::from(edge) / 4);
                    self.numbers.get(&edge).copied().unwrap_or(u32::MAX)
                });
                faces.push(if mirrored { [a, c, b] } else { [a, b, c] });
            }
        }
        TriangleMesh { points: self.edges.iter().map(place).collect(), faces }
    }

    /// Without the table: what faces must be for the surface to have no holes and to lie between the numbers.
    /// `faces` are those of a map that does not mirror.
    pub(super) fn check_faces(&self, faces: &[[u32; 3]]) -> TestResult {
        // Every directed edge once, and which pairs of vertices lie on one face of the lattice.
        let mut directed = BTreeSet::new();
        for face in faces {
            ensure!(face.iter().all(|v| (*v as usize) < self.edges.len()), "{face:?}");
            ensure!(face[0] != face[1] && face[1] != face[2] && face[2] != face[0], "{face:?}");
            let all = face.map(|vertex| self.cells_of(self.edges[vertex as usize]));
            let common = all[0].intersection(&all[1]).find(|cell| all[2].contains(*cell));
            ensure!(common.is_some_and(|cell| self.is_known(*cell)), "{face:?} is of no cell");
            for (from, to) in [(face[0], face[1]), (face[1], face[2]), (face[2], face[0])] {
                ensure!(directed.insert((from, to)), "{from} to {to} twice");
            }
        }
        // On faces of the lattice lie exactly the segments that their corners ask for, one way for each cell.
        let mut wanted = BTreeMap::new();
        for cell in self.cells().filter(|cell| self.is_known(*cell)) {
            for axis in 0..3 {
                for side in 0..2 {
                    for segment in self.segments(cell, axis, side)? {
                        *wanted.entry(segment).or_insert(0) += 1;
                    }
                }
            }
        }
        for (segment, times) in &wanted {
            ensure_eq!(*times, 1, "{segment:?}");
            ensure!(directed.contains(segment), "{segment:?} is missing");
        }
        // All others are inside of a cell, where both of its faces are.
        for (from, to) in directed.iter().filter(|edge| !wanted.contains_key(edge)) {
            ensure!(directed.contains(&(*to, *from)), "{from} to {to} is open");
            let cells = self.cells_of(self.edges[*from as usize]);
            let shared = cells.intersection(&self.cells_of(self.edges[*to as usize])).count();
            ensure_eq!(shared, 1, "{from} to {to} lies on a face of the lattice");
        }
        Ok(())
    }

    /// The cells around an edge.
    fn cells_of(&self, (at, axis): LatticeEdge) -> BTreeSet<At> {
        let (u, v) = ((axis + 1) % 3, (axis + 2) % 3);
        let mut cells = BTreeSet::new();
        for (du, dv) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let mut cell = at;
            cell[u] = cell[u].wrapping_sub(du);
            cell[v] = cell[v].wrapping_sub(dv);
            if cell.iter().zip(self.values.dims).all(|(x, n)| *x < n - 1) {
                cells.insert(cell);
            }
        }
        cells
    }

    /// The surface on one face of a cell: around each corner inside whose neighbours are both outside; beside
    /// two corners inside that are neighbours; around a corner outside whose neighbours are both inside, if the
    /// one across is inside too. Corners inside lie to the right of it, seen from outside the cell.
    fn segments(&self, cell: At, axis: usize, side: usize) -> Result<Vec<(u32, u32)>, Failure> {
        let (u, v) = ((axis + 1) % 3, (axis + 2) % 3);
        let mut origin = cell;
        origin[axis] += side;
        // Counter-clockwise around +axis; the other way for the lower side.
        let mut corners = [origin, next(origin, u), next(next(origin, u), v), next(origin, v)];
        if side == 0 {
            corners.swap(1, 3);
        }
        let inside = corners.map(|at| self.is_inside(at));
        let number = |i: usize| {
            let [a, b] = [corners[i % 4], corners[(i + 1) % 4]];
            let axis = (0..3).find(|axis| a[*axis] != b[*axis]).unwrap_or(0);
            let edge = (a.min(b), axis);
            let found = self.numbers.get(&edge).copied();
            found.ok_or_else(|| Failure::new(format!("no vertex on {edge:?}")))
        };
        let mut segments = Vec::new();
        for i in 0..4 {
            let [before, own, after, across] = [3, 0, 1, 2].map(|j| inside[(i + j) % 4]);
            match (before, own, after, across) {
                // From the edge before corner i to the one after it.
                (false, true, false, _) => segments.push((number(i + 3)?, number(i)?)),
                // Corners i and i + 1.
                (false, true, true, false) => segments.push((number(i + 3)?, number(i + 1)?)),
                // All but corner i: from the edge behind it to the one before it.
                (true, false, true, true) => segments.push((number(i)?, number(i + 3)?)),
                _ => {}
            }
        }
        Ok(segments)
    }
}

pub(super) fn determinant(rows: &[[f64; 4]; 3]) -> f64 {
    let [a, b, c] = rows;
    a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0])
}
