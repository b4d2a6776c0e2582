//! Particles in slabs on several devices: steps, checks, times; and mesh queries on all devices (`domains mesh`).

use std::error::Error;

use clap::{Parser, Subcommand};
use cuda_safe::{Context, Driver};
use domains::{Domains, Options};

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

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    match &arguments.command {
        Some(Command::Mesh(mesh)) => {
            let (contexts, software) = devices(mesh.devices)?;
            queries::run(mesh, &contexts, software)
        }
        None => {
            let (contexts, software) = devices(arguments.devices)?;
            run(&arguments, &contexts, software)
        }
    }
}

/// Opens so many devices, or all; says whether they are software.
fn devices(wanted: Option<u32>) -> Result<(Vec<Context>, bool), Box<dyn Error>> {
    let all = Driver::load().map(|driver| driver.devices().collect::<Vec<_>>());
    let all = all.unwrap_or_else(|error| {
        eprintln!("no device to run on: {error}");
        std::process::exit(3)
    });
    if all.is_empty() {
        eprintln!("no device to run on: the driver shows none");
        std::process::exit(3)
    }
    let wanted = wanted.map_or(all.len(), |wanted| wanted as usize);
    if wanted > all.len() {
        return Err(
            format!("{wanted} devices are asked for, and the driver shows {}", all.len()).into()
        );
    }
    let contexts =
        all.iter().take(wanted).map(|device| device.context()).collect::<Result<Vec<_>, _>>()?;
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
        return time::table(contexts, &options, n, arguments.seed, runs);
    }
    let steps = arguments.steps.unwrap_or(if software { 10 } else { 1000 });
    let particles = options.random_particles(n, arguments.seed);
    let mut all = Domains::new(contexts, &options, &particles, true)?;
    println!("{n} particles, radius {}, {} slabs, {steps} steps", options.radius, contexts.len());
    let mut before = None;
    let mut milliseconds = 0.0;
    let mut done = 0;
    while done < steps {
        // The last one alone: what it begins with is compared.
        let last = arguments.check && done + 1 == steps;
        let left = steps - done - u64::from(arguments.check && !last);
        let count = left.min(CHECKED);
        if last {
            before = Some(all.particles()?);
        }
        milliseconds +=
            time::milliseconds(&mut all, |all| (0..count).try_for_each(|_| all.step()))?;
        done += count;
        all.check().map_err(|error| format!("after {done} steps: {error}"))?;
    }
    println!("{:.3} ms a step; no particle is lost", milliseconds / steps.max(1) as f32);
    if let Some(before) = before {
        let found = all.neighbors()?;
        println!("{}", domains::check(&options, &before, &found)?);
        let mut one = Domains::new(&contexts[..1], &options, &before, false)?;
        one.step()?;
        domains::compare(&found, &one.neighbors()?)?;
        if all.particles()? != one.particles()? {
            return Err("particles are elsewhere than on one device".into());
        }
        println!("and all {n} with one device");
    }
    Ok(())
}
