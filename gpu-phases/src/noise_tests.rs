//! Properties of noise.

use super::*;
use crate::random::Random;

fn points<const N: usize>(count: usize) -> Vec<[f32; N]> {
    let mut random = Random::new(8, N as u64);
    (0..count).map(|_| [0.0; N].map(|_: f32| 40.0 * random.uniform() - 20.0)).collect()
}

/// Compares the derivatives with differences; returns the least and the greatest value, and the mean of squares.
fn derivatives<const N: usize>() -> (f32, f32, f32) {
    let (mut low, mut high, mut squares) = (0.0f32, 0.0f32, 0.0);
    for p in points::<N>(20_000) {
        let (value, gradient) = periodic(3, p, [0; N]);
        (low, high, squares) =
            (low.min(value), high.max(value), squares + value * value / 20_000.0);
        assert_eq!(value, noise(3, p));
        for d in 0..N {
            let (mut before, mut after) = (p, p);
            (before[d], after[d]) = (p[d] - 0.004, p[d] + 0.004);
            let difference = (noise(3, after) - noise(3, before)) / (after[d] - before[d]);
            assert!((difference - gradient[d]).abs() < 2e-3, "{p:?}: {difference} {}", gradient[d]);
        }
    }
    (low, high, squares)
}

#[test]
fn derivatives_are_those_of_the_values() {
    for (low, high, squares) in
        [derivatives::<1>(), derivatives::<2>(), derivatives::<3>(), derivatives::<4>()]
    {
        println!("{low} {high} {squares}");
        assert!((-1.04..-0.6).contains(&low) && (0.6..1.04).contains(&high), "{low} {high}");
        assert!(squares > 0.03 && squares < 0.15, "{squares}");
    }
    assert_eq!(noise(1, [5.0, -3.0, 7.0]), 0.0);
    assert_ne!(noise(1, [0.5, 0.5]), noise(2, [0.5, 0.5]));
}

#[test]
fn periods_repeat_and_join_smoothly() {
    for [x, y] in points::<2>(1000) {
        let (a, slope) = periodic(5, [x, y], [4, 0]);
        let (b, next) = periodic(5, [x + 8.0, y], [4, 0]);
        assert!((a - b).abs() < 1e-5 && (slope[0] - next[0]).abs() < 1e-4);
    }
    let apart = |period| {
        let of = |[x, y]: [f32; 2]| {
            (periodic(5, [x, y], period).0 - periodic(5, [x, y + 4.0], period).0).abs()
        };
        points::<2>(1000).into_iter().map(of).fold(0.0, f32::max)
    };
    assert!(apart([4, 0]) > 0.5 && apart([0, 4]) < 1e-5);
}

#[test]
fn octaves_add_up_and_curls_have_no_divergence() {
    let octaves = Octaves { count: 2, lacunarity: 2.0, gain: 0.25 };
    for p in points::<3>(500) {
        let (one, slope) = fractal(7, p, Octaves::ONE);
        assert_eq!((one, slope), periodic(7, p, [0; 3]));
        let doubled = p.map(|x| 2.0 * x);
        let (second, steep) = periodic(7 ^ 0x9e37_79b9, doubled, [0; 3]);
        let (sum, gradient) = fractal(7, p, octaves);
        assert!((sum - (one + 0.25 * second)).abs() < 1e-6);
        assert!((gradient[1] - (slope[1] + 0.5 * steep[1])).abs() < 1e-5);
        let change = |d: usize, velocity: &dyn Fn([f32; 3]) -> f32| {
            let (mut before, mut after) = (p, p);
            (before[d], after[d]) = (p[d] - 0.004, p[d] + 0.004);
            (velocity(after) - velocity(before)) / (after[d] - before[d])
        };
        let parts = [0, 1, 2].map(|d| change(d, &|p| curl_3(2, p, octaves)[d]));
        assert!(parts.iter().sum::<f32>().abs() < 0.03, "{parts:?}");
        let parts = [0, 1].map(|d| change(d, &|p| curl_2(2, p, octaves)[d]));
        assert!(parts.iter().sum::<f32>().abs() < 0.03, "{parts:?}");
    }
}

#[test]
fn directions_are_all_alike_often() {
    let mut counts = [0.0f32; 8];
    for i in 0..10_000u32 {
        // At a point of the lattice the derivatives are the direction.
        let (_, [x, y]) = periodic(1, [(i / 100) as f32, (i % 100) as f32], [0; 2]);
        assert!((x * x + y * y - 2.0).abs() < 1e-6);
        counts[(y.atan2(x) / std::f32::consts::FRAC_PI_4).round().rem_euclid(8.0) as usize] += 1.0;
    }
    let spread = counts.map(|n| (n - 1250.0f32).powi(2) / 1250.0).iter().sum::<f32>();
    assert!(spread < 26.0, "{counts:?}");
}
