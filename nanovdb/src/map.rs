//! From index space to world space and back.

use crate::bytes::{Fields, FieldsMut};
use crate::error::{Flaw, Result, input};
use crate::layout::head;

type Matrix = [[f64; 3]; 3];
type Vector = [f64; 3];

const IDENTITY: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// An affine map from index space to world space: `world = matrix * index + translation`, the
/// matrix by rows.
///
/// A grid stores it in double precision and, for devices, in single precision, each with the
/// inverse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Map {
    matrix: Matrix,
    inverse: Matrix,
    translation: Vector,
    matrix_f32: [[f32; 3]; 3],
    inverse_f32: [[f32; 3]; 3],
    translation_f32: [f32; 3],
    taper: (f32, f64),
}

impl Default for Map {
    /// Index space is world space.
    fn default() -> Self {
        Self::from_parts(IDENTITY, IDENTITY, [0.0; 3])
    }
}

impl Map {
    /// Creates the map of cubic voxels of a size; voxel (0, 0, 0) is at `translation`.
    ///
    /// # Errors
    /// A size that is not positive, anything that is not finite or not in the range of `f32`.
    pub fn uniform(voxel_size: f64, translation: [f64; 3]) -> Result<Self> {
        if voxel_size.is_nan() || voxel_size <= 0.0 {
            return Err(input("map.size", format!("a voxel size of {voxel_size}")));
        }
        Self::scaled([voxel_size; 3], translation)
    }

    /// Creates the map of voxels with these edges along the axes; voxel (0, 0, 0) is at `translation`. A negative edge
    /// mirrors.
    ///
    /// # Errors
    /// An edge of 0, anything that is not finite or not in the range of `f32`.
    pub fn scaled(voxel_size: [f64; 3], translation: [f64; 3]) -> Result<Self> {
        let scale = |[x, y, z]: Vector| [[x, 0.0, 0.0], [0.0, y, 0.0], [0.0, 0.0, z]];
        let inverse = scale(voxel_size.map(f64::recip));
        Self::from_parts(scale(voxel_size), inverse, translation).checked()
    }

    /// Creates the map of a matrix with the translation as its last column, by rows.
    ///
    /// # Errors
    /// As [`affine`](Self::affine).
    pub fn from_rows(rows: [[f64; 4]; 3]) -> Result<Self> {
        Self::affine(rows.map(|[x, y, z, _]| [x, y, z]), rows.map(|row| row[3]))
    }

    /// Creates the map `matrix * index + translation`, the matrix by rows.
    ///
    /// # Errors
    /// A matrix that is singular, or so nearly that its inverse does not undo it; anything that is not
    /// finite or not in the range of `f32`.
    pub fn affine(matrix: [[f64; 3]; 3], translation: [f64; 3]) -> Result<Self> {
        Self::from_parts(matrix, invert(&matrix), translation).checked()
    }

    fn checked(self) -> Result<Self> {
        self.check().map_err(|flaw| input("map", flaw.what))?;
        Ok(self)
    }

    fn from_parts(matrix: Matrix, inverse: Matrix, translation: Vector) -> Self {
        let single = |m: &Matrix| m.map(|row| row.map(|c| c as f32));
        Self {
            matrix,
            inverse,
            translation,
            matrix_f32: single(&matrix),
            inverse_f32: single(&inverse),
            translation_f32: translation.map(|c| c as f32),
            taper: (1.0, 1.0),
        }
    }

    /// Returns the matrix with the translation as its last column, by rows.
    #[must_use]
    pub fn rows(&self) -> [[f64; 4]; 3] {
        [0, 1, 2].map(|i: usize| {
            let [x, y, z] = self.matrix[i];
            [x, y, z, self.translation[i]]
        })
    }

    /// Returns the matrix by rows, the Jacobian of the map.
    #[must_use]
    pub fn matrix(&self) -> [[f64; 3]; 3] {
        self.matrix
    }

    /// Returns the inverse matrix by rows.
    #[must_use]
    pub fn inverse_matrix(&self) -> [[f64; 3]; 3] {
        self.inverse
    }

    /// Returns where voxel (0, 0, 0) is.
    #[must_use]
    pub fn translation(&self) -> [f64; 3] {
        self.translation
    }

    /// Returns the matrix in single precision, as it is stored.
    #[must_use]
    pub fn matrix_f32(&self) -> [[f32; 3]; 3] {
        self.matrix_f32
    }

    /// Returns the inverse matrix in single precision, as it is stored.
    #[must_use]
    pub fn inverse_matrix_f32(&self) -> [[f32; 3]; 3] {
        self.inverse_f32
    }

    /// Returns the translation in single precision, as it is stored.
    #[must_use]
    pub fn translation_f32(&self) -> [f32; 3] {
        self.translation_f32
    }

    /// Returns the lengths of a voxel's edges in world space.
    #[must_use]
    pub fn voxel_size(&self) -> [f64; 3] {
        [0, 1, 2].map(|column| {
            let [x, y, z] = self.matrix.map(|row| row[column].abs());
            // An edge along an axis has its exact length.
            match [x, y, z].iter().filter(|c| **c != 0.0).count() {
                0 | 1 => x + y + z,
                _ => x.hypot(y).hypot(z),
            }
        })
    }

    /// Maps a position from index space to world space. Fused in NanoVDB's order, for the same bits.
    #[must_use]
    pub fn apply(&self, index: [f64; 3]) -> [f64; 3] {
        let [x, y, z] = index;
        [0, 1, 2].map(|i| {
            let row = self.matrix[i];
            x.mul_add(row[0], y.mul_add(row[1], z.mul_add(row[2], self.translation[i])))
        })
    }

    /// Maps a position from world space to index space.
    #[must_use]
    pub fn apply_inverse(&self, world: [f64; 3]) -> [f64; 3] {
        let [x, y, z] = [0, 1, 2].map(|i: usize| world[i] - self.translation[i]);
        multiply(&self.inverse, [x, y, z])
    }

    /// Maps a direction from index space to world space (the Jacobian).
    #[must_use]
    pub fn apply_direction(&self, index: [f64; 3]) -> [f64; 3] {
        multiply(&self.matrix, index)
    }

    /// Maps a direction from world space to index space (the inverse Jacobian).
    #[must_use]
    pub fn apply_inverse_direction(&self, world: [f64; 3]) -> [f64; 3] {
        multiply(&self.inverse, world)
    }

    /// Maps a gradient by index space to one by world space (the inverse Jacobian transposed).
    #[must_use]
    pub fn apply_gradient(&self, index: [f64; 3]) -> [f64; 3] {
        multiply(&transpose(&self.inverse), index)
    }

    /// Finite in both precisions; the inverses are such.
    pub(crate) fn check(&self) -> std::result::Result<(), Flaw> {
        let flaw = |what: &str| Flaw::new("map", what).at(head::MAP);
        let double = self.matrix.iter().chain(&self.inverse).flatten().chain(&self.translation);
        let single =
            self.matrix_f32.iter().chain(&self.inverse_f32).flatten().chain(&self.translation_f32);
        if !double.into_iter().all(|c| c.is_finite()) || !single.into_iter().all(|c| c.is_finite())
        {
            return Err(flaw("the map or its inverse is not finite"));
        }
        if !is_inverse(&self.matrix, &self.inverse) {
            return Err(flaw("the map is singular, or its inverse is not the inverse"));
        }
        let alike = |double: &[f64], single: &[f32]| {
            let largest = double.iter().fold(0.0, |a: f64, c| a.max(c.abs()));
            let close = |(d, s): (&f64, &f32)| (d - f64::from(*s)).abs() <= 1e-5 * largest;
            double.iter().zip(single).all(close)
        };
        if !alike(self.matrix.as_flattened(), self.matrix_f32.as_flattened())
            || !alike(self.inverse.as_flattened(), self.inverse_f32.as_flattened())
            || !alike(&self.translation, &self.translation_f32)
        {
            return Err(flaw("the map is another one in single precision"));
        }
        if !self.voxel_size().iter().all(|c| c.is_finite() && *c > 0.0) {
            return Err(flaw("the map's voxels have no size"));
        }
        Ok(())
    }

    /// Returns whether a voxel size that is stored beside the map makes sense: the lengths of a voxel's edges,
    /// which are positive. Older writers store the voxel's diagonal instead, which may be 0 or negative
    /// along an axis if the map turns or mirrors.
    pub(crate) fn check_voxel_size(&self, stored: Vector) -> std::result::Result<(), Flaw> {
        let flaw = |what: String| Err(Flaw::new("voxel-size", what).at(head::VOXEL_SIZE));
        if !stored.iter().all(|c| c.is_finite()) {
            return flaw(format!("a voxel size of {stored:?}"));
        }
        let largest = self.matrix.as_flattened().iter().fold(0.0, |a: f64, c| a.max(c.abs()));
        let diagonal = self.apply_direction([1.0; 3]);
        let is_diagonal = stored.iter().zip(diagonal).all(|(s, d)| (s - d).abs() <= 1e-6 * largest);
        if is_diagonal || stored.iter().all(|c| *c > 0.0) {
            return Ok(());
        }
        flaw(format!("a voxel size of {stored:?}, where the map has {:?}", self.voxel_size()))
    }

    pub(crate) fn load(bytes: &[u8]) -> Self {
        let at = head::MAP;
        let single =
            |at: usize| [0, 1, 2].map(|i| [0, 1, 2].map(|j| bytes.f32(at + 12 * i + 4 * j)));
        let double = |at: usize| [0, 1, 2].map(|i| bytes.vector(at + 24 * i));
        Self {
            matrix_f32: single(at),
            inverse_f32: single(at + 36),
            translation_f32: [0, 4, 8].map(|i| bytes.f32(at + 72 + i)),
            matrix: double(at + 88),
            inverse: double(at + 160),
            translation: bytes.vector(at + 232),
            taper: (bytes.f32(at + 84), bytes.f64(at + 256)),
        }
    }

    pub(crate) fn store(&self, bytes: &mut [u8]) {
        let at = head::MAP;
        bytes.put(at, bytemuck::bytes_of(&self.matrix_f32));
        bytes.put(at + 36, bytemuck::bytes_of(&self.inverse_f32));
        bytes.put(at + 72, bytemuck::bytes_of(&self.translation_f32));
        bytes.put(at + 84, &self.taper.0.to_le_bytes());
        bytes.put(at + 88, bytemuck::bytes_of(&self.matrix));
        bytes.put(at + 160, bytemuck::bytes_of(&self.inverse));
        bytes.put(at + 232, bytemuck::bytes_of(&self.translation));
        bytes.put_f64(at + 256, self.taper.1);
    }
}

fn transpose(m: &Matrix) -> Matrix {
    [0, 1, 2].map(|i: usize| [0, 1, 2].map(|j: usize| m[j][i]))
}

fn multiply(m: &Matrix, v: Vector) -> Vector {
    let [x, y, z] = v;
    m.map(|row| x.mul_add(row[0], y.mul_add(row[1], z * row[2])))
}

/// Returns the inverse by cofactors; not finite if there is none. The matrix is scaled to about 1 first, by a
/// power of two, so that determinants neither overflow nor vanish.
fn invert(m: &Matrix) -> Matrix {
    let largest = m.iter().flatten().fold(0.0, |a: f64, c| a.max(c.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return [[f64::NAN; 3]; 3];
    }
    let down = (-largest.log2().floor()).clamp(-1000.0, 1000.0).exp2();
    let n = m.map(|row| row.map(|c| c * down));
    let minor = |i: usize, j: usize| {
        let (a, b, c, d) = ((i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3);
        n[a][c] * n[b][d] - n[a][d] * n[b][c]
    };
    let determinant = (0..3).map(|j| n[0][j] * minor(0, j)).sum::<f64>();
    [0, 1, 2].map(|i| [0, 1, 2].map(|j| minor(j, i) / determinant * down))
}

/// Returns whether two matrices multiply to the identity, but for rounding.
fn is_inverse(m: &Matrix, inverse: &Matrix) -> bool {
    (0..3).all(|i| {
        (0..3).all(|j| {
            let sum: f64 = (0..3).map(|k| m[i][k] * inverse[k][j]).sum();
            (sum - IDENTITY[i][j]).abs() <= 1e-6
        })
    })
}
