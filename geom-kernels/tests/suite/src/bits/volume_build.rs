//! Volumes that the device makes: from lists of leaves and voxels, from arrays, again in place.

use geom_kernels::volume::Volume;

use super::book::Book;
use super::calls::{self, From, Lab};
use super::inputs::{self, Kind, map, rng};
use super::volume::of_every_kind;
use test_harness::{Rng, TestDevice, TestResult};

/// Voxels, some twice, near the origin and far, some out of range.
fn list(rng: &mut Rng, n: usize) -> Vec<[i32; 3]> {
    let one = |rng: &mut Rng, i: usize| {
        let around = [[0, 0, 0], [4100, -130, 60], [-5000, 4090, 1 << 20]][rng.below(3)];
        match i % 120 {
            60 => [1 << 23, 0, 0],
            61 => [0, -(1 << 23) - 1, 5],
            _ => around.map(|x: i32| x + rng.below(20) as i32 - 10),
        }
    };
    (0..n).map(|i| one(rng, i)).collect()
}

fn has_values<K: Kind>() -> bool {
    !["Masked", "Indexed", "OnIndexed"].contains(&K::NAME)
}

/// What a volume consists of. Bytes that nothing was built in are not part of it: those of volumes with room have
/// them, of which the grid is taken.
fn whole(lab: &Lab, book: &mut Book, name: &str, volume: &Volume, has_room: bool) -> TestResult {
    if has_room {
        book.put(format!("{name}/status"), &calls::build_status(lab, volume)?);
    }
    book.put(format!("{name}/counts"), &calls::volume_counts(lab, volume)?);
    let (tiles, voxels) = calls::volume_lists(lab, volume)?;
    book.put(format!("{name}/tiles"), &tiles);
    book.put(format!("{name}/voxels"), &voxels);
    // It adds statistics and a checksum to the bytes, on the host.
    if has_room || name.starts_with("F32") {
        book.put(format!("{name}/grid"), &calls::volume_grid(lab, volume)?.0);
    }
    if !has_room {
        book.put(format!("{name}/bytes"), &calls::volume_bytes(lab, volume)?);
    }
    Ok(())
}

pub(super) fn lists(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<K: Kind>(lab: &Lab, book: &mut Book) -> TestResult {
        let mut rng = rng(500);
        let host = list(&mut rng, 250);
        let values: Vec<K::Value> = host.iter().map(|_| K::value(&mut rng)).collect();
        let (there, values) = (lab.up(&host)?, lab.up(&values)?);
        let options = calls::volume_options(K::value(&mut rng), map()?, None);
        let at = |name: &str| format!("{}/{name}", K::NAME);
        let volume = calls::listed_volume(lab, &there, From::Tiles, &options)?;
        whole(lab, book, &at("tiles"), &volume, false)?;
        let volume = calls::listed_volume(lab, &there, From::Voxels, &options)?;
        whole(lab, book, &at("voxels"), &volume, false)?;
        if has_values::<K>() {
            let volume = calls::valued_volume(lab, &there, &values, &options)?;
            whole(lab, book, &at("values"), &volume, false)?;
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    of_every_kind!(of(&lab, book));
    // Lists of other sizes, and of points in the world.
    let options = calls::volume_options(0.5f32, map()?, None);
    for n in inputs::SIZES {
        let there = lab.up(&list(&mut rng(501), n))?;
        let volume = calls::listed_volume(&lab, &there, From::Voxels, &options)?;
        whole(&lab, book, &format!("size_{n}"), &volume, false)?;
    }
    let mut host = inputs::points(&mut rng(502), 400, 9.0);
    host[3] = [f32::NAN, 0.0, 0.0];
    host[4] = [1e30, 0.0, 0.0];
    let there = lab.up(&host)?;
    for (name, from) in [("tiles", From::Tiles), ("voxels", From::Voxels)] {
        let volume = calls::listed_volume(&lab, &there, from, &options)?;
        whole(&lab, book, &format!("points/{name}"), &volume, false)?;
    }
    let values = lab.up(&rng(503).floats(400))?;
    let volume = calls::valued_volume(&lab, &there, &values, &options)?;
    whole(&lab, book, "points/values", &volume, false)
}

pub(super) fn arrays(device: &TestDevice, book: &mut Book) -> TestResult {
    fn of<K: Kind>(lab: &Lab, book: &mut Book) -> TestResult {
        if ["Indexed", "OnIndexed"].contains(&K::NAME) {
            // Volumes of indices have no values.
            return Ok(());
        }
        let (mut rng, dims) = (rng(510), [19, 9, 12]);
        let background = K::value(&mut rng);
        let host: Vec<K::Value> = (0..dims.iter().product())
            .map(|i: usize| if i / 12 % 9 < 4 { background } else { K::value(&mut rng) })
            .collect();
        let options = calls::volume_options(background, map()?, None);
        let is_real = ["F32", "F64"].contains(&K::NAME);
        for (keep, how) in calls::keeps(0.5) {
            if keep == "band" && !is_real {
                continue;
            }
            let all = calls::dense_volumes(lab, (dims, &host), &options, ([-5, -4, 121], how))?;
            for (from, volume) in ["device", "host", "function"].into_iter().zip(&all) {
                whole(lab, book, &format!("{}/{keep}/{from}", K::NAME), volume, false)?;
            }
            let [volume, ..] = &all;
            let back: Vec<K::Value> = calls::to_dense(lab, volume, [-7, -4, 119], [23, 9, 15])?;
            book.put(format!("{}/{keep}/dense", K::NAME), &back);
        }
        Ok(())
    }
    let lab = Lab::new(device)?;
    of_every_kind!(of(&lab, book));
    let options = calls::volume_options(1.0f32, map()?, None);
    for dims in [[0, 3, 3], [1, 1, 1], [1, 1, 33], [31, 1, 2]] {
        let host = rng(511).floats(dims.iter().product());
        let [(_, how), ..] = calls::keeps(0.0);
        let all = calls::dense_volumes(&lab, (dims, &host), &options, ([0; 3], how))?;
        let [x, y, z] = dims;
        whole(&lab, book, &format!("dims_{x}_{y}_{z}"), &all[0], false)?;
    }
    Ok(())
}

/// In the same memory again and again, once without enough of it.
pub(super) fn in_place(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let mut rng = rng(520);
    let options = calls::volume_options(-1.5f32, map()?, Some([200, 20, 8, 400]));
    let there = lab.up(&list(&mut rng, 200))?;
    let mut volume = calls::listed_volume(&lab, &there, From::Tiles, &options)?;
    whole(&lab, book, "first", &volume, true)?;
    for (name, n, from) in [
        ("voxels", 150, Some(From::Voxels)),
        ("values", 320, None),
        ("tiles", 33, Some(From::Tiles)),
        ("none", 0, Some(From::Voxels)),
        ("values_again", 90, None),
    ] {
        let host = list(&mut rng, n);
        let (there, values) = (lab.up(&host)?, lab.up(&rng.floats(n))?);
        match from {
            Some(from) => calls::rebuild_volume(&lab, &mut volume, &there, from)?,
            None => calls::rebuild_valued_volume(&lab, &mut volume, &there, &values)?,
        }
        whole(&lab, book, name, &volume, true)?;
        let asked = lab.up(&host)?;
        let (values, active) = calls::looked_up::<f32>(&lab, &volume, &asked)?;
        book.put(format!("{name}/lookup"), &values);
        book.put(format!("{name}/active"), &active);
    }
    // Too many leaves: it stays what it was.
    let far: Vec<[i32; 3]> = (0..300).map(|i| [16 * i, 0, 0]).collect();
    let far = lab.up(&far)?;
    calls::rebuild_volume(&lab, &mut volume, &far, From::Tiles)?;
    whole(&lab, book, "exceeded", &volume, true)
}
