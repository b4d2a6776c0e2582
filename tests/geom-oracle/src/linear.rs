//! Linear algebra in f64, as plainly as it can be written.

/// The columns of a square matrix.
pub type Matrix<const N: usize> = [[f64; N]; N];

/// A quaternion: the vector part, then the scalar part.
pub type Quat = [f64; 4];

/// Adds vectors.
#[must_use]
pub fn add<const N: usize>(a: [f64; N], b: [f64; N]) -> [f64; N] {
    std::array::from_fn(|i| a[i] + b[i])
}

/// Subtracts vectors.
#[must_use]
pub fn sub<const N: usize>(a: [f64; N], b: [f64; N]) -> [f64; N] {
    std::array::from_fn(|i| a[i] - b[i])
}

/// Scales a vector.
#[must_use]
pub fn scale<const N: usize>(a: [f64; N], s: f64) -> [f64; N] {
    a.map(|a| a * s)
}

/// Returns the scalar product.
#[must_use]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the Euclidean length.
#[must_use]
pub fn length(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// Returns the unit vector.
#[must_use]
pub fn normalize<const N: usize>(a: [f64; N]) -> [f64; N] {
    scale(a, 1.0 / length(&a))
}

/// Returns the vector product.
#[must_use]
pub fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// Returns the transposed matrix.
#[must_use]
pub fn transpose<const N: usize>(m: &Matrix<N>) -> Matrix<N> {
    std::array::from_fn(|i| std::array::from_fn(|j| m[j][i]))
}

/// Applies a matrix to a vector.
#[must_use]
pub fn times<const N: usize>(m: &Matrix<N>, v: [f64; N]) -> [f64; N] {
    transpose(m).map(|row| dot(&row, &v))
}

/// Returns the product of matrices.
#[must_use]
pub fn product<const N: usize>(a: &Matrix<N>, b: &Matrix<N>) -> Matrix<N> {
    b.map(|column| times(a, column))
}

/// Returns the outer product: the columns are `a` times the numbers of `b`.
#[must_use]
pub fn outer<const N: usize>(a: [f64; N], b: [f64; N]) -> Matrix<N> {
    b.map(|b| scale(a, b))
}

/// Returns the largest magnitude of its numbers.
#[must_use]
pub fn largest<const N: usize>(m: &Matrix<N>) -> f64 {
    m.as_flattened().iter().fold(0.0, |most, x| x.abs().max(most))
}

/// The determinant and the inverse, by elimination with pivots.
fn eliminate<const N: usize>(m: &Matrix<N>) -> (f64, Matrix<N>) {
    // Rows; what is done to them makes the identity of the one and the inverse of the other.
    let mut left = transpose(m);
    let mut right: Matrix<N> = std::array::from_fn(|i| std::array::from_fn(|j| f64::from(i == j)));
    let mut determinant = 1.0;
    for i in 0..N {
        let size = |row: &usize| left[*row][i].abs();
        let pivot = (i..N).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(i);
        if pivot != i {
            left.swap(i, pivot);
            right.swap(i, pivot);
            determinant = -determinant;
        }
        let by = left[i][i];
        determinant *= by;
        left[i] = scale(left[i], 1.0 / by);
        right[i] = scale(right[i], 1.0 / by);
        for row in (0..N).filter(|row| *row != i) {
            let by = left[row][i];
            left[row] = sub(left[row], scale(left[i], by));
            right[row] = sub(right[row], scale(right[i], by));
        }
    }
    (determinant, transpose(&right))
}

/// Returns the determinant.
#[must_use]
pub fn determinant<const N: usize>(m: &Matrix<N>) -> f64 {
    eliminate(m).0
}

/// Returns the inverse.
#[must_use]
pub fn inverse<const N: usize>(m: &Matrix<N>) -> Matrix<N> {
    eliminate(m).1
}

/// Returns the rotation about a unit vector.
#[must_use]
pub fn turn(axis: [f64; 3], angle: f64) -> Quat {
    let (s, c) = (angle / 2.0).sin_cos();
    [axis[0] * s, axis[1] * s, axis[2] * s, c]
}

/// Returns Hamilton's product, by the table of i, j and k.
#[must_use]
pub fn mul(a: Quat, b: Quat) -> Quat {
    let [ai, aj, ak, a1] = a;
    let [bi, bj, bk, b1] = b;
    [
        a1 * bi + ai * b1 + aj * bk - ak * bj,
        a1 * bj + aj * b1 + ak * bi - ai * bk,
        a1 * bk + ak * b1 + ai * bj - aj * bi,
        a1 * b1 - ai * bi - aj * bj - ak * bk,
    ]
}

/// Rotates a point: q p q*.
#[must_use]
pub fn rotate(q: Quat, p: [f64; 3]) -> [f64; 3] {
    let back = [-q[0], -q[1], -q[2], q[3]];
    let [x, y, z, _] = mul(mul(q, [p[0], p[1], p[2], 0.0]), back);
    [x, y, z]
}

/// Returns the matrix whose columns are the images of the axes.
#[must_use]
pub fn to_matrix(q: Quat) -> Matrix<3> {
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(|axis| rotate(q, axis))
}
