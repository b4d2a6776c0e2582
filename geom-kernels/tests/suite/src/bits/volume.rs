//! Sparse volumes that the host makes: lookups, stores, samples, maps, rays. Those that the device makes are in
//! `volume_build`.

use geom_kernels::Real;
use geom_kernels::volume::nanovdb::{Build, Builder, write};
use geom_kernels::volume::{Interpolated, Volume};

use super::book::Book;
use super::calls::{self, Lab, Plain};
use super::inputs::{self, Kind, SIZES, grid, middle, positions, rays, rng, voxels};
use test_harness::{TestDevice, TestResult};

/// Calls a function for every type of values.
macro_rules! of_every_kind {
    ($of:ident($($given:expr),*)) => {
        $of::<inputs::F32>($($given),*)?;
        $of::<inputs::F64>($($given),*)?;
        $of::<inputs::I16>($($given),*)?;
        $of::<inputs::I32>($($given),*)?;
        $of::<inputs::I64>($($given),*)?;
        $of::<inputs::U8>($($given),*)?;
        $of::<inputs::U32>($($given),*)?;
        $of::<inputs::Vec3F>($($given),*)?;
        $of::<inputs::Vec3D>($($given),*)?;
        $of::<inputs::Vec4F>($($given),*)?;
        $of::<inputs::Vec4D>($($given),*)?;
        $of::<inputs::Colour>($($given),*)?;
        $of::<inputs::Bit>($($given),*)?;
        $of::<inputs::Masked>($($given),*)?;
        $of::<inputs::Indexed>($($given),*)?;
        $of::<inputs::OnIndexed>($($given),*)?;
    };
}
pub(super) use of_every_kind;

/// Calls a function for every type of values that can be interpolated.
macro_rules! of_smooth_kinds {
    ($of:ident($($given:expr),*)) => {
        $of::<inputs::F32>($($given),*)?;
        $of::<inputs::F64>($($given),*)?;
        $of::<inputs::Vec3F>($($given),*)?;
        $of::<inputs::Vec3D>($($given),*)?;
        $of::<inputs::Vec4F>($($given),*)?;
        $of::<inputs::Vec4D>($($given),*)?;
    };
}
pub(super) use of_smooth_kinds;

/// Positions around the voxels, some of them where they end.
fn around<P: Real>(n: usize, middle: i32) -> Vec<[P; 3]> {
    let mut all = positions::<P>(&mut rng(400), n, 14.0);
    for p in &mut all {
        *p = p.map(|x| P::narrow(x.wide() + f64::from(middle)));
    }
    for (i, p) in all.iter_mut().enumerate() {
        match i % 8 {
            1 => *p = p.map(|x| P::narrow(x.wide().floor())),
            2 => *p = p.map(|x| P::narrow(x.wide().floor() + 0.5)),
            3 => p[0] = P::narrow(p[0].wide() + 125.0),
            4 if i % 64 == 4 => p[1] = P::narrow(f64::NAN),
            4 if i % 64 == 12 => p[2] = P::narrow(4e9),
            _ => {}
        }
    }
    all
}

pub(super) fn values(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<K: Kind>(lab: &Lab, book: &mut Book) -> TestResult {
        let middle = middle::<K>();
        let mut volume = calls::upload_volume(lab, &grid::<K>(middle)?)?;
        let asked = lab.up(&voxels(&mut rng(410), 600, middle))?;
        let at = |name: &str| format!("{}/{name}", K::NAME);
        let (values, active) = calls::looked_up::<K::Value>(lab, &volume, &asked)?;
        book.put(at("lookup"), &values);
        book.put(at("active"), &active);
        let (host32, host64) =
            (lab.up(&around::<f32>(200, middle))?, lab.up(&around::<f64>(200, middle))?);
        for (name, in_world) in [("index", false), ("world", true)] {
            let narrow = calls::samples(&host32, in_world);
            let found: Vec<K::Value> = calls::nearest_samples(lab, &volume, &narrow)?;
            book.put(at(&format!("nearest_{name}_f32")), &found);
            let wide = calls::samples(&host64, in_world);
            let found: Vec<K::Value> = calls::nearest_samples(lab, &volume, &wide)?;
            book.put(at(&format!("nearest_{name}_f64")), &found);
        }
        let dense: Vec<K::Value> =
            calls::to_dense(lab, &volume, [-10, -9, -3].map(|x| x + middle), [11, 10, 17])?;
        book.put(at("dense"), &dense);
        let mut rng = rng(411);
        // Each voxel once: which of several stores comes last is nobody's promise.
        let mut once = voxels(&mut rng, 300, middle);
        once.sort_unstable();
        once.dedup();
        let host: Vec<K::Value> = once.iter().map(|_| K::value(&mut rng)).collect();
        let (once, there) = (lab.up(&once)?, lab.up(&host)?);
        // Of indices and masks nothing can be stored.
        let has_values = !["Masked", "Indexed", "OnIndexed"].contains(&K::NAME);
        if has_values {
            let refused = calls::store(lab, &mut volume, &once, &there)?;
            book.put(at("store/refused"), &refused);
            let (values, active) = calls::looked_up::<K::Value>(lab, &volume, &asked)?;
            book.put(at("store/lookup"), &values);
            book.put(at("store/active"), &active);
        }
        let (bytes, count) = calls::volume_grid(lab, &volume)?;
        book.put(at("grid"), &bytes);
        book.put(at("values"), &[count]);
        book.put(at("counts"), &calls::volume_counts(lab, &volume)?);
        let (tiles, active) = calls::volume_lists(lab, &volume)?;
        book.put(at("tiles"), &tiles);
        book.put(at("voxels"), &active);
        Ok(())
    }
    let lab = Lab::new(device)?;
    of_every_kind!(of(&lab, book));
    let file = write(&[grid::<inputs::F32>(0)?, grid::<inputs::Bit>(128)?], &Default::default())?;
    for (i, volume) in calls::read_volumes(&lab, &file)?.iter().enumerate() {
        book.put(format!("file/{i}"), &calls::volume_bytes(&lab, volume)?);
    }
    Ok(())
}

pub(super) fn samples(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<K: Kind<Value: Interpolated>>(lab: &Lab, book: &mut Book) -> TestResult {
        let volume = calls::upload_volume(lab, &grid::<K>(middle::<K>())?)?;
        at::<K, f32>(lab, book, &volume, "f32")?;
        at::<K, f64>(lab, book, &volume, "f64")
    }
    fn at<K: Kind<Value: Interpolated>, P: Real>(
        lab: &Lab,
        book: &mut Book,
        volume: &Volume,
        real: &str,
    ) -> TestResult
    where
        [P; 3]: Plain,
    {
        for (how, interpolation) in calls::SMOOTH {
            let all = [("index", false, 150), ("world", true, 150)];
            let few = SIZES.map(|n| ("size", false, n));
            for (space, in_world, n) in all.into_iter().chain(few) {
                let there = lab.up(&around::<P>(n, middle::<K>()))?;
                let asked = calls::samples(&there, in_world);
                let (alone, values, gradients) =
                    calls::sampled::<P, K::Value>(lab, volume, &asked, interpolation)?;
                let name = format!("{}/{how}/{real}/{space}_{n}", K::NAME);
                book.put(format!("{name}/alone"), &alone);
                book.put(format!("{name}/values"), &values);
                book.put(format!("{name}/gradients"), &gradients);
            }
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    of_smooth_kinds!(of(&lab, book));
    Ok(())
}

pub(super) fn indexed(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<K: Kind<Value: Interpolated>>(
        lab: &Lab,
        book: &mut Book,
        (name, volume): (&str, &Volume),
    ) -> TestResult {
        at::<K, f32>(lab, book, (name, volume), "f32")?;
        at::<K, f64>(lab, book, (name, volume), "f64")
    }
    fn at<K: Kind<Value: Interpolated>, P: Real>(
        lab: &Lab,
        book: &mut Book,
        (name, volume): (&str, &Volume),
        real: &str,
    ) -> TestResult
    where
        [P; 3]: Plain,
    {
        let mut rng = rng(420);
        let (_, count) = calls::volume_grid(lab, volume)?;
        let background = K::value(&mut rng);
        let host: Vec<K::Value> = (1..count).map(|_| K::value(&mut rng)).collect();
        let (values, there) = (lab.up(&host)?, lab.up(&around::<P>(90, 128))?);
        for (how, interpolation) in calls::SMOOTH {
            let asked = calls::samples(&there, how == "tricubic");
            let given = (&asked, interpolation);
            let name = format!("{name}/{}/{how}/{real}", K::NAME);
            let all = calls::indexed::<P, K::Value>(lab, volume, given, (&values, background))?;
            for (which, found) in ["nearest", "alone", "values"].into_iter().zip(all) {
                book.put(format!("{name}/{which}"), &found);
            }
            let gradients =
                calls::indexed_gradients::<P, K::Value>(lab, volume, given, (&values, background))?;
            book.put(format!("{name}/gradients"), &gradients);
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    let every = calls::upload_volume(&lab, &grid::<inputs::Indexed>(128)?)?;
    let active = calls::upload_volume(&lab, &grid::<inputs::OnIndexed>(128)?)?;
    for of_indices in [("index", &every), ("on_index", &active)] {
        of_smooth_kinds!(of(&lab, book, of_indices));
    }
    Ok(())
}

pub(super) fn maps(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<P: Real>(lab: &Lab, book: &mut Book, volume: &Volume, real: &str) -> TestResult
    where
        [P; 3]: Plain,
    {
        for n in SIZES.into_iter().chain([300]) {
            let from = lab.up(&positions::<P>(&mut rng(430), n, 100.0))?;
            for (i, found) in calls::mapped(lab, volume, &from)?.iter().enumerate() {
                book.put(format!("{real}/{n}/{i}"), found);
            }
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    let volume = calls::upload_volume(&lab, &grid::<inputs::F32>(0)?)?;
    of::<f32>(&lab, book, &volume, "f32")?;
    of::<f64>(&lab, book, &volume, "f64")
}

/// Noise, and the distance from a sphere with a tile inside.
pub(super) fn marches(device: &TestDevice, book: &mut Book) -> TestResult {
    fn fields<T: Build>(of: fn(f64) -> T::Value) -> [Builder<T>; 2] {
        let mut rng = rng(440);
        let mut noise = Builder::<T>::new(of(0.3));
        let mut sphere = Builder::<T>::new(of(3.0));
        let range = -9..10;
        sphere.fill_tile(1, [0, 0, 0], of(-3.0), true);
        for x in range.clone() {
            for y in range.clone() {
                for z in range.clone() {
                    noise.set([x, y, z], of(f64::from(rng.float())));
                    let distance = f64::from(x * x + y * y + z * z).sqrt() - 8.0;
                    if distance.abs() < 3.0 && [x, y, z].iter().any(|x| !(0..8).contains(x)) {
                        sphere.set([x, y, z], of(distance));
                    }
                }
            }
        }
        [noise, sphere]
    }
    fn of<T: Build>(
        lab: &Lab,
        book: &mut Book,
        real: &str,
        number: fn(f64) -> T::Value,
    ) -> TestResult {
        for (name, mut field) in ["noise", "sphere"].into_iter().zip(fields::<T>(number)) {
            for (space, map) in [("index", Default::default()), ("world", inputs::map()?)] {
                let volume = calls::upload_volume(lab, &field.map(map).build()?)?;
                for n in SIZES.into_iter().chain([150]) {
                    let there = lab.up(&rays(&mut rng(441), n, 9.0))?;
                    let (hits, integrals) = calls::marched(lab, &volume, &there, -0.05)?;
                    book.put(format!("{real}/{name}/{space}/{n}/crossings"), &hits);
                    book.put(format!("{real}/{name}/{space}/{n}/integrals"), &integrals);
                }
            }
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    of::<f32>(&lab, book, "f32", |x| x as f32)?;
    of::<f64>(&lab, book, "f64", |x| x)
}
