//! The mesh on the device: its loss with the gradient, and steps that make it smaller, each a graph.

use cuda_safe::kernel::attributes;
use cuda_safe::{Context, DeviceBuffer, Error, GraphExec, Result, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::TriangleMesh;
use geom_kernels::volume::{Interpolation, Samples, Volume};
use tape::Tape;

use crate::kernels;

/// Where distances change by one per length, no second derivative of the loss is greater than 6: 2 by what a
/// vertex is off itself, and 4 by the middles of the six faces around it, which it moves by a third of its way.
/// Smoothing makes no part of a gradient larger. So a step by this does not overshoot.
const RATE: f32 = 1.0 / 6.0;

/// How strongly gradients are smoothed: over the same length of the ball, whichever its number of points.
fn stiffness(points: usize) -> f32 {
    points as f32 / 256.0
}

/// As many as smoothing of this strength has a use for. After an odd number of them, a part of the gradient that
/// changes its sign from point to point might have the wrong one.
fn sweeps(stiffness: f32) -> usize {
    2 * (0.75 * stiffness).ceil() as usize
}

/// The data of both graphs.
struct State {
    points: DeviceBuffer<[f32; 3]>,
    faces: DeviceBuffer<[u32; 3]>,
    /// Where the volume is asked: at the points, and at the middles of faces.
    places: DeviceBuffer<[f32; 3]>,
    distances: DeviceBuffer<f32>,
    loss: DeviceBuffer<f32>,
    smooth: [DeviceBuffer<[f32; 3]>; 2],
    /// The neighbours of point i are those from first\[i] to first\[i + 1].
    first: DeviceBuffer<u32>,
    neighbours: DeviceBuffer<u32>,
    tape: Tape,
}

impl State {
    fn new(stream: &Stream, mesh: &TriangleMesh) -> Result<Self> {
        let (points, places) = (mesh.points.len(), mesh.points.len() + mesh.faces.len());
        let (first, neighbours) = neighbours(mesh)?;
        let zeros = || DeviceBuffer::zeroed(stream, points);
        Ok(Self {
            points: DeviceBuffer::from_slice(stream, &mesh.points)?,
            faces: DeviceBuffer::from_slice(stream, &mesh.faces)?,
            places: DeviceBuffer::zeroed(stream, places)?,
            distances: DeviceBuffer::zeroed(stream, places)?,
            loss: DeviceBuffer::zeroed(stream, 1)?,
            smooth: [zeros()?, zeros()?],
            first: DeviceBuffer::from_slice(stream, &first)?,
            neighbours: DeviceBuffer::from_slice(stream, &neighbours)?,
            tape: Tape::new(stream)?,
        })
    }

    /// Records the loss, which is the sum of the squares of distances, and the way back to its gradient.
    fn look(&mut self, stream: &Stream, geometry: &GeometryKernels, volume: &Volume) -> Result<()> {
        let Self { points, faces, places, distances, loss, tape, .. } = self;
        let m = points.len();
        tape.record_again(stream, |t| {
            t.watch(&*points)?;
            t.copy(&*points, places.slice_mut(..m)?)?;
            kernels::middles::record(t, &*points, &*faces, places.slice_mut(m..)?)?;
            let samples = Samples::world(&*places);
            volume.record_sample(t, &samples, Interpolation::Trilinear, &mut *distances)?;
            geometry.record_squared_norm(t, &*distances, &mut *loss)
        })?;
        tape.backward(stream, &*loss)
    }

    /// Smooths the gradient, and goes a step against it.
    fn step(&mut self, stream: &Stream) -> Result<()> {
        let Self { points, smooth: [from, to], first, neighbours, tape, .. } = self;
        let gradient = tape.gradient(&*points)?;
        let stiffness = stiffness(points.len());
        from.copy_from(stream, gradient)?;
        for _ in 0..sweeps(stiffness) {
            kernels::smooth::launch(
                stream,
                gradient,
                &*first,
                &*neighbours,
                stiffness,
                &*from,
                &mut *to,
            )?;
            std::mem::swap(from, to);
        }
        kernels::descend::launch(stream, &*from, RATE, points)
    }
}

/// Whom each point has an edge to, one after the other, and where those of each begin. In a closed mesh each
/// edge is one of two faces, in opposite directions.
fn neighbours(mesh: &TriangleMesh) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut of: Vec<Vec<u32>> = vec![Vec::new(); mesh.points.len()];
    for &[a, b, c] in &mesh.faces {
        for (from, to) in [(a, b), (b, c), (c, a)] {
            let of = of.get_mut(from as usize);
            of.ok_or_else(|| Error::invalid("a face of points that are not there"))?.push(to);
        }
    }
    let ends = of.iter().scan(0, |end, of| {
        *end += of.len() as u32;
        Some(*end)
    });
    Ok((std::iter::once(0).chain(ends).collect(), of.concat()))
}

/// A mesh that is being fitted.
pub(crate) struct Fit<'a> {
    stream: Stream,
    look: GraphExec<'a, Option<State>>,
    step: GraphExec<'a, State>,
}

impl<'a> Fit<'a> {
    /// Records the loss of the mesh with its gradient, and a step, as graphs.
    ///
    /// # Errors
    /// Whatever hinders that.
    pub(crate) fn new(
        context: &Context,
        geometry: &'a GeometryKernels,
        volume: &'a Volume,
        mesh: &TriangleMesh,
    ) -> Result<Self> {
        let stream = context.stream()?;
        // A capture can't load kernels.
        tape::derivation(&stream, kernels::middles::kernel())?;
        attributes(&stream, kernels::smooth::kernel())?;
        attributes(&stream, kernels::descend::kernel())?;
        let state = Some(State::new(&stream, mesh)?);
        let mut look = context.capture(state, move |stream, state: &mut Option<State>| {
            let state = state.as_mut();
            state.map_or(Ok(()), |state| state.look(stream, geometry, volume))
        })?;
        let state = look.state_mut().take();
        let state = state.ok_or_else(|| Error::invalid("nothing was recorded"))?;
        let step = context.capture(state, |stream, state: &mut State| state.step(stream))?;
        Ok(Self { stream, look, step })
    }

    /// How many places the volume is asked at.
    pub(crate) fn places(&self) -> usize {
        self.step.state().places.len()
    }

    /// Enqueues what finds the loss of the mesh as it is, and the gradient.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub(crate) fn look(&mut self) -> Result<()> {
        self.look.launch(&self.stream)
    }

    /// Enqueues a step against the gradient that was looked for.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub(crate) fn step(&mut self) -> Result<()> {
        self.step.launch(&self.stream)
    }

    /// The loss that was looked for last.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub(crate) fn loss(&self) -> Result<f64> {
        let loss = self.step.state().loss.to_vec(&self.stream)?;
        Ok(loss.into_iter().map(f64::from).sum())
    }

    /// Its gradient by the points.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub(crate) fn gradient(&self) -> Result<Vec<[f32; 3]>> {
        let State { points, tape, .. } = self.step.state();
        tape.gradient(points)?.to_vec(&self.stream)
    }

    /// Where the points are.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub(crate) fn points(&self) -> Result<Vec<[f32; 3]>> {
        self.step.state().points.to_vec(&self.stream)
    }
}
