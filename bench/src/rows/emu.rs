//! How fast the software device runs. Needs no GPU.

use serde_json::json;

use super::{Bench, Work};
use crate::emu::{Machine, PTX, nearest_brute_force, tree};
use crate::report::{Row, Unit};
use crate::stats::median;
use crate::stop::Stop;

pub(super) const WORKS: &[Work] = &[
    Work { names: &["emu/straight_f32/1", "emu/straight_f32/all"], run: straight },
    Work { names: &["emu/tree/1", "emu/tree/all"], run: walk },
    Work { names: &["emu/saxpy/16777216/1", "emu/saxpy/16777216/all"], run: saxpy },
    Work { names: &["emu/load_ptx/400KB"], run: load },
];

/// Launches of each row.
const SAMPLES: usize = 5;

/// One worker, and as many as there are cores.
fn workers() -> [(&'static str, usize); 2] {
    [("1", 1), ("all", std::thread::available_parallelism().map_or(1, usize::from))]
}

/// Milliseconds and 10⁹ lane-instructions per second of launches.
fn timed(
    machine: &Machine,
    name: &str,
    workers: usize,
    grid: u32,
    arguments: &[u64],
) -> Result<(Vec<f64>, f64), Stop> {
    let runs = (0..SAMPLES)
        .map(|_| machine.launch(name, workers, grid, arguments))
        .collect::<Result<Vec<_>, _>>()?;
    let milliseconds: Vec<f64> = runs.iter().map(|(seconds, _)| seconds * 1e3).collect();
    let instructions = runs.first().map_or(0.0, |(_, count)| *count);
    let rate = instructions / (median(&milliseconds) / 1e3) / 1e9;
    Ok((milliseconds, rate))
}

fn row(work: String, workers: usize, milliseconds: &[f64], check: String) -> Row {
    Row::new(&work, Unit::Ms, milliseconds)
        .check(check)
        .device("software device")
        .extra("workers", json!(workers))
}

fn straight(_: &Bench) -> Result<Vec<Row>, Stop> {
    const ROUNDS: usize = 200;
    let machine = Machine::new()?;
    let out = machine.upload(&vec![0f32; 64 * 256])?;
    let (a, b) = (0.999f32, 0.5f32);
    let bits = |x: f32| u64::from(x.to_bits());
    // The kernel's four chains, for each of a block's threads.
    let chain = |start: f32| (0..ROUNDS * 16).fold(start, |x, _| x.mul_add(a, b));
    let expected: Vec<f32> = (0..256)
        .map(|thread| {
            let x = thread as f32;
            chain(x) + chain(x + 1.0) + chain(x + 2.0) + chain(x + 3.0)
        })
        .collect();
    workers()
        .into_iter()
        .map(|(label, workers)| {
            let arguments = [out, bits(a), bits(b), ROUNDS as u64];
            let (times, rate) = timed(&machine, "chains", workers, 64, &arguments)?;
            let got = machine.download(out, 64 * 256);
            if got.chunks(256).any(|block| block != expected) {
                return Err(Stop::failed("the chains differ from the host's"));
            }
            let check = "every sum equals the host's fused multiply-adds".to_owned();
            Ok(row(format!("emu/straight_f32/{label}"), workers, &times, check)
                .figure("glips", rate)
                .note(format!("{rate:.2} G lane-instructions/s"))
                .at_least("glips per worker", rate / workers as f64, 3.0))
        })
        .collect()
}

fn walk(_: &Bench) -> Result<Vec<Row>, Stop> {
    let mut random = 1u64;
    let mut next = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 40) as f32 / (1 << 24) as f32
    };
    let mut points: Vec<[f32; 3]> = (0..20_000).map(|_| [next(), next(), next()]).collect();
    let queries: Vec<[f32; 3]> = (0..16_384).map(|_| [next(), next(), next()]).collect();
    let nodes = tree(&mut points);
    let machine = Machine::new()?;
    let out = machine.upload(&vec![0f32; queries.len()])?;
    let arguments = [
        machine.upload(&nodes)?,
        machine.upload(&points)?,
        machine.upload(&queries)?,
        out,
        queries.len() as u64,
    ];
    workers()
        .into_iter()
        .map(|(label, workers)| {
            let (times, rate) = timed(&machine, "nearest", workers, 64, &arguments)?;
            let got = machine.download(out, queries.len());
            for (query, got) in queries.iter().zip(&got).step_by(64) {
                let exact = nearest_brute_force(&points, *query);
                if (f64::from(*got) - exact).abs() > 1e-6 * exact + 1e-12 {
                    return Err(Stop::failed(format!("{got} is not the distance {exact}")));
                }
            }
            let check = "256 distances equal brute force in f64 to 1e-6".to_owned();
            Ok(row(format!("emu/tree/{label}"), workers, &times, check)
                .figure("glips", rate)
                .note(format!("{rate:.2} G lane-instructions/s"))
                .at_least("glips per worker", rate / workers as f64, 0.5))
        })
        .collect()
}

fn saxpy(_: &Bench) -> Result<Vec<Row>, Stop> {
    const N: usize = 1 << 24;
    let machine = Machine::new()?;
    let x = machine.upload(&vec![1f32; N])?;
    let y = machine.upload(&vec![2f32; N])?;
    let arguments = [N as u64, u64::from(0.5f32.to_bits()), x, y];
    let mut launches = 0;
    workers()
        .into_iter()
        .map(|(label, workers)| {
            let (times, _) = timed(&machine, "saxpy", workers, 65_536, &arguments)?;
            launches += SAMPLES;
            let expected = 2.0 + 0.5 * launches as f32;
            if machine.download(y, N).iter().any(|y| *y != expected) {
                return Err(Stop::failed("an element of y is wrong"));
            }
            let seconds = median(&times) / 1e3;
            let check = format!("all {N} elements equal {expected}");
            let row = row(format!("emu/saxpy/16777216/{label}"), workers, &times, check);
            Ok(if label == "all" { row.at_most("seconds", seconds, 0.25) } else { row })
        })
        .collect()
}

fn load(_: &Bench) -> Result<Vec<Row>, Stop> {
    // The same kernels under many names.
    let ptx = PTX.unpack()?;
    let (head, kernels) = ptx.split_once(".visible").unwrap_or((&ptx, ""));
    let mut text = head.to_owned();
    let mut copies = 0;
    while text.len() < 400_000 && !kernels.is_empty() {
        text.push_str(".visible");
        let renamed = ["chains", "saxpy", "nearest"]
            .iter()
            .fold(kernels.to_owned(), |text, name| text.replace(name, &format!("{name}{copies}")));
        text.push_str(&renamed);
        copies += 1;
    }
    let machine = Machine::new()?;
    let mut milliseconds = Vec::new();
    for _ in 0..SAMPLES {
        let (seconds, kernels) = machine.load(&text)?;
        if kernels != 3 * copies {
            return Err(Stop::failed(format!("{kernels} kernels instead of {}", 3 * copies)));
        }
        milliseconds.push(seconds * 1e3);
    }
    let check = format!("{} kernels in {} bytes", 3 * copies, text.len());
    Ok(vec![row("emu/load_ptx/400KB".to_owned(), 1, &milliseconds, check).at_most(
        "ms",
        median(&milliseconds),
        100.0,
    )])
}
