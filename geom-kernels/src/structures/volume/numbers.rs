//! The numbers of a value, and operations of each of them.

use crate::structures::volume::exact::{Float, fma};

/// The numbers of a value: one for a scalar, one for each component of a vector.
pub trait Numbers<C: Float>: Copy {
    /// All zeros.
    const ZERO: Self;

    /// Computes each number of the result from those of the operands.
    fn each<const N: usize>(operands: [Self; N], f: impl Fn([C; N]) -> C) -> Self;
}

impl<C: Float, const COUNT: usize> Numbers<C> for [C; COUNT] {
    const ZERO: Self = [C::ZERO; COUNT];

    #[inline(always)]
    fn each<const N: usize>(operands: [Self; N], f: impl Fn([C; N]) -> C) -> Self {
        // Adapters of iterators would be compiled apart, without FMA.
        let mut results = Self::ZERO;
        for i in 0..COUNT {
            let mut numbers = [C::ZERO; N];
            for n in 0..N {
                numbers[n] = operands[n][i];
            }
            results[i] = f(numbers);
        }
        results
    }
}

/// Returns a - b.
#[inline(always)]
pub(super) fn difference<C: Float, N: Numbers<C>>(a: N, b: N) -> N {
    N::each([a, b], |[a, b]| a - b)
}

/// Returns a + t (b - a): rounded twice, and a if a and b are equal.
#[inline(always)]
pub(super) fn lerp<C: Float, N: Numbers<C>>(a: N, b: N, t: C) -> N {
    N::each([a, b], |[a, b]| fma(t, b - a, a))
}

/// The spline between two of four neighbours, as a polynomial a + b t + c t^2 + d t^3.
#[derive(Clone, Copy)]
pub(super) struct Cubic<N>([N; 4]);

impl<N> Cubic<N> {
    /// Returns the spline from the second to the third.
    #[inline(always)]
    pub(super) fn new<C: Float>(v: [N; 4]) -> Self
    where
        N: Numbers<C>,
    {
        let half = C::of(0.5);
        let from = N::each([v[0], v[2]], |[before, after]| half * (after - before));
        let to = N::each([v[1], v[3]], |[before, after]| half * (after - before));
        let between = difference(v[2], v[1]);
        let d = N::each([between, from, to], |[between, from, to]| {
            fma(C::of(-2.0), between, from + to)
        });
        let c = N::each([between, from, d], |[between, from, d]| (between - from) - d);
        Self([v[1], from, c, d])
    }

    #[inline(always)]
    pub(super) fn at<C: Float>(self, t: C) -> N
    where
        N: Numbers<C>,
    {
        N::each(self.0, |[a, b, c, d]| fma(t, fma(t, fma(t, d, c), b), a))
    }

    #[inline(always)]
    pub(super) fn slope<C: Float>(self, t: C) -> N
    where
        N: Numbers<C>,
    {
        N::each(self.0, |[_, b, c, d]| fma(t, fma(t, C::of(3.0) * d, c + c), b))
    }
}
