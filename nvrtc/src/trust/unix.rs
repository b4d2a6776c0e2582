//! Owners, modes and groups.

use std::collections::VecDeque;
use std::ffi::{CString, OsString};
use std::fs::{Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use super::{Refusal, Rule};

/// The most links that the kernel follows.
const MOST_LINKS: u32 = 40;

const STICKY: u32 = 0o1000;
const BY_GROUP: u32 = 0o020;
const BY_OTHERS: u32 = 0o002;

/// Returns the effective user: the owner of what this process makes.
pub(super) fn user() -> u32 {
    // SAFETY: the function has no preconditions and can't fail.
    unsafe { libc::geteuid() }
}

pub(super) fn without_waiting(options: &mut OpenOptions, follow: bool) {
    options.custom_flags(libc::O_NONBLOCK | if follow { 0 } else { libc::O_NOFOLLOW });
}

/// Returns whether this is a regular file of the user's, not a link.
pub(crate) fn is_own(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.uid() == user()
}

pub(super) fn beside(library: &Path) -> Rule {
    let mut rule = Rule::SEARCHED;
    let real = library.canonicalize().unwrap_or_else(|_| library.to_owned());
    for metadata in real.ancestors().filter_map(|step| std::fs::symlink_metadata(step).ok()) {
        rule.owners.push(metadata.uid());
        let mode = metadata.mode();
        // In a sticky folder no user can replace another's file.
        if mode & STICKY == 0 || !metadata.is_dir() {
            if mode & BY_GROUP != 0 {
                rule.groups.push(metadata.gid());
            }
            rule.everybody |= mode & BY_OTHERS != 0;
        }
    }
    rule
}

/// Returns a part of a path that is still to be walked.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let named = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(named)
}

/// A folder that has passed.
struct Folder {
    path: PathBuf,
    device: u64,
    /// Whether others may make entries in the folder, and remove only their own.
    sticky: bool,
}

impl Folder {
    fn root(rule: &Rule) -> Result<Self, Refusal> {
        let path = PathBuf::from("/");
        let metadata = std::fs::symlink_metadata(&path)?;
        rule.owner_passes(&path, &metadata)?;
        Self::checked(rule, path, &metadata)
    }

    fn checked(rule: &Rule, path: PathBuf, metadata: &Metadata) -> Result<Self, Refusal> {
        let sticky = match rule.mode_passes(&path, metadata) {
            Ok(()) => false,
            Err(_) if metadata.mode() & STICKY != 0 => true,
            Err(refusal) => return Err(refusal),
        };
        Ok(Self { path, device: metadata.dev(), sticky })
    }
}

pub(super) fn walk(rule: &Rule, path: &Path, may_end_in_sticky: bool) -> Result<PathBuf, Refusal> {
    // The folders from the root down to the current one: `..` goes back to a folder that has passed.
    let mut folders = vec![Folder::root(rule)?];
    let mut pending: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    while let Some(name) = pending.pop_front() {
        let Some(folder) = folders.last() else { break };
        if name == ".." {
            if folders.len() > 1 {
                folders.pop();
            }
            continue;
        }
        let next = folder.path.join(&name);
        let metadata = std::fs::symlink_metadata(&next)?;
        rule.owner_passes(&next, &metadata)?;
        // A folder in a sticky folder was made there by its owner. A file or a link of the user's may have been
        // moved there from a folder that others may write, and what is mounted there may lie about its owner.
        if folder.sticky
            && !rule.everybody
            && !(metadata.is_dir() && metadata.dev() == folder.device)
        {
            let (step, folder) = (next.display(), folder.path.display());
            let reason =
                format!("others may write to {folder}, and {step} is not a plain folder in it");
            return Err(Refusal::Step(reason));
        }
        if metadata.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
            }
            let target = std::fs::read_link(&next)?;
            if target.is_absolute() {
                folders.truncate(1);
            }
            parts(&target).rev().for_each(|part| pending.push_front(part));
        } else if metadata.is_dir() {
            let checked = Folder::checked(rule, next, &metadata)?;
            folders.push(checked);
        } else if pending.is_empty() {
            rule.mode_passes(&next, &metadata)?;
            return Ok(next);
        } else {
            return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
        }
    }
    match folders.pop() {
        Some(Folder { path, sticky: false, .. }) => Ok(path),
        Some(Folder { path, .. }) if may_end_in_sticky => Ok(path),
        Some(Folder { path, .. }) => {
            Err(Refusal::Step(format!("others may write to {}", path.display())))
        }
        None => Err(io::Error::from(io::ErrorKind::NotFound).into()),
    }
}

impl Rule {
    fn owner_passes(&self, path: &Path, metadata: &Metadata) -> Result<(), Refusal> {
        let owner = metadata.uid();
        if owner == 0 || owner == user() || self.everybody || self.owners.contains(&owner) {
            return Ok(());
        }
        Err(Refusal::Step(format!("{} belongs to user {owner}", path.display())))
    }

    fn mode_passes(&self, path: &Path, metadata: &Metadata) -> Result<(), Refusal> {
        let (mode, group) = (metadata.mode(), metadata.gid());
        if self.everybody {
            return Ok(());
        }
        if mode & BY_OTHERS != 0 {
            return Err(Refusal::Step(format!("others may write to {}", path.display())));
        }
        if mode & BY_GROUP == 0 || self.groups.contains(&group) {
            return Ok(());
        }
        if own_group() != Some(group) {
            return Err(Refusal::Step(format!("group {group} may write to {}", path.display())));
        }
        // Where there is an access list, these bits of the mode are the most that anybody in it may do.
        if has_access_list(path) {
            let reason = format!("an access list may let others write to {}", path.display());
            return Err(Refusal::Step(reason));
        }
        Ok(())
    }
}

/// Returns the group that has only the user in it.
fn own_group() -> Option<u32> {
    static OWN: OnceLock<Option<u32>> = OnceLock::new();
    *OWN.get_or_init(|| {
        let read = |path: &str| super::read_text(Path::new(path)).ok();
        private_group(user(), &read("/etc/passwd")?, &read("/etc/group")?)
    })
}

/// Returns the user's primary group if its name is the user's, nobody else has it as primary group, and it has no other
/// member. `None` where these files don't say so, as for accounts of a network.
pub(super) fn private_group(user: u32, passwd: &str, group: &str) -> Option<u32> {
    fn fields(text: &str) -> impl Iterator<Item = Vec<&str>> {
        text.lines().map(|line| line.split(':').collect())
    }
    let number = |fields: &[&str], index: usize| fields.get(index)?.parse::<u32>().ok();
    let own = fields(passwd).find(|account| number(account, 2) == Some(user))?;
    let (name, primary) = (*own.first()?, number(&own, 3)?);
    let shared = fields(passwd)
        .any(|account| number(&account, 3) == Some(primary) && number(&account, 2) != Some(user));
    let mut named = fields(group).filter(|group| number(group, 2) == Some(primary)).peekable();
    named.peek()?;
    let private = |group: Vec<&str>| {
        let members = group.get(3).copied().unwrap_or_default();
        group.first() == Some(&name) && members.split(',').all(|m| m.is_empty() || m.trim() == name)
    };
    (!shared && named.all(private)).then_some(primary)
}

/// Returns whether the file has an access list besides its mode. A result that is not understood counts as a list.
#[cfg(target_os = "linux")]
fn has_access_list(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return true };
    let name = c"system.posix_acl_access";
    // SAFETY: both strings end with NUL and outlive the call; with a length of 0 nothing is written.
    let length = unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    let none = [libc::ENODATA, libc::ENOTSUP];
    length >= 0 || !io::Error::last_os_error().raw_os_error().is_some_and(|e| none.contains(&e))
}

/// Access lists of other systems do not show in the mode, and are not read.
#[cfg(not(target_os = "linux"))]
fn has_access_list(_: &Path) -> bool {
    false
}
