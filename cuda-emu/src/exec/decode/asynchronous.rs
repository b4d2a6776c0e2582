//! `cp.async` and `mbarrier`.

use ptx::ir::{Address, Op, Operand, Space};

use super::data::space_code;
use super::memory::place_bits;
use super::{Class, Decoder, Refusal};
use crate::exec::check::watch::{COMMIT, CopiesArrive, Groups, WAIT_ALL, WatchCopy};
use crate::exec::control::branch::Nop;
use crate::exec::inst::{Inst, SLOT_NONE};
use crate::exec::memory::copy::CpAsync;
use crate::exec::memory::mbarrier::{Mbarrier, Pending, action};

impl Decoder<'_, '_> {
    /// Decodes asynchronous copies and their barriers. False if the instruction is none.
    pub(super) fn asynchronous(&mut self, op: &Op) -> Result<bool, Refusal> {
        let one = Operand::Imm(1);
        match op {
            Op::CpAsync { dst, src, size, src_size, ignore, .. } => {
                let (a, narrow, imm) = self.address(dst, Space::Shared)?;
                let (source, _, offset) = self.address(src, Space::Global)?;
                let whole = Operand::Imm(u64::from(*size));
                let given = self.src(src_size.as_ref().unwrap_or(&whole), Class::Narrow)?;
                let (zeros, negated) = match ignore {
                    Some(pred) => (self.pred_slot(pred.reg)?, pred.negated),
                    None => (self.constant(Class::Pred, 0), false),
                };
                let list = [
                    source,
                    given,
                    zeros,
                    u32::from(negated),
                    u32::from(*size),
                    offset as u32,
                    (offset >> 32) as u32,
                ];
                let e = self.list(&list);
                let (f, c) = (self.site(), place_bits(crate::exec::memory::SHARED, narrow));
                let inst = Inst { a, c, e, f, imm, ..self.inst(self.pick::<CpAsync>()) };
                self.watch_by::<WatchCopy>(inst);
                self.emit(inst);
            }
            Op::CpAsyncCommit | Op::CpAsyncWait { .. } => {
                let imm = match op {
                    Op::CpAsyncWait { pending: Some(pending) } => u64::from(*pending),
                    Op::CpAsyncWait { pending: None } => WAIT_ALL,
                    _ => COMMIT,
                };
                let inst = Inst { imm, ..self.inst(self.pick::<Nop>()) };
                self.emit(inst);
                self.watch_by::<Groups>(inst);
            }
            // The increment before is undone at once: only `.noinc` changes anything.
            Op::CpAsyncArrive { noinc: false, addr, space } => {
                self.copies_arrive(*space, addr)?;
                let inst = self.inst(self.pick::<Nop>());
                self.emit(inst);
            }
            Op::CpAsyncArrive { noinc: true, space, addr } => {
                self.copies_arrive(*space, addr)?;
                self.mbarrier(*space, addr, action::ARRIVE, (&one, Class::Narrow), SLOT_NONE)?;
            }
            Op::MbarrierInit { space, addr, count } => {
                self.mbarrier(*space, addr, action::INIT, (count, Class::Narrow), SLOT_NONE)?;
            }
            Op::MbarrierInval { space, addr } => {
                self.mbarrier(*space, addr, action::INVALIDATE, (&one, Class::Narrow), SLOT_NONE)?;
            }
            Op::MbarrierArrive { drop, expect_tx, space, d, addr, count, .. } => {
                let what = match (drop, expect_tx) {
                    (false, false) => action::ARRIVE,
                    (true, false) => action::ARRIVE_DROP,
                    (false, true) => action::ARRIVE_EXPECT,
                    (true, true) => return Err("mbarrier.arrive_drop.expect_tx".to_owned()),
                };
                let d = self.dst(*d, Class::Wide)?;
                let count = count.as_ref().unwrap_or(&one);
                self.mbarrier(*space, addr, what, (count, Class::Narrow), d)?;
            }
            Op::MbarrierWait { parity, space, d, addr, a, .. } => {
                let d = self.dst(*d, Class::Pred)?;
                let (what, class) = if *parity {
                    (action::WAIT_PARITY, Class::Narrow)
                } else {
                    (action::WAIT, Class::Wide)
                };
                self.mbarrier(*space, addr, what, (a, class), d)?;
            }
            Op::MbarrierTx { complete, space, addr, count, .. } => {
                let what = if *complete { action::COMPLETE } else { action::EXPECT };
                self.mbarrier(*space, addr, what, (count, Class::Narrow), SLOT_NONE)?;
            }
            Op::MbarrierPending { d, a } => {
                let (a, d) = (self.src(a, Class::Wide)?, self.dst(*d, Class::Narrow)?);
                let inst = self.inst(self.pick::<Pending>());
                self.emit(Inst { d, a, ..inst });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Racecheck's part of `cp.async.mbarrier.arrive`.
    fn copies_arrive(&mut self, space: Space, addr: &Address) -> Result<(), Refusal> {
        let (a, narrow, imm) = self.address(addr, space)?;
        let c = place_bits(space_code(space)?, narrow);
        let inst = self.inst(self.pick::<Nop>());
        self.watch_by::<CopiesArrive>(Inst { a, c, imm, ..inst });
        Ok(())
    }

    fn mbarrier(
        &mut self,
        space: Space,
        addr: &Address,
        what: u32,
        (operand, class): (&Operand, Class),
        d: u32,
    ) -> Result<(), Refusal> {
        let (a, narrow, imm) = self.address(addr, space)?;
        let b = self.src(operand, class)?;
        let (f, c) = (self.site(), place_bits(space_code(space)?, narrow));
        let inst = self.inst(self.pick::<Mbarrier>());
        self.emit(Inst { d, a, b, c, e: what, f, imm, ..inst });
        Ok(())
    }
}
