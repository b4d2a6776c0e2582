//! Advice about managed memory, prefetches and discards: queries return what was said about all pages of a range.

mod common;

use core::ffi::c_void;
use std::collections::BTreeSet;

use common::*;
use cuda_sys::*;
use test_support::Rng;

type Attribute = CUmem_range_attribute;
type Advice = CUmem_advise;
type Kind = CUmemLocationType;

const PAGE: u64 = 4096;
const BYTES: u64 = 9 * PAGE;
const DEVICE: (Kind, i32) = (Kind::CU_MEM_LOCATION_TYPE_DEVICE, 0);
/// The number does not count.
const HOST: (Kind, i32) = (Kind::CU_MEM_LOCATION_TYPE_HOST, 77);
const NODE: (Kind, i32) = (Kind::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);

fn location((type_, id): (Kind, i32)) -> CUmemLocation {
    let mut location = CUmemLocation { type_, ..CUmemLocation::default() };
    location.__bindgen_anon_1.id = id;
    location
}

/// The number of a location in the attributes of CUDA 8.
fn number(location: Option<(Kind, i32)>) -> i32 {
    match location {
        None => -2,
        Some(DEVICE) => 0,
        Some(_) => -1,
    }
}

fn advise(address: u64, bytes: usize, advice: Advice, to: (Kind, i32)) -> CUresult {
    call!(cuMemAdvise_v2(address, bytes, advice, location(to)))
}

fn ints<const N: usize>(which: Attribute, address: u64, bytes: usize) -> [i32; N] {
    let mut found = [i32::MIN; N];
    ok!(cuMemRangeGetAttribute((&raw mut found).cast(), 4 * N, which, address, bytes));
    found
}

/// What was said about a page.
#[derive(Clone, Default)]
struct Page {
    read_mostly: bool,
    preferred: Option<(Kind, i32)>,
    prefetched: Option<(Kind, i32)>,
    accessed_by: BTreeSet<i32>,
}

fn managed(bytes: usize) -> u64 {
    let mut address = 0;
    ok!(cuMemAllocManaged(&raw mut address, bytes, 1));
    address
}

/// A range of at least a byte and at most `most`.
fn range(random: &mut Rng, most: u64) -> (u64, u64) {
    let from = random.below(BYTES as usize) as u64;
    (from, 1 + random.below((BYTES - from).min(most) as usize) as u64)
}

#[test]
fn queries_return_what_was_said_about_all_pages() {
    let _context = context();
    let stream = stream(1);
    let mut random = Rng::new(0xad_0155);
    let base = managed(BYTES as usize);
    let mut model = vec![Page::default(); (BYTES / PAGE) as usize];
    for step in 0..2000 {
        let (from, bytes) = range(&mut random, 3 * PAGE);
        let touched = (from / PAGE) as usize..(from + bytes).div_ceil(PAGE) as usize;
        let (address, bytes) = (base + from, bytes as usize);
        let to = [DEVICE, HOST, NODE][random.below(3)];
        let mut change = |code: CUresult, change: &dyn Fn(&mut Page)| {
            assert_eq!(code, SUCCESS, "step {step}");
            model[touched.clone()].iter_mut().for_each(change);
        };
        match random.below(9) {
            0 => change(advise(address, bytes, Advice::CU_MEM_ADVISE_SET_READ_MOSTLY, to), &|p| {
                p.read_mostly = true;
            }),
            1 => {
                change(advise(address, bytes, Advice::CU_MEM_ADVISE_UNSET_READ_MOSTLY, to), &|p| {
                    p.read_mostly = false;
                });
            }
            2 => {
                change(
                    advise(address, bytes, Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION, to),
                    &|p| p.preferred = Some(to),
                );
            }
            3 => {
                change(
                    advise(address, bytes, Advice::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, to),
                    &|p| p.preferred = None,
                );
            }
            // Who accesses memory is called by the number of CUDA 8.
            4 => {
                let by = number(Some(to));
                let advice = Advice::CU_MEM_ADVISE_SET_ACCESSED_BY;
                change(call!(cuMemAdvise(address, bytes, advice, by)), &|p| {
                    p.accessed_by.insert(by);
                });
            }
            5 => {
                let by = number(Some(to));
                let advice = Advice::CU_MEM_ADVISE_UNSET_ACCESSED_BY;
                change(call!(cuMemAdvise(address, bytes, advice, by)), &|p| {
                    p.accessed_by.remove(&by);
                });
            }
            6 => {
                let code = call!(cuMemPrefetchAsync_v2(address, bytes, location(to), 0, stream));
                change(code, &|p| p.prefetched = Some(to));
            }
            7 => {
                // Two halves of the range, the second to the device, by a batch.
                let half = bytes / 2;
                let mut addresses = [address, address + half as u64];
                let mut sizes = [half, bytes - half];
                let (mut places, mut indices) = ([location(to), location(DEVICE)], [0, 1]);
                let (addresses, sizes) = (addresses.as_mut_ptr(), sizes.as_mut_ptr());
                let (places, indices) = (places.as_mut_ptr(), indices.as_mut_ptr());
                let code = if step % 2 == 0 {
                    call!(cuMemPrefetchBatchAsync(
                        addresses, sizes, 2, places, indices, 2, 0, stream
                    ))
                } else {
                    call!(cuMemDiscardAndPrefetchBatchAsync(
                        addresses, sizes, 2, places, indices, 2, 0, stream
                    ))
                };
                assert_eq!(code, SUCCESS, "step {step}");
                let mut to_page = |start: u64, bytes: usize, to| {
                    let (first, end) =
                        ((start - base) / PAGE, (start - base + bytes as u64).div_ceil(PAGE));
                    model[first as usize..end as usize]
                        .iter_mut()
                        .for_each(|p| p.prefetched = Some(to));
                };
                to_page(address, half, to);
                to_page(address + half as u64, bytes - half, DEVICE);
            }
            _ => {
                let (mut one, mut size) = (address, bytes);
                ok!(cuMemDiscardBatchAsync(&raw mut one, &raw mut size, 1, 0, stream));
            }
        }
        let (from, bytes) = range(&mut random, BYTES);
        let asked = &model[(from / PAGE) as usize..(from + bytes).div_ceil(PAGE) as usize];
        let (address, bytes) = (base + from, bytes as usize);
        let all = |of: fn(&Page) -> Option<(Kind, i32)>| {
            of(&asked[0]).filter(|_| asked.iter().all(|p| of(p) == of(&asked[0])))
        };
        let mostly: i32 = asked.iter().all(|page| page.read_mostly).into();
        assert_eq!(
            ints(Attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, bytes),
            [mostly],
            "step {step}"
        );
        for (which, kind, id, found) in
            [(2, 5, 6, all(|page| page.preferred)), (4, 7, 8, all(|page| page.prefetched))]
        {
            assert_eq!(
                ints(CUmem_range_attribute(which), address, bytes),
                [number(found)],
                "step {step}"
            );
            let wanted = found.map_or(0, |(kind, _)| kind.0 as i32);
            assert_eq!(ints(CUmem_range_attribute(kind), address, bytes), [wanted], "step {step}");
            if found.is_some_and(|found| found != HOST) {
                assert_eq!(ints(CUmem_range_attribute(id), address, bytes), [0], "step {step}");
            }
        }
        let mut by = asked
            .iter()
            .map(|page| page.accessed_by.clone())
            .reduce(|a, b| &a & &b)
            .unwrap_or_default();
        let found: [i32; 3] = ints(Attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, address, bytes);
        for device in found {
            assert!(device == -2 && by.is_empty() || by.remove(&device), "step {step}: {found:?}");
        }
    }
    // The memory is the program's as before, and other memory at its address has no advice.
    ok!(cuStreamSynchronize(stream));
    // SAFETY: managed memory that no kernel uses now.
    unsafe { (base as *mut u64).write(5) };
    ok!(cuMemFree_v2(base));
    let other = managed(PAGE as usize);
    assert_eq!(ints(Attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, other, 1), [0]);
    ok!(cuMemFree_v2(other));
}

#[test]
fn several_attributes_are_read_at_once() {
    let _context = context();
    let memory = managed(64);
    assert_eq!(advise(memory, 64, Advice::CU_MEM_ADVISE_SET_READ_MOSTLY, HOST), SUCCESS);
    let (mut mostly, mut by) = (0_i32, [0_i32; 2]);
    let mut data: [*mut c_void; 2] = [(&raw mut mostly).cast(), (&raw mut by).cast()];
    let (mut sizes, mut which) = ([4, 8], [CUmem_range_attribute(1), CUmem_range_attribute(3)]);
    let (data, sizes, which) = (data.as_mut_ptr(), sizes.as_mut_ptr(), which.as_mut_ptr());
    ok!(cuMemRangeGetAttributes(data, sizes, which, 2, memory, 64));
    assert_eq!((mostly, by), (1, [-2, -2]));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttributes(data, sizes, which, 0, memory, 64));
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuMemRangeGetAttributes(data, sizes, std::ptr::null_mut(), 2, memory, 64)
    );
    ok!(cuMemFree_v2(memory));
}

#[test]
fn bad_ranges_places_and_lists_are_refused() {
    let _context = context();
    let (memory, stream) = (managed(64), stream(1));
    let mut plain = 0;
    ok!(cuMemAlloc_v2(&raw mut plain, 64));
    let preferred = Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    for (address, bytes) in
        [(plain, 64), (memory, 65), (memory + 64, 1), (0, 4), (memory, usize::MAX)]
    {
        assert_eq!(advise(address, bytes, preferred, DEVICE), invalid, "{bytes}");
        fails!(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(address, bytes, 0, stream));
        let mut found = 0_i32;
        let found = (&raw mut found).cast();
        fails!(
            CUDA_ERROR_INVALID_VALUE,
            cuMemRangeGetAttribute(found, 4, CUmem_range_attribute(1), address, bytes)
        );
    }
    assert_eq!(advise(memory, 64, CUmem_advise(7), DEVICE), invalid);
    assert_eq!(advise(memory, 64, preferred, (CUmemLocationType(9), 0)), invalid);
    assert_eq!(advise(memory, 64, preferred, (NODE.0, 5)), invalid);
    assert_eq!(advise(memory, 64, Advice::CU_MEM_ADVISE_SET_ACCESSED_BY, NODE), invalid);
    assert_eq!(advise(memory, 64, preferred, (DEVICE.0, 64)), CUresult::CUDA_ERROR_INVALID_DEVICE);
    fails!(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(memory, 64, -2, stream));
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuMemPrefetchAsync_v2(memory, 64, location(DEVICE), 1, stream)
    );
    let mut found = [0_i32; 2];
    let data = (&raw mut found).cast();
    for (which, size) in [(1, 8), (1, 0), (3, 0), (3, 6), (0, 4), (9, 4)] {
        fails!(
            CUDA_ERROR_INVALID_VALUE,
            cuMemRangeGetAttribute(data, size, CUmem_range_attribute(which), memory, 64)
        );
    }
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuMemRangeGetAttribute(data, 4, CUmem_range_attribute(1), memory, 0)
    );
    // The second range is not managed: nothing is said about the first.
    let batch = |mut addresses: [u64; 2],
                 mut indices: [usize; 2],
                 (count, places): (usize, usize),
                 flags,
                 stream| {
        let (mut sizes, mut to) = ([64, 64], [location(DEVICE); 2]);
        call!(cuMemPrefetchBatchAsync(
            addresses.as_mut_ptr(),
            sizes.as_mut_ptr(),
            count,
            to.as_mut_ptr(),
            indices.as_mut_ptr(),
            places,
            flags,
            stream
        ))
    };
    let both = [memory, memory];
    for (addresses, indices, counts, flags, stream) in [
        ([memory, plain], [0, 1], (2, 2), 0, stream),
        (both, [1, 1], (2, 1), 0, stream),
        (both, [0, 0], (2, 2), 0, stream),
        (both, [0, 2], (2, 2), 0, stream),
        (both, [0, 1], (1, 2), 0, stream),
        (both, [0, 1], (2, 0), 0, stream),
        (both, [0, 1], (0, 0), 0, stream),
        (both, [0, 1], (2, 2), 1, stream),
        (both, [0, 1], (2, 2), 0, std::ptr::null_mut()),
        (both, [0, 1], (2, 2), 0, std::ptr::without_provenance_mut(1)),
    ] {
        assert_eq!(
            batch(addresses, indices, counts, flags, stream),
            invalid,
            "{indices:?} {counts:?}"
        );
        assert_eq!(
            ints(Attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 64),
            [-2]
        );
    }
    assert_eq!(batch(both, [0, 1], (2, 2), 0, stream), SUCCESS);
    let (mut address, mut size) = (plain, 64);
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuMemDiscardBatchAsync(&raw mut address, &raw mut size, 1, 0, stream)
    );
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuMemDiscardBatchAsync(std::ptr::null_mut(), &raw mut size, 1, 0, stream)
    );
    ok!(cuMemFree_v2(plain));
    ok!(cuMemFree_v2(memory));
}
