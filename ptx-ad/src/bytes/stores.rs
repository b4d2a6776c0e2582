//! Stores of the bytes of numbers.

use std::collections::{HashMap, HashSet};

use ptx::ir::{Address, Base, Instr, Op, Operand, Order, Space, Type};

use super::{Byte, Join, is_written};
use crate::analysis::Access;

/// A byte that is stored.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// The position of the store.
    at: usize,
    base: Base,
    space: Space,
    /// The offset from the root.
    place: i64,
    /// The offset of the other byte, if two are stored.
    twin: Option<i64>,
    byte: Byte,
}

impl Join<'_> {
    /// Joins stores of all bytes of a number, if there is no other access between them.
    pub(super) fn stores(&mut self) {
        for block in 0..self.body.blocks.len() {
            let code =
                self.body.blocks.get(block).map(|block| block.code.clone()).unwrap_or_default();
            let mut run: Vec<Part> = Vec::new();
            for (at, instr) in code.iter().enumerate() {
                let access = Access::of(instr).filter(|access| !access.is_param());
                if let (Op::St { a, .. }, Some(access)) = (&instr.op, &access)
                    && access.ty.bits() < 32
                    && access.order == Order::Weak
                    && let [value] = **a
                {
                    let (base, offset) = self.root(access.address);
                    let other = run
                        .first()
                        .is_some_and(|first| (first.base, first.space) != (base, access.space));
                    if other {
                        self.finish(block, &code, &std::mem::take(&mut run));
                    }
                    if let Some(bytes) = self.of(&value) {
                        let count = i64::from(access.ty.bytes());
                        let parts = (0..count).zip(bytes).map(|(more, byte)| Part {
                            at,
                            base,
                            space: access.space,
                            place: offset.wrapping_add(more),
                            twin: (count == 2).then_some(offset.wrapping_add(1 - more)),
                            byte,
                        });
                        run.extend(parts);
                        continue;
                    }
                }
                if access.is_some() || is_written(&instr.op) {
                    self.finish(block, &code, &std::mem::take(&mut run));
                }
            }
            self.finish(block, &code, &run);
        }
    }

    /// Replaces stores in a run that write all bytes of numbers.
    fn finish(&mut self, block: usize, code: &[Instr], run: &[Part]) {
        let mut places: Vec<i64> = run.iter().map(|part| part.place).collect();
        places.sort_unstable();
        let unique = places.windows(2).all(|pair| matches!(pair, [a, b] if a != b));
        if !unique {
            return;
        }
        let known: HashMap<i64, Part> = run.iter().map(|part| (part.place, *part)).collect();
        let mut done: HashSet<usize> = HashSet::new();
        for start in places {
            for width in [8i64, 4] {
                let parts = (0..width).map(|more| known.get(&start.wrapping_add(more)).copied());
                let Some(parts) = parts.collect::<Option<Vec<Part>>>() else { continue };
                // A store of two bytes belongs to one number.
                let has = |place: i64| parts.iter().any(|part| part.place == place);
                let whole = parts.iter().all(|part| part.twin.is_none_or(has));
                if whole
                    && !parts.iter().any(|part| done.contains(&part.at))
                    && self.store(block, code, &parts)
                {
                    done.extend(parts.iter().map(|part| part.at));
                }
            }
        }
    }

    fn store(&mut self, block: usize, code: &[Instr], parts: &[Part]) -> bool {
        let (Some(first), Some(last)) = (parts.first(), parts.iter().map(|part| part.at).max())
        else {
            return false;
        };
        let (Base::Reg(base), Some(instr)) = (first.base, code.get(last)) else { return false };
        let Ok(width) = u8::try_from(parts.len()) else { return false };
        // The number is in the register of the first byte.
        let Some(Instr { op: Op::St { addr, access, .. }, .. }) = code.get(first.at) else {
            return false;
        };
        if !self.places.is_number(self.body, addr, width) || access.policy.is_some() {
            return false;
        }
        let bytes: Vec<Byte> = parts.iter().map(|part| part.byte).collect();
        let like = |op: Op| Instr { guard: None, op, line: instr.line, loc: instr.loc };
        let ty = if width == 4 { Type::B32 } else { Type::B64 };
        let mut new = Vec::new();
        let value = match self.whole(&bytes) {
            Some(value) => value,
            None => match self.loaded(&bytes) {
                Some(reg) => Operand::Reg(reg),
                None => return false,
            },
        };
        let addr = Address { base: Base::Reg(base), offset: first.place };
        new.push(like(Op::St { access: access.clone(), ty, addr, a: Box::new([value]) }));
        for part in parts {
            self.replaced.insert((block, part.at), Vec::new());
        }
        self.replaced.insert((block, last), new);
        true
    }
}
