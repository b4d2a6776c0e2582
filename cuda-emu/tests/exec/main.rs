//! The executor by itself: kernels in PTX, without the driver around it.

mod approximate;
mod checks;
mod clusters;
mod clusters_checked;
mod control;
mod count;
mod data;
mod deterministic;
mod device;
mod faults;
mod grammar;
mod groups;
mod instructions;
mod isa;
mod limits;
mod linear;
mod passed;
mod progress;
mod ptxas;
mod strict;
mod taint;
mod tangents;
mod tensor;
mod untyped;
