//! Texts that no GPU loads: instructions that the text's `.target` or `.version` does not have, state spaces, functions
//! that nothing defines. The generated instructions have a test in `suite`.

use cuda_emu::exec::{LoadError, Program};
use cuda_sys::CUresult;
use ptx_gen::probe;

use crate::device::Device;

fn load(version: (u16, u16), target: &str, kernel: &str) -> Result<Program, LoadError> {
    let (major, minor) = version;
    let text = format!(".version {major}.{minor}\n.target {target}\n.address_size 64\n{kernel}");
    Device::new(1).load(&text)
}

/// Targets, and the least `.version` of each, as the driver 580 takes them.
const TARGETS: [(u32, (u16, u16)); 11] = [
    (20, (2, 3)),
    (32, (4, 0)),
    (50, (4, 0)),
    (53, (4, 2)),
    (60, (5, 0)),
    (70, (6, 0)),
    (75, (6, 3)),
    (80, (7, 0)),
    (86, (7, 1)),
    (89, (7, 8)),
    (90, (7, 8)),
];

/// Forms with the least `.target`, and the least `.version` with it, that the driver 580 of an H200 takes.
const MEASURED: &[(&str, u32, (u16, u16))] = &[
    ("add.u32 R, t, t", 20, (2, 3)),
    ("add.cc.u64 W, w, w", 20, (4, 3)),
    ("madc.lo.cc.u32 R, r, r, r", 20, (3, 0)),
    ("rsqrt.approx.ftz.f64 W, v", 20, (4, 0)),
    ("mov.u32 R, %clock_hi", 20, (5, 0)),
    ("mov.u32 R, %total_smem_size", 20, (4, 1)),
    ("ld.shared::cta.u32 R, [%base]", 20, (7, 8)),
    ("vadd4.u32.u32.u32 R, t, t, t", 30, (3, 0)),
    ("mov.u64 W, %globaltimer", 30, (3, 1)),
    ("shfl.sync.down.b32 R|P, t, t, 31, 0xffffffff", 30, (6, 0)),
    ("bar.warp.sync 0xffffffff", 30, (6, 0)),
    ("activemask.b32 R", 30, (6, 2)),
    ("barrier.sync 0, 64", 30, (6, 0)),
    ("atom.and.b64 W, [%base], v", 32, (4, 0)),
    ("shf.l.wrap.b32 R, t, t, t", 32, (4, 0)),
    ("lop3.b32 R, t, t, t, 7", 50, (4, 3)),
    ("mov.u64 W, %current_graph_exec", 50, (8, 0)),
    ("stacksave.u64 W", 52, (7, 3)),
    ("add.f16 H, h, h", 53, (4, 2)),
    ("neg.f16 H, h", 53, (6, 0)),
    ("abs.f16x2 R, t", 53, (6, 5)),
    ("set.eq.u16.f16 H, h, h", 53, (6, 5)),
    ("atom.add.f64 W, [%base], v", 60, (5, 0)),
    ("atom.gpu.add.u32 R, [%base], t", 60, (5, 0)),
    ("red.add.noftz.f16x2 [%base], t", 60, (6, 2)),
    ("dp4a.u32.u32 R, t, t, t", 61, (5, 0)),
    ("fence.acq_rel.gpu", 70, (6, 0)),
    ("ld.acquire.gpu.global.b32 R, [%base]", 70, (6, 0)),
    ("match.any.sync.b32 R, t, 0xffffffff", 70, (6, 0)),
    ("nanosleep.u32 20", 70, (6, 2)),
    ("atom.cas.b16 H, [%base], h, h", 70, (6, 3)),
    ("atom.add.noftz.f16 H, [%base], h", 70, (6, 3)),
    ("ld.global.L1::evict_last.b32 R, [%base]", 70, (7, 4)),
    ("bmsk.clamp.b32 R, t, t", 70, (7, 6)),
    ("cvta.param.u64 W, v", 70, (7, 7)),
    ("cvt.rn.satfinite.f16.f32 H, t", 70, (8, 1)),
    ("lop3.or.b32 R|P, t, t, t, 7, p", 70, (8, 2)),
    ("cvt.pack.sat.u8.s32.b32 R, t, t, t", 72, (6, 5)),
    ("cvt.pack.sat.u4.s32.b32 R, t, t, t", 75, (6, 5)),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {R}, [%base]", 75, (6, 5)),
    ("tanh.approx.f32 R, t", 75, (7, 0)),
    ("ex2.approx.f16x2 R, t", 75, (7, 0)),
    ("ld.global.L2::64B.b32 R, [%base]", 75, (7, 4)),
    ("movmatrix.sync.aligned.m8n8.trans.b16 R, t", 75, (7, 8)),
    ("redux.sync.add.u32 R, t, 0xffffffff", 80, (7, 0)),
    ("cp.async.wait_all", 80, (7, 0)),
    ("cvt.rn.bf16.f32 H, t", 80, (7, 0)),
    ("max.NaN.f32 R, t, t", 80, (7, 0)),
    ("min.f16 H, h, h", 80, (7, 0)),
    ("mbarrier.arrive.b64 W, [%base]", 80, (7, 0)),
    ("mbarrier.test_wait.parity.b64 P, [%base], t", 80, (7, 1)),
    ("cvt.f32.bf16 R, h", 80, (7, 1)),
    ("mov.u32 R, %reserved_smem_offset_begin", 80, (7, 6)),
    ("cvt.rna.satfinite.tf32.f32 R, t", 80, (8, 1)),
    ("min.xorsign.abs.f32 R, t, t", 86, (7, 2)),
    ("add.rn.bf16 H, h, h", 90, (7, 8)),
    ("mbarrier.arrive.b64 W, [%base], 1", 90, (7, 8)),
    ("mbarrier.try_wait.b64 P, [%base], v", 90, (7, 8)),
    ("cvt.rni.u32.bf16 R, h", 90, (7, 8)),
    ("tanh.approx.bf16 H, h", 90, (7, 8)),
    ("add.u16x2 R, t, t", 90, (8, 0)),
    ("barrier.cluster.arrive", 90, (7, 8)),
    ("barrier.cluster.arrive.release", 90, (8, 0)),
    ("barrier.cluster.wait.acquire.aligned", 90, (8, 0)),
    ("min.relu.s32 R, r, r", 90, (8, 0)),
    ("elect.sync R|P, 0xffffffff", 90, (8, 0)),
    ("mbarrier.expect_tx.b64 [%base], 1", 90, (8, 0)),
    ("fma.rn.oob.f16 H, h, h, h", 90, (8, 1)),
    ("mov.u32 R, %aggr_smem_size", 90, (8, 1)),
];

#[test]
fn texts_load_from_the_target_and_version_on_that_a_driver_takes() {
    for &(form, target, version) in MEASURED {
        let kernel = probe("k", form);
        let refused = |version, number: u32| match load(version, &format!("sm_{number}"), &kernel) {
            Ok(_) => None,
            Err(error) => Some(error.log),
        };
        assert_eq!(refused(version, target), None, "{form}");
        let what = form.split(' ').next().unwrap_or_default();
        for &(older, _) in TARGETS.iter().filter(|(older, _)| *older < target) {
            let log = refused((9, 0), older).unwrap_or_else(|| panic!("{form} for sm_{older}"));
            let needs = format!("requires .target sm_{target} or higher; the text has sm_{older}");
            assert!(log.contains("PTX line ") && log.contains(&needs), "{form}: {log}");
        }
        let own = TARGETS.iter().find(|(known, _)| *known == target).map(|known| known.1);
        let before = match version.1 {
            0 => (version.0 - 1, 5),
            minor => (version.0, minor - 1),
        };
        if own.is_some_and(|own| before >= own) {
            let log = refused(before, target).unwrap_or_else(|| panic!("{form}: {before:?}"));
            let needs = format!("requires .version {}.{} or later", version.0, version.1);
            assert!(log.contains(&needs), "{what}: {log}");
        }
    }
}

#[test]
fn what_no_gpu_loads_is_refused() {
    let one = |before: &str, body: &str| {
        format!("{before}\n.visible .entry k() {{ .reg .b32 %r; .reg .b64 %a; {body} ret; }}")
    };
    for (text, why) in [
        (one(".const .b32 x;", "ld.u32 %r, [x];"), "the variable lies in .const"),
        (one(".global .b32 x;", "ld.shared.u32 %r, [x];"), "lies in .global"),
        (one(".shared .b32 x;", "ld.global.u32 %r, [x];"), "lies in .shared"),
        (one("", ".local .b32 x; ld.global.u32 %r, [x];"), "lies in .local"),
        (one(".const .b32 x;", "st.global.u32 [x], 1;"), "lies in .const"),
        (one(".const .b32 x;", "st.const.u32 [x], 1;"), "nothing is stored to .const"),
        (one(".const .b32 x;", "atom.add.u32 %r, [x], 1;"), "lies in .const"),
        (one("", "atom.local.add.u32 %r, [%a], 1;"), "not .local"),
        (one("", "ldu.shared.u32 %r, [%a];"), "loads from .global"),
        (one(".global .b64 x;", "mbarrier.init.shared.b64 [x], 1;"), "lies in .global"),
        (one(".global .b32 x;", "cvta.shared.u64 %a, x;"), "lies in .global"),
        (one(".extern .func z();", "call z, ();"), "the function z is called and not defined"),
        (one(".extern .func z(); .func f() { call z, (); ret; }", "call f, ();"), "the function z"),
        (
            ".visible .entry k(.param .u32 p) { .reg .b32 %r; ld.u32 %r, [p]; ret; }".to_owned(),
            ".param, whose names are no generic addresses",
        ),
        (one("", "shfl.idx.b32 %r, %r, %r, 31;"), "without `.sync` is not supported"),
        (
            one("", "shl.u32 %r, %r, 1;"),
            "`shl.u32` is no instruction of PTX: the type is one of bits",
        ),
        (one("", "fma.f32 %r, %r, %r, %r;"), "it requires a rounding"),
        (one("", "bar.sync.aligned 0;"), "`.aligned` is for `barrier`"),
        (one("", "atom.add.s64 %a, [%a], 1;"), "`atom.add.s64` is no instruction of PTX"),
        (one("", "min.s32 %r, %r, %r, %r;"), "it has two operands"),
        (
            one("", "redux.sync.min.f32 %r, %r, 0xffffffff;"),
            "requires .target sm_100a or its family",
        ),
    ] {
        let error = load((9, 0), "sm_90", &text).expect_err(&text);
        assert_eq!(error.code, CUresult::CUDA_ERROR_INVALID_PTX);
        assert!(
            error.log.contains(why) && error.log.contains("PTX line "),
            "{text}: {}",
            error.log
        );
    }
    for text in [
        one(
            ".shared .b32 x;",
            "ld.u32 %r, [x]; st.u32 [x], 1; red.add.u32 [x], 1; ld.shared::cta.u32 %r, [x];",
        ),
        one(
            ".global .b32 x;",
            ".local .b32 y; ld.u32 %r, [y]; st.u32 [x], 1; atom.add.u32 %r, [x], 1;",
        ),
        one(".extern .func z(); .func f() { call z, (); ret; }", ""),
        one(
            ".extern .func (.param .b64 r) malloc(.param .b64 a);",
            "{ .param .b64 r, a; call (r), malloc, (a); }",
        ),
    ] {
        load((9, 0), "sm_90", &text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    for (version, target, text, why) in [
        (
            (7, 7),
            "sm_80",
            "barrier.cta.sync 0;",
            "`barrier.cta.sync` requires .version 7.8 or later",
        ),
        (
            (5, 0),
            "sm_60",
            "barrier.sync.aligned 0;",
            "`barrier.sync.aligned` requires .version 6.0 or later",
        ),
        (
            (7, 8),
            "sm_75",
            "ld.global.L2::cache_hint.b32 %r, [%a], %a;",
            "requires .target sm_80 or higher",
        ),
        (
            (6, 0),
            "sm_60",
            "atom.relaxed.gpu.add.u32 %r, [%a], 1;",
            "requires .target sm_70 or higher",
        ),
        (
            (7, 8),
            "sm_89",
            "{ .reg .b16 %h; cvt.rn.f16x2.e4m3x2 %r, %h; }",
            "requires .version 8.1 or later",
        ),
    ] {
        let log = load(version, target, &one("", text)).expect_err(text).log;
        assert!(log.contains(why), "{text}: {log}");
    }
    let many = one("", &"redux.sync.add.u32 %r, %r, 0xffffffff;\n".repeat(30));
    let log = load((6, 3), "sm_75", &many).expect_err("it needs sm_80").log;
    assert!(log.ends_with("and 10 more") && log.lines().count() == 21, "{log}");
    let log = load((7, 7), "sm_90", &one("", "")).expect_err("it needs 7.8").log;
    assert!(
        log.contains("`.target sm_90` requires .version 7.8 or later; the text has 7.7"),
        "{log}"
    );
}
