//! The head of an empty grid, from which a build starts.

use bytemuck::AnyBitPattern;
use cuda_safe::{Error, Result};
use nanovdb::{Build, Builder, Grid, ValueType};

use super::VolumeOptions;
use crate::volume::VolumeValue;

/// The flag for nodes in breadth-first order.
const BREADTH_FIRST: u32 = 1 << 5;

/// Returns an empty grid's bytes: its head and root.
pub(super) fn head<T: VolumeValue>(options: &VolumeOptions<T>) -> Result<Vec<u8>> {
    let grid = empty(options).map_err(|error| Error::invalid(error.to_string()))?;
    let mut bytes = grid.bytes().to_vec();
    let mut put = |at: usize, value: &[u8]| {
        if let Some(place) = at.checked_add(value.len()).and_then(|end| bytes.get_mut(at..end)) {
            place.copy_from_slice(value);
        }
    };
    // The grid has no checksum, which the host would have to compute, and no statistics.
    put(8, &u64::MAX.to_le_bytes());
    put(20, &BREADTH_FIRST.to_le_bytes());
    Ok(bytes)
}

fn empty<T: VolumeValue>(options: &VolumeOptions<T>) -> nanovdb::Result<Grid> {
    use ValueType as V;
    let background = bytemuck::bytes_of(&options.background);
    match T::TYPE {
        V::F32 => of::<f32, T>(value(background), options),
        V::F64 => of::<f64, T>(value(background), options),
        V::I16 => of::<i16, T>(value(background), options),
        V::I32 => of::<i32, T>(value(background), options),
        V::I64 => of::<i64, T>(value(background), options),
        V::Vec3F => of::<[f32; 3], T>(value(background), options),
        V::Vec3D => of::<[f64; 3], T>(value(background), options),
        V::U32 => of::<u32, T>(value(background), options),
        V::Rgba8 => of::<[u8; 4], T>(value(background), options),
        V::Vec4F => of::<[f32; 4], T>(value(background), options),
        V::Vec4D => of::<[f64; 4], T>(value(background), options),
        V::U8 => of::<u8, T>(value(background), options),
        V::Bool => of::<bool, T>(background.iter().any(|byte| *byte != 0), options),
        V::Mask => of::<nanovdb::ValueMask, T>((), options),
        V::Index => of::<nanovdb::ValueIndex, T>((), options),
        V::OnIndex => of::<nanovdb::ValueOnIndex, T>((), options),
    }
}

/// Reinterprets the bytes of a value as a type of the same layout.
fn value<V: AnyBitPattern>(bytes: &[u8]) -> V {
    bytemuck::try_pod_read_unaligned(bytes).unwrap_or_else(|_| V::zeroed())
}

fn of<B: Build, T>(background: B::Value, options: &VolumeOptions<T>) -> nanovdb::Result<Grid> {
    let mut builder = Builder::<B>::new(background);
    builder.name(&options.name).map(options.map);
    if let Some(class) = options.class {
        builder.class(class);
    }
    builder.build()
}

/// Returns the values that builds need: the background, and at byte 32 the value of the inside. The other bytes are
/// zeros.
pub(super) fn constants<T: VolumeValue>(background: T) -> [u8; 64] {
    let mut constants = [0; 64];
    let has_value = !matches!(T::TYPE, ValueType::Mask | ValueType::Index | ValueType::OnIndex);
    if has_value {
        let bytes = bytemuck::bytes_of(&background);
        let inside = match T::TYPE {
            ValueType::F32 => bytemuck::bytes_of(&-value::<f32>(bytes)).to_vec(),
            ValueType::F64 => bytemuck::bytes_of(&-value::<f64>(bytes)).to_vec(),
            _ => bytes.to_vec(),
        };
        for (place, byte) in constants.iter_mut().zip(bytes) {
            *place = *byte;
        }
        for (place, byte) in constants.iter_mut().skip(32).zip(&inside) {
            *place = *byte;
        }
    }
    constants
}
