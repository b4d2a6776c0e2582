//! The picture: rays by batch calls, some for each pixel, and what they find coloured on the host.

use cuda_safe::{DeviceBuffer, Result};
use example_common::vector::{add, dot, scaled, unit};
use example_common::{Camera, progress};
use geom_kernels::Ray;
use geom_kernels::volume::VolumeHit;
use rayon::prelude::*;

use crate::Scene;

/// Where in a pixel its rays go through.
const PLACES: [[f32; 2]; 4] = [[0.375, 0.125], [0.875, 0.375], [0.125, 0.625], [0.625, 0.875]];
const MIDDLE: [[f32; 2]; 1] = [[0.5, 0.5]];

/// Where the lamp is seen.
const TO_LAMP: [f32; 3] = [-0.44, 0.78, 0.45];

type Light = [f32; 3];

/// Draws the surface where the field is `iso`, in the light of the sky and of a lamp that casts shadows.
pub(crate) fn surface(scene: &Scene<'_>, iso: f64) -> Result<Vec<u8>> {
    let crossings = |rays: &[Ray]| -> Result<Vec<VolumeHit>> {
        let clipped: Vec<Ray> = rays.par_iter().map(|ray| clipped(scene, *ray)).collect();
        let there = DeviceBuffer::from_slice(scene.stream, &clipped)?;
        let mut hits = DeviceBuffer::<VolumeHit>::zeroed(scene.stream, rays.len())?;
        scene.volume.first_crossings(scene.stream, &there, iso, &mut hits)?;
        hits.to_vec(scene.stream)
    };
    let view = View::new(scene);
    let mut lights: Vec<Light> = Vec::new();
    for_each_band(scene, |rows| {
        let rays: Vec<Ray> = rows.flat_map(|row| view.row(row)).collect();
        let hits = crossings(&rays)?;
        // From what was hit to the lamp; rays that hit nothing have no way.
        let to_lamp: Vec<Ray> = rays
            .iter()
            .zip(&hits)
            .map(|(ray, hit)| {
                let way = if hit.t.is_finite() { TO_LAMP } else { [0.0; 3] };
                let t = if hit.t.is_finite() { hit.t } else { 0.0 };
                let normal = facing(hit);
                let from = |axis: usize| {
                    ray.origin[axis] + t * ray.direction[axis] + 0.1 * scene.voxel * normal[axis]
                };
                Ray::new(std::array::from_fn(from), way)
            })
            .collect();
        let shadows = crossings(&to_lamp)?;
        let lit = |i: usize| match &hits[i] {
            hit if hit.t.is_finite() => shaded(facing(hit), !shadows[i].t.is_finite()),
            _ => view.sky(&rays[i]),
        };
        lights.par_extend((0..hits.len()).into_par_iter().map(lit));
        Ok(())
    })?;
    Ok(developed(&lights, view.places.len()))
}

/// Draws the field as fog, by its integrals: the background is almost hidden behind the thickest parts.
pub(crate) fn fog(scene: &Scene<'_>) -> Result<Vec<u8>> {
    let view = View::new(scene);
    let (mut depths, mut skies): (Vec<f32>, Vec<Light>) = (Vec::new(), Vec::new());
    for_each_band(scene, |rows| {
        let rays: Vec<Ray> = rows.flat_map(|row| view.row(row)).collect();
        let there = DeviceBuffer::from_slice(scene.stream, &rays)?;
        let mut integrals = DeviceBuffer::<f32>::zeroed(scene.stream, rays.len())?;
        scene.volume.integrals(scene.stream, &there, &mut integrals)?;
        depths.extend(integrals.to_vec(scene.stream)?);
        skies.par_extend(rays.par_iter().map(|ray| view.sky(ray)));
        Ok(())
    })?;
    let deepest =
        depths.iter().copied().filter(|d| d.is_finite()).fold(f32::MIN_POSITIVE, f32::max);
    let lights = depths.par_iter().zip(&skies).map(|(depth, sky)| {
        let through = (-5.0 * depth.max(0.0) / deepest).exp();
        let smoke = [0.30, 0.31, 0.34];
        std::array::from_fn(|i| smoke[i] + through * (sky[i] - smoke[i]))
    });
    Ok(developed(&lights.collect::<Vec<Light>>(), view.places.len()))
}

/// Calls `draw` with rows of the picture, a band at a time: a GPU is to have something to do.
fn for_each_band(
    scene: &Scene<'_>,
    mut draw: impl FnMut(std::ops::Range<u32>) -> Result<()>,
) -> Result<()> {
    let (height, rows) = (scene.size[1], if scene.software { 24 } else { 270 });
    let bar = progress("rays", height);
    for first in (0..height).step_by(rows) {
        let band = first..height.min(first + rows as u32);
        draw(band.clone())?;
        bar.inc(band.len() as u64);
    }
    bar.finish();
    Ok(())
}

/// The camera, with the rays of each pixel.
struct View {
    size: [u32; 2],
    places: &'static [[f32; 2]],
    camera: Camera,
}

impl View {
    fn new(scene: &Scene<'_>) -> Self {
        let [lower, upper] = scene.bounds;
        let centre = scaled(add(lower, upper), 0.5);
        let camera = Camera::of(scene.corners.iter().copied(), centre, scene.size, 1.1);
        let places = if scene.software { &MIDDLE[..] } else { &PLACES[..] };
        Self { size: scene.size, places, camera }
    }

    /// The rays of a row of pixels, those of one after those of the other.
    fn row(&self, row: u32) -> impl Iterator<Item = Ray> + '_ {
        let [width, height] = self.size.map(|size| size as f32);
        (0..self.size[0]).flat_map(move |column| {
            self.places.iter().map(move |[u, v]| {
                let at = [(column as f32 + u) / width, (row as f32 + v) / height];
                Ray::new(self.camera.eye, self.camera.direction(at))
            })
        })
    }

    /// The background: brightest in the middle.
    fn sky(&self, ray: &Ray) -> Light {
        let aside = 1.0 - dot(ray.direction, self.camera.forward);
        let (bright, dark) = ([0.82, 0.84, 0.87], [0.50, 0.55, 0.62]);
        let part = (6.0 * aside).min(1.0);
        std::array::from_fn(|i| bright[i] + part * (dark[i] - bright[i]))
    }
}

/// Returns the part of a ray that is less than two voxels away from the box of active voxels: beyond, all values are the
/// background. A ray without such a part gets an empty range.
fn clipped(scene: &Scene<'_>, ray: Ray) -> Ray {
    let [lower, upper] = scene.bounds;
    let (mut enters, mut leaves) = (ray.t_min, ray.t_max);
    for axis in 0..3 {
        let to = |plane: f32| (plane - ray.origin[axis]) / ray.direction[axis];
        let [a, b] = [to(lower[axis] - 2.0 * scene.voxel), to(upper[axis] + 2.0 * scene.voxel)];
        // A ray in a plane of the box gives NaN, which `max` and `min` ignore.
        enters = enters.max(a.min(b));
        leaves = leaves.min(a.max(b));
    }
    if enters < leaves { ray.between(enters, leaves) } else { ray.between(1.0, 0.0) }
}

/// The normal on the side that the ray comes from.
fn facing(hit: &VolumeHit) -> [f32; 3] {
    hit.normal.map(|x| if hit.enters == 1 { x } else { -x })
}

/// By Lambert's law, with a little light from everywhere.
fn shaded(normal: [f32; 3], in_light: bool) -> Light {
    let colour = [0.72, 0.42, 0.24];
    let sky = 0.30 + 0.12 * normal[1];
    let lamp = if in_light { 0.85 * dot(normal, unit(TO_LAMP)).max(0.0) } else { 0.0 };
    colour.map(|part| part * (sky + lamp))
}

/// From light to what screens expect: the mean of each pixel's rays, four bytes for each.
fn developed(lights: &[Light], rays: usize) -> Vec<u8> {
    let pixels = lights.par_chunks_exact(rays).flat_map_iter(|rays| {
        let mean = |i: usize| rays.iter().map(|light| light[i]).sum::<f32>() / rays.len() as f32;
        let byte = |i: usize| (255.0 * mean(i).clamp(0.0, 1.0).powf(0.4545)).round() as u8;
        [byte(0), byte(1), byte(2), 255]
    });
    pixels.collect()
}
