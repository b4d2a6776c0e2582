//! Times by events: a step against its parts, and several devices against one.

use std::error::Error;

use cuda_nccl::{Config, Result};
use cuda_safe::{Context, Event};
use domains::{Domains, Options, Slab};

/// Records an event on the stream of each slab.
fn record(slabs: &[Slab]) -> cuda_safe::Result<Vec<Event>> {
    let event = |slab: &Slab| {
        let event = Event::timing(&slab.stream().context())?;
        event.record(slab.stream())?;
        Ok(event)
    };
    slabs.iter().map(event).collect()
}

/// Milliseconds of some work on all devices: of the one that takes longest, between two events on its stream.
pub(crate) fn milliseconds(
    domains: &mut Domains,
    work: impl FnOnce(&mut Domains) -> Result<()>,
) -> Result<f32> {
    domains.slabs().iter().try_for_each(|slab| slab.stream().synchronize())?;
    let begin = record(domains.slabs())?;
    work(domains)?;
    let end = record(domains.slabs())?;
    let mut most = 0.0f32;
    for (begin, end) in begin.iter().zip(&end) {
        end.synchronize()?;
        most = most.max(begin.elapsed_ms(end)?);
    }
    Ok(most)
}

/// Milliseconds of one of `runs`, after some to warm up.
fn each(
    domains: &mut Domains,
    runs: u16,
    work: impl Fn(&mut Domains) -> Result<()>,
) -> Result<f32> {
    milliseconds(domains, |domains| (0..runs.min(5)).try_for_each(|_| work(domains)))?;
    let all = milliseconds(domains, |domains| (0..runs).try_for_each(|_| work(domains)))?;
    Ok(all / f32::from(runs))
}

/// Milliseconds of the parts of a step, means over devices and `runs`: the grid, the sum, the messages, the arrivals. The
/// messages are those of the device that waits least for its neighbour, and the wait of the others comes last.
fn parts(domains: &mut Domains, runs: u16) -> Result<[f32; 5]> {
    let mut events = Vec::new();
    for _ in 0..runs {
        let mut marks = vec![record(domains.slabs())?];
        domains.step_in_parts(|slabs| {
            marks.push(record(slabs)?);
            Ok(())
        })?;
        events.push(marks);
    }
    let mut sums = [0.0; 5];
    for marks in events {
        for (part, pair) in marks.windows(2).enumerate() {
            let [begin, end] = pair else { continue };
            let times = begin.iter().zip(end).map(|(begin, end)| {
                end.synchronize()?;
                begin.elapsed_ms(end)
            });
            let times = times.collect::<cuda_safe::Result<Vec<_>>>()?;
            let mean = times.iter().sum::<f32>() / times.len() as f32;
            if part == 2 {
                let least = times.iter().copied().fold(f32::INFINITY, f32::min);
                sums[2] += least;
                sums[4] += mean - least;
            } else {
                sums[part] += mean;
            }
        }
    }
    Ok(sums.map(|sum| sum / f32::from(runs)))
}

/// Prints how long steps take: of `n` particles on one device, of `n` on each device, and of `n` in all.
pub(crate) fn table(
    contexts: &[Context],
    options: &Options,
    n: usize,
    seed: u64,
    runs: u16,
    nccl: bool,
) -> std::result::Result<(), Box<dyn Error>> {
    let step_of = |contexts: &[Context], options: &Options, n: usize| {
        let particles = options.random_particles(n, seed);
        let mut domains = if nccl {
            Domains::with_nccl(contexts, options, &particles, &Config::new())?
        } else {
            Domains::new(contexts, options, &particles)?
        };
        let step = each(&mut domains, runs, Domains::step)?;
        domains.check()?;
        Ok::<_, cuda_nccl::Error>((step, domains))
    };
    println!("{n} particles, radius {}; milliseconds of a step, of {runs}", options.radius);
    let (one, mut domains) = step_of(&contexts[..1], options, n)?;
    let rebuild = each(&mut domains, runs, |domains| {
        Ok(domains.slabs_mut().iter_mut().try_for_each(Slab::rebuild)?)
    })?;
    let sum = each(&mut domains, runs, |domains| {
        Ok(domains.slabs_mut().iter_mut().try_for_each(Slab::sum_alone)?)
    })?;
    drop(domains);
    println!(
        "one device: {one:.4}; grid {rebuild:.4} and sum {sum:.4}: {:.3} times these",
        one / (rebuild + sum)
    );
    for devices in 2..=contexts.len() {
        let contexts = &contexts[..devices];
        let longer = Options { length: devices as f32, ..*options };
        let (weak, mut domains) = step_of(contexts, &longer, n * devices)?;
        let [grid, sum, messages, arrivals, waits] = parts(&mut domains, runs)?;
        drop(domains);
        let (strong, _) = step_of(contexts, options, n)?;
        println!(
            "{devices} devices: {n} on each {weak:.4}, efficiency {:.3}; {n} in all {strong:.4}, {:.2} times as fast",
            one / weak,
            one / strong
        );
        println!(
            "  of {n} on each: grid {grid:.4}, sum {sum:.4}, messages {messages:.4}, arrivals {arrivals:.4}, waits for \
             neighbours {waits:.4}"
        );
    }
    Ok(())
}
