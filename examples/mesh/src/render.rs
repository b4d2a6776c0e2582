//! The picture: rays from a user's kernel.

use cuda_safe::vector::UChar4;
use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, kernels};
use geom_kernels::Aabb;
use geom_kernels::mesh::MeshView;

use crate::{Scene, progress};

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
    let camera = camera(scene, width as f32 / height as f32);
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

/// `Camera` of render.cu: from in front of the mesh and above, so near that all of it is seen; y is up.
fn camera(scene: &Scene<'_>, aspect: f32) -> [[f32; 3]; 4] {
    // Tangents of half the angles of view, upwards and to the right.
    let (high, wide) = (0.3, 0.3 * aspect);
    let forward = unit([-0.35, -0.45, -1.0]);
    let right = unit(cross(forward, [0.0, 1.0, 0.0]));
    let up = cross(right, forward);
    let Aabb { lower, upper } = scene.bounds;
    let centre = std::array::from_fn(|axis| 0.5 * (lower[axis] + upper[axis]));
    let distance = scene.host.points.iter().filter(|p| p.iter().all(|x| x.is_finite())).map(|p| {
        let way = sub(*p, centre);
        let aside = (dot(way, right).abs() / wide).max(dot(way, up).abs() / high);
        1.2 * aside - dot(way, forward)
    });
    let eye = sub(centre, scaled(forward, distance.fold(0.0, f32::max)));
    [eye, forward, scaled(right, wide), scaled(up, high)]
}

fn sub(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

fn scaled(a: [f32; 3], factor: f32) -> [f32; 3] {
    a.map(|x| x * factor)
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    (0..3).map(|axis| a[axis] * b[axis]).sum()
}

fn length(a: [f32; 3]) -> f32 {
    dot(a, a).sqrt()
}

fn unit(a: [f32; 3]) -> [f32; 3] {
    scaled(a, 1.0 / length(a))
}

fn cross(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|axis| {
        let (next, last) = ((axis + 1) % 3, (axis + 2) % 3);
        a[next] * b[last] - a[last] * b[next]
    })
}
