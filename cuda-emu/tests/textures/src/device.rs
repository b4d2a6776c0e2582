//! Running a mode over raw calls.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::error::Error;
use std::ffi::CString;
use std::fmt;

use cuda_sys::{
    CUDA_ARRAY3D_CUBEMAP, CUDA_ARRAY3D_DESCRIPTOR, CUDA_ARRAY3D_LAYERED, CUDA_ARRAY3D_SURFACE_LDST,
    CUDA_ARRAY3D_TEXTURE_GATHER, CUDA_MEMCPY3D, CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC,
    CUaddress_mode, CUarray, CUarray_format, CUdeviceptr, CUfilter_mode, CUmemorytype,
    CUmipmappedArray, CUmodule, CUresourcetype, CUresult, Driver,
};

use crate::inputs::{FETCHES, INPUTS, inputs, texels};
use crate::kernel::{NAME, ptx};
use crate::modes::{Coordinates, Format, Geometry, Memory, Mode, Operation};

/// A call that failed.
#[derive(Clone, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub function: &'static str,
    /// The driver's code; -1 if the driver lacks the function.
    pub code: i64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, code } = self;
        match u32::try_from(*code).ok().and_then(|code| CUresult(code).name()) {
            Some(name) => write!(f, "{function} returned {name} ({code})"),
            None => write!(f, "{function} returned {code}"),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Call {}

/// Calls a function of the driver; an error unless it returns success.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the caller of this macro passes live handles, and pointers to what the function reads and writes.
        let called = unsafe { $driver.$name($($argument),*) };
        match called {
            Ok(CUresult::CUDA_SUCCESS) => Ok(()),
            Ok(code) => Err(Call { function: stringify!($name), code: i64::from(code.0) }),
            Err(_) => Err(Call { function: stringify!($name), code: -1 }),
        }
    }};
}

pub(crate) use call;

/// A device with a context, current on this thread.
#[derive(Debug)]
pub struct Device {
    pub(crate) driver: &'static Driver,
}

/// What a mode has made; freed at the end.
#[derive(Default)]
struct Made {
    memory: Vec<CUdeviceptr>,
    array: Option<CUarray>,
    mipmapped: Option<CUmipmappedArray>,
    texture: Option<u64>,
    surface: Option<u64>,
    module: Option<CUmodule>,
}

impl Device {
    /// Device 0 with its primary context.
    ///
    /// # Errors
    /// The call that failed.
    pub fn new(driver: &'static Driver) -> Result<Self, Call> {
        call!(driver, cuInit(0))?;
        let mut context = ptr::null_mut();
        call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0))?;
        call!(driver, cuCtxSetCurrent(context))?;
        Ok(Self { driver })
    }

    /// The name of the device and the version of its driver.
    ///
    /// # Errors
    /// The call that failed.
    pub fn about(&self) -> Result<String, Call> {
        let mut name = [0_u8; 128];
        call!(self.driver, cuDeviceGetName(name.as_mut_ptr().cast(), 127, 0))?;
        let mut version: c_int = 0;
        call!(self.driver, cuDriverGetVersion(&raw mut version))?;
        let text: String =
            name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
        Ok(format!("{text}, CUDA {}.{}", version / 1000, version % 1000 / 10))
    }

    pub(crate) fn free(&self, memory: CUdeviceptr) {
        // Nothing else can be done with memory that cannot be freed.
        let _ = call!(self.driver, cuMemFree_v2(memory));
    }

    fn clean(&self, made: Made) {
        let driver = self.driver;
        // A handle that cannot be destroyed is of a context that is lost.
        if let Some(module) = made.module {
            let _ = call!(driver, cuModuleUnload(module));
        }
        if let Some(texture) = made.texture {
            let _ = call!(driver, cuTexObjectDestroy(texture));
        }
        if let Some(surface) = made.surface {
            let _ = call!(driver, cuSurfObjectDestroy(surface));
        }
        if let Some(array) = made.array {
            let _ = call!(driver, cuArrayDestroy(array));
        }
        if let Some(array) = made.mipmapped {
            let _ = call!(driver, cuMipmappedArrayDestroy(array));
        }
        for memory in made.memory {
            self.free(memory);
        }
    }

    fn allocate(&self, made: &mut Made, bytes: usize) -> Result<CUdeviceptr, Call> {
        let mut memory = 0;
        call!(self.driver, cuMemAlloc_v2(&raw mut memory, bytes))?;
        made.memory.push(memory);
        Ok(memory)
    }

    fn upload(&self, to: CUdeviceptr, bytes: &[u8]) -> Result<(), Call> {
        call!(self.driver, cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), bytes.len()))
    }
}

/// The driver's name of a format.
pub(crate) fn format_of(format: Format) -> CUarray_format {
    match format {
        Format::U8 => CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
        Format::U16 => CUarray_format::CU_AD_FORMAT_UNSIGNED_INT16,
        Format::U32 => CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32,
        Format::S8 => CUarray_format::CU_AD_FORMAT_SIGNED_INT8,
        Format::S16 => CUarray_format::CU_AD_FORMAT_SIGNED_INT16,
        Format::S32 => CUarray_format::CU_AD_FORMAT_SIGNED_INT32,
        Format::F16 => CUarray_format::CU_AD_FORMAT_HALF,
        Format::F32 => CUarray_format::CU_AD_FORMAT_FLOAT,
    }
}

/// The descriptor of a mode's array.
fn descriptor(mode: &Mode) -> CUDA_ARRAY3D_DESCRIPTOR {
    let [width, height, depth] = mode.size.map(|size| size as usize);
    let (height, depth, mut flags) = match mode.geometry {
        Geometry::D1 => (0, 0, 0),
        Geometry::D2 => (height, 0, 0),
        Geometry::D3 => (height, depth, 0),
        Geometry::A1 => (0, height, CUDA_ARRAY3D_LAYERED),
        Geometry::A2 => (height, depth, CUDA_ARRAY3D_LAYERED),
        Geometry::Cube => (height, depth, CUDA_ARRAY3D_CUBEMAP),
        Geometry::CubeArray => (height, depth, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED),
    };
    if mode.is_surface() {
        flags |= CUDA_ARRAY3D_SURFACE_LDST;
    }
    if matches!(mode.operation, Operation::Gather(_)) {
        flags |= CUDA_ARRAY3D_TEXTURE_GATHER;
    }
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: format_of(mode.format),
        NumChannels: mode.channels,
        Flags: flags,
    }
}

/// Copies a level between an array and the host.
fn copy(
    device: &Device,
    mode: &Mode,
    array: CUarray,
    level: u32,
    host: *mut u8,
    upload: bool,
) -> Result<(), Call> {
    let [width, height, depth] = mode.extent(level).map(|size| size as usize);
    let row = width * mode.texel_bytes();
    let mut copy = CUDA_MEMCPY3D::default();
    let (host_type, array_type) =
        (CUmemorytype::CU_MEMORYTYPE_HOST, CUmemorytype::CU_MEMORYTYPE_ARRAY);
    if upload {
        (copy.srcMemoryType, copy.dstMemoryType) = (host_type, array_type);
        (copy.srcHost, copy.dstArray) = (host.cast_const().cast(), array);
        (copy.srcPitch, copy.srcHeight) = (row, height);
    } else {
        (copy.srcMemoryType, copy.dstMemoryType) = (array_type, host_type);
        (copy.dstHost, copy.srcArray) = (host.cast(), array);
        (copy.dstPitch, copy.dstHeight) = (row, height);
    }
    (copy.WidthInBytes, copy.Height, copy.Depth) = (row, height, depth);
    call!(device.driver, cuMemcpy3D_v2(&raw const copy))
}

/// Makes the texture's memory, fills it, and describes it.
fn resource(device: &Device, mode: &Mode, made: &mut Made) -> Result<CUDA_RESOURCE_DESC, Call> {
    let driver = device.driver;
    let mut resource = CUDA_RESOURCE_DESC::default();
    match mode.memory {
        Memory::Linear => {
            let bytes = texels(mode, 0);
            let memory = device.allocate(made, bytes.len())?;
            device.upload(memory, &bytes)?;
            resource.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
            resource.res.linear.devPtr = memory;
            resource.res.linear.format = format_of(mode.format);
            resource.res.linear.numChannels = mode.channels;
            resource.res.linear.sizeInBytes = bytes.len();
        }
        Memory::Pitched => {
            let bytes = texels(mode, 0);
            let [width, height, _] = mode.extent(0).map(|size| size as usize);
            let row = width * mode.texel_bytes();
            let pitch = row.next_multiple_of(512);
            let memory = device.allocate(made, pitch * height)?;
            for (at, bytes) in bytes.chunks(row).enumerate() {
                device.upload(memory + (at * pitch) as u64, bytes)?;
            }
            resource.resType = CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
            resource.res.pitch2D.devPtr = memory;
            resource.res.pitch2D.format = format_of(mode.format);
            resource.res.pitch2D.numChannels = mode.channels;
            resource.res.pitch2D.width = width;
            resource.res.pitch2D.height = height;
            resource.res.pitch2D.pitchInBytes = pitch;
        }
        Memory::Array => {
            let wanted = descriptor(mode);
            if mode.levels == 1 {
                let mut array = ptr::null_mut();
                call!(driver, cuArray3DCreate_v2(&raw mut array, &raw const wanted))?;
                made.array = Some(array);
                let mut bytes = texels(mode, 0);
                copy(device, mode, array, 0, bytes.as_mut_ptr(), true)?;
                resource.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
                resource.res.array.hArray = array;
            } else {
                let mut array = ptr::null_mut();
                call!(
                    driver,
                    cuMipmappedArrayCreate(&raw mut array, &raw const wanted, mode.levels)
                )?;
                made.mipmapped = Some(array);
                for level in 0..mode.levels {
                    let mut one = ptr::null_mut();
                    call!(driver, cuMipmappedArrayGetLevel(&raw mut one, array, level))?;
                    let mut bytes = texels(mode, level);
                    copy(device, mode, one, level, bytes.as_mut_ptr(), true)?;
                }
                resource.resType = CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
                resource.res.mipmap.hMipmappedArray = array;
            }
        }
    }
    Ok(resource)
}

/// The descriptor of a mode's texture.
fn sampler(mode: &Mode) -> CUDA_TEXTURE_DESC {
    let mut sampler = CUDA_TEXTURE_DESC::default();
    let filter = |linear| CUfilter_mode(u32::from(linear));
    sampler.addressMode = mode.address.map(CUaddress_mode);
    sampler.filterMode = filter(mode.linear);
    sampler.mipmapFilterMode = filter(mode.linear_levels);
    let [bias, low, high] = mode.level_limits;
    (sampler.mipmapLevelBias, sampler.minMipmapLevelClamp) = (bias, low);
    sampler.maxMipmapLevelClamp = high;
    sampler.maxAnisotropy = mode.anisotropy;
    sampler.flags = mode.flags;
    if !mode.normalized_read && mode.format.is_integer() {
        sampler.flags |= cuda_sys::CU_TRSF_READ_AS_INTEGER;
    }
    if mode.coordinates == Coordinates::Normalized {
        sampler.flags |= cuda_sys::CU_TRSF_NORMALIZED_COORDINATES;
    }
    sampler.borderColor = if mode.reads_floats() {
        [0.25, -0.5, 0.7, 1.0]
    } else {
        [f32::from_bits(3), f32::from_bits(70_000), f32::from_bits(0xffff_fffe), f32::from_bits(1)]
    };
    sampler
}

/// A mistake of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// The kernel gets 0 for an object.
    Null,
    /// The object is destroyed before the launch.
    Destroyed,
    /// The array is destroyed before the launch.
    Freed,
    /// The mode's own coordinates are outside.
    Outside,
    /// Coordinates are increased by a byte or a texel.
    Shifted,
}

/// Runs a mode with a mistake.
///
/// # Errors
/// The call that failed, as it should.
pub fn run_wrong(device: &Device, mode: &Mode, mistake: Mistake) -> Result<Vec<u32>, Call> {
    let mut made = Made::default();
    let result = run_into(device, mode, &mut made, Some(mistake));
    device.clean(made);
    result
}

/// Runs a mode. Returns four words of each fetch, or the words of the array for a store.
///
/// # Errors
/// The call that failed.
pub fn run(device: &Device, mode: &Mode) -> Result<Vec<u32>, Call> {
    let mut made = Made::default();
    let result = run_into(device, mode, &mut made, None);
    device.clean(made);
    result
}

fn run_into(
    device: &Device,
    mode: &Mode,
    made: &mut Made,
    mistake: Option<Mistake>,
) -> Result<Vec<u32>, Call> {
    let driver = device.driver;
    let resource = resource(device, mode, made)?;
    let mut object = 0;
    if mode.is_surface() {
        call!(driver, cuSurfObjectCreate(&raw mut object, &raw const resource))?;
        made.surface = Some(object);
    } else {
        let sampler = sampler(mode);
        call!(
            driver,
            cuTexObjectCreate(
                &raw mut object,
                &raw const resource,
                &raw const sampler,
                ptr::null()
            )
        )?;
        made.texture = Some(object);
    }

    let text = CString::new(ptx(mode)).unwrap_or_default();
    let mut module = ptr::null_mut();
    call!(driver, cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
    made.module = Some(module);
    let name = CString::new(NAME).unwrap_or_default();
    let mut function = ptr::null_mut();
    call!(driver, cuModuleGetFunction(&raw mut function, module, name.as_ptr()))?;

    match mistake {
        None | Some(Mistake::Outside | Mistake::Shifted) => {}
        Some(Mistake::Null) => object = 0,
        Some(Mistake::Destroyed) => {
            if let Some(texture) = made.texture.take() {
                call!(driver, cuTexObjectDestroy(texture))?;
            }
            if let Some(surface) = made.surface.take() {
                call!(driver, cuSurfObjectDestroy(surface))?;
            }
        }
        Some(Mistake::Freed) => {
            if let Some(array) = made.array.take() {
                call!(driver, cuArrayDestroy(array))?;
            }
            if let Some(array) = made.mipmapped.take() {
                call!(driver, cuMipmappedArrayDestroy(array))?;
            }
            for memory in std::mem::take(&mut made.memory) {
                call!(driver, cuMemFree_v2(memory))?;
            }
        }
    }
    let mut inputs = inputs(mode);
    if mistake == Some(Mistake::Shifted) {
        for words in inputs.chunks_exact_mut(INPUTS) {
            words[1] = words[1].wrapping_add(1);
        }
    }
    let inputs: Vec<u8> = inputs.into_iter().flat_map(u32::to_le_bytes).collect();
    let mut given = device.allocate(made, inputs.len())?;
    device.upload(given, &inputs)?;
    let mut results = device.allocate(made, FETCHES * 16)?;
    call!(driver, cuMemsetD8_v2(results, 0, FETCHES * 16))?;
    let mut count = FETCHES as u32;
    let mut arguments: [*mut c_void; 4] = [
        (&raw mut object).cast(),
        (&raw mut given).cast(),
        (&raw mut results).cast(),
        (&raw mut count).cast(),
    ];
    call!(
        driver,
        cuLaunchKernel(
            function,
            (FETCHES / 128) as u32,
            1,
            1,
            128,
            1,
            1,
            0,
            ptr::null_mut(),
            arguments.as_mut_ptr(),
            ptr::null_mut()
        )
    )?;
    call!(driver, cuCtxSynchronize())?;

    let stored = matches!(
        mode.operation,
        Operation::SurfaceStore(..)
            | Operation::SurfaceStoreFormatted(_)
            | Operation::SurfaceReduce(_)
    );
    let mut bytes;
    if stored && let Some(array) = made.array {
        bytes = texels(mode, 0);
        copy(device, mode, array, 0, bytes.as_mut_ptr(), false)?;
    } else {
        bytes = vec![0; FETCHES * 16];
        call!(driver, cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), results, bytes.len()))?;
    }
    while !bytes.len().is_multiple_of(4) {
        bytes.push(0);
    }
    let words = bytes
        .chunks_exact(4)
        .map(|bytes| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)));
    Ok(words.collect())
}
