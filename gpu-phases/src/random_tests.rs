//! Statistics of random numbers. Seeds are fixed, so a test fails always or never; each bound also refuses a planted
//! bias.

use super::*;

const COUNT: usize = 200_000;
/// A Kolmogorov-Smirnov statistic is greater in one of 100,000 samples.
const KS: f64 = 2.5;

#[test]
fn words_are_those_of_the_papers_and_of_curand() {
    let known = [
        ([0; 2], [0; 4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        ([!0; 2], [!0; 4], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (
            [0xa409_3822, 0x299f_31d0],
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];
    for (key, counter, block) in known {
        assert_eq!(philox(key, counter), block);
    }
    let mut random = Random::at(0x1234_5678_9abc_def0, 0xfedc_ba98_0000_0007, 5);
    let words = [0x2e41_691d, 0xa2be_7793, 0x9917_4aa7, 0x6fb4_c8de, 0xa4d1_c12b, 0xdeb3_0909];
    assert_eq!(words.map(|_| random.next_u32()), words, "curand_init with an offset of 5");
    let mut random = Pcg32::new(42, 54);
    let words = [0xa15c_02b7, 0x7b47_f409, 0xba1d_3330, 0x83d2_f293, 0xbfa4_784b, 0xcbed_606e];
    assert_eq!(words.map(|_| random.next_u32()), words, "the demo of pcg32");
    let mut zeros: Random = bytemuck::Zeroable::zeroed();
    assert_eq!(zeros.next_u64(), 0xe169_c58d_6627_e8d5);
}

fn sample<T>(stream: u64, mut draw: impl FnMut(&mut Random) -> T) -> Vec<T> {
    let mut random = Random::new(2026, stream);
    (0..COUNT).map(|_| draw(&mut random)).collect()
}

/// Returns the statistic of Kolmogorov and Smirnov for a sample whose values have been mapped to [0, 1].
fn ks(uniform: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = uniform.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let apart = |(i, u): (usize, &f64)| (u - i as f64 / count).max((i + 1) as f64 / count - u);
    sorted.iter().enumerate().map(apart).fold(0.0, f64::max) * count.sqrt()
}

/// Returns by how many standard deviations the chi-square statistic of the counts is above its mean.
fn chi_square(counts: &[f64], expected: impl Fn(usize) -> f64) -> f64 {
    let sum: f64 =
        counts.iter().enumerate().map(|(i, n)| (n - expected(i)).powi(2) / expected(i)).sum();
    let freedom = (counts.len() - 1) as f64;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

fn counted(values: impl IntoIterator<Item = usize>, bins: usize) -> Vec<f64> {
    let mut counts = vec![0.0; bins];
    values.into_iter().for_each(|bin| counts[bin.min(bins - 1)] += 1.0);
    counts
}

/// The share of the normal distribution above `x`, by series and continued fraction.
fn above(x: f64) -> f64 {
    if x < 0.0 {
        return 1.0 - above(-x);
    }
    if x < 2.5 {
        let (mut term, mut sum) = (x, x);
        for k in 1..200 {
            term *= x * x / f64::from(2 * k + 1);
            sum += term;
        }
        return 0.5 - density(x) * sum;
    }
    density(x) / (1..300).rev().fold(x, |rest, k| x + f64::from(k) / rest)
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn words_are_uniform_in_a_stream_and_across_streams() {
    let words = sample(0, Random::next_u32);
    let first: Vec<u32> = (0..COUNT as u64).map(|i| Random::new(9, i).next_u32()).collect();
    let mut small = Pcg32::new(9, 1);
    let pcg: Vec<u32> = (0..COUNT).map(|_| small.next_u32()).collect();
    for words in [words, first, pcg] {
        for shift in [0, 12, 24] {
            let bytes = words.iter().map(|word| (word >> shift) as usize & 255);
            assert!(chi_square(&counted(bytes, 256), |_| COUNT as f64 / 256.0).abs() < 4.5);
        }
        let pairs = words.chunks(2).map(|pair| (pair[0] >> 28 << 4 | pair[1] >> 28) as usize);
        assert!(chi_square(&counted(pairs, 256), |_| COUNT as f64 / 512.0).abs() < 4.5);
        assert!(ks(words.iter().map(|word| f64::from(uniform(*word)))) < KS);
    }
    assert!(ks(sample(1, |random| random.uniform_f64() * 0.99)) > KS, "a planted bias");
    assert_eq!(
        (uniform(u32::MAX), uniform_f64(u64::MAX)),
        (1.0 - f32::EPSILON / 2.0, 1.0 - f64::EPSILON / 2.0)
    );
}

#[test]
fn integers_have_no_bias() {
    for end in [1, 2, 7, 200] {
        let counts = counted(sample(2, |random| random.below(end) as usize), end as usize);
        assert!(end == 1 || chi_square(&counts, |_| COUNT as f64 / f64::from(end)) < 4.5);
    }
    // Of 2^32 words each third one of 3 * 2^30 results would have two.
    let end = 3u32 << 30;
    let thirds = |values: Vec<u64>| {
        chi_square(&counted(values.iter().map(|x| (x % 3) as usize), 3), |_| COUNT as f64 / 3.0)
    };
    assert!(thirds(sample(3, |random| u64::from(random.below(end)))) < 4.5);
    assert!(
        thirds(sample(3, |random| (u64::from(random.next_u32()) * u64::from(end)) >> 32)) > 4.5
    );
    let mut random = Random::new(1, 1);
    assert_eq!((random.below(0), random.range(5, 5), random.range(7, -7)), (0, 5, 7));
    assert!((0..100).all(|_| (-3..4).contains(&random.range(-3, 4))));
    assert!((0..100).map(|_| random.range(i32::MIN, i32::MAX)).any(|x| x < 0));
}

#[test]
fn functions_are_as_exact_as_documented() {
    let (mut absolute, mut relative, mut small) = (0.0f64, 0.0f64, 0.0f64);
    let (mut wide, mut angle) = (0.0f64, 0.0f64);
    for i in 0..300_000u64 {
        // Shifts take the words close to both ends.
        let bits = (u64::from(mix(i as u32)) << 32 | u64::from(mix(!i as u32))) >> (i % 63);
        let word = (bits >> 32) as u32 | (bits as u32) >> (i % 31);
        let word = if i % 2 == 0 { word } else { !word };
        let exact = -(((f64::from(!word) + 0.5) / -4_294_967_296.0).ln_1p());
        small = small.max((f64::from(exponential(word)) / exact - 1.0).abs());
        let x = f64::from(normal(word));
        let tail = (f64::from(word.min(!word)) + 0.5) / 4_294_967_296.0;
        let error = ((above(x.abs()) - tail) / density(x)).abs();
        absolute = absolute.max(error);
        relative = relative.max(error / x.abs());
        let x = normal_f64(bits);
        let tail = (bits.min(!bits) as f64 + 0.5) / 18_446_744_073_709_551_616.0;
        wide = wide.max(((above(x.abs()) - tail) / density(x) / x).abs());
        let (sine, cosine) = (f64::from(word) / 4_294_967_296.0 * std::f64::consts::TAU).sin_cos();
        let [x, y] = circle(word).map(f64::from);
        angle = angle.max((x - cosine).abs()).max((y - sine).abs());
    }
    println!("exponential {small}, normal {absolute} {relative} {wide}, circle {angle}");
    assert!(small < 2e-7 && absolute < 1.6e-6 && relative < 4e-7, "{small} {absolute} {relative}");
    assert!(wide < 2e-14 && angle < 1.2e-7, "{wide} {angle}");
}

#[test]
fn normal_numbers_have_their_distribution_moments_and_tails() {
    let single: Vec<f64> = sample(4, |random| f64::from(random.normal()));
    let double = sample(5, Random::normal_f64);
    for sample in [&single, &double] {
        assert!(ks(sample.iter().map(|x| above(*x))) < KS);
        assert!(ks(sample.iter().map(|x| above(*x + 0.02))) > KS, "a planted bias");
        for (power, moment, variance) in
            [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)]
        {
            let sum: f64 = sample.iter().map(|x| x.powi(power) - moment).sum();
            assert!(sum.abs() < 4.5 * (variance * COUNT as f64).sqrt(), "moment {power}: {sum}");
        }
        let expected = above(3.0) * COUNT as f64;
        let tails = [1.0, -1.0].map(|side| sample.iter().filter(|x| side * **x > 3.0).count());
        assert!(
            tails.iter().all(|n| (*n as f64 - expected).abs() < 4.5 * expected.sqrt()),
            "{tails:?}"
        );
    }
    assert_eq!(normal(0), -normal(u32::MAX));
    assert!((6.3..6.4).contains(&normal(u32::MAX)) && (9.1..9.3).contains(&normal_f64(u64::MAX)));
}

#[test]
fn exponential_and_poisson_numbers_have_their_distributions() {
    let times = sample(6, |random| f64::from(random.exponential()));
    assert!(ks(times.iter().map(|x| 1.0 - (-x).exp())) < KS);
    assert!(ks(times.iter().map(|x| 1.0 - (-1.02 * x).exp())) > KS, "a planted bias");
    for mean in [0.3f32, 3.7, 10.0, 40.5] {
        let counts = sample(7, |random| random.poisson(mean) as usize);
        let mut expected: Vec<f64> = vec![(-f64::from(mean)).exp() * COUNT as f64];
        while expected.len() < mean as usize || expected[expected.len() - 1] > 10.0 {
            expected.push(expected[expected.len() - 1] * f64::from(mean) / expected.len() as f64);
        }
        let first = expected.iter().position(|n| *n > 10.0).unwrap();
        let rest = COUNT as f64 - expected[first..].iter().sum::<f64>();
        expected.push(rest.max(10.0));
        let bin = |n: usize| n.checked_sub(first).unwrap_or(expected.len() - first - 1);
        let statistic = |shift: usize| {
            let bins = counted(counts.iter().map(|n| bin(n + shift)), expected.len() - first);
            chi_square(&bins, |i| expected[first + i])
        };
        assert!(statistic(0) < 4.5, "{mean}: {}", statistic(0));
        assert!(statistic(1) > 4.5, "a planted bias");
    }
    let mean =
        sample(8, |random| f64::from(random.poisson(1e6))).iter().sum::<f64>() / COUNT as f64;
    assert!((mean - 1e6).abs() < 4.5 * 1e3 / (COUNT as f64).sqrt(), "{mean}");
    let of = |mean: f32| f64::from(Random::new(0, 0).poisson(mean));
    assert!(of(0.0) == 0.0 && of(-1.0) == 0.0);
    assert!([of(f32::INFINITY), of(f32::NAN)].iter().all(|x| (x - 4e9).abs() < 1e6));
}

#[test]
fn points_are_spread_evenly() {
    let square = |p: &[f32]| p.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    let turn = |x: f32, y: f32| f64::from(y).atan2(f64::from(x)) / std::f64::consts::TAU + 0.5;
    let disk = sample(9, Random::in_disk);
    assert!(
        ks(disk.iter().map(|p| square(p))) < KS && ks(disk.iter().map(|p| turn(p[0], p[1]))) < KS
    );
    let ball = sample(10, Random::in_ball);
    assert!(ks(ball.iter().map(|p| square(p).powf(1.5))) < KS);
    assert!(ks(ball.iter().map(|p| square(p))) > KS, "a planted bias");
    let sphere = sample(11, Random::on_sphere);
    for axis in 0..3 {
        assert!(ks(sphere.iter().map(|p| f64::from(0.5 + 0.5 * p[axis]))) < KS);
    }
    assert!(sphere.iter().all(|p| (square(p) - 1.0).abs() < 4e-7));
    let half = sample(12, Random::on_hemisphere);
    assert!(
        ks(half.iter().map(|p| f64::from(p[2]))) < KS
            && ks(half.iter().map(|p| turn(p[0], p[1]))) < KS
    );
    let cosine = sample(13, Random::cosine_hemisphere);
    assert!(ks(cosine.iter().map(|p| f64::from(p[2]).powi(2))) < KS);
    assert!(cosine.iter().all(|p| (square(p) - 1.0).abs() < 4e-7));
    assert!(ks(sample(14, Random::in_cube).iter().map(|p| f64::from(p[1]))) < KS);
}

#[test]
fn shuffles_are_bijections_in_any_order() {
    for n in (1..70).chain([255, 256, 257, 5000]) {
        let mut seen: Vec<u32> = (0..n).map(|i| shuffled(i, n, 7)).collect();
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..n), "{n}");
    }
    assert_eq!(shuffled(9, 9, 1), 9);
    for n in [5u32, 16, 21] {
        let pairs = (0..COUNT as u32).map(|seed| (shuffled(1, n, seed), shuffled(2, n, seed)));
        // The second element is one of the others.
        let bins = pairs.map(|(a, b)| (a * (n - 1) + if b > a { b - 1 } else { b }) as usize);
        let counts = counted(bins, (n * (n - 1)) as usize);
        assert!(chi_square(&counts, |_| COUNT as f64 / f64::from(n * (n - 1))).abs() < 4.5, "{n}");
    }
}
