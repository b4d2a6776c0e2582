//! Closest points and distances of a mesh, with gradients.

use std::sync::Arc;

use cuda_safe::{
    DeviceBuffer, DeviceSliceMut, KernelArg, LaunchConfig, Result, Stream, WriteView, kernels,
};
use tape::{
    CustomBuilder, Differentiable, Element, FloatType, Frame, Gradient, Handle, Primal, Recorder,
    Saved,
};

use super::{Corners, Recorded, share_memory};
use crate::geometry::{Source, of_source};
use crate::lengths::{cover, same_length};
use crate::mesh::{ClosestPoint, Mesh, PointQueries, Sign, Surface};
use crate::part::{Maybe, kept_scratch, scratch};

/// The most additions of the adjoint to vertices, and to a point if it shares memory with others.
const ADDS_TO_VERTICES: usize = 9;
const ADDS_TO_POINT: usize = 3;

// SAFETY: f32 but for the indices of face and feature, whose places stay zero in a gradient.
unsafe impl Differentiable for ClosestPoint {
    type Gradient = Self;
    const ELEMENT: Element = Element::structure(size_of::<Self>(), FloatType::F32);
}

kernels! {
    #[name = "tape_{}"]
    struct PointAdjoints;
    // SAFETY: thread i of `keep_answers` reads result i and writes what is kept of it, and its distance. Thread i
    // of the others reads query, result, distance and gradient i, and adds to the gradients of that query and of
    // the vertices of a face that there is. All of this if i < n.
    unsafe in Source::TAPE_MESH_POINTS {
        /// # Safety
        /// There are `n` distances to be written, or they are a null pointer.
        unsafe fn keep_answers(
            closest: &[ClosestPoint],
            n: u64,
            answers: &mut [u32],
            distances: impl KernelArg<Abi = u64>,
        ) where n <= closest.len(), n <= answers.len();
        /// # Safety
        /// There are `n` queries, and gradients of each; and gradients of all points of the surface.
        unsafe fn closest_points_adjoint(
            surface: Surface<'_>,
            points: Saved<'_, [f32; 3]>,
            answers: &[u32],
            n: u64,
            g: Gradient<'_, ClosestPoint>,
            of_queries: Gradient<'_, [f32; 3]>,
            of_vertices: Gradient<'_, [f32; 3]>,
            shared: u32,
            frame: impl KernelArg<Abi = Frame>,
        ) where n <= answers.len();
        /// # Safety
        /// There are `n` queries and distances, and gradients of each; and gradients of all points of the surface.
        #[name = "tape_{Of}_adjoint"]
        unsafe fn distances_adjoint<Of: Distance in [Unsigned = "distances", Signed = "signed_distances"]>(
            surface: Surface<'_>,
            points: Saved<'_, [f32; 3]>,
            answers: &[u32],
            n: u64,
            distances: Saved<'_, f32>,
            g: Gradient<'_, f32>,
            of_queries: Gradient<'_, [f32; 3]>,
            of_vertices: Gradient<'_, [f32; 3]>,
            shared: u32,
            frame: impl KernelArg<Abi = Frame>,
        ) where n <= answers.len();
    }
}
of_source!(PointAdjoints, Source::TAPE_MESH_POINTS);

/// A distance that has a gradient.
trait Distance: 'static {
    const NAME: &'static str;
}

struct Unsigned;
struct Signed;

impl Distance for Unsigned {
    const NAME: &'static str = "mesh distances";
}

impl Distance for Signed {
    const NAME: &'static str = "mesh signed distances";
}

impl Mesh<'_> {
    /// Records [`closest_points`](Self::closest_points), with gradients of positions, squared distances, u and v
    /// with respect to the points and the mesh's vertices.
    ///
    /// For a point that finds nothing the gradient is 0.
    ///
    /// # Errors
    /// As [`closest_points`](Self::closest_points); points that are not packed; the mesh's points were changed
    /// since its hierarchy was made; limits of distances that depend on something watched, which have no gradient.
    pub fn record_closest_points<'b>(
        &self,
        t: &mut Recorder<'_>,
        queries: &PointQueries<'_>,
        closest: impl WriteView<'b, ClosestPoint>,
    ) -> Result<()> {
        let mut closest = closest.write_view();
        same_length("closest points", closest.len(), queries.len())?;
        let mut custom = t.custom();
        let asked = Asked::declare(self, queries, &mut custom)?;
        let out = custom.overwrites(&closest, Primal::None)?;
        custom.run_with(|stream, through| {
            self.closest_points(stream, queries, closest.reborrow())?;
            let answers = asked.keep(stream, queries, through.then_some(closest), None)?;
            let Asked { count, shared, .. } = asked;
            let op = Recorded { name: "mesh closest points", out, count, adds: asked.adds() };
            Ok(op.adjoint(move |pass, g| {
                let (launch, surface) = (asked.launch(), asked.mesh.surface(pass)?);
                let (queries, n) = (pass.value(asked.queries)?, count as u64);
                let of = (pass.gradient(asked.queries)?, pass.gradient(asked.mesh.points)?);
                let (stream, shared, frame) = (pass.stream(), u32::from(shared), pass.frame());
                // SAFETY: `count` queries, results and gradients; the others are of all vertices.
                unsafe {
                    asked.kernels.closest_points_adjoint(
                        stream, launch, surface, queries, &answers, n, g, of.0, of.1, shared, frame,
                    )
                }
            }))
        })
    }

    /// Records the distance of each point from the mesh: infinite where nothing is found. Gradients are with respect
    /// to the points and the mesh's vertices, and 0 for a distance of 0.
    ///
    /// # Errors
    /// As [`record_closest_points`](Self::record_closest_points).
    pub fn record_distances<'b>(
        &self,
        t: &mut Recorder<'_>,
        queries: &PointQueries<'_>,
        distances: impl WriteView<'b, f32>,
    ) -> Result<()> {
        let distances = distances.write_view();
        self.record_each_distance::<Unsigned>(
            t,
            queries,
            distances,
            |stream, asked, distances, _| {
                // SAFETY: the query writes all of them.
                let mut closest = unsafe { scratch::<ClosestPoint>(stream, queries.len())? };
                self.closest_points(stream, queries, &mut closest)?;
                asked.keep(stream, queries, Some(closest.as_slice_mut()), Some(distances))
            },
        )
    }

    /// Records [`signed_distances`](Self::signed_distances), with gradients with respect to the points and the
    /// mesh's vertices. A distance of 0 has the gradient of the distance to the face's plane.
    ///
    /// # Errors
    /// As [`signed_distances`](Self::signed_distances) and
    /// [`record_closest_points`](Self::record_closest_points).
    pub fn record_signed_distances<'b>(
        &self,
        t: &mut Recorder<'_>,
        queries: &PointQueries<'_>,
        sign: Sign,
        distances: impl WriteView<'b, f32>,
    ) -> Result<()> {
        let distances = distances.write_view();
        self.record_each_distance::<Signed>(
            t,
            queries,
            distances,
            |stream, asked, distances, through| {
                if !through {
                    self.signed_distances(stream, queries, sign, distances)?;
                    return asked.keep(stream, queries, None, None);
                }
                // SAFETY: the query writes all of them.
                let mut closest = unsafe { scratch::<ClosestPoint>(stream, queries.len())? };
                self.signed_closest_points(stream, queries, sign, distances, &mut closest)?;
                asked.keep(stream, queries, Some(closest.as_slice_mut()), None)
            },
        )
    }

    fn record_each_distance<Of: Distance>(
        &self,
        t: &mut Recorder<'_>,
        queries: &PointQueries<'_>,
        distances: DeviceSliceMut<'_, f32>,
        forward: impl FnOnce(
            &Stream,
            &Asked,
            DeviceSliceMut<'_, f32>,
            bool,
        ) -> Result<DeviceBuffer<u32>>,
    ) -> Result<()> {
        same_length("distances", distances.len(), queries.len())?;
        let mut custom = t.custom();
        let asked = Asked::declare(self, queries, &mut custom)?;
        let out = custom.overwrites(&distances, Primal::Exit)?;
        custom.run_with(|stream, through| {
            let answers = forward(stream, &asked, distances, through)?;
            let Asked { count, shared, .. } = asked;
            let op = Recorded { name: Of::NAME, out, count, adds: asked.adds() };
            Ok(op.adjoint(move |pass, g| {
                let (launch, surface) = (asked.launch(), asked.mesh.surface(pass)?);
                let (queries, n) = (pass.value(asked.queries)?, count as u64);
                let of = (pass.gradient(asked.queries)?, pass.gradient(asked.mesh.points)?);
                let (stream, distances) = (pass.stream(), pass.value(out)?);
                let (shared, frame) = (u32::from(shared), pass.frame());
                // SAFETY: `count` queries, results, distances and gradients; the others are of all vertices.
                unsafe {
                    asked.kernels.distances_adjoint::<Of>(
                        stream, launch, surface, queries, &answers, n, distances, g, of.0, of.1,
                        shared, frame,
                    )
                }
            }))
        })
    }
}

/// The points of queries, and the mesh at that time.
struct Asked {
    kernels: Arc<PointAdjoints>,
    queries: Handle<[f32; 3]>,
    mesh: Corners,
    count: usize,
    /// Whether the queries lie in the memory of the mesh's points.
    shared: bool,
}

impl Asked {
    fn declare(
        mesh: &Mesh<'_>,
        queries: &PointQueries<'_>,
        custom: &mut CustomBuilder<'_>,
    ) -> Result<Self> {
        mesh.check_current(custom.stream())?;
        let points = queries.points()?;
        if let Some(distances) = queries.distances() {
            custom.reads_inactive(distances, Primal::None)?;
        }
        Ok(Self {
            kernels: mesh.geometry().kernels()?,
            queries: custom.reads(points, Primal::Entry)?,
            mesh: Corners::read(custom, Surface::new(mesh.points(), mesh.faces())?)?,
            count: queries.len(),
            shared: share_memory(&points, &mesh.points()),
        })
    }

    /// Saves what the adjoint needs of the closest points, and writes their distances if `distances` is given.
    /// Without closest points there is nothing to save.
    fn keep(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        closest: Option<DeviceSliceMut<'_, ClosestPoint>>,
        distances: Option<DeviceSliceMut<'_, f32>>,
    ) -> Result<DeviceBuffer<u32>> {
        // The memory outlives a graph that is captured: the pass may be in another one.
        let home = queries.points()?.allocation().home_stream().clone();
        let n = closest.as_ref().map_or(0, DeviceSliceMut::len);
        // SAFETY: the kernel writes all of them.
        let mut answers = unsafe { kept_scratch::<u32>(stream, &home, n)? };
        let Some(closest) = closest.filter(|closest| !closest.is_empty()) else {
            return Ok(answers);
        };
        let (kernels, launch, n) = (&self.kernels, cover(n), n as u64);
        let (closest, none) = (closest.as_slice(), Maybe::<f32>(None));
        // SAFETY: as many distances as results, or a null pointer.
        unsafe {
            match distances {
                Some(distances) => {
                    kernels.keep_answers(stream, launch, closest, n, &mut answers, distances)
                }
                None => kernels.keep_answers(stream, launch, closest, n, &mut answers, none),
            }
        }?;
        Ok(answers)
    }

    fn adds(&self) -> usize {
        let adds = ADDS_TO_VERTICES + if self.shared { ADDS_TO_POINT } else { 0 };
        self.count.saturating_mul(adds)
    }

    fn launch(&self) -> LaunchConfig {
        LaunchConfig::cover(self.count, 128)
    }
}
