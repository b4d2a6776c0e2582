//! Views of arrays: another format, a part of the layers or levels.

use cuda_sys::{CUDA_RESOURCE_VIEW_DESC, CUresourceViewFormat, CUresult};

use super::Resource;
use crate::driver::call::Answer;
use crate::texture::{Channel, Format, Image};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Returns the format of a view. 801 for compressed blocks.
fn format(of: CUresourceViewFormat) -> Answer<Format> {
    let number = of.0;
    if (25..=34).contains(&number) {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    // Three of each type, of 1, 2 and 4 channels.
    let channel = match number.wrapping_sub(1) / 3 {
        0 => Channel::U8,
        1 => Channel::S8,
        2 => Channel::U16,
        3 => Channel::S16,
        4 => Channel::U32,
        5 => Channel::S32,
        6 => Channel::F16,
        7 => Channel::F32,
        _ => return Err(INVALID),
    };
    Ok(Format { channel, channels: 1 << (number.wrapping_sub(1) % 3) })
}

/// Makes an image what the view says.
pub(super) fn apply(
    image: &mut Image,
    resource: Resource,
    view: &CUDA_RESOURCE_VIEW_DESC,
) -> Answer {
    if !matches!(resource, Resource::Array(_) | Resource::Mipmapped(_)) {
        return Err(INVALID);
    }
    let compressed = (25..=34).contains(&view.format.0);
    // A block of compressed texels has 8 or 16 bytes.
    if compressed && image.format.bytes() < 8 {
        return Err(INVALID);
    }
    let format = format(view.format)?;
    if format.bytes() != image.format.bytes() {
        return Err(INVALID);
    }
    let size = image.levels.first().map_or([0; 3], |level| level.size);
    let flat = image.layered || image.cube;
    let depth = match (flat, image.dimensions) {
        (true, _) => image.layers,
        (_, 3) => size[2],
        _ => 0,
    };
    let height = if image.dimensions > 1 { size[1] } else { 0 };
    let same = |wanted: usize, has: u32| wanted == has as usize || has == 0 && wanted <= 1;
    if !same(view.width, size[0]) || !same(view.height, height) || !same(view.depth, depth) {
        return Err(INVALID);
    }
    let (first, last) = (view.firstMipmapLevel as usize, view.lastMipmapLevel as usize);
    if first > last || first >= image.levels.len() || view.firstLayer > view.lastLayer {
        return Err(INVALID);
    }
    let last = last.min(image.levels.len() - 1);
    image.levels = image.levels.get(first..=last).unwrap_or_default().to_vec();
    image.format = format;
    if flat {
        if view.firstLayer >= image.layers {
            return Err(INVALID);
        }
        for level in &mut image.levels {
            level.start += u64::from(view.firstLayer) * level.slice;
        }
        image.layers = (view.lastLayer.min(image.layers - 1) - view.firstLayer) + 1;
    }
    Ok(())
}
