//! What the headers of queries need: searches that have no gradient, and their markers.

use ptx_ad::{Adjoint, NotDifferentiable, Reason, differentiate, parse};

use crate::common::{Device, Failure, floats, kernel, shape, spec, word};

const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; \
    mov.u32 %r3, %tid.x; mad.lo.s32 %r1, %r1, %r2, %r3; \
    mul.wide.u32 %w3, %r1, 4; add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3; ld.global.f32 %f1, [%w4];";

/// `out[i] = f(x[i])` with a number `n`, by `%f1` and `%f2`.
fn text(code: &str) -> String {
    let code = format!("{START}\n{code}\nst.global.f32 [%w5], %f2;\nret;");
    kernel(".param .u64 x, .param .u64 out, .param .u32 n", &code)
}

fn made(code: &str) -> Result<Adjoint, NotDifferentiable> {
    let args = [floats(&[1.0; 8]), floats(&[1.0; 8]), word(9)];
    differentiate(&parse(&text(code)).expect("valid"), &spec("k", &args))
}

#[track_caller]
fn refused(code: &str, reason: &Reason, part: &str) {
    let error = made(code).expect_err(code);
    let all = &error.refusals;
    let found = all.iter().find(|one| one.reason == *reason);
    let message = found.unwrap_or_else(|| panic!("{error}\n{code}")).message.clone();
    assert!(all.len() == 1 && message.contains(part), "{error}\n{code}");
}

/// How far a sum of integers up to n goes, and the greatest integer whose square is below x: the loop ends by a number
/// with a gradient.
const SEARCHES: [&str; 3] = [
    "mov.u32 %r5, 0; ld.param.u32 %r6, [n];\n$loop: add.u32 %r5, %r5, 1; mul.lo.u32 %r7, %r5, %r5; \
     setp.lt.u32 %p1, %r7, %r6; @%p1 bra $loop;",
    "mov.u32 %r5, 0;\n$loop: add.u32 %r5, %r5, 1; cvt.rn.f32.u32 %f5, %r5; mul.f32 %f5, %f5, %f5; \
     setp.lt.f32 %p1, %f5, %f1; @%p1 bra $loop;",
    // Newton's method on a constant.
    "mov.f32 %f5, 0f3f800000; mov.u32 %r5, 0; mul.f32 %f6, %f5, 0f40400000;\n$loop: rcp.rn.f32 %f7, %f5; \
     fma.rn.f32 %f5, %f6, %f7, %f5; mul.f32 %f5, %f5, 0f3f000000; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 6; \
     @%p1 bra $loop;\nadd.f32 %f5, %f5, 0f3f800000; cvt.rzi.u32.f32 %r5, %f5;",
];

#[test]
fn searches_keep_nothing() {
    for search in SEARCHES {
        let code = format!(
            "{search}\ncvt.rn.f32.u32 %f3, %r5; mul.f32 %f4, %f1, %f3; mul.f32 %f2, %f4, %f1;"
        );
        let adjoint = made(&code).expect(search);
        assert!(adjoint.kept.is_empty() && !adjoint.scratch, "{:?}\n{search}", adjoint.kept);
        let values: Vec<f32> = (0..70).map(|at| 0.5 + at as f32 / 4.0).collect();
        let args = [floats(&values), floats(&values), word(9)];
        match Device::new().compare(&text(&code), "k", &args, shape(1, 70), 1) {
            Ok((compared, _)) => assert!(compared.error <= 2e-6, "{compared:?}\n{search}"),
            Err(Failure::Refused(refused)) => panic!("{refused}\n{search}"),
            Err(Failure::Undefined(why) | Failure::Wrong(why)) => panic!("{why}\n{search}"),
        }
    }
}

/// A search within a loop with gradients is repeated with it.
#[test]
fn searches_in_loops() {
    let code = "mov.u32 %r8, 0; mov.f32 %f8, %f1; ld.param.u32 %r6, [n];\n$outer: mov.u32 %r5, 0;\n$loop: add.u32 %r5, %r5, 1; \
        mul.lo.u32 %r7, %r5, %r5; add.u32 %r7, %r7, %r8; setp.lt.u32 %p1, %r7, %r6; @%p1 bra $loop;\n\
        cvt.rn.f32.u32 %f3, %r5; mul.f32 %f8, %f8, %f8; fma.rn.f32 %f8, %f1, %f3, %f8; mul.f32 %f8, %f8, 0f3e000000; \
        add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 5; @%p2 bra $outer;\nmov.f32 %f2, %f8;";
    let adjoint = made(code).expect("it has gradients");
    assert_eq!(adjoint.kept.len(), 1, "{:?}", adjoint.kept);
    let values: Vec<f32> = (0..40).map(|at| 0.5 + at as f32 / 32.0).collect();
    let args = [floats(&values), floats(&values), word(30)];
    match Device::new().compare(&text(code), "k", &args, shape(1, 40), 1) {
        Ok((compared, _)) => assert!(compared.error <= 2e-6, "{compared:?}"),
        Err(Failure::Refused(refused)) => panic!("{refused}"),
        Err(Failure::Undefined(why) | Failure::Wrong(why)) => panic!("{why}"),
    }
}

#[test]
fn lost_whatever_it_depends_on() {
    let lost = |word: &str| {
        format!("mov.f32 %f3, 0f3f800000; ad.lost.f32{word} %f4, %f3; mul.f32 %f2, %f1, %f4;")
    };
    refused(&lost(""), &Reason::Lost, "geom::ad::rule");
    refused(&lost(".grid"), &Reason::Lost, "give the array that the grid was built from");
    refused(&lost(".result"), &Reason::Lost, "the result of this query");
    refused(&lost(".normals"), &Reason::Lost, "the normals of vertices");
    // The marker is what is named, and not what its operand was loaded from.
    let code = "ld.global.u64 %w6, [%w1]; ld.global.f32 %f3, [%w6]; ad.lost.f32.grid %f4, %f3; mul.f32 %f2, %f1, %f4;";
    let error = made(code).expect_err("lost");
    assert!(error.refusals.iter().any(|one| one.reason == Reason::Lost), "{error}");
    // In a comparison, and stopped.
    let accepted = "mov.f32 %f3, 0f3f800000; ad.lost.f32.grid %f4, %f3; setp.gt.f32 %p1, %f4, %f1; selp.f32 %f5, %f1, %f4, %p1; \
        ad.stop.f32 %f6, %f4; mul.f32 %f2, %f1, %f6;";
    made(accepted).expect("nothing is lost");
}

/// The memory behind a pointer that the specification does not declare.
#[test]
fn loaded_by_pointers_that_are_not_declared() {
    let load = |marker: &str, choice: &str| {
        format!(
            "ld.param.u32 %r5, [n]; cvt.u64.u32 %w6, %r5; add.s64 %w6, %w6, %w3; mov.u64 %w7, %w6; {choice} \
             ld.global.f32 %f3, [%w7]; {marker} %f4, %f3; mul.f32 %f2, %f1, %f4;"
        )
    };
    refused(&load("mov.f32", ""), &Reason::PointerInMemory, "not known");
    let adjoint = made(&load("ad.loaded.f32", "")).expect("a constant");
    assert!(!adjoint.text.contains(" ad.") && !adjoint.text.contains("\tad."), "{}", adjoint.text);
    // It may be that of a declared pointer.
    let choice = "setp.gt.u32 %p1, %r1, 3; selp.b64 %w7, %w6, %w4, %p1;";
    refused(&load("ad.loaded.f32", choice), &Reason::PointerInMemory, "not known");
    // Of a declared pointer it has a gradient.
    let code = "ld.global.f32 %f3, [%w4]; ad.loaded.f32 %f4, %f3; mul.f32 %f2, %f4, %f4;";
    assert!(made(code).expect("declared").accesses[0].own);
    refused(
        "ad.loaded.f32 %f3, %f1; mov.b32 %r5, %f3; add.u32 %r5, %r5, 9; mov.b32 %f2, %r5;",
        &Reason::Bits,
        "bits",
    );
}
