//! The picture: meshes side by side, by rays of a user's kernel.

use cuda_safe::vector::UChar4;
use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, Stream, kernels};
use example_common::vector::{cross, scaled, unit};
use geom_kernels::mesh::{Mesh, MeshView};
use geom_kernels::volume::{Volume, VolumeView};

kernels! {
    struct Kernels;
    // SAFETY: thread i reads the mesh and the volume, and writes pixel i if i < n.
    unsafe in geom_kernels::program(include_str!("render.cu")).name("render.cu") {
        safe fn render(
            mesh: MeshView<'_>, volume: VolumeView<'_, f32>, camera: [[f32; 3]; 4], ground: f32,
            farthest: f32, pixel: f32, width: u32, #[any] height: u32, #[any] samples: u32, #[any] first: u32,
            image: &mut [UChar4], n: u32
        ) where n <= image.len(), 1 <= width;
    }
}

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
pub(crate) fn draw(
    context: &Context,
    stream: &Stream,
    scene: &Scene<'_>,
    panels: &[Panel<'_>],
) -> Result<Vec<u8>> {
    let (kernels, [width, height]) = (Kernels::load(context)?, scene.size);
    let (rows, samples) = if scene.software { (16, 6) } else { (180, 64) };
    let (camera, pixel) = camera(scene);
    let mut band = DeviceBuffer::<UChar4>::zeroed(stream, (rows * width) as usize)?;
    let mut images = Vec::new();
    for panel in panels {
        let mut image = Vec::new();
        for row in (0..height).step_by(rows as usize) {
            let n = rows.min(height - row) * width;
            kernels.render(
                stream,
                LaunchConfig::cover(n as usize, 128),
                panel.mesh.view(),
                scene.volume.view::<f32>()?,
                camera,
                panel.ground,
                FARTHEST,
                if panel.edges { pixel } else { 0.0 },
                width,
                height,
                samples,
                row * width,
                &mut band,
                n,
            )?;
            let pixels = band.slice(..n as usize)?.to_vec(stream)?;
            image.extend(pixels.into_iter().map(<[u8; 4]>::from));
        }
        images.push(image);
    }
    let width = width as usize;
    let rows = (0..height as usize).flat_map(|row| {
        images.iter().filter_map(move |image| image.get(row * width..(row + 1) * width))
    });
    Ok(rows.flatten().flatten().copied().collect())
}

/// `Camera` of render.cu: from in front and above, so near that the ball around everything just fits; y is up.
/// And how wide an edge is
/// drawn, at a distance of 1.
fn camera(scene: &Scene<'_>) -> ([[f32; 3]; 4], f32) {
    let [width, height] = scene.size.map(|size| size as f32);
    // The tangent of half the angle of view upwards, and to the right.
    let (high, wide) = (0.25 * (height / width).max(1.0), 0.25 * (width / height).max(1.0));
    let forward = unit([-0.45, -0.28, -1.0]);
    let right = unit(cross(forward, [0.0, 1.0, 0.0]));
    let up = cross(right, forward);
    let distance = scene.radius * (1.0f32 + 1.0 / (0.25 * 0.25)).sqrt() * 1.04;
    let pixel = 1.4 * high / height;
    ([scaled(forward, -distance), forward, scaled(right, wide), scaled(up, high)], pixel)
}
