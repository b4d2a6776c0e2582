//! Gradients of elements that belong to one thread each: they are added without atomics, or stored.

use std::collections::BTreeMap;

use ptx::ir::{Address, BinaryOp, Operand, RegId, Space, Type};

use super::Emit;
use super::builder::{at, fails, holds, number, type_of};
use crate::analysis::Access;
use crate::spec::{Real, Reals};

/// The sums for an element that belongs to the thread.
#[derive(Debug, Default)]
pub(super) struct OwnedSums {
    /// By the offset in the element.
    sums: BTreeMap<i64, (Real, RegId)>,
}

/// Sums to be added to an element: distances from an address, each with the numbers that are loaded together. `None`
/// for a number that the kernel does not load.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) pointer: usize,
    pub(super) space: Space,
    pub(super) address: Address,
    pub(super) real: Real,
    pub(super) all: Vec<(i64, Vec<Option<RegId>>)>,
}

/// Stores under a predicate.
type Stores = Vec<(RegId, Space, Type, Address, Vec<Operand>)>;

impl Emit<'_> {
    pub(super) fn owned_add(&mut self, pointer: usize, place: i64, real: Real, g: RegId) {
        let ty = type_of(real);
        let sums = &mut self.sums.thread_owned.entry(pointer).or_default().sums;
        match sums.get(&place).copied() {
            Some((_, sum)) => {
                self.b.binary_to(BinaryOp::Add, ty, sum, Operand::Reg(sum), Operand::Reg(g));
            }
            None => {
                // `g` may still change, so the sum has its own register.
                let sum = self.b.moved(ty, Operand::Reg(g));
                self.sums.thread_owned.entry(pointer).or_default().sums.insert(place, (real, sum));
            }
        }
    }

    /// Adds the sums of the thread's element to its gradient, or stores them.
    pub(super) fn owned_flush(&mut self, pointer: usize, access: &Access<'_>, first: i64) {
        let sums = std::mem::take(&mut self.sums.thread_owned.entry(pointer).or_default().sums);
        let covers = self.covers(pointer);
        let Some(owned) = self.analysis.thread_owned.get(pointer) else { return };
        let size = i64::from(owned.stride);
        let assumed =
            self.analysis.pointers.get(pointer).and_then(|p| p.spec.reals).map(Reals::real);
        let Some(real) = assumed else { return };
        let step = i64::from(real.bytes());
        let from = if covers { 0 } else { sums.keys().next().copied().unwrap_or(0) };
        let to = if covers { size } else { sums.keys().next_back().map_or(0, |last| last + step) };
        let width = owned.sites.iter().map(|site| i64::from(site.bytes)).min().unwrap_or(step);
        let (mut all, mut place) = (Vec::new(), from);
        while place < to {
            // At most as wide as the kernel's accesses, whose alignment is known.
            let room = to - place;
            let fits = |bytes: i64| {
                let aligned = |at: i64| at % bytes == 0;
                bytes <= width && bytes <= room && aligned(place) && aligned(size) && aligned(first)
            };
            let bytes = [16, 8].into_iter().find(|&bytes| fits(bytes)).unwrap_or(step);
            let parts: Vec<Option<RegId>> = (0..bytes / step)
                .map(|at| sums.get(&(place + at * step)).map(|(_, sum)| *sum))
                .collect();
            all.push((place - first, parts));
            place += bytes;
        }
        let (space, address) = (access.space, *access.address);
        let pieces = Pieces { pointer, space, address, real, all };
        let used = self.analysis.effects.get(pointer);
        if !covers && used.is_some_and(|used| !used.stored && !used.added) {
            // The order does not matter: the tape gives such parameters separate memory if they overlap.
            self.block.late.push(pieces);
        } else {
            self.plain_adds(&[pieces]);
        }
    }

    /// Adds the block's late sums.
    pub(super) fn add_late(&mut self) {
        let late = std::mem::take(&mut self.block.late);
        self.plain_adds(&late);
    }

    /// Adds to numbers in memory that belong to the thread, or stores them where the frame says so. Loads all before it
    /// stores one: independent loads overlap.
    pub(super) fn plain_adds(&mut self, pieces: &[Pieces]) {
        let stores: Vec<_> = pieces.iter().flat_map(|pieces| self.sums(pieces)).collect();
        for (when, space, ty, addr, values) in stores {
            self.b.store(Some(holds(when)), space, ty, addr, &values);
        }
    }

    fn sums(&mut self, pieces: &Pieces) -> Stores {
        let Pieces { pointer, space, ref address, real, ref all } = *pieces;
        let (ty, zero) = (type_of(real), number(real, 0.0));
        let adds = self.shadows.adds.get(pointer).copied().flatten();
        let mut stores = Vec::new();
        for (place, parts) in all {
            let Some((base, offset, some)) = self.shadow(pointer, address, *place) else {
                return stores;
            };
            let addr = at(base, offset);
            if parts.iter().all(Option::is_none) {
                // Numbers that the kernel does not load get zeros, but none are added.
                if let Some(adds) = adds {
                    let stored = self.both(holds(some), fails(adds));
                    stores.push((stored, space, ty, addr, vec![zero; parts.len()]));
                }
                continue;
            }
            let before: Vec<RegId> = parts.iter().map(|_| self.b.moved(ty, zero)).collect();
            let loaded: Vec<Option<RegId>> = before.iter().copied().map(Some).collect();
            let when = holds(adds.unwrap_or(some));
            self.b.load_to(Some(when), space, ty, &loaded, addr);
            let mut sums = Vec::new();
            for (before, part) in before.into_iter().map(Operand::Reg).zip(parts) {
                sums.push(match *part {
                    Some(part) => {
                        Operand::Reg(self.b.binary(BinaryOp::Add, ty, Operand::Reg(part), before))
                    }
                    None => before,
                });
            }
            stores.push((some, space, ty, addr, sums));
        }
        stores
    }
}
