//! Values of voxels, and of those nearest to positions.

use geom_kernels::Real;
use geom_kernels::volume::{Interpolation, Samples};

use super::Fixture;
use super::grids::{Kind, for_all_kinds, grid, positions, voxels};
use crate::volume_decode::Decoded;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume",
        device(lookups_find_every_type),
        device(nearest_values_of_every_type),
        device(queries_refuse_other_types_and_lengths),
    ]
}

fn lookups_find_every_type(device: &TestDevice) -> TestResult {
    for_all_kinds!(look_up((device)));
    Ok(())
}

fn look_up<K: Kind>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(910);
    let (grid, set) = grid::<K>(&mut rng)?;
    let (volume, decoded) = (fixture.volume(&grid)?, Decoded::new(grid.bytes()));
    for n in [0, 1, 31, 32, 33, 4000] {
        let mut asked = voxels(&mut rng, &set, n);
        asked.truncate(if n < 100 { n } else { usize::MAX });
        let there = fixture.upload(&asked)?;
        let mut values = fixture.room::<K::Value>(asked.len())?;
        let mut active = fixture.room::<u8>(asked.len())?;
        volume.lookup(stream, &there, &mut values)?;
        volume.is_active(stream, &there, &mut active)?;
        let (values, active) = (values.to_vec(stream)?, active.to_vec(stream)?);
        for ((voxel, value), active) in asked.iter().zip(&values).zip(active) {
            let wanted = decoded.value(*voxel);
            ensure!(bytemuck::bytes_of(value) == wanted, "{}, {voxel:?}: {value:?}", K::NAME);
            ensure_eq!(active, u8::from(decoded.is_active(*voxel)), "{}, {voxel:?}", K::NAME);
        }
        let in_leaves = asked.iter().filter(|voxel| decoded.is_in_leaf(**voxel)).count();
        ensure!(n < 100 || (in_leaves > 500 && asked.len() - in_leaves > 500), "{in_leaves}");
    }
    Ok(())
}

fn nearest_values_of_every_type(device: &TestDevice) -> TestResult {
    for_all_kinds!(nearest_of((device)));
    Ok(())
}

fn nearest_of<K: Kind>(device: &TestDevice) -> TestResult {
    nearest_at::<K, f32>(device)?;
    nearest_at::<K, f64>(device)
}

fn nearest_at<K: Kind, P: Real>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(911);
    let (grid, set) = grid::<K>(&mut rng)?;
    let (volume, decoded) = (fixture.volume(&grid)?, Decoded::new(grid.bytes()));
    let asked = positions::<P>(&mut rng, &set, 1500);
    let there = fixture.upload(&asked)?;
    let mut values = fixture.room::<K::Value>(asked.len())?;
    volume.sample(stream, &Samples::index(&there), Interpolation::Nearest, &mut values)?;
    for (p, value) in asked.iter().zip(values.to_vec(stream)?) {
        let wanted = nearest_voxel(*p).map_or_else(|| decoded.background(), |v| decoded.value(v));
        ensure!(bytemuck::bytes_of(&value) == wanted, "{}, {p:?}: {value:?}", K::NAME);
    }
    Ok(())
}

/// The nearest voxel, of two the one on the far side; none to a position out of reach.
pub(super) fn nearest_voxel<P: Real>(p: [P; 3]) -> Option<[i32; 3]> {
    let p = p.map(Real::wide);
    let far = f64::from(1 << 30);
    p.iter().all(|x| x.abs() <= far).then(|| {
        // What is left over a whole number is exact where it is less than a half.
        p.map(|x| x.floor() as i32 + i32::from(x - x.floor() >= 0.5))
    })
}

fn queries_refuse_other_types_and_lengths(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let (grid, _) = grid::<super::grids::I32>(&mut device.rng(912))?;
    let mut volume = fixture.volume(&grid)?;
    let at = fixture.upload(&[[0i32; 3]; 5])?;
    let points = fixture.upload(&[[0.0f32; 3]; 5])?;
    let samples = Samples::index(&points);
    let (mut wrong, mut right) = (fixture.room::<f32>(5)?, fixture.room::<i32>(5)?);
    let mut few = fixture.room::<i32>(4)?;
    let mut gradients = fixture.room::<[f32; 3]>(5)?;
    let mut refused = fixture.room::<u64>(2)?;
    let (nearest, trilinear) = (Interpolation::Nearest, Interpolation::Trilinear);
    let of = |result: cuda_safe::Result<()>, words: &[&str]| -> TestResult {
        let Err(error) = result else {
            return Err(Failure::new(format!("not refused: {words:?}")));
        };
        let text = error.to_string();
        ensure!(words.iter().all(|word| text.contains(word)), "{text}, without {words:?}");
        Ok(())
    };
    let types = ["int32", "float"];
    of(volume.lookup(stream, &at, &mut wrong), &types)?;
    of(volume.sample(stream, &samples, nearest, &mut wrong), &types)?;
    of(volume.store(stream, &at, &wrong, refused.slice_mut(..1)?), &types)?;
    let both = volume.sample_with_gradient(stream, &samples, trilinear, &mut wrong, &mut gradients);
    of(both, &types)?;
    of(volume.sample(stream, &samples, trilinear, &mut right), &["int32", "nearest"])?;
    of(volume.lookup(stream, &at, &mut few), &["4", "5"])?;
    of(volume.sample(stream, &samples, nearest, &mut few), &["4", "5"])?;
    of(volume.is_active(stream, &at, &mut fixture.room::<u8>(6)?), &["6", "5"])?;
    of(volume.store(stream, &at, &few, refused.slice_mut(..1)?), &["4", "5"])?;
    of(volume.store(stream, &at, &right, &mut refused), &["2", "1"])?;
    of(volume.index_to_world(stream, &points, &mut fixture.room::<[f32; 3]>(4)?), &["4", "5"])?;
    // None of them is fine.
    let none = fixture.upload::<[f32; 3]>(&[])?;
    let mut nothing = fixture.room::<i32>(0)?;
    volume.sample(stream, &Samples::world(&none), nearest, &mut nothing)?;
    Ok(())
}
