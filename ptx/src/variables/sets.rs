//! Sets of variables, each stored once: most registers share a few of them.

use std::collections::HashMap;
use std::rc::Rc;

/// A set of variables, by its position in [`Sets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Set(u32);

impl Set {
    pub(super) const EMPTY: Self = Self(0);
}

/// More than this many elements in all sets together: hostile text, which is not analysed further.
const MOST_ELEMENTS: usize = 1 << 20;

/// More than this many elements gone through to make sets, known ones included: the same.
const MOST_WORK: usize = 1 << 26;

pub(super) struct Sets {
    list: Vec<Rc<[u32]>>,
    index: HashMap<Rc<[u32]>, Set>,
    unions: HashMap<(Set, Set), Set>,
    elements: usize,
    work: usize,
}

impl Sets {
    pub(super) fn new() -> Self {
        let empty: Rc<[u32]> = Rc::new([]);
        Self {
            list: vec![empty.clone()],
            index: HashMap::from([(empty, Set::EMPTY)]),
            unions: HashMap::new(),
            elements: 0,
            work: 0,
        }
    }

    /// Returns the elements, in ascending order.
    pub(super) fn elements(&self, set: Set) -> &[u32] {
        self.list.get(set.0 as usize).map_or(&[], |elements| elements)
    }

    /// Returns whether the sets have grown too large to go on. From then on no new set is made: the functions return the
    /// empty one.
    pub(super) fn is_too_large(&self) -> bool {
        self.elements > MOST_ELEMENTS || self.work > MOST_WORK
    }

    pub(super) fn of(&mut self, mut elements: Vec<u32>) -> Set {
        self.work = self.work.saturating_add(elements.len());
        if self.is_too_large() {
            return Set::EMPTY;
        }
        elements.sort_unstable();
        elements.dedup();
        if let Some(known) = self.index.get(elements.as_slice()) {
            return *known;
        }
        let set = Set(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.elements += elements.len();
        let elements: Rc<[u32]> = elements.into();
        self.list.push(elements.clone());
        self.index.insert(elements, set);
        set
    }

    pub(super) fn union(&mut self, a: Set, b: Set) -> Set {
        if a == b || b == Set::EMPTY {
            return a;
        }
        if a == Set::EMPTY {
            return b;
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.unions.get(&key) {
            return *known;
        }
        if self.is_too_large() {
            return Set::EMPTY;
        }
        let all = [self.elements(a), self.elements(b)].concat();
        let union = self.of(all);
        self.unions.insert(key, union);
        union
    }
}
