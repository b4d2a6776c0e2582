//! A slice through the signed distance, by batch calls.

use cuda_safe::{DeviceBuffer, Result};
use example_common::progress;
use geom_kernels::mesh::{PointQueries, Sign};
use rayon::prelude::*;

use crate::Scene;

/// Draws the signed distance in the plane z = constant through the middle: four bytes for each pixel.
pub(crate) fn slice(scene: &Scene<'_>) -> Result<Vec<u8>> {
    let (stream, [width, height]) = (scene.stream, scene.size.map(|size| size as usize));
    let (lower, upper) = (scene.bounds.lower, scene.bounds.upper);
    let centre: [f32; 3] = std::array::from_fn(|axis| 0.5 * (lower[axis] + upper[axis]));
    let extent: [f32; 3] = std::array::from_fn(|axis| upper[axis] - lower[axis]);
    let pixel = 1.25 * (extent[0] / width as f32).max(extent[1] / height as f32);
    let at = move |column: usize, row: usize| {
        let x = (column as f32 + 0.5 - 0.5 * width as f32) * pixel;
        let y = (0.5 * height as f32 - 0.5 - row as f32) * pixel;
        [centre[0] + x, centre[1] + y, centre[2]]
    };

    let mut distances = Vec::with_capacity(width * height);
    let bar = progress("distances", scene.size[1]);
    for first in (0..height).step_by(scene.rows as usize) {
        let rows = first..height.min(first + scene.rows as usize);
        bar.inc(rows.len() as u64);
        let points: Vec<[f32; 3]> =
            rows.flat_map(|row| (0..width).map(move |column| at(column, row))).collect();
        let points = DeviceBuffer::from_slice(stream, &points)?;
        let mut answers = DeviceBuffer::<f32>::zeroed(stream, points.len())?;
        let queries = PointQueries::at(&points);
        scene.mesh.signed_distances(stream, &queries, Sign::Normal, &mut answers)?;
        distances.extend(answers.to_vec(stream)?);
    }
    bar.finish();

    // About as many lines whatever the mesh.
    let spacing = extent.iter().map(|x| x * x).sum::<f32>().sqrt() / 50.0;
    let colours = (0..width * height).into_par_iter().flat_map_iter(|i| {
        let (column, row) = (i % width, i / width);
        let [left, right] = [column.saturating_sub(1), (column + 1).min(width - 1)];
        let [above, below] = [row.saturating_sub(1), (row + 1).min(height - 1)];
        let d = |column, row| distances[row * width + column];
        // How much the distance grows from pixel to pixel along the picture: no more than they are apart, but
        // where an open mesh has the sign jump.
        let along_x = (d(right, row) - d(left, row)) / (right - left).max(1) as f32;
        let along_y = (d(column, below) - d(column, above)) / (below - above).max(1) as f32;
        colour(distances[i], spacing, along_x.hypot(along_y).min(pixel))
    });
    Ok(colours.collect())
}

/// The colour at this distance: blue inside, with a line each `spacing`, and a wide one at 0.
fn colour(distance: f32, spacing: f32, growth: f32) -> [u8; 4] {
    // Of a pixel that far from a line, this much belongs to the line.
    let covered =
        |from_line: f32, width: f32| (0.5 * width + 0.5 - from_line / growth).clamp(0.0, 1.0);
    let to_line = (distance / spacing - (distance / spacing).round()).abs() * spacing;
    let depth = 1.0 - (-distance.abs() / (5.0 * spacing)).exp();
    let [near, far] = if distance < 0.0 {
        [[0.74, 0.87, 0.97], [0.08, 0.28, 0.60]]
    } else {
        [[1.00, 0.93, 0.78], [0.85, 0.42, 0.20]]
    };
    let [line, surface] = [0.3 * covered(to_line, 1.0), covered(distance.abs(), 2.5)];
    let channel = |c: usize| {
        let area: f32 = near[c] + (far[c] - near[c]) * depth;
        (255.0 * area * (1.0 - line) * (1.0 - surface) + 0.5) as u8
    };
    [channel(0), channel(1), channel(2), 255]
}
