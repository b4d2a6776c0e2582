//! Sums of products without any rounding.
//!
//! J. Shewchuk, Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates, 1997.

use crate::real::{two_product, two_sum};

/// An exact sum: f64 of growing magnitude that don't overlap; none of them is 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expansion(Vec<f64>);

impl Expansion {
    /// Adds a number.
    fn add(&mut self, number: f64) {
        let mut carry = number;
        let mut kept = 0;
        for at in 0..self.0.len() {
            let (sum, lack) = two_sum(carry, self.0[at]);
            carry = sum;
            if lack != 0.0 {
                self.0[kept] = lack;
                kept += 1;
            }
        }
        self.0.truncate(kept);
        if carry != 0.0 {
            self.0.push(carry);
        }
    }

    /// Adds the product of two f64.
    pub(crate) fn add_product(&mut self, a: f64, b: f64) {
        let (product, lack) = two_product(a, b);
        self.add(lack);
        self.add(product);
    }

    /// Adds s · det(u, v, w). Exact for s and coordinates that were f32: two of them multiply exactly.
    pub(crate) fn add_determinant(&mut self, s: f64, u: [f64; 3], v: [f64; 3], w: [f64; 3]) {
        for (i, x) in u.into_iter().enumerate() {
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            self.add_product(x * v[j], w[k] * s);
            self.add_product(x * -v[k], w[j] * s);
        }
    }

    /// The sum rounded, with at most a few units in the last place of error; its sign is exact.
    pub(crate) fn round(&self) -> f64 {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Expansion;

    #[test]
    fn sums_are_exact() {
        let mut sum = Expansion::default();
        for (a, b) in [(1e30, 1e30), (3.0, 7.0), (-1e30, 1e30), (1e-30, 1e-30), (-3.0, 7.0)] {
            sum.add_product(a, b);
        }
        assert_eq!(sum.round(), 1e-30 * 1e-30);
        sum.add_product(-1e-30, 1e-30);
        assert_eq!(sum.round(), 0.0);
        assert!(sum.0.is_empty());
    }

    #[test]
    fn determinants_of_small_integers_are_those_of_i128() {
        let mut rng = crate::rng::Rng::new(3);
        for _ in 0..1000 {
            let m: [[i64; 3]; 3] =
                std::array::from_fn(|_| std::array::from_fn(|_| rng.next() as i64 >> 40));
            let [a, b, c] = m.map(|row| row.map(i128::from));
            let wanted = a[0] * (b[1] * c[2] - b[2] * c[1])
                + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0]);
            let [a, b, c] = m.map(|row| row.map(|x| x as f64));
            let mut sum = Expansion::default();
            sum.add_determinant(3.0, a, b, c);
            sum.add_determinant(-2.0, a, b, c);
            let exact: i128 = sum.0.iter().map(|part| *part as i128).sum();
            assert_eq!(exact, wanted);
        }
    }
}
