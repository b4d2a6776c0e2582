//! Sums over the threads of a warp: gradients whose addresses are the same in all of them, such as those of a network's
//! weights.
//!
//! The threads of a warp need not be converged. The active ones find each other by `activemask`; there is no branch
//! between it and the shuffles. If all 32 are active, in the same iterations, a tree sums up to 32 numbers at once: in
//! each step a thread keeps half of the sums and passes on the others. Otherwise each thread adds on its own. Sums that
//! are made once become sums over the block: see `block_sums`.

use ptx::ir::{
    Address, Base, BinaryOp, BoolOp, Cmp, Op, Operand, RegId, ShflMode, Space, Special, Type,
};

use super::Emit;
use super::block_sums::BlockSums;
use super::builder::{at, fails, holds, number, type_of};
use crate::spec::Real;

/// The most sums that are made at once.
const MOST: usize = 32;
/// The most words that are summed over the iterations of a loop: each takes a register throughout.
const MOST_CARRIED: usize = 16;
/// Steps of the tree.
const STEPS: u32 = 5;
const ALL: Operand = Operand::Imm(0xffff_ffff);

/// Gradients at constant offsets from one address.
#[derive(Debug, Clone)]
pub(super) struct WarpSums {
    pointer: usize,
    base: RegId,
    space: Space,
    real: Real,
    /// The region of the base: its threads have the same address in the same iterations of the loops around.
    region: usize,
    /// Offsets of gradients in bytes, and the registers of their sums.
    values: Vec<(i64, RegId)>,
}

/// A thread's share of the sums over its warp.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) value: RegId,
    /// The index of the sum, and whether the thread has one.
    pub(super) index: RegId,
    pub(super) owner: RegId,
}

/// Returns the number of steps of the tree that halve the sums of a thread.
fn halvings(count: usize) -> u32 {
    count.next_power_of_two().ilog2()
}

impl WarpSums {
    fn words(&self) -> usize {
        self.values.len() * self.real.bytes() as usize / 4
    }
}

impl Emit<'_> {
    /// Adds to a gradient of a uniform address, later in the block or after a loop around it. Returns whether it does.
    pub(super) fn add_to_warp_sum(
        &mut self,
        pointer: usize,
        space: Space,
        real: Real,
        address: &Address,
        place: i64,
        g: RegId,
    ) -> bool {
        let Base::Reg(base) = address.base else { return false };
        // The reverse of a store would miss what is added later.
        let only_loaded =
            self.analysis.effects.get(pointer).is_some_and(|used| !used.stored && !used.added);
        if !only_loaded || !self.analysis.is_uniform(base) {
            return false;
        }
        let scale = i64::from(self.analysis.pointers.scale(pointer));
        let start = address.offset.checked_mul(scale);
        let offset = start.and_then(|start| start.checked_add(place));
        let (Some(defined), Some(offset)) = (self.body.definition(base), offset) else {
            return false;
        };
        let region = self.body.region_of(defined);
        let of = |sums: &WarpSums| (sums.pointer, sums.base, sums.real) == (pointer, base, real);
        let ty = type_of(real);
        let carried = self.open.iter().position(|open| self.parent(open.region) == Some(region));
        if let Some(open) = carried {
            let warp_sums = self.open.get(open).map_or(&[][..], |open| &open.warp_sums);
            let find =
                |sums: &WarpSums| sums.values.iter().find(|(at, _)| *at == offset).map(|v| v.1);
            let known = warp_sums.iter().filter(|sums| of(sums)).find_map(find);
            if let Some(sum) = known {
                self.b.binary_to(BinaryOp::Add, ty, sum, Operand::Reg(sum), Operand::Reg(g));
                return true;
            }
            let words: usize = warp_sums.iter().map(WarpSums::words).sum();
            if words < MOST_CARRIED {
                let sum = self.b.reg(ty);
                self.b.binary_to(BinaryOp::Add, ty, sum, Operand::Reg(sum), Operand::Reg(g));
                if let Some(open) = self.open.get_mut(open) {
                    open.zeros.push((sum, ty));
                    let value = (offset, sum);
                    match open.warp_sums.iter_mut().find(|sums| of(sums)) {
                        Some(sums) => sums.values.push(value),
                        None => open.warp_sums.push(WarpSums {
                            pointer,
                            base,
                            space,
                            real,
                            region,
                            values: vec![value],
                        }),
                    }
                }
                return true;
            }
        }
        let known = self.block.warp_sums.iter().position(of).unwrap_or_else(|| {
            let values = Vec::new();
            self.block.warp_sums.push(WarpSums { pointer, base, space, real, region, values });
            self.block.warp_sums.len() - 1
        });
        let values = self.block.warp_sums.get(known).map_or(&[][..], |sums| &sums.values);
        if let Some((_, sum)) = values.iter().find(|(at, _)| *at == offset).copied() {
            self.b.binary_to(BinaryOp::Add, ty, sum, Operand::Reg(sum), Operand::Reg(g));
            return true;
        }
        let full = values.len() + 1 == MOST;
        let sum = self.b.moved(ty, Operand::Reg(g));
        if let Some(sums) = self.block.warp_sums.get_mut(known) {
            sums.values.push((offset, sum));
        }
        if full {
            let sums = self.block.warp_sums.remove(known);
            self.add_warp_sums(sums);
        }
        true
    }

    pub(super) fn parent(&self, region: usize) -> Option<usize> {
        self.body.regions.get(region)?.parent
    }

    /// Adds the sums of the block.
    pub(super) fn add_all_warp_sums(&mut self) {
        for sums in std::mem::take(&mut self.block.warp_sums) {
            self.add_warp_sums(sums);
        }
    }

    /// After the reverse of a loop: adds the sums over its iterations.
    pub(super) fn add_carried(&mut self, warp_sums: Vec<WarpSums>) {
        for mut sums in warp_sums {
            // Threads that skipped the base's definition have no address.
            let defined = self.body.definition(sums.base);
            let executed =
                defined.and_then(|block| self.replay.executed.get(block).copied().flatten());
            let over = executed.map(|(executed, _)| {
                let over = self.b.label();
                let not = if executed.negated { holds(executed.reg) } else { fails(executed.reg) };
                self.b.jump_if(not, over);
                over
            });
            self.block.addresses.clear();
            let mut values = std::mem::take(&mut sums.values);
            while !values.is_empty() {
                let rest = values.split_off(values.len().min(MOST));
                self.add_warp_sums(WarpSums { values, ..sums.clone() });
                values = rest;
            }
            over.into_iter().for_each(|over| self.b.place(over));
        }
        self.block.addresses.clear();
    }

    /// Adds sums over the warp, if all its threads are active.
    fn add_warp_sums(&mut self, sums: WarpSums) {
        let WarpSums { pointer, base, space, real, region, mut values } = sums;
        values.sort_unstable();
        let Some(&(first, _)) = values.first() else { return };
        let Some((base, start, some)) = self.shadow(pointer, &at(base, 0), first) else { return };
        let places = |values: Vec<(i64, RegId)>| {
            let at = move |offset: i64| start.saturating_add(offset.saturating_sub(first));
            values.into_iter().map(move |(offset, g)| (at(offset), g))
        };
        if self.sums.log.is_some() {
            // Which threads are active together varies from run to run.
            for (offset, g) in places(values) {
                self.shared_add(space, real, (base, offset), g, some);
            }
            return;
        }
        self.sums.warp_summed += values.len();
        let (over, apart) = (self.b.label(), self.b.label());
        self.b.jump_if(fails(some), over);
        let mask = self.b.reg(Type::B32);
        self.b.push(Op::Activemask { d: Some(mask) });
        let all = self.b.setp(Cmp::Eq, Type::B32, Operand::Reg(mask), ALL);
        self.b.jump_if(fails(all), apart);
        let mut around = region;
        while let Some(parent) = self.parent(around) {
            // In different iterations the address may differ.
            let iterations = self.iterations(around);
            let (same, p) = (self.b.reg(Type::Pred), self.b.reg(Type::B32));
            let (ty, a) = (Type::B32, Operand::Reg(iterations));
            self.b.push(Op::Match { all: true, ty, d: Some(p), p: Some(same), a, mask: ALL });
            self.b.jump_if(fails(same), apart);
            around = parent;
        }
        let offsets: Vec<u32> = values
            .iter()
            .filter_map(|(at, _)| u32::try_from(at.checked_sub(first)?).ok())
            .collect();
        if offsets.len() == values.len() {
            let lane = self.b.moved(Type::U32, Operand::Special(Special::Laneid));
            let warp = self.tree(real, lane, &values);
            // In different iterations of a loop around the address may differ.
            let once = region == 0 && self.open.is_empty() && !self.plan.has_stack();
            let sums = BlockSums { real, space, offsets, start };
            if let Some(sums) = self.defer_to_block(sums, once, base, &warp) {
                self.add_sum(&sums, base, lane, &warp);
            }
            self.b.jump(over);
        }
        self.b.place(apart);
        for (offset, g) in places(values) {
            self.shared_add(space, real, (base, offset), g, some);
        }
        self.b.place(over);
    }

    /// Adds the thread's sum to the gradient at its offset from an address.
    pub(super) fn add_sum(&mut self, to: &BlockSums, base: RegId, lane: RegId, sum: &Sum) {
        let (factor, other) = self.places(lane, sum.index, &to.offsets);
        let d = self.b.mad_wide(factor, other, base);
        let ty = type_of(to.real);
        let any = (BoolOp::And, holds(sum.owner));
        let value = Operand::Reg(sum.value);
        let any = self.b.setp_with(Cmp::Neu, ty, value, number(to.real, 0.0), any);
        self.b.add_to(holds(any), to.space, ty, at(d, to.start), value);
    }

    /// Sums numbers over all threads of the warp.
    fn tree(&mut self, real: Real, lane: RegId, values: &[(i64, RegId)]) -> Sum {
        let ty = type_of(real);
        let halvings = halvings(values.len());
        let mut sums: Vec<RegId> = values.iter().map(|(_, value)| *value).collect();
        for level in 0..STEPS {
            let bit = 16u32 >> level;
            let half = 1usize << (STEPS.min(halvings).saturating_sub(level + 1));
            let upper = (level < halvings).then(|| self.upper(lane, bit));
            let mut next = Vec::new();
            for (index, &low) in sums.iter().enumerate().take(half) {
                let high = upper.and_then(|upper| Some((upper, *sums.get(index + half)?)));
                let (keeps, passes) = match high {
                    Some((upper, high)) => {
                        let (low, high) = (Operand::Reg(low), Operand::Reg(high));
                        let keeps = self.b.selp(ty, high, low, holds(upper));
                        (keeps, self.b.selp(ty, low, high, holds(upper)))
                    }
                    // Without `upper`, both threads of a pair keep the same sum.
                    None => (low, low),
                };
                let other = self.exchange(real, passes, bit);
                let (a, b) = (Operand::Reg(keeps), Operand::Reg(other));
                next.push(self.b.binary(BinaryOp::Add, ty, a, b));
            }
            sums = next;
        }
        let (index, owner) = self.owner(lane, values.len());
        Sum { value: sums.first().copied().unwrap_or(lane), index, owner }
    }

    /// Returns the index of the thread's sum among `count`, and whether it has one.
    pub(super) fn owner(&mut self, lane: RegId, count: usize) -> (RegId, RegId) {
        let rest = STEPS.saturating_sub(halvings(count));
        let (a, b) = (Operand::Reg(lane), Operand::Imm(u64::from(rest)));
        let index = self.b.binary(BinaryOp::Shr, Type::U32, a, b);
        let count = Operand::Imm(u64::try_from(count).unwrap_or(0));
        let mut owner = self.b.setp(Cmp::Lo, Type::U32, Operand::Reg(index), count);
        if rest > 0 {
            let low = Operand::Imm((1 << rest) - 1);
            let low = self.b.binary(BinaryOp::And, Type::B32, Operand::Reg(lane), low);
            let with = (BoolOp::And, holds(owner));
            owner = self.b.setp_with(Cmp::Eq, Type::U32, Operand::Reg(low), Operand::Imm(0), with);
        }
        (index, owner)
    }

    /// Returns the offset of the thread's sum as two factors.
    fn places(&mut self, lane: RegId, index: RegId, offsets: &[u32]) -> (RegId, Operand) {
        let step = match offsets {
            [first, second, ..] => second.saturating_sub(*first),
            _ => 0,
        };
        let even =
            offsets.windows(2).all(|pair| matches!(pair, [a, b] if b.saturating_sub(*a) == step));
        if even {
            return (index, Operand::Imm(u64::from(step)));
        }
        let halvings = halvings(offsets.len());
        let mut places: Vec<Operand> =
            offsets.iter().map(|offset| Operand::Imm(u64::from(*offset))).collect();
        for level in 0..halvings {
            let half = 1usize << halvings.saturating_sub(level + 1);
            let upper = self.upper(lane, 16 >> level);
            let mut next = Vec::new();
            for (index, &low) in places.iter().enumerate().take(half) {
                next.push(match places.get(index + half) {
                    Some(&high) => Operand::Reg(self.b.selp(Type::B32, high, low, holds(upper))),
                    None => low,
                });
            }
            places = next;
        }
        match places.first() {
            Some(&Operand::Reg(place)) => (place, Operand::Imm(1)),
            _ => (index, Operand::Imm(u64::from(step))),
        }
    }

    /// Returns whether a bit of the thread's index is set.
    fn upper(&mut self, lane: RegId, bit: u32) -> RegId {
        let own = Operand::Imm(u64::from(bit));
        let own = self.b.binary(BinaryOp::And, Type::B32, Operand::Reg(lane), own);
        self.b.setp(Cmp::Ne, Type::U32, Operand::Reg(own), Operand::Imm(0))
    }

    /// Returns the value of the thread whose lane differs in one bit.
    fn exchange(&mut self, real: Real, value: RegId, bit: u32) -> RegId {
        let of = |this: &mut Self, d: RegId, a: RegId| {
            let (a, b, c) = (Operand::Reg(a), Operand::Imm(u64::from(bit)), Operand::Imm(31));
            let (mode, mask) = (ShflMode::Bfly, Some(ALL));
            this.b.push(Op::Shfl { mode, d: Some(d), p: None, a, b, c, mask });
        };
        let d = self.b.reg(type_of(real));
        if real == Real::F32 {
            of(self, d, value);
            return d;
        }
        let halves = [(); 2].map(|()| self.b.reg(Type::B32));
        let parts = halves.map(Some).into();
        self.b.push(Op::Unpack { ty: Type::B64, d: parts, a: Operand::Reg(value) });
        let others = halves.map(|half| {
            let other = self.b.reg(Type::B32);
            of(self, other, half);
            other
        });
        self.b.push(Op::Pack { ty: Type::B64, d: Some(d), a: others.map(Operand::Reg).into() });
        d
    }
}
