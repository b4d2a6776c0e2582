use gpu_phases::{Device, device, kernel};

#[derive(Debug, Clone, Copy, Device)]
#[repr(C)]
struct Point {
    x: f32,
}

#[device]
fn prints_a_structure(point: Point) {
    println!("{}", point);
}

#[device]
fn prints_an_array(a: [f32; 2]) {
    println!("{a}");
}

#[device]
fn prints_a_value_twice_and_one_never(n: u32) {
    println!("{0} {0}", n, 1);
}

#[device]
fn maps_an_array(a: [f32; 2]) -> [f32; 2] {
    a.map(|v| v + 1.0)
}

#[device]
fn asks_a_number(n: u32) -> Option<u32> {
    Some(n? + 1)
}

#[kernel(references)]
fn of_references(out: &mut [u32]) {
    each(out, |i, out| *out = 0);
}

#[device]
fn returns_no_option(n: Option<u32>) -> u32 {
    n? + 1
}
