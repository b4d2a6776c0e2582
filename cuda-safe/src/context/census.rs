//! Counts the live objects of a context by kind, so that `close` can name those that are left.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The kinds of objects that are counted. Buffers hold their home stream, kernels their module; all others hold the
/// context themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// A piece of memory, with any number of handles.
    Buffer,
    Stream,
    Event,
    Pinned,
    Module,
    Kernel,
    Graph,
    /// A second shape that a graph keeps, which does not count as a graph.
    Shape,
}

const KINDS: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Census([AtomicUsize; KINDS]);

impl Census {
    pub(crate) fn add(&self, kind: Counted) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, kind: Counted) {
        self.0[kind as usize].fetch_sub(1, Ordering::Relaxed);
    }

    fn get(&self, kind: Counted) -> usize {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    /// Names what holds a context that is held `others` times: `2 buffers, 1 stream and 1 other handle
    /// to it`.
    pub(super) fn describe(&self, others: usize) -> String {
        use Counted::{Buffer, Event, Graph, Kernel, Module, Pinned, Shape, Stream};
        let direct = [Stream, Event, Pinned, Module, Graph, Shape].map(|kind| self.get(kind));
        let handles = others.saturating_sub(direct.iter().sum());
        list(&[
            (self.get(Buffer), "buffer"),
            (self.get(Pinned), "pinned buffer"),
            (self.get(Stream), "stream"),
            (self.get(Event), "event"),
            (self.get(Kernel), "kernel"),
            (self.get(Module), "module"),
            (self.get(Graph), "graph"),
            (handles, "other handle"),
        ])
    }
}

/// Names counts of things, leaving out what there is none of. The last is of handles to what the
/// text is about.
pub(crate) fn list(counts: &[(usize, &str)]) -> String {
    let last = counts.len().saturating_sub(1);
    let mut left = counts.iter().filter(|(count, _)| *count > 0).count();
    let mut text = String::new();
    for (place, (count, name)) in counts.iter().enumerate() {
        if *count == 0 {
            continue;
        }
        left -= 1;
        let plural = if *count == 1 { "" } else { "s" };
        let of = if place == last { " to it" } else { "" };
        let separator = match (text.is_empty(), left) {
            (true, _) => "",
            (false, 0) => " and ",
            (false, _) => ", ",
        };
        // Writing to a string can't fail.
        let _ = write!(text, "{separator}{count} {name}{plural}{of}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_with_their_counts() {
        let census = Census::default();
        assert_eq!(census.describe(3), "3 other handles to it");
        census.add(Counted::Kernel);
        census.add(Counted::Module);
        census.add(Counted::Stream);
        census.add(Counted::Graph);
        census.add(Counted::Shape);
        census.add(Counted::Buffer);
        census.add(Counted::Buffer);
        assert_eq!(
            census.describe(5),
            "2 buffers, 1 stream, 1 kernel, 1 module, 1 graph and 1 other handle to it"
        );
        census.remove(Counted::Buffer);
        census.remove(Counted::Kernel);
        census.remove(Counted::Graph);
        census.remove(Counted::Shape);
        census.remove(Counted::Module);
        assert_eq!(census.describe(1), "1 buffer and 1 stream");
        census.remove(Counted::Buffer);
        assert_eq!(census.describe(2), "1 stream and 1 other handle to it");
    }
}
