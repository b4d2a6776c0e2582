//! Takes the kernels of the instance for a supertype for those of the instance for its subtype.
//!
//! - row: safe code puts no other kernel behind a method
//! - row: a method of a template launches the instance of its type
//! - targets: `kernels!`
//! - must: not compile E0308 "one type is more general than the other"

#![allow(coherence_leak_check)]

use cuda_safe::{DeviceRepr, kernels};

pub trait Kind: 'static {
    type Element: DeviceRepr;
}
type General = for<'a> fn(&'a u8);
type Special = fn(&'static u8);
impl Kind for General {
    type Element = f32;
}
impl Kind for Special {
    type Element = f64;
}

kernels! {
    #[name = "{}_{T}"]
    pub struct Fill<T: Kind in [for<'a> fn(&'a u8) = "f32", fn(&'static u8) = "f64"]>;
    unsafe in "" {
        safe fn fill(x: &mut [T::Element], n: usize = x.len()) over n;
    }
}

pub fn attack(general: &mut Fill<General>, special: Fill<Special>) {
    *general = special; //~ refused
    let _ = general;
}
