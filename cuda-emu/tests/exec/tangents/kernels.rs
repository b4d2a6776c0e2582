//! Kernels as NVRTC compiles them, against differences of the same in f64.

use cuda_emu::Real;
use test_support::Rng;

use super::{Tracked, close, slope};
use crate::device::shape;

const TEXT: &str = include_str!("../../ptx/tangents.ptx");

/// Sizes of a launch of 64 threads.
const SIZES: [usize; 6] = [0, 1, 31, 32, 33, 64];

type Twin = fn(&[f64], &[f64]) -> Vec<f64>;

fn each(f: impl Fn(usize, f64, f64) -> f64) -> impl Fn(&[f64], &[f64]) -> Vec<f64> {
    move |x, y| x.iter().zip(y).enumerate().map(|(i, (&x, &y))| f(i, x, y)).collect()
}

fn branches(x: &[f64], y: &[f64]) -> Vec<f64> {
    each(|_, a, b| {
        let r = if a > b {
            if a * b > 0.25 {
                return a / (1.0 + b * b);
            }
            (a * a + 0.5).sqrt()
        } else if b > 0.5 {
            a.max(0.125) * b - b.min(2.0 * a)
        } else {
            a.abs() / (b * b + 1.0).sqrt()
        };
        r * r + a
    })(x, y)
}

fn loops(x: &[f64], y: &[f64]) -> Vec<f64> {
    each(|i, x, y| {
        let (mut v, mut w, mut sum) = (x, y, 0.0);
        for k in 0..i % 7 {
            let old = v;
            v = v * v * 0.5 - w;
            w = 0.25 * old * w + f64::from(0.1f32);
            if v > 1.5 {
                break;
            }
            for _ in k..i % 3 {
                sum += v * w;
                v *= 0.75;
            }
        }
        sum + v / (2.0 + w * w)
    })(x, y)
}

fn arrays(x: &[f64], y: &[f64]) -> Vec<f64> {
    each(|i, x, y| {
        let mut a: [f64; 8] = std::array::from_fn(|k| x * (k + 1) as f64 + y * y);
        for k in 0..5 {
            a[(i + k) & 7] *= a[(i * 3 + k) & 7];
        }
        (0..8).map(|k| a[(i + k * k) & 7] * (k as f64 - 3.0)).sum()
    })(x, y)
}

fn blocks(x: &[f64], y: &[f64]) -> Vec<f64> {
    let mut s: Vec<f64> = x.iter().zip(y).map(|(x, y)| x * y).collect();
    s.resize(64, 0.0);
    let mut step = 32;
    while step > 0 {
        for i in 0..step {
            s[i] += s[i + step] * s[i + step];
        }
        step /= 2;
    }
    let warp = |i: usize| x.iter().skip(i / 32 * 32).take(32).sum::<f64>();
    (0..x.len()).map(|i| s[0] * warp(i)).collect()
}

fn sums(x: &[f64], y: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    for i in 0..x.len() {
        out[i % 3] += x[i] * y[i];
    }
    out
}

fn blend(a: f64, b: f64, t: f64) -> f64 {
    a + (b - a) * t * t
}

fn calls(x: &[f64], y: &[f64]) -> Vec<f64> {
    each(|_, x, y| {
        let (s, c, z) = (x.sin(), x.cos(), blend(x, y, 0.5));
        blend((c * x - s * y) * (s * x + c * y), z * x, 2.0 * y)
    })(x, y)
}

#[test]
fn kernels_agree_with_differences_of_their_twins() {
    let twins: [(&str, Twin); 6] = [
        ("branches", branches),
        ("loops", loops),
        ("arrays", arrays),
        ("blocks", blocks),
        ("sums", sums),
        ("calls", calls),
    ];
    let tracked = Tracked::new();
    let program = tracked.load(TEXT);
    let mut rng = Rng::new(8);
    for (name, twin) in twins {
        for n in SIZES {
            // `sums` adds up in three places.
            if name == "sums" && (1..3).contains(&n) {
                continue;
            }
            let mut given = || -> Vec<f64> { rng.floats(n).iter().map(|&x| x.into()).collect() };
            let [x, y, dx, dy] = [given(), given(), given(), given()];
            let single = |x: &[f64]| -> Vec<f32> { x.iter().map(|&x| x as f32).collect() };
            let px = tracked.upload(&single(&x), Real::F32, &dx);
            let py = tracked.upload(&single(&y), Real::F32, &dy);
            let out = tracked.device.upload(&vec![0f32; n]);
            tracked.launch(&program, name, shape(1, 64), &[px, py, out, n as u64]);
            let got = tracked.get(out, Real::F32, n);
            let values: Vec<f32> = tracked.device.download(out, n);
            assert_eq!(tracked.lost(), [], "{name}");
            let at = |step: f64| {
                let along = |x: &[f64], d: &[f64]| -> Vec<f64> {
                    x.iter().zip(d).map(|(x, d)| x + step * d).collect()
                };
                twin(&along(&x, &dx), &along(&y, &dy))
            };
            let middle = at(0.0);
            for i in 0..n {
                let scale = middle[i].abs().max(1.0);
                close(values[i].into(), middle[i], scale, 1e-4, &format!("{name}, value {i}"));
                let wanted = slope(1e-5, |step| at(step)[i]);
                let what = format!("{name}, {i} of {n}");
                // The values of f32 at which the derivatives are taken are not those of the twin.
                close(got[i], wanted, wanted.abs().max(1.0), 2e-5, &what);
            }
        }
    }
}

#[test]
fn vectors_and_members_of_arguments_have_tangents() {
    let tracked = Tracked::new();
    let program = tracked.load(TEXT);
    let mut rng = Rng::new(4);
    let n = 33;
    let x = rng.floats(4 * n);
    let dx: Vec<f64> = rng.floats(4 * n).iter().map(|&x| x.into()).collect();
    let px = tracked.upload(&x, Real::F32, &dx);
    let out = tracked.device.upload(&vec![0f32; 4 * n]);
    let (gravity, wind, drag) = (0.75f32, [0.5f32, 0.0, 0.0, 0.0], 1.25f64);
    let entry = program.entry("vectors").expect("the kernel");
    let mut params = vec![0; program.param_bytes(entry)];
    let offsets: Vec<usize> = program.params(entry).iter().map(|param| param.0).collect();
    let [at_x, at_out, world, at_n] = offsets[..] else { panic!("{offsets:?}") };
    let mut put = |at: usize, bytes: &[u8]| params[at..at + bytes.len()].copy_from_slice(bytes);
    put(at_x, &px.to_le_bytes());
    put(at_out, &out.to_le_bytes());
    put(at_n, &(n as u32).to_le_bytes());
    put(world, &gravity.to_le_bytes());
    put(world + 16, &wind[0].to_le_bytes());
    put(world + 32, &drag.to_le_bytes());
    let tangents = tracked.tangents();
    let (dg, dw, dd) = (3.0, -2.0, 0.5);
    tangents.set_argument("vectors", world, Real::F32, dg).expect("an offset");
    tangents.set_argument("vectors", world + 16, Real::F32, dw).expect("an offset");
    tangents.set_argument("vectors", world + 32, Real::F64, dd).expect("an offset");
    let launch = cuda_emu::exec::Launch {
        entry,
        grid: [1; 3],
        block: [64, 1, 1],
        shared: 0,
        params,
        cooperative: false,
        cluster: None,
    };
    let device = &tracked.device;
    let env = cuda_emu::exec::Env {
        space: &device.space,
        device: &device.info,
        config: &device.config,
        heap: &device.heap,
        printf: &|_| {},
    };
    cuda_emu::exec::run(&program, &launch, &env).expect("no fault");
    let got = tracked.get(out, Real::F32, 4 * n);
    assert_eq!(tracked.lost(), []);
    for i in 0..n {
        let at = |step: f64| {
            let of = |k: usize| f64::from(x[4 * i + k]) + step * dx[4 * i + k];
            let (gravity, wind, drag) =
                (f64::from(gravity) + step * dg, f64::from(wind[0]) + step * dw, drag + step * dd);
            let w = of(3);
            let (a, b) = (of(0) + wind * w, of(1) - gravity * w * w);
            [a, b, of(2) * (of(2) * 0.5 + drag), a * drag * b]
        };
        for k in 0..4 {
            let wanted = slope(1e-4, |step| at(step)[k]);
            let what = format!("member {k} of {i}");
            close(got[4 * i + k], wanted, wanted.abs().max(1.0), 1e-6, &what);
        }
    }
}

#[test]
fn markers_pass_the_compiler() {
    let tracked = Tracked::new();
    let program = tracked.load(TEXT);
    let n = 33;
    let mut rng = Rng::new(6);
    let (x, y) = (rng.floats(n), rng.floats(n));
    let mut directions = || -> Vec<f64> { rng.floats(n).iter().map(|&x| x.into()).collect() };
    let (dx, dy) = (directions(), directions());
    let px = tracked.upload(&x, Real::F32, &dx);
    let py = tracked.upload(&y, Real::F32, &dy);
    let out = tracked.device.upload(&vec![0f32; n]);
    tracked.launch(&program, "markers", shape(1, 64), &[px, py, out, n as u64]);
    let values: Vec<f32> = tracked.device.download(out, n);
    let got = tracked.get(out, Real::F32, n);
    for i in (0..n).filter(|&i| i != 5) {
        let v = f64::from(x[i]);
        close(values[i].into(), v * v * v + 7.0 * v, 1.0, 1e-5, "a value");
        // The slope is one of f32.
        close(got[i], 3.0 * v * v * dx[i] + 2.0 * dy[i] * v, 1.0, 1e-6, "a rule");
    }
    let lost = tracked.lost();
    let [one] = &lost[..] else { panic!("{lost:?}") };
    let line =
        include_str!("../../ptx/tangents.cu").lines().position(|line| line.contains("ad.lost"));
    let (file, at, _) = one.place.source.clone().expect("line information");
    assert_eq!((file.as_str(), Some(at as usize)), ("tangents.cu", line.map(|line| line + 1)));
    assert_eq!((one.opcode.as_str(), one.count, one.place.thread), ("ad.lost.f64", 1, [5, 0, 0]));
    assert!(values[5] == x[5] && got[5].is_nan());
}

/// A function and its derivative.
type Known = (&'static str, fn(f64) -> f64);

#[test]
fn functions_of_the_library_are_right_or_lost() {
    let known: [Known; 19] = [
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("exp", f64::exp),
        ("log", f64::ln),
        ("pow", |x| x.powf(1.5)),
        ("tanh", f64::tanh),
        ("atan", f64::atan),
        ("cbrt", f64::cbrt),
        // Its derivative is known: an integral of it is enough for differences.
        ("erf", |x| {
            let steps = 2000;
            let h = x / f64::from(steps);
            let f = |t: f64| (-t * t).exp() * std::f64::consts::FRAC_2_SQRT_PI;
            (0..steps).map(|k| f((f64::from(k) + 0.5) * h) * h).sum()
        }),
        ("exp2", f64::exp2),
        ("exp of f64", f64::exp),
        ("log of f64", f64::ln),
        ("sin of f64", f64::sin),
        ("sqrt", |x| x.sqrt() / (1.0 + x)),
        ("hypot", |x| x.hypot(2.0)),
        ("fmod", |x| x % 0.75),
        ("floor", |x| x.floor() * x),
        ("copysign", |x| -x * x),
        ("isfinite", |x| x * x),
    ];
    let tracked = Tracked::new();
    let program = tracked.load(TEXT);
    let n = 64;
    let x: Vec<f32> = (0..n).map(|i| 0.0512 + 0.0731 * i as f32).collect();
    let px = tracked.upload(&x, Real::F32, &[1.0; 64]);
    let mut right = Vec::new();
    for (which, (name, f)) in known.into_iter().enumerate() {
        let out = tracked.device.upload(&[0f32; 64]);
        let args = [px, out, which as u64, n as u64];
        tracked.launch(&program, "library", shape(1, 64), &args);
        let got = tracked.get(out, Real::F32, n);
        let lost = tracked.lost();
        if lost.is_empty() {
            right.push(name);
        }
        for (i, (&x, &got)) in x.iter().zip(&got).enumerate() {
            let wanted = slope(1e-5, |step| f(f64::from(x) + step));
            // NaN says that it is not known.
            if lost.is_empty() || !got.is_nan() {
                close(got, wanted, wanted.abs().max(1.0), 1e-4, &format!("{name} at {x}, {i}"));
            }
        }
        for one in &lost {
            assert!(one.place.source.is_some() && one.count > 0, "{name}: {one}");
        }
    }
    // These scale by bits.
    for name in ["exp", "log", "pow", "exp of f64", "log of f64"] {
        assert!(!right.contains(&name), "{name} is not lost; right are {right:?}");
    }
    for name in ["sqrt", "floor", "copysign", "isfinite"] {
        assert!(right.contains(&name), "{name} is lost; right are {right:?}");
    }
}
