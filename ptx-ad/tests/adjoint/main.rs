//! Adjoints against the tangents of the software device, and what is refused.

mod accepted;
mod common;
mod half;
mod halves;
mod loops;
mod programs;
mod reasons;
mod robust;
mod scan;
mod smooth;
mod table;
