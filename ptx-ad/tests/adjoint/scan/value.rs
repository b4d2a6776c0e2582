//! The contents of registers: parts of numbers, addresses, or bits that no number depends on.

use std::collections::{BTreeMap, BTreeSet};

use ptx::ir::{RegId, VarId};

use super::Why;

/// What a number depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Deps {
    /// The parameters, as a mask.
    pub(super) on: u32,
    /// It was loaded from memory of numbers as it is.
    pub(super) loaded: bool,
}

/// 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// Constants, integers, and what depends on numbers by comparisons and the like.
    Plain,
    Single(Deps),
    /// A half of a `double`, which has a name.
    Part {
        high: bool,
        of: u64,
        deps: Deps,
    },
    /// Its derivative is not known.
    Lost(Why),
}

/// The memory of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Param(usize),
    Local,
    Shared,
    /// A variable of the module that is never written.
    Constant,
}

/// An address: an offset up to multiples of 16 bytes, if that is known.
pub(super) type Place = (Origin, Option<i64>);

/// The contents of a register of up to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) cells: [Cell; 2],
    pub(super) address: Option<Place>,
}

/// The contents of parameters of calls, by words.
pub(super) type Vars = BTreeMap<(VarId, i64), Cell>;

/// What is known where an instruction begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub(super) regs: Vec<Value>,
    pub(super) vars: Vars,
    pub(super) local: BTreeMap<i64, Cell>,
    /// Parameters that were stored to.
    pub(super) stored: BTreeSet<usize>,
}

impl Cell {
    /// Returns the parameters that the bits depend on, or why that is not known.
    pub(super) fn on(self) -> Result<u32, Why> {
        match self {
            Self::Plain => Ok(0),
            Self::Single(deps) | Self::Part { deps, .. } => Ok(deps.on),
            Self::Lost(why) => Err(why),
        }
    }

    /// Returns why nothing may depend on other uses of the bits; `None` if they depend on no number.
    pub(super) fn tainted(self) -> Option<Why> {
        match self.on() {
            Ok(0) => None,
            Ok(_) => Some(Why::Bits),
            Err(why) => Some(why),
        }
    }

    fn loaded(self) -> bool {
        matches!(self, Self::Single(deps) | Self::Part { deps, .. } if deps.loaded)
    }

    fn join(self, other: Self, name: u64) -> Self {
        let union = |a: Deps, b: Deps| Deps { on: a.on | b.on, loaded: a.loaded || b.loaded };
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Lost(why), _) | (_, Self::Lost(why)) => Self::Lost(why),
            (Self::Plain, Self::Single(deps)) | (Self::Single(deps), Self::Plain) => {
                Self::Single(deps)
            }
            (Self::Single(a), Self::Single(b)) => Self::Single(union(a, b)),
            (Self::Plain, Self::Part { high, deps, .. })
            | (Self::Part { high, deps, .. }, Self::Plain) => Self::Part { high, of: name, deps },
            (Self::Part { high, deps: a, .. }, Self::Part { high: other, deps: b, .. })
                if high == other =>
            {
                Self::Part { high, of: name, deps: union(a, b) }
            }
            (a, b) => match a.tainted().or(b.tainted()) {
                Some(_) => Self::Lost(Why::Bits),
                None => Self::Plain,
            },
        }
    }
}

impl Value {
    pub(super) const PLAIN: Self = Self { cells: [Cell::Plain; 2], address: None };

    pub(super) fn low(cell: Cell) -> Self {
        Self { cells: [cell, Cell::Plain], address: None }
    }

    /// A whole `double`.
    pub(super) fn double(of: u64, deps: Deps) -> Self {
        let cells = [false, true].map(|high| Cell::Part { high, of, deps });
        Self { cells, address: None }
    }

    pub(super) fn lost(why: Why) -> Self {
        Self { cells: [Cell::Lost(why); 2], address: None }
    }

    /// Returns what the `double` depends on, if it is one or bits of none.
    pub(super) fn whole(&self) -> Option<Deps> {
        match self.cells {
            [Cell::Plain, Cell::Plain] => Some(Deps::default()),
            [
                Cell::Part { high: false, of: a, deps },
                Cell::Part { high: true, of: b, deps: other },
            ] if a == b => {
                Some(Deps { on: deps.on | other.on, loaded: deps.loaded || other.loaded })
            }
            _ => None,
        }
    }

    /// Returns whether it was loaded as parts of singles, or of a `double`.
    pub(super) fn loaded_as(&self, single: bool) -> bool {
        self.cells.iter().any(|cell| cell.loaded() && matches!(cell, Cell::Single(_)) == single)
    }

    pub(super) fn join(&self, other: &Self, name: u64) -> Self {
        if self == other {
            return *self;
        }
        let address = match (self.address, other.address) {
            (Some((a, at)), Some((b, to))) if a == b => Some((a, at.filter(|_| at == to))),
            _ => None,
        };
        let plain = |value: &Self| value.cells == [Cell::Plain; 2];
        if let (Some(a), Some(b)) = (self.whole(), other.whole())
            && !(plain(self) && plain(other))
        {
            let deps = Deps { on: a.on | b.on, loaded: a.loaded || b.loaded };
            return Self { address, ..Self::double(name, deps) };
        }
        // The halves are not those of one number, so they get two names.
        let half = |at: usize| self.cells[at].join(other.cells[at], name | (at as u64) << 62);
        Self { cells: [half(0), half(1)], address }
    }
}

impl State {
    pub(super) fn get(&self, reg: RegId) -> Value {
        self.regs[reg.index()]
    }

    /// Adds what another way leads to; whether that changes anything.
    pub(super) fn join(&mut self, other: &Self, site: u64) -> bool {
        let before = self.clone();
        for (at, (value, more)) in self.regs.iter_mut().zip(&other.regs).enumerate() {
            *value = value.join(more, (site << 20) | at as u64);
        }
        let name = |at: i64| (site << 20) | (1 << 19) | at.unsigned_abs();
        join_maps(&mut self.vars, &other.vars, |&(var, at)| name(at + i64::from(var.0) * 64));
        join_maps(&mut self.local, &other.local, |&at| name(at));
        self.stored.extend(&other.stored);
        *self != before
    }
}

fn join_maps<K: Ord + Copy>(
    map: &mut BTreeMap<K, Cell>,
    more: &BTreeMap<K, Cell>,
    name: impl Fn(&K) -> u64,
) {
    let keys: BTreeSet<K> = map.keys().chain(more.keys()).copied().collect();
    for key in keys {
        let [a, b] = [&*map, more].map(|map| map.get(&key).copied().unwrap_or(Cell::Plain));
        map.insert(key, a.join(b, name(&key)));
    }
}
