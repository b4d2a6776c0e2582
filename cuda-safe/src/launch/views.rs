//! The parameters of the methods that [`kernels!`](crate::kernels) generates: a launch, and device memory to read or to
//! write. They are separate traits so that the compiler's error can say what to pass instead.

use super::{Dim3, LaunchConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut, UnifiedBuffer};

/// Memory on the device that a kernel can be given for reading, where it is declared with `&[T]`.
///
/// Implement it for references to your own containers of device memory.
#[diagnostic::on_unimplemented(
    message = "the kernel reads `{T}`s from device memory here: pass `&buffer` or a `DeviceSlice`",
    label = "`{Self}` is no device memory of `{T}` to read",
    note = "of an `x: &mut DeviceBuffer<{T}>` pass `&*x`",
    note = "memory of the host must be uploaded first: `DeviceBuffer::from_slice(&stream, &data)?`"
)]
pub trait ReadView<'a, T: Copy + 'static> {
    /// Returns the view that the kernel is given.
    fn read_view(self) -> DeviceSlice<'a, T>;
}

/// Memory on the device that a kernel can be given for writing, where it is declared with
/// `&mut [T]`.
///
/// Implement it for exclusive references to your own containers of device memory.
#[diagnostic::on_unimplemented(
    message = "the kernel writes `{T}`s to device memory here: pass `&mut buffer` or a \
               `DeviceSliceMut`",
    label = "`{Self}` is no device memory of `{T}` to write"
)]
pub trait WriteView<'a, T: Copy + 'static> {
    /// Returns the view that the kernel is given.
    fn write_view(self) -> DeviceSliceMut<'a, T>;
}

// Written out without a macro: the compiler's error for an argument that does not fit points to one of these impls.
#[diagnostic::do_not_recommend]
impl<'a, T: Copy + 'static> ReadView<'a, T> for DeviceSlice<'a, T> {
    #[inline]
    fn read_view(self) -> DeviceSlice<'a, T> {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Copy + 'static> ReadView<'a, T> for &'a DeviceSlice<'_, T> {
    #[inline]
    fn read_view(self) -> DeviceSlice<'a, T> {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Copy + 'static> ReadView<'a, T> for &'a DeviceSliceMut<'_, T> {
    #[inline]
    fn read_view(self) -> DeviceSlice<'a, T> {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Copy + 'static> ReadView<'a, T> for &'a DeviceBuffer<T> {
    #[inline]
    fn read_view(self) -> DeviceSlice<'a, T> {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Copy + 'static> ReadView<'a, T> for &'a UnifiedBuffer<T> {
    #[inline]
    fn read_view(self) -> DeviceSlice<'a, T> {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Copy + 'static> WriteView<'a, T> for DeviceSliceMut<'a, T> {
    #[inline]
    fn write_view(self) -> DeviceSliceMut<'a, T> {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Copy + 'static> WriteView<'a, T> for &'a mut DeviceSliceMut<'_, T> {
    #[inline]
    fn write_view(self) -> DeviceSliceMut<'a, T> {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Copy + 'static> WriteView<'a, T> for &'a mut DeviceBuffer<T> {
    #[inline]
    fn write_view(self) -> DeviceSliceMut<'a, T> {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Copy + 'static> WriteView<'a, T> for &'a mut UnifiedBuffer<T> {
    #[inline]
    fn write_view(self) -> DeviceSliceMut<'a, T> {
        self.into()
    }
}

/// A launch configuration: a [`LaunchConfig`], or a pair of grid and block.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no shape of a launch: pass a `LaunchConfig`, such as `LaunchConfig::cover(n, 256)`, \
               or `(grid, block)`",
    label = "neither a `LaunchConfig` nor `(grid, block)`"
)]
pub trait IntoLaunchConfig {
    /// Returns the launch.
    fn into_launch_config(self) -> LaunchConfig;
}

#[diagnostic::do_not_recommend]
impl IntoLaunchConfig for LaunchConfig {
    #[inline]
    fn into_launch_config(self) -> LaunchConfig {
        self
    }
}

impl<G: Into<Dim3>, B: Into<Dim3>> IntoLaunchConfig for (G, B) {
    #[inline]
    fn into_launch_config(self) -> LaunchConfig {
        self.into()
    }
}

/// Refuses launches that are larger than 1 in y or z, each where asked to. Most kernels compute
/// their index from x alone: two threads that differ in y would do the same work, and race.
///
/// # Errors
/// [`ErrorKind::Precondition`] names the first extent that is not 1.
#[inline]
pub fn in_x_alone(kernel: &'static str, launch: &LaunchConfig, y: bool, z: bool) -> Result<()> {
    let LaunchConfig { grid, block, .. } = launch;
    if (y && (block.y != 1 || grid.y != 1)) || (z && (block.z != 1 || grid.z != 1)) {
        return Err(beyond_x(kernel, launch, y));
    }
    Ok(())
}

/// Returns the error for the first extent that is not 1; those in z count if none in y does.
#[cold]
fn beyond_x(kernel: &'static str, launch: &LaunchConfig, y: bool) -> Error {
    let LaunchConfig { grid, block, .. } = launch;
    let (clause, name, value) = match (y && block.y != 1, y && grid.y != 1, block.z != 1) {
        (true, ..) => ("block.y == 1", "block.y", block.y),
        (false, true, _) => ("grid.y == 1", "grid.y", grid.y),
        (false, false, true) => ("block.z == 1", "block.z", block.z),
        (false, false, false) => ("grid.z == 1", "grid.z", grid.z),
    };
    let values = vec![(name, value.into())];
    Error::new(ErrorKind::Precondition { kernel, clause, values })
        .with_hint("it is launched in x alone, but for dimensions that its `where` names")
}
