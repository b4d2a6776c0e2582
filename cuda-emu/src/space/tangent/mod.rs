//! The tangents of memory, for each 2 bytes by host address.

pub(crate) mod lost;
pub(crate) mod unit;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lost::Origins;
use unit::Unit;

/// Bytes of memory of a page.
const PAGE: u64 = 4096;
/// Units of a page.
const UNITS: usize = (PAGE / 2) as usize;

/// The tangents of a space. Only memory with tangents other than zero takes pages.
#[derive(Debug, Default)]
pub(crate) struct TangentStore(Mutex<Held>);

/// The state behind the lock.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pages: HashMap<u64, Box<[Unit; UNITS]>, BuildHasherDefault<PageHasher>>,
    /// The units of arguments, by kernel and offset.
    pub(crate) arguments: HashMap<String, HashMap<u64, Vec<Unit>>>,
    pub(crate) origins: Origins,
}

impl TangentStore {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hashes numbers of pages, which nobody chooses to collide: each 2 bytes of an access look one up.
#[derive(Debug, Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Held {
    /// Returns whether all memory is constant, as far as no entry says otherwise.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns the unit of the 2 bytes that hold the byte at an address.
    pub(crate) fn get(&self, at: u64) -> Unit {
        self.pages.get(&(at / PAGE)).map_or(0, |page| page[(at % PAGE / 2) as usize])
    }

    /// Sets the unit of the 2 bytes that hold the byte at an address.
    pub(crate) fn put(&mut self, at: u64, unit: Unit) {
        if unit == 0 {
            if let Some(page) = self.pages.get_mut(&(at / PAGE)) {
                page[(at % PAGE / 2) as usize] = 0;
            }
        } else {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Box::new([0; UNITS]));
            page[(at % PAGE / 2) as usize] = unit;
        }
    }

    /// Makes bytes constants.
    pub(crate) fn clear(&mut self, start: u64, bytes: u64) {
        let Some(last) = bytes.checked_sub(1).map(|more| start.saturating_add(more)) else {
            return;
        };
        let (first, last_page) = (start / PAGE, last / PAGE);
        let clear_page = |number: u64, page: &mut [Unit; UNITS]| {
            let from = start.saturating_sub(number * PAGE) / 2;
            let to = (last - number * PAGE).min(PAGE - 1) / 2;
            page[from as usize..=to as usize].fill(0);
            from == 0 && to as usize == UNITS - 1
        };
        if last_page - first < self.pages.len() as u64 {
            for number in first..=last_page {
                if self.pages.get_mut(&number).is_some_and(|page| clear_page(number, page)) {
                    self.pages.remove(&number);
                }
            }
        } else {
            self.pages.retain(|&number, page| {
                !(first..=last_page).contains(&number) || !clear_page(number, page)
            });
        }
    }

    /// Moves the tangents of copied bytes. The ranges may overlap. Where the one begins at an even address and the
    /// other does not, 2 bytes of the destination are parts of two units of the source, which are no number.
    pub(crate) fn copy(&mut self, from: u64, to: u64, bytes: u64) {
        let held = if from % 2 == to % 2 { self.held(from, bytes) } else { Vec::new() };
        self.clear(to, bytes);
        for (offset, unit) in held {
            self.put(to + offset, unit);
        }
    }

    /// Returns the units other than zero that begin in a range, with their offsets.
    fn held(&self, start: u64, bytes: u64) -> Vec<(u64, Unit)> {
        let end = start.saturating_add(bytes);
        let of = |number: u64| {
            let page = self.pages.get(&number)?;
            let units = (number * PAGE..).step_by(2).zip(page.iter());
            let inside = move |&(at, &unit): &(u64, &Unit)| unit != 0 && at >= start && at < end;
            Some(units.filter(inside).map(move |(at, &unit)| (at - start, unit)))
        };
        let numbers = start / PAGE..end.div_ceil(PAGE);
        if (numbers.end - numbers.start) < self.pages.len() as u64 {
            numbers.filter_map(of).flatten().collect()
        } else {
            let inside = |number: &&u64| numbers.contains(*number);
            self.pages.keys().filter(inside).filter_map(|&number| of(number)).flatten().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, PAGE};

    const BASE: u64 = 0x7000_0000;

    #[test]
    fn ranges_are_cleared_and_moved() {
        for (bytes, offset) in [(0, 0), (1, 2), (31, 30), (32, PAGE - 10), (33, 6), (3 * PAGE, 8)] {
            let mut held = Held::default();
            (0..4 * PAGE).step_by(2).for_each(|at| held.put(BASE + at, at + 1));
            held.copy(BASE, BASE + 8 * PAGE + offset, bytes);
            for at in (0..4 * PAGE).step_by(2) {
                let wanted = if at < bytes { at + 1 } else { 0 };
                assert_eq!(held.get(BASE + 8 * PAGE + offset + at), wanted, "{at} of {bytes}");
            }
            held.clear(BASE + offset, bytes);
            for at in (0..4 * PAGE).step_by(2) {
                let cleared = (offset..offset + bytes).contains(&at);
                assert_eq!(held.get(BASE + at), if cleared { 0 } else { at + 1 }, "{at}, {bytes}");
            }
        }
    }

    #[test]
    fn a_move_may_overlap_itself() {
        let mut held = Held::default();
        (0..100).for_each(|at| held.put(BASE + 2 * at, at + 1));
        held.copy(BASE, BASE + 40, 100);
        let got: Vec<u64> = (0..100).map(|at| held.get(BASE + 2 * at)).collect();
        let wanted = |at: u64| if (20..70).contains(&at) { at - 19 } else { at + 1 };
        assert_eq!(got, (0..100).map(wanted).collect::<Vec<_>>());
        held.copy(BASE + 1, BASE + 200, 10);
        assert_eq!((0..5).map(|at| held.get(BASE + 200 + 2 * at)).sum::<u64>(), 0);
        held.clear(0, u64::MAX);
        assert!(held.pages.is_empty());
    }
}
