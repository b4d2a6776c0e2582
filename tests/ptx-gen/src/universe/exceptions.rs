//! The instructions that are not drawn, and the reasons.

use crate::pairs::BARE;

/// Instructions that the device may execute and the generator does not draw: the reason, and patterns of words.
pub const EXCEPTIONS: &[(&str, &[&str])] = &[
    (
        "from PTX 8.1, 8.2 or 8.3 on, or for later architectures",
        &[
            "atom.global.v2.f32.add",
            "cvt.{rn|rz}.satfinite{|.relu}.{bf16|f16}.f32",
            "cvt.{rn|rz}.satfinite{|.relu}.{bf16x2|f16x2}.f32",
            "cvt.{rn|rna|rz}.satfinite{|.relu}.tf32.f32",
            "{ld|st}.mmio.relaxed.sys.global.b32",
            "{mov|ld|st}.b128",
            "ld{.global|.shared|.local|.const}.b128",
            "st{.global|.shared|.local}.b128",
            "lop3.{and|or}.b32",
            "ld.global.v4.{b64|f64|s64|u64}",
            "ld.global.v8.{b32|f32|s32|u32}",
            "redux.sync.{max|min}{|.abs}{|.NaN}.f32",
            "mma.sync.aligned.m16n8k32.row.col.f32.{e4m3|e5m2}.{e4m3|e5m2}.f32",
        ],
    ),
    (
        "approximate: the bits are each GPU's own; cuda-emu/APPROXIMATE.md holds them to their bounds",
        &[
            "{sin|cos|lg2|rcp|rsqrt|sqrt|div|ex2}.approx{|.ftz}.f32",
            "div.full{|.ftz}.f32",
            "tanh.approx.{f32|f16|f16x2|bf16|bf16x2}",
            "ex2.approx.{f16|f16x2}",
            "ex2.approx.ftz.{bf16|bf16x2}",
            "rcp.approx.ftz.f64",
            "rsqrt.approx{|.ftz}.f64",
        ],
    ),
    (
        "programs have no clusters of several blocks: tests/exec/clusters.rs of cuda-emu has them",
        &[
            "mapa{|.shared::cluster}.{u32|u64}",
            "getctarank{|.shared::cluster}.{u32|u64}",
            "barrier.cluster.arrive{|.release|.relaxed}{|.aligned}",
            "barrier.cluster.wait{|.acquire}{|.aligned}",
            "st.async{|.weak}.shared::cluster.mbarrier::complete_tx::bytes.{u32|s32|f32|b32|u64|s64|f64|b64}",
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{add|inc|dec|min|max}.u32",
        ],
    ),
    ("without a rounding ptxas may fuse them: `Pairs` draws them", BARE),
    (
        "the order in which a tensor core sums up floats is its own",
        &[
            "mma.sync.aligned.{m16n8k8|m16n8k16}.row.col.{f32.f16.f16.f32|f32.bf16.bf16.f32|f16.f16.f16.f16}",
            "mma.sync.aligned.{m16n8k4|m16n8k8}.row.col.f32.tf32.tf32.f32",
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        ],
    ),
    (
        "how a fragment lies in registers is open",
        &[
            "wmma.load.{a|b}.sync.aligned.row.m16n16k16.shared.f16",
            "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32",
            "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32",
            "wmma.mma.sync.aligned.row.col.m16n16k16.{f32.f32|s32.u8.u8.s32|s32.s8.s8.s32}",
        ],
    ),
    (
        "which lanes or which value is open",
        &["activemask.b32", "elect.sync", "createpolicy.fractional.L2::evict_last.b64"],
    ),
    (
        "from Volta on only `.sync` is left",
        &["shfl.{idx|bfly|up|down}.b32", "vote.{all|any|uni}.pred", "vote.ballot.b32"],
    ),
    (
        "addresses of parameters and constants, and a hint for whole cache lines: the golden kernels have them",
        &[
            "cvta{|.to}.param.u64",
            "cvta.to.const.u64",
            "isspacep.param",
            "applypriority.global.L2::evict_normal",
        ],
    ),
    (
        "ends the thread or the program, or is what branches, loops and calls are made of",
        &["{bra|ret|exit|trap|brkpt}"],
    ),
    ("arrives at a time of its own", &["cp.async.mbarrier.arrive{|.noinc}{|.shared}.b64"]),
    (
        "other spellings of the space of what is drawn",
        &[
            "mbarrier.arrive.expect_tx{|.shared::cta}.b64",
            "mbarrier.arrive.noComplete.shared::cta.b64",
            "mbarrier.arrive_drop.noComplete{|.shared|.shared::cta}.b64",
            "mbarrier.arrive_drop.shared.b64",
            "mbarrier.arrive.b64",
            "mbarrier.{expect_tx|complete_tx}{|.shared|.shared::cta}.b64",
            "mbarrier.test_wait{|.parity.shared|.parity.shared::cta}.b64",
            "mbarrier.try_wait{.parity|.parity.shared|.shared::cta}.b64",
        ],
    ),
    (
        "moves of vectors: `Spelled` has them, among other forms that only the parser sees",
        &["mov.v2.{b16|b32|b64|f32|f64|s16|s32|s64|u16|u32|u64}"],
    ),
];
