//! Which elements are a thread's own, and which memory must not have two names.

use ptx_ad::{Adjoint, Real};

use crate::common::{Arg, Device, Layout, floats, kernel, shape};

const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [y]; ld.param.u64 %w3, [z]; mov.u32 %r1, %tid.x; \
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1; mul.wide.u32 %w4, %r1, 4; \
    add.s64 %w5, %w1, %w4; add.s64 %w6, %w2, %w4; add.s64 %w7, %w3, %w4;";

fn made(code: &str) -> Adjoint {
    let text = kernel(
        ".param .u64 x, .param .u64 y, .param .u64 z",
        &format!("{START}\n{code}\nst.global.f32 [%w7], %f2; ret;"),
    );
    let values: Vec<f32> = (0..300).map(|at| 0.5 + at as f32 / 128.0).collect();
    let args: [Arg; 3] = [0; 3].map(|_| floats(&values));
    let found = Device::new().compare(&text, "k", &args, shape(2, 35), 1);
    let (got, adjoint) = found.unwrap_or_else(|failure| panic!("{failure:?}\n{text}"));
    assert!(got.error <= 2e-6 && got.magnitude > 0.1, "{got:?}\n{text}");
    adjoint
}

#[test]
fn elements() {
    const LOAD: &str = "ld.global.f32 %f1, [%w5]; ld.global.f32 %f3, [%w6];";
    for (code, own) in [
        (format!("{LOAD} mul.f32 %f2, %f1, %f3;"), true),
        // Twice, before and behind a branch.
        (
            format!(
                "{LOAD} setp.gt.f32 %p1, %f1, 0f3F800000; @%p1 bra ON; ld.global.f32 %f4, [%w5]; mul.f32 %f1, %f1, %f4;\n\
                 ON: mul.f32 %f2, %f1, %f3;"
            ),
            true,
        ),
        // Twice in one block, and another number between.
        (
            format!(
                "{LOAD} ld.global.f32 %f4, [%w5]; mul.f32 %f1, %f1, %f4; ld.global.f32 %f5, [%w5]; fma.rn.f32 %f2, %f1, %f3, %f5;"
            ),
            true,
        ),
        // By two strides.
        (
            format!(
                "{LOAD} shl.b64 %w8, %w4, 1; add.s64 %w8, %w1, %w8; ld.global.f32 %f4, [%w8]; mul.f32 %f1, %f1, %f4; \
                 mul.f32 %f2, %f1, %f3;"
            ),
            false,
        ),
        // By the index and by that of the thread before.
        (
            format!(
                "{LOAD} setp.eq.u32 %p1, %r1, 0; mov.f32 %f4, %f1; @%p1 bra ON; ld.global.f32 %f4, [%w5+-4];\n\
                 ON: mul.f32 %f1, %f1, %f4; mul.f32 %f2, %f1, %f3;"
            ),
            false,
        ),
        // By a pointer that a loop moves on.
        (
            format!(
                "{LOAD} mov.u32 %r4, 0; mov.f32 %f2, %f3; mov.u64 %w8, %w5;\n\
                 TOP: ld.global.f32 %f4, [%w8]; fma.rn.f32 %f2, %f2, %f4, %f1; mul.f32 %f2, %f2, 0f3F000000; \
                 add.s64 %w8, %w8, 4; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra TOP;"
            ),
            false,
        ),
        // By the index in the block.
        (
            format!(
                "{LOAD} mov.u32 %r4, %tid.x; mul.wide.u32 %w8, %r4, 4; add.s64 %w8, %w1, %w8; ld.global.f32 %f4, [%w8]; \
                 mul.f32 %f1, %f1, %f4; mul.f32 %f2, %f1, %f3;"
            ),
            false,
        ),
        // By a thread's index that was changed.
        (
            format!(
                "{LOAD} xor.b32 %r4, %r1, 1; mul.wide.u32 %w8, %r4, 4; add.s64 %w8, %w1, %w8; ld.global.f32 %f4, [%w8]; \
                 mul.f32 %f1, %f1, %f4; mul.f32 %f2, %f1, %f3;"
            ),
            false,
        ),
    ] {
        let adjoint = made(&code);
        let found: Vec<bool> = adjoint.accesses.iter().map(|access| access.own).collect();
        assert_eq!(found, [own, true, true], "{code}");
        assert_eq!(adjoint.shares, !own, "{code}");
    }
}

/// An offset of 32 bits may wrap in large launches: then threads would share an element.
#[test]
fn most_threads() {
    let wide = made("ld.global.f32 %f1, [%w5]; ld.global.f32 %f3, [%w6]; mul.f32 %f2, %f1, %f3;");
    assert_eq!(wide.threads, 1 << 31);
    let narrow = made(
        "shl.b32 %r4, %r1, 2; cvt.u64.u32 %w8, %r4; add.s64 %w8, %w1, %w8; ld.global.f32 %f1, [%w8]; \
         ld.global.f32 %f3, [%w6]; mul.f32 %f2, %f1, %f3;",
    );
    assert!(narrow.accesses[0].own);
    assert_eq!(narrow.threads, 1 << 29);
}

/// Three numbers and an integer in each element, moved at once.
#[test]
fn three_of_four() {
    let code = format!(
        "{START} mul.wide.u32 %w8, %r1, 16; add.s64 %w8, %w1, %w8; mul.wide.u32 %w9, %r1, 16; add.s64 %w9, %w2, %w9;\n\
         ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%w8]; mov.b32 %f1, %r5; mov.b32 %f2, %r6; mov.b32 %f3, %r7; \
         mul.f32 %f4, %f1, %f2; mul.f32 %f5, %f2, %f3; fma.rn.f32 %f6, %f3, %f1, %f2; mov.b32 %r9, %f4; mov.b32 %r10, %f5; \
         mov.b32 %r11, %f6; add.u32 %r8, %r8, 1; st.global.v4.b32 [%w9], {{%r9, %r10, %r11, %r8}}; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 y, .param .u64 z", &code);
    let elements = || {
        let each = |at: i32| {
            let float = |by: f32| (by + at as f32 / 8.0).to_le_bytes();
            [float(0.5), float(-1.5), float(0.25), at.to_le_bytes()].concat()
        };
        let layout = Layout::Some(Real::F32, vec![0, 4, 8]);
        let bytes = (0..70).flat_map(each).collect();
        Arg::Buffer { bytes, size: 16, layout, active: true, length: None }
    };
    let args = [elements(), elements(), floats(&[1.0]).constant()];
    let found = Device::new().compare(&text, "k", &args, shape(2, 35), 1);
    let (got, _) = found.unwrap_or_else(|failure| panic!("{failure:?}\n{text}"));
    assert!(got.error <= 2e-6 && got.magnitude > 0.1, "{got:?}\n{text}");
}

#[test]
fn two_names() {
    let plain = made("ld.global.f32 %f1, [%w5]; ld.global.f32 %f3, [%w6]; mul.f32 %f2, %f1, %f3;");
    assert_eq!(plain.apart, []);
    // Loaded behind a store.
    let late = made(
        "ld.global.f32 %f1, [%w5]; mul.f32 %f3, %f1, %f1; st.global.f32 [%w7+4], %f3; ld.global.f32 %f3, [%w6]; \
         mul.f32 %f2, %f1, %f3;"
            .replace("[%w7+4]", "[%w7]")
            .as_str(),
    );
    assert_eq!(late.apart, [(1, 2)]);
    // In the iteration behind.
    let iterations = made(
        "mov.f32 %f2, 0f3F800000; mov.u32 %r4, 0; ld.global.f32 %f5, [%w6];\nTOP: ld.global.f32 %f1, [%w5]; \
         fma.rn.f32 %f2, %f2, %f1, %f5; st.global.f32 [%w7], %f2; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra TOP;",
    );
    assert!(
        iterations.apart.contains(&(0, 2)) && !iterations.apart.contains(&(1, 2)),
        "{:?}",
        iterations.apart
    );
    // Two outputs of one block: both gradients are loaded before one is cleared.
    let outputs = made(
        "ld.global.f32 %f1, [%w5]; mul.f32 %f3, %f1, %f1; st.global.f32 [%w6], %f3; mul.f32 %f2, %f1, %f3;",
    );
    assert!(
        outputs.apart.iter().any(|&(a, b)| (a.min(b), a.max(b)) == (1, 2)),
        "{:?}",
        outputs.apart
    );
}
