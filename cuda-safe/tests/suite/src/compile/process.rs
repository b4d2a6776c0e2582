//! From source text to an image out of the cache, in a process that never loads the compiler.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use nvrtc::{Arch, Cache, CacheStatus, Nvrtc};

use test_harness::programs::SAXPY;
use test_harness::spawn_self;
use test_harness::{
    Case, Compiler, Failure, Outcome, TestResult, cases, ensure, ensure_eq, limited,
};

/// The first argument of a child of these tests; the library and the cache's folder follow.
pub(crate) const CHILD: &str = "--cached-compile";

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "process",
        compile(a_hit_never_loads_the_compiler),
        compile(two_processes_fill_one_cache),
    ]
}

/// What a child says: whether it was a hit, whether the system has mapped the compiler, and how
/// many microseconds passed from the text to the image.
struct Answer {
    hit: bool,
    loaded: bool,
    micros: u64,
}

fn ask(compiler: &Compiler, cache: &Path) -> Result<Answer, Failure> {
    let mut command = spawn_self(&[CHILD])?;
    command.arg(compiler.path()?).arg(cache);
    let Outcome { status, stdout, stderr } = limited(command)?;
    let mut fields = stdout.trim().split(' ');
    match (fields.next(), fields.next(), fields.next().map(str::parse)) {
        (Some(hit), Some(loaded), Some(Ok(micros))) if status.success() => {
            Ok(Answer { hit: hit == "hit", loaded: loaded == "loaded", micros })
        }
        _ => Err(Failure::new(format!("{status}: {stdout}{stderr}"))),
    }
}

fn a_hit_never_loads_the_compiler(compiler: &Compiler) -> TestResult {
    let folder = tempfile::tempdir()?;
    let first = ask(compiler, folder.path())?;
    ensure!(!first.hit && first.loaded, "the first process compiles");
    let mut best = u64::MAX;
    for _ in 0..5 {
        let next = ask(compiler, folder.path())?;
        ensure!(next.hit, "the next process finds it");
        ensure!(!next.loaded, "and never loads the compiler");
        best = best.min(next.micros);
    }
    eprintln!(
        "NVRTC {}: text to image {} µs compiled, {best} µs cached",
        compiler.version, first.micros
    );
    ensure!(best < 2000, "{best} µs from text to image");
    Ok(())
}

fn two_processes_fill_one_cache(compiler: &Compiler) -> TestResult {
    let folder = tempfile::tempdir()?;
    let answers = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..2).map(|_| scope.spawn(|| ask(compiler, folder.path()))).collect();
        asked
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("panicked"))))
            .collect::<Result<Vec<_>, _>>()
    })?;
    ensure_eq!(answers.len(), 2);
    ensure!(ask(compiler, folder.path())?.hit, "both have left one good image");
    Ok(())
}

/// The child's job.
pub(crate) fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let (library, cache) = (arguments.next(), arguments.next());
    let begin = Instant::now();
    // SAFETY: the parent names NVIDIA's library.
    let image = unsafe { Nvrtc::at(library.unwrap_or_default()) }.and_then(|library| {
        let program = SAXPY.to_nvrtc().library(&library);
        program.cache(&Cache::at(cache.unwrap_or_default())).compile(Arch::sm(9, 0))
    });
    let micros = begin.elapsed().as_micros();
    // Not what the crate believes, but what the system has mapped.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let loaded = if maps.contains("libnvrtc") { "loaded" } else { "never" };
    match image {
        Ok(image) => {
            let hit = if image.cache == CacheStatus::Hit { "hit" } else { "miss" };
            println!("{hit} {loaded} {micros}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
