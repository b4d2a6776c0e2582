//! Results of atomic operations that the kernel stores in replay buffers.

use ptx_ad::{Adjoint, Effect, Real, Reason, Spec, differentiate, parse};

use crate::common::{
    Arg, Compared, Device, Failure, doubles, floats, kernel, scalar, shape, spec, words,
};

const PARAMS: &str =
    ".param .u64 x, .param .u64 out, .param .u64 slots, .param .u64 count, .param .f32 a";

/// `%f1` is the thread's number of x, `%w4`, `%w5` and `%w8` the addresses of its elements of x, out and slots, and `%w6`
/// that of the counters.
const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; ld.param.u64 %w3, [slots]; \
    ld.param.u64 %w6, [count]; ld.param.f32 %f9, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; \
    mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1; mul.wide.u32 %w7, %r1, 4; add.s64 %w4, %w1, %w7; \
    add.s64 %w5, %w2, %w7; add.s64 %w8, %w3, %w7;";

const SLOTS: usize = 2;

fn args() -> [Arg; 5] {
    let values: Vec<f32> = (0..70).map(|at| (at * 37 % 41) as f32 / 16.0 - 1.0).collect();
    let mut counts = [0; 16];
    counts[1] = 150;
    [floats(&values), floats(&[0.5; 300]), words(&[9999; 70 * 80]), words(&counts), scalar(0.75)]
}

/// Says of the third parameter that it is a replay buffer.
fn replayed(args: &[Arg]) -> Spec {
    let mut spec = spec("k", args);
    spec.params[SLOTS].replay.push(0);
    spec
}

fn text(code: &str) -> String {
    kernel(PARAMS, &format!("{START}\n{code}\nret;"))
}

/// Compares the adjoint of a kernel of 70 threads with tangents.
fn right_with(text: &str, args: &[Arg]) -> (Compared, Adjoint) {
    let found = Device::new().compare_spec(text, &replayed(args), args, shape(2, 35), 1);
    let (compared, adjoint) = match found {
        Ok(found) => found,
        Err(Failure::Refused(refused)) => panic!("{refused}\n{text}"),
        Err(Failure::Undefined(why) | Failure::Wrong(why)) => panic!("{why}\n{text}"),
    };
    assert!(compared.error <= 2e-6, "{:e}\n{text}\n{}", compared.error, adjoint.text);
    assert!(compared.magnitude > 0.1, "nothing was compared\n{text}");
    let access = &adjoint.accesses[SLOTS];
    assert!(access.replayed && access.effect == Effect::Overwrites, "{access:?}");
    (compared, adjoint)
}

fn right(code: &str) -> (Compared, Adjoint) {
    let text = text(code);
    // Without the declaration it is refused, with a hint.
    let refused = differentiate(&parse(&text).expect("valid"), &spec("k", &args()));
    let refused = refused.expect_err("no replay");
    assert_eq!(refused.refusals[0].reason, Reason::AtomicResult);
    assert!(refused.to_string().contains("`replay`"), "{refused}");
    right_with(&text, &args())
}

const STORE: &str = "mul.wide.u32 %w9, %r5, 4; add.s64 %w10, %w2, %w9; st.global.f32 [%w10], %f2;";
const LOAD: &str = "ld.global.f32 %f1, [%w4]; mul.f32 %f2, %f1, %f1; mul.f32 %f2, %f2, %f9;";

/// Elements that are positive move together.
#[test]
fn compaction() {
    let (got, adjoint) = right(&format!(
        "{LOAD} setp.gt.f32 %p1, %f1, 0f00000000; @!%p1 bra END;\n\
         atom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w8], %r5; {STORE}\nEND:"
    ));
    let Arg::Buffer { bytes, .. } = &args()[0] else { unreachable!("a buffer") };
    let changed =
        got.gradient[0].iter().zip(&got.weights[0]).map(|(after, before)| after != before);
    let dropped = changed.zip(bytes.chunks(4)).filter(|(changed, value)| {
        let value = f32::from_le_bytes((*value).try_into().expect("4 bytes"));
        assert_eq!(value > 0.0, *changed, "{value}");
        value <= 0.0
    });
    assert!((10..60).contains(&dropped.count()));
    assert!(adjoint.accesses[SLOTS].loaded && !adjoint.accesses[SLOTS].private);
    assert_eq!(adjoint.accesses[3].effect, Effect::Updates);
    // The kernel must not store what it replays through another argument.
    assert!(adjoint.apart.contains(&(SLOTS, 1)) && adjoint.apart.contains(&(SLOTS, 3)));
    // The adjoint repeats no atomic operation of integers.
    assert!(
        !adjoint.text.contains("add.u32 %r5, [") && !adjoint.text.contains("atom.global.add.u32")
    );
}

#[test]
fn compaction_of_doubles() {
    let code = format!(
        "{START} mul.wide.u32 %w11, %r1, 8; add.s64 %w4, %w1, %w11; ld.global.f64 %d1, [%w4];\n\
         setp.gt.f64 %p1, %d1, 0d0000000000000000; @!%p1 bra END;\n\
         atom.global.inc.u32 %r5, [%w6], 1000; mul.f64 %d2, %d1, %d1; st.global.u32 [%w8], %r5; \
         mul.wide.u32 %w9, %r5, 8; add.s64 %w10, %w2, %w9; st.global.f64 [%w10], %d2;\nEND: ret;"
    );
    let values: Vec<f64> = (0..70).map(|at| f64::from(at * 37 % 41) / 16.0 - 1.0).collect();
    let [_, _, slots, count, a] = args();
    let args = [doubles(&values), doubles(&[0.5; 300]), slots, count, a.constant()];
    let (got, _) = right_with(&kernel(PARAMS, &code), &args);
    assert!(got.error < 1e-14, "{got:?}");
}

#[test]
fn places_of_the_store() {
    for code in [
        // The address is computed behind the operation.
        format!(
            "{LOAD} atom.global.add.u32 %r5, [%w6], 3; shl.b32 %r6, %r1, 1; add.u32 %r6, %r6, 1; \
             mul.wide.u32 %w11, %r6, 4; add.s64 %w12, %w3, %w11; st.global.u32 [%w12+4], %r5; {STORE}"
        ),
        // By a parameter that is loaded behind it.
        format!(
            "{LOAD} atom.global.add.u32 %r5, [%w6], 1; ld.param.u64 %w13, [slots]; add.s64 %w12, %w13, %w7; \
             st.global.u32 [%w12], %r5; {STORE}"
        ),
        // In the block behind, with another value for the others.
        format!(
            "{LOAD} mov.u32 %r5, -1; setp.gt.f32 %p1, %f1, 0f00000000; @!%p1 bra ON; \
             atom.global.add.u32 %r5, [%w6], 1;\nON: st.global.u32 [%w8], %r5; @!%p1 bra END; {STORE}\nEND:"
        ),
        // Of two operations, each on its way.
        format!(
            "{LOAD} setp.gt.f32 %p1, %f1, 0f00000000; @!%p1 bra NO; atom.global.add.u32 %r5, [%w6], 1; bra ON;\n\
             NO: atom.global.dec.u32 %r5, [%w6+4], 199;\nON: st.global.u32 [%w8], %r5; add.u32 %r5, %r5, 40; {STORE}"
        ),
        // Before it, the element is cleared.
        format!(
            "{LOAD} st.global.u32 [%w8], 77; atom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w8], %r5; {STORE}"
        ),
        // Two results side by side, and as a vector.
        format!(
            "{LOAD} shl.b64 %w11, %w7, 1; add.s64 %w12, %w3, %w11; atom.global.add.u32 %r5, [%w6], 1; \
             st.global.u32 [%w12], %r5; atom.global.add.u32 %r6, [%w6+8], 2; st.global.u32 [%w12+4], %r6; \
             cvt.rn.f32.u32 %f3, %r6; fma.rn.f32 %f2, %f3, %f1, %f2; {STORE}"
        ),
        format!(
            "{LOAD} shl.b64 %w11, %w7, 1; add.s64 %w12, %w3, %w11; atom.global.add.u32 %r5, [%w6], 1; \
             atom.global.add.u32 %r6, [%w6+8], 2; st.global.v2.u32 [%w12], {{%r6, %r5}}; \
             cvt.rn.f32.u32 %f3, %r6; fma.rn.f32 %f2, %f3, %f1, %f2; {STORE}"
        ),
        // By a generic address, with `exch`, `max` and a result of 64 bits.
        format!("{LOAD} atom.exch.b32 %r5, [%w6+4], %r1; st.u32 [%w8], %r5; {STORE}"),
        format!(
            "{LOAD} atom.global.max.u32 %r5, [%w6], %r1; st.global.b32 [%w8], %r5; add.u32 %r5, %r5, %r1; {STORE}"
        ),
        format!(
            "{LOAD} shl.b64 %w11, %w7, 1; add.s64 %w12, %w3, %w11; atom.global.add.u64 %w13, [%w6], 1; \
             st.global.u64 [%w12], %w13; cvt.u32.u64 %r5, %w13; {STORE}"
        ),
        // The element of x is the thread's own, and overwritten.
        format!(
            "{LOAD} mul.f32 %f3, %f1, %f1; st.global.f32 [%w4], %f3; atom.global.add.u32 %r5, [%w6], 1; \
             st.global.u32 [%w8], %r5; {STORE}"
        ),
    ] {
        right(&code);
    }
}

/// A list for each cell: nothing but the list is computed from the result.
#[test]
fn lists() {
    let (_, adjoint) = right(&format!(
        "{LOAD} and.b32 %r4, %r1, 7; mul.wide.u32 %w9, %r4, 4; add.s64 %w10, %w6, %w9; \
         atom.global.exch.b32 %r5, [%w10], %r1; st.global.u32 [%w8], %r5; st.global.f32 [%w5], %f2;"
    ));
    assert!(!adjoint.accesses[SLOTS].loaded);
}

#[test]
fn loops() {
    // Three places for each thread.
    right(&format!(
        "{LOAD} mul.lo.u32 %r6, %r1, 3; mul.wide.u32 %w11, %r6, 4; add.s64 %w12, %w3, %w11; mov.u32 %r7, 0;\n\
         TOP: atom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w12], %r5; {STORE}\n\
         fma.rn.f32 %f2, %f2, %f1, %f9; mul.f32 %f2, %f2, 0f3F000000; add.s64 %w12, %w12, 4; add.u32 %r7, %r7, 1;\n\
         setp.lt.u32 %p1, %r7, 3; @%p1 bra TOP;"
    ));
    // By the counter, in a loop in a loop, with a condition.
    right(&format!(
        "{LOAD} mov.u32 %r7, 0;\nOUTER: mov.u32 %r8, 0;\n\
         TOP: add.u32 %r9, %r8, %r1; and.b32 %r9, %r9, 1; setp.eq.u32 %p2, %r9, 0; @%p2 bra NEXT;\n\
         atom.global.add.u32 %r5, [%w6], 1; mad.lo.u32 %r6, %r1, 4, %r8; mad.lo.u32 %r6, %r7, 2, %r6; \
         mul.wide.u32 %w11, %r6, 4; add.s64 %w12, %w3, %w11; st.global.u32 [%w12], %r5; {STORE}\n\
         fma.rn.f32 %f2, %f2, %f1, %f9; mul.f32 %f2, %f2, 0f3F000000;\n\
         NEXT: add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 2; @%p1 bra TOP;\n\
         add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 2; @%p1 bra OUTER;"
    ));
    // As long as `cas` finds another value than was expected.
    right(&format!(
        "{LOAD} mul.lo.u32 %r6, %r1, 80; mul.wide.u32 %w11, %r6, 4; add.s64 %w12, %w3, %w11; mov.u32 %r7, 0;\n\
         TOP: mov.u32 %r8, %r7; add.u32 %r9, %r8, 1; atom.global.cas.b32 %r7, [%w6], %r8, %r9; st.global.u32 [%w12], %r7; \
         add.s64 %w12, %w12, 4; mul.f32 %f2, %f2, %f1; add.f32 %f2, %f2, %f9; setp.ne.u32 %p1, %r7, %r8; @%p1 bra TOP;\n\
         mov.u32 %r5, %r7; {STORE}"
    ));
}

/// What can't be replayed, at the line with a `!`.
#[test]
fn refused() {
    use Reason::{AtomicResult, LoadAfterStore, Parameter};
    let cases: Vec<(String, Reason, &str)> = [
        // The address depends on the result.
        (
            "atom.global.add.u32 %r5, [%w6], 1; mul.wide.u32 %w11, %r5, 4; add.s64 %w12, %w3, %w11;\n\
             st.global.u32 [%w12], %r5; // !",
            AtomicResult,
            "depends on the result",
        ),
        // It is loaded, or joined, behind the operation.
        (
            "atom.global.add.u32 %r5, [%w6], 1; ld.global.u32 %r6, [%w4]; mul.wide.u32 %w11, %r6, 4; \
             add.s64 %w12, %w3, %w11;\nst.global.u32 [%w12], %r5; // !",
            AtomicResult,
            "not known before",
        ),
        (
            "mov.u64 %w12, %w8; atom.global.add.u32 %r5, [%w6], 1; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra ON; \
             add.s64 %w12, %w12, 400;\nON: st.global.u32 [%w12], %r5; // !",
            AtomicResult,
            "not known before",
        ),
        // It is stored sometimes.
        (
            "atom.global.add.u32 %r5, [%w6], 1; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra ON;\n\
             st.global.u32 [%w8], %r5; // !\nON:",
            AtomicResult,
            "not stored on each path",
        ),
        // Something else is stored.
        (
            "atom.global.add.u32 %r5, [%w6], 1; add.u32 %r6, %r5, 1;\nst.global.u32 [%w8], %r6; // !",
            Parameter,
            "no result",
        ),
        (
            "atom.global.add.u32 %r5, [%w6], 1; mov.u32 %r6, %r5; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra ON; \
             mov.u32 %r6, 3;\nON: st.global.u32 [%w8], %r6; // !",
            Parameter,
            "no result",
        ),
        // A part of it.
        (
            "atom.global.add.u64 %w13, [%w6], 1; cvt.u32.u64 %r5, %w13;\nst.global.u32 [%w8], %r5; // !",
            Parameter,
            "no result",
        ),
        (
            "atom.global.add.u32 %r5, [%w6], 1;\nst.global.u16 [%w8], %r5; // !",
            AtomicResult,
            "another type",
        ),
        // In each iteration at the same address.
        (
            "mov.u32 %r7, 0;\nTOP: atom.global.add.u32 %r5, [%w6], 1;\nst.global.u32 [%w8], %r5; // !\n\
             mul.f32 %f2, %f2, %f1; add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 3; @%p1 bra TOP;",
            AtomicResult,
            "each iteration",
        ),
        // The inner loop's places are those of the outer loop's next iteration.
        (
            "mov.u32 %r7, 0;\nOUTER: mov.u32 %r8, 0;\nTOP: atom.global.add.u32 %r5, [%w6], 1; mad.lo.u32 %r6, %r1, 4, %r8; \
             mul.wide.u32 %w11, %r6, 4; add.s64 %w12, %w3, %w11;\nst.global.u32 [%w12], %r5; // !\n\
             mul.f32 %f2, %f2, %f1; add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 3; @%p1 bra TOP; \
             add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 2; @%p1 bra OUTER;",
            AtomicResult,
            "each iteration",
        ),
        // Behind the loop.
        (
            "mov.u32 %r7, 0;\nTOP: atom.global.add.u32 %r5, [%w6], 1; mul.f32 %f2, %f2, %f1; add.u32 %r7, %r7, 1; \
             setp.lt.u32 %p1, %r7, 3; @%p1 bra TOP;\nst.global.u32 [%w8], %r5; // !",
            Parameter,
            "no result",
        ),
        // It is overwritten: by the next result, and by a number.
        (
            "atom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w8], %r5; atom.global.add.u32 %r6, [%w6+4], 1;\n\
             st.global.u32 [%w8], %r6; // !\nadd.u32 %r5, %r5, %r6;",
            AtomicResult,
            "overwrite",
        ),
        (
            "atom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w8], %r5; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra ON;\n\
             st.global.u32 [%w8+2], 0; // !\nON:",
            AtomicResult,
            "overwrite",
        ),
        // The buffer is also loaded, added to, or waited for.
        (
            "atom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w8], %r5;\nld.global.u32 %r6, [%w8+4]; // !",
            Parameter,
            "only stored to",
        ),
        (
            "atom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w8], %r5;\nred.global.add.u32 [%w8], 1; // !",
            Parameter,
            "only stored to",
        ),
        (
            "atom.global.add.u32 %r5, [%w6], 1; \nst.volatile.global.u32 [%w8], %r5; // !",
            Parameter,
            "only stored to",
        ),
        (
            "atom.global.add.u32 %r5, [%w6], 1; setp.gt.u32 %p1, %r1, 3; selp.b64 %w12, %w8, %w6, %p1;\n\
             ld.global.u32 %r6, [%w12]; // !\nst.global.u32 [%w8], %r5;",
            Parameter,
            "only stored to",
        ),
        // Numbers: a sum of floats, and the bits of an extremum.
        (
            "mov.u32 %r5, 0;\natom.global.add.f32 %f3, [%w6], %f1;\nst.global.f32 [%w8], %f3; // !\nadd.f32 %f2, %f2, %f3;",
            AtomicResult,
            "as another type",
        ),
        (
            "mov.u32 %r5, 0;\natom.global.add.f32 %f3, [%w6], %f1; // !\nst.global.b32 [%w8], %f3; add.f32 %f2, %f2, %f3;",
            AtomicResult,
            "is a number",
        ),
        (
            "mov.b32 %r6, %f1; mov.u32 %r5, 0;\natom.global.max.s32 %r7, [%w6], %r6; // !\nst.global.u32 [%w8], %r7; \
             mov.b32 %f3, %r7; add.f32 %f2, %f2, %f3;",
            AtomicResult,
            "is a number",
        ),
        (
            "mov.b32 %r6, %f1; xor.b32 %r6, %r6, 5; mov.u32 %r5, 0;\natom.global.max.s32 %r7, [%w6], %r6; // !\n\
             st.global.u32 [%w8], %r7; xor.b32 %r7, %r7, 5; mov.b32 %f3, %r7; add.f32 %f2, %f2, %f3;",
            AtomicResult,
            "depends on active inputs",
        ),
        (
            "mov.b32 %r6, %f1; xor.b32 %r6, %r6, 5; mov.u32 %r5, 0;\nst.global.u32 [%w6], %r6; // !\n\
             atom.global.exch.b32 %r7, [%w6], 3; st.global.u32 [%w8], %r7; xor.b32 %r7, %r7, 5; mov.b32 %f3, %r7; \
             add.f32 %f2, %f2, %f3;",
            AtomicResult,
            "depends on active inputs",
        ),
        (
            "mov.b32 %r6, %f1; xor.b32 %r6, %r6, 5; mov.u32 %r5, 0;\natom.global.cas.b32 %r7, [%w6], 3, %r6; // !\n\
             st.global.u32 [%w8], %r7; xor.b32 %r7, %r7, 5; mov.b32 %f3, %r7; add.f32 %f2, %f2, %f3;",
            AtomicResult,
            "depends on active inputs",
        ),
        // On memory that has a gradient.
        (
            "mov.u32 %r5, 0;\natom.global.exch.b32 %r7, [%w5], %r1; // !\nst.global.u32 [%w8], %r7; \
             cvt.rn.f32.u32 %f3, %r7; mul.f32 %f2, %f2, %f3;",
            AtomicResult,
            "is a number",
        ),
        // What it counts is loaded: another thread may have counted on.
        (
            "\nld.global.u32 %r7, [%w6]; // !\natom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w8], %r5; \
             cvt.rn.f32.u32 %f3, %r7; mul.f32 %f2, %f2, %f3;",
            LoadAfterStore,
            "other threads",
        ),
        // The last thread reads what all have stored.
        (
            "mov.u32 %r5, 80; st.global.f32 [%w5+4], %f2; atom.global.add.u32 %r7, [%w6], 1; st.global.u32 [%w8], %r7; \
             setp.ne.u32 %p1, %r7, 69; @%p1 bra ON;\nld.global.f32 %f3, [%w2+8]; // !\nmul.f32 %f2, %f2, %f3;\nON:",
            LoadAfterStore,
            "other threads",
        ),
        // One thread waits for another one, which stores to what the first has loaded in the text before.
        (
            "mov.u32 %r5, 80; atom.global.add.u32 %r7, [%w6], 1; st.global.u32 [%w8], %r7; setp.eq.u32 %p1, %r7, 0; \
             @%p1 bra ON;\nld.global.f32 %f3, [%w2+8]; // !\nmul.f32 %f2, %f2, %f3;\nON:",
            LoadAfterStore,
            "other threads",
        ),
        // Memory that is not known.
        (
            "atom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w8], %r5; ld.global.u64 %w12, [%w1];\n\
             ld.global.u32 %r7, [%w12]; // !\ncvt.rn.f32.u32 %f3, %r7; mul.f32 %f2, %f2, %f3;",
            LoadAfterStore,
            "other threads",
        ),
    ]
    .map(|(code, reason, words)| (text(&format!("{LOAD} {code}\n{STORE}")), reason, words))
    .to_vec();
    for (text, reason, words) in cases {
        let at = text.lines().position(|line| line.contains("// !")).expect("a line") + 1;
        let line = u32::try_from(at).expect("few");
        let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let refused = differentiate(&module, &replayed(&args()));
        let refused =
            refused.map_or_else(|refused| refused, |made| panic!("{}\n{text}", made.text));
        let found = refused.refusals.iter().any(|refusal| {
            refusal.reason == reason && refusal.ptx_line == line && refusal.message.contains(words)
        });
        assert!(found, "{reason:?} at line {line}, `{words}`: {refused:#?}\n{text}");
    }
}

#[test]
fn declarations() {
    let code =
        format!("{LOAD} atom.global.add.u32 %r5, [%w6], 1; st.global.u32 [%w8], %r5; {STORE}");
    let module = parse(&text(&code)).expect("valid");
    let reason = |change: &dyn Fn(&mut Spec)| {
        let mut spec = replayed(&args());
        change(&mut spec);
        differentiate(&module, &spec).expect_err("wrong").refusals[0].reason.clone()
    };
    assert!(differentiate(&module, &replayed(&args())).is_ok());
    // No such pointer; an active one; one in which nothing is stored.
    assert_eq!(reason(&|spec| spec.params[SLOTS].replay.push(8)), Reason::Parameter);
    assert_eq!(reason(&|spec| spec.params[4].replay.push(0)), Reason::Parameter);
    assert_eq!(reason(&|spec| spec.params[0].replay.push(0)), Reason::Parameter);
    assert_eq!(reason(&|spec| spec.params[3].replay.push(0)), Reason::Parameter);
    let active = |spec: &mut Spec| {
        let pointer = &mut spec.params[SLOTS].pointers[0];
        (pointer.active, pointer.reals) = (true, Some(ptx_ad::Reals::All(Real::F32)));
    };
    assert_eq!(reason(&active), Reason::Parameter);
}
