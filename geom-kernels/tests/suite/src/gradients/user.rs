//! Operations of a user's own.

use cuda_safe::LaunchConfig;
use geom_kernels::mesh::{ClosestPoint, FacePoint};
use tape::{Element, FloatType, Op, OpSpec, Param, Primal};

use crate::flags::module;
use test_harness::{Failure, TestDevice};

pub(super) struct User {
    /// `rows, q, out, n`: an affine map of points.
    pub(super) transform: Op,
    /// `x, loss, n`: adds the sum of squares to the loss.
    pub(super) add_squares: Op,
    /// `found, out, n`: the face, u and v of closest points.
    pub(super) face_points: Op,
    /// `x, n`: adds a tenth of the square of each coordinate, in place.
    pub(super) bend: Op,
}

pub(super) fn threads(n: usize) -> LaunchConfig {
    LaunchConfig::cover(n, 64)
}

impl User {
    pub(super) fn new(device: &TestDevice) -> Result<Self, Failure> {
        let source = include_str!("../../kernels/gradients.cu");
        let module = module(device, source, nvrtc::Options::new())?;
        let (one, three) = (Element::F32, Element::vector(FloatType::F32, 3));
        let transform = OpSpec::new("transform")
            .param(Param::buffer("rows", one).reads(Primal::Entry).len_fixed(12).active())
            .param(Param::buffer("q", three).reads(Primal::Entry).len("n").each_element().active())
            .param(Param::buffer("out", three).overwrites().len("n").each_element().active())
            .param(Param::value("n"))
            .summands(|launch| 12 * (launch.grid.count() * launch.block.count()) as usize);
        let add_squares = OpSpec::new("add_squares")
            .param(Param::buffer("x", one).reads(Primal::Entry).len("n").each_element().active())
            .param(Param::buffer("loss", one).accumulates().len_fixed(1).active())
            .param(Param::value("n"))
            .summands(|_| 0);
        // The adjoint adds to u and v alone, so it does not cover what it reads.
        let found = Element::structure(size_of::<ClosestPoint>(), FloatType::F32);
        let at = Element::structure(size_of::<FacePoint>(), FloatType::F32);
        let face_points = OpSpec::new("face_points")
            .param(Param::buffer("found", found).reads(Primal::None).len("n").active())
            .param(Param::buffer("out", at).overwrites().len("n").active())
            .param(Param::value("n"))
            .summands(|_| 0);
        let bend = OpSpec::new("bend")
            .param(
                Param::buffer("x", three).updates(Primal::Entry).len("n").each_element().active(),
            )
            .param(Param::value("n"))
            .summands(|_| 0);
        // SAFETY: thread i touches element i of each buffer, and only if i < n, but for the twelve rows and the
        // loss.
        unsafe {
            Ok(Self {
                transform: transform.register(&module)?,
                add_squares: add_squares.register(&module)?,
                face_points: face_points.register(&module)?,
                bend: bend.register(&module)?,
            })
        }
    }
}
