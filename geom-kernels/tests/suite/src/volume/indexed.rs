//! Grids of indices, whose values are in arrays.

use geom_kernels::Real;
use geom_kernels::volume::{
    IndexedValues, Interpolated, Interpolation, OnIndex, Samples, Volume, VolumeOptions,
};

use super::Fixture;
use super::grids::{self, Kind, grid, positions};
use super::interpolation::sample;
use super::lookups::nearest_voxel;
use super::sampling::{close, is_wide, numbers};
use crate::volume_decode::Decoded;
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume",
        device(index_grids_take_values_of_arrays),
        device(index_grids_refuse_arrays_of_other_lengths),
        device(index_grids_of_the_device_take_any_array),
    ]
}

fn index_grids_take_values_of_arrays(device: &TestDevice) -> TestResult {
    of_values::<grids::F32>(device)?;
    of_values::<grids::F64>(device)?;
    of_values::<grids::Vec3F>(device)?;
    of_values::<grids::Vec3D>(device)?;
    of_values::<grids::Vec4F>(device)?;
    of_values::<grids::Vec4D>(device)
}

fn of_values<V: Kind<Value: Interpolated>>(device: &TestDevice) -> TestResult {
    at::<grids::OfIndex, V, f32>(device)?;
    at::<grids::OfIndex, V, f64>(device)?;
    at::<grids::OfOnIndex, V, f32>(device)?;
    at::<grids::OfOnIndex, V, f64>(device)
}

/// A value of numbers in -1..1.
fn value<V: Interpolated>(rng: &mut Rng) -> V {
    let wide = is_wide::<V>();
    let number = |rng: &mut Rng| {
        if wide {
            f64::from(rng.float()).to_le_bytes().to_vec()
        } else {
            rng.float().to_le_bytes().to_vec()
        }
    };
    let bytes: Vec<u8> =
        (0..size_of::<V>() / if wide { 8 } else { 4 }).flat_map(|_| number(rng)).collect();
    bytemuck::pod_read_unaligned(&bytes)
}

fn at<T: Kind, V: Kind<Value: Interpolated>, P: Real>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(950);
    let (grid, set) = grid::<T>(&mut rng)?;
    let (volume, decoded) = (fixture.volume(&grid)?, Decoded::new(grid.bytes()));
    let count = volume.value_count().unwrap_or(0) as usize - 1;
    ensure!(count > 3000, "{count}");
    let values: Vec<V::Value> = (0..count).map(|_| value(&mut rng)).collect();
    let background: V::Value = value(&mut rng);
    let there = fixture.upload(&values)?;
    let array = IndexedValues::new(&there, background);
    let of = |voxel| {
        let bytes = decoded.value(voxel);
        match bytemuck::pod_read_unaligned::<u64>(&bytes) {
            0 => background,
            index => values[index as usize - 1],
        }
    };
    let asked = positions::<P>(&mut rng, &set, 150);
    let points = fixture.upload(&asked)?;
    let samples = Samples::index(&points);
    let wide = is_wide::<V::Value>();
    let mut alone = fixture.room::<V::Value>(asked.len())?;
    volume.sample_indexed(stream, &samples, Interpolation::Nearest, &array, &mut alone)?;
    for (p, got) in asked.iter().zip(alone.to_vec(stream)?) {
        let wanted = nearest_voxel(*p).map_or(background, of);
        let same = bytemuck::bytes_of(&got) == bytemuck::bytes_of(&wanted);
        ensure!(same, "{} {}, {p:?}: {got:?}, not {wanted:?}", T::NAME, V::NAME);
    }
    for how in [Interpolation::Trilinear, Interpolation::Tricubic] {
        let mut out = fixture.room::<V::Value>(asked.len())?;
        let mut gradients = fixture.room::<<V::Value as Interpolated>::Gradient>(asked.len())?;
        volume.sample_indexed(stream, &samples, how, &array, &mut alone)?;
        volume.sample_indexed_with_gradient(
            stream,
            &samples,
            how,
            &array,
            &mut out,
            &mut gradients,
        )?;
        let (alone, out) = (alone.to_vec(stream)?, out.to_vec(stream)?);
        ensure!(bytemuck::cast_slice::<_, u8>(&alone) == bytemuck::cast_slice::<_, u8>(&out));
        let gradients = gradients.to_vec(stream)?;
        for (p, got) in asked.iter().zip(out.iter().zip(&gradients)) {
            let outside = numbers(&[background], wide);
            let wanted = sample(how, *p, &outside, |voxel| numbers(&[of(voxel)], wide));
            close::<V::Value, P>(how, &wanted, got).map_err(|e| {
                Failure::new(format!("{} {}, {how:?}, {p:?}: {e}", T::NAME, V::NAME))
            })?;
        }
    }
    Ok(())
}

fn index_grids_refuse_arrays_of_other_lengths(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let (grid, _) = grid::<grids::OfOnIndex>(&mut device.rng(951))?;
    let volume = fixture.volume(&grid)?;
    let count = volume.value_count().unwrap_or(0) as usize;
    let points = fixture.upload(&[[0.0f32; 3]; 3])?;
    let samples = Samples::index(&points);
    let mut out = fixture.room::<f32>(3)?;
    let how = Interpolation::Trilinear;
    // Among them the length of an array as NanoVDB has it, with the background in front.
    for wrong in [0, count - 2, count] {
        let there = fixture.upload(&vec![0.0f32; wrong])?;
        let array = IndexedValues::new(&there, 0.0);
        let error = volume.sample_indexed(stream, &samples, how, &array, &mut out);
        let text = error.err().map(|e| e.to_string()).unwrap_or_default();
        ensure!(text.contains(&format!("{wrong} values")), "{text}");
        ensure!(text.contains(&format!("{} indices", count - 1)), "{text}");
    }
    let there = fixture.upload(&vec![0.0f32; count - 1])?;
    let array = IndexedValues::new(&there, 0.0);
    volume.sample_indexed(stream, &samples, how, &array, &mut out)?;
    let nearest = Interpolation::Nearest;
    let mut gradients = fixture.room::<[f32; 3]>(3)?;
    let none = volume.sample_indexed_with_gradient(
        stream,
        &samples,
        nearest,
        &array,
        &mut out,
        &mut gradients,
    );
    ensure_refused_for(none, "no gradient")?;
    let (own, _) = grids::grid::<grids::F32>(&mut device.rng(952))?;
    let refused = fixture.volume(&own)?.sample_indexed(stream, &samples, how, &array, &mut out);
    ensure_refused_for(refused, "float")?;
    Ok(())
}

/// Of a volume that was made on the device nobody knows how many indices it has: those beyond the array have the
/// background.
fn index_grids_of_the_device_take_any_array(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let voxels = fixture.upload(&[[0, 0, 0], [0, 0, 1], [0, 0, 2]])?;
    let options = VolumeOptions::new(OnIndex(0));
    let volume = Volume::from_voxels(stream, &fixture.geometry, &voxels, options)?;
    ensure!(volume.value_count().is_none());
    let points = fixture.upload(&[[0.0f32; 3], [0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])?;
    let values = [5.0f32, 6.0, 7.0, 8.0];
    for n in 0..=values.len() {
        let there = fixture.upload(&values[..n])?;
        let array = IndexedValues::new(&there, -1.0);
        let mut out = fixture.room::<f32>(3)?;
        let (samples, how) = (Samples::index(&points), Interpolation::Nearest);
        volume.sample_indexed(stream, &samples, how, &array, &mut out)?;
        let wanted = [0, 1, 2].map(|i: usize| if i < n { values[i] } else { -1.0 });
        ensure_eq!(out.to_vec(stream)?, wanted, "{n} values");
    }
    Ok(())
}
