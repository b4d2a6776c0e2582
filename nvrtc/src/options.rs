//! Options of the compiler, and their spelling on its command line.

use std::path::{Path, PathBuf};

use crate::Uncached;

/// The version of C++.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Std {
    /// C++03
    Cpp03,
    /// C++11
    Cpp11,
    /// C++14
    Cpp14,
    /// C++17, the default of every NVRTC that this crate supports.
    Cpp17,
    /// C++20
    Cpp20,
}

impl Std {
    fn name(self) -> &'static str {
        match self {
            Self::Cpp03 => "c++03",
            Self::Cpp11 => "c++11",
            Self::Cpp14 => "c++14",
            Self::Cpp17 => "c++17",
            Self::Cpp20 => "c++20",
        }
    }
}

/// Compiler options. [`Options::new`] asks for nothing: NVRTC's own defaults hold.
///
/// ```
/// let options = cuda_safe_nvrtc::Options::new().fast_math(true).define("WIDTH", "32").lineinfo(true);
/// assert_eq!(options.flags(), ["--generate-line-info", "--use_fast_math", "--define-macro=WIDTH=32"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The version of C++.
    pub std: Option<Std>,
    /// Debug information and no optimisation (`-G`).
    pub debug: bool,
    /// Line numbers in the code, which stays optimised (`-lineinfo`).
    pub lineinfo: bool,
    /// Fast, less accurate mathematics (`--use_fast_math`): also flushes denormals.
    pub fast_math: bool,
    /// Whether `a * b + c` may be one rounding (`--fmad`; NVRTC's default is true).
    pub fmad: Option<bool>,
    /// Macros and, if given, their values.
    pub defines: Vec<(String, Option<String>)>,
    /// Macros to forget.
    pub undefines: Vec<String>,
    /// Folders that `#include` searches, in order.
    pub include_paths: Vec<PathBuf>,
    /// Registers that a thread may use at most.
    pub max_registers: Option<u32>,
    /// Automatic precompiled headers (NVRTC 12.8). Such compiles are not cached.
    pub pch: bool,
    /// Where to write the compiler's trace of its own time (NVRTC 12.9). Not cached.
    pub time_trace: Option<PathBuf>,
    /// Code to be linked with other code (`-rdc=true`).
    pub relocatable: bool,
    /// LTO-IR for the linker, instead of cubin and PTX (`-dlto`).
    pub lto: bool,
    /// Further options of the compiler, one element for each argument.
    pub extra: Vec<String>,
}

impl Options {
    /// Returns NVRTC's defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the version of C++.
    #[must_use]
    pub fn std(mut self, std: Std) -> Self {
        self.std = Some(std);
        self
    }

    /// Adds debug information and switches optimisation off.
    #[must_use]
    #[doc(alias = "-G")]
    pub fn debug(mut self, on: bool) -> Self {
        self.debug = on;
        self
    }

    /// Adds line numbers to optimised code. [`Program::origin`](crate::Program::origin) says which files they are in.
    #[must_use]
    pub fn lineinfo(mut self, on: bool) -> Self {
        self.lineinfo = on;
        self
    }

    /// Selects fast, less accurate mathematics.
    #[must_use]
    #[doc(alias = "use_fast_math")]
    pub fn fast_math(mut self, on: bool) -> Self {
        self.fast_math = on;
        self
    }

    /// Sets whether `a * b + c` may be one rounding.
    #[must_use]
    pub fn fmad(mut self, on: bool) -> Self {
        self.fmad = Some(on);
        self
    }

    /// Defines a macro with a value.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.defines.push((name.into(), Some(value.to_string())));
        self
    }

    /// Defines a macro without a value (the compiler makes it 1).
    #[must_use]
    pub fn define_flag(mut self, name: impl Into<String>) -> Self {
        self.defines.push((name.into(), None));
        self
    }

    /// Forgets a macro.
    #[must_use]
    pub fn undefine(mut self, name: impl Into<String>) -> Self {
        self.undefines.push(name.into());
        self
    }

    /// Adds a folder that `#include` searches.
    #[must_use]
    pub fn include_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.include_paths.push(path.into());
        self
    }

    /// Limits the registers of a thread.
    #[must_use]
    #[doc(alias = "maxrregcount")]
    pub fn max_registers(mut self, count: u32) -> Self {
        self.max_registers = Some(count);
        self
    }

    /// Sets automatic precompiled headers (NVRTC 12.8).
    #[must_use]
    pub fn pch(mut self, on: bool) -> Self {
        self.pch = on;
        self
    }

    /// Writes a trace of the compiler's time (NVRTC 12.9).
    #[must_use]
    pub fn time_trace(mut self, file: impl Into<PathBuf>) -> Self {
        self.time_trace = Some(file.into());
        self
    }

    /// Generates code to be linked with other code.
    #[must_use]
    #[doc(alias = "rdc")]
    pub fn relocatable(mut self, on: bool) -> Self {
        self.relocatable = on;
        self
    }

    /// Generates LTO-IR instead of cubin and PTX.
    #[must_use]
    #[doc(alias = "dlto")]
    pub fn lto(mut self, on: bool) -> Self {
        self.lto = on;
        self
    }

    /// Adds an argument for the compiler.
    #[must_use]
    pub fn extra(mut self, argument: impl Into<String>) -> Self {
        self.extra.push(argument.into());
        self
    }

    /// Returns the compiler's arguments, without the architecture.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        let mut flag = |on: bool, text: &str| {
            if on {
                flags.push(text.to_owned());
            }
        };
        flag(self.debug, "--device-debug");
        flag(self.lineinfo, "--generate-line-info");
        flag(self.fast_math, "--use_fast_math");
        flag(self.relocatable, "--relocatable-device-code=true");
        flag(self.lto, "-dlto");
        flag(self.pch, "--pch");
        flags.extend(self.std.map(|std| format!("--std={}", std.name())));
        flags.extend(self.fmad.map(|on| format!("--fmad={on}")));
        flags.extend(self.max_registers.map(|n| format!("--maxrregcount={n}")));
        flags.extend(self.defines.iter().map(|(name, value)| match value {
            Some(value) => format!("--define-macro={name}={value}"),
            None => format!("--define-macro={name}"),
        }));
        flags.extend(self.undefines.iter().map(|name| format!("--undefine-macro={name}")));
        let path = |option: &str, path: &Path| format!("--{option}={}", path.display());
        flags.extend(self.include_paths.iter().map(|p| path("include-path", p)));
        flags.extend(self.time_trace.iter().map(|p| path("fdevice-time-trace", p)));
        flags.extend(self.extra.iter().cloned());
        flags
    }

    /// Returns why a result under these options cannot be kept: it depends on, or writes, more than its key can cover.
    pub(crate) fn uncached(&self) -> Option<Uncached> {
        if self.pch {
            return Some(Uncached::Option("--pch".into()));
        }
        if self.time_trace.is_some() {
            return Some(Uncached::Option("--fdevice-time-trace".into()));
        }
        // Arguments that name files or have effects beside the image.
        let outside = [
            "I",
            "i",
            "pre-include",
            "pch",
            "create-pch",
            "use-pch",
            "time",
            "fdevice-time",
            "optf",
            "options-file",
        ];
        self.extra
            .iter()
            .find(|e| {
                outside.iter().any(|o| e.trim_start_matches('-').starts_with(o))
                    || e.starts_with('@')
            })
            .map(|e| Uncached::Option(e.clone()))
    }

    /// Returns whether the image names the files of its texts.
    pub(crate) fn names_files(&self) -> bool {
        self.debug || self.lineinfo
    }

    /// Returns whether the image may hold the folder that the process is in.
    pub(crate) fn embeds_folder(&self) -> bool {
        // This option defines what functions without an annotation are. Rust kernels are compiled with it.
        self.names_files() || self.extra.iter().any(|extra| extra != "-default-device")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_the_compilers_own() {
        let all = Options::new()
            .std(Std::Cpp20)
            .debug(true)
            .fmad(false)
            .define_flag("A")
            .define("B", 3)
            .undefine("C")
            .include_path("/inc")
            .max_registers(32)
            .relocatable(true)
            .extra("-ewp");
        let want = [
            "--device-debug",
            "--relocatable-device-code=true",
            "--std=c++20",
            "--fmad=false",
            "--maxrregcount=32",
            "--define-macro=A",
            "--define-macro=B=3",
            "--undefine-macro=C",
            "--include-path=/inc",
            "-ewp",
        ];
        assert_eq!(all.flags(), want);
        assert!(Options::new().flags().is_empty());
    }

    #[test]
    fn arguments_with_files_are_not_cached() {
        for argument in
            ["-Ifoo", "-I", "-include", "--pre-include=a.h", "--time=x", "--create-pch=x", "@args"]
        {
            assert!(Options::new().extra(argument).uncached().is_some(), "{argument}");
        }
        for argument in ["-ewp", "--device-int128", "-DX=1", "-default-device"] {
            assert!(Options::new().extra(argument).uncached().is_none(), "{argument}");
        }
        assert!(Options::new().pch(true).uncached().is_some());
        assert!(!Options::new().extra("-default-device").embeds_folder());
        assert!(Options::new().extra("-default-device").extra("-ewp").embeds_folder());
    }
}
