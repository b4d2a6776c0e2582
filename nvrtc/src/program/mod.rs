//! The program to compile, and the way from it to its image: through the cache or the compiler.

mod cached;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::cache::{Cache, CacheStatus};
use crate::compile::{Input, c_string, compile};
use crate::find::Bound;
use crate::image::{Made, signatures};
use crate::library::Facts;
use crate::linkage::{self, Kernel};
use crate::{Arch, Error, Image, Nvrtc, Options, stubs};
use cached::Outside;

/// Parts of the names by which a text states its place.
const SAYS_LINES: [&str; 6] =
    ["assert", "__LINE__", "__FILE__", "source_location", "__builtin_LINE", "__builtin_FILE"];

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
    /// Names of kernels that may have C linkage.
    kernels: Vec<String>,
    options: Options,
    cuda_headers: bool,
    host_headers: bool,
    origins: Vec<(String, PathBuf)>,
    /// The file and the line in it that the source begins with.
    place: Option<(String, u32)>,
    /// Whether the texts or the options show that the image depends on that.
    says_lines: bool,
    library: Option<Nvrtc>,
    cache: Cache,
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
            kernels: Vec::new(),
            options: Options::new(),
            cuda_headers: true,
            host_headers: true,
            origins: Vec::new(),
            place: None,
            says_lines: false,
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

    /// Says that the source is a part of `file`, a program in Rust for one, and that its first line is line `line` there,
    /// from 1. Messages of the compiler, `assert` and line information then name this file and its lines. `kernels!` of
    /// `cuda_safe` calls it for a source that is a literal in the declaration.
    ///
    /// Where the source stands is part of the cache's key only if the image says so: with [`Options::lineinfo`] or
    /// [`Options::debug`], or if the program may ask for it: the source, a header in memory or an option has `assert`,
    /// `__LINE__`, `__FILE__` or `source_location`, the program includes a header that is a file, or [`Options::extra`] is
    /// not empty. Otherwise, an image is found again after the lines above it have changed, and warnings in
    /// [`Image::log`] have the lines of the time when it was compiled.
    #[doc(alias = "#line")]
    pub fn part_of(mut self, file: impl Into<String>, line: u32) -> Self {
        self.place = Some((file.into(), line));
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

    /// Names a kernel that the program has, outside any namespace, so that the types of its parameters are known
    /// ([`Signature::types`](crate::Signature)) even if it is `extern "C"` by a macro or in a file. Of kernels that the
    /// source declares `extern "C"` without a macro, types are known without it. A kernel that the program does not have
    /// is no error.
    pub fn kernel(mut self, name: impl Into<String>) -> Self {
        self.kernels.push(name.into());
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
        self.compile_with(arch, Bound::default())
    }

    /// Works like [`compile`](Self::compile), by a compiler that suits the driver if none was given: see
    /// [`Nvrtc::find_for_driver`]. `cuda_version` is what `cuDriverGetVersion` returns.
    ///
    /// # Errors
    /// As `compile`.
    pub fn compile_for_driver(&self, arch: Arch, cuda_version: i32) -> Result<Image, Error> {
        self.compile_with(arch, Bound::of_driver(cuda_version))
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

    /// Fails unless the trace of the compiler's time can be written: NVRTC ends the process where it can't.
    fn check_trace(&self) -> Result<(), Error> {
        let Some(path) = &self.options.time_trace else { return Ok(()) };
        let mut with_extension = path.clone().into_os_string();
        with_extension.push(".json");
        // NVRTC adds the extension where it is missing.
        for file in [path, Path::new(&with_extension)] {
            let is_new = !file.exists();
            let opened = std::fs::File::options().append(true).create(true).open(file);
            opened.map_err(|error| Error::InvalidInput {
                what: format!("the file {} for the trace of the compiler's time", file.display()),
                why: format!("it can't be written: {error}"),
            })?;
            if is_new {
                // If that fails, an empty file is left.
                let _ = std::fs::remove_file(file);
            }
        }
        Ok(())
    }

    /// Returns the program with directives that say in which files its texts are, as far as its image depends on that.
    fn located(&self) -> Self {
        let mut program = self.clone();
        let origins = std::mem::take(&mut program.origins);
        let texts = || self.headers.iter().map(|(_, text)| text).chain([&self.source]);
        let says_lines = |text: &String| SAYS_LINES.iter().any(|name| text.contains(name));
        if self.options.names_files() {
            for (name, path) in origins {
                let Some(path) = file_on_disk(&path) else { continue };
                if let Some((_, text)) =
                    program.headers.iter_mut().find(|(header, _)| *header == name)
                {
                    text.insert_str(0, &line_directive(&path, 1));
                } else if program.name == name {
                    let line = program.place.as_ref().map_or(1, |(_, line)| *line);
                    program.place = Some((path, line));
                }
            }
        }
        // `embeds_folder`: further options may ask for line information.
        program.says_lines = self.options.embeds_folder()
            || texts().any(says_lines)
            || self.options.flags().iter().any(says_lines);
        program
    }

    /// Returns whether there may be an `#include` anywhere: without one no folder is ever read.
    fn includes(&self) -> bool {
        let texts = self.headers.iter().map(|(_, text)| text).chain([&self.source]);
        texts.into_iter().any(|text| text.contains("include"))
    }

    /// Compiles, with the types of kernels with C linkage as far as the program has such kernels.
    fn run(
        &self,
        outside: &Outside,
        library: &Nvrtc,
        facts: &Facts,
        arch: Arch,
    ) -> Result<Image, Error> {
        let raw = library.raw()?;
        let mut kernels = self.with_c_linkage(outside);
        let lines = self.source.lines().count();
        let output = loop {
            let input = self.input(outside, arch, &mut kernels)?;
            let failure = match compile(raw, facts.version, &input) {
                Ok(output) => break output,
                Err(failure) if kernels.is_empty() => return Err(failure),
                Err(failure) => failure,
            };
            // An unknown or overloaded name adds no kernel.
            let before = kernels.len();
            match &failure {
                Error::Compile(error) => {
                    let refused = linkage::refused(&error.diagnostics);
                    kernels.retain(|kernel| !kernel.is_in(&refused));
                }
                Error::Status { call: "nvrtcGetLoweredName", .. } => kernels.clear(),
                _ => {}
            }
            if kernels.len() == before {
                // Lines that were added to the source move the line of its end.
                let first = self.place.as_ref().map_or(1, |(_, line)| *line as usize);
                let is_behind = |message: &crate::Diagnostic| {
                    message.line.is_some_and(|line| line as usize >= first + lines)
                };
                match &failure {
                    Error::Compile(error) if error.diagnostics.iter().any(is_behind) => {
                        kernels.clear();
                    }
                    _ => return Err(failure),
                }
            }
        };
        let mut names = output.lowered.into_iter();
        let lowered = self.expressions.iter().cloned().zip(names.by_ref()).collect();
        let instances: Vec<_> =
            kernels.into_iter().map(|kernel| kernel.symbol).zip(names).collect();
        let image = Image {
            kernels: signatures(output.ptx.as_deref(), &instances)?,
            cubin: output.cubin,
            ptx: output.ptx,
            lto_ir: output.lto_ir,
            lowered,
            log: output.log,
            arch,
            version: facts.version,
            cache: CacheStatus::Stored,
            instances,
            made: Made::default(),
        };
        Ok(image.made_by_compiler())
    }

    /// Returns the kernels that may have C linkage: those that the texts declare so, and named ones if any text could.
    fn with_c_linkage(&self, outside: &Outside) -> Vec<Kernel> {
        let texts = || self.headers.iter().map(|(_, text)| text).chain([&self.source]);
        let external = |text: &String| text.contains("extern") && text.contains("\"C\"");
        let macros = linkage::macros(texts()).collect();
        let in_c = texts().filter(|text| external(text));
        let mut kernels: Vec<_> = in_c.flat_map(|text| linkage::kernels(text, &macros)).collect();
        if texts().any(external) || !outside.files.files.is_empty() {
            let mut known: HashSet<_> =
                kernels.iter().map(|kernel| kernel.symbol.clone()).collect();
            let named = self.kernels.iter().filter_map(|name| Kernel::plain(name));
            kernels.extend(named.filter(|kernel| known.insert(kernel.symbol.clone())));
        }
        kernels
    }

    /// Returns the compiler's input, which asks for the types of `kernels`; removes those that can't be asked for.
    fn input(
        &self,
        outside: &Outside,
        arch: Arch,
        kernels: &mut Vec<Kernel>,
    ) -> Result<Input, Error> {
        let strings = |what: &str, texts: &mut dyn Iterator<Item = &String>| {
            texts.map(|t| c_string(|| format!("{what} {t:?}"), t)).collect::<Result<Vec<_>, _>>()
        };
        let mut flags = vec![format!("--gpu-architecture={arch}")];
        flags.extend(self.options.flags());
        if self.host_headers {
            flags.push(format!("--pre-include={}", stubs::PRELUDE_NAME));
        }
        flags.extend(self.pre_includes.iter().map(|name| format!("--pre-include={name}")));
        let mut added = Vec::new();
        let texts = self.headers.iter().map(|(_, text)| text).chain([&self.source]);
        let undefined = linkage::undefined(kernels, &self.expressions, texts);
        if !kernels.is_empty() {
            flags.push(format!("--pre-include={}", linkage::HEADER_NAME));
            added.push((linkage::HEADER_NAME.to_owned(), linkage::HEADER.to_owned()));
        }
        let headers = || self.headers.iter().chain(&outside.stubs).chain(&added);
        let types: Vec<String> = kernels.iter().map(Kernel::expression).collect();
        let mut source = match &self.place {
            None => Cow::Borrowed(&*self.source),
            Some((file, line)) => Cow::Owned(line_directive(file, *line) + &self.source),
        };
        if !undefined.is_empty() {
            source += &*undefined;
        }
        Ok(Input {
            source: c_string(|| format!("the source {}", self.name), &source)?,
            name: c_string(|| format!("the name {:?}", self.name), &self.name)?,
            place: self.place.clone(),
            header_names: strings("the header's name", &mut headers().map(|(name, _)| name))?,
            header_texts: headers()
                .map(|(name, text)| c_string(|| format!("the header {name}"), text))
                .collect::<Result<_, _>>()?,
            expressions: strings(
                "the name expression",
                &mut self.expressions.iter().chain(&types),
            )?,
            flags: strings("the option", &mut flags.iter())?,
            cubin: arch.is_real(),
            lto: self.options.lto,
        })
    }
}

/// Returns the absolute path if the file is there and a directive can name it.
fn file_on_disk(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok().filter(|path| path.is_file())?;
    path.to_str().filter(|path| !path.contains(['"', '\n', '\0'])).map(str::to_owned)
}

/// Returns the directive that makes the next line this one of the file.
fn line_directive(file: &str, line: u32) -> String {
    let file = file.replace('\\', "\\\\").replace(['"', '\n'], "_");
    format!("#line {} \"{file}\"\n", line.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_name_and_different_texts_are_refused_by_name() {
        let program = Program::new("").header("a.h", "1").header("b.h", "2").header("a.h", "3");
        // The error comes before any search for a compiler.
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
