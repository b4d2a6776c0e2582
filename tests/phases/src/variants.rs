//! Variants of enums that a program imports by one another's names.
#![allow(unused_qualifications, reason = "a module has the same names")]

use gpu_phases::{Device, kernel};

use crate::both;

#[derive(Debug, Clone, Copy, PartialEq, Device)]
enum Item {
    Left(u32),
    Right(u32),
    Named { at: u32 },
    Other { at: u32 },
    Empty,
    None,
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Pair<T>(T, T);

mod names {
    pub(super) use super::Item::{
        Empty as None, Left as Right, None as Empty, Other as Named, Right as Left,
    };
}

#[kernel]
fn tuples(out: &mut [u32]) {
    each(out, |i, out| {
        use Item::{Left as Right, Right as Left};
        let item = if i % 2 == 0 { Left(1) } else { names::Right(2) };
        let code = match item {
            Item::Left(at) => 10 + at,
            Item::Right(at) => 20 + at,
            _ => 0,
        };
        let by_name = match Item::Left(i as u32) {
            names::Left(at) => 100 + at,
            Right(at) => 200 + at,
            _ => 0,
        };
        let Pair::<u32>(a, b) = Pair(code, by_name);
        *out = if let Right(..) = item { 1000 } else { 0 } + a + b;
    });
}

#[kernel]
fn units(out: &mut [u32]) {
    each(out, |i, out| {
        use names::Empty;
        let item = if i % 2 == 0 { Empty } else { names::None };
        *out = match item {
            Item::Empty => 1,
            Item::None => 2,
            _ => 3,
        };
    });
}

#[kernel]
fn named(out: &mut [u32]) {
    each(out, |i, out| {
        use Item::{Named as Other, Other as Named};
        let item = Item::Named { at: i as u32 };
        *out = match item {
            Named { at } => at,
            Other { at } => 10 + at,
            _ => 100,
        };
    });
}

#[kernel]
fn named_of_modules(out: &mut [u32]) {
    each(out, |i, out| {
        *out = match (names::Named { at: 1 }) {
            Item::Named { at } => at,
            _ => 100,
        };
    });
}

#[kernel]
fn units_as_patterns(out: &mut [u32]) {
    each(out, |i, out| {
        *out = match Item::None {
            names::None => 1,
            _ => 2,
        };
    });
}

#[test]
fn names_are_those_of_rust() {
    let out = both!(tuples(write vec![0; 2])).unwrap();
    assert_eq!(out, [21 + 200, 1000 + 12 + 201]);
    assert_eq!(both!(units(write vec![0; 2])).unwrap(), [2, 1]);
}

#[test]
fn unknown_names_are_errors() {
    let stream = crate::stream();
    let mut out = cuda_safe::DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
    for error in [
        named::launch(&stream, &mut out),
        named_of_modules::launch(&stream, &mut out),
        units_as_patterns::launch(&stream, &mut out),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("write Type::Variant"), "{error}");
    }
}
