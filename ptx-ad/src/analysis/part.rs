//! Accesses to less than a number.

use super::{Kinds, Pointers};
use crate::spec::Reals;

/// Returns whether less than 32 bits at an offset belong to a number that is active.
pub(crate) fn is_part_of_number(
    pointers: &Pointers,
    kinds: &Kinds,
    index: usize,
    form: &super::Form,
    at: i64,
    bytes: u32,
) -> bool {
    let Some(pointer) = pointers.get(index).filter(|pointer| pointer.slot.is_some()) else {
        return false;
    };
    match pointer.spec.reals {
        None => false,
        Some(Reals::All(_)) => true,
        Some(Reals::Some(_)) => form
            .within(u64::from(pointer.spec.size), at)
            .is_none_or(|within| kinds.has_number_at(index, within, u64::from(bytes))),
    }
}
