//! One compile of one thing at a time, among threads and processes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::trust;

/// Longer than a compile takes; a process that has waited so long compiles too.
const PATIENCE: Duration = Duration::from_secs(120);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Held while compiling. Without one (a file system without locks, patience at its end) two processes
/// may do the same work, and the result is the same.
#[derive(Debug)]
pub(crate) struct Lock {
    held: Option<(File, PathBuf)>,
}

impl Lock {
    pub(super) fn acquire(path: &Path) -> Self {
        let begin = Instant::now();
        let mut pause = FIRST_PAUSE;
        while begin.elapsed() < PATIENCE {
            let Ok(file) = open(path) else { break };
            match file.try_lock() {
                // The previous holder may have removed the file between opening and locking it.
                Ok(()) if is_current(&file, path) => {
                    return Self { held: Some((file, path.to_owned())) };
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(TryLockError::Error(_)) => break,
            }
        }
        Self { held: None }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file is removed while it is locked, so that nobody else's lock is removed, unless another process took it
        // for abandoned. The lock itself ends when the file is closed.
        if let Some((file, path)) = &self.held
            && is_current(file, path)
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    Ok(trust::open_own(path, &mut options)?.0)
}

#[cfg(unix)]
fn is_current(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Where an open file cannot be removed there is nothing to compare.
#[cfg(not(unix))]
fn is_current(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn only_one_holds_it_and_nothing_is_left() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("x.lock");
        let holders = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = Lock::acquire(&path);
                        assert!(lock.held.is_some());
                        most.fetch_max(
                            holders.fetch_add(1, Ordering::SeqCst) + 1,
                            Ordering::SeqCst,
                        );
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(!path.exists());
        Ok(())
    }

    #[test]
    fn without_a_folder_there_is_no_lock_and_no_wait() {
        let lock = Lock::acquire(Path::new("/nonexistent/x.lock"));
        assert!(lock.held.is_none());
    }
}
