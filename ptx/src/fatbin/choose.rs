//! Chooses the image for a device.

use std::fmt;

use super::{Entry, Kind};

/// Whether an image runs on other devices than its architecture's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Specific {
    /// PTX for this and every newer architecture.
    No,
    /// An image for the architectures of one family (`sm_100f`).
    Family,
    /// An image for one architecture alone (`sm_90a`).
    Architecture,
}

/// The architecture of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arch {
    /// 75 for `sm_75` and `compute_75`.
    pub number: u32,
    /// Whether it runs on other devices.
    pub specific: Specific,
}

impl fmt::Display for Arch {
    /// Writes `90a`, as after `compute_` and `sm_`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.specific {
            Specific::No => "",
            Specific::Family => "f",
            Specific::Architecture => "a",
        };
        write!(f, "{}{suffix}", self.number)
    }
}

impl Arch {
    /// Returns whether a device of compute capability `device` (90 for 9.0) can run PTX for this architecture.
    ///
    /// Source: PTX ISA, "PTX Module Directives: .target".
    #[must_use]
    pub fn runs_on(self, device: u32) -> bool {
        match self.specific {
            Specific::No => self.number <= device,
            Specific::Architecture => self.number == device,
            Specific::Family => self.number <= device && family(self.number) == family(device),
        }
    }
}

/// Returns a number that all architectures of a family share. 10.1, which CUDA 13 calls 11.0, is a separate family.
fn family(number: u32) -> u32 {
    if number == 101 { 11 } else { number / 10 }
}

/// No PTX of a fat binary is for a device.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the fatbin has no PTX for compute capability {}.{}: it has {}; {}compile it with \
     -gencode arch=compute_{device},code=compute_{device}",
    device / 10,
    device % 10,
    list(images),
    if images.iter().any(|(kind, _)| *kind == Kind::LtoIr) {
        "link the LTO-IR (`nvrtc::Linker`), or "
    } else {
        ""
    }
)]
pub struct NoImage {
    /// The compute capability of the device: 90 for 9.0.
    pub device: u32,
    /// The images that the fat binary has.
    pub images: Vec<(Kind, Arch)>,
}
impl fmt::Debug for NoImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn list(images: &[(Kind, Arch)]) -> String {
    /// More are counted.
    const MOST: usize = 12;
    let mut names: Vec<String> = images
        .iter()
        .take(MOST)
        .map(|(kind, arch)| match kind {
            Kind::Ptx => format!("PTX for compute_{arch}"),
            Kind::Cubin => format!("machine code for sm_{arch}"),
            Kind::LtoIr => format!("LTO-IR for sm_{arch}"),
            Kind::Other(number) => format!("an image of kind {number} for sm_{arch}"),
        })
        .collect();
    if images.len() > MOST {
        names.push(format!("{} more", images.len() - MOST));
    }
    if names.is_empty() { "no image".to_owned() } else { names.join(", ") }
}

/// Returns the image of a kind for the highest architecture that the device can run.
pub(super) fn best<'e, 'a>(
    entries: &'e [Entry<'a>],
    kind: Kind,
    device: u32,
) -> Option<&'e Entry<'a>> {
    let fitting = entries.iter().filter(|e| e.kind == kind && e.arch.runs_on(device));
    // The first of equal entries.
    fitting.rev().max_by_key(|entry| (entry.arch.number, entry.arch.specific))
}

pub(super) fn ptx_for<'e, 'a>(
    entries: &'e [Entry<'a>],
    device: u32,
) -> Result<&'e Entry<'a>, NoImage> {
    best(entries, Kind::Ptx, device).ok_or_else(|| NoImage {
        device,
        images: entries.iter().map(|entry| (entry.kind, entry.arch)).collect(),
    })
}
