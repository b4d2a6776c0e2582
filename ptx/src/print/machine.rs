//! Instructions as text: memory, barriers, control, matrices.

use std::fmt::{self, Write};

use super::Printer;
use super::opcode::Opcode;
use super::operand::Arg::{
    Addr, Dst, Dsts, Group, GroupOps, Number, Op as Src, Ops, Pair, Pieces, Pred,
};
use crate::ir::{BarOp, BoolOp, Callee, FenceKind, LdKind, Mma, Op, Operand, Order, Scope, Type};

impl Printer<'_> {
    pub(super) fn memory(&mut self, op: &Op) -> fmt::Result {
        use Type::{B64, U32};
        let code = Opcode::new;
        match *op {
            Op::Ld { kind, ref access, ty, ref d, addr } => {
                let name = if kind == LdKind::Uniform { "ldu" } else { "ld" };
                self.put_with(
                    code(name)
                        .access(access, Order::Weak)
                        .flag(kind == LdKind::NonCoherent, "nc")
                        .opt(access.hints.as_deref())
                        .vector(d.len(), ty),
                    &[Dsts(d), Addr(addr)],
                    &[access.policy.map(|p| Src(p, B64))],
                )
            }
            Op::St { ref access, ty, addr, ref a } => self.put_with(
                code("st")
                    .access(access, Order::Weak)
                    .opt(access.hints.as_deref())
                    .vector(a.len(), ty),
                &[Addr(addr), Ops(a, ty)],
                &[access.policy.map(|p| Src(p, B64))],
            ),
            Op::Prefetch { ref opcode, space, addr, size } => {
                let (name, level) = opcode.split_once('.').unwrap_or((opcode, "L1"));
                self.put_with(
                    code(name).space(space).word(level),
                    &[Addr(addr)],
                    &[size.map(|s| Src(s, U32))],
                )
            }
            Op::Atom { op, ref access, ty, noftz, ref d, addr, ref a, c } => {
                let opcode = code(if d.is_empty() { "red" } else { "atom" })
                    .access(access, Order::Relaxed)
                    .word(op.name())
                    .flag(noftz, "noftz")
                    .opt(access.hints.as_deref())
                    .vector(a.len(), ty);
                let more = [c.map(|c| Src(c, ty)), access.policy.map(|p| Src(p, B64))];
                if d.is_empty() {
                    return self.put_with(opcode, &[Addr(addr), Ops(a, ty)], &more);
                }
                self.put_with(opcode, &[Dsts(d), Addr(addr), Ops(a, ty)], &more)
            }
            Op::Fence { ref kind, scope } => {
                let opcode = match kind {
                    FenceKind::Membar => {
                        let scope = match scope {
                            Some(Scope::Gpu) => "gl",
                            Some(scope) => scope.name(),
                            None => "sys",
                        };
                        return self.put(code("membar").word(scope), &[]);
                    }
                    FenceKind::Sc => code("fence.sc"),
                    FenceKind::AcqRel => code("fence.acq_rel"),
                    FenceKind::Acquire => code("fence.acquire"),
                    FenceKind::Release => code("fence.release"),
                    FenceKind::Other(words) => code("fence").word(words),
                };
                self.put(opcode.scope(scope), &[])
            }
            Op::Alloca { ty, d, size, align } => self.put_with(
                code("alloca").ty(ty),
                &[Dst(d), Src(size, ty)],
                &[align.map(|n| Number(n.into()))],
            ),
            Op::Stacksave { ty, d } => self.put(code("stacksave").ty(ty), &[Dst(d)]),
            Op::Stackrestore { ty, a } => self.put(code("stackrestore").ty(ty), &[Src(a, ty)]),
            Op::CpAsync { cache, ref hints, dst, src, size, src_size, ignore, policy } => self
                .put_with(
                    code("cp.async").word(cache.name()).word("shared.global").opt(hints.as_deref()),
                    &[Addr(dst), Addr(src), Number(size.into())],
                    &[src_size.map(|s| Src(s, B64)), ignore.map(Pred), policy.map(|p| Src(p, B64))],
                ),
            Op::CpAsyncCommit => self.put(code("cp.async.commit_group"), &[]),
            Op::CpAsyncWait { pending: None } => self.put(code("cp.async.wait_all"), &[]),
            Op::CpAsyncWait { pending: Some(n) } => {
                self.put(code("cp.async.wait_group"), &[Number(n.into())])
            }
            Op::CpAsyncArrive { noinc, space, addr } => self.put(
                code("cp.async.mbarrier.arrive").flag(noinc, "noinc").space(space).ty(B64),
                &[Addr(addr)],
            ),
            _ => self.barriers(op),
        }
    }

    fn barriers(&mut self, op: &Op) -> fmt::Result {
        use Type::{B32, B64, U32};
        let code = Opcode::new;
        match *op {
            Op::MbarrierInit { space, addr, count } => {
                self.put(code("mbarrier.init").space(space).ty(B64), &[Addr(addr), Src(count, U32)])
            }
            Op::MbarrierInval { space, addr } => {
                self.put(code("mbarrier.inval").space(space).ty(B64), &[Addr(addr)])
            }
            Op::MbarrierArrive {
                drop,
                expect_tx,
                nocomplete,
                order,
                scope,
                space,
                d,
                addr,
                count,
            } => self.put_with(
                code(if drop { "mbarrier.arrive_drop" } else { "mbarrier.arrive" })
                    .flag(expect_tx, "expect_tx")
                    .flag(nocomplete, "noComplete")
                    .barrier(order, Order::Release, scope, space),
                &[Dst(d), Addr(addr)],
                &[count.map(|c| Src(c, U32))],
            ),
            Op::MbarrierWait { blocking, parity, order, scope, space, d, addr, a, limit } => self
                .put_with(
                    code(if blocking { "mbarrier.try_wait" } else { "mbarrier.test_wait" })
                        .flag(parity, "parity")
                        .barrier(order, Order::Acquire, scope, space),
                    &[Dst(d), Addr(addr), Src(a, if parity { U32 } else { B64 })],
                    &[limit.map(|l| Src(l, U32))],
                ),
            Op::MbarrierTx { complete, scope, space, addr, count } => {
                self.put(
                    code(if complete { "mbarrier.complete_tx" } else { "mbarrier.expect_tx" })
                        .barrier(Order::Relaxed, Order::Relaxed, scope, space),
                    &[Addr(addr), Src(count, U32)],
                )
            }
            Op::MbarrierPending { d, a } => {
                self.put(code("mbarrier.pending_count.b64"), &[Dst(d), Src(a, B64)])
            }
            Op::Bar { op, aligned, d, barrier, threads, p } => {
                let opcode = code(if aligned { "bar" } else { "barrier" });
                let more = [threads.map(|t| Src(t, U32)), p.map(Pred)];
                match op {
                    BarOp::Sync => self.put_with(opcode.word("sync"), &[Src(barrier, U32)], &more),
                    BarOp::Arrive => {
                        self.put_with(opcode.word("arrive"), &[Src(barrier, U32)], &more)
                    }
                    BarOp::Red(reduction) => {
                        let ty = if reduction == BoolOp::Popc { U32 } else { Type::Pred };
                        let opcode = opcode.word("red").word(reduction.name()).ty(ty);
                        self.put_with(opcode, &[Dst(d), Src(barrier, U32)], &more)
                    }
                }
            }
            Op::ClusterBarrier { wait, order, aligned } => self.put(
                code(if wait { "barrier.cluster.wait" } else { "barrier.cluster.arrive" })
                    .flag(order == Order::Relaxed, "relaxed")
                    .flag(aligned, "aligned"),
                &[],
            ),
            Op::StAsync { space, ty, addr, ref a, mbarrier } => self.put(
                code("st.async")
                    .space(space)
                    .word("mbarrier::complete_tx::bytes")
                    .vector(a.len(), ty),
                &[Addr(addr), Ops(a, ty), Addr(mbarrier)],
            ),
            Op::RedAsync { op, space, ty, addr, a, mbarrier } => self.put(
                code("red.async.relaxed.cluster")
                    .space(space)
                    .word("mbarrier::complete_tx::bytes")
                    .word(op.name())
                    .ty(ty),
                &[Addr(addr), Src(a, ty), Addr(mbarrier)],
            ),
            Op::BarWarp { mask } => self.put(code("bar.warp.sync"), &[Src(mask, B32)]),
            Op::Shfl { mode, d, p, a, b, c, mask } => self.put_with(
                code("shfl").flag(mask.is_some(), "sync").word(mode.name()).ty(B32),
                &[Pair(d, p), Src(a, B32), Src(b, U32), Src(c, U32)],
                &[mask.map(|m| Src(m, B32))],
            ),
            Op::Vote { mode, d, p, mask } => {
                use crate::ir::VoteMode::Ballot;
                let ty = if mode == Ballot { B32 } else { Type::Pred };
                self.put_with(
                    code("vote").flag(mask.is_some(), "sync").word(mode.name()).ty(ty),
                    &[Dst(d), Pred(p)],
                    &[mask.map(|m| Src(m, B32))],
                )
            }
            Op::Match { all, ty, d, p, a, mask } => self.put(
                code(if all { "match.all.sync" } else { "match.any.sync" }).ty(ty),
                &[Pair(d, p), Src(a, ty), Src(mask, B32)],
            ),
            Op::Redux { op, ty, abs, nan, d, a, mask } => self.put(
                code("redux.sync").word(op.name()).flag(abs, "abs").flag(nan, "NaN").ty(ty),
                &[Dst(d), Src(a, ty), Src(mask, B32)],
            ),
            Op::Activemask { d } => self.put(code("activemask.b32"), &[Dst(d)]),
            Op::Elect { d, p, mask } => self.put(code("elect.sync"), &[Pair(d, p), Src(mask, B32)]),
            _ => self.control(op),
        }
    }

    fn control(&mut self, op: &Op) -> fmt::Result {
        use Type::U32;
        let code = Opcode::new;
        match *op {
            Op::Bra { uni, target } => {
                self.put(code("bra").flag(uni, "uni"), &[])?;
                self.out.push(' ');
                self.label(target)
            }
            Op::BrxIdx { uni, index, table } => {
                self.put(code("brx.idx").flag(uni, "uni"), &[Src(index, U32)])?;
                let name = self.table(table.index());
                write!(self.out, ", {name}")
            }
            Op::Call { uni, callee, ref returns, ref args } => {
                self.call(uni, callee, returns, args)
            }
            Op::Ret { uni } => self.put(code("ret").flag(uni, "uni"), &[]),
            Op::Exit => self.put(code("exit"), &[]),
            Op::Trap => self.put(code("trap"), &[]),
            Op::Brkpt => self.put(code("brkpt"), &[]),
            Op::Pmevent { mask, a } => self.put(code("pmevent").flag(mask, "mask"), &[Src(a, U32)]),
            Op::Nanosleep { a } => self.put(code("nanosleep.u32"), &[Src(a, U32)]),
            Op::GridDependency { wait } => {
                let word = if wait { "wait" } else { "launch_dependents" };
                self.put(code("griddepcontrol").word(word), &[])
            }
            Op::CreatePolicy { ref opcode, d, ref operands } if operands.is_empty() => {
                self.put(code(opcode), &[Dst(d)])
            }
            Op::CreatePolicy { ref opcode, d, ref operands } => {
                self.put(code(opcode), &[Dst(d), Pieces(operands)])
            }
            Op::Other { ref opcode, ref operands } if operands.is_empty() => {
                self.put(code(opcode), &[])
            }
            Op::Other { ref opcode, ref operands } => self.put(code(opcode), &[Pieces(operands)]),
            _ => self.matrix(op),
        }
    }

    fn call(
        &mut self,
        uni: bool,
        callee: Callee,
        returns: &[Operand],
        args: &[Operand],
    ) -> fmt::Result {
        self.out.push_str(if uni { "call.uni " } else { "call " });
        if !returns.is_empty() {
            self.actuals(returns)?;
            self.out.push_str(", ");
        }
        match callee {
            Callee::Function(id) => {
                let callee = self.module.functions.get(id.index()).ok_or(fmt::Error)?;
                self.out.push_str(&callee.name);
            }
            Callee::Indirect(id, _) => self.reg(id)?,
        }
        if !args.is_empty() {
            self.out.push_str(", ");
            self.actuals(args)?;
        }
        if let Callee::Indirect(_, prototype) = callee {
            let prototype = self.function.prototypes.get(prototype.index()).ok_or(fmt::Error)?;
            write!(self.out, ", {}", prototype.name)?;
        }
        Ok(())
    }

    fn matrix(&mut self, op: &Op) -> fmt::Result {
        use Type::{B32, B64, U32};
        let code = Opcode::new;
        match *op {
            Op::Mma(ref mma) => self.mma(mma),
            Op::WmmaLoad { fragment, layout, shape, space, ty, ref d, addr, stride } => self
                .put_with(
                    code("wmma.load")
                        .word(fragment.name())
                        .word("sync.aligned")
                        .word(layout.name())
                        .shape(shape)
                        .space(space)
                        .ty(ty),
                    &[Group(d), Addr(addr)],
                    &[stride.map(|s| Src(s, U32))],
                ),
            Op::WmmaStore { layout, shape, space, ty, addr, ref a, stride } => self.put_with(
                code("wmma.store.d.sync.aligned")
                    .word(layout.name())
                    .shape(shape)
                    .space(space)
                    .ty(ty),
                &[Addr(addr), GroupOps(a, B64)],
                &[stride.map(|s| Src(s, U32))],
            ),
            Op::Ldmatrix { shape, trans, space, ty, ref d, addr } => self.put(
                code("ldmatrix.sync.aligned")
                    .shape(shape)
                    .word(&format!("x{}", d.len()))
                    .flag(trans, "trans")
                    .space(space)
                    .ty(ty),
                &[Group(d), Addr(addr)],
            ),
            Op::Stmatrix { shape, trans, space, ty, addr, ref a } => self.put(
                code("stmatrix.sync.aligned")
                    .shape(shape)
                    .word(&format!("x{}", a.len()))
                    .flag(trans, "trans")
                    .space(space)
                    .ty(ty),
                &[Addr(addr), GroupOps(a, B32)],
            ),
            Op::Movmatrix { d, a } => {
                self.put(code("movmatrix.sync.aligned.m8n8.trans.b16"), &[Dst(d), Src(a, B32)])
            }
            _ => Err(fmt::Error),
        }
    }

    fn mma(&mut self, mma: &Mma) -> fmt::Result {
        let bit_op = mma.bit_op.map(|op| op.name());
        let rounding = mma.rounding.map(|r| r.name());
        let layouts = |code: Opcode| code.word(mma.a_layout.name()).word(mma.b_layout.name());
        let code = if mma.wmma {
            let code = Opcode::new("wmma.mma").opt(bit_op).word("sync.aligned");
            let code = layouts(code).shape(mma.shape).opt(rounding).ty(mma.d_ty);
            let code = if mma.a_ty == Type::F16 { code } else { code.ty(mma.a_ty).ty(mma.b_ty) };
            code.ty(mma.c_ty).flag(mma.satfinite, "satfinite")
        } else {
            let code = layouts(Opcode::new("mma.sync.aligned").shape(mma.shape));
            code.opt(rounding)
                .flag(mma.satfinite, "satfinite")
                .ty(mma.d_ty)
                .ty(mma.a_ty)
                .ty(mma.b_ty)
                .ty(mma.c_ty)
                .opt(bit_op)
        };
        let register = crate::parse::fragment;
        self.put(
            code,
            &[
                Group(&mma.d),
                GroupOps(&mma.a, register(mma.a_ty)),
                GroupOps(&mma.b, register(mma.b_ty)),
                GroupOps(&mma.c, register(mma.c_ty)),
            ],
        )
    }
}
