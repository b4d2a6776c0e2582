//! Advice, prefetches and discards of managed memory. The memory is the host's for every device, so none of them moves
//! anything; the device keeps advice and prefetches for queries.

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::collections::{BTreeMap, BTreeSet};

use cuda_sys::{
    CUdevice, CUdeviceptr, CUmem_advise, CUmem_range_attribute, CUmemLocation, CUmemLocationType,
    CUresult, CUstream,
};

use super::PAGE;
use crate::driver::call::{Answer, functions, is_per_thread, process, put};
use crate::driver::process::{Process, State};
use crate::driver::stream::submit;
use crate::driver::stream::work::Work;
use crate::space::{Kind, Region};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
/// `CU_DEVICE_CPU` and `CU_DEVICE_INVALID`.
const CPU: c_int = -1;
const NO_DEVICE: c_int = -2;

/// A device, the host, or a node of the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Location {
    Host,
    Node,
    Device(c_int),
}

impl Location {
    /// Returns the location that a program names.
    fn of(process: &Process, location: CUmemLocation) -> Answer<Self> {
        use CUmemLocationType as T;
        // SAFETY: every bit pattern of the union is an int.
        let id = unsafe { location.__bindgen_anon_1.id };
        match location.type_ {
            T::CU_MEM_LOCATION_TYPE_DEVICE => process.device(id).map(|_| Self::Device(id)),
            T::CU_MEM_LOCATION_TYPE_HOST => Ok(Self::Host),
            // The host has one node.
            T::CU_MEM_LOCATION_TYPE_HOST_NUMA if id == 0 => Ok(Self::Node),
            T::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(Self::Node),
            _ => Err(INVALID),
        }
    }

    /// Returns the location that functions from before CUDA 13 call by a number.
    fn of_device(process: &Process, device: CUdevice) -> Answer<Self> {
        match device {
            CPU => Ok(Self::Host),
            device => process.device(device).map(|_| Self::Device(device)),
        }
    }

    fn device(self) -> c_int {
        match self {
            Self::Device(device) => device,
            Self::Host | Self::Node => CPU,
        }
    }

    fn kind(self) -> CUmemLocationType {
        match self {
            Self::Host => CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
            Self::Node => CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA,
            Self::Device(_) => CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        }
    }
}

/// The advice and the last prefetch of pages.
#[derive(Debug, Clone, Default)]
struct PageAdvice {
    read_mostly: bool,
    preferred: Option<Location>,
    prefetched: Option<Location>,
    accessed_by: BTreeSet<Location>,
}

/// The advice of a region, from each page on up to the next key.
#[derive(Debug, Default)]
pub(in crate::driver) struct Advice(BTreeMap<u64, PageAdvice>);

impl Advice {
    fn pages(address: u64, bytes: u64) -> core::ops::Range<u64> {
        address / PAGE..(address + bytes).div_ceil(PAGE)
    }

    fn before(&self, page: u64) -> PageAdvice {
        self.0
            .range(..=page)
            .next_back()
            .map_or_else(PageAdvice::default, |(_, advice)| advice.clone())
    }

    fn change(&mut self, address: u64, bytes: u64, change: impl Fn(&mut PageAdvice)) {
        let pages = Self::pages(address, bytes);
        for page in [pages.start, pages.end] {
            let advice = self.before(page);
            self.0.insert(page, advice);
        }
        self.0.range_mut(pages).for_each(|(_, advice)| change(advice));
    }

    /// Returns the advice of each part of a range.
    fn of(&self, address: u64, bytes: u64) -> Vec<PageAdvice> {
        let pages = Self::pages(address, bytes);
        let first = self.before(pages.start);
        let rest = self.0.range(pages.start + 1..pages.end.max(pages.start + 1));
        [first].into_iter().chain(rest.map(|(_, advice)| advice.clone())).collect()
    }
}

/// Returns the managed memory that a range lies in.
fn managed(process: &Process, address: CUdeviceptr, bytes: usize) -> Answer<Region> {
    match process.space.find_range(address, bytes as u64) {
        Some(region) if region.kind == Kind::Managed => Ok(region),
        _ => Err(INVALID),
    }
}

impl State {
    fn set(
        &mut self,
        process: &Process,
        address: u64,
        bytes: usize,
        change: impl Fn(&mut PageAdvice),
    ) -> Answer {
        let region = managed(process, address, bytes)?;
        let all = &mut self.objects.advice;
        // Regions are freed in many places, and their numbers are never used again.
        if !all.contains_key(&(region.start, region.id)) && all.len().is_power_of_two() {
            all.retain(|&(start, id), _| {
                process.space.find(start).is_some_and(|known| known.id == id)
            });
        }
        all.entry((region.start, region.id)).or_default().change(address, bytes as u64, change);
        Ok(())
    }
}

fn advise(
    address: CUdeviceptr,
    bytes: usize,
    advice: CUmem_advise,
    location: impl Fn(&Process) -> Answer<Location>,
) -> Answer {
    use CUmem_advise as A;
    let process = process()?;
    managed(process, address, bytes)?;
    let mut state = process.lock();
    let mut set = |change: &dyn Fn(&mut PageAdvice)| state.set(process, address, bytes, change);
    match advice {
        A::CU_MEM_ADVISE_SET_READ_MOSTLY => set(&|page| page.read_mostly = true),
        A::CU_MEM_ADVISE_UNSET_READ_MOSTLY => set(&|page| page.read_mostly = false),
        A::CU_MEM_ADVISE_SET_PREFERRED_LOCATION => {
            let location = location(process)?;
            set(&|page| page.preferred = Some(location))
        }
        A::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => set(&|page| page.preferred = None),
        A::CU_MEM_ADVISE_SET_ACCESSED_BY | A::CU_MEM_ADVISE_UNSET_ACCESSED_BY => {
            let location = location(process)?;
            if location == Location::Node {
                return Err(INVALID);
            }
            set(&|page| {
                if advice == A::CU_MEM_ADVISE_SET_ACCESSED_BY {
                    page.accessed_by.insert(location);
                } else {
                    page.accessed_by.remove(&location);
                }
            })
        }
        _ => Err(INVALID),
    }
}

/// Enqueues discards and prefetches of ranges, each with the location that it is prefetched to. Queries return the location
/// from the call on, as the driver documents.
fn enqueue(ranges: &[(CUdeviceptr, usize, Option<Location>)], stream: CUstream) -> Answer {
    let process = process()?;
    for &(address, bytes, _) in ranges {
        managed(process, address, bytes)?;
    }
    // Discarded memory may have any value, so it keeps the one that it has.
    submit(process, stream, Work::Nothing)?;
    let mut state = process.lock();
    for &(address, bytes, location) in ranges {
        if let Some(location) = location {
            state.set(process, address, bytes, |page| page.prefetched = Some(location))?;
        }
    }
    Ok(())
}

/// Reads the lists of a batch. `locations` are where to prefetch to, for discards alone none, and from which range on.
///
/// # Safety
/// The lists are null or valid for these counts.
unsafe fn batch(
    (addresses, sizes, count): (*mut CUdeviceptr, *mut usize, usize),
    locations: Option<(*mut CUmemLocation, *mut usize, usize)>,
    flags: c_ulonglong,
    stream: CUstream,
) -> Answer {
    let process = process()?;
    // The legacy NULL stream takes no batches.
    let legacy = stream.addr() == 1 || stream.is_null() && !is_per_thread();
    if count == 0 || addresses.is_null() || sizes.is_null() || flags != 0 || legacy {
        return Err(INVALID);
    }
    let mut ranges: Vec<_> = (0..count)
        // SAFETY: not null, and the caller's promise.
        .map(|at| unsafe { (addresses.add(at).read(), sizes.add(at).read(), None) })
        .collect();
    if let Some((locations, indices, location_count)) = locations {
        if location_count == 0 || location_count > count || locations.is_null() || indices.is_null()
        {
            return Err(INVALID);
        }
        let mut last = None;
        for at in 0..location_count {
            // SAFETY: not null, and the caller's promise.
            let (location, first) = unsafe { (locations.add(at).read(), indices.add(at).read()) };
            if first >= count || last.map_or(first != 0, |last| first <= last) {
                return Err(INVALID);
            }
            last = Some(first);
            let location = Location::of(process, location)?;
            ranges.iter_mut().skip(first).for_each(|range| range.2 = Some(location));
        }
    }
    enqueue(&ranges, stream)
}

/// Writes an attribute of a range.
///
/// # Safety
/// `data` is null or valid for writes of `size` bytes.
unsafe fn attribute(
    data: *mut c_void,
    size: usize,
    which: CUmem_range_attribute,
    address: CUdeviceptr,
    bytes: usize,
) -> Answer {
    use CUmem_range_attribute as A;
    let process = process()?;
    let by_number = which == A::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    if data.is_null()
        || bytes == 0
        || size == 0
        || !size.is_multiple_of(4)
        || size != 4 && !by_number
    {
        return Err(INVALID);
    }
    let region = managed(process, address, bytes)?;
    let state = process.lock();
    let advice = state.objects.advice.get(&(region.start, region.id));
    let pages = advice
        .map_or_else(|| vec![PageAdvice::default()], |advice| advice.of(address, bytes as u64));
    // The location of all pages, if it is one.
    let common = |location: fn(&PageAdvice) -> Option<Location>| {
        let first = pages.first().and_then(location);
        first.filter(|_| pages.iter().all(|page| location(page) == first))
    };
    let preferred = || common(|page| page.preferred);
    let prefetched = || common(|page| page.prefetched);
    let number = |location: Option<Location>| location.map_or(NO_DEVICE, Location::device);
    let kind = |location: Option<Location>| {
        let none = CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID;
        location.map_or(none, Location::kind).0.cast_signed()
    };
    let id = |location: Option<Location>| match location {
        Some(Location::Device(device)) => device,
        _ => 0,
    };
    let value = match which {
        A::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY => pages.iter().all(|page| page.read_mostly).into(),
        A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION => number(preferred()),
        A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION => number(prefetched()),
        A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE => kind(preferred()),
        A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE => kind(prefetched()),
        A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID => id(preferred()),
        A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID => id(prefetched()),
        A::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY => {
            let all = pages.iter().map(|page| page.accessed_by.clone());
            let all = all.reduce(|all, these| &all & &these).unwrap_or_default();
            let all = all.into_iter().map(Location::device).chain(core::iter::repeat(NO_DEVICE));
            for (at, device) in all.take(size / 4).enumerate() {
                // SAFETY: not null, and the caller's promise.
                unsafe { put(data.cast::<c_int>().add(at), device) }?;
            }
            return Ok(());
        }
        _ => return Err(INVALID),
    };
    // SAFETY: the caller's promise; the size is that of an int.
    unsafe { put(data.cast::<c_int>(), value) }
}

functions! {
    Device fn cuMemAdvise(
        address: CUdeviceptr, bytes: usize, advice: CUmem_advise, device: CUdevice
    ) { advise(address, bytes, advice, |process| Location::of_device(process, device)) }
    Device fn cuMemAdvise_v2(
        address: CUdeviceptr, bytes: usize, advice: CUmem_advise, location: CUmemLocation
    ) { advise(address, bytes, advice, |process| Location::of(process, location)) }
    Device fn cuMemPrefetchAsync(
        address: CUdeviceptr, bytes: usize, device: CUdevice, stream: CUstream
    ) { enqueue(&[(address, bytes, Some(Location::of_device(process()?, device)?))], stream) }
    Device fn cuMemPrefetchAsync_v2(
        address: CUdeviceptr, bytes: usize, location: CUmemLocation, flags: c_uint,
        stream: CUstream
    ) {
        if flags != 0 {
            return Err(INVALID);
        }
        enqueue(&[(address, bytes, Some(Location::of(process()?, location)?))], stream)
    }
    Device fn cuMemPrefetchBatchAsync(
        addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, locations: *mut CUmemLocation,
        indices: *mut usize, location_count: usize, flags: c_ulonglong, stream: CUstream
    ) { batch((addresses, sizes, count), Some((locations, indices, location_count)), flags, stream) }
    Device fn cuMemDiscardBatchAsync(
        addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: c_ulonglong,
        stream: CUstream
    ) { batch((addresses, sizes, count), None, flags, stream) }
    Device fn cuMemDiscardAndPrefetchBatchAsync(
        addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, locations: *mut CUmemLocation,
        indices: *mut usize, location_count: usize, flags: c_ulonglong, stream: CUstream
    ) { batch((addresses, sizes, count), Some((locations, indices, location_count)), flags, stream) }
    Device fn cuMemRangeGetAttribute(
        data: *mut c_void, size: usize, which: CUmem_range_attribute, address: CUdeviceptr,
        bytes: usize
    ) { attribute(data, size, which, address, bytes) }
    Device fn cuMemRangeGetAttributes(
        data: *mut *mut c_void, sizes: *mut usize, which: *mut CUmem_range_attribute, count: usize,
        address: CUdeviceptr, bytes: usize
    ) {
        if count == 0 || data.is_null() || sizes.is_null() || which.is_null() {
            return Err(INVALID);
        }
        for at in 0..count {
            let (data, size) = (data.add(at).read(), sizes.add(at).read());
            attribute(data, size, which.add(at).read(), address, bytes)?;
        }
        Ok(())
    }
}
