//! Arguments of unsafe kernels: pointers that may be null, and raw ones.

use std::fmt;
use std::marker::PhantomData;

use cuda_sys::CUdeviceptr;

use super::args::{ArgType, KernelArg, ReadOnly};
use crate::error::Result;
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut, UnifiedBuffer, UseVisitor};

mod sealed {
    use cuda_sys::CUdeviceptr;

    use crate::launch::KernelArg;

    /// A view that is passed as its address, for which a null pointer can stand.
    pub trait View: KernelArg<Abi = CUdeviceptr> {}
    pub trait Pointer {}
}

impl<T: Copy + 'static> sealed::View for DeviceSlice<'_, T> {}
impl<T: Copy + 'static> sealed::View for DeviceSliceMut<'_, T> {}
impl<T: Copy + 'static> sealed::View for ReadOnly<'_, T> {}

// SAFETY: the view reports what the kernel reaches, and through a null pointer it reaches nothing.
unsafe impl<V: sealed::View> KernelArg for Option<V> {
    type Abi = CUdeviceptr;
    const TYPE: ArgType = V::TYPE;

    #[inline]
    fn abi(&self) -> CUdeviceptr {
        self.as_ref().map_or(0, KernelArg::abi)
    }

    #[inline]
    fn uses<U: UseVisitor>(&self, visitor: &mut U) -> Result<()> {
        self.as_ref().map_or(Ok(()), |view| view.uses(visitor))
    }
}

/// Memory that a kernel can be given for reading, or nothing, where it is declared with `Option<&[T]>`: `None`, a view
/// or a reference to a buffer as for `&[T]`, or an `Option<DeviceSlice<T>>`.
#[diagnostic::on_unimplemented(
    message = "the kernel reads `{T}`s here, or takes a null pointer: pass `&buffer`, a `DeviceSlice`, \
               `Some(slice)` or `None`",
    label = "`{Self}` is no device memory of `{T}` to read",
    note = "of an `Option<&DeviceBuffer<{T}>>` pass `option.map(DeviceBuffer::as_slice)`"
)]
pub trait NullableReadView<'a, T: Copy + 'static> {
    /// Returns the view, or `None` for a null pointer.
    fn nullable_read_view(self) -> Option<DeviceSlice<'a, T>>;
}

/// Memory that a kernel can be given for writing, or nothing, where it is declared with `Option<&mut [T]>`: `None`, a
/// view or an exclusive reference to a buffer as for `&mut [T]`, or an `Option<DeviceSliceMut<T>>`.
#[diagnostic::on_unimplemented(
    message = "the kernel writes `{T}`s here, or takes a null pointer: pass `&mut buffer`, a `DeviceSliceMut`, \
               `Some(slice)` or `None`",
    label = "`{Self}` is no device memory of `{T}` to write",
    note = "of an `Option<&mut DeviceBuffer<{T}>>` pass `option.map(DeviceBuffer::as_slice_mut)`"
)]
pub trait NullableWriteView<'a, T: Copy + 'static> {
    /// Returns the view, or `None` for a null pointer.
    fn nullable_write_view(self) -> Option<DeviceSliceMut<'a, T>>;
}

macro_rules! nullable {
    ($($trait:ident :: $method:ident -> $view:ident: $($of:ty),+;)+) => {$(
        #[diagnostic::do_not_recommend]
        impl<'a, T: Copy + 'static> $trait<'a, T> for Option<$view<'a, T>> {
            #[inline]
            fn $method(self) -> Option<$view<'a, T>> {
                self
            }
        }

        $(
            #[diagnostic::do_not_recommend]
            impl<'a, T: Copy + 'static> $trait<'a, T> for $of {
                #[inline]
                fn $method(self) -> Option<$view<'a, T>> {
                    Some(self.into())
                }
            }
        )+
    )+};
}

nullable! {
    NullableReadView::nullable_read_view -> DeviceSlice:
        DeviceSlice<'a, T>, &'a DeviceSlice<'_, T>, &'a DeviceSliceMut<'_, T>, &'a DeviceBuffer<T>,
        &'a UnifiedBuffer<T>;
    NullableWriteView::nullable_write_view -> DeviceSliceMut:
        DeviceSliceMut<'a, T>, &'a mut DeviceSliceMut<'_, T>, &'a mut DeviceBuffer<T>, &'a mut UnifiedBuffer<T>;
}

/// The address of a `P` on the device, where a kernel of [`kernels!`](crate::kernels) is declared as an `unsafe fn` with
/// a parameter of the type `*const T` or `*mut T`.
///
/// A Rust pointer is passed as the address that it holds, and a [`CUdeviceptr`] as it is. The host never
/// dereferences it. Nothing is known of the memory: the launch is not ordered behind other uses, and keeps nothing.
#[diagnostic::on_unimplemented(
    message = "the kernel takes a raw pointer here: pass a `{P}` or a `CUdeviceptr`",
    label = "`{Self}` is no `{P}`"
)]
pub trait IntoRawPointer<P>: sealed::Pointer {
    /// What it points to.
    type Target: 'static;
    /// Returns the argument for the kernel.
    fn raw_pointer(self) -> RawPointer<Self::Target>;
}

/// A raw address as an argument of a kernel; see [`IntoRawPointer`].
pub struct RawPointer<T> {
    address: CUdeviceptr,
    of: PhantomData<*mut T>,
}

impl<T> RawPointer<T> {
    /// Passes `address` to a kernel whose parameter is a pointer to `T`.
    #[must_use]
    pub fn new(address: CUdeviceptr) -> Self {
        Self { address, of: PhantomData }
    }
}

impl<T> Clone for RawPointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RawPointer<T> {}

impl<T> fmt::Debug for RawPointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)
    }
}

// SAFETY: the kernel is given the address. This crate knows nothing of the memory there, so nothing is reported: who
// launches the kernel, which is unsafe, answers for its order and its lifetime.
unsafe impl<T: 'static> KernelArg for RawPointer<T> {
    type Abi = CUdeviceptr;
    // Without a borrow there is nothing to compare with the const of the pointer.
    const TYPE: ArgType = ArgType::pointer::<Self, T>(true);

    #[inline]
    fn abi(&self) -> CUdeviceptr {
        self.address
    }

    #[inline]
    fn uses<V: UseVisitor>(&self, _: &mut V) -> Result<()> {
        Ok(())
    }
}

impl<T> sealed::Pointer for *const T {}
impl<T> sealed::Pointer for *mut T {}
impl sealed::Pointer for CUdeviceptr {}

macro_rules! raw {
    ($($from:ty => $to:ty;)+) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: 'static> IntoRawPointer<$to> for $from {
            type Target = T;
            #[inline]
            fn raw_pointer(self) -> RawPointer<T> {
                RawPointer::new(self.expose_provenance() as CUdeviceptr)
            }
        }
    )+};
}

raw! {
    *const T => *const T;
    *mut T => *const T;
    *mut T => *mut T;
}

macro_rules! addresses {
    ($($to:ty;)+) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: 'static> IntoRawPointer<$to> for CUdeviceptr {
            type Target = T;
            #[inline]
            fn raw_pointer(self) -> RawPointer<T> {
                RawPointer::new(self)
            }
        }
    )+};
}

addresses! {
    *const T;
    *mut T;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::ArgKind;

    fn const_pointer(pointer: impl IntoRawPointer<*const f32, Target = f32>) -> u64 {
        pointer.raw_pointer().abi()
    }

    fn mut_pointer(pointer: impl IntoRawPointer<*mut f32, Target = f32>) -> u64 {
        pointer.raw_pointer().abi()
    }

    #[test]
    fn pointers_are_passed_as_their_addresses() {
        let value = 1.0f32;
        let address = (&raw const value).addr() as u64;
        assert_eq!(const_pointer(&raw const value), address);
        assert_eq!(const_pointer((&raw const value).cast_mut()), address);
        assert_eq!(mut_pointer((&raw const value).cast_mut()), address);
        assert_eq!((const_pointer(address), mut_pointer(u64::MAX)), (address, u64::MAX));
        assert_eq!((const_pointer(std::ptr::null()), mut_pointer(std::ptr::null_mut())), (0, 0));
    }

    #[test]
    fn a_missing_view_is_a_null_pointer_of_the_same_type() {
        fn view<'a>(view: impl NullableReadView<'a, f32>) -> u64 {
            view.nullable_read_view().abi()
        }
        assert_eq!(view(None), 0);
        let kinds = [
            <Option<DeviceSlice<'_, f32>> as KernelArg>::TYPE.kind,
            <Option<DeviceSliceMut<'_, f32>> as KernelArg>::TYPE.kind,
            <Option<ReadOnly<'_, f32>> as KernelArg>::TYPE.kind,
        ];
        let facts = kinds.map(|kind| match kind {
            ArgKind::Pointer { writable, only_read, .. } => Some((writable, only_read)),
            ArgKind::Value(_) => None,
        });
        assert_eq!(facts, [Some((false, false)), Some((true, false)), Some((false, true))]);
    }
}
