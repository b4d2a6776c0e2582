//! Follows all offsets of a grid as a device does, without checks, but never leaves the grid's bytes: a read outside of
//! them panics.

use crate::nvdb::layouts::{
    self, BLIND_SIZE, INDEX, LOWER_CHILDREN, Layout, ON_INDEX, UPPER_CHILDREN, head,
};

/// A grid's bytes. Addresses are those of a device: unsigned, and sums wrap around.
struct Memory<'a> {
    bytes: &'a [u8],
}

impl Memory<'_> {
    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        self.inside(at, N as u64);
        let at = at as usize;
        self.bytes[at..at + N].try_into().expect("N bytes")
    }

    fn u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.read(at))
    }

    fn u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.read(at))
    }

    fn inside(&self, at: u64, size: u64) {
        let len = self.bytes.len() as u64;
        let inside = at.checked_add(size).is_some_and(|end| end <= len);
        assert!(inside, "{size} bytes at {at} of {len}");
    }

    /// A node: inside, and aligned as devices expect it.
    fn node(&self, at: u64, size: usize) {
        self.inside(at, size as u64);
        assert!(at.is_multiple_of(32), "a node at byte {at}");
    }
}

/// Follows everything in an accepted grid: how many nodes there are.
pub fn follow(bytes: &[u8], points: &[[i32; 3]]) -> usize {
    let memory = Memory { bytes };
    assert_eq!(memory.u64(head::GRID_SIZE as u64), bytes.len() as u64);
    let code = memory.u32(head::TYPE as u64);
    let layout = layouts::of(code).expect("a supported type");
    let tree = Tree {
        root: (head::TREE as u64).wrapping_add(memory.u64(head::TREE as u64 + 24)),
        values: match code {
            INDEX | ON_INDEX => memory.u64(head::VALUE_COUNT as u64),
            _ => u64::MAX,
        },
        memory,
        layout,
    };
    tree.arrays();
    tree.blind();
    for point in points {
        tree.find(*point);
    }
    tree.walk()
}

struct Tree<'a> {
    memory: Memory<'a>,
    layout: Layout,
    root: u64,
    /// How many values there are, if values are indices.
    values: u64,
}

impl Tree<'_> {
    fn is_index(&self) -> bool {
        self.values != u64::MAX
    }

    /// Nodes of a level, as code finds them that takes them in their order.
    fn arrays(&self) {
        let sizes = [self.layout.leaf_size, self.layout.lower_size, self.layout.upper_size];
        for (level, size) in sizes.into_iter().enumerate() {
            let level = level as u64;
            let count = self.memory.u32(head::NODE_COUNTS as u64 + 4 * level);
            let first = self.memory.u64(head::TREE as u64 + 8 * level);
            let first = first.wrapping_add(head::TREE as u64);
            if count != 0 {
                self.memory.node(first, count as usize * size);
            }
        }
    }

    fn blind(&self) {
        let first = self.memory.u64(head::BLIND_OFFSET as u64);
        let count = self.memory.u32(head::BLIND_COUNT as u64);
        let version = self.memory.u32(head::VERSION as u64);
        for n in 0..u64::from(count) {
            let at = first.wrapping_add(n * BLIND_SIZE as u64);
            self.memory.inside(at, BLIND_SIZE as u64);
            let data = at.wrapping_add(self.memory.u64(at));
            let values = self.memory.u64(at + 8);
            // Before 32.6 there are flags in place of the values' size, which is a byte at least.
            let size = match version >= 32 << 21 | 6 << 10 {
                true => u64::from(self.memory.u32(at + 16)),
                false => 1,
            };
            self.memory.inside(data, values.checked_mul(size).expect("a size"));
            assert!((0..256).any(|n| self.memory.read::<1>(at + 32 + n) == [0]), "a name's end");
        }
    }

    fn tiles(&self) -> impl Iterator<Item = u64> + '_ {
        self.memory.node(self.root, self.layout.root_size);
        let count = u64::from(self.memory.u32(self.root + 24));
        let first = self.root + self.layout.root_size as u64;
        (0..count).map(move |n| first + n * self.layout.tile_size as u64)
    }

    fn walk(&self) -> usize {
        let mut nodes = 0;
        for tile in self.tiles() {
            self.memory.inside(tile, self.layout.tile_size as u64);
            match self.memory.u64(tile + 8) {
                0 => self.value(tile + self.layout.tile_value as u64),
                child => nodes += self.upper(self.root.wrapping_add(child)),
            }
        }
        nodes
    }

    fn upper(&self, at: u64) -> usize {
        self.memory.node(at, self.layout.upper_size);
        let table = self.layout.upper_table;
        let lower = |child| self.lower(child);
        1 + self.children(at, UPPER_CHILDREN, table, 32_768, lower)
    }

    fn lower(&self, at: u64) -> usize {
        self.memory.node(at, self.layout.lower_size);
        let table = self.layout.lower_table;
        let leaf = |child| self.leaf(child);
        1 + self.children(at, LOWER_CHILDREN, table, 4096, leaf)
    }

    fn children(
        &self,
        at: u64,
        mask: usize,
        table: usize,
        entries: u64,
        child: impl Fn(u64) -> usize,
    ) -> usize {
        let place = |n: u64| at + table as u64 + n * self.layout.stride as u64;
        let mut nodes = 0;
        for word in 0..entries / 64 {
            let bits = self.memory.u64(at + mask as u64 + 8 * word);
            let mut left = bits;
            while left != 0 {
                let entry = 64 * word + u64::from(left.trailing_zeros());
                nodes += child(at.wrapping_add(self.memory.u64(place(entry))));
                left &= left - 1;
            }
            if self.is_index() {
                (0..64).filter(|bit| bits >> bit & 1 == 0).for_each(|bit| {
                    self.value(place(64 * word + bit));
                });
            }
        }
        nodes
    }

    fn leaf(&self, at: u64) -> usize {
        self.memory.node(at, self.layout.leaf_size);
        if self.is_index() {
            (0..512).for_each(|n| self.index_in_leaf(at, n));
        }
        1
    }

    /// The value at a place outside of leaves: an index has to be one.
    fn value(&self, at: u64) {
        if self.is_index() {
            let index = self.memory.u64(at);
            assert!(index < self.values, "index {index} of {}", self.values);
        }
    }

    fn index_in_leaf(&self, at: u64, n: u64) {
        let values = at + self.layout.leaf_values as u64;
        let first = self.memory.u64(values);
        let index = if self.layout.code == INDEX {
            first.wrapping_add(n)
        } else {
            let word = self.memory.u64(at + 16 + 8 * (n / 64));
            if word >> (n % 64) & 1 == 0 {
                return;
            }
            // Nine bits for each word but the first: how many bits are set before it.
            let packed = self.memory.u64(values + 8);
            let before = if n < 64 { 0 } else { packed >> (9 * (n / 64 - 1)) & 511 };
            let within = (word & ((1 << (n % 64)) - 1)).count_ones();
            first.wrapping_add(before).wrapping_add(u64::from(within))
        };
        assert!(index < self.values, "index {index} of {}", self.values);
    }

    /// The lookup of a voxel.
    fn find(&self, [i, j, k]: [i32; 3]) {
        let key = |i: i32| u64::from(i as u32 >> 12);
        let key = key(k) | key(j) << 21 | key(i) << 42;
        let Some(tile) = self.tiles().find(|tile| self.memory.u64(*tile) == key) else {
            return;
        };
        let child = self.memory.u64(tile + 8);
        if child == 0 {
            return self.value(tile + self.layout.tile_value as u64);
        }
        let entry = |shift: u32, bits: u32| {
            let axis = |i: i32| (i as u32 >> shift & ((1 << bits) - 1)) as u64;
            axis(i) << (2 * bits) | axis(j) << bits | axis(k)
        };
        let mut at = self.root.wrapping_add(child);
        let levels = [
            (UPPER_CHILDREN, self.layout.upper_table, entry(7, 5)),
            (LOWER_CHILDREN, self.layout.lower_table, entry(3, 4)),
        ];
        for (mask, table, n) in levels {
            let place = at + table as u64 + n * self.layout.stride as u64;
            let bits = self.memory.u64(at + mask as u64 + 8 * (n / 64));
            if bits >> (n % 64) & 1 == 0 {
                return self.value(place);
            }
            at = at.wrapping_add(self.memory.u64(place));
        }
        self.memory.node(at, self.layout.leaf_size);
        if self.is_index() {
            self.index_in_leaf(at, entry(0, 3));
        }
    }
}
