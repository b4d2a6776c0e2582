//! The picture: rays at the mesh by batch calls, four for each pixel, and what they find coloured on the host.

use cuda_safe::{DeviceBuffer, Error, Result};
use example_common::vector::{add, dot, length, scaled, sub, unit};
use example_common::{Camera, progress};
use geom_kernels::Aabb;
use geom_kernels::mesh::{FacePoint, NO_FACE, Ray, RayHit};
use rayon::prelude::*;

use crate::Scene;

/// Where in a pixel its rays go through.
const PLACES: [[f32; 2]; 4] = [[0.375, 0.125], [0.875, 0.375], [0.125, 0.625], [0.625, 0.875]];

/// Where the lamp is seen.
const TO_LAMP: [f32; 3] = [-0.44, 0.78, 0.45];

/// Draws the mesh, in the light of the sky and of a lamp that casts shadows: four bytes for each pixel.
pub(crate) fn draw(scene: &Scene<'_>) -> Result<Vec<u8>> {
    let (stream, [width, height]) = (scene.stream, scene.size);
    let normals = scene.mesh.vertex_normals();
    let normals = normals.ok_or_else(|| Error::invalid("a mesh without normals"))?;
    let camera = camera(scene);
    let off = 1e-3 * length(sub(scene.bounds.upper, scene.bounds.lower));
    let mut picture = Vec::new();
    let bar = progress("rays", height);
    for first in (0..height).step_by(scene.rows as usize) {
        let rows = first..height.min(first + scene.rows);
        let places = rows.clone().flat_map(|row| (0..width).map(move |column| [column, row]));
        let rays: Vec<Ray> = places.flat_map(|pixel| rays(&camera, pixel, scene.size)).collect();
        let there = DeviceBuffer::from_slice(stream, &rays)?;
        let mut hits = DeviceBuffer::<RayHit>::zeroed(stream, rays.len())?;
        scene.mesh.closest_hits(stream, &there, &mut hits)?;
        let hits = hits.to_vec(stream)?;

        let points: Vec<FacePoint> = hits.iter().map(|hit| FacePoint::from(*hit)).collect();
        let points = DeviceBuffer::from_slice(stream, &points)?;
        let mut smooth = DeviceBuffer::<[f32; 3]>::zeroed(stream, rays.len())?;
        scene.mesh.attributes_at(stream, &points, normals, &mut smooth)?;
        let mut smooth = smooth.to_vec(stream)?;
        for (normal, hit) in smooth.iter_mut().zip(&hits) {
            // Of an inside that is open to the eye, the other side.
            *normal = unit(scaled(*normal, if hit.front == 1 { 1.0 } else { -1.0 }));
        }

        let to_lamp = rays.iter().zip(&hits).zip(&smooth);
        let to_lamp: Vec<Ray> =
            to_lamp.map(|((ray, hit), normal)| shadow(ray, hit, *normal, off)).collect();
        let to_lamp = DeviceBuffer::from_slice(stream, &to_lamp)?;
        let mut shaded = DeviceBuffer::<u8>::zeroed(stream, rays.len())?;
        scene.mesh.any_hits(stream, &to_lamp, &mut shaded)?;
        let shaded = shaded.to_vec(stream)?;

        let light = |i: usize| match hits[i].face {
            NO_FACE => backdrop(i / PLACES.len() / width as usize + first as usize, height),
            _ => reflected(smooth[i], rays[i].direction, shaded[i] == 0),
        };
        let pixels = (0..hits.len() / PLACES.len()).into_par_iter().flat_map_iter(|pixel| {
            let samples = (0..PLACES.len()).map(|n| light(PLACES.len() * pixel + n));
            developed(samples.fold([0.0; 3], add))
        });
        picture.par_extend(pixels);
        bar.inc(rows.len() as u64);
    }
    bar.finish();
    Ok(picture)
}

/// From what was hit to the lamp, a little off the surface; a ray that hit nothing has no way.
fn shadow(ray: &Ray, hit: &RayHit, normal: [f32; 3], off: f32) -> Ray {
    if hit.face == NO_FACE {
        return Ray::new([0.0; 3], [0.0; 3]);
    }
    let at = add(ray.origin, scaled(ray.direction, hit.t));
    Ray::new(add(at, scaled(normal, off)), TO_LAMP)
}

fn backdrop(row: usize, height: u32) -> [f32; 3] {
    let down = row as f32 / height as f32;
    [0.62, 0.67, 0.72].map(|x| x + 0.22 * down)
}

fn reflected(normal: [f32; 3], direction: [f32; 3], is_lit: bool) -> [f32; 3] {
    let lamp = unit(TO_LAMP);
    let steep = if is_lit { dot(normal, lamp).max(0.0) } else { 0.0 };
    let half = unit(sub(lamp, direction));
    let shine = if steep > 0.0 { 0.3 * dot(normal, half).max(0.0).powi(60) } else { 0.0 };
    let sky = 0.5 + 0.5 * normal[1];
    let colour = [0.13, 0.42, 0.50];
    let light = [0.10 + 0.20 * sky, 0.10 + 0.26 * sky, 0.12 + 0.34 * sky];
    [0, 1, 2].map(|c| colour[c] * (light[c] + 1.1 * steep) + shine)
}

/// From the light of a pixel's samples to what screens expect.
fn developed(light: [f32; 3]) -> [u8; 4] {
    let [r, g, b] = light.map(|x| {
        let mean = (x / PLACES.len() as f32).clamp(0.0, 1.0);
        (255.0 * mean.powf(0.4545) + 0.5) as u8
    });
    [r, g, b, 255]
}

/// The camera of the mesh.
fn camera(scene: &Scene<'_>) -> Camera {
    let Aabb { lower, upper } = scene.bounds;
    let points = scene.host.points.iter().copied();
    Camera::of(points, scaled(add(lower, upper), 0.5), scene.size, 1.15)
}

/// The rays through a pixel, of length 1.
fn rays(camera: &Camera, [column, row]: [u32; 2], [width, height]: [u32; 2]) -> [Ray; 4] {
    PLACES.map(|[x, y]| {
        let at = [(column as f32 + x) / width as f32, (row as f32 + y) / height as f32];
        Ray::new(camera.eye, camera.direction(at))
    })
}
