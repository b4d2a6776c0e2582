//! The same simulation in f64, and gradients by central differences.

use rayon::prelude::*;

use super::STEPS;
use crate::stop::Stop;

type Vector = [f64; 3];

/// Of the largest entry, how much gradients may be off.
const TOLERANCE: f64 = 1e-4;

/// Where a particle is at the end.
fn end(mut x: Vector, mut v: Vector) -> Vector {
    for _ in 0..STEPS {
        let speed = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        for axis in 0..3 {
            v[axis] += 0.01 * (-10.0 * x[axis] - 0.1 * speed * v[axis]);
            x[axis] += 0.01 * v[axis];
        }
    }
    x
}

fn energy(x: Vector) -> f64 {
    x.iter().map(|x| x * x).sum()
}

/// Of a particle's energy at the end, the gradients by where it was and how fast.
fn gradient(x: Vector, v: Vector) -> [Vector; 2] {
    const H: f64 = 1e-5;
    let by = |which: usize, axis: usize| {
        let side = |h: f64| {
            let mut state = [x, v];
            state[which][axis] += h;
            energy(end(state[0], state[1]))
        };
        (side(H) - side(-H)) / (2.0 * H)
    };
    [0, 1].map(|which| std::array::from_fn(|axis| by(which, axis)))
}

fn wide(a: [f32; 3]) -> Vector {
    a.map(f64::from)
}

/// Particles at their start.
pub(super) struct Start<'a> {
    pub(super) x: &'a [[f32; 3]],
    pub(super) v: &'a [[f32; 3]],
}

impl Start<'_> {
    /// Compares where about `sample` of the particles end, spread over all. Says how many.
    pub(super) fn check_ends(&self, found: &[[f32; 3]], sample: usize) -> Result<usize, Stop> {
        let wanted = |i: usize| end(wide(self.x[i]), wide(self.v[i]));
        self.compare(found, sample, wanted)
    }

    /// Compares gradients, likewise.
    pub(super) fn check_gradients(
        &self,
        by_x: &[[f32; 3]],
        by_v: &[[f32; 3]],
        sample: usize,
    ) -> Result<usize, Stop> {
        let wanted =
            |which: usize| move |i: usize| gradient(wide(self.x[i]), wide(self.v[i]))[which];
        self.compare(by_v, sample, wanted(1))?;
        self.compare(by_x, sample, wanted(0))
    }

    fn compare(
        &self,
        found: &[[f32; 3]],
        sample: usize,
        wanted: impl Fn(usize) -> Vector + Sync,
    ) -> Result<usize, Stop> {
        if found.len() != self.x.len() {
            return Err(Stop::failed(format!("{} answers for {}", found.len(), self.x.len())));
        }
        let each: Vec<usize> = (0..found.len()).step_by((found.len() / sample).max(1)).collect();
        let wanted: Vec<Vector> = each.par_iter().map(|i| wanted(*i)).collect();
        let largest = wanted.iter().flatten().fold(0.0f64, |most, x| most.max(x.abs()));
        for (i, wanted) in each.iter().zip(&wanted) {
            let found = wide(found[*i]);
            let near = |axis: usize| (found[axis] - wanted[axis]).abs() <= TOLERANCE * largest;
            if !(0..3).all(near) {
                return Err(Stop::failed(format!("particle {i}: {found:?}, not {wanted:?}")));
            }
        }
        Ok(each.len())
    }
}

/// Derivatives of a function of a few numbers, by central differences.
pub(super) fn slopes<const K: usize>(at: [f64; K], of: impl Fn([f64; K]) -> f64) -> [f64; K] {
    const H: f64 = 1e-6;
    std::array::from_fn(|axis| {
        let side = |h: f64| {
            let mut moved = at;
            moved[axis] += h;
            of(moved)
        };
        (side(H) - side(-H)) / (2.0 * H)
    })
}

/// Compares gradients by the state of some elements. `wanted` returns that of an element whose state is moved by so much:
/// where that changes it, a float may be on the other side of a kink, and the element is left out. Says how many were
/// compared.
pub(super) fn check_states<const K: usize>(
    found: &(impl Fn(usize) -> [f32; K] + Sync),
    chosen: &[usize],
    wanted: impl Fn(usize, f64) -> [f64; K] + Sync,
) -> Result<usize, Stop> {
    const MOVED: f64 = 3e-6;
    let all: Vec<_> =
        chosen.par_iter().map(|i| [0.0, MOVED, -MOVED].map(|by| wanted(*i, by))).collect();
    let largest = all.iter().flat_map(|[wanted, ..]| wanted).map(|g| g.abs()).fold(0.0, f64::max);
    let near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE * largest;
    let mut compared = 0;
    for (i, [wanted, moved @ ..]) in chosen.iter().zip(&all) {
        if !moved.iter().flatten().zip(wanted.iter().cycle()).all(|(a, b)| near(*a, *b)) {
            continue;
        }
        let found = found(*i);
        if !found.iter().zip(wanted).all(|(a, b)| near(f64::from(*a), *b)) {
            return Err(Stop::failed(format!("element {i}: {found:?}, not {wanted:?}")));
        }
        compared += 1;
    }
    if compared < chosen.len() * 9 / 10 {
        return Err(Stop::failed(format!("{compared} of {} are smooth", chosen.len())));
    }
    Ok(compared)
}

/// Some of `n` elements, spread over all.
pub(super) fn chosen(n: usize, count: usize) -> Vec<usize> {
    (0..n).step_by((n / count.max(1)).max(1)).collect()
}

/// The sum over all particles of the squares of where they are, within the rounding of partial sums.
pub(super) fn check_loss(ends: &[[f32; 3]], loss: &[f32]) -> Result<(), Stop> {
    let wanted: f64 = ends.iter().map(|x| energy(wide(*x))).sum();
    let found = loss.iter().copied().map(f64::from).sum::<f64>();
    if loss.len() == 1 && (found - wanted).abs() <= 1e-5 * wanted {
        return Ok(());
    }
    Err(Stop::failed(format!("the loss is {found}, not {wanted}")))
}
