//! Instructions of clusters.

use ptx::ir::{Address, Op, Operand, Order, Space, Type};

use super::data::space_code;
use super::memory::place_bits;
use super::{Class, Decoder, Refusal};
use crate::arith::atomics;
use crate::exec::check::watch::{READ, STRONG, WRITE};
use crate::exec::cluster::address;
use crate::exec::cluster::barrier::{Arrive, RELAXED, Wait};
use crate::exec::cluster::store::Asynchronous;
use crate::exec::inst::Inst;

impl Decoder<'_, '_> {
    /// Decodes instructions of clusters. False if the instruction is none.
    pub(super) fn cluster(&mut self, op: &Op) -> Result<bool, Refusal> {
        match op {
            Op::Mapa { space, ty, d, a, b } => {
                let class = Class::of(*ty);
                let (a, b) = (self.src(a, class)?, self.src(b, Class::Narrow)?);
                let d = self.dst(*d, class)?;
                self.address_of(Inst { d, a, b, ..self.address_inst(*space, class) });
            }
            Op::Getctarank { space, ty, d, a } => {
                let class = Class::of(*ty);
                let (a, d) = (self.src(a, class)?, self.dst(*d, Class::Narrow)?);
                self.address_of(Inst { d, a, imm: 1, ..self.address_inst(*space, class) });
            }
            Op::ClusterBarrier { wait, order, .. } => {
                let run = if *wait { self.pick::<Wait>() } else { self.pick::<Arrive>() };
                let imm = if *order == Order::Relaxed { RELAXED } else { 0 };
                let inst = self.inst(run);
                self.emit(Inst { imm, ..inst });
            }
            Op::StAsync { space, ty, addr, a, mbarrier } => {
                self.asynchronous_store(*space, *ty, (addr, mbarrier), a, 0)?;
            }
            Op::RedAsync { op, space, ty, addr, a, mbarrier } => {
                let rmw = atomics::rmw(*op, *ty, true);
                self.code.rmws.push(rmw.ok_or_else(|| format!("red.async.{op}.{ty}"))?);
                let function = self.code.rmws.len() as u32;
                let values = std::slice::from_ref(a);
                self.asynchronous_store(*space, *ty, (addr, mbarrier), values, function)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn address_inst(&self, space: Space, class: Class) -> Inst {
        let (e, f) = (u32::from(class == Class::Wide), u32::from(space == Space::Generic));
        Inst { e, f, ..self.inst(self.pick::<address::Address>()) }
    }

    fn address_of(&mut self, inst: Inst) {
        self.emit(inst);
    }

    /// `function` is the number of the function of `red.async` plus 1, 0 for `st.async`.
    fn asynchronous_store(
        &mut self,
        space: Space,
        ty: Type,
        (addr, mbarrier): (&Address, &Address),
        a: &[Operand],
        function: u32,
    ) -> Result<(), Refusal> {
        let name = if function == 0 { "st.async" } else { "red.async" };
        if self.cx.follows() {
            return Err(format!("{name} with tangents or taint"));
        }
        let (bytes, class) = (ty.bytes(), Class::of(ty));
        let slots: Result<Vec<u32>, _> = a.iter().map(|a| self.src(a, class)).collect();
        let slots = slots?;
        let code = space_code(space)?;
        let (slot, narrow, offset) = self.address(mbarrier, space)?;
        let gate = place_bits(code, narrow);
        let (a, narrow, imm) = self.address(addr, space)?;
        let (c, f) = (place_bits(code, narrow), self.site());
        let what = if function == 0 { WRITE } else { READ | WRITE | STRONG };
        let written: &[u32] = if function == 0 { &slots } else { &[] };
        self.watch((a, c, imm), bytes * slots.len() as u32, what, written);
        let mut list = vec![slot, offset as u32, (offset >> 32) as u32, gate, bytes, function];
        list.extend(slots);
        let e = self.list(&list);
        let inst = self.inst(self.pick::<Asynchronous>());
        self.emit(Inst { a, c, e, f, imm, ..inst });
        Ok(())
    }
}
