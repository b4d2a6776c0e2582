//! Loops, local memory, and memory that is loaded again after it was stored to.

use ptx_ad::Adjoint;

use crate::common::{
    Arg, Compared, Device, Failure, doubles, floats, module, scalar, shape, word, words,
};

const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; ld.param.u64 %w6, [trips]; \
    ld.param.u32 %r9, [n]; ld.param.f32 %f9, [a];\n mov.u32 %r1, %tid.x; \
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1; \
    mul.wide.u32 %w3, %r1, 4; add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3; add.s64 %w7, %w6, %w3;";
const PARAMS: &str =
    ".param .u64 x, .param .u64 out, .param .u64 trips, .param .u32 n, .param .f32 a";

/// Runs a kernel of 70 threads: `%f1` is the thread's number of x, `%r8` its number of trips (0 to 6), `%r9` is 5, and
/// `%f2` is stored to out.
fn simple(before: &str, code: &str) -> (Compared, Adjoint) {
    let code = format!(
        "{START} ld.global.f32 %f1, [%w4]; ld.global.u32 %r8, [%w7];\n{code}\nmul.f32 %f2, %f2, %f9; st.global.f32 [%w5], %f2;\nEND: ret;"
    );
    let text = module(before, PARAMS, &code);
    let values: Vec<f32> = (0..70).map(|at| 0.5 + at as f32 / 128.0).collect();
    let trips: Vec<u32> = (0..70).map(|at| at * 5 % 7).collect();
    let args = [floats(&values), floats(&values), words(&trips), word(5), scalar(0.75)];
    let mut found = None;
    // None, for no iteration, for some threads' iterations, and for all.
    for scratch in [0, 100, 840, 1 << 20] {
        let mut device = Device::new();
        device.scratch = scratch;
        let (compared, adjoint) = match device.compare(&text, "k", &args, shape(2, 35), 1) {
            Ok(found) => found,
            Err(Failure::Refused(refused)) => panic!("{refused}\n{text}"),
            Err(Failure::Undefined(why) | Failure::Wrong(why)) => panic!("{why}\n{text}"),
        };
        assert!(compared.error <= 2e-6, "{:e}\n{text}\n{}", compared.error, adjoint.text);
        assert!(compared.magnitude > 0.1, "nothing was compared\n{text}");
        found = Some((compared, adjoint));
    }
    found.expect("four runs")
}

/// More threads hide the time that loops wait, unless gradients are of doubles. What the kernel states holds.
#[test]
fn registers() {
    const LOOP: &str = "mov.u32 %r4, 0; AGAIN: mul.f32 %f2, %f2, %f1; add.u32 %r4, %r4, 1; \
        setp.lt.u32 %p1, %r4, %r9; @%p1 bra AGAIN;";
    let made = |code: &str| simple("", &format!("mov.f32 %f2, 0f3F800000; {code}")).1.text;
    assert!(!made("mul.f32 %f2, %f1, %f1;").contains(".maxnreg"));
    let widened = "cvt.f64.f32 %d1, %f1; mul.f64 %d1, %d1, %d1; cvt.rn.f32.f64 %f2, %d1;";
    for code in [LOOP.to_owned(), format!("{widened} {LOOP}")] {
        let text = made(&code);
        assert!(text.contains(".maxnreg 80"), "{text}");
    }
    let text = module(
        "",
        ".param .u64 x, .param .u64 out",
        "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; ld.global.f64 %d1, [%w1]; mov.f64 %d2, %d1;
         mov.u32 %r4, 0; AGAIN: mul.f64 %d2, %d2, %d1; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 5;
         @%p1 bra AGAIN; st.global.f64 [%w2], %d2; ret;",
    );
    let args = [doubles(&[0.5]), doubles(&[0.0])];
    for (bounds, wanted) in [
        ("", None),
        (".maxntid 64, 1, 1", Some(".maxntid 64")),
        (".maxnreg 40", Some(".maxnreg 40")),
    ] {
        let text = text.replace(")\n{\n", &format!(")\n{bounds}\n{{\n"));
        let got = Device::new().compare(&text, "k", &args, shape(1, 1), 1);
        let (_, adjoint) = got.unwrap_or_else(|failure| panic!("{failure:?}\n{text}"));
        let text = &adjoint.text;
        assert!(wanted.is_none_or(|wanted| text.contains(wanted)), "{text}");
        assert_eq!(text.contains(".maxnreg"), bounds.contains(".maxnreg"), "{text}");
    }
}

#[test]
fn products() {
    for (trips, kept) in [("%r8", true), ("%r9", true)] {
        let (_, adjoint) = simple(
            "",
            &format!(
                "mov.f32 %f2, 0f3F800000; mov.u32 %r4, 0; setp.eq.u32 %p1, {trips}, 0; @%p1 bra DONE;
                 AGAIN: mul.f32 %f2, %f2, %f1; add.f32 %f2, %f2, %f9; add.u32 %r4, %r4, 1;
                 setp.lt.u32 %p1, %r4, {trips}; @%p1 bra AGAIN;
                 DONE:"
            ),
        );
        assert_eq!(adjoint.scratch, kept);
        // The counter is not kept.
        assert_eq!(adjoint.kept.iter().map(|kept| kept.words).collect::<Vec<_>>(), [1]);
    }
}

/// What is linear in what a loop carries keeps nothing.
#[test]
fn sums() {
    let (_, adjoint) = simple(
        "",
        "mov.f32 %f2, 0f00000000; mov.u32 %r4, 0; TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         cvt.rn.f32.u32 %f3, %r4; mul.f32 %f4, %f3, %f1; fma.rn.f32 %f2, %f4, %f9, %f2; add.u32 %r4, %r4, 1; bra TOP;
         DONE:",
    );
    assert!(!adjoint.scratch);
}

/// What the repeated kernel loads is read, also where the reverse of the loop needs none of it. `compare` gives no memory
/// for what is not read.
#[test]
fn what_is_read() {
    let iterations = |code: &str, next: &str| {
        let code = format!(
            "mov.f32 %f2, 0f3F000000; mov.u32 %r4, 0; mov.u64 %w8, %w1;
             TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
             ld.global.f32 %f4, [%w8]; {code}
             {next} add.u32 %r4, %r4, 1; bra TOP;
             DONE:"
        );
        let (_, adjoint) = simple("", &code);
        let [x, out, ..] = adjoint.accesses[..] else { panic!("{:?}", adjoint.accesses) };
        assert!(!out.loaded && !x.private && !out.private);
        x.loaded
    };
    let even = "add.s64 %w8, %w8, 4;";
    assert!(iterations("sin.approx.f32 %f3, %f2; add.f32 %f2, %f3, %f4;", even));
    // The address is kept for each iteration, and only the reverse loads.
    let uneven = "and.b32 %r5, %r4, 1; setp.eq.u32 %p2, %r5, 0; @%p2 add.s64 %w8, %w8, 4;";
    assert!(iterations("fma.rn.f32 %f2, %f4, %f9, %f2;", uneven));
}

/// Barriers in kernels whose threads exchange nothing order nothing.
#[test]
fn barriers() {
    let (_, adjoint) = simple(
        "",
        "mov.f32 %f2, %f1; mov.u32 %r4, 0; bar.sync 0;
         TOP: mul.f32 %f2, %f2, %f1; bar.warp.sync -1; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra TOP;
         barrier.sync 0;",
    );
    assert!(!adjoint.text.contains("bar.warp"));
    // Nor may they by parameters that lead to the same memory.
    assert!(adjoint.apart.contains(&(0, 1)));
}

#[test]
fn breaks_and_continues() {
    simple(
        "",
        "mov.f32 %f2, %f1; mov.u32 %r4, 0;
         TOP: setp.ge.u32 %p1, %r4, 6; @%p1 bra DONE;
         setp.eq.u32 %p2, %r4, %r8; @%p2 bra OUT;
         add.u32 %r4, %r4, 1;
         and.b32 %r5, %r4, 1; setp.eq.u32 %p3, %r5, 0; @%p3 bra TOP;
         mul.f32 %f2, %f2, %f1; fma.rn.f32 %f2, %f2, %f9, %f1; bra TOP;
         OUT: mul.f32 %f2, %f2, %f2;
         DONE:",
    );
    // A return from a loop, after stores.
    simple(
        "",
        "mov.f32 %f2, %f1; mov.u32 %r4, 0;
         TOP: setp.ge.u32 %p1, %r4, 6; @%p1 bra DONE;
         mul.f32 %f2, %f2, %f1; st.global.f32 [%w5], %f2;
         setp.eq.u32 %p2, %r4, %r8; @%p2 bra END;
         add.u32 %r4, %r4, 1; bra TOP;
         DONE: sin.approx.f32 %f2, %f2;",
    );
}

/// What a loop counts is not kept: by which steps it changes is known.
#[test]
fn counters() {
    for (code, words) in [
        // Down, by a constant and by an argument.
        ("sub.u32 %r5, %r5, 3;", 0),
        ("sub.s32 %r5, %r5, %r9;", 0),
        ("add.s32 %r5, %r5, -2;", 0),
        ("add.u32 %r5, %r9, %r5;", 0),
        // By a step that changes itself, and by another one each way.
        ("add.u32 %r5, %r5, %r6; add.u32 %r6, %r6, %r4;", 1),
        (
            "add.u32 %r5, %r5, 1; and.b32 %r7, %r4, 1; setp.eq.u32 %p2, %r7, 0; @%p2 bra TOP; add.u32 %r5, %r5, 2;",
            1,
        ),
        // From its place to zero.
        ("sub.u32 %r5, %r9, %r5;", 1),
    ] {
        let (_, adjoint) = simple(
            "",
            &format!(
                "mov.f32 %f2, %f1; mov.u32 %r4, 0; mov.u32 %r5, 40; mov.u32 %r6, 1;
                 TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE; add.u32 %r4, %r4, 1;
                 cvt.rn.f32.s32 %f3, %r5; mul.f32 %f3, %f3, 0f3D800000; fma.rn.f32 %f2, %f2, %f3, %f1; {code} bra TOP;
                 DONE:"
            ),
        );
        assert_eq!(adjoint.kept.iter().map(|kept| kept.words).sum::<u32>(), words, "{code}");
    }
}

/// Values that are exchanged in each iteration, and that go round.
#[test]
fn exchanges() {
    simple(
        "",
        "mov.f32 %f2, %f1; mov.f32 %f3, %f9; mov.f32 %f4, 0f3F000000; mov.u32 %r4, 0;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         mov.f32 %f5, %f2; mov.f32 %f2, %f3; mul.f32 %f3, %f4, %f1; mov.f32 %f4, %f5; add.u32 %r4, %r4, 1; bra TOP;
         DONE: fma.rn.f32 %f2, %f3, %f4, %f2;",
    );
    // Two that change places.
    simple(
        "",
        "mov.f32 %f2, %f1; mul.f32 %f3, %f9, %f1; mov.u32 %r4, 0;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         mov.f32 %f5, %f2; mov.f32 %f2, %f3; mov.f32 %f3, %f5; add.u32 %r4, %r4, 1; bra TOP;
         DONE: mul.f32 %f3, %f3, %f3; fma.rn.f32 %f2, %f2, %f1, %f3;",
    );
}

#[test]
fn nests() {
    simple(
        "",
        "mov.f32 %f2, %f1; mov.u32 %r4, 0;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         mov.u32 %r5, 0; mul.f32 %f3, %f2, %f9;
         INNER: setp.gt.u32 %p1, %r5, %r4; @%p1 bra AFTER;
         mul.f32 %f3, %f3, %f1; fma.rn.f32 %f2, %f3, %f9, %f2; mul.f32 %f2, %f2, 0f3F000000; add.u32 %r5, %r5, 1; bra INNER;
         AFTER: mul.f32 %f2, %f2, %f3; add.u32 %r4, %r4, 1; bra TOP;
         DONE:",
    );
    // Three deep, with an exit from the innermost to the outermost's end, and a value of the innermost used outside.
    simple(
        "",
        "mov.f32 %f2, %f1; mov.f32 %f5, %f1; mov.u32 %r4, 0;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE; mov.u32 %r5, 0;
         MIDDLE: setp.ge.u32 %p1, %r5, 2; @%p1 bra AFTER; mov.u32 %r6, 0;
         INNER: setp.ge.u32 %p1, %r6, 3; @%p1 bra LATER;
         mul.f32 %f5, %f2, %f1; fma.rn.f32 %f2, %f5, %f9, %f1; mul.f32 %f2, %f2, 0f3F000000;
         add.u32 %r7, %r4, %r6; setp.eq.u32 %p2, %r7, 7; @%p2 bra DONE;
         setp.eq.u32 %p2, %r7, 5; @%p2 bra AFTER;
         add.u32 %r6, %r6, 1; bra INNER;
         LATER: mul.f32 %f2, %f2, %f5; add.u32 %r5, %r5, 1; bra MIDDLE;
         AFTER: add.f32 %f2, %f2, %f5; mul.f32 %f2, %f2, %f1; add.u32 %r4, %r4, 1; bra TOP;
         DONE: mul.f32 %f2, %f2, %f5;",
    );
}

/// Behind a loop with another one at its end, a third.
#[test]
fn loops_behind_nests() {
    simple(
        "",
        "mov.f32 %f2, %f1; mov.u32 %r4, 0; setp.eq.u32 %p1, %r8, 0; @%p1 bra DONE;
         TOP: mov.u32 %r5, 0;
         INNER: mul.f32 %f3, %f2, %f2; mul.f32 %f3, %f3, 0f3E000000; fma.rn.f32 %f2, %f1, 0f3F000000, %f3;
         add.u32 %r5, %r5, 1; setp.le.u32 %p1, %r5, %r4; @%p1 bra INNER;
         add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, %r8; @%p1 bra TOP;
         mov.u32 %r4, 0;
         AGAIN: mul.f32 %f3, %f2, %f2; mul.f32 %f3, %f3, 0f3E000000; fma.rn.f32 %f2, %f1, 0f3F000000, %f3;
         add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, %r8; @%p1 bra AGAIN;
         DONE:",
    );
}

/// Some threads have finished before others run again with more memory: they add nothing more.
#[test]
fn finished_threads() {
    let code = format!(
        "{START} ld.global.f32 %f1, [%w4]; ld.global.u32 %r8, [%w7]; mov.f32 %f2, %f1; mov.u32 %r4, 0;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         mul.f32 %f2, %f2, %f1; fma.rn.f32 %f2, %f2, %f9, %f1; add.u32 %r4, %r4, 1; bra TOP;
         DONE: and.b32 %r5, %r1, 7; mul.wide.u32 %w8, %r5, 4; add.s64 %w8, %w2, %w8; red.global.add.f32 [%w8], %f2; ret;"
    );
    let text = module("", PARAMS, &code);
    let values: Vec<f32> = (0..70).map(|at| 0.5 + at as f32 / 128.0).collect();
    let trips: Vec<u32> = (0..70).map(|at| at * 5 % 7).collect();
    let args = [floats(&values), floats(&[0.0; 8]), words(&trips), word(5), scalar(0.75)];
    for scratch in [0, 280, 840, 1400, 1 << 20] {
        let mut device = Device::new();
        device.scratch = scratch;
        let found = device.compare(&text, "k", &args, shape(2, 35), 1);
        let (got, adjoint) = found.unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(got.error <= 2e-6 && adjoint.scratch, "{scratch}: {got:?}\n{}", adjoint.text);
    }
}

/// Loads and stores of active memory in loops.
#[test]
fn memory_in_loops() {
    // Gathers, by a pointer that moves on.
    simple(
        "",
        "mov.f32 %f2, 0f3F800000; mov.u32 %r4, 0; mov.u64 %w8, %w1;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         ld.global.f32 %f3, [%w8+8]; mul.f32 %f2, %f2, %f3; add.s64 %w8, %w8, 4; add.u32 %r4, %r4, 1; bra TOP;
         DONE:",
    );
    // The thread's own element, in each iteration.
    simple(
        "",
        "mov.u32 %r4, 0; mov.f32 %f2, %f1;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         ld.global.f32 %f3, [%w4]; fma.rn.f32 %f2, %f2, %f3, %f9; add.u32 %r4, %r4, 1; bra TOP;
         DONE:",
    );
    // Each iteration overwrites what the iteration before has stored.
    simple(
        "",
        "mov.u32 %r4, 0; mov.f32 %f2, %f1;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         fma.rn.f32 %f2, %f2, %f1, %f9; st.global.f32 [%w5], %f2; add.u32 %r4, %r4, 1; bra TOP;
         DONE: mul.f32 %f2, %f2, %f2;",
    );
}

/// A load of what the kernel has stored.
#[test]
fn private_copies() {
    let (_, adjoint) = simple(
        "",
        "ld.global.f32 %f3, [%w5]; mul.f32 %f3, %f3, %f1; st.global.f32 [%w5], %f3;
         ld.global.f32 %f4, [%w5]; mul.f32 %f2, %f4, %f4;",
    );
    assert!(adjoint.accesses[1].private && !adjoint.scratch);
    let (_, adjoint) = simple(
        "",
        "mov.u32 %r4, 0; mov.f32 %f2, %f1;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         ld.global.f32 %f3, [%w5]; mul.f32 %f3, %f3, %f1; st.global.f32 [%w5], %f3; add.u32 %r4, %r4, 1; bra TOP;
         DONE: ld.global.f32 %f4, [%w5]; mul.f32 %f2, %f4, %f4;",
    );
    assert!(adjoint.accesses[1].private && adjoint.scratch);
    // Two loads in an iteration, and doubles as halves.
    simple(
        "",
        "mov.u32 %r4, 0; mov.f32 %f2, %f1;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         ld.global.f32 %f3, [%w5]; mul.f32 %f3, %f3, %f1; st.global.f32 [%w5], %f3;
         ld.global.f32 %f4, [%w5]; fma.rn.f32 %f3, %f4, %f3, %f1; mul.f32 %f3, %f3, 0f3F000000; st.global.f32 [%w5], %f3;
         add.u32 %r4, %r4, 1; bra TOP;
         DONE: ld.global.f32 %f4, [%w5]; mul.f32 %f2, %f4, %f4;",
    );
    // A predicate from memory that the kernel has written.
    simple(
        "",
        "st.global.u32 [%w7], %r1;\nld.global.u32 %r2, [%w7]; // !\n\
         setp.gt.u32 %p1, %r2, 1; selp.f32 %f2, %f1, 0f00000000, %p1;",
    );
}

#[test]
fn local_memory() {
    for access in [
        "st.local.f32 [own], %f1; ld.local.f32 %f3, [own]; mul.f32 %f2, %f3, %f1;",
        // By generic addresses, and as integers.
        "mov.u64 %w8, own; cvta.local.u64 %w8, %w8; st.f32 [%w8], %f1; ld.f32 %f2, [%w8];",
        "st.local.f32 [own], %f1; ld.local.u32 %r2, [own]; mov.b32 %f2, %r2;",
        "mov.b64 %w8, {%r1, %f1}; st.local.b64 [own], %w8; ld.local.f32 %f2, [own+4];",
        // What is overwritten by an integer.
        "st.local.f32 [own], %f1; st.local.f32 [own+4], %f9; st.local.u32 [own], 0; ld.local.v2.f32 {%f3, %f4}, [own]; \
         fma.rn.f32 %f2, %f4, %f1, %f3;",
        // Copies of bits from one place to another.
        "st.local.v2.f32 [own], {%f1, %f9}; ld.local.b64 %w8, [own]; st.local.b64 [own+8], %w8; \
         ld.local.v2.f32 {%f3, %f4}, [own+8]; mul.f32 %f2, %f3, %f4;",
    ] {
        simple("", &format!(".local .align 8 .b8 own[16]; {access} // !"));
    }
    // Integers beside numbers, moved with them and by computed addresses: they are only indices.
    simple(
        "",
        ".local .align 8 .b8 own[24]; mov.u64 %w8, own; mov.u32 %r2, 0; mov.u32 %r4, 0;
         st.local.v2.f32 [own], {%f1, %f9}; st.local.u32 [own+8], %r2; st.local.u32 [own+12], %r2;
         TOP: setp.ge.s32 %p1, %r4, %r8; @%p1 bra DONE;
         and.b32 %r5, %r4, 1; mul.wide.s32 %w9, %r5, 4; add.s64 %w9, %w8, %w9; xor.b32 %r6, %r5, 1;
         and.b32 %r6, %r6, 1; mul.wide.s32 %w10, %r6, 4; add.s64 %w10, %w8, %w10;
         ld.local.f32 %f3, [%w9]; mul.f32 %f3, %f3, %f1; ld.local.b32 %r7, [%w9+8];
         st.local.f32 [%w10], %f3; st.local.b32 [%w10+8], %r7; add.s32 %r2, %r4, 1;
         st.local.u32 [%w9+8], %r2; add.u32 %r4, %r4, 1; bra TOP;
         DONE: ld.local.v2.f32 {%f3, %f4}, [own]; ld.local.u32 %r2, [own+8];
         mul.wide.s32 %w9, %r2, 4; add.s64 %w9, %w1, %w9; ld.global.f32 %f5, [%w9];
         mul.f32 %f2, %f3, %f4; mul.f32 %f2, %f2, %f5; cvt.rn.f32.s32 %f6, %r2; fma.rn.f32 %f2, %f6, %f1, %f2;",
    );
    // By addresses that branches choose, as unrolled insertions into sorted lists compile to.
    simple(
        "",
        ".local .align 8 .b8 own[16]; mov.u64 %w8, own; st.local.v2.f32 [own], {%f9, %f9}; st.local.v2.b32 [own+8], {1, 2};
         add.s64 %w9, %w8, 4; add.s64 %w10, %w8, 12; setp.gt.u32 %p1, %r8, 3; @%p1 bra LAST;
         ld.local.f32 %f3, [own]; st.local.f32 [%w9], %f3; ld.local.b32 %r2, [own+8]; st.local.b32 [%w10], %r2;
         mov.u64 %w9, %w8; add.s64 %w10, %w8, 8;
         LAST: st.local.f32 [%w9], %f1; st.local.b32 [%w10], %r8;
         ld.local.v2.f32 {%f3, %f4}, [own]; ld.local.v2.b32 {%r2, %r3}, [own+8]; cvt.rn.f32.s32 %f5, %r2;
         cvt.rn.f32.s32 %f6, %r3; mul.f32 %f3, %f3, %f5; mul.f32 %f4, %f4, %f6; fma.rn.f32 %f2, %f3, %f1, %f4;",
    );
    // An array that is filled, overwritten in a loop, and read.
    simple(
        "",
        ".local .align 8 .b8 own[32]; mov.u64 %w8, own; mov.u32 %r4, 0; mov.f32 %f3, %f1;
         FILL: st.local.f32 [%w8], %f3; mul.f32 %f3, %f3, %f9; add.u64 %w8, %w8, 4; add.u32 %r4, %r4, 1;
         setp.lt.u32 %p1, %r4, 8; @%p1 bra FILL;
         mov.u32 %r4, 0; mov.u64 %w9, own; mov.f32 %f2, %f1;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         and.b32 %r5, %r4, 3; mul.wide.u32 %w10, %r5, 4; add.u64 %w10, %w9, %w10; ld.local.f32 %f4, [%w10]; ld.local.f32 %f5, [%w10+4];
         mul.f32 %f6, %f4, %f5; add.f32 %f2, %f2, %f6; st.local.f32 [%w10+4], %f6; add.u32 %r4, %r4, 1; bra TOP;
         DONE: ld.local.f32 %f7, [own+8]; mul.f32 %f2, %f2, %f7;",
    );
}

/// Carried doubles, predicates and 16 bits.
#[test]
fn carried_types() {
    let code = format!(
        "{START} mul.wide.u32 %w3, %r1, 8; add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3;
         ld.global.f64 %d1, [%w4]; ld.global.u32 %r8, [%w7]; mov.u32 %r4, 0; mov.f64 %d2, %d1; setp.eq.u32 %p2, %r4, 0;
         mov.u16 %h1, 3;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         cvt.rn.f64.u16 %d3, %h1; mul.f64 %d3, %d3, %d1; selp.f64 %d4, %d3, %d1, %p2; fma.rn.f64 %d2, %d2, %d1, %d4; not.pred %p2, %p2;
         mul.lo.u16 %h1, %h1, %h1; add.u32 %r4, %r4, 1; bra TOP;
         DONE: st.global.f64 [%w5], %d2; ret;"
    );
    let text = module("", PARAMS, &code);
    let values: Vec<f64> = (0..70).map(|at| 0.5 + f64::from(at) / 128.0).collect();
    let trips: Vec<u32> = (0..70).map(|at| at * 5 % 7).collect();
    let args: [Arg; 5] =
        [doubles(&values), doubles(&values), words(&trips), word(5), scalar(0.75).constant()];
    let (compared, adjoint) = match Device::new().compare(&text, "k", &args, shape(2, 35), 1) {
        Ok(found) => found,
        Err(Failure::Refused(refused)) => panic!("{refused}\n{text}"),
        Err(Failure::Undefined(why) | Failure::Wrong(why)) => panic!("{why}\n{text}"),
    };
    assert!(compared.error <= 1e-13, "{:e}\n{}", compared.error, adjoint.text);
    // The double, the predicate, and 16 bits.
    assert_eq!(adjoint.kept[0].words, 4);
}

/// A `switch` in a loop.
#[test]
fn branches_by_tables() {
    simple(
        "",
        "mov.f32 %f2, %f1; mov.u32 %r4, 0;
         TOP: setp.ge.u32 %p1, %r4, %r8; @%p1 bra DONE;
         setp.gt.u32 %p2, %r4, 3; @%p2 bra OTHER;
         TABLE: .branchtargets ZERO, OTHER, TWO, OTHER;
         brx.idx %r4, TABLE;
         ZERO: mul.f32 %f2, %f2, %f1; bra NEXT;
         TWO: add.f32 %f2, %f2, %f9; bra NEXT;
         OTHER: mul.f32 %f2, %f2, %f9;
         NEXT: add.u32 %r4, %r4, 1; bra TOP;
         DONE:",
    );
}

/// An address that comes from one of two parameters, in a loop and outside.
#[test]
fn one_of_two_pointers() {
    let (_, adjoint) = simple(
        "",
        "and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; ld.global.f32 %f3, [%w5];
         selp.b64 %w8, %w4, %w5, %p1; ld.global.f32 %f4, [%w8]; mul.f32 %f2, %f4, %f3;",
    );
    assert!(adjoint.accesses[0].own);
    simple(
        "",
        "and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; mov.f32 %f2, %f1; mov.u32 %r4, 0;
         TOP: setp.ge.u32 %p2, %r4, %r8; @%p2 bra DONE;
         selp.b64 %w8, %w4, %w5, %p1; add.s64 %w8, %w8, 4;
         ld.global.f32 %f3, [%w8+-4]; fma.rn.f32 %f2, %f2, %f3, %f9; not.pred %p1, %p1;
         add.u32 %r4, %r4, 2; bra TOP;
         DONE:",
    );
}

/// What is said of a body's instructions does not hold for the adjoint's, and large blocks have a text.
#[test]
fn pragmas_and_large_blocks() {
    let (_, adjoint) = simple("", ".pragma \"used_bytes_mask 255\"; mul.f32 %f2, %f1, %f1;");
    assert!(!adjoint.text.contains(".pragma"));
    let wide = adjoint.text_for_blocks_of(1024);
    let entry = &ptx_ad::parse(&wide).expect("valid").functions[0];
    assert!(entry.directives.maxntid.is_some(), "{wide}");
}
