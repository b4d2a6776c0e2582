//! Adjoints against the tangents of the software device, and what is refused.

mod accepted;
mod args;
mod common;
mod loops;
mod programs;
mod queries;
mod reasons;
mod robust;
mod scan;
mod smooth;
mod sums;
mod table;
