//! Loading a library runs its constructors: naming one by its path is unsafe, for the driver and for NVRTC.

use cuda_safe::Driver;
use cuda_safe::nvrtc::Nvrtc;

fn driver() {
    let _ = Driver::load_from("libasan.so.8");
}

fn compiler() {
    let _ = Nvrtc::at("libasan.so.8");
    let _ = Nvrtc::load_from("libasan.so.8");
}

fn main() {}
