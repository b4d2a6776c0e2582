//! The wheel of the software device: the command, the libraries, and what pip wants to know.

mod licences;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64, VER_FLG_WEAK};
use object::read::elf::{Dyn, FileHeader};

use crate::wheels::python;
use crate::{Error, root};

/// The program that writes the archive.
const SCRIPT: &str = include_str!("pack_wheel.py");

/// The name of the package, as file names have it.
const NAME: &str = "cuda_emu";

/// The oldest glibc that the tags of this form name.
const OLDEST: Version = (2, 17);

/// The libraries that every system of a `manylinux` tag has.
const SYSTEM: [&str; 8] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// A version of glibc.
type Version = (u32, u32);

/// The files of the wheel that are built.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The version of the package.
    pub version: String,
    /// The command `cuda-emu`.
    pub command: PathBuf,
    /// The driver's library and the runtime's.
    pub libraries: Vec<PathBuf>,
}

impl Contents {
    /// Writes the wheel into a folder, and returns its path.
    ///
    /// # Errors
    /// A file cannot be read or written, needs a library that not every system has, or there is no Python.
    pub fn pack(&self, folder: &Path) -> Result<PathBuf, Error> {
        let mut needed = OLDEST;
        for path in self.libraries.iter().chain([&self.command]) {
            let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let found =
                newest_glibc(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
            needed = needed.max(found);
        }
        let tag = format!("py3-none-manylinux_{}_{}_{}", needed.0, needed.1, env::consts::ARCH);
        let versioned = format!("{NAME}-{}", self.version);
        let information = format!("{versioned}.dist-info");
        let own = folder.join(format!(".{versioned}.parts"));
        fs::create_dir_all(&own)?;
        let metadata = own.join("METADATA");
        fs::write(&metadata, metadata_text(&self.version)?)?;
        let kind = own.join("WHEEL");
        let text =
            format!("Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\nTag: {tag}\n");
        fs::write(&kind, text)?;

        let mut files =
            vec![(format!("{versioned}.data/scripts/cuda-emu"), self.command.clone(), "755")];
        for library in &self.libraries {
            let name = library.file_name().unwrap_or_default().to_string_lossy();
            // `cuda-emu` finds them from its own place: pip installs scripts in `bin` and data beside that folder.
            files.push((
                format!("{versioned}.data/data/lib/cuda-emu/{name}"),
                library.clone(),
                "755",
            ));
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            files.push((format!("{information}/licenses/{licence}"), root().join(licence), "644"));
        }
        let mut list =
            "The files contain these crates, and Rust's standard library (MIT OR Apache-2.0):\n"
                .to_owned();
        for crates in licences::all()? {
            writeln!(list, "{}: {}", crates.of, crates.expression)?;
            for file in crates.files {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let place = format!("{information}/licenses/third-party/{}/{name}", crates.of);
                files.push((place, file, "644"));
            }
        }
        let crates = own.join("third-party");
        fs::write(&crates, list)?;
        files.push((format!("{information}/licenses/third-party/crates.txt"), crates, "644"));
        files.push((format!("{information}/WHEEL"), kind, "644"));
        files.push((format!("{information}/METADATA"), metadata, "644"));

        let wheel = folder.join(format!("{versioned}-{tag}.whl"));
        let mut pack = Command::new(python()?);
        pack.args(["-c", SCRIPT]).arg(&wheel).arg(format!("{information}/RECORD"));
        for (name, path, mode) in &files {
            pack.arg(name).arg(path).arg(mode);
        }
        let output = pack.stdin(Stdio::null()).output()?;
        fs::remove_dir_all(&own)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("the wheel could not be packed: {said}").into());
        }
        Ok(wheel)
    }
}

/// Returns the package's metadata, with the README of the device as its description.
fn metadata_text(version: &str) -> Result<String, Error> {
    let readme = root().join("cuda-emu/cli/README.md");
    let description =
        fs::read_to_string(&readme).map_err(|error| format!("{}: {error}", readme.display()))?;
    Ok(format!(
        "Metadata-Version: 2.4\n\
         Name: cuda-emu\n\
         Version: {version}\n\
         Summary: A CUDA device in software: runs programs of CUDA on machines without a GPU\n\
         License-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-MIT\n\
         License-File: LICENSE-APACHE\n\
         License-File: third-party/crates.txt\n\
         Keywords: cuda,gpu,ptx,emulator,testing\n\
         Classifier: Operating System :: POSIX :: Linux\n\
         Requires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\
         \n\
         {description}"
    ))
}

/// Returns the newest version of glibc whose symbols an ELF file needs; 2.0 if it needs none.
///
/// # Errors
/// If the bytes are no ELF file of 64 bits, or the file needs symbols or libraries that a `manylinux` system need not
/// have.
pub fn newest_glibc(bytes: &[u8]) -> Result<(u32, u32), Error> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    if let Some((entries, strings)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
        for entry in entries.iter().filter(|entry| entry.tag32(endian) == Some(DT_NEEDED)) {
            let name = String::from_utf8_lossy(entry.string(endian, strings)?).into_owned();
            if !SYSTEM.contains(&name.as_str()) {
                return Err(format!("it needs {name}, which not every system has").into());
            }
        }
    }
    let mut newest = (2, 0);
    let Some((mut libraries, strings)) = sections.gnu_verneed(endian, bytes)? else {
        return Ok(newest);
    };
    let strings = sections.strings(endian, bytes, strings)?;
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            // A program runs without a weak one.
            if version.vna_flags.get(endian) & VER_FLG_WEAK != 0 {
                continue;
            }
            let name = String::from_utf8_lossy(version.name(endian, strings)?).into_owned();
            if let Some(number) = name.strip_prefix("GLIBC_") {
                let parsed = parse(number).ok_or_else(|| format!("it needs symbols of {name}"))?;
                newest = newest.max(parsed);
            } else if !name.starts_with("GCC_") {
                return Err(format!("it needs symbols of {name}").into());
            }
        }
    }
    Ok(newest)
}

/// Reads `2.34` or `2.2.5`.
fn parse(version: &str) -> Option<Version> {
    let mut numbers = version.split('.').map(str::parse);
    match (numbers.next()?, numbers.next()?) {
        (Ok(major), Ok(minor)) => Some((major, minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{newest_glibc, parse};

    #[test]
    fn versions_are_read() {
        assert_eq!(parse("2.34"), Some((2, 34)));
        assert_eq!(parse("2.2.5"), Some((2, 2)));
        for wrong in ["", "2", "PRIVATE", "ABI_DT_RELR", "2.x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn this_program_needs_a_version() -> Result<(), crate::Error> {
        let bytes = std::fs::read(std::env::current_exe()?)?;
        let found = newest_glibc(&bytes)?;
        assert!(found >= (2, 14), "{found:?}");
        assert!(newest_glibc(&bytes[..100]).is_err());
        assert!(newest_glibc(b"#!/bin/sh").is_err());
        Ok(())
    }
}
