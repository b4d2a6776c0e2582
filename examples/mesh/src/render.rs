//! The picture: rays from a user's kernel.

use cuda_safe::vector::UChar4;
use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, kernels};
use example_common::vector::{add, length, scaled, sub};
use example_common::{Camera, progress};
use geom_kernels::Aabb;
use geom_kernels::mesh::MeshView;

use crate::Scene;

kernels! {
    struct Kernels;
    // SAFETY: thread i reads the mesh, and writes pixel i if i < n.
    unsafe in geom_kernels::program(include_str!("render.cu")).name("render.cu") {
        safe fn render(
            mesh: MeshView<'_>, camera: [[f32; 3]; 4], ground: f32, reach: f32, width: u32,
            #[any] height: u32, #[any] samples: u32, #[any] sky_rays: u32, #[any] first: u32, image: &mut [UChar4], n: u32
        ) where n <= image.len(), 1 <= width;
    }
}

/// Draws the mesh: four bytes for each pixel.
pub(crate) fn render(scene: &Scene<'_>, context: &Context) -> Result<Vec<u8>> {
    let (stream, [width, height]) = (scene.stream, scene.size);
    let kernels = Kernels::load(context)?;
    let [samples, sky_rays] = if scene.software { [8, 2] } else { [64, 8] };
    let camera = camera(scene);
    let reach = 0.2 * length(sub(scene.bounds.upper, scene.bounds.lower));

    let mut picture = Vec::new();
    let mut band = DeviceBuffer::<UChar4>::zeroed(stream, (scene.rows * width) as usize)?;
    let bar = progress("rays", height);
    for row in (0..height).step_by(scene.rows as usize) {
        let n = scene.rows.min(height - row) * width;
        kernels.render(
            stream,
            LaunchConfig::cover(n as usize, 128),
            scene.mesh.view(),
            camera,
            scene.bounds.lower[1],
            reach,
            width,
            height,
            samples,
            sky_rays,
            row * width,
            &mut band,
            n,
        )?;
        let pixels = band.slice(..n as usize)?.to_vec(stream)?;
        picture.extend(pixels.into_iter().flat_map(<[u8; 4]>::from));
        bar.inc((n / width).into());
    }
    bar.finish();
    Ok(picture)
}

/// `Camera` of render.cu.
fn camera(scene: &Scene<'_>) -> [[f32; 3]; 4] {
    let Aabb { lower, upper } = scene.bounds;
    let points = scene.host.points.iter().copied().filter(|p| p.iter().all(|x| x.is_finite()));
    let camera = Camera::of(points, scaled(add(lower, upper), 0.5), scene.size, 1.2);
    [camera.eye, camera.forward, camera.right, camera.up]
}
