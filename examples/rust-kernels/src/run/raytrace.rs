mod oracle;
pub(crate) mod scene;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use cuda_safe::DeviceBuffer;
use rust_kernels::raytrace::render;

use super::{Setting, same};
use crate::Failure;

/// A ray meets this many spheres at most.
pub(crate) const DEPTH: u32 = 20;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let (width, samples) = (setting.size(1200, 64), if setting.software { 2 } else { 16 });
    let height = width * 9 / 16;
    let spheres = scene::spheres();
    let camera = scene::camera(width as f32 / height as f32);

    let mut cpu = vec![[0; 4]; width * height];
    render::cpu(width, height, samples, DEPTH, camera, &spheres, &mut cpu)?;

    let on_device = DeviceBuffer::from_slice(stream, &spheres)?;
    let mut picture = DeviceBuffer::<[u8; 4]>::zeroed(stream, width * height)?;
    render::launch(stream, width, height, samples, DEPTH, camera, &on_device, &mut picture)?;
    let picture = picture.to_vec(stream)?;
    let file = save(&setting.arguments.output, width, height, &picture)?;
    let (on_cpu, on_device) = (hash(&cpu), hash(&picture));
    if on_cpu != on_device {
        same(&cpu, &picture)?;
    }

    let shape = oracle::Shape { width, height, samples, depth: DEPTH };
    let difference = oracle::compare(&shape, &camera, &spheres, &picture)?;
    Ok(format!(
        "{width} x {height}, {samples} rays a pixel, hash {on_device:016x} on both, {difference}: {}",
        file.display()
    ))
}

/// FNV-1a of the bytes.
fn hash(picture: &[[u8; 4]]) -> u64 {
    picture.as_flattened().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn save(
    folder: &Path,
    width: usize,
    height: usize,
    picture: &[[u8; 4]],
) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("creating {}: {error}", folder.display()))?;
    let path = folder.join("raytrace.png");
    let file =
        File::create(&path).map_err(|error| format!("writing {}: {error}", path.display()))?;
    let mut encoder =
        png::Encoder::new(BufWriter::new(file), u32::try_from(width)?, u32::try_from(height)?);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(picture.as_flattened())?;
    Ok(path)
}
