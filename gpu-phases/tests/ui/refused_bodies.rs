use gpu_phases::{device, each, kernel};

macro_rules! refused {
    ($($name:ident $body:block)*) => {
        $(
            #[kernel]
            fn $name(x: &[f32], n: u32, out: &mut [f32]) {
                each(out, |i, out| $body);
            }
        )*
    };
}

refused! {
    has_unsafe { unsafe { *out = *x.as_ptr() } }
    has_a_static { static ZERO: f32 = 0.0; *out = ZERO; }
    has_a_function { fn zero() -> f32 { 0.0 } *out = zero(); }
    has_a_structure { struct S; *out = 0.0; }
    has_an_import { use std::mem::swap; *out = 0.0; }
    has_a_string { let s = "text"; *out = 0.0; }
    has_a_byte_string { let s = b"text"; *out = 0.0; }
    has_a_char { let c = 'c'; *out = 0.0; }
    has_a_wide_integer { let wide = 1u128; *out = wide as f32; }
    casts_to_a_wide_integer { *out = (n as u128) as f32; }
    has_a_vec { let v = vec![1.0]; *out = v[0]; }
    has_a_foreign_macro { *out = std::hint::must_use!(1.0); }
    has_a_question_mark { *out = x.first()?; }
    has_await { *out = x.await; }
    has_async { async { 0.0 }; }
    has_a_const_block { const { 1.0 }; }
    starts_a_second_loop { each(out, |i, out| *out = 0.0); }
    has_a_slice_pattern { if let [first, ..] = x { *out = *first; } }
    takes_a_part_by_value { *out = x[1..3].len() as f32; }
    takes_a_closed_part { let part = &x[1..=3]; *out = part[0]; }
    has_a_reference_to_an_option { *out = Some(x[i]).as_ref().map_or(0.0, |v| *v); }
    has_a_result { let r = Some(x[i]).ok_or(1); *out = 0.0; }
    copies_an_option { *out = Some(&x[i]).copied().unwrap_or(0.0); }
    has_a_default { *out = Some(x[i]).unwrap_or_default(); }
    maps_an_option_or_else { *out = Some(x[i]).map_or_else(|| 0.0, |v| v); }
    asks_whether_none { *out = Some(x[i]).is_none_or(|v| v > 0.0) as u8 as f32; }
    has_a_question_mark_in_a_closure { let f = |v: Option<f32>| Some(v? + 1.0); *out = 0.0; }
    collects { *out = x.iter().map(|x| x * 2.0).sum(); }
    folds { *out = x.iter().fold(0.0, |a, b| a + b); }
    has_an_inverse { *out = x[i].asinh(); }
    has_a_base { *out = x[i].log(2.5); }
    has_an_area { *out = x[i].acosh(); }
    has_generic_arguments { *out = x[i].max::<f32>(1.0); }
    leaves_inside_of_an_expression { *out = 1.0 + return; }
    calls_an_expression { *out = (|x| x + 1.0)(x[i]); }
    has_a_raw_reference { let p = &raw const x[i]; *out = 0.0; }
    changes_its_place { let mut k = 0; let mut a = [0.0f32; 4]; a[k] += { k += 1; 1.0 }; *out = a[0]; }
    has_an_unknown_macro { dbg!(n); }
    formats { let s = format!("{n}"); }
    has_an_attribute { #[cfg(test)] let y = 1.0; *out = 0.0; }
    has_an_attribute_in_a_macro { assert!({ #[cfg(test)] let y = 1.0; true }); }
}

#[device]
fn calls_itself(n: u32) -> u32 {
    if n == 0 { 0 } else { calls_itself(n - 1) }
}

#[device]
unsafe fn is_unsafe(n: u32) -> u32 {
    n
}

#[device]
async fn is_async(n: u32) -> u32 {
    n
}

#[device]
extern "C" fn is_extern(n: u32) -> u32 {
    n
}

#[device]
const N: u32 = 1;

#[kernel]
fn renames_an_output(a: &mut [u32], b: &mut [u32]) {
    let c = a;
    let a = b;
    each(a, |i, out| *out = c[i]);
}

#[kernel]
fn names_a_parameter_as_a_constant(COUNT: usize, out: &mut [u32]) {
    each(out, |i, out| *out = COUNT as u32);
}

#[kernel]
fn names_a_variable_as_a_constant(x: &[u32], out: &mut [u32]) {
    each(out, |i, out| {
        let MOST = x[i];
        *out = MOST;
    });
}

fn main() {}
