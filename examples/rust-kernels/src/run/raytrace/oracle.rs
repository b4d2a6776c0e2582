//! The same picture in `f64`, with the same random numbers. Rays that pass an edge differently go different ways, so a
//! few pixels have other colours.

use cuda_safe::kernel::vector::Vec3;
use rayon::prelude::*;
use rust_kernels::raytrace::{Camera, Sphere};

use crate::Failure;

type Point = [f64; 3];

/// What the picture is like.
pub(super) struct Shape {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) samples: u32,
    pub(super) depth: u32,
}

/// Compares the picture with its oracle, and says how far they are apart.
pub(super) fn compare(
    shape: &Shape,
    camera: &Camera,
    spheres: &[Sphere],
    picture: &[[u8; 4]],
) -> Result<String, Failure> {
    // Some rows are enough; their distance is no multiple of a block's height.
    let rows: Vec<usize> =
        (0..shape.height).step_by(if shape.height < 100 { 3 } else { 11 }).collect();
    let differences: Vec<f64> = rows
        .into_par_iter()
        .flat_map_iter(|y| (0..shape.width).map(move |x| (x, y)))
        .map(|(x, y)| {
            let oracle = pixel(shape, camera, spheres, x, y);
            let of = picture[y * shape.width + x];
            oracle
                .iter()
                .zip(of)
                .map(|(oracle, byte)| {
                    (256.0 * oracle.sqrt().min(0.999) - f64::from(byte) - 0.5).abs()
                })
                .fold(0.0, f64::max)
        })
        .collect();
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let other = differences.iter().filter(|difference| **difference > 2.0).count() as f64 / count;
    let text = format!("{:.2}% of pixels differ from f64, mean {mean:.2} of 256", other * 100.0);
    // A wrong material or a wrong normal changes most pixels.
    if mean < 3.0 && other < 0.25 { Ok(text) } else { Err(text.into()) }
}

fn wide(p: Vec3) -> Point {
    [p.x, p.y, p.z].map(f64::from)
}

fn dot(a: Point, b: Point) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// `a + b * by`
fn along(a: Point, b: Point, by: f64) -> Point {
    std::array::from_fn(|k| a[k] + b[k] * by)
}

fn unit(a: Point) -> Point {
    a.map(|x| x / dot(a, a).sqrt())
}

/// The numbers of one pixel, as its thread draws them.
struct Random {
    key: u32,
    drawn: u32,
}

fn mix(mut x: u32) -> u32 {
    for (shift, factor) in [(16, 0x7feb_352d), (15, 0x846c_a68b)] {
        x = (x ^ (x >> shift)).wrapping_mul(factor);
    }
    x ^ (x >> 16)
}

impl Random {
    fn next(&mut self) -> f64 {
        self.drawn += 1;
        f64::from(mix(self.key ^ mix(self.drawn)) >> 8) / 16_777_216.0
    }

    fn in_ball(&mut self) -> Point {
        loop {
            let p = [0; 3].map(|_| 2.0 * self.next() - 1.0);
            if (1e-12..1.0).contains(&dot(p, p)) {
                return p;
            }
        }
    }
}

fn pixel(shape: &Shape, camera: &Camera, spheres: &[Sphere], x: usize, y: usize) -> Point {
    let number = (y * shape.width + x) as u32;
    let mut random = Random { key: mix(number.wrapping_add(0x9e37_79b9)), drawn: 0 };
    let mut sum = [0.0; 3];
    for _ in 0..shape.samples {
        let right = (x as f64 + random.next()) / shape.width as f64;
        let down = (y as f64 + random.next()) / shape.height as f64;
        let lens = random.in_ball();
        let from = along(wide(camera.eye), wide(camera.lens_right), lens[0]);
        let from = along(from, wide(camera.lens_down), lens[1]);
        let to = along(wide(camera.corner), wide(camera.right), right);
        let to = along(to, wide(camera.down), down);
        sum =
            along(sum, light(from, along(to, from, -1.0), spheres, shape.depth, &mut random), 1.0);
    }
    sum.map(|sum| sum / f64::from(shape.samples))
}

/// Follows a ray, by recursion as in the book.
fn light(from: Point, ray: Point, spheres: &[Sphere], depth: u32, random: &mut Random) -> Point {
    if depth == 0 {
        return [0.0; 3];
    }
    let distance = |sphere: &Sphere| -> Option<f64> {
        let to = along(wide(sphere.center), from, -1.0);
        let radius = f64::from(sphere.radius);
        let (a, half) = (dot(ray, ray), dot(ray, to));
        let root = (half * half - a * (dot(to, to) - radius * radius)).sqrt();
        // The root of a negative number is a NaN, which is no distance.
        [(half - root) / a, (half + root) / a].into_iter().find(|t| *t > 1e-3)
    };
    let hits = spheres.iter().filter_map(|sphere| Some((distance(sphere)?, sphere)));
    let Some((t, sphere)) = hits.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        let a = (unit(ray)[1] + 1.0) / 2.0;
        return [1.0 - 0.5 * a, 1.0 - 0.3 * a, 1.0];
    };
    let point = along(from, ray, t);
    let outward = along(point, wide(sphere.center), -1.0).map(|x| x / f64::from(sphere.radius));
    let inside = dot(ray, outward) > 0.0;
    let normal = if inside { outward.map(|x| -x) } else { outward };
    let detail = f64::from(sphere.detail);
    let mirrored = |ray: Point| along(ray, normal, -2.0 * dot(ray, normal));
    let next = match sphere.material {
        0 => along(normal, unit(random.in_ball()), 1.0),
        1 => {
            let next = along(unit(mirrored(ray)), unit(random.in_ball()), detail);
            if dot(next, normal) <= 0.0 {
                return [0.0; 3];
            }
            next
        }
        _ => {
            let ray = unit(ray);
            let ratio = if inside { detail } else { 1.0 / detail };
            let cosine = -dot(ray, normal);
            let across = along(ray, normal, cosine).map(|x| x * ratio);
            let square = dot(across, across);
            let head_on = ((1.0 - ratio) / (1.0 + ratio)).powi(2);
            let reflectance = head_on + (1.0 - head_on) * (1.0 - cosine).powi(5);
            if square > 1.0 || reflectance > random.next() {
                mirrored(ray)
            } else {
                along(across, normal, -(1.0 - square).sqrt())
            }
        }
    };
    let colour = wide(sphere.colour);
    let light = light(point, next, spheres, depth - 1, random);
    std::array::from_fn(|k| colour[k] * light[k])
}
