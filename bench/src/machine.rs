//! The place and time of a run, for its lines.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The fields that all lines of this run share.
pub(crate) fn facts(cuda_version: Option<i32>) -> Vec<(&'static str, Value)> {
    let cuda = cuda_version.map(|v| format!("{}.{}", v / 1000, v % 1000 / 10));
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    vec![
        ("cuda", json!(cuda)),
        ("driver", json!(read("/proc/driver/nvidia/version").as_deref().and_then(driver_version))),
        ("cpu", json!(read("/proc/cpuinfo").as_deref().and_then(cpu_name))),
        ("date", json!(date(seconds))),
        ("commit", json!(commit())),
    ]
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The first word that is a version, such as `580.159.04`.
fn driver_version(text: &str) -> Option<&str> {
    let is_version =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.split_whitespace().find(is_version)
}

fn cpu_name(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// The commit that is measured: `BENCH_COMMIT`, else the current folder's.
fn commit() -> Option<String> {
    if let Ok(commit) = std::env::var("BENCH_COMMIT")
        && !commit.is_empty()
    {
        return Some(commit);
    }
    let git = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"];
    let output = Command::new("git").args(git).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}

/// Date and time of day in UTC, from seconds since 1970.
fn date(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_798_761_599), "2026-12-31T23:59:59Z");
        assert_eq!(date(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_drivers_version_is_found() {
        let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release\n\
                    GCC version:  gcc version 12.2.0";
        assert_eq!(driver_version(text), Some("580.159.04"));
        assert_eq!(driver_version("nothing here."), None);
    }
}
