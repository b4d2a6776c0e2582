//! Arrays and mipmapped arrays.

use core::ffi::c_uint;

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY_SPARSE_PROPERTIES,
    CUDA_ARRAY3D_CUBEMAP, CUDA_ARRAY3D_DEFERRED_MAPPING, CUDA_ARRAY3D_DESCRIPTOR,
    CUDA_ARRAY3D_LAYERED, CUDA_ARRAY3D_SPARSE, CUDA_ARRAY3D_SURFACE_LDST,
    CUDA_ARRAY3D_TEXTURE_GATHER, CUDA_ARRAY3D_VIDEO_ENCODE_DECODE, CUarray, CUarray_format,
    CUdevice, CUmipmappedArray, CUresult,
};

use super::format_of;
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::memory::wait_for_device;
use crate::driver::objects::{handle, number};
use crate::space::Kind;
use crate::texture::{Format, Level};

/// The bytes at whose multiples rows begin: the longest access of a surface has 16.
const ROW_ALIGN: usize = 32;

/// An array, or a level of a mipmapped one.
#[derive(Debug, Clone, Copy)]
pub(in crate::driver) struct Array {
    pub(in crate::driver) context: u64,
    /// Width, height and depth as they were asked for, of this level.
    pub(in crate::driver) asked: [usize; 3],
    pub(in crate::driver) code: CUarray_format,
    pub(in crate::driver) format: Format,
    pub(in crate::driver) flags: u32,
    pub(in crate::driver) level: Level,
    /// The start and the number of its region.
    pub(in crate::driver) region: (u64, u64),
    /// The mipmapped array that it is a level of.
    pub(in crate::driver) of: Option<u64>,
}

/// A mipmapped array.
#[derive(Debug, Clone)]
pub(in crate::driver) struct Mipmapped {
    pub(in crate::driver) context: u64,
    pub(in crate::driver) start: u64,
    /// The handles of the levels.
    pub(in crate::driver) levels: Vec<u64>,
}

impl Array {
    pub(in crate::driver) fn layered(&self) -> bool {
        self.flags & CUDA_ARRAY3D_LAYERED != 0
    }

    pub(in crate::driver) fn cube(&self) -> bool {
        self.flags & CUDA_ARRAY3D_CUBEMAP != 0
    }

    /// Returns the slices, layers or faces, at least 1.
    pub(in crate::driver) fn slices(&self) -> u32 {
        (self.asked[2] as u32).max(1)
    }

    pub(in crate::driver) fn dimensions(&self) -> u32 {
        let [_, height, depth] = self.asked;
        match (height, depth) {
            _ if self.layered() || self.cube() => 1 + u32::from(height > 0),
            (0, _) => 1,
            (_, 0) => 2,
            _ => 3,
        }
    }

    fn descriptor(&self) -> CUDA_ARRAY3D_DESCRIPTOR {
        let [width, height, depth] = self.asked;
        CUDA_ARRAY3D_DESCRIPTOR {
            Width: width,
            Height: height,
            Depth: depth,
            Format: self.code,
            NumChannels: self.format.channels,
            Flags: self.flags,
        }
    }
}

/// The largest sizes of arrays, as an H200 has them.
mod most {
    /// Width of one dimension, and of two.
    pub(super) const WIDTH: usize = 131_072;
    pub(super) const HEIGHT: usize = 65_536;
    /// Width and height of layers, cubes, mipmaps and gathered arrays.
    pub(super) const LAYER: usize = 32_768;
    pub(super) const LAYERS: usize = 2048;
    pub(super) const CUBE_LAYERS: usize = 2046;
    /// Each of the three dimensions, or width and height with a larger depth.
    pub(super) const CUBOID: usize = 16_384;
    pub(super) const FLAT_CUBOID: [usize; 3] = [8192, 8192, 32_768];
}

/// Checks an array's size and flags.
fn check(wanted: &CUDA_ARRAY3D_DESCRIPTOR, mipmapped: bool) -> Answer<Format> {
    let (size, flags) = ([wanted.Width, wanted.Height, wanted.Depth], wanted.Flags);
    let [width, height, depth] = size;
    let has = |flag: u32| flags & flag != 0;
    let (layered, cube) = (has(CUDA_ARRAY3D_LAYERED), has(CUDA_ARRAY3D_CUBEMAP));
    let gather = has(CUDA_ARRAY3D_TEXTURE_GATHER);
    let all = |most: [usize; 3]| size.iter().zip(most).all(|(size, most)| *size <= most);
    let fits = match (layered, cube) {
        (_, true) => {
            let layers = if layered {
                depth > 0 && depth.is_multiple_of(6) && depth <= most::CUBE_LAYERS
            } else {
                depth == 6
            };
            width == height && layers && width <= most::LAYER && !gather
        }
        (true, false) => depth > 0 && all([most::LAYER, most::LAYER, most::LAYERS]) && !gather,
        (false, false) => match (height, depth) {
            (0, 0) => {
                let narrow = mipmapped || has(CUDA_ARRAY3D_SURFACE_LDST);
                width <= if narrow { most::LAYER } else { most::WIDTH } && !gather
            }
            (_, 0) if mipmapped || gather => all([most::LAYER, most::LAYER, 0]),
            (_, 0) => all([most::WIDTH, most::HEIGHT, 0]),
            (0, _) => false,
            _ => (all([most::CUBOID; 3]) || all(most::FLAT_CUBOID)) && !gather,
        },
    };
    // Depth textures and colour attachments are of graphics.
    let known = flags & (16 | 32 | 512) == 0;
    if width == 0 || !fits || !known {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let later =
        CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
    let format = format_of(wanted.Format, wanted.NumChannels)?;
    if flags & later != 0 { Err(CUresult::CUDA_ERROR_NOT_SUPPORTED) } else { Ok(format) }
}

/// Returns the size of a level.
fn level_size(wanted: &CUDA_ARRAY3D_DESCRIPTOR, level: u32) -> [usize; 3] {
    let half = |size: usize| if size == 0 { 0 } else { (size >> level).max(1) };
    let flat = wanted.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) != 0;
    let depth = if flat { wanted.Depth } else { half(wanted.Depth) };
    [half(wanted.Width), half(wanted.Height), depth]
}

/// Makes an array of `levels` levels. Returns the handles of the levels, and the start of the memory.
fn create(
    wanted: &CUDA_ARRAY3D_DESCRIPTOR,
    levels: u32,
    mipmapped: bool,
) -> Answer<(u64, u64, Vec<u64>)> {
    let process = process()?;
    let mut state = process.lock();
    let context = state.current()?;
    let format = check(wanted, mipmapped)?;
    state.forbidden_in_capture()?;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let mut parts = Vec::new();
    let mut end = 0_usize;
    for level in 0..levels {
        let size = level_size(wanted, level);
        // Accesses of surfaces may be longer than a texel, and are aligned in a row.
        let row = size[0].checked_mul(format.bytes() as usize).ok_or(invalid)?;
        let row = row.checked_next_multiple_of(ROW_ALIGN).ok_or(invalid)?;
        let slice = row.checked_mul(size[1].max(1)).ok_or(invalid)?;
        let bytes = slice.checked_mul(size[2].max(1)).ok_or(invalid)?;
        parts.push((end, size, row, slice));
        end = end.checked_add(bytes).ok_or(invalid)?;
    }
    let start = state.allocate(process, context, end, Kind::Array, 0)?;
    let id = process.space.find(start).map_or(0, |region| region.id);
    let mut known = process.images.lock();
    let handles = parts.into_iter().map(|(offset, asked, row, slice)| {
        known.arrays.insert(Array {
            context,
            asked,
            code: wanted.Format,
            format,
            flags: wanted.Flags,
            level: Level {
                start: start + offset as u64,
                size: asked.map(|size| size.max(1) as u32),
                pitch: row as u64,
                slice: slice as u64,
            },
            region: (start, id),
            of: None,
        })
    });
    let handles = handles.collect();
    Ok((context, start, handles))
}

/// Frees the memory of an array after waiting for the device.
fn free(context: u64, (start, region): (u64, u64)) -> Answer {
    let process = process()?;
    let state = process.lock();
    let mut state = wait_for_device(process, state, context)?;
    // Meanwhile the context may have been destroyed, and its memory been given to others.
    let own = process.space.find(start).is_some_and(|found| found.id == region);
    if own && state.objects.allocations.remove(&start).is_some() {
        drop(state);
        process.space.free(start);
    }
    Ok(())
}

/// # Safety
/// `wanted` is null or valid for the read.
unsafe fn read<T: Copy>(wanted: *const T) -> Answer<T> {
    if wanted.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    Ok(unsafe { wanted.read() })
}

/// Returns an array of a handle.
fn array(handle: CUarray) -> Answer<Array> {
    process()?.images.lock().arrays.get(number(handle)).copied()
}

functions! {
    Device fn cuArrayCreate_v2(out: *mut CUarray, wanted: *const CUDA_ARRAY_DESCRIPTOR) {
        let flat = read(wanted)?;
        if out.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let wanted = CUDA_ARRAY3D_DESCRIPTOR {
            Width: flat.Width,
            Height: flat.Height,
            Depth: 0,
            Format: flat.Format,
            NumChannels: flat.NumChannels,
            Flags: 0,
        };
        let (_, _, handles) = create(&wanted, 1, false)?;
        put(out, handles.first().map_or(core::ptr::null_mut(), |&array| handle(array)))
    }
    Device fn cuArray3DCreate_v2(out: *mut CUarray, wanted: *const CUDA_ARRAY3D_DESCRIPTOR) {
        let wanted = read(wanted)?;
        if out.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let (_, _, handles) = create(&wanted, 1, false)?;
        put(out, handles.first().map_or(core::ptr::null_mut(), |&array| handle(array)))
    }
    Device fn cuArrayGetDescriptor_v2(out: *mut CUDA_ARRAY_DESCRIPTOR, of: CUarray) {
        let whole = array(of)?.descriptor();
        put(out, CUDA_ARRAY_DESCRIPTOR {
            Width: whole.Width,
            Height: whole.Height,
            Format: whole.Format,
            NumChannels: whole.NumChannels,
        })
    }
    Device fn cuArray3DGetDescriptor_v2(out: *mut CUDA_ARRAY3D_DESCRIPTOR, of: CUarray) {
        put(out, array(of)?.descriptor())
    }
    Device fn cuArrayGetMemoryRequirements(
        _out: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS, of: CUarray, _device: CUdevice
    ) {
        // Only arrays with deferred mapping have requirements.
        array(of)?;
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    Device fn cuArrayGetSparseProperties(_out: *mut CUDA_ARRAY_SPARSE_PROPERTIES, of: CUarray) {
        array(of)?;
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    Device fn cuArrayGetPlane(_out: *mut CUarray, of: CUarray, _plane: c_uint) {
        // No format of this device has planes.
        array(of)?;
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    Device fn cuArrayDestroy(of: CUarray) {
        let process = process()?;
        let found = array(of)?;
        // A level ends with its mipmapped array.
        if found.of.is_some() {
            return Ok(());
        }
        process.lock().forbidden_in_capture()?;
        process.images.lock().arrays.remove(number(of))?;
        free(found.context, found.region)
    }
    Device fn cuMipmappedArrayCreate(
        out: *mut CUmipmappedArray, wanted: *const CUDA_ARRAY3D_DESCRIPTOR, levels: c_uint
    ) {
        let wanted = read(wanted)?;
        if out.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let flat = wanted.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) != 0;
        let depth = if flat { 0 } else { wanted.Depth };
        let longest = wanted.Width.max(wanted.Height).max(depth).max(1);
        let levels = levels.clamp(1, 1 + longest.ilog2());
        let (context, start, handles) = create(&wanted, levels, true)?;
        let mut known = process()?.images.lock();
        let mipmapped = Mipmapped { context, start, levels: handles.clone() };
        let mipmapped = known.mipmapped.insert(mipmapped);
        for level in handles {
            known.arrays.get_mut(level)?.of = Some(mipmapped);
        }
        put(out, handle(mipmapped))
    }
    Device fn cuMipmappedArrayGetLevel(out: *mut CUarray, of: CUmipmappedArray, level: c_uint) {
        let known = process()?.images.lock();
        let levels = &known.mipmapped.get(number(of))?.levels;
        let found = levels.get(level as usize).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        put(out, handle(*found))
    }
    Device fn cuMipmappedArrayGetMemoryRequirements(
        _out: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS, of: CUmipmappedArray, _device: CUdevice
    ) {
        process()?.images.lock().mipmapped.get(number(of))?;
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    Device fn cuMipmappedArrayGetSparseProperties(
        _out: *mut CUDA_ARRAY_SPARSE_PROPERTIES, of: CUmipmappedArray
    ) {
        process()?.images.lock().mipmapped.get(number(of))?;
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    Device fn cuMipmappedArrayDestroy(of: CUmipmappedArray) {
        let process = process()?;
        process.images.lock().mipmapped.get(number(of))?;
        process.lock().forbidden_in_capture()?;
        let mut known = process.images.lock();
        let found = known.mipmapped.remove(number(of))?;
        let mut region = (found.start, 0);
        for &level in &found.levels {
            region = known.arrays.get(level)?.region;
            known.arrays.remove(level)?;
        }
        drop(known);
        free(found.context, region)
    }
}
