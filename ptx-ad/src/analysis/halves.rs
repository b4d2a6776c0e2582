//! Which doubles the halves in registers of 32 bits belong to.

use std::collections::HashMap;

use ptx::ir::{Op, Operand, RegId};

use super::semantics::{Semantics, Slot, semantics};
use super::value_kind::{Kind, Kinds};
use crate::body::{Body, Phi};

/// The most passes. Numbers that one loop carries through `n` registers need `n` passes.
const MOST_PASSES: usize = 64;

/// The value of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A value without a derivative.
    Constant,
    /// A half of a number. A number is named by the register of one of its halves.
    Half(Slot),
}

/// A number that an instruction or a phi reads a half of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Number {
    /// A value that a loop carries, before the first pass over the loop. It may be any.
    Unknown,
    /// All numbers without a derivative are alike.
    Constant,
    Of(RegId),
}

/// The numbers that all slots are halves of.
///
/// Compilers exchange, choose and join the halves of a `double` separately. The results are the halves of one number if
/// both instructions do the same with the halves of one number. Two phis of a block take their values from the same edge,
/// so they are halves of one number if they are on each edge.
#[derive(Debug)]
pub(super) struct Halves {
    /// `None` where no instruction was read that writes the slot.
    source: Vec<Option<Source>>,
    /// Whether phis may be halves of one number.
    joins: bool,
}

impl Halves {
    /// `varied` says which slots depend on active inputs.
    pub(super) fn new(body: &Body, kinds: &Kinds, varied: &[bool]) -> Self {
        let source = vec![None; body.function.registers.len() * 2];
        let mut this = Self { source, joins: true };
        // The first pass takes all that loops carry to be alike. Each further pass splits numbers that differ in what
        // loops carry, until none is left.
        for _ in 0..MOST_PASSES {
            let before = this.source.clone();
            this.pass(body, kinds, varied);
            if before == this.source {
                return this;
            }
        }
        // If each phi is a number, nothing depends on what loops carry.
        this.joins = false;
        this.pass(body, kinds, varied);
        this
    }

    /// Returns whether the slots of a register are the halves of one number.
    pub(super) fn is_whole(&self, low: Slot) -> bool {
        let of = |slot: Slot| self.source.get(slot.index()).copied().flatten();
        match (of(low), of(Slot::high(low.reg()))) {
            (Some(Source::Half(low)), Some(Source::Half(high))) => {
                low == Slot::low(low.reg()) && high == Slot::high(low.reg())
            }
            (Some(Source::Constant), Some(Source::Constant)) => true,
            _ => false,
        }
    }

    fn pass(&mut self, body: &Body, kinds: &Kinds, varied: &[bool]) {
        let is_varied = |slot: Slot| varied.get(slot.index()) == Some(&true);
        for block in &body.blocks {
            let mut joined = HashMap::new();
            for phi in &block.phis {
                let (low, high) = (Slot::low(phi.reg), Slot::high(phi.reg));
                self.set(high, Source::Half(high));
                let ty = body.function.registers.get(phi.reg.index());
                let is_half = self.joins && ty.is_some_and(|ty| ty.bits() == 32);
                let found = match kinds.get(low).filter(|_| is_half) {
                    Some(Kind::F64) => self.phi(phi, Slot::low, &is_varied, &mut joined),
                    Some(Kind::F64High) => self.phi(phi, Slot::high, &is_varied, &mut joined),
                    _ => Source::Half(low),
                };
                self.set(low, found);
            }
            let mut same = Same::default();
            for instr in &block.code {
                instr.for_each_def(&mut |reg: RegId| {
                    for slot in [Slot::low(reg), Slot::high(reg)] {
                        self.set(slot, Source::Half(slot));
                    }
                });
                let of = |this: &Self, slot: Option<Slot>| match slot {
                    Some(slot) if is_varied(slot) => this.get(slot),
                    _ => Source::Constant,
                };
                match semantics(instr) {
                    Semantics::Copy(pairs) => {
                        let pairs = pairs.into_iter().map(|(d, a)| (d, of(self, a)));
                        let pairs: Vec<(Slot, Source)> = pairs.collect();
                        pairs.into_iter().for_each(|(d, source)| self.set(d, source));
                    }
                    Semantics::Exchange { d, a } => {
                        let sources = [of(self, a), Source::Constant];
                        self.set(Slot::low(d), same.result(&instr.op, Slot::low(d), sources));
                    }
                    Semantics::Choice { pairs, .. } => {
                        // A choice of 64 bits is a number.
                        if let [(d, sources)] = *pairs {
                            let sources = sources.map(|a| of(self, a));
                            self.set(d, same.result(&instr.op, d, sources));
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Returns the number that a phi of halves is a half of. `joined` has the numbers of earlier phis of the block.
    fn phi(
        &mut self,
        phi: &Phi,
        half: fn(RegId) -> Slot,
        is_varied: &dyn Fn(Slot) -> bool,
        joined: &mut HashMap<Vec<(usize, Number)>, RegId>,
    ) -> Source {
        let d = Slot::low(phi.reg);
        let mut numbers = Vec::new();
        for (from, arg) in &phi.args {
            let number = match arg {
                Some(Operand::Reg(reg)) if is_varied(Slot::low(*reg)) => {
                    match self.source.get(Slot::low(*reg).index()).copied().flatten() {
                        Some(Source::Half(slot)) if slot == half(slot.reg()) => {
                            Number::Of(slot.reg())
                        }
                        Some(Source::Half(_)) => return Source::Half(d),
                        Some(Source::Constant) => Number::Constant,
                        None => Number::Unknown,
                    }
                }
                _ => Number::Constant,
            };
            numbers.push((*from, number));
        }
        Source::Half(half(*joined.entry(numbers).or_insert(phi.reg)))
    }

    fn get(&self, slot: Slot) -> Source {
        self.source.get(slot.index()).copied().flatten().unwrap_or(Source::Half(slot))
    }

    fn set(&mut self, slot: Slot, source: Source) {
        if let Some(place) = self.source.get_mut(slot.index()) {
            *place = Some(source);
        }
    }
}

/// The exchanges and choices of a block, by the numbers that they read.
#[derive(Debug, Default)]
struct Same(HashMap<[Number; 2], Vec<(Op, RegId)>>);

impl Same {
    /// Returns the half of a number that the result of an instruction is, if it reads these sources.
    fn result(&mut self, op: &Op, d: Slot, sources: [Source; 2]) -> Source {
        let halves = sources.iter().filter_map(|source| match source {
            Source::Half(slot) => Some(*slot),
            Source::Constant => None,
        });
        let halves: Vec<Slot> = halves.collect();
        let all = |half: fn(RegId) -> Slot| halves.iter().all(|slot| *slot == half(slot.reg()));
        let half: fn(RegId) -> Slot = match (all(Slot::low), all(Slot::high)) {
            (true, true) => return Source::Constant,
            (true, false) => Slot::low,
            (false, true) => Slot::high,
            (false, false) => return Source::Half(d),
        };
        let numbers = sources.map(|source| match source {
            Source::Half(slot) => Number::Of(slot.reg()),
            Source::Constant => Number::Constant,
        });
        let mut op = op.clone();
        match &mut op {
            Op::Shfl { d, p, a, .. } => (*d, *p, *a) = (None, None, Operand::Imm(0)),
            Op::Selp { d, a, b, .. } | Op::Slct { d, a, b, .. } => {
                (*d, *a, *b) = (None, Operand::Imm(0), Operand::Imm(0));
            }
            _ => return Source::Half(d),
        }
        let known = self.0.entry(numbers).or_default();
        let number = match known.iter().find(|(known, _)| *known == op) {
            Some((_, number)) => *number,
            None => {
                known.push((op, d.reg()));
                d.reg()
            }
        };
        Source::Half(half(number))
    }
}
