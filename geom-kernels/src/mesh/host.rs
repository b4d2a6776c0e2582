//! Triangle meshes in host memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cuda_safe::{Error, Result};

use crate::Aabb;

/// A triangle mesh in host memory: points, and faces that name three points each.
///
/// Faces are counter-clockwise seen from outside, so the normal (b - a) × (c - a) of a face a, b, c points
/// outwards. This type requires neither that nor a closed mesh; functions that require it say so.
///
/// The fields are public, so an index may be out of range: methods do not panic then, but skip such faces or keep
/// them unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TriangleMesh {
    /// Positions.
    pub points: Vec<[f32; 3]>,
    /// The indices of three points for each face.
    pub faces: Vec<[u32; 3]>,
}

impl TriangleMesh {
    /// Returns the smallest box around all points whose coordinates are finite; none if there is no such point.
    #[must_use]
    pub fn bounds(&self) -> Option<Aabb<f32>> {
        let mut bounds: Option<Aabb<f32>> = None;
        for point in self.points.iter().filter(|point| point.iter().all(|x| x.is_finite())) {
            let Aabb { lower, upper } = bounds.get_or_insert(Aabb { lower: *point, upper: *point });
            for (axis, x) in point.iter().enumerate() {
                lower[axis] = lower[axis].min(*x);
                upper[axis] = upper[axis].max(*x);
            }
        }
        bounds
    }

    /// Returns the corners of a face as f64, if its indices are in range.
    fn corners(&self, face: [u32; 3]) -> Option<[[f64; 3]; 3]> {
        let [a, b, c] = face.map(|index| self.points.get(index as usize).map(|p| p.map(f64::from)));
        Some([a?, b?, c?])
    }

    /// Returns the signed volume, in f64. For a closed mesh it is the volume of the inside, and positive if faces are
    /// counter-clockwise seen from outside. For an open mesh it is the volume between the faces and the centre of their
    /// bounds. Faces with an index out of range are not counted.
    #[must_use]
    pub fn volume(&self) -> f64 {
        // The origin is in the middle, so that a mesh far away does not lose digits.
        let origin = self.bounds().map_or([0.0; 3], |Aabb { lower, upper }| {
            std::array::from_fn(|axis| (f64::from(lower[axis]) + f64::from(upper[axis])) * 0.5)
        });
        let corners = self.faces.iter().filter_map(|face| self.corners(*face));
        corners.map(|[a, b, c]| dot(sub(a, origin), cross(sub(b, a), sub(c, a)))).sum::<f64>() / 6.0
    }

    /// Returns the area of all faces, in f64. Faces with an index out of range count nothing.
    #[must_use]
    pub fn area(&self) -> f64 {
        let corners = self.faces.iter().filter_map(|face| self.corners(*face));
        corners.map(|[a, b, c]| length(cross(sub(b, a), sub(c, a)))).sum::<f64>() * 0.5
    }

    /// Adds the points and faces of another mesh after those of this one. Points are not merged, see
    /// [`weld`](Self::weld). An index that is out of range in `other` is out of range here.
    ///
    /// # Errors
    /// More points or faces than a `u32` can index. The mesh is then unchanged.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        let points = self.points.len() as u64 + other.points.len() as u64;
        let faces = self.faces.len() as u64 + other.faces.len() as u64;
        check_counts(points, faces)?;
        let offset = self.points.len() as u32;
        self.points.extend_from_slice(&other.points);
        // No point has the index u32::MAX, so an index that saturates there stays out of range.
        let moved = other.faces.iter().map(|face| face.map(|index| index.saturating_add(offset)));
        self.faces.extend(moved);
        Ok(())
    }

    /// Reverses the orientation of every face, which swaps inside and outside.
    pub fn flip(&mut self) {
        for [_, b, c] in &mut self.faces {
            std::mem::swap(b, c);
        }
    }

    /// Moves every point p to `rows` · (p, 1): the first three columns are a linear map, the last is a translation.
    /// Computed in f64 and rounded once. A map that mirrors also reverses the faces, so that they stay oriented
    /// outwards.
    pub fn transform(&mut self, rows: &[[f32; 4]; 3]) {
        let wide = rows.map(|row| row.map(f64::from));
        for point in &mut self.points {
            let [x, y, z] = point.map(f64::from);
            *point = wide.map(|[a, b, c, d]| (a * x + b * y + c * z + d) as f32);
        }
        let [a, b, c] = wide.map(|[x, y, z, _]| [x, y, z]);
        if dot(a, cross(b, c)) < 0.0 {
            self.flip();
        }
    }

    /// Moves every point by `shift`.
    pub fn translate(&mut self, shift: [f32; 3]) {
        for point in &mut self.points {
            *point = std::array::from_fn(|axis| point[axis] + shift[axis]);
        }
    }

    /// Multiplies the coordinates of each axis by its factor. If that mirrors, the faces are reversed, so that they
    /// stay oriented outwards.
    pub fn scale(&mut self, [x, y, z]: [f32; 3]) {
        self.transform(&[[x, 0.0, 0.0, 0.0], [0.0, y, 0.0, 0.0], [0.0, 0.0, z, 0.0]]);
    }

    /// Returns the normal of each point: the normalized sum of its faces' normals, weighted by their areas. Zero
    /// where there is no face, or where the faces have no area or cancel. Sums are in f64 and use no function whose
    /// last bits differ between platforms.
    #[must_use]
    pub fn vertex_normals(&self) -> Vec<[f32; 3]> {
        self.normals().iter().map(|normal| normal.map(|x| x as f32)).collect()
    }

    /// Returns [`vertex_normals`](Self::vertex_normals) before rounding.
    pub(crate) fn normals(&self) -> Vec<[f64; 3]> {
        let mut sums = vec![[0.0; 3]; self.points.len()];
        for face in &self.faces {
            let Some([a, b, c]) = self.corners(*face) else { continue };
            // The length of `normal` is twice the area.
            let normal = cross(sub(b, a), sub(c, a));
            for index in face {
                if let Some(sum) = sums.get_mut(*index as usize) {
                    *sum = add(*sum, normal);
                }
            }
        }
        sums.into_iter().map(|sum| normalize(sum).unwrap_or_default()).collect()
    }

    /// Merges points of the same position into the first of them: positions whose bits are equal, where -0 is 0. The
    /// rest stays unchanged: the order of points, points without faces, faces without area, indices out of range.
    pub fn weld(&mut self) {
        let mut firsts: HashMap<[u32; 3], u32> = HashMap::with_capacity(self.points.len());
        let mut kept: u32 = 0;
        let mut places = Vec::with_capacity(self.points.len());
        self.points.retain(|point| {
            // The sum turns -0 into 0, and leaves other numbers unchanged.
            match firsts.entry(point.map(|x| (x + 0.0).to_bits())) {
                Entry::Occupied(first) => {
                    places.push(*first.get());
                    false
                }
                Entry::Vacant(entry) => {
                    places.push(*entry.insert(kept));
                    kept = kept.saturating_add(1);
                    true
                }
            }
        });
        for index in self.faces.as_flattened_mut() {
            if let Some(place) = places.get(*index as usize) {
                *index = *place;
            }
        }
    }
}

/// Checks the numbers of points and faces: no index may be u32::MAX, which means "none".
pub(crate) fn check_counts(points: u64, faces: u64) -> Result<()> {
    let most = u64::from(u32::MAX);
    if points > most || faces > most {
        return Err(Error::invalid(format!(
            "a mesh of {points} points and {faces} faces; at most 2^32 - 1 of each are possible"
        )));
    }
    Ok(())
}

pub(crate) fn add(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|axis| a[axis] + b[axis])
}

pub(crate) fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

pub(crate) fn scaled(a: [f64; 3], factor: f64) -> [f64; 3] {
    a.map(|x| x * factor)
}

pub(crate) fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(crate) fn length(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

/// Returns the unit vector; `None` if the vector has no direction: its square is zero or not finite.
pub(crate) fn normalize(a: [f64; 3]) -> Option<[f64; 3]> {
    let length = length(a);
    (length > 0.0 && length.is_finite()).then(|| a.map(|x| x / length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::shapes;

    fn triangle() -> TriangleMesh {
        TriangleMesh {
            points: vec![[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]],
            faces: vec![[0, 1, 2]],
        }
    }

    /// Returns a mesh with indices out of range and coordinates that are not finite.
    fn broken() -> TriangleMesh {
        let mut mesh = triangle();
        mesh.points.push([f32::NAN, f32::INFINITY, 1.0]);
        mesh.faces.extend([[0, 1, 4], [u32::MAX, 0, 1], [7, 8, 9]]);
        mesh
    }

    #[test]
    fn bounds_are_of_the_finite_points() {
        assert_eq!(TriangleMesh::default().bounds(), None);
        let bounds = Aabb { lower: [0.0; 3], upper: [2.0, 2.0, 0.0] };
        assert_eq!(triangle().bounds(), Some(bounds));
        assert_eq!(broken().bounds(), Some(bounds));
        let nan = TriangleMesh { points: vec![[f32::NAN; 3]], faces: Vec::new() };
        assert_eq!(nan.bounds(), None);
    }

    #[test]
    fn what_is_out_of_range_stays_so() -> Result<()> {
        let mut mesh = broken();
        assert!((mesh.area() - 2.0).abs() < 1e-12);
        mesh.append(&broken())?;
        assert_eq!(mesh.points.len(), 8);
        assert_eq!(mesh.faces[4..], [[4, 5, 6], [4, 5, 8], [u32::MAX, 4, 5], [11, 12, 13]]);
        assert_eq!(
            mesh.vertex_normals()[4..],
            [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0; 3]]
        );
        let before = mesh.faces[6..].to_vec();
        mesh.weld();
        // NaNs with the same bits count as the same position.
        assert_eq!(mesh.points.len(), 4);
        assert_eq!(mesh.faces[4], [0, 1, 2]);
        assert_eq!([mesh.faces[6][0], mesh.faces[7][0]], [before[0][0], before[1][0]]);
        mesh.flip();
        mesh.scale([-1.0, 2.0, 1.0]);
        assert_eq!(mesh.faces[0], [0, 1, 2]);
        assert!(mesh.volume().abs() < 1e-12);
        Ok(())
    }

    #[test]
    fn counts_beyond_u32_are_refused() {
        assert!(check_counts(u64::from(u32::MAX), u64::from(u32::MAX)).is_ok());
        assert!(check_counts(1 << 32, 0).is_err());
        assert!(check_counts(0, 1 << 32).is_err());
    }

    #[test]
    fn welding_keeps_the_first_and_knows_one_zero() {
        let mut mesh = TriangleMesh {
            points: vec![
                [1.0, 0.0, 2.0],
                [3.0; 3],
                [1.0, -0.0, 2.0],
                [3.0; 3],
                [9.0; 3],
                [-0.0; 3],
            ],
            faces: vec![[0, 1, 2], [3, 2, 5], [0, 0, 6]],
        };
        mesh.weld();
        assert_eq!(mesh.points, [[1.0, 0.0, 2.0], [3.0; 3], [9.0; 3], [0.0; 3]]);
        assert!(mesh.points[3][0].is_sign_negative());
        assert_eq!(mesh.faces, [[0, 1, 0], [1, 0, 3], [0, 0, 6]]);
    }

    #[test]
    fn mirrors_keep_the_outside() -> Result<()> {
        let mut mesh = shapes::cuboid([1.0, 2.0, 3.0])?;
        assert!((mesh.volume() - 6.0).abs() < 1e-9);
        assert!((mesh.area() - 22.0).abs() < 1e-9);
        mesh.scale([-2.0, 1.0, 1.0]);
        assert!((mesh.volume() - 12.0).abs() < 1e-9);
        // The map swaps x and y, and translates.
        mesh.transform(&[[0.0, 1.0, 0.0, 100.0], [1.0, 0.0, 0.0, 200.0], [0.0, 0.0, 1.0, 300.0]]);
        assert!((mesh.volume() - 12.0).abs() < 1e-9);
        let bounds = Aabb { lower: [99.0, 199.0, 298.5], upper: [101.0, 201.0, 301.5] };
        assert_eq!(mesh.bounds(), Some(bounds));
        mesh.translate([-100.0, -200.0, -300.0]);
        assert_eq!(mesh.bounds().map(|bounds| bounds.lower), Some([-1.0, -1.0, -1.5]));
        mesh.flip();
        assert!((mesh.volume() + 12.0).abs() < 1e-9);
        Ok(())
    }

    #[test]
    fn normals_of_a_sphere_point_away_from_its_centre() -> Result<()> {
        let mesh = shapes::icosphere(4, 2.0)?;
        for (point, normal) in mesh.points.iter().zip(mesh.vertex_normals()) {
            let cosine = dot(point.map(|x| f64::from(x) / 2.0), normal.map(f64::from));
            assert!(cosine > 0.9995, "{point:?} {normal:?}");
        }
        Ok(())
    }
}
