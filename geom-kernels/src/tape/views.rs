//! Meshes as arguments of recorded kernels, with gradients of their vertices.

use std::borrow::Cow;
use std::mem::offset_of;

use cuda_safe::{
    KernelArg, Result, Stream,
    arg::{ArgType, UseVisitor},
};
use tape::{Element, FloatType, Param, Recorder};

use crate::mesh::layout::RawMesh;
use crate::mesh::{Mesh, MeshView};

/// A mesh as an argument of a recorded kernel, with gradients with respect to the mesh's points. The kernel's parameter
/// is a `geom::Mesh` by value.
///
/// [`param`](Self::param) describes the parameter to `OpSpec`, and [`Mesh::recorded_view`] returns the argument, or
/// [`Mesh::differentiable_view`] for a call without a tape. For a mesh whose points have no gradient, use
/// `Param::argument::<MeshView<'_>>` and [`Mesh::view`].
#[derive(Debug, Clone, Copy)]
pub struct RecordedMesh<'a> {
    view: MeshView<'a>,
}

impl RecordedMesh<'_> {
    /// Returns the description of a parameter that takes such a mesh. Its gradients are those of the memory of
    /// [`Mesh::points`].
    #[must_use]
    pub fn param(name: impl Into<Cow<'static, str>>) -> Param {
        let point = Element::vector(FloatType::F32, 3);
        Param::argument::<RecordedMesh<'_>>(name)
            .pointer(offset_of!(RawMesh, points), point)
            .active()
    }
}

impl Mesh<'_> {
    /// Returns the mesh as an argument of a kernel that `t` records.
    ///
    /// # Errors
    /// The mesh's points were changed after its hierarchy was built or refitted: the kernel's queries would use the
    /// old ones. Call [`refit`](Self::refit) first.
    pub fn recorded_view(&self, t: &Recorder<'_>) -> Result<RecordedMesh<'_>> {
        self.differentiable_view(t.stream())
    }

    /// Returns the mesh as an argument of `Op::vjp`, which runs an adjoint on `stream` without a tape.
    ///
    /// # Errors
    /// As [`recorded_view`](Self::recorded_view).
    pub fn differentiable_view(&self, stream: &Stream) -> Result<RecordedMesh<'_>> {
        self.check_current(stream)?;
        Ok(RecordedMesh { view: self.view() })
    }
}

// SAFETY: as `MeshView`.
unsafe impl KernelArg for RecordedMesh<'_> {
    type Abi = RawMesh;
    const TYPE: ArgType = ArgType::value::<RawMesh>();

    fn abi(&self) -> RawMesh {
        self.view.abi()
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.view.uses(visitor)
    }
}
