//! `geom_kernels::algorithms`.

use cuda_safe::DeviceBuffer;
use geom_kernels::algorithms::{Algorithms, Key, Number, Offset, Scan, SelectFlag, Selectable};

use super::{Got, Lab, Plain};

/// The sorts of a lab, with scratch from the pool.
pub(in super::super) fn sorts(lab: &Lab) -> Algorithms<'static> {
    lab.geometry.algorithms()
}

/// Room that is enough for all calls here with `n` elements.
pub(in super::super) fn scratch<K: Key>(lab: &Lab, n: usize) -> Got<DeviceBuffer<u8>> {
    let sizes = [
        Algorithms::keys_scratch::<K>(n, ..)?,
        Algorithms::pairs_scratch::<K>(n, ..)?,
        Algorithms::argsort_scratch::<K>(n, ..)?,
        Algorithms::scan_scratch(n),
        Algorithms::select_scratch(n),
        Algorithms::reduce_scratch::<f64>(n),
    ];
    lab.room(sizes.into_iter().max().unwrap_or(0))
}

/// The same sorts with scratch of the caller's.
pub(in super::super) fn within<'s>(
    sort: &Algorithms<'_>,
    scratch: &'s mut DeviceBuffer<u8>,
) -> Algorithms<'s> {
    sort.with_scratch(scratch)
}

pub(in super::super) fn sorted_keys<K: Key + Plain>(
    lab: &Lab,
    sort: &Algorithms<'_>,
    keys: &DeviceBuffer<K>,
    bits: std::ops::Range<u32>,
) -> Got<Vec<K>> {
    lab.filled(keys.len(), |sorted| sort.sort_keys(&lab.stream, keys, sorted, bits))
}

pub(in super::super) fn sorted_pairs<K: Key + Plain>(
    lab: &Lab,
    sort: &Algorithms<'_>,
    (keys, values): (&DeviceBuffer<K>, &DeviceBuffer<u32>),
    bits: std::ops::Range<u32>,
) -> Got<(Vec<K>, Vec<u32>)> {
    let n = keys.len();
    lab.filled_both((n, n), |sorted, sorted_values| {
        sort.sort_pairs(&lab.stream, (keys, values), (sorted, sorted_values), bits)
    })
}

pub(in super::super) fn argsorted<K: Key + Plain>(
    lab: &Lab,
    sort: &Algorithms<'_>,
    keys: &DeviceBuffer<K>,
    bits: std::ops::Range<u32>,
) -> Got<Vec<u32>> {
    lab.filled(keys.len(), |order| sort.argsort(&lab.stream, keys, order, bits))
}

/// Sum, least and greatest.
pub(in super::super) fn reductions<T: Number + Plain>(
    lab: &Lab,
    sort: &Algorithms<'_>,
    of: &DeviceBuffer<T>,
) -> Got<Vec<T>> {
    let sum = lab.filled(1, |out| sort.sum(&lab.stream, of, out))?;
    let least = lab.filled(1, |out| sort.min(&lab.stream, of, out))?;
    let most = lab.filled(1, |out| sort.max(&lab.stream, of, out))?;
    Ok([sum, least, most].concat())
}

/// Exclusive and inclusive sums.
pub(in super::super) fn scans<T: Scan + Plain>(
    lab: &Lab,
    sort: &Algorithms<'_>,
    of: &DeviceBuffer<T>,
) -> Got<(Vec<T>, Vec<T>)> {
    let n = of.len();
    Ok((
        lab.filled(n, |sums| sort.exclusive_scan(&lab.stream, of, sums))?,
        lab.filled(n, |sums| sort.inclusive_scan(&lab.stream, of, sums))?,
    ))
}

pub(in super::super) fn offsets<O: Offset + Plain>(
    lab: &Lab,
    sort: &Algorithms<'_>,
    counts: &DeviceBuffer<u32>,
) -> Got<Vec<O>> {
    lab.filled(counts.len() + 1, |offsets| sort.offsets(&lab.stream, counts, offsets))
}

/// What is selected, into `room` elements, and how many there were.
pub(in super::super) fn selected<F: SelectFlag, T: Selectable + Plain>(
    lab: &Lab,
    sort: &Algorithms<'_>,
    (flags, elements): (&DeviceBuffer<F>, &DeviceBuffer<T>),
    room: usize,
) -> Got<(Vec<T>, Vec<u32>)> {
    lab.filled_both((room, 1), |selected, number| {
        sort.select(&lab.stream, flags, elements, selected, number)
    })
}

pub(in super::super) fn selected_places<F: SelectFlag>(
    lab: &Lab,
    sort: &Algorithms<'_>,
    flags: &DeviceBuffer<F>,
    room: usize,
) -> Got<(Vec<u32>, Vec<u32>)> {
    lab.filled_both((room, 1), |places, number| {
        sort.select_indices(&lab.stream, flags, places, number)
    })
}
