//! The program to compile, and the way from it to its image: through the cache or the compiler.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::cache::{Cache, CacheStatus, Kind};
use crate::closure::{Closure, Roots, closure};
use crate::codec::{Hash, KeyWriter};
use crate::compile::{Input, c_string, compile};
use crate::image::{Made, signatures};
use crate::library::Facts;
use crate::{Arch, Error, Image, Nvrtc, Options, Uncached, stubs};

/// Variables by which NVRTC takes options that its caller does not see.
const VARIABLES: [&str; 2] = ["NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS"];

/// A CUDA C++ program to compile.
///
/// ```no_run
/// let image = cuda_safe_nvrtc::Program::new("template <class T> __global__ void fill(T* x, T v) { x[threadIdx.x] = v; }")
///     .name("fill.cu")
///     .name_expression("fill<float>")
///     .options(cuda_safe_nvrtc::Options::new().lineinfo(true))
///     .compile(cuda_safe_nvrtc::Arch::sm(9, 0))?;
/// let name = image.lowered("fill<float>");
/// # Ok::<(), cuda_safe_nvrtc::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Program {
    source: String,
    name: String,
    headers: Vec<(String, String)>,
    /// Names of headers.
    pre_includes: Vec<String>,
    expressions: Vec<String>,
    options: Options,
    cuda_headers: bool,
    host_headers: bool,
    origins: Vec<(String, PathBuf)>,
    library: Option<Nvrtc>,
    cache: Cache,
}

/// What a program depends on beside its own texts.
struct Outside {
    /// The current folder of the process.
    folder: PathBuf,
    files: Closure,
    /// Names and texts of the headers that stand in for the host's.
    stubs: Vec<(String, String)>,
}

impl Program {
    /// Creates a program from its text.
    pub fn new(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            name: "program.cu".into(),
            headers: Vec::new(),
            pre_includes: Vec::new(),
            expressions: Vec::new(),
            options: Options::new(),
            cuda_headers: true,
            host_headers: true,
            origins: Vec::new(),
            library: None,
            cache: Cache::user(),
        }
    }

    /// Sets what messages call the source. A path makes quoted includes relative to its folder.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Returns what messages call the source: `program.cu` unless [`name`](Self::name) was called.
    #[must_use]
    pub fn source_name(&self) -> &str {
        &self.name
    }

    /// Adds a header in memory, which `#include` finds under exactly this name before any file.
    ///
    /// Sets of headers may overlap: a header that the program has already, with the same text, changes nothing.
    /// Compiling fails with [`Error::InvalidInput`] if two headers have one name and different texts: neither
    /// replaces the other.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        let header = (name.into(), text.into());
        if !self.headers.contains(&header) {
            self.headers.push(header);
        }
        self
    }

    /// Includes a header of the program's before its first line, as `--pre-include` does: lines of the source keep their
    /// numbers. Compiling fails with [`Error::InvalidInput`] if the program has no [`header`](Self::header) of this name.
    #[doc(alias = "--pre-include")]
    pub fn pre_include(mut self, name: impl Into<String>) -> Self {
        self.pre_includes.push(name.into());
        self
    }

    /// Says which file has the text of the source or of the header called `name`. With [`Options::lineinfo`] or
    /// [`Options::debug`], line information names this file, by its absolute path, if it is there when the program is
    /// compiled: profilers and debuggers open it. So do messages of such a compile. Otherwise, line information has the
    /// names of source and headers, as paths in the current folder.
    ///
    /// Paths are part of the cache's key only with these options: without them, an image depends on texts and names
    /// alone, wherever the files are. `include_cuda!` of `cuda_safe` calls it for each file.
    #[doc(alias = "#line")]
    pub fn origin(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.origins.push((name.into(), path.into()));
        self
    }

    /// Adds a folder that `#include` searches, after those of the [`Options`].
    pub fn include_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.include_paths.push(path.into());
        self
    }

    /// Sets whether CUDA's own headers, where they are installed around the compiler
    /// ([`Nvrtc::include_paths`]), are searched after all other folders: `#include <cuda_fp16.h>`
    /// then works as with nvcc. On by default.
    pub fn cuda_headers(mut self, on: bool) -> Self {
        self.cuda_headers = on;
        self
    }

    /// Sets whether the program may include the host's headers, which NVRTC does not have. On by default, so that a
    /// `.cu` file compiles as nvcc compiles its device code:
    ///
    /// - `<assert.h>`, `<float.h>`, `<limits.h>`, `<math.h>`, `<stdarg.h>`, `<stdbool.h>`, `<stddef.h>`, `<stdint.h>`,
    ///   `<stdio.h>`, `<stdlib.h>`, `<string.h>`, `<time.h>`, and `<cmath>` and the like, have the types, macros and
    ///   functions that device code can use. `int64_t` is `long long`, as libcu++ has it under NVRTC.
    /// - `<cuda_runtime.h>`, `<device_launch_parameters.h>`, `<vector_types.h>` and others of CUDA's runtime are empty,
    ///   because NVRTC has their contents built in. `<cuda.h>` has the names of the driver's handles.
    /// - `uint`, `ushort`, `ulong`, `M_PI` and its like need no `#include`.
    ///
    /// A file of the program's wins over a header of this list: a [`header`](Self::header) of that name, a file beside
    /// the one that includes it in quotes, or a file in a folder that is searched, of CUDA's headers too. Exceptions are
    /// `<cuda.h>`, `<device_functions.h>`, `<host_defines.h>` and `<math_functions.h>`, which NVRTC cannot compile or
    /// warns about: of these, only a `header` and a file beside the including file win.
    pub fn host_headers(mut self, on: bool) -> Self {
        self.host_headers = on;
        self
    }

    /// Adds a kernel or variable to instantiate, such as `axpy<float>`; its name in the image comes back in
    /// [`Image::lowered`].
    #[doc(alias = "nvrtcAddNameExpression")]
    pub fn name_expression(mut self, expression: impl Into<String>) -> Self {
        self.expressions.push(expression.into());
        self
    }

    /// Sets the compiler options instead of those given so far; include paths given so far are kept.
    pub fn options(mut self, options: Options) -> Self {
        let paths = std::mem::replace(&mut self.options, options).include_paths;
        self.options.include_paths.extend(paths);
        self
    }

    /// Changes the options that the program has: `program.with_options(|options| options.lineinfo(true))`.
    pub fn with_options(mut self, change: impl FnOnce(Options) -> Options) -> Self {
        self.options = change(self.options);
        self
    }

    /// Compiles relocatable code, for a link: [`Options::relocatable`] beside the options given so far.
    #[doc(alias = "rdc")]
    pub fn relocatable(mut self, on: bool) -> Self {
        self.options.relocatable = on;
        self
    }

    /// Sets the compiler to use instead of [`Nvrtc::find`].
    pub fn library(mut self, library: &Nvrtc) -> Self {
        self.library = Some(library.clone());
        self
    }

    /// Sets the cache to use instead of [`Cache::user`].
    pub fn cache(mut self, cache: &Cache) -> Self {
        self.cache = cache.clone();
        self
    }

    /// Returns the image for `arch`, clamped to what the compiler supports: the newest one found, if none was
    /// given, whose PTX an older driver refuses. Where a driver is at hand
    /// [`compile_for_driver`](Self::compile_for_driver) is the one to call. From the cache if it has it: then
    /// the compiler's library is not even loaded.
    ///
    /// # Errors
    /// [`Error::Compile`] if the text is wrong; see [`Error`] for the rest. Failures of the cache are not errors:
    /// [`Image::cache`] reports them.
    #[doc(alias = "nvrtcCompileProgram")]
    pub fn compile(&self, arch: Arch) -> Result<Image, Error> {
        self.compile_with(arch, Nvrtc::find)
    }

    /// Works like [`compile`](Self::compile), by a compiler that suits the driver if none was given: see
    /// [`Nvrtc::find_for_driver`]. `cuda_version` is what `cuDriverGetVersion` returns.
    ///
    /// # Errors
    /// As `compile`.
    pub fn compile_for_driver(&self, arch: Arch, cuda_version: i32) -> Result<Image, Error> {
        self.compile_with(arch, || Nvrtc::find_for_driver(cuda_version))
    }

    /// Compiles by the given library, or the one that `find` returns.
    fn compile_with(
        &self,
        arch: Arch,
        find: impl FnOnce() -> Result<Nvrtc, Error>,
    ) -> Result<Image, Error> {
        self.check_headers()?;
        match &self.library {
            Some(library) => self.compile_by(library, arch),
            None => self.compile_by(&find()?, arch),
        }
    }

    /// Checks that no two headers have one name, which NVRTC refuses without naming it, and that those to be included
    /// first are there.
    fn check_headers(&self) -> Result<(), Error> {
        let mut names = HashSet::with_capacity(self.headers.len());
        if let Some((name, _)) = self.headers.iter().find(|(name, _)| !names.insert(name)) {
            return Err(Error::InvalidInput {
                what: format!("the header {name}"),
                why: "the program has it already, with another text; rename one of the two".into(),
            });
        }
        match self.pre_includes.iter().find(|name| !names.contains(name)) {
            None => Ok(()),
            Some(name) => Err(Error::InvalidInput {
                what: format!("the header {name}, to be included before the program"),
                why: "the program has no header of this name; add its text with `header`".into(),
            }),
        }
    }

    fn compile_by(&self, library: &Nvrtc, arch: Arch) -> Result<Image, Error> {
        if self.cuda_headers && self.includes() {
            let mut program = self.clone().cuda_headers(false);
            program.options.include_paths.extend(library.include_paths());
            return program.compile_by(library, arch);
        }
        if !self.origins.is_empty() {
            return self.located().compile_by(library, arch);
        }
        let facts = library.facts(&self.cache)?;
        let arch = arch.clamped(&facts.archs).ok_or_else(|| Error::UnsupportedArch {
            asked: arch,
            supported: facts.archs.clone(),
            version: facts.version,
        })?;
        let image = self.through_cache(library, facts, arch)?;
        self.cache.count(&image.cache);
        Ok(image)
    }

    /// Returns the program whose texts say in which files they are, if line information is asked for.
    fn located(&self) -> Self {
        let mut program = self.clone();
        let origins = std::mem::take(&mut program.origins);
        if !self.options.names_files() {
            return program;
        }
        for (name, path) in origins {
            let Some(line) = line_directive(&path) else { continue };
            if let Some((_, text)) = program.headers.iter_mut().find(|(header, _)| *header == name)
            {
                text.insert_str(0, &line);
            } else if program.name == name {
                program.source.insert_str(0, &line);
            }
        }
        program
    }

    /// Returns whether there may be an `#include` anywhere: without one no folder is ever read.
    fn includes(&self) -> bool {
        let texts = self.headers.iter().map(|(_, text)| text).chain([&self.source]);
        texts.into_iter().any(|text| text.contains("include"))
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
        key.field(self.name.as_bytes());
        key.field(self.source.as_bytes());
        for headers in [&self.headers, &outside.stubs] {
            key.count(headers.len());
            for (name, text) in headers {
                key.field(name.as_bytes());
                key.field(text.as_bytes());
            }
        }
        for list in [&self.expressions, &self.pre_includes, &self.options.flags()] {
            key.count(list.len());
            list.iter().for_each(|text| key.field(text.as_bytes()));
        }
        key.count(outside.files.files.len());
        for (path, hash) in &outside.files.files {
            key.field(path.as_os_str().as_encoded_bytes());
            key.field(hash);
        }
        Ok(key.finish())
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

    /// Compiles.
    fn run(
        &self,
        outside: &Outside,
        library: &Nvrtc,
        facts: &Facts,
        arch: Arch,
    ) -> Result<Image, Error> {
        let strings = |what: &str, texts: &mut dyn Iterator<Item = &String>| {
            texts.map(|t| c_string(|| format!("{what} {t:?}"), t)).collect::<Result<Vec<_>, _>>()
        };
        let architecture = format!("--gpu-architecture={arch}");
        let mut flags = self.options.flags();
        if self.host_headers {
            flags.push(format!("--pre-include={}", stubs::PRELUDE_NAME));
        }
        flags.extend(self.pre_includes.iter().map(|name| format!("--pre-include={name}")));
        let headers = || self.headers.iter().chain(&outside.stubs);
        let input = Input {
            source: c_string(|| format!("the source {}", self.name), &self.source)?,
            name: c_string(|| format!("the name {:?}", self.name), &self.name)?,
            header_names: strings("the header's name", &mut headers().map(|(name, _)| name))?,
            header_texts: headers()
                .map(|(name, text)| c_string(|| format!("the header {name}"), text))
                .collect::<Result<_, _>>()?,
            expressions: strings("the name expression", &mut self.expressions.iter())?,
            flags: strings("the option", &mut std::iter::once(&architecture).chain(&flags))?,
            cubin: arch.is_real(),
            lto: self.options.lto,
        };
        let output = compile(library.raw()?, facts.version, &input)?;
        let lowered = self.expressions.iter().cloned().zip(output.lowered).collect();
        let image = Image {
            kernels: signatures(output.ptx.as_deref())?,
            cubin: output.cubin,
            ptx: output.ptx,
            lto_ir: output.lto_ir,
            lowered,
            log: output.log,
            arch,
            version: facts.version,
            cache: CacheStatus::Stored,
            made: Made::default(),
        };
        Ok(image.made_by_compiler())
    }
}

/// Returns the directive that makes the next line the first of the file; `None` if it is not there.
fn line_directive(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok().filter(|path| path.is_file())?;
    let path = path.to_str().filter(|path| !path.contains(['"', '\n', '\0']))?;
    Some(format!("#line 1 \"{}\"\n", path.replace('\\', "\\\\")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_name_and_different_texts_are_refused_by_name() {
        let program = Program::new("").header("a.h", "1").header("b.h", "2").header("a.h", "3");
        // Before any compiler is looked for.
        let results =
            [program.compile(Arch::sm(9, 0)), program.compile_for_driver(Arch::sm(9, 0), 13000)];
        for result in results {
            let Err(Error::InvalidInput { what, why }) = result else { panic!("{result:?}") };
            assert_eq!(what, "the header a.h");
            assert!(why.contains("another text"), "{why}");
        }
    }

    #[test]
    fn a_header_that_is_given_twice_is_kept_once() {
        let program = Program::new("").header("a.h", "1").header("b.h", "1").header("a.h", "1");
        let names: Vec<_> = program.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a.h", "b.h"]);
        assert!(program.check_headers().is_ok());
    }
}
