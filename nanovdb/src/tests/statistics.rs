//! Statistics against sums over all voxels.

use super::random;
use crate::bytes::{Fields, FieldsMut};
use crate::layout::{flags, head, node};
use crate::{Builder, ChecksumMode, Grid, Level, VoxelValue};

/// Minimum, maximum, average and deviation of a node, by its offset and level.
fn stored<T: VoxelValue>(grid: &Grid, at: usize, level: Level) -> (T, T, f64, f64) {
    let l = grid.value_type().layout();
    let [min, max, average, deviation] = match level {
        Level::Leaf => [l.leaf_min, l.leaf_max, l.leaf_average, l.leaf_stddev],
        Level::Lower => [l.lower_min, l.lower_max, l.lower_average, l.lower_stddev],
        Level::Upper => [l.upper_min, l.upper_max, l.upper_average, l.upper_stddev],
        Level::Root => [l.root_min, l.root_max, l.root_average, l.root_stddev],
    };
    let real = |place: usize| match l.stat_size {
        8 => grid.bytes().f64(at + place),
        _ => f64::from(grid.bytes().f32(at + place)),
    };
    let value = |place: usize| T::load(grid.bytes(), at + place);
    (value(min), value(max), real(average), real(deviation))
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-5 * expected.abs().max(1.0)
}

#[test]
fn scalars() {
    let (builder, model) = random::<f32>(21, false);
    let grid = builder.build().unwrap();
    let tree = grid.tree();
    let mut voxels: Vec<_> =
        model.ops.iter().map(|op| op.ijk).filter(|c| model.get(*c).1).collect();
    voxels.sort_unstable();
    voxels.dedup();
    let check = |at: usize, level: Level, inside: &dyn Fn([i32; 3]) -> bool| {
        let values: Vec<f32> =
            voxels.iter().filter(|c| inside(**c)).map(|c| model.get(*c).0).collect();
        if values.is_empty() {
            return;
        }
        let count = values.len() as f64;
        let average = values.iter().map(|v| f64::from(*v)).sum::<f64>() / count;
        let squares = values.iter().map(|v| (f64::from(*v) - average).powi(2)).sum::<f64>();
        let (min, max, found, deviation) = stored::<f32>(&grid, at, level);
        assert_eq!(min, values.iter().copied().fold(f32::MAX, f32::min));
        assert_eq!(max, values.iter().copied().fold(f32::MIN, f32::max));
        assert!(close(found, average), "{found} {average}");
        assert!(close(deviation, (squares / count).sqrt()), "{deviation}");
    };
    check(tree.root(), Level::Root, &|_| true);
    for (level, bits) in [(Level::Leaf, 3), (Level::Lower, 7), (Level::Upper, 12)] {
        for at in tree.nodes(level) {
            let origin = grid.bytes().coord(at).map(|c| c >> bits);
            check(at, level, &|ijk| ijk.map(|c| c >> bits) == origin);
        }
    }
    let all = flags::BOX | flags::MIN_MAX | flags::AVERAGE | flags::STDDEV | flags::BREADTH_FIRST;
    assert_eq!(grid.bytes().u32(head::FLAGS), all);
}

#[test]
fn vectors_by_their_squared_lengths() {
    let mut builder = Builder::<[f64; 3]>::new([9.0; 3]);
    builder.set([0; 3], [3.0, 0.0, 0.0]).set([1; 3], [1.0, -2.0, 2.0]).set([2; 3], [0.0, 1.0, 0.0]);
    let grid = builder.build().unwrap();
    let (min, max, average, deviation) = stored::<[f64; 3]>(&grid, grid.tree().root(), Level::Root);
    // The first of two equal ones counts.
    assert_eq!((min, max), ([0.0, 1.0, 0.0], [3.0, 0.0, 0.0]));
    assert!(close(average, 19.0 / 3.0));
    let squares = [9.0, 9.0, 1.0].map(|s: f64| (s - 19.0 / 3.0).powi(2)).iter().sum::<f64>();
    assert!(close(deviation, (squares / 3.0).sqrt()));
}

#[test]
fn tiles_count_as_their_voxels() {
    let mut builder = Builder::<i32>::new(5);
    builder.fill_tile(1, [0; 3], 10, true).fill_tile(1, [8, 0, 0], 30, true);
    builder.set([100, 0, 0], 1034);
    let grid = builder.build().unwrap();
    let (min, max, average, _) = stored::<i32>(&grid, grid.tree().root(), Level::Root);
    assert_eq!((min, max), (10, 1034));
    assert!(close(average, (512.0 * 40.0 + 1034.0) / 1025.0));
}

#[test]
fn nodes_without_active_voxels() {
    let mut builder = Builder::<f32>::new(2.5);
    builder.set_inactive([5000, 1, 1], 7.0).set([0; 3], 1.0);
    let grid = builder.build().unwrap();
    let tree = grid.tree();
    for level in [Level::Leaf, Level::Lower, Level::Upper] {
        let at = tree.node(level, 1);
        assert_eq!(stored::<f32>(&grid, at, level), (2.5, 2.5, 0.0, 0.0));
    }
    let leaf = tree.node(Level::Leaf, 1);
    assert_eq!(grid.bytes().u8(leaf + node::LEAF_FLAGS) & node::HAS_BOX, 0);
    assert_eq!(grid.bytes().coord(leaf), [5000 & !7, 0, 0]);
    // The box is empty, and the origin is still there.
    let upper = tree.node(Level::Upper, 1);
    assert_eq!(grid.bytes().coord(upper), [4096, 0, 0]);
    assert_eq!(grid.bytes().coord(upper + 12), [4095, -1, -1]);
    assert_eq!(grid.index_box().unwrap().max, [0; 3]);
}

#[test]
fn updated_after_a_change() {
    let (builder, _) = random::<f32>(22, true);
    let grid = builder.build().unwrap();
    // Zeros where statistics and boxes are: an update brings them back, and the checksum.
    let mut bytes = grid.bytes().to_vec();
    let tree = grid.tree();
    for level in [Level::Leaf, Level::Lower, Level::Upper] {
        let l = grid.value_type().layout();
        let at = [l.leaf_min, l.lower_min, l.upper_min][level as usize];
        for node in tree.nodes(level) {
            bytes.put(node + at, &[0; 16]);
        }
    }
    bytes.put(tree.root() + 32, &[0; 16]);
    bytes.put_u64(head::CHECKSUM, grid.bytes().u64(head::CHECKSUM) ^ 1);
    assert_eq!(Grid::from_bytes(&bytes).unwrap_err().check(), "checksum");
    let mut changed = Grid::from_bytes_without_checksum(&bytes).unwrap();
    assert!(changed.verify_checksum().is_err());
    changed.update_statistics();
    assert_eq!(changed.bytes(), grid.bytes());
    changed.update_checksum(ChecksumMode::Full);
    assert_eq!(changed.checksum_mode(), ChecksumMode::Full);
    changed.verify_checksum().unwrap();
}
