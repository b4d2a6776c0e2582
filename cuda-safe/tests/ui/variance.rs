//! The variance of each public type with a type parameter. `General` is a subtype of `Special`, and `TypeId` tells them
//! apart: a conversion that compiles is covariant, and where none compiles the type is invariant.

#![allow(coherence_leak_check)]

use cuda_safe::arg::{ReadOnly, RawPointer};
use cuda_safe::{
    ConsumeError, DeviceBuffer, DeviceSlice, DeviceSliceMut, Global, GraphBuilder, GraphExec, HostMut, HostRef,
    PinnedBuffer, Transfer, UnifiedBuffer, kernels,
};

type General = for<'a> fn(&'a u8);
type Special = fn(&'static u8);

kernels! {
    #[name = "{}_{T}"]
    pub struct Declared<T: 'static in [for<'a> fn(&'a u8) = "f32", fn(&'static u8) = "f64"]>;
    unsafe in "" {
        global table: [u32; 4];
        safe fn fill(x: &mut [u32], n: usize = x.len()) over n;
        #[name = "each_{T}_{U}"]
        safe fn each<U in [u8, u16]>(x: &mut [U], n: usize = x.len()) over n;
    }
}

// These own their elements, or borrow them to read.
fn consume_error(x: ConsumeError<General>) -> ConsumeError<Special> { x }
fn device_buffer(x: DeviceBuffer<General>) -> DeviceBuffer<Special> { x }
fn device_slice<'b>(x: DeviceSlice<'static, General>) -> DeviceSlice<'b, Special> { x }
fn graph_builder<'b>(x: GraphBuilder<'static, General>) -> GraphBuilder<'b, Special> { x }
fn graph_exec<'b>(x: GraphExec<'static, General>) -> GraphExec<'b, Special> { x }
fn host_ref<'b>(x: HostRef<'static, General>) -> HostRef<'b, Special> { x }
fn only_read<'b>(x: ReadOnly<'static, General>) -> ReadOnly<'b, Special> { x }
fn pinned_buffer(x: PinnedBuffer<General>) -> PinnedBuffer<Special> { x }
fn transfer(x: Transfer<General>) -> Transfer<Special> { x }
fn unified_buffer(x: UnifiedBuffer<General>) -> UnifiedBuffer<Special> { x }

// These write elements that they do not own, or stand for kernels of one type.
fn declared(x: Declared<General>) -> Declared<Special> { x }
fn declared_back(x: Declared<Special>) -> Declared<General> { x }
fn device_slice_mut(x: DeviceSliceMut<'_, General>) -> DeviceSliceMut<'_, Special> { x }
fn device_slice_mut_back(x: DeviceSliceMut<'_, Special>) -> DeviceSliceMut<'_, General> { x }
fn global(x: Global<General>) -> Global<Special> { x }
fn global_back(x: Global<Special>) -> Global<General> { x }
fn host_mut(x: HostMut<'_, General>) -> HostMut<'_, Special> { x }
fn host_mut_back(x: HostMut<'_, Special>) -> HostMut<'_, General> { x }
fn raw_address(x: RawPointer<General>) -> RawPointer<Special> { x }
fn raw_address_back(x: RawPointer<Special>) -> RawPointer<General> { x }

fn main() {}
