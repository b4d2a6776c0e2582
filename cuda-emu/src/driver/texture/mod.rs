//! Arrays, textures and surfaces.
//!
//! An array is a region of the address space, with the texels of each level in rows that begin at multiples of 32 bytes. A texture object has
//! the addresses of its texels and the number of the region, so that a fetch notices when the array is gone.

pub(super) mod array;
pub(super) mod copy;
pub(super) mod object;
mod view;

use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_sys::{CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUarray_format, CUresult};

use super::call::Answer;
use super::objects::Handles;
use super::process::{Process, State};
use super::stream::engine::Engine;
use crate::texture::{Channel, Format, Level, Objects};

pub(super) use array::{Array, Mipmapped};

/// What an object was made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Resource {
    Array(u64),
    Mipmapped(u64),
    Linear { address: u64, format: CUarray_format, channels: u32, bytes: usize },
    Pitched { address: u64, format: CUarray_format, channels: u32, size: [usize; 2], pitch: usize },
}

/// The descriptors of a texture object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Described {
    pub(super) context: u64,
    pub(super) resource: Resource,
    pub(super) texture: CUDA_TEXTURE_DESC,
    pub(super) view: CUDA_RESOURCE_VIEW_DESC,
}

/// All arrays and objects.
pub(super) struct Known {
    pub(super) arrays: Handles<Array>,
    pub(super) mipmapped: Handles<Mipmapped>,
    pub(super) textures: std::collections::HashMap<u64, Described>,
    /// The contexts of surface objects, and what they were made of.
    pub(super) surfaces: std::collections::HashMap<u64, (u64, Resource)>,
    /// Destroyed objects, each after the pending work that may use it.
    retired: Vec<(Vec<u64>, u64)>,
}

impl Known {
    /// Removes an object after the work that is enqueued now: programs destroy objects after launches that use them.
    fn retire(&mut self, object: u64, state: &State, objects: &Objects) {
        self.retired.push((state.engine.pending(None), object));
        self.sweep(&state.engine, objects);
    }

    /// Removes the destroyed objects that no pending work may use.
    pub(super) fn sweep(&mut self, engine: &Engine, objects: &Objects) {
        self.retired.retain_mut(|(pending, object)| {
            while pending.pop_if(|number| !engine.is_pending(*number)).is_some() {}
            if pending.is_empty() {
                objects.remove(*object);
            }
            !pending.is_empty()
        });
    }
}

/// The same behind a lock of its own, which is taken after that of the state.
pub(super) struct Images(Mutex<Known>);

impl Default for Images {
    fn default() -> Self {
        let bad = CUresult::CUDA_ERROR_INVALID_HANDLE;
        Self(Mutex::new(Known {
            arrays: Handles::new(20, bad),
            mipmapped: Handles::new(21, bad),
            textures: std::collections::HashMap::new(),
            surfaces: std::collections::HashMap::new(),
            retired: Vec::new(),
        }))
    }
}

impl Images {
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the arrays of a context, whose memory is freed, and the objects.
    pub(super) fn forget(&self, context: u64, objects: &Objects) {
        let mut known = self.lock();
        let stays = |object: u64, of: u64| {
            let stays = of != context;
            if !stays {
                objects.remove(object);
            }
            stays
        };
        known.textures.retain(|&object, described| stays(object, described.context));
        known.surfaces.retain(|&object, (of, _)| stays(object, *of));
        known.arrays.retain(|_, array| array.context != context);
        known.mipmapped.retain(|_, mipmapped| mipmapped.context != context);
    }
}

/// Returns the format of texels. 801 for formats that this device does not have.
pub(super) fn format_of(format: CUarray_format, channels: u32) -> Answer<Format> {
    use CUarray_format as F;
    if !matches!(channels, 1 | 2 | 4) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let channel = match format {
        F::CU_AD_FORMAT_UNSIGNED_INT8 => Channel::U8,
        F::CU_AD_FORMAT_UNSIGNED_INT16 => Channel::U16,
        F::CU_AD_FORMAT_UNSIGNED_INT32 => Channel::U32,
        F::CU_AD_FORMAT_SIGNED_INT8 => Channel::S8,
        F::CU_AD_FORMAT_SIGNED_INT16 => Channel::S16,
        F::CU_AD_FORMAT_SIGNED_INT32 => Channel::S32,
        F::CU_AD_FORMAT_HALF => Channel::F16,
        F::CU_AD_FORMAT_FLOAT => Channel::F32,
        // Formats of video, block compression and normalized integers.
        CUarray_format(80..=94 | 145..=203) => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    Ok(Format { channel, channels })
}

/// The box of an array's level that a copy accesses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Corner {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) z: usize,
    pub(super) lod: usize,
}

/// Returns the address of a corner of an array, and the distances of rows and slices. 1 if the box is not inside.
pub(super) fn corner(
    process: &Process,
    array: u64,
    at: Corner,
    (width, rows, slices): (usize, usize, usize),
) -> Answer<(u64, (usize, usize))> {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let known = process.images.lock();
    let array = known.arrays.get(array).map_err(|_| invalid)?;
    let Level { start, size, pitch, slice } = array.level;
    let row = u64::from(size[0]) * array.format.bytes();
    let inside = |at: usize, count: usize, has: u64| {
        at.checked_add(count).is_some_and(|end| end as u64 <= has)
    };
    let depth = u64::from(array.slices());
    if !inside(at.x, width, row)
        || !inside(at.y, rows, size[1].into())
        || !inside(at.z, slices, depth)
        || at.lod != 0
    {
        return Err(invalid);
    }
    let offset = at.z as u64 * slice + at.y as u64 * pitch + at.x as u64;
    Ok((start + offset, (pitch as usize, slice as usize)))
}

/// Returns the array that has an address, and the corner that it is.
pub(super) fn corner_of(process: &Process, address: u64) -> Option<(u64, Corner)> {
    let known = process.images.lock();
    known.arrays.iter().find_map(|(handle, array)| {
        let offset = address.checked_sub(array.level.start)?;
        let Level { pitch, slice, .. } = array.level;
        let end = slice * u64::from(array.slices());
        (offset < end).then(|| {
            let (z, rest) = (offset / slice, offset % slice);
            let at = Corner {
                x: (rest % pitch) as usize,
                y: (rest / pitch) as usize,
                z: z as usize,
                lod: 0,
            };
            (handle, at)
        })
    })
}
