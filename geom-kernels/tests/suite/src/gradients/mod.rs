//! Operations of geometry on a tape, against central differences of functions in f64 that are written here.

mod compositions;
mod isosurface;
mod mesh_changes;
mod mesh_evaluate;
mod mesh_points;
mod neighbors;
mod norms;
mod queries;
mod rays;
mod reductions;
mod silent;
mod ties;
mod user;
mod vertex_normals;
mod volume;

use test_harness::{Case, Failure, Rng, TestResult, ensure};

pub(super) fn cases() -> Vec<Case> {
    [
        mesh_points::cases(),
        mesh_changes::cases(),
        mesh_evaluate::cases(),
        vertex_normals::cases(),
        isosurface::cases(),
        neighbors::cases(),
        volume::cases(),
        rays::cases(),
        reductions::cases(),
        norms::cases(),
        queries::cases(),
        compositions::cases(),
        ties::cases(),
        silent::cases(),
    ]
    .concat()
}

/// How far gradients in f32 may be off, relative to the largest.
const OF_F32: f64 = 1e-4;

/// The step of differences, and by how much slopes on both sides of it differ at most, relative to the
/// largest, where the function has no kink.
const STEP: f64 = 1e-6;
const KINK: f64 = 2e-4;

/// What the largest is taken to be where all are smaller: differences are no better than 1e-8 of it.
const LEAST: f64 = 1e-3;

/// The derivative of `f` by each of `x`, by central differences; none where there is a kink.
fn slopes(x: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<Option<f64>> {
    let mut moved = x.to_vec();
    let here = f(x);
    let mut sides = Vec::with_capacity(x.len());
    for i in 0..x.len() {
        let mut at = |way: f64| {
            moved[i] = x[i] + way;
            f(&moved)
        };
        let (right, left) = ((at(STEP) - here) / STEP, (here - at(-STEP)) / STEP);
        moved[i] = x[i];
        sides.push((left, right));
    }
    let most =
        sides.iter().fold(0.0f64, |most, (left, right)| most.max((left + right).abs() / 2.0));
    let smooth = |(left, right): &(f64, f64)| (left - right).abs() <= KINK * most.max(LEAST);
    sides.iter().map(|side| smooth(side).then_some((side.0 + side.1) / 2.0)).collect()
}

/// As [`slopes`], of a sum of terms, of which each depends on three of `x` alone.
fn slopes_of_terms(x: &[f64], term: impl Fn(usize, &[f64]) -> f64) -> Vec<Option<f64>> {
    x.chunks_exact(3).enumerate().flat_map(|(i, own)| slopes(own, |own| term(i, own))).collect()
}

/// The derivative by each of `x`, of four points that are `h` apart: what is left out is h^4 / 30 of a fifth
/// derivative. None where `f` has no value, which is how it says that something changes on the way.
fn fine_slopes(x: &[f64], h: f64, mut f: impl FnMut(&[f64]) -> Option<f64>) -> Vec<Option<f64>> {
    let mut moved = x.to_vec();
    let mut one = |i: usize| {
        let mut at = |steps: f64| {
            moved[i] = x[i] + steps * h;
            let there = f(&moved).map(|value| (moved[i], value));
            moved[i] = x[i];
            there
        };
        let [(b1, f1), (b2, f2), (a1, e1), (a2, e2)] = [at(1.0)?, at(2.0)?, at(-1.0)?, at(-2.0)?];
        let (near, far) = ((f1 - e1) / (b1 - a1), (f2 - e2) / (b2 - a2));
        Some((4.0 * near - far) / 3.0)
    };
    (0..x.len()).map(&mut one).collect()
}

/// Fails unless these are near all those that there are, which are most.
fn near(got: &[f32], wanted: &[Option<f64>]) -> TestResult {
    let got: Vec<f64> = got.iter().map(|x| f64::from(*x)).collect();
    within(OF_F32, &got, wanted)
}

/// The same for any tolerance, relative to the largest.
fn within(tolerance: f64, got: &[f64], wanted: &[Option<f64>]) -> TestResult {
    ensure!(got.len() == wanted.len(), "{} gradients, not {}", got.len(), wanted.len());
    let most = wanted.iter().flatten().fold(LEAST, |most, x| most.max(x.abs()));
    let mut kinks = 0;
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let Some(wanted) = wanted else {
            kinks += 1;
            continue;
        };
        let off = (got - wanted).abs();
        ensure!(off <= tolerance * most, "number {i}: {got}, not {wanted}; the largest is {most}");
    }
    ensure!(kinks * 50 <= wanted.len(), "{kinks} kinks among {}", wanted.len());
    Ok(())
}

/// Points with coordinates in -1..1, times `size`.
fn points(rng: &mut Rng, n: usize, size: f32) -> Vec<[f32; 3]> {
    (0..n).map(|_| [0; 3].map(|_: i32| size * rng.float())).collect()
}

fn wide(numbers: &[[f32; 3]]) -> Vec<f64> {
    numbers.as_flattened().iter().map(|x| f64::from(*x)).collect()
}

fn refused<T>(done: cuda_safe::Result<T>, part: &str) -> TestResult {
    match done {
        Ok(_) => Err(Failure::new(format!("accepted, and not refused with {part:?}"))),
        Err(error) => {
            let message = error.to_string();
            ensure!(message.contains(part), "{message:?} lacks {part:?}");
            Ok(())
        }
    }
}
