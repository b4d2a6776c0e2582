//! Barriers and what lanes of a warp do together.

use ptx::ir::{BarOp, BoolOp, Op, Operand, ShflMode, Type, VoteMode};

use super::{Class, Decoder, Refusal};
use crate::arith::atomics;
use crate::exec::block::barrier::{Bar, mode};
use crate::exec::control::collective::{
    Activemask, Elect, MatchAll, MatchAny, Redux, Shfl, Vote, vote,
};
use crate::exec::control::sync::BarWarp;
use crate::exec::inst::{Inst, SLOT_NONE, SLOT_TRUE};

impl Decoder<'_, '_> {
    /// Returns the slot of a member mask; without one the instruction waits for no other lane.
    fn members(&mut self, mask: Option<&Operand>) -> Result<u32, Refusal> {
        match mask {
            Some(mask) => self.src(mask, Class::Narrow),
            None => Ok(self.constant(Class::Narrow, 0)),
        }
    }

    /// Decodes barriers and collectives. False if the instruction is none.
    pub(super) fn sync(&mut self, op: &Op) -> Result<bool, Refusal> {
        let narrow = Class::Narrow;
        match op {
            Op::Bar { op, d, barrier, threads, p, .. } => {
                let a = self.src(barrier, narrow)?;
                let zero = Operand::Imm(0);
                let b = self.src(threads.as_ref().unwrap_or(&zero), narrow)?;
                let (c, negated) = match p {
                    Some(p) => (self.pred_slot(p.reg)?, p.negated),
                    None => (SLOT_TRUE, false),
                };
                let (code, d) = match op {
                    BarOp::Sync => (mode::SYNC, SLOT_NONE),
                    BarOp::Arrive => (mode::ARRIVE, SLOT_NONE),
                    BarOp::Red(BoolOp::Popc) => (mode::POPC, self.dst(*d, narrow)?),
                    BarOp::Red(BoolOp::And) => (mode::AND, self.dst(*d, Class::Pred)?),
                    BarOp::Red(BoolOp::Or) => (mode::OR, self.dst(*d, Class::Pred)?),
                    BarOp::Red(_) => return Err("bar.red.xor".to_owned()),
                };
                let imm = code | u64::from(negated) << 8;
                let inst = self.inst(self.pick::<Bar>());
                self.emit(Inst { d, a, b, c, imm, ..inst });
            }
            Op::BarWarp { mask } => {
                let a = self.src(mask, narrow)?;
                let inst = self.inst(self.pick::<BarWarp>());
                self.emit(Inst { a, ..inst });
            }
            Op::Shfl { mode, d, p, a, b, c, mask } => {
                let (a, b, c) = (self.src(a, narrow)?, self.src(b, narrow)?, self.src(c, narrow)?);
                let e = self.members(mask.as_ref())?;
                let (d, f) = (self.dst(*d, narrow)?, self.dst(*p, Class::Pred)?);
                let run = match mode {
                    ShflMode::Up if self.cx.follows() => self.pick::<Shfl<0, true>>(),
                    ShflMode::Down if self.cx.follows() => self.pick::<Shfl<1, true>>(),
                    ShflMode::Bfly if self.cx.follows() => self.pick::<Shfl<2, true>>(),
                    ShflMode::Idx if self.cx.follows() => self.pick::<Shfl<3, true>>(),
                    ShflMode::Up => self.vector::<Shfl<0, false>>(),
                    ShflMode::Down => self.vector::<Shfl<1, false>>(),
                    ShflMode::Bfly => self.vector::<Shfl<2, false>>(),
                    ShflMode::Idx => self.vector::<Shfl<3, false>>(),
                    _ => return Err(format!("shfl.{mode}")),
                };
                let (inst, imm) = (self.inst(run), self.own_rule());
                self.emit(Inst { d, a, b, c, e, f, imm, ..inst });
            }
            Op::Vote { mode, d, p, mask } => {
                let e = self.members(mask.as_ref())?;
                let (imm, class) = match mode {
                    VoteMode::All => (vote::ALL, Class::Pred),
                    VoteMode::Any => (vote::ANY, Class::Pred),
                    VoteMode::Uni => (vote::UNI, Class::Pred),
                    VoteMode::Ballot => (vote::BALLOT, narrow),
                    _ => return Err(format!("vote.{mode}")),
                };
                let (a, d) = (self.pred_slot(p.reg)?, self.dst(*d, class)?);
                let imm = imm | u64::from(p.negated) << 8;
                let inst = self.inst(self.pick::<Vote>());
                self.emit(Inst { d, a, e, imm, ..inst });
            }
            Op::Match { all, ty, d, p, a, mask } => {
                let class = Class::of(*ty);
                let (a, e) = (self.src(a, class)?, self.src(mask, narrow)?);
                let (d, f) = (self.dst(*d, narrow)?, self.dst(*p, Class::Pred)?);
                let run = match (all, class) {
                    (false, Class::Narrow) => self.pick::<MatchAny<u32>>(),
                    (false, Class::Wide) => self.pick::<MatchAny<u64>>(),
                    (true, Class::Narrow) => self.pick::<MatchAll<u32>>(),
                    (true, Class::Wide) => self.pick::<MatchAll<u64>>(),
                    _ => return Err(format!("match.{ty}")),
                };
                let inst = self.inst(run);
                self.emit(Inst { d, a, e, f, ..inst });
            }
            Op::Redux { op, ty, abs, nan, d, a, mask } => {
                if Class::of(*ty) != narrow || *ty == Type::Pred {
                    return Err(format!("redux.sync.{op}.{ty}"));
                }
                let fold = atomics::redux(*op, *ty, *abs, *nan)
                    .ok_or_else(|| format!("redux.sync.{op}.{ty}"))?;
                let (a, e) = (self.src(a, narrow)?, self.src(mask, narrow)?);
                let d = self.dst(*d, narrow)?;
                let f = self.code.folds.len() as u32;
                self.code.folds.push(fold);
                let (inst, imm) = (self.inst(self.pick::<Redux>()), self.own_rule());
                self.emit(Inst { d, a, e, f, imm, ..inst });
            }
            Op::Activemask { d } => {
                let d = self.dst(*d, narrow)?;
                let inst = self.inst(self.pick::<Activemask>());
                self.emit(Inst { d, ..inst });
            }
            Op::Elect { d, p, mask } => {
                let e = self.src(mask, narrow)?;
                let (d, f) = (self.dst(*d, narrow)?, self.dst(*p, Class::Pred)?);
                let inst = self.inst(self.pick::<Elect>());
                self.emit(Inst { d, e, f, ..inst });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
