//! Values that a kernel of a user's own stores in a volume that was made of tiles.

use cuda_safe::{DeviceBuffer, LaunchConfig};
use geom_kernels::volume::{Volume, VolumeOptions};
use nvrtc::Options;

use super::lists::voxels;
use super::model::{Model, voxel};
use crate::Geometry;
use crate::flags::module;
use test_harness::{Case, TestDevice, TestResult, cases, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["volume_build", device(kernels_store_values),]
}

pub(crate) const SOURCE: &str = include_str!("../../kernels/volume_store.cu");

fn kernels_store_values(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut rng = device.rng(990);
    let module = module(device, SOURCE, Options::new())?;
    for n in [0, 1, 50] {
        let list = voxels(&mut rng, n, 60);
        let buffer = DeviceBuffer::from_slice(&stream, &list)?;
        let options = VolumeOptions::new(-1.0f32);
        // Of tiles all voxels are active, of voxels some.
        for exact in [false, true] {
            let mut model = match exact {
                false => Model::of_tiles(-1.0f32, &list),
                true => Model::of_voxels(-1.0f32, &list, None),
            };
            let mut volume = match exact {
                false => Volume::from_leaves(&stream, &geometry, &buffer, options.clone())?,
                true => Volume::from_voxels(&stream, &geometry, &buffer, options.clone())?,
            };
            let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
            let kernel = module.kernel("store")?;
            let args = (volume.view_mut::<f32>()?, &mut counts);
            // SAFETY: writes three counts, and values of the volume.
            unsafe { device.launch(&kernel, &stream, LaunchConfig::new(7, 512), args)? };
            let mut asked: Vec<[i32; 3]> = vec![[0, 0, 0], [1 << 20, 0, 77]];
            let mut wanted = Vec::new();
            let mut active = 0;
            for (origin, leaf) in &mut model.leaves {
                for place in 0..512 {
                    let at = voxel(*origin, place);
                    asked.push(at);
                    if leaf.active[place] {
                        let [x, y, z] = at.map(|c| c & 63);
                        leaf.values[place] = (x + 64 * y + 4096 * z) as f32;
                        active += 1;
                    }
                }
            }
            model.check_nodes(&volume.download_bytes(&stream)?)?;
            ensure_eq!(counts.to_vec(&stream)?, [model.leaves.len() as u32, 0, active]);
            for at in &asked {
                let (origin, place) = super::model::leaf_of(*at);
                wanted.push(model.leaves.get(&origin).map_or(-1.0, |leaf| leaf.values[place]));
            }
            let there = DeviceBuffer::from_slice(&stream, &asked)?;
            let mut found = DeviceBuffer::<f32>::zeroed(&stream, asked.len())?;
            let kernel = module.kernel("look")?;
            let args = (volume.view::<f32>()?, &there, asked.len() as u32, &mut found);
            // SAFETY: reads as many voxels as there are, and writes a value for each.
            unsafe { device.launch(&kernel, &stream, LaunchConfig::cover(asked.len(), 64), args)? };
            ensure_eq!(found.to_vec(&stream)?, wanted);
        }
    }
    Ok(())
}
