//! Sparse volumes that the host makes: lookups, stores, samples, maps, rays. Those that the device makes are in
//! `volume_build`.

use geom_kernels::structures::volume::{self as cpu, Samples};
use geom_kernels::volume::nanovdb::{Build, Builder, write};
use geom_kernels::volume::{
    Index, Interpolated, Interpolation, OnIndex, Volume, VolumeHit, VolumeValue,
};
use geom_kernels::{Ray, Real};

use super::book::Book;
use super::calls::{self, Got, Lab, Plain, filled, filled_both};
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

/// Positions of samples on the CPU.
fn samples_of<P: Real>(points: &[[P; 3]], in_world: bool) -> Samples<'_, P> {
    if in_world { Samples::world(points) } else { Samples::index(points) }
}

/// The values of voxels and whether they are active, on both sides.
fn looked_up<T: VolumeValue + Plain>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    (there, here): (&Volume, &cpu::Volume<T>),
    asked: &[[i32; 3]],
) -> TestResult {
    let (values, active) = calls::looked_up::<T>(lab, there, &lab.up(asked)?)?;
    let found = filled(asked.len(), |out| here.lookup_all(asked, out))?;
    book.put_both(format!("{name}lookup"), &values, &found)?;
    let found = filled(asked.len(), |out| here.is_active_all(asked, out))?;
    book.put_both(format!("{name}active"), &active, &found)
}

/// The nearest samples on both sides.
fn nearest<P: Real, T: VolumeValue + Plain>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    (there, here): (&Volume, &cpu::Volume<T>),
    (host, in_world): (&[[P; 3]], bool),
) -> TestResult
where
    [P; 3]: Plain,
{
    let points = lab.up(host)?;
    let values: Vec<T> = calls::nearest_samples(lab, there, &calls::samples(&points, in_world))?;
    let samples = samples_of(host, in_world);
    let found = filled(host.len(), |out| here.sample_nearest_all(&samples, out))?;
    book.put_both(name, &values, &found)
}

pub(super) fn values(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<K: Kind>(lab: &Lab, book: &mut Book) -> TestResult {
        let middle = middle::<K>();
        let grid = grid::<K>(middle)?;
        let mut volume = calls::upload_volume(lab, &grid)?;
        let on_cpu = cpu::Volume::<K::Value>::new(grid)?;
        let asked = voxels(&mut rng(410), 600, middle);
        let at = |name: &str| format!("{}/{name}", K::NAME);
        looked_up(lab, book, &at(""), (&volume, &on_cpu), &asked)?;
        let (narrow, wide) = (around::<f32>(200, middle), around::<f64>(200, middle));
        let both = (&volume, &on_cpu);
        for (name, in_world) in [("index", false), ("world", true)] {
            let name = at(&format!("nearest_{name}"));
            nearest(lab, book, &format!("{name}_f32"), both, (&*narrow, in_world))?;
            nearest(lab, book, &format!("{name}_f64"), both, (&*wide, in_world))?;
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
            // The CPU has no stores, but reads what was stored.
            let on_cpu = cpu::Volume::<K::Value>::new(volume.download(&lab.stream)?)?;
            looked_up(lab, book, &at("store/"), (&volume, &on_cpu), &asked)?;
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
        let grid = grid::<K>(middle::<K>())?;
        let volume = calls::upload_volume(lab, &grid)?;
        let on_cpu = cpu::Volume::<K::Value>::new(grid)?;
        at::<K, f32>(lab, book, (&volume, &on_cpu), "f32")?;
        at::<K, f64>(lab, book, (&volume, &on_cpu), "f64")
    }
    fn at<K: Kind<Value: Interpolated>, P: Real>(
        lab: &Lab,
        book: &mut Book,
        (there, here): (&Volume, &cpu::Volume<K::Value>),
        real: &str,
    ) -> TestResult
    where
        [P; 3]: Plain,
    {
        for (how, interpolation) in calls::SMOOTH {
            let all = [("index", false, 150), ("world", true, 150)];
            let few = SIZES.map(|n| ("size", false, n));
            for (space, in_world, n) in all.into_iter().chain(few) {
                let host = around::<P>(n, middle::<K>());
                let points = lab.up(&host)?;
                let asked = calls::samples(&points, in_world);
                let (alone, values, gradients) =
                    calls::sampled::<P, K::Value>(lab, there, &asked, interpolation)?;
                let asked = samples_of(&host, in_world);
                let name = format!("{}/{how}/{real}/{space}_{n}", K::NAME);
                let found = filled(n, |out| here.sample(&asked, interpolation, out))?;
                book.put_both(format!("{name}/alone"), &alone, &found)?;
                let (found, slopes) = filled_both((n, n), |values, gradients| {
                    here.sample_with_gradient(&asked, interpolation, values, gradients)
                })?;
                book.put_both(format!("{name}/values"), &values, &found)?;
                book.put_both(format!("{name}/gradients"), &gradients, &slopes)?;
            }
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    of_smooth_kinds!(of(&lab, book));
    Ok(())
}

/// The nearest values, the interpolated ones, and these with gradients.
type Indexed<V> = ([Vec<V>; 3], Vec<<V as Interpolated>::Gradient>);

/// A volume of indices on the CPU.
enum OnCpu {
    All(cpu::Volume<Index>),
    Active(cpu::Volume<OnIndex>),
}

impl OnCpu {
    /// Samples at these places.
    fn sampled<P: Real, V: Interpolated + Plain>(
        &self,
        (host, in_world): (&[[P; 3]], bool),
        interpolation: Interpolation,
        (values, background): (&[V], V),
    ) -> Got<Indexed<V>> {
        let (n, asked) = (host.len(), samples_of(host, in_world));
        let array = cpu::IndexedValues::new(values, background);
        let sample = |how, out: &mut [V]| match self {
            Self::All(of) => of.sample_indexed(&asked, how, &array, out),
            Self::Active(of) => of.sample_indexed(&asked, how, &array, out),
        };
        let nearest = filled(n, |out| sample(Interpolation::Nearest, out))?;
        let alone = filled(n, |out| sample(interpolation, out))?;
        let (values, gradients) = filled_both((n, n), |out, to| match self {
            Self::All(of) => {
                of.sample_indexed_with_gradient(&asked, interpolation, &array, out, to)
            }
            Self::Active(of) => {
                of.sample_indexed_with_gradient(&asked, interpolation, &array, out, to)
            }
        })?;
        Ok(([nearest, alone, values], gradients))
    }
}

pub(super) fn indexed(device: &TestDevice, book: &mut Book) -> TestResult {
    type Both<'a> = (&'a Volume, &'a OnCpu);
    fn of<K: Kind<Value: Interpolated>>(
        lab: &Lab,
        book: &mut Book,
        (name, both): (&str, Both<'_>),
    ) -> TestResult {
        at::<K, f32>(lab, book, (name, both), "f32")?;
        at::<K, f64>(lab, book, (name, both), "f64")
    }
    fn at<K: Kind<Value: Interpolated>, P: Real>(
        lab: &Lab,
        book: &mut Book,
        (name, (there, here)): (&str, Both<'_>),
        real: &str,
    ) -> TestResult
    where
        [P; 3]: Plain,
    {
        let mut rng = rng(420);
        let (_, count) = calls::volume_grid(lab, there)?;
        let background = K::value(&mut rng);
        let host: Vec<K::Value> = (1..count).map(|_| K::value(&mut rng)).collect();
        let positions = around::<P>(90, 128);
        let (values, points) = (lab.up(&host)?, lab.up(&positions)?);
        for (how, interpolation) in calls::SMOOTH {
            let in_world = how == "tricubic";
            let asked = calls::samples(&points, in_world);
            let given = (&asked, interpolation);
            let name = format!("{name}/{}/{how}/{real}", K::NAME);
            let all = calls::indexed::<P, K::Value>(lab, there, given, (&values, background))?;
            let (found, slopes) =
                here.sampled((&*positions, in_world), interpolation, (&*host, background))?;
            for (which, (all, found)) in
                ["nearest", "alone", "values"].into_iter().zip(all.iter().zip(&found))
            {
                book.put_both(format!("{name}/{which}"), all, found)?;
            }
            let gradients =
                calls::indexed_gradients::<P, K::Value>(lab, there, given, (&values, background))?;
            book.put_both(format!("{name}/gradients"), &gradients, &slopes)?;
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    let (every, active) = (grid::<inputs::Indexed>(128)?, grid::<inputs::OnIndexed>(128)?);
    let there = [calls::upload_volume(&lab, &every)?, calls::upload_volume(&lab, &active)?];
    let here = [OnCpu::All(cpu::Volume::new(every)?), OnCpu::Active(cpu::Volume::new(active)?)];
    for (name, both) in ["index", "on_index"].into_iter().zip(there.iter().zip(&here)) {
        of_smooth_kinds!(of(&lab, book, (name, both)));
    }
    Ok(())
}

pub(super) fn maps(device: &TestDevice, book: &mut Book) -> TestResult {
    type Both<'a> = (&'a Volume, &'a cpu::Volume<f32>);
    fn of<P: Real>(lab: &Lab, book: &mut Book, (there, here): Both<'_>, real: &str) -> TestResult
    where
        [P; 3]: Plain,
    {
        for n in SIZES.into_iter().chain([300]) {
            let host = positions::<P>(&mut rng(430), n, 100.0);
            let found = [
                filled(n, |to| here.index_to_world_all(&host, to))?,
                filled(n, |to| here.world_to_index_all(&host, to))?,
                filled(n, |to| here.index_to_world_directions(&host, to))?,
                filled(n, |to| here.world_to_index_directions(&host, to))?,
                filled(n, |to| here.index_to_world_gradients(&host, to))?,
                filled(n, |to| here.world_to_index_gradients(&host, to))?,
            ];
            let mapped = calls::mapped(lab, there, &lab.up(&host)?)?;
            for (i, (mapped, found)) in mapped.iter().zip(&found).enumerate() {
                book.put_both(format!("{real}/{n}/{i}"), mapped, found.as_flattened())?;
            }
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    let grid = grid::<inputs::F32>(0)?;
    let volume = calls::upload_volume(&lab, &grid)?;
    let both = (&volume, &cpu::Volume::new(grid)?);
    of::<f32>(&lab, book, both, "f32")?;
    of::<f64>(&lab, book, both, "f64")
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
    fn of<T: Build<Value: Real + VolumeValue>>(
        lab: &Lab,
        book: &mut Book,
        real: &str,
        number: fn(f64) -> T::Value,
    ) -> TestResult {
        for (name, mut field) in ["noise", "sphere"].into_iter().zip(fields::<T>(number)) {
            for (space, map) in [("index", Default::default()), ("world", inputs::map()?)] {
                let grid = field.map(map).build()?;
                let volume = calls::upload_volume(lab, &grid)?;
                let here = cpu::Volume::<T::Value>::new(grid)?;
                for n in SIZES.into_iter().chain([150]) {
                    let host: Vec<Ray> = rays(&mut rng(441), n, 9.0);
                    let (hits, integrals) = calls::marched(lab, &volume, &lab.up(&host)?, -0.05)?;
                    let crossings = |out: &mut [VolumeHit]| here.first_crossings(&host, -0.05, out);
                    let name = format!("{real}/{name}/{space}/{n}");
                    book.put_both(format!("{name}/crossings"), &hits, &filled(n, crossings)?)?;
                    let found = filled(n, |out| here.integrals(&host, out))?;
                    book.put_both(format!("{name}/integrals"), &integrals, &found)?;
                }
            }
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    of::<f32>(&lab, book, "f32", |x| x as f32)?;
    of::<f64>(&lab, book, "f64", |x| x)
}
