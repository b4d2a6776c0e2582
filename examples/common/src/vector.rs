//! Vectors of three numbers.

/// Coordinates.
pub type Vector = [f32; 3];

/// Returns the sum.
#[must_use]
pub fn add(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|axis| a[axis] + b[axis])
}

/// Returns the difference.
#[must_use]
pub fn sub(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

/// Returns the product with a number.
#[must_use]
pub fn scaled(a: Vector, factor: f32) -> Vector {
    a.map(|x| x * factor)
}

/// Returns the scalar product.
#[must_use]
pub fn dot(a: Vector, b: Vector) -> f32 {
    (0..3).map(|axis| a[axis] * b[axis]).sum()
}

/// Returns the Euclidean length.
#[must_use]
pub fn length(a: Vector) -> f32 {
    dot(a, a).sqrt()
}

/// Returns the vector of length 1 in the same direction.
#[must_use]
pub fn unit(a: Vector) -> Vector {
    scaled(a, 1.0 / length(a))
}

/// Returns the vector product.
#[must_use]
pub fn cross(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|axis| {
        let (next, last) = ((axis + 1) % 3, (axis + 2) % 3);
        a[next] * b[last] - a[last] * b[next]
    })
}
