//! Pictures of the grains: spheres on a chequered ground, lit by the sun and the sky.

use std::{error::Error, fs, io::BufWriter};

use cuda_safe::kernel::vector::{Mat3, Vec3, Vec4};
use cuda_safe::kernel::{Atomic, Device, Memory, Place, kernel};
use example_common::places::Grid;
use geom_kernels::structures::HashGrid;

use crate::step::{RADIUS, REACH};

/// What is added to depths, so that their bits are in the order of their values.
const FAR: f32 = 1000.0;

/// The axes of two parallel views, to the right, up and away: from the camera and from the sun. What their middles show, and
/// the size of a pixel.
#[derive(Debug, Clone, Copy, Device)]
#[repr(C)]
struct Views {
    axes: [Mat3; 2],
    centre: Vec3,
    pixel: f32,
}

/// Splats grains into both views. A pixel has the depth of the nearest grain in its upper half, and the grain in its lower
/// half.
#[kernel]
fn splat(grains: &[Vec4], views: Views, size: usize, pixels: &Atomic<[u64]>) {
    assert!(pixels.len() == 2 * size * size);
    blocks(Threads::<128>, grid((2 * grains.len()).div_ceil(128)), |block, _| {
        let first = block.index() * 128;
        block.run((2 * grains.len() - first).min(128), |t| {
            let (view, grain) = ((first + t) / grains.len(), (first + t) % grains.len());
            let at =
                views.axes[view].transpose_mul(grains[grain].xyz() - views.centre) / views.pixel;
            let (r, half) = (RADIUS / views.pixel, (size / 2) as f32);
            let (column, row) = (half + at.x, half - at.y);
            for y in (row - r) as usize..=((row + r) as usize).min(size - 1) {
                for x in (column - r) as usize..=((column + r) as usize).min(size - 1) {
                    let (dx, dy) = (x as f32 + 0.5 - column, y as f32 + 0.5 - row);
                    let square = r * r - dx * dx - dy * dy;
                    if square > 0.0 {
                        let depth = FAR + (at.z - square.sqrt()) * views.pixel;
                        let nearest = (depth.to_bits() as u64) << 32 | grain as u64;
                        pixels.fetch_min((view * size + y) * size + x, nearest);
                    }
                }
            }
        });
    });
}

/// Colours each pixel, by the sun unless something is nearer to it, and by what the grains around it leave of the sky.
#[kernel]
fn shade(
    near: &HashGrid<f32>,
    x: &[Vec4],
    v: &[Vec4],
    views: Views,
    size: usize,
    pixels: &[u64],
    colours: &mut [[u8; 4]],
) {
    assert!(pixels.len() == 2 * size * size && v.len() == x.len());
    each(image(colours, [size, size]), |[column, row], out| {
        let (half, camera, sun) = ((size / 2) as f32, views.axes[0], views.axes[1]);
        let at = Vec3::new(column as f32 + 0.5 - half, half - 0.5 - row as f32, 0.0);
        let (mut p, pixel) =
            (views.centre + camera * at * views.pixel, pixels[row * size + column]);
        let (mut normal, mut colour) = (Vec3::new(0.0, 1.0, 0.0), Vec3::splat(0.4));
        if pixel == u64::MAX {
            p = p.along(camera.z_axis, -(p.y + RADIUS) / camera.z_axis.y);
            if (p.x.floor() as i32 + p.z.floor() as i32) % 2 != 0 {
                colour = Vec3::splat(0.36);
            }
        } else {
            let grain = (pixel & 0xffff_ffff) as usize;
            p = p.along(camera.z_axis, f32::from_bits((pixel >> 32) as u32) - FAR);
            normal = (p - x[grain].xyz()).normalize();
            let hue = 6.2831855 * v[grain].w;
            colour = Vec3::new(hue.cos(), (hue - 0.9).cos(), (hue - 1.8).cos()) * 0.4;
            colour += Vec3::splat(0.45);
        }
        // How much of the sun, and of the sky, reaches it.
        let (mut lit, mut open) = (1.0, 1.0);
        let at = sun.transpose_mul(p.along(normal, 0.02) - views.centre) / views.pixel;
        for k in 0..25 {
            let x = half + at.x + (k % 5) as f32 - 2.0;
            let y = half - at.y + (k / 5) as f32 - 2.0;
            if x >= 0.0 && x < size as f32 && y >= 0.0 && y < size as f32 {
                // Where there is no grain, this is NaN.
                let pixel = pixels[(size + y as usize) * size + x as usize];
                let depth = f32::from_bits((pixel >> 32) as u32) - FAR;
                if depth < at.z * views.pixel - 0.02 {
                    lit -= 0.04;
                }
            }
        }
        for grain in near.near(p.to_array(), 0.45) {
            let square = grain.distance_squared;
            let above = -Vec3::from_array(grain.delta).dot(normal) / square.sqrt();
            open *= 1.0 - 0.9 * above.max(0.0) * (RADIUS * RADIUS / square).min(1.0);
        }
        let sky = Vec3::new(0.45, 0.52, 0.65) * ((0.65 + 0.35 * normal.y) * open);
        let bright = lit * (-normal.dot(sun.z_axis)).max(0.0);
        let light = sky.along(Vec3::new(1.35, 1.2, 1.0), bright);
        let colour = colour.times(light).min(Vec3::splat(1.0)) * 255.0;
        *out = [colour.x as u8, colour.y as u8, colour.z as u8, 255];
    });
}

/// The axes of a parallel view: to the right, up and away.
fn axes(away: Vec3) -> Mat3 {
    let away = away.normalize();
    let right = away.cross(Vec3::new(0.0, 1.0, 0.0)).normalize();
    Mat3::from_cols(right, right.cross(away), away)
}

/// A camera that follows a grain in the middle of the block, and the sun.
pub(crate) struct Camera {
    middle: usize,
    wide: f32,
    size: usize,
    axes: [Mat3; 2],
}

impl Camera {
    /// Sees so much that the block may fall over.
    pub(crate) fn new([layers, side]: [usize; 2], size: usize) -> Self {
        Self {
            middle: (layers / 2 * side + side / 2) * side + side / 2,
            wide: 0.375 * side as f32 + 0.3 * layers as f32,
            size,
            axes: [axes(Vec3::new(-0.75, -0.5, -0.6)), axes(Vec3::new(-0.35, -0.8, 0.5))],
        }
    }

    /// Returns the views of grains whose middle one is at `at`.
    fn views(&self, at: Vec4) -> Views {
        let centre = Vec3::new(at.x, self.wide / 7.0, at.z);
        Views { axes: self.axes, centre, pixel: self.wide / self.size as f32 }
    }

    /// Writes a picture to `target/dem`. The grid is rebuilt.
    pub(crate) fn take(
        &self,
        place: Place<'_>,
        grid: &mut Grid,
        [x, v]: [&Memory<Vec4>; 2],
        number: usize,
    ) -> Result<(), Box<dyn Error>> {
        let (size, middle) = (self.size, self.middle..=self.middle);
        let middle = match (place, x) {
            (Place::Gpu(stream), Memory::Device(x)) => x.slice(middle)?.to_vec(stream)?,
            _ => x.to_vec(place)?.get(middle).unwrap_or_default().to_vec(),
        };
        let views = self.views(*middle.first().ok_or("a picture needs grains")?);
        let mut pixels = Memory::<u64>::zeroed(place, 2 * size * size)?;
        let mut image = Memory::<[u8; 4]>::zeroed(place, size * size)?;
        grid.rebuild(place, x, REACH)?;
        pixels.fill(place, u64::MAX)?;
        splat::launch(place, x, views, size, &mut pixels)?;
        shade::launch(place, grid.view(), x, v, views, size, &pixels, &mut image)?;
        self.write(&image.to_vec(place)?, number)
    }

    fn write(&self, image: &[[u8; 4]], number: usize) -> Result<(), Box<dyn Error>> {
        fs::create_dir_all("target/dem")?;
        let file = BufWriter::new(fs::File::create(format!("target/dem/{number:04}.png"))?);
        let mut png = png::Encoder::new(file, self.size as u32, self.size as u32);
        png.set_color(png::ColorType::Rgba);
        png.write_header()?.write_image_data(image.as_flattened())?;
        Ok(())
    }
}
