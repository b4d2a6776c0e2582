//! What `#[device(structure)]` and loops over structures refuse.

use gpu_phases::device;

struct Table(Vec<f32>);

#[device(structure)]
impl Table {
    fn clear(&mut self) {
        self.0.clear();
    }
}

struct Other;

#[device(structure)]
impl Other {
    fn new() -> Self {
        Self
    }
}

#[device(structure)]
fn free() {}

#[device(structure)]
impl Drop for Table {
    fn drop(&mut self) {}
}

#[device]
fn of_an_iterator(x: &[f32]) -> f32 {
    let mut sum = 0.0;
    for x in x.chunks(2) {
        sum += x[0];
    }
    sum
}

fn main() {}
