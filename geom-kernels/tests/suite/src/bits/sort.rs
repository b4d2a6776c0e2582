//! Sorts, sums, least and greatest, scans, selections.

use std::ops::Range;

use cuda_safe::DeviceBuffer;
use geom_kernels::algorithms::{Algorithms, Key, Number, Scan, SelectFlag, Selectable};

use super::book::Book;
use super::calls::{self, Lab, Plain};
use super::inputs::{ODD, SIZES, rng};
use test_harness::{Rng, TestDevice, TestResult};

/// A number of any type from random bits; among floats are odd ones.
trait Random: Plain {
    fn random(rng: &mut Rng) -> Self;
    fn is_odd(&self) -> bool {
        false
    }
}

macro_rules! random {
    ($($number:ty: $of:expr $(, $odd:expr)?;)+) => {$(
        impl Random for $number {
            fn random(rng: &mut Rng) -> Self {
                let of: fn(&mut Rng) -> Self = $of;
                of(rng)
            }
            $(fn is_odd(&self) -> bool {
                let odd: fn(&Self) -> bool = $odd;
                odd(self)
            })?
        }
    )+};
}
random! {
    u32: |rng| rng.next() as u32;
    i32: |rng| rng.next() as i32;
    u64: |rng| rng.next();
    i64: |rng| rng.next() as i64;
    f32: |rng| match rng.below(8) { 0 => ODD[rng.below(10)] as f32, _ => 100.0 * rng.float() },
        |x| !x.is_finite();
    f64: |rng| match rng.below(8) { 0 => ODD[rng.below(10)], _ => f64::from(rng.float()) / 3.0 },
        |x| !x.is_finite();
}

/// More than a block sorts.
const LARGE: usize = 4_700;

fn sizes() -> impl Iterator<Item = usize> {
    SIZES.into_iter().chain([1000, LARGE])
}

fn many<T: Random>(rng: &mut Rng, n: usize) -> Vec<T> {
    (0..n).map(|_| T::random(rng)).collect()
}

pub(super) fn sorts(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    keys::<u32>(&lab, book, "u32")?;
    keys::<i32>(&lab, book, "i32")?;
    keys::<f32>(&lab, book, "f32")?;
    keys::<u64>(&lab, book, "u64")?;
    keys::<i64>(&lab, book, "i64")?;
    keys::<f64>(&lab, book, "f64")
}

fn keys<K: Key + Random>(lab: &Lab, book: &mut Book, name: &str) -> TestResult {
    let all = calls::sorts(lab);
    let width = 8 * size_of::<K>() as u32;
    for n in sizes() {
        let mut rng = rng(200);
        let keys = lab.up(&many::<K>(&mut rng, n))?;
        let values = lab.up(&many::<u32>(&mut rng, n))?;
        let mut room = calls::scratch::<K>(lab, n)?;
        let own = calls::within(&all, &mut room);
        let given = (&keys, &values);
        sorted(lab, book, &format!("{name}/{n}/all"), &all, (given, 0..width))?;
        if n == LARGE {
            continue;
        }
        sorted(lab, book, &format!("{name}/{n}/some"), &all, (given, 5..width - 9))?;
        sorted(lab, book, &format!("{name}/{n}/scratch"), &own, (given, 0..width))?;
    }
    Ok(())
}

fn sorted<K: Key + Random>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    sort: &Algorithms<'_>,
    ((keys, values), bits): ((&DeviceBuffer<K>, &DeviceBuffer<u32>), Range<u32>),
) -> TestResult {
    book.put(format!("{name}/keys"), &calls::sorted_keys(lab, sort, keys, bits.clone())?);
    let (sorted, beside) = calls::sorted_pairs(lab, sort, (keys, values), bits.clone())?;
    book.put(format!("{name}/pairs/keys"), &sorted);
    book.put(format!("{name}/pairs/values"), &beside);
    book.put(format!("{name}/order"), &calls::argsorted(lab, sort, keys, bits)?);
    Ok(())
}

pub(super) fn sums(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    reduce::<u32>(&lab, book, "u32")?;
    reduce::<i32>(&lab, book, "i32")?;
    reduce::<u64>(&lab, book, "u64")?;
    reduce::<i64>(&lab, book, "i64")?;
    reduce::<f32>(&lab, book, "f32")?;
    reduce::<f64>(&lab, book, "f64")?;
    scan::<u32>(&lab, book, "u32")?;
    scan::<i32>(&lab, book, "i32")?;
    scan::<u64>(&lab, book, "u64")?;
    scan::<i64>(&lab, book, "i64")
}

fn reduce<T: Number + Random>(lab: &Lab, book: &mut Book, name: &str) -> TestResult {
    let sort = calls::sorts(lab);
    for n in sizes() {
        let host = many::<T>(&mut rng(210), n);
        book.put(format!("{name}/{n}/odd"), &calls::reductions(lab, &sort, &lab.up(&host)?)?);
        // Without NaNs and infinities, which hide all else.
        let finite: Vec<T> = host.iter().copied().filter(|x| !x.is_odd()).collect();
        book.put(format!("{name}/{n}"), &calls::reductions(lab, &sort, &lab.up(&finite)?)?);
    }
    Ok(())
}

fn scan<T: Scan + Random>(lab: &Lab, book: &mut Book, name: &str) -> TestResult {
    let sort = calls::sorts(lab);
    for n in sizes() {
        let there = lab.up(&many::<T>(&mut rng(220), n))?;
        let mut room = calls::scratch::<u32>(lab, n)?;
        let own = calls::within(&sort, &mut room);
        scanned(lab, book, &format!("{name}/{n}/pool"), &sort, &there)?;
        scanned(lab, book, &format!("{name}/{n}/scratch"), &own, &there)?;
    }
    Ok(())
}

fn scanned<T: Scan + Random>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    sort: &Algorithms<'_>,
    there: &DeviceBuffer<T>,
) -> TestResult {
    let (exclusive, inclusive) = calls::scans(lab, sort, there)?;
    book.put(format!("{name}/exclusive"), &exclusive);
    book.put(format!("{name}/inclusive"), &inclusive);
    Ok(())
}

pub(super) fn selections(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let sort = calls::sorts(&lab);
    for n in sizes() {
        let mut rng = rng(230);
        let counts: Vec<u32> = (0..n).map(|_| rng.below(1000) as u32).collect();
        let there = lab.up(&counts)?;
        book.put(format!("offsets_u32/{n}"), &calls::offsets::<u32>(&lab, &sort, &there)?);
        book.put(format!("offsets_u64/{n}"), &calls::offsets::<u64>(&lab, &sort, &there)?);
        let flags: Vec<u8> = (0..n).map(|_| (rng.below(3) * rng.below(90)) as u8).collect();
        flagged(&lab, book, &format!("u8/{n}"), &flags)?;
        let flags: Vec<u32> = flags.into_iter().map(|flag| u32::from(flag) << 17).collect();
        flagged(&lab, book, &format!("u32/{n}"), &flags)?;
    }
    Ok(())
}

fn flagged<F: SelectFlag + Plain>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    flags: &[F],
) -> TestResult {
    let sort = calls::sorts(lab);
    let n = flags.len();
    let there = lab.up(flags)?;
    for (which, room) in [("all", n), ("few", n / 4)] {
        let (places, number) = calls::selected_places(lab, &sort, &there, room)?;
        book.put(format!("{name}/places/{which}"), &places);
        book.put(format!("{name}/places/{which}/number"), &number);
    }
    elements::<F, u32>(lab, book, &format!("{name}/u32"), flags)?;
    elements::<F, i32>(lab, book, &format!("{name}/i32"), flags)?;
    elements::<F, f32>(lab, book, &format!("{name}/f32"), flags)?;
    elements::<F, u64>(lab, book, &format!("{name}/u64"), flags)?;
    elements::<F, i64>(lab, book, &format!("{name}/i64"), flags)?;
    elements::<F, f64>(lab, book, &format!("{name}/f64"), flags)
}

fn elements<F: SelectFlag + Plain, T: Selectable + Random>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    flags: &[F],
) -> TestResult {
    let sort = calls::sorts(lab);
    let there = lab.up(flags)?;
    let of = lab.up(&many::<T>(&mut rng(231), flags.len()))?;
    let (selected, number) = calls::selected(lab, &sort, (&there, &of), flags.len())?;
    book.put(name, &selected);
    book.put(format!("{name}/number"), &number);
    Ok(())
}
