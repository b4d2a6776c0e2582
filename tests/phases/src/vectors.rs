//! The library's vectors and matrices.

use bytemuck::{Pod, Zeroable};
use cuda_safe::nvrtc::Arch;
use gpu_phases::vector::{Mat2, Mat3, Vec2, Vec3, Vec4};
use gpu_phases::{Device, kernel};

use crate::both;

#[kernel]
fn of_three(x: &[Vec3], scalars: &mut [[f32; 5]], out: &mut [[Vec3; 12]]) {
    assert!(x.len() == 3 * out.len() && scalars.len() == out.len());
    each((scalars, out), |i, (scalars, out)| {
        let (a, b, c) = (x[3 * i], x[3 * i + 1], x[3 * i + 2]);
        let m = Mat3::from_cols(a, b, c);
        let mut moved = a;
        moved += b;
        moved -= c * 0.5;
        moved *= 2.0;
        moved /= 3.0;
        let mut sum = m + Mat3::from_diagonal(b);
        sum -= Mat3::outer(a, c);
        sum *= 0.25;
        *scalars = [a.dot(b), a.length_squared(), a.distance(b), m.determinant(), m.trace()];
        *out = [
            moved,
            a.normalize(),
            a.cross(b),
            a.times(b).along(c, -1.5),
            a.lerp(b, 0.25) - a.reflect(b.normalize()),
            a.min(b) + a.max(c) + -a.abs() + a.floor(),
            m * b,
            m.transpose_mul(b),
            (m * sum).y_axis,
            (m.inverse() * m).z_axis,
            (-sum.transpose()).x_axis,
            Vec3::from_array(a.to_array()) / 7.0 + Vec3::splat(b.length()),
        ];
    });
}

#[kernel]
fn of_two_and_four(x: &[Vec4], out: &mut [[Vec2; 4]], four: &mut [Vec4]) {
    assert!(x.len() == out.len() && four.len() == out.len());
    each((out, four), |i, (out, four)| {
        let v = x[i];
        let (a, b) = (Vec2::new(v.x, v.y), Vec2::new(v.z, v.w));
        let m = Mat2::from_cols(a, b);
        *out = [m * b, (m * m.transpose()) * a, m.inverse() * (m * a), Vec2::splat(a.cross(b))];
        *four = v.normalize()
            + Vec4::new(v.xyz().length(), m.determinant(), m.trace(), v.xyz().extend(1.0).w);
    });
}

fn random(n: usize) -> Vec<f32> {
    let mut state = 7u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 * 4.0 - 4.0
    };
    (0..n).map(|_| next()).collect()
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn map2(a: [f64; 3], b: [f64; 3], f: impl Fn(f64, f64) -> f64) -> [f64; 3] {
    std::array::from_fn(|k| f(a[k], b[k]))
}

/// The oracle of `of_three`, in f64.
fn expected(a: [f64; 3], b: [f64; 3], c: [f64; 3]) -> ([f64; 5], [[f64; 3]; 12]) {
    let columns = [a, b, c];
    let times = |m: &[[f64; 3]; 3], v: [f64; 3]| -> [f64; 3] {
        std::array::from_fn(|row| (0..3).map(|k| m[k][row] * v[k]).sum())
    };
    let moved = map2(map2(a, b, |a, b| a + b), c, |x, c| (x - c * 0.5) * 2.0 / 3.0);
    let length = |a| dot(a, a).sqrt();
    let unit = |a: [f64; 3]| a.map(|x| x / length(a));
    let sum: [[f64; 3]; 3] = std::array::from_fn(|col| {
        std::array::from_fn(|row| {
            let diagonal = if row == col { b[row] } else { 0.0 };
            (columns[col][row] + diagonal - a[row] * c[col]) * 0.25
        })
    });
    let reflected = map2(a, unit(b), |x, n| x - 2.0 * dot(a, unit(b)) * n);
    let scalars = [
        dot(a, b),
        dot(a, a),
        length(map2(a, b, |a, b| a - b)),
        dot(a, cross(b, c)),
        a[0] + b[1] + c[2],
    ];
    let out = [
        moved,
        unit(a),
        cross(a, b),
        map2(map2(a, b, |a, b| a * b), c, |x, c| x - 1.5 * c),
        map2(map2(a, b, |a, b| a + (b - a) * 0.25), reflected, |x, y| x - y),
        std::array::from_fn(|k| a[k].min(b[k]) + a[k].max(c[k]) - a[k].abs() + a[k].floor()),
        times(&columns, b),
        columns.map(|column| dot(column, b)),
        times(&columns, sum[1]),
        [0.0, 0.0, 1.0],
        std::array::from_fn(|k| -sum[k][0]),
        a.map(|x| x / 7.0 + length(b)),
    ];
    (scalars, out)
}

#[test]
fn vectors_of_three_are_right() {
    let x: Vec<Vec3> =
        random(9 * 200).chunks_exact(3).map(|v| Vec3::new(v[0], v[1], v[2])).collect();
    let (scalars, out) =
        both!(of_three(read x, write vec![[0.0f32; 5]; 200], write vec![[Vec3::ZERO; 12]; 200]))
            .unwrap();
    for (i, v) in x.chunks_exact(3).enumerate() {
        let [a, b, c] = [v[0], v[1], v[2]].map(|v| v.to_array().map(f64::from));
        let (wanted, vectors) = expected(a, b, c);
        for (got, wanted) in scalars[i].iter().zip(wanted) {
            assert!(
                (f64::from(*got) - wanted).abs() < 1e-4 * (1.0 + wanted.abs()),
                "{got} {wanted}"
            );
        }
        // The inverse loses as many digits as the matrix is near to a singular one.
        let singular = wanted[3].abs() < 0.5;
        for (at, (got, wanted)) in
            out[i].iter().zip(vectors).enumerate().filter(|(at, _)| *at != 9 || !singular)
        {
            for (got, wanted) in got.to_array().iter().zip(wanted) {
                let error = (f64::from(*got) - wanted).abs();
                assert!(error < 2e-4 * (1.0 + wanted.abs()), "{i} {at}: {got} {wanted}");
            }
        }
    }
    assert_eq!(Vec3::ZERO.normalize(), Vec3::ZERO);
    assert_eq!(<[f32; 3]>::from(Vec3::from([1.0, 2.0, 3.0])), [1.0, 2.0, 3.0]);
}

#[test]
fn vectors_of_two_and_four_are_right() {
    let x: Vec<Vec4> =
        random(4 * 300).chunks_exact(4).map(|v| Vec4::new(v[0], v[1], v[2], v[3])).collect();
    let zeros = vec![[Vec2::ZERO; 4]; 300];
    let (two, four) =
        both!(of_two_and_four(read x, write zeros, write vec![Vec4::ZERO; 300])).unwrap();
    for (i, v) in x.iter().enumerate() {
        let [ax, ay, bx, by] = v.to_array().map(f64::from);
        let times = |x: f64, y: f64| [ax * x + bx * y, ay * x + by * y];
        let transposed = |x: f64, y: f64| times(ax * x + ay * y, bx * x + by * y);
        let det = ax * by - ay * bx;
        let wanted = [times(bx, by), transposed(ax, ay), [ax, ay], [det, det]];
        for (at, (got, wanted)) in
            two[i].iter().zip(wanted).enumerate().filter(|(at, _)| *at != 2 || det.abs() > 0.5)
        {
            for (got, wanted) in got.to_array().iter().zip(wanted) {
                let error = (f64::from(*got) - wanted).abs();
                assert!(error < 2e-4 * (1.0 + wanted.abs()), "{i} {at}: {got} {wanted}");
            }
        }
        let length = (ax * ax + ay * ay + bx * bx + by * by).sqrt();
        let more = [(ax * ax + ay * ay + bx * bx).sqrt(), det, ax + by, 1.0];
        let wanted = [ax, ay, bx, by].into_iter().zip(more).map(|(x, more)| x / length + more);
        for (got, wanted) in four[i].to_array().iter().zip(wanted) {
            assert!(
                (f64::from(*got) - wanted).abs() < 1e-4 * (1.0 + wanted.abs()),
                "{i}: {got} {wanted}"
            );
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Device, Pod, Zeroable)]
#[repr(C, align(16))]
struct Cell {
    index: u32,
    at: [f32; 2],
    size: f32,
}

/// The first parameter leaves the next one unaligned, unless C++ aligns it.
#[kernel]
fn moved(flag: bool, by: Cell, cells: &[Cell], out: &mut [Cell]) {
    assert!(cells.len() == out.len());
    each(out, |i, out| {
        let cell = cells[i];
        let size = if flag { by.size } else { 0.0 };
        *out = Cell { index: cell.index + by.index, at: [cell.at[1], by.at[0]], size };
    });
}

#[test]
fn structures_have_the_alignment_of_rust() {
    let by = Cell { index: 7, at: [0.5, 0.0], size: -2.0 };
    let cells: Vec<Cell> =
        (0..70).map(|i| Cell { index: i, at: [0.0, i as f32], size: 1.0 }).collect();
    let out = both!(moved(value true, value by, read cells, write cells.clone())).unwrap();
    for (i, out) in out.iter().enumerate() {
        assert_eq!(*out, Cell { index: i as u32 + 7, at: [i as f32, 0.5], size: -2.0 });
    }
    for kernel in [moved::kernel(), of_two_and_four::kernel()] {
        let ptx = cuda_safe::kernel::ptx(kernel, Arch::compute(7, 5)).unwrap();
        assert!(ptx.contains("ld.global.nc.v4"), "{ptx}");
        assert!(ptx.contains("st.global.v4"), "{ptx}");
    }
}
