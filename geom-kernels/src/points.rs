//! Points in device memory, with any layout.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_safe::vector::{Double3, Float3, Float4};
use cuda_safe::{
    Access, Allocation, DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Error, KernelArg,
    Result, UnifiedBuffer,
    arg::{ArgType, UseVisitor},
};

use crate::part::read;
use crate::real::Real;

/// The most points that a grid holds, and the most queries of one call: 2³⁰.
pub const MAX_POINTS: usize = 1 << 30;

/// Points in device memory, from which grids are built and at which they are queried.
///
/// Buffers and views of `[f32; 3]`, `[f64; 3]`, `Float3`, `Float4` (whose w is ignored) and `Double3` convert by
/// `into()`; with the feature `rust-kernels` also those of the `Vec3` and `Vec4` of kernels. [`Points::flat`] takes an
/// array of numbers, and [`Points::strided`] every other layout.
#[derive(Debug, Clone, Copy)]
pub struct Points<'a, T: Real> {
    /// The memory of the points, as bytes of an allocation, and its address.
    allocation: &'a Arc<Allocation>,
    bytes: (usize, usize),
    address: u64,
    stride: usize,
    component: usize,
    len: usize,
    /// The same points as a view, if they are contiguous.
    #[cfg(feature = "tape")]
    packed: Option<DeviceSlice<'a, [T; 3]>>,
    number: PhantomData<T>,
}

impl<'a, T: Real> Points<'a, T> {
    /// Creates points from contiguous coordinates, x, y, z, x, y, z, …: a third as many as numbers. The buffer of a
    /// row-major n × 3 array has this layout.
    ///
    /// # Errors
    /// The length is not a multiple of 3.
    pub fn flat(data: impl Into<DeviceSlice<'a, T>>) -> Result<Self> {
        let data = data.into();
        if data.len() % 3 != 0 {
            return Err(Error::invalid(format!(
                "{} coordinates are no whole number of points",
                data.len()
            )));
        }
        Self::strided(data, data.len() / 3, 3, 1)
    }

    /// Creates `len` points; coordinate c of point i is `data[i * stride + c * component]`.
    ///
    /// For example, particles of 8 numbers each that begin with their position are `strided(data, n, 8, 1)`; for a
    /// position elsewhere in them, pass a slice of the buffer. One array for all x, one for all y and one for all z,
    /// in one buffer, are `strided(data, n, 1, n)`.
    ///
    /// # Errors
    /// `data` is too short, or there are more than [`MAX_POINTS`] points.
    pub fn strided(
        data: impl Into<DeviceSlice<'a, T>>,
        len: usize,
        stride: usize,
        component: usize,
    ) -> Result<Self> {
        let data = data.into();
        let last = (len.saturating_sub(1))
            .checked_mul(stride)
            .and_then(|begin| component.checked_mul(2)?.checked_add(begin));
        if len > 0 && last.is_none_or(|last| last >= data.len()) {
            return Err(Error::invalid(format!(
                "{len} points with stride {stride} and component stride {component} don't lie in \
                 {} numbers",
                data.len()
            )));
        }
        if len > MAX_POINTS {
            return Err(Error::invalid(format!("{len} points; at most 2^30 are possible")));
        }
        Ok(Self::over(&data, len, stride, component))
    }

    /// Returns the number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no points.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Creates points. Callers have checked that the points lie in `data`.
    fn over<E: Pod>(
        data: &DeviceSlice<'a, E>,
        len: usize,
        stride: usize,
        component: usize,
    ) -> Self {
        let Range { start, end } = data.byte_range();
        Self {
            allocation: data.allocation(),
            bytes: (start, end),
            address: data.device_ptr(),
            stride,
            component,
            len,
            #[cfg(feature = "tape")]
            packed: Self::packed_in(data, len, stride, component),
            number: PhantomData,
        }
    }

    #[cfg(feature = "tape")]
    fn packed_in<E: Pod>(
        data: &DeviceSlice<'a, E>,
        len: usize,
        stride: usize,
        component: usize,
    ) -> Option<DeviceSlice<'a, [T; 3]>> {
        if (stride, component) != (3, 1) {
            return None;
        }
        data.cast::<T>().ok()?.slice(..3 * len).ok()?.cast().ok()
    }

    /// Returns the points as a view, for a recorded query.
    ///
    /// # Errors
    /// The points are not packed.
    #[cfg(feature = "tape")]
    pub(crate) fn recorded(&self) -> Result<DeviceSlice<'a, [T; 3]>> {
        self.packed.ok_or_else(|| {
            let number = std::any::type_name::<T>();
            Error::invalid(
                "recorded queries take packed points, with x, y, z, x, y, z, … in memory",
            )
            .with_hint(format!(
                "copy the points to a buffer of `[{number}; 3]` by a recorded launch"
            ))
        })
    }

    /// Returns the points of a range, which must lie below [`len`](Self::len).
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let bytes = range.start.saturating_mul(self.stride).saturating_mul(size_of::<T>());
        Self {
            address: self.address + bytes as u64,
            len: range.len(),
            #[cfg(feature = "tape")]
            packed: self.packed.and_then(|packed| packed.slice(range).ok()),
            ..*self
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn strides(&self) -> (u64, u64) {
        (self.stride as u64, self.component as u64)
    }

    /// Returns the allocation, and the range of bytes with all coordinates.
    pub(crate) fn memory(&self) -> (&'a Arc<Allocation>, Range<usize>) {
        (self.allocation, self.bytes.0..self.bytes.1)
    }

    /// Reports the memory as read.
    pub(crate) fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let (allocation, bytes) = self.memory();
        visitor.visit(allocation, bytes, Access::Read)
    }
}

/// Implements conversions from views of elements that begin with three coordinates, and from types that convert to
/// such views.
macro_rules! from_elements {
    ($([$($T:ident)?] $element:ty: $real:ty, $stride:literal;)+) => {$(
        impl<'a $(, $T: Real)?> From<DeviceSlice<'a, $element>> for Points<'a, $real> {
            fn from(points: DeviceSlice<'a, $element>) -> Self {
                const {
                    assert!(size_of::<$element>() == $stride * size_of::<$real>());
                }
                Self::over(&points, points.len(), $stride, 1)
            }
        }

        impl<'a $(, $T: Real)?> From<&'a mut DeviceBuffer<$element>> for Points<'a, $real> {
            fn from(points: &'a mut DeviceBuffer<$element>) -> Self {
                points.as_slice().into()
            }
        }

        from_elements! { DeviceBuffer<$element>, [$($T)?] $element: $real }
        from_elements! { UnifiedBuffer<$element>, [$($T)?] $element: $real }
        from_elements! { DeviceSlice<'_, $element>, [$($T)?] $element: $real }
        from_elements! { DeviceSliceMut<'_, $element>, [$($T)?] $element: $real }
    )+};
    ($memory:ty, [$($T:ident)?] $element:ty: $real:ty) => {
        impl<'a $(, $T: Real)?> From<&'a $memory> for Points<'a, $real> {
            fn from(points: &'a $memory) -> Self {
                DeviceSlice::<$element>::from(points).into()
            }
        }
    };
}

from_elements! {
    [T] [T; 3]: T, 3;
    [] Float3: f32, 3;
    [] Float4: f32, 4;
    [] Double3: f64, 3;
}
#[cfg(feature = "rust-kernels")]
from_elements! {
    [] cuda_safe::kernel::vector::Vec3: f32, 3;
    [] cuda_safe::kernel::vector::Vec4: f32, 4;
}

/// `geom::grid::Points<T>`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawPoints {
    pub(crate) data: u64,
    pub(crate) stride: u64,
    pub(crate) component: u64,
    pub(crate) groups: u64,
    pub(crate) length: u32,
    pub(crate) unused: u32,
}

// SAFETY: repr(C), and the fields of geom::grid::Points in the same order.
unsafe impl DeviceRepr for RawPoints {}

/// `geom::grid::Points`, with the group of each point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointsArg<'a, T: Real> {
    pub(crate) points: Points<'a, T>,
    pub(crate) groups: Option<DeviceSlice<'a, u32>>,
}

// SAFETY: the kernels read coordinates of points below `length`, all of which lie in `data`
// (`Points::strided`), and their groups, of which there are as many (`PointsArg::new`).
unsafe impl<T: Real> KernelArg for PointsArg<'_, T> {
    type Abi = RawPoints;
    const TYPE: ArgType = ArgType::value::<RawPoints>();

    fn abi(&self) -> RawPoints {
        let (stride, component) = self.points.strides();
        RawPoints {
            data: self.points.address,
            stride,
            component,
            groups: self.groups.map_or(0, |groups| groups.device_ptr()),
            length: self.points.len as u32,
            unused: 0,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.points.uses(visitor)?;
        self.groups.as_ref().map_or(Ok(()), |groups| read(visitor, groups))
    }
}

impl<'a, T: Real> PointsArg<'a, T> {
    /// Returns the memory of points and groups.
    pub(crate) fn allocations(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        let groups = self.groups.as_ref().map(DeviceSlice::allocation);
        std::iter::once(self.points.allocation).chain(groups)
    }

    /// Creates the argument, and checks lengths.
    pub(crate) fn new(points: Points<'a, T>, groups: Option<DeviceSlice<'a, u32>>) -> Result<Self> {
        if points.len > MAX_POINTS {
            return Err(Error::invalid(format!(
                "{} points; at most 2^30 are possible",
                points.len
            )));
        }
        if let Some(groups) = groups
            && groups.len() != points.len
        {
            return Err(Error::invalid(format!(
                "{} groups for {} points",
                groups.len(),
                points.len
            )));
        }
        Ok(Self { points, groups })
    }
}
