//! Faces across edges.

use cuda_safe::DeviceBuffer;

use super::meshes::{Mesh, all, bad_soup, book, icosahedron, soup, torus};
use super::oracle::NONE;
use super::{Fixture, Uploaded, oracle};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh_topology",
        device(neighbors_equal_the_hosts),
        device(neighbors_of_many_faces),
        device(neighbors_at_odd_edges),
        device(a_graph_follows_the_faces),
    ]
}

fn check(fixture: &Fixture, name: &str, mesh: &Mesh) -> TestResult {
    let same = first_difference(&fixture.neighbors(mesh)?, &oracle::neighbors(mesh));
    same.map_err(|failure| test_harness::Failure::new(format!("{name}: {failure}")))
}

fn neighbors_equal_the_hosts(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    for (name, mesh) in all(&mut device.rng(612)) {
        check(&fixture, &name, &mesh)?;
    }
    Ok(())
}

fn neighbors_of_many_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(613);
    let torus = torus(100, 100);
    ensure!(oracle::neighbors(&torus).iter().all(|neighbor| *neighbor != NONE));
    check(&fixture, "a torus", &torus)?;
    // Of few points, so that many faces meet at an edge; and of many, so that few do.
    check(&fixture, "few points", &soup(&mut rng, 40, 20_000))?;
    check(&fixture, "many points", &bad_soup(&mut rng, 70_000, 20_000))
}

fn neighbors_at_odd_edges(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    // More than two faces: none is the neighbour.
    ensure_eq!(fixture.neighbors(&book())?, [NONE; 9]);
    // A face turned around keeps its neighbours, and stays theirs.
    let mesh = icosahedron();
    let sides = |neighbors: &[u32], face: usize| {
        let mut sides = neighbors[3 * face..3 * face + 3].to_vec();
        sides.sort_unstable();
        sides
    };
    let (before, after) = (fixture.neighbors(&mesh)?, fixture.neighbors(&mesh.flipped(5))?);
    for face in 0..20 {
        ensure_eq!(sides(&before, face), sides(&after, face));
    }
    // Faces that name a point twice are nobody's neighbours, nor in anybody's way.
    let mut wanted = before.clone();
    wanted.extend([NONE; 9]);
    let [a, b, c] = icosahedron().faces[4];
    let collapsed = icosahedron().and(&[[a, b, a], [b, b, c], [c, c, c]]);
    first_difference(&fixture.neighbors(&collapsed)?, &wanted)
}

fn a_graph_follows_the_faces(device: &TestDevice) -> TestResult {
    const POINTS: usize = 300;
    const FACES: usize = 700;
    struct State {
        mesh: Uploaded,
        neighbors: DeviceBuffer<u32>,
        normals: DeviceBuffer<[f32; 3]>,
    }
    let fixture = Fixture::new(device)?;
    let (stream, topology) = (&fixture.stream, &fixture.topology);
    let mut rng = device.rng(614);
    let state = State {
        mesh: fixture.upload(&soup(&mut rng, POINTS, FACES))?,
        neighbors: DeviceBuffer::zeroed(stream, 3 * FACES)?,
        normals: DeviceBuffer::zeroed(stream, POINTS)?,
    };
    let mut graph = device.context().capture(state, |stream, state| {
        let State { mesh, neighbors, normals } = state;
        let surface = geom_kernels::mesh::Surface::new(&mesh.points, &mesh.faces)?;
        topology.neighbors(stream, surface, neighbors.as_slice_mut())?;
        topology.vertex_normals(stream, surface, normals.as_slice_mut())
    })?;
    for points in [POINTS, 30, POINTS] {
        // Indices out of range come to a mesh that had none when it was recorded.
        let mut mesh = bad_soup(&mut rng, points, FACES);
        mesh.points.resize(POINTS, [0.5; 3]);
        let state = graph.state_mut();
        state.mesh.points.upload(stream, &mesh.points)?;
        state.mesh.faces.upload(stream, &mesh.faces)?;
        for _ in 0..2 {
            graph.state_mut().neighbors.fill(stream, 5)?;
            graph.launch(stream)?;
        }
        let state = graph.state();
        first_difference(&state.neighbors.to_vec(stream)?, &oracle::neighbors(&mesh))?;
        let bits = |normals: Vec<[f32; 3]>| -> Vec<[u32; 3]> {
            normals.into_iter().map(|normal| normal.map(f32::to_bits)).collect()
        };
        let (there, direct) = (state.normals.to_vec(stream)?, fixture.normals(&mesh)?);
        first_difference(&bits(there), &bits(direct))?;
    }
    Ok(())
}
