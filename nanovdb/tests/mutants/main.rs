//! Grids that are wrong in some place: the library refuses them, or they do no harm.
//!
//! Small valid grids are changed in places that mean something ([`samples`], [`mutate`]). Code that trusts every
//! offset, as devices do, then follows each accepted grid to the end ([`follow`]). Files are changed, too, and the
//! grids read from them are followed ([`files`]).
//!
//! `TEST_DEEP` asks for ten million mutants, a hundred million of heads and a million of files,
//! `MUTANTS` for a number of each.

mod files;

use std::collections::BTreeMap;
use std::time::Instant;

use mutate::{Mutant, Random};
use nanovdb::Grid;
use samples::Sample;
use test_support::nvdb::{follow, layouts, mutate, samples};
use test_support::sample::deep;

/// The checks that look no further than the head.
const HEAD: [&str; 9] =
    ["size", "magic", "version", "type", "class", "grid-index", "name", "map", "voxel-size"];

/// How many mutants: few, or many where they are asked for.
fn count(few: usize, many: usize) -> usize {
    let asked = std::env::var("MUTANTS").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(if deep() { many } else { few })
}

/// The checks that mutants failed, and how many each of them; those that failed none under `""`.
type Outcomes = BTreeMap<&'static str, usize>;

/// Changes samples in turn, so and so often.
fn run(
    samples: &[Sample],
    seed: u64,
    count: usize,
    change: fn(&mut Mutant<'_>, &mut Random),
) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let mut random = Random::new(seed);
    let mut mutants: Vec<_> = samples.iter().map(Mutant::new).collect();
    // Many of one sample in a row: it stays in the cache.
    let row = (count / samples.len() / 16).clamp(1, 1000);
    for n in 0..count {
        let mutant = &mut mutants[n / row % samples.len()];
        change(mutant, &mut random);
        let check = match Grid::validate(mutant.bytes()) {
            Ok(()) => {
                let near = |random: &mut Random| random.below(12_288) as i32 - 4096;
                let points = [(); 4].map(|()| [(); 3].map(|()| near(&mut random)));
                follow::follow(mutant.bytes(), &points);
                ""
            }
            Err(error) => error.check(),
        };
        *outcomes.entry(check).or_default() += 1;
        mutant.restore();
    }
    outcomes
}

/// [`run`] on all cores.
fn run_all(samples: &[Sample], count: usize, change: fn(&mut Mutant<'_>, &mut Random)) -> Outcomes {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let start = Instant::now();
    let mut outcomes = Outcomes::new();
    std::thread::scope(|scope| {
        let run = |n| scope.spawn(move || run(samples, n, count.div_ceil(threads), change));
        let runs: Vec<_> = (1..=threads as u64).map(run).collect();
        for (check, count) in runs.into_iter().flat_map(|run| run.join().expect("a run")) {
            *outcomes.entry(check).or_default() += count;
        }
    });
    print(&outcomes, samples.len(), start);
    outcomes
}

/// The outcomes of mutants, and the time.
fn print(outcomes: &Outcomes, samples: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let total: usize = outcomes.values().sum();
    let percent = |count: usize| 100.0 * count as f64 / total as f64;
    println!("{total} mutants of {samples}, {:.0} per second", total as f64 / seconds);
    println!("{:5.1} % past the head", percent(total - heads(outcomes)));
    for (check, count) in outcomes {
        let check = if check.is_empty() { "accepted" } else { check };
        println!("{:5.1} % {check}", percent(*count));
    }
}

/// How many failed at a check of the head.
fn heads(outcomes: &Outcomes) -> usize {
    HEAD.iter().filter_map(|check| outcomes.get(check)).sum()
}

#[test]
fn samples_are_valid() {
    for sample in samples::all() {
        let code = sample.layout.code;
        let valid = Grid::validate(&sample.bytes);
        assert!(valid.is_ok(), "type {code}: {}", valid.unwrap_err());
        let nodes = sample.children.len();
        assert_eq!(follow::follow(&sample.bytes, &[[0; 3], [-1; 3]]), nodes, "type {code}");
        assert_eq!(Grid::from_bytes(&sample.bytes).expect("valid").bytes(), sample.bytes);
        // Taking back leaves nothing.
        let mut random = Random::new(7);
        let mut mutant = Mutant::new(&sample);
        for _ in 0..200 {
            mutant.mutate(&mut random);
            mutant.restore();
            assert!(mutant.bytes() == sample.bytes, "type {code}");
        }
    }
}

#[test]
fn mutants_do_no_harm() {
    let samples = samples::all();
    let outcomes =
        run_all(&samples, count(100_000, 10_000_000), |mutant, random| mutant.mutate(random));
    let total: usize = outcomes.values().sum();
    let past = total - heads(&outcomes);
    assert!(10 * past > 3 * total, "only {past} of {total} get past the head");
    let accepted = outcomes.get("").copied().unwrap_or_default();
    assert!(20 * accepted > total && 2 * accepted < total, "{accepted} of {total} accepted");
    // Each check has something to do.
    let nodes = [
        "offset",
        "root-key",
        "mask",
        "child",
        "parent",
        "origin",
        "box",
        "voxel-count",
        "index",
        "blind",
        "checksum",
    ];
    for check in HEAD.iter().chain(&nodes) {
        assert!(outcomes.contains_key(check), "none failed at {check}");
    }
}

#[test]
fn mutants_of_heads_do_no_harm() {
    let mut samples = samples::all();
    samples.retain(|sample| sample.bytes.len() < 4096);
    let outcomes =
        run_all(&samples, count(300_000, 100_000_000), |mutant, random| mutant.mutate_head(random));
    let total: usize = outcomes.values().sum();
    assert!(heads(&outcomes) > total / 4, "{} of {total}", heads(&outcomes));
    assert!(outcomes.contains_key(""));
}
