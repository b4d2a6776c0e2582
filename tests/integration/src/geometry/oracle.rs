//! Linear algebra in f64, as plainly as it can be written.

/// Columns.
pub(super) type Matrix<const N: usize> = [[f64; N]; N];

/// Vector part, then scalar part.
pub(super) type Quat = [f64; 4];

pub(super) fn add<const N: usize>(a: [f64; N], b: [f64; N]) -> [f64; N] {
    std::array::from_fn(|i| a[i] + b[i])
}

pub(super) fn sub<const N: usize>(a: [f64; N], b: [f64; N]) -> [f64; N] {
    std::array::from_fn(|i| a[i] - b[i])
}

pub(super) fn scale<const N: usize>(a: [f64; N], s: f64) -> [f64; N] {
    a.map(|a| a * s)
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn length(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

pub(super) fn normalize<const N: usize>(a: [f64; N]) -> [f64; N] {
    scale(a, 1.0 / length(&a))
}

pub(super) fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(super) fn transpose<const N: usize>(m: &Matrix<N>) -> Matrix<N> {
    std::array::from_fn(|i| std::array::from_fn(|j| m[j][i]))
}

pub(super) fn times<const N: usize>(m: &Matrix<N>, v: [f64; N]) -> [f64; N] {
    transpose(m).map(|row| dot(&row, &v))
}

pub(super) fn product<const N: usize>(a: &Matrix<N>, b: &Matrix<N>) -> Matrix<N> {
    b.map(|column| times(a, column))
}

pub(super) fn outer<const N: usize>(a: [f64; N], b: [f64; N]) -> Matrix<N> {
    b.map(|b| scale(a, b))
}

/// The largest magnitude in it.
pub(super) fn largest<const N: usize>(m: &Matrix<N>) -> f64 {
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

pub(super) fn determinant<const N: usize>(m: &Matrix<N>) -> f64 {
    eliminate(m).0
}

pub(super) fn inverse<const N: usize>(m: &Matrix<N>) -> Matrix<N> {
    eliminate(m).1
}

/// The rotation about a unit vector.
pub(super) fn turn(axis: [f64; 3], angle: f64) -> Quat {
    let (s, c) = (angle / 2.0).sin_cos();
    [axis[0] * s, axis[1] * s, axis[2] * s, c]
}

/// Hamilton's product, by the table of i, j and k.
pub(super) fn mul(a: Quat, b: Quat) -> Quat {
    let [ai, aj, ak, a1] = a;
    let [bi, bj, bk, b1] = b;
    [
        a1 * bi + ai * b1 + aj * bk - ak * bj,
        a1 * bj + aj * b1 + ak * bi - ai * bk,
        a1 * bk + ak * b1 + ai * bj - aj * bi,
        a1 * b1 - ai * bi - aj * bj - ak * bk,
    ]
}

/// q p q*
pub(super) fn rotate(q: Quat, p: [f64; 3]) -> [f64; 3] {
    let back = [-q[0], -q[1], -q[2], q[3]];
    let [x, y, z, _] = mul(mul(q, [p[0], p[1], p[2], 0.0]), back);
    [x, y, z]
}

/// The axes' images.
pub(super) fn to_matrix(q: Quat) -> Matrix<3> {
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(|axis| rotate(q, axis))
}
