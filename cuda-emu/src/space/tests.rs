//! Tests of the address space, some against a model.

use std::ptr;

use proptest::prelude::*;

use super::{GAP, Kind, POISON, Region, Space};

fn space() -> std::sync::Arc<Space> {
    Space::new().expect("a range of addresses")
}

fn byte(address: u64) -> u8 {
    // SAFETY: the tests ask for addresses in the committed part of a space that is alive.
    unsafe { ptr::with_exposed_provenance::<u8>(address as usize).read() }
}

fn fill(region: &Region, value: u8) {
    let start = ptr::with_exposed_provenance_mut::<u8>(region.start as usize);
    // SAFETY: the region is allocated, and only this test uses it.
    unsafe { start.write_bytes(value, region.bytes() as usize) };
}

#[test]
fn every_byte_of_an_allocation_is_found_and_none_beside_it() {
    let space = space();
    let start = space.allocate(1000, 256, Kind::Device, 0).expect("room");
    let region = space.find(start).expect("just allocated");
    assert_eq!((region.start, region.bytes(), region.kind), (start, 1000, Kind::Device));
    assert!(region.writable && space.is_reserved(start + 5000));
    assert_eq!(space.find(start + 999), Some(region));
    assert_eq!(space.find(start + 1000), None);
    assert_eq!(space.find(start - 1), None);
    assert!(region.holds(start, 1000) && !region.holds(start + 1, 1000));
    assert!(!region.holds(start + 8, u64::MAX));
}

#[test]
fn constants_are_not_writable() {
    let space = space();
    let start = space.allocate(64, 64, Kind::Constant, 0).expect("room");
    assert!(!space.find(start).expect("allocated").writable);
}

#[test]
fn freed_memory_is_poisoned_forgotten_and_not_reused_at_once() {
    let space = space();
    let start = space.allocate(5000, 256, Kind::Pool, 0).expect("room");
    let region = space.find(start).expect("allocated");
    fill(&region, 7);
    let epoch = space.epoch();
    assert_eq!(space.free(start), Some(region));
    assert_ne!(space.epoch(), epoch);
    assert_eq!(space.find(start), None);
    assert_eq!(space.free(start), None);
    assert!((0..5000).all(|at| byte(start + at) == POISON));
    for _ in 0..100 {
        assert_ne!(space.allocate(5000, 256, Kind::Pool, 0).expect("room"), start);
    }
}

#[test]
fn memory_is_reused_in_the_end() {
    let space = space();
    // 2 TiB in all, of a range that is smaller.
    for _ in 0..2048 {
        let start = space.allocate(1 << 30, 256, Kind::Device, 0).expect("reused");
        assert!(space.free(start).is_some());
    }
}

#[test]
fn a_middle_of_a_region_cannot_be_freed() {
    let space = space();
    let start = space.allocate(64, 1, Kind::Device, 0).expect("room");
    assert_eq!(space.free(start + 1), None);
    assert!(space.find(start).is_some());
}

#[test]
fn the_limit_counts_device_memory_only() {
    let space = space();
    space.set_limit(1000);
    let start = space.allocate(600, 1, Kind::Device, 0).expect("room");
    let error = space.allocate(600, 1, Kind::Pool, 0).expect_err("over the limit");
    assert_eq!((error.asked, error.free), (600, 400));
    assert!(space.allocate(600, 1, Kind::Device, 1).is_ok(), "another device");
    assert!(space.allocate(6000, 1, Kind::Pinned, 0).is_ok(), "host memory");
    assert_eq!(space.used(0), 600);
    space.free(start);
    assert_eq!(space.used(0), 0);
    assert!(space.allocate(1000, 1, Kind::Managed, 0).is_ok());
}

#[test]
fn adopted_memory_is_let_go_untouched() {
    let space = space();
    let memory = [3_u8; 100];
    let start = memory.as_ptr().expose_provenance() as u64;
    let region = space.adopt(start, 100, Kind::Registered, 0).expect("nobody's yet");
    assert_eq!(space.find(start + 99), Some(region));
    assert!(space.adopt(start + 50, 100, Kind::Registered, 0).is_err());
    assert!(space.adopt(start, 0, Kind::Registered, 0).is_err());
    assert!(space.adopt(u64::MAX - 3, 100, Kind::Registered, 0).is_err());
    assert!(!space.is_reserved(start));
    assert_eq!(space.free(start), Some(region));
    assert_eq!(memory, [3; 100]);
    assert!(space.adopt(start + 50, 50, Kind::Registered, 0).is_ok());
}

#[test]
fn what_cannot_be_had_is_refused() {
    let space = space();
    assert!(space.allocate(u64::MAX, 1, Kind::Pinned, 0).is_err());
    assert!(space.allocate(1 << 60, 256, Kind::Pinned, 0).is_err());
    assert!(space.allocate(8, u64::MAX, Kind::Pinned, 0).is_err());
    assert!(space.allocate(0, 0, Kind::Device, 0).is_ok(), "one byte");
}

#[test]
fn addresses_are_described() {
    let space = space();
    assert_eq!(space.describe(64), "not near any allocation");
    let start = space.allocate(100, 256, Kind::Device, 0).expect("room");
    let told = |address: u64| space.describe(address);
    assert!(told(start + 5).starts_with("byte 5 of allocation #1 (device memory, 100 bytes"));
    assert!(told(start + 100).starts_with("just past the end of allocation #1"));
    assert!(told(start + 104).starts_with("4 bytes past the end of allocation #1"));
    assert!(told(start - 4).starts_with("4 bytes before the start of allocation #1"));
    space.free(start);
    assert!(told(start + 5).starts_with("byte 5 of freed allocation #1"));
}

#[derive(Debug, Clone)]
enum Step {
    Allocate { bytes: u64, align: u32 },
    Free { which: usize },
    Look { which: usize, offset: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..20_000_u64, 0..14_u32).prop_map(|(bytes, align)| Step::Allocate { bytes, align }),
        1 => (100_000_000..300_000_000_u64, 0..22_u32)
            .prop_map(|(bytes, align)| Step::Allocate { bytes, align }),
        4 => any::<usize>().prop_map(|which| Step::Free { which }),
        4 => (any::<usize>(), -5000..25_000_i64)
            .prop_map(|(which, offset)| Step::Look { which, offset }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The space and a plain list agree, and regions keep their distance.
    #[test]
    fn agrees_with_a_model(steps in proptest::collection::vec(step(), 1..200)) {
        let space = space();
        let mut model: Vec<Region> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate { bytes, align } => {
                    let start = space.allocate(bytes, 1 << align, Kind::Device, 0).expect("room");
                    let region = space.find(start).expect("allocated");
                    prop_assert_eq!(start % (1 << align), 0);
                    prop_assert_eq!((region.start, region.bytes()), (start, bytes.max(1)));
                    for other in &model {
                        prop_assert!(other.id != region.id);
                        prop_assert!(
                            other.end + GAP <= region.start || region.end + GAP <= other.start
                        );
                    }
                    model.push(region);
                }
                Step::Free { which } if !model.is_empty() => {
                    let region = model.swap_remove(which % model.len());
                    prop_assert_eq!(space.free(region.start), Some(region));
                }
                Step::Look { which, offset } if !model.is_empty() => {
                    let address = model[which % model.len()].start.wrapping_add_signed(offset);
                    let wanted = model.iter().find(|region| region.holds(address, 1)).copied();
                    prop_assert_eq!(space.find(address), wanted);
                    prop_assert!(!space.describe(address).is_empty());
                }
                Step::Free { .. } | Step::Look { .. } => {}
            }
        }
        model.sort_by_key(|region| region.start);
        prop_assert_eq!(space.regions(), model.clone());
        let used: u64 = model.iter().map(Region::bytes).sum();
        prop_assert_eq!(space.used(0), used);
    }
}
