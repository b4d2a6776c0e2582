//! Transforms against the sum that defines them.

use std::f64::consts::TAU;
use std::ptr;

use blas_emu::cufft::*;
use cuda_sys::cufft::*;

use crate::lab::*;

fn transform(x: &[Z], dims: [usize; 3], sign: f64) -> Vec<Z> {
    let mut x = x.to_vec();
    let strides = [dims[1] * dims[2], dims[2], 1];
    for d in 0..3 {
        let (n, stride) = (dims[d], strides[d]);
        let roots: Vec<Z> =
            (0..n).map(|k| TAU * k as f64 / n as f64).map(|a| (a.cos(), sign * a.sin())).collect();
        let before = x.clone();
        for (at, out) in x.iter_mut().enumerate() {
            let (k, base) = (at / stride % n, at - at / stride % n * stride);
            *out = (0..n).fold((0.0, 0.0), |sum, j| {
                plus(sum, times(before[base + j * stride], roots[j * k % n]))
            });
        }
    }
    x
}

#[track_caller]
fn same(got: &[double2], expected: &[Z], epsilon: f64, what: &str) {
    assert_eq!(got.len(), expected.len());
    let size = (expected.len() as f64).sqrt() * 30.0 * epsilon;
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (got.x - expected.0).abs().max((got.y - expected.1).abs());
        assert!(error <= size, "{what} at {at}: {got:?} is not {expected:?}");
    }
}

#[test]
fn complex_transforms_of_each_length() {
    enter();
    for n in [1, 2, 3, 4, 7, 8, 31, 32, 33, 60, 97, 128, 257, 1000, 1009, 2038] {
        let x: Vec<double2> = Random(n as u64).many(3 * n);
        let singles: Vec<float2> =
            x.iter().map(|x| float2 { x: x.x as f32, y: x.y as f32 }).collect();
        let (dx, dy, ds) = (Memory::new(&x), Memory::new(&x), Memory::new(&singles));
        let (mut plan, mut single) = (0, 0);
        ok!(cufftPlan1d(&raw mut plan, int(n), cufftType::CUFFT_Z2Z, 3));
        ok!(cufftPlan1d(&raw mut single, int(n), cufftType::CUFFT_C2C, 3));
        for (direction, sign) in [(-1, -1.0), (1, 1.0)] {
            let of = |x: &[Z]| {
                x.chunks(n).flat_map(|x| transform(x, [1, 1, n], sign)).collect::<Vec<Z>>()
            };
            ok!(cufftExecZ2Z(plan, dx.at(), dy.at(), direction));
            let z: Vec<Z> = x.iter().map(|x| x.z()).collect();
            same(&dy.get(), &of(&z), 2e-16, &format!("{n}"));
            let before: Vec<Z> = ds.get().iter().map(|x| x.z()).collect();
            ok!(cufftExecC2C(single, ds.at(), ds.at(), direction));
            let got: Vec<double2> =
                ds.get().iter().map(|x| double2 { x: x.x.into(), y: x.y.into() }).collect();
            let scale = before.iter().fold(1.0f64, |most, z| most.max(z.0.abs()).max(z.1.abs()));
            same(&got, &of(&before), 1e-7 * scale, &format!("{n} in place"));
        }
        ok!(cufftDestroy(plan));
        ok!(cufftDestroy(single));
    }
}

#[test]
fn real_transforms_of_one_to_three_dimensions() {
    enter();
    for dims in [[1, 1, 1], [1, 1, 8], [1, 1, 33], [1, 6, 5], [3, 4, 6], [2, 3, 7]] {
        let (total, half) = (dims.iter().product::<usize>(), dims[2] / 2 + 1);
        let x: Vec<f64> = Random(total as u64).many(total);
        let rows = total / dims[2];
        let (dx, dy) =
            (Memory::new(&x), Memory::new(&vec![double2 { x: 0.0, y: 0.0 }; rows * half]));
        let back = Memory::new(&x);
        let [mut forward, mut inverse] = [0; 2];
        let [a, b, c] = dims.map(int);
        ok!(cufftPlan3d(&raw mut forward, a, b, c, cufftType::CUFFT_D2Z));
        ok!(cufftPlan3d(&raw mut inverse, a, b, c, cufftType::CUFFT_Z2D));
        ok!(cufftExecD2Z(forward, dx.at(), dy.at()));
        let all = transform(&x.iter().map(|x| (*x, 0.0)).collect::<Vec<_>>(), dims, -1.0);
        let expected: Vec<Z> =
            (0..rows * half).map(|at| all[at / half * dims[2] + at % half]).collect();
        same(&dy.get(), &expected, 4e-16, &format!("{dims:?}"));
        ok!(cufftExecZ2D(inverse, dy.at(), back.at()));
        for (got, x) in back.get().iter().zip(&x) {
            assert!((got / total as f64 - x).abs() < 1e-14, "{dims:?}");
        }
        // In place, rows are padded.
        let mut padded = vec![0.0; rows * 2 * half];
        for at in 0..total {
            padded[at / dims[2] * 2 * half + at % dims[2]] = x[at];
        }
        let place = Memory::new(&padded);
        ok!(cufftExecD2Z(forward, place.at(), place.at().cast()));
        let got: Vec<double2> =
            place.get().chunks(2).map(|z| double2 { x: z[0], y: z[1] }).collect();
        same(&got, &expected, 4e-16, "in place");
        ok!(cufftDestroy(forward));
        ok!(cufftDestroy(inverse));
    }
}

#[test]
fn layouts_work_areas_and_captures() {
    let blas = Blas::new();
    let (mut plan, mut bytes) = (0, 0);
    let x: Vec<double2> = Random(9).many(200);
    let (dx, dy) = (Memory::new(&x), Memory::new(&x));
    ok!(cufftCreate(&raw mut plan));
    ok!(cufftSetAutoAllocation(plan, 0));
    let (mut n, mut embed) = ([3i64, 5], [4i64, 7]);
    let list = embed.as_mut_ptr();
    ok!(cufftMakePlanMany64(
        plan,
        2,
        n.as_mut_ptr(),
        list,
        2,
        70,
        list,
        1,
        50,
        cufftType::CUFFT_Z2Z,
        2,
        &raw mut bytes
    ));
    let invalid = cufftResult::CUFFT_INVALID_VALUE;
    fails!(invalid, "work area", cufftExecZ2Z(plan, dx.at(), dy.at(), -1));
    let work = Memory::new(&vec![0u8; bytes]);
    ok!(cufftSetWorkArea(plan, work.void()));
    ok!(cufftSetStream(plan, blas.stream));
    let graph = blas.capture(|| ok!(cufftExecZ2Z(plan, dx.at(), dy.at(), -1)));
    graph.launch(blas.stream);
    let got = dy.get();
    for batch in 0..2 {
        let of = |at: usize| x[batch * 70 + (at / 5 * 7 + at % 5) * 2].z();
        let expected = transform(&(0..15).map(of).collect::<Vec<_>>(), [1, 3, 5], -1.0);
        let own: Vec<double2> = (0..15).map(|at| got[batch * 50 + at / 5 * 7 + at % 5]).collect();
        same(&own, &expected, 2e-16, "a layout");
    }
    fails!(invalid, "direction 0", cufftExecZ2Z(plan, dx.at(), dy.at(), 0));
    fails!(
        cufftResult::CUFFT_INVALID_TYPE,
        "of type",
        cufftExecC2C(plan, dx.at().cast(), dy.at().cast(), 1)
    );
    fails!(invalid, "null", cufftExecZ2Z(plan, ptr::null_mut(), dy.at(), 1));
    ok!(cufftDestroy(plan));
    fails!(cufftResult::CUFFT_INVALID_PLAN, "does not exist", cufftDestroy(plan));
    fails!(
        cufftResult::CUFFT_INVALID_SIZE,
        "length of 0",
        cufftPlan1d(&raw mut plan, 0, cufftType::CUFFT_C2C, 1)
    );
    fails!(
        cufftResult::CUFFT_INVALID_SIZE,
        "batch 0",
        cufftPlan1d(&raw mut plan, 8, cufftType::CUFFT_C2C, 0)
    );
    fails!(
        cufftResult::CUFFT_INVALID_TYPE,
        "type 3",
        cufftPlan1d(&raw mut plan, 8, cufftType(3), 1)
    );
}
