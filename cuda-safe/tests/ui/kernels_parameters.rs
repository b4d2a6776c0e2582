//! Parameters are slices or values, each with a name of its own.

use cuda_safe::kernels;

const SOURCE: &str = "";

kernels! {
    unsafe in SOURCE {
        safe fn twice(a: f32, a: f32);
        safe fn receiver(&self, a: f32);
        safe fn nameless(_: f32);
        safe fn reference(a: &f32);
        safe fn exclusive(a: &mut f32);
        safe fn array(a: &[f32; 3]);
        safe fn unsized_slice(a: [f32]);
        safe fn buffer(a: DeviceBuffer<f32>);
        safe fn buffer_reference(a: &mut DeviceBuffer<f32>);
        safe fn view(a: cuda_safe::DeviceSlice<'static, f32>);
        safe fn vector(a: Vec<f32>);
        safe fn pointer(a: *mut f32);
        safe fn lifetime(a: &'static [f32]);
        safe fn generic_value(a: impl Copy);
        safe fn attribute(#[inline] a: f32);
        safe fn read_value(#[only_read] a: u32);
        safe fn read_exclusive(#[only_read] a: &mut [f32]);
        safe fn any_float(#[any] a: f32);
        safe fn any_and_bounded(#[any] a: u32) where a > 0;
        unsafe fn any_unsafe(#[any] a: u32);
        safe fn nullable(a: Option<&[f32]>);
        safe fn twenty_five(
            a0: u8, a1: u8, a2: u8, a3: u8, a4: u8, a5: u8, a6: u8, a7: u8, a8: u8, a9: u8,
            b0: u8, b1: u8, b2: u8, b3: u8, b4: u8, b5: u8, b6: u8, b7: u8, b8: u8, b9: u8,
            c0: u8, c1: u8, c2: u8, c3: u8, c4: u8,
        );
    }
}

fn main() {}
