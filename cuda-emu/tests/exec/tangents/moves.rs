//! Loads and stores of every space, vectors, exchanges, atomics, calls and matrices.

use cuda_emu::Real;
use test_support::Rng;

use super::{Tracked, close};
use crate::device::{Shape, shape};

const HEAD: &str = ".version 8.6
.target sm_90
.address_size 64
.const .align 16 .f32 table[4] = {0f3F800000, 0f40000000, 0f40400000, 0f40800000};
.func (.param .align 16 .b8 r[16]) twice(.param .align 16 .b8 a[16], .param .b32 b)
{
    .reg .f32 %f<6>; .reg .b32 %q; .reg .f32 %g;
    ld.param.v4.f32 {%f1, %f2, %f3, %f4}, [a];
    ld.param.b32 %q, [b];
    mov.b32 %g, %q;
    mul.f32 %f1, %f1, %g;
    st.param.v2.f32 [r], {%f4, %f3};
    st.param.v2.f32 [r+8], {%f2, %f1};
    ret;
}
.func (.reg .f32 %out) square(.reg .f32 %in)
{
    mul.f32 %out, %in, %in;
    ret;
}
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %w<16>, %in, %out; .reg .f32 %f<16>;
    .reg .f64 %d<8>; .reg .b128 %q<2>;
    .shared .align 16 .b8 block[4096];
    .local .align 16 .b8 own[64];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    mad.wide.u32 %in, %r0, 16, %in;
    mad.wide.u32 %out, %r0, 16, %out;
    mul.wide.u32 %w0, %r0, 16;
";

/// Runs a body for 64 threads, which have four floats each, and returns their results' values and tangents.
fn run(body: &str, values: &[f32], tangents: &[f64]) -> (Vec<f32>, Vec<f64>) {
    let tracked = Tracked::new();
    let program = tracked.load(&format!("{HEAD}{body}\n    ret;\n}}"));
    let input = tracked.upload(values, Real::F32, tangents);
    let out = tracked.device.upload(&vec![0f32; values.len()]);
    let dims = Shape { shared: 0, ..shape(1, 64) };
    tracked.launch(&program, "k", dims, &[input, out]);
    assert_eq!(tracked.lost(), [], "{body}");
    (tracked.device.download(out, values.len()), tracked.get(out, Real::F32, values.len()))
}

/// Fails unless the tangents went where the values went: the tangent of a value x is 1000 + x.
fn moves(body: &str) {
    let values: Vec<f32> = (1..=256).map(|at| at as f32).collect();
    let tangents: Vec<f64> = values.iter().map(|&x| 1000.0 + f64::from(x)).collect();
    let (values, tangents) = run(body, &values, &tangents);
    assert!(values.iter().any(|&x| x != 0.0), "{body}");
    for (at, (&x, &tangent)) in values.iter().zip(&tangents).enumerate() {
        let wanted = if x == 0.0 { 0.0 } else { 1000.0 + f64::from(x) };
        assert_eq!(tangent, wanted, "{body}: {at}");
    }
}

#[test]
fn tangents_move_with_values() {
    for body in [
        "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%in]; st.global.v4.f32 [%out], {%f3, %f1, %f0, %f2};",
        "ld.global.v2.b64 {%w1, %w2}, [%in]; st.global.v2.b64 [%out], {%w2, %w1};",
        "ld.global.nc.v2.u64 {%w1, %w2}, [%in]; mov.b64 {%r1, %r2}, %w1; st.global.v2.b32 [%out], {%r2, %r1};",
        "ld.global.b128 %q0, [%in]; mov.b128 {%w1, %w2}, %q0; mov.b128 %q1, {%w2, %w1}; st.global.b128 [%out], %q1;",
        "ld.global.b64 %w1, [%in+8]; mov.b64 {%h0, %h1, %h2, %h3}, %w1; mov.b64 %w2, {%h2, %h3, %h0, %h1};
         st.global.b64 [%out], %w2;",
        "ld.b32 %w1, [%in]; st.u32 [%out+4], %w1;",
        "ld.global.b16 %h0, [%in]; ld.global.b16 %h1, [%in+2]; st.global.b16 [%out], %h0; st.global.b16 [%out+2], %h1;",
        // Shared memory, of another thread behind a barrier; by generic address too.
        "mov.u64 %w1, block; add.u64 %w1, %w1, %w0; ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%in];
         st.shared.v4.f32 [%w1], {%f0, %f1, %f2, %f3}; bar.sync 0; xor.b32 %r1, %r0, 33; mov.u64 %w2, block;
         mad.wide.u32 %w2, %r1, 16, %w2; cvta.shared.u64 %w2, %w2; ld.v2.f32 {%f4, %f5}, [%w2+8]; st.global.v2.f32 [%out], {%f4, %f5};",
        // Local memory, by a dynamic index and a generic address.
        "mov.u64 %w1, own; ld.global.v2.f32 {%f0, %f1}, [%in]; st.local.v2.f32 [%w1+8], {%f0, %f1}; and.b32 %r1, %r0, 1;
         mad.wide.u32 %w2, %r1, 4, %w1; cvta.local.u64 %w2, %w2; ld.f32 %f2, [%w2+8]; st.global.f32 [%out], %f2;",
        "ld.global.f32 %f0, [%in]; mov.b32 %r1, %f0; shfl.sync.bfly.b32 %r2|%p0, %r1, 5, 31, 0xffffffff; st.global.b32 [%out], %r2;",
        "ld.global.f32 %f0, [%in]; mov.b32 %r1, %f0; shfl.sync.up.b32 %r1, %r1, 3, 0, 0xffffffff; st.global.b32 [%out], %r1;",
        "ld.global.f32 %f0, [%in]; mov.b32 %r1, %f0; shfl.sync.down.b32 %r2, %r1, 7, 0x181f, 0xffffffff; st.global.b32 [%out], %r2;",
        "ld.global.f32 %f0, [%in]; mov.b32 %r1, %f0; and.b32 %r3, %r0, 3; shfl.sync.idx.b32 %r2, %r1, %r3, 31, 0xffffffff; st.global.b32 [%out], %r2;",
        // Lanes that come apart meet at the exchange.
        "ld.global.f32 %f0, [%in]; mov.b32 %r1, %f0; setp.lt.u32 %p0, %r0, 7; @%p0 bra A; mov.u32 %r9, 5; bra.uni B;
         A: mov.u32 %r9, 6; B: shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffffffff; st.global.b32 [%out], %r2;",
        "ld.global.f32 %f0, [%in]; mov.b32 %r1, %f0; redux.sync.max.s32 %r2, %r1, 0xffffffff; st.global.b32 [%out], %r2;",
        "ld.global.f32 %f0, [%in]; atom.global.exch.b32 %r1, [%out], 0; mov.b32 %r1, %f0; atom.global.exch.b32 %r2, [%out], %r1;",
        "ld.global.f32 %f0, [%in]; mov.b32 %r1, %f0; atom.global.cas.b32 %r2, [%out], 0, %r1; atom.global.cas.b32 %r2, [%out], 77, %r2;",
        "ld.global.f32 %f0, [%in]; mov.b32 %r1, %f0; mov.u64 %w1, block; st.shared.b32 [block], 0; bar.sync 0; atom.shared.max.s32 %r2, [%w1], %r1;
         bar.sync 0; ld.shared.b32 %r3, [block]; st.global.b32 [%out], %r3; bar.sync 0; red.shared.min.u32 [%w1], %r1; bar.sync 0; ld.shared.b32 %r3, [block]; st.global.b32 [%out+4], %r3;",
        "ld.global.f32 %f0, [%in]; mov.b32 %r1, %f0; red.global.or.b32 [%out], %r1;",
        "mov.u64 %w1, block; add.u64 %w1, %w1, %w0; cp.async.ca.shared.global [%w1], [%in], 16, 12; cp.async.wait_all;
         ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%w1]; st.global.v4.f32 [%out], {%f0, %f1, %f2, %f3};",
        "{ .param .align 16 .b8 a[16]; .param .b32 b; .param .align 16 .b8 r[16]; ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%in];
         st.param.v2.b32 [a], {%r1, %r2}; st.param.b32 [a+8], %r3; st.param.b32 [a+12], %r4; st.param.b32 [b], 0x3f800000; call (r), twice, (a, b);
         ld.param.v4.f32 {%f0, %f1, %f2, %f3}, [r]; st.global.v4.f32 [%out], {%f0, %f1, %f2, %f3}; }",
        "mov.u64 %w1, block; add.u64 %w1, %w1, %w0; ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%in]; st.shared.v4.b32 [%w1], {%r1, %r2, %r3, %r4}; bar.sync 0;
         ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r5, %r6}, [%w1]; st.global.v2.b32 [%out], {%r5, %r6};",
        "mov.u64 %w1, block; add.u64 %w1, %w1, %w0; ld.global.b32 %r1, [%in]; st.shared.b32 [%w1+4], 0; bar.sync 0;
         movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;
         stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%w1], {%r3}; bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r5}, [%w1]; st.global.b32 [%out], %r5;",
    ] {
        moves(body);
    }
}

#[test]
fn parameters_and_constants_have_tangents() {
    let tracked = Tracked::new();
    let program = tracked.load(
        ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .align 8 .b8 s[24], .param .f32 t)
{
    .reg .b64 %w<4>; .reg .f32 %f<4>; .reg .f64 %d<4>;
    ld.param.f64 %d1, [s+8];
    ld.param.f32 %f1, [s+20];
    mov.b64 %w1, s;
    cvta.param.u64 %w1, %w1;
    ld.f32 %f2, [%w1+20];
    ld.param.f32 %f3, [t];
    mul.f32 %f1, %f2, %f3;
    ld.param.u64 %w2, [out];
    st.global.f32 [%w2], %f1;
    st.global.f64 [%w2+8], %d1;
    ret;
}",
    );
    let out = tracked.device.upload(&[0f64; 2]);
    let t = tracked.tangents();
    t.set_argument("k", 16, Real::F64, 5.0).expect("an offset");
    t.set_argument("k", 28, Real::F32, 7.0).expect("an offset");
    t.set_argument("k", 32, Real::F32, 11.0).expect("an offset");
    t.set_argument("other", 0, Real::F32, 13.0).expect("an offset");
    let launch = || {
        let entry = program.entry("k").expect("the kernel");
        let mut params = vec![0; program.param_bytes(entry)];
        params[..8].copy_from_slice(&out.to_le_bytes());
        params[28..32].copy_from_slice(&2f32.to_le_bytes());
        params[32..36].copy_from_slice(&3f32.to_le_bytes());
        let launch = cuda_emu::exec::Launch {
            entry,
            grid: [1; 3],
            block: [1; 3],
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
        cuda_emu::exec::run(&program, &launch, &env)
    };
    launch().expect("no fault");
    assert_eq!(tracked.get(out, Real::F32, 1), [3.0 * 7.0 + 2.0 * 11.0]);
    assert_eq!(tracked.get(out + 8, Real::F64, 1), [5.0]);
    // Beyond the kernel's parameters.
    t.set_argument("k", 36, Real::F32, 1.0).expect("an offset");
    let fault = launch().expect_err("no such parameter");
    assert!(fault.to_string().contains("bytes 36 to 40"), "{fault}");
    t.clear_arguments();
    launch().expect("no fault");
    assert_eq!(tracked.get(out, Real::F32, 1), [0.0]);
}

#[test]
fn atomics_add_tangents() {
    let n = 64;
    let mut rng = Rng::new(5);
    let values: Vec<f32> = rng.floats(4 * n);
    let tangents: Vec<f64> = rng.floats(4 * n).iter().map(|&x| x.into()).collect();
    let sum: f64 = tangents.iter().step_by(4).sum();
    let body = "ld.param.u64 %w1, [out]; ld.global.f32 %f0, [%in]; red.global.add.f32 [%w1], %f0;
        st.shared.f64 [block], 0d0000000000000000; bar.sync 0; cvt.f64.f32 %d0, %f0; mov.u64 %w2, block; atom.shared.add.f64 %d1, [%w2], %d0;
        bar.sync 0; ld.shared.f64 %d2, [block]; cvt.rn.f32.f64 %f1, %d2; st.global.f32 [%w1+4], %f1;
        cvt.rn.f16.f32 %h0, %f0; mov.b32 %r1, {%h0, %h0}; red.global.add.noftz.f16x2 [%w1+8], %r1;";
    let tracked = Tracked::new();
    let program = tracked.load(&format!("{HEAD}{body}\n    ret;\n}}"));
    let input = tracked.upload(&values, Real::F32, &tangents);
    let out = tracked.device.upload(&[0f32; 4]);
    tracked.launch(&program, "k", shape(1, 64), &[input, out]);
    let got = tracked.get(out, Real::F32, 2);
    let halves = tracked.get(out + 8, Real::F16, 2);
    for (at, got) in got.into_iter().chain(halves).enumerate() {
        close(got, sum, sum.abs(), 1e-12, &format!("sum {at}"));
    }
    assert_eq!(tracked.lost(), []);
}

#[test]
fn a_loop_of_compare_and_swap_adds_tangents() {
    // None is zero: a swap of equal values is no swap of tangents.
    let values: Vec<f32> = (1..=256).map(|at| at as f32).collect();
    let tangents: Vec<f64> = (0..256).map(|at| f64::from(at) + 0.5).collect();
    let sum: f64 = tangents.iter().step_by(4).sum();
    let body = "ld.param.u64 %w1, [out]; ld.global.f32 %f0, [%in]; ld.global.b32 %r1, [%w1];
        AGAIN: mov.b32 %f1, %r1; add.f32 %f2, %f1, %f0; mov.b32 %r2, %f2; atom.global.cas.b32 %r3, [%w1], %r1, %r2;
        setp.ne.u32 %p0, %r3, %r1; mov.u32 %r1, %r3; @%p0 bra AGAIN;";
    let (_, got) = run(body, &values, &tangents);
    assert_eq!(got[0], sum);
}

#[test]
fn memory_of_a_new_block_is_constant() {
    // The first block gives its memory tangents; the second reads what nothing has written.
    let tracked = Tracked::new();
    let program = tracked.load(
        ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %w<8>; .reg .f32 %f<4>;
    .shared .align 4 .f32 s;
    .local .align 4 .f32 l;
    ld.param.u64 %w0, [in];
    ld.param.u64 %w1, [out];
    mov.u32 %r0, %ctaid.x;
    setp.ne.u32 %p, %r0, 0;
    ld.global.f32 %f0, [%w0];
    @%p bra READ;
    st.shared.f32 [s], %f0;
    st.local.f32 [l], %f0;
READ:
    ld.shared.f32 %f1, [s];
    ld.local.f32 %f2, [l];
    mad.wide.u32 %w1, %r0, 8, %w1;
    st.global.v2.f32 [%w1], {%f1, %f2};
    ret;
}",
    );
    let input = tracked.upload(&[1f32], Real::F32, &[3.0]);
    let out = tracked.device.upload(&[0f32; 4]);
    for _ in 0..2 {
        tracked.launch(&program, "k", shape(2, 1), &[input, out]);
        assert_eq!(tracked.get(out, Real::F32, 4), [3.0, 3.0, 0.0, 0.0]);
    }
}

#[test]
fn registers_are_passed_to_functions() {
    let body = "ld.global.f32 %f0, [%in]; call (%f1), square, (%f0); st.global.f32 [%out], %f1;";
    let values: Vec<f32> = (0..256).map(|at| at as f32).collect();
    let (_, got) = run(body, &values, &[1.0; 256]);
    for thread in 0..64 {
        assert_eq!(got[4 * thread], 2.0 * f64::from(values[4 * thread]));
    }
}

/// Products D = A B + C, from four floats of each thread. Each element may be in several matrices.
const PRODUCTS: &[&str] = &[
    "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%in]; mov.b32 %r1, %f0; mov.b32 %r2, %f1; mov.b32 %r3, %f2; mov.b32 %r4, %f3;
     mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4, %f5, %f6, %f7}, {%r1, %r2, %r3, %r4}, {%r2, %r3}, {%f0, %f1, %f2, %f3};
     st.global.v4.f32 [%out], {%f4, %f5, %f6, %f7};",
    "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%in]; cvt.rn.f16x2.f32 %r1, %f0, %f1; cvt.rn.f16x2.f32 %r2, %f2, %f3;
     cvt.rn.f16x2.f32 %r3, %f1, %f3; cvt.rn.f16x2.f32 %r4, %f2, %f0;
     mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r1, %r2, %r3, %r4}, {%r2, %r3}, {%f0, %f1, %f2, %f3};
     st.global.v4.f32 [%out], {%f4, %f5, %f6, %f7};",
    "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%in]; cvt.rn.bf16x2.f32 %r1, %f0, %f1; cvt.rn.bf16x2.f32 %r2, %f2, %f3;
     mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, {%r1, %r2}, {%r2}, {%f0, %f1, %f2, %f3};
     st.global.v4.f32 [%out], {%f4, %f5, %f6, %f7};",
    "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%in]; cvt.f64.f32 %d0, %f0; cvt.f64.f32 %d1, %f1; cvt.f64.f32 %d2, %f2; cvt.f64.f32 %d3, %f3;
     mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d4, %d5}, {%d0}, {%d1}, {%d2, %d3}; cvt.rn.f32.f64 %f4, %d4; cvt.rn.f32.f64 %f5, %d5;
     st.global.v2.f32 [%out], {%f4, %f5};",
    // All 256 floats are A and B, and C again.
    "ld.param.u64 %w1, [in]; ld.param.u64 %w2, [out]; wmma.load.a.sync.aligned.row.m16n16k8.global.tf32 {%r1, %r2, %r3, %r4}, [%w1], 8;
     wmma.load.b.sync.aligned.row.m16n16k8.global.tf32 {%r5, %r6, %r7, %r8}, [%w1+512], 16;
     wmma.load.c.sync.aligned.row.m16n16k8.global.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%w1], 16;
     wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32 {%f8, %f9, %f10, %f11, %f12, %f13, %f14, %f15}, {%r1, %r2, %r3, %r4},
     {%r5, %r6, %r7, %r8}, {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};
     wmma.store.d.sync.aligned.row.m16n16k8.global.f32 [%w2], {%f8, %f9, %f10, %f11, %f12, %f13, %f14, %f15}, 16;",
];

#[test]
fn products_of_matrices_have_tangents() {
    let mut rng = Rng::new(9);
    for body in PRODUCTS {
        // Eighths: products and sums are exact in f32.
        let mut number = || (rng.below(33) as f32 - 16.0) / 8.0;
        let values: Vec<f32> = (0..256).map(|_| number()).collect();
        let direction: Vec<f32> = (0..256).map(|_| number()).collect();
        let tangents: Vec<f64> = direction.iter().map(|&x| x.into()).collect();
        let (_, got) = run(body, &values, &tangents);
        let moved = |sign: f32| -> Vec<f32> {
            let moved = values.iter().zip(&direction).map(|(x, d)| x + sign * d);
            run(body, &moved.collect::<Vec<_>>(), &[0.0; 256]).0
        };
        // A quadratic function: its central difference of any step is its derivative. The layouts of the fragments
        // are the device's own, which the values use.
        for (at, (up, down)) in moved(1.0).iter().zip(moved(-1.0)).enumerate() {
            assert_eq!(got[at], f64::from(up - down) / 2.0, "{body}: {at}");
        }
        assert!(got.iter().filter(|&&tangent| tangent != 0.0).count() > 100, "{body}");
    }
}

#[test]
fn bits_in_products_of_integers_are_lost() {
    let tracked = Tracked::new();
    let body = "ld.global.b32 %r1, [%in];
        mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r2, %r3}, {%r1}, {%r1}, {%r0, %r0};
        cvt.rn.f32.s32 %f0, %r2; st.global.f32 [%out], %f0;";
    let program = tracked.load(&format!("{HEAD}{body}\n    ret;\n}}"));
    let mut tangents = vec![0.0; 256];
    tangents[4] = 1.0;
    let input = tracked.upload(&[1f32; 256], Real::F32, &tangents);
    let out = tracked.device.upload(&[0f32; 256]);
    tracked.launch(&program, "k", shape(1, 64), &[input, out]);
    let lost = tracked.lost();
    let [one] = &lost[..] else { panic!("{lost:?}") };
    // One lane's bits are in the results of all lanes of its warp.
    assert_eq!((one.count, one.place.thread), (32, [1, 0, 0]));
    let got = tracked.get(out, Real::F32, 256);
    assert!((0..64).all(|lane| got[4 * lane].is_nan() == (lane < 32)), "{got:?}");
}
