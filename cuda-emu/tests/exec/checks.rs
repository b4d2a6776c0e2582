//! The checkers find the one bug of a kernel, and nothing in the same kernel without it.

use cuda_emu::{Check, Checks, Finding, checked_kernels, findings};

use crate::device::{Device, shape};

/// 64 threads write a word each, and read their neighbour's. `between` stands between.
fn neighbours(name: &str, between: &str) -> String {
    format!(
        ".version 8.0
.target sm_80
.address_size 64
.visible .entry {name}(.param .u64 out)
{{
    .reg .u32 %r<6>;
    .reg .u64 %rd<6>;
    .shared .align 4 .b8 words[256];
    mov.u32 %r1, %tid.x;
    mov.u64 %rd1, words;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.shared.u32 [%rd3], %r1;
    {between}
    xor.b32 %r2, %r1, 1;
    mul.wide.u32 %rd4, %r2, 4;
    add.u64 %rd4, %rd1, %rd4;
    ld.shared.u32 %r3, [%rd4];
    ld.param.u64 %rd5, [out];
    cvta.to.global.u64 %rd5, %rd5;
    add.u64 %rd5, %rd5, %rd2;
    st.global.u32 [%rd5], %r3;
    ret;
}}
"
    )
}

/// Returns the findings of these checks in a kernel.
fn found(name: &str, ptx: &str, checks: Checks) -> Vec<Finding> {
    let mut device = Device::new(1);
    device.info.checks = checks;
    let program = device.load(ptx).expect("a program");
    let out = device.upload(&[0u32; 64]);
    device.launch(&program, name, shape(1, 64), &[out]).expect("no fault");
    findings().into_iter().filter(|found| found.access.kernel == name).collect()
}

/// The first warp comes to a barrier for which the second waits.
const ARRIVE: &str = ".reg .pred %p<2>; setp.lt.u32 %p1, %r1, 32; @%p1 bar.arrive 1, 64;
    @!%p1 bar.sync 1, 64;";

/// Each thread waits at a barrier of its own warp and parity.
const OTHER_BARRIERS: &str = ".reg .pred %p<2>; .reg .u32 %q<2>; shr.u32 %q1, %r1, 5;
    setp.eq.u32 %p1, %q1, 0; @%p1 bar.sync 1, 32; @%p1 bra DONE; xor.b32 %r1, %r1, 0; DONE:";

/// An `mbarrier` of 64 threads.
const MBARRIER_INIT: &str = ".shared .align 8 .b64 gate; .reg .pred %g<3>; .reg .u64 %state;
    setp.eq.u32 %g1, %r1, 0; @%g1 mbarrier.init.shared.b64 [gate], 64; bar.sync 0;";
const MBARRIER_ARRIVE: &str = "mbarrier.arrive.shared.b64 %state, [gate];";
const MBARRIER_WAIT: &str = "WAIT: mbarrier.test_wait.shared.b64 %g2, [gate], %state;
    @!%g2 bra WAIT;";

/// The first warp counts in a flag and ends, the second waits for all 32 and reads.
const FLAG_INIT: &str = ".shared .align 4 .b32 flag; .reg .pred %g<3>; .reg .u32 %v;
    setp.eq.u32 %g1, %r1, 0; @%g1 st.shared.u32 [flag], 0; bar.sync 0;";
fn flag(give: &str, take: &str, behind: &str) -> String {
    format!(
        "setp.ge.u32 %g1, %r1, 32; @%g1 bra TAKE; {give} ret;
    TAKE: {take} setp.ne.u32 %g2, %v, 32; @%g2 bra TAKE; {behind}"
    )
}
const RELEASE: &str = "atom.release.cta.shared.add.u32 %v, [flag], 1;";
const ACQUIRE: &str = "ld.acquire.cta.shared.u32 %v, [flag];";
const ADD: &str = "red.relaxed.cta.shared.add.u32 [flag], 1;";
const LOAD: &str = "ld.relaxed.cta.shared.u32 %v, [flag];";
const FENCE: &str = "fence.acq_rel.cta;";

const MATRIX: &str = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%rd1];";

/// Reads what it writes later.
const READ_OUT: &str = "ld.param.u64 %rd5, [out];
    add.u64 %rd5, %rd5, %rd2;
    ld.global.u32 %r3, [%rd5];";

const RACE: Checks = Checks { race: true, init: false, leak: false };
const INIT: Checks = Checks { race: false, init: true, leak: false };

// One test, because the findings are the process's.
#[test]
fn planted_bugs_are_found_and_nothing_else() {
    let ptx = neighbours("no_barrier", "");
    let races = found("no_barrier", &ptx, RACE);
    let line = |text: &str| ptx.lines().position(|l| l.contains(text)).expect("a line") as u32 + 1;
    let [race] = &races[..] else { panic!("{races:?}") };
    let other = race.other.as_ref().expect("the other access");
    assert_eq!(race.check, Check::Race);
    assert_eq!((race.access.ptx_line, other.ptx_line), (line("ld.shared"), line("st.shared")));
    assert_eq!(race.access.thread[0] ^ 1, other.thread[0]);
    assert_eq!(race.count, 64);

    // The order is that of a pair of lanes in one warp: any barrier of these lanes is enough.
    for (name, between) in [("barrier", "bar.sync 0;"), ("warp", "bar.warp.sync 0xffffffff;")] {
        assert_eq!(found(name, &neighbours(name, between), RACE), [], "{between}");
    }
    // These order no memory.
    for (name, between) in [
        ("fence", "fence.acq_rel.cta;"),
        ("half", "setp.lt.u32 %p1, %r1, 32; @%p1 bar.warp.sync 0xffffffff;"),
    ] {
        let ptx = neighbours(name, &format!(".reg .pred %p<2>; {between}"));
        assert_eq!(found(name, &ptx, RACE).len(), 1, "{between}");
    }

    // A thread that arrives at a barrier without waiting releases, but does not acquire.
    let ptx = neighbours("arrive", ARRIVE).replace("%r2, %r1, 1;", "%r2, %r1, 32;");
    let races = found("arrive", &ptx, RACE);
    let [race] = &races[..] else { panic!("{races:?}") };
    // The first warp has read before the second wrote; the second has waited for the first.
    let other = race.other.as_ref().expect("the other access");
    assert_eq!((race.access.ptx_line, other.ptx_line), (line("st.shared"), line("ld.shared") + 1));
    assert!(race.access.thread[0] >= 32 && other.thread[0] < 32, "{race}");
    let ptx = neighbours("other_barrier", OTHER_BARRIERS);
    assert_eq!(found("other_barrier", &ptx, RACE).len(), 1);
    for (name, wait, races) in [("mbarrier", MBARRIER_WAIT, 0), ("mbarrier_no_wait", "", 1)] {
        let ptx = neighbours(name, &format!("{MBARRIER_ARRIVE} {wait}"));
        let ptx = ptx.replace("st.shared", &format!("{MBARRIER_INIT} st.shared"));
        assert_eq!(found(name, &ptx, RACE).len(), races, "{name}");
    }
    // A sum of atomics, which only a plain access spoils.
    let ptx = neighbours("atomics", "")
        .replace("ld.shared.u32 %r3, [%rd4];", "atom.shared.add.u32 %r3, [%rd4], 1;");
    assert_eq!(found("atomics", &ptx, RACE).len(), 1);
    let ptx = ptx
        .replace("atomics", "sum")
        .replace("st.shared.u32 [%rd3], %r1;", "red.shared.add.u32 [%rd3], 1;");
    assert_eq!(found("sum", &ptx, RACE), []);

    // A load of two words, of which a pragma says that the neighbour's is not used.
    for (name, pragma, races) in
        [("both_words", "", 1), ("one_word", ".pragma \"used_bytes_mask 15\";", 0)]
    {
        let even = ".reg .pred %p<2>; and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0;";
        let load = format!("{even} {pragma} @%p1 ld.shared.v2.u32 {{%r3, %r5}}, [%rd3];");
        let ptx = neighbours(name, "")
            .replace(".align 4 .b8 words", ".align 8 .b8 words")
            .replace("ld.shared.u32 %r3, [%rd4];", &load);
        assert_eq!(found(name, &ptx, RACE).len(), races, "{name}");
    }

    // The vector is aligned as a whole, whatever is used of it.
    let one = ".reg .pred %p<2>; setp.eq.u32 %p1, %r1, 1; .pragma \"used_bytes_mask 15\";";
    let load = format!("{one} @%p1 ld.shared.v2.u32 {{%r3, %r5}}, [%rd3];");
    let ptx = neighbours("odd_word", "")
        .replace(".align 4 .b8 words", ".align 8 .b8 words")
        .replace("ld.shared.u32 %r3, [%rd4];", &load);
    let device = Device::new(1);
    let program = device.load(&ptx).expect("a program");
    let out = device.upload(&[0u32; 64]);
    let fault = device.launch(&program, "odd_word", shape(1, 64), &[out]).expect_err("a fault");
    assert_eq!(fault.code, cuda_sys::CUresult::CUDA_ERROR_MISALIGNED_ADDRESS, "{fault}");

    // Synchronization by a flag needs a release and an acquire, of either kind.
    let fenced = format!("{FENCE} {ADD}");
    for (name, between, races) in [
        ("flag", flag(RELEASE, ACQUIRE, ""), 0),
        ("flag_fences", flag(&fenced, LOAD, FENCE), 0),
        ("flag_mixed", flag(&fenced, ACQUIRE, ""), 0),
        ("flag_barrier", flag(RELEASE, LOAD, "bar.sync 0;"), 0),
        ("flag_no_release", flag(ADD, ACQUIRE, ""), 1),
        ("flag_no_acquire", flag(RELEASE, LOAD, ""), 1),
        ("flag_nothing", flag(ADD, LOAD, ""), 1),
    ] {
        let ptx = neighbours(name, &between)
            .replace(
                "st.shared.u32 [%rd3], %r1;",
                &format!("{FLAG_INIT} st.shared.u32 [%rd3], %r1;"),
            )
            .replace("%r2, %r1, 1;", "%r2, %r1, 32;");
        assert_eq!(found(name, &ptx, RACE).len(), races, "{name}");
    }
    // The second warp waits at a barrier that the first completes by ending.
    let ptx = neighbours("ends", "setp.lt.u32 %p1, %r1, 32; @%p1 ret; bar.sync 0;")
        .replace("%r2, %r1, 1;", "%r2, %r1, 32;")
        .replace(".reg .u32 %r<6>;", ".reg .u32 %r<6>; .reg .pred %p<2>;");
    assert_eq!(found("ends", &ptx, RACE), []);
    // Matrices are read by the lanes that name their rows.
    for (name, between, races) in [("matrix", "", 1), ("matrix_barrier", "bar.sync 0;", 0)] {
        let ptx = neighbours(name, between)
            .replace("ld.shared.u32 %r3, [%rd4];", MATRIX)
            .replace(".align 4 .b8 words", ".align 16 .b8 words");
        assert_eq!(found(name, &ptx, RACE).len(), races, "{name}");
    }

    let ptx = neighbours("unwritten", "").replace("st.shared.u32 [%rd3], %r1;", "");
    let reads = found("unwritten", &ptx, INIT);
    let [read] = &reads[..] else { panic!("{reads:?}") };
    assert_eq!((read.check, read.count), (Check::Init, 64));
    assert_eq!(found("written", &neighbours("written", "bar.sync 0;"), INIT), []);

    let device = Device::new(1);
    device.space.note_writes();
    let ptx = neighbours("global", "").replace("ld.shared.u32 %r3, [%rd4];", READ_OUT);
    let mut device = device;
    device.info.checks = INIT;
    let program = device.load(&ptx).expect("a program");
    let out = device.upload(&[0u32; 64]);
    device.space.wrote(out, 4 * 63);
    device.launch(&program, "global", shape(1, 64), &[out]).expect("no fault");
    let reads = findings();
    let [read] = &reads[..] else { panic!("{reads:?}") };
    assert_eq!(
        (read.access.thread, read.access.address, read.count),
        ([63, 0, 0], Some(out + 252), 1)
    );
    assert_eq!(found("off", &neighbours("off", ""), Checks::default()), []);

    // Both of those that found something and of those that did not, but not of what was not checked.
    let checked = checked_kernels();
    assert_eq!(checked.get("no_barrier"), Some(&1));
    assert_eq!(checked.get("written"), Some(&1));
    assert_eq!(checked.get("off"), None);
}
