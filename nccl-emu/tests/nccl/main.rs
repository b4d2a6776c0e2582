//! The C functions, called as a program calls them, on the software device with four devices.
//!
//! `NCCL_EMU_DRIVER=system` takes the system's driver instead. The tests then use as many devices as it has, at most four.

mod abort;
mod collectives;
mod create;
mod elements;
mod faults;
mod graphs;
mod groups;
mod lab;
mod messages;
mod order;
mod refused;
mod schedules;
