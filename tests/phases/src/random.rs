//! Random numbers and noise have the same bits on both targets, and a kernel has the text of what it uses.

use cuda_safe::kernel::noise::{Octaves, curl_2, curl_3, fractal, noise, periodic};
use cuda_safe::kernel::random::{Pcg32, Random, exponential, normal, shuffled};
use gpu_phases::kernel;

use crate::both;

#[kernel]
fn draws(seed: u64, out: &mut [[f32; 26]]) {
    each(out, |i, out| {
        let mut random = Random::new(seed, i as u64);
        let mut small = Pcg32::new(seed, i as u64);
        let ([a, b], [c, d]) = (random.on_circle(), random.in_disk());
        let ([e, f, g], [h, j, k]) = (random.on_sphere(), random.in_ball());
        let ([l, m, n], [o, p, q]) = (random.on_hemisphere(), random.cosine_hemisphere());
        let [r, s, t] = random.in_cube();
        let (u, v, w) = (random.uniform(), random.normal(), random.exponential());
        let (x, y, z) = (normal(small.next_u32()), exponential(small.next_u32()), i as f32);
        *out = [a, b, c, d, e, f, g, h, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, 0.0];
    });
}

#[kernel]
fn doubles(seed: u64, out: &mut [[f64; 2]]) {
    each(out, |i, out| {
        let mut random = Random::at(seed, i as u64, i as u64);
        *out = [random.uniform_f64(), random.normal_f64()];
    });
}

/// Each thread goes on with its stream.
#[kernel]
fn integers(random: &mut [Random], out: &mut [[u32; 7]]) {
    each((random, out), |i, (random, out)| {
        let (low, high) = (random.below(3 << 30), random.range(-5, 6) as u32);
        let (few, many) = (random.poisson(2.5), random.poisson(50.0));
        let long = random.next_u64();
        *out = [low, high, few, many, long as u32, (long >> 32) as u32, shuffled(i as u32, 300, 5)];
    });
}

#[kernel]
fn noises(seed: u32, points: &[[f32; 4]], out: &mut [[f32; 22]]) {
    assert!(points.len() == out.len());
    each(out, |i, out| {
        let p = points[i];
        let octaves = Octaves { count: 3, lacunarity: 2.1, gain: 0.4 };
        let (a, [b]) = periodic(seed, [p[0]], [3]);
        let (c, [d, e]) = periodic(seed, [p[0], p[1]], [0, 5]);
        let (f, [g, h, j]) = fractal(seed, [p[0], p[1], p[2]], octaves);
        let (k, [l, m, n, o]) = fractal(seed, p, Octaves::ONE);
        let ([q, r], [s, t, u]) = (curl_2(seed, [p[0], p[1]], octaves), curl_3(seed, p, octaves));
        let v = noise(seed, [p[0], p[1], p[2]]);
        *out = [a, b, c, d, e, f, g, h, j, k, l, m, n, o, q, r, s, t, u, v, 0.0, 0.0];
    });
}

#[test]
fn draws_have_equal_bits() {
    both!(draws(value 7, write vec![[0.0f32; 26]; 300])).unwrap();
    both!(doubles(value 1 << 40, write vec![[0.0f64; 2]; 2000])).unwrap();
    let streams: Vec<Random> = (0..300).map(|i| Random::new(3, i)).collect();
    let (random, out) = both!(integers(write streams, write vec![[0u32; 7]; 300])).unwrap();
    assert!(random[0] != streams[0] && out.iter().all(|out| out[0] < 3 << 30));
    let mut positions: Vec<u32> = out.iter().map(|out| out[6]).collect();
    positions.sort_unstable();
    assert!(positions.into_iter().eq(0..300));
}

#[test]
fn noises_have_equal_bits() {
    let mut random = Random::new(1, 1);
    let mut points: Vec<[f32; 4]> =
        (0..200).map(|_| [(); 4].map(|()| random.normal() * 20.0)).collect();
    points.extend([[0.0; 4], [-1.0; 4], [3e9; 4], [-3e9; 4]]);
    both!(noises(value 9, read points, write vec![[0.0f32; 22]; 204])).unwrap();
}

#[kernel]
fn one_uniform(out: &mut [f32]) {
    each(out, |i, out| *out = Random::new(0, i as u64).uniform());
}

#[test]
fn a_kernel_has_only_the_methods_that_it_calls() {
    let source = one_uniform::source();
    let functions =
        |text: &str| text.split("namespace phases {").last().unwrap().matches("PHASES_FN").count();
    // `new`, `uniform`, `next_u32`, `philox`, and the function of the distribution.
    assert_eq!(functions(&source), 5, "{source}");
    assert!(functions(&draws::source()) > 15);
}
