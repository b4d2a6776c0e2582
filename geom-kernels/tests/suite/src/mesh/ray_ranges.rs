//! Where rays begin and end, and lists with too little room.

use cuda_safe::DeviceBuffer;
use geom_kernels::mesh::{MeshOptions, Ray, RayHit, shapes};

use super::inputs::{Around, Input, inputs};
use super::queries::{Fixture, bits, same};
use super::ray_inputs::rays;
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh",
        device(rays_between_two_t),
        device(rays_that_hit_nothing),
        device(rays_of_any_length),
        device(segments_end),
        device(lists_of_hits_with_too_little_room),
    ]
}

/// The hits between two t are those of the whole ray that are between them, bit for bit.
fn rays_between_two_t(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(840);
    let (mut cut, mut kept) = (0, 0);
    for input in inputs(&mut rng, 0)? {
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let whole: Vec<Ray> = rays(&mut rng, &input, 150)
            .into_iter()
            .map(|ray| Ray { t_max: f32::INFINITY, ..ray })
            .collect();
        let all = fixture.hits(&mesh, &whole)?;
        let bound = |rng: &mut Rng, hits: &[RayHit]| match hits {
            [] => rng.float(),
            hits => {
                let t = hits[rng.below(hits.len())].t;
                [t, t.next_up(), t.next_down(), t * 0.5, t * 1.5][rng.below(5)]
            }
        };
        let some: Vec<Ray> = whole
            .iter()
            .zip(&all)
            .map(|(ray, hits)| match rng.below(6) {
                0 => ray.between(bound(&mut rng, hits), f32::INFINITY),
                1 => ray.between(0.0, bound(&mut rng, hits)),
                2 => ray.between(bound(&mut rng, hits), bound(&mut rng, hits)),
                // Before 0 there is nothing.
                3 => ray.between(-1.0, bound(&mut rng, hits)),
                4 => ray.between(f32::NEG_INFINITY, f32::MAX),
                _ => ray.between(-0.0, f32::INFINITY),
            })
            .collect();
        for ((ray, got), all) in some.iter().zip(fixture.hits(&mesh, &some)?).zip(&all) {
            let is_between = |hit: &&RayHit| ray.t_min <= hit.t && hit.t <= ray.t_max;
            let wanted: Vec<RayHit> = all.iter().filter(is_between).copied().collect();
            same(format!("{}, {ray:?}", input.name), &got, &wanted)?;
            cut += all.len() - wanted.len();
            kept += wanted.len();
        }
    }
    ensure!(cut > 500 && kept > 500, "{cut} {kept}");
    Ok(())
}

fn rays_that_hit_nothing(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mesh = fixture.mesh(&shapes::icosphere(1, 1.0)?, MeshOptions::default())?;
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let good = Ray::new([0.0; 3], [1.0, 2.0, 3.0]);
    let mut rays = vec![
        good.between(nan, inf),
        good.between(0.0, nan),
        good.between(nan, nan),
        good.between(1.0, 0.5),
        good.between(inf, inf),
        good.between(inf, 0.0),
        good.between(-2.0, -1.0),
        good.between(0.0, -inf),
        good.between(f32::MAX, inf),
        Ray::new([0.0; 3], [0.0; 3]),
        Ray::new([0.0; 3], [0.0, -0.0, 0.0]),
    ];
    for axis in 0..3 {
        for bad in [inf, -inf, nan] {
            let one = |x: f32| std::array::from_fn(|i| if i == axis { bad } else { x });
            rays.extend([Ray::new([0.0; 3], one(1.0)), Ray::new(one(0.0), [1.0; 3])]);
        }
        let mut origin = [0.0; 3];
        origin[axis] = 2f32.powi(60).next_up();
        rays.push(Ray::new(origin, origin.map(|x| -x)));
    }
    ensure!(fixture.hits(&mesh, &rays)?.iter().all(Vec::is_empty));
    // The others do hit: from the farthest place, and with the largest and the smallest directions.
    let most = 2f32.powi(60);
    let rays = [
        good,
        good.between(-inf, inf),
        Ray::new([most, 0.0, 0.0], [-1.0, 0.0, 0.0]),
        Ray::new([0.0; 3], [f32::MAX; 3]),
        Ray::new([0.0; 3], [f32::MIN_POSITIVE, 0.0, 0.0]),
        Ray::new([0.0; 3], [1e-38, 1e-40, -1e-42]),
    ];
    for (ray, hits) in rays.iter().zip(fixture.hits(&mesh, &rays)?) {
        ensure!(!hits.is_empty(), "{ray:?}");
    }
    let empty = fixture.mesh(&Default::default(), MeshOptions::default())?;
    ensure!(fixture.hits(&empty, &rays)?.iter().all(Vec::is_empty));
    ensure_eq!(fixture.hits(&mesh, &[])?.len(), 0);

    let (stream, there) = (&fixture.stream, fixture.upload(&rays)?);
    let mut few = fixture.room::<RayHit>(rays.len() - 1)?;
    let refused = mesh.closest_hits(stream, &there, &mut few);
    ensure_refused_for(refused, "answers")?;
    let mut offsets = fixture.room::<u64>(rays.len())?;
    let refused = mesh.all_hits_into(stream, &there, &mut offsets, &mut few);
    ensure_refused_for(refused, "offsets")?;
    Ok(())
}

/// A direction of twice the length halves every t, and changes nothing else.
fn rays_of_any_length(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(841);
    let input = Input::solid("torus", shapes::torus(1.0, 0.4, 16, 10)?)?;
    let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
    let mut once = rays(&mut rng, &input, 400);
    // No component may become one that is not a normal number.
    once.retain(|ray| ray.direction.iter().all(|x| *x == 0.0 || x.abs() > 1e-7));
    let wanted = fixture.hits(&mesh, &once)?;
    let mut compared = 0;
    for power in [1, -3, 40, -40, 100, -100] {
        let factor = 2f32.powi(power);
        let other: Vec<Ray> = once
            .iter()
            .map(|ray| {
                let direction = ray.direction.map(|x| x * factor);
                Ray { direction, ..*ray }.between(ray.t_min / factor, ray.t_max / factor)
            })
            .collect();
        for (i, got) in fixture.hits(&mesh, &other)?.into_iter().enumerate() {
            let back: Vec<RayHit> =
                got.iter().map(|hit| RayHit { t: hit.t * factor, ..*hit }).collect();
            // Such a t may be no normal number of one of the rays, or one of them 0 and the other less.
            let extreme = |hit: &RayHit| !(1e-7..1e7).contains(&hit.t);
            if wanted[i].iter().chain(&back).any(extreme) {
                continue;
            }
            compared += back.len();
            same(format!("{:?} by 2^{power}", once[i]), &back, &wanted[i])?;
        }
    }
    ensure!(compared > 1000, "{compared}");
    Ok(())
}

fn segments_end(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mesh = fixture.mesh(&shapes::cube(2.0)?, MeshOptions::default())?;
    let from = [0.25, 0.125, 0.5];
    let to = |x: f32| Ray::segment(from, [x, 0.125, 0.5]);
    let rays = [to(0.75), to(1.0), to(1f32.next_down()), to(3.0), to(-3.0), to(0.25)];
    let hits = fixture.hits(&mesh, &rays)?;
    ensure_eq!(hits.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 0, 1, 1, 0]);
    ensure_eq!(hits[1][0].t, 1.0);
    ensure_eq!((hits[1][0].front, hits[3][0].front), (0, 0));
    // Both ways through the whole cube.
    let through = [[-2.0f32, 2.0], [2.0, -2.0]];
    let rays = through.map(|[a, b]| Ray::segment([a, 0.125, 0.5], [b, 0.125, 0.5]));
    for hits in fixture.hits(&mesh, &rays)? {
        let all: Vec<_> = hits.iter().map(|hit| (hit.t, hit.front)).collect();
        ensure_eq!(all, [(0.25, 1), (0.75, 0)]);
    }
    Ok(())
}

/// What does not fit is not written, all else is, and nothing beyond.
fn lists_of_hits_with_too_little_room(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(842);
    let input = Input::new("soup", super::inputs::soup(&mut rng, 200, 1.0));
    let around = Around::new(&input);
    let rays: Vec<Ray> = (0..100)
        .map(|_| Ray::new(around.point(&mut rng), [0; 3].map(|_: i32| rng.float())))
        .collect();
    let there = fixture.upload(&rays)?;
    let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
    let lists = mesh.all_hits(stream, &there)?;
    let (wanted_offsets, wanted) = (lists.offsets.to_vec(stream)?, lists.hits.to_vec(stream)?);
    ensure!(wanted.len() > 200, "{}", wanted.len());
    let untouched = fixture.room::<RayHit>(1)?.to_vec(stream)?;
    for room in [0, 1, 2, wanted.len() / 2, wanted.len() - 1, wanted.len(), wanted.len() + 100] {
        let mut offsets = fixture.room::<u64>(rays.len() + 1)?;
        let mut hits = fixture.room::<RayHit>(wanted.len() + 200)?;
        mesh.all_hits_into(stream, &there, &mut offsets, hits.slice_mut(..room)?)?;
        ensure_eq!(offsets.to_vec(stream)?, wanted_offsets);
        let got = hits.to_vec(stream)?;
        let fits = room.min(wanted.len());
        same(format!("room for {room}"), &got[..fits], &wanted[..fits])?;
        let rest = got[fits..].iter().all(|hit| bits(&[*hit]) == bits(&untouched));
        ensure!(rest, "room for {room}");
    }
    // No rays.
    let none = DeviceBuffer::<Ray>::zeroed(stream, 0)?;
    let lists = mesh.all_hits(stream, &none)?;
    ensure_eq!(lists.offsets.to_vec(stream)?, [0]);
    ensure!(lists.hits.is_empty());
    Ok::<(), Failure>(())
}
