//! Devices: how many, which, and what they say of themselves.

pub(super) mod attributes;

use core::ffi::{c_char, c_int, c_uint};

use cuda_sys::{
    CUdevice, CUdevice_P2PAttribute, CUdevice_attribute, CUdevprop, CUexecAffinityType, CUresult,
    CUuuid,
};

use super::call::{functions, process, put, put_text, text};
use super::process::initialise;

/// The CUDA release whose driver this is like: 13.0.
pub(super) const VERSION: c_int = 13_000;

/// Returns a device's address on the bus, which no real device has.
fn bus_id(ordinal: u32) -> String {
    format!("0000:E{:X}:{:02X}.0", ordinal / 32, ordinal % 32)
}

/// Returns whether a text is an address on a bus: `[domain:]bus:device[.function]` in hexadecimal.
fn is_bus_id(text: &str) -> bool {
    let (address, function) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| u32::from_str_radix(part, 16).is_ok();
    let parts = address.split(':');
    is_number(function) && matches!(parts.clone().count(), 2 | 3) && parts.clone().all(is_number)
}

functions! {
    Nothing fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        initialise()
    }
    Nothing fn cuDriverGetVersion(version: *mut c_int) { put(version, VERSION) }
    Init fn cuDeviceGetCount(count: *mut c_int) { put(count, process()?.devices.len() as c_int) }
    Init fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) {
        process()?.device(ordinal)?;
        put(device, ordinal)
    }
    Init fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) {
        let (_, info) = process()?.device(device)?;
        put_text(name, len, &info.name)
    }
    Init fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) { put_uuid(uuid, device) }
    Init fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) { put_uuid(uuid, device) }
    Init fn cuDeviceGetLuid(_luid: *mut c_char, _mask: *mut c_uint, device: CUdevice) {
        // Only systems with WDDM have these.
        process()?.device(device)?;
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    }
    Init fn cuDeviceGetPCIBusId(bus: *mut c_char, len: c_int, device: CUdevice) {
        let (ordinal, _) = process()?.device(device)?;
        put_text(bus, len, &bus_id(ordinal))
    }
    Init fn cuDeviceGetByPCIBusId(device: *mut CUdevice, bus: *const c_char) {
        let asked = text(bus)?.to_ascii_uppercase();
        let count = process()?.devices.len() as u32;
        let fits = |ordinal: &u32| {
            let id = bus_id(*ordinal);
            id == asked || id.strip_prefix("0000:") == Some(&asked) || format!("0000{id}") == asked
        };
        match (0..count).find(fits) {
            Some(ordinal) => put(device, ordinal as CUdevice),
            None if is_bus_id(&asked) => Err(CUresult::CUDA_ERROR_INVALID_DEVICE),
            None => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Init fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) {
        let (_, info) = process()?.device(device)?;
        put(bytes, info.total_memory as usize)
    }
    Init fn cuDeviceGetAttribute(value: *mut c_int, which: CUdevice_attribute, device: CUdevice) {
        let (ordinal, info) = process()?.device(device)?;
        put(value, attributes::value(which, ordinal, info)?)
    }
    Init fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice) {
        let (_, info) = process()?.device(device)?;
        put(major, info.cc.0 as c_int)?;
        put(minor, info.cc.1 as c_int)
    }
    Init fn cuDeviceGetProperties(properties: *mut CUdevprop, device: CUdevice) {
        let (ordinal, info) = process()?.device(device)?;
        let of = |which| attributes::value(which, ordinal, info);
        use CUdevice_attribute as A;
        let all = CUdevprop {
            maxThreadsPerBlock: of(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            maxThreadsDim: [1024, 1024, 64],
            maxGridSize: [c_int::MAX, 65535, 65535],
            sharedMemPerBlock: of(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
            totalConstantMemory: of(A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY)?,
            SIMDWidth: of(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
            memPitch: of(A::CU_DEVICE_ATTRIBUTE_MAX_PITCH)?,
            regsPerBlock: of(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?,
            clockRate: of(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            textureAlign: of(A::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)?,
        };
        put(properties, all)
    }
    Init fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice) {
        process()?.device(device)?;
        process()?.device(peer)?;
        put(can, c_int::from(device != peer))
    }
    Init fn cuDeviceGetP2PAttribute(
        value: *mut c_int, which: CUdevice_P2PAttribute, from: CUdevice, to: CUdevice
    ) {
        process()?.device(from)?;
        process()?.device(to)?;
        if from == to {
            return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
        }
        match which {
            CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK
            | CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED => {
                put(value, 0)
            }
            CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
            | CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED => {
                put(value, 1)
            }
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Init fn cuDeviceGetExecAffinitySupport(
        value: *mut c_int, _which: CUexecAffinityType, device: CUdevice
    ) {
        process()?.device(device)?;
        put(value, 0)
    }
}

/// # Safety
/// `uuid` is null or valid for the write.
unsafe fn put_uuid(uuid: *mut CUuuid, device: CUdevice) -> super::call::Answer {
    let (ordinal, _) = process()?.device(device)?;
    let mut bytes = *b"cuda-emu\x80device\0";
    bytes[15] = ordinal as u8;
    // SAFETY: the caller's promise.
    unsafe { put(uuid, CUuuid { bytes: bytes.map(|byte| byte as c_char) }) }
}
