//! The registers, symbols and labels that an instruction names, each with its role.
//!
//! One match over [`Op`] lists all operands, without a wildcard, so that a new instruction does not compile until it
//! stands here. The visitors for reading and for changing are two expansions of it.

use super::op::{Access, Callee, Instr, Mma, Op, Piece};
use super::operand::{
    Address, Base, Dst, FunctionId, LabelId, Operand, Pred, PrototypeId, RegId, Symbol, TableId,
};

/// The use that an instruction makes of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It reads the register: source operands, guards, predicates of `selp` and the like, bases of addresses, cache
    /// policies, arguments of calls, the address of an indirect call's callee.
    Use,
    /// It writes the whole register: results, the second results of `setp`, `shfl`, `lop3` and `match`, the results of
    /// calls. If the instruction has a guard, a lane for which that is false keeps the old value.
    Def,
    /// It may read the register, write it, or both: a [`Piece::Reg`] of an instruction that this crate does not take
    /// apart.
    Unknown,
}

macro_rules! visitors {
    ($(#[$doc:meta])* $place:ident, $visit:ident $(, $mutable:tt)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $place<'a> {
            /// A register.
            Register(Role, &'a $($mutable)? RegId),
            /// A symbol, as an operand or the base of an address.
            Symbol(&'a $($mutable)? Symbol),
            /// The callee of a direct call.
            Function(&'a $($mutable)? FunctionId),
            /// The target of a branch.
            Label(&'a $($mutable)? LabelId),
            /// The table of a branch.
            Table(&'a $($mutable)? TableId),
            /// The prototype of an indirect call.
            Prototype(&'a $($mutable)? PrototypeId),
        }

        struct $visit<F>(F);

        impl<F: FnMut($place<'_>)> $visit<F> {
            fn register(&mut self, role: Role, reg: &$($mutable)? RegId) {
                (self.0)($place::Register(role, reg));
            }

            fn pred<'a>(&mut self, preds: impl IntoIterator<Item = &'a $($mutable)? Pred>) {
                for Pred { reg, .. } in preds {
                    self.register(Role::Use, reg);
                }
            }

            fn dst<'a>(&mut self, results: impl IntoIterator<Item = &'a $($mutable)? Dst>) {
                for reg in results.into_iter().flatten() {
                    self.register(Role::Def, reg);
                }
            }

            fn operand(&mut self, role: Role, operand: &$($mutable)? Operand) {
                match operand {
                    Operand::Reg(reg) => self.register(role, reg),
                    Operand::Symbol(symbol, _) => (self.0)($place::Symbol(symbol)),
                    Operand::Imm(_) | Operand::Special(_) => {}
                }
            }

            fn src<'a>(&mut self, sources: impl IntoIterator<Item = &'a $($mutable)? Operand>) {
                for source in sources {
                    self.operand(Role::Use, source);
                }
            }

            fn address(&mut self, address: &$($mutable)? Address) {
                match &$($mutable)? address.base {
                    Base::Reg(reg) => self.register(Role::Use, reg),
                    Base::Symbol(symbol) => (self.0)($place::Symbol(symbol)),
                    Base::Absolute => {}
                }
            }

            fn policy(&mut self, access: &$($mutable)? Access) {
                let Access { policy, space: _, order: _, scope: _, cache: _, hints: _, used: _ } = access;
                self.src(policy);
            }

            fn pieces(&mut self, pieces: &$($mutable)? [Piece]) {
                for piece in pieces {
                    match piece {
                        Piece::Reg(reg) => self.register(Role::Unknown, reg),
                        Piece::Src(reg) => self.register(Role::Use, reg),
                        Piece::Dst(reg) => self.register(Role::Def, reg),
                        Piece::Symbol(symbol) => (self.0)($place::Symbol(symbol)),
                        Piece::Text(_) => {}
                    }
                }
            }

            fn instr(&mut self, instr: &$($mutable)? Instr) {
                let Instr { guard, op, line: _, loc: _ } = instr;
                self.pred(guard);
                self.op(op);
            }

            #[rustfmt::skip]
            #[allow(clippy::too_many_lines, reason = "a table of instructions")]
            fn op(&mut self, op: &$($mutable)? Op) {
                match op {
                    Op::Unary { d, a, op: _, ty: _, mode: _ }
                    | Op::Bfind { d, a, ty: _, shiftamt: _ }
                    | Op::Testp { d, a, test: _, ty: _ }
                    | Op::Mov { d, a, ty: _ }
                    | Op::Cvta { d, a, to: _, space: _, ty: _ }
                    | Op::Isspacep { d, a, space: _ }
                    | Op::MbarrierPending { d, a }
                    | Op::Getctarank { d, a, space: _, ty: _ }
                    | Op::Movmatrix { d, a } => {
                        self.dst([d]);
                        self.src([a]);
                    }
                    Op::Binary { d, a, b, op: _, ty: _, mode: _ }
                    | Op::Mul { d, a, b, ty: _, part: _, mode: _ }
                    | Op::Mul24 { d, a, b, ty: _, part: _ }
                    | Op::Bmsk { d, a, b, mode: _ }
                    | Op::Szext { d, a, b, ty: _, mode: _ }
                    | Op::Mapa { d, a, b, space: _, ty: _ } => {
                        self.dst([d]);
                        self.src([a, b]);
                    }
                    Op::MinMax3 { d, a, b, c, max: _, ty: _, mode: _ }
                    | Op::Mad { d, a, b, c, ty: _, part: _, mode: _ }
                    | Op::Fma { d, a, b, c, ty: _, mode: _ }
                    | Op::Mad24 { d, a, b, c, ty: _, part: _, sat: _ }
                    | Op::Sad { d, a, b, c, ty: _ }
                    | Op::Bfe { d, a, b, c, ty: _ }
                    | Op::Dot { d, a, b, c, op: _, a_ty: _, b_ty: _ }
                    | Op::Lop3 { d, a, b, c, lut: _ }
                    | Op::Shf { d, a, b, c, right: _, mode: _ }
                    | Op::Prmt { d, a, b, c, mode: _ }
                    | Op::Slct { d, a, b, c, ty: _, c_ty: _, ftz: _ }
                    | Op::Fns { d, mask: a, base: b, offset: c } => {
                        self.dst([d]);
                        self.src([a, b, c]);
                    }
                    Op::Video {
                        d, a, b, c, op: _, lanes: _, d_ty: _, a_ty: _, b_ty: _, cmp: _, sat: _, add: _, mask: _,
                    } => {
                        self.dst([d]);
                        self.src([a, b, c]);
                    }
                    Op::Bfi { d, a, b, c, e, ty: _ } => {
                        self.dst([d]);
                        self.src([a, b, c, e]);
                    }
                    Op::Carry { d, a, b, c, op: _, ty: _, carry_in: _, carry_out: _ }
                    | Op::CvtPack { d, a, b, c, to: _, from: _ } => {
                        self.dst([d]);
                        self.src([a, b]);
                        self.src(c);
                    }
                    Op::Cvt {
                        d, a, b, to: _, from: _, rounding: _, ftz: _, sat: _, satfinite: _, relu: _,
                    } => {
                        self.dst([d]);
                        self.src([a]);
                        self.src(b);
                    }
                    Op::Lop3Bool { d, p, a, b, c, q, op: _, lut: _ } => {
                        self.dst([d, p]);
                        self.src([a, b, c]);
                        self.pred([q]);
                    }
                    Op::Setp { combine, p, q, a, b, cmp: _, ty: _, ftz: _ } => {
                        self.dst([p, q]);
                        self.src([a, b]);
                        if let Some((_, pred)) = combine {
                            self.pred([pred]);
                        }
                    }
                    Op::Set { combine, d, a, b, cmp: _, d_ty: _, ty: _, ftz: _ } => {
                        self.dst([d]);
                        self.src([a, b]);
                        if let Some((_, pred)) = combine {
                            self.pred([pred]);
                        }
                    }
                    Op::Selp { d, a, b, p, ty: _ } => {
                        self.dst([d]);
                        self.src([a, b]);
                        self.pred([p]);
                    }
                    Op::Pack { d, a, ty: _ } => {
                        self.dst([d]);
                        self.src(a);
                    }
                    Op::Unpack { d, a, ty: _ } => {
                        self.dst(d);
                        self.src([a]);
                    }
                    Op::Ld { access, d, addr, kind: _, ty: _ } => {
                        self.dst(d);
                        self.address(addr);
                        self.policy(access);
                    }
                    Op::St { access, addr, a, ty: _ } => {
                        self.address(addr);
                        self.src(a);
                        self.policy(access);
                    }
                    Op::Prefetch { addr, size, opcode: _, space: _ } => {
                        self.address(addr);
                        self.src(size);
                    }
                    Op::Atom { access, d, addr, a, c, op: _, ty: _, noftz: _ } => {
                        self.dst(d);
                        self.address(addr);
                        self.src(a);
                        self.src(c);
                        self.policy(access);
                    }
                    Op::Bar { d, barrier, threads, p, op: _, aligned: _ } => {
                        self.dst([d]);
                        self.src([barrier]);
                        self.src(threads);
                        self.pred(p);
                    }
                    Op::BarWarp { mask: a }
                    | Op::Pmevent { a, mask: _ }
                    | Op::Nanosleep { a }
                    | Op::Stackrestore { a, ty: _ } => self.src([a]),
                    Op::BrxIdx { index, table, uni: _ } => {
                        self.src([index]);
                        (self.0)($place::Table(table));
                    }
                    Op::Bra { target, uni: _ } => (self.0)($place::Label(target)),
                    Op::Shfl { d, p, a, b, c, mask, mode: _ } => {
                        self.dst([d, p]);
                        self.src([a, b, c]);
                        self.src(mask);
                    }
                    Op::Vote { d, p, mask, mode: _ } => {
                        self.dst([d]);
                        self.pred([p]);
                        self.src(mask);
                    }
                    Op::Match { d, p, a, mask, all: _, ty: _ } => {
                        self.dst([d, p]);
                        self.src([a, mask]);
                    }
                    Op::Redux { d, a, mask, op: _, ty: _, abs: _, nan: _ } => {
                        self.dst([d]);
                        self.src([a, mask]);
                    }
                    Op::Activemask { d } | Op::Stacksave { d, ty: _ } => self.dst([d]),
                    Op::Elect { d, p, mask } => {
                        self.dst([d, p]);
                        self.src([mask]);
                    }
                    Op::Call { callee, returns, args, uni: _ } => {
                        for result in returns {
                            self.operand(Role::Def, result);
                        }
                        match callee {
                            Callee::Function(id) => (self.0)($place::Function(id)),
                            Callee::Indirect(reg, prototype) => {
                                self.register(Role::Use, reg);
                                (self.0)($place::Prototype(prototype));
                            }
                        }
                        self.src(args);
                    }
                    Op::Alloca { d, size, ty: _, align: _ } => {
                        self.dst([d]);
                        self.src([size]);
                    }
                    Op::CpAsync { dst, src, src_size, ignore, policy, cache: _, hints: _, size: _ } => {
                        self.address(dst);
                        self.address(src);
                        self.src(src_size);
                        self.pred(ignore);
                        self.src(policy);
                    }
                    Op::CpAsyncArrive { addr, noinc: _, space: _ } | Op::MbarrierInval { addr, space: _ } => {
                        self.address(addr);
                    }
                    Op::MbarrierInit { addr, count, space: _ }
                    | Op::MbarrierTx { addr, count, complete: _, scope: _, space: _ } => {
                        self.address(addr);
                        self.src([count]);
                    }
                    Op::MbarrierArrive {
                        d, addr, count, drop: _, expect_tx: _, nocomplete: _, order: _, scope: _, space: _,
                    } => {
                        self.dst([d]);
                        self.address(addr);
                        self.src(count);
                    }
                    Op::MbarrierWait {
                        d, addr, a, limit, blocking: _, parity: _, order: _, scope: _, space: _,
                    } => {
                        self.dst([d]);
                        self.address(addr);
                        self.src([a]);
                        self.src(limit);
                    }
                    Op::StAsync { addr, a, mbarrier, space: _, ty: _ } => {
                        self.address(addr);
                        self.src(a);
                        self.address(mbarrier);
                    }
                    Op::RedAsync { addr, a, mbarrier, op: _, space: _, ty: _ } => {
                        self.address(addr);
                        self.src([a]);
                        self.address(mbarrier);
                    }
                    Op::Mma(mma) => {
                        let Mma {
                            d, a, b, c, wmma: _, shape: _, a_layout: _, b_layout: _, d_ty: _, a_ty: _, b_ty: _,
                            c_ty: _, rounding: _, satfinite: _, bit_op: _,
                        } = &$($mutable)? **mma;
                        self.dst(d);
                        self.src(a);
                        self.src(b);
                        self.src(c);
                    }
                    Op::WmmaLoad { d, addr, stride, fragment: _, layout: _, shape: _, space: _, ty: _ } => {
                        self.dst(d);
                        self.address(addr);
                        self.src(stride);
                    }
                    Op::WmmaStore { addr, a, stride, layout: _, shape: _, space: _, ty: _ } => {
                        self.address(addr);
                        self.src(a);
                        self.src(stride);
                    }
                    Op::Ldmatrix { d, addr, shape: _, trans: _, space: _, ty: _ } => {
                        self.dst(d);
                        self.address(addr);
                    }
                    Op::Stmatrix { addr, a, shape: _, trans: _, space: _, ty: _ } => {
                        self.address(addr);
                        self.src(a);
                    }
                    Op::CreatePolicy { d, operands, opcode: _ } => {
                        self.dst([d]);
                        self.pieces(operands);
                    }
                    Op::Other { operands, opcode: _ } => self.pieces(operands),
                    Op::Fence { kind: _, scope: _ }
                    | Op::Ret { uni: _ }
                    | Op::Exit
                    | Op::Trap
                    | Op::Brkpt
                    | Op::CpAsyncCommit
                    | Op::ClusterBarrier { wait: _, order: _, aligned: _ }
                    | Op::CpAsyncWait { pending: _ }
                    | Op::GridDependency { wait: _ } => {}
                }
            }
        }
    };
}

visitors!(
    /// A part of an instruction that names something.
    Place,
    Visit
);
visitors!(
    /// A part of an instruction that names something, to be changed.
    PlaceMut,
    VisitMut,
    mut
);

impl Instr {
    /// Calls `f` for each place where the instruction names something.
    pub fn for_each_place(&self, f: impl FnMut(Place<'_>)) {
        Visit(f).instr(self);
    }

    /// Calls `f` for each place where the instruction names something, so that it can name something else.
    pub fn for_each_place_mut(&mut self, f: impl FnMut(PlaceMut<'_>)) {
        VisitMut(f).instr(self);
    }

    /// Calls `f` for each place where the instruction names a register: the guard first, then results before sources.
    /// A register that stands in two places is visited twice.
    ///
    /// The condition code that [`Op::Carry`] reads and writes is no register and is not visited.
    pub fn for_each_register(&self, mut f: impl FnMut(Role, RegId)) {
        self.for_each_place(|place| {
            if let Place::Register(role, reg) = place {
                f(role, *reg);
            }
        });
    }

    /// Calls `f` for each place where the instruction names a register, so that it can name another one; in the
    /// order of [`for_each_register`](Self::for_each_register).
    pub fn for_each_register_mut(&mut self, mut f: impl FnMut(Role, &mut RegId)) {
        self.for_each_place_mut(|place| {
            if let PlaceMut::Register(role, reg) = place {
                f(role, reg);
            }
        });
    }

    /// Calls `f` for each register that the instruction reads or may read ([`Role::Use`], [`Role::Unknown`]).
    pub fn for_each_use(&self, mut f: impl FnMut(RegId)) {
        self.for_each_register(|role, reg| match role {
            Role::Use | Role::Unknown => f(reg),
            Role::Def => {}
        });
    }

    /// Calls `f` for each register that the instruction writes or may write ([`Role::Def`], [`Role::Unknown`]).
    pub fn for_each_def(&self, mut f: impl FnMut(RegId)) {
        self.for_each_register(|role, reg| match role {
            Role::Def | Role::Unknown => f(reg),
            Role::Use => {}
        });
    }

    /// Returns whether the old value of a register that the instruction writes may be kept: because the instruction
    /// has a guard, or because it is not known whether it writes the register.
    #[must_use]
    pub fn is_conditional_def(&self) -> bool {
        let (mut defines, mut unknown) = (false, false);
        self.for_each_register(|role, _| {
            defines |= role != Role::Use;
            unknown |= role == Role::Unknown;
        });
        unknown || defines && self.guard.is_some()
    }
}

impl Op {
    /// States the roles of the registers of an [`Op::Other`]: the first `results` are results, the others sources. An
    /// operation of another kind stays as it is.
    pub fn set_results(&mut self, results: usize) {
        let Self::Other { operands, .. } = self else { return };
        let registers = operands.iter_mut().filter_map(|piece| match *piece {
            Piece::Reg(reg) | Piece::Src(reg) | Piece::Dst(reg) => Some((piece, reg)),
            Piece::Symbol(_) | Piece::Text(_) => None,
        });
        for (at, (piece, reg)) in registers.enumerate() {
            *piece = if at < results { Piece::Dst(reg) } else { Piece::Src(reg) };
        }
    }
}
