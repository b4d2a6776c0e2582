//! The mesh on the device: its loss with the gradient, and steps that make it smaller, each a graph.

use cuda_safe::{Context, DeviceBuffer, Error, GraphExec, LaunchConfig, Result, Stream, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::TriangleMesh;
use geom_kernels::volume::{Interpolation, Samples, Volume};
use tape::Tape;

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

kernels! {
    struct Descent;
    // SAFETY: thread i writes element i if i < n; indices that come from memory are bounded first.
    unsafe in geom_kernels::program(include_str!("descent.cu")).name("descent.cu") {
        safe fn smooth(
            gradient: &[[f32; 3]], first: &[u32], neighbours: &[u32], edges: u32, stiffness: f32,
            from: &[[f32; 3]], to: &mut [[f32; 3]], n: u32
        ) where n <= gradient.len(), n < first.len(), edges <= neighbours.len(), n <= from.len(),
            n <= to.len();
        safe fn descend(direction: &[[f32; 3]], rate: f32, points: &mut [[f32; 3]], n: u32)
            where n <= direction.len(), n <= points.len();
    }
}

kernels! {
    struct Fitting;
    // SAFETY: thread i reads face i and writes middle i if i < n, and reads points below m.
    unsafe in geom_kernels::program(include_str!("fit.cu")).name("fit.cu") {
        #[gradient(crate = tape)]
        safe fn middles(
            points: &[[f32; 3]], m: u32 = points.len(), faces: &[[u32; 3]], middles: &mut [[f32; 3]],
            n: u32 = faces.len()
        ) over n by 128 where n <= middles.len();
    }
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
    fn look(
        &mut self,
        stream: &Stream,
        geometry: &GeometryKernels,
        fitting: &Fitting,
        volume: &Volume,
    ) -> Result<()> {
        let Self { points, faces, places, distances, loss, tape, .. } = self;
        let m = points.len();
        tape.record_again(stream, |t| {
            t.watch(&*points)?;
            t.copy(&*points, places.slice_mut(..m)?)?;
            fitting.record_middles(t, &*points, &*faces, places.slice_mut(m..)?)?;
            let samples = Samples::world(&*places);
            volume.record_sample(t, &samples, Interpolation::Trilinear, &mut *distances)?;
            geometry.record_squared_norm(t, &*distances, &mut *loss)
        })?;
        tape.backward(stream, &*loss)
    }

    /// Smooths the gradient, and goes a step against it.
    fn step(&mut self, stream: &Stream, descent: &Descent) -> Result<()> {
        let Self { points, smooth: [from, to], first, neighbours, tape, .. } = self;
        let gradient = tape.gradient(&*points)?;
        let (n, edges) = (points.len() as u32, neighbours.len() as u32);
        let (launch, stiffness) = (LaunchConfig::cover(points.len(), 128), stiffness(points.len()));
        from.copy_from(stream, gradient)?;
        for _ in 0..sweeps(stiffness) {
            let (first, neighbours) = (&*first, &*neighbours);
            descent.smooth(
                stream, launch, gradient, first, neighbours, edges, stiffness, &*from, &mut *to, n,
            )?;
            std::mem::swap(from, to);
        }
        descent.descend(stream, launch, &*from, RATE, &mut *points, n)
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
        let (fitting, descent) = (Fitting::load(context)?, Descent::load(context)?);
        // A capture can't load the adjoint.
        fitting.derive_middles()?;

        let state = Some(State::new(&stream, mesh)?);
        let mut look = context.capture(state, move |stream, state: &mut Option<State>| {
            let state = state.as_mut();
            state.map_or(Ok(()), |state| state.look(stream, geometry, &fitting, volume))
        })?;
        let state = look.state_mut().take();
        let state = state.ok_or_else(|| Error::invalid("nothing was recorded"))?;
        let step = context
            .capture(state, move |stream, state: &mut State| state.step(stream, &descent))?;
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
