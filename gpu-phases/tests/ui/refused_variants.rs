use gpu_phases::{Device, kernel};

#[derive(Clone, Copy, Device)]
enum Item {
    Left { at: u32 },
    Right { at: u32 },
}

#[allow(non_snake_case)]
mod Swapped {
    pub(super) use super::Item::{Left as Right, Right as Left};
}

#[kernel]
fn makes_a_variant_of_a_module(out: &mut [u32]) {
    each(out, |i, out| {
        *out = match (Swapped::Left { at: 1 }) {
            Item::Left { at } => at,
            Item::Right { at } => at + 10,
        };
    });
}

#[kernel]
fn matches_a_variant_of_a_module(out: &mut [u32]) {
    each(out, |i, out| {
        let Swapped::Left { at } = (Item::Right { at: 1 }) else { return };
        *out = at;
    });
}

fn main() {}
