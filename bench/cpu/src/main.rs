//! Structures on the CPU beside parry3d and Warp's CPU device: one core against one core, from the same inputs, in turns.
//! Results are compared before they are timed. The last rows compare two cores with one.
//!
//! `bench-cpu [PYTHONPATH]`: a folder with the packages `warp` and `numpy`. Without it Warp's rows are missing.

mod grains;
#[path = "../../../examples/dem/src/step.rs"]
mod step;
mod warp;
mod work;

use std::error::Error;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use warp::Warp;
use work::Work;

/// The samples of each row.
const SAMPLES: usize = 9;
/// The runs of a sample of one core against two.
const REPEATS: usize = 5;

/// Returns the seconds of processor time that this process has used.
fn used() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

fn pool(threads: usize) -> Result<rayon::ThreadPool, rayon::ThreadPoolBuildError> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build()
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("bench-cpu-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = run(&folder);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn run(folder: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let mut rows = work::rows(folder)?;
    let mut warp = std::env::args().nth(1).map(|path| Warp::start(&path, folder)).transpose()?;
    let (one, two) = (pool(1)?, pool(2)?);
    println!("milliseconds of processor time, one core; medians of {SAMPLES}");
    println!(
        "{:<28}{:>9}{:>9}{:>9}{:>13}{:>12}",
        "", "ours", "parry3d", "Warp", "ours/parry3d", "ours/Warp"
    );
    for row in &mut rows {
        let (mut ours, mut parry, mut warps) = (Vec::new(), Vec::new(), Vec::new());
        for sample in 0..=SAMPLES {
            let start = used();
            one.install(|| (row.ours)())?;
            let own = used() - start;
            let start = used();
            let has_parry = row.parry.as_mut().is_some_and(|parry| parry());
            let others = used() - start;
            let theirs = warp.as_mut().map(|warp| warp.run(row.name)).transpose()?.flatten();
            // The first sample warms caches.
            if sample > 0 {
                ours.push(own * 1e3);
                parry.extend(has_parry.then_some(others * 1e3));
                warps.extend(theirs.map(|seconds| seconds * 1e3));
            }
        }
        let [ours, parry, warps] = [ours, parry, warps].map(median);
        let all = [ours, parry, warps, ours / parry, ours / warps];
        let figure = |x: f64| if x.is_nan() { "-".to_owned() } else { format!("{x:.3}") };
        let [ours, parry, warps, by_parry, by_warp] = all.map(figure);
        let name = row.name;
        println!("{name:<28}{ours:>9}{parry:>9}{warps:>9}{by_parry:>13}{by_warp:>12}");
    }
    println!("\nwall time of one core over that of two, medians of {SAMPLES} pairs");
    for Work { name, ours, .. } in &mut rows {
        let mut ratios = Vec::new();
        for _ in 0..SAMPLES {
            let mut times = [0.0; 2];
            for (pool, time) in [&one, &two].into_iter().zip(&mut times) {
                // The first run wakes the pool's threads, as the first step of a simulation does.
                *time = pool.install(|| {
                    ours()?;
                    let start = Instant::now();
                    (0..REPEATS).try_for_each(|_| ours())?;
                    Ok::<_, cuda_safe::Error>(start.elapsed().as_secs_f64())
                })?;
            }
            ratios.push(times[0] / times[1]);
        }
        println!("{name:<28}{:>9.2}", median(ratios));
    }
    Ok(())
}
