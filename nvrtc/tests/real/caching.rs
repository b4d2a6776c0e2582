//! The cache: hits, refusals, and that no failure of the cache fails a compile.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_safe_nvrtc::{Arch, Cache, CacheStatus, Image, Options, Program, Uncached};

use crate::child::{self, SOURCE};
use crate::compiling::newest;
use crate::{Compiler, Outcome, Test};

pub(crate) const TESTS: &[Test] = &[
    ("the_second_compile_is_a_hit", the_second_compile_is_a_hit),
    ("everything_that_matters_is_in_the_key", everything_that_matters_is_in_the_key),
    ("a_changed_header_is_noticed", a_changed_header_is_noticed),
    (
        "damaged_files_are_compiled_anew_and_rewritten",
        damaged_files_are_compiled_anew_and_rewritten,
    ),
    #[cfg(unix)]
    ("what_others_may_write_is_not_used", what_others_may_write_is_not_used),
    #[cfg(unix)]
    ("what_belongs_to_others_is_not_used", what_belongs_to_others_is_not_used),
    (
        "a_folder_that_cannot_be_written_fails_nothing",
        a_folder_that_cannot_be_written_fails_nothing,
    ),
    (
        "what_cannot_be_keyed_is_not_kept_and_says_why",
        what_cannot_be_keyed_is_not_kept_and_says_why,
    ),
    ("the_folder_stays_within_its_bound", the_folder_stays_within_its_bound),
    ("processes_that_fill_one_cache_compile_once", processes_that_fill_one_cache_compile_once),
    ("a_hit_never_loads_the_library", a_hit_never_loads_the_library),
    ("a_failed_compile_is_not_kept", a_failed_compile_is_not_kept),
    (
        "a_header_that_changes_meanwhile_poisons_nothing",
        a_header_that_changes_meanwhile_poisons_nothing,
    ),
    (
        "what_was_learned_elsewhere_is_kept_beside_the_image",
        what_was_learned_elsewhere_is_kept_beside_the_image,
    ),
];

const SM_90: Arch = Arch::sm(9, 0);

fn compile(program: &Program) -> Result<Image, Box<dyn std::error::Error>> {
    Ok(program.compile(SM_90)?)
}

fn files(folder: &Path, extension: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|e| e == extension) {
            all.push(path);
        }
    }
    Ok(all)
}

fn only_image(c: &Compiler) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let mut images = files(&c.folder.path().join("cache"), "image")?;
    assert_eq!(images.len(), 1);
    Ok(images.remove(0))
}

fn the_second_compile_is_a_hit(c: &Compiler) -> Outcome {
    let cache = c.cache();
    let program =
        c.program("template <class T> __global__ void k(T* p, T v) { int idle; *p = v; }");
    let program = program.name_expression("k<float>").cache(&cache);
    let mut first = compile(&program)?;
    let second = compile(&program)?;
    assert_eq!((&first.cache, &second.cache), (&CacheStatus::Stored, &CacheStatus::Hit));
    first.cache = CacheStatus::Hit;
    assert_eq!(first, second);
    assert!(second.log.contains("idle") && second.lowered("k<float>").is_some());
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.uncached.len()), (1, 1, 0));
    assert!(files(&c.folder.path().join("cache"), "tmp")?.is_empty());
    assert!(files(&c.folder.path().join("cache"), "lock")?.is_empty());
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(fs::metadata(c.folder.path().join("cache"))?.mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(only_image(c)?)?.mode() & 0o777, 0o600);
    }
    Ok(())
}

fn everything_that_matters_is_in_the_key(c: &Compiler) -> Outcome {
    let cache = c.cache();
    let base = c.program(SOURCE).cache(&cache);
    let variants = [
        base.clone(),
        base.clone().name("other.cu"),
        base.clone().header("h", ""),
        base.clone().header("h", " "),
        base.clone().header("h2", ""),
        base.clone().header("h2", "").pre_include("h2"),
        base.clone().name_expression("saxpy"),
        base.clone().options(Options::new().fast_math(true)),
        base.clone().options(Options::new().define("A", "1")),
        base.clone().options(Options::new().define("A", "2")),
        base.clone().options(Options::new().extra("-default-device")),
        base.clone().include_path(c.folder.path()),
        c.program(&format!("{SOURCE}\n")).cache(&cache),
    ];
    for program in &variants {
        assert_eq!(compile(program)?.cache, CacheStatus::Stored, "{program:?}");
    }
    for program in &variants {
        assert_eq!(compile(program)?.cache, CacheStatus::Hit, "{program:?}");
    }
    assert_eq!(base.compile(Arch::compute(9, 0))?.cache, CacheStatus::Stored);
    assert_eq!(base.compile(Arch::sm(8, 0))?.cache, CacheStatus::Stored);
    // Clamped to what is compiled in the end.
    let newest = newest(c);
    base.compile(newest)?;
    assert_eq!(base.compile(Arch::sm(99, 0))?.cache, CacheStatus::Hit);
    Ok(())
}

fn a_changed_header_is_noticed(c: &Compiler) -> Outcome {
    let inc = c.folder.path().join("inc");
    fs::create_dir(&inc)?;
    let header = inc.join("deep.h");
    fs::write(inc.join("a.h"), "#include \"deep.h\"\n")?;
    let program = c.program("#include <a.h>\n__device__ int v[N];").name_expression("&v");
    let program = program.include_path(&inc).cache(&c.cache());
    // Of one length, written one after the other: the file's size and time stamp may be equal.
    for (text, status) in [
        ("#define N 3", CacheStatus::Stored),
        ("#define N 5", CacheStatus::Stored),
        ("#define N 3", CacheStatus::Hit),
    ] {
        fs::write(&header, text)?;
        let image = compile(&program)?;
        assert_eq!(image.cache, status, "{text}");
        let size = 4 * text[10..].parse::<usize>()?;
        assert!(image.ptx.unwrap_or_default().contains(&format!("v[{size}]")));
    }
    // A file that now comes before it in the search.
    let first = c.folder.path().join("first");
    fs::create_dir(&first)?;
    let program = program.options(Options::new().include_path(&first));
    assert_eq!(compile(&program)?.cache, CacheStatus::Stored);
    fs::write(first.join("a.h"), "#define N 7")?;
    let image = compile(&program)?;
    assert_eq!(image.cache, CacheStatus::Stored);
    assert!(image.ptx.unwrap_or_default().contains("v[28]"));
    Ok(())
}

fn damaged_files_are_compiled_anew_and_rewritten(c: &Compiler) -> Outcome {
    let program = c.program(SOURCE).cache(&c.cache());
    let good = compile(&program)?;
    let file = only_image(c)?;
    let bytes = fs::read(&file)?;
    let flip = |at: usize| {
        let mut flipped = bytes.clone();
        flipped[at] ^= 4;
        flipped
    };
    let (half, end) = (bytes.len() / 2, bytes.len());
    let damaged = [
        vec![],
        bytes[..half].to_vec(),
        bytes[..end - 1].to_vec(),
        flip(3),
        flip(20),
        flip(half),
        vec![0; 4096],
    ];
    for bad in damaged {
        fs::write(&file, &bad)?;
        let image = compile(&program)?;
        assert_eq!(
            (image.cache, &image.cubin),
            (CacheStatus::Stored, &good.cubin),
            "{} bytes",
            bad.len()
        );
        assert_eq!(compile(&program)?.cache, CacheStatus::Hit);
    }
    // The record of the library, too: a damaged one costs loading the library, nothing else.
    for record in files(&c.folder.path().join("cache"), "library")? {
        fs::write(record, "nonsense")?;
    }
    assert_eq!(child::run(c, &c.folder.path().join("cache"))?[1], "true");
    Ok(())
}

#[cfg(unix)]
fn what_others_may_write_is_not_used(c: &Compiler) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    let program = c.program(SOURCE).cache(&c.cache());
    compile(&program)?;
    let file = only_image(c)?;
    open(&file, 0o666)?;
    assert_eq!(compile(&program)?.cache, CacheStatus::Stored);
    assert_eq!(compile(&program)?.cache, CacheStatus::Hit);

    let folder = c.folder.path().join("cache");
    open(&folder, 0o777)?;
    let image = compile(&program)?;
    assert!(image.cubin.is_some());
    let CacheStatus::Uncached(reason) = image.cache else {
        return Err("used".into());
    };
    let shown = folder.display();
    let want = format!("the cache's folder {shown} cannot be used: others may write to ");
    assert!(reason.to_string().starts_with(&want), "{reason}");
    Ok(())
}

#[cfg(unix)]
fn what_belongs_to_others_is_not_used(c: &Compiler) -> Outcome {
    use std::os::unix::fs::{MetadataExt, chown};
    let program = c.program(SOURCE).cache(&c.cache());
    compile(&program)?;
    let file = only_image(c)?;
    if chown(&file, Some(65534), None).is_err() {
        // Only the administrator can give files away; a folder of the administrator's does as well.
        let foreign = c.program(SOURCE).cache(&Cache::at("/usr"));
        assert!(matches!(compile(&foreign)?.cache, CacheStatus::Uncached(Uncached::Folder { .. })));
        return Ok(());
    }
    assert_eq!(compile(&program)?.cache, CacheStatus::Stored);
    assert_ne!(fs::metadata(&file)?.uid(), 65534);
    chown(c.folder.path().join("cache"), Some(65534), None)?;
    let CacheStatus::Uncached(reason) = compile(&program)?.cache else {
        return Err("used".into());
    };
    assert!(reason.to_string().contains("belongs to user 65534"), "{reason}");
    Ok(())
}

fn a_folder_that_cannot_be_written_fails_nothing(c: &Compiler) -> Outcome {
    let file = c.folder.path().join("file");
    fs::write(&file, "")?;
    let mut unusable = vec![file.clone(), file.join("below")];
    if cfg!(target_os = "linux") {
        // Not even the administrator can make one there.
        unusable.push("/proc/cuda-kernels".into());
    }
    for folder in unusable {
        let image = compile(&c.program(SOURCE).cache(&Cache::at(&folder)))?;
        assert!(image.cubin.is_some());
        let expected = matches!(&image.cache, CacheStatus::Uncached(Uncached::Folder { folder: f, .. }) if *f == folder);
        assert!(expected, "{:?}", image.cache);
    }
    Ok(())
}

fn what_cannot_be_keyed_is_not_kept_and_says_why(c: &Compiler) -> Outcome {
    let cache = c.cache();
    let reason = |program: Program| match compile(&program.cache(&cache))?.cache {
        CacheStatus::Uncached(reason) => Ok(reason.to_string()),
        other => Err(format!("{other:?}").into()) as Result<String, Box<dyn std::error::Error>>,
    };
    let computed = c.program("#define H <h>\n#include H\n").header("h", "");
    assert_eq!(
        reason(computed)?,
        "test.cu includes a file that only the preprocessor can name: #include H"
    );
    let nested =
        c.program("#include <a>\n").header("a", "#define H <h>\n#include H\n").header("h", "");
    assert_eq!(
        reason(nested)?,
        "a includes a file that only the preprocessor can name: #include H"
    );
    let time = c.program("__device__ const char* t = __TIME__;");
    assert_eq!(reason(time)?, "test.cu depends on __TIME__");
    fs::write(c.folder.path().join("pre.h"), "")?;
    let pre = format!("--pre-include={}", c.folder.path().join("pre.h").display());
    let option = c.program("").options(Options::new().extra(&pre));
    assert_eq!(reason(option)?, format!("the option {pre} reads or writes files of its own"));
    let library = c.library.path().ok_or("no path")?;
    let child =
        child::spawn(library, &c.folder.path().join("cache"), &[("NVRTC_APPEND_FLAGS", "-DX=1")])?;
    assert!(child::answer(child)?[0].contains("NVRTC_APPEND_FLAGS"));
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.uncached.len()), (4, 4));
    assert!(
        files(&c.folder.path().join("cache"), "image").map_or(true, |images| images.is_empty())
    );
    assert_eq!(compile(&c.program(""))?.cache, CacheStatus::Uncached(Uncached::Off));
    Ok(())
}

fn the_folder_stays_within_its_bound(c: &Compiler) -> Outcome {
    let folder = c.folder.path().join("cache");
    let one = c.program("__device__ int v;").cache(&Cache::at(&folder));
    compile(&one)?;
    let size = fs::metadata(only_image(c)?)?.len();
    let cache = Cache::sized(&folder, size * 5);
    for i in 0..12 {
        let program = c.program(&format!("__device__ int v{i};")).cache(&cache);
        assert_eq!(compile(&program)?.cache, CacheStatus::Stored);
        assert_eq!(compile(&program)?.cache, CacheStatus::Hit, "the newest stays");
        let total: u64 =
            files(&folder, "image")?.iter().map(|f| fs::metadata(f).map_or(0, |m| m.len())).sum();
        assert!(total <= size * 5, "{total} of {}", size * 5);
    }
    assert!(files(&folder, "image")?.len() >= 3);
    Ok(())
}

fn processes_that_fill_one_cache_compile_once(c: &Compiler) -> Outcome {
    let folder = c.folder.path().join("cache");
    let library = c.library.path().ok_or("no path")?;
    let children: Vec<_> =
        (0..4).map(|_| child::spawn(library, &folder, &[])).collect::<Result<_, _>>()?;
    let mut answers = Vec::new();
    for child in children {
        answers.push(child::answer(child)?[0].clone());
    }
    answers.sort();
    assert_eq!(answers, ["Hit", "Hit", "Hit", "Stored"]);
    assert_eq!(files(&folder, "image")?.len(), 1);
    Ok(())
}

fn a_hit_never_loads_the_library(c: &Compiler) -> Outcome {
    let folder = c.folder.path().join("cache");
    let first = child::run(c, &folder)?;
    assert_eq!(first[..2], ["Stored", "true"]);
    let mut best = u128::MAX;
    for _ in 0..5 {
        let hit = child::run(c, &folder)?;
        assert_eq!(hit[..2], ["Hit", "false"]);
        best = best.min(hit[2].parse()?);
    }
    // Unoptimised hashing takes most of it; `cargo run --release --example timing` measures.
    assert!(best < 20_000, "{best} us");
    Ok(())
}

fn what_was_learned_elsewhere_is_kept_beside_the_image(c: &Compiler) -> Outcome {
    // The library's version is asked through one cache and the image kept in another.
    let (one, other) = (c.folder.path().join("one"), c.folder.path().join("other"));
    let program = Program::new(SOURCE).library(&c.library);
    compile(&program.clone().cache(&Cache::at(&one)))?;
    compile(&program.cache(&Cache::at(&other)))?;
    assert_eq!(child::run(c, &other)?[..2], ["Hit", "false"]);
    Ok(())
}

fn a_failed_compile_is_not_kept(c: &Compiler) -> Outcome {
    let program = c.program("nonsense").cache(&c.cache());
    assert!(program.compile(SM_90).is_err() && program.compile(SM_90).is_err());
    assert!(files(&c.folder.path().join("cache"), "image")?.is_empty());
    Ok(())
}

fn a_header_that_changes_meanwhile_poisons_nothing(c: &Compiler) -> Outcome {
    let header = c.folder.path().join("changes.h");
    fs::write(&header, "#define N 3")?;
    let kernels: String =
        (0..1500).map(|i| format!("__global__ void k{i}(int* p) {{ p[N] = {i}; }}\n")).collect();
    let program = c.program(&format!("#include \"changes.h\"\n{kernels}"));
    let program = program.include_path(c.folder.path()).cache(&c.cache());
    // The compile takes over a second, most of it after the header was read.
    let image = std::thread::scope(|scope| {
        let compiling = scope.spawn(|| program.compile(Arch::compute(8, 0)));
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(!compiling.is_finished(), "the compile is too short for this test");
        fs::write(&header, "#define N 5")?;
        compiling.join().map_err(|_| std::io::Error::other("panicked"))
    })?;
    assert_eq!(image?.cache, CacheStatus::Uncached(Uncached::Changed));
    assert!(files(&c.folder.path().join("cache"), "image")?.is_empty());
    Ok(())
}

pub(crate) fn a_cached_image_needs_no_library(c: &Compiler) -> Outcome {
    let cache = c.folder.path().join("cache");
    let root = c.library.path().and_then(|path| path.parent()?.parent()).ok_or("no path")?;
    // The second one includes a header of CUDA's, around the library.
    let includes = format!("#include <cuda_fp16.h>\n{SOURCE}");
    let sources: &[&str] = if c.version.major < 13 { &[SOURCE] } else { &[SOURCE, &includes] };
    for source in sources {
        let missing = child::search(None, &cache, source)?;
        assert!(missing.concat().contains("no NVRTC"), "{missing:?}");
        let compiled = child::search(Some(root), &cache, source)?;
        // The image for a driver is the one without.
        assert_eq!(compiled[0], "Hit", "{compiled:?}");
        let cached = child::search(None, &cache, source)?;
        assert_eq!((&*cached[0], &*cached[1]), ("Hit", "false"), "{cached:?}");
    }
    // Another program, and a record that is cut, are not in the cache.
    let other = child::search(None, &cache, "__global__ void other() {}")?;
    assert!(other.concat().contains("no NVRTC"), "{other:?}");
    let records = files(&cache, "record")?;
    assert_eq!(records.len(), 2 * sources.len(), "one without a driver, one for it");
    for record in &records {
        let bytes = fs::read(record)?;
        fs::write(record, &bytes[..bytes.len() - 1])?;
    }
    let cut = child::search(None, &cache, SOURCE)?;
    assert!(cut.concat().contains("no NVRTC"), "{cut:?}");
    // The next compile writes it again, although the image is there.
    child::search(Some(root), &cache, SOURCE)?;
    assert_eq!(child::search(None, &cache, SOURCE)?[0], "Hit");
    Ok(())
}
