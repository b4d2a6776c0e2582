//! Builders against models.

use std::collections::HashSet;

use super::{Model, Op, Random, Rng, builder, for_all_types, random};
use crate::{
    Build, Builder, Coord, Error, GridClass, Level, Value, ValueIndex, ValueMask, ValueOnIndex,
    ValueType, VoxelValue,
};

fn values<T: Random<Value = T> + VoxelValue>() {
    for seed in 0..4 {
        let (builder, model) = random::<T>(seed, seed % 2 == 1);
        let grid = builder.build().unwrap();
        assert_eq!(grid.value_type(), T::TYPE);
        for ijk in model.places() {
            let (value, active) = model.get(ijk);
            assert_eq!(grid.get::<T>(ijk).unwrap(), value, "{} at {ijk:?}, seed {seed}", T::TYPE);
            assert_eq!(grid.is_active(ijk), active, "{} at {ijk:?}, seed {seed}", T::TYPE);
        }
    }
}

#[test]
fn values_are_those_of_the_last_op() {
    values::<f32>();
    values::<f64>();
    values::<i16>();
    values::<i32>();
    values::<i64>();
    values::<[f32; 3]>();
    values::<[f64; 3]>();
    values::<u32>();
    values::<bool>();
    values::<[u8; 4]>();
    values::<[f32; 4]>();
    values::<[f64; 4]>();
    values::<u8>();
}

#[test]
fn mask_values_are_active_states() {
    let (builder, model) = random::<ValueMask>(5, true);
    let grid = builder.build().unwrap();
    for ijk in model.places() {
        let active = model.get(ijk).1;
        assert_eq!(grid.get::<bool>(ijk).unwrap(), active);
        assert_eq!(grid.value(ijk), Value::Mask(active));
        assert_eq!(grid.is_active(ijk), active);
    }
}

/// All indices once, the background's for what has none.
fn indices<T: Random<Value = ()>>(all: bool) {
    for tiles in [false, true] {
        let (builder, model) = random::<T>(8, tiles);
        let grid = builder.build().unwrap();
        assert_eq!(grid.get::<u64>([77_777, 77_777, 77_777]).unwrap(), 0);
        let mut seen = HashSet::from([0]);
        for leaf in grid.leaves() {
            let values = leaf.values::<u64>().unwrap();
            for (n, index) in values.into_iter().enumerate() {
                let active = leaf.mask()[n / 64] >> (n % 64) & 1 != 0;
                assert_eq!(active, model.get(leaf.coord(n)).1);
                match all || active {
                    true => assert!(seen.insert(index), "index {index} twice"),
                    false => assert_eq!(index, 0),
                }
            }
        }
        for tile in grid.tiles() {
            let Value::Index(index) = tile.value else { panic!("{tile:?}") };
            assert!(tile.active && seen.insert(index), "{tile:?}");
        }
        assert_eq!(seen.len() as u64, grid.value_count());
        assert_eq!(seen.into_iter().max().unwrap() + 1, grid.value_count());
        for ijk in model.places() {
            assert_eq!(grid.is_active(ijk), model.get(ijk).1);
        }
    }
}

#[test]
fn indices_are_given_once() {
    indices::<ValueOnIndex>(false);
    indices::<ValueIndex>(true);
}

fn counts<T: Random>() {
    let (builder, model) = random::<T>(11, false);
    let grid = builder.build().unwrap();
    let voxels: HashSet<Coord> = model.ops.iter().map(|op| op.ijk).collect();
    let active: Vec<Coord> = voxels.iter().filter(|ijk| model.get(**ijk).1).copied().collect();
    let info = grid.info();
    assert_eq!(info.active_voxels, active.len() as u64);
    let nodes = |bits: u32| {
        let nodes: HashSet<Coord> = voxels.iter().map(|ijk| ijk.map(|c| c >> bits)).collect();
        nodes.len() as u32
    };
    assert_eq!(info.nodes, [nodes(3), nodes(7), nodes(12)]);
    assert_eq!(info.root_entries, nodes(12));
    assert_eq!(info.tiles, [0; 3]);
    let found = info.index_box.unwrap();
    for axis in 0..3 {
        assert_eq!(found.min[axis], active.iter().map(|c| c[axis]).min().unwrap());
        assert_eq!(found.max[axis], active.iter().map(|c| c[axis]).max().unwrap());
    }
    let from_leaves: HashSet<Coord> = grid
        .leaves()
        .flat_map(|leaf| {
            let on = move |n: &usize| leaf.mask()[n / 64] >> (n % 64) & 1 != 0;
            (0..512).filter(on).map(move |n| leaf.coord(n))
        })
        .collect();
    assert_eq!(from_leaves, active.into_iter().collect());
}

#[test]
fn counts_and_boxes() {
    for_all_types!(counts);
}

#[test]
fn tiles_of_all_levels() {
    let mut builder = Builder::<f32>::new(0.5);
    builder.fill_tile(3, [-1, 5000, 0], 3.0, true);
    builder.fill_tile(2, [200, 0, 0], 2.0, true);
    builder.fill_tile(1, [9, 9, 9], 1.0, false);
    builder.fill_tile(1, [17, 9, 9], 1.5, true);
    let grid = builder.build().unwrap();
    let tiles: Vec<_> =
        grid.tiles().map(|t| (t.level, t.origin, t.size(), t.value, t.active)).collect();
    assert_eq!(
        tiles,
        [
            (Level::Root, [-4096, 4096, 0], 4096, Value::F32(3.0), true),
            (Level::Upper, [128, 0, 0], 128, Value::F32(2.0), true),
            (Level::Lower, [8, 8, 8], 8, Value::F32(1.0), false),
            (Level::Lower, [16, 8, 8], 8, Value::F32(1.5), true),
        ]
    );
    assert_eq!(grid.info().tiles, [1, 1, 1]);
    assert_eq!(grid.active_voxels(), 512 + (1 << 21) + (1 << 36));
    assert_eq!(grid.leaves().len(), 0);
    let found = grid.index_box().unwrap();
    assert_eq!((found.min, found.max), ([-4096, 0, 0], [255, 8191, 4095]));
}

#[test]
fn a_voxel_in_a_tile_keeps_the_rest() {
    let mut model = Model { background: 1.0f32, ops: Vec::new() };
    let op = |level, ijk, value, active| Op { level, ijk, value, active };
    model.ops.push(op(3, [0; 3], 7.0, true));
    model.ops.push(op(0, [300, 300, 300], -1.0, false));
    let grid = builder::<f32>(&model).build().unwrap();
    assert_eq!(grid.active_voxels(), (1 << 36) - 1);
    for ijk in model.places() {
        assert_eq!((grid.get::<f32>(ijk).unwrap(), grid.is_active(ijk)), model.get(ijk));
    }
    // And a tile takes what was in it away.
    model.ops.push(op(3, [1; 3], 2.0, false));
    let grid = builder::<f32>(&model).build().unwrap();
    assert_eq!((grid.active_voxels(), grid.leaves().len()), (0, 0));
    assert_eq!(grid.info().nodes, [0; 3]);
    assert_eq!(grid.index_box(), None);
    assert_eq!(grid.get::<f32>([300, 300, 300]).unwrap(), 2.0);
}

fn empty<T: Random>() {
    let background = T::random(&mut Rng::new(1));
    let grid = Builder::<T>::new(background).build().unwrap();
    assert_eq!((grid.active_voxels(), grid.index_box()), (0, None));
    assert_eq!(grid.info().nodes, [0; 3]);
    assert_eq!(grid.tiles().count() + grid.leaves().len(), 0);
    assert_eq!(grid.value([1, 2, 3]), grid.background());
    crate::Grid::from_bytes(grid.bytes()).unwrap();
}

#[test]
fn nothing_but_a_background() {
    for_all_types!(empty);
}

/// The same voxels are active, whatever the values are.
fn active<T: Random<Value = ()>>() {
    let (mut builder, model) = random::<[f32; 3]>(12, true);
    let map = crate::Map::uniform(0.25, [1.0, 2.0, 3.0]).unwrap();
    let grid = builder.name("velocity").map(map).build().unwrap();
    let copy = Builder::<T>::from_active(&grid).build().unwrap();
    let (of, info) = (grid.info(), copy.info());
    assert_eq!((info.value_type, info.name.as_str(), info.map), (T::TYPE, "velocity", map));
    assert_eq!((info.active_voxels, info.index_box), (of.active_voxels, of.index_box));
    assert_eq!((info.tiles, info.world_box), (of.tiles, of.world_box));
    for ijk in model.places() {
        assert_eq!(copy.is_active(ijk), grid.is_active(ijk));
    }
}

#[test]
fn masks_and_indices_of_grids() {
    active::<ValueMask>();
    active::<ValueIndex>();
    active::<ValueOnIndex>();
}

#[test]
fn dense_boxes() {
    for (dims, origin) in [
        ([0, 5, 5], [0, 0, 0]),
        ([1, 1, 1], [7, -1, 8]),
        ([31, 3, 33], [-5, 100, -17]),
        ([8, 16, 32], [0, 8, -8]),
        ([4, 1, 9], [i32::MAX - 3, i32::MIN, i32::MAX - 8]),
    ] {
        let mut rng = Rng::new(2);
        let count = dims.iter().product::<u32>() as usize;
        let values: Vec<f32> = (0..count).map(|_| rng.below(5) as f32 - 2.0).collect();
        let grid = Builder::<f32>::from_dense(dims, &values, origin, 1.0).unwrap().build().unwrap();
        let mut active = 0;
        for (n, value) in values.iter().enumerate() {
            let [_, ny, nz] = dims.map(|d| d as usize);
            let place = [n / (ny * nz), n / nz % ny, n % nz];
            let ijk = [0, 1, 2].map(|a| origin[a] + place[a] as i32);
            let on = value.abs() > 1.0;
            active += u64::from(on);
            assert_eq!(grid.is_active(ijk), on);
            assert_eq!(grid.get::<f32>(ijk).unwrap(), if on { *value } else { 0.0 });
        }
        assert_eq!(grid.active_voxels(), active);
    }
    let bad = |dims, count, origin, tolerance| {
        let values = vec![1.0; count];
        Builder::<f32>::from_dense(dims, &values, origin, tolerance).unwrap_err().check()
    };
    assert_eq!(bad([2, 2, 2], 7, [0; 3], 0.0), "dense");
    assert_eq!(bad([u32::MAX; 3], 7, [0; 3], 0.0), "dense");
    assert_eq!(bad([2, 1, 1], 2, [i32::MAX, 0, 0], 0.0), "dense");
    assert_eq!(bad([1, 1, 1], 1, [0; 3], -1.0), "tolerance");
    assert_eq!(bad([1, 1, 1], 1, [0; 3], f64::NAN), "tolerance");
    // NaN is far from everything.
    let grid = Builder::<f32>::from_dense([2, 1, 1], &[f32::NAN, 0.0], [0; 3], 1e9).unwrap();
    assert_eq!(grid.build().unwrap().active_voxels(), 1);
}

#[test]
fn what_cannot_be_built() {
    let check = |builder: &Builder<f32>| builder.build().unwrap_err().check();
    let new = || Builder::<f32>::new(0.0);
    assert_eq!(check(new().name(&"n".repeat(256))), "name");
    assert_eq!(check(new().name("a\0b")), "name");
    assert_eq!(check(new().class(GridClass::STAGGERED)), "class");
    assert_eq!(check(new().class(GridClass(10))), "class");
    assert_eq!(check(new().fill_tile(4, [0; 3], 1.0, true)), "level");
    assert_eq!(check(new().blind_data("x", Some(ValueType::F32), &[0; 7])), "blind");
    let grid = new().name(&"n".repeat(255)).build().unwrap();
    assert_eq!(grid.name(), "n".repeat(255));
    assert!(matches!(
        grid.get::<f64>([0; 3]),
        Err(Error::WrongType { found: ValueType::F32, asked: "f64" })
    ));
    assert_eq!(<ValueMask as Build>::TYPE, ValueType::Mask);
}
