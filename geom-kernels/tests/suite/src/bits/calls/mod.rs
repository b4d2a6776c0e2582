//! The layer between the golden tests and the public API of `geom-kernels` and `tape`: small functions, each a call
//! or a constructor. If the API changes, this folder changes; the tests, their names and their bits do not.
//!
//! Results are memory full of 0xa5 before a call, so that what a call leaves as it is has known bytes, too.

mod boxes;
mod meshes;
mod numbers;
mod points;
mod surfaces;
mod tapes;
mod volumes;

use bytemuck::{AnyBitPattern, NoUninit};
use cuda_safe::{DeviceBuffer, DeviceSlice, Stream};
use geom_kernels::GeometryKernels;

pub(super) use boxes::*;
pub(super) use meshes::*;
pub(super) use numbers::*;
pub(super) use points::*;
pub(super) use surfaces::*;
pub(super) use tapes::*;
pub(super) use volumes::*;

use crate::Geometry;
use test_harness::{Failure, TestDevice};

pub(super) type Got<T> = Result<T, Failure>;

/// Elements whose bytes can be written and read.
pub(super) trait Plain: NoUninit + AnyBitPattern {}
impl<T: NoUninit + AnyBitPattern> Plain for T {}

/// Points, directions or colours.
pub(super) type Vectors = Vec<[f32; 3]>;

/// Voxels by their indices.
pub(super) type Voxels = Vec<[i32; 3]>;

/// A stream and the kernels.
pub(super) struct Lab {
    pub(super) stream: Stream,
    pub(super) geometry: GeometryKernels,
}

impl Lab {
    pub(super) fn new(device: &TestDevice) -> Got<Self> {
        Ok(Self { stream: device.stream()?, geometry: device.geometry() })
    }

    /// A buffer with these elements.
    pub(super) fn up<T: Plain>(&self, data: &[T]) -> Got<DeviceBuffer<T>> {
        Ok(DeviceBuffer::from_slice(&self.stream, data)?)
    }

    /// Room for results.
    pub(super) fn room<T: Plain>(&self, n: usize) -> Got<DeviceBuffer<T>> {
        self.up(&garbage(n))
    }

    pub(super) fn down<'a, T: Plain>(&self, from: impl Into<DeviceSlice<'a, T>>) -> Got<Vec<T>> {
        Ok(from.into().to_vec(&self.stream)?)
    }

    /// What a call writes to `n` elements.
    pub(super) fn filled<T: Plain>(
        &self,
        n: usize,
        call: impl FnOnce(&mut DeviceBuffer<T>) -> cuda_safe::Result<()>,
    ) -> Got<Vec<T>> {
        let mut out = self.room(n)?;
        call(&mut out)?;
        self.down(&out)
    }

    /// What a call writes to `n` elements of one type and `m` of another.
    pub(super) fn filled_both<T: Plain, U: Plain>(
        &self,
        (n, m): (usize, usize),
        call: impl FnOnce(&mut DeviceBuffer<T>, &mut DeviceBuffer<U>) -> cuda_safe::Result<()>,
    ) -> Got<(Vec<T>, Vec<U>)> {
        let (mut one, mut other) = (self.room(n)?, self.room(m)?);
        call(&mut one, &mut other)?;
        Ok((self.down(&one)?, self.down(&other)?))
    }
}

/// Memory of the host full of what is no result.
pub(super) fn garbage<T: AnyBitPattern>(n: usize) -> Vec<T> {
    vec![bytemuck::pod_read_unaligned(&vec![0xa5u8; size_of::<T>()]); n]
}

/// What a call on the CPU writes to `n` elements.
pub(super) fn filled<T: AnyBitPattern>(
    n: usize,
    call: impl FnOnce(&mut [T]) -> cuda_safe::Result<()>,
) -> Got<Vec<T>> {
    let mut out = garbage(n);
    call(&mut out)?;
    Ok(out)
}

/// What a call on the CPU writes to `n` elements of one type and `m` of another.
pub(super) fn filled_both<T: AnyBitPattern, U: AnyBitPattern>(
    (n, m): (usize, usize),
    call: impl FnOnce(&mut [T], &mut [U]) -> cuda_safe::Result<()>,
) -> Got<(Vec<T>, Vec<U>)> {
    let (mut one, mut other) = (garbage(n), garbage(m));
    call(&mut one, &mut other)?;
    Ok((one, other))
}

/// A number of anything as it is recorded.
pub(super) fn word(n: usize) -> u64 {
    n as u64
}
