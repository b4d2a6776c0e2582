//! Texture and surface objects.

use core::ffi::c_uint;

use cuda_sys::{
    CU_TRSF_NORMALIZED_COORDINATES, CU_TRSF_READ_AS_INTEGER, CU_TRSF_SEAMLESS_CUBEMAP,
    CU_TRSF_SRGB, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUarray_format,
    CUdevice, CUfilter_mode, CUresourcetype, CUresult, CUsurfObject, CUtexObject,
};

use super::{Described, Known, Resource, format_of, view};
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::objects::{handle, number};
use crate::driver::process::Process;
use crate::texture::{Address, Image, Level, Object, Sampler, Texture};

/// The alignment of linear memory for textures.
const ALIGN: u64 = 512;
/// The alignment of a pitch.
const PITCH: usize = 32;
/// The most texels of linear memory, and bytes.
const LINEAR_TEXELS: u64 = 1 << 30;
const LINEAR_BYTES: u64 = 1 << 32;
/// The largest width, height and pitch of pitched memory.
const PITCHED: [usize; 3] = [131_072, 65_000, 2_097_120];

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Reads the description of a resource.
///
/// # Safety
/// `from` is null or valid for the read, with the member of the union that it names.
unsafe fn resource(from: *const CUDA_RESOURCE_DESC) -> Answer<Resource> {
    if from.is_null() {
        return Err(INVALID);
    }
    // SAFETY: not null, and the caller's promise.
    let what = unsafe { from.read() };
    if what.flags != 0 {
        return Err(INVALID);
    }
    // SAFETY: the members are numbers and handles, for which any bits are valid; the caller has set those of the type.
    unsafe {
        Ok(match what.resType {
            CUresourcetype::CU_RESOURCE_TYPE_ARRAY => {
                Resource::Array(number(what.res.array.hArray))
            }
            CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
                Resource::Mipmapped(number(what.res.mipmap.hMipmappedArray))
            }
            CUresourcetype::CU_RESOURCE_TYPE_LINEAR => {
                let linear = what.res.linear;
                Resource::Linear {
                    address: linear.devPtr,
                    format: linear.format,
                    channels: linear.numChannels,
                    bytes: linear.sizeInBytes,
                }
            }
            CUresourcetype::CU_RESOURCE_TYPE_PITCH2D => {
                let pitched = what.res.pitch2D;
                Resource::Pitched {
                    address: pitched.devPtr,
                    format: pitched.format,
                    channels: pitched.numChannels,
                    size: [pitched.width, pitched.height],
                    pitch: pitched.pitchInBytes,
                }
            }
            _ => return Err(INVALID),
        })
    }
}

/// Returns the description of a resource.
fn described(resource: Resource) -> CUDA_RESOURCE_DESC {
    let mut out = CUDA_RESOURCE_DESC::default();
    match resource {
        Resource::Array(array) => {
            out.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
            out.res.array.hArray = handle(array);
        }
        Resource::Mipmapped(array) => {
            out.resType = CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
            out.res.mipmap.hMipmappedArray = handle(array);
        }
        Resource::Linear { address, format, channels, bytes } => {
            out.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
            out.res.linear.devPtr = address;
            out.res.linear.format = format;
            out.res.linear.numChannels = channels;
            out.res.linear.sizeInBytes = bytes;
        }
        Resource::Pitched { address, format, channels, size: [width, height], pitch } => {
            out.resType = CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
            out.res.pitch2D.devPtr = address;
            out.res.pitch2D.format = format;
            out.res.pitch2D.numChannels = channels;
            out.res.pitch2D.width = width;
            out.res.pitch2D.height = height;
            out.res.pitch2D.pitchInBytes = pitch;
        }
    }
    out
}

/// Returns the image of a resource.
pub(super) fn image(process: &Process, known: &Known, resource: Resource) -> Answer<Image> {
    match resource {
        Resource::Array(array) => {
            let array = known.arrays.get(array).map_err(|_| INVALID)?;
            image_of(process, known, &[array.level], array)
        }
        Resource::Mipmapped(mipmapped) => {
            let mipmapped = known.mipmapped.get(mipmapped).map_err(|_| INVALID)?;
            let mut levels = Vec::with_capacity(mipmapped.levels.len());
            for &level in &mipmapped.levels {
                levels.push(known.arrays.get(level)?.level);
            }
            let first = mipmapped.levels.first().ok_or(INVALID)?;
            image_of(process, known, &levels, known.arrays.get(*first)?)
        }
        Resource::Linear { address, format, channels, bytes } => {
            let format = format_of(format, channels)?;
            let texels = bytes as u64 / format.bytes();
            if !address.is_multiple_of(ALIGN) || texels > LINEAR_TEXELS {
                return Err(INVALID);
            }
            let region = process.space.find_known(address).ok_or(INVALID)?;
            Ok(Image {
                region: (region.start, region.id),
                end: region.end,
                format,
                dimensions: 1,
                layers: 0,
                layered: false,
                cube: false,
                linear: true,
                levels: vec![Level {
                    start: address,
                    size: [texels as u32, 1, 1],
                    pitch: bytes as u64,
                    slice: bytes as u64,
                }],
            })
        }
        Resource::Pitched { address, format, channels, size: [width, height], pitch } => {
            let format = format_of(format, channels)?;
            let most = [width, height, pitch].iter().zip(PITCHED).all(|(has, most)| *has <= most);
            if !address.is_multiple_of(ALIGN) || !pitch.is_multiple_of(PITCH) || !most {
                return Err(INVALID);
            }
            let region = process.space.find_known(address).ok_or(INVALID)?;
            Ok(Image {
                region: (region.start, region.id),
                end: region.end,
                format,
                dimensions: 2,
                layers: 0,
                layered: false,
                cube: false,
                linear: false,
                levels: vec![Level {
                    start: address,
                    size: [width as u32, height as u32, 1],
                    pitch: pitch as u64,
                    slice: pitch as u64 * height as u64,
                }],
            })
        }
    }
}

fn image_of(
    process: &Process,
    _known: &Known,
    levels: &[Level],
    array: &super::Array,
) -> Answer<Image> {
    let (start, id) = array.region;
    let region = process.space.find(start).filter(|region| region.id == id).ok_or(INVALID)?;
    let flat = array.layered() || array.cube();
    Ok(Image {
        region: array.region,
        end: region.end,
        format: array.format,
        dimensions: array.dimensions(),
        layers: if flat { array.slices() } else { 0 },
        layered: array.layered(),
        cube: array.cube(),
        linear: false,
        levels: levels.to_vec(),
    })
}

/// Returns how a texture is read, after checking it.
fn sampler(wanted: &CUDA_TEXTURE_DESC, image: &Image) -> Answer<Sampler> {
    let filter = |mode: CUfilter_mode| match mode.0 {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(INVALID),
    };
    let mut address = [Address::Clamp; 3];
    for (axis, (address, mode)) in address.iter_mut().zip(wanted.addressMode).enumerate() {
        *address = match mode.0 {
            0 => Address::Wrap,
            1 => Address::Clamp,
            2 => Address::Mirror,
            3 => Address::Border,
            // The driver ignores the modes of other dimensions.
            _ if axis >= image.dimensions as usize => Address::Clamp,
            _ => return Err(INVALID),
        };
    }
    let has = |flag: u32| wanted.flags & flag != 0;
    let seamless = has(CU_TRSF_SEAMLESS_CUBEMAP);
    if wanted.flags & !0x7f != 0
        || seamless && !image.cube
        || wanted.reserved.iter().any(|&it| it != 0)
    {
        return Err(INVALID);
    }
    Ok(Sampler {
        address,
        linear: filter(wanted.filterMode)?,
        normalized: has(CU_TRSF_NORMALIZED_COORDINATES),
        integers: has(CU_TRSF_READ_AS_INTEGER)
            || image.format.channel.is_integer() && image.format.channel.bytes() == 4,
        srgb: has(CU_TRSF_SRGB),
        seamless,
        linear_levels: filter(wanted.mipmapFilterMode)?,
        bias: wanted.mipmapLevelBias,
        clamp: [wanted.minMipmapLevelClamp, wanted.maxMipmapLevelClamp],
        anisotropy: wanted.maxAnisotropy,
        border: wanted.borderColor,
    })
}

/// Returns a texture's descriptors.
fn texture(object: CUtexObject) -> Answer<Described> {
    let known = process()?.images.lock();
    known.textures.get(&object).copied().ok_or(INVALID)
}

functions! {
    Device fn cuTexObjectCreate(
        out: *mut CUtexObject, of: *const CUDA_RESOURCE_DESC, how: *const CUDA_TEXTURE_DESC,
        seen_as: *const CUDA_RESOURCE_VIEW_DESC
    ) {
        let process = process()?;
        let context = process.lock().current()?;
        if out.is_null() || how.is_null() {
            return Err(INVALID);
        }
        let resource = resource(of)?;
        let wanted = how.read();
        let mut known = process.images.lock();
        let mut image = image(process, &known, resource)?;
        let mut view = CUDA_RESOURCE_VIEW_DESC::default();
        if !seen_as.is_null() {
            view = seen_as.read();
            view::apply(&mut image, resource, &view)?;
        }
        let sampler = sampler(&wanted, &image)?;
        let texture = Object::Texture(Texture { image, sampler });
        let object = process.space.objects().insert(texture);
        known.textures.insert(object, Described { context, resource, texture: wanted, view });
        put(out, object)
    }
    Device fn cuTexObjectDestroy(object: CUtexObject) {
        let process = process()?;
        let state = process.lock();
        state.current()?;
        let mut known = process.images.lock();
        if known.textures.remove(&object).is_some() {
            known.retire(object, &state, process.space.objects());
            return Ok(());
        }
        // The driver takes 0.
        if object == 0 { Ok(()) } else { Err(INVALID) }
    }
    Device fn cuTexObjectGetResourceDesc(out: *mut CUDA_RESOURCE_DESC, object: CUtexObject) {
        put(out, described(texture(object)?.resource))
    }
    Device fn cuTexObjectGetTextureDesc(out: *mut CUDA_TEXTURE_DESC, object: CUtexObject) {
        put(out, texture(object)?.texture)
    }
    Device fn cuTexObjectGetResourceViewDesc(
        out: *mut CUDA_RESOURCE_VIEW_DESC, object: CUtexObject
    ) { put(out, texture(object)?.view) }
    Device fn cuSurfObjectCreate(out: *mut CUsurfObject, of: *const CUDA_RESOURCE_DESC) {
        let process = process()?;
        let context = process.lock().current()?;
        if out.is_null() {
            return Err(INVALID);
        }
        let resource = resource(of)?;
        if !matches!(resource, Resource::Array(_)) {
            return Err(INVALID);
        }
        let mut known = process.images.lock();
        let image = image(process, &known, resource)?;
        let object = process.space.objects().insert(Object::Surface(image));
        known.surfaces.insert(object, (context, resource));
        put(out, object)
    }
    Device fn cuSurfObjectDestroy(object: CUsurfObject) {
        let process = process()?;
        let state = process.lock();
        state.current()?;
        let mut known = process.images.lock();
        if known.surfaces.remove(&object).is_some() {
            known.retire(object, &state, process.space.objects());
            return Ok(());
        }
        if object == 0 { Ok(()) } else { Err(INVALID) }
    }
    Device fn cuSurfObjectGetResourceDesc(out: *mut CUDA_RESOURCE_DESC, object: CUsurfObject) {
        let known = process()?.images.lock();
        let &(_, resource) = known.surfaces.get(&object).ok_or(INVALID)?;
        put(out, described(resource))
    }
    Init fn cuDeviceGetTexture1DLinearMaxWidth(
        out: *mut usize, format: CUarray_format, channels: c_uint, device: CUdevice
    ) {
        process()?.device(device)?;
        let bytes = format_of(format, channels)?.bytes();
        put(out, LINEAR_TEXELS.min(LINEAR_BYTES / bytes) as usize)
    }
}
