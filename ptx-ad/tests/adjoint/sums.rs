//! Sums over threads: weights that all threads of a warp read, in whole and partial warps, branches and loops.

use std::fmt::Write;

use cuda_emu::{Check, Checks, findings};
use ptx_ad::Adjoint;
use test_support::Rng;

use crate::common::{Arg, Compared, Device, Shape, doubles, floats, kernel, shape, word, words};

/// Kernels have a name of their own: findings of other tests are not theirs.
const NAME: &str = "sums";

/// Thread i loads `x[i]`, and `m[i]` to %r20; `w` is in %w1. `code` makes %f2 of %f1. Threads of all dimensions are numbered.
fn text(code: &str) -> String {
    let text = kernel(
        ".param .u64 w, .param .u64 x, .param .u64 m, .param .u64 out, .param .b32 n",
        &format!(
            "mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.s32 %r1, %r1, %r2, %r3;\n\
             mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.s32 %r1, %r1, %r2, %r3;\n\
             mov.u32 %r2, %ntid.z; mov.u32 %r3, %tid.z; mad.lo.s32 %r1, %r1, %r2, %r3;\n\
             mov.u32 %r2, %ntid.y; mov.u32 %r3, %tid.y; mad.lo.s32 %r1, %r1, %r2, %r3;\n\
             mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r1, %r1, %r2, %r3;\n\
             ld.param.u32 %r4, [n]; setp.ge.u32 %p1, %r1, %r4; @%p1 bra END;\n\
             ld.param.u64 %w1, [w]; ld.param.u64 %w2, [x]; ld.param.u64 %w3, [m]; ld.param.u64 %w4, [out];\n\
             cvta.to.global.u64 %w1, %w1; mul.wide.u32 %w5, %r1, 4; add.s64 %w6, %w2, %w5; add.s64 %w7, %w3, %w5;\n\
             add.s64 %w8, %w4, %w5; ld.global.f32 %f1, [%w6]; ld.global.u32 %r20, [%w7];\n{code}\n\
             st.global.f32 [%w8], %f2;\nEND: ret;"
        ),
    );
    text.replace(".entry k(", &format!(".entry {NAME}("))
}

/// `s = s * v / 2 + w[offset]`, for each offset.
fn horner(offsets: &[usize]) -> String {
    let mut code = "mov.f32 %f2, %f1; mul.f32 %f3, %f1, 0f3F000000;\n".to_owned();
    for offset in offsets {
        let _ = writeln!(code, "ld.global.f32 %f4, [%w1+{offset}]; fma.rn.f32 %f2, %f2, %f3, %f4;");
    }
    code
}

/// Random arguments: `weights` words of weights, and for each of `n` threads a number and an integer below `below`.
fn args(weights: usize, n: usize, below: usize) -> Vec<Arg> {
    let mut rng = Rng::new(n as u64);
    let mut numbers = |count: usize| (0..count).map(|_| rng.float()).collect::<Vec<f32>>();
    let (w, x, out) = (numbers(weights), numbers(n), numbers(n));
    let mut rng = Rng::new(below as u64);
    let m: Vec<u32> = (0..n).map(|_| rng.below(below.max(1)) as u32).collect();
    vec![floats(&w), floats(&x), words(&m), floats(&out), word(n as u32)]
}

/// The same, where all threads have as many iterations: whole warps come to each.
fn in_step(weights: usize, n: usize) -> Vec<Arg> {
    let mut args = args(weights, n, 1);
    args[2] = words(&vec![4; n]);
    args
}

const SHAPES: [(u32, u32, usize); 7] =
    [(1, 1, 1), (1, 32, 32), (1, 32, 31), (2, 33, 66), (1, 1024, 1000), (3, 64, 150), (1, 32, 0)];

/// Right to the accuracy of sums of floats, without races or reads of what nobody wrote.
fn right(text: &str, args: &[Arg], shape: Shape) -> (Compared, Adjoint) {
    let device = Device::new();
    let got = device.compare(text, NAME, args, shape, 5);
    let (got, adjoint) = got.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    assert!(got.error < 2e-6, "{got:?}\n{text}\n{}", adjoint.text);
    let mut checked = Device::new();
    checked.info.checks = Checks { race: true, ..Checks::default() };
    let again = checked.compare_with(text, NAME, args, shape, 5, &adjoint);
    assert!(again.is_ok(), "{again:?}");
    let of_the_adjoint = format!("{NAME}_adjoint");
    if let Some(made) = &adjoint.deterministic {
        assert!(!made.text.contains(".add.f"), "{}", made.text);
        checked.logs = true;
        let got = checked.compare_with(text, NAME, args, shape, 5, &adjoint);
        let got = got.unwrap_or_else(|error| panic!("{error:?}\n{}", made.text));
        assert!(got.error < 2e-6, "{got:?}\n{text}\n{}", made.text);
    }
    let races = findings()
        .into_iter()
        .filter(|found| found.check == Check::Race && found.access.kernel == of_the_adjoint);
    assert_eq!(races.count(), 0, "{}", adjoint.text);
    (got, adjoint)
}

/// Some gradient of the weights is not zero.
fn reaches(got: &Compared) -> bool {
    got.gradient[0].iter().any(|gradient| *gradient != 0.0)
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn batches_of_all_sizes() {
    let contiguous = |count: usize| (0..count).map(|at| 4 * at).collect::<Vec<_>>();
    let apart: Vec<usize> = (0..20).map(|at| 12 * at + 4).collect();
    let uneven: Vec<usize> = (0..23).map(|at| 4 * (at * at % 31)).collect();
    let mut backwards = contiguous(40);
    backwards.reverse();
    let mut all: Vec<Vec<usize>> = [1, 2, 3, 5, 8, 16, 17, 32, 33, 70].map(contiguous).into();
    all.extend([apart, uneven, backwards]);
    for offsets in all {
        let text = text(&horner(&offsets));
        for (grid, block, n) in SHAPES {
            let (got, adjoint) = right(&text, &args(80, n, 1), shape(grid, block));
            assert!(n == 0 || reaches(&got));
            // Threads that are there together are summed up, others add for themselves.
            assert!(count(&adjoint.text, "activemask") >= offsets.len().div_ceil(32));
            if offsets.len() == 32 {
                assert_eq!(count(&adjoint.text, "shfl.sync.bfly"), 31);
            }
        }
    }
}

/// Shared memory has room for the sums of some batches; the warps add those of the others.
#[test]
fn more_than_a_block_gathers() {
    let offsets: Vec<usize> = (0..400).map(|at| 4 * at).collect();
    let text = text(&horner(&offsets));
    for (grid, block, n) in [(2, 96, 150), (1, 1024, 1000), (2, 40, 80)] {
        let (got, adjoint) = right(&text, &args(400, n, 1), shape(grid, block));
        assert!(reaches(&got));
        assert_eq!(count(&adjoint.text, "bar.sync"), 1);
        let rows = adjoint.text.split("_rows[").nth(1).and_then(|rest| rest.split(']').next());
        let words: usize = rows.and_then(|words| words.parse().ok()).expect("a size");
        assert!((2048..=5120).contains(&words), "{words} words");
    }
}

#[test]
fn doubles_in_batches() {
    for weights in [1, 3, 32] {
        let mut code = "cvt.f64.f32 %d1, %f1; mov.f64 %d2, %d1;\n".to_owned();
        for at in 0..weights {
            let offset = 8 * at;
            let _ =
                writeln!(code, "ld.global.f64 %d3, [%w1+{offset}]; fma.rn.f64 %d2, %d2, %d1, %d3;");
        }
        code.push_str("cvt.rn.f32.f64 %f2, %d2;");
        let text = text(&code);
        for (grid, block, n) in SHAPES {
            let mut args = args(80, n, 1);
            args[0] =
                doubles(&(0..weights).map(|at| f64::from(at) / 8.0 - 1.0).collect::<Vec<_>>());
            right(&text, &args, shape(grid, block));
        }
    }
}

#[test]
fn dimensions() {
    let text = text(&horner(&[0, 4, 8]));
    for (grid, block) in [
        ([1, 1, 1], [8, 4, 1]),
        ([2, 2, 1], [4, 4, 4]),
        ([1, 2, 3], [3, 5, 2]),
        ([1, 1, 2], [32, 2, 1]),
        ([2, 1, 1], [1, 33, 1]),
    ] {
        let threads: u32 = grid.iter().chain(&block).product();
        for n in [threads as usize, threads as usize - 1] {
            right(&text, &args(3, n, 1), Shape { grid, block });
        }
    }
}

#[test]
fn branches() {
    // By data: any threads of a warp may come.
    let by_data = |below: usize| {
        let code = "mul.f32 %f2, %f1, %f1; setp.ne.u32 %p2, %r20, 0; @%p2 bra OTHER;\n\
             ld.global.f32 %f4, [%w1]; ld.global.f32 %f5, [%w1+4]; fma.rn.f32 %f2, %f4, %f1, %f5; bra MET;\n\
             OTHER: ld.global.f32 %f4, [%w1+8]; mul.f32 %f2, %f2, %f4;\n\
             MET: ld.global.f32 %f4, [%w1+12]; mul.f32 %f2, %f2, %f4;";
        (text(code), below)
    };
    for (text, below) in [by_data(1), by_data(2), by_data(5)] {
        for (grid, block, n) in SHAPES {
            right(&text, &args(4, n, below), shape(grid, block));
        }
    }
    // Threads that return early.
    let text = text(
        "mov.f32 %f2, %f1; setp.eq.u32 %p2, %r20, 1; @%p2 bra END; ld.global.f32 %f4, [%w1+4]; mul.f32 %f2, %f1, %f4;",
    );
    for below in [1, 2, 9] {
        for (grid, block, n) in SHAPES {
            right(&text, &args(2, n, below), shape(grid, block));
        }
    }
    // The address depends on the thread, or on the block alone.
    for special in ["mov.u32 %r5, %laneid;", "mov.u32 %r5, %ctaid.x;", "and.b32 %r5, %r20, 3;"] {
        let code = format!(
            "{special} and.b32 %r5, %r5, 7; mul.wide.u32 %w9, %r5, 4; add.s64 %w9, %w1, %w9; \
             ld.global.f32 %f4, [%w9]; mul.f32 %f2, %f1, %f4;"
        );
        for (grid, block, n) in SHAPES {
            let (_, adjoint) = right(&self::text(&code), &args(8, n, 4), shape(grid, block));
            assert_eq!(adjoint.text.contains("activemask"), special.contains("ctaid"));
        }
    }
    // One of two addresses that are the same in all threads.
    let chosen = "setp.ne.u32 %p2, %r20, 0; add.s64 %w9, %w1, 4; selp.b64 %w9, %w9, %w1, %p2; \
        ld.global.f32 %f4, [%w9]; mul.f32 %f2, %f1, %f4;";
    let (_, adjoint) = right(&self::text(chosen), &args(2, 64, 2), shape(1, 64));
    assert!(!adjoint.text.contains("activemask"));
    let joined = "setp.ne.u32 %p2, %r20, 0; mov.u64 %w9, %w1; @%p2 bra MET; add.s64 %w9, %w1, 4; \
        MET: ld.global.f32 %f4, [%w9]; mul.f32 %f2, %f1, %f4;";
    let (_, adjoint) = right(&self::text(joined), &args(2, 64, 2), shape(1, 64));
    assert!(!adjoint.text.contains("activemask"));
}

#[test]
fn loops() {
    // The address depends on the iteration, and the number of iterations on the thread.
    let iterations = "mov.f32 %f2, %f1; mul.f32 %f3, %f1, 0f3F000000; mov.u32 %r5, 0; mov.u64 %w9, %w1;\n\
        TOP: setp.ge.u32 %p2, %r5, %r20; @%p2 bra DONE; ld.global.f32 %f4, [%w9];\n\
        fma.rn.f32 %f2, %f2, %f3, %f4; add.s64 %w9, %w9, 4; add.u32 %r5, %r5, 1; bra TOP; DONE:";
    // The address is that of all iterations.
    let carried = "mov.f32 %f2, %f1; mul.f32 %f3, %f1, 0f3F000000; mov.u32 %r5, 0;\n\
        TOP: setp.ge.u32 %p2, %r5, %r20; @%p2 bra DONE; ld.global.f32 %f4, [%w1]; ld.global.f32 %f5, [%w1+8];\n\
        fma.rn.f32 %f2, %f2, %f3, %f4; mul.f32 %f2, %f2, %f5; add.u32 %r5, %r5, 1; bra TOP; DONE:";
    // Nested: the outer counter, the inner, and both.
    let nested = "mov.f32 %f2, %f1; mul.f32 %f3, %f1, 0f3E000000; mov.u32 %r5, 0;\n\
        TOP: setp.ge.u32 %p2, %r5, %r20; @%p2 bra DONE; mul.wide.u32 %w9, %r5, 4; add.s64 %w9, %w1, %w9; mov.u32 %r6, 0;\n\
        IN: setp.gt.u32 %p3, %r6, %r5; @%p3 bra OUT; mul.wide.u32 %w10, %r6, 4; add.s64 %w10, %w1, %w10;\n\
        add.u32 %r7, %r5, %r6; mul.wide.u32 %w12, %r7, 4; add.s64 %w12, %w1, %w12; ld.global.f32 %f4, [%w9]; ld.global.f32 %f5, [%w10];\n\
        ld.global.f32 %f6, [%w12+4]; fma.rn.f32 %f2, %f2, %f3, %f4; fma.rn.f32 %f2, %f2, %f5, %f6;\n\
        add.u32 %r6, %r6, 1; bra IN; OUT: add.u32 %r5, %r5, 1; bra TOP; DONE:";
    // What leaves the loop is another address in each thread.
    let left = "mov.f32 %f2, %f1; mov.u32 %r5, 0; mov.u64 %w9, %w1;\n\
        TOP: setp.ge.u32 %p2, %r5, %r20; @%p2 bra DONE; add.s64 %w9, %w9, 4; add.u32 %r5, %r5, 1; bra TOP;\n\
        DONE: ld.global.f32 %f4, [%w9]; mul.f32 %f2, %f1, %f4;";
    // A break by data, behind which a weight is read.
    let breaks = "mov.f32 %f2, %f1; mov.u32 %r5, 0;\n\
        TOP: mul.wide.u32 %w9, %r5, 4; add.s64 %w9, %w1, %w9; ld.global.f32 %f4, [%w9]; mul.f32 %f2, %f2, %f4;\n\
        setp.ge.u32 %p2, %r5, %r20; @%p2 bra DONE; ld.global.f32 %f4, [%w9+4]; fma.rn.f32 %f2, %f1, %f4, %f2;\n\
        add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 6; @%p2 bra TOP; DONE:";
    for (code, sums) in
        [(iterations, true), (carried, true), (nested, true), (left, false), (breaks, true)]
    {
        let text = text(code);
        for (grid, block, n) in SHAPES {
            for below in [1, 2, 7] {
                let (_, adjoint) = right(&text, &args(20, n, below), shape(grid, block));
                assert_eq!(adjoint.text.contains("activemask"), sums, "{text}");
            }
            right(&text, &in_step(20, n), shape(grid, block));
        }
    }
    // More sums than a loop carries.
    let mut many = "mov.f32 %f2, %f1; mul.f32 %f3, %f1, 0f3F000000; mov.u32 %r5, 0;\n\
        TOP: setp.ge.u32 %p2, %r5, %r20; @%p2 bra DONE;\n"
        .to_owned();
    for at in 0..37 {
        let offset = at * 4;
        let _ = writeln!(many, "ld.global.f32 %f4, [%w1+{offset}]; fma.rn.f32 %f2, %f2, %f3, %f4;");
    }
    many.push_str("add.u32 %r5, %r5, 1; bra TOP; DONE:");
    for (grid, block, n) in SHAPES {
        right(&text(&many), &args(37, n, 3), shape(grid, block));
        right(&text(&many), &in_step(37, n), shape(grid, block));
    }
}

/// A sum by atomics in a grid-stride loop: its gradient is loaded once.
#[test]
fn sums_in_strides() {
    let code = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [sum]; ld.param.u32 %r9, [n]; cvta.to.global.u64 %w2, %w2;\n\
        mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r1, %r2, %r3, %r4;\n\
        mov.u32 %r5, %nctaid.x; mul.lo.s32 %r5, %r5, %r2;\n\
        TOP: setp.ge.u32 %p1, %r1, %r9; @%p1 bra END; mul.wide.u32 %w3, %r1, 4; add.s64 %w3, %w1, %w3;\n\
        ld.global.f32 %f1, [%w3]; mul.f32 %f2, %f1, %f1; red.global.add.f32 [%w2+4], %f2;\n\
        add.s32 %r1, %r1, %r5; bra TOP; END: ret;";
    let text = kernel(".param .u64 x, .param .u64 sum, .param .b32 n", code)
        .replace(".entry k(", &format!(".entry {NAME}("));
    for (grid, block, n) in [(1, 1, 7), (2, 33, 1000), (1, 64, 0), (4, 32, 129)] {
        let values: Vec<f32> = (0..n).map(|at| (at % 13) as f32 / 4.0 - 1.0).collect();
        let args = [floats(&values), floats(&[0.0, 0.5]), word(n)];
        let (got, _) = right(&text, &args, shape(grid, block));
        for (got, x) in got.gradient[0].iter().zip(&values) {
            assert!(got.is_finite(), "{x}");
        }
    }
}
