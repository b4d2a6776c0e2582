//! Minima, maxima, averages, deviations and boxes of nodes.
//!
//! Averages and variances are updated with each value and merged with those of children by the
//! formulas of Chan, Golub and LeVeque (Updating Formulae and a Pairwise Algorithm for Computing Sample
//! Variances, 1979), in double precision, tiles before children: NanoVDB's order, so the numbers are the
//! same. Vectors are ordered by their squared length, whose average and deviation are theirs.

use crate::ValueType;
use crate::bytes::{Fields, FieldsMut, set_bits};
use crate::coord::{Coord, IndexBox, entry_origin, leaf_box, root_origin};
use crate::element::VoxelValue;
use crate::error::Level;
use crate::layout::{NodeLayout, flags, head, node};
use crate::map::Map;
use crate::tree::{Place, Shape, Tree};

/// Values with an order and an average.
trait Number: VoxelValue {
    /// The type by which they are ordered.
    type Key: PartialOrd + Copy;
    /// Values above and below all of them.
    const HIGHEST: (Self::Key, Self);
    const LOWEST: (Self::Key, Self);
    fn key(self) -> Self::Key;
    fn scalar(key: Self::Key) -> f64;
}

macro_rules! scalars {
    ($($T:ty),*) => {$(
        impl Number for $T {
            type Key = $T;
            const HIGHEST: ($T, $T) = (<$T>::MAX, <$T>::MAX);
            const LOWEST: ($T, $T) = (<$T>::MIN, <$T>::MIN);
            fn key(self) -> $T {
                self
            }
            fn scalar(key: $T) -> f64 {
                key as f64
            }
        }
    )*};
}
scalars!(f32, f64, i16, i32, i64, u32, u8);

macro_rules! vectors {
    ($($T:ty: [$C:ty; $N:literal]),*) => {$(
        impl Number for $T {
            type Key = $C;
            const HIGHEST: ($C, $T) = (<$C>::MAX, [<$C>::MAX; $N]);
            const LOWEST: ($C, $T) = (<$C>::MIN, [<$C>::MIN; $N]);
            fn key(self) -> $C {
                self.iter().skip(1).fold(self[0] * self[0], |sum, c| sum + c * c)
            }
            fn scalar(key: $C) -> f64 {
                key.into()
            }
        }
    )*};
}
vectors!([f32; 3]: [f32; 3], [f64; 3]: [f64; 3], [f32; 4]: [f32; 4], [f64; 4]: [f64; 4]);

/// Colours count without opacity, from 0 to 1 for each channel.
impl Number for [u8; 4] {
    type Key = f64;
    const HIGHEST: (f64, Self) = (f64::MAX, [u8::MAX; 4]);
    const LOWEST: (f64, Self) = (f64::MIN, [u8::MIN; 4]);
    fn key(self) -> f64 {
        let sum: u32 = self.iter().take(3).map(|c| u32::from(*c) * u32::from(*c)).sum();
        f64::from(sum) / (255.0 * 255.0)
    }
    fn scalar(key: f64) -> f64 {
        key
    }
}

/// The statistics of some values.
#[derive(Debug, Clone, Copy)]
struct Stats<T: Number> {
    min: (T::Key, T),
    max: (T::Key, T),
    count: u64,
    average: f64,
    /// The sum of squared distances from the average.
    squares: f64,
}

/// The statistics of the nodes: all of them, or nothing for values without statistics.
trait Gather: Copy {
    fn none() -> Self;
    fn add(&mut self, tree: Tree<'_>, place: Place, count: u64);
    fn merge(&mut self, other: &Self);
    fn store(&self, bytes: &mut [u8], at: usize, layout: &NodeLayout, level: Level);
}

impl<T: Number> Stats<T> {
    fn deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / self.count as f64).sqrt() }
    }

    fn extend(&mut self, min: (T::Key, T), max: (T::Key, T)) {
        if min.0 < self.min.0 {
            self.min = min;
        }
        if max.0 > self.max.0 {
            self.max = max;
        }
    }
}

impl<T: Number> Gather for Stats<T> {
    fn none() -> Self {
        Self { min: T::HIGHEST, max: T::LOWEST, count: 0, average: 0.0, squares: 0.0 }
    }

    fn add(&mut self, tree: Tree<'_>, place: Place, count: u64) {
        let value: T = tree.load(place);
        let key = value.key();
        let scalar = T::scalar(key);
        let delta = scalar - self.average;
        if count == 1 {
            self.count += 1;
            self.average += delta / self.count as f64;
            self.squares += delta * (scalar - self.average);
        } else {
            let scale = 1.0 / self.count.saturating_add(count) as f64;
            self.average += scale * delta * count as f64;
            self.squares += scale * delta * delta * self.count as f64 * count as f64;
            self.count = self.count.saturating_add(count);
        }
        self.extend((key, value), (key, value));
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let scale = 1.0 / self.count.saturating_add(other.count) as f64;
        let delta = other.average - self.average;
        self.average += scale * delta * other.count as f64;
        self.squares +=
            other.squares + scale * delta * delta * self.count as f64 * other.count as f64;
        self.extend(other.min, other.max);
        self.count = self.count.saturating_add(other.count);
    }

    fn store(&self, bytes: &mut [u8], at: usize, layout: &NodeLayout, level: Level) {
        let [min, max, average, deviation] = places(layout, level).map(|place| at + place);
        self.min.1.store(bytes, min);
        self.max.1.store(bytes, max);
        store_real(bytes, average, layout, self.average);
        store_real(bytes, deviation, layout, self.deviation());
    }
}

impl Gather for () {
    fn none() -> Self {}
    fn add(&mut self, _: Tree<'_>, _: Place, _: u64) {}
    fn merge(&mut self, _: &Self) {}
    fn store(&self, _: &mut [u8], _: usize, _: &NodeLayout, _: Level) {}
}

/// Returns where the statistics of a node are.
fn places(layout: &NodeLayout, level: Level) -> [usize; 4] {
    let l = layout;
    match level {
        Level::Leaf => [l.leaf_min, l.leaf_max, l.leaf_average, l.leaf_stddev],
        Level::Lower => [l.lower_min, l.lower_max, l.lower_average, l.lower_stddev],
        Level::Upper => [l.upper_min, l.upper_max, l.upper_average, l.upper_stddev],
        Level::Root => [l.root_min, l.root_max, l.root_average, l.root_stddev],
    }
}

fn store_real(bytes: &mut [u8], at: usize, layout: &NodeLayout, value: f64) {
    match layout.stat_size {
        8 => bytes.put(at, &value.to_le_bytes()),
        _ => bytes.put(at, &(value as f32).to_le_bytes()),
    }
}

struct Update<'a> {
    bytes: &'a mut [u8],
    value_type: ValueType,
    shape: Shape,
}

/// Computes them all, in a grid whose nodes are checked.
pub(crate) fn update(bytes: &mut [u8], value_type: ValueType, shape: Shape) {
    let mut update = Update { bytes, value_type, shape };
    match value_type {
        ValueType::F32 => update.grid::<Stats<f32>>(),
        ValueType::F64 => update.grid::<Stats<f64>>(),
        ValueType::I16 => update.grid::<Stats<i16>>(),
        ValueType::I32 => update.grid::<Stats<i32>>(),
        ValueType::I64 => update.grid::<Stats<i64>>(),
        ValueType::U32 => update.grid::<Stats<u32>>(),
        ValueType::U8 => update.grid::<Stats<u8>>(),
        ValueType::Vec3F => update.grid::<Stats<[f32; 3]>>(),
        ValueType::Vec3D => update.grid::<Stats<[f64; 3]>>(),
        ValueType::Vec4F => update.grid::<Stats<[f32; 4]>>(),
        ValueType::Vec4D => update.grid::<Stats<[f64; 4]>>(),
        ValueType::Rgba8 => update.grid::<Stats<[u8; 4]>>(),
        ValueType::Mask | ValueType::Bool | ValueType::Index | ValueType::OnIndex => {
            update.grid::<()>();
        }
    }
}

impl Update<'_> {
    fn tree(&self) -> Tree<'_> {
        Tree::new(self.bytes, self.value_type, self.shape)
    }

    fn grid<G: Gather>(&mut self) {
        let map = Map::load(self.bytes);
        let active = self.root::<G>();
        let corners = match active.is_empty() {
            true => [[f64::MAX; 3], [f64::MIN; 3]],
            false => world_box(&map, active),
        };
        let [min, max] = corners;
        self.bytes.put_vector(head::WORLD_BOX, min);
        self.bytes.put_vector(head::WORLD_BOX + 24, max);
        let statistics = flags::MIN_MAX | flags::AVERAGE | flags::STDDEV;
        let mut bits = self.bytes.u32(head::FLAGS) & !(flags::BOX | statistics);
        if !active.is_empty() {
            bits |= flags::BOX;
        }
        if self.value_type.has_statistics() {
            bits |= statistics;
        }
        self.bytes.put_u32(head::FLAGS, bits);
    }

    fn root<G: Gather>(&mut self) -> IndexBox {
        let mut total = (G::none(), IndexBox::EMPTY);
        for n in 0..self.shape.count[3] {
            let tree = self.tree();
            let tile = tree.node(Level::Root, n);
            let place = root_origin(tree.bytes.u64(tile));
            if let Some(child) = tree.root_child(tile) {
                let (stats, active) = self.inner::<G>(Level::Upper, child, place);
                total.0.merge(&stats);
                total.1.extend(active);
            } else if tree.is_active(Place::Root(tile)) {
                total.0.add(tree, Place::Root(tile), Level::Root.tile_voxels());
                total.1.extend(IndexBox::cube(place, 12));
            }
        }
        let root = self.tree().root();
        self.finish(root, Level::Root, &total.0, total.1);
        self.bytes.put_coord(root, total.1.min);
        self.bytes.put_coord(root + 12, total.1.max);
        total.1
    }

    fn inner<G: Gather>(&mut self, level: Level, at: usize, place: Coord) -> (G, IndexBox) {
        let mut total = (G::none(), IndexBox::EMPTY);
        let tree = self.tree();
        let (children, _, entries) = tree.layout.table(level);
        for entry in set_bits(tree.bytes, at + node::VALUE_MASK, entries) {
            total.0.add(tree, Place::Tile { level, node: at, entry }, level.tile_voxels());
            let origin = entry_origin(place, level, entry);
            total.1.extend(IndexBox::cube(origin, level.tile_log2()));
        }
        for entry in 0..entries {
            if !self.bytes.bit(at + children, entry) {
                continue;
            }
            let Some(child) = self.tree().child(level, at, entry) else { continue };
            let place = entry_origin(place, level, entry);
            let (stats, active) = match level {
                Level::Upper => self.inner::<G>(Level::Lower, child, place),
                _ => self.leaf::<G>(child, place),
            };
            total.0.merge(&stats);
            total.1.extend(active);
        }
        let mut bits = self.bytes.u64(at + node::FLAGS) & !3;
        // An empty box that still knows its origin.
        let mut found = IndexBox { min: place, max: place.map(|c| c.wrapping_sub(1)) };
        if total.1.is_empty() {
            bits |= 1;
        } else {
            bits |= u64::from(node::HAS_BOX);
            found = total.1;
        }
        self.bytes.put_coord(at, found.min);
        self.bytes.put_coord(at + 12, found.max);
        self.bytes.put_u64(at + node::FLAGS, bits);
        self.finish(at, level, &total.0, total.1);
        total
    }

    fn leaf<G: Gather>(&mut self, at: usize, place: Coord) -> (G, IndexBox) {
        let mut stats = G::none();
        let tree = self.tree();
        let mask = tree.leaf_mask(at);
        for entry in set_bits(tree.bytes, at + node::LEAF_MASK, 512) {
            stats.add(tree, Place::Leaf { node: at, entry }, 1);
        }
        let active = leaf_box(place, &mask);
        let mut bits = self.bytes.u8(at + node::LEAF_FLAGS) & !3;
        let mut found = IndexBox { min: place, max: place };
        if let Some(active) = active {
            bits |= node::HAS_BOX;
            found = active;
        }
        let extent = [0, 1, 2].map(|axis: usize| (found.max[axis] - found.min[axis]) as u8);
        self.bytes.put_coord(at, found.min);
        self.bytes.put(at + node::LEAF_BOX, &extent);
        self.bytes.put(at + node::LEAF_FLAGS, &[bits]);
        let active = active.unwrap_or(IndexBox::EMPTY);
        self.finish(at, Level::Leaf, &stats, active);
        (stats, active)
    }

    /// Stores a node's statistics, those of the background if nothing is active.
    fn finish<G: Gather>(&mut self, at: usize, level: Level, stats: &G, active: IndexBox) {
        let layout = self.value_type.layout();
        if !active.is_empty() {
            stats.store(self.bytes, at, layout, level);
        } else if self.value_type.has_statistics() {
            let background = self.tree().root() + layout.root_background;
            let end = background + layout.value_size;
            let value = self.bytes.get(background..end).unwrap_or_default().to_vec();
            let [min, max, average, deviation] = places(layout, level).map(|place| at + place);
            self.bytes.put(min, &value);
            self.bytes.put(max, &value);
            store_real(self.bytes, average, layout, 0.0);
            store_real(self.bytes, deviation, layout, 0.0);
        }
    }
}

/// Returns the least box in world space with a box of voxels in it: each is a cube from its coordinates to
/// those above.
pub(crate) fn world_box(map: &Map, active: IndexBox) -> [[f64; 3]; 2] {
    let low = active.min.map(f64::from);
    let high = active.max.map(|c| f64::from(c) + 1.0);
    let mut corners = [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]];
    for n in 0..8 {
        let corner = [0, 1, 2].map(|axis: usize| if n >> axis & 1 == 0 { low } else { high }[axis]);
        for (axis, c) in map.apply(corner).into_iter().enumerate() {
            corners[0][axis] = corners[0][axis].min(c);
            corners[1][axis] = corners[1][axis].max(c);
        }
    }
    corners
}
