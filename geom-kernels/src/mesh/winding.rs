//! What fast winding numbers need of a mesh: device/geom/mesh/moments.cuh.

use bytemuck::{Pod, Zeroable};
use cuda_safe::{
    Access, DeviceBuffer, DeviceRepr, Error, Kernel, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgType, UseVisitor},
};

use super::face_tree::FaceTree;
use crate::bvh::Tree;
use crate::bvh::layout::{BvhNode, NO_INDEX};
use crate::geometry::{GeometryKernels, Group, Source};
use crate::part::scratch;

/// Threads in a block; four of them for each node.
const BLOCK: u32 = 128;

/// `geom::ChildMoments`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(16))]
pub(crate) struct ChildMoments {
    pub(crate) center: [f32; 3],
    pub(crate) radius: f32,
    pub(crate) dipole: [f32; 3],
    pub(crate) child: u32,
    pub(crate) quadrupole: [f32; 5],
    pub(crate) octupole: [f32; 7],
}

/// `geom::NodeMoments`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct NodeMoments {
    pub(crate) child: [ChildMoments; 4],
}

impl NodeMoments {
    /// The root of a hierarchy without items.
    const EMPTY: Self = Self {
        child: [ChildMoments {
            center: [0.0; 3],
            radius: 0.0,
            dipole: [0.0; 3],
            child: NO_INDEX,
            quadrupole: [0.0; 5],
            octupole: [0.0; 7],
        }; 4],
    };
}

/// `geom::mesh::MomentsBuild`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawMomentsBuild {
    pub(crate) header: u64,
    pub(crate) tree: u64,
    pub(crate) triangles: u64,
    pub(crate) nodes: u64,
    pub(crate) arrivals: u64,
    pub(crate) nodes_capacity: u32,
    pub(crate) triangles_capacity: u32,
}

// SAFETY: repr(C), and the fields of geom::mesh::MomentsBuild in the same order.
unsafe impl DeviceRepr for RawMomentsBuild {}

/// Moments of the nodes of a hierarchy over triangles, 108 bytes for each triangle that there is room for.
#[derive(Debug)]
pub(crate) struct Winding {
    geometry: GeometryKernels,
    kernels: Group<1>,
    /// [`NodeMoments`] of each node that there is room for.
    nodes: DeviceBuffer<u8>,
    arrivals: DeviceBuffer<u32>,
}

impl Winding {
    /// Those of a hierarchy without items; with room for what `tree` has room for. What updates need is
    /// loaded: they may be recorded.
    pub(crate) fn new(
        stream: &Stream,
        geometry: &GeometryKernels,
        tree: &FaceTree,
    ) -> Result<Self> {
        let count = room(tree.tree());
        // SAFETY: the root is written below; other nodes are reached by queries only from nodes that an
        // update has written, which has written them too.
        let mut nodes = unsafe { scratch::<u8>(stream, count * size_of::<NodeMoments>())? };
        let root = bytemuck::bytes_of(&NodeMoments::EMPTY);
        nodes.slice_mut(0..root.len())?.upload(stream, root)?;
        let arrivals = DeviceBuffer::zeroed(stream, count)?;
        let winding =
            Self { geometry: geometry.clone(), kernels: Group::default(), nodes, arrivals };
        winding.kernels()?;
        Ok(winding)
    }

    fn kernels(&self) -> Result<&[Kernel; 1]> {
        let names = || ["mesh_moments"].map(String::from);
        self.kernels.get(&self.geometry, Source::MeshWinding, names)
    }

    /// Makes them again for the hierarchy as it is now: after every build and every refit. Nothing is waited
    /// for, and it can be recorded.
    ///
    /// # Errors
    /// A hierarchy with room for more than the one that this was made for; otherwise what the driver answered.
    pub(crate) fn update(&mut self, stream: &Stream, tree: &FaceTree) -> Result<()> {
        let nodes = room(tree.tree());
        if nodes > self.arrivals.len() {
            return Err(Error::invalid("moments of a smaller hierarchy"));
        }
        // Only the device knows how many nodes there are.
        let launch = LaunchConfig::cover(4 * nodes, BLOCK);
        let [kernel] = self.kernels()?;
        // SAFETY: reads the hierarchy's header and nodes, and of the triangles those in leaves, all below the
        // capacities; writes moments and arrivals of as many nodes at most, for which there is room.
        unsafe { kernel.launch(stream, launch, (UpdateArg { winding: self, tree },)) }
    }

    /// What queries read: `geom::Mesh::moments`.
    pub(crate) fn moments(&self) -> &DeviceBuffer<u8> {
        &self.nodes
    }

    /// The bytes of device memory that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.size_bytes() + self.arrivals.size_bytes()
    }
}

/// How many nodes a hierarchy has room for: one at least.
fn room(tree: &Tree) -> usize {
    tree.memory.nodes.len() / size_of::<BvhNode>()
}

/// `geom::mesh::MomentsBuild`.
#[derive(Debug)]
struct UpdateArg<'a> {
    winding: &'a Winding,
    tree: &'a FaceTree,
}

// SAFETY: the pointers lead into the buffers that are reported, and as many elements as the capacities say lie
// behind each.
unsafe impl KernelArg for UpdateArg<'_> {
    type Abi = RawMomentsBuild;
    const TYPE: ArgType = ArgType::value::<RawMomentsBuild>();

    fn abi(&self) -> RawMomentsBuild {
        let tree = self.tree.tree();
        let memory = &tree.memory;
        let address = |part| memory.read(part).address();
        RawMomentsBuild {
            header: address(&memory.header),
            tree: address(&memory.nodes),
            triangles: self.tree.triangles().address(),
            nodes: self.winding.nodes.device_ptr(),
            arrivals: self.winding.arrivals.device_ptr(),
            // Both below 2^28.
            nodes_capacity: room(tree) as u32,
            triangles_capacity: memory.capacity as u32,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let Self { winding, tree } = self;
        let mut visit = |buffer: &DeviceBuffer<u8>, access| {
            visitor.visit(buffer.allocation(), buffer.byte_range(), access)
        };
        visit(tree.tree().memory.buffer(), Access::Read)?;
        visit(&winding.nodes, Access::Write)?;
        let arrivals = &winding.arrivals;
        visitor.visit(arrivals.allocation(), arrivals.byte_range(), Access::Write)
    }
}
