//! What ptxas requires of an opcode as the text spells it: spellings that are newer than others of the same instruction,
//! and combinations of modifiers and types that no version has.
//!
//! Each row was compared with the ptxas of CUDA 13.0: `tests/exec/ptxas.rs`.

use super::table::{Row, row};

/// Requirements of spellings, beyond those of the instruction.
pub(super) const SPELLINGS: &[Row] = &[
    row("bar|barrier cta", 0, (7, 8)),
    row("barrier", 30, (6, 0)),
    row("barrier cluster arrive release", 90, (8, 0)),
    row("barrier cluster wait acquire", 90, (8, 0)),
    row("fence", 70, (6, 0)),
    row("fence proxy alias", 70, (7, 5)),
    row("fence sync_restrict::shared::cta|sync_restrict::shared::cluster", 90, (8, 6)),
    row("fence tensormap::generic", 90, (8, 3)),
    row("membar proxy", 60, (7, 5)),
    row("ld|st weak", 70, (6, 0)),
    row("atom|red relaxed", 70, (6, 0)),
    row("* L2::cache_hint", 80, (7, 4)),
    row("cp L2::64B|L2::128B|L2::256B", 80, (7, 4)),
    row("mbarrier arrive|arrive_drop|test_wait|try_wait relaxed", 90, (8, 6)),
    row("mbarrier shared::cluster", 0, (8, 0)),
    row("* param::entry|param::func", 0, (8, 3)),
    row("cvta|isspacep param::entry", 70, (8, 3)),
];

const APPROX: &str = "it requires `.approx`";
const BITS: &str = "the type is one of bits";
const NARROW: &str = "`.ftz` and `.sat` are not for bf16";
const ROUNDING: &str = "it requires a rounding";
const ROUNDINGS: &str = "it does not round so";
const SATURATES: &str = "`.sat` is for types with values outside of the result's";
const SIGNED: &str = "the type is a signed integer or a float";
const SPACE: &str = "the modifier is not for this state space";
const TYPES: &str = "it has no such type";
const WORD: &str = "it has no such modifier";

/// Combinations that ptxas takes in no version, and why.
///
/// Patterns are those of [`Row::words`], where `!a|b` means that neither word occurs, and `$a|b` that the last word is one.
pub(super) const NEVER: &[(&str, &str)] = &[
    // Comparisons.
    ("set|setp lt|le|gt|ge|lo|ls|hi|hs $b16|b32|b64", "bits have no order"),
    (
        "set|setp lo|ls|hi|hs $s16|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64",
        "the comparison is one of unsigned integers",
    ),
    (
        "set|setp equ|neu|ltu|leu|gtu|geu|num|nan $b16|b32|b64|u16|u32|u64|s16|s32|s64",
        "the comparison is one of floats",
    ),
    ("setp ftz bf16|bf16x2", NARROW),
    ("slct ftz $s32", "`.ftz` is for a condition of f32"),
    // Conversions.
    ("cvt sat bf16", NARROW),
    ("cvt sat s8|s16|s32|s64 $s8", SATURATES),
    ("cvt sat s16|s32|s64 $s16", SATURATES),
    ("cvt sat s32|s64 $s32", SATURATES),
    ("cvt sat s64 $s64", SATURATES),
    ("cvt sat u8|u16|u32|u64|s16|s32|s64 $u8", SATURATES),
    ("cvt sat u16|u32|u64|s32|s64 $u16", SATURATES),
    ("cvt sat u32|u64|s64 $u32", SATURATES),
    ("cvt sat u64 $u64", SATURATES),
    ("cvt bf16x2 $e4m3x2|e5m2x2", TYPES),
    ("cvt e4m3x2|e5m2x2 $bf16x2", TYPES),
    ("cvt rn|rz|rm|rp bf16 $bf16", ROUNDINGS),
    (
        "cvt rn|rz|rm|rp u8|u16|u32|u64|s8|s16|s32|s64 $u8|u16|u32|u64|s8|s16|s32|s64|f16|f32|f64",
        ROUNDINGS,
    ),
    ("cvt rni|rzi|rmi|rpi u8|u16|u32|u64|s8|s16|s32|s64 $u8|u16|u32|u64|s8|s16|s32|s64", ROUNDINGS),
    ("cvt rna $u8|u16|u32|u64|s8|s16|s32|s64", ROUNDINGS),
    ("cvt rm|rp|rna relu", ROUNDINGS),
    ("cvt rm|rp|rna satfinite f16|bf16", ROUNDINGS),
    ("cvt satfinite f32 $f64", "`.satfinite` is for narrower types"),
    ("cvt !satfinite e4m3x2|e5m2x2 $f32|f16x2", "it requires `.satfinite`"),
    ("cvt !rn|rz|rm|rp|rna|rs|pack f16|bf16|f16x2|bf16x2|tf32 $f32", ROUNDING),
    // Integers to floats, and floats to narrower ones.
    ("cvt !rn|rz|rm|rp|rna f16|bf16|f32|f64 $u8|u16|u32|u64|s8|s16|s32|s64", ROUNDING),
    ("cvt rni|rzi|rmi|rpi f16|bf16|f32|f64 $u8|u16|u32|u64|s8|s16|s32|s64", ROUNDINGS),
    ("cvt !rn|rz|rm|rp f16|bf16|f32 $f64", ROUNDING),
    ("cvt rni|rzi|rmi|rpi f16|bf16|f32 $f64", ROUNDINGS),
    ("cvt rni|rzi|rmi|rpi f16|bf16 $f32", ROUNDINGS),
    // Floats to integers, to wider floats and to the same type.
    ("cvt !rni|rzi|rmi|rpi u8|u16|u32|u64|s8|s16|s32|s64 $f16|bf16|f32|f64", ROUNDING),
    ("cvt rn|rz|rm|rp u8|u16|u32|u64|s8|s16|s32|s64 $bf16", ROUNDINGS),
    ("cvt rn|rz|rm|rp|rni|rzi|rmi|rpi f64 $f16|f32", ROUNDINGS),
    ("cvt rn|rz|rm|rp|rni|rzi|rmi|rpi f32 $f16", ROUNDINGS),
    ("cvt rni|rzi|rmi|rpi f32|f64 $bf16", ROUNDINGS),
    ("cvt rn|rz|rm|rp f16 $f16", ROUNDINGS),
    ("cvt rn|rz|rm|rp f32 $f32", ROUNDINGS),
    ("cvt rn|rz|rm|rp f64 $f64", ROUNDINGS),
    // Arithmetic.
    ("add|sub|mul|fma|min|max|abs|neg ftz bf16|bf16x2", NARROW),
    // `add.sat.f32.bf16` has a sum of f32.
    ("add|sub|mul|fma !f32 sat bf16|bf16x2", NARROW),
    ("add|sub|mul|div|rem relu", WORD),
    ("min|max relu u16x2", WORD),
    ("min|max|div|rem sat", WORD),
    ("mul|mad lo sat", WORD),
    ("mul hi sat", WORD),
    ("add|sub sat u16x2|s16x2", WORD),
    ("sub|neg u16x2|s16x2", TYPES),
    ("min|max three u32|s32", "it has two operands"),
    ("min|max three xorsign", "`.xorsign.abs` has two operands"),
    ("abs|neg u16|u32|u64|b16|b32|b64", SIGNED),
    ("fma|mad !rn|rz|rm|rp f16|f16x2|bf16|bf16x2|f32|f32x2|f64", ROUNDING),
    ("div !approx|full|rn|rz|rm|rp f32|f64", ROUNDING),
    ("rcp|sqrt !approx|rn|rz|rm|rp", ROUNDING),
    ("rsqrt|sin|cos|lg2|ex2|tanh !approx", APPROX),
    ("rcp approx !ftz f64", "it requires `.ftz`"),
    ("sqrt approx f64", "it requires a rounding other than `.approx`"),
    ("tanh ftz", WORD),
    ("ex2 ftz f16|f16x2", WORD),
    ("ex2 !ftz bf16|bf16x2", "it requires `.ftz`"),
    // Bits and moves.
    ("shl|not|cnot|and|or|xor|clz|popc|brev|bfi|lop3|shf|prmt u16|u32|u64|s16|s32|s64", BITS),
    ("bfe|bfind b32|b64", "the type is an integer"),
    ("mov b8|u8|s8|f16|f16x2|bf16|bf16x2|f32x2", TYPES),
    ("selp f16|f16x2|bf16|bf16x2", TYPES),
    // Memory.
    ("atom|red add s64", "it has the types u32, s32, u64, f32, f64, f16, f16x2, bf16 and bf16x2"),
    ("atom|red and|or|xor|exch|cas u32|s32|u64|s64|f32|f64", BITS),
    ("atom|red min|max noftz !v2|v4|v8", "floats have no minimum and maximum without a vector"),
    ("atom|red noftz f32|f64", "`.noftz` is for 16 bits"),
    ("atom|red !noftz f16|f16x2|bf16|bf16x2", "it requires `.noftz`"),
    ("ld|st volatile local|const", SPACE),
    ("ld|st relaxed|acquire|release local|const", SPACE),
    ("ld|st|atom|red shared|shared::cta|shared::cluster|local|const L2::cache_hint", SPACE),
    (
        "ld|st L2::evict_first|L2::evict_last|L2::evict_normal !v4|v8",
        "it is for `.v8.b32` and `.v4.b64`",
    ),
    ("fence acquire sync_restrict::shared::cta", WORD),
    ("fence release sync_restrict::shared::cluster", WORD),
    ("membar async", WORD),
    // Barriers and matrices.
    ("bar aligned", "`.aligned` is for `barrier`"),
    ("mbarrier relaxed|acquire|release !cta|cluster", "it requires a scope"),
    ("mbarrier cta|cluster !relaxed|acquire|release", "a scope requires an order"),
    ("mma f16 bf16", "both factors have one type"),
    ("mma bf16 f16", "both factors have one type"),
    ("wmma rn f32|f16", ROUNDINGS),
];
