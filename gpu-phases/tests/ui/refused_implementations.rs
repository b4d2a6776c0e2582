#![forbid(unsafe_code)]
use gpu_phases::Device;

struct Foreign;

// What it writes would be trusted.
impl gpu_phases::__private::Named for Foreign {}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Dereferenced {
    x: f32,
}

impl std::ops::Deref for Dereferenced {
    type Target = f32;

    fn deref(&self) -> &f32 {
        &self.x
    }
}

fn main() {}
