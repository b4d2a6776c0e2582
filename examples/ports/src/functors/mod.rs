//! A kernel that takes what it does to each element as an argument.

use cuda_safe::{Context, DeviceBuffer, DeviceRepr, include_cuda, kernels};

use crate::Output;

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Scale {
    pub(super) factor: f32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Clamp {
    pub(super) low: f32,
    pub(super) high: f32,
}

// SAFETY: the structures of functors.cu have the same members in the same order.
unsafe impl DeviceRepr for Scale {}
// SAFETY: as above.
unsafe impl DeviceRepr for Clamp {}

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: thread i touches element i alone, and only if i < n; i is an int.
    unsafe in include_cuda!("functors.cu") {
        safe fn apply<F in [Scale = "Scale", Clamp = "Clamp"]>(f: F, data: &mut [f32], n: i32 = data.len()) over n
            where n < 2_000_000_000;
    }
}

/// Halves a thousand numbers and then keeps them between 10 and 400.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let x: Vec<f32> = (0..1000_u16).map(f32::from).collect();

    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;
    let mut data = DeviceBuffer::from_slice(&stream, &x)?;
    kernels.apply(&stream, Scale { factor: 0.5 }, &mut data)?;
    kernels.apply(&stream, Clamp { low: 10.0, high: 400.0 }, &mut data)?;
    Ok(data.to_vec(&stream)?)
}
