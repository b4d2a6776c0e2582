//! Compiles a program through the cache.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::Program;
use crate::cache::{CacheStatus, Kind};
use crate::closure::{Closure, Roots, closure};
use crate::codec::{Hash, KeyWriter};
use crate::find::{self, Bound};
use crate::library::Facts;
use crate::remembered::Record;
use crate::{Arch, Error, Image, Nvrtc, Uncached, stubs};

/// Variables by which NVRTC takes options that its caller does not see.
const VARIABLES: [&str; 2] = ["NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS"];

/// The files and variables that a program depends on, besides its own texts.
pub(super) struct Outside {
    /// The current folder of the process.
    folder: PathBuf,
    pub(super) files: Closure,
    /// Names and texts of the headers that stand in for the host's.
    pub(super) stubs: Vec<(String, String)>,
}

impl Program {
    /// Compiles by the given library, or the one that the search finds. Without any, the image of one that was there
    /// before serves, if the cache has it.
    pub(super) fn compile_with(&self, arch: Arch, bound: Bound) -> Result<Image, Error> {
        self.check_headers()?;
        self.check_trace()?;
        let program = self.located();
        if let Some(library) = &self.library {
            return program.compile_by(library, arch, None);
        }
        // The search takes long where it finds nothing, so it is not repeated for each program.
        static MISSING: Mutex<Vec<Bound>> = Mutex::new(Vec::new());
        let missing = || MISSING.lock().unwrap_or_else(PoisonError::into_inner);
        if missing().contains(&bound)
            && let Some(image) = program.remembered(arch, bound)
        {
            return Ok(image);
        }
        match Nvrtc::find_within(bound) {
            Ok(library) => program.compile_by(&library, arch, Some(bound)),
            Err(error) => {
                let image = program.remembered(arch, bound).ok_or(error)?;
                missing().push(bound);
                Ok(image)
            }
        }
    }

    /// Compiles by `library`, and records that under `bound`, if the search found it.
    fn compile_by(
        &self,
        library: &Nvrtc,
        arch: Arch,
        bound: Option<Bound>,
    ) -> Result<Image, Error> {
        let folders = match self.cuda_headers && self.includes() {
            true => library.include_paths(),
            false => Vec::new(),
        };
        let facts = library.facts(&self.cache)?;
        let clamped = arch.clamped(&facts.archs).ok_or_else(|| Error::UnsupportedArch {
            asked: arch,
            supported: facts.archs.clone(),
            version: facts.version,
        })?;
        let image = self.with_folders(&folders).through_cache(library, facts, clamped)?;
        self.cache.count(&image.cache);
        if let (Some(bound), Some(build)) = (bound, facts.build) {
            let record = Record { version: facts.version, build, arch: clamped, folders };
            self.record(arch, bound, &record, &image.cache);
        }
        Ok(image)
    }

    /// Returns the program that searches these folders after all others.
    fn with_folders(&self, folders: &[PathBuf]) -> Self {
        let mut program = self.clone();
        program.options.include_paths.extend_from_slice(folders);
        program
    }

    /// Records which compiler made the image, for a search that finds none.
    fn record(&self, arch: Arch, bound: Bound, record: &Record, status: &CacheStatus) {
        if matches!(status, CacheStatus::Uncached(_)) {
            return;
        }
        let key = self.record_key(arch, bound);
        let known = || self.cache.read(Kind::Record, &key).is_ok_and(|payload| payload.is_some());
        if *status == CacheStatus::Hit && known() {
            return;
        }
        // Without the record nothing is lost as long as there is a compiler.
        if let Some(payload) = record.encode() {
            let _ = self.cache.write(Kind::Record, &key, &payload);
        }
    }

    /// Returns the image that the last compiler made, if it is in the cache; `None` if the user has named a compiler.
    fn remembered(&self, arch: Arch, bound: Bound) -> Option<Image> {
        if find::variable("CUDA_NVRTC").is_some() {
            return None;
        }
        let payload = self.cache.read(Kind::Record, &self.record_key(arch, bound)).ok()??;
        let record = Record::decode(&payload)?;
        let program = self.with_folders(&record.folders);
        let key = program.key(&program.outside(), &record.facts(), record.arch).ok()?;
        let image = self.cache.read(Kind::Image, &key).ok()??;
        let image = Image::decode(&image)?;
        self.cache.count(&image.cache);
        Some(image)
    }

    fn through_cache(&self, library: &Nvrtc, facts: &Facts, arch: Arch) -> Result<Image, Error> {
        let outside = self.outside();
        let without = |reason| {
            let image = self.run(&outside, library, facts, arch)?;
            Ok(Image { cache: CacheStatus::Uncached(reason), ..image })
        };
        let key = match self.key(&outside, facts, arch) {
            Ok(key) => key,
            Err(reason) => return without(reason),
        };
        let read = || self.cache.read(Kind::Image, &key).map(|p| p.and_then(|p| Image::decode(&p)));
        match read() {
            Ok(Some(image)) => return Ok(image),
            Ok(None) => {}
            Err(reason) => return without(reason),
        }
        let _lock = match self.cache.lock(&key) {
            Ok(lock) => lock,
            Err(reason) => return without(reason),
        };
        // The previous holder of the lock may have kept the image.
        if let Ok(Some(image)) = read() {
            return Ok(image);
        }
        let image = self.run(&outside, library, facts, arch)?;
        if self.key(&self.outside(), facts, arch).as_ref() != Ok(&key) {
            let cache = CacheStatus::Uncached(Uncached::Changed);
            return Ok(Image { cache, ..image });
        }
        let cache = match self.cache.write(Kind::Image, &key, &image.encode()) {
            Ok(()) => {
                library.remember(facts, &self.cache);
                CacheStatus::Stored
            }
            Err(reason) => CacheStatus::Uncached(reason),
        };
        Ok(Image { cache, ..image })
    }

    /// Returns all that the image depends on, or why that is not known.
    fn key(&self, outside: &Outside, facts: &Facts, arch: Arch) -> Result<Hash, Uncached> {
        if self.cache.folder().is_none() {
            return Err(Uncached::Off);
        }
        if let Some(reason) = self.options.uncached() {
            return Err(reason);
        }
        if let Some(variable) = VARIABLES.into_iter().find(|v| std::env::var_os(v).is_some()) {
            return Err(Uncached::Environment(variable));
        }
        let build = facts.build.ok_or(Uncached::Compiler)?;
        if let Some(obstacle) = &outside.files.obstacle {
            return Err(obstacle.clone());
        }
        let mut key = KeyWriter::default();
        key.field(env!("CARGO_PKG_VERSION").as_bytes());
        key.field(facts.version.to_string().as_bytes());
        key.field(&build);
        key.field(arch.to_string().as_bytes());
        if self.options.embeds_folder() {
            key.field(outside.folder.as_os_str().as_encoded_bytes());
        }
        // Macros in files are not searched for: each may expand to its location.
        let says_lines = self.says_lines || !outside.files.files.is_empty();
        self.texts(&mut key, &outside.stubs, says_lines);
        key.count(outside.files.files.len());
        for (path, hash) in &outside.files.files {
            key.field(path.as_os_str().as_encoded_bytes());
            key.field(hash);
        }
        Ok(key.finish())
    }

    /// Returns what finds the record of the compiler: all that the program itself says.
    fn record_key(&self, arch: Arch, bound: Bound) -> Hash {
        let mut key = KeyWriter::default();
        key.field(b"record");
        key.field(env!("CARGO_PKG_VERSION").as_bytes());
        key.field(arch.to_string().as_bytes());
        let driver = bound.driver.map(|version| version.to_string());
        key.field(driver.unwrap_or_default().as_bytes());
        key.field(&[u8::from(self.cuda_headers), u8::from(self.host_headers)]);
        self.texts(&mut key, &[], self.says_lines);
        key.finish()
    }

    /// Adds the program's texts, names and options to a key, and the source's place if the image may depend on it.
    fn texts(&self, key: &mut KeyWriter, stubs: &[(String, String)], says_lines: bool) {
        key.field(self.name.as_bytes());
        if let (Some((file, line)), true) = (&self.place, says_lines) {
            key.field(file.as_bytes());
            key.field(&line.to_le_bytes());
        }
        key.field(self.source.as_bytes());
        for headers in [&*self.headers, stubs] {
            key.count(headers.len());
            for (name, text) in headers {
                key.field(name.as_bytes());
                key.field(text.as_bytes());
            }
        }
        for list in [&self.expressions, &self.kernels, &self.pre_includes, &self.options.flags()] {
            key.count(list.len());
            list.iter().for_each(|text| key.field(text.as_bytes()));
        }
    }

    /// Returns the files that the program may read, and the headers that it gets.
    fn outside(&self) -> Outside {
        let (folder, mut error) = match std::env::current_dir() {
            Ok(folder) => (folder, None),
            Err(e) => {
                let reason = e.to_string();
                (PathBuf::new(), Some(Uncached::Unreadable { file: ".".into(), reason }))
            }
        };
        let includes = self.includes();
        let all: Vec<_> =
            if self.host_headers && includes { stubs::all().collect() } else { Vec::new() };
        // Without a cache, only the headers depend on the files.
        let mut files = Closure::default();
        if self.cache.folder().is_some() || !all.is_empty() {
            let headers = self.headers.iter().chain(&all);
            files = closure(&Roots {
                source: (&self.name, &self.source),
                headers: headers.map(|(name, text)| (&**name, &**text)).collect(),
                include_paths: &self.options.include_paths,
                folder: &folder,
            });
        }
        files.obstacle = error.take().or(files.obstacle);
        let stubs = match self.host_headers {
            true => stubs::wanted(&self.headers, all, &files),
            false => Vec::new(),
        };
        Outside { folder, files, stubs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, NvrtcVersion, Options};

    /// Returns whether the keys of the image and of the record depend on the source's line.
    fn depends_on_line(program: &Program) -> [bool; 2] {
        let version = NvrtcVersion { major: 13, minor: 0 };
        let facts = Facts { version, archs: vec![90], build: Some([1; 32]) };
        let keys = [10, 12].map(|line| {
            let program = program.clone().part_of("src/main.rs", line).located();
            let key = program.key(&program.outside(), &facts, Arch::sm(9, 0));
            (key.expect("a key"), program.record_key(Arch::sm(9, 0), Bound::default()))
        });
        [keys[0].0 != keys[1].0, keys[0].1 != keys[1].1]
    }

    #[test]
    fn the_place_is_in_the_key_if_a_file_or_an_option_may_state_it() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("check.h"), "#define HERE __LINE__\n").expect("a file");
        let program = |source: &str| {
            let cache = Cache::at(folder.path().join("cache"));
            Program::new(source).cache(&cache).include_path(folder.path())
        };
        let plain = program("__global__ void k(int* x) { *x = HERE; }");
        assert_eq!(depends_on_line(&plain), [false, false]);
        // The record is found without reading files.
        let file = program("#include \"check.h\"\n__global__ void k(int* x) { *x = HERE; }");
        assert_eq!(depends_on_line(&file), [true, false]);
        let options = Options::new();
        for options in [
            options.clone().define("HERE", "__LINE__"),
            options.clone().extra("-DHERE=__LINE__"),
            options.clone().extra("-lineinfo"),
            options.lineinfo(true),
        ] {
            let flags = options.flags();
            assert_eq!(depends_on_line(&plain.clone().options(options)), [true; 2], "{flags:?}");
        }
        for name in
            ["std::source_location::current().line()", "__builtin_LINE()", "__builtin_FILE()"]
        {
            let source = format!("__global__ void k(int* x) {{ f({name}); }}");
            assert_eq!(depends_on_line(&program(&source)), [true; 2], "{name}");
        }
    }
}
