//! Which side of a mesh points are on.

use geom_kernels::mesh::{
    ClosestPoint, Mesh, MeshOptions, PointQueries, Sign, TriangleMesh, shapes,
};
use robust::{Coord, Coord3D, orient2d, orient3d};

use super::inputs::{Around, Input, inputs, invalid_points};
use super::queries::{Fixture, same};
use super::{cross, dot, length, sub, thorough, wide};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh",
        device(signs_of_solids_are_right),
        device(signs_of_meshes_turned_inside_out),
        device(signs_of_open_meshes_are_those_of_pseudonormals),
        device(sides_count_crossings),
        device(points_that_are_on_no_side),
    ]
}

/// Whether a point lies on a triangle, without rounding errors: on its plane, and in all three projections.
fn lies_on(face: &[[f64; 3]; 3], q: [f64; 3]) -> bool {
    let [a, b, c] = *face;
    let between = |k: usize| {
        let all = [a[k], b[k], c[k]];
        all.iter().any(|x| *x <= q[k]) && all.iter().any(|x| *x >= q[k])
    };
    let of = |p: [f64; 3]| Coord3D { x: p[0], y: p[1], z: p[2] };
    (0..3).all(between)
        && orient3d(of(a), of(b), of(c), of(q)) == 0.0
        && (0..3).all(|axis| {
            let flat = |p: [f64; 3]| Coord { x: p[(axis + 1) % 3], y: p[(axis + 2) % 3] };
            let sides = [(a, b), (b, c), (c, a)].map(|(p, r)| orient2d(flat(p), flat(r), flat(q)));
            !(sides.iter().any(|x| *x > 0.0) && sides.iter().any(|x| *x < 0.0))
        })
}

/// -1 inside, 1 outside, 0 on it.
pub(super) fn side(input: &Input, oracle: &geom_oracle::Mesh, q: [f32; 3], distance: f64) -> i32 {
    // The oracle's distance is right to 1e-13 of the face's size.
    let near = distance <= 1e-9 * (length(wide(q)) + input.diagonal());
    let touches = |face: u32| oracle.triangle(face).is_some_and(|face| lies_on(face, wide(q)));
    if near && (0..input.mesh.faces.len() as u32).any(touches) {
        return 0;
    }
    if oracle.inside_by_parity(q) { -1 } else { 1 }
}

/// Whether a signed distance is of this side. One that rounds to 0 still has a sign.
pub(super) fn is_of_side(distance: f32, side: i32) -> bool {
    match side {
        0 => distance == 0.0,
        _ => distance.is_sign_negative() == (side < 0),
    }
}

fn signs_of_solids_are_right(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(820);
    let mut seen = [0; 3];
    for input in inputs(&mut rng, u32::from(thorough(device)))?.into_iter().filter(|i| i.solid) {
        let oracle = geom_oracle::Mesh::new(&input.mesh.points, &input.mesh.faces);
        let around = Around::new(&input);
        let mut points = around.points(&mut rng, if thorough(device) { 4000 } else { 250 });
        points.extend_from_slice(&input.mesh.points[..20.min(input.mesh.points.len())]);
        let wanted: Vec<i32> = oracle
            .closest_of_all(&points)
            .iter()
            .zip(&points)
            .map(|(closest, q)| side(&input, &oracle, *q, closest.map_or(1.0, |c| c.distance)))
            .collect();
        let there = fixture.upload(&points)?;
        let queries = PointQueries::at(&there);
        for options in [MeshOptions::default(), MeshOptions::default().topology()] {
            let mesh = fixture.mesh(&input.mesh, options)?;
            let closest = fixture.closest(&mesh, &queries)?;
            let sides = fixture.sides(&mesh, &queries)?;
            for sign in [Sign::Normal, Sign::Parity] {
                let (distances, of_signed) = fixture.signed(&mesh, &queries, sign)?;
                same(format!("{}, {sign:?}", input.name), &of_signed, &closest)?;
                for (i, q) in points.iter().enumerate() {
                    let (distance, wanted) = (distances[i], wanted[i]);
                    let about = || format!("{}, {sign:?}, {q:?}, {:?}", input.name, closest[i]);
                    ensure_eq!(sides[i], wanted, "{}", about());
                    ensure!(
                        is_of_side(distance, wanted),
                        "{distance} on side {wanted}: {}",
                        about()
                    );
                    if wanted != 0 {
                        let size = closest[i].distance_squared.sqrt();
                        ensure_eq!(distance.abs().to_bits(), size.to_bits(), "{}", about());
                    }
                }
            }
        }
        wanted.iter().for_each(|side| seen[(side + 1) as usize] += 1);
    }
    ensure!(seen.iter().all(|count| *count > 300), "{seen:?}");
    Ok(())
}

/// Parity does not care how faces are turned; normals do, where they leave no doubt.
fn signs_of_meshes_turned_inside_out(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(821);
    for input in [
        Input::solid("sphere", shapes::icosphere(2, 1.0)?)?,
        Input::solid("torus", shapes::torus(1.0, 0.4, 16, 10)?)?,
        Input::solid("cube", super::shapes::lattice_cube(3)?)?,
    ] {
        let points = Around::new(&input).points(&mut rng, 300);
        let there = fixture.upload(&points)?;
        let queries = PointQueries::at(&there);
        let right = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let mut host = input.mesh.clone();
        host.flip();
        let flipped = fixture.mesh(&host, MeshOptions::default())?;
        // Half of the faces.
        let mut host = input.mesh.clone();
        for face in host.faces.iter_mut().step_by(2) {
            face.swap(0, 2);
        }
        let mixed = fixture.mesh(&host, MeshOptions::default())?;
        let sides = fixture.sides(&right, &queries)?;
        let (parity, _) = fixture.signed(&right, &queries, Sign::Parity)?;
        for mesh in [&flipped, &mixed] {
            ensure_eq!(fixture.sides(mesh, &queries)?, sides);
            let (distances, _) = fixture.signed(mesh, &queries, Sign::Parity)?;
            for ((q, got), wanted) in points.iter().zip(distances).zip(&parity) {
                // Positions are rounded from another corner.
                let off = f64::from((got - wanted).abs());
                ensure!(off <= 2.0 * input.unit(*q), "{}, {q:?}: {got}, {wanted}", input.name);
                ensure_eq!(got.is_sign_negative(), wanted.is_sign_negative(), "{q:?}");
            }
        }
        let (by_normal, closest) = fixture.signed(&flipped, &queries, Sign::Normal)?;
        let (mut opposite, mut in_doubt) = (0, 0);
        for (i, distance) in by_normal.iter().enumerate() {
            // Above a face, not so close that its plane is in doubt. Next to an edge it may be.
            if closest[i].feature == 6 && (1e-3..5.0).contains(&parity[i]) {
                opposite += u32::from(*distance < 0.0);
                in_doubt += u32::from(*distance > 0.0);
            }
        }
        ensure!(opposite > 20 && opposite > 10 * in_doubt, "{opposite} {in_doubt}");
    }
    Ok(())
}

/// Faces around a point of a mesh: the direction of their angle-weighted sum of normals, in f64.
fn pseudonormal(mesh: &TriangleMesh, found: &ClosestPoint) -> [f64; 3] {
    let corners = |face: &[u32; 3]| face.map(|v| wide(mesh.points[v as usize]));
    let unit = |face: &[u32; 3]| {
        let [a, b, c] = corners(face);
        let n = cross(sub(b, a), sub(c, a));
        n.map(|x| x / length(n))
    };
    let own = mesh.faces[found.face as usize];
    let plus = |a: [f64; 3], b: [f64; 3], by: f64| std::array::from_fn(|i| a[i] + by * b[i]);
    match found.feature {
        vertex @ 0..=2 => {
            let v = own[vertex as usize];
            let mut sum = [0.0; 3];
            for face in &mesh.faces {
                let Some(at) = face.iter().position(|w| *w == v) else { continue };
                let [a, b, c] = [0, 1, 2].map(|k| corners(face)[(at + k) % 3]);
                let (to, from) = (sub(b, a), sub(c, a));
                let angle = (dot(to, from) / (length(to) * length(from))).acos();
                sum = plus(sum, unit(face), angle);
            }
            sum
        }
        edge @ 3..=5 => {
            let ends = [own[edge as usize - 3], own[(edge as usize - 2) % 3]];
            let with_edge = mesh.faces.iter().filter(|face| ends.iter().all(|v| face.contains(v)));
            with_edge.fold([0.0; 3], |sum, face| plus(sum, unit(face), 1.0))
        }
        _ => unit(&own),
    }
}

fn signs_of_open_meshes_are_those_of_pseudonormals(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(822);
    let mut cap = shapes::icosphere(2, 1.0)?;
    let points = cap.points.clone();
    cap.faces.retain(|face| face.iter().map(|v| points[*v as usize][2]).sum::<f32>() > 0.6);
    let mut crater = shapes::plane([2.0, 2.0], [8, 8])?;
    for point in &mut crater.points {
        point[2] = 0.3 * (4.0 * point[0]).sin() * (3.0 * point[1]).cos() + 0.05 * rng.float();
    }
    let (mut sides, mut features) = ([0; 2], [0; 7]);
    // At sharp edges and corners no single face tells the side.
    let sharp =
        [Input::new("roof", super::shapes::roof(6)), Input::new("spike", super::shapes::spike(7))];
    for input in [Input::new("cap", cap), Input::new("crater", crater)].into_iter().chain(sharp) {
        let points = Around::new(&input).points(&mut rng, 1500);
        let there = fixture.upload(&points)?;
        let queries = PointQueries::at(&there);
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default().topology())?;
        let (distances, closest) = fixture.signed(&mesh, &queries, Sign::Normal)?;
        same("closest points", &closest, &fixture.closest(&mesh, &queries)?)?;
        for ((q, found), distance) in points.iter().zip(&closest).zip(&distances) {
            let n = pseudonormal(&input.mesh, found);
            let d = sub(wide(*q), wide(found.position));
            let (along, unit) = (dot(d, n) / length(n), input.unit(*q));
            // Where neither rounding nor the choice among faces that are nearly as near decides.
            if along.abs() < 64.0 * unit {
                continue;
            }
            ensure_eq!(*distance < 0.0, along < 0.0, "{}, {q:?}, {found:?}, {n:?}", input.name);
            sides[usize::from(along < 0.0)] += 1;
            features[found.feature as usize] += 1;
        }
        // Without topology it is taken to be closed: nothing else changes.
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let (others, closest_too) = fixture.signed(&mesh, &queries, Sign::Normal)?;
        same("closest points", &closest_too, &closest)?;
        for (distance, other) in distances.iter().zip(&others) {
            ensure!(distance.abs() == other.abs() || *other == 0.0, "{distance} {other}");
        }
    }
    ensure!(sides.iter().chain(&features).all(|count| *count > 20), "{sides:?} {features:?}");
    Ok(())
}

/// Of any mesh, the parity of crossings of the ray along x.
fn sides_count_crossings(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(823);
    for input in inputs(&mut rng, 0)? {
        // Of a point on a face with no other to tell, the ray of an open mesh is a matter of taste.
        let oracle = geom_oracle::Mesh::new(&input.mesh.points, &input.mesh.faces);
        let points = Around::new(&input).points(&mut rng, 150);
        let there = fixture.upload(&points)?;
        let mesh: Mesh<'_> = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let sides = fixture.sides(&mesh, &PointQueries::at(&there))?;
        for (q, got) in points.iter().zip(sides) {
            let closest = oracle.closest(wide(*q)).map_or(1.0, |c| c.distance);
            let wanted = side(&input, &oracle, *q, closest);
            ensure!(got == 0 || wanted != 0, "{}, {q:?}: {got}", input.name);
            if input.solid || wanted == 0 {
                ensure_eq!(got, wanted, "{}, {q:?}", input.name);
            } else {
                // The oracle's ray is the same but for ties, in which it is moved the other way.
                let straight = general(&oracle, &input, *q);
                ensure!(!straight || got == wanted, "{}, {q:?}: {got}", input.name);
            }
        }
    }
    Ok(())
}

/// Whether no vertex or edge lies behind one another along x from the point.
fn general(oracle: &geom_oracle::Mesh, input: &Input, q: [f32; 3]) -> bool {
    let q = wide(q);
    let flat = |p: [f64; 3]| Coord { x: p[1], y: p[2] };
    (0..input.mesh.faces.len() as u32).filter_map(|face| oracle.triangle(face)).all(|[a, b, c]| {
        [(a, b), (b, c), (c, a)].iter().all(|(p, r)| orient2d(flat(**p), flat(**r), flat(q)) != 0.0)
    })
}

fn points_that_are_on_no_side(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let points = invalid_points();
    let there = fixture.upload(&points)?;
    let queries = PointQueries::at(&there);
    let empty = fixture.mesh(&TriangleMesh::default(), MeshOptions::default().topology())?;
    let cube = fixture.mesh(&shapes::cube(2.0)?, MeshOptions::default())?;
    for mesh in [&empty, &cube] {
        ensure!(fixture.sides(mesh, &queries)?.iter().all(|side| *side == 1));
        for sign in [Sign::Normal, Sign::Parity] {
            let (distances, _) = fixture.signed(mesh, &queries, sign)?;
            ensure!(distances.iter().all(|distance| *distance == f32::INFINITY));
        }
    }
    let origin = fixture.upload(&[[0.0f32; 3]])?;
    ensure_eq!(fixture.sides(&empty, &PointQueries::at(&origin))?, [1]);
    // Limits are not asked for sides.
    let near = PointQueries::at(&origin).within(0.1);
    ensure_eq!(fixture.sides(&cube, &near)?, [-1]);
    ensure_eq!(fixture.signed(&cube, &near, Sign::Normal)?.0, [f32::INFINITY]);

    let mut few = fixture.room::<f32>(1)?;
    let refused = cube.signed_distances(stream, &queries, Sign::Normal, &mut few);
    ensure_refused_for(refused, "distances")?;
    let mut few = fixture.room::<i32>(1)?;
    let refused = cube.classify(stream, &queries, &mut few);
    ensure_refused_for(refused, "sides")?;
    Ok(())
}
