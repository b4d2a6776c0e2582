//! What a frame says: gradients that are stored instead of added to, that need not be cleared, that nobody wants, and
//! passes that have failed.

use ptx_ad::{Adjoint, Effect};

use crate::common::{Arg, Compared, Device, floats, kernel, scalar, shape, word};

const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; ld.param.u32 %r9, [n]; ld.param.f32 %f9, [a]; \
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1; \
    mul.wide.u32 %w3, %r1, 4; add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3;";
const PARAMS: &str = ".param .u64 x, .param .u64 out, .param .u32 n, .param .f32 a";
/// The threads of a launch, and those below the length.
const THREADS: u32 = 70;
const COUNT: u32 = 50;

fn text(code: &str) -> String {
    kernel(PARAMS, &format!("{START}\n{code}\nEND: ret;"))
}

/// Buffers of `factor` numbers for each of the first threads.
fn args(factors: [u32; 2]) -> [Arg; 4] {
    let buffer = |factor: u32| {
        let values: Vec<f32> = (0..COUNT * factor).map(|at| 0.5 + at as f32 / 64.0).collect();
        // The length counts elements, which are as large as what a thread loads.
        match floats(&values).len(1, 2) {
            Arg::Buffer { bytes, layout, active, length, .. } => {
                Arg::Buffer { bytes, size: factor * 4, layout, active, length }
            }
            value @ Arg::Value { .. } => value,
        }
    };
    let [x, out] = factors.map(buffer);
    [x, out, word(COUNT), scalar(0.75)]
}

fn run(device: &Device, code: &str, factors: [u32; 2]) -> (Compared, Adjoint) {
    let text = text(code);
    let found = device.compare(&text, "k", &args(factors), shape(2, THREADS / 2), 4);
    found.unwrap_or_else(|failure| panic!("{failure:?}\n{text}"))
}

#[test]
fn dropped_and_assigned() {
    const LOAD: &str = "ld.global.f32 %f1, [%w4];";
    const STORE: &str = "mul.f32 %f2, %f1, %f1; mul.f32 %f2, %f2, %f9; st.global.f32 [%w5], %f2;";
    let below = "setp.ge.u32 %p1, %r1, %r9; @%p1 bra END;";
    // The code, numbers in an element of each buffer, and whether each is covered.
    let cases: [(String, [u32; 2], [bool; 2]); 14] = [
        (format!("{below} {LOAD} {STORE}"), [1, 1], [true, true]),
        // Other ways to say it.
        (format!("setp.lt.u32 %p1, %r1, %r9; @!%p1 bra END; {LOAD} {STORE}"), [1, 1], [true, true]),
        (format!("setp.le.u32 %p1, %r9, %r1; @%p1 bra END; {LOAD} {STORE}"), [1, 1], [true, true]),
        (
            format!("setp.hi.u32 %p1, %r9, %r1; @%p1 bra ON; bra END;\nON: {LOAD} {STORE}"),
            [1, 1],
            [true, true],
        ),
        // Those that the length excludes, and those of an odd index.
        (
            format!(
                "setp.lt.u32 %p1, %r1, %r9; @%p1 bra END; sub.u64 %w4, %w4, 200; sub.u64 %w5, %w5, 200; {LOAD} {STORE}"
            ),
            [1, 1],
            [false, false],
        ),
        (
            format!(
                "{below} and.b32 %r4, %r1, 1; setp.eq.u32 %p2, %r4, 0; @%p2 bra END; {LOAD} {STORE}"
            ),
            [1, 1],
            [false, false],
        ),
        // Loaded, then left; and stored by some.
        (
            format!("{below} {LOAD} setp.gt.f32 %p2, %f1, 0f3F800000; @%p2 bra END; {STORE}"),
            [1, 1],
            [true, false],
        ),
        // Less than all that are below the length.
        (format!("setp.ge.u32 %p1, %r1, 40; @%p1 bra END; {LOAD} {STORE}"), [1, 1], [false, false]),
        // A part of an element is loaded, the rest gets zeros; a part is stored.
        (
            format!(
                "{below} mul.wide.u32 %w3, %r1, 8; add.s64 %w4, %w1, %w3; ld.global.f32 %f1, [%w4+4]; {STORE}"
            ),
            [2, 1],
            [true, true],
        ),
        (
            format!("{below} mul.wide.u32 %w3, %r1, 8; add.s64 %w5, %w2, %w3; {LOAD} {STORE}"),
            [1, 2],
            [true, false],
        ),
        // Two stores to one element: the second to be reversed reads what the first has left.
        (
            format!(
                "{below} {LOAD} st.global.f32 [%w5], %f1; setp.gt.f32 %p2, %f1, 0f3F800000; @%p2 bra ON; bra ON;\nON: {STORE}"
            ),
            [1, 1],
            [true, false],
        ),
        (
            format!("{below} {LOAD} mul.f32 %f3, %f1, %f9; st.global.f32 [%w5], %f3; {STORE}"),
            [1, 1],
            [true, true],
        ),
        // In each iteration of a loop, to the thread's element and to another thread's.
        (
            format!(
                "{below} {LOAD} mov.u32 %r4, 0;\nTOP: mul.f32 %f1, %f1, %f9; st.global.f32 [%w5], %f1; \
                 add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra TOP;"
            ),
            [1, 1],
            [true, false],
        ),
        (
            format!(
                "{below} {LOAD} mov.u32 %r4, 0; xor.b32 %r5, %r1, 1; mul.wide.u32 %w3, %r5, 4; add.s64 %w5, %w2, %w3;\n\
                 TOP: mul.f32 %f1, %f1, %f9; st.global.f32 [%w5], %f1; \
                 add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra TOP;"
            ),
            [1, 1],
            [true, false],
        ),
    ];
    for (code, factors, covers) in cases {
        let (plain, adjoint) = run(&Device::new(), &code, factors);
        assert!(plain.error <= 2e-6 && plain.magnitude > 0.1, "{plain:?}\n{code}");
        let found: Vec<bool> = adjoint.accesses.iter().map(|access| access.covers).collect();
        assert_eq!(found[..2], covers, "{code}");
        assert_eq!(adjoint.accesses[1].effect, Effect::Overwrites);
        let mut device = Device::new();
        (device.masks, device.drops) = (true, true);
        let (masked, _) = run(&device, &code, factors);
        // What was added to is stored.
        let before = if covers[0] { &plain.weights[0][..] } else { &[] };
        for (at, (plain, masked)) in plain.gradient[0].iter().zip(&masked.gradient[0]).enumerate() {
            let wanted = plain - before.get(at).copied().unwrap_or(0.0);
            assert!((masked - wanted).abs() <= 2e-6, "{masked}, not {wanted}\n{code}");
        }
    }
}

/// A gradient that is null is not wanted, or zero.
#[test]
fn unwanted_gradients() {
    let code = "setp.ge.u32 %p1, %r1, %r9; @%p1 bra END; ld.global.f32 %f1, [%w4]; ld.global.f32 %f3, [%w2]; \
        mul.f32 %f2, %f1, %f1; mul.f32 %f2, %f2, %f9; st.global.f32 [%w5+400], %f2;";
    for (null, code) in [
        (0, code.to_owned()),
        (0, code.replace("[%w4]", "[%w1+8]")),
        (1, code.replace("ld.global.f32 %f3, [%w2];", "")),
        (3, code.to_owned()),
    ] {
        let mut device = Device::new();
        device.null = Some(null);
        let (got, _) = run(&device, &code.replace("+400", ""), [1, 1]);
        assert!(got.error <= 2e-6, "{null}: {got:?}\n{code}");
    }
}

/// After an overflow elsewhere in a pass, nothing is read or written.
#[test]
fn failed_passes() {
    for loops in [
        "",
        "mov.u32 %r4, 0;\nTOP: mul.f32 %f1, %f1, %f1; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra TOP;",
    ] {
        let mut device = Device::new();
        (device.raised, device.scratch) = (1, 1 << 16);
        let code = format!(
            "setp.ge.u32 %p1, %r1, %r9; @%p1 bra END; ld.global.f32 %f1, [%w4]; {loops} mul.f32 %f2, %f1, %f9; \
             st.global.f32 [%w5], %f2;"
        );
        let (got, _) = run(&device, &code, [1, 1]);
        assert_eq!(got.gradient[..2], got.weights[..2]);
        assert_eq!(got.gradient[3], [0.0]);
    }
}
