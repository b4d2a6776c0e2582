//! Code for vectors of eight lanes, compiled twice: for any processor, and for processors with AVX2 and FMA. Where there
//! is no FMA, a fused product and sum is a slow call.

use crate::structures::exact::Exact;

/// The number of lanes.
pub(crate) const LANES: usize = 8;

/// The way to make a word of comparisons, for which the compiler has no good instructions by itself.
pub(crate) trait Lanes: Copy {
    /// Returns a word whose bit i is whether value i is at most `limit`.
    fn at_most<T: Exact>(self, values: &[T; LANES], limit: T) -> u32;
    /// Returns the indices and values of the lanes whose bits are set, in front. What comes after them is any.
    fn select<T: Exact>(self, values: &[T; LANES], bits: u32) -> ([u32; LANES], [T; LANES]);
}

/// For each word of eight bits, the indices of those that are set, in front.
const SELECTED: [[u8; LANES]; 256] = {
    let mut all = [[0; LANES]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut lane, mut count) = (0, 0);
        while lane < LANES {
            if bits >> lane & 1 != 0 {
                all[bits][count] = lane as u8;
                count += 1;
            }
            lane += 1;
        }
        bits += 1;
    }
    all
};

/// Returns the values of lanes in another order.
#[inline(always)]
fn ordered<T: Exact>(values: &[T; LANES], lanes: [u8; LANES]) -> ([u32; LANES], [T; LANES]) {
    (lanes.map(u32::from), lanes.map(|lane| values[lane as usize % LANES]))
}

/// A computation that [`vectorized`] compiles twice. `run` must be `#[inline(always)]`.
pub(crate) trait Task {
    type Output;
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// The comparisons of any processor.
#[derive(Clone, Copy)]
struct Portable;

impl Lanes for Portable {
    #[inline(always)]
    fn at_most<T: Exact>(self, values: &[T; LANES], limit: T) -> u32 {
        values
            .iter()
            .zip(0..)
            .fold(0, |word, (value, lane)| word | u32::from(*value <= limit) << lane)
    }

    #[inline(always)]
    fn select<T: Exact>(self, values: &[T; LANES], bits: u32) -> ([u32; LANES], [T; LANES]) {
        ordered(values, SELECTED[(bits & 0xff) as usize])
    }
}

/// Runs a task, compiled for processors with AVX2 and FMA if this is one.
#[inline(always)]
pub(crate) fn vectorized<K: Task>(task: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = avx2::Avx2::detected() {
        return avx2.run(task);
    }
    task.run(Portable)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256, __m256d, __m256i, _CMP_LE_OQ, _mm_cvtsi64_si128, _mm256_cmp_pd, _mm256_cmp_ps,
        _mm256_cvtepu8_epi32, _mm256_movemask_pd, _mm256_movemask_ps, _mm256_permutevar8x32_ps,
        _mm256_set1_pd, _mm256_set1_ps,
    };

    use super::{LANES, Lanes, SELECTED, Task, ordered};
    use crate::structures::exact::Exact;

    /// Exists only on processors with AVX2 and FMA.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(());

    impl Avx2 {
        #[inline(always)]
        pub(super) fn detected() -> Option<Self> {
            let has = std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma");
            has.then_some(Self(()))
        }

        #[inline(always)]
        pub(super) fn run<K: Task>(self, task: K) -> K::Output {
            #[target_feature(enable = "avx2,fma")]
            fn compiled<K: Task>(task: K, lanes: Avx2) -> K::Output {
                task.run(lanes)
            }
            // SAFETY: the processor has both features, since `self` exists.
            unsafe { compiled(task, self) }
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        fn at_most<T: Exact>(self, values: &[T; LANES], limit: T) -> u32 {
            #[target_feature(enable = "avx2,fma")]
            fn compiled<T: Exact>(values: &[T; LANES], limit: T) -> u32 {
                if let (Ok(values), Ok(limit)) = (
                    bytemuck::try_cast::<[T; LANES], __m256>(*values),
                    bytemuck::try_cast::<T, f32>(limit),
                ) {
                    let limits = _mm256_set1_ps(limit);
                    return _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(values, limits)) as u32;
                }
                let limits = _mm256_set1_pd(limit.wide());
                let mask = |half: [f64; LANES / 2]| {
                    let values = bytemuck::cast::<[f64; LANES / 2], __m256d>(half);
                    _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_LE_OQ>(values, limits)) as u32
                };
                let [a, b, c, d, e, f, g, h] = values.map(T::wide);
                mask([a, b, c, d]) | mask([e, f, g, h]) << 4
            }
            // SAFETY: the processor has both features, since `self` exists.
            unsafe { compiled(values, limit) }
        }

        #[inline(always)]
        fn select<T: Exact>(self, values: &[T; LANES], bits: u32) -> ([u32; LANES], [T; LANES]) {
            #[target_feature(enable = "avx2,fma")]
            fn compiled<T: Exact>(
                values: &[T; LANES],
                lanes: [u8; LANES],
            ) -> ([u32; LANES], [T; LANES]) {
                let Ok(floats) = bytemuck::try_cast::<[T; LANES], __m256>(*values) else {
                    return ordered(values, lanes);
                };
                let lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(lanes)));
                let selected = _mm256_permutevar8x32_ps(floats, lanes);
                let selected = bytemuck::try_cast::<__m256, [T; LANES]>(selected);
                (bytemuck::cast::<__m256i, [u32; LANES]>(lanes), selected.unwrap_or(*values))
            }
            // SAFETY: the processor has both features, since `self` exists.
            unsafe { compiled(values, SELECTED[(bits & 0xff) as usize]) }
        }
    }
}
