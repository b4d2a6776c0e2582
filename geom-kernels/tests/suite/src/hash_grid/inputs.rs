//! Points that are easy to get wrong.

use super::number::{Number, inside, unit};
use test_harness::Rng;

/// Points, and the radius that a grid is built for.
pub(super) struct Input<T> {
    pub(super) name: &'static str,
    pub(super) points: Vec<[T; 3]>,
    pub(super) radius: T,
    /// A box around most points that are finite.
    pub(super) bounds: [[T; 3]; 2],
    /// Whether distances can be compared with those in f64: squares neither overflow nor underflow.
    pub(super) ordinary: bool,
    /// Whether much of it is made to lie at just the radius, where rounding decides.
    pub(super) ties: bool,
}

/// `n` points of each kind.
pub(super) fn inputs<T: Number>(rng: &mut Rng, n: usize) -> Vec<Input<T>> {
    let mut inputs = vec![
        uniform(rng, n),
        clustered(rng, n),
        lattice(n),
        collinear(rng, n),
        planar(rng, n),
        far(rng, n),
        one_place(n),
        duplicates(rng, n),
        on_the_sphere(rng, n),
        at_cell_edges(rng, n),
        two_clusters(rng, n),
        with_holes(rng, n),
        spread(rng, n, "spread over 2^34 cells", 34),
        denormal(rng, n),
        huge(rng, n),
    ];
    // Beyond what keys of 63 bits can name; a float's places are too far apart for neighbours there
    // unless they are pairs.
    inputs.push(spread(rng, n, "spread over 2^50 cells", 50));
    inputs
}

impl<T: Number> Input<T> {
    fn new(name: &'static str, points: Vec<[T; 3]>, radius: f64) -> Self {
        let mut bounds = [[T::of(0.0); 3], [T::of(1.0); 3]];
        let finite = |x: &T| x.f64().is_finite();
        for axis in 0..3 {
            let mut all: Vec<T> = points.iter().map(|p| p[axis]).filter(finite).collect();
            all.sort_by(|a, b| a.f64().total_cmp(&b.f64()));
            if let (Some(low), Some(high)) = (all.first(), all.last()) {
                bounds[0][axis] = *low;
                bounds[1][axis] = *high;
            }
        }
        Self { name, points, radius: T::of(radius), bounds, ordinary: true, ties: false }
    }

    /// The bounds, with volume in every direction: a box that may be periodic.
    pub(super) fn solid_bounds(&self) -> [[T; 3]; 2] {
        let [low, mut high] = self.bounds;
        for axis in 0..3 {
            let least = low[axis].f64().abs().max(1.0) / 16.0;
            if high[axis].f64() - low[axis].f64() < least {
                high[axis] = T::of(low[axis].f64() + least);
            }
        }
        [low, high]
    }

    /// The middle hundredth of the bounds.
    pub(super) fn narrow_bounds(&self) -> [[T; 3]; 2] {
        let [low, high] = self.bounds;
        let at = |part: f64| {
            std::array::from_fn(|axis| {
                let (low, high) = (low[axis].f64(), high[axis].f64());
                T::of(low * (1.0 - part) + high * part)
            })
        };
        [at(0.495), at(0.505)]
    }
}

/// So that a sphere holds about `wanted` of `n` points of the unit cube.
fn radius_for(n: usize, wanted: f64) -> f64 {
    (wanted / (n.max(1) as f64 * 4.189)).cbrt()
}

pub(super) fn uniform<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let points = (0..n).map(|_| inside(rng, 0.0, 1.0)).collect();
    Input::new("uniform", points, radius_for(n, 12.0))
}

fn clustered<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let centers: Vec<[f64; 3]> = (0..4).map(|_| inside(rng, -10.0, 10.0)).collect();
    let points = (0..n).map(|i| {
        let offset: [f64; 3] = inside(rng, -0.05, 0.05);
        std::array::from_fn(|axis| T::of(centers[i % 4][axis] + offset[axis]))
    });
    Input::new("clustered", points.collect(), 0.04)
}

/// Spacings of just the radius: whether the next point is a neighbour hangs on the last bit.
fn lattice<T: Number>(n: usize) -> Input<T> {
    let side = (n as f64).cbrt().ceil().max(1.0) as usize;
    let spacing = T::of(0.1);
    let points = (0..n).map(|i| {
        [i % side, i / side % side, i / side / side].map(|k| T::of(k as f64).times(spacing))
    });
    Input { ties: true, ..Input::new("lattice", points.collect(), 0.1) }
}

fn collinear<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let points = (0..n).map(|_| {
        let t = unit(rng);
        [T::of(1.0 + 2.0 * t), T::of(-t), T::of(0.5 + 0.3 * t)]
    });
    Input::new("collinear", points.collect(), 8.0 / n.max(1) as f64)
}

fn planar<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let points = (0..n).map(|_| [T::of(unit(rng)), T::of(0.25), T::of(unit(rng))]);
    Input::new("planar", points.collect(), (4.0 / n.max(1) as f64).sqrt())
}

/// 1e6 from the origin, where f32 has steps of a sixteenth.
fn far<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let points = (0..n).map(|_| {
        let [x, y, z]: [f64; 3] = inside(rng, 0.0, 8.0);
        [T::of(1e6 + x), T::of(-1e6 + y), T::of(1e6 + z)]
    });
    Input::new("far", points.collect(), 8.0 * radius_for(n, 12.0))
}

fn one_place<T: Number>(n: usize) -> Input<T> {
    Input::new("one place", vec![[T::of(0.3), T::of(-7.0), T::of(11.5)]; n], 0.25)
}

fn duplicates<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let places: Vec<[T; 3]> = (0..n.div_ceil(7)).map(|_| inside(rng, 0.0, 1.0)).collect();
    let points = (0..n).map(|_| places[rng.below(places.len())]);
    Input::new("duplicates", points.collect(), radius_for(n, 12.0))
}

/// Around every eighth point, points at just the radius, as well as they can be given.
fn on_the_sphere<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let radius = 0.25;
    let mut points: Vec<[T; 3]> = Vec::with_capacity(n + 8);
    while points.len() < n {
        let center: [T; 3] = inside(rng, -1.0, 1.0);
        points.push(center);
        for around in 0..7 {
            let mut to: [f64; 3] = inside(rng, -1.0, 1.0);
            if around < 3 {
                to = std::array::from_fn(|axis| if axis == around { 1.0 } else { 0.0 });
            }
            let scale = radius / to.iter().map(|x| x * x).sum::<f64>().sqrt();
            points.push(std::array::from_fn(|axis| T::of(center[axis].f64() + to[axis] * scale)));
        }
    }
    points.truncate(n);
    Input { ties: true, ..Input::new("on the sphere", points, radius) }
}

/// Multiples of parts of the radius, and their neighbours among the numbers.
fn at_cell_edges<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let radius = T::of(0.1);
    let mut coordinate = || {
        let at = T::of(rng.below(49) as f64 - 24.0).times(T::of(0.25).times(radius));
        match rng.below(3) {
            0 => at.next_up(),
            1 => at.next_down(),
            _ => at,
        }
    };
    let points = (0..n).map(|_| std::array::from_fn(|_| coordinate())).collect();
    Input { radius, ties: true, ..Input::new("at cell edges", points, 0.1) }
}

fn two_clusters<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let points = (0..n).map(|i| {
        let at = if i % 2 == 0 { 0.0 } else { 4096.0 };
        let [x, y, z]: [f64; 3] = inside(rng, 0.0, 1.0);
        [T::of(x + at), T::of(y - at), T::of(z + at)]
    });
    Input::new("two clusters", points.collect(), radius_for(n / 2, 12.0))
}

/// Among uniform points some that are nowhere.
fn with_holes<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let wrong = [T::NAN, T::INFINITY, T::of(0.0).minus(T::INFINITY)];
    let Input { mut points, radius, .. } = uniform::<T>(rng, n);
    for i in (0..n).step_by(5) {
        points[i][rng.below(3)] = wrong[rng.below(3)];
    }
    Input::new("with holes", points, radius.f64())
}

/// Pairs of near points, the pairs as many radii apart as cells in each direction.
fn spread<T: Number>(rng: &mut Rng, n: usize, name: &'static str, bits: i32) -> Input<T> {
    let extent = 2.0f64.powi(bits);
    let mut last = [T::of(0.0); 3];
    let points = (0..n).map(|i| {
        if i % 3 == 0 {
            last = inside(rng, -extent / 2.0, extent / 2.0);
        } else {
            // Nearly all that f32 has there: the same place, or one step beside it.
            last[i % 2] = if rng.below(2) == 0 {
                last[i % 2].next_up()
            } else {
                T::of(last[i % 2].f64() + unit(rng))
            };
        }
        last
    });
    Input::new(name, points.collect(), 1.0)
}

/// An extent below the smallest normal number.
fn denormal<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let step = T::of(0.0).next_up();
    let points = (0..n)
        .map(|_| std::array::from_fn(|_| T::of(rng.below(1000) as f64).times(step)))
        .collect();
    let input = Input::new("denormal", points, 0.0);
    Input { radius: T::of(100.0).times(step), ordinary: false, ..input }
}

/// Extents near the largest number, where squares overflow.
fn huge<T: Number>(rng: &mut Rng, n: usize) -> Input<T> {
    let most = if T::EPSILON > 1e-10 { f64::from(f32::MAX) } else { f64::MAX };
    let points = (0..n).map(|_| inside(rng, -0.49 * most, 0.49 * most)).collect();
    Input { ordinary: false, ..Input::new("huge", points, most.sqrt() * 0.1) }
}
