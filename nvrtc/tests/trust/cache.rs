//! The cache: the files that it reads, waits for and deletes.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cuda_safe_nvrtc::{Arch, Cache, CacheStatus, Nvrtc, Program};

use crate::attack::{Error, MALLORY, Stage, share};
use crate::{Needs, Outcome, Test};

pub(crate) const TESTS: &[Test] = &[
    ("a_fifo_in_place_of_an_image_is_a_miss", Needs::Nothing, fifo_for_an_image),
    ("a_fifo_in_place_of_a_record_is_a_miss", Needs::Nothing, fifo_for_a_record),
    ("a_fifo_in_place_of_a_lock_is_no_lock", Needs::Nothing, fifo_for_a_lock),
    ("a_fifo_in_place_of_a_temporary_is_replaced", Needs::Nothing, fifo_for_a_temporary),
    ("a_fifo_in_place_of_builtins_does_not_hang", Needs::Nothing, fifo_for_builtins),
    ("a_link_in_place_of_an_image_is_a_miss", Needs::Nothing, link_for_an_image),
    ("eviction_deletes_only_what_the_cache_made", Needs::Nothing, eviction),
    ("eviction_leaves_what_belongs_to_others", Needs::Root, eviction_of_others),
    ("a_cache_below_what_others_may_write_is_not_used", Needs::Nothing, steps),
    ("a_cache_below_what_belongs_to_others_is_not_used", Needs::Root, steps_of_others),
    ("a_relative_cache_stays_where_it_was_opened", Needs::Nothing, relative),
];

fn expect(found: &str, wanted: &str) -> Outcome {
    if found.starts_with(wanted) { Ok(()) } else { Err(format!("{found}, not {wanted}").into()) }
}

/// The only file of the cache with this extension.
fn only(stage: &Stage, extension: &str) -> Result<PathBuf, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(stage.path("cache"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => Err(format!("not one {extension}: {found:?}").into()),
    }
}

fn filled() -> Result<Stage, Error> {
    let stage = Stage::new()?;
    expect(&stage.compile("a")?, "Stored")?;
    expect(&stage.compile("a")?, "Hit")?;
    Ok(stage)
}

fn fifo_for_an_image() -> Outcome {
    let stage = filled()?;
    let image = only(&stage, "image")?;
    fs::remove_file(&image)?;
    Stage::fifo(&image)?;
    expect(&stage.compile("a")?, "Stored")?;
    expect(&stage.compile("a")?, "Hit")
}

fn fifo_for_a_record() -> Outcome {
    let stage = filled()?;
    let record = only(&stage, "library")?;
    fs::remove_file(&record)?;
    Stage::fifo(&record)?;
    expect(&stage.compile("a")?, "Hit")
}

fn fifo_for_a_lock() -> Outcome {
    let stage = filled()?;
    let image = only(&stage, "image")?;
    fs::remove_file(&image)?;
    let lock = image.with_extension("lock");
    Stage::fifo(&lock)?;
    expect(&stage.compile("a")?, "Stored")?;
    // The lock has no owner: only the process that took it removes it.
    if !lock.exists() {
        return Err("the FIFO was removed".into());
    }
    Ok(())
}

/// In this process, whose number is known: whichever temporary it takes next is a FIFO already.
fn fifo_for_a_temporary() -> Outcome {
    let stage = Stage::new()?;
    assert_eq!(survey(&stage, 1 << 30)?, CacheStatus::Stored);
    let image = only(&stage, "image")?;
    let key = image.file_stem().and_then(OsStr::to_str).ok_or("no key")?.to_owned();
    let process = std::process::id();
    for number in 0..40 {
        Stage::fifo(&stage.path(&format!("cache/{key}.{process}-{number}.tmp")))?;
    }
    fs::remove_file(&image)?;
    assert_eq!(survey(&stage, 1 << 30)?, CacheStatus::Stored);
    assert_eq!(survey(&stage, 1 << 30)?, CacheStatus::Hit);
    Ok(())
}

fn fifo_for_builtins() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc("lib")?;
    let builtins = stage.path("lib/libnvrtc-builtins.so.13.0");
    fs::remove_file(&builtins)?;
    Stage::fifo(&builtins)?;
    let text = stage.compile("a")?;
    if text.starts_with("error") { Err(text.into()) } else { Ok(()) }
}

fn link_for_an_image() -> Outcome {
    let stage = filled()?;
    let image = only(&stage, "image")?;
    let elsewhere = stage.path("elsewhere.image");
    fs::rename(&image, &elsewhere)?;
    symlink(&elsewhere, &image)?;
    expect(&stage.compile("a")?, "Stored")?;
    if fs::symlink_metadata(&image)?.is_symlink() || !elsewhere.exists() {
        return Err("the image was not replaced".into());
    }
    Ok(())
}

/// Names that are not the cache's, though some look like it, and whether each is a folder.
fn strangers() -> Vec<(String, bool)> {
    let hex = "0123456789abcdef".repeat(4);
    let mut names: Vec<(String, bool)> = [
        "Cargo.lock",
        "notes.tmp",
        "vm.image",
        "1-2.tmp",
        ".image",
        ".lock",
        ".tmp",
        "image",
        "x.library",
    ]
    .iter()
    .map(|name| ((*name).to_owned(), false))
    .collect();
    for name in [
        format!("{}.image", &hex[1..]),
        format!("{hex}0.image"),
        format!("{}.image", hex.to_uppercase()),
        format!("{hex}.image.bak"),
        format!("{hex}.IMAGE"),
        format!("{}.lock", &hex[1..]),
        format!("g{}.lock", &hex[1..]),
        format!("{hex}.tmp"),
        format!("{hex}.-.tmp"),
        format!("{hex}.1-.tmp"),
        format!("{hex}.a-1.tmp"),
        format!("{hex}.1-2-3.tmp"),
        format!("{hex}.+1-2.tmp"),
        format!("{}.1-2.tmp", &hex[1..]),
    ] {
        names.push((name, false));
    }
    // The cache's names, on what the cache does not make.
    names.push((format!("{}f.image", &hex[1..]), true));
    names.push((format!("{}f.lock", &hex[1..]), true));
    names
}

fn age(path: &std::path::Path) -> Outcome {
    let old = SystemTime::now() - Duration::from_secs(3 * 24 * 3600);
    File::open(path)?.set_times(FileTimes::new().set_modified(old))?;
    Ok(())
}

/// Compiles something into a cache of so many bytes, whose survey then runs.
fn survey(stage: &Stage, bytes: u64) -> Result<CacheStatus, Error> {
    // Named as `CUDA_NVRTC` would be; no other thread of this process reads it.
    let library = find(stage)?;
    let program = Program::new("survey").library(&library);
    Ok(program.cache(&Cache::sized(stage.path("cache"), bytes)).compile(Arch::compute(7, 5))?.cache)
}

fn find(stage: &Stage) -> Result<Nvrtc, Error> {
    let library = stage.nvrtc("lib")?;
    Ok(at(&library)?)
}

fn at(path: &std::path::Path) -> Result<Nvrtc, cuda_safe_nvrtc::Error> {
    // SAFETY: the fake NVRTC of `fake.c` has no initialisers, and the functions of nvrtc.h.
    unsafe { Nvrtc::at(path) }
}

fn eviction() -> Outcome {
    let stage = Stage::new()?;
    let cache = stage.folder("cache")?;
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700))?;
    for (name, folder) in strangers() {
        let path = cache.join(&name);
        if folder {
            fs::create_dir(&path)?;
        } else {
            File::create(&path)?.set_len(1 << 30)?;
        }
        age(&path)?;
    }
    // Links with the cache's names: the targets are strangers, and the links are not files of the cache's.
    let hex = "f".repeat(64);
    let target = stage.file("target.image", "x", 0o600)?;
    for name in [format!("{hex}.image"), format!("{hex}.lock")] {
        symlink(&target, cache.join(name))?;
    }
    // Old files of the cache.
    let hex = "0123456789abcdef".repeat(4);
    let own = [format!("{hex}.lock"), format!("{hex}.7-12.tmp"), format!("{hex}.image")];
    for name in &own {
        let path = cache.join(name);
        fs::write(&path, [0; 5000])?;
        age(&path)?;
    }
    // Strangers count nothing: 4,000 bytes are enough for the new image, not for the old one beside it.
    assert_eq!(survey(&stage, 4000)?, CacheStatus::Stored);
    for (name, _) in strangers() {
        if !cache.join(&name).exists() {
            return Err(format!("{name} was deleted").into());
        }
    }
    for name in [format!("{}.image", "f".repeat(64)), format!("{}.lock", "f".repeat(64))] {
        if fs::symlink_metadata(cache.join(&name)).is_err() || !target.exists() {
            return Err(format!("the link {name} was deleted").into());
        }
    }
    for name in own {
        if cache.join(&name).exists() {
            return Err(format!("{name} was not deleted").into());
        }
    }
    let images = fs::read_dir(&cache)?.flatten().filter(|f| {
        f.metadata().is_ok_and(|m| m.is_file() && m.len() < 4000)
            && f.path().extension().is_some_and(|e| e == "image")
    });
    assert_eq!(images.count(), 1, "the new image stays: strangers count nothing");
    Ok(())
}

fn eviction_of_others() -> Outcome {
    let stage = Stage::new()?;
    let cache = stage.folder("cache")?;
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700))?;
    let hex = "0123456789abcdef".repeat(4);
    let names = [format!("{hex}.lock"), format!("{hex}.7-12.tmp"), format!("{hex}.image")];
    for name in &names {
        let path = cache.join(name);
        fs::write(&path, [0; 5000])?;
        age(&path)?;
        std::os::unix::fs::chown(&path, Some(MALLORY), None)?;
    }
    assert_eq!(survey(&stage, 4000)?, CacheStatus::Stored);
    for name in names {
        if !cache.join(&name).exists() {
            return Err(format!("{name} was deleted").into());
        }
    }
    Ok(())
}

fn steps() -> Outcome {
    let stage = filled()?;
    stage.mode("", 0o777)?;
    expect(&stage.compile("a")?, "Uncached(the cache's folder ")?;
    stage.mode("", 0o755)?;
    expect(&stage.compile("a")?, "Hit")?;
    stage.mode("", 0o1777)?;
    expect(&stage.compile("a")?, "Hit")?;
    // A link in a folder that others may write is another's to make.
    fs::rename(stage.path("cache"), stage.path("home/cache"))?;
    symlink("home/cache", stage.path("cache"))?;
    expect(&stage.compile("a")?, "Uncached(the cache's folder ")?;
    stage.mode("", 0o755)?;
    expect(&stage.compile("a")?, "Hit")
}

fn steps_of_others() -> Outcome {
    let stage = filled()?;
    let top = stage.path("");
    std::os::unix::fs::chown(&top, Some(MALLORY), None)?;
    expect(&stage.compile("a")?, "Uncached(the cache's folder ")?;
    std::os::unix::fs::chown(&top, Some(0), None)?;
    share(&top, MALLORY)?;
    expect(&stage.compile("a")?, "Uncached(the cache's folder ")?;
    // Nothing is made in a folder that is refused.
    fs::remove_dir_all(stage.path("cache"))?;
    expect(&stage.compile("a")?, "Uncached(the cache's folder ")?;
    if stage.path("cache").exists() {
        return Err("the cache was made there".into());
    }
    stage.mode("", 0o755)?;
    expect(&stage.compile("a")?, "Stored")
}

fn relative() -> Outcome {
    let stage = Stage::new()?;
    let text = stage.run("cache", &[("CUDA_KERNEL_CACHE", OsStr::new("kernels"))])?;
    let wanted = format!("Some({:?}) true", stage.path("here").canonicalize()?.join("kernels"));
    if text.trim_end() == wanted { Ok(()) } else { Err(format!("{text}, not {wanted}").into()) }
}
