//! Blind data: arrays that a grid carries along.

use crate::Version;
use crate::bytes::Fields;
use crate::error::{Flaw, Result};
use crate::layout::{NodeLayout, head};
use crate::tree::Shape;

const CLASS_NAME: u32 = 3;

/// Where blind data is, in bytes from the grid's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blind {
    /// Its descriptor.
    pub(crate) meta: usize,
    /// The data.
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) value_size: usize,
    pub(crate) class: u32,
}

impl Blind {
    pub(crate) fn is_name(&self) -> bool {
        self.class == CLASS_NAME
    }
}

/// Returns the bytes of blind data.
pub(crate) fn blind_data<'a>(bytes: &'a [u8], blind: &Blind) -> &'a [u8] {
    bytes.get(blind.at..blind.at.saturating_add(blind.len)).unwrap_or_default()
}

/// All of the blind data, which is inside the grid, but not in its head or its nodes.
pub(crate) fn check(bytes: &[u8], shape: &Shape, layout: &NodeLayout) -> Result<Vec<Blind>> {
    let count = bytes.u32(head::BLIND_COUNT) as usize;
    if count == 0 {
        return Ok(Vec::new());
    }
    let flaw = |what: String, at: usize| Flaw::new("blind", what).at(at);
    let occupied = occupied(shape, layout);
    let free = |at: usize, len: usize| {
        let end = at.checked_add(len).filter(|end| at >= head::SIZE && *end <= bytes.len());
        end.is_some_and(|end| {
            occupied.iter().all(|(from, to)| end <= *from || *to <= at || len == 0)
        })
    };
    let offset = bytes.i64(head::BLIND_OFFSET);
    let first = usize::try_from(offset).ok();
    let size = count.checked_mul(head::BLIND_SIZE);
    let (Some(first), Some(_)) =
        (first, size.filter(|size| first.is_some_and(|at| free(at, *size))))
    else {
        let what = format!("{count} descriptions of blind data at byte {offset} are not between");
        return Err(flaw(what, head::BLIND_OFFSET).into());
    };
    if first % 8 != 0 {
        return Err(flaw(format!("an offset of {offset} bytes"), head::BLIND_OFFSET).into());
    }
    let version = Version::from_code(bytes.u32(head::VERSION));
    (0..count)
        .map(|n| {
            let meta = first + n * head::BLIND_SIZE;
            let data_type = bytes.u32(meta + 28);
            // Older versions have flags where newer ones have the values' size.
            let value_size = match version >= Version::INDEX {
                true => bytes.u32(meta + 16) as usize,
                false => type_size(data_type),
            };
            let values = bytes.u64(meta + 8);
            let offset = bytes.i64(meta);
            let at = usize::try_from(offset).ok().and_then(|offset| meta.checked_add(offset));
            let len = usize::try_from(values).ok().and_then(|n| n.checked_mul(value_size));
            let (Some(at), Some(len)) = (at, len) else {
                let what = format!("{values} values at {offset} bytes from their description");
                return Err(flaw(what, meta).into());
            };
            if !free(at, len) {
                let what = format!("{len} bytes of blind data at byte {at} are not between");
                return Err(flaw(what, meta).into());
            }
            if !(0..256).any(|n| bytes.u8(meta + 32 + n) == 0) {
                return Err(flaw("the name of blind data has no end".to_owned(), meta).into());
            }
            Ok(Blind { meta, at, len, value_size, class: bytes.u32(meta + 24) })
        })
        .collect()
}

/// Returns where the head and the nodes are.
fn occupied(shape: &Shape, layout: &NodeLayout) -> [(usize, usize); 5] {
    let sizes = [layout.leaf_size, layout.lower_size, layout.upper_size, layout.tile_size];
    let nodes = |n: usize| {
        let root = if n == 3 { layout.root_size } else { 0 };
        (shape.first[n], shape.first[n] + root + shape.count[n] * sizes[n])
    };
    [(0, head::SIZE), nodes(0), nodes(1), nodes(2), nodes(3)]
}

/// Bytes of a value of a type that blind data can have; those of types without values count as
/// characters.
pub(crate) fn type_size(code: u32) -> usize {
    match code {
        1 | 4 | 10 | 12 => 4,
        2 | 5 | 19 | 20 => 8,
        3 | 9 | 15 => 2,
        6 => 12,
        7 => 24,
        17 => 16,
        18 => 32,
        24 => 3,
        25 => 6,
        _ => 1,
    }
}
