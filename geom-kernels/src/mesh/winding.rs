//! Fast winding numbers, and the moments that they need: device/geom/mesh/{moments,winding}.cuh.

use bytemuck::{Pod, Zeroable};
use cuda_safe::{
    Access, DeviceBuffer, DeviceRepr, Error, KernelArg, LaunchConfig, Result, Stream, WriteView,
    arg::{ArgType, UseVisitor},
    kernels,
};

use super::face_tree::FaceTree;
use super::layout::ClosestPoint;
use super::points::{PointQueries, Prepared};
use super::{Mesh, MeshView};
use crate::bvh::Tree;
use crate::bvh::layout::{BvhNode, NO_INDEX};
use crate::geometry::{GeometryKernels, Source, of_source};
use crate::part::{MaybeMut, scratch};

/// The block size, with four threads for each node.
const BLOCK: u32 = 128;

kernels! {
    #[name = "mesh_{}"]
    pub(super) struct Winding;
    // SAFETY: every kernel is an `unsafe fn`: the launch keeps what its `# Safety` asks.
    unsafe in Source::MESH_WINDING {
        /// Reads the hierarchy's header and nodes, and of the triangles those in leaves, all below the
        /// capacities; writes moments and arrivals of as many nodes at most.
        ///
        /// # Safety
        /// There are four threads for each node that the hierarchy has room for, and so many moments and arrivals.
        unsafe fn moments(build: UpdateArg<'_>);
        /// # Safety
        /// There is a number for each query: each thread writes only the number of its index.
        unsafe fn winding_numbers(
            mesh: MeshView<'_>,
            queries: &Prepared<'_>,
            beta: f32,
            numbers: &mut [f32],
        );
        /// # Safety
        /// There is a distance for each query and, if there are any, a closest point: each thread writes only those of
        /// its index, and nothing through a null pointer.
        unsafe fn signed_by_winding(
            mesh: MeshView<'_>,
            queries: &Prepared<'_>,
            distances: &mut [f32],
            closest: MaybeMut<'_, ClosestPoint>,
        );
    }
}
of_source!(Winding, Source::MESH_WINDING);

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
    /// The moments of a hierarchy without items.
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
pub(crate) struct Moments {
    geometry: GeometryKernels,
    /// The [`NodeMoments`] of each node that there is room for.
    nodes: DeviceBuffer<u8>,
    arrivals: DeviceBuffer<u32>,
}

impl Moments {
    /// Creates the moments of a hierarchy without items, with as much room as `tree`. Loads the kernels of updates,
    /// which may be recorded.
    pub(crate) fn new(
        stream: &Stream,
        geometry: &GeometryKernels,
        tree: &FaceTree,
    ) -> Result<Self> {
        let count = room(tree.tree());
        // SAFETY: the root is written below; queries reach other nodes only from nodes that an update has written,
        // which has written the others, too.
        let mut nodes = unsafe { scratch::<u8>(stream, count * size_of::<NodeMoments>())? };
        let root = bytemuck::bytes_of(&NodeMoments::EMPTY);
        nodes.slice_mut(0..root.len())?.upload(stream, root)?;
        let arrivals = DeviceBuffer::zeroed(stream, count)?;
        geometry.kernels::<Winding>()?;
        Ok(Self { geometry: geometry.clone(), nodes, arrivals })
    }

    /// Recomputes the moments for the current hierarchy: after every build and every refit. The call does not wait,
    /// and can be recorded.
    ///
    /// # Errors
    /// A hierarchy with room for more items than the hierarchy for which this was created; otherwise if the driver
    /// returns an error.
    pub(crate) fn update(&mut self, stream: &Stream, tree: &FaceTree) -> Result<()> {
        let nodes = room(tree.tree());
        if nodes > self.arrivals.len() {
            return Err(Error::invalid("moments of a smaller hierarchy"));
        }
        // Only the device knows the number of nodes, so the launch covers the capacity.
        let launch = LaunchConfig::cover(4 * nodes, BLOCK);
        let kernels = self.geometry.kernels::<Winding>()?;
        // SAFETY: there is room for as many nodes, as was just compared.
        unsafe { kernels.moments(stream, launch, UpdateArg { moments: self, tree }) }
    }

    /// Returns the part that queries read: `geom::Mesh::moments`.
    pub(crate) fn nodes(&self) -> &DeviceBuffer<u8> {
        &self.nodes
    }

    /// Returns the bytes of device memory that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.size_bytes() + self.arrivals.size_bytes()
    }
}

/// Returns the capacity of a hierarchy in nodes, at least one.
fn room(tree: &Tree) -> usize {
    tree.memory.nodes.len() / size_of::<BvhNode>()
}

/// `geom::mesh::MomentsBuild`.
#[derive(Debug)]
pub(super) struct UpdateArg<'a> {
    moments: &'a Moments,
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
            nodes: self.moments.nodes.device_ptr(),
            arrivals: self.moments.arrivals.device_ptr(),
            // Both are below 2^28.
            nodes_capacity: room(tree) as u32,
            triangles_capacity: memory.capacity as u32,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let Self { moments, tree } = self;
        let mut visit = |buffer: &DeviceBuffer<u8>, access| {
            visitor.visit(buffer.allocation(), buffer.byte_range(), access)
        };
        visit(tree.tree().memory.buffer(), Access::Read)?;
        visit(&moments.nodes, Access::Write)?;
        let arrivals = &moments.arrivals;
        visitor.visit(arrivals.allocation(), arrivals.byte_range(), Access::Write)
    }
}

impl Mesh<'_> {
    /// Computes how often the mesh winds around each point: 1 inside a closed mesh whose faces are oriented outwards,
    /// 0 outside. For an open mesh, or one with holes, overlaps or stray faces, it is between these values, and a
    /// point with more than 1/2 is more likely inside: Jacobson, Kavan, Sorkine-Hornung, Robust Inside-Outside
    /// Segmentation using Generalized Winding Numbers, 2013. The queries' limits are ignored; for a point that is not
    /// finite, or beyond 2^60, the number is 0.
    ///
    /// A part of the mesh that is farther away than `beta` times its radius is replaced by a series of second order:
    /// Barill, Dickson, Schmidt, Levin, Jacobson, Fast Winding Numbers for Soups and Clouds, 2018. With a `beta` of
    /// 2, which is a good choice, the error is below 1e-2, and below 1e-3 on average; the error falls with the third
    /// power of `beta`, and the time grows with its square. With `f32::INFINITY` all faces are summed. Unlike the
    /// results of other queries, the number depends on how the hierarchy was built, within its error; it is the same
    /// on every run and every device.
    ///
    /// # Errors
    /// The mesh was made without [`MeshOptions::winding`](super::MeshOptions::winding); `beta` is less than 1
    /// or not a number; `numbers` has another length than there are points; otherwise if the driver
    /// returns an error.
    pub fn winding_numbers<'a>(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        beta: f32,
        numbers: impl WriteView<'a, f32>,
    ) -> Result<()> {
        self.has_moments()?;
        if beta.is_nan() || beta < 1.0 {
            return Err(Error::invalid(format!("a beta of {beta}; it is at least 1")));
        }
        let kernels = self.geometry().kernels::<Winding>()?;
        self.for_points(stream, queries, "winding numbers", numbers, |launch, part, out| {
            // SAFETY: `out` has a number for each query.
            unsafe { kernels.winding_numbers(stream, launch, self.view(), part, beta, out) }
        })
    }

    pub(super) fn has_moments(&self) -> Result<()> {
        match self.winding {
            Some(_) => Ok(()),
            None => Err(Error::invalid("a mesh without winding numbers: MeshOptions::winding")),
        }
    }
}
