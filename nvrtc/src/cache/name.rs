//! The names that a cache gives to its files. Eviction deletes nothing that has another.

use crate::codec::{Hash, hex};

/// Digits of a key.
const DIGITS: usize = 64;

/// The kinds of files that a cache evicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// `<key>.image`, `<key>.record` and `<key>.bytes`
    Image,
    /// `<key>.lock`
    Lock,
    /// `<key>.<process>-<number>.tmp`
    Temporary,
}

pub(super) fn image(key: &Hash) -> String {
    format!("{}.image", hex(key))
}

/// Returns the file of facts about a compiler. It has a few bytes and is never evicted.
pub(super) fn library(key: &Hash) -> String {
    format!("{}.library", hex(key))
}

/// Returns the file that says which compiler made a program's image.
pub(super) fn record(key: &Hash) -> String {
    format!("{}.record", hex(key))
}

/// Returns the file of a program's bytes.
pub(super) fn bytes(key: &Hash) -> String {
    format!("{}.bytes", hex(key))
}

pub(super) fn lock(key: &Hash) -> String {
    format!("{}.lock", hex(key))
}

pub(super) fn temporary(key: &Hash, process: u32, number: u64) -> String {
    format!("{}.{process}-{number}.tmp", hex(key))
}

/// Returns the kind of a file by its name; `None` if no cache gives such names.
pub(super) fn made(name: &str) -> Option<Made> {
    let (key, rest) = name.split_at_checked(DIGITS)?;
    if !key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    match rest {
        ".image" | ".record" | ".bytes" => Some(Made::Image),
        ".lock" => Some(Made::Lock),
        _ => {
            let (process, number) =
                rest.strip_prefix('.')?.strip_suffix(".tmp")?.split_once('-')?;
            let digits =
                |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            (digits(process) && digits(number)).then_some(Made::Temporary)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::sha256;

    #[test]
    fn names_are_those_that_are_given_and_no_others() {
        let key = sha256(b"key");
        assert_eq!(made(&image(&key)), Some(Made::Image));
        assert_eq!(made(&lock(&key)), Some(Made::Lock));
        assert_eq!(made(&temporary(&key, 1, 0)), Some(Made::Temporary));
        assert_eq!(made(&temporary(&key, u32::MAX, u64::MAX)), Some(Made::Temporary));
        assert_eq!(made(&record(&key)), Some(Made::Image));
        assert_eq!(made(&bytes(&key)), Some(Made::Image));
        assert_eq!(made(&library(&key)), None);
        for name in [image(&key), record(&key), bytes(&key), lock(&key), temporary(&key, 1, 2)] {
            for at in 0..name.len() {
                // Shorter by one, longer by one, and changed in one place.
                assert_eq!(made(&name[..at]), None, "{}", &name[..at]);
                for letter in ["G", "A", "/", "-"] {
                    let longer = format!("{}{letter}{}", &name[..at], &name[at..]);
                    assert_eq!(made(&longer), None, "{longer}");
                }
                if at < DIGITS {
                    let changed = format!("{}x{}", &name[..at], &name[at + 1..]);
                    assert_eq!(made(&changed), None, "{changed}");
                }
            }
        }
        assert_eq!(made("é"), None);
    }
}
