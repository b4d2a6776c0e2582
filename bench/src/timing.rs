//! Bursts of calls, and how measurements that are compared take turns.

use std::time::{Duration, Instant};

use crate::stats::{Stats, median};
use crate::stop::Stop;

/// One sample of something measured.
pub(crate) type Sample<'a> = &'a mut dyn FnMut() -> Result<f64, Stop>;

/// Nanoseconds per call of `calls` calls in a row.
#[inline]
pub(crate) fn burst<E>(calls: u32, mut call: impl FnMut() -> Result<(), E>) -> Result<f64, Stop>
where
    Stop: From<E>,
{
    let begin = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(calls))
}

/// Nanoseconds per call where only `call` is timed, not what comes before it or what is done with
/// its result.
pub(crate) fn each<T, E>(
    calls: u32,
    mut before: impl FnMut() -> Result<(), E>,
    mut call: impl FnMut() -> Result<T, E>,
    mut after: impl FnMut(T) -> Result<(), E>,
) -> Result<f64, Stop>
where
    Stop: From<E>,
{
    let mut total = Duration::ZERO;
    for _ in 0..calls {
        before()?;
        let begin = Instant::now();
        let result = call()?;
        total += begin.elapsed();
        after(result)?;
    }
    Ok(total.as_secs_f64() * 1e9 / f64::from(calls))
}

/// Nanoseconds of one call.
#[inline]
pub(crate) fn once<T>(call: impl FnOnce() -> Result<T, Stop>) -> Result<(f64, T), Stop> {
    let begin = Instant::now();
    let value = call()?;
    Ok((begin.elapsed().as_secs_f64() * 1e9, value))
}

/// `rounds` samples of each, taken in turns after one to warm up. The order changes from round to
/// round, so that each stands at each place and behind each other one equally often.
pub(crate) fn interleave<const N: usize>(
    rounds: usize,
    mut runs: [Sample<'_>; N],
) -> Result<[Vec<f64>; N], Stop> {
    for run in &mut runs {
        run()?;
    }
    let mut samples = [const { Vec::new() }; N];
    for round in 0..rounds {
        for index in order::<N>(round) {
            samples[index].push(runs[index]()?);
        }
    }
    Ok(samples)
}

/// The order of one round: rotated by one each round, backwards every other N rounds.
fn order<const N: usize>(round: usize) -> [usize; N] {
    let backwards = (round / N) % 2 == 1;
    std::array::from_fn(|place| {
        let place = if backwards { N - 1 - place } else { place };
        (place + round) % N
    })
}

/// Our calls, the raw calls, and the raw calls once more: the difference of the last two is the error of the method.
#[derive(Debug)]
pub(crate) struct Paired {
    pub(crate) ours: Vec<f64>,
    pub(crate) raw: Vec<f64>,
    pub(crate) again: Vec<f64>,
}

impl Paired {
    pub(crate) fn measure(
        rounds: usize,
        ours: Sample<'_>,
        raw: &dyn Fn() -> Result<f64, Stop>,
    ) -> Result<Self, Stop> {
        let [ours, raw, again] = interleave(rounds, [ours, &mut || raw(), &mut || raw()])?;
        Ok(Self { ours, raw, again })
    }

    /// Ours less raw, round by round.
    pub(crate) fn difference(&self) -> Stats {
        Stats::of(&pairwise(&self.ours, &self.raw, |ours, raw| ours - raw))
    }

    /// Raw less raw: the median that two equal things differ by.
    pub(crate) fn aa_difference(&self) -> f64 {
        median(&pairwise(&self.again, &self.raw, |again, raw| again - raw))
    }

    /// Ours to raw, round by round.
    pub(crate) fn ratio(&self) -> Stats {
        Stats::of(&pairwise(&self.ours, &self.raw, |ours, raw| ours / raw))
    }

    /// Raw to raw.
    pub(crate) fn aa_ratio(&self) -> f64 {
        median(&pairwise(&self.again, &self.raw, |again, raw| again / raw))
    }
}

/// Two series of one measurement, combined round by round.
pub(crate) fn pairwise(a: &[f64], b: &[f64], combine: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| combine(*a, *b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn six_rounds_of_three_are_all_orders() {
        let mut orders: Vec<_> = (0..6).map(order::<3>).collect();
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn every_place_is_everybodys_equally_often() {
        let mut seen = [[0; 4]; 4];
        for round in 0..16 {
            for (place, index) in order::<4>(round).into_iter().enumerate() {
                seen[index][place] += 1;
            }
        }
        assert_eq!(seen, [[4; 4]; 4]);
    }

    #[test]
    fn samples_stay_with_their_measurement_and_the_warm_up_is_left_out() -> Result<(), String> {
        let calls = RefCell::new([0.0; 2]);
        let next = |index: usize| {
            calls.borrow_mut()[index] += 1.0;
            Ok(calls.borrow()[index] + 100.0 * index as f64)
        };
        let [a, b] =
            interleave(3, [&mut || next(0), &mut || next(1)]).map_err(|stop| stop.to_string())?;
        assert_eq!(a, [2.0, 3.0, 4.0]);
        assert_eq!(b, [102.0, 103.0, 104.0]);
        Ok(())
    }

    #[test]
    fn differences_are_taken_within_rounds() {
        // The machine got slower by 1000 in the second half: the difference stays 10.
        let paired = Paired {
            ours: vec![110.0, 110.0, 1110.0, 1110.0],
            raw: vec![100.0, 100.0, 1100.0, 1100.0],
            again: vec![101.0, 101.0, 1101.0, 1101.0],
        };
        assert_eq!(paired.difference().median, 10.0);
        assert_eq!(paired.aa_difference(), 1.0);
    }
}
