use gpu_phases::{Device, device};

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
