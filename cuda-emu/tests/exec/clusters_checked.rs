//! Racecheck and initcheck of shared memory that blocks of a cluster share.

use cuda_emu::{Check, Checks, Finding, findings};
use cuda_sys::CUresult;

use crate::clusters::{MEET, clustered, head, load};
use crate::device::Device;

/// Each of two blocks of 32 threads writes a word a thread, and thread by thread reads or writes those of the other.
fn kernel(name: &str, before: &str, access: &str, after: &str) -> String {
    head(&format!(
        ".visible .entry {name}(.param .u64 out)
{{
    .reg .pred %p<4>; .reg .u32 %r<14>; .reg .u64 %rd<4>;
    .shared .align 4 .b8 words[128];
    .shared .align 4 .b32 flag;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %cluster_ctarank;
    xor.b32 %r3, %r2, 1;
    mov.u32 %r4, words;
    mad.lo.u32 %r4, %r1, 4, %r4;
    mapa.shared::cluster.u32 %r5, %r4, %r3;
    mad.lo.u32 %r6, %r2, 32, %r1;
    {before}
    {access}
    {after}
    ld.param.u64 %rd1, [out];
    mov.u32 %r9, %ctaid.x;
    mad.lo.u32 %r9, %r9, 32, %r1;
    mad.wide.u32 %rd1, %r9, 4, %rd1;
    st.global.u32 [%rd1], %r7;
    ret;
}}"
    ))
}

const WRITE: &str = "st.shared.u32 [%r4], %r6;";
const READ: &str = "ld.shared::cluster.u32 %r7, [%r5];";
const PUT: &str = "st.shared::cluster.u32 [%r5], %r6; mov.u32 %r7, 0;";

/// Returns the findings in a launch, and its fault.
fn found(
    name: &str,
    text: &str,
    checks: Checks,
    seed: Option<u64>,
) -> (Vec<Finding>, Option<CUresult>) {
    let mut device = Device::new(2);
    device.info.checks = checks;
    device.config.block_order_seed = seed;
    let program = load(&device, text);
    let out = device.upload(&[0u32; 128]);
    let launch = clustered([2, 1, 1], [4, 1, 1], 32);
    let fault = device.launch(&program, name, launch, &[out]).err().map(|fault| fault.code);
    let all = findings();
    (all.into_iter().filter(|found| found.access.kernel == name).collect(), fault)
}

const SEEDS: [Option<u64>; 6] = [None, Some(1), Some(2), Some(3), Some(4), Some(5)];

// One test, because the findings are the process's.
#[test]
fn planted_bugs_of_clusters_are_found_and_nothing_else() {
    let race = Checks { race: true, init: false, leak: false };
    let init = Checks { race: false, init: true, leak: false };
    let line = |text: &str, part: &str| {
        text.lines().position(|line| line.contains(part)).expect("a line") as u32 + 1
    };
    let released =
        ".reg .u32 %f<3>; fence.acq_rel.cluster; mapa.shared::cluster.u32 %f1, flag, %r3;
        bar.sync 0; st.release.cluster.shared::cluster.u32 [%f1], 1;
        again: ld.acquire.cluster.shared.u32 %f2, [flag]; setp.ne.u32 %p1, %f2, 1; @%p1 bra again;";
    let zero = format!("st.shared.u32 [flag], 0; {MEET} {WRITE}");
    let right = [
        ("cluster_read", kernel("cluster_read", &format!("{WRITE} {MEET}"), READ, MEET)),
        (
            "cluster_put",
            kernel("cluster_put", MEET, PUT, &format!("{MEET} ld.shared.u32 %r7, [%r4];")),
        ),
        (
            "cluster_split",
            kernel(
                "cluster_split",
                &format!("{WRITE} barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"),
                READ,
                "barrier.cluster.arrive; barrier.cluster.wait;",
            ),
        ),
        ("cluster_flag", kernel("cluster_flag", &format!("{zero} {released}"), READ, MEET)),
        // Both blocks add to one word of the first.
        (
            "cluster_atomics",
            kernel(
                "cluster_atomics",
                &format!("st.shared.u32 [flag], 0; {MEET}"),
                "mapa.shared::cluster.u32 %r8, flag, 0; atom.shared::cluster.add.u32 %r7, [%r8], 1;",
                MEET,
            ),
        ),
    ];
    for seed in SEEDS {
        for (name, text) in &right {
            for checks in [race, init] {
                assert_eq!(found(name, text, checks, seed), (Vec::new(), None), "{name} {seed:?}");
            }
        }
    }

    // No barrier before the access.
    let text = kernel("cluster_early_read", WRITE, READ, MEET);
    for seed in SEEDS {
        let (found, fault) = found("cluster_early_read", &text, race, seed);
        // The block that runs first reads what the other has yet to write, and the other way round.
        for race in &found {
            let other = race.other.as_ref().expect("the other access");
            let mut lines = [race.access.ptx_line, other.ptx_line];
            lines.sort_unstable();
            assert_eq!(lines, [line(&text, "st.shared.u32"), line(&text, "ld.shared::cluster")]);
            assert_ne!(race.access.block, other.block);
            assert_eq!(race.check, Check::Race);
        }
        assert_eq!((found.iter().map(|race| race.count).sum::<u64>(), fault), (128, None));
    }
    // A relaxed arrival orders nothing.
    let relaxed = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;";
    let text = kernel("cluster_relaxed", &format!("{WRITE} {relaxed}"), READ, MEET);
    for seed in SEEDS {
        let (found, _) = found("cluster_relaxed", &text, race, seed);
        assert!(!found.is_empty(), "{seed:?}");
    }
    // The barrier of a block orders nothing between blocks.
    let text = kernel("cluster_block_barrier", &format!("{WRITE} bar.sync 0;"), READ, MEET);
    for seed in SEEDS {
        assert!(!found("cluster_block_barrier", &text, race, seed).0.is_empty(), "{seed:?}");
    }
    // Both blocks write the same words.
    let put =
        "mapa.shared::cluster.u32 %r8, %r4, 0; st.shared::cluster.u32 [%r8], %r6; mov.u32 %r7, 0;";
    let text = kernel("cluster_twice", MEET, put, MEET);
    for seed in SEEDS {
        assert_eq!(found("cluster_twice", &text, race, seed).0.len(), 1, "{seed:?}");
    }
    // A block may end while the other still uses its memory: a finding, or a fault if it has.
    for (name, access) in [("cluster_ends_read", READ), ("cluster_ends_put", PUT)] {
        let text = kernel(name, &format!("{WRITE} {MEET}"), access, "");
        for seed in SEEDS {
            let (found, fault) = found(name, &text, race, seed);
            let ended = |found: &Finding| found.access.what.contains("may have ended");
            let faulted = fault == Some(CUresult::CUDA_ERROR_LAUNCH_FAILED);
            assert!(found.iter().any(ended) || faulted, "{name} {seed:?}: {found:?} {fault:?}");
            let at = line(&text, access);
            assert!(
                found.iter().filter(|f| ended(f)).all(|f| f.access.ptx_line == at),
                "{found:?}"
            );
        }
    }
    // A word that only the neighbour would have written.
    let text = kernel("cluster_unwritten", MEET, READ, MEET);
    for seed in SEEDS {
        let (found, _) = found("cluster_unwritten", &text, init, seed);
        let [finding] = &found[..] else { panic!("{seed:?}: {found:?}") };
        assert_eq!(
            (finding.check, finding.access.ptx_line),
            (Check::Init, line(&text, "ld.shared::"))
        );
        assert!(finding.access.what.contains("of the cluster"), "{finding}");
    }
}
