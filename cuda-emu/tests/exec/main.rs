//! The executor by itself: kernels in PTX, without the driver around it.

mod control;
mod data;
mod device;
mod faults;
mod progress;
mod tensor;
