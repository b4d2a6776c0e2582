//! Taint: each body is run with an approximate instruction and with an exact one in its place. Of the first the decisions
//! are those that the test names; of the second there are none.

use std::collections::BTreeMap;

use cuda_emu::exec::{Decided, Stats};

use crate::device::{Device, shape};

/// The threads of a launch.
const THREADS: u32 = 40;

/// A kernel `k(out)` whose `%f1` is `SEED` of the thread's number; `%f9` is 1, `%p9` is true in thread 0 alone.
fn kernel(body: &str, seed: &str) -> String {
    format!(
        ".version 8.0
.target sm_90
.address_size 64
.global .align 8 .b8 memory[1024];
.func (.param .b32 r) same(.param .b32 a)
{{
	.reg .f32 %a;
	ld.param.f32 %a, [a];
	st.param.f32 [r], %a;
	ret;
}}
.visible .entry k(.param .u64 out)
{{
	.reg .pred %p<10>;
	.reg .u32 %t, %r<10>;
	.reg .f32 %f<10>;
	.reg .b64 %out, %at, %l<10>;
	.shared .align 8 .b8 block[1024];
	.local .align 8 .b8 own[64];
	ld.param.u64 %out, [out];
	mov.u32 %t, %tid.x;
	mul.wide.u32 %at, %t, 8;
	add.u64 %at, %out, %at;
	cvt.rn.f32.u32 %f0, %t;
	mov.f32 %f9, 0f3F800000;
	setp.eq.u32 %p9, %t, 0;
	mov.f32 %f1, %f9;
{}
	ret;
}}
",
        body.replace("SEED", seed)
    )
}

fn run(body: &str, seed: &str) -> Stats {
    let mut device = Device::new(2);
    device.info.taint = true;
    let out = device.upload(&[0_u64; 64]);
    let text = kernel(body, seed);
    let program = device.load(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    device
        .launch(&program, "k", shape(1, THREADS), &[out])
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns how many threads approximate values decided something for, by kind.
fn decided(stats: &Stats) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    for reached in &stats.reached {
        *all.entry(reached.what.name()).or_default() += reached.count;
    }
    all
}

const APPROXIMATE: &str = "ex2.approx.f32";
const EXACT: &str = "sqrt.rn.f32";

#[track_caller]
fn check(body: &str, wanted: &[(&'static str, u64)]) {
    let approximate = run(body, APPROXIMATE);
    let wanted: BTreeMap<_, _> = wanted.iter().copied().collect();
    assert_eq!(decided(&approximate), wanted, "{body}: {:?}", approximate.reached);
    let exact = run(body, EXACT);
    assert_eq!(exact.reached, [], "{body}");
}

const ALL: u64 = THREADS as u64;
const BRANCH: &str = "a branch";
const ADDRESS: &str = "an address";
const INTEGER: &str = "an integer";

#[test]
fn values_that_are_only_stored_decide_nothing() {
    check("", &[]);
    check("SEED %f1, %f0; st.global.f32 [%at], %f1;", &[]);
    check(
        "SEED %f1, %f0; fma.rn.f32 %f1, %f1, %f1, %f9; cvt.rni.f32.f32 %f2, %f1; \
           st.global.f32 [%at], %f2;",
        &[],
    );
    check("SEED %f1, %f0; mov.b32 %r1, %f1; st.global.b32 [%at], %r1;", &[]);
    check(
        "SEED %f1, %f0; setp.gt.f32 %p1, %f1, %f9; selp.f32 %f2, %f1, %f9, %p1; \
           st.global.f32 [%at], %f2;",
        &[],
    );
    check("SEED %f1, %f0; setp.gt.u32 %p1, %t, 3; @%p1 st.global.f32 [%at], %f1;", &[]);
}

#[test]
fn branches_are_found() {
    check(
        "SEED %f1, %f0; setp.gt.f32 %p1, %f1, 0f42C80000; @%p1 bra END; \
           st.global.f32 [%at], %f1; END:",
        &[(BRANCH, ALL)],
    );
    check(
        "SEED %f1, %f0; setp.gt.f32 %p1, %f1, 0f42C80000; @%p1 st.global.f32 [%at], %f9;",
        &[(BRANCH, ALL)],
    );
    check(
        "SEED %f1, %f0; setp.gt.f32 %p1, %f1, 0f42C80000; not.pred %p2, %p1; \
           and.pred %p3, %p2, %p9; @!%p3 exit;",
        &[(BRANCH, ALL)],
    );
    // Only what thread 0 computes is approximate.
    check("@%p9 SEED %f1, %f0; setp.gt.f32 %p1, %f1, %f9; @%p1 bra END; END:", &[(BRANCH, 1)]);
    check(
        "SEED %f1, %f0; setp.lt.f32 %p1, %f1, %f9; mov.f32 %f2, %f9; @%p1 mov.f32 %f2, %f0; \
           setp.lt.f32 %p2, %f2, %f9; @%p2 bra END; END:",
        &[(BRANCH, ALL)],
    );
}

#[test]
fn integers_and_addresses_are_found() {
    check("SEED %f1, %f0; cvt.rzi.s32.f32 %r1, %f1;", &[(INTEGER, ALL)]);
    check("SEED %f1, %f0; mov.b32 %r1, %f1; shr.u32 %r1, %r1, 23;", &[(INTEGER, ALL)]);
    check("SEED %f1, %f0; setp.lt.f32 %p1, %f1, %f9; selp.u32 %r1, 1, 2, %p1;", &[(INTEGER, ALL)]);
    check("SEED %f1, %f0; set.lt.u32.f32 %r1, %f1, %f9;", &[(INTEGER, ALL)]);
    check("@%p9 SEED %f1, %f0; cvt.rzi.s32.f32 %r1, %f1;", &[(INTEGER, 1)]);
    check(
        "SEED %f1, %f9; cvt.rzi.u32.f32 %r1, %f1; mul.wide.u32 %l1, %r1, 8; \
           add.u64 %l1, %out, %l1; ld.global.f32 %f2, [%l1];",
        &[(INTEGER, 3 * ALL), (ADDRESS, ALL)],
    );
    // What was loaded from there depends on the address.
    check(
        "SEED %f1, %f9; cvt.rzi.u32.f32 %r1, %f1; mul.wide.u32 %l1, %r1, 8; \
           add.u64 %l1, %out, %l1; ld.global.f32 %f2, [%l1]; setp.lt.f32 %p1, %f2, %f9; \
           @%p1 bra END; END:",
        &[(INTEGER, 3 * ALL), (ADDRESS, ALL), (BRANCH, ALL)],
    );
}

#[test]
fn exact_values_replace_approximate_ones() {
    check("SEED %f1, %f0; mov.f32 %f1, %f9; setp.lt.f32 %p1, %f1, %f9; @%p1 bra END; END:", &[]);
    check(
        "SEED %f1, %f0; setp.lt.f32 %p1, %f1, %f9; setp.lt.f32 %p1, %f9, %f9; @%p1 bra END; END:",
        &[],
    );
    check(
        "SEED %f1, %f0; st.global.f32 [%at], %f1; st.global.f32 [%at], %f9; \
           ld.global.f32 %f2, [%at]; cvt.rzi.s32.f32 %r1, %f2;",
        &[],
    );
}

#[test]
fn memory_carries_marks() {
    for (space, address) in
        [("global", "%at"), ("global", "memory"), ("shared", "block"), ("local", "own")]
    {
        // In a place that all share, the last store counts: each thread stores the same kind.
        check(
            &format!(
                "SEED %f1, %f0; st.{space}.f32 [{address}], %f1; \
            ld.{space}.f32 %f2, [{address}]; ld.{space}.f32 %f3, [{address}+4]; \
            cvt.rzi.s32.f32 %r1, %f2;"
            ),
            &[(INTEGER, ALL)],
        );
        check(
            &format!(
                "SEED %f1, %f0; st.{space}.f32 [{address}+4], %f1; \
            ld.{space}.f32 %f3, [{address}]; cvt.rzi.s32.f32 %r1, %f3;"
            ),
            &[],
        );
    }
    check(
        "SEED %f1, %f0; st.global.v2.f32 [%at], {%f1, %f9}; ld.global.v2.f32 {%f2, %f3}, [%at]; \
           cvt.rzi.s32.f32 %r1, %f3;",
        &[],
    );
    check(
        "SEED %f1, %f0; st.global.v2.f32 [%at], {%f1, %f9}; ld.global.v2.f32 {%f2, %f3}, [%at]; \
           cvt.rzi.s32.f32 %r1, %f2;",
        &[(INTEGER, ALL)],
    );
    check(
        "SEED %f1, %f0; atom.global.add.f32 %f2, [%at], %f1; ld.global.f32 %f3, [%at]; \
           setp.lt.f32 %p1, %f2, %f9; @%p1 bra END; END: setp.lt.f32 %p1, %f3, %f9; @%p1 bra MORE; MORE:",
        &[(BRANCH, ALL)],
    );
    check(
        "SEED %f1, %f0; mov.b64 %l1, {%f1, %f9}; mov.b64 {%f2, %f3}, %l1; \
           cvt.rzi.s32.f32 %r1, %f3;",
        &[],
    );
    check(
        "SEED %f1, %f0; mov.b64 %l1, {%f9, %f1}; mov.b64 {%f2, %f3}, %l1; \
           cvt.rzi.s32.f32 %r1, %f3;",
        &[(INTEGER, ALL)],
    );
}

#[test]
fn lanes_and_functions_exchange_marks() {
    let shuffle = "@%p9 SEED %f1, %f0; mov.b32 %r1, %f1; \
                   shfl.sync.idx.b32 %r2, %r1, LANE, 31, SHARE; mov.b32 %f2, %r2; \
                   cvt.rzi.s32.f32 %r3, %f2;";
    // The second warp has 8 lanes, of which none is approximate.
    let all =
        "setp.ge.u32 %p8, %t, 32; @%p8 exit;".to_owned() + &shuffle.replace("SHARE", "0xffffffff");
    check(&all.replace("LANE", "0"), &[(INTEGER, 32)]);
    check(&all.replace("LANE", "1"), &[]);
    let vote = "setp.ge.u32 %p8, %t, 32; @%p8 exit; @%p9 SEED %f1, %f0; setp.lt.f32 %p1, %f1, %f9; \
                vote.sync.any.pred %p2, %p1, 0xffffffff; @%p2 bra END; END:";
    check(vote, &[(BRANCH, 32), (INTEGER, 1)]);
    check(
        "SEED %f1, %f0; { .param .b32 a; .param .b32 b; st.param.f32 [a], %f1; call (b), same, (a); \
           ld.param.f32 %f2, [b]; } cvt.rzi.s32.f32 %r1, %f2;",
        &[(INTEGER, ALL)],
    );
    check(
        "SEED %f1, %f0; { .param .b32 a; .param .b32 b; st.param.f32 [a], %f9; call (b), same, (a); \
           ld.param.f32 %f2, [b]; } cvt.rzi.s32.f32 %r1, %f2;",
        &[],
    );
}

#[test]
fn the_first_place_is_named() {
    let stats = run(
        "SEED %f1, %f0;\n\tsetp.gt.f32 %p1, %f1, %f9;\n\t@%p1 bra END;\n\t@%p1 bra END;\nEND:",
        APPROXIMATE,
    );
    let lines: Vec<_> =
        stats.reached.iter().map(|reached| (reached.what, reached.place.ptx_line)).collect();
    let text = kernel("SEED %f1, %f0;\n\tsetp", "");
    let first = text.lines().position(|line| line.contains("setp %f1") || line.trim() == "setp");
    let first = first.map(|at| at as u32 + 1).unwrap_or_default();
    assert_eq!(lines, [(Decided::Branch, first + 1), (Decided::Branch, first + 2)]);
    assert_eq!(stats.reached[0].place.kernel, "k");
}

#[test]
fn results_stay_the_same() {
    let body = "SEED %f1, %f0; mul.rn.f32 %f1, %f1, %f9; st.global.f32 [%at], %f1;";
    let bits = |taint: bool| {
        let mut device = Device::new(1);
        device.info.taint = taint;
        let out = device.upload(&[0_u64; 64]);
        let program = device.load(&kernel(body, APPROXIMATE)).expect("it loads");
        device.launch(&program, "k", shape(1, THREADS), &[out]).expect("it runs");
        device.download::<u64>(out, 64)
    };
    assert_eq!(bits(true), bits(false));
}
