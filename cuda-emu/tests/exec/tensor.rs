//! Asynchronous copies, their barriers, and matrix products.

use crate::device::{Device, shape};

/// The bits of a small whole number as f16.
fn half(value: u32) -> u16 {
    if value == 0 {
        return 0;
    }
    let top = value.ilog2();
    ((15 + top) << 10 | (value << (10 - top) & 0x3ff)) as u16
}

#[test]
fn a_product_of_matrices_that_were_copied_asynchronously() {
    let device = Device::new(1);
    let program = device.load(include_str!("../ptx/tensor.ptx")).expect("tensor.ptx");
    let entry = program.entry("product").expect("product");
    assert_eq!(program.refused(entry), None);
    let (a, b) = (|r: usize, k: usize| (r * 7 + k * 3) % 11, |k: usize, c: usize| (k * 5 + c) % 13);
    let by_rows: Vec<u16> = (0..256).map(|i| half(a(i / 16, i % 16) as u32)).collect();
    let by_columns: Vec<u16> = (0..128).map(|i| half(b(i % 16, i / 16) as u32)).collect();
    let (x, y) = (device.upload(&by_rows), device.upload(&by_columns));
    let out = device.upload(&[0f32; 128]);
    device.launch(&program, "product", shape(1, 32), &[x, y, out]).expect("launch");
    let got: Vec<f32> = device.download(out, 128);
    for (i, &value) in got.iter().enumerate() {
        let want: usize = (0..16).map(|k| a(i / 8, k) * b(k, i % 8)).sum();
        assert_eq!(value, want as f32, "row {} column {}", i / 8, i % 8);
    }
}
