//! Particles in slabs on several devices, and mesh queries on all of them.
//!
//! The box is cut along x into a slab for each device. In a step each device, without the host, builds a
//! [hash grid](geom_kernels::hash_grid) of its own particles and of the halo, which is what lies within a radius of its
//! slab; sums over the neighbours of its own particles; moves them; and exchanges one message with each neighbour, which
//! holds the particles that leave and the halo of the next step. How many there are is only known on the devices: arrays
//! and messages have a fixed length, empty places have NaN as position, and the grid leaves these out. The largest numbers
//! are kept for the host to compare with the room now and then ([`Domains::check`]).
//!
//! Particles fly freely and bounce off the walls, so each one is at the same place on any number of devices, to the bit:
//! the numbers of neighbours are the same, and sums differ by the order of additions.

mod check;
mod domains;
mod mesh;
mod options;
mod ranks;
mod shares;
mod slab;

pub use check::{check, compare};
pub use domains::Domains;
pub use mesh::ShardedMesh;
pub use options::{Options, Particle, Room};
pub use ranks::share_id;
pub use slab::{Neighbors, Slab};
