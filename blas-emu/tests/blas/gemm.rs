//! Products of general matrices.

use std::ffi::{c_int, c_void};
use std::ptr;

use blas_emu::cublas::*;
use cuda_sys::cublas::*;
use half::{bf16, f16};

use crate::lab::*;

type Status = cublasStatus_t;

/// A typed function of one product.
type Gemm<T> = unsafe extern "C" fn(
    cublasHandle_t,
    cublasOperation_t,
    cublasOperation_t,
    c_int,
    c_int,
    c_int,
    *const T,
    *const T,
    c_int,
    *const T,
    c_int,
    *const T,
    *mut T,
    c_int,
) -> cublasStatus_t;

/// Matrices of a product, and what it must be.
struct Case<A, C> {
    ops: [cublasOperation_t; 2],
    size: [usize; 3],
    ld: [usize; 3],
    a: Vec<A>,
    b: Vec<A>,
    c: Vec<C>,
    alpha: Z,
    beta: Z,
}

impl<A: Num, C: Num> Case<A, C> {
    fn new(
        ops: [cublasOperation_t; 2],
        [m, n, k]: [usize; 3],
        [alpha, beta]: [Z; 2],
        batches: usize,
    ) -> Self {
        let n_op = cublasOperation_t::CUBLAS_OP_N;
        let (a_rows, a_cols) = if ops[0] == n_op { (m, k) } else { (k, m) };
        let (b_rows, b_cols) = if ops[1] == n_op { (k, n) } else { (n, k) };
        let ld = [a_rows.max(1) + 3, b_rows.max(1) + 1, m.max(1) + 2];
        let mut random = Random(0x9e37_79b9_7f4a_7c15 + (m * 7 + n * 3 + k) as u64);
        let (a, b) = (random.many(ld[0] * a_cols * batches), random.many(ld[1] * b_cols * batches));
        let c = random.many(ld[2] * n * batches);
        Self { ops, size: [m, n, k], ld, a, b, c, alpha, beta }
    }

    fn strides(&self, batches: usize) -> [usize; 3] {
        [self.a.len() / batches, self.b.len() / batches, self.c.len() / batches]
    }

    #[track_caller]
    fn check(&self, got: &[C], batches: usize, epsilon: f64) {
        let [m, _, k] = self.size;
        let [sa, sb, sc] = self.strides(batches);
        assert_eq!(got.len(), self.c.len());
        for batch in 0..batches {
            for place in 0..sc {
                let (i, j) = (place % self.ld[2], place / self.ld[2]);
                let (old, new) = (self.c[batch * sc + place].z(), got[batch * sc + place]);
                if i >= m {
                    assert_eq!(
                        new.z().0.to_bits(),
                        old.0.to_bits(),
                        "the padding of column {j} was written"
                    );
                    continue;
                }
                let mut sum = (0.0, 0.0);
                if self.alpha != (0.0, 0.0) {
                    for step in 0..k {
                        let a = at(&self.a[batch * sa..], self.ld[0], self.ops[0], i, step);
                        let b = at(&self.b[batch * sb..], self.ld[1], self.ops[1], step, j);
                        sum = plus(sum, times(a, b));
                    }
                }
                let mut expected = times(self.alpha, sum);
                if self.beta != (0.0, 0.0) {
                    expected = plus(expected, times(self.beta, old));
                }
                let what = || {
                    format!(
                        "{:?} {:?} alpha {:?} beta {:?} at {i}, {j}",
                        self.ops, self.size, self.alpha, self.beta
                    )
                };
                near(new, expected, k, epsilon, what);
            }
        }
    }
}

const FACTORS: [[Z; 2]; 4] = [
    [(1.0, 0.0), (0.0, 0.0)],
    [(0.5, -0.25), (1.0, 0.0)],
    [(0.0, 0.0), (-1.5, 0.5)],
    [(-1.0, 0.0), (0.75, 0.25)],
];

fn real(all: [Z; 2], complex: bool) -> [Z; 2] {
    if complex { all } else { all.map(|z| (z.0, 0.0)) }
}

/// Tests a function with both pointer modes.
#[track_caller]
fn one<T: Num>(blas: &Blas, function: Gemm<T>, case: &Case<T, T>, on_device: bool) {
    let (a, b, c) = (Memory::new(&case.a), Memory::new(&case.b), Memory::new(&case.c));
    let factors = [T::of(case.alpha), T::of(case.beta)];
    let there = Memory::new(&factors);
    let [alpha, beta] = if on_device {
        [there.at().cast_const(), there.at().wrapping_add(1).cast_const()]
    } else {
        [&raw const factors[0], &raw const factors[1]]
    };
    blas.on_device(on_device);
    let ([m, n, k], [lda, ldb, ldc]) = (case.size.map(int), case.ld.map(int));
    ok!(function(
        blas.raw,
        case.ops[0],
        case.ops[1],
        m,
        n,
        k,
        alpha,
        a.at(),
        lda,
        b.at(),
        ldb,
        beta,
        c.at(),
        ldc
    ));
    case.check(&c.get(), 1, T::ROUNDING);
}

fn typed<T: Num>(function: Gemm<T>) {
    let blas = Blas::new();
    for (number, size) in
        [[0, 3, 2], [1, 1, 1], [3, 2, 0], [31, 33, 32], [32, 1, 33], [33, 31, 1], [1, 32, 257]]
            .into_iter()
            .enumerate()
    {
        for (left, &transa) in OPS.iter().enumerate() {
            for (right, &transb) in OPS.iter().enumerate() {
                let factors = real(FACTORS[(number + left + right) % 4], T::COMPLEX);
                one(
                    &blas,
                    function,
                    &Case::new([transa, transb], size, factors, 1),
                    (left + right) % 2 == 1,
                );
            }
        }
    }
}

#[test]
fn products_of_each_type() {
    typed(cublasSgemm_v2);
    typed(cublasDgemm_v2);
    typed(cublasCgemm_v2);
    typed(cublasZgemm_v2);
}

#[test]
fn a_large_product() {
    let case = Case::new([OPS[0], OPS[1]], [257, 65, 257], [(1.0, 0.0), (0.5, 0.0)], 1);
    one::<f32>(&Blas::new(), cublasSgemm_v2, &case, false);
}

#[test]
fn nan_in_c_does_not_pass_a_beta_of_0() {
    let blas = Blas::new();
    for on_device in [false, true] {
        let mut case: Case<f64, f64> =
            Case::new([OPS[0]; 2], [5, 4, 3], [(1.0, 0.0), (0.0, 0.0)], 1);
        for j in 0..4 {
            for i in 0..5 {
                case.c[i + j * case.ld[2]] = f64::NAN;
            }
        }
        one(&blas, cublasDgemm_v2, &case, on_device);
        // Nor do A and B pass an alpha of 0.
        let mut case: Case<f64, f64> =
            Case::new([OPS[0]; 2], [5, 4, 3], [(0.0, 0.0), (2.0, 0.0)], 1);
        case.a.fill(f64::NAN);
        one(&blas, cublasDgemm_v2, &case, on_device);
    }
}

/// One of the functions with types as arguments: alone, in a batch with strides, and in one with addresses.
fn ex<A: Num, C: Num, S: Num>(compute: cublasComputeType_t, epsilon: f64) {
    let blas = Blas::new();
    let algo = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
    for (number, size) in [[1, 1, 1], [31, 17, 33], [16, 33, 32]].into_iter().enumerate() {
        for op in OPS {
            let mut factors = real(FACTORS[(number + op.0 as usize) % 4], S::COMPLEX);
            if S::TYPE == cudaDataType::CUDA_R_32I {
                factors = [(2.0, 0.0), (-1.0, 0.0)];
            }
            let batches = 3;
            let case: Case<A, C> = Case::new([op, OPS[1]], size, factors, batches);
            let (alpha, beta) = (S::of(case.alpha), S::of(case.beta));
            let (alpha, beta) =
                ((&raw const alpha).cast::<c_void>(), (&raw const beta).cast::<c_void>());
            let ([m, n, k], [lda, ldb, ldc]) = (size.map(int), case.ld.map(int));
            let (a, b) = (Memory::new(&case.a), Memory::new(&case.b));
            let [sa, sb, sc] = case.strides(batches);
            let strides = [sa, sb, sc].map(|stride| stride as i64);

            let c = Memory::new(&case.c);
            ok!(cublasGemmStridedBatchedEx(
                blas.raw,
                op,
                OPS[1],
                m,
                n,
                k,
                alpha,
                a.void(),
                A::TYPE,
                lda,
                strides[0],
                b.void(),
                A::TYPE,
                ldb,
                strides[1],
                beta,
                c.void(),
                C::TYPE,
                ldc,
                strides[2],
                int(batches),
                compute,
                algo
            ));
            case.check(&c.get(), batches, epsilon);

            let c = Memory::new(&case.c);
            let list = |start: u64, stride: usize, bytes: usize| {
                Memory::new(
                    &(0..batches)
                        .map(|batch| start + (batch * stride * bytes) as u64)
                        .collect::<Vec<_>>(),
                )
            };
            let lists = [
                list(a.address, sa, size_of::<A>()),
                list(b.address, sb, size_of::<A>()),
                list(c.address, sc, size_of::<C>()),
            ];
            let (la, lb, lc) = (lists[0].at().cast(), lists[1].at().cast(), lists[2].at().cast());
            ok!(cublasGemmBatchedEx(
                blas.raw,
                op,
                OPS[1],
                m,
                n,
                k,
                alpha,
                la,
                A::TYPE,
                lda,
                lb,
                A::TYPE,
                ldb,
                beta,
                lc,
                C::TYPE,
                ldc,
                int(batches),
                compute,
                algo
            ));
            case.check(&c.get(), batches, epsilon);

            let case: Case<A, C> = Case::new([op, OPS[1]], size, factors, 1);
            let (a, b, c) = (Memory::new(&case.a), Memory::new(&case.b), Memory::new(&case.c));
            ok!(cublasGemmEx_64(
                blas.raw,
                op,
                OPS[1],
                m.into(),
                n.into(),
                k.into(),
                alpha,
                a.void(),
                A::TYPE,
                lda.into(),
                b.void(),
                A::TYPE,
                ldb.into(),
                beta,
                c.void(),
                C::TYPE,
                ldc.into(),
                compute,
                algo
            ));
            case.check(&c.get(), 1, epsilon);
        }
    }
}

#[test]
fn products_of_each_combination_of_types() {
    use cublasComputeType_t as C;
    ex::<f16, f16, f16>(C::CUBLAS_COMPUTE_16F, f16::ROUNDING);
    ex::<f16, f16, f32>(C::CUBLAS_COMPUTE_32F, f32::ROUNDING);
    ex::<f16, f32, f32>(C::CUBLAS_COMPUTE_32F, f32::ROUNDING);
    ex::<bf16, bf16, f32>(C::CUBLAS_COMPUTE_32F, f32::ROUNDING);
    ex::<bf16, f32, f32>(C::CUBLAS_COMPUTE_32F_PEDANTIC, f32::ROUNDING);
    ex::<i8, f32, f32>(C::CUBLAS_COMPUTE_32F, 1e-3);
    ex::<i8, i32, i32>(C::CUBLAS_COMPUTE_32I, 0.0);
    ex::<f32, f32, f32>(C::CUBLAS_COMPUTE_32F_FAST_TF32, f32::ROUNDING);
    ex::<f64, f64, f64>(C::CUBLAS_COMPUTE_64F, f64::ROUNDING);
    ex::<float2, float2, float2>(C::CUBLAS_COMPUTE_32F, f32::ROUNDING);
    ex::<double2, double2, double2>(C::CUBLAS_COMPUTE_64F, f64::ROUNDING);
}

#[test]
fn arguments_are_checked_before_anything_is_enqueued() {
    let blas = Blas::new();
    let memory = Memory::new(&[7.0f32; 64]);
    let (p, one) = (memory.at(), 1.0f32);
    let (one, none) = (&raw const one, ptr::null());
    let (n, t) = (OPS[0], OPS[1]);
    let invalid = Status::CUBLAS_STATUS_INVALID_VALUE;
    let h = blas.raw;
    fails!(invalid, "m -1", cublasSgemm_v2(h, n, n, -1, 2, 2, one, p, 2, p, 2, one, p, 2));
    fails!(invalid, "n -2", cublasSgemm_v2(h, n, n, 2, -2, 2, one, p, 2, p, 2, one, p, 2));
    fails!(invalid, "k -3", cublasSgemm_v2(h, n, n, 2, 2, -3, one, p, 2, p, 2, one, p, 2));
    fails!(invalid, "lda 1", cublasSgemm_v2(h, n, n, 2, 2, 2, one, p, 1, p, 2, one, p, 2));
    fails!(invalid, "lda 2", cublasSgemm_v2(h, t, n, 2, 2, 3, one, p, 2, p, 3, one, p, 2));
    fails!(invalid, "ldb 1", cublasSgemm_v2(h, n, t, 2, 2, 2, one, p, 2, p, 1, one, p, 2));
    fails!(invalid, "ldc 0", cublasSgemm_v2(h, n, n, 2, 2, 2, one, p, 2, p, 2, one, p, 0));
    fails!(invalid, "ldc 0", cublasSgemm_v2(h, n, n, 0, 2, 2, one, p, 2, p, 2, one, p, 0));
    fails!(
        invalid,
        "transa 7",
        cublasSgemm_v2(h, cublasOperation_t(7), n, 2, 2, 2, one, p, 2, p, 2, one, p, 2)
    );
    fails!(invalid, "alpha", cublasSgemm_v2(h, n, n, 2, 2, 2, none, p, 2, p, 2, one, p, 2));
    fails!(invalid, "beta", cublasSgemm_v2(h, n, n, 2, 2, 2, one, p, 2, p, 2, none, p, 2));
    fails!(invalid, "A is null", cublasSgemm_v2(h, n, n, 2, 2, 2, one, none, 2, p, 2, one, p, 2));
    fails!(
        invalid,
        "C is null",
        cublasSgemm_v2(h, n, n, 2, 2, 2, one, p, 2, p, 2, one, ptr::null_mut(), 2)
    );
    let start = Status::CUBLAS_STATUS_NOT_INITIALIZED;
    fails!(
        start,
        "handle",
        cublasSgemm_v2(ptr::null_mut(), n, n, 2, 2, 2, one, p, 2, p, 2, one, p, 2)
    );
    let wild = ptr::without_provenance_mut(0xdead_beef_usize);
    fails!(start, "handle", cublasSgemm_v2(wild, n, n, 2, 2, 2, one, p, 2, p, 2, one, p, 2));
    let (f16, f32, f64) =
        (cudaDataType::CUDA_R_16F, cudaDataType::CUDA_R_32F, cudaDataType::CUDA_R_64F);
    for (a, b, c, compute) in [
        (f16, f32, f32, 68),
        (f64, f64, f64, 68),
        (f32, f32, f32, 64),
        (f16, f16, f64, 68),
        (f32, f32, f32, 3),
    ] {
        let compute = cublasComputeType_t(compute);
        let algo = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
        fails!(
            Status::CUBLAS_STATUS_NOT_SUPPORTED,
            "computeType",
            cublasGemmEx(
                h,
                n,
                n,
                2,
                2,
                2,
                one.cast(),
                p.cast(),
                a,
                2,
                p.cast(),
                b,
                2,
                one.cast(),
                p.cast(),
                c,
                2,
                compute,
                algo
            )
        );
    }
    assert_eq!(memory.get(), [7.0; 64]);
    fails!(
        invalid,
        "batchCount -1",
        cublasSgemmStridedBatched(h, n, n, 2, 2, 2, one, p, 2, 4, p, 2, 4, one, p, 2, 4, -1)
    );
}

#[test]
fn products_in_a_graph_run_at_each_launch() {
    let blas = Blas::new();
    let (a, b, c) =
        (Memory::new(&[2.0f32; 4]), Memory::new(&[1.0f32; 4]), Memory::new(&[1.0f32; 4]));
    let (one, n) = (1.0f32, OPS[0]);
    let graph = blas.capture(|| {
        ok!(cublasSgemm_v2(
            blas.raw,
            n,
            n,
            2,
            2,
            2,
            &raw const one,
            a.at(),
            2,
            b.at(),
            2,
            &raw const one,
            c.at(),
            2
        ));
    });
    assert_eq!(c.get(), [1.0; 4]);
    for launch in 1..=3u8 {
        graph.launch(blas.stream);
        assert_eq!(c.get(), [1.0 + 4.0 * f32::from(launch); 4]);
    }
}
