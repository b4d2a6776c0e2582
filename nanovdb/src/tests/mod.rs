//! Tests of the crate against models that know nothing of trees.

mod build;
mod changed;
mod checks;
mod checksum;
mod files;
mod layout;
mod map;
mod statistics;

use crate::{Build, Builder, Coord, Grid, ValueIndex, ValueMask, ValueOnIndex};

/// Numbers that are the same each time ([xorshift64*](https://doi.org/10.1145/2845077)).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }

    /// From -100 to 100, in steps that single precision has.
    pub(crate) fn real(&mut self) -> f32 {
        self.below(6400) as f32 / 32.0 - 100.0
    }
}

/// Types that random grids are made of.
pub(crate) trait Random: Build {
    fn random(rng: &mut Rng) -> Self::Value;
}

macro_rules! random {
    ($($T:ty, $rng:ident => $value:expr;)*) => {$(
        impl Random for $T {
            fn random($rng: &mut Rng) -> Self::Value {
                $value
            }
        }
    )*};
}

random! {
    f32, rng => rng.real();
    f64, rng => rng.real().into();
    i16, rng => rng.next() as i16;
    i32, rng => rng.next() as i32;
    i64, rng => rng.next() as i64;
    [f32; 3], rng => [rng.real(), rng.real(), rng.real()];
    [f64; 3], rng => [rng.real(), rng.real(), rng.real()].map(f64::from);
    u32, rng => rng.next() as u32;
    bool, rng => rng.below(2) == 1;
    [u8; 4], rng => (rng.next() as u32).to_le_bytes();
    [f32; 4], rng => [rng.real(), rng.real(), rng.real(), rng.real()];
    [f64; 4], rng => [rng.real(), rng.real(), rng.real(), rng.real()].map(f64::from);
    u8, rng => rng.next() as u8;
    ValueMask, _rng => ();
    ValueIndex, _rng => ();
    ValueOnIndex, _rng => ();
}

/// Something that is done to a volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Op<V> {
    pub(crate) level: u32,
    pub(crate) ijk: Coord,
    pub(crate) value: V,
    pub(crate) active: bool,
}

/// The changes of a volume, in order: the last op that covers a voxel determines it.
pub(crate) struct Model<V> {
    pub(crate) background: V,
    pub(crate) ops: Vec<Op<V>>,
}

impl<V: Copy> Model<V> {
    pub(crate) fn get(&self, ijk: Coord) -> (V, bool) {
        let covers = |op: &&Op<V>| {
            let bits = [0, 3, 7, 12][op.level as usize];
            (0..3).all(|a| ijk[a] >> bits == op.ijk[a] >> bits)
        };
        let last = self.ops.iter().rev().find(covers);
        last.map_or((self.background, false), |op| (op.value, op.active))
    }

    /// Returns the voxels to compare: those that ops name, the corners of tiles, and their neighbours.
    pub(crate) fn places(&self) -> Vec<Coord> {
        let mut places = Vec::new();
        for op in &self.ops {
            let size = [0, 7, 127, 4095][op.level as usize];
            let low = op.ijk.map(|c| c & !size);
            let high = op.ijk.map(|c| c | size);
            for [x, y, z] in [op.ijk, low, high] {
                let step = |c: i32, d: i32| c.wrapping_add(d);
                places.extend([[x, y, z], [step(x, 1), y, z], [x, step(y, -1), z]]);
                places.push([x, y, step(z, 1)]);
            }
        }
        places
    }
}

/// Returns a volume of some leaves here and there, some tiles, and the ends of the coordinates.
pub(crate) fn random<T: Random>(seed: u64, tiles: bool) -> (Builder<T>, Model<T::Value>) {
    let mut rng = Rng::new(seed);
    let background = T::random(&mut rng);
    let mut model = Model { background, ops: Vec::new() };
    let spots: Vec<Coord> = vec![
        [0, 0, 0],
        [-5, 130, 1],
        [-4100, 7, -1],
        [i32::MIN, i32::MAX, -4096],
        [500_000_000, -77, 77],
    ];
    for n in 0..400 {
        let level = match rng.below(40) {
            0 if tiles => 3,
            1 if tiles => 2,
            2..6 if tiles => 1,
            _ => 0,
        };
        let spot = spots[rng.below(if n < 300 { 2 } else { 5 }) as usize];
        let range = if level == 0 { 12 } else { 3000 };
        let ijk = spot.map(|c| c.wrapping_add(rng.below(range) as i32));
        let active = rng.below(4) != 0;
        model.ops.push(Op { level, ijk, value: T::random(&mut rng), active });
    }
    (builder::<T>(&model), model)
}

pub(crate) fn builder<T: Build>(model: &Model<T::Value>) -> Builder<T> {
    let mut builder = Builder::<T>::new(model.background);
    for op in &model.ops {
        match (op.level, op.active) {
            (0, true) => builder.set(op.ijk, op.value),
            (0, false) => builder.set_inactive(op.ijk, op.value),
            (level, active) => builder.fill_tile(level, op.ijk, op.value, active),
        };
    }
    builder
}

/// Calls a generic function for all types of values.
macro_rules! for_all_types {
    ($f:ident $(, $arg:expr)*) => {
        $f::<f32>($($arg),*);
        $f::<f64>($($arg),*);
        $f::<i16>($($arg),*);
        $f::<i32>($($arg),*);
        $f::<i64>($($arg),*);
        $f::<[f32; 3]>($($arg),*);
        $f::<[f64; 3]>($($arg),*);
        $f::<u32>($($arg),*);
        $f::<bool>($($arg),*);
        $f::<[u8; 4]>($($arg),*);
        $f::<[f32; 4]>($($arg),*);
        $f::<[f64; 4]>($($arg),*);
        $f::<u8>($($arg),*);
        $f::<crate::ValueMask>($($arg),*);
        $f::<crate::ValueIndex>($($arg),*);
        $f::<crate::ValueOnIndex>($($arg),*);
    };
}
pub(crate) use for_all_types;

/// Returns a small grid: few nodes, so that all of its bytes can be tried.
pub(crate) fn small<T: Random>() -> Grid {
    let mut rng = Rng::new(3);
    let mut builder = Builder::<T>::new(T::random(&mut rng));
    builder.name("small").set([1, 2, 3], T::random(&mut rng)).set([9, 2, 3], T::random(&mut rng));
    builder.blind_data("points", None, &[7; 21]);
    builder.build().unwrap()
}
