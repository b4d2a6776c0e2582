//! How much of the work each device gets: as much as it does in the same time.

use std::ops::Range;

/// The share of each device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shares {
    /// Fractions of all.
    shares: Vec<f64>,
    /// The parts that were cut last.
    cut: Vec<Range<usize>>,
    /// The most items that were cut so far.
    most: usize,
}

impl Shares {
    /// The same share for each of the devices.
    pub(crate) fn equal(devices: usize) -> Self {
        Self { shares: vec![1.0 / devices.max(1) as f64; devices], cut: Vec::new(), most: 0 }
    }

    /// Moves each share halfway to the one with which all devices would have ended together: `times` are those of the parts
    /// that were cut last. Parts of few items, compared with those before, teach nothing, since their times are of other
    /// things than the items.
    pub(crate) fn learn(&mut self, times: &[f32]) {
        let is_time = |time: &f32| *time > 0.0 && time.is_finite();
        let lengths: Vec<_> = self.cut.iter().map(Range::len).collect();
        if times.len() != lengths.len()
            || !times.iter().all(is_time)
            || lengths.contains(&0)
            || lengths.iter().sum::<usize>() < self.most / 2
        {
            return;
        }
        let speeds: Vec<_> = lengths
            .iter()
            .zip(times)
            .map(|(length, time)| *length as f64 / f64::from(*time))
            .collect();
        let all: f64 = speeds.iter().sum();
        for (share, speed) in self.shares.iter_mut().zip(speeds) {
            *share = 0.5 * (*share + speed / all);
        }
    }

    /// Cuts `n` items into a part for each device.
    pub(crate) fn cut(&mut self, n: usize) -> &[Range<usize>] {
        let (mut begin, mut sum) = (0, 0.0);
        let last = self.shares.len().saturating_sub(1);
        let parts = self.shares.iter().enumerate().map(|(index, share)| {
            sum += share;
            let end = (n as f64 * sum).round() as usize;
            let part = begin..if index == last { n } else { end.clamp(begin, n) };
            begin = part.end;
            part
        });
        self.cut = parts.collect();
        self.most = self.most.max(n);
        &self.cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_items_once() {
        let uneven = Shares { shares: vec![0.5, 0.1, 0.3, 0.1], ..Shares::equal(4) };
        for mut shares in [Shares::equal(1), Shares::equal(3), Shares::equal(256), uneven] {
            for n in [0, 1, 2, 31, 32, 33, 1000, 16_000_000] {
                let parts = shares.cut(n).to_vec();
                assert_eq!(parts.len(), shares.shares.len());
                assert_eq!((parts[0].start, parts[parts.len() - 1].end), (0, n));
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                for (part, share) in parts.iter().zip(&shares.shares) {
                    assert!((part.len() as f64 - n as f64 * share).abs() <= 1.0, "{part:?} of {n}");
                }
            }
        }
        assert_eq!(Shares::equal(0).cut(10), []);
    }

    #[test]
    fn devices_end_together_after_some_calls() {
        // What a device takes for an item, and for the way there and back.
        let devices = [(1e-5, 0.0), (2e-5, 0.1), (1e-5, 0.4)];
        let times = |parts: &[Range<usize>]| -> Vec<f32> {
            let each = parts.iter().zip(devices);
            each.map(|(part, (item, way))| (part.len() as f64 * item + way) as f32).collect()
        };
        let mut shares = Shares::equal(devices.len());
        for _ in 0..20 {
            let times = times(shares.cut(1_000_000));
            shares.learn(&times);
            // A call of few items changes nothing.
            let (learned, parts) = (shares.shares.clone(), shares.cut(1000).len());
            shares.learn(&vec![1.0; parts]);
            assert_eq!(shares.shares, learned);
        }
        let ends = times(shares.cut(1_000_000));
        let [least, most] = [f32::min, f32::max].map(|of| ends.iter().copied().reduce(of).unwrap());
        assert!(most - least < 1e-3 * most, "{ends:?}");
        assert!((shares.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_learned_from_no_time() {
        let mut shares = Shares::equal(2);
        shares.learn(&[1.0, 2.0]);
        shares.cut(1000);
        let before = shares.clone();
        for times in
            [&[0.0, 1.0][..], &[1.0, -1.0], &[1.0, f32::NAN], &[1.0, f32::INFINITY], &[1.0], &[]]
        {
            shares.learn(times);
            assert_eq!(shares, before, "{times:?}");
        }
        shares.cut(1);
        shares.learn(&[1.0, 2.0]);
        assert_eq!(shares.shares, before.shares);
    }
}
