//! What the examples share: the device, libraries, a camera, pictures as files, times and random points.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use cuda_safe::{Context, Event, Result, Stream};
use indicatif::{ProgressBar, ProgressStyle};

#[cfg(feature = "libraries")]
pub mod libraries;
#[cfg(feature = "places")]
pub mod places;
pub mod vector;

pub use vector::Vector;
use vector::{add, cross, dot, scaled, sub, unit};

/// Opens the first device. Ends the process with the exit status 3 if there is none.
#[must_use]
pub fn context() -> Context {
    Context::new(0).unwrap_or_else(|error| {
        eprintln!("no device to run on: {error}");
        std::process::exit(3)
    })
}

/// Writes a picture of three or four bytes for each pixel and prints its path. Makes the folder.
///
/// # Errors
/// If the folder or the file can't be written.
pub fn save(
    path: &Path,
    [width, height]: [u32; 2],
    bytes: &[u8],
) -> std::result::Result<(), Box<dyn Error>> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut png = png::Encoder::new(BufWriter::new(File::create(path)?), width, height);
    let is_rgb = bytes.len() == 3 * width as usize * height as usize;
    png.set_color(if is_rgb { png::ColorType::Rgb } else { png::ColorType::Rgba });
    png.write_header()?.write_image_data(bytes)?;
    println!("{}", path.display());
    Ok(())
}

/// Returns a bar for something that is done row by row.
#[must_use]
pub fn progress(what: &'static str, rows: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:10} {bar:40} {pos}/{len} rows, {elapsed}");
    let bar = ProgressBar::new(rows.into()).with_message(what);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

/// Returns the milliseconds of a run, and the result of the last one: the median of several, each between two events,
/// after one to warm up. A single run is not preceded by another.
///
/// # Errors
/// Those of `run`, and of the driver.
pub fn time<T>(
    stream: &Stream,
    runs: usize,
    mut run: impl FnMut() -> Result<T>,
) -> Result<(f32, T)> {
    let context = stream.context();
    let (start, end) = (Event::timing(&context)?, Event::timing(&context)?);
    if runs > 1 {
        run()?;
    }
    let mut times = Vec::new();
    loop {
        start.record(stream)?;
        let last = run()?;
        end.record(stream)?;
        times.push(start.elapsed_ms(&end)?);
        if times.len() >= runs {
            times.sort_by(f32::total_cmp);
            return Ok((times[times.len() / 2], last));
        }
    }
}

/// Returns points in a box, the same in every run.
#[must_use]
pub fn random_points(n: usize, [lower, upper]: [Vector; 2]) -> Vec<Vector> {
    let mut seed = 42u64;
    let mut next = || {
        // D. Knuth, MMIX.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f32 / (1 << 24) as f32
    };
    let mut place = |axis: usize| lower[axis] + (upper[axis] - lower[axis]) * next();
    (0..n).map(|_| [place(0), place(1), place(2)]).collect()
}

/// A camera in front of an object and above it; y is up. The middle of the picture is at `eye + forward`, and from there
/// `right` and `up` lead to its sides.
#[derive(Debug, Clone, Copy)]
pub struct Camera {
    /// Where it is.
    pub eye: Vector,
    /// The direction of view, of length 1.
    pub forward: Vector,
    /// To the right side of the picture.
    pub right: Vector,
    /// To the upper side of the picture.
    pub up: Vector,
}

impl Camera {
    /// Returns a camera so near to an object that all its points are seen, with this margin. It looks at `centre`.
    #[must_use]
    pub fn of(
        points: impl Iterator<Item = Vector>,
        centre: Vector,
        [width, height]: [u32; 2],
        margin: f32,
    ) -> Self {
        // Tangents of half the angles of view, upwards and to the right.
        let (high, wide) = (0.3, 0.3 * width as f32 / height as f32);
        let forward = unit([-0.35, -0.45, -1.0]);
        let right = unit(cross(forward, [0.0, 1.0, 0.0]));
        let up = cross(right, forward);
        let distance = points.map(|point| {
            let way = sub(point, centre);
            let aside = (dot(way, right).abs() / wide).max(dot(way, up).abs() / high);
            margin * aside - dot(way, forward)
        });
        let eye = sub(centre, scaled(forward, distance.fold(0.0, f32::max)));
        Self { eye, forward, right: scaled(right, wide), up: scaled(up, high) }
    }

    /// Returns the direction to a point of the picture, of length 1. Both coordinates go from 0 to 1, down and to the right.
    #[must_use]
    pub fn direction(&self, [x, y]: [f32; 2]) -> Vector {
        let aside = add(scaled(self.right, 2.0 * x - 1.0), scaled(self.up, 1.0 - 2.0 * y));
        unit(add(self.forward, aside))
    }
}
