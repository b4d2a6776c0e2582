//! The spheres and the camera of the book's last picture.

use cuda_safe::kernel::vector::Vec3;
use rust_kernels::raytrace::{Camera, Material, Sphere};

use crate::data::Random;

const GROUND: Vec3 = Vec3 { x: 0.5, y: 0.5, z: 0.5 };
const WHITE: Vec3 = Vec3 { x: 1.0, y: 1.0, z: 1.0 };

fn point(x: f32, y: f32, z: f32) -> Vec3 {
    Vec3 { x, y, z }
}

fn sphere(center: Vec3, radius: f32, colour: Vec3, material: Material, detail: f32) -> Sphere {
    Sphere { center, radius, colour, detail, material: material as u32 }
}

/// Returns the ground, three large balls and hundreds of small ones.
pub(crate) fn spheres() -> Vec<Sphere> {
    let mut random = Random::new(11);
    let mut unit = || (random.float() + 1.0) * 0.5;
    let mut spheres = vec![sphere(point(0.0, -1000.0, 0.0), 1000.0, GROUND, Material::Matte, 0.0)];
    for a in -11i16..11 {
        for b in -11i16..11 {
            let center = point(f32::from(a) + 0.9 * unit(), 0.2, f32::from(b) + 0.9 * unit());
            if (center - point(4.0, 0.2, 0.0)).dot(center - point(4.0, 0.2, 0.0)) <= 0.81 {
                continue;
            }
            let choice = unit();
            spheres.push(if choice < 0.8 {
                let colour = point(unit() * unit(), unit() * unit(), unit() * unit());
                sphere(center, 0.2, colour, Material::Matte, 0.0)
            } else if choice < 0.95 {
                let colour = point(0.5 + 0.5 * unit(), 0.5 + 0.5 * unit(), 0.5 + 0.5 * unit());
                sphere(center, 0.2, colour, Material::Metal, 0.5 * unit())
            } else {
                sphere(center, 0.2, WHITE, Material::Glass, 1.5)
            });
        }
    }
    spheres.push(sphere(point(0.0, 1.0, 0.0), 1.0, WHITE, Material::Glass, 1.5));
    spheres.push(sphere(point(-4.0, 1.0, 0.0), 1.0, point(0.4, 0.2, 0.1), Material::Matte, 0.0));
    spheres.push(sphere(point(4.0, 1.0, 0.0), 1.0, point(0.7, 0.6, 0.5), Material::Metal, 0.0));
    spheres
}

/// Returns the camera for pictures of this aspect.
pub(crate) fn camera(aspect: f32) -> Camera {
    let (eye, target, up) = (point(13.0, 2.0, 3.0), Vec3::ZERO, point(0.0, 1.0, 0.0));
    let (angle, focus, lens_angle) = (20f32.to_radians(), 10.0, 0.6f32.to_radians());
    let height = 2.0 * (angle / 2.0).tan() * focus;
    let lens = focus * (lens_angle / 2.0).tan();
    let back = (eye - target).normalize();
    let right = up.cross(back).normalize();
    let down = -back.cross(right);
    let (across, along) = (right * (height * aspect), down * height);
    Camera {
        eye,
        corner: eye - back * focus - across * 0.5 - along * 0.5,
        right: across,
        down: along,
        lens_right: right * lens,
        lens_down: down * lens,
    }
}
