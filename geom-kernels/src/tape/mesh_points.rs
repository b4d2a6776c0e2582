//! Closest points and distances of a mesh, with gradients.

use cuda_safe::{DeviceBuffer, DeviceSliceMut, Kernel, LaunchConfig, Result, Stream, WriteView};
use tape::{
    Adjoint, CustomBuilder, CustomOp, Differentiable, Element, FloatType, Handle, Primal, Recorder,
};

use super::{share_memory, value};
use crate::lengths::same_length;
use crate::mesh::{ClosestPoint, Mesh, PointQueries, Sign, Surface};
use crate::part::{kept_scratch, read_part, scratch};

/// Threads in a block of adjoints.
const BLOCK: u32 = 128;

/// How often the adjoint adds to vertices, and to a point where others add to it, too.
const ADDS_TO_VERTICES: usize = 9;
const ADDS_TO_POINT: usize = 3;

// SAFETY: f32 but for the indices of face and feature, whose places stay zero in a gradient.
unsafe impl Differentiable for ClosestPoint {
    type Gradient = Self;
    const ELEMENT: Element = Element::structure(size_of::<Self>(), FloatType::F32);
}

impl Mesh<'_> {
    /// [`closest_points`](Self::closest_points), recorded: gradients of positions, squared distances, u and v
    /// with respect to the points and the mesh's vertices.
    ///
    /// Of a point that finds nothing the gradient is 0.
    ///
    /// # Errors
    /// As [`closest_points`](Self::closest_points); the mesh's points were changed since its hierarchy was
    /// made; limits of distances that depend on something watched, which have no gradient.
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
        let out = custom.overwrites(&closest)?;
        let kernel = self.tape_kernels()?.closest_points.clone();
        custom.run_with(|stream, through| {
            self.closest_points(stream, queries, closest.reborrow())?;
            let found = through.then_some(closest);
            let answers = self.keep_answers(stream, queries, found, None)?;
            Ok(ClosestOp { kernel, asked, answers, out })
        })
    }

    /// The distance of each point from the mesh, recorded: infinite where nothing is found. Gradients with
    /// respect to the points and the mesh's vertices; 0 of a distance of 0.
    ///
    /// # Errors
    /// As [`record_closest_points`](Self::record_closest_points).
    pub fn record_distances<'b>(
        &self,
        t: &mut Recorder<'_>,
        queries: &PointQueries<'_>,
        distances: impl WriteView<'b, f32>,
    ) -> Result<()> {
        let kernel = self.tape_kernels()?.distances.clone();
        let op = Distances { name: "mesh distances", kernel };
        self.record_each_distance(t, queries, distances.write_view(), op, |stream, distances, _| {
            // SAFETY: the query writes all of them.
            let mut closest = unsafe { scratch::<ClosestPoint>(stream, queries.len())? };
            self.closest_points(stream, queries, &mut closest)?;
            self.keep_answers(stream, queries, Some(closest.as_slice_mut()), Some(distances))
        })
    }

    /// [`signed_distances`](Self::signed_distances), recorded: gradients with respect to the points and the
    /// mesh's vertices. That of a distance of 0 is the one of the face's plane.
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
        let kernel = self.tape_kernels()?.signed_distances.clone();
        let op = Distances { name: "mesh signed distances", kernel };
        let distances = distances.write_view();
        self.record_each_distance(t, queries, distances, op, |stream, distances, through| {
            if !through {
                self.signed_distances(stream, queries, sign, distances)?;
                return self.keep_answers(stream, queries, None, None);
            }
            // SAFETY: the query writes all of them.
            let mut closest = unsafe { scratch::<ClosestPoint>(stream, queries.len())? };
            self.signed_closest_points(stream, queries, sign, distances, &mut closest)?;
            self.keep_answers(stream, queries, Some(closest.as_slice_mut()), None)
        })
    }

    fn record_each_distance(
        &self,
        t: &mut Recorder<'_>,
        queries: &PointQueries<'_>,
        distances: DeviceSliceMut<'_, f32>,
        op: Distances,
        forward: impl FnOnce(&Stream, DeviceSliceMut<'_, f32>, bool) -> Result<DeviceBuffer<u32>>,
    ) -> Result<()> {
        same_length("distances", distances.len(), queries.len())?;
        let mut custom = t.custom();
        let asked = Asked::declare(self, queries, &mut custom)?;
        let out = custom.overwrites_and_keeps(&distances)?;
        custom.run_with(|stream, through| {
            let answers = forward(stream, distances, through)?;
            Ok(DistanceOp { name: op.name, kernel: op.kernel, asked, answers, out })
        })
    }

    fn tape_kernels(&self) -> Result<super::kernels::MeshPoints<'_>> {
        self.geometry().tape_kernels().mesh_points(self.geometry())
    }

    /// What the adjoint is to find of the answers; and their distances, if asked for. Without answers there is
    /// nothing to keep.
    fn keep_answers(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        closest: Option<DeviceSliceMut<'_, ClosestPoint>>,
        distances: Option<DeviceSliceMut<'_, f32>>,
    ) -> Result<DeviceBuffer<u32>> {
        // Where it outlives the graph, if one is captured: passes back may be another one.
        let home = queries.points().allocation().home_stream().clone();
        let n = closest.as_ref().map_or(0, DeviceSliceMut::len);
        // SAFETY: the kernel writes all of them.
        let mut answers = unsafe { kept_scratch::<u32>(stream, &home, n)? };
        let Some(closest) = closest.filter(|closest| !closest.is_empty()) else {
            return Ok(answers);
        };
        let (kernel, launch) = (self.tape_kernels()?.keep_answers, LaunchConfig::cover(n, 256));
        let n = n as u64;
        match distances {
            Some(distances) => {
                let args = (closest.as_slice(), n, &mut answers, distances);
                // SAFETY: thread i reads answer i and writes what is kept of it, and its distance.
                unsafe { kernel.launch(stream, launch, args) }?;
            }
            None => {
                let args = (closest.as_slice(), n, &mut answers, read_part::<f32>(None));
                // SAFETY: as above, and nothing through the null pointer.
                unsafe { kernel.launch(stream, launch, args) }?;
            }
        }
        Ok(answers)
    }
}

/// Points that a mesh was asked about, and what it was then.
struct Asked {
    queries: Handle<[f32; 3]>,
    points: Handle<[f32; 3]>,
    faces: Handle<[u32; 3]>,
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
        if let Some(distances) = queries.distances() {
            custom.reads_constant(distances)?;
        }
        Ok(Self {
            queries: custom.reads(queries.points(), Primal::Entry)?,
            points: custom.reads(mesh.points(), Primal::Entry)?,
            faces: custom.keeps(mesh.faces())?,
            count: queries.len(),
            shared: share_memory(&queries.points(), &mesh.points()),
        })
    }

    fn adds(&self) -> usize {
        let adds = ADDS_TO_VERTICES + if self.shared { ADDS_TO_POINT } else { 0 };
        self.count.saturating_mul(adds)
    }

    fn launch(&self) -> LaunchConfig {
        LaunchConfig::cover(self.count, BLOCK)
    }
}

/// What is recorded of distances.
struct Distances {
    name: &'static str,
    kernel: Kernel,
}

struct ClosestOp {
    kernel: Kernel,
    asked: Asked,
    answers: DeviceBuffer<u32>,
    out: Handle<ClosestPoint>,
}

impl CustomOp for ClosestOp {
    fn name(&self) -> &str {
        "mesh closest points"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let asked = &self.asked;
        let surface = Surface::new(value(pass, asked.points)?, value(pass, asked.faces)?)?;
        let (queries, g) = (pass.value(asked.queries)?, pass.gradient(self.out)?);
        if asked.count == 0 || g.is_null() {
            return Ok(());
        }
        let of = (pass.gradient(asked.queries)?, pass.gradient(asked.points)?);
        let n = asked.count as u64;
        let shared = u32::from(asked.shared);
        let args = (surface, queries, &self.answers, n, g, of.0, of.1, shared, pass.frame());
        // SAFETY: thread i reads query, answer and gradient i, of which there are n, and adds to the gradients
        // of that query and of the vertices of a face that there is.
        unsafe { self.kernel.launch(pass.stream(), asked.launch(), args) }
    }

    fn log(&self) -> Option<usize> {
        Some(self.asked.adds())
    }
}

struct DistanceOp {
    name: &'static str,
    kernel: Kernel,
    asked: Asked,
    answers: DeviceBuffer<u32>,
    out: Handle<f32>,
}

impl CustomOp for DistanceOp {
    fn name(&self) -> &str {
        self.name
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let asked = &self.asked;
        let surface = Surface::new(value(pass, asked.points)?, value(pass, asked.faces)?)?;
        let (queries, distances) = (pass.value(asked.queries)?, pass.value(self.out)?);
        let g = pass.gradient(self.out)?;
        if asked.count == 0 || g.is_null() {
            return Ok(());
        }
        let of = (pass.gradient(asked.queries)?, pass.gradient(asked.points)?);
        let n = asked.count as u64;
        let shared = u32::from(asked.shared);
        let args =
            (surface, queries, &self.answers, n, distances, g, of.0, of.1, shared, pass.frame());
        // SAFETY: thread i reads query, answer, distance and gradient i, of which there are n, and adds to the
        // gradients of that query and of the vertices of a face that there is.
        unsafe { self.kernel.launch(pass.stream(), asked.launch(), args) }
    }

    fn log(&self) -> Option<usize> {
        Some(self.asked.adds())
    }
}
