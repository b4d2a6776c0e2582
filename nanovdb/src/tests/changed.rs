//! Grids that were changed without updating their counts, and grids with room between their nodes.

use super::{Random, for_all_types, random, small};
use crate::bytes::{Fields, FieldsMut, set_bits};
use crate::layout::{head, node};
use crate::{Builder, ChecksumMode, Grid, Level, ValueMask};

const ROOM: usize = 96;

/// Returns the same nodes with room behind those of each level, full of what is none.
fn with_room(grid: &Grid) -> Vec<u8> {
    let (tree, bytes) = (grid.tree(), grid.bytes());
    let mut all = bytes[..head::SIZE].to_vec();
    let levels = [Level::Root, Level::Upper, Level::Lower, Level::Leaf];
    for (n, level) in levels.into_iter().enumerate() {
        let from = tree.shape.first[level as usize];
        let to = match levels.get(n + 1) {
            Some(next) => tree.shape.first[*next as usize],
            None => bytes.len(),
        };
        let at = all.len();
        all.put_u64(head::TREE + 8 * level as usize, (at - head::TREE) as u64);
        all.extend_from_slice(&bytes[from..to]);
        // Children are a gap farther away.
        if level == Level::Root {
            for tile in tree.nodes(level) {
                let child = tile - from + at + node::TILE_CHILD;
                if all.u64(child) != 0 {
                    let farther = all.u64(child) + ROOM as u64;
                    all.put_u64(child, farther);
                }
            }
        } else if level != Level::Leaf {
            let (children, table, entries) = tree.layout.table(level);
            for node in tree.nodes(level) {
                for entry in set_bits(bytes, node + children, entries) {
                    let at = node - from + at + table + entry * tree.layout.table_stride;
                    let farther = all.u64(at) + ROOM as u64;
                    all.put_u64(at, farther);
                }
            }
        }
        all.extend([0xa5; ROOM]);
    }
    let len = all.len() as u64;
    all.put_u64(head::GRID_SIZE, len);
    all.put_u64(head::BLIND_OFFSET, len);
    all
}

fn packed<T: Random>() {
    for tiles in [false, true] {
        let grid = random::<T>(71, tiles).0.name("packed").build().unwrap();
        let room = with_room(&grid);
        assert!(Grid::from_bytes_without_checksum(&room).is_ok(), "{}", T::TYPE);
        let packed = Grid::from_changed_bytes(&room).unwrap();
        assert!(packed.bytes() == grid.bytes(), "{}", T::TYPE);
        assert_eq!(packed.tree().shape, grid.tree().shape);
        // Nothing to be moved.
        assert!(Grid::from_changed_bytes(grid.bytes()).unwrap().bytes() == grid.bytes());
    }
    let empty = Builder::<T>::new(T::random(&mut super::Rng::new(2))).build().unwrap();
    assert!(Grid::from_changed_bytes(&with_room(&empty)).unwrap().bytes() == empty.bytes());
    // Blind data stays where it is.
    let grid = small::<T>();
    assert!(Grid::from_changed_bytes(grid.bytes()).unwrap().bytes() == grid.bytes());
}

#[test]
fn nodes_are_packed_as_they_are_built() {
    for_all_types!(packed);
}

#[test]
fn active_voxels_are_counted() {
    let mut builder = Builder::<ValueMask>::new(());
    let before = builder.set([1, 2, 3], ()).build().unwrap();
    let wanted = builder.set([0, 0, 0], ()).build().unwrap();
    let mut bytes = before.bytes().to_vec();
    let leaf = before.tree().node(Level::Leaf, 0);
    bytes.set_bit(leaf + node::LEAF_MASK, 0);
    assert_eq!(Grid::from_bytes(&bytes).unwrap_err().check(), "voxel-count");
    let grid = Grid::from_changed_bytes(&bytes).unwrap();
    assert!(grid.bytes() == wanted.bytes());
    assert_eq!(grid.active_voxels(), 2);
}

#[test]
fn checksums_stay_of_their_kind() {
    for mode in [ChecksumMode::Disabled, ChecksumMode::Head, ChecksumMode::Full] {
        let mut grid = small::<f32>();
        grid.update_checksum(mode);
        let mut bytes = grid.bytes().to_vec();
        let leaf = grid.tree().node(Level::Leaf, 0);
        bytes.put(leaf + grid.tree().layout.leaf_values, &9f32.to_le_bytes());
        if mode == ChecksumMode::Head {
            bytes[head::CHECKSUM] ^= 1;
        }
        assert_eq!(Grid::from_bytes(&bytes).is_err(), mode != ChecksumMode::Disabled);
        let grid = Grid::from_changed_bytes(&bytes).unwrap();
        assert_eq!(grid.checksum_mode(), mode);
        grid.verify_checksum().unwrap();
        assert_eq!(grid.get::<f32>([0, 0, 0]).unwrap(), 9.0);
        Grid::from_bytes(grid.bytes()).unwrap();
    }
}

#[test]
fn what_is_broken_is_refused() {
    let grid = small::<f32>();
    let mut bytes = grid.bytes().to_vec();
    bytes.put_u64(head::TREE, 1);
    assert_eq!(Grid::from_changed_bytes(&bytes).unwrap_err().check(), "offset");
    assert_eq!(Grid::from_changed_bytes(&bytes[..100]).unwrap_err().check(), "size");
}

/// Other writers leave the value `false` in active tiles of masks, and any byte in those of bools.
#[test]
fn values_of_one_bit_are_normalized() {
    let tiles = |grid: &Grid| {
        let tree = grid.tree();
        let entry = |level, table: usize, n: usize| {
            tree.node(level, 0) + table + n * tree.layout.table_stride
        };
        [
            tree.root() + tree.layout.root_background,
            entry(Level::Lower, tree.layout.lower_table, 1),
            entry(Level::Lower, tree.layout.lower_table, 2),
            entry(Level::Upper, tree.layout.upper_table, 1),
            tree.node(Level::Root, 1) + tree.layout.tile_value,
        ]
    };
    let places = [[0, 0, 1 << 20], [0, 0, 8], [0, 0, 16], [0, 0, 128], [4096, 0, 0]];
    let mut builder = Builder::<ValueMask>::new(());
    builder.set([0; 3], ()).fill_tile(1, places[1], (), true);
    let masks = builder.fill_tile(2, places[3], (), true).fill_tile(3, places[4], (), true).build();
    let mut builder = Builder::<bool>::new(true);
    builder.set([0; 3], true).fill_tile(1, places[1], true, false);
    builder.fill_tile(1, places[2], false, true).fill_tile(2, places[3], true, true);
    let bools = builder.fill_tile(3, places[4], true, true).build();
    for (grid, wrong) in [(masks.unwrap(), [7, 0, 1, 0, 0]), (bools.unwrap(), [255, 2, 0, 128, 77])]
    {
        assert!(matches!(grid.normalized_bytes(), std::borrow::Cow::Borrowed(_)));
        let mut bytes = grid.bytes().to_vec();
        for (at, byte) in tiles(&grid).into_iter().zip(wrong) {
            bytes[at] = byte;
        }
        let other = Grid::from_bytes_without_checksum(&bytes).unwrap();
        for at in places {
            assert_eq!(other.value(at), grid.value(at), "{} at {at:?}", grid.value_type());
        }
        assert!(other.normalized_bytes() == grid.bytes());
    }
}
