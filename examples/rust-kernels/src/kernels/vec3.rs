//! Vectors of three floats.

use cuda_safe::kernel::{Device, device};

/// A point, a direction or a colour.
#[derive(Debug, Clone, Copy, PartialEq, Default, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Vec3 {
    /// The first coordinate.
    pub x: f32,
    /// The second coordinate.
    pub y: f32,
    /// The third coordinate.
    pub z: f32,
}

#[device(contract)]
impl Vec3 {
    /// The origin.
    pub const ZERO: Self = Self { x: 0.0, y: 0.0, z: 0.0 };

    /// A vector of its coordinates.
    #[must_use]
    pub fn new(x: f32, y: f32, z: f32) -> Self {
        Self { x, y, z }
    }

    /// The scalar product.
    #[must_use]
    pub fn dot(self, other: Self) -> f32 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// `self + direction * by`.
    #[must_use]
    pub fn along(self, direction: Self, by: f32) -> Self {
        Self {
            x: self.x + direction.x * by,
            y: self.y + direction.y * by,
            z: self.z + direction.z * by,
        }
    }

    /// The vector product.
    #[must_use]
    pub fn cross(self, other: Self) -> Self {
        Self {
            x: self.y * other.z - self.z * other.y,
            y: self.z * other.x - self.x * other.z,
            z: self.x * other.y - self.y * other.x,
        }
    }

    /// The product of each pair of coordinates.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self { x: self.x * other.x, y: self.y * other.y, z: self.z * other.z }
    }

    /// The vector of length 1 in this direction.
    #[must_use]
    pub fn unit(self) -> Self {
        self * (1.0 / self.dot(self).sqrt())
    }
}

#[device]
impl std::ops::Add for Vec3 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y, z: self.z + other.z }
    }
}

#[device]
impl std::ops::Sub for Vec3 {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { x: self.x - other.x, y: self.y - other.y, z: self.z - other.z }
    }
}

#[device]
impl std::ops::Mul<f32> for Vec3 {
    type Output = Self;

    fn mul(self, by: f32) -> Self {
        Self { x: self.x * by, y: self.y * by, z: self.z * by }
    }
}

#[device]
impl std::ops::Neg for Vec3 {
    type Output = Self;

    fn neg(self) -> Self {
        Self { x: -self.x, y: -self.y, z: -self.z }
    }
}
