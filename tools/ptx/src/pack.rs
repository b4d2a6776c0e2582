//! Packed PTX: the files `NAME.ptx.gz`, which the crates embed.
//!
//! A file is compared by its text, not by its bytes: another version of the compressor may pack the same text otherwise.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cuda_safe::PackedPtx;
use flate2::{Compression, GzBuilder};

use crate::Failure;

/// The end of a packed file's name.
const SUFFIX: &str = ".ptx.gz";

/// The file of a module in a folder.
pub(crate) fn path(folder: &Path, module: &str) -> PathBuf {
    folder.join(format!("{module}{SUFFIX}"))
}

/// Packs a text. The same text and compressor give the same bytes: the header has neither a name nor a time.
pub(crate) fn pack(text: &str) -> Result<Vec<u8>, Failure> {
    let mut encoder =
        GzBuilder::new().mtime(0).operating_system(UNKNOWN).write(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    Ok(encoder.finish()?)
}

/// The number of gzip for an operating system that is not named.
const UNKNOWN: u8 = 255;

/// Returns the text of a module's file.
pub(crate) fn read(path: &Path, module: &str) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = PackedPtx::new(module, &bytes).unpack();
    text.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Writes a module's file, or with `check` compares it: returns what is wrong. A file with this text is left as it is.
pub(crate) fn put(
    folder: &Path,
    module: &str,
    text: &str,
    check: bool,
) -> Result<Option<String>, Failure> {
    let path = path(folder, module);
    let shown = path.display();
    let wrong = match read(&path, module) {
        Ok(there) if there == text => return Ok(None),
        Ok(there) => {
            let line = there.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
            format!("{shown} is not what its source gives, from line {} on", line + 1)
        }
        Err(error) => error.to_string(),
    };
    if check {
        return Ok(Some(format!("{wrong}: run `cargo xtask ptx`")));
    }
    fs::write(&path, pack(text)?).map_err(|error| format!("{shown}: {error}"))?;
    println!("wrote {shown}");
    Ok(None)
}

/// The modules that have a file in a folder, in order.
pub(crate) fn modules(folder: &Path) -> Result<Vec<String>, Failure> {
    let names = crate::names(folder)?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(SUFFIX)).map(str::to_owned).collect())
}

/// Prints the text of a module that has a file in one of these folders.
pub(crate) fn print(folders: &[PathBuf], module: &str) -> Result<(), Failure> {
    let mut known = Vec::new();
    for folder in folders {
        let modules = modules(folder)?;
        if modules.iter().any(|name| name == module) {
            let text = read(&path(folder, module), module)?;
            return match io::stdout().lock().write_all(text.as_bytes()) {
                // The reader has seen enough, such as `head`.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                result => Ok(result?),
            };
        }
        known.extend(modules);
    }
    Err(format!("there is no module `{module}`; there are: {}", known.join(", ")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

    #[test]
    fn a_packed_text_is_the_text_and_names_no_machine() -> Result<(), Failure> {
        let bytes = pack(TEXT)?;
        assert_eq!(bytes, pack(TEXT)?);
        // No optional fields, no time; the last byte of the header names no system.
        assert_eq!(bytes[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[9], UNKNOWN);
        assert_eq!(PackedPtx::new("nothing", &bytes).unpack()?, TEXT);
        Ok(())
    }

    #[test]
    fn files_are_compared_by_their_texts() -> Result<(), Failure> {
        let folder = tempfile::tempdir()?;
        let (folder, file) = (folder.path(), path(folder.path(), "nothing"));
        let check = |text| put(folder, "nothing", text, true);
        assert!(check(TEXT)?.is_some_and(|wrong| wrong.contains("nothing.ptx.gz")));

        // Packed otherwise: as good, and not written again.
        let mut encoder = GzBuilder::new().mtime(7).write(Vec::new(), Compression::none());
        encoder.write_all(TEXT.as_bytes())?;
        let other = encoder.finish()?;
        fs::write(&file, &other)?;
        assert_eq!(check(TEXT)?, None);
        assert_eq!(put(folder, "nothing", TEXT, false)?, None);
        assert_eq!(fs::read(&file)?, other);

        let changed = TEXT.replace("sm_75", "sm_80");
        assert!(check(&changed)?.is_some_and(|wrong| wrong.contains("from line 2 on")));
        fs::write(&file, &other[..other.len() - 1])?;
        assert!(check(TEXT)?.is_some_and(|wrong| wrong.contains("`nothing`")));
        assert_eq!(put(folder, "nothing", &changed, false)?, None);
        assert_eq!(read(&file, "nothing")?, changed);
        assert_eq!(modules(folder)?, ["nothing"]);
        Ok(())
    }

    #[test]
    fn an_unknown_module_is_an_error_with_the_known_ones() -> Result<(), Failure> {
        let folder = tempfile::tempdir()?;
        put(folder.path(), "nothing", TEXT, false)?;
        let error = print(&[folder.path().to_owned()], "anything").unwrap_err().to_string();
        assert!(error.contains("`anything`") && error.contains("nothing"), "{error}");
        Ok(())
    }
}
