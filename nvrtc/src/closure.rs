//! The files that a program may read through `#include`, with their contents' hashes.
//!
//! Every file that a name could mean is taken, whatever the order in which the compiler searches, so a
//! file that appears, changes or goes away changes the closure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::Metadata;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::Uncached;
use crate::codec::{Hash, sha256};
use crate::scan::{Name, Obstacle, Scan, scan};
use crate::trust;

/// Beyond this no program is compiled at run time; the bound keeps a strange one from taking forever.
const MAX_FILES: usize = 20_000;

/// A file's content as far as a key needs it.
#[derive(Debug, Clone)]
struct Content {
    hash: Hash,
    scan: Arc<Scan>,
}

/// A program's texts and folders.
#[derive(Debug)]
pub(crate) struct Roots<'a> {
    /// The main source's name and text.
    pub(crate) source: (&'a str, &'a str),
    /// Headers in memory: names and texts.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    /// The folders that are searched.
    pub(crate) include_paths: &'a [PathBuf],
    /// The current folder of the process: quoted names are searched there too.
    pub(crate) folder: &'a Path,
}

/// The files that a program may read.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    /// Absolute paths and hashes, in order.
    pub(crate) files: BTreeMap<PathBuf, Hash>,
    /// The names in quoted includes that mean a file in the folder of the including file, or in the current folder.
    pub(crate) beside: BTreeSet<String>,
    /// Those of `beside` where the including file is not in or below a folder that is searched.
    pub(crate) own: BTreeSet<String>,
    /// The names in includes that mean a file in a folder that is searched.
    pub(crate) in_folders: BTreeSet<String>,
    /// The first reason why there may be more files.
    pub(crate) obstacle: Option<Uncached>,
}

/// Returns the files that the program may read, as far as they are known.
pub(crate) fn closure(roots: &Roots<'_>) -> Closure {
    let mut found = Closure::default();
    if let Err(obstacle) = walk(roots, &mut found) {
        found.obstacle.get_or_insert(obstacle);
    }
    found
}

/// Adds all files to `found`. An error ends the walk; an obstacle does not.
fn walk(roots: &Roots<'_>, found: &mut Closure) -> Result<(), Uncached> {
    let mut pending: Vec<(PathBuf, Arc<Scan>)> = Vec::new();
    let texts = std::iter::once(roots.source).chain(roots.headers.iter().copied());
    for (name, text) in texts {
        let scan = scan(text.as_bytes());
        note_obstacle(&scan, found, || name.to_owned());
        let folder = roots.folder.join(name);
        pending.push((folder.parent().unwrap_or(roots.folder).to_owned(), Arc::new(scan)));
    }
    let search: Vec<PathBuf> = roots.include_paths.iter().map(|p| roots.folder.join(p)).collect();
    while let Some((folder, scan)) = pending.pop() {
        for name in &scan.names {
            let Name { text: name, quoted } = name;
            let searched = search.iter().any(|searched| folder.starts_with(searched));
            let near = [folder.as_path(), roots.folder].into_iter().map(|f| (f, true));
            let folders = near.chain(search.iter().map(|f| (f.as_path(), false)));
            for (mut path, is_near) in folders.map(|(f, is_near)| (f.join(name), is_near)) {
                // A `..` could name one file by ever longer paths, such as "../x/self.h".
                if name.contains("..") {
                    path = path.canonicalize().unwrap_or(path);
                }
                let known = found.files.contains_key(&path);
                let content = if known { None } else { content(&path)? };
                if known || content.is_some() {
                    match is_near {
                        true if *quoted => {
                            found.beside.insert(name.clone());
                            if !searched {
                                found.own.insert(name.clone());
                            }
                        }
                        true => {}
                        false => _ = found.in_folders.insert(name.clone()),
                    }
                }
                let Some(content) = content else { continue };
                note_obstacle(&content.scan, found, || path.display().to_string());
                pending.push((path.parent().unwrap_or(roots.folder).to_owned(), content.scan));
                found.files.insert(path, content.hash);
                if found.files.len() > MAX_FILES {
                    return Err(Uncached::TooManyFiles);
                }
            }
        }
    }
    Ok(())
}

fn note_obstacle(scan: &Scan, found: &mut Closure, file: impl FnOnce() -> String) {
    let Some(obstacle) = &scan.obstacle else { return };
    found.obstacle.get_or_insert_with(|| match obstacle {
        Obstacle::Computed(directive) => {
            Uncached::ComputedInclude { file: file(), directive: directive.clone() }
        }
        Obstacle::Time(name) => Uncached::TimeMacro { file: file(), name },
    });
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: SystemTime,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Option<Self> {
        Some(Self { length: metadata.len(), modified: metadata.modified().ok()? })
    }

    /// Returns whether a later change must show in the time stamp: clocks of file systems tick slowly.
    fn is_settled(&self) -> bool {
        self.modified.elapsed().is_ok_and(|age| age > Duration::from_secs(2))
    }
}

/// Files already read by this process, so that a large tree of headers is read once.
static MEMO: Mutex<Option<HashMap<PathBuf, (Stamp, Content)>>> = Mutex::new(None);

/// Returns the file's hash and references; `None` if there is no such file.
fn content(path: &Path) -> Result<Option<Content>, Uncached> {
    let Ok(metadata) = std::fs::metadata(path) else {
        return Ok(None);
    };
    if !metadata.is_file() {
        return Ok(None);
    }
    let stamp = Stamp::of(&metadata);
    let memo = || MEMO.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stamp) = &stamp
        && let Some((_, known)) =
            memo().get_or_insert_default().get(path).filter(|(s, _)| s == stamp)
    {
        return Ok(Some(known.clone()));
    }
    let read = || {
        let mut bytes = Vec::new();
        // `trust::open` does not wait: by now the path may be a FIFO.
        trust::open(path)?.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes: Vec<u8> = read().map_err(|e: std::io::Error| Uncached::Unreadable {
        file: path.display().to_string(),
        reason: e.to_string(),
    })?;
    let content = Content { hash: sha256(&bytes), scan: Arc::new(scan(&bytes)) };
    if let Some(stamp) = stamp.filter(Stamp::is_settled) {
        memo().get_or_insert_default().insert(path.to_owned(), (stamp, content.clone()));
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn every_file_that_a_name_could_mean_is_taken() -> TestResult {
        let dir = tempfile::tempdir()?;
        let root = &dir.path().canonicalize()?;
        for (file, text) in [
            ("here.h", ""),
            (
                "inc/a/a.h",
                "#include \"sibling.h\"\n#include <deep.h>\n#include \"../up.h\"\n#include <missing.h>",
            ),
            ("inc/a/sibling.h", "#include \"a.h\""),
            ("inc/sibling.h", ""),
            ("inc/up.h", "#include \"../inc/../inc/up.h\""),
            ("other/deep.h", ""),
            ("other/unused.h", ""),
        ] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().ok_or("no parent")?)?;
            std::fs::write(path, text)?;
        }
        let include_paths = ["inc".into(), root.join("other")];
        let roots = Roots {
            source: ("main.cu", "#include \"mem.h\"\n#include \"here.h\""),
            headers: vec![("mem.h", "#include <a/a.h>")],
            include_paths: &include_paths,
            folder: root,
        };
        let found = closure(&roots).files;
        let names: Vec<_> = found.keys().filter_map(|p| p.strip_prefix(root).ok()).collect();
        let want =
            ["here.h", "inc/a/a.h", "inc/a/sibling.h", "inc/sibling.h", "inc/up.h", "other/deep.h"];
        assert_eq!(names, want.map(Path::new));

        std::fs::write(root.join("other/missing.h"), "")?;
        assert_eq!(closure(&roots).files.len(), found.len() + 1);
        std::fs::write(root.join("inc/up.h"), "int x;")?;
        let changed = closure(&roots).files;
        assert_ne!(changed.get(&root.join("inc/up.h")), found.get(&root.join("inc/up.h")));
        std::fs::write(root.join("inc/up.h"), "#include NAME")?;
        let obstacle = closure(&roots).obstacle;
        assert!(matches!(obstacle, Some(Uncached::ComputedInclude { .. })), "{obstacle:?}");
        Ok(())
    }

    #[test]
    fn names_say_where_their_files_are() -> TestResult {
        let dir = tempfile::tempdir()?;
        let root = &dir.path().canonicalize()?;
        for (file, text) in [
            ("src/near.h", "#include \"math.h\"\n#include <time.h>"),
            ("src/math.h", ""),
            ("src/time.h", ""),
            ("inc/both.h", "#include MACRO\n#include <both.h>"),
            ("inc/late.h", ""),
        ] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().ok_or("no parent")?)?;
            std::fs::write(path, text)?;
        }
        let include_paths = ["inc".into()];
        let roots = Roots {
            source: ("src/main.cu", "#include \"near.h\"\n#include <both.h>\n#include \"late.h\""),
            headers: Vec::new(),
            include_paths: &include_paths,
            folder: root,
        };
        let found = closure(&roots);
        assert_eq!(Vec::from_iter(&found.beside), ["math.h", "near.h"]);
        assert_eq!((&found.own, found.beside.len()), (&found.beside, 2));
        assert_eq!(Vec::from_iter(&found.in_folders), ["both.h", "late.h"]);
        // An include that only the preprocessor can name hides none of the others.
        assert!(found.obstacle.is_some() && found.files.contains_key(&root.join("inc/late.h")));
        Ok(())
    }

    #[test]
    fn a_change_within_one_tick_of_the_clock_is_noticed() -> TestResult {
        let dir = tempfile::tempdir()?;
        let header = dir.path().join("h");
        let roots = Roots {
            source: ("main.cu", "#include \"h\""),
            headers: Vec::new(),
            include_paths: &[],
            folder: dir.path(),
        };
        // The times are those of a file system with a coarse clock: two writes at one time.
        let now = SystemTime::now();
        for i in 0..20 {
            let text = format!("{i:03}");
            std::fs::write(&header, &text)?;
            std::fs::File::options().write(true).open(&header)?.set_modified(now)?;
            assert_eq!(closure(&roots).files.get(&header), Some(&sha256(text.as_bytes())), "{i}");
        }
        Ok(())
    }
}
