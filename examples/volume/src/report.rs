//! The properties of a grid.

use std::error::Error;

use geom_kernels::volume::nanovdb::{Grid, Value};

/// Prints what there is to know of a grid of `f32` or `f64`.
pub(crate) fn print(grid: &Grid) -> Result<(), Box<dyn Error>> {
    let info = grid.info();
    println!("{:?}, a {} of {}", info.name, info.class, info.value_type);
    let [leaves, lower, upper] = info.nodes;
    let [in_lower, in_upper, in_root] = info.tiles;
    println!("{:>9} leaves of 8^3 voxels", leaves);
    println!("{lower:>9} lower nodes of 16^3 of them, with {in_lower} active tiles");
    println!("{upper:>9} upper nodes of 32^3 of those, with {in_upper} active tiles");
    println!("{:>9} entries of the root, {in_root} of them active tiles", info.root_entries);
    println!("{:>9} voxels are active", info.active_voxels);
    println!("{:>9} bytes", info.size);
    let [x, y, z] = info.voxel_size;
    println!("voxels are {x:.6} x {y:.6} x {z:.6}");
    if let (Some(index), Some([lower, upper])) = (info.index_box, info.world_box) {
        println!("from voxel {:?} to {:?}", index.min, index.max);
        println!("in the world from {lower:.4?} to {upper:.4?}");
    }
    let (least, most) = range(grid);
    if least <= most {
        println!("active values are from {least} to {most}");
    }
    println!("the background is {}", number(grid.background()));
    Ok(())
}

/// Where leaves and active tiles have their corners, in the world.
pub(crate) fn corners(grid: &Grid) -> Vec<[f32; 3]> {
    let map = grid.map();
    let leaves = grid.leaves().map(|leaf| (leaf.origin(), 8));
    let tiles = grid.tiles().filter(|tile| tile.active).map(|tile| (tile.origin, tile.size()));
    let of_cube = |(origin, size): ([i32; 3], u32)| {
        (0..8).map(move |i| {
            let far = |axis: usize| if i >> axis & 1 == 1 { f64::from(size) } else { 0.0 };
            let at = std::array::from_fn(|axis| f64::from(origin[axis]) + far(axis));
            map.apply(at).map(|x| x as f32)
        })
    };
    leaves.chain(tiles).flat_map(of_cube).collect()
}

/// The least and the greatest value of active voxels.
fn range(grid: &Grid) -> (f64, f64) {
    let of_leaves = grid.leaves().flat_map(|leaf| {
        let mask = leaf.mask();
        let active = move |n: &usize| mask[n / 64] >> (n % 64) & 1 == 1;
        (0..512).filter(active).map(|n| number(leaf.value(n))).collect::<Vec<_>>()
    });
    let of_tiles = grid.tiles().filter(|tile| tile.active).map(|tile| number(tile.value));
    of_leaves
        .chain(of_tiles)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)))
}

fn number(value: Value) -> f64 {
    match value {
        Value::F32(value) => f64::from(value),
        Value::F64(value) => value,
        _ => f64::NAN,
    }
}
