//! What volumes ought to be: leaves in a map on the host, and the grid that the host makes of them.

use std::collections::BTreeMap;

use cuda_safe::Stream;
use geom_kernels::volume::nanovdb::{self, Builder, ChecksumMode, Grid};
use geom_kernels::volume::{Bool, Index, Mask, OnIndex, Rgba8, Volume, VolumeOptions, VolumeValue};

use crate::volume_decode::{Built, built};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

/// Voxels of a leaf: whether they are active, and their values.
#[derive(Debug, Clone)]
pub(super) struct Leaf<T> {
    pub(super) active: [bool; 512],
    pub(super) values: Vec<T>,
}

/// Leaves by their first voxels; tiles of lower nodes that are not the background.
#[derive(Debug, Clone)]
pub(super) struct Model<T> {
    pub(super) background: T,
    pub(super) leaves: BTreeMap<[i32; 3], Leaf<T>>,
    pub(super) tiles: BTreeMap<[i32; 3], T>,
}

/// A value for tests, of many different ones.
pub(super) trait Kind: VolumeValue + PartialEq {
    fn number(n: u64) -> Self;
    /// The grid that the host's builder makes.
    fn reference(model: &Model<Self>, options: &Reference) -> Result<Grid, Failure>;
}

/// What grids are made with on the host.
#[derive(Debug, Clone, Default)]
pub(super) struct Reference {
    pub(super) map: nanovdb::Map,
    pub(super) name: String,
}

fn build<B: nanovdb::Build, T: Kind>(
    model: &Model<T>,
    reference: &Reference,
    value: impl Fn(&T) -> B::Value,
) -> Result<Grid, Failure> {
    let mut builder = Builder::<B>::new(value(&model.background));
    builder.name(&reference.name).map(reference.map);
    for (at, tile) in &model.tiles {
        builder.fill_tile(1, *at, value(tile), false);
    }
    for (origin, leaf) in &model.leaves {
        for (place, active) in leaf.active.iter().enumerate() {
            let at = voxel(*origin, place);
            let value = value(&leaf.values[place]);
            match active {
                true => builder.set(at, value),
                false => builder.set_inactive(at, value),
            };
        }
    }
    builder.build().map_err(|error| Failure::new(error.to_string()))
}

/// The voxel at a place of a leaf.
pub(super) fn voxel(origin: [i32; 3], place: usize) -> [i32; 3] {
    let at = [place >> 6, place >> 3 & 7, place & 7];
    std::array::from_fn(|i| origin[i] + at[i] as i32)
}

/// The leaf of a voxel, and its place in it.
pub(super) fn leaf_of(at: [i32; 3]) -> ([i32; 3], usize) {
    let local = at.map(|c| (c & 7) as usize);
    (at.map(|c| c & !7), local[0] << 6 | local[1] << 3 | local[2])
}

macro_rules! kinds {
    ($($rust:ty: $build:ty, |$n:ident| $number:expr, |$v:ident| $value:expr;)+) => {$(
        impl Kind for $rust {
            fn number($n: u64) -> Self {
                $number
            }
            fn reference(model: &Model<Self>, options: &Reference) -> Result<Grid, Failure> {
                build::<$build, Self>(model, options, |$v| $value)
            }
        }
    )+};
}

kinds! {
    f32: f32, |n| n as f32 * 0.5 - 7.0, |v| *v;
    f64: f64, |n| n as f64 * 0.5 - 7.0, |v| *v;
    i16: i16, |n| n as i16 - 7, |v| *v;
    i32: i32, |n| n as i32 - 7, |v| *v;
    i64: i64, |n| n as i64 - 7, |v| *v;
    u8: u8, |n| n as u8, |v| *v;
    u32: u32, |n| n as u32, |v| *v;
    [f32; 3]: [f32; 3], |n| [n as f32, 1.5, -(n as f32)], |v| *v;
    [f64; 3]: [f64; 3], |n| [n as f64, 1.5, -(n as f64)], |v| *v;
    [f32; 4]: [f32; 4], |n| [n as f32, 1.5, -(n as f32), 0.25], |v| *v;
    [f64; 4]: [f64; 4], |n| [n as f64, 1.5, -(n as f64), 0.25], |v| *v;
    Rgba8: [u8; 4], |n| Self((n as u32).to_le_bytes()), |v| v.0;
    Bool: bool, |n| Self((n % 3 == 1) as u8), |v| v.0 != 0;
    Mask: nanovdb::ValueMask, |_n| Self(0), |_v| ();
    Index: nanovdb::ValueIndex, |_n| Self(0), |_v| ();
    OnIndex: nanovdb::ValueOnIndex, |_n| Self(0), |_v| ();
}

impl<T: Kind> Model<T> {
    pub(super) fn new(background: T) -> Self {
        Self { background, leaves: BTreeMap::new(), tiles: BTreeMap::new() }
    }

    pub(super) fn leaf(&mut self, at: [i32; 3]) -> &mut Leaf<T> {
        let empty = Leaf { active: [false; 512], values: vec![self.background; 512] };
        self.leaves.entry(leaf_of(at).0).or_insert(empty)
    }

    /// The leaves of these voxels, all active.
    pub(super) fn of_tiles(background: T, voxels: &[[i32; 3]]) -> Self {
        let mut model = Self::new(background);
        for at in voxels.iter().filter(|at| is_voxel(**at)) {
            model.leaf(*at).active = [true; 512];
        }
        model
    }

    /// Exactly these voxels, with the value that a voxel's first entry has.
    pub(super) fn of_voxels(background: T, voxels: &[[i32; 3]], values: Option<&[T]>) -> Self {
        let mut model = Self::new(background);
        for (i, at) in voxels.iter().enumerate().filter(|(_, at)| is_voxel(**at)) {
            let place = leaf_of(*at).1;
            let leaf = model.leaf(*at);
            if !leaf.active[place] {
                leaf.active[place] = true;
                leaf.values[place] = values.map_or(background, |values| values[i]);
            }
        }
        model
    }

    /// Holds a volume against it: node by node, and byte for byte with what the host builds.
    pub(super) fn check(
        &self,
        stream: &Stream,
        volume: &Volume,
        options: &Reference,
    ) -> Result<Built, Failure> {
        let decoded = self.check_nodes(&volume.download_bytes(stream)?)?;
        let mut found = volume.download(stream).map_err(|error| Failure::new(error.to_string()))?;
        let mut wanted = T::reference(self, options)?;
        for grid in [&mut found, &mut wanted] {
            grid.update_statistics();
            grid.update_checksum(ChecksumMode::Head);
        }
        let (found, wanted) = (found.bytes(), wanted.bytes());
        ensure_eq!(found.len(), wanted.len(), "bytes of the grid");
        let first = found.iter().zip(wanted).position(|(found, wanted)| found != wanted);
        ensure!(first.is_none(), "byte {first:?} of {} is another one", found.len());
        Ok(decoded)
    }

    /// Holds the bytes of a grid against it.
    pub(super) fn check_nodes(&self, bytes: &[u8]) -> Result<Built, Failure> {
        Grid::from_bytes(bytes).map_err(|error| Failure::new(error.to_string()))?;
        let decoded = built(bytes)?;
        ensure_eq!(decoded.grid_type, T::TYPE.code());
        let wanted: Vec<_> = self.leaves.keys().copied().collect();
        let found: Vec<_> = decoded.leaves.keys().copied().collect();
        ensure_eq!(found, wanted, "leaves");
        let key = |at: &[i32; 3]| (at.map(|c| c >> 12), at.map(|c| c >> 7), *at);
        ensure!(decoded.order.is_sorted_by_key(key), "the order of leaves");
        ensure!(decoded.lowers.is_sorted_by_key(key), "the order of lower nodes");
        let mut next = 1;
        for origin in &decoded.order {
            let (leaf, wanted) = (&decoded.leaves[origin], &self.leaves[origin]);
            let size = size_of::<T>();
            for place in 0..512 {
                let at = voxel(*origin, place);
                ensure_eq!(leaf.is_active(place), wanted.active[place], "voxel {at:?}");
                let value = bytemuck::bytes_of(&wanted.values[place]);
                match T::TYPE {
                    nanovdb::ValueType::Mask => {}
                    nanovdb::ValueType::Index | nanovdb::ValueType::OnIndex => {}
                    nanovdb::ValueType::Bool => {
                        let bit = leaf.values[place / 8] >> (place % 8) & 1;
                        ensure_eq!(bit, value[0], "the value of voxel {at:?}");
                    }
                    _ => {
                        let found = &leaf.values[place * size..(place + 1) * size];
                        ensure_eq!(found, value, "the value of voxel {at:?}");
                    }
                }
            }
            let first: [u8; 8] =
                leaf.values.get(..8).and_then(|b| b.try_into().ok()).unwrap_or_default();
            let active = wanted.active.iter().filter(|active| **active).count() as u64;
            match T::TYPE {
                nanovdb::ValueType::OnIndex => {
                    ensure_eq!(
                        u64::from_le_bytes(first),
                        next,
                        "the first index of leaf {origin:?}"
                    );
                    next += active;
                }
                nanovdb::ValueType::Index => {
                    ensure_eq!(
                        u64::from_le_bytes(first),
                        next,
                        "the first index of leaf {origin:?}"
                    );
                    next += 512;
                }
                _ => {}
            }
        }
        if T::TYPE.is_index() {
            ensure_eq!(decoded.values, next, "values of indices");
        }
        let tiles: Vec<_> = decoded.tiles.iter().map(|(at, value)| (*at, value.clone())).collect();
        let wanted = self.tiles.iter().map(|(at, value)| (*at, bytemuck::bytes_of(value).to_vec()));
        ensure_eq!(tiles, wanted.collect::<Vec<_>>(), "tiles of lower nodes");
        Ok(decoded)
    }
}

/// Whether coordinates are in the range that builds take.
pub(super) fn is_voxel(at: [i32; 3]) -> bool {
    at.iter().all(|c| (-(1 << 23)..1 << 23).contains(c))
}

/// Options with a name and a map that is none in particular.
pub(super) fn options<T: Kind>(background: T) -> Result<(VolumeOptions<T>, Reference), Failure> {
    let map = nanovdb::Map::affine(
        [[0.5, 0.0, 0.125], [0.0, 0.25, 0.0], [0.0, -0.125, 2.0]],
        [1.0, -2.0, 3.0],
    );
    let map = map.map_err(|error| Failure::new(error.to_string()))?;
    let reference = Reference { map, name: "a name".to_owned() };
    Ok((VolumeOptions::new(background).map(map).name(&reference.name), reference))
}

/// What is done for each type of values.
pub(super) trait Each {
    fn each<T: Kind>(&mut self) -> TestResult;
}

/// For each type of values.
pub(super) fn all_kinds(run: &mut impl Each) -> TestResult {
    run.each::<f32>()?;
    run.each::<f64>()?;
    run.each::<i16>()?;
    run.each::<i32>()?;
    run.each::<i64>()?;
    run.each::<u8>()?;
    run.each::<u32>()?;
    run.each::<[f32; 3]>()?;
    run.each::<[f64; 3]>()?;
    run.each::<[f32; 4]>()?;
    run.each::<[f64; 4]>()?;
    run.each::<Rgba8>()?;
    run.each::<Bool>()?;
    run.each::<Mask>()?;
    run.each::<Index>()?;
    run.each::<OnIndex>()
}
