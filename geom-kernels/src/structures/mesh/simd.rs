//! Code that is compiled a second time for processors with AVX2 and FMA, and eight numbers side by side.
//!
//! Both versions have the same bits: each operation is rounded on its own.

use std::ops::{Add, Mul, Neg, Sub};

use super::exact::{Float, lesser};

/// A computation that [`with_simd`] compiles twice. `run` and the hot functions that it calls must be
/// `#[inline(always)]`, so that they are compiled for the processor's features.
pub(super) trait Task {
    /// The result.
    type Output;
    /// Computes it.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs a task, compiled for processors with AVX2 and FMA if this is one: there `mul_add` is an instruction, else a
/// slow call.
#[inline]
pub(super) fn with_simd<T: Task>(task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,bmi1,popcnt")]
        fn run<T: Task>(task: T, simd: avx::Avx) -> T::Output {
            task.run(simd)
        }
        if let Some(simd) = avx::Avx::new() {
            // SAFETY: the processor has these features, or there was no `Avx`.
            return unsafe { run(task, simd) };
        }
    }
    task.run(Portable)
}

/// Operations on eight numbers. A comparison gives all bits or none of each.
pub(super) trait Simd: Copy {
    /// Eight numbers.
    type Numbers: Copy;
    fn load(self, from: &[f32; 8]) -> Self::Numbers;
    fn store(self, from: Self::Numbers) -> [f32; 8];
    /// Returns `a * b + c`, rounded once.
    fn fma(self, a: Self::Numbers, b: Self::Numbers, c: Self::Numbers) -> Self::Numbers;
    /// Returns the square roots.
    fn sqrt(self, a: Self::Numbers) -> Self::Numbers;
    /// Returns the least number, if none is NaN.
    fn least(self, a: Self::Numbers) -> f32;
    /// Returns the sign bits.
    fn signs(self, a: Self::Numbers) -> u32;
    fn add(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    fn sub(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    fn mul(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    /// Returns the lesser numbers; those of `b` if one is NaN or both are equal.
    fn lesser(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    /// Returns the greater numbers; those of `b` if one is NaN or both are equal.
    fn greater(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    fn less(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    fn less_equal(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    fn and(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    fn or(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    fn xor(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    /// Returns the bits of `b` that `a` does not have.
    fn and_not(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
}

/// Eight numbers, as a number: see [`Simd`].
#[derive(Clone, Copy)]
pub(super) struct Eight<S: Simd> {
    simd: S,
    of: S::Numbers,
}

macro_rules! methods {
    ($($name:ident)*) => {$(
        #[inline(always)]
        pub(super) fn $name(self, other: Self) -> Self {
            Self { of: self.simd.$name(self.of, other.of), ..self }
        }
    )*};
}

impl<S: Simd> Eight<S> {
    #[inline(always)]
    pub(super) fn load(simd: S, from: &[f32; 8]) -> Self {
        Self { simd, of: simd.load(from) }
    }

    /// Returns eight times the same number.
    #[inline(always)]
    pub(super) fn splat(simd: S, of: f32) -> Self {
        Self::load(simd, &[of; 8])
    }

    #[inline(always)]
    pub(super) fn store(self) -> [f32; 8] {
        self.simd.store(self.of)
    }

    /// Returns the sign bits: of a comparison, a bit for each number for which it holds.
    #[inline(always)]
    pub(super) fn signs(self) -> u32 {
        self.simd.signs(self.of)
    }

    /// Returns the square roots.
    #[inline(always)]
    pub(super) fn sqrt(self) -> Self {
        Self { of: self.simd.sqrt(self.of), ..self }
    }

    /// Returns the least number, if none is NaN.
    #[inline(always)]
    pub(super) fn least(self) -> f32 {
        self.simd.least(self.of)
    }

    /// Returns the magnitudes.
    #[inline(always)]
    pub(super) fn abs(self) -> Self {
        self.and(Self::splat(self.simd, f32::from_bits(0x7fff_ffff)))
    }

    /// Returns the numbers of one where this comparison holds, else those of the other.
    #[inline(always)]
    pub(super) fn choose(self, one: Self, other: Self) -> Self {
        self.and(one).or(self.and_not(other))
    }

    methods!(lesser greater less less_equal and or and_not);
}

macro_rules! operators {
    ($($trait:ident $name:ident)*) => {$(
        impl<S: Simd> $trait for Eight<S> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self { of: self.simd.$name(self.of, other.of), ..self }
            }
        }
    )*};
}
operators!(Add add Sub sub Mul mul);

impl<S: Simd> Neg for Eight<S> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        let sign = Self::splat(self.simd, -0.0);
        Self { of: self.simd.xor(self.of, sign.of), ..self }
    }
}

impl<S: Simd> Float for Eight<S> {
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        Self { of: self.simd.fma(self.of, b.of, c.of), ..self }
    }
}

/// The operations of any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable;

/// Returns all bits or none.
#[inline(always)]
fn mask(holds: bool) -> f32 {
    f32::from_bits(if holds { u32::MAX } else { 0 })
}

macro_rules! portable {
    ($($name:ident: |$a:ident, $b:ident| $result:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
            let mut all = [0.0; 8];
            for ((to, $a), $b) in all.iter_mut().zip(a).zip(b) {
                *to = $result;
            }
            all
        }
    )*};
}

impl Simd for Portable {
    type Numbers = [f32; 8];

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> [f32; 8] {
        *from
    }

    #[inline(always)]
    fn store(self, from: [f32; 8]) -> [f32; 8] {
        from
    }

    #[inline(always)]
    fn fma(self, a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
        let mut all = c;
        for ((to, a), b) in all.iter_mut().zip(a).zip(b) {
            *to = a.mul_add(b, *to);
        }
        all
    }

    #[inline(always)]
    fn sqrt(self, mut a: [f32; 8]) -> [f32; 8] {
        a.iter_mut().for_each(|x| *x = x.sqrt());
        a
    }

    #[inline(always)]
    fn least(self, a: [f32; 8]) -> f32 {
        a.into_iter().fold(f32::INFINITY, lesser)
    }

    #[inline(always)]
    fn signs(self, a: [f32; 8]) -> u32 {
        a.iter().rev().fold(0, |bits, x| bits << 1 | x.to_bits() >> 31)
    }

    portable! {
        add: |a, b| a + b;
        sub: |a, b| a - b;
        mul: |a, b| a * b;
        lesser: |a, b| if a < b { a } else { b };
        greater: |a, b| if a > b { a } else { b };
        less: |a, b| mask(a < b);
        less_equal: |a, b| mask(a <= b);
        and: |a, b| f32::from_bits(a.to_bits() & b.to_bits());
        or: |a, b| f32::from_bits(a.to_bits() | b.to_bits());
        xor: |a, b| f32::from_bits(a.to_bits() ^ b.to_bits());
        and_not: |a, b| f32::from_bits(!a.to_bits() & b.to_bits());
    }
}

#[cfg(target_arch = "x86_64")]
mod avx {
    use std::arch::x86_64::{
        __m256, _CMP_LE_OQ, _CMP_LT_OQ, _mm_cvtss_f32, _mm_min_ps, _mm_min_ss, _mm_movehdup_ps,
        _mm_movehl_ps, _mm256_add_ps, _mm256_and_ps, _mm256_andnot_ps, _mm256_castps256_ps128,
        _mm256_cmp_ps, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_max_ps, _mm256_min_ps,
        _mm256_movemask_ps, _mm256_mul_ps, _mm256_or_ps, _mm256_sqrt_ps, _mm256_sub_ps,
        _mm256_xor_ps,
    };

    use super::Simd;

    /// The operations of processors with AVX2 and FMA, on which alone there is such a value.
    #[derive(Clone, Copy)]
    pub(super) struct Avx(());

    impl Avx {
        /// Returns the operations if this processor has them.
        #[inline]
        pub(super) fn new() -> Option<Self> {
            let has = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("popcnt");
            has.then_some(Self(()))
        }
    }

    macro_rules! avx {
        ($($name:ident: |$a:ident, $b:ident| $result:expr;)*) => {$(
            #[inline(always)]
            fn $name(self, $a: __m256, $b: __m256) -> __m256 {
                // SAFETY: the processor has AVX2, or there was no `self`.
                unsafe { $result }
            }
        )*};
    }

    impl Simd for Avx {
        type Numbers = __m256;

        #[inline(always)]
        fn load(self, from: &[f32; 8]) -> __m256 {
            bytemuck::cast(*from)
        }

        #[inline(always)]
        fn store(self, from: __m256) -> [f32; 8] {
            bytemuck::cast(from)
        }

        #[inline(always)]
        fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
            // SAFETY: the processor has FMA, or there was no `self`.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }

        #[inline(always)]
        fn sqrt(self, a: __m256) -> __m256 {
            // SAFETY: the processor has AVX2, or there was no `self`.
            unsafe { _mm256_sqrt_ps(a) }
        }

        #[inline(always)]
        fn least(self, a: __m256) -> f32 {
            // SAFETY: the processor has AVX2, or there was no `self`.
            unsafe {
                let four = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
                let two = _mm_min_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)))
            }
        }

        #[inline(always)]
        fn signs(self, a: __m256) -> u32 {
            // SAFETY: the processor has AVX2, or there was no `self`.
            let bits = unsafe { _mm256_movemask_ps(a) };
            bits as u32
        }

        avx! {
            add: |a, b| _mm256_add_ps(a, b);
            sub: |a, b| _mm256_sub_ps(a, b);
            mul: |a, b| _mm256_mul_ps(a, b);
            lesser: |a, b| _mm256_min_ps(a, b);
            greater: |a, b| _mm256_max_ps(a, b);
            less: |a, b| _mm256_cmp_ps::<_CMP_LT_OQ>(a, b);
            less_equal: |a, b| _mm256_cmp_ps::<_CMP_LE_OQ>(a, b);
            and: |a, b| _mm256_and_ps(a, b);
            or: |a, b| _mm256_or_ps(a, b);
            xor: |a, b| _mm256_xor_ps(a, b);
            and_not: |a, b| _mm256_andnot_ps(a, b);
        }
    }
}
