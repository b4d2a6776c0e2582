//! The faces that overlap boxes and balls.

use cuda_safe::DeviceBuffer;
use geom_kernels::Aabb;
use geom_kernels::bvh::BvhQueries;
use geom_kernels::mesh::{Mesh, MeshOptions, Overlap, Ray, TriangleMesh, shapes};

use super::inputs::{Around, Input, all_options, inputs};
use super::queries::Fixture;
use super::thorough;
use crate::bvh_queries::inputs::{Query, queries};
use crate::bvh_queries::oracle::{in_box, items, within};
use crate::triangle::overlaps::{exact_overlap, overlapping, whole_box};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh",
        device(overlaps_are_those_of_all_faces),
        device(overlaps_with_boxes_are_exact),
        device(overlaps_with_balls_at_their_ends),
        device(overlaps_of_any_number_of_faces_and_queries),
        device(overlaps_of_many_queries_are_those_of_few),
        device(overlaps_without_room_are_cut_off),
        device(overlaps_in_a_graph_follow_the_points),
        device(overlaps_refuse_what_does_not_fit),
    ]
}

/// Boxes and balls, as many of each.
#[derive(Default)]
struct Asked {
    boxes: Vec<Aabb<f32>>,
    centers: Vec<[f32; 3]>,
    radii: Vec<f32>,
}

impl Asked {
    fn push(&mut self, wanted: Aabb<f32>, center: [f32; 3], radius: f32) {
        self.boxes.push(wanted);
        self.centers.push(center);
        self.radii.push(radius);
    }

    /// What lies at boxes of faces, and what is smaller than faces are.
    fn around(rng: &mut Rng, input: &Input, boxes: &[Aabb<f32>], n: usize) -> Self {
        let mut asked = Self::default();
        for Query { wanted, center, radius, .. } in queries(rng, boxes, n / 2) {
            asked.push(wanted, center, radius);
        }
        for p in Around::new(input).points(rng, n / 2) {
            let size = input.diagonal() as f32 * [1e-4, 0.02, 0.1, 0.3][rng.below(4)];
            let by = [0; 3].map(|_: i32| size * (rng.float() + 1.0));
            let wanted = Aabb {
                lower: std::array::from_fn(|i| p[i] - by[i]),
                upper: std::array::from_fn(|i| p[i] + by[i]),
            };
            asked.push(wanted, p, by[0]);
        }
        asked
    }
}

/// Lists of faces: in boxes and in balls.
struct Found {
    in_boxes: Vec<Vec<u32>>,
    in_balls: Vec<Vec<u32>>,
}

/// The lists of a batch, which its counts agree with.
pub(super) fn lists(
    fixture: &Fixture<'_>,
    mesh: &Mesh<'_>,
    queries: BvhQueries<'_>,
    of: Overlap,
) -> Result<Vec<Vec<u32>>, Failure> {
    let (stream, n) = (&fixture.stream, queries.len());
    let found = mesh.overlap_lists(stream, queries, of)?;
    let (offsets, faces) = (found.offsets.to_vec(stream)?, found.indices.to_vec(stream)?);
    ensure_eq!((offsets.len(), offsets.first()), (n + 1, Some(&0)));
    ensure_eq!(offsets.last(), Some(&(faces.len() as u64)));
    let list = |pair: &[u64]| faces.get(pair[0] as usize..pair[1] as usize).map(<[u32]>::to_vec);
    let lists: Option<Vec<_>> = offsets.windows(2).map(list).collect();
    let lists = lists.ok_or_else(|| Failure::new("offsets that do not ascend"))?;
    let mut counts = fixture.room::<u32>(n)?;
    mesh.count_overlaps(stream, queries, of, &mut counts)?;
    let lengths: Vec<u32> = lists.iter().map(|list| list.len() as u32).collect();
    first_difference(&counts.to_vec(stream)?, &lengths)?;
    Ok(lists)
}

fn ask(
    fixture: &Fixture<'_>,
    mesh: &Mesh<'_>,
    asked: &Asked,
    of: Overlap,
) -> Result<Found, Failure> {
    let boxes = fixture.upload(&asked.boxes)?;
    let (centers, radii) = (fixture.upload(&asked.centers)?, fixture.upload(&asked.radii)?);
    Ok(Found {
        in_boxes: lists(fixture, mesh, BvhQueries::boxes(&boxes), of)?,
        in_balls: lists(fixture, mesh, BvhQueries::spheres(&centers, 0.0).within_each(&radii), of)?,
    })
}

/// A face's corners, unless it names a point that there is not.
fn corners(mesh: &TriangleMesh, face: usize) -> Option<[[f32; 3]; 3]> {
    let [a, b, c] = mesh.faces[face].map(|v| mesh.points.get(v as usize).copied());
    Some([a?, b?, c?])
}

/// The boxes of all faces; those of faces that are skipped are none.
fn boxes_of(mesh: &TriangleMesh) -> Vec<Aabb<f32>> {
    let of = |face| {
        let corners = corners(mesh, face).filter(|t| t.as_flattened().iter().all(|x| !x.is_nan()));
        let pick = |t: &[[f32; 3]; 3], f: fn(f32, f32) -> f32| {
            std::array::from_fn(|i| f(f(t[0][i], t[1][i]), t[2][i]))
        };
        corners.map_or(Aabb::<f32>::EMPTY, |t| Aabb {
            lower: pick(&t, f32::min),
            upper: pick(&t, f32::max),
        })
    };
    (0..mesh.faces.len()).map(of).collect()
}

fn indices(found: Vec<(u32, f32)>) -> Vec<u32> {
    found.into_iter().map(|(i, _)| i).collect()
}

fn equal(what: &str, got: &[Vec<u32>], wanted: &[Vec<u32>]) -> TestResult {
    ensure_eq!(got.len(), wanted.len(), "{what}");
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        ensure!(got == wanted, "{what}, query {i}: {got:?}, not {wanted:?}");
    }
    Ok(())
}

/// Boxes of faces bit for bit; faces in boxes by the test of one triangle, which has an oracle of its own; faces in
/// balls by distances in f64.
fn overlaps_are_those_of_all_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(890);
    let (step, n) = if thorough(device) { (1, 400) } else { (2, 60) };
    let (mut only_boxes, mut far, mut near) = (0, 0, 0);
    for (k, input) in inputs(&mut rng, 0)?.into_iter().enumerate().step_by(step) {
        let (name, options) = all_options()[k / step % 4];
        let fail = |e: Failure| Failure::new(format!("{}, {name}: {e}", input.name));
        let mesh = fixture.mesh(&input.mesh, options)?;
        let boxes = boxes_of(&input.mesh);
        let items = items(&boxes, &boxes);
        let asked = Asked::around(&mut rng, &input, &boxes, n);
        let by_box = ask(&fixture, &mesh, &asked, Overlap::Boxes)?;
        let in_boxes: Vec<Vec<u32>> =
            asked.boxes.iter().map(|wanted| indices(in_box(&items, wanted))).collect();
        equal("boxes in boxes", &by_box.in_boxes, &in_boxes).map_err(fail)?;
        let balls = asked.centers.iter().zip(&asked.radii);
        let in_balls: Vec<Vec<u32>> =
            balls.map(|(center, radius)| indices(within(&items, *center, *radius))).collect();
        equal("boxes in balls", &by_box.in_balls, &in_balls).map_err(fail)?;

        let by_face = ask(&fixture, &mesh, &asked, Overlap::Faces)?;
        // Whatever overlaps, its box does.
        let pairs = in_boxes.iter().zip(&asked.boxes);
        let pairs = pairs.flat_map(|(faces, of)| faces.iter().map(move |face| (*face, of)));
        let rows: Option<Vec<_>> = pairs
            .map(|(face, of)| Some((corners(&input.mesh, face as usize)?, of.lower, of.upper)))
            .collect();
        let rows = rows.ok_or_else(|| Failure::new("a face without corners was found"))?;
        let mut answers = overlapping(device, &rows)?.into_iter();
        let wanted: Vec<Vec<u32>> = in_boxes
            .iter()
            .map(|faces| faces.iter().copied().filter(|_| answers.next() == Some(true)).collect())
            .collect();
        equal("faces in boxes", &by_face.in_boxes, &wanted).map_err(fail)?;
        only_boxes += rows.len() - wanted.iter().map(Vec::len).sum::<usize>();
        let (found, not) = balls_of_faces(&input, &asked, &by_face.in_balls).map_err(fail)?;
        (near, far) = (near + found, far + not);
    }
    ensure!(only_boxes > 200 && near > 500 && far > 500, "{only_boxes} {near} {far}");
    Ok(())
}

/// How many faces were within a radius for sure, and how many were not.
fn balls_of_faces(
    input: &Input,
    asked: &Asked,
    found: &[Vec<u32>],
) -> Result<(usize, usize), Failure> {
    let (mut near, mut far) = (0, 0);
    let faces: Vec<geom_oracle::Mesh> = input
        .mesh
        .faces
        .iter()
        .map(|face| geom_oracle::Mesh::new(&input.mesh.points, &[*face]))
        .collect();
    for (i, list) in found.iter().enumerate() {
        let (q, radius) = (asked.centers[i], asked.radii[i]);
        ensure!(list.is_sorted_by(|a, b| a < b), "{list:?}");
        let tolerance = 4.0 * input.unit(q) + input.floor;
        for (face, oracle) in (0u32..).zip(&faces) {
            let [of_face] = oracle.closest_of_all(&[q])[..] else {
                return Err(Failure::new("the oracle has another number of answers"));
            };
            let has = list.binary_search(&face).is_ok();
            let Some(of_face) = of_face else {
                ensure!(!has, "{q:?} {radius}: face {face}, which is skipped");
                continue;
            };
            let (least, limit) = (of_face.distance, f64::from(radius));
            if radius >= 0.0 && limit > least + tolerance {
                ensure!(has, "{q:?} {radius}: not face {face} at {least}");
                near += 1;
            } else if radius.is_nan() || radius < 0.0 || limit < least - tolerance {
                ensure!(!has, "{q:?} {radius}: face {face} at {least}");
                far += 1;
            }
        }
    }
    Ok((near, far))
}

/// Faces and boxes of whole numbers, which often touch: against projections to all axes.
fn overlaps_with_boxes_are_exact(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(891);
    let (faces, n) = if thorough(device) { (500, 500) } else { (150, 70) };
    let (mut hits, mut boxes_only) = (0, 0);
    for (size, scale) in [(4, 1.0), (9, 2f32.powi(-60)), (1 << 20, 2f32.powi(20))] {
        let mut mesh = TriangleMesh::default();
        let whole = |rng: &mut Rng| rng.below(size) as f32;
        for i in 0..faces {
            let at = [0; 3].map(|_: i32| [0; 3].map(|_: i32| whole(&mut rng)));
            mesh.points.extend(at);
            mesh.faces.push([3 * i, 3 * i + 1, 3 * i + 2]);
        }
        let boxes: Vec<_> = (0..n).map(|_| whole_box(&mut rng, size)).collect();
        let wanted: Vec<Vec<u32>> = boxes
            .iter()
            .map(|(lower, upper)| {
                let touches = |face: &u32| {
                    corners(&mesh, *face as usize).is_some_and(|t| exact_overlap(t, *lower, *upper))
                };
                (0..faces).filter(touches).collect()
            })
            .collect();
        mesh.scale([scale; 3]);
        let scaled = |p: [f32; 3]| p.map(|x| x * scale);
        let there: Vec<Aabb<f32>> = boxes
            .iter()
            .map(|(lower, upper)| Aabb { lower: scaled(*lower), upper: scaled(*upper) })
            .collect();
        let there = fixture.upload(&there)?;
        for (name, options) in all_options() {
            let mesh = fixture.mesh(&mesh, options)?;
            let found = lists(&fixture, &mesh, BvhQueries::boxes(&there), Overlap::Faces)?;
            equal(&format!("{name}, below {size}"), &found, &wanted)?;
            let by_box = lists(&fixture, &mesh, BvhQueries::boxes(&there), Overlap::Boxes)?;
            let count = |lists: &[Vec<u32>]| lists.iter().map(Vec::len).sum::<usize>();
            hits += count(&found);
            boxes_only += count(&by_box) - count(&found);
        }
    }
    ensure!(hits > 2000 && boxes_only > 500, "{hits} {boxes_only}");
    Ok(())
}

/// A center, a radius, and what is in the ball: faces, and boxes of faces.
type Ball = ([f32; 3], f32, &'static [u32], &'static [u32]);

/// Distances that are numbers without rounding: just the radius is within it.
fn overlaps_with_balls_at_their_ends(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    // The first is in the plane x = 0, and its box is flat; the second's box has a corner where it is not.
    let mesh = TriangleMesh {
        points: vec![
            [0.0, 0.0, 0.0],
            [0.0, 8.0, 0.0],
            [0.0, 0.0, 8.0],
            [20.0, 0.0, 0.0],
            [28.0, 0.0, 0.0],
            [20.0, 8.0, 0.0],
        ],
        faces: vec![[0, 1, 2], [3, 4, 5]],
    };
    let mesh = fixture.mesh(&mesh, MeshOptions::default())?;
    let none: &'static [u32] = &[];
    let asked: [Ball; 12] = [
        ([-3.0, 1.0, 1.0], 3.0, &[0], &[0]),
        ([-3.0, 1.0, 1.0], 3f32.next_down(), none, none),
        ([0.0, -3.0, -4.0], 5.0, &[0], &[0]),
        ([0.0, -3.0, -4.0], 5f32.next_down(), none, none),
        ([0.0, 2.0, 2.0], 0.0, &[0], &[0]),
        ([0.0, 2.0, 2.0], -0.0, &[0], &[0]),
        // Behind the long edge: in the box, and not at the face.
        ([28.0, 8.0, 0.0], 0.0, none, &[1]),
        ([28.0, 8.0, 0.0], 5.0, none, &[1]),
        ([28.0, 8.0, 0.0], 6.0, &[1], &[1]),
        ([10.0, 1.0, 0.0], f32::INFINITY, &[0, 1], &[0, 1]),
        ([0.0, 2.0, 2.0], f32::NAN, none, none),
        ([f32::NAN, 2.0, 2.0], f32::INFINITY, none, none),
    ];
    let mut all = Asked::default();
    for (center, radius, ..) in asked {
        all.push(Aabb::<f32>::EMPTY, center, radius);
    }
    let by_face = ask(&fixture, &mesh, &all, Overlap::Faces)?;
    let by_box = ask(&fixture, &mesh, &all, Overlap::Boxes)?;
    for (i, (center, radius, faces, boxes)) in asked.into_iter().enumerate() {
        ensure_eq!(by_face.in_balls[i], faces, "{center:?} {radius}");
        ensure_eq!(by_box.in_balls[i], boxes, "{center:?} {radius}");
        ensure!(by_face.in_boxes[i].is_empty() && by_box.in_boxes[i].is_empty());
    }
    // One radius for all.
    let centers = fixture.upload(&all.centers[..4])?;
    let found = lists(&fixture, &mesh, BvhQueries::spheres(&centers, 5.0), Overlap::Faces)?;
    equal("one radius", &found, &[vec![0], vec![0], vec![0], vec![0]])
}

fn overlaps_of_any_number_of_faces_and_queries(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(892);
    for faces in [0, 1, 31, 32, 33] {
        let mesh = super::inputs::soup(&mut rng, faces, 0.5);
        let boxes = boxes_of(&mesh);
        let there = fixture.mesh(&mesh, MeshOptions::default())?;
        let input = Input::new("soup", mesh);
        for n in [0, 1, 31, 32, 33, 129] {
            // An even number of them, and so many of those.
            let mut asked = Asked::around(&mut rng, &input, &boxes, n + n % 2);
            asked.boxes.truncate(n);
            asked.centers.truncate(n);
            asked.radii.truncate(n);
            let found = ask(&fixture, &there, &asked, Overlap::Boxes)?;
            let items = items(&boxes, &boxes);
            let wanted: Vec<_> = asked.boxes.iter().map(|b| indices(in_box(&items, b))).collect();
            equal("boxes", &found.in_boxes, &wanted)?;
            let balls = asked.centers.iter().zip(&asked.radii);
            let wanted: Vec<_> = balls.map(|(c, r)| indices(within(&items, *c, *r))).collect();
            equal("balls", &found.in_balls, &wanted)?;
            ask(&fixture, &there, &asked, Overlap::Faces)?;
        }
    }
    Ok(())
}

/// From some number on queries are taken in another order, which changes no answer.
fn overlaps_of_many_queries_are_those_of_few(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(893);
    let input = Input::new("sphere", shapes::icosphere(2, 1.0)?);
    let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
    let n = 33_000;
    let mut asked = Asked::default();
    for _ in 0..n {
        let p: [f32; 3] = [0; 3].map(|_: i32| 1.2 * rng.float());
        asked.push(Aabb { lower: p, upper: p.map(|x| x + 0.05) }, p, 0.03);
    }
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30];
    for (i, odd) in odd.into_iter().enumerate() {
        (asked.boxes[i].lower[i % 3], asked.centers[i][i % 3]) = (odd, odd);
    }
    let whole = ask(&fixture, &mesh, &asked, Overlap::Boxes)?;
    let mut parts = Found { in_boxes: Vec::new(), in_balls: Vec::new() };
    for range in [0..n / 2, n / 2..n] {
        let part = Asked {
            boxes: asked.boxes[range.clone()].to_vec(),
            centers: asked.centers[range.clone()].to_vec(),
            radii: asked.radii[range].to_vec(),
        };
        let found = ask(&fixture, &mesh, &part, Overlap::Boxes)?;
        parts.in_boxes.extend(found.in_boxes);
        parts.in_balls.extend(found.in_balls);
    }
    equal("boxes", &whole.in_boxes, &parts.in_boxes)?;
    equal("balls", &whole.in_balls, &parts.in_balls)?;
    let items = items(&boxes_of(&input.mesh), &boxes_of(&input.mesh));
    for i in (0..n).step_by(97) {
        ensure_eq!(whole.in_boxes[i], indices(in_box(&items, &asked.boxes[i])));
    }
    ensure!(whole.in_boxes.iter().filter(|list| !list.is_empty()).count() > n / 20);
    Ok(())
}

/// What has no place is not written, what is behind the last one neither; offsets are right.
fn overlaps_without_room_are_cut_off(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mesh = fixture.mesh(&shapes::icosphere(2, 1.0)?, MeshOptions::default())?;
    let boxes = [-1.0, -0.5, 0.0, 0.5].map(|x| Aabb { lower: [x; 3], upper: [x + 0.7; 3] });
    let boxes = fixture.upload(&boxes)?;
    let whole = mesh.overlap_lists(stream, &boxes, Overlap::Faces)?;
    let (offsets, faces) = (whole.offsets.to_vec(stream)?, whole.indices.to_vec(stream)?);
    ensure!(faces.len() > 30, "{}", faces.len());
    let all = faces.len();
    for capacity in [0, 1, all / 2, all - 1, all, all + 40] {
        let mut found_offsets = fixture.room::<u64>(offsets.len())?;
        let mut found = fixture.upload(&vec![u32::MAX; all + 50])?;
        let part = found.slice_mut(..capacity)?;
        mesh.overlap_lists_into(stream, &boxes, Overlap::Faces, &mut found_offsets, part)?;
        ensure_eq!(found_offsets.to_vec(stream)?, offsets);
        let mut wanted = vec![u32::MAX; all + 50];
        let fits = capacity.min(all);
        wanted[..fits].copy_from_slice(&faces[..fits]);
        first_difference(&found.to_vec(stream)?, &wanted)
            .map_err(|e| Failure::new(format!("room for {capacity}: {e}")))?;
    }
    Ok(())
}

/// All that a graph works on.
struct State {
    mesh: Mesh<'static>,
    boxes: DeviceBuffer<Aabb<f32>>,
    offsets: DeviceBuffer<u64>,
    faces: DeviceBuffer<u32>,
    counts: DeviceBuffer<u32>,
}

fn overlaps_in_a_graph_follow_the_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut host = shapes::icosphere(1, 1.0)?;
    let boxes = [-1.0, 0.0, 0.9].map(|x| Aabb { lower: [x; 3], upper: [x + 0.5; 3] });
    let state = State {
        mesh: fixture.mesh(&host, MeshOptions::default())?,
        boxes: fixture.upload(&boxes)?,
        offsets: fixture.room(4)?,
        faces: fixture.room(300)?,
        counts: fixture.room(3)?,
    };
    // Outside of graphs first, so that kernels are loaded.
    state.mesh.overlap_lists(stream, &state.boxes, Overlap::Faces)?;
    let mut graph = device.context().capture(state, |stream, state| {
        let State { mesh, boxes, offsets, faces, counts } = state;
        mesh.refit(stream)?;
        mesh.overlap_lists_into(stream, &*boxes, Overlap::Faces, offsets, faces)?;
        mesh.count_overlaps(stream, &*boxes, Overlap::Boxes, counts)
    })?;
    for shift in [0.0, 0.25, -0.5] {
        host.translate([shift; 3]);
        let points = graph.state_mut().mesh.points_mut();
        points.ok_or_else(|| Failure::new("points of its own"))?.upload(stream, &host.points)?;
        graph.launch(stream)?;
        let fresh = fixture.mesh(&host, MeshOptions::default())?;
        let there = fixture.upload(&boxes)?;
        let lists = fresh.overlap_lists(stream, &there, Overlap::Faces)?;
        let (offsets, faces) = (lists.offsets.to_vec(stream)?, lists.indices.to_vec(stream)?);
        let mut counts = fixture.room::<u32>(3)?;
        fresh.count_overlaps(stream, &there, Overlap::Boxes, &mut counts)?;
        let state = graph.state();
        ensure_eq!(state.offsets.to_vec(stream)?, offsets);
        ensure_eq!(state.faces.slice(..faces.len())?.to_vec(stream)?, faces);
        ensure_eq!(state.counts.to_vec(stream)?, counts.to_vec(stream)?);
    }
    Ok(())
}

fn overlaps_refuse_what_does_not_fit(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mesh = fixture.mesh(&shapes::cube(2.0)?, MeshOptions::default())?;
    let boxes = fixture.upload(&[Aabb { lower: [0.0; 3], upper: [1.0; 3] }; 3])?;
    let rays = fixture.upload(&[Ray::new([0.0; 3], [1.0; 3]); 3])?;
    let centers = fixture.upload(&[[0.0f32; 3]; 3])?;
    let (two, three) = (fixture.upload(&[1.0f32; 2])?, fixture.upload(&[1.0f32; 3])?);
    let mut counts = fixture.upload(&[7u32; 3])?;
    let mut short = fixture.upload(&[7u32; 2])?;
    let (mut offsets, mut faces) = (fixture.upload(&[7u64; 3])?, fixture.upload(&[7u32; 9])?);
    let says = |refused: cuda_safe::Result<()>, what: &str| -> TestResult {
        let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(text.contains(what), "{text:?}, not {what}");
        Ok(())
    };
    for of in [Overlap::Faces, Overlap::Boxes] {
        let mut count = |queries| mesh.count_overlaps(stream, queries, of, &mut counts);
        says(count(BvhQueries::rays(&rays)), "rays overlap nothing")?;
        says(count(BvhQueries::spheres(&centers, -1.0)), "no radius")?;
        says(count(BvhQueries::spheres(&centers, f32::NAN)), "no radius")?;
        says(count(BvhQueries::spheres(&centers, 0.0).within_each(&two)), "2 radii for 3")?;
        says(mesh.count_overlaps(stream, &boxes, of, &mut short), "room for 2 counts, and 3 are")?;
        let listed = mesh.overlap_lists_into(stream, &boxes, of, &mut offsets, &mut faces);
        says(listed, "room for 3 offsets, and 4 are")?;
        ensure_eq!(counts.to_vec(stream)?, [7; 3]);
        ensure_eq!((short.to_vec(stream)?, faces.to_vec(stream)?), (vec![7; 2], vec![7; 9]));
        mesh.count_overlaps(
            stream,
            BvhQueries::spheres(&centers, 0.0).within_each(&three),
            of,
            &mut counts,
        )?;
        // Of the cube from -1 to 1 all faces touch the unit ball.
        ensure_eq!(counts.to_vec(stream)?, [12; 3]);
        counts.fill(stream, 7)?;
    }
    Ok(())
}
