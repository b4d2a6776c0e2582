//! Lists of different lengths, one after the other: compressed sparse rows.

use rayon::prelude::*;

/// The results of each query, one list after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lists {
    /// The start of each list, and at the end the number of all results: one more than queries.
    pub offsets: Vec<u64>,
    /// The indices of the results: those of query i are `indices[offsets[i]..offsets[i + 1]]`.
    pub indices: Vec<u32>,
}

/// Tasks that a thread takes at once.
const AT_ONCE: usize = 256;

/// The lists of some tasks: the query of each, where its list is, and all lists.
#[derive(Default)]
struct Part {
    queries: Vec<(u32, usize)>,
    elements: Vec<u32>,
}

impl Lists {
    /// Makes the lists of `n` queries. `list` appends the list of task i, of as many, and returns whose list it is:
    /// each query below n has at most one task.
    pub(crate) fn new(n: usize, list: impl Fn(usize, &mut Vec<u32>) -> u32 + Sync) -> Self {
        let parts: Vec<Part> = (0..n.div_ceil(AT_ONCE))
            .into_par_iter()
            .map(|part| {
                let mut out = Part::default();
                for task in part * AT_ONCE..n.min((part + 1) * AT_ONCE) {
                    let begin = out.elements.len();
                    let query = list(task, &mut out.elements);
                    out.queries.push((query, begin));
                }
                out
            })
            .collect();
        let mut places: Vec<&[u32]> = vec![&[]; n];
        for part in &parts {
            let ends = part.queries.iter().skip(1).map(|(_, begin)| *begin);
            let ends = ends.chain(std::iter::once(part.elements.len()));
            for ((query, begin), end) in part.queries.iter().zip(ends) {
                if let (Some(place), Some(list)) =
                    (places.get_mut(*query as usize), part.elements.get(*begin..end))
                {
                    *place = list;
                }
            }
        }
        let mut offsets = Vec::with_capacity(n + 1);
        let mut total = 0;
        offsets.push(total);
        offsets.extend(places.iter().map(|list| {
            total += list.len() as u64;
            total
        }));
        Self { offsets, indices: places.concat() }
    }

    /// Copies the lists to the caller's memory, of one offset more than queries; indices beyond the end are left out.
    pub(crate) fn copy_to(&self, offsets: &mut [u64], indices: &mut [u32]) {
        offsets.copy_from_slice(&self.offsets);
        let n = self.indices.len().min(indices.len());
        indices[..n].copy_from_slice(&self.indices[..n]);
    }
}
