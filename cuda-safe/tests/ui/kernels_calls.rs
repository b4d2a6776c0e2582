//! What the generated methods do not take: shared memory twice, other elements, no `unsafe`.

use cuda_safe::{DeviceBuffer, LaunchConfig, Module, Stream, kernels};

const SOURCE: &str = "";

kernels! {
    unsafe in SOURCE {
        safe fn copy(x: &[f32], out: &mut [f32], n: u64) where n <= x.len(), n <= out.len();
        unsafe fn scatter(out: &mut [f32]);
        unsafe fn nullable(x: Option<&[f32]>, y: *const f32);
    }
}

fn one_buffer_read_and_written(k: &Kernels, s: &Stream, l: LaunchConfig, x: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, l, &*x, &mut *x, 1);
}

fn shared_where_exclusive_is_asked(k: &Kernels, s: &Stream, l: LaunchConfig, x: &DeviceBuffer<f32>) {
    let _ = k.copy(s, l, x, x, 1);
}

fn other_elements(k: &Kernels, s: &Stream, l: LaunchConfig, x: &DeviceBuffer<f64>, y: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, l, x, y, 1);
}

fn host_memory(k: &Kernels, s: &Stream, l: LaunchConfig, x: &[f32], y: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, l, x, y, 1);
}

fn owned(k: &Kernels, s: &Stream, l: LaunchConfig, x: DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, l, x, y, 1);
}

fn exclusive_where_shared_is_enough(k: &Kernels, s: &Stream, l: LaunchConfig, x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, l, x, y, 1);
}

fn moved(k: &Kernels, s: &Stream, l: LaunchConfig, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, l, x, y, 1);
    let _ = k.copy(s, l, x, y, 1);
}

fn blocks_alone(k: &Kernels, s: &Stream, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, 256, x, y, 1);
}

fn extents_of_floats(k: &Kernels, s: &Stream, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, (1.5, 256), x, y, 1);
}

fn a_count_of_floats(k: &Kernels, s: &Stream, l: LaunchConfig, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, l, x, y, 1.5);
}

fn a_count_without_a_type(k: &Kernels, s: &Stream, l: LaunchConfig, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
    let _ = k.copy(s, l, x, y, true.into());
}

unsafe fn what_is_no_pointer(k: &Kernels, s: &Stream, l: LaunchConfig, x: &DeviceBuffer<f32>, y: &DeviceBuffer<f64>) {
    let _ = unsafe { k.nullable(s, l, y, std::ptr::null()) };
    let _ = unsafe { k.nullable(s, l, Some(x), std::ptr::null()) };
    let _ = unsafe { k.nullable(s, l, None, x) };
}

fn unsafe_method(k: &Kernels, s: &Stream, l: LaunchConfig, x: &mut DeviceBuffer<f32>) {
    let _ = k.scatter(s, l, x);
}

fn module_from_elsewhere(module: &Module) {
    let _ = Kernels::from_module(module);
}

fn main() {}
