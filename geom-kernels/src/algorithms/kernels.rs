//! The kernels of sorts and sums in `device/kernels/`, and what they have in common with this side: sizes of tiles
//! and layouts of structures.

use cuda_safe::{DeviceRepr, Error, Kernel, Result};

use super::radix::RadixKey;
use crate::geometry::{GeometryKernels, Group, Source};

/// The threads of a block that scans, selects or reduces.
pub(crate) const THREADS: u32 = 256;
/// The threads of a block that counts digits.
pub(crate) const COUNT_THREADS: u32 = 512;
/// The elements that a block scans, selects or reduces.
pub(crate) const TILE: usize = 4096;
/// The numbers of elements that one call can work on are less: indices in 31 bits.
pub(crate) const LIMIT: usize = 1 << 31;

/// What a pass of a radix sort is told: `geom::sort::Pass`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) n: u32,
    pub(crate) index: u32,
    pub(crate) shift: u32,
    pub(crate) width: u32,
    pub(crate) flags: u32,
    pub(crate) stride: u32,
    pub(crate) groups: u32,
    pub(crate) tiles: u32,
}

// SAFETY: repr(C), with the fields of `geom::sort::Pass` in radix_sort.cuh, all of 32 bits; no addresses.
unsafe impl DeviceRepr for Pass {}

/// The kernels of all calls of this module, each loaded when it is needed.
#[derive(Debug)]
pub(crate) struct Kernels {
    geometry: GeometryKernels,
    pairs_32: Group<1>,
    /// And the one that plans.
    pairs_64: Group<2>,
    keys: Group<2>,
    count: Group<2>,
    scan: Group<2>,
    scan_offsets: Group<1>,
    select: Group<6>,
    reduce: Group<16>,
}

impl Kernels {
    pub(super) fn new(geometry: GeometryKernels) -> Self {
        Self {
            geometry,
            pairs_32: Group::default(),
            pairs_64: Group::default(),
            keys: Group::default(),
            count: Group::default(),
            scan: Group::default(),
            scan_offsets: Group::default(),
            select: Group::default(),
            reduce: Group::default(),
        }
    }

    /// A pass that sorts pairs.
    pub(crate) fn pairs<K: RadixKey>(&self) -> Result<&Kernel> {
        if K::INDEX == 0 {
            let names = || ["sort_pairs_u32"].map(String::from);
            return self
                .pairs_32
                .get(&self.geometry, Source::SortPairs32, names)
                .map(|[pairs]| pairs);
        }
        self.pairs_64().map(|[pairs, _]| pairs)
    }

    /// What plans a sort.
    pub(super) fn plan(&self) -> Result<&Kernel> {
        self.pairs_64().map(|[_, plan]| plan)
    }

    fn pairs_64(&self) -> Result<&[Kernel; 2]> {
        let names = || ["sort_pairs_u64", "sort_plan"].map(String::from);
        self.pairs_64.get(&self.geometry, Source::SortPairs64, names)
    }

    /// A pass that sorts keys.
    pub(super) fn keys<K: RadixKey>(&self) -> Result<&Kernel> {
        let names = || ["sort_keys_u32", "sort_keys_u64"].map(String::from);
        Ok(&self.keys.get(&self.geometry, Source::SortKeys, names)?[K::INDEX])
    }

    /// What counts the digits of keys.
    pub(super) fn count<K: RadixKey>(&self) -> Result<&Kernel> {
        let names = || ["sort_count_u32", "sort_count_u64"].map(String::from);
        Ok(&self.count.get(&self.geometry, Source::SortCount, names)?[K::INDEX])
    }

    /// Prefix sums of elements of 4 and of 8 bytes.
    pub(super) fn scan(&self, index: usize) -> Result<&Kernel> {
        self.scans().map(|[short, long]| if index == 0 { short } else { long })
    }

    /// Prefix sums of elements of 4 bytes, to sums of 4 and of 8.
    pub(super) fn offsets(&self, index: usize) -> Result<&Kernel> {
        if index == 0 {
            return self.scan(0);
        }
        let names = || ["scan_offsets"].map(String::from);
        let kernels = self.scan_offsets.get(&self.geometry, Source::ScanOffsets, names);
        kernels.map(|[offsets]| offsets)
    }

    fn scans(&self) -> Result<&[Kernel; 2]> {
        let names = || ["scan_u32", "scan_u64"].map(String::from);
        self.scan.get(&self.geometry, Source::Scan, names)
    }

    /// Selections by flags of 1 and of 4 bytes, of indices and of elements of 4 and of 8 bytes.
    pub(super) fn select(&self, flag: usize, of: usize) -> Result<&Kernel> {
        let names = || {
            [
                "select_u8_places",
                "select_u8_of_4",
                "select_u8_of_8",
                "select_u32_places",
                "select_u32_of_4",
                "select_u32_of_8",
            ]
            .map(String::from)
        };
        let kernels = self.select.get(&self.geometry, Source::Select, names)?;
        Ok(&kernels[3 * flag.min(1) + of.min(2)])
    }

    /// Sum, smallest, largest of u32, u64, f32, f64, i32, i64.
    pub(super) fn reduce(&self, operation: usize, number: usize) -> Result<&Kernel> {
        const TYPES: [&str; 6] = ["u32", "u64", "f32", "f64", "i32", "i64"];
        let names = || {
            std::array::from_fn(|i| match i {
                0..4 => format!("reduce_add_{}", TYPES[i]),
                4..10 => format!("reduce_min_{}", TYPES[i - 4]),
                _ => format!("reduce_max_{}", TYPES[i - 10]),
            })
        };
        let kernels = self.reduce.get(&self.geometry, Source::Reduce, names)?;
        Ok(&kernels[match operation {
            // Sums of signed integers are those of unsigned ones, bit for bit.
            0 => number % 4,
            1 => 4 + number % 6,
            _ => 10 + number % 6,
        }])
    }
}

/// A number of elements as kernels are given it.
///
/// # Errors
/// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) from 2^31 on.
pub(crate) fn count(what: &str, n: usize) -> Result<u32> {
    if n < LIMIT {
        return Ok(n as u32);
    }
    let message = format!("{what}: {n} elements, but one call works on less than 2^31");
    Err(Error::invalid(message).with_hint("divide them among several calls"))
}
