//! Accesses by an address that is one of several.

use ptx_ad::Adjoint;

use crate::common::{Arg, Device, Failure, floats, kernel, shape, words};

const PARAMS: &str = ".param .u64 x, .param .u64 w, .param .u64 out, .param .u64 n, .param .u64 v";
/// The thread's elements of x, w and out are `%w4` to `%w6`, v is `%w12`; `%r4` is its number of n, from 0 to 6. `%f1`
/// is its number of x, and `%f2` is stored to out after the code.
const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [w]; ld.param.u64 %w3, [out]; ld.param.u64 %w7, [n]; \
    ld.param.u64 %w12, [v]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, \
    %r3, %r1; mul.wide.u32 %w8, %r1, 4; add.s64 %w4, %w1, %w8; add.s64 %w5, %w2, %w8; add.s64 %w6, %w3, %w8; \
    add.s64 %w7, %w7, %w8; ld.global.u32 %r4, [%w7]; ld.global.f32 %f1, [%w4]; mov.f32 %f2, %f1; \
    and.b32 %r5, %r4, 1; setp.eq.u32 %p1, %r5, 0; setp.gt.u32 %p2, %r4, 3;";

fn right(code: &str) -> Adjoint {
    let text = kernel(
        PARAMS,
        &format!("{START}\n{code}\nmul.f32 %f2, %f2, %f1; st.global.f32 [%w6], %f2; ret;"),
    );
    let values = |from: f32| -> Vec<f32> { (0..70).map(|at| from + at as f32 / 64.0).collect() };
    let numbers: Vec<u32> = (0..70).map(|at| at * 5 % 7).collect();
    let mut args: Vec<Arg> = [0.5, 1.0, -0.25].map(|from| floats(&values(from))).to_vec();
    args.push(words(&numbers));
    args.push(if code.contains("%w12") { floats(&values(2.0)) } else { words(&numbers) });
    let mut found = None;
    for scratch in [0, 100, 1 << 20] {
        let mut device = Device::new();
        device.scratch = scratch;
        let (compared, adjoint) = match device.compare(&text, "k", &args, shape(2, 35), 1) {
            Ok(found) => found,
            Err(Failure::Refused(refused)) => panic!("{refused}\n{text}"),
            Err(Failure::Undefined(why) | Failure::Wrong(why)) => panic!("{why}\n{text}"),
        };
        assert!(compared.error <= 2e-6, "{:e}\n{text}\n{}", compared.error, adjoint.text);
        assert!(compared.magnitude > 0.1, "nothing was compared\n{text}");
        found = Some(adjoint);
    }
    found.expect("three runs")
}

/// Of memory that the kernel does not write, one load takes the chosen address.
#[test]
fn loads_of_inputs() {
    let adjoint = right("selp.b64 %w9, %w4, %w5, %p1; ld.global.f32 %f2, [%w9];");
    assert!(!adjoint.accesses[0].own && adjoint.shares);
}

/// `c ? w[i] : out[i]` after a store to out.
#[test]
fn loads_after_stores() {
    let adjoint = right(
        "mul.f32 %f3, %f1, %f1; st.global.f32 [%w6], %f3; selp.b64 %w9, %w2, %w3, %p1; add.s64 %w9, %w9, %w8; \
         ld.global.f32 %f2, [%w9];",
    );
    let [x, w, out, ..] = adjoint.accesses[..] else { panic!("{:?}", adjoint.accesses) };
    assert!(x.own && w.own && out.own && out.private && !adjoint.shares);
}

/// References to variables of the thread and to elements, as `std::clamp` takes them.
#[test]
fn local_memory_or_elements() {
    for load in [
        "ld.f32 %f2, [%w9];",
        "ld.v2.f32 {%f2, %f3}, [%w9]; mul.f32 %f2, %f2, %f3;",
        "ld.u32 %r6, [%w9]; mov.b32 %f2, %r6;",
    ] {
        right(&format!(
            ".local .align 8 .b8 own[8]; mul.f32 %f3, %f1, 0f3F000000; st.local.v2.f32 [own], {{%f3, %f1}}; \
             mov.u64 %w10, own; cvta.local.u64 %w10, %w10; and.b32 %r6, %r1, 30; mul.wide.u32 %w11, %r6, 4; \
             add.s64 %w11, %w2, %w11; selp.b64 %w9, %w10, %w11, %p2; {load} ld.local.f32 %f4, [own]; \
             add.f32 %f2, %f2, %f4;"
        ));
    }
    // The variable of the thread is overwritten, or the thread's element.
    right(
        ".local .align 8 .b8 own[8]; mul.f32 %f3, %f1, 0f3F000000; st.local.f32 [own], %f3; \
         mov.u64 %w10, own; cvta.local.u64 %w10, %w10; selp.b64 %w9, %w10, %w5, %p2; \
         ld.f32 %f2, [%w9]; mul.f32 %f2, %f2, %f2; st.f32 [%w9], %f2; ld.local.f32 %f4, [own]; add.f32 %f2, %f4, %f1;",
    );
}

/// Stores and atomic additions.
#[test]
fn stores() {
    right(
        "selp.b64 %w9, %w5, %w6, %p1; mul.f32 %f3, %f1, %f1; st.global.f32 [%w9], %f3; ld.global.f32 %f2, [%w5];",
    );
    right(
        "selp.b64 %w9, %w4, %w5, %p1; mul.f32 %f3, %f1, %f1; st.global.f32 [%w9], %f3; ld.global.f32 %f2, [%w9]; \
         st.global.f32 [%w9], 0f40000000;",
    );
    right("selp.b64 %w9, %w2, %w12, %p1; mul.f32 %f3, %f1, %f1; red.global.add.f32 [%w9], %f3;");
}

/// Pointers that are exchanged in each iteration, and one that moves.
#[test]
fn loops() {
    right(
        "mov.u32 %r6, 0; mov.u64 %w9, %w4; mov.u64 %w10, %w5;
         TOP: setp.ge.u32 %p3, %r6, %r4; @%p3 bra DONE;
         ld.global.f32 %f3, [%w9]; ld.global.f32 %f4, [%w10]; fma.rn.f32 %f3, %f3, %f4, %f1; mul.f32 %f3, %f3, 0f3F000000;
         st.global.f32 [%w10], %f3; mov.u64 %w11, %w9; mov.u64 %w9, %w10; mov.u64 %w10, %w11;
         add.u32 %r6, %r6, 1; bra TOP;
         DONE: ld.global.f32 %f2, [%w9]; ld.global.f32 %f3, [%w10]; mul.f32 %f2, %f2, %f3;",
    );
    right(
        "mov.u32 %r6, 0; selp.b64 %w9, %w1, %w3, %p1; mul.f32 %f3, %f1, %f1; st.global.f32 [%w6], %f3; add.s64 %w9, %w9, %w8;
         TOP: setp.ge.u32 %p3, %r6, %r4; @%p3 bra DONE;
         ld.global.f32 %f3, [%w9]; fma.rn.f32 %f2, %f2, %f3, %f1; setp.eq.u32 %p4, %r6, 2; selp.b64 %w9, %w5, %w9, %p4;
         add.u32 %r6, %r6, 1; bra TOP;
         DONE: ld.global.f32 %f3, [%w9+0]; add.f32 %f2, %f2, %f3;",
    );
}

/// One of three, by branches.
#[test]
fn three() {
    right(
        "mov.u64 %w9, %w4; @%p2 bra DONE; mov.u64 %w9, %w5; @%p1 bra DONE; mul.f32 %f3, %f1, %f1; st.global.f32 [%w6], %f3;
         mov.u64 %w9, %w6;
         DONE: ld.global.f32 %f2, [%w9]; mul.f32 %f2, %f2, %f1;",
    );
}
