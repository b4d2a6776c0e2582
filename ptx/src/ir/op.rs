//! Instructions: one variant of [`Op`] per family, each modifier a field with its type.
//!
//! Fields `d`, `a`, `b`, `c` are the operands in PTX's order; `ty` is the instruction's type.
#![allow(missing_docs, reason = "operands and modifiers are named as in the PTX manual")]

use super::operand::{
    Address, Dst, FunctionId, LabelId, LocId, Operand, Pred, PrototypeId, RegId, TableId,
};
use super::types::{
    AtomOp, BinaryOp, BoolOp, Cache, Clamp, Cmp, Fragment, Layout, MmaBitOp, MulPart, Order,
    PrmtMode, ReduxOp, Rounding, Scope, ShflMode, Space, TestP, Type, UnaryOp, VideoOp, VoteMode,
};

/// An instruction of a function's body.
#[derive(Debug, Clone, PartialEq)]
pub struct Instr {
    /// `@%p` or `@!%p`: the lanes for which it is done.
    pub guard: Option<Pred>,
    /// The operation.
    pub op: Op,
    /// The line of the PTX text, from 1; 0 for an instruction that was not read from a text.
    pub line: u32,
    /// The place in the source, where the text has `.loc`.
    pub loc: Option<LocId>,
}

/// Modifiers of arithmetic. Integer instructions use `sat` alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mode {
    /// `None` when no word stands there: a bare `add.f32` rounds to nearest and may be fused.
    pub rounding: Option<Rounding>,
    pub precision: Precision,
    /// Subnormal sources and results become zeros of the same sign.
    pub ftz: bool,
    /// Float: clamp to [0, 1], NaN to 0. Integer: clamp instead of wrapping.
    pub sat: bool,
    /// `.relu`: the result is max(x, 0); NaN stays the canonical NaN.
    pub relu: bool,
    /// `min` and `max`: NaN if a source is NaN.
    pub nan: bool,
    /// `min` and `max`: compare magnitudes, sign is the xor of the signs.
    pub xorsign_abs: bool,
    /// `fma.oob`: an out-of-bounds NaN source gives 0.
    pub oob: bool,
}

/// The precision of a division or a special function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// As the rounding says; integer instructions too.
    #[default]
    Exact,
    /// `.approx`
    Approx,
    /// `.full`: `div.full.f32`, 2 ulp in the full range.
    Full,
}

/// Modifiers of a load, store or atomic.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// `Generic` when no space is named.
    pub space: Space,
    pub order: Order,
    /// `None` when no scope is named; an atomic without one has `Gpu`.
    pub scope: Option<Scope>,
    pub cache: Option<Cache>,
    /// Eviction priorities and prefetch sizes (`L1::no_allocate`, `L2::128B`), as written with dots
    /// between them: hints.
    pub hints: Option<Box<str>>,
    /// The operand of `.L2::cache_hint`: a hint.
    pub policy: Option<Operand>,
    /// The bytes of a load whose values are used, one bit each, from `.pragma "used_bytes_mask"` before it. What the others
    /// hold does not matter, and they may be outside of what is loaded from. A pass that changes which bytes are loaded
    /// must change it, too.
    pub used: Option<u32>,
}

/// The kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LdKind {
    /// `ld`
    Plain,
    /// `ld.global.nc`
    NonCoherent,
    /// `ldu`
    Uniform,
}

/// The operation of a carry chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarryOp {
    /// `add.cc`, `addc`
    Add,
    /// `sub.cc`, `subc`: the flag says that nothing is borrowed, as the carry of `a + ~b + 1`.
    Sub,
    /// `mad.lo.cc`, `madc.lo`
    MadLo,
    /// `mad.hi.cc`, `madc.hi`
    MadHi,
}

/// `dp4a` and `dp2a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DotOp {
    /// `dp4a`: four bytes of each.
    Dp4a,
    /// `dp2a.lo`: two halves of a with the low bytes of b.
    Dp2aLo,
    /// `dp2a.hi`: two halves of a with the high bytes of b.
    Dp2aHi,
}

/// The operation of a barrier for the thread that reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarOp {
    /// Arrives and waits.
    Sync,
    /// Arrives and goes on.
    Arrive,
    /// Waits and combines a predicate; `Popc` gives a u32, the others a predicate.
    Red(BoolOp),
}

/// A fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FenceKind {
    /// `fence.sc`
    Sc,
    /// `fence` or `fence.acq_rel`
    AcqRel,
    /// `fence.acquire`
    Acquire,
    /// `fence.release`
    Release,
    /// `membar.{cta,gl,sys}`: a `fence.sc` of scope Cta, Gpu, Sys.
    Membar,
    /// `fence.proxy…`, `fence.mbarrier_init…`: the words after `fence.`.
    Other(Box<str>),
}

/// The callee of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    /// A function by name.
    Function(FunctionId),
    /// The function whose address is in a register; its signature or the list of candidates.
    Indirect(RegId, PrototypeId),
}

/// Rows, columns and depth of a matrix instruction (`m16n8k16`); `k` is 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    pub m: u16,
    pub n: u16,
    pub k: u16,
}

/// `mma.sync` and `wmma.mma`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mma {
    /// `wmma.mma` rather than `mma`: other fragment layouts.
    pub wmma: bool,
    pub shape: Shape,
    pub a_layout: Layout,
    pub b_layout: Layout,
    pub d_ty: Type,
    pub a_ty: Type,
    pub b_ty: Type,
    pub c_ty: Type,
    /// The rounding of f64.
    pub rounding: Option<Rounding>,
    /// `.satfinite`: integer accumulators saturate.
    pub satfinite: bool,
    /// The operation of one-bit types.
    pub bit_op: Option<MmaBitOp>,
    pub d: Box<[Dst]>,
    pub a: Box<[Operand]>,
    pub b: Box<[Operand]>,
    pub c: Box<[Operand]>,
}

/// A piece of an instruction that is kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(Box<str>),
    /// A register, which may be read, written or both. The parser makes no other registers.
    Reg(RegId),
    /// A register that is only read, if a pass knows that: [`Op::set_results`].
    Src(RegId),
    /// A register that is only written, all of it.
    Dst(RegId),
    /// A label, function or variable; printed by its name.
    Symbol(super::operand::Symbol),
}

/// The operation of an instruction.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// One source. The result of `popc` and `clz` is u32 whatever `ty` is.
    Unary { op: UnaryOp, ty: Type, mode: Mode, d: Dst, a: Operand },
    /// Two sources.
    Binary { op: BinaryOp, ty: Type, mode: Mode, d: Dst, a: Operand, b: Operand },
    /// `min` and `max` with three sources, `min(min(a, b), c)`; `max` is true for `max`.
    MinMax3 { max: bool, ty: Type, mode: Mode, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `mul`; `part` is `None` for floats. `Wide` doubles the result's type.
    Mul { ty: Type, part: Option<MulPart>, mode: Mode, d: Dst, a: Operand, b: Operand },
    /// `mad`; `part` is `None` for floats. With `Wide`, `c` and `d` have twice the type.
    Mad { ty: Type, part: Option<MulPart>, mode: Mode, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `fma`
    Fma { ty: Type, mode: Mode, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `mul24` (part `Lo` or `Hi`)
    Mul24 { ty: Type, part: MulPart, d: Dst, a: Operand, b: Operand },
    /// `mad24`
    Mad24 { ty: Type, part: MulPart, sat: bool, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `add.cc`, `addc`, `addc.cc`, `sub.cc`, `subc`, `mad.lo.cc`, `madc.hi`…: `carry_in` adds the flag CC.CF,
    /// `carry_out` sets it to the carry. All of them share it. `c` is `None` unless it is a mad.
    Carry {
        op: CarryOp,
        ty: Type,
        carry_in: bool,
        carry_out: bool,
        d: Dst,
        a: Operand,
        b: Operand,
        c: Option<Operand>,
    },
    /// `sad`: `c + |a - b|`
    Sad { ty: Type, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `bfind`; the result is u32.
    Bfind { ty: Type, shiftamt: bool, d: Dst, a: Operand },
    /// `fns.b32`: mask, base, offset.
    Fns { d: Dst, mask: Operand, base: Operand, offset: Operand },
    /// `bfe`: b = position, c = length, both u32.
    Bfe { ty: Type, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `bfi`: inserts a into b; c = position, e = length, both u32.
    Bfi { ty: Type, d: Dst, a: Operand, b: Operand, c: Operand, e: Operand },
    /// `bmsk.b32`: a = position, b = length.
    Bmsk { mode: Clamp, d: Dst, a: Operand, b: Operand },
    /// `szext`
    Szext { ty: Type, mode: Clamp, d: Dst, a: Operand, b: Operand },
    /// `dp4a`, `dp2a`; `a_ty` and `b_ty` are U32 or S32.
    Dot { op: DotOp, a_ty: Type, b_ty: Type, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `lop3.b32`
    Lop3 { lut: u8, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `lop3.{and,or}.b32 d|p, a, b, c, lut, q`: `p = (d != 0) op q`.
    Lop3Bool { op: BoolOp, lut: u8, d: Dst, p: Dst, a: Operand, b: Operand, c: Operand, q: Pred },
    /// `shf.{l,r}`: of the 64 bits b:a (b high), by c.
    Shf { right: bool, mode: Clamp, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `prmt.b32`
    Prmt { mode: Option<PrmtMode>, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `vadd2`, `vabsdiff4`…: `lanes` is 2 or 4; `mask` has a bit for each byte or half written.
    /// `add` accumulates into the scalar c.
    Video {
        op: VideoOp,
        lanes: u8,
        d_ty: Type,
        a_ty: Type,
        b_ty: Type,
        cmp: Option<Cmp>,
        sat: bool,
        add: bool,
        mask: Option<u8>,
        d: Dst,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// `testp`
    Testp { test: TestP, ty: Type, d: Dst, a: Operand },
    /// `setp`: `p = (a cmp b) op c`, `q = !(a cmp b) op c`. For packed types p and q are the halves.
    Setp {
        cmp: Cmp,
        ty: Type,
        ftz: bool,
        combine: Option<(BoolOp, Pred)>,
        p: Dst,
        q: Dst,
        a: Operand,
        b: Operand,
    },
    /// `set`: all ones or 0, for a float `d_ty` 1.0 or 0.
    Set {
        cmp: Cmp,
        d_ty: Type,
        ty: Type,
        ftz: bool,
        combine: Option<(BoolOp, Pred)>,
        d: Dst,
        a: Operand,
        b: Operand,
    },
    /// `selp`: `d = p ? a : b`
    Selp { ty: Type, d: Dst, a: Operand, b: Operand, p: Pred },
    /// `slct`: `d = c >= 0 ? a : b`; `c_ty` is S32 or F32.
    Slct { ty: Type, c_ty: Type, ftz: bool, d: Dst, a: Operand, b: Operand, c: Operand },
    /// `mov` of a register, constant, special register or address.
    Mov { ty: Type, d: Dst, a: Operand },
    /// `mov.b32 d, {a, b}`: the first is the least significant.
    Pack { ty: Type, d: Dst, a: Box<[Operand]> },
    /// `mov.b32 {d, e}, a`
    Unpack { ty: Type, d: Box<[Dst]>, a: Operand },
    /// `cvta` (to generic) and `cvta.to` (from generic).
    Cvta { to: bool, space: Space, ty: Type, d: Dst, a: Operand },
    /// `isspacep`
    Isspacep { space: Space, d: Dst, a: Operand },
    /// `cvt`. With `b` two values are packed: a into the upper half, b into the lower. A third
    /// source `c` is the random bits of `.rs` or the scale factor.
    Cvt {
        to: Type,
        from: Type,
        rounding: Option<Rounding>,
        ftz: bool,
        sat: bool,
        satfinite: bool,
        relu: bool,
        d: Dst,
        a: Operand,
        b: Option<Operand>,
    },
    /// `cvt.pack.sat.to.from{.b32} d, a, b{, c}`
    CvtPack { to: Type, from: Type, d: Dst, a: Operand, b: Operand, c: Option<Operand> },
    /// `ld`, `ld.nc`, `ldu`: one destination per element of the vector.
    Ld { kind: LdKind, access: Access, ty: Type, d: Box<[Dst]>, addr: Address },
    /// `st`
    St { access: Access, ty: Type, addr: Address, a: Box<[Operand]> },
    /// `prefetch`, `prefetchu`, `applypriority`: the opcode without the space; does nothing.
    Prefetch { opcode: Box<str>, space: Space, addr: Address, size: Option<Operand> },
    /// `atom`, and `red` where `d` is empty. More than one element for the `.v2` to `.v8` forms.
    /// `c` is the new value of `cas` (`a` holds the one compared with).
    Atom {
        op: AtomOp,
        access: Access,
        ty: Type,
        noftz: bool,
        d: Box<[Dst]>,
        addr: Address,
        a: Box<[Operand]>,
        c: Option<Operand>,
    },
    /// `fence`, `membar`
    Fence { kind: FenceKind, scope: Option<Scope> },
    /// `bar.{sync,arrive,red}` and `barrier{.cta}…`; `aligned` is true for every `bar`. `threads` is
    /// `None` for the whole block. `p` and `d` belong to `red`.
    Bar {
        op: BarOp,
        aligned: bool,
        d: Dst,
        barrier: Operand,
        threads: Option<Operand>,
        p: Option<Pred>,
    },
    /// `bar.warp.sync`
    BarWarp { mask: Operand },
    /// `shfl`; `mask` is `None` in the form without `.sync`.
    Shfl {
        mode: ShflMode,
        d: Dst,
        p: Dst,
        a: Operand,
        b: Operand,
        c: Operand,
        mask: Option<Operand>,
    },
    /// `vote`; `mask` is `None` in the form without `.sync`.
    Vote { mode: VoteMode, d: Dst, p: Pred, mask: Option<Operand> },
    /// `match.{any,all}.sync`
    Match { all: bool, ty: Type, d: Dst, p: Dst, a: Operand, mask: Operand },
    /// `redux.sync`; `abs` and `nan` belong to f32.
    Redux { op: ReduxOp, ty: Type, abs: bool, nan: bool, d: Dst, a: Operand, mask: Operand },
    /// `activemask.b32`
    Activemask { d: Dst },
    /// `elect.sync d|p, mask`
    Elect { d: Dst, p: Dst, mask: Operand },
    /// `bra`
    Bra { uni: bool, target: LabelId },
    /// `brx.idx`
    BrxIdx { uni: bool, index: Operand, table: TableId },
    /// `call`: results and arguments are `.param` variables of the caller
    /// ([`Symbol::Var`](super::Symbol::Var)), registers or constants.
    Call { uni: bool, callee: Callee, returns: Box<[Operand]>, args: Box<[Operand]> },
    /// `ret`
    Ret { uni: bool },
    /// `exit`
    Exit,
    /// `trap`
    Trap,
    /// `brkpt`
    Brkpt,
    /// `pmevent`, with `.mask` or without.
    Pmevent { mask: bool, a: Operand },
    /// `nanosleep.u32`
    Nanosleep { a: Operand },
    /// `alloca`: bytes and alignment.
    Alloca { ty: Type, d: Dst, size: Operand, align: Option<u32> },
    /// `stacksave`
    Stacksave { ty: Type, d: Dst },
    /// `stackrestore`
    Stackrestore { ty: Type, a: Operand },
    /// `cp.async` of 4, 8 or 16 bytes from global to shared; `src_size` bytes are read, the rest
    /// are zeros; `ignore` true writes zeros alone.
    CpAsync {
        cache: Cache,
        hints: Option<Box<str>>,
        dst: Address,
        src: Address,
        size: u8,
        src_size: Option<Operand>,
        ignore: Option<Pred>,
        policy: Option<Operand>,
    },
    /// `cp.async.commit_group`
    CpAsyncCommit,
    /// `cp.async.wait_group n`, or `wait_all` when `None`.
    CpAsyncWait { pending: Option<u32> },
    /// `cp.async.mbarrier.arrive{.noinc}`
    CpAsyncArrive { noinc: bool, space: Space, addr: Address },
    /// `mbarrier.init`
    MbarrierInit { space: Space, addr: Address, count: Operand },
    /// `mbarrier.inval`
    MbarrierInval { space: Space, addr: Address },
    /// `mbarrier.arrive`, `.arrive_drop`: `expect_tx` adds `count` to the transaction count and
    /// arrives once; otherwise `count` is how often (1 when `None`). `d` takes the state.
    MbarrierArrive {
        drop: bool,
        expect_tx: bool,
        nocomplete: bool,
        order: Order,
        scope: Option<Scope>,
        space: Space,
        d: Dst,
        addr: Address,
        count: Option<Operand>,
    },
    /// `mbarrier.test_wait`, and `try_wait` (`blocking`); `parity` says that `a` is a phase parity
    /// rather than a state. `limit` is nanoseconds.
    MbarrierWait {
        blocking: bool,
        parity: bool,
        order: Order,
        scope: Option<Scope>,
        space: Space,
        d: Dst,
        addr: Address,
        a: Operand,
        limit: Option<Operand>,
    },
    /// `mbarrier.expect_tx`, and `complete_tx` (`complete`).
    MbarrierTx { complete: bool, scope: Option<Scope>, space: Space, addr: Address, count: Operand },
    /// `mbarrier.pending_count.b64`
    MbarrierPending { d: Dst, a: Operand },
    /// `mma.sync`, `wmma.mma`
    Mma(Box<Mma>),
    /// `wmma.load`; stride in elements.
    WmmaLoad {
        fragment: Fragment,
        layout: Layout,
        shape: Shape,
        space: Space,
        ty: Type,
        d: Box<[Dst]>,
        addr: Address,
        stride: Option<Operand>,
    },
    /// `wmma.store`
    WmmaStore {
        layout: Layout,
        shape: Shape,
        space: Space,
        ty: Type,
        addr: Address,
        a: Box<[Operand]>,
        stride: Option<Operand>,
    },
    /// `ldmatrix`: `d.len()` matrices (1, 2 or 4).
    Ldmatrix { shape: Shape, trans: bool, space: Space, ty: Type, d: Box<[Dst]>, addr: Address },
    /// `stmatrix`
    Stmatrix { shape: Shape, trans: bool, space: Space, ty: Type, addr: Address, a: Box<[Operand]> },
    /// `movmatrix.sync.aligned.m8n8.trans.b16`
    Movmatrix { d: Dst, a: Operand },
    /// `mapa`: the address in block `b` of the cluster that corresponds to `a`. `space` is `Generic` or `SharedCluster`.
    Mapa { space: Space, ty: Type, d: Dst, a: Operand, b: Operand },
    /// `getctarank`: the rank of the block in whose shared memory `a` lies; `ty` is the address's type.
    Getctarank { space: Space, ty: Type, d: Dst, a: Operand },
    /// `barrier.cluster.arrive`, and `barrier.cluster.wait` (`wait`). The order of an arrival is `Release` or `Relaxed`.
    ClusterBarrier { wait: bool, order: Order, aligned: bool },
    /// `st.async`: the stored bytes complete at the `mbarrier`. `space` is that of both addresses.
    StAsync { space: Space, ty: Type, addr: Address, a: Box<[Operand]>, mbarrier: Address },
    /// `red.async`: the combined bytes complete at the `mbarrier`. `space` is that of both addresses.
    RedAsync { op: AtomOp, space: Space, ty: Type, addr: Address, a: Operand, mbarrier: Address },
    /// `griddepcontrol.{launch_dependents,wait}`
    GridDependency { wait: bool },
    /// `createpolicy…`: `d` takes an opaque cache policy; the rest is a hint.
    CreatePolicy { opcode: Box<str>, d: Dst, operands: Box<[Piece]> },
    /// An instruction that this crate does not take apart: textures, clusters, TMA, wgmma… An
    /// executor refuses it by name.
    Other { opcode: Box<str>, operands: Box<[Piece]> },
}
