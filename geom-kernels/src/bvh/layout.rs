//! Types in device memory and of kernel arguments, as `device/geom/bvh/` declares them.

use bytemuck::{Pod, Zeroable};

use crate::Aabb;
use crate::layout::device_repr;

/// The index of no node or item: `geom::no_index`.
pub(crate) const NO_INDEX: u32 = u32::MAX;

/// `geom::BvhNode`: a node with up to four children.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(128))]
pub struct BvhNode {
    pub lower: [[f32; 4]; 3],
    pub upper: [[f32; 4]; 3],
    pub child: [u32; 4],
    pub parent: u32,
    pub inner: u32,
    pub first: u32,
    pub count: u32,
}

impl BvhNode {
    /// The root of a hierarchy without items.
    pub(crate) const EMPTY: Self = Self {
        lower: [[f32::INFINITY; 4]; 3],
        upper: [[f32::NEG_INFINITY; 4]; 3],
        child: [NO_INDEX; 4],
        parent: NO_INDEX,
        inner: 0,
        first: 0,
        count: 0,
    };
}

/// `geom::BvhHeader`: written by the build, read by every query.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) bounds: Aabb<f32>,
    pub(crate) nodes: u32,
    pub(crate) items: u32,
    pub(crate) skipped: u32,
    pub(crate) depth: u32,
}

impl Header {
    /// The header of a hierarchy without items.
    pub(crate) const EMPTY: Self =
        Self { bounds: Aabb::<f32>::EMPTY, nodes: 1, items: 0, skipped: 0, depth: 1 };
}

/// `geom::Bvh`: the kernel argument for a hierarchy.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct RawBvh {
    pub(crate) header: u64,
    pub(crate) nodes: u64,
    pub(crate) items: u64,
    pub(crate) boxes: u64,
    pub(crate) length: u32,
    pub(crate) unused: u32,
}

/// `geom::bvh::Queries`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawQueries {
    pub(crate) data: u64,
    pub(crate) stride: u64,
    pub(crate) component: u64,
    pub(crate) radii: u64,
    pub(crate) radius: f32,
    pub(crate) length: u32,
    pub(crate) order: u64,
}

/// `geom::bvh::Cluster`.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Cluster {
    pub(crate) lower: [f32; 3],
    pub(crate) id: u32,
    pub(crate) upper: [f32; 3],
    pub(crate) count: u32,
}

/// `geom::bvh::BinaryNode`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct BinaryNode {
    pub(crate) child: [Cluster; 2],
}

/// `geom::bvh::BuildState`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct BuildState {
    pub(crate) progress: u64,
    pub(crate) ticket: u32,
    pub(crate) skipped: u32,
    pub(crate) bounds: [u32; 6],
    pub(crate) centers: [u32; 6],
    pub(crate) root: Cluster,
    pub(crate) unused: [u32; 8],
    pub(crate) done: u32,
    pub(crate) more_unused: [u32; 3],
}

/// `geom::bvh::Task`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Task {
    pub(crate) node_first: u64,
    pub(crate) parent_level: u64,
}

/// `geom::bvh::Refitted`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Refitted {
    pub(crate) header: u64,
    pub(crate) nodes: u64,
    pub(crate) items: u64,
    pub(crate) arrivals: u64,
    pub(crate) nodes_capacity: u32,
    pub(crate) items_capacity: u32,
}

device_repr!(RawBvh, RawQueries, Refitted);
