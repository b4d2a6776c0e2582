//! Files that `nanovdb` writes against the tools that come with NanoVDB.

use std::path::Path;

use nanovdb::{
    Build, Builder, ChecksumMode, Codec, Format, Grid, ValueMask, ValueType, WriteOptions,
    write_file,
};

use test_harness::{Case, Failure, Rng, TestResult, ensure, ensure_eq, nanovdb_validate};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::tools("nanovdb::other_readers_take_what_is_written", every_type),
        Case::tools("nanovdb::other_readers_find_what_is_wrong", wrong),
    ]
}

/// Whether the tool finds nothing wrong, which its exit status does not tell; `None` if it does not know the
/// type.
fn validates(path: &Path) -> Result<Option<bool>, Failure> {
    let output = nanovdb_validate().arg("-v").arg(path).output()?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Ok(match said.contains("Unsupported GridType") {
        true => None,
        false => Some(said.contains("passed") && !said.contains("failed")),
    })
}

/// Some leaves around the origin and far from it, and tiles of all levels.
fn large<T: Build>(value: &mut impl FnMut() -> T::Value) -> Result<Grid, Failure> {
    let mut rng = Rng::new(41);
    let mut builder = Builder::<T>::new(value());
    for (level, at) in [(1, [64, 0, 8]), (2, [-300, 5, 5]), (2, [900, 0, 0]), (3, [-1, -1, 9000])] {
        builder.fill_tile(level, at, value(), level != 2);
    }
    for n in 0..400 {
        let spot = [[0, 0, 0], [-5, 130, 1], [-4100, 7, -1], [500_000_000, -77, 77]][n % 4];
        let at = spot.map(|c: i32| c + rng.below(12) as i32);
        match n % 5 {
            0 => builder.set_inactive(at, value()),
            _ => builder.set(at, value()),
        };
    }
    let map = [[0.0, 0.5, 0.0], [0.25, 0.0, 0.0], [0.0, 0.0, 2.0]];
    Ok(builder.name("random").map(nanovdb::Map::affine(map, [1.0; 3])?).build()?)
}

fn small<T: Build>(value: &mut impl FnMut() -> T::Value) -> Result<Grid, Failure> {
    let mut builder = Builder::<T>::new(value());
    builder.name("small").set([1, 2, 3], value()).set([9, 2, 3], value());
    Ok(builder.blind_data("points", None, &[7; 21]).build()?)
}

fn written<T: Build>(
    folder: &Path,
    known: &mut Vec<ValueType>,
    mut value: impl FnMut() -> T::Value,
) -> TestResult {
    let empty = Builder::<T>::new(value()).build()?;
    let grids =
        [("large", large::<T>(&mut value)?), ("small", small::<T>(&mut value)?), ("empty", empty)];
    for (name, grid) in grids {
        for codec in [Codec::None, Codec::Zip, Codec::Blosc] {
            for mode in [ChecksumMode::Disabled, ChecksumMode::Head, ChecksumMode::Full] {
                let options =
                    WriteOptions::default().codec(codec).format(Format::Compatible).checksum(mode);
                let path = folder.join(format!("{}-{name}-{codec}-{mode:?}.nvdb", T::TYPE));
                write_file(&path, std::slice::from_ref(&grid), &options)?;
                match validates(&path)? {
                    // Tools know most types, but not four floats, though their library does.
                    None => ensure!(T::TYPE.name().starts_with("Vec4"), "{} is unknown", T::TYPE),
                    Some(valid) => ensure!(valid, "{}", path.display()),
                }
                std::fs::remove_file(&path)?;
            }
        }
    }
    known.push(T::TYPE);
    Ok(())
}

/// All types that version 32.3 has, with all codecs and checksums.
fn every_type() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (folder, mut known) = (folder.path(), Vec::new());
    let mut rng = Rng::new(43);
    let mut bits = || rng.next();
    // From -100 to 100.
    let real = |bits: u64| (bits % 6400) as f32 / 32.0 - 100.0;
    let wide = |bits: u64| f64::from(real(bits));
    written::<f32>(folder, &mut known, || real(bits()))?;
    written::<f64>(folder, &mut known, || wide(bits()))?;
    written::<i16>(folder, &mut known, || bits() as i16)?;
    written::<i32>(folder, &mut known, || bits() as i32)?;
    written::<i64>(folder, &mut known, || bits().cast_signed())?;
    written::<[f32; 3]>(folder, &mut known, || [0; 3].map(|_| real(bits())))?;
    written::<[f64; 3]>(folder, &mut known, || [0; 3].map(|_| wide(bits())))?;
    written::<u32>(folder, &mut known, || bits() as u32)?;
    written::<bool>(folder, &mut known, || bits() % 2 == 1)?;
    written::<[u8; 4]>(folder, &mut known, || (bits() as u32).to_le_bytes())?;
    written::<[f32; 4]>(folder, &mut known, || [0; 4].map(|_| real(bits())))?;
    written::<[f64; 4]>(folder, &mut known, || [0; 4].map(|_| wide(bits())))?;
    written::<ValueMask>(folder, &mut known, || ())?;
    known.sort_unstable();
    let all = ValueType::ALL.iter().copied().filter(|t| t.is_in_version_3());
    ensure_eq!(known, all.collect::<Vec<_>>(), "types that were tried");
    Ok(())
}

/// Otherwise it would say nothing that the tool finds nothing.
fn wrong() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("wrong.nvdb");
    let grid = small::<f32>(&mut || 1.5)?;
    let options = WriteOptions::default().checksum(ChecksumMode::Full);
    write_file(&path, &[grid], &options)?;
    ensure_eq!(validates(&path)?, Some(true));
    let mut file = std::fs::read(&path)?;
    let place = file.len() - 600;
    file[place] ^= 1;
    std::fs::write(&path, &file)?;
    ensure!(nanovdb::read_file(&path).is_err());
    ensure_eq!(validates(&path)?, Some(false));
    Ok(())
}
