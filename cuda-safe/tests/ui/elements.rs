//! Elements are plain data: what goes up has no padding, what comes down may hold any bits.

use std::num::NonZeroU32;

use cuda_safe::{DeviceBuffer, Stream};

#[derive(Clone, Copy)]
#[repr(C)]
struct Padded {
    small: u8,
    large: u32,
}

fn strings(stream: &Stream) {
    let _ = DeviceBuffer::from_slice(stream, &[String::new()]);
}

fn references(stream: &Stream) {
    let _ = DeviceBuffer::from_slice(stream, &["text"]);
}

fn boxes(buffer: &DeviceBuffer<Box<u8>>, stream: &Stream) {
    let _ = buffer.to_vec(stream);
}

fn padding(stream: &Stream) {
    let _ = DeviceBuffer::from_slice(stream, &[Padded { small: 1, large: 2 }]);
}

fn zero_where_it_is_no_value(stream: &Stream) {
    let _ = DeviceBuffer::<NonZeroU32>::zeroed(stream, 8);
}

fn any_bits_where_they_are_no_value(buffer: &DeviceBuffer<bool>, stream: &Stream) {
    let _ = buffer.to_vec(stream);
}

fn main() {}
