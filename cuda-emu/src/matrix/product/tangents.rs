//! Tangents of products, in f64.

use ptx::ir::Type;

use super::super::LANES;
use super::super::layout::Tile;
use super::{ELEMENTS, Product};

/// Returns the tangent of an element, by register, lane, number in the register and units of 16 bits.
type TangentOf<'f> = &'f dyn Fn(usize, usize, usize, usize) -> f64;

impl Product {
    /// Returns whether all elements are floats of 16 bits and more.
    pub(crate) fn is_smooth(&self) -> bool {
        matches!(self.a_ty, Type::F16 | Type::Bf16 | Type::Tf32 | Type::F64)
    }

    /// Computes dD = dA B + A dB + dC.
    ///
    /// `a` and `b` return values, by register, lane, number in the register, and type; `d` takes tangents. The product is
    /// a smooth one.
    pub(crate) fn tangents(
        &self,
        a: impl Fn(usize, usize, usize, Type) -> f64,
        b: impl Fn(usize, usize, usize, Type) -> f64,
        tangents: [TangentOf<'_>; 3],
        mut d: impl FnMut(usize, usize, usize, usize, f64),
    ) {
        let tiles = [self.a, self.b, self.c];
        let mut all = [[0.0; ELEMENTS]; 3];
        let mut constant = true;
        for ((tile, tangent), all) in tiles.iter().zip(tangents).zip(&mut all) {
            each(tile, |register, lane, element, place| {
                let tangent = tangent(register, lane, element, tile.bits as usize / 16);
                constant &= tangent == 0.0;
                if let Some(place) = all.get_mut(place) {
                    *place = tangent;
                }
            });
        }
        let [da, db, mut sums] = all;
        if !constant {
            let (mut x, mut y) = ([0.0; ELEMENTS], [0.0; ELEMENTS]);
            each(&self.a, |register, lane, element, place| {
                if let Some(x) = x.get_mut(place) {
                    *x = a(register, lane, element, self.a_ty);
                }
            });
            each(&self.b, |register, lane, element, place| {
                if let Some(y) = y.get_mut(place) {
                    *y = b(register, lane, element, self.b_ty);
                }
            });
            let product = |tangent: f64, value: f64| {
                if tangent == 0.0 { 0.0 } else { tangent * value }
            };
            sums =
                self.sums_from(&sums, &da, &y, |sum, tangent, value| sum + product(tangent, value));
            sums =
                self.sums_from(&sums, &x, &db, |sum, value, tangent| sum + product(tangent, value));
        }
        let len = self.d.bits as usize / 16;
        each(&self.d, |register, lane, element, place| {
            d(register, lane, element, len, sums.get(place).copied().unwrap_or(0.0));
        });
    }
}

/// Visits the elements of a tile: register, lane, number in the register, and place in row-major order.
fn each(tile: &Tile, mut visit: impl FnMut(usize, usize, usize, usize)) {
    for lane in 0..LANES {
        for register in 0..tile.registers {
            for element in 0..tile.per_register {
                let (row, column) = tile.place(lane, register, element);
                visit(register, lane, element, row * tile.columns + column);
            }
        }
    }
}
