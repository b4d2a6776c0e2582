use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::unix::private_group;
use super::*;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Makes a file and the folders above it, which only the user may write to, whatever the umask is.
fn made(top: &Path, name: &str) -> io::Result<PathBuf> {
    let path = top.join(name);
    fs::create_dir_all(path.parent().unwrap_or(top))?;
    fs::write(&path, "")?;
    for step in path.ancestors().take_while(|step| step.starts_with(top)) {
        fs::set_permissions(step, fs::Permissions::from_mode(0o755))?;
    }
    Ok(path)
}

const PASSWD: &str = "root:x:0:0:root:/:/bin/sh\nada:x:1000:1000::/a:/bin/sh\nbob:x:1001:100::/b:/bin/sh\n\
                      eve:x:1002:1002::/e:/bin/sh\nsync:x:4:1002:sync:/bin:/bin/sync\n";

#[test]
fn a_group_is_the_users_own_only_by_facts() {
    let own = |user, group: &str| private_group(user, PASSWD, group);
    assert_eq!(own(1000, "ada:x:1000:\n"), Some(1000));
    assert_eq!(own(1000, "ada:x:1000:ada\n"), Some(1000));
    assert_eq!(own(0, "root:x:0:\n"), Some(0));
    // The cases: another member; another line with one; another name; no such group.
    assert_eq!(own(1000, "ada:x:1000:ada,bob\n"), None);
    assert_eq!(own(1000, "ada:x:1000:\nalso:x:1000:bob\n"), None);
    assert_eq!(own(1000, "staff:x:1000:\n"), None);
    assert_eq!(own(1000, "ada:x:999:\n"), None);
    // The primary group of several; a user who is not in the list; text that is none.
    assert_eq!(own(1001, "users:x:100:\n"), None);
    assert_eq!(own(1002, "eve:x:1002:\n"), None);
    assert_eq!(own(7, "ada:x:1000:\n"), None);
    assert_eq!(own(1000, ""), None);
    assert_eq!(private_group(1000, "ada", "ada:x:1000:"), None);
}

#[test]
fn the_real_path_is_returned_and_links_out_of_sticky_folders_are_not_followed() -> TestResult {
    let dir = tempfile::tempdir()?;
    let top = dir.path().canonicalize()?;
    let resolve = |name: &str| Rule::SEARCHED.resolve(&top.join(name));
    made(&top, "a/b/file")?;
    symlink("a/../a/./b", top.join("link"))?;
    symlink("loop", top.join("loop"))?;
    assert_eq!(resolve("link/file").map_err(|e| e.to_string())?, top.join("a/b/file"));
    assert_eq!(resolve("a/b/../b").map_err(|e| e.to_string())?, top.join("a/b"));
    for absent in ["a/none", "a/b/file/more", "link/none"] {
        assert!(resolve(absent).is_err_and(|refusal| refusal.is_absence()), "{absent}");
    }
    assert!(resolve("loop").is_err_and(|refusal| !refusal.is_absence()));
    assert!(Rule::SEARCHED.resolve(Path::new("a/b")).is_err_and(|r| !r.is_absence()));

    let mode =
        |name: &str, mode| fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode));
    mode("a", 0o1777)?;
    assert!(resolve("a/b/file").is_ok());
    assert!(resolve("a").is_err());
    assert!(Rule::SEARCHED.resolve_parent(&top.join("a")).is_ok());
    symlink("b", top.join("a/link"))?;
    assert!(resolve("a/link").is_err_and(|refusal| !refusal.is_absence()));
    mode("a/b/file", 0o646)?;
    assert!(resolve("a/b/file").is_err());
    mode("a/b/file", 0o644)?;
    mode("a", 0o777)?;
    assert!(resolve("a/b/file").is_err());
    Ok(())
}

#[test]
fn only_regular_files_are_opened_and_nothing_waits() -> TestResult {
    let dir = tempfile::tempdir()?;
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status()?.success());
    let mut writing = OpenOptions::new();
    assert!(open(&fifo).is_err());
    assert!(open_own(&fifo, writing.write(true)).is_err());
    assert!(open_own(&fifo, OpenOptions::new().read(true)).is_err());
    assert!(read_text(&fifo).is_err() && open(dir.path()).is_err());
    let file = dir.path().join("file");
    create(&file)?;
    assert!(create(&file).is_err());
    assert!(open(&file).is_ok() && open_own(&file, OpenOptions::new().read(true)).is_ok());
    let link = dir.path().join("link");
    symlink(&file, &link)?;
    assert!(open(&link).is_ok() && open_own(&link, OpenOptions::new().read(true)).is_err());
    assert!(create(&link).is_err());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o622))?;
    assert!(open_own(&file, OpenOptions::new().read(true)).is_err());
    Ok(())
}

#[test]
fn around_a_library_those_are_accepted_who_can_replace_it() -> TestResult {
    let dir = tempfile::tempdir()?;
    let top = dir.path().canonicalize()?;
    let library = made(&top, "kit/lib/libnvrtc.so.13")?;
    let header = made(&top, "kit/include/a.h")?;
    let mode =
        |path: &str, mode| fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode));
    mode("kit/include", 0o777)?;
    assert!(Rule::beside(&library).resolve(&header).is_err());
    mode("kit/lib", 0o1777)?;
    assert!(Rule::beside(&library).resolve(&header).is_err(), "nobody replaces it there");
    mode("kit/lib", 0o777)?;
    assert_eq!(Rule::beside(&library).resolve(&header).map_err(|e| e.to_string())?, header);
    Ok(())
}
