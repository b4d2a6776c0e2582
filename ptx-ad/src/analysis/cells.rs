//! Classes of words of local memory: all words that one access may go to are in one class.

use std::collections::{HashMap, HashSet};

use ptx::ir::{RegId, VarId};

use super::Access;
use super::address_form::{Form, Forms, Origin};
use super::semantics::Slot;
use crate::body::Body;

/// A class of words of a variable: the variable and the first of the words.
pub(crate) type Cell = (VarId, usize);

/// Variables with more words are folded: words at a distance of `FOLDED` count as one.
const MOST_WORDS: usize = 4096;
const FOLDED: usize = 4;

/// The words that loads and stores of registers go to.
#[derive(Debug, Default)]
pub(super) struct LocalCells {
    /// For each word of a variable, another of its class; a root is its own parent.
    parents: HashMap<VarId, Vec<usize>>,
    /// The halves of registers, each with a word that it is loaded from or stored to.
    found: Vec<(Slot, VarId, usize)>,
}

impl LocalCells {
    pub(super) fn new(body: &Body, forms: &Forms) -> Self {
        let mut this = Self::default();
        let mut seen = HashSet::new();
        for (_, instr) in body.instrs() {
            let Some(access) = Access::of(instr) else { continue };
            let form = forms.address(body, access.address);
            let Origin::Local(var) = form.origin else { continue };
            this.parents.entry(var).or_insert_with(|| (0..words_of(body, var)).collect());
            let half = |reg: RegId| [(Slot::low(reg), 0), (Slot::high(reg), 4)];
            for (at, reg) in access.parts() {
                let Some(reg) = reg.filter(|_| access.ty.bits() >= 32) else { continue };
                for (slot, more) in half(reg).into_iter().take(access.ty.bits() as usize / 32) {
                    let place = at.wrapping_add(more);
                    let words = this.all(var, &form, place, 4);
                    let Some(first) = words.first().copied() else { continue };
                    this.found.push((slot, var, first));
                    if seen.insert((var, form.residue(), form.range(), place)) {
                        words.into_iter().for_each(|word| this.unite(var, first, word));
                    }
                }
            }
        }
        this
    }

    /// Returns the halves of registers with the cells that they are loaded from or stored to.
    pub(super) fn halves(&self) -> impl Iterator<Item = (Slot, Cell)> + '_ {
        self.found.iter().map(|&(slot, var, word)| (slot, (var, self.root(var, word))))
    }

    /// Returns the classes of the words that bytes at an offset from an address may lie in.
    pub(super) fn words(&self, var: VarId, form: &Form, at: i64, bytes: u32) -> Vec<Cell> {
        let all = self.all(var, form, at, i64::from(bytes));
        let mut cells: Vec<Cell> =
            all.into_iter().map(|word| (var, self.root(var, word))).collect();
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    /// Returns the words that bytes at an offset from an address may lie in; all, if the address seems to lie outside.
    fn all(&self, var: VarId, form: &Form, at: i64, bytes: i64) -> Vec<usize> {
        let count = self.parents.get(&var).map_or(1, Vec::len);
        let words = Self::within(count, form, at, bytes);
        let whole = i64::try_from(count).unwrap_or(i64::MAX);
        if words.is_empty() { folded(count, 0, whole, 1) } else { words }
    }

    /// Returns the words of a variable with `count` words that the bytes may lie in.
    fn within(count: usize, form: &Form, at: i64, bytes: i64) -> Vec<usize> {
        let (modulus, residue) = form.residue();
        let start = residue.wrapping_add(at);
        let last = |place: i64| place.saturating_add(bytes - 1).div_euclid(4);
        if modulus == 0 {
            return folded(count, start.div_euclid(4), last(start), 1);
        }
        let whole = i64::try_from(count).unwrap_or(i64::MAX);
        let (low, high) = form.range().map_or((0, whole - 1), |(low, high)| {
            let low = low.saturating_add(at).div_euclid(4).max(0);
            (low, last(high.saturating_add(at)).min(whole - 1))
        });
        match i64::try_from(modulus) {
            // Words at a fixed distance from each other.
            Ok(modulus) if modulus % 4 == 0 && bytes <= 4 && start.rem_euclid(4) + bytes <= 4 => {
                let step = modulus / 4;
                let first = low.saturating_add((start.div_euclid(4) - low).rem_euclid(step));
                folded(count, first, high, step)
            }
            _ => folded(count, low, high, 1),
        }
    }

    fn root(&self, var: VarId, word: usize) -> usize {
        let Some(parents) = self.parents.get(&var) else { return word };
        let mut at = word;
        while let Some(&parent) = parents.get(at).filter(|parent| **parent != at) {
            at = parent;
        }
        at
    }

    fn unite(&mut self, var: VarId, a: usize, b: usize) {
        let (a, b) = (self.root(var, a), self.root(var, b));
        if let Some(place) = self.parents.get_mut(&var).and_then(|all| all.get_mut(a.max(b))) {
            *place = a.min(b);
        }
    }
}

/// Returns the number of words of a variable.
fn words_of(body: &Body, var: VarId) -> usize {
    let Some(variable) = body.function.variables.get(var.index()) else { return 1 };
    let elements = variable.dims.iter().fold(1u64, |all, &one| all.saturating_mul(one));
    let bytes = elements.saturating_mul(u64::from(variable.ty.bytes()));
    usize::try_from(bytes.div_ceil(4)).unwrap_or(usize::MAX).max(1)
}

/// Returns every `step`th word from `first` to `last`, folded if the variable has too many.
fn folded(count: usize, first: i64, last: i64, step: i64) -> Vec<usize> {
    let fold = |word: usize| if count > MOST_WORDS { word % FOLDED } else { word };
    let end = usize::try_from(last.saturating_add(1)).unwrap_or(0).min(count);
    let Ok(first) = usize::try_from(first) else { return Vec::new() };
    let step = usize::try_from(step).unwrap_or(usize::MAX).max(1);
    let mut words: Vec<usize> = (first..end).step_by(step).map(fold).collect();
    if count > MOST_WORDS {
        words.sort_unstable();
        words.dedup();
    }
    words
}
