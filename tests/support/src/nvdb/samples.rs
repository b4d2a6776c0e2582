//! Small grids of all kinds, made byte by byte, and what their fields mean.

use crate::nvdb::layouts::{
    self, BLIND_SIZE, INDEX, LOWER_CHILDREN, Layout, ON_INDEX, UPPER_CHILDREN, VALUE_MASK, head,
};

/// The kind of a field, for meaningful mutations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integer of four or eight bytes: a size, an offset, a count, a number of a type.
    U32,
    U64,
    /// The first of so many indices.
    Index(u64),
    F32,
    F64,
    /// A word of a mask.
    Mask,
    /// Bytes without a meaning of their own.
    Bytes(usize),
}

#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub at: usize,
    pub kind: Kind,
}

/// Fields that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Head,
    Tree,
    Root,
    Node,
    Blind,
}

/// A mask of active voxels or tiles, and the number of voxels of each of its bits.
#[derive(Debug, Clone, Copy)]
pub struct Active {
    pub mask: usize,
    pub bits: usize,
    pub voxels: u64,
}

/// A valid grid.
#[derive(Debug, Clone)]
pub struct Sample {
    pub layout: Layout,
    pub bytes: Vec<u8>,
    pub fields: Vec<(Group, Field)>,
    /// Where offsets of children are.
    pub children: Vec<usize>,
    /// Masks whose bits the head counts and nothing else does.
    pub active: Vec<Active>,
    /// Where leaves and entries of the root are.
    pub leaves: Vec<usize>,
    pub tiles: Vec<usize>,
}

/// How a sample is made.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub code: u32,
    pub minor: u32,
    /// Upper nodes; the root has an active tile, too.
    pub uppers: usize,
    pub blind: bool,
    pub checksum: bool,
}

/// Grids of all types and versions, without nodes and with, with blind data and checksums.
pub fn all() -> Vec<Sample> {
    let mut samples = Vec::new();
    for layout in layouts::all() {
        let code = layout.code;
        let minor = if code > 18 { 8 } else { [3, 8, 6][code as usize % 3] };
        let blind = code % 2 == 0;
        let plan = Plan { code, minor, uppers: 1, blind, checksum: code % 4 == 1 };
        samples.push(sample(plan));
    }
    for minor in [3, 6, 8] {
        for uppers in [0, 2] {
            let plan = Plan { code: 1, minor, uppers, blind: true, checksum: minor != 6 };
            samples.push(sample(plan));
        }
    }
    samples.push(sample(Plan { code: ON_INDEX, minor: 8, uppers: 2, blind: true, checksum: true }));
    samples
}

pub fn sample(plan: Plan) -> Sample {
    let layout = layouts::of(plan.code).expect("a supported type");
    let (uppers, lowers, leaves) = (plan.uppers, 2 * plan.uppers, 3 * plan.uppers);
    let root = head::SIZE;
    let first_upper = root + layout.root_size + (uppers + 1) * layout.tile_size;
    let first_lower = first_upper + uppers * layout.upper_size;
    let first_leaf = first_lower + lowers * layout.lower_size;
    let nodes_end = first_leaf + leaves * layout.leaf_size;
    let blinds = if plan.blind { 2 } else { 0 };
    let end = nodes_end + blinds * (BLIND_SIZE + 32);
    let mut new = Maker {
        plan,
        sample: Sample {
            layout,
            bytes: vec![0; end],
            fields: Vec::new(),
            children: Vec::new(),
            active: Vec::new(),
            leaves: Vec::new(),
            tiles: Vec::new(),
        },
        voxels: 0,
        index: 1,
    };

    new.head();
    let offset = |at: usize, count: usize| if count == 0 { 0 } else { (at - head::TREE) as u64 };
    let firsts = [(first_leaf, leaves), (first_lower, lowers), (first_upper, uppers), (root, 1)];
    for (n, (at, count)) in firsts.into_iter().enumerate() {
        new.u64(Group::Tree, head::TREE + 8 * n, offset(at, count));
    }
    for (n, count) in [leaves, lowers, uppers].into_iter().enumerate() {
        new.u32(Group::Tree, head::NODE_COUNTS + 4 * n, count as u32);
    }
    let tiles = [2 * uppers as u32, uppers as u32, 1];
    for (n, count) in tiles.into_iter().enumerate() {
        new.u32(Group::Tree, head::TILE_COUNTS + 4 * n, count);
    }

    // The root: a tile, and the upper nodes.
    new.corners(Group::Root, root, [-4096; 3], 1 << 14);
    new.u32(Group::Root, root + 24, uppers as u32 + 1);
    new.field(Group::Root, root + 28, Kind::Bytes(layout.root_size - 28));
    for n in 0..=uppers {
        let tile = root + layout.root_size + n * layout.tile_size;
        let place = [8192 - 4096 * n as i32, -4096 * n as i32, 4096 * n as i32];
        let key = |i: i32| u64::from(i as u32 >> 12);
        let key = key(place[2]) | key(place[1]) << 21 | key(place[0]) << 42;
        new.u64(Group::Root, tile, key);
        new.sample.tiles.push(tile);
        if n == 0 {
            new.u64(Group::Root, tile + 8, 0);
            new.u32(Group::Root, tile + 16, 1);
            new.value(Group::Root, tile + layout.tile_value);
            new.voxels += 1 << 36;
            continue;
        }
        let upper = first_upper + (n - 1) * layout.upper_size;
        new.child(Group::Root, tile + 8, upper - root);
        new.u32(Group::Root, tile + 16, 0);
        let lower = first_lower + 2 * (n - 1) * layout.lower_size;
        let leaf = first_leaf + 3 * (n - 1) * layout.leaf_size;
        new.upper(upper, place, lower, leaf);
    }

    new.blind(nodes_end, blinds);
    let (voxels, index) = (new.voxels, new.index);
    new.u64(Group::Tree, head::VOXEL_COUNT, voxels);
    new.u64(
        Group::Head,
        head::VALUE_COUNT,
        if plan.code > 18 && plan.code < 26 { index } else { 0 },
    );
    new.u64(Group::Head, head::CHECKSUM, u64::MAX);
    let mut sample = new.sample;
    if plan.checksum {
        sample.bytes[head::CHECKSUM] = 0;
        crate::nvdb::mutate::sum(&mut sample.bytes);
    }
    sample
}

struct Maker {
    plan: Plan,
    sample: Sample,
    voxels: u64,
    /// The next index, in grids of indices.
    index: u64,
}

impl Maker {
    fn field(&mut self, group: Group, at: usize, kind: Kind) {
        self.sample.fields.push((group, Field { at, kind }));
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.sample.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u32(&mut self, group: Group, at: usize, value: u32) {
        self.field(group, at, Kind::U32);
        self.put(at, &value.to_le_bytes());
    }

    fn u64(&mut self, group: Group, at: usize, value: u64) {
        self.field(group, at, Kind::U64);
        self.put(at, &value.to_le_bytes());
    }

    fn child(&mut self, group: Group, at: usize, offset: usize) {
        self.sample.children.push(at);
        self.u64(group, at, offset as u64);
    }

    /// A value outside of leaves.
    fn value(&mut self, group: Group, at: usize) {
        if self.plan.code == INDEX || self.plan.code == ON_INDEX {
            self.u64(group, at, self.index);
            self.index += 1;
        } else {
            self.field(group, at, Kind::Bytes(4));
            self.put(at, &[0, 0, 0x80]);
        }
    }

    fn corners(&mut self, group: Group, at: usize, place: [i32; 3], size: i32) {
        for (axis, least) in place.into_iter().enumerate() {
            self.u32(group, at + 4 * axis, least as u32);
            self.u32(group, at + 12 + 4 * axis, (least + size - 1) as u32);
        }
    }

    fn head(&mut self) {
        let Plan { code, minor, .. } = self.plan;
        let magic = if minor < 6 { b"NanoVDB0" } else { b"NanoVDB1" };
        self.put(0, magic);
        self.field(Group::Head, 0, Kind::Bytes(8));
        self.u32(Group::Head, head::VERSION, 32 << 21 | minor << 10);
        self.u32(Group::Head, 20, 0x20);
        self.u32(Group::Head, 24, 0);
        self.u32(Group::Head, 28, 1);
        let len = self.sample.bytes.len() as u64;
        self.u64(Group::Head, head::GRID_SIZE, len);
        self.put(head::NAME, b"a grid");
        self.field(Group::Head, head::NAME, Kind::Bytes(256));
        // Half as large, and back; once in single precision and once in double.
        let entries = |by: f64| [by, 0.0, 0.0, 0.0, by, 0.0, 0.0, 0.0, by];
        let map = [&entries(0.5)[..], &entries(2.0), &[0.0; 3], &[1.0]].concat();
        for (n, value) in map.into_iter().enumerate() {
            self.put(head::MAP + 4 * n, &(value as f32).to_le_bytes());
            self.field(Group::Head, head::MAP + 4 * n, Kind::F32);
            self.put(head::MAP + 88 + 8 * n, &value.to_le_bytes());
            self.field(Group::Head, head::MAP + 88 + 8 * n, Kind::F64);
        }
        for n in 0..9 {
            self.put(560 + 8 * n, &0.5_f64.to_le_bytes());
            self.field(Group::Head, 560 + 8 * n, Kind::F64);
        }
        let class = if code == INDEX || code == ON_INDEX { 8 } else { 0 };
        self.u32(Group::Head, head::CLASS, class);
        self.u32(Group::Head, head::TYPE, code);
    }

    /// An upper node with two lower ones, which have three leaves, and an active tile.
    fn upper(&mut self, at: usize, place: [i32; 3], lower: usize, leaf: usize) {
        let layout = self.sample.layout;
        self.inner(at, place, 4096, UPPER_CHILDREN, 32_768);
        for n in 0..2 {
            let entry = 3 + 8193 * n;
            let child = lower + n * layout.lower_size;
            self.set(at + UPPER_CHILDREN, entry);
            self.child(Group::Node, at + layout.upper_table + entry * layout.stride, child - at);
            let axis = |shift: usize, i: i32| i + 128 * (entry >> shift & 31) as i32;
            let place = [axis(10, place[0]), axis(5, place[1]), axis(0, place[2])];
            let leaves = if n == 0 { 0..2 } else { 2..3 };
            self.lower(child, place, leaf, leaves);
        }
        self.tile(at, layout.upper_table, 777, 1 << 21, 32_768);
    }

    fn lower(&mut self, at: usize, place: [i32; 3], leaf: usize, leaves: std::ops::Range<usize>) {
        let layout = self.sample.layout;
        self.inner(at, place, 128, LOWER_CHILDREN, 4096);
        for n in leaves {
            let entry = 100 + 1111 * n;
            let child = leaf + n * layout.leaf_size;
            self.set(at + LOWER_CHILDREN, entry);
            self.child(Group::Node, at + layout.lower_table + entry * layout.stride, child - at);
            let axis = |shift: usize, i: i32| i + 8 * (entry >> shift & 15) as i32;
            self.leaf(child, [axis(8, place[0]), axis(4, place[1]), axis(0, place[2])]);
        }
        self.tile(at, layout.lower_table, 4000, 512, 4096);
    }

    fn inner(&mut self, at: usize, place: [i32; 3], size: i32, children: usize, entries: usize) {
        self.corners(Group::Node, at, place, size);
        self.u64(Group::Node, at + 24, 2);
        for word in (0..entries / 64).step_by(entries / 512) {
            self.field(Group::Node, at + VALUE_MASK + 8 * word, Kind::Mask);
            self.field(Group::Node, at + children + 8 * word, Kind::Mask);
        }
    }

    /// An active tile at an entry, whose bit changes the number of voxels.
    fn tile(&mut self, at: usize, table: usize, entry: usize, voxels: u64, bits: usize) {
        self.set(at + VALUE_MASK, entry);
        self.value(Group::Node, at + table + entry * self.sample.layout.stride);
        self.sample.active.push(Active { mask: at + VALUE_MASK, bits, voxels });
        self.voxels += voxels;
    }

    fn leaf(&mut self, at: usize, place: [i32; 3]) {
        let layout = self.sample.layout;
        self.sample.leaves.push(at);
        for (axis, least) in place.into_iter().enumerate() {
            self.u32(Group::Node, at + 4 * axis, least as u32);
        }
        self.put(at + 12, &[7, 7, 7, 2]);
        self.field(Group::Node, at + 12, Kind::Bytes(4));
        let mut packed = 0;
        let mut before = 0;
        for word in 0..8 {
            let bits = 0x0101_0101_0000_00ff_u64.rotate_left(5 * word);
            if word > 0 {
                packed |= before << (9 * (word - 1));
            }
            before += u64::from(bits.count_ones());
            self.put(at + 16 + 8 * word as usize, &bits.to_le_bytes());
            self.field(Group::Node, at + 16 + 8 * word as usize, Kind::Mask);
        }
        self.voxels += before;
        if self.plan.code == INDEX || self.plan.code == ON_INDEX {
            let (count, packed) = if self.plan.code == INDEX { (512, 0) } else { (before, packed) };
            self.field(Group::Node, at + 80, Kind::Index(count));
            self.put(at + 80, &self.index.to_le_bytes());
            self.u64(Group::Node, at + 88, packed);
            self.index += count;
        } else {
            self.sample.active.push(Active { mask: at + 16, bits: 512, voxels: 1 });
            if layout.leaf_size > 96 {
                let len = layout.leaf_size - 80;
                self.field(Group::Node, at + 80, Kind::Bytes(len));
            }
        }
    }

    /// Arrays of five floats, the second one with a name's class.
    fn blind(&mut self, at: usize, count: usize) {
        self.u64(Group::Blind, head::BLIND_OFFSET, if count == 0 { 0 } else { at as u64 });
        self.u32(Group::Blind, head::BLIND_COUNT, count as u32);
        for n in 0..count {
            let meta = at + n * BLIND_SIZE;
            let data = at + count * BLIND_SIZE + 32 * n;
            self.u64(Group::Blind, meta, (data - meta) as u64);
            let (values, size, class, of) = if n == 0 { (5, 4, 0, 1) } else { (20, 1, 3, 0) };
            self.u64(Group::Blind, meta + 8, values);
            self.u32(Group::Blind, meta + 16, if self.plan.minor < 6 { 0 } else { size });
            self.u32(Group::Blind, meta + 20, 0);
            self.u32(Group::Blind, meta + 24, class);
            self.u32(Group::Blind, meta + 28, of);
            self.put(meta + 32, b"blind");
            self.field(Group::Blind, meta + 32, Kind::Bytes(256));
        }
    }

    fn set(&mut self, mask: usize, bit: usize) {
        self.sample.bytes[mask + bit / 8] |= 1 << (bit % 8);
    }
}
