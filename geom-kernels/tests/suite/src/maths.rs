//! Vectors, matrices, quaternions and transforms: against f64, in the order of `maths.cu`.

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, LaunchConfig};

use super::flags::{flags, module};
use geom_oracle::linear::{
    Matrix, Quat, add, cross, determinant, dot, inverse, largest, length, mul, normalize, outer,
    product, rotate, scale, sub, times, to_matrix, transpose, turn,
};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) const SOURCE: &str = include_str!("../kernels/maths.cu");

pub(super) fn cases() -> Vec<Case> {
    cases![
        "geometry::maths",
        device(vectors_match_f64 = |d| both(d, "vectors", vectors)),
        device(matrices_match_f64 = |d| both(d, "matrices", matrices)),
        device(rotations_match_f64 = |d| both(d, "rotations", rotations)),
        device(degenerate_input_has_a_meaning = |d| { both(d, "degenerate", degenerate) }),
    ]
}

/// What a thread must give: values, each with the size of what was rounded on the way, and a name.
#[derive(Default)]
struct Wanted(Vec<(f64, f64, &'static str)>);

impl Wanted {
    fn put(&mut self, name: &'static str, values: &[f64]) {
        self.put_within(name, values, 1.0);
    }

    fn put_within(&mut self, name: &'static str, values: &[f64], size: f64) {
        self.0.extend(values.iter().map(|value| (*value, size, name)));
    }
}

/// Numbers a thread reads.
const INPUTS: usize = 32;

type Oracle = fn(&[f64; INPUTS]) -> Wanted;

fn both(device: &TestDevice, kernel: &str, oracle: Oracle) -> TestResult {
    let threads = 300;
    let numbers = device.rng(42).floats(threads * INPUTS);
    let wide: Vec<f64> = numbers.iter().map(|number| f64::from(*number)).collect();
    let (inputs, _) = wide.as_chunks::<INPUTS>();
    let wanted: Vec<_> = inputs.iter().map(oracle).collect();
    // With fast mathematics nothing is promised but that it compiles and runs.
    for (flag, options) in &flags()[..2] {
        let module = module(device, SOURCE, options.clone())?;
        let single = module.kernel(&format!("{kernel}_float"))?;
        let double = module.kernel(&format!("{kernel}_double"))?;
        run(device, &single, &numbers, &wanted, f64::from(f32::EPSILON))
            .and_then(|()| run(device, &double, &wide, &wanted, f64::EPSILON))
            .map_err(|error| Failure::new(format!("{flag}: {error}")))?;
    }
    Ok(())
}

fn run<T: Pod + Into<f64>>(
    device: &TestDevice,
    kernel: &cuda_safe::Kernel,
    numbers: &[T],
    wanted: &[Wanted],
    epsilon: f64,
) -> TestResult {
    let stream = device.stream()?;
    let n = wanted.len();
    let results = wanted[0].0.len();
    let input = DeviceBuffer::from_slice(&stream, numbers)?;
    // One row more than there must be, to see that no result is without an oracle.
    let filler = vec![numbers[0]; n * (results + 1)];
    let mut out = DeviceBuffer::from_slice(&stream, &filler)?;
    let arguments = (&input, &mut out, n as u32);
    // SAFETY: each of n threads reads its 32 numbers and writes elements k * n + i; were there more
    // results than names, the check of the last row, which is there, would tell before others are.
    unsafe { device.launch(kernel, &stream, LaunchConfig::cover(n, 64), arguments) }?;
    let out: Vec<f64> = out.to_vec(&stream)?.into_iter().map(Into::into).collect();
    let untouched: f64 = numbers[0].into();
    ensure!(out[n * results..].iter().all(|value| *value == untouched), "more than {results}");
    for (i, wanted) in wanted.iter().enumerate() {
        ensure_eq!(wanted.0.len(), results);
        for (k, (value, size, name)) in wanted.0.iter().enumerate() {
            let got = out[k * n + i];
            let bound = 40.0 * epsilon * size.max(value.abs());
            // Not negated: a NaN is as wrong as a large error.
            if (got - value).abs() <= bound || (got.is_nan() && value.is_nan()) {
                continue;
            }
            return Err(Failure::new(format!(
                "{name} (result {k} of thread {i}) is {got}, not {value} within {bound}"
            )));
        }
    }
    Ok(())
}

/// `N` numbers of a thread.
fn part<const N: usize>(input: &[f64; INPUTS], at: usize) -> [f64; N] {
    std::array::from_fn(|i| input[at + i])
}

fn vectors(input: &[f64; INPUTS]) -> Wanted {
    let (a, b): ([f64; 3], [f64; 3]) = (part(input, 0), part(input, 3));
    let (c, d): ([f64; 4], [f64; 4]) = (part(input, 6), part(input, 10));
    let (e, f): ([f64; 2], [f64; 2]) = (part(input, 0), part(input, 3));
    let s = input[14];
    let least = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let pairs = |f: fn(f64, f64) -> f64| -> [f64; 3] { std::array::from_fn(|i| f(a[i], b[i])) };
    let mut w = Wanted::default();
    w.put("a + b", &add(a, b));
    w.put("a - b", &sub(a, b));
    w.put("a * b", &pairs(|a, b| a * b));
    w.put("-a", &scale(a, -1.0));
    w.put("a * s", &scale(a, s));
    w.put("s * a", &scale(a, s));
    w.put("a / 4", &scale(a, 0.25));
    w.put("a / (2, 4, 8)", &[a[0] / 2.0, a[1] / 4.0, a[2] / 8.0]);
    w.put("dot", &[dot(&a, &b)]);
    w.put("cross", &cross(a, b));
    w.put("length", &[length(&a)]);
    w.put("length_squared", &[dot(&a, &a)]);
    w.put("distance", &[length(&sub(a, b))]);
    let difference = sub(a, b);
    w.put("distance_squared", &[dot(&difference, &difference)]);
    w.put("normalize", &normalize(a));
    w.put("min", &pairs(f64::min));
    w.put("max", &pairs(f64::max));
    w.put("abs", &pairs(|a, _| a.abs()));
    w.put("clamp", &pairs(|a, b| a.clamp(-b.abs(), b.abs())));
    w.put("min_component", &[least(&a)]);
    w.put("max_component", &[greatest(&a)]);
    w.put("lerp", &add(a, scale(sub(b, a), s)));
    w.put("dot of 4", &[dot(&c, &d)]);
    w.put("length of 4", &[length(&c)]);
    w.put("normalize of 4", &normalize(c));
    w.put("min_component of 4", &[least(&c)]);
    w.put("dot of 2", &[dot(&e, &f)]);
    w.put("cross of 2", &[e[0] * f[1] - e[1] * f[0]]);
    w.put("normalize of 2", &normalize(e));
    w.put("max_component of 2", &[greatest(&e)]);
    let assigned = scale(sub(scale(add(a, b), s), b), 0.5);
    w.put("assignments", &std::array::from_fn::<f64, 3, _>(|i| assigned[i] * b[i]));
    w.put("== and !=", &[1.0]);
    w.put("CUDA's own", &scale(b, 2.0));
    // Exact: products of a multiple of 2^-23 and 100 that are near an integer are integers in f32 too,
    // or rounded to the same side.
    w.put_within("as int", &b.map(|x| ((x as f32) * 100.0).trunc().into()), 0.0);
    w.put("operator[]", &[c[0] + 2.0 * c[1] + 3.0 * c[2] + 4.0 * c[3]]);
    w
}

/// Columns of consecutive numbers.
fn matrix<const N: usize>(input: &[f64; INPUTS], at: usize) -> Matrix<N> {
    std::array::from_fn(|i| part(input, at + N * i))
}

/// Puts a determinant and an inverse, whose errors grow as the determinant falls.
fn put_inverse<const N: usize>(w: &mut Wanted, m: &Matrix<N>) {
    let (det, size) = (determinant(m), largest(m).powi(N as i32) * 8.0);
    let inverse = inverse(m);
    w.put_within("determinant", &[det], size);
    w.put_within("inverse", inverse.as_flattened(), largest(&inverse) * size / det.abs());
}

fn matrices(input: &[f64; INPUTS]) -> Wanted {
    let (m, m2): (Matrix<4>, Matrix<4>) = (matrix(input, 0), matrix(input, 16));
    let (r, r2): (Matrix<3>, Matrix<3>) = (matrix(input, 0), matrix(input, 9));
    let q: Matrix<2> = [part(input, 0), part(input, 2)];
    let (x, y): ([f64; 4], [f64; 4]) = (part(input, 0), part(input, 4));
    let (x3, y3, v3): ([f64; 3], [f64; 3], [f64; 3]) =
        (part(input, 0), part(input, 3), part(input, 20));
    let mut w = Wanted::default();
    w.put("mat4 * mat4", product(&m, &m2).as_flattened());
    w.put("mat4 * vec4", &times(&m, part(input, 16)));
    w.put("transpose of mat4", transpose(&m).as_flattened());
    put_inverse(&mut w, &m);
    let sum: Matrix<4> = std::array::from_fn(|i| sub(m[i], scale(m2[i], 2.0)));
    w.put("mat4 - 2 mat4", sum.as_flattened());
    w.put("mat4 from rows", transpose(&m).as_flattened());
    w.put("row of mat4", &transpose(&m)[2]);
    w.put("mat4(1, 3)", &[m[3][1]]);
    w.put("mat4 * identity", m.as_flattened());
    w.put("outer of vec4", outer(x, y).as_flattened());
    w.put("mat3 * mat3", product(&r, &r2).as_flattened());
    w.put("mat3 * vec3", &times(&r, v3));
    w.put("transpose of mat3", transpose(&r).as_flattened());
    put_inverse(&mut w, &r);
    let sum: Matrix<3> = std::array::from_fn(|i| add(r[i], r2[i]));
    w.put("mat3 + mat3", sum.as_flattened());
    w.put("outer of vec3", outer(x3, y3).as_flattened());
    w.put("skew", &cross(x3, y3));
    w.put("mat3 from rows", transpose(&r).as_flattened());
    w.put("row of mat3", &transpose(&r)[1]);
    w.put("mat2 * mat2", product(&q, &q).as_flattened());
    w.put("mat2 * vec2", &times(&q, part(input, 20)));
    put_inverse(&mut w, &q);
    w.put("outer of vec2", outer([x[0], x[1]], [x[3], y[0]]).as_flattened());
    w
}

fn rotations(input: &[f64; INPUTS]) -> Wanted {
    let (axis, p) = (normalize(part(input, 0)), part(input, 4));
    let axis2 = normalize(part(input, 7));
    let (angle, angle2) = (3.0 * input[3], 3.0 * input[10]);
    let (q, q2): (Quat, Quat) = (turn(axis, angle), turn(axis2, angle2));
    let back = [-q[0], -q[1], -q[2], q[3]];
    let mut w = Wanted::default();
    w.put("from_axis_angle", &q);
    w.put("rotate", &rotate(q, p));
    w.put("quat * quat", &mul(q, q2));
    w.put("conjugate", &rotate(back, p));
    w.put("to_matrix", to_matrix(q).as_flattened());
    w.put_within("from_matrix", to_matrix(q).as_flattened(), 4.0);
    w.put("normalize", &q);
    w.put("inverse of quat", &scale(back, 0.5));
    // The angle is at most 3 here, so the axis turns over with its sign.
    let small = (angle / 2.0).sin().abs();
    w.put("angle", &[angle.abs()]);
    w.put_within("axis", &scale(axis, angle.signum()), 1.0 / small);
    let cosine = dot(&q, &q2);
    let near = scale(q2, cosine.signum());
    let (t, between) = (input[11].abs(), cosine.abs().min(1.0).acos());
    let (u, v) = (((1.0 - t) * between).sin(), (t * between).sin());
    let slerp = add(scale(q, u / between.sin()), scale(near, v / between.sin()));
    w.put_within("slerp", &slerp, 4.0);

    let (move1, move2): ([f64; 3], [f64; 3]) = (part(input, 12), part(input, 15));
    let g = |p| add(rotate(q, p), move1);
    let h = |p| add(rotate(q2, p), move2);
    w.put_within("rigid point", &g(p), 2.0);
    w.put("rigid direction", &rotate(q, p));
    w.put("rigid normal", &rotate(q, axis2));
    w.put_within("rigid * rigid", &g(h(p)), 4.0);
    w.put_within("rigid inverse", &rotate(back, sub(p, move1)), 4.0);

    let m: Matrix<3> = matrix(input, 18);
    let cofactors = [cross(m[1], m[2]), cross(m[2], m[0]), cross(m[0], m[1])];
    let a = |p| add(times(&m, p), move1);
    w.put_within("affine point", &a(p), 2.0);
    w.put("affine direction", &times(&m, p));
    let normal = scale(times(&cofactors, axis2), determinant(&m).signum());
    w.put_within("affine normal", &normalize(normal), 6.0 / length(&normal));
    w.put_within("affine * affine", &a(h(p)), 6.0);
    let inverse = inverse(&m);
    let size = 24.0 * largest(&inverse) / determinant(&m).abs();
    w.put_within("affine inverse", &times(&inverse, sub(p, move1)), size);
    w.put_within("matrix of affine", &a(p), 2.0);
    w
}

fn degenerate(_: &[f64; INPUTS]) -> Wanted {
    let zeros = [0.0; 16];
    let mut w = Wanted::default();
    w.put("normalize zeros", &zeros[..3]);
    w.put("normalize zeros otherwise", &[1.0, 0.0, 0.0]);
    w.put("normalize zeros of 2", &zeros[..2]);
    w.put("normalize zeros of 4", &zeros[..4]);
    w.put_within("inverse of a singular mat3", &zeros[..9], 0.0);
    w.put_within("inverse of a singular mat4", &zeros, 0.0);
    w.put_within("inverse of a singular mat2", &zeros[..4], 0.0);
    w.put("normalize no quat", &[0.0, 0.0, 0.0, 1.0]);
    w.put("inverse of no quat", &zeros[..4]);
    w.put("no angle", &[0.0]);
    w.put("axis of no turn", &[1.0, 0.0, 0.0]);
    w.put("slerp to itself", &[0.0, 0.0, 0.0, 1.0]);
    w.put("slerp to its opposite", &[0.0, 0.0, 0.0, 1.0]);
    w.put("slerp over half a turn", &[1.0]);
    w.put("half a turn about x", &[1.0, 0.0, 0.0, 0.0]);
    w.put("half a turn about y", &[0.0, 1.0, 0.0, 0.0]);
    w.put("half a turn about z", &[0.0, 0.0, 1.0, 0.0]);
    w.put("normal of a projection", &[0.0, 0.0, 1.0]);
    w.put("normal along a projection", &zeros[..3]);
    w.put("normal of a mirror", &[0.0, 0.0, -1.0]);
    w.put("through the inverse of a projection", &zeros[..3]);
    w.put("min with NaN", &[1.0, 1.0, -1.0]);
    w
}
