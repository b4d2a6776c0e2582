//! Particles in slabs on several devices: steps, checks, times; and mesh queries on all devices (`domains mesh`).

use std::error::Error;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use cuda_nccl::Config;
use cuda_safe::{Context, Devices, Driver};
use domains::{Domains, Options, Particle};
use rayon::prelude::*;

mod queries;
mod time;

/// Moves particles in a box that is cut into a slab for each device, and sums over their neighbours.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// How many devices [default: all]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    devices: Option<u32>,
    /// Exchanges messages by NCCL, with so many ranks in this process, each on a device
    #[arg(long, conflicts_with = "devices", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Is one process of several, with a rank of NCCL each: a new file, by which rank 0 passes an identifier
    #[arg(long, requires = "rank", requires = "of", conflicts_with_all = ["devices", "ranks", "time"])]
    id_file: Option<PathBuf>,
    /// The rank of this process, which takes the device of that number, modulo the number of devices
    #[arg(long, requires = "id_file")]
    rank: Option<u32>,
    /// How many processes there are
    #[arg(long, requires = "id_file", value_parser = clap::value_parser!(u32).range(1..))]
    of: Option<u32>,
    /// How many particles [default: 8000000, or 10000 in software]
    #[arg(long)]
    particles: Option<u32>,
    /// How many steps [default: 1000, or 10 in software]
    #[arg(long)]
    steps: Option<u64>,
    /// Up to where particles are neighbours [default: 32 neighbours on average]
    #[arg(long)]
    radius: Option<f32>,
    /// The seed of positions and velocities
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Compares the last step with the same on one device and with brute force
    #[arg(long)]
    check: bool,
    /// Prints times instead: a step against its parts, and several devices against one
    #[arg(long)]
    time: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Computes signed distances of points on one device, by all devices
    Mesh(queries::Arguments),
}

/// After how many steps the host checks that everything has room.
const CHECKED: u64 = 100;

fn main() -> ExitCode {
    match start(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    match &arguments.command {
        Some(Command::Mesh(mesh)) => {
            let (contexts, software) = devices(mesh.devices, None)?;
            queries::run(mesh, &contexts, software)
        }
        None => {
            let wanted = arguments.devices.or(arguments.ranks);
            let (contexts, software) = devices(wanted, arguments.rank)?;
            run(arguments, &contexts, software)
        }
    }
}

/// Opens so many devices, or all, or the one of a rank; says whether they are software.
fn devices(wanted: Option<u32>, rank: Option<u32>) -> Result<(Vec<Context>, bool), Box<dyn Error>> {
    let driver = Driver::load().unwrap_or_else(|error| {
        eprintln!("no device to run on: {error}");
        std::process::exit(3)
    });
    let all = driver.device_count();
    if all == 0 {
        eprintln!("no device to run on: the driver shows none");
        std::process::exit(3)
    }
    let ordinals: Vec<_> = match (rank, wanted.map_or(all, |wanted| wanted as usize)) {
        (Some(rank), _) => vec![rank as usize % all],
        (None, wanted) if wanted <= all => (0..wanted).collect(),
        (None, wanted) => {
            return Err(
                format!("{wanted} devices are asked for, and the driver shows {all}").into()
            );
        }
    };
    let contexts = Devices::of(driver, &ordinals)?.contexts().to_vec();
    let mut software = false;
    for context in &contexts {
        let name = context.device().name()?;
        println!("device: {name}");
        software |= name.contains("software");
    }
    Ok((contexts, software))
}

fn run(arguments: &Arguments, contexts: &[Context], software: bool) -> Result<(), Box<dyn Error>> {
    let n = arguments.particles.unwrap_or(if software { 10_000 } else { 8_000_000 }) as usize;
    let mut options = Options::of(n);
    if let Some(radius) = arguments.radius {
        options = Options { radius, time_step: 0.1 * radius, ..options };
    }
    if arguments.time {
        let runs = if software { 2 } else { 100 };
        let nccl = arguments.ranks.is_some();
        return time::table(contexts, &options, n, arguments.seed, runs, nccl);
    }
    let steps = arguments.steps.unwrap_or(if software { 10 } else { 1000 });
    let particles = options.random_particles(n, arguments.seed);
    let mut all = match (&arguments.id_file, arguments.ranks) {
        (Some(_), _) => one_rank(arguments, contexts, &options, &particles, steps)?,
        (None, Some(_)) => Domains::with_nccl(contexts, &options, &particles, &Config::new())?,
        (None, None) => Domains::new(contexts, &options, &particles)?,
    };
    println!("{n} particles, radius {}, {steps} steps", options.radius);
    let (mut milliseconds, mut done) = (0.0, 0);
    while done < steps {
        let count = (steps - done).min(CHECKED);
        milliseconds +=
            time::milliseconds(&mut all, |all| (0..count).try_for_each(|_| all.step()))?;
        done += count;
        all.check().map_err(|error| format!("after {done} steps: {error}"))?;
    }
    if !software {
        println!("{:.3} ms a step", milliseconds / steps.max(1) as f32);
    }
    println!("no particle is lost");
    if arguments.check && steps > 0 {
        compare(&all, &contexts[..1], &options, particles, steps, arguments.id_file.is_some())?;
    }
    Ok(())
}

/// Compares the last step with the same on one device, and with brute force: of this process, if there are others.
fn compare(
    all: &Domains,
    one: &[Context],
    options: &Options,
    mut particles: Vec<Particle>,
    steps: u64,
    has_others: bool,
) -> Result<(), Box<dyn Error>> {
    particles.par_iter_mut().for_each(|particle| {
        (1..steps).for_each(|_| options.advance(particle));
    });
    if has_others {
        for slab in all.slabs() {
            println!("{}", domains::check(options, &particles, &slab.neighbors()?)?);
        }
        return Ok(());
    }
    let found = all.neighbors()?;
    println!("{}", domains::check(options, &particles, &found)?);
    let mut one = Domains::new(one, options, &particles)?;
    one.step()?;
    domains::compare(&found, &one.neighbors()?)?;
    if all.particles()? != one.particles()? {
        return Err("particles are elsewhere than on one device".into());
    }
    println!("and all {} with one device", particles.len());
    Ok(())
}

/// The slab of this process, if each is a process.
fn one_rank(
    arguments: &Arguments,
    contexts: &[Context],
    options: &Options,
    particles: &[Particle],
    steps: u64,
) -> Result<Domains, Box<dyn Error>> {
    let (Some(path), Some(rank), Some(of)) = (&arguments.id_file, arguments.rank, arguments.of)
    else {
        return Err("--id-file, --rank and --of belong together".into());
    };
    let [rank, of] = [rank as usize, of as usize];
    let context = contexts.first().ok_or("no device")?;
    let id = domains::share_id(path, rank, Duration::from_secs(60))?;
    let (ranks, config) = ([rank, of], Config::new());
    // SAFETY: all processes run this program, which makes the same calls for the same particles, options and steps; the
    // identifier is from rank 0.
    let made = unsafe { Domains::rank(context, options, particles, steps, id, ranks, &config) };
    if rank == 0 {
        // All have read it, or never will.
        std::fs::remove_file(path)?;
    }
    println!("rank {rank} of {of}");
    Ok(made?)
}
