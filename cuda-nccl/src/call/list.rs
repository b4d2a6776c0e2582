//! Lists of a group: of few ranks and calls, as most groups are, they are not on the heap, where ten lists would cost as much as
//! all else.

use smallvec::SmallVec;

/// A list with room for some elements.
pub(crate) type List<T> = SmallVec<[T; 4]>;
