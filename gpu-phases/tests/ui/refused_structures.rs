//! References to values, and methods that are no queries.

use gpu_phases::{Device, device, kernel};

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Point {
    x: f32,
}

#[kernel]
fn reference_to_a_value(p: &Point, out: &mut [f32]) {
    each(out, |_, out| *out = p.x);
}

#[kernel]
fn foreign(p: &String, out: &mut [f32]) {
    each(out, |_, out| *out = p.len() as f32);
}

struct Table(Vec<f32>);

#[device(structure)]
impl Table {
    fn value(&self) -> f32 {
        self.0.len() as f32
    }
}

#[kernel]
fn not_a_structure(table: &Table, out: &mut [f32]) {
    each(out, |_, out| *out = table.value());
}

#[device]
fn of_a_foreign_type(table: &Table) -> f32 {
    table.value()
}

fn main() {}
