//! The table: the `.target` and `.version` that instructions require.
//!
//! The sources are the paragraphs "PTX ISA Notes" and "Target ISA Notes" of each instruction's section in the PTX ISA 9.0.
//! Where the driver 580 (ptxas 13.0) refuses another set of texts, its limit stands here: all forms of the generator's
//! list were loaded on an H200 with each `.version` and each `.target` up to `sm_90`. Rows above `sm_90` are the
//! manual's.

/// A row: it is for instructions with all of its words.
pub(super) struct Row {
    /// The first word, and then words that follow in this order, perhaps after others. `a|b` is one of two, and `*` any
    /// first word. `three`, `count` and `ignore-src` are no words of PTX: [`super::operands`] adds them.
    pub(super) words: &'static str,
    /// The least number of `sm_…`; 0 for every target.
    pub(super) target: u32,
    /// Whether the target must be one of its architecture or family: `sm_100a`, `sm_100f`.
    pub(super) specific: bool,
    /// The least `.version`; `(0, 0)` if every version that has the target will do.
    pub(super) version: (u16, u16),
    /// The least target that the row is not for.
    pub(super) below: u32,
}

pub(super) const fn row(words: &'static str, target: u32, version: (u16, u16)) -> Row {
    Row { words, target, specific: false, version, below: u32::MAX }
}

const fn arch(words: &'static str, target: u32, version: (u16, u16)) -> Row {
    Row { specific: true, ..row(words, target, version) }
}

const fn below(limit: u32, words: &'static str, target: u32, version: (u16, u16)) -> Row {
    Row { below: limit, ..row(words, target, version) }
}

/// The least `.version` of each target. Unknown targets need the newest.
pub(super) const TARGETS: &[(u32, (u16, u16))] = &[
    (20, (2, 0)),
    (21, (2, 0)),
    (30, (3, 0)),
    (32, (4, 0)),
    (35, (3, 0)),
    (37, (4, 1)),
    (50, (4, 0)),
    (52, (4, 1)),
    (53, (4, 2)),
    (60, (5, 0)),
    (61, (5, 0)),
    (62, (5, 0)),
    (70, (6, 0)),
    (72, (6, 1)),
    (75, (6, 3)),
    (80, (7, 0)),
    (86, (7, 1)),
    (87, (7, 4)),
    (88, (9, 0)),
    (89, (7, 8)),
    (90, (7, 8)),
    (100, (8, 6)),
    (101, (8, 6)),
    (103, (8, 8)),
    (110, (9, 0)),
    (120, (8, 7)),
    (121, (8, 8)),
];

/// The requirements of special registers.
pub(super) const SPECIALS: &[Row] = &[
    row("%clock_hi", 0, (5, 0)),
    row("%globaltimer|%globaltimer_lo|%globaltimer_hi", 30, (3, 1)),
    row("%total_smem_size|%dynamic_smem_size", 0, (4, 1)),
    row("%aggr_smem_size", 90, (8, 1)),
    row(
        "%reserved_smem_offset_begin|%reserved_smem_offset_end|%reserved_smem_offset_cap|%reserved_smem_offset_0|%reserved_smem_offset_1",
        80,
        (7, 6),
    ),
    row(
        "%clusterid|%nclusterid|%cluster_ctaid|%cluster_nctaid|%cluster_ctarank|%cluster_nctarank|%is_explicit_cluster",
        90,
        (0, 0),
    ),
    row("%current_graph_exec", 50, (8, 0)),
    row("%pm0_64|%pm1_64|%pm2_64|%pm3_64|%pm4_64|%pm5_64|%pm6_64|%pm7_64", 50, (4, 0)),
];

/// The requirements of instructions. Every instruction that the device executes is in a row.
#[rustfmt::skip]
pub(super) const INSTRUCTIONS: &[Row] = &[
    // add, sub, mul, mad, div, rem, abs, neg, min, max.
    row("add|sub|mul|mad|div|rem|abs|neg|min|max|fma|rcp|sqrt|rsqrt|sin|cos|lg2|ex2|sad|mul24|mad24", 0, (0, 0)),
    row("addc|subc|madc", 0, (0, 0)),
    row("mad cc", 0, (3, 0)),
    row("madc", 0, (3, 0)),
    row("add|addc|sub|subc|mad|madc cc u64|s64", 0, (4, 3)),
    row("add|min|max u16x2|s16x2", 90, (8, 0)),
    row("min|max relu s32|s16x2", 90, (8, 0)),
    row("min|max three f32", 100, (8, 8)),
    row("min|max f16|f16x2|bf16|bf16x2", 80, (0, 0)),
    row("min|max NaN", 80, (0, 0)),
    row("min|max xorsign", 86, (7, 2)),
    row("add|sub|mul|fma f16|f16x2", 53, (0, 0)),
    row("add|sub|mul bf16|bf16x2", 90, (0, 0)),
    row("add|sub|mul|fma f32x2", 100, (8, 6)),
    row("fma bf16|bf16x2", 80, (0, 0)),
    row("fma relu", 80, (0, 0)),
    row("fma oob", 90, (8, 1)),
    row("neg f16|f16x2", 53, (6, 0)),
    row("abs f16|f16x2", 53, (6, 5)),
    row("neg|abs bf16|bf16x2", 80, (0, 0)),
    row("tanh", 75, (7, 0)),
    row("ex2 f16|f16x2", 75, (7, 0)),
    row("tanh|ex2 bf16|bf16x2", 90, (0, 0)),
    row("rsqrt ftz f64", 0, (4, 0)),
    row("dp4a|dp2a", 61, (0, 0)),
    // Integers and bits.
    row("popc|clz|bfind|brev|bfe|bfi|prmt|not|cnot|and|or|xor|shl|shr|copysign|testp", 0, (0, 0)),
    row("fns", 30, (6, 0)),
    row("bmsk|szext", 70, (7, 6)),
    row("shf", 32, (0, 0)),
    row("lop3", 50, (4, 3)),
    row("lop3 and|or", 70, (8, 2)),
    row("vadd2|vadd4|vsub2|vsub4|vavrg2|vavrg4|vabsdiff2|vabsdiff4|vmin2|vmin4|vmax2|vmax4|vset2|vset4", 30, (0, 0)),
    // set, setp, selp, slct, mov, cvt, cvta, isspacep.
    row("set|setp|selp|slct|mov|cvt|cvta|isspacep", 0, (0, 0)),
    row("set|setp f16|f16x2", 53, (0, 0)),
    row("set u16|s16|u32|s32 f16", 53, (6, 5)),
    row("set|setp bf16|bf16x2", 90, (0, 0)),
    row("cvta|isspacep const", 0, (3, 1)),
    row("cvta|isspacep param", 70, (7, 7)),
    row("cvt pack", 72, (6, 5)),
    row("cvt pack u4|s4|u2|s2", 75, (6, 5)),
    row("cvt f16x2|bf16x2 f32", 80, (0, 0)),
    row("cvt relu", 80, (0, 0)),
    row("cvt bf16 f32", 80, (0, 0)),
    row("cvt f32 bf16", 80, (7, 1)),
    row("cvt ftz f32 bf16", 90, (0, 0)),
    row("cvt bf16 u8|s8|u16|s16|u32|s32|u64|s64|f16|f64|bf16", 90, (0, 0)),
    row("cvt u8|s8|u16|s16|u32|s32|u64|s64|f16|f64 bf16", 90, (0, 0)),
    row("cvt tf32", 80, (0, 0)),
    row("cvt rn|rz tf32", 90, (0, 0)),
    row("cvt satfinite f16 f32", 70, (8, 1)),
    row("cvt satfinite bf16|f16x2|bf16x2|tf32 f32", 80, (8, 1)),
    row("cvt rn|rz satfinite tf32", 100, (8, 6)),
    row("cvt e4m3x2|e5m2x2", 89, (7, 8)),
    below(90, "cvt e4m3x2|e5m2x2", 89, (8, 1)),
    // Memory.
    row("ld|ldu|st|atom|red|prefetch|prefetchu|membar", 0, (0, 0)),
    row("* shared::cta", 0, (7, 8)),
    row("* shared::cluster", 90, (0, 0)),
    row("* b128", 70, (8, 3)),
    row("ld|st relaxed|acquire|release", 70, (0, 0)),
    row("ld|st|atom|red|fence cluster", 90, (0, 0)),
    row("ld|st mmio", 70, (8, 2)),
    row("ld|st v8", 100, (8, 8)),
    row("ld|st v4 b64|u64|s64|f64", 100, (8, 8)),
    row("ld nc", 32, (0, 0)),
    row("ld|st L1::evict_first|L1::evict_last|L1::evict_unchanged|L1::evict_normal|L1::no_allocate", 70, (7, 4)),
    row("ld L2::64B|L2::128B", 75, (7, 4)),
    row("ld L2::256B", 80, (7, 4)),
    row("createpolicy|applypriority", 80, (7, 4)),
    row("prefetch L2::evict_last|L2::evict_normal", 80, (7, 4)),
    row("atom|red cta|gpu|sys", 60, (0, 0)),
    row("atom|red acquire|release|acq_rel", 70, (0, 0)),
    row("atom|red and|or|xor b64", 32, (0, 0)),
    row("atom|red min|max u64|s64", 32, (0, 0)),
    row("atom|red add f64", 60, (0, 0)),
    row("atom|red add noftz f16x2", 60, (6, 2)),
    row("atom|red add noftz f16", 70, (6, 3)),
    row("atom|red noftz bf16|bf16x2", 90, (0, 0)),
    row("atom cas b16", 70, (6, 3)),
    row("atom|red v2|v4|v8", 90, (8, 1)),
    row("atom b128", 90, (8, 3)),
    // `membar.proxy.alias` is the same instruction and older: `SPELLINGS` has the requirements of `fence`.
    row("fence", 0, (0, 0)),
    row("fence proxy async", 90, (8, 0)),
    row("fence mbarrier_init", 90, (8, 0)),
    row("alloca|stacksave|stackrestore", 52, (7, 3)),
    // Asynchronous copies and barriers.
    row("cp async", 80, (0, 0)),
    row("cp ignore-src async", 80, (7, 5)),
    row("mbarrier", 80, (0, 0)),
    row("mbarrier test_wait parity", 80, (7, 1)),
    row("mbarrier relaxed|acquire|release", 80, (8, 0)),
    row("mbarrier cluster", 90, (8, 0)),
    row("mbarrier try_wait", 90, (0, 0)),
    row("mbarrier count", 90, (0, 0)),
    row("mbarrier expect_tx|complete_tx", 90, (8, 0)),
    row("griddepcontrol", 90, (0, 0)),
    // Threads of a warp and of a block.
    row("bar", 0, (0, 0)),
    row("bar warp", 30, (6, 0)),
    row("barrier", 30, (6, 0)),
    row("barrier cluster", 90, (0, 0)),
    row("barrier cluster arrive|wait acquire|release|relaxed", 90, (8, 0)),
    row("mapa|getctarank", 90, (0, 0)),
    row("st|red async", 90, (8, 1)),
    row("shfl|vote", 0, (0, 0)),
    row("shfl", 30, (0, 0)),
    row("shfl|vote sync", 30, (6, 0)),
    row("match", 70, (0, 0)),
    row("redux", 80, (0, 0)),
    arch("redux f32", 100, (8, 6)),
    row("activemask", 30, (6, 2)),
    row("elect", 90, (8, 0)),
    // Control.
    row("bra|call|ret|exit|trap|brkpt|pmevent", 0, (0, 0)),
    row("brx", 30, (6, 0)),
    row("pmevent mask", 0, (3, 0)),
    row("nanosleep", 70, (6, 2)),
    // Matrices.
    row("wmma", 70, (0, 0)),
    row("wmma aligned", 70, (6, 3)),
    row("wmma s32|u8|s8", 72, (6, 3)),
    row("wmma u4|s4|b1", 75, (6, 3)),
    row("wmma bf16|tf32|f64", 80, (0, 0)),
    row("mma", 70, (6, 4)),
    row("mma m16n8k8|m8n8k16|m8n8k32", 75, (6, 5)),
    row("mma m8n8k128", 75, (7, 0)),
    row("mma m16n8k4|m16n8k16|m16n8k32|m16n8k64|m16n8k128|m16n8k256", 80, (0, 0)),
    row("mma bf16|tf32|f64", 80, (0, 0)),
    row("mma m16n8k4|m16n8k8|m16n8k16 f64", 90, (0, 0)),
    row("mma and", 80, (7, 1)),
    row("mma e4m3|e5m2", 89, (8, 4)),
    row("mma m16n8k16 e4m3|e5m2", 89, (8, 7)),
    row("mma f16 e4m3|e5m2", 89, (8, 7)),
    row("ldmatrix", 75, (6, 5)),
    row("stmatrix", 90, (0, 0)),
    row("movmatrix", 75, (7, 8)),
];
