//! Names that are one for the macro and two for rustc, or the other way round: the C++ would compute with another variable.
#![forbid(unsafe_code)]
#![allow(non_upper_case_globals)]
use gpu_phases::{Device, device, kernel};

macro_rules! of_two_variables {
    ($n:ident) => {
        #[kernel]
        fn has_variables_of_a_macro_and_of_its_arguments(x: &[f32], out: &mut [f32]) {
            let n = 4usize;
            let $n = 1_000_000usize;
            assert!(x.len() == n);
            each(out, |i, out| *out = x[i]);
        }
    };
}
of_two_variables!(n);

macro_rules! of_two_labels {
    ($label:tt) => {
        #[device]
        fn has_labels_of_a_macro_and_of_its_arguments() -> u32 {
            let mut n = 0;
            'a: loop {
                $label: loop {
                    break 'a;
                }
                n += 1;
            }
            n
        }
    };
}
of_two_labels!('a);

#[kernel]
fn has_a_raw_name(x: &[f32], out: &mut [f32]) {
    let m = 1_000_000usize;
    let r#m = 4usize;
    assert!(x.len() == m);
    each(out, |i, out| *out = x[i]);
}

#[kernel]
fn has_a_constant_of_a_variables_name(x: &[f32], out: &mut [f32]) {
    let m = 1_000_000usize;
    let len = {
        const m: usize = 4;
        m
    };
    assert!(x.len() == len);
    each(out, |i, out| *out = x[i]);
}

#[kernel]
fn has_a_constant_of_a_parameters_name(m: u32, out: &mut [u32]) {
    const m: u32 = 4;
    each(out, |i, out| *out = m);
}

mod constants {
    pub const m: usize = 4;
}

#[kernel]
fn imports_a_constant_of_a_variables_name(out: &mut [u32]) {
    each(out, |i, out| {
        use constants::m as i;
        *out = i as u32;
    });
}

#[kernel]
fn imports_all_constants(x: &[f32], out: &mut [f32]) {
    let m = 1_000_000usize;
    let len = {
        use constants::*;
        m
    };
    assert!(x.len() == len);
    each(out, |i, out| *out = x[i]);
}

#[kernel]
fn has_a_name_of_the_library(out: &mut [u32]) {
    each(out, |i, out| *out = phases_checks as u32);
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct P {
    x: f32,
}

#[device]
impl P {
    fn phases_double(self) -> f32 {
        2.0 * self.x
    }
}

#[device]
impl std::ops::Add for P {
    type Output = Self;

    #[of_the_program::changes_the_body]
    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x }
    }
}

#[kernel]
fn calls_a_method_of_a_block_in_parentheses(n: usize, out: &mut [f32]) {
    blocks(Threads::<32>, out, |block, out| {
        let mut row = (block).shared_slice::<f32>(n, 1.0);
        out.set(row[0]);
    });
}

#[kernel]
fn calls_a_phase_through_another_reference(out: &mut [f32]) {
    blocks(Threads::<32>, out, |block, out| {
        let mut tile = block.shared([0.0f32; 32]);
        (&block).each(&mut tile, |i, t| *t = i as f32);
        out.set(tile[0]);
    });
}

fn main() {}
