//! Views of a mesh, as kernel arguments.

use cuda_safe::{
    KernelArg, Result,
    arg::{ArgType, UseVisitor},
};

use super::Mesh;
use super::layout::{RawMesh, RawTopology};
use crate::part::read;

/// A mesh as an argument of a kernel, whose parameter is a `geom::Mesh` by value.
///
/// It borrows the mesh, which therefore can't be rebuilt before the launch is enqueued.
#[derive(Debug, Clone, Copy)]
pub struct MeshView<'a> {
    mesh: &'a Mesh<'a>,
}

impl Mesh<'_> {
    /// Returns the mesh as an argument of your kernel.
    #[must_use]
    pub fn view(&self) -> MeshView<'_> {
        MeshView { mesh: self }
    }
}

// SAFETY: the pointers lead into the mesh's memory, its points and its faces, all of which are reported;
// what builds have written there keeps queries inside, and indices of faces are compared with the numbers of
// points that are passed before they are used.
unsafe impl KernelArg for MeshView<'_> {
    type Abi = RawMesh;
    const TYPE: ArgType = ArgType::value::<RawMesh>();

    fn abi(&self) -> RawMesh {
        let mesh = self.mesh;
        let topology = mesh.topology.as_ref();
        RawMesh {
            bvh: mesh.tree.tree().raw(),
            triangles: mesh.tree.triangles().address(),
            points: mesh.points().device_ptr(),
            faces: mesh.faces().device_ptr(),
            topology: topology.map_or_else(RawTopology::default, |topology| RawTopology {
                neighbors: topology.neighbors.device_ptr(),
                vertex_normals: topology.vertex_normals.device_ptr(),
                closed: topology.closed.device_ptr(),
            }),
            moments: mesh.winding.as_ref().map_or(0, |moments| moments.nodes().device_ptr()),
            // `Surface::new` has checked that both are below 2^31.
            point_count: mesh.points().len() as u32,
            face_count: mesh.faces().len() as u32,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let mesh = self.mesh;
        mesh.tree.tree().usable()?;
        read(visitor, &mesh.tree.tree().memory.buffer().as_slice())?;
        read(visitor, &mesh.points())?;
        read(visitor, &mesh.faces())?;
        if let Some(moments) = &mesh.winding {
            read(visitor, &moments.nodes().as_slice())?;
        }
        let Some(topology) = &mesh.topology else {
            return Ok(());
        };
        read(visitor, &topology.neighbors.as_slice())?;
        read(visitor, &topology.vertex_normals.as_slice())?;
        read(visitor, &topology.closed.as_slice())
    }
}
