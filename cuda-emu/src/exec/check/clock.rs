//! Vector clocks: the accesses of other threads that are ordered before a thread.

use std::sync::Arc;

use crate::exec::inst::{LANES, lanes};

/// The children of a node, and the lanes of a warp.
pub(super) const WIDE: usize = LANES;

/// Up to which counter the accesses of every thread are known: a tree over the warps of the launch.
///
/// Threads that met know the same, and others mostly the same: trees share all parts in which they agree, so
/// that to learn what another knows costs as much as the two differ.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    root: Option<Arc<Node>>,
}

#[derive(Debug, Clone)]
enum Node {
    Inner([Option<Arc<Node>>; WIDE]),
    /// The counters of a warp's lanes.
    Lanes([u32; LANES]),
}

/// Where a warp is in the tree: its number in the launch, and the levels of inner nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) number: u64,
    pub(super) levels: u32,
}

impl Place {
    /// Returns the child to go to at a level, counted from the lanes.
    fn child(self, level: u32) -> usize {
        (self.number / (WIDE as u64).saturating_pow(level - 1)) as usize % WIDE
    }
}

/// Returns whether both are the same node.
fn same(a: Option<&Arc<Node>>, b: Option<&Arc<Node>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Returns the greater of both everywhere. Whether that is all `theirs`: then it is shared.
fn join(mine: &mut Option<Arc<Node>>, theirs: Option<&Arc<Node>>) -> bool {
    let Some(theirs) = theirs else { return mine.is_none() };
    let Some(node) = mine else {
        *mine = Some(Arc::clone(theirs));
        return true;
    };
    if Arc::ptr_eq(node, theirs) {
        return true;
    }
    let (mut less, mut more, mut children) = (false, false, Vec::new());
    match (&**node, &**theirs) {
        (Node::Lanes(a), Node::Lanes(b)) => {
            for (a, b) in a.iter().zip(b) {
                less |= a < b;
                more |= a > b;
            }
        }
        (Node::Inner(a), Node::Inner(b)) => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                if same(a.as_ref(), b.as_ref()) {
                    continue;
                }
                let mut child = a.clone();
                more |= !join(&mut child, b.as_ref());
                if !same(a.as_ref(), child.as_ref()) {
                    less = true;
                    children.push((at, child));
                }
            }
        }
        // All trees of a launch have the same levels.
        _ => return false,
    }
    if !more {
        *node = Arc::clone(theirs);
    } else if less {
        match (Arc::make_mut(node), &**theirs) {
            (Node::Inner(mine), _) => children.into_iter().for_each(|(at, node)| mine[at] = node),
            (Node::Lanes(mine), Node::Lanes(theirs)) => {
                mine.iter_mut().zip(theirs).for_each(|(a, &b)| *a = b.max(*a));
            }
            _ => {}
        }
    }
    !more
}

impl Clock {
    /// Up to which counter the accesses of a thread are known; 0 is before the first.
    pub(super) fn known(&self, place: Place, lane: u32) -> u32 {
        let mut node = self.root.as_deref();
        let mut level = place.levels;
        loop {
            match node {
                None => return 0,
                Some(Node::Lanes(counters)) => return counters[lane as usize % LANES],
                Some(Node::Inner(children)) => node = children[place.child(level)].as_deref(),
            }
            level -= 1;
        }
    }

    /// Returns whether it is the same tree as another: then both have learned the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        same(self.root.as_ref(), other.root.as_ref())
    }

    /// Merges the other clock into this one.
    pub(super) fn join(&mut self, other: &Self) {
        join(&mut self.root, other.root.as_ref());
    }

    /// Learns of the accesses of some lanes up to a counter.
    pub(super) fn raise(&mut self, place: Place, mask: u32, counter: u32) {
        let mut node = &mut self.root;
        for level in (1..=place.levels).rev() {
            let empty = || Arc::new(Node::Inner([const { None }; WIDE]));
            match Arc::make_mut(node.get_or_insert_with(empty)) {
                Node::Inner(children) => node = &mut children[place.child(level)],
                Node::Lanes(_) => return,
            }
        }
        let empty = || Arc::new(Node::Lanes([0; LANES]));
        if let Node::Lanes(counters) = Arc::make_mut(node.get_or_insert_with(empty)) {
            lanes(mask).for_each(|lane| counters[lane] = counters[lane].max(counter));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Place};

    #[test]
    fn trees_are_as_a_list_of_counters_would_be() {
        const WARPS: usize = 70;
        let mut clocks: Vec<(Clock, Vec<[u32; 32]>)> =
            vec![(Clock::default(), vec![[0; 32]; WARPS]); 4];
        let mut random = 1_u32;
        let mut below = |end: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as usize % end
        };
        for round in 0..20_000 {
            let (a, b) = (below(4), below(4));
            let place = |warp: usize| Place { number: warp as u64, levels: 2 };
            if below(3) == 0 {
                let (other, list) = clocks[b].clone();
                let (clock, mine) = &mut clocks[a];
                clock.join(&other);
                for (mine, theirs) in mine.iter_mut().flatten().zip(list.iter().flatten()) {
                    *mine = (*mine).max(*theirs);
                }
                if *mine == list {
                    assert!(clock.is(&other), "equal and not shared");
                }
            } else {
                let (warp, lane, counter) = (below(WARPS), below(32), below(1000) as u32);
                clocks[a].0.raise(place(warp), 1 << lane, counter);
                let known = &mut clocks[a].1[warp][lane];
                *known = counter.max(*known);
            }
            if round % 64 == 0 {
                for (warp, counters) in clocks[a].1.iter().enumerate() {
                    for (lane, &counter) in counters.iter().enumerate() {
                        assert_eq!(clocks[a].0.known(place(warp), lane as u32), counter);
                    }
                }
            }
        }
    }
}
