//! Structures of libraries: a sorted table, with a lookup, a search and an iterator.

use std::ops::Range;

use cuda_safe::kernel::{DeviceStructure, Memory, Place, Reaches, StructureAt, UseOf};
use cuda_safe::{DeviceBuffer, Result};
use gpu_phases::replay::{Keep, Recorder};
use gpu_phases::structure::{Items, Structure};
use gpu_phases::text::{Header, Text};
use gpu_phases::{Device, device, kernel};

use crate::{alone, check::same, stream};

/// The table on the CPU.
pub(crate) struct Table {
    values: Vec<f32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Device)]
#[repr(C)]
pub(crate) struct Found {
    index: u32,
    value: f32,
}

/// The indices of a range.
pub(crate) struct Indices(Range<u32>);

impl Iterator for Indices {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0.next()
    }
}

// SAFETY: `indices` in the C++ of the table has these functions.
unsafe impl Items for Indices {}

const HEADERS: &[Header] =
    &[("table/types.cuh", TYPES), ("table.cuh", "#include <table/types.cuh>\n")];

const TYPES: &str = "#pragma once
struct table_raw { const float* values; unsigned count; };
";

const FUNCTIONS: &str = "
struct table { table_raw raw; };
struct indices {
    unsigned at, end;
    PHASES_FN bool next() { return ++at < end; }
    PHASES_FN u32 item() const { return u32(at); }
};
template <class C> PHASES_FN f32 m_value(C, line, const table& t, u32 i) {
    return f32(i.v < t.raw.count ? t.raw.values[i.v] : 0.0f);
}
template <class C> PHASES_FN option<FOUND> m_first_above(C, line, const table& t, f32 x) {
    for (unsigned i = 0; i < t.raw.count; ++i) {
        const float value = t.raw.values[i];
        if (value > x.v) return option<FOUND>(true, FOUND{u32(i), f32(value)});
    }
    return option<FOUND>();
}
template <class C> PHASES_FN indices m_between(C, line, const table& t, u32 from, u32 to) {
    return indices{from.v - 1, to.v < t.raw.count ? to.v : t.raw.count};
}
";

// SAFETY: the functions are those of the methods below.
unsafe impl Structure for Table {
    const SIZE: usize = 16;
    const ALIGN: usize = 8;

    fn rust_name() -> String {
        "Table".to_owned()
    }

    fn cpp_name() -> String {
        "table".to_owned()
    }

    fn write(text: &mut Text) {
        text.header("table.cuh", HEADERS);
        let found = text.ty::<Found>();
        text.define("Table", |_| FUNCTIONS.replace("FOUND", &found));
    }
}

#[device(structure)]
impl Table {
    pub(crate) fn value(&self, i: u32) -> f32 {
        self.values.get(i as usize).copied().unwrap_or(0.0)
    }

    pub(crate) fn first_above(&self, x: f32) -> Option<Found> {
        let index = self.values.iter().position(|value| *value > x)?;
        Some(Found { index: index as u32, value: self.values[index] })
    }

    pub(crate) fn between(&self, from: u32, to: u32) -> Indices {
        Indices(from..to.min(self.values.len() as u32))
    }
}

/// The table on a device.
struct OnDevice(DeviceBuffer<f32>);

// SAFETY: queries read the buffer.
unsafe impl Reaches for OnDevice {
    fn reaches(&self, visitor: UseOf<'_>) -> Result<()> {
        let view = self.0.as_slice();
        visitor(view.allocation(), view.byte_range(), cuda_safe::Access::Read)
    }
}

// SAFETY: the address and the length of the buffer.
unsafe impl DeviceStructure<Table> for OnDevice {
    fn write(&self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.0.device_ptr().to_ne_bytes());
        bytes[8..12].copy_from_slice(&(self.0.len() as u32).to_ne_bytes());
    }
}

fn table(n: usize) -> Table {
    Table { values: (0..n).map(|i| i as f32 * 0.5 + (i as f32).sin() * 0.2).collect() }
}

#[device]
fn sum_between(table: &Table, from: u32, to: u32) -> f32 {
    let mut total = 0.0;
    for at in table.between(from, to) {
        total += table.value(at);
    }
    total
}

#[device]
fn halves(table: &Table, from: u32, to: u32) -> (f32, f32) {
    let middle = from + (to - from) / 2;
    (sum_between(table, from, middle), sum_between(table, middle, to))
}

#[kernel]
fn pieces(table: &Table, n: u32, out: &mut [f32]) {
    each(out, |i, out| {
        let scaled = |at: u32| table.value(at) * 0.5;
        let (first, second) = halves(table, i as u32, i as u32 + n);
        *out = first - second + scaled(i as u32);
    });
}

#[test]
fn functions_and_closures_take_structures() {
    let _alone = alone();
    let stream = stream();
    let table = table(100);
    let on_device = OnDevice(DeviceBuffer::from_slice(&stream, &table.values).unwrap());
    let mut out = vec![0.0; 120];
    pieces::cpu(&table, 9, &mut out).unwrap();
    let value = |i: usize| table.values.get(i).copied().unwrap_or(0.0);
    for (i, out) in out.iter().enumerate() {
        let sum = |from: usize, to: usize| (from..to.min(100)).fold(0.0, |sum, at| sum + value(at));
        assert_eq!(*out, sum(i, i + 4) - sum(i + 4, i + 9) + value(i) * 0.5, "{i}");
    }
    let mut device = DeviceBuffer::<f32>::zeroed(&stream, out.len()).unwrap();
    pieces::launch(&stream, &on_device, 9, &mut device).unwrap();
    same("pieces", &out, &device.to_vec(&stream).unwrap());
}

#[kernel]
fn query(table: &Table, x: &[f32], found: &mut [f32], sums: &mut [f32]) {
    assert!(x.len() == found.len() && sums.len() == found.len());
    each((found, sums), |i, (found, sum)| {
        let above = match table.first_above(x[i]) {
            Some(hit) => hit.value - x[i] + hit.index as f32,
            None => -1.0,
        };
        *found = above;
        let mut total = 0.0;
        'all: for at in table.between(i as u32, i as u32 + 40) {
            if at % 3 == 0 {
                continue;
            }
            for k in 0..4 {
                if total > 300.0 {
                    break 'all;
                }
                total += table.value(at + k);
            }
        }
        *sum = total;
    });
}

/// What the kernel computes, from the values.
fn expected(table: &Table, x: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let value = |i: usize| table.values.get(i).copied().unwrap_or(0.0);
    let found = x.iter().map(|x| {
        let hit = table.values.iter().enumerate().find(|(_, value)| *value > x);
        hit.map_or(-1.0, |(index, value)| value - x + index as f32)
    });
    let sums = (0..x.len()).map(|i| {
        let mut total = 0.0;
        'all: for at in (i..(i + 40).min(table.values.len())).filter(|at| at % 3 != 0) {
            for k in 0..4 {
                if total > 300.0 {
                    break 'all;
                }
                total += value(at + k);
            }
        }
        total
    });
    (found.collect(), sums.collect())
}

#[test]
fn a_structure_answers_alike_on_both_targets() {
    let _alone = alone();
    let stream = stream();
    for n in [0, 1, 33, 300] {
        let table = table(n);
        let on_device = OnDevice(DeviceBuffer::from_slice(&stream, &table.values).unwrap());
        let x: Vec<f32> = (0..n + 20).map(|i| i as f32 * 0.4 - 2.0).collect();
        let wanted = expected(&table, &x);
        let (mut found, mut sums) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        query::cpu(&table, &x, &mut found, &mut sums).unwrap();
        assert_eq!((&found, &sums), (&wanted.0, &wanted.1));

        let points = DeviceBuffer::from_slice(&stream, &x).unwrap();
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, x.len()).unwrap();
        let mut totals = DeviceBuffer::<f32>::zeroed(&stream, x.len()).unwrap();
        query::launch(&stream, &on_device, &points, &mut out, &mut totals).unwrap();
        same("found", &found, &out.to_vec(&stream).unwrap());
        same("sums", &sums, &totals.to_vec(&stream).unwrap());
    }
}

#[test]
fn a_place_takes_a_structure_of_its_own_memory() {
    let _alone = alone();
    let stream = stream();
    let table = table(50);
    let on_device = OnDevice(DeviceBuffer::from_slice(&stream, &table.values).unwrap());
    let x: Vec<f32> = (0..40).map(|i| i as f32).collect();
    let mut results = Vec::new();
    for place in [Place::Cpu, Place::Gpu(&stream)] {
        let (own, other) = match place {
            Place::Cpu => (StructureAt::Host(&table), StructureAt::Device(&on_device)),
            Place::Gpu(_) => (StructureAt::Device(&on_device), StructureAt::Host(&table)),
        };
        let points = Memory::from_slice(place, &x).unwrap();
        let mut found = Memory::<f32>::zeroed(place, x.len()).unwrap();
        let mut sums = Memory::<f32>::zeroed(place, x.len()).unwrap();
        let error = query::launch(place, other, &points, &mut found, &mut sums).unwrap_err();
        assert!(error.to_string().contains("the structure is on"), "{error}");
        assert!(error.to_string().contains("build it"), "{error}");
        query::launch(place, own, &points, &mut found, &mut sums).unwrap();
        results.push((found.to_vec(place).unwrap(), sums.to_vec(place).unwrap()));
    }
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], expected(&table, &x));
}

/// Writes to a table's memory wait for the kernels that query it, and those wait for writes.
#[test]
fn uses_of_a_structure_are_ordered() {
    let _alone = alone();
    let (stream, other) = (stream(), stream());
    let (old, new) = (table(64), Table { values: vec![7.0; 64] });
    let mut on_device = OnDevice(DeviceBuffer::from_slice(&stream, &old.values).unwrap());
    let x = vec![3.0f32; 40];
    let points = DeviceBuffer::from_slice(&stream, &x).unwrap();
    let mut found = DeviceBuffer::<f32>::zeroed(&stream, x.len()).unwrap();
    let mut sums = DeviceBuffer::<f32>::zeroed(&stream, x.len()).unwrap();
    for (stream, table) in [(&stream, &old), (&other, &new), (&stream, &old)] {
        on_device.0.upload(&other, &table.values).unwrap();
        query::launch(stream, &on_device, &points, &mut found, &mut sums).unwrap();
        assert_eq!(found.to_vec(&other).unwrap(), expected(table, &x).0);
    }
}

#[test]
fn a_launch_with_a_structure_is_not_saved() {
    let recorder = Recorder::new(Keep::All);
    let mut out = vec![0.0; 4];
    let error = pieces::launch(&recorder, &table(9), 3, &mut out).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `pieces`: `table` is a structure, so the launch can't be saved"
    );
    assert!(recorder.take().is_empty());
}
