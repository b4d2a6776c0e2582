//! Texture and surface objects.

use core::ptr;

use cuda_sys::{
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUaddress_mode, CUarray,
    CUarray_format, CUfilter_mode, CUresourceViewFormat, CUresourcetype, CUresult,
};

use super::{F16, F32, Lines, U8, U32, array, code, described, destroy};
use crate::device::{Call, Device, call};

/// A texture that the driver takes, of an array.
pub(super) fn plain(array: CUarray) -> (CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC) {
    let mut resource = CUDA_RESOURCE_DESC {
        resType: CUresourcetype::CU_RESOURCE_TYPE_ARRAY,
        ..CUDA_RESOURCE_DESC::default()
    };
    resource.res.array.hArray = array;
    let sampler =
        CUDA_TEXTURE_DESC { addressMode: [CUaddress_mode(1); 3], ..CUDA_TEXTURE_DESC::default() };
    (resource, sampler)
}

fn create(
    device: &Device,
    resource: &CUDA_RESOURCE_DESC,
    sampler: &CUDA_TEXTURE_DESC,
    view: Option<&CUDA_RESOURCE_VIEW_DESC>,
) -> i64 {
    let mut object = 0;
    let result = call!(
        device.driver,
        cuTexObjectCreate(
            &raw mut object,
            resource,
            sampler,
            view.map_or(ptr::null(), ptr::from_ref)
        )
    );
    if result.is_ok() {
        // The probes go on in any case.
        let _ = call!(device.driver, cuTexObjectDestroy(object));
    }
    code(&result)
}

pub(super) fn textures(device: &Device, lines: &mut Lines<'_>) {
    let driver = device.driver;
    let mut memory = 0;
    if call!(driver, cuMemAlloc_v2(&raw mut memory, 1 << 20)).is_err() {
        return;
    }
    for (format, name) in [(F32, "f32"), (U32, "u32"), (U8, "u8"), (F16, "f16"), (9, "s16")] {
        let Ok(array) = array(device, described([8, 8, 0], format, 1, 0)) else { continue };
        let (resource, plain_sampler) = plain(array);
        let mut tried = |what: &str, change: &dyn Fn(&mut CUDA_TEXTURE_DESC)| {
            let mut sampler = plain_sampler;
            change(&mut sampler);
            let got = create(device, &resource, &sampler, None);
            lines.push(format!("cuTexObjectCreate {name}, {what}: {got}"));
        };
        let linear = CUfilter_mode(1);
        tried("plain", &|_| {});
        tried("linear", &|sampler| sampler.filterMode = linear);
        tried("integer", &|sampler| sampler.flags = 1);
        tried("integer, linear", &|sampler| {
            (sampler.flags, sampler.filterMode) = (1, linear);
        });
        tried("filter 2", &|sampler| sampler.filterMode = CUfilter_mode(2));
        tried("mipmap filter 2", &|sampler| sampler.mipmapFilterMode = CUfilter_mode(2));
        tried("address 4", &|sampler| sampler.addressMode[0] = CUaddress_mode(4));
        tried("address of z 4", &|sampler| sampler.addressMode[2] = CUaddress_mode(4));
        tried("wrap in texels", &|sampler| sampler.addressMode = [CUaddress_mode(0); 3]);
        tried("mirror in texels", &|sampler| sampler.addressMode = [CUaddress_mode(2); 3]);
        tried("flag 4", &|sampler| sampler.flags = 4);
        tried("flag 8", &|sampler| sampler.flags = 8);
        tried("srgb", &|sampler| sampler.flags = 16);
        tried("flag 32", &|sampler| sampler.flags = 32);
        tried("seamless", &|sampler| sampler.flags = 64);
        tried("flag 128", &|sampler| sampler.flags = 128);
        tried("anisotropy 16", &|sampler| sampler.maxAnisotropy = 16);
        tried("anisotropy 17", &|sampler| sampler.maxAnisotropy = 17);
        tried("levels from 3 to 1", &|sampler| {
            (sampler.minMipmapLevelClamp, sampler.maxMipmapLevelClamp) = (3.0, 1.0);
        });
        tried("reserved", &|sampler| sampler.reserved[0] = 1);
        let mut other = resource;
        other.flags = 1;
        lines.push(format!(
            "cuTexObjectCreate {name}, resource flags: {}",
            create(device, &other, &plain_sampler, None)
        ));
        other.flags = 0;
        other.resType = CUresourcetype(9);
        lines.push(format!(
            "cuTexObjectCreate {name}, resource type 9: {}",
            create(device, &other, &plain_sampler, None)
        ));
        destroy(device, array);
    }
    let (null, sampler) = plain(ptr::null_mut());
    lines.push(format!("cuTexObjectCreate null array: {}", create(device, &null, &sampler, None)));
    for (offset, format, channels, bytes) in [
        (0, F32, 1, 4096),
        (4, F32, 1, 4096),
        (16, F32, 1, 4096),
        (32, F32, 1, 4096),
        (256, F32, 1, 4096),
        (512, F32, 1, 4096),
        (0, F32, 3, 4096),
        (0, F32, 1, 0),
        (0, F32, 1, 3),
        (0, F32, 1, 4097),
        (0, F32, 1, 1 << 20),
        (0, F32, 1, 1 << 21),
        (0, F32, 1, 1 << 30),
        (0, F32, 1, 1 << 31),
        (0, U8, 1, 1 << 28),
        (0, U8, 1, 1 << 30),
        (0, U8, 1, 1 << 40),
        (0, 7, 1, 4096),
    ] {
        let mut resource = CUDA_RESOURCE_DESC {
            resType: CUresourcetype::CU_RESOURCE_TYPE_LINEAR,
            ..CUDA_RESOURCE_DESC::default()
        };
        resource.res.linear.devPtr = memory + offset;
        resource.res.linear.format = CUarray_format(format);
        resource.res.linear.numChannels = channels;
        resource.res.linear.sizeInBytes = bytes;
        lines.push(format!(
            "cuTexObjectCreate linear at {offset} format {format} channels {channels} bytes {bytes}: {}",
            create(device, &resource, &sampler, None)
        ));
        if offset == 0 && bytes == 4096 && format == F32 && channels == 1 {
            for (what, change) in
                [("linear filter", 1), ("normalized", 2), ("wrap", 3), ("border", 4)]
            {
                let mut sampler = sampler;
                match change {
                    1 => sampler.filterMode = CUfilter_mode(1),
                    2 => sampler.flags = 2,
                    3 => sampler.addressMode = [CUaddress_mode(0); 3],
                    _ => sampler.addressMode = [CUaddress_mode(3); 3],
                }
                lines.push(format!(
                    "cuTexObjectCreate linear, {what}: {}",
                    create(device, &resource, &sampler, None)
                ));
            }
        }
    }
    for (offset, width, height, pitch, format, channels) in [
        (0, 8, 8, 512, F32, 1),
        (0, 8, 8, 32, F32, 1),
        (0, 8, 8, 64, F32, 1),
        (0, 8, 8, 48, F32, 1),
        (0, 8, 8, 33, F32, 1),
        (0, 16, 8, 32, F32, 1),
        (32, 8, 8, 512, F32, 1),
        (256, 8, 8, 512, F32, 1),
        (512, 8, 8, 512, F32, 1),
        (0, 0, 8, 512, F32, 1),
        (0, 8, 0, 512, F32, 1),
        (0, 8, 8, 0, F32, 1),
        (0, 8, 8, 512, F32, 3),
        (0, 8, 65_000, 32, U8, 1),
        (0, 8, 65_001, 32, U8, 1),
        (0, 131_072, 8, 131_072, U8, 1),
        (0, 131_073, 8, 131_104, U8, 1),
        (0, 8, 8, 2_097_120, U8, 1),
        (0, 8, 8, 2_097_152, U8, 1),
        (0, 8, 40_000, 512, F32, 1),
    ] {
        let mut resource = CUDA_RESOURCE_DESC {
            resType: CUresourcetype::CU_RESOURCE_TYPE_PITCH2D,
            ..CUDA_RESOURCE_DESC::default()
        };
        resource.res.pitch2D.devPtr = memory + offset;
        resource.res.pitch2D.format = CUarray_format(format);
        resource.res.pitch2D.numChannels = channels;
        resource.res.pitch2D.width = width;
        resource.res.pitch2D.height = height;
        resource.res.pitch2D.pitchInBytes = pitch;
        lines.push(format!(
            "cuTexObjectCreate pitched at {offset} {width}x{height} pitch {pitch} format {format} channels {channels}: {}",
            create(device, &resource, &sampler, None)
        ));
    }
    device.free(memory);
    for (name, result) in [
        ("null object", {
            let (resource, sampler) = plain(ptr::null_mut());
            call!(
                driver,
                cuTexObjectCreate(
                    ptr::null_mut(),
                    &raw const resource,
                    &raw const sampler,
                    ptr::null()
                )
            )
        }),
        ("destroy 0", call!(driver, cuTexObjectDestroy(0))),
    ] {
        lines.push(format!("textures, {name}: {}", code(&result)));
    }
}

pub(super) fn views(device: &Device, lines: &mut Lines<'_>) {
    let Ok(array) = array(device, described([8, 8, 4], F32, 1, 1)) else { return };
    let (resource, sampler) = plain(array);
    let view = CUDA_RESOURCE_VIEW_DESC {
        format: CUresourceViewFormat(22),
        width: 8,
        height: 8,
        depth: 4,
        firstLayer: 0,
        lastLayer: 3,
        ..CUDA_RESOURCE_VIEW_DESC::default()
    };
    let mut tried = |what: &str, change: &dyn Fn(&mut CUDA_RESOURCE_VIEW_DESC)| {
        let mut view = view;
        change(&mut view);
        let got = create(device, &resource, &sampler, Some(&view));
        lines.push(format!("view, {what}: {got}"));
    };
    tried("all", &|_| {});
    tried("format none", &|view| view.format = CUresourceViewFormat(0));
    tried("uint 1x32", &|view| view.format = CUresourceViewFormat(13));
    tried("uint 2x16", &|view| view.format = CUresourceViewFormat(8));
    tried("uint 4x8", &|view| view.format = CUresourceViewFormat(3));
    tried("uint 1x8", &|view| view.format = CUresourceViewFormat(1));
    tried("float 2x32", &|view| view.format = CUresourceViewFormat(23));
    tried("bc1", &|view| view.format = CUresourceViewFormat(25));
    tried("format 40", &|view| view.format = CUresourceViewFormat(40));
    tried("width 4", &|view| view.width = 4);
    tried("width 0", &|view| view.width = 0);
    tried("depth 2", &|view| view.depth = 2);
    tried("depth 0", &|view| view.depth = 0);
    tried("layers 1 to 2", &|view| {
        (view.firstLayer, view.lastLayer, view.depth) = (1, 2, 2);
    });
    tried("layers 1 to 2, depth 4", &|view| (view.firstLayer, view.lastLayer) = (1, 2));
    tried("layers 2 to 1", &|view| (view.firstLayer, view.lastLayer) = (2, 1));
    tried("layers to 4", &|view| view.lastLayer = 4);
    tried("level 1", &|view| (view.firstMipmapLevel, view.lastMipmapLevel) = (1, 1));
    destroy(device, array);
}

pub(super) fn surfaces(device: &Device, lines: &mut Lines<'_>) {
    let driver = device.driver;
    let mut tried = |what: &str, resource: &CUDA_RESOURCE_DESC| {
        let mut object = 0;
        let result = call!(driver, cuSurfObjectCreate(&raw mut object, resource));
        if result.is_ok() {
            // The probes go on in any case.
            let _ = call!(driver, cuSurfObjectDestroy(object));
        }
        lines.push(format!("cuSurfObjectCreate {what}: {}", code(&result)));
    };
    for flags in [0, 2] {
        if let Ok(array) = array(device, described([8, 8, 0], F32, 1, flags)) {
            let (mut resource, _) = plain(array);
            tried(&format!("array flags {flags}"), &resource);
            resource.flags = 1;
            tried("resource flags", &resource);
            resource.flags = 0;
            for other in 1..5 {
                resource.resType = CUresourcetype(other);
                if other != 1 {
                    tried(&format!("type {other}"), &resource);
                }
            }
            destroy(device, array);
        }
    }
    tried("null array", &plain(ptr::null_mut()).0);
    let destroyed = call!(driver, cuSurfObjectDestroy(0));
    lines.push(format!("cuSurfObjectDestroy 0: {}", code(&destroyed)));
}
