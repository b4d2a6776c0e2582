//! Medians and spreads.

/// The reported statistics of a series of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stats {
    pub(crate) n: usize,
    pub(crate) median: f64,
    pub(crate) p25: f64,
    pub(crate) p75: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Stats {
    /// Of no samples, all figures are NaN.
    pub(crate) fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            n: sorted.len(),
            median: quantile(&sorted, 0.5),
            p25: quantile(&sorted, 0.25),
            p75: quantile(&sorted, 0.75),
            min: quantile(&sorted, 0.0),
            max: quantile(&sorted, 1.0),
        }
    }
}

pub(crate) fn median(samples: &[f64]) -> f64 {
    Stats::of(samples).median
}

/// Between two samples, linearly.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = q * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// Rounded to six significant digits: no measurement here has more.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_samples() {
        let stats = Stats::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!((stats.n, stats.median), (4, 2.5));
        assert_eq!((stats.p25, stats.p75), (1.75, 3.25));
        assert_eq!((stats.min, stats.max), (1.0, 4.0));
    }

    #[test]
    fn one_sample_is_all_of_them() {
        let stats = Stats::of(&[7.0]);
        assert_eq!([stats.median, stats.p25, stats.p75, stats.min, stats.max], [7.0; 5]);
    }

    #[test]
    fn no_sample_is_no_number() {
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn rounding_keeps_six_digits() {
        assert_eq!(rounded(3_309.324_999), 3309.32);
        assert_eq!(rounded(-0.001_234_567_8), -0.001_234_57);
        assert_eq!(rounded(0.0), 0.0);
        assert!(rounded(f64::NAN).is_nan());
    }
}
