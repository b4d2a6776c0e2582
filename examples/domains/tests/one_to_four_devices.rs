//! Slabs on one to four software devices: neighbours as on one device and by brute force, no particle lost, and errors
//! where there is no room.
//!
//! Without NVRTC the tests are reported as ignored, with the reason in their names.

use std::error::Error;

use cuda_nccl::{Config, raw::Nccl};
use cuda_safe::vector::Float3;
use cuda_safe::{Context, DeviceBuffer, Devices, Driver};
use domains::{Domains, Options, Particle, Room, ShardedMesh, check, compare};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::{Mesh, MeshOptions, PointQueries, Sign, shapes};
use libtest_mimic::{Arguments, Failed, Trial};

type Test = fn() -> Result<(), Box<dyn Error>>;

const TESTS: [(&str, Test); 9] = [
    ("neighbours_are_those_of_one_device_and_of_brute_force", neighbors),
    ("bounced_particles_are_where_the_host_has_them", positions),
    ("no_particle_is_lost_in_many_steps", many_steps),
    ("devices_without_peer_access_compute_the_same", without_peer_access),
    ("a_halo_or_migrants_beyond_their_room_are_errors_that_lose_nothing", overflows),
    ("all_particles_in_one_slab_are_an_error", one_slab),
    ("thin_slabs_are_an_error", thin_slabs),
    ("ranks_of_nccl_compute_the_same_and_have_the_same_errors", ranks),
    ("sharded_distances_are_those_of_one_device", sharded),
];

fn main() {
    cuda_emu::Config::from_env().devices(7).install();
    let trials = TESTS.map(|(name, test)| match nvrtc::Nvrtc::find() {
        Ok(_) => Trial::test(name, move || test().map_err(|error| Failed::from(error.to_string()))),
        Err(_) => {
            let name = format!("{name} (not run: `cargo xtask setup` first)");
            Trial::test(name, || Err("there is no NVRTC".into())).with_ignored_flag(true)
        }
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

fn contexts(count: usize) -> cuda_safe::Result<Vec<Context>> {
    let ordinals: Vec<_> = (0..count).collect();
    let devices = Devices::of(Driver::from_sys(cuda_emu::driver())?, &ordinals)?;
    Ok(devices.contexts().to_vec())
}

/// Some steps, and the results of the last one with the particles before it.
fn simulate(
    devices: usize,
    options: &Options,
    particles: &[Particle],
    steps: usize,
) -> Result<(Domains, Vec<Particle>), Box<dyn Error>> {
    let mut domains = Domains::new(&contexts(devices)?, options, particles)?;
    for _ in 1..steps {
        domains.step()?;
    }
    let before = domains.particles()?;
    domains.step()?;
    domains.check()?;
    Ok((domains, before))
}

fn neighbors() -> Result<(), Box<dyn Error>> {
    for n in [0, 1, 31, 32, 33, 3000] {
        let options = Options::of(n);
        let particles = options.random_particles(n, 5 + n as u64);
        let (one, before) = simulate(1, &options, &particles, 4)?;
        let wanted = one.neighbors()?;
        check(&options, &before, &wanted).map_err(|what| format!("{n} particles: {what}"))?;
        for devices in 2..=4 {
            let (all, there) = simulate(devices, &options, &particles, 4)?;
            let what = |what| format!("{n} particles on {devices} devices: {what}");
            compare(&all.neighbors()?, &wanted).map_err(what)?;
            if there != before {
                return Err(what("they are elsewhere".into()).into());
            }
        }
    }
    Ok(())
}

/// A short box, long steps: many bounces and migrants, slabs hardly wider than they must be.
fn positions() -> Result<(), Box<dyn Error>> {
    let options = Options { length: 0.8, radius: 0.13, time_step: 0.065, room: None };
    let n = 700;
    let mut particles = options.random_particles(n, 11);
    let mut all = Domains::new(&contexts(4)?, &options, &particles)?;
    for step in 0..60 {
        all.step()?;
        let found = all.neighbors()?;
        check(&options, &particles, &found).map_err(|what| format!("step {step}: {what}"))?;
        particles.iter_mut().for_each(|particle| options.advance(particle));
        if all.particles()? != particles {
            return Err(format!("step {step}: particles are elsewhere").into());
        }
    }
    all.check()?;
    Ok(())
}

fn many_steps() -> Result<(), Box<dyn Error>> {
    let steps: usize = match std::env::var("TEST_DEEP") {
        Ok(deep) if deep != "0" => 10_000,
        _ => 500,
    };
    let options = Options { radius: 0.15, time_step: 0.03, ..Options::of(300) };
    let mut particles = options.random_particles(300, 3);
    let mut all = Domains::new(&contexts(4)?, &options, &particles)?;
    for step in 0..steps {
        all.step()?;
        particles.iter_mut().for_each(|particle| options.advance(particle));
        if step % 100 == 99 {
            all.check().map_err(|error| format!("step {step}: {error}"))?;
        }
    }
    if all.particles()? != particles {
        return Err("particles are lost or elsewhere".into());
    }
    println!("{steps} steps");
    Ok(())
}

fn without_peer_access() -> Result<(), Box<dyn Error>> {
    let options = Options::of(500);
    let particles = options.random_particles(500, 8);
    let (wanted, _) = simulate(1, &options, &particles, 3)?;
    // Devices that no other test uses: access to them is for the whole process.
    let driver = Driver::from_sys(cuda_emu::driver())?;
    let strangers = (4..7).map(|ordinal| driver.device(ordinal)?.context());
    let strangers = strangers.collect::<cuda_safe::Result<Vec<_>>>()?;
    let mut all = Domains::new(&strangers, &options, &particles)?;
    for _ in 0..3 {
        all.step()?;
    }
    all.check()?;
    Ok(compare(&all.neighbors()?, &wanted.neighbors()?)?)
}

/// The error of the check after some steps, and that all particles are where they should be nevertheless.
fn overflow(
    options: &Options,
    particles: &[Particle],
    steps: usize,
) -> Result<String, Box<dyn Error>> {
    let mut all = Domains::new(&contexts(2)?, options, particles)?;
    let mut moved = particles.to_vec();
    for _ in 0..steps {
        all.step()?;
        moved.iter_mut().for_each(|particle| options.advance(particle));
    }
    let Err(error) = all.check() else {
        return Err(format!("no error with {:?}", options.room).into());
    };
    if all.particles()? != moved {
        return Err(format!("particles are lost after {error}").into());
    }
    Ok(error.to_string())
}

fn overflows() -> Result<(), Box<dyn Error>> {
    let n = 200;
    let options = Options { radius: 0.1, time_step: 0.05, ..Options::of(n) };
    // All fly to the right, through the middle, in a crowd that is at first away from the face.
    let mut particles = options.random_particles(n, 21);
    for particle in &mut particles {
        particle.position[0] = 0.2 + 0.1 * particle.position[0];
        particle.velocity[0] = 1.0;
    }
    let room = Room { own: n, halo: n, migrants: n };
    let with = |room| Options { room: Some(room), ..options };
    let text = overflow(&with(Room { halo: 50, ..room }), &particles, 5)?;
    if !text.contains("200 particles of the halo to the right, and room for 50") {
        return Err(text.into());
    }
    let text = overflow(&with(Room { migrants: 10, ..room }), &particles, 6)?;
    if !(text.contains("leave to the right in a step") && text.contains("room for 10")) {
        return Err(text.into());
    }
    let mut all = Domains::new(&contexts(2)?, &with(room), &particles)?;
    for _ in 0..12 {
        all.step()?;
    }
    all.check()?;
    let few = with(Room { own: n, halo: 0, migrants: n });
    let Err(error) = Domains::new(&contexts(4)?, &few, &particles) else {
        return Err("a halo without room is no error".into());
    };
    let text = error.to_string();
    if !(text.contains("in its halo") && text.contains("room for 0")) {
        return Err(text.into());
    }
    Ok(())
}

fn one_slab() -> Result<(), Box<dyn Error>> {
    let n = 2000;
    let options = Options::of(n);
    let mut particles = options.random_particles(n, 4);
    for particle in &mut particles {
        particle.position[0] *= 0.1;
    }
    let Err(error) = Domains::new(&contexts(4)?, &options, &particles) else {
        return Err("2000 particles in a slab with room for 698 are no error".into());
    };
    let text = error.to_string();
    if !(text.contains("slab 0, x from 0 to 0.25: 2000 particles")
        && text.contains("and room for 698"))
    {
        return Err(text.into());
    }
    // With room for them they may, and may gather in one slab later.
    let room = Room { own: n, halo: n, migrants: n };
    let options = Options { room: Some(room), ..options };
    let (all, before) = simulate(4, &options, &particles, 3)?;
    check(&options, &before, &all.neighbors()?)?;
    // Those of the right half fly into the left one, which has no room for all: some are lost, and counted.
    for (i, particle) in particles.iter_mut().enumerate() {
        particle.position[0] = 0.5 * (i % 2) as f32 + 0.2 * i as f32 / n as f32;
        particle.velocity[0] = if i % 2 == 0 { 0.0 } else { -1.0 };
    }
    let room = Room { own: 1100, halo: 120, migrants: 60 };
    let crowd = Options { room: Some(room), radius: 0.01, time_step: 0.005, length: 1.0 };
    let mut all = Domains::new(&contexts(2)?, &crowd, &particles)?;
    for _ in 0..45 {
        all.step()?;
    }
    let Err(error) = all.check() else {
        return Err("2000 particles in a slab with room for 1100 are no error".into());
    };
    let text = error.to_string();
    let there = all.slabs()[0].particles()?.len();
    let right = all.slabs()[1].particles()?.len();
    let lost =
        format!("slab 0: {} arrivals find no place among 1520", n.saturating_sub(there + right));
    if !text.contains(&lost) || there >= n {
        return Err(format!("{text}; not {lost}").into());
    }
    Ok(())
}

fn thin_slabs() -> Result<(), Box<dyn Error>> {
    let options = Options { radius: 0.3, ..Options::of(100) };
    let particles = options.random_particles(100, 1);
    Domains::new(&contexts(3)?, &options, &particles)?;
    let Err(error) = Domains::new(&contexts(4)?, &options, &particles) else {
        return Err("slabs of 0.25 with a radius of 0.3 are no error".into());
    };
    let text = error.to_string();
    if !text.contains("4 slabs of 0.25 are thinner than the radius, 0.3") {
        return Err(text.into());
    }
    Ok(())
}

fn ranks() -> Result<(), Box<dyn Error>> {
    // SAFETY: the functions have the ABI of nccl.h, and use the driver that is named first.
    let library = unsafe {
        assert!(nccl_emu::use_driver(cuda_emu::driver()));
        Nccl::from_resolver(&nccl_emu::resolve)?
    };
    let config = Config::new().library(library);
    let options = Options::of(900);
    let particles = options.random_particles(900, 13);
    let (wanted, _) = simulate(1, &options, &particles, 20)?;
    for count in 1..=4 {
        let mut all = Domains::with_nccl(&contexts(count)?, &options, &particles, &config)?;
        for _ in 0..20 {
            all.step()?;
        }
        all.check().map_err(|error| format!("{count} ranks: {error}"))?;
        compare(&all.neighbors()?, &wanted.neighbors()?)?;
        if all.particles()? != wanted.particles()? {
            return Err(format!("{count} ranks: particles are elsewhere").into());
        }
    }
    let room = Room { own: 900, halo: 900, migrants: 3 };
    let few = Options { room: Some(room), ..options };
    let mut all = Domains::with_nccl(&contexts(2)?, &few, &particles, &config)?;
    all.step()?;
    let text = all.check().err().map_or_else(String::new, |error| error.to_string());
    if !(text.contains("in a step, and room for 3")) {
        return Err(format!("{text:?}").into());
    }
    Ok(())
}

fn sharded() -> Result<(), Box<dyn Error>> {
    let knot = shapes::knot(64, 8)?;
    let all = contexts(4)?;
    let (context, spread) = (&all[0], Options::of(1));
    let (stream, geometry) = (context.stream()?, GeometryKernels::new(context));
    let mesh = Mesh::upload(&stream, &geometry, &knot, MeshOptions::default())?;
    for n in [0, 1, 31, 32, 33, 1500] {
        let points: Vec<_> = spread
            .random_particles(n, 9)
            .iter()
            .map(|particle| Float3::from(particle.position.map(|x| 6.0 * x - 3.0)))
            .collect();
        let points = DeviceBuffer::from_slice(&stream, &points)?;
        let mut distances = DeviceBuffer::zeroed(&stream, n)?;
        mesh.signed_distances(&stream, &PointQueries::at(&points), Sign::Normal, &mut distances)?;
        let wanted = distances.to_vec(&stream)?;
        for devices in 1..=4 {
            for chunk in [1, 100, 5000] {
                if chunk == 1 && n > 33 {
                    continue;
                }
                let mut sharded = ShardedMesh::new(&all[..devices], &knot, chunk)?;
                // From the second call on the parts are of other lengths.
                for _ in 0..3 {
                    distances.fill(&stream, f32::NAN)?;
                    sharded.signed_distances(&points, &mut distances)?;
                    if distances.to_vec(&stream)? != wanted {
                        return Err(
                            format!("{n} points, {devices} devices, chunks of {chunk}").into()
                        );
                    }
                }
            }
        }
    }
    Ok(())
}
