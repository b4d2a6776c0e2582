//! Products of cuBLASLt: layouts, epilogues, scales.

use std::ffi::c_void;
use std::ptr;

use blas_emu::cublaslt::*;
use cuda_sys::cublas::{cudaDataType, float2};
use cuda_sys::cublaslt::*;
use half::bf16;

use crate::lab::*;

const F32: cublasComputeType_t = cublasComputeType_t::CUBLAS_COMPUTE_32F;

fn handle() -> cublasLtHandle_t {
    enter();
    let mut handle = ptr::null_mut();
    ok!(cublasLtCreate(&raw mut handle));
    handle
}

fn layout(
    ty: cudaDataType,
    rows: usize,
    cols: usize,
    row_major: bool,
    batches: i32,
) -> cublasLtMatrixLayout_t {
    let mut layout = ptr::null_mut();
    let ld = if row_major { cols } else { rows } + 1;
    ok!(cublasLtMatrixLayoutCreate(&raw mut layout, ty, rows as u64, cols as u64, ld as i64));
    let order = i32::from(row_major);
    let stride = (ld * if row_major { rows } else { cols }) as i64;
    for (attribute, value, bytes) in [
        (1, (&raw const order).cast::<c_void>(), 4),
        (5, (&raw const batches).cast(), 4),
        (6, (&raw const stride).cast(), 8),
    ] {
        ok!(cublasLtMatrixLayoutSetAttribute(
            layout,
            cublasLtMatrixLayoutAttribute_t(attribute),
            value,
            bytes
        ));
    }
    layout
}

fn desc<T>(
    compute: cublasComputeType_t,
    scale: cudaDataType,
    attributes: &[(u32, T)],
) -> cublasLtMatmulDesc_t {
    let mut desc = ptr::null_mut();
    ok!(cublasLtMatmulDescCreate(&raw mut desc, compute, scale));
    for (attribute, value) in attributes {
        set(desc, *attribute, value);
    }
    desc
}

fn set<T>(desc: cublasLtMatmulDesc_t, attribute: u32, value: &T) {
    let value = ptr::from_ref(value).cast();
    ok!(cublasLtMatmulDescSetAttribute(
        desc,
        cublasLtMatmulDescAttributes_t(attribute),
        value,
        size_of::<T>()
    ));
}

/// The place of an element of a matrix of [`layout`].
fn place([rows, cols]: [usize; 2], row_major: bool, i: usize, j: usize) -> usize {
    if row_major { i * (cols + 1) + j } else { i + j * (rows + 1) }
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x * x * x)).tanh())
}

#[test]
fn epilogues_in_both_orders() {
    let (handle, batches) = (handle(), 2);
    for (m, n, k) in [(1, 1, 1), (33, 5, 32), (16, 31, 7)] {
        for (number, act) in [1u32, 2, 4, 6, 32, 36].into_iter().enumerate() {
            let orders = [number % 2 == 0, number % 3 == 0, number % 2 == 1, number % 5 == 0];
            let transposed = number % 2;
            let sizes = [if transposed == 1 { [k, m] } else { [m, k] }, [k, n], [m, n], [m, n]];
            let mut random = Random(7 + (m * n) as u64);
            let mut all = sizes.iter().zip(orders).map(|([r, c], order)| {
                let count = if order { r * (c + 1) } else { (r + 1) * c };
                random.many::<f32>(count * batches)
            });
            let [a, b, c, d] = [all.next(), all.next(), all.next(), all.next()].map(Option::unwrap);
            let bias: Vec<f32> = Random(3).many(m);
            let [da, db, dc, dd] = [&a, &b, &c, &d].map(|values| Memory::new(values));
            let dbias = Memory::new(&bias);
            let layouts: Vec<_> = sizes
                .iter()
                .zip(orders)
                .map(|([r, c], order)| {
                    layout(cudaDataType::CUDA_R_32F, *r, *c, order, int(batches))
                })
                .collect();
            let desc = desc(F32, cudaDataType::CUDA_R_32F, &[(3, transposed as u32), (7, act)]);
            set(desc, 8, &dbias.address);
            let (alpha, beta) = (0.5f32, -1.0f32);
            ok!(cublasLtMatmul(
                handle,
                desc,
                (&raw const alpha).cast(),
                da.void(),
                layouts[0],
                db.void(),
                layouts[1],
                (&raw const beta).cast(),
                dc.void(),
                layouts[2],
                dd.void(),
                layouts[3],
                ptr::null(),
                ptr::null_mut(),
                0,
                ptr::null_mut()
            ));
            let got = dd.get();
            let base = |which: usize, length: usize, batch: usize| {
                let _ = which;
                length / batches * batch
            };
            for (batch, i, j) in (0..batches)
                .flat_map(|batch| (0..m).flat_map(move |i| (0..n).map(move |j| (batch, i, j))))
            {
                let of = |p: usize| {
                    let (x, y) = if transposed == 1 { (p, i) } else { (i, p) };
                    f64::from(a[base(0, a.len(), batch) + place(sizes[0], orders[0], x, y)])
                        * f64::from(b[base(1, b.len(), batch) + place(sizes[1], orders[1], p, j)])
                };
                let mut value = 0.5 * (0..k).map(of).sum::<f64>()
                    - f64::from(c[base(2, c.len(), batch) + place(sizes[2], orders[2], i, j)]);
                if act & 4 != 0 {
                    value += f64::from(bias[i]);
                }
                value = if act & 2 != 0 {
                    value.max(0.0)
                } else if act & 32 != 0 {
                    gelu(value)
                } else {
                    value
                };
                let what = || format!("{act} at {batch}, {i}, {j}");
                near(
                    got[base(3, d.len(), batch) + place(sizes[3], orders[3], i, j)],
                    (value, 0.0),
                    2 * k + 8,
                    6e-8,
                    what,
                );
            }
            for layout in layouts {
                ok!(cublasLtMatrixLayoutDestroy(layout));
            }
            ok!(cublasLtMatmulDescDestroy(desc));
        }
    }
}

/// The value of an 8-bit float.
fn e4m3(bits: u8) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
    let size = if exponent == 0 {
        mantissa * 2f64.powi(-9)
    } else {
        (8.0 + mantissa) * 2f64.powi(exponent - 10)
    };
    if bits & 128 != 0 { -size } else { size }
}

#[test]
fn eight_bit_floats_with_scales() {
    let handle = handle();
    let (m, n, k) = (16usize, 16usize, 32usize);
    let values = |seed: u64, count: usize| -> Vec<u8> {
        Random(seed)
            .many::<f64>(count)
            .into_iter()
            .map(|x| ((x + 1.0) * 127.0) as u8)
            .map(|x| if x & 127 == 127 { 0 } else { x })
            .collect()
    };
    let (a, b) = (values(1, (m + 1) * k), values(2, (k + 1) * n));
    let zero = vec![bf16::ZERO; (m + 1) * n];
    let (da, db, dc) = (Memory::new(&a), Memory::new(&b), Memory::new(&zero));
    let dd = Memory::new(&vec![0u8; (m + 1) * n]);
    let (scales, most) = (Memory::new(&[0.5f32, 0.25, 0.001]), Memory::new(&[0.0f32]));
    let eight = cudaDataType::CUDA_R_8F_E4M3;
    let layouts = [
        layout(eight, m, k, false, 1),
        layout(eight, k, n, false, 1),
        layout(cudaDataType::CUDA_R_16BF, m, n, false, 1),
        layout(eight, m, n, false, 1),
    ];
    let desc = desc(
        F32,
        cudaDataType::CUDA_R_32F,
        &[
            (17, scales.address),
            (18, scales.address + 4),
            (20, scales.address + 8),
            (21, most.address),
        ],
    );
    let (one, none) = (1.0f32, 0.0f32);
    ok!(cublasLtMatmul(
        handle,
        desc,
        (&raw const one).cast(),
        da.void(),
        layouts[0],
        db.void(),
        layouts[1],
        (&raw const none).cast(),
        dc.void(),
        layouts[2],
        dd.void(),
        layouts[3],
        ptr::null(),
        ptr::null_mut(),
        0,
        ptr::null_mut()
    ));
    let (got, mut greatest) = (dd.get(), 0.0f64);
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let exact = 0.125
            * (0..k).map(|p| e4m3(a[i + p * (m + 1)]) * e4m3(b[p + j * (k + 1)])).sum::<f64>();
        greatest = greatest.max(exact.abs());
        let wanted = (exact * 0.001).clamp(-448.0, 448.0);
        let value = e4m3(got[i + j * (m + 1)]);
        // No other value is nearer, but for the rounding of the sum.
        let nearest = (0..=255u8)
            .filter(|x| x & 127 != 127)
            .map(|x| (e4m3(x) - wanted).abs())
            .fold(f64::MAX, f64::min);
        assert!(
            (value - wanted).abs() <= nearest + 1e-5 * wanted.abs() + 1e-6,
            "{value} for {wanted}"
        );
    }
    assert!((f64::from(most.get()[0]) / greatest - 1.0).abs() < 1e-5);
}

#[test]
fn wrong_arguments_name_what_is_wrong() {
    let handle = handle();
    let memory = Memory::new(&[7.0f32; 64]);
    let layouts = [(2, 3), (3, 4), (2, 4), (2, 4)]
        .map(|(r, c)| layout(cudaDataType::CUDA_R_32F, r, c, false, 1));
    let (one, p) = (1.0f32, memory.void());
    let one = (&raw const one).cast::<c_void>();
    let run = |desc: cublasLtMatmulDesc_t,
               layouts: [cublasLtMatrixLayout_t; 4],
               status: cublasStatus_t,
               words: &str| {
        fails!(
            status,
            words,
            cublasLtMatmul(
                handle,
                desc,
                one,
                p,
                layouts[0],
                p,
                layouts[1],
                one,
                p,
                layouts[2],
                p,
                layouts[3],
                ptr::null(),
                ptr::null_mut(),
                0,
                ptr::null_mut()
            )
        );
    };
    let plain = desc::<u32>(F32, cudaDataType::CUDA_R_32F, &[]);
    let [a, b, c, d] = layouts;
    run(plain, [a, a, c, d], cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE, "op(B)");
    run(plain, [a, b, c, ptr::null_mut()], cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE, "null");
    run(
        plain,
        [a, b, c, plain.cast()],
        cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE,
        "no descriptor",
    );
    let other = layout(cudaDataType::CUDA_R_16F, 2, 4, false, 1);
    run(plain, [a, b, c, other], cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED, "D of 2");
    run(
        desc(F32, cudaDataType::CUDA_R_32F, &[(7, 4u32)]),
        layouts,
        cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE,
        "bias",
    );
    run(
        desc(F32, cudaDataType::CUDA_R_32F, &[(7, 256u32)]),
        layouts,
        cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
        "epilogue 256",
    );
    let size = size_of::<float2>();
    fails!(
        cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE,
        "4 bytes",
        cublasLtMatmulDescSetAttribute(plain, cublasLtMatmulDescAttributes_t(7), one, size)
    );
    assert_eq!(memory.get(), [7.0; 64]);
    let (mut result, mut count) = (cublasLtMatmulHeuristicResult_t::default(), 0);
    let mut preference = ptr::null_mut();
    ok!(cublasLtMatmulPreferenceCreate(&raw mut preference));
    ok!(cublasLtMatmulAlgoGetHeuristic(
        handle,
        plain,
        a,
        b,
        c,
        d,
        preference,
        1,
        &raw mut result,
        &raw mut count
    ));
    assert_eq!((count, result.workspaceSize), (1, 0));
    ok!(cublasLtMatmulPreferenceDestroy(preference));
    ok!(cublasLtDestroy(handle));
}

/// Factors of the device, one or one for each row; beta may be 0 or on the host then.
#[test]
fn pointer_modes() {
    let handle = handle();
    let (m, n) = (3usize, 2usize);
    let (a, b) = (Memory::new(&[1.0f32, 2.0, 3.0, 0.0]), Memory::new(&[1.0f32, 0.0, 10.0, 0.0]));
    let layouts = [(m, 1), (1, n), (m, n), (m, n)]
        .map(|(r, c)| layout(cudaDataType::CUDA_R_32F, r, c, false, 1));
    let (alphas, betas) = (Memory::new(&[2.0f32, 3.0, 4.0]), Memory::new(&[-1.0f32, -2.0, -3.0]));
    let host = 5.0f32;
    let host = (&raw const host).cast::<c_void>();
    let cases: [(u32, *const c_void, [f32; 3], [f32; 3]); 4] = [
        (1, betas.void(), [2.0; 3], [-1.0; 3]),
        (2, betas.void(), [2.0, 3.0, 4.0], [-1.0, -2.0, -3.0]),
        (3, ptr::null(), [2.0, 3.0, 4.0], [0.0; 3]),
        (4, host, [2.0, 3.0, 4.0], [5.0; 3]),
    ];
    for (mode, beta, alpha_of, beta_of) in cases {
        let c = Memory::new(&[7.0f32; 8]);
        let desc = desc(F32, cudaDataType::CUDA_R_32F, &[(2, mode)]);
        ok!(cublasLtMatmul(
            handle,
            desc,
            alphas.void(),
            a.void(),
            layouts[0],
            b.void(),
            layouts[1],
            beta,
            c.void(),
            layouts[2],
            c.void(),
            layouts[3],
            ptr::null(),
            ptr::null_mut(),
            0,
            ptr::null_mut()
        ));
        let got = c.get();
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let product = [1.0, 2.0, 3.0][i] * [1.0, 10.0][j];
            let wanted = alpha_of[i] * product + beta_of[i] * 7.0;
            assert_eq!(got[i + j * (m + 1)], wanted, "mode {mode} at {i}, {j}");
        }
        ok!(cublasLtMatmulDescDestroy(desc));
    }
}
