//! The picture: meshes side by side, by rays.

use cuda_safe::{DeviceBuffer, Error, Result, Stream};
use example_common::vector::{cross, scaled, unit};
use geom_kernels::mesh::Mesh;
use geom_kernels::volume::Volume;

use crate::render::{View, render};

/// Distances from the volume's surface have their last colour from this on.
const FARTHEST: f32 = 0.6;

/// A mesh of the picture, made with topology.
pub(crate) struct Panel<'a> {
    pub(crate) mesh: &'a Mesh<'a>,
    /// How high the ground is.
    pub(crate) ground: f32,
    /// Whether edges are drawn.
    pub(crate) edges: bool,
}

/// How panels are drawn.
pub(crate) struct Scene<'a> {
    pub(crate) volume: &'a Volume,
    /// All that is drawn is within this of the origin.
    pub(crate) radius: f32,
    /// Of each panel: width and height.
    pub(crate) size: [u32; 2],
    pub(crate) software: bool,
}

/// Draws the panels side by side: four bytes for each pixel.
pub(crate) fn draw(stream: &Stream, scene: &Scene<'_>, panels: &[Panel<'_>]) -> Result<Vec<u8>> {
    let [width, height] = scene.size.map(|size| size as usize);
    let mut pixels = DeviceBuffer::<[u8; 4]>::zeroed(stream, width * height)?;
    let mut images = Vec::new();
    for Panel { mesh, ground, edges } in panels {
        let normals = mesh.vertex_normals().ok_or_else(|| Error::invalid("no topology"))?;
        let (volume, view) = (scene.volume.view::<f32>()?, view(scene, *ground, *edges));
        let (faces, points) = (mesh.faces(), mesh.points());
        render::launch(stream, *mesh, faces, points, normals, &volume, view, &mut pixels)?;
        images.push(pixels.to_vec(stream)?);
    }
    let rows = (0..height).flat_map(|row| {
        images.iter().filter_map(move |image| image.get(row * width..(row + 1) * width))
    });
    Ok(rows.flatten().flatten().copied().collect())
}

/// From in front and above, so near that the ball around everything just fits; y is up.
fn view(scene: &Scene<'_>, ground: f32, edges: bool) -> View {
    let [width, height] = scene.size.map(|size| size as f32);
    // The tangent of half the angle of view upwards, and to the right.
    let (high, wide) = (0.25 * (height / width).max(1.0), 0.25 * (width / height).max(1.0));
    let forward = unit([-0.45, -0.28, -1.0]);
    let right = unit(cross(forward, [0.0, 1.0, 0.0]));
    let up = cross(right, forward);
    let distance = scene.radius * (1.0f32 + 1.0 / (0.25 * 0.25)).sqrt() * 1.04;
    View {
        eye: scaled(forward, -distance).into(),
        forward: forward.into(),
        right: scaled(right, wide).into(),
        up: scaled(up, high).into(),
        ground,
        farthest: FARTHEST,
        edge: if edges { 1.4 * high / height } else { 0.0 },
        width: scene.size[0],
        height: scene.size[1],
        samples: if scene.software { 6 } else { 64 },
    }
}
