//! Return codes: what the driver says to descriptors that are wrong, or at a limit.

use core::ptr;

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY2D,
    CUDA_MEMCPY3D, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUarray, CUarray_format,
    CUmemorytype, CUmipmappedArray, CUresult,
};

use crate::device::{Call, Device, call};

mod objects;

use objects::{plain, surfaces, textures, views};

/// Where the lines go, one at a time: a driver may end the process.
struct Lines<'f>(&'f mut dyn FnMut(String));

impl Lines<'_> {
    fn push(&mut self, line: String) {
        (self.0)(line);
    }
}

/// Makes lines: the name of a probe, and what the driver returned.
pub fn probes(device: &Device, line: &mut dyn FnMut(String)) {
    let mut lines = Lines(line);
    arrays(device, &mut lines);
    mipmapped(device, &mut lines);
    textures(device, &mut lines);
    views(device, &mut lines);
    surfaces(device, &mut lines);
    copies(device, &mut lines);
    queries(device, &mut lines);
}

fn code(result: &Result<(), Call>) -> i64 {
    result.as_ref().map_or_else(|call| call.code, |()| 0)
}

const U8: u32 = 1;
const U32: u32 = 3;
const F16: u32 = 16;
const F32: u32 = 32;

fn described(size: [usize; 3], format: u32, channels: u32, flags: u32) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: size[0],
        Height: size[1],
        Depth: size[2],
        Format: CUarray_format(format),
        NumChannels: channels,
        Flags: flags,
    }
}

fn array(device: &Device, wanted: CUDA_ARRAY3D_DESCRIPTOR) -> Result<CUarray, Call> {
    let mut array = ptr::null_mut();
    call!(device.driver, cuArray3DCreate_v2(&raw mut array, &raw const wanted))?;
    Ok(array)
}

fn destroy(device: &Device, array: CUarray) {
    // The probes go on in any case.
    let _ = call!(device.driver, cuArrayDestroy(array));
}

fn arrays(device: &Device, lines: &mut Lines<'_>) {
    let driver = device.driver;
    let flat = [
        (0, 0, F32, 1),
        (0, 5, F32, 1),
        (5, 0, F32, 1),
        (5, 5, F32, 0),
        (5, 5, F32, 3),
        (5, 5, F32, 5),
        (5, 5, 0, 1),
        (5, 5, 7, 1),
        (5, 5, 192, 1),
        (5, 5, 192, 4),
        (5, 5, 145, 4),
        (131_072, 0, F32, 1),
        (131_073, 0, F32, 1),
        (131_072, 1, U8, 1),
        (131_073, 1, U8, 1),
        (1, 65_536, U8, 1),
        (1, 65_537, U8, 1),
        (1 << 40, 1 << 40, U8, 1),
        (usize::MAX, 1, U8, 1),
    ];
    for (width, height, format, channels) in flat {
        let wanted = CUDA_ARRAY_DESCRIPTOR {
            Width: width,
            Height: height,
            Format: CUarray_format(format),
            NumChannels: channels,
        };
        let mut array = ptr::null_mut();
        let result = call!(driver, cuArrayCreate_v2(&raw mut array, &raw const wanted));
        lines.push(format!(
            "cuArrayCreate_v2 {width}x{height} format {format} channels {channels}: {}",
            code(&result)
        ));
        if result.is_ok() {
            let mut got = described([0; 3], 0, 0, 0);
            let asked = call!(driver, cuArray3DGetDescriptor_v2(&raw mut got, array));
            lines.push(format!("  described ({}) {got:?}", code(&asked)));
            destroy(device, array);
        }
    }
    let (layered, surface, cube, gather, depth, colour, sparse) = (1, 2, 4, 8, 16, 32, 64);
    let shaped = [
        ([0, 0, 5], F32, 1, 0),
        ([5, 0, 5], F32, 1, 0),
        ([0, 0, 0], F32, 1, layered),
        ([5, 0, 0], F32, 1, layered),
        ([5, 0, 2048], F32, 1, layered),
        ([5, 0, 2049], F32, 1, layered),
        ([32_768, 0, 2], F32, 1, layered),
        ([32_769, 0, 2], F32, 1, layered),
        ([5, 5, 2048], F32, 1, layered),
        ([5, 5, 2049], F32, 1, layered),
        ([32_769, 5, 2], U8, 1, layered),
        ([16_384, 1, 1], U8, 1, 0),
        ([16_385, 1, 1], U8, 1, 0),
        ([1, 16_385, 1], U8, 1, 0),
        ([1, 1, 16_384], U8, 1, 0),
        ([1, 1, 16_385], U8, 1, 0),
        ([8, 8, 6], F32, 1, cube),
        ([8, 8, 5], F32, 1, cube),
        ([8, 8, 12], F32, 1, cube),
        ([8, 7, 6], F32, 1, cube),
        ([8, 8, 12], F32, 1, cube | layered),
        ([8, 8, 13], F32, 1, cube | layered),
        ([8, 8, 0], F32, 1, cube | layered),
        ([8, 8, 2046], F32, 1, cube | layered),
        ([8, 8, 2052], F32, 1, cube | layered),
        ([32_768, 32_768, 6], U8, 1, cube),
        ([32_769, 32_769, 6], U8, 1, cube),
        ([8, 8, 0], F32, 1, gather),
        ([8, 0, 0], F32, 1, gather),
        ([8, 8, 8], F32, 1, gather),
        ([8, 8, 8], F32, 1, gather | layered),
        ([32_769, 8, 0], F32, 1, gather),
        ([8, 8, 0], F32, 1, gather | surface),
        ([8, 8, 0], F32, 1, surface),
        ([32_769, 0, 0], F32, 1, surface),
        ([131_073, 8, 0], F32, 1, surface),
        ([8, 8, 0], F32, 1, depth),
        ([8, 8, 0], F32, 1, colour),
        ([8, 8, 0], F32, 1, sparse),
        ([8, 8, 0], F32, 1, 512),
        ([8, 8, 0], F32, 1, 1 << 31),
        ([8, 8, 0], F32, 3, 0),
        ([8, 8, 0], 5, 1, 0),
        ([1 << 20, 1 << 20, 1 << 20], F32, 4, 0),
    ];
    for (size, format, channels, flags) in shaped {
        let result = array(device, described(size, format, channels, flags));
        let name = format!(
            "cuArray3DCreate_v2 {size:?} format {format} channels {channels} flags {flags}"
        );
        match result {
            Ok(array) => {
                let mut needs = CUDA_ARRAY_MEMORY_REQUIREMENTS::default();
                let asked = call!(driver, cuArrayGetMemoryRequirements(&raw mut needs, array, 0));
                let mut flat = CUDA_ARRAY_DESCRIPTOR {
                    Width: 0,
                    Height: 0,
                    Format: CUarray_format(0),
                    NumChannels: 0,
                };
                let flattened = call!(driver, cuArrayGetDescriptor_v2(&raw mut flat, array));
                lines.push(format!(
                    "{name}: 0\n  requirements ({}) {} {}\n  flat ({}) {}x{}",
                    code(&asked),
                    needs.size,
                    needs.alignment,
                    code(&flattened),
                    flat.Width,
                    flat.Height
                ));
                destroy(device, array);
            }
            Err(call) => lines.push(format!("{name}: {}", call.code)),
        }
    }
    for (name, result) in [
        ("null handle", {
            let wanted = described([8, 8, 0], F32, 1, 0);
            call!(driver, cuArray3DCreate_v2(ptr::null_mut(), &raw const wanted))
        }),
        ("null descriptor", {
            let mut array = ptr::null_mut();
            call!(driver, cuArray3DCreate_v2(&raw mut array, ptr::null()))
        }),
        ("destroy null", call!(driver, cuArrayDestroy(ptr::null_mut()))),
    ] {
        lines.push(format!("arrays, {name}: {}", code(&result)));
    }
}

fn mipmapped(device: &Device, lines: &mut Lines<'_>) {
    let driver = device.driver;
    let cases = [
        ([8, 8, 0], 0, 0),
        ([8, 8, 0], 0, 1),
        ([8, 8, 0], 0, 4),
        ([8, 8, 0], 0, 5),
        ([8, 8, 0], 0, 32),
        ([9, 3, 0], 0, 4),
        ([9, 3, 0], 0, 5),
        ([16_384, 0, 0], 0, 15),
        ([32_768, 0, 0], 0, 16),
        ([32_769, 0, 0], 0, 2),
        ([32_769, 5, 0], 0, 2),
        ([8, 8, 8], 0, 4),
        ([8, 8, 3], 1, 4),
        ([8, 8, 6], 4, 4),
        ([0, 0, 0], 0, 1),
        ([8, 8, 0], 2, 4),
        ([8, 8, 0], 8, 4),
    ];
    for (size, flags, levels) in cases {
        let wanted = described(size, F32, 1, flags);
        let mut array: CUmipmappedArray = ptr::null_mut();
        let result =
            call!(driver, cuMipmappedArrayCreate(&raw mut array, &raw const wanted, levels));
        lines.push(format!(
            "cuMipmappedArrayCreate {size:?} flags {flags} levels {levels}: {}",
            code(&result)
        ));
        if result.is_err() {
            continue;
        }
        for level in [0, 1, levels.saturating_sub(1), levels, 40] {
            let mut one = ptr::null_mut();
            let result = call!(driver, cuMipmappedArrayGetLevel(&raw mut one, array, level));
            let mut got = described([0; 3], 0, 0, 0);
            if result.is_ok() {
                // The descriptor stays zero if this fails.
                let _ = call!(driver, cuArray3DGetDescriptor_v2(&raw mut got, one));
            }
            lines.push(format!("  level {level}: {} {got:?}", code(&result)));
            if level == 0 && result.is_ok() {
                let destroyed = call!(driver, cuArrayDestroy(one));
                lines.push(format!("  destroy of a level: {}", code(&destroyed)));
            }
        }
        let mut needs = CUDA_ARRAY_MEMORY_REQUIREMENTS::default();
        let asked = call!(driver, cuMipmappedArrayGetMemoryRequirements(&raw mut needs, array, 0));
        lines.push(format!("  requirements ({}) {} {}", code(&asked), needs.size, needs.alignment));
        // The probes go on in any case.
        let _ = call!(driver, cuMipmappedArrayDestroy(array));
    }
}

fn copies(device: &Device, lines: &mut Lines<'_>) {
    let driver = device.driver;
    let host = vec![7_u8; 65_536];
    let Ok(array) = array(device, described([8, 4, 0], F32, 1, 0)) else { return };
    let start = host.as_ptr();
    for (offset, bytes) in [
        (0, 128),
        (0, 32),
        (4, 4),
        (2, 2),
        (2, 4),
        (31, 2),
        (0, 129),
        (128, 1),
        (129, 0),
        (0, 0),
        (40, 60),
    ] {
        let result = call!(driver, cuMemcpyHtoA_v2(array, offset, start.cast(), bytes));
        lines.push(format!("cuMemcpyHtoA_v2 8x4 f32 at {offset} bytes {bytes}: {}", code(&result)));
    }
    for (x, y, width, height, pitch) in [
        (0, 0, 32, 4, 32),
        (0, 0, 32, 5, 32),
        (0, 0, 33, 4, 64),
        (4, 0, 32, 4, 32),
        (2, 0, 4, 4, 32),
        (0, 4, 4, 1, 32),
        (0, 4, 4, 0, 32),
        (0, 0, 0, 4, 32),
        (0, 0, 6, 4, 32),
        (0, 0, 32, 4, 16),
        (0, 0, 32, 4, 0),
        (usize::MAX, 0, 32, 4, 32),
    ] {
        let copy = CUDA_MEMCPY2D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: start.cast(),
            srcPitch: pitch,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY,
            dstArray: array,
            dstXInBytes: x,
            dstY: y,
            WidthInBytes: width,
            Height: height,
            ..CUDA_MEMCPY2D::default()
        };
        let result = call!(driver, cuMemcpy2D_v2(&raw const copy));
        lines.push(format!(
            "cuMemcpy2D_v2 8x4 f32 at {x} {y} width {width} height {height} pitch {pitch}: {}",
            code(&result)
        ));
    }
    for (z, depth, height, level) in [
        (0, 1, 4, 0),
        (0, 0, 4, 0),
        (0, 2, 4, 0),
        (1, 1, 4, 0),
        (0, 1, 5, 0),
        (0, 1, 0, 0),
        (0, 1, 4, 1),
    ] {
        let copy = CUDA_MEMCPY3D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: start.cast(),
            srcPitch: 32,
            srcHeight: 4,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY,
            dstArray: array,
            dstZ: z,
            dstLOD: level,
            WidthInBytes: 32,
            Height: height,
            Depth: depth,
            ..CUDA_MEMCPY3D::default()
        };
        let result = call!(driver, cuMemcpy3D_v2(&raw const copy));
        lines.push(format!(
            "cuMemcpy3D_v2 8x4 f32 z {z} depth {depth} height {height} level {level}: {}",
            code(&result)
        ));
    }
    let copy = CUDA_MEMCPY2D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: start.cast(),
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY,
        WidthInBytes: 4,
        Height: 1,
        ..CUDA_MEMCPY2D::default()
    };
    let result = call!(driver, cuMemcpy2D_v2(&raw const copy));
    lines.push(format!("cuMemcpy2D_v2 null array: {}", code(&result)));
    destroy(device, array);
}

fn queries(device: &Device, lines: &mut Lines<'_>) {
    for format in [U8, U32, F16, F32, 9] {
        for channels in [1, 2, 4] {
            let mut elements = 0;
            let result = call!(
                device.driver,
                cuDeviceGetTexture1DLinearMaxWidth(
                    &raw mut elements,
                    CUarray_format(format),
                    channels,
                    0
                )
            );
            lines.push(format!(
                "cuDeviceGetTexture1DLinearMaxWidth {format} {channels}: {} {elements}",
                code(&result)
            ));
        }
    }
    // Getters return what was set; the driver may fill in the rest.
    let Ok(array) = array(device, described([8, 8, 0], F32, 1, 0)) else { return };
    let (resource, sampler) = plain(array);
    let mut object = 0;
    let driver = device.driver;
    let made = call!(
        driver,
        cuTexObjectCreate(&raw mut object, &raw const resource, &raw const sampler, ptr::null())
    );
    lines.push(format!(
        "getters: create {}, object {}",
        code(&made),
        if object < 1 << 32 { "below 2^32" } else { "of 64 bits" }
    ));
    if made.is_ok() {
        let mut view = CUDA_RESOURCE_VIEW_DESC::default();
        let result = call!(driver, cuTexObjectGetResourceViewDesc(&raw mut view, object));
        lines.push(format!("getters: view without one: {} {view:?}", code(&result)));
        let mut got = CUDA_TEXTURE_DESC::default();
        let result = call!(driver, cuTexObjectGetTextureDesc(&raw mut got, object));
        lines.push(format!("getters: texture: {} {got:?}", code(&result)));
        let result = call!(driver, cuTexObjectGetTextureDesc(&raw mut got, 0));
        lines.push(format!("getters: texture of 0: {}", code(&result)));
        // The probes go on in any case.
        let _ = call!(driver, cuTexObjectDestroy(object));
    }
    destroy(device, array);
}
