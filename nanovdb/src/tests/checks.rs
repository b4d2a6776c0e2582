//! Grids with something wrong in them: each is refused, by the check that is for it.

use super::{Random, for_all_types, small};
use crate::bytes::{Fields, FieldsMut};
use crate::layout::{head, node};
use crate::{Builder, Coord, Error, Grid, Level, ValueIndex, ValueOnIndex, Version};

fn check_of(bytes: &[u8]) -> Option<&'static str> {
    Grid::from_bytes_without_checksum(bytes).err().map(|error| error.check())
}

/// With something changed.
fn changed(grid: &Grid, change: impl FnOnce(&mut [u8])) -> Option<&'static str> {
    let mut bytes = grid.bytes().to_vec();
    change(&mut bytes);
    check_of(&bytes)
}

/// Returns two uppers, three lowers, four leaves, a tile of each level.
fn sample() -> Grid {
    let mut builder = Builder::<f32>::new(0.0);
    for ijk in [[0, 0, 0], [8, 0, 0], [200, 0, 0], [5000, 0, 0]] {
        builder.set(ijk, 1.0);
    }
    builder.fill_tile(1, [0, 64, 0], 2.0, true).fill_tile(2, [0, 2000, 0], 2.0, true);
    builder.fill_tile(3, [-1, 0, 0], 3.0, true).name("sample").build().unwrap()
}

fn head_fields<T: Random>() {
    let grid = small::<T>();
    let is = |check: &str, change: &dyn Fn(&mut [u8])| {
        assert_eq!(changed(&grid, change), Some(check), "{}", T::TYPE);
    };
    is("magic", &|b| b[0] ^= 1);
    is("magic", &|b| b[7] = b'2');
    is("version", &|b| b.put_u32(head::VERSION, Version::new(31, 6, 0).code()));
    is("version", &|b| b.put_u32(head::VERSION, Version::new(33, 0, 0).code()));
    is("grid-index", &|b| b.put_u32(head::GRID_INDEX, 1));
    is("grid-index", &|b| b.put_u32(head::GRID_COUNT, 0));
    is("size", &|b| b.put_u64(head::GRID_SIZE, 0));
    is("size", &|b| b.put_u64(head::GRID_SIZE, u64::MAX));
    is("size", &|b| b.put_u64(head::GRID_SIZE, b.len() as u64 - 32));
    is("name", &|b| b.put(head::NAME, &[b'n'; 256]));
    is("class", &|b| b.put_u32(head::CLASS, 10));
    is("type", &|b| b.put_u32(head::TYPE, 9));
    is("type", &|b| b.put_u32(head::TYPE, 0));
    is("voxel-size", &|b| b.put_f64(head::VOXEL_SIZE + 8, f64::NAN));
    is("voxel-size", &|b| b.put_f64(head::VOXEL_SIZE, f64::INFINITY));
    is("voxel-size", &|b| b.put_f64(head::VOXEL_SIZE, 0.0));
    is("voxel-size", &|b| b.put_f64(head::VOXEL_SIZE + 16, -1.0));
    is("voxel-size", &|b| b.put(head::VOXEL_SIZE, &[0; 24]));
    is("voxel-count", &|b| b.put_u64(head::VOXEL_COUNT, 3));
    is("map", &|b| b.put_f64(head::MAP + 88, f64::INFINITY));
    is("map", &|b| b.put_f64(head::MAP + 88, 1.5));
    is("map", &|b| b.put_f64(head::MAP + 160, 0.0));
    is("map", &|b| b.put(head::MAP, &f32::NAN.to_le_bytes()));
    is("map", &|b| b.put(head::MAP, &2f32.to_le_bytes()));
    is("map", &|b| b.put(head::MAP + 72, &2f32.to_le_bytes()));
    is("map", &|b| b.put(head::MAP + 88, &[0; 72]));
    is("blind", &|b| b.put_u64(head::BLIND_OFFSET, 0));
    is("blind", &|b| b.put_u64(head::BLIND_OFFSET, head::SIZE as u64));
    is("blind", &|b| b.put_u64(head::BLIND_OFFSET, u64::MAX));
    is("blind", &|b| b.put_u32(head::BLIND_COUNT, u32::MAX));
    is("blind", &|b| b.put_u32(head::BLIND_COUNT, 2));
    let meta = grid.bytes().u64(head::BLIND_OFFSET) as usize;
    is("blind", &|b| b.put_u64(meta, (-64i64).cast_unsigned()));
    is("blind", &|b| b.put_u64(meta, 1 << 62));
    is("blind", &|b| b.put_u64(meta + 8, u64::MAX));
    is("blind", &|b| b.put_u64(meta + 8, 100));
    is("blind", &|b| b.put(meta + 32, &[1; 256]));
    // Another type has other nodes.
    for code in 1..27 {
        if let Ok(other) = crate::ValueType::from_code(code)
            && other.layout() != T::TYPE.layout()
        {
            assert!(
                changed(&grid, |b| b.put_u32(head::TYPE, code)).is_some(),
                "{} {code}",
                T::TYPE
            );
        }
    }
    // Bytes that nothing depends on.
    assert_eq!(changed(&grid, |b| b.put_u32(head::TILE_COUNTS, 5)), None);
}

#[test]
fn fields_of_the_head() {
    for_all_types!(head_fields);
}

/// Older writers store what a step by (1, 1, 1) is in the world: with a map that turns or mirrors, 0 or less.
#[test]
fn voxel_sizes_of_older_writers() {
    let turn = [[0.5, -0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, -2.0]];
    let mut builder = Builder::<f32>::new(0.0);
    let grid = builder.map(crate::Map::affine(turn, [1.0; 3]).unwrap()).build().unwrap();
    let put = |size: [f64; 3]| changed(&grid, |b| b.put_vector(head::VOXEL_SIZE, size));
    assert_eq!(put(grid.map().voxel_size()), None);
    assert_eq!(put([0.0, 1.0, -2.0]), None);
    assert_eq!(put([1e-17, 1.0, -2.0]), None);
    for wrong in [[0.0; 3], [0.0, 1.0, 2.0], [0.0, -1.0, -2.0], [f64::NAN, 1.0, -2.0]] {
        assert_eq!(put(wrong), Some("voxel-size"), "{wrong:?}");
    }
    let mut bytes = grid.bytes().to_vec();
    bytes.put_vector(head::VOXEL_SIZE, [0.0; 3]);
    let error = Grid::from_bytes_without_checksum(&bytes).unwrap_err().to_string();
    assert!(error.contains("a voxel size of [0.0, 0.0, 0.0]"), "{error}");
}

#[test]
fn indices_of_old_versions_are_refused() {
    let grid = small::<ValueOnIndex>();
    let old = Version::new(32, 5, 0).code();
    assert_eq!(changed(&grid, |b| b.put_u32(head::VERSION, old)), Some("version"));
    let new = Version::new(32, 6, 0).code();
    assert_eq!(changed(&grid, |b| b.put_u32(head::VERSION, new)), None);
}

#[test]
fn offsets_and_counts_of_nodes() {
    let grid = sample();
    let size = grid.bytes().len() as u64;
    for n in 0..4 {
        let at = head::TREE + 8 * n;
        let offset = grid.bytes().u64(at);
        for wrong in [0, 1, 32, size, size - head::TREE as u64, u64::MAX, u64::MAX - 671, 1 << 63] {
            let found = changed(&grid, |b| b.put_u64(at, wrong));
            assert_eq!(found, Some("offset"), "offset {n} is {wrong}");
        }
        for wrong in [offset + 8, offset + 1, offset - 16] {
            assert_eq!(changed(&grid, |b| b.put_u64(at, wrong)), Some("offset"));
        }
        for wrong in [offset + 32, offset - 32] {
            // Aligned: overlaps, or has no children there.
            let found = changed(&grid, |b| b.put_u64(at, wrong)).unwrap();
            assert!(
                ["offset", "child", "parent", "root-key", "voxel-count"].contains(&found),
                "{found}"
            );
        }
    }
    for n in 0..3 {
        let at = head::NODE_COUNTS + 4 * n;
        let count = grid.bytes().u32(at);
        for wrong in [0, count - 1, count + 1, u32::MAX] {
            let found = changed(&grid, |b| b.put_u32(at, wrong)).unwrap();
            assert!(["offset", "child", "parent"].contains(&found), "{n} {wrong} {found}");
        }
    }
    let root = grid.tree().root();
    assert_eq!(changed(&grid, |b| b.put_u32(root + 24, u32::MAX)), Some("offset"));
    assert_eq!(changed(&grid, |b| b.put_u32(root + 24, 2)), Some("parent"));
    // Fewer bytes than nodes.
    let half = &grid.bytes()[..grid.bytes().len() / 64 * 32];
    let mut half = half.to_vec();
    let len = half.len() as u64;
    half.put_u64(head::GRID_SIZE, len);
    assert_eq!(check_of(&half), Some("offset"));
}

#[test]
fn entries_of_the_root() {
    let grid = sample();
    let tree = grid.tree();
    let tiles: Vec<usize> = tree.nodes(Level::Root).collect();
    let key = grid.bytes().u64(tiles[0]);
    assert_eq!(changed(&grid, |b| b.put_u64(tiles[1], key)), Some("root-key"));
    assert_eq!(changed(&grid, |b| b.put_u64(tiles[0], key | 1 << 63)), Some("root-key"));
    assert_eq!(changed(&grid, |b| b.put_u64(tiles[0], key | 1 << 20)), Some("root-key"));
    let child = tiles.iter().find(|tile| tree.root_child(**tile).is_some()).copied().unwrap();
    let offset = grid.bytes().u64(child + node::TILE_CHILD);
    let upper = tree.layout.upper_size as u64;
    for wrong in [
        1,
        offset + 32,
        u64::MAX,
        1 << 63,
        (1 << 63) - 1,
        offset + 2 * upper,
        offset.wrapping_sub(upper),
    ] {
        let found = changed(&grid, |b| b.put_u64(child + node::TILE_CHILD, wrong));
        assert_eq!(found, Some("child"), "{wrong}");
    }
    // Another upper node: not the place, and later the child of two.
    let found = changed(&grid, |b| b.put_u64(child + node::TILE_CHILD, offset + upper));
    assert_eq!(found, Some("origin"));
    assert_eq!(changed(&grid, |b| b.put_u64(child, key ^ 1 << 43)), Some("origin"));
    assert_eq!(changed(&grid, |b| b.put_u64(child + node::TILE_CHILD, 0)), Some("parent"));
}

#[test]
fn children_of_nodes() {
    let grid = sample();
    let (tree, bytes) = (grid.tree(), grid.bytes());
    for level in [Level::Upper, Level::Lower] {
        let at = tree.node(level, 0);
        let (children, table, entries) = tree.layout.table(level);
        let on: Vec<usize> = (0..entries).filter(|n| bytes.bit(at + children, *n)).collect();
        assert_eq!(on.len(), 2);
        let [first, second] = [on[0], on[1]].map(|n| at + table + n * tree.layout.table_stride);
        let (a, b) = (bytes.u64(first), bytes.u64(second));
        for wrong in [0, 1, a + 1, a + 32, a - 32, u64::MAX, 1 << 63, (1 << 63) - 1] {
            assert_eq!(
                changed(&grid, |bytes| bytes.put_u64(first, wrong)),
                Some("child"),
                "{wrong}"
            );
        }
        // Two entries with one child, and two with each other's.
        assert_eq!(changed(&grid, |bytes| bytes.put_u64(second, a)), Some("parent"));
        let swapped = changed(&grid, |bytes| {
            bytes.put_u64(first, b);
            bytes.put_u64(second, a);
        });
        assert_eq!(swapped, Some("origin"));
        // A child that is none, and one that was none.
        let off = changed(&grid, |bytes| bytes[at + children + on[1] / 8] ^= 1 << (on[1] % 8));
        assert_eq!(off, Some("parent"));
        let new = changed(&grid, |bytes| bytes.set_bit(at + children, on[1] + 1));
        assert_eq!(new, Some("child"));
        let both = changed(&grid, |bytes| bytes.set_bit(at + node::VALUE_MASK, on[0]));
        assert_eq!(both, Some("mask"));
        let more = changed(&grid, |bytes| bytes.set_bit(at + node::VALUE_MASK, on[1] + 1));
        assert_eq!(more, Some("voxel-count"));
        let place: Coord = bytes.coord(at).map(|c| c ^ 1 << level.size_log2());
        assert_eq!(changed(&grid, |bytes| bytes.put_coord(at, place)), Some("origin"));
        // Writers leave an empty box in nodes without active voxels.
        let empty = changed(&grid, |bytes| {
            bytes.put_coord(at, [i32::MAX; 3]);
            bytes.put_coord(at + 12, [i32::MIN; 3]);
        });
        assert_eq!(empty, None);
    }
}

#[test]
fn leaves_and_their_boxes() {
    let grid = sample();
    let leaf = grid.tree().node(Level::Leaf, 1);
    assert_eq!(grid.bytes().coord(leaf), [8, 0, 0]);
    assert_eq!(changed(&grid, |b| b.put_coord(leaf, [0, 0, 0])), Some("origin"));
    assert_eq!(changed(&grid, |b| b.put_coord(leaf, [15, 7, 7])), None);
    assert_eq!(changed(&grid, |b| b[leaf + node::LEAF_BOX + 1] = 8), Some("box"));
    let far = |b: &mut [u8]| {
        b.put_coord(leaf, [15, 7, 7]);
        b[leaf + node::LEAF_BOX] = 1;
    };
    assert_eq!(changed(&grid, far), Some("box"));
    let masked = |b: &mut [u8]| b[leaf + node::LEAF_MASK] ^= 2;
    assert_eq!(changed(&grid, masked), Some("voxel-count"));
}

#[test]
fn indices() {
    let grid = small::<ValueOnIndex>();
    let leaf = grid.tree().node(Level::Leaf, 1);
    let (first, counts) = (leaf + 80, leaf + 88);
    assert_eq!(grid.value_count(), 3);
    assert_eq!(changed(&grid, |b| b.put_u64(first, 3)), Some("index"));
    assert_eq!(changed(&grid, |b| b.put_u64(first, u64::MAX)), Some("index"));
    assert_eq!(changed(&grid, |b| b.put_u64(first, 1 << 63)), Some("index"));
    assert_eq!(changed(&grid, |b| b.put_u64(counts, b.u64(counts) + 1)), Some("index"));
    assert_eq!(changed(&grid, |b| b.put_u64(counts, b.u64(counts) | 1 << 63)), Some("index"));
    assert_eq!(changed(&grid, |b| b[leaf + node::LEAF_FLAGS] |= 16), Some("index"));
    assert_eq!(changed(&grid, |b| b.put_u64(head::VALUE_COUNT, 2)), Some("index"));
    assert_eq!(changed(&grid, |b| b.put_u64(head::VALUE_COUNT, 0)), Some("index"));
    // Tables and the root.
    for at in [grid.tree().root() + 32, grid.tree().node(Level::Upper, 0) + 8256 + 8 * 77] {
        assert_eq!(changed(&grid, |b| b.put_u64(at, 3)), Some("index"));
        assert_eq!(changed(&grid, |b| b.put_u64(at, 2)), None);
    }
    let grid = small::<ValueIndex>();
    let leaf = grid.tree().node(Level::Leaf, 1);
    assert_eq!(changed(&grid, |b| b.put_u64(leaf + 80, 514)), Some("index"));
    assert_eq!(changed(&grid, |b| b.put_u64(leaf + 80, 512)), None);
}

/// Whatever bit of the parts that lead to others is flipped, the grid is refused or all of it can be
/// read.
#[test]
fn flipped_bits() {
    let grid = sample();
    let (tree, len) = (grid.tree(), grid.bytes().len());
    let mut places: Vec<usize> = (0..head::SIZE).collect();
    places.extend(tree.root()..tree.node(Level::Root, tree.shape.count[3]));
    for level in [Level::Upper, Level::Lower] {
        let (children, table, _) = tree.layout.table(level);
        for at in tree.nodes(level) {
            places.extend(at..at + 64);
            places.extend(at + children..at + children + 8);
            places.extend(at + table..at + table + 16);
        }
    }
    for at in tree.nodes(Level::Leaf) {
        places.extend(at..at + 96);
    }
    let mut bytes = grid.bytes().to_vec();
    // Without optimisation a part of them has to do.
    let step = if cfg!(debug_assertions) { 7 } else { 1 };
    for at in places.into_iter().step_by(step) {
        assert!(at < len);
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            if let Ok(grid) = Grid::from_bytes_without_checksum(&bytes) {
                let voxels: u64 = grid
                    .leaves()
                    .map(|leaf| leaf.mask().iter().map(|w| u64::from(w.count_ones())).sum::<u64>())
                    .sum();
                assert!(voxels <= grid.active_voxels());
                let _ = (grid.info(), grid.value([8, 0, 0]), grid.value([-1, 0, 0]));
            }
            bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn errors_say_where() {
    let grid = sample();
    let leaf = grid.tree().node(Level::Leaf, 2);
    let mut bytes = grid.bytes().to_vec();
    bytes.put_coord(leaf, [0; 3]);
    let Err(Error::Invalid(flaw)) = Grid::from_bytes(&bytes) else { panic!("no error") };
    assert_eq!((flaw.check(), flaw.offset()), ("origin", Some(leaf as u64)));
    assert_eq!(flaw.node_index(), Some((Level::Leaf, 2)));
    assert_eq!(
        Error::from(flaw).to_string(),
        format!(
            "invalid NanoVDB data: a leaf at [0, 0, 0] whose parent has it at [200, 0, 0], leaf 2, at byte {leaf} (check origin)"
        )
    );
}
