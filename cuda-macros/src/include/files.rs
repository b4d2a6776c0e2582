//! The file that `include_cuda!` names and those that it includes, read when the macro is expanded.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use super::Caller;
use super::directives::includes;

/// A file, as it goes into the program.
#[derive(Debug)]
pub(super) struct File {
    /// The absolute path.
    pub(super) path: String,
    /// What includes call it: the package's name and the path in the package.
    pub(super) name: String,
    /// The text, whose quoted includes have the names of the files that they mean.
    pub(super) text: String,
}

/// All files of a program, the named one first.
#[derive(Debug)]
pub(super) struct Embedded {
    /// The last component of the named file's path.
    pub(super) name: String,
    pub(super) files: Vec<File>,
}

/// Beginnings of the names of headers that are NVRTC's own, or come with CUDA: these may be included in quotes.
const ELSEWHERE: [&str; 34] = [
    "assert.h",
    "builtin_types.h",
    "cooperative_groups",
    "crt/",
    "cub/",
    "cuComplex.h",
    "cuda.h",
    "cuda/",
    "cuda_",
    "curand",
    "device_",
    "driver_types.h",
    "float.h",
    "host_defines.h",
    "library_types.h",
    "limits.h",
    "math.h",
    "math_constants.h",
    "math_functions.h",
    "mma.h",
    "nv/",
    "sm_",
    "stdarg.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "surface_",
    "texture_",
    "thrust/",
    "time.h",
    "vector_",
];

/// Reads the file `path`, which is relative to the caller's folder, and all that it includes in quotes.
pub(super) fn embed(caller: &Caller, path: &str) -> Result<Embedded, String> {
    let package = canonical(&caller.package).map_err(|e| format!("the package's folder: {e}"))?;
    let first = canonical(&caller.folder.join(path)).map_err(|error| {
        format!("{path} cannot be read: {error}; the path is relative to the folder of this file")
    })?;
    if !first.starts_with(&package) {
        return Err(outside(path, &package));
    }
    let name =
        first.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut known = vec![first];
    let mut pending = VecDeque::from([0]);
    let mut files = Vec::new();
    while let Some(index) = pending.pop_front() {
        let path = known[index].clone();
        let shown = shown(&path, &package);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let mut renamed = String::with_capacity(text.len());
        let mut copied = 0;
        for include in includes(&text) {
            let place = || format!("{shown}, line {}", include.line);
            let Some(name) = include.name else {
                return Err(format!(
                    "{} includes what a macro names, which the compiler may look for in the current folder of the process: \
                     write the name, or put the `#include` between `#ifndef __CUDACC_RTC__` and `#endif`",
                    place()
                ));
            };
            let beside = path.parent().unwrap_or(&package).join(name);
            let found = match canonical(&beside) {
                Ok(found) if found.is_file() => found,
                // In quotes, the compiler would look for it in the current folder of the process first.
                _ if !name.contains('>')
                    && (!include.certain
                        || ELSEWHERE.iter().any(|known| name.starts_with(known))) =>
                {
                    renamed
                        .push_str(text[copied..include.at].strip_suffix('"').unwrap_or_default());
                    renamed.push_str(&format!("<{name}>"));
                    copied = include.at + name.len() + 1;
                    continue;
                }
                _ => {
                    return Err(format!(
                        "{} includes \"{name}\", which is not beside it: if only host code needs it, put the `#include` \
                         between `#ifndef __CUDACC_RTC__` and `#endif`; if the program gets it by `include_path` or \
                         `header`, write `#include <{name}>`",
                        place()
                    ));
                }
            };
            if !found.starts_with(&package) {
                return Err(format!("{} includes {}", place(), outside(name, &package)));
            }
            renamed.push_str(&text[copied..include.at]);
            renamed.push_str(&in_memory(&found, &package, &caller.name)?);
            copied = include.at + name.len();
            if !known.contains(&found) {
                known.push(found);
                pending.push_back(known.len() - 1);
            }
        }
        renamed.push_str(&text[copied..]);
        spliced(&renamed, &caller.name).map_err(|name| {
            format!("{shown} includes \"{name}\" by a directive with a backslash in a word: write it in one line")
        })?;
        let name = in_memory(&path, &package, &caller.name)?;
        let path = path.to_str().ok_or_else(|| format!("{shown}: the path is not UTF-8"))?;
        files.push(File { path: path.to_owned(), name, text: renamed });
    }
    Ok(Embedded { name, files })
}

/// Fails with the name of a quoted include that is found only when lines are joined that end in a backslash.
fn spliced(text: &str, package: &str) -> Result<(), String> {
    if !text.contains('\\') {
        return Ok(());
    }
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    let ours = |name: &str| name.strip_prefix(package).is_some_and(|rest| rest.starts_with('/'));
    let mut names = includes(&joined).into_iter().map(|include| include.name.unwrap_or_default());
    names.find(|name| !ours(name)).map_or(Ok(()), |name| Err(name.to_owned()))
}

fn outside(name: &str, package: &Path) -> String {
    format!(
        "{name}, which is outside the package's folder {}: a package must have all its files, so copy or move it there",
        package.display()
    )
}

/// Returns the path in the package, for messages.
fn shown(path: &Path, package: &Path) -> String {
    path.strip_prefix(package).unwrap_or(path).display().to_string()
}

/// Returns the name of a header in memory. It begins with the package's name, so that it is no header's of another
/// package, nor one of the system.
fn in_memory(path: &Path, package: &Path, name: &str) -> Result<String, String> {
    let mut joined = name.to_owned();
    for component in path.strip_prefix(package).unwrap_or(path).components() {
        let Component::Normal(part) = component else { continue };
        let part =
            part.to_str().ok_or_else(|| format!("{}: the path is not UTF-8", path.display()))?;
        if part.contains(['"', '\n']) {
            return Err(format!(
                "{}: a file with a quote in its path cannot be included",
                path.display()
            ));
        }
        joined.push('/');
        joined.push_str(part);
    }
    Ok(joined)
}

/// Returns the absolute path without links.
fn canonical(path: &Path) -> std::io::Result<PathBuf> {
    path.canonicalize()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A folder with files, removed at the end.
    pub(in super::super) struct Folder(PathBuf);

    impl Folder {
        pub(in super::super) fn new(files: &[(&str, &str)]) -> Self {
            static NUMBER: AtomicUsize = AtomicUsize::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("cuda-macros-{}-{number}", std::process::id());
            let folder = Self(std::env::temp_dir().join(name));
            for (file, text) in files {
                let path = folder.0.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            folder
        }

        pub(in super::super) fn path(&self) -> &Path {
            &self.0
        }

        fn embed(&self, package: &str, folder: &str, path: &str) -> Result<Embedded, String> {
            let (package, folder) = (self.0.join(package), self.0.join(folder));
            embed(&Caller { folder, package, name: "pack".into(), paths: true }, path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn names(embedded: &Embedded) -> Vec<&str> {
        embedded.files.iter().map(|file| file.name.as_str()).collect()
    }

    #[test]
    fn includes_are_relative_to_the_file_that_has_them() {
        let folder = Folder::new(&[
            ("src/lib.rs", ""),
            (
                "src/a.cu",
                "#include \"sub/b.h\"\n#include \"c.h\"\n#include \"../top.h\"\n#include <cuda_fp16.h>\nint a;\n",
            ),
            ("src/sub/b.h", "#pragma once\n#include \"c.h\" // its own\n#include \"../c.h\""),
            ("src/sub/c.h", "// sub"),
            ("src/c.h", "// src"),
            ("top.h", "#include \"src/c.h\""),
        ]);
        let found = folder.embed("", "src", "a.cu").unwrap();
        assert_eq!(found.name, "a.cu");
        assert_eq!(
            names(&found),
            ["pack/src/a.cu", "pack/src/sub/b.h", "pack/src/c.h", "pack/top.h", "pack/src/sub/c.h"]
        );
        assert_eq!(
            found.files[0].text,
            "#include \"pack/src/sub/b.h\"\n#include \"pack/src/c.h\"\n#include \"pack/top.h\"\n#include <cuda_fp16.h>\nint a;\n"
        );
        assert_eq!(
            found.files[1].text,
            "#pragma once\n#include \"pack/src/sub/c.h\" // its own\n#include \"pack/src/c.h\""
        );
        assert_eq!(found.files[3].text, "#include \"pack/src/c.h\"");
        assert!(
            found
                .files
                .iter()
                .all(|file| Path::new(&file.path).is_absolute() && Path::new(&file.path).is_file())
        );
    }

    #[test]
    fn a_circle_ends() {
        let folder = Folder::new(&[
            ("a.cu", "#include \"b.h\""),
            ("b.h", "#include \"a.cu\"\n#include \"b.h\""),
        ]);
        let found = folder.embed("", "", "a.cu").unwrap();
        assert_eq!(names(&found), ["pack/a.cu", "pack/b.h"]);
        assert_eq!(found.files[1].text, "#include \"pack/a.cu\"\n#include \"pack/b.h\"");
    }

    #[test]
    fn what_is_missing_is_named_with_file_and_line() {
        let folder = Folder::new(&[
            ("a.cu", "\n#include \"sub/b.h\""),
            ("sub/b.h", "#ifndef B_H\n#define B_H\n\n#include \"gone.h\"\n#endif"),
            (
                "host.cu",
                "#ifndef __CUDACC_RTC__\n#include \"gone.h\"\n#endif\n#ifdef MAYBE\n#include \"gone.h\"\n#endif\n",
            ),
            (
                "cuda.cu",
                "#include \"cuda_runtime.h\"\n#include \"math.h\"\n#include \"cuda_fp16.h\"\n",
            ),
            ("own.cu", "#include \"math.h\""),
        ]);
        let error = folder.embed("", "", "a.cu").unwrap_err();
        assert!(
            error.starts_with("sub/b.h, line 4 includes \"gone.h\"")
                || error.starts_with("sub\\b.h"),
            "{error}"
        );
        assert!(
            error.contains("`#ifndef __CUDACC_RTC__`") && error.contains("`#include <gone.h>`"),
            "{error}"
        );
        // Host code is not compiled, and the compiler reports what a macro decides. It looks for neither in the current
        // folder.
        let host = folder.embed("", "", "host.cu").unwrap();
        assert_eq!(names(&host), ["pack/host.cu"]);
        assert_eq!(
            host.files[0].text,
            "#ifndef __CUDACC_RTC__\n#include \"gone.h\"\n#endif\n#ifdef MAYBE\n#include <gone.h>\n#endif\n"
        );
        let cuda = folder.embed("", "", "cuda.cu").unwrap();
        assert_eq!(names(&cuda), ["pack/cuda.cu"]);
        assert_eq!(
            cuda.files[0].text,
            "#include <cuda_runtime.h>\n#include <math.h>\n#include <cuda_fp16.h>\n"
        );
        let error = folder.embed("", "", "nothing.cu").unwrap_err();
        assert!(error.starts_with("nothing.cu cannot be read"), "{error}");
        // A folder is not a file; a file of the name of a header is embedded.
        assert!(folder.embed("", "", "sub").is_err());
        std::fs::write(folder.path().join("math.h"), "").unwrap();
        assert_eq!(names(&folder.embed("", "", "own.cu").unwrap()), ["pack/own.cu", "pack/math.h"]);
        std::fs::write(folder.path().join("bytes.cu"), [b'/', b'/', 0xff]).unwrap();
        assert!(folder.embed("", "", "bytes.cu").unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn nothing_is_left_to_the_current_folder() {
        let folder = Folder::new(&[
            (
                "a.cu",
                "#if __has_include(\"b.h\") && !__has_include(\"c.h\")\n#include \"b.h\"\n#endif\n%:include \"math.h\"\n",
            ),
            ("b.h", ""),
            ("macro.cu", "#define B \"b.h\"\n#include B\n"),
            ("spliced.cu", "#inc\\\nlude \"math.h\"\n"),
            ("known.cu", "#define TWO \\\n 2\n#include \\\n \"b.h\"\n"),
            ("odd.cu", "#ifdef MAYBE\n#include \"a>b.h\"\n#endif\n"),
        ]);
        let found = folder.embed("", "", "a.cu").unwrap();
        assert_eq!(names(&found), ["pack/a.cu", "pack/b.h"]);
        assert_eq!(
            found.files[0].text,
            "#if __has_include(\"pack/b.h\") && !__has_include(<c.h>)\n#include \"pack/b.h\"\n#endif\n%:include <math.h>\n"
        );
        let error = folder.embed("", "", "macro.cu").unwrap_err();
        assert!(error.starts_with("macro.cu, line 2 includes what a macro names"), "{error}");
        let error = folder.embed("", "", "spliced.cu").unwrap_err();
        assert!(error.starts_with("spliced.cu includes \"math.h\" by a directive"), "{error}");
        assert!(folder.embed("", "", "known.cu").is_ok());
        assert!(folder.embed("", "", "odd.cu").is_err());
    }

    #[test]
    fn files_outside_the_package_are_refused() {
        let folder = Folder::new(&[
            ("pack/a.cu", "\n\n#include \"../shared.h\""),
            ("shared.h", ""),
            ("pack/b.cu", ""),
        ]);
        let error = folder.embed("pack", "pack", "a.cu").unwrap_err();
        assert!(
            error.starts_with("a.cu, line 3 includes ../shared.h, which is outside"),
            "{error}"
        );
        let error = folder.embed("pack", "pack", "../shared.h").unwrap_err();
        assert!(error.starts_with("../shared.h, which is outside the package's folder"), "{error}");
        #[cfg(unix)]
        {
            let link = folder.path().join("pack/link.h");
            std::os::unix::fs::symlink(folder.path().join("shared.h"), link).unwrap();
            std::fs::write(folder.path().join("pack/b.cu"), "#include \"link.h\"").unwrap();
            assert!(folder.embed("pack", "pack", "b.cu").unwrap_err().contains("outside"));
        }
    }
}
