//! Volumes of dense arrays and of functions, and arrays of volumes.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_safe::DeviceBuffer;
use geom_kernels::volume::{Bool, DenseOptions, Keep, OnIndex, Rgba8, Volume, VolumeOptions};

use super::model::{Kind, Model, options, voxel};
use super::thorough;
use crate::Geometry;
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
    ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume_build",
        device(dense_arrays),
        device(dense_arrays_of_other_types),
        device(narrow_bands),
        device(narrow_bands_without_numbers),
        device(arrays_of_volumes),
        device(dense_arrays_that_cannot_be),
        device(functions_that_panic),
        device(lists_of_what_is_there),
    ]
}

const DIMS: [[usize; 3]; 9] = [
    [1, 1, 1],
    [7, 8, 9],
    [8, 8, 8],
    [33, 1, 9],
    [9, 33, 7],
    [16, 24, 8],
    [0, 5, 5],
    [2, 3, 130],
    [40, 40, 40],
];
const ORIGINS: [[i32; 3]; 4] = [[0, 0, 0], [-3, 5, -17], [-8, 16, 4088], [-4100, -1, 130]];

/// A box of values.
struct Field<T> {
    origin: [i32; 3],
    dims: [usize; 3],
    values: Vec<T>,
}

impl<T: Kind> Field<T> {
    fn at(&self, voxel: [i32; 3]) -> Option<T> {
        let mut index = 0;
        for ((at, origin), size) in voxel.iter().zip(self.origin).zip(self.dims) {
            let place = usize::try_from(at - origin).ok();
            index = index * size + place.filter(|place| *place < size)?;
        }
        Some(self.values[index])
    }

    /// The model of what is kept: `judge` says of a value whether it is active, and whether it is inside.
    fn model(
        &self,
        background: T,
        inside: T,
        all: bool,
        judge: impl Fn(T) -> (bool, bool),
    ) -> Model<T> {
        let mut model = Model::new(background);
        if self.values.is_empty() {
            return model;
        }
        let last = |axis: usize| self.origin[axis] + self.dims[axis] as i32 - 1;
        for x in self.origin[0] >> 3..=last(0) >> 3 {
            for y in self.origin[1] >> 3..=last(1) >> 3 {
                for z in self.origin[2] >> 3..=last(2) >> 3 {
                    let at = [x * 8, y * 8, z * 8];
                    let mut leaf = Model::new(background).leaf(at).clone();
                    let (mut negative, mut other) = (0, 0);
                    for place in 0..512 {
                        let Some(value) = self.at(voxel(at, place)) else {
                            other += 1;
                            continue;
                        };
                        let (active, within) = judge(value);
                        leaf.active[place] = active;
                        leaf.values[place] = match (active, within) {
                            (true, _) => value,
                            (false, true) => inside,
                            (false, false) => background,
                        };
                        negative += usize::from(within);
                        other += usize::from(!within);
                    }
                    let active = leaf.active.contains(&true);
                    if all || active || (negative != 0 && other != 0) {
                        model.leaves.insert(at, leaf);
                    } else if negative != 0 {
                        model.tiles.insert(at, inside);
                    }
                }
            }
        }
        model
    }
}

/// Values of which about one in `rare` is not the background.
fn sparse<T: Kind>(rng: &mut Rng, n: usize, background: T, rare: usize) -> Vec<T> {
    let value = |rng: &mut Rng| match rng.below(rare) {
        0 => T::number(rng.below(40) as u64),
        _ => background,
    };
    (0..n).map(|_| value(rng)).collect()
}

fn dense_arrays(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut rng = device.rng(950);
    let background = 3.0f32;
    let (plain, reference) = options(background)?;
    for (i, dims) in DIMS.into_iter().enumerate() {
        let origin = ORIGINS[i % ORIGINS.len()];
        let n = dims.iter().product();
        let mut values = sparse(&mut rng, n, background, 600);
        if let Some(first) = values.first_mut() {
            *first = f32::NAN;
        }
        let field = Field { origin, dims, values };
        for keep in [Keep::All, Keep::Tolerance(0.0), Keep::Tolerance(2.5)] {
            let fail =
                |e: Failure| Failure::new(format!("{dims:?} from {origin:?}, {keep:?}: {e}"));
            let options = DenseOptions::new(plain.clone()).origin(origin).keep(keep);
            let judge = |value: f32| match keep {
                // A NaN is kept.
                Keep::Tolerance(t) => {
                    (value.is_nan() || f64::from((value - background).abs()) > t, false)
                }
                _ => (true, false),
            };
            let model = field.model(background, background, keep == Keep::All, judge);
            let volume =
                Volume::from_host_dense(&stream, &geometry, dims, &field.values, options.clone())?;
            // With a NaN in it, statistics are what they may.
            model.check_nodes(&volume.download_bytes(&stream)?).map_err(fail)?;
            let same = Volume::from_fn(&stream, &geometry, dims, options.clone(), |at| {
                field.at(at).unwrap_or(background)
            })?;
            let bytes = volume.download_bytes(&stream)?;
            ensure!(same.download_bytes(&stream)? == bytes, "{dims:?}, {keep:?}: of a function");
            let number = Field { origin, dims, values: vec![0.5f32; n] };
            let buffer = DeviceBuffer::from_slice(&stream, &number.values)?;
            let volume = Volume::from_dense(&stream, &geometry, dims, &buffer, options)?;
            let model = number.model(background, background, keep == Keep::All, judge);
            model.check(&stream, &volume, &reference).map_err(fail)?;
        }
    }
    Ok(())
}

fn dense_arrays_of_other_types(device: &TestDevice) -> TestResult {
    fn of<T: Kind + Send + Sync>(
        device: &TestDevice,
        tolerance: f64,
        far: fn(T, T) -> f64,
    ) -> TestResult {
        let (stream, geometry) = (device.stream()?, device.geometry());
        let mut rng = device.rng(960 + u64::from(T::TYPE.code()));
        let background = T::number(5);
        let (plain, reference) = options(background)?;
        let (origin, dims) = ([-3, 6, 1], [17, 9, 30]);
        let values = sparse(&mut rng, dims.iter().product(), background, 900);
        let field = Field { origin, dims, values };
        for tolerance in [0.0, tolerance] {
            let options =
                DenseOptions::new(plain.clone()).origin(origin).keep(Keep::Tolerance(tolerance));
            let judge = |value| (far(value, background) > tolerance, false);
            let model = field.model(background, background, false, judge);
            let fail = |e: Failure| Failure::new(format!("{}, {tolerance}: {e}", T::TYPE));
            let volume =
                Volume::from_host_dense(&stream, &geometry, dims, &field.values, options.clone())?;
            model.check(&stream, &volume, &reference).map_err(fail)?;
            let same = Volume::from_fn(&stream, &geometry, dims, options, |at| {
                field.at(at).unwrap_or(background)
            })?;
            model.check(&stream, &same, &reference).map_err(fail)?;
            let mut out = DeviceBuffer::<T>::zeroed(&stream, field.values.len())?;
            volume.to_dense(&stream, origin, dims, &mut out)?;
            let kept = |value: &T| match far(*value, background) > tolerance {
                true => *value,
                false => background,
            };
            let wanted: Vec<T> = field.values.iter().map(kept).collect();
            ensure_eq!(out.to_vec(&stream)?, wanted, "{}", T::TYPE);
        }
        Ok(())
    }
    fn farthest<const N: usize>(a: [f64; N], b: [f64; N]) -> f64 {
        (0..N).map(|i| (a[i] - b[i]).abs()).fold(0.0, f64::max)
    }
    of::<f64>(device, 3.0, |a, b| (a - b).abs())?;
    of::<i16>(device, 3.5, |a, b| f64::from(a - b).abs())?;
    of::<i32>(device, 3.5, |a, b| f64::from(a - b).abs())?;
    of::<i64>(device, 3.0, |a, b| ((a - b) as f64).abs())?;
    of::<u8>(device, 3.0, |a, b| f64::from(a.abs_diff(b)))?;
    of::<u32>(device, 7.25, |a, b| f64::from(a.abs_diff(b)))?;
    of::<[f32; 3]>(device, 3.0, |a, b| farthest(a.map(f64::from), b.map(f64::from)))?;
    of::<[f64; 3]>(device, 3.0, farthest)?;
    of::<[f32; 4]>(device, 3.0, |a, b| farthest(a.map(f64::from), b.map(f64::from)))?;
    of::<[f64; 4]>(device, 3.0, farthest)?;
    of::<Rgba8>(device, 3.0, |a, b| farthest(a.0.map(f64::from), b.0.map(f64::from)))?;
    of::<Bool>(device, 0.5, |a, b| f64::from(a.0.abs_diff(b.0)))
}

fn narrow_bands(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let background = 3.0f32;
    let (plain, reference) = options(background)?;
    // A ball, whose inside has whole leaves, and one that the box cuts.
    for (center, radius, dims, origin) in [
        ([2.0, 3.0, -1.0], 24.0, [64, 64, 64], [-32, -32, -32]),
        ([0.0, 0.0, 0.0], 20.5, [33, 35, 31], [-13, -11, -21]),
        ([5.0, 5.0, 5.0], 90.0, [40, 16, 24], [-9, -8, -7]),
    ] {
        let distance = |at: [i32; 3]| {
            let squared: f64 = (0..3).map(|i| (f64::from(at[i]) - center[i]).powi(2)).sum();
            (squared.sqrt() - radius) as f32
        };
        let mut values = Vec::new();
        for x in 0..dims[0] as i32 {
            for y in 0..dims[1] as i32 {
                for z in 0..dims[2] as i32 {
                    values.push(distance([origin[0] + x, origin[1] + y, origin[2] + z]));
                }
            }
        }
        let field = Field { origin, dims, values };
        let options = DenseOptions::new(plain.clone())
            .origin(origin)
            .keep(Keep::NarrowBand(f64::from(background)));
        let judge = |value: f32| (value.abs() < background, value < 0.0);
        let model = field.model(background, -background, false, judge);
        ensure!(!model.tiles.is_empty(), "nothing is inside of {radius}");
        let volume =
            Volume::from_host_dense(&stream, &geometry, dims, &field.values, options.clone())?;
        model.check(&stream, &volume, &reference)?;
        let same = Volume::from_fn(&stream, &geometry, dims, options, distance)?;
        model.check(&stream, &same, &reference)?;
        // All of the box has its sign again.
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, field.values.len())?;
        volume.to_dense(&stream, origin, dims, &mut out)?;
        let wanted: Vec<f32> = field
            .values
            .iter()
            .map(|v| if v.abs() < 3.0 { *v } else { 3.0f32.copysign(*v) })
            .collect();
        ensure_eq!(out.to_vec(&stream)?, wanted);
    }
    Ok(())
}

/// A NaN is in no band and not inside, and of a width of 0 nothing is left but signs.
fn narrow_bands_without_numbers(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let (plain, reference) = options(2.0f32)?;
    let dims = [16, 8, 8];
    // The first leaf is inside but for one voxel, the second is nothing but NaN.
    for (width, odd) in [(1.0, f32::NAN), (1.0, -f32::NAN), (0.0, 0.0), (f64::INFINITY, f32::NAN)] {
        let mut values = vec![-5.0; 512];
        values[77] = odd;
        values.resize(1024, f32::NAN);
        let field = Field { origin: [0; 3], dims, values };
        let options = DenseOptions::new(plain.clone()).keep(Keep::NarrowBand(width));
        let judge = |value: f32| (f64::from(value.abs()) < width, value < 0.0);
        let model = field.model(2.0, -2.0, false, judge);
        ensure!(model.leaves.len() == 1 && model.tiles.is_empty());
        let volume =
            Volume::from_host_dense(&stream, &geometry, dims, &field.values, options.clone())?;
        model.check(&stream, &volume, &reference)?;
        let same = Volume::from_fn(&stream, &geometry, dims, options, |at| {
            field.at(at).unwrap_or_default()
        })?;
        model.check(&stream, &same, &reference)?;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1024)?;
        volume.to_dense(&stream, [0; 3], dims, &mut out)?;
        let inside = if width > 5.0 { -5.0 } else { -2.0 };
        for (n, value) in out.to_vec(&stream)?.into_iter().enumerate() {
            ensure_eq!(value, if n < 512 && n != 77 { inside } else { 2.0 }, "voxel {n}");
        }
    }
    Ok(())
}

fn arrays_of_volumes(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut rng = device.rng(970);
    let background = -2.0f64;
    let (plain, _) = options(background)?;
    let rounds = if thorough(device) { 40 } else { 8 };
    for _ in 0..rounds {
        let mut some = |most: usize| std::array::from_fn::<usize, 3, _>(|_| 1 + rng.below(most));
        let (dims, other) = (some(30), some(40));
        let origin = ORIGINS[rng.below(ORIGINS.len())];
        let values = sparse(&mut rng, dims.iter().product(), background, 100);
        let field = Field { origin, dims, values };
        let options = DenseOptions::new(plain.clone()).origin(origin);
        let volume = Volume::from_host_dense(&stream, &geometry, dims, &field.values, options)?;
        // A box that lies somewhere across the first.
        let from: [i32; 3] = std::array::from_fn(|i| origin[i] - 12 + rng.below(24) as i32);
        let mut out = DeviceBuffer::<f64>::zeroed(&stream, other.iter().product())?;
        volume.to_dense(&stream, from, other, &mut out)?;
        let mut wanted = Vec::new();
        for x in 0..other[0] as i32 {
            for y in 0..other[1] as i32 {
                for z in 0..other[2] as i32 {
                    let at = [from[0] + x, from[1] + y, from[2] + z];
                    wanted.push(field.at(at).unwrap_or(background));
                }
            }
        }
        ensure_eq!(out.to_vec(&stream)?, wanted, "{other:?} from {from:?} on");
    }
    Ok(())
}

fn dense_arrays_that_cannot_be(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let values = vec![1.0f32; 8];
    let try_one = |dims, options: DenseOptions<f32>, wanted: &str| {
        let volume = Volume::from_host_dense(&stream, &geometry, dims, &values, options.clone());
        let message = volume.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(message.contains(wanted), "{message:?} does not say {wanted:?}");
        TestResult::Ok(())
    };
    let plain = DenseOptions::<f32>::default;
    try_one([2, 2, 3], plain(), "8 values for a box of [2, 2, 3]")?;
    try_one([2, 2, 2], plain().origin([1 << 23, 0, 0]), "a box of [2, 2, 2] voxels from")?;
    try_one([2, 2, 2], plain().origin([0, (1 << 23) - 1, 0]), "a box of")?;
    try_one([usize::MAX, 2, 2], plain(), "a box of")?;
    try_one([2, 2, 2], plain().keep(Keep::Tolerance(f64::NAN)), "a tolerance of NaN")?;
    try_one([2, 2, 2], plain().keep(Keep::Tolerance(-1.0)), "a tolerance of -1")?;
    try_one([2, 2, 2], plain().keep(Keep::NarrowBand(f64::NAN)), "a width of NaN")?;
    try_one([2, 2, 2], plain().keep(Keep::NarrowBand(-3.0)), "a width of -3")?;
    let negative = plain().keep(Keep::NarrowBand(-f64::MIN_POSITIVE));
    let made = Volume::from_fn(&stream, &geometry, [2, 2, 2], negative, |_| 1.0);
    ensure_refused_for(made, "a width of -")?;
    let whole = DenseOptions::<i32>::default().keep(Keep::NarrowBand(1.0));
    ensure_refused(Volume::from_host_dense(&stream, &geometry, [1, 1, 1], &[1], whole.clone()))?;
    let index = DenseOptions::new(VolumeOptions::new(OnIndex(0)));
    ensure_refused(Volume::from_host_dense(&stream, &geometry, [1, 1, 1], &[OnIndex(1)], index))?;
    let edge = plain().origin([(1 << 23) - 2, -(1 << 23), 6]);
    let volume = Volume::from_host_dense(&stream, &geometry, [2, 2, 2], &values, edge)?;
    ensure_eq!(volume.counts(&stream)?.active_voxels, 8);
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 7)?;
    ensure_refused(volume.to_dense(&stream, [0, 0, 0], [2, 2, 2], &mut out))?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, 8)?;
    ensure_refused(volume.to_dense(&stream, [0, 0, 0], [2, 2, 2], &mut out))?;
    // 2^72 voxels, of whose number the lowest 64 bits are zeros.
    let (origin, dims) = ([-(1 << 23); 3], [1 << 24; 3]);
    let whole = plain().origin(origin);
    let too_many = |result: cuda_safe::Result<()>| {
        let message = result.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(message.contains("a box of") && message.contains("2^31 leaves"), "{message:?}");
        TestResult::Ok(())
    };
    too_many(Volume::from_host_dense(&stream, &geometry, dims, &[], whole.clone()).map(drop))?;
    too_many(Volume::from_fn(&stream, &geometry, dims, whole, |_| 1.0).map(drop))?;
    let mut none = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
    too_many(volume.to_dense(&stream, origin, dims, &mut none))
}

/// A function that panics, on the thread that called or on another: once all threads are done, the caller's
/// goes on with what it said.
fn functions_that_panic(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let options = DenseOptions::<f32>::default();
    let caller = std::thread::current().id();
    let alone = std::thread::available_parallelism().map_or(1, usize::from) == 1;
    for on_caller in [true, false] {
        let panicked = AtomicBool::new(false);
        let function = |_| {
            if alone || (std::thread::current().id() == caller) == on_caller {
                panicked.store(true, Ordering::Release);
                // Not as `panic!` does, which would print it.
                std::panic::resume_unwind(Box::new("of the function"));
            }
            // The other one has work left to panic at.
            while !panicked.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            1.0
        };
        let make =
            || Volume::from_fn(&stream, &geometry, [64; 3], options.clone(), function).map(drop);
        let Err(payload) = std::panic::catch_unwind(AssertUnwindSafe(make)) else {
            return Err(Failure::new(format!("no panic, {on_caller}")));
        };
        ensure_eq!(payload.downcast_ref::<&str>(), Some(&"of the function"));
    }
    Ok(())
}

fn lists_of_what_is_there(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut rng = device.rng(980);
    for n in [0, 1, 33, 400] {
        let list = super::lists::voxels(&mut rng, n, 50);
        let buffer = DeviceBuffer::from_slice(&stream, &list)?;
        let options = VolumeOptions::new(OnIndex(0));
        let volume = Volume::from_voxels(&stream, &geometry, &buffer, options)?;
        let model = Model::of_voxels(OnIndex(0), &list, None);
        let decoded = model.check_nodes(&volume.download_bytes(&stream)?)?;
        ensure_eq!(volume.leaf_origins(&stream)?.to_vec(&stream)?, decoded.order);
        let mut wanted = Vec::new();
        for origin in &decoded.order {
            let leaf = &decoded.leaves[origin];
            let active = (0..512).filter(|place| leaf.is_active(*place));
            wanted.extend(active.map(|place| voxel(*origin, place)));
        }
        ensure_eq!(volume.voxels(&stream)?.to_vec(&stream)?, wanted);
        // The number of each voxel is its place in the list, from 1 on.
        for (i, at) in wanted.iter().enumerate().take(20) {
            let mut index = DeviceBuffer::<OnIndex>::zeroed(&stream, 1)?;
            volume.to_dense(&stream, *at, [1, 1, 1], &mut index)?;
            ensure_eq!(index.to_vec(&stream)?, [OnIndex(i as u64 + 1)]);
        }
    }
    Ok(())
}
