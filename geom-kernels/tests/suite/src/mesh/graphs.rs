//! Builds, refits and queries in graphs, and meshes of other threads.

use cuda_safe::DeviceBuffer;
use geom_kernels::QueryOrder;
use geom_kernels::mesh::{
    ClosestPoint, Mesh, MeshOptions, PointQueries, Ray, RayHit, Sign, TriangleMesh, shapes,
};

use super::inputs::{Around, Input, all_options, displaced};
use super::queries::{Fixture, bits, same};
use super::ray_inputs::rays;
use super::thorough;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh",
        device(graphs_build_refit_and_ask),
        device(a_mesh_recorded_and_not_launched),
        device(other_threads_ask),
    ]
}

/// All that a graph works on.
struct State {
    mesh: Mesh<'static>,
    queries: DeviceBuffer<[f32; 3]>,
    rays: DeviceBuffer<Ray>,
    closest: DeviceBuffer<ClosestPoint>,
    distances: DeviceBuffer<f32>,
    within: DeviceBuffer<u8>,
    sides: DeviceBuffer<i32>,
    nearest: DeviceBuffer<RayHit>,
    counts: DeviceBuffer<u32>,
    offsets: DeviceBuffer<u64>,
    hits: DeviceBuffer<RayHit>,
    normals: DeviceBuffer<[f32; 3]>,
}

const ROOM: usize = 3000;

impl State {
    fn new(
        fixture: &Fixture<'_>,
        mesh: Mesh<'static>,
        queries: &[[f32; 3]],
        rays: &[Ray],
    ) -> Result<Self, Failure> {
        let (n, m) = (queries.len(), rays.len());
        Ok(Self {
            mesh,
            queries: fixture.upload(queries)?,
            rays: fixture.upload(rays)?,
            closest: fixture.room(n)?,
            distances: fixture.room(n)?,
            within: fixture.room(n)?,
            sides: fixture.room(n)?,
            nearest: fixture.room(m)?,
            counts: fixture.room(m)?,
            offsets: fixture.room(m + 1)?,
            hits: fixture.room(ROOM)?,
            normals: fixture.room(1)?,
        })
    }

    fn ask(&mut self, stream: &cuda_safe::Stream) -> cuda_safe::Result<()> {
        // Sorted: that allocates, in a graph too.
        let queries = PointQueries::at(&self.queries).order(QueryOrder::Sorted);
        self.mesh.closest_points(stream, &queries, &mut self.closest)?;
        self.mesh.signed_distances(stream, &queries, Sign::Normal, &mut self.distances)?;
        self.mesh.any_within(stream, &queries.within(0.3), &mut self.within)?;
        self.mesh.classify(stream, &queries, &mut self.sides)?;
        self.mesh.closest_hits(stream, &self.rays, &mut self.nearest)?;
        self.mesh.count_hits(stream, &self.rays, &mut self.counts)?;
        self.mesh.all_hits_into(stream, &self.rays, &mut self.offsets, &mut self.hits)?;
        let first = self.mesh.points().slice(..1)?;
        self.normals.copy_from(stream, first)
    }

    /// All answers, as words.
    fn answers(&self, stream: &cuda_safe::Stream) -> Result<Vec<u32>, Failure> {
        let mut all = bits(&self.closest.to_vec(stream)?).to_vec();
        all.extend(bits(&self.distances.to_vec(stream)?));
        all.extend(self.within.to_vec(stream)?.into_iter().map(u32::from));
        all.extend(bits(&self.sides.to_vec(stream)?));
        all.extend(bits(&self.nearest.to_vec(stream)?));
        all.extend(self.counts.to_vec(stream)?);
        all.extend(bits(&self.offsets.to_vec(stream)?));
        let total = self.offsets.to_vec(stream)?.last().copied().unwrap_or(0) as usize;
        all.extend(bits(&self.hits.slice(..total)?.to_vec(stream)?));
        all.extend(bits(&self.normals.to_vec(stream)?));
        Ok(all)
    }
}

/// A graph that rebuilds, and one that refits, follow the points; their answers are those without a graph.
fn graphs_build_refit_and_ask(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(870);
    let input = Input::new("torus", shapes::torus(1.0, 0.4, 16, 10)?);
    let queries = Around::new(&input).points(&mut rng, 150);
    let rays = rays(&mut rng, &input, 150);
    for (k, (name, options)) in all_options().into_iter().enumerate() {
        for refits in [false, true] {
            // Half of them, where it takes long.
            if !thorough(device) && refits != (k % 3 == 0) {
                continue;
            }
            let mesh = fixture.mesh(&input.mesh, options)?;
            let state = State::new(&fixture, mesh, &queries, &rays)?;
            let mut graph = device.context().capture(state, |stream, state| {
                if refits {
                    state.mesh.refit(stream)?;
                } else {
                    state.mesh.rebuild(stream)?;
                }
                state.ask(stream)
            })?;
            for by in [0.1, 0.0, 0.7] {
                let points = displaced(&mut rng, &input.mesh, by);
                let Some(mut there) = graph.state_mut().mesh.points_mut() else {
                    return Err(Failure::new("the mesh owns its points"));
                };
                there.upload(stream, &points)?;
                graph.launch(stream)?;
                graph.launch(stream)?;
                let host = TriangleMesh { points, faces: input.mesh.faces.clone() };
                let fresh = fixture.mesh(&host, options)?;
                let mut wanted = State::new(&fixture, fresh, &queries, &rays)?;
                wanted.ask(stream)?;
                let (got, wanted) = (graph.state().answers(stream)?, wanted.answers(stream)?);
                same(format!("{name}, refits: {refits}, by {by}"), &got, &wanted)?;
                ensure!(graph.state().offsets.to_vec(stream)?[150] < ROOM as u64);
            }
        }
    }
    Ok(())
}

/// What was recorded has not happened: the mesh still answers as it was.
fn a_mesh_recorded_and_not_launched(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(871);
    let input = Input::new("torus", shapes::torus(1.0, 0.4, 16, 10)?);
    let queries = Around::new(&input).points(&mut rng, 50);
    let rays = rays(&mut rng, &input, 50);
    let mesh = fixture.mesh(&input.mesh, MeshOptions::default().topology())?;
    let mut state = State::new(&fixture, mesh, &queries, &rays)?;
    state.ask(stream)?;
    let wanted = state.answers(stream)?;
    let mut graph = device.context().capture(state, |stream, state| {
        state.mesh.rebuild(stream)?;
        state.mesh.refit(stream)?;
        state.ask(stream)
    })?;
    graph.state_mut().ask(stream)?;
    ensure_eq!(graph.state().answers(stream)?, wanted);
    // What waits can't be recorded.
    let refused = device.context().capture((), |stream, ()| {
        fixture
            .mesh(&input.mesh, MeshOptions::default())
            .map_err(|_| cuda_safe::Error::invalid(""))?;
        graph.state().mesh.report(stream).map(drop)
    });
    ensure_refused(refused)?;
    Ok(())
}

fn other_threads_ask(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(872);
    let input = Input::new("knot", shapes::knot(24, 6)?);
    let queries = Around::new(&input).points(&mut rng, 200);
    let rays = rays(&mut rng, &input, 200);
    let mesh = fixture.mesh(&input.mesh, MeshOptions::default().topology())?;
    let ask = |fixture: &Fixture<'_>| -> Result<(Vec<ClosestPoint>, Vec<RayHit>), Failure> {
        Ok((fixture.closest_to(&mesh, &queries)?, fixture.hits(&mesh, &rays)?.concat()))
    };
    let (closest, hits) = ask(&fixture)?;
    std::thread::scope(|scope| -> TestResult {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| ask(&Fixture::new(device)?))).collect();
        for thread in threads {
            let answers = thread.join().map_err(|_| Failure::new("a thread panicked"))?;
            let (closest_too, hits_too) = answers?;
            same("closest points", &closest_too, &closest)?;
            same("hits", &hits_too, &hits)?;
        }
        Ok(())
    })?;
    // And a mesh that another thread has built.
    let made = std::thread::scope(|scope| {
        let thread =
            scope.spawn(|| Fixture::new(device)?.mesh(&input.mesh, MeshOptions::default()));
        thread.join().map_err(|_| Failure::new("a thread panicked"))
    })??;
    same("built elsewhere", &fixture.closest_to(&made, &queries)?, &closest)
}
