//! Device memory to read or to write, as the methods take it that [`kernels!`](crate::kernels) generates. The two are
//! separate traits so that the compiler's error can say what to pass instead.

use super::{DeviceBuffer, DeviceSlice, DeviceSliceMut, UnifiedBuffer};

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
