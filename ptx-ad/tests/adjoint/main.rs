//! Adjoints against the tangents of the software device, and what is refused.

mod accepted;
mod args;
mod bytes;
mod chosen;
mod common;
mod frames;
mod half;
mod halves;
mod loops;
mod own;
mod pairs;
mod programs;
mod queries;
mod reasons;
mod replay;
mod robust;
mod rules;
mod scan;
mod shared;
mod smooth;
mod sums;
mod table;
mod twice;
