//! The modules of this repository: PTX that is checked in, and CUDA C++ that is compiled as
//! `OpSpec::differentiate` does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nvrtc::{Arch, Nvrtc, Options, Program};
use test_support::gzip;

/// Folders without kernels of this repository. `compare` has twins of kernels in Rust: in one of them, the derivative of a
/// body's force on itself is a difference of numbers of 3e4, which f32 does not hold.
const ELSEWHERE: [&str; 5] = ["target", ".git", "shared", "corpus", "compare"];

/// A file with many texts, each after a line with its name.
const GOLDEN: &str = "golden/ptx.txt.gz";
const HEAD: &str = "//// ";

/// Marks CUDA's mathematical functions with their derivatives.
const LIBM: &str = "geom/ad/libm.cuh";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !ELSEWHERE.contains(&name.as_str()) {
                files(&path, all);
            }
        } else if [".cu", ".ptx", ".ptx.gz"].iter().any(|end| name.ends_with(end))
            || path.ends_with(GOLDEN)
        {
            all.push(path);
        }
    }
}

/// All files, in order. The texts of `geom-kernels/device` are those that its packed modules were made from.
pub(crate) fn paths() -> Vec<String> {
    let (root, mut all) = (root(), Vec::new());
    files(&root, &mut all);
    let relative = |path: PathBuf| {
        let path = path.strip_prefix(&root).map_or_else(|_| path.clone(), Path::to_path_buf);
        path.to_string_lossy().replace('\\', "/")
    };
    let (packs, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|path| path.ends_with(GOLDEN));
    let mut all: Vec<String> = all.into_iter().map(relative).collect();
    for pack in packs.into_iter().map(relative) {
        let texts = fs::read(root.join(&pack)).and_then(|bytes| gzip::unpack(&bytes));
        let texts = texts.unwrap_or_default();
        let names = texts.lines().filter_map(|line| line.strip_prefix(HEAD));
        all.extend(names.map(|name| format!("{pack}/{name}")));
    }
    all.retain(|path| {
        !(path.ends_with(".cu")
            && (path.starts_with("geom-kernels/device/") || path.starts_with("tape/device/")))
    });
    all.sort();
    all
}

/// A text without the folder of this repository.
pub(crate) fn without_folder(text: &str) -> String {
    let root = root().to_string_lossy().into_owned();
    let here = env!("CARGO_MANIFEST_DIR");
    text.replace(&format!("{here}/"), "").replace(&format!("{root}/"), "")
}

/// Reads or compiles a file of [`paths`].
pub(crate) fn read(name: &str) -> Result<String, String> {
    let (file, own) = match name.split_once(".gz/") {
        Some((pack, own)) => (format!("{pack}.gz"), Some(own)),
        None => (name.to_owned(), None),
    };
    let path = root().join(file);
    let bytes = fs::read(&path).map_err(|error| error.to_string())?;
    if let Some(own) = own {
        let texts = gzip::unpack(&bytes).map_err(|error| error.to_string())?;
        let found = texts.split(HEAD).find_map(|text| text.strip_prefix(own)?.strip_prefix('\n'));
        return found.map(str::to_owned).ok_or_else(|| format!("no text {own}"));
    }
    if name.ends_with(".gz") {
        return gzip::unpack(&bytes).map_err(|error| error.to_string());
    }
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    if name.ends_with(".cu") { compile(name, &path, text) } else { Ok(text) }
}

fn compile(name: &str, path: &Path, text: String) -> Result<String, String> {
    let mut options = Options::new().lineinfo(true).define("__noinline__", "");
    let headers = ["cuda-safe/device", "geom-kernels/device", "tape/device"]
        .map(|folder| root().join(folder));
    for folder in path.parent().map(Path::to_path_buf).into_iter().chain(headers) {
        options = options.include_path(folder);
    }
    let short = name.rsplit('/').next().unwrap_or(name);
    let mut program = Program::new(text).name(short).options(options.define_flag("GEOM_AD"));
    // As `OpSpec::differentiate` does. The cache keeps no image that an option includes files in.
    if let Ok(libm) = fs::read_to_string(root().join("tape/device").join(LIBM)) {
        program = program.header(LIBM, libm).pre_include(LIBM);
    }
    let image = program.compile(Arch::compute(9, 0)).map_err(|error| {
        let message = error.to_string();
        let line = message.lines().find(|line| line.contains("error")).unwrap_or(&message);
        without_folder(line.trim())
    })?;
    image.ptx.ok_or_else(|| "the compiler wrote no PTX".to_owned())
}

/// The version of the compiler.
pub(crate) fn compiler() -> Result<String, String> {
    let library = Nvrtc::find().map_err(|error| error.to_string())?;
    let version = library.version().map_err(|error| error.to_string())?;
    Ok(format!("{}.{}", version.major, version.minor))
}

/// The first line of `outcomes.txt`.
pub(crate) fn head(version: &str) -> String {
    format!(
        "# Written by PTX_AD_WILD=write, with NVRTC {version}. A reason is the first of several."
    )
}

/// Writes `outcomes.txt`.
pub(crate) fn record(version: &str, outcomes: &BTreeMap<String, String>) {
    let lines: String = outcomes.iter().map(|(name, class)| format!("{name}: {class}\n")).collect();
    let path = root().join("ptx-ad/tests/wild/outcomes.txt");
    fs::write(path, format!("{}\n{lines}", head(version))).expect("the file can be written");
}
