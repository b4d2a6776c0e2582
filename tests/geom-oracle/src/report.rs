//! Reports of a mesh's defects.

use std::cmp::Ordering;

use rayon::prelude::*;

use crate::Mesh;
use crate::side::normal_along;

/// What is wrong with a mesh.
///
/// Edges are counted of faces that are not skipped and whose three indices differ. An edge is given by its
/// vertices, the lesser first, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many faces are skipped.
    pub skipped: usize,
    /// Faces without area that are not skipped, in ascending order: an index is repeated, or the vertices
    /// are exactly on a line.
    pub degenerate: Vec<u32>,
    /// Edges of one face.
    pub boundary_edges: Vec<[u32; 2]>,
    /// Edges of more than two faces.
    pub non_manifold_edges: Vec<[u32; 2]>,
    /// Edges of two faces that run along them in the same direction.
    pub inconsistent_edges: Vec<[u32; 2]>,
    /// Whether there are edges, and each is one of two faces that run along it in opposite directions.
    pub watertight: bool,
}

impl Mesh {
    /// What is wrong with the mesh.
    pub fn report(&self) -> Report {
        let mut report = Report { skipped: self.skipped(), ..Report::default() };
        // The vertices of each face's edges, the lesser first, and whether they were turned.
        let mut edges: Vec<([u32; 2], bool)> = Vec::new();
        for (triangle, face) in self.triangles.iter().zip(&self.faces) {
            let [a, b, c] = self.given[*face as usize];
            let repeats = a == b || b == c || c == a;
            if repeats || (0..3).all(|axis| normal_along(triangle, axis) == Ordering::Equal) {
                report.degenerate.push(*face);
            }
            if !repeats {
                edges.extend([(a, b), (b, c), (c, a)].map(|(p, q)| ([p.min(q), p.max(q)], p > q)));
            }
        }
        report.degenerate.sort_unstable();
        edges.par_sort_unstable();
        for uses in edges.chunk_by(|a, b| a.0 == b.0) {
            let list = match uses {
                [_] => &mut report.boundary_edges,
                [one, other] if one.1 != other.1 => continue,
                [_, _] => &mut report.inconsistent_edges,
                _ => &mut report.non_manifold_edges,
            };
            list.push(uses[0].0);
        }
        let wrong =
            [&report.boundary_edges, &report.inconsistent_edges, &report.non_manifold_edges];
        report.watertight = !edges.is_empty() && wrong.iter().all(|list| list.is_empty());
        report
    }
}

#[cfg(test)]
mod tests {
    use super::Report;
    use crate::Mesh;
    use crate::rng::sphere;

    #[test]
    fn closed_meshes_are_watertight() {
        let (points, mut faces) = sphere(2);
        let report = Mesh::new(&points, &faces).report();
        assert_eq!(report, Report { watertight: true, ..Report::default() });

        // A face with a repeated index changes nothing; one turned the other way does.
        let [a, b, c] = faces[0];
        faces.push([a, b, a]);
        let last = faces.len() as u32 - 1;
        let report = Mesh::new(&points, &faces).report();
        assert_eq!(
            report,
            Report { degenerate: vec![last], watertight: true, ..Report::default() }
        );

        let edges = |face: [u32; 3]| {
            let [a, b, c] = face;
            let mut edges = [[a, b], [b, c], [c, a]].map(|[p, q]| [p.min(q), p.max(q)]);
            edges.sort_unstable();
            edges.to_vec()
        };
        faces.pop();
        faces[0] = [a, c, b];
        let report = Mesh::new(&points, &faces).report();
        assert_eq!(report, Report { inconsistent_edges: edges(faces[0]), ..Report::default() });

        faces[0] = [a, b, u32::MAX];
        let report = Mesh::new(&points, &faces).report();
        let wanted = Report { skipped: 1, boundary_edges: edges([a, b, c]), ..Report::default() };
        assert_eq!(report, wanted);

        faces[0] = [a, b, c];
        faces.push([a, b, c]);
        let report = Mesh::new(&points, &faces).report();
        assert_eq!(report, Report { non_manifold_edges: edges([a, b, c]), ..Report::default() });
        assert!(!Mesh::new(&points, &[]).report().watertight);
    }

    #[test]
    fn areas_are_exact() {
        // On a line, and a unit in the last place off it.
        let points = [
            [1.0, 1.0, 1.0],
            [3.0, 5.0, 7.0],
            [2.0, 3.0, 4.0],
            [2.0, 3.0, 4.0f32.next_up()],
            [1.0, 1.0, 1.0],
        ];
        let report = Mesh::new(&points, &[[0, 1, 2], [0, 1, 3], [0, 1, 4], [1, 1, 1]]).report();
        assert_eq!(report.degenerate, [0, 2, 3]);
    }
}
