//! Profiles of devices: the limits and the sizes of well-known GPUs.

use crate::exec::{DeviceInfo, Speeds};

/// A GPU whose limits the software device may have: [`Config::device`](crate::Config::device).
///
/// A profile sets what a program reads of a device and what bounds its launches. Kernels compute the same results under
/// all profiles; a kernel for a newer `.target` does not load. The numbers are those that NVIDIA publishes: the technical
/// specifications of compute capabilities in the CUDA C++ Programming Guide, and the data sheets. The core clock is the
/// maximum; the memory clock is calculated from the bandwidth. A card may report others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// H200 with 141 GB.
    H200,
    /// H100 SXM with 80 GB.
    H100,
    /// A100 SXM with 80 GB.
    A100,
    /// L4 with 24 GB.
    L4,
    /// T4 with 16 GB.
    T4,
    /// GeForce RTX 4090 with 24 GB.
    Rtx4090,
}

/// What a profile sets.
struct Limits {
    title: &'static str,
    cc: (u32, u32),
    multiprocessors: u32,
    /// GB, of 1000^3 bytes.
    memory: u64,
    speeds: Speeds,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 6] =
        [Self::H200, Self::H100, Self::A100, Self::L4, Self::T4, Self::Rtx4090];

    /// Returns its name in `CUDA_EMU_DEVICE` and on command lines, such as `h100`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::H200 => "h200",
            Self::H100 => "h100",
            Self::A100 => "a100",
            Self::L4 => "l4",
            Self::T4 => "t4",
            Self::Rtx4090 => "rtx4090",
        }
    }

    /// Returns the profile of a name, in capital or small letters.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name().eq_ignore_ascii_case(name))
    }

    /// Returns its compute capability: major, minor.
    #[must_use]
    pub const fn compute_capability(self) -> (u32, u32) {
        self.limits().cc
    }

    /// Returns the number of its multiprocessors.
    #[must_use]
    pub const fn multiprocessors(self) -> u32 {
        self.limits().multiprocessors
    }

    /// Returns the bytes of its memory.
    #[must_use]
    pub const fn memory(self) -> u64 {
        self.limits().memory * 1_000_000_000
    }

    /// Returns the name of the GPU.
    pub(crate) const fn title(self) -> &'static str {
        self.limits().title
    }

    const fn limits(self) -> Limits {
        match self {
            Self::H200 => Limits {
                title: "H200",
                cc: (9, 0),
                multiprocessors: 132,
                memory: 141,
                speeds: Speeds::new(1_980, 3_201, 6_144, 50, 2),
            },
            Self::H100 => Limits {
                title: "H100 SXM",
                cc: (9, 0),
                multiprocessors: 132,
                memory: 80,
                speeds: Speeds::new(1_980, 2_619, 5_120, 50, 2),
            },
            Self::A100 => Limits {
                title: "A100 SXM",
                cc: (8, 0),
                multiprocessors: 108,
                memory: 80,
                speeds: Speeds::new(1_410, 1_593, 5_120, 40, 2),
            },
            Self::L4 => Limits {
                title: "L4",
                cc: (8, 9),
                multiprocessors: 58,
                memory: 24,
                speeds: Speeds::new(2_040, 6_251, 192, 48, 64),
            },
            Self::T4 => Limits {
                title: "T4",
                cc: (7, 5),
                multiprocessors: 40,
                memory: 16,
                speeds: Speeds::new(1_590, 5_001, 256, 4, 32),
            },
            Self::Rtx4090 => Limits {
                title: "GeForce RTX 4090",
                cc: (8, 9),
                multiprocessors: 128,
                memory: 24,
                speeds: Speeds::new(2_520, 10_501, 384, 72, 64),
            },
        }
    }

    /// Sets the limits of a device that follow from the compute capability, and the speeds of the GPU.
    pub(crate) fn apply(self, info: &mut DeviceInfo) {
        info.speeds = self.limits().speeds;
        // Of a multiprocessor: threads, blocks, and bytes of shared memory for blocks and for the system.
        let (threads, blocks, optin, reserved) = match self.compute_capability() {
            (7, 5) => (1024, 16, 64 << 10, 0),
            (8, 0) => (2048, 32, 163 << 10, 1024),
            (8, 9) => (1536, 24, 99 << 10, 1024),
            _ => (2048, 32, 227 << 10, 1024),
        };
        info.threads_per_multiprocessor = threads;
        info.blocks_per_multiprocessor = blocks;
        info.shared_optin = optin;
        info.shared_reserved = reserved;
    }
}

#[cfg(test)]
mod tests {
    use super::Profile;

    #[test]
    fn names_are_found_and_distinct() {
        for profile in Profile::ALL {
            assert_eq!(Profile::by_name(profile.name()), Some(profile));
            assert_eq!(Profile::by_name(&profile.name().to_uppercase()), Some(profile));
        }
        for wrong in ["", "h", "h1000", " h100", "sm_90"] {
            assert_eq!(Profile::by_name(wrong), None, "{wrong}");
        }
    }
}
