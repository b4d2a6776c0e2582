//! What grids should find: by the arithmetic that is documented, and by more exact arithmetic.

use std::collections::HashMap;
use std::fmt;

use super::number::Number;
use test_harness::{Failure, TestResult, ensure};

/// Space as a grid sees it: in periodic directions the box's lower end, its extent, and the
/// reciprocal of that.
#[derive(Clone, Copy)]
pub(super) struct Space<T> {
    periods: [Option<(T, T, T)>; 3],
}

impl<T: Number> Space<T> {
    pub(super) fn open() -> Self {
        Self { periods: [None; 3] }
    }

    pub(super) fn periodic(axes: [bool; 3], [low, high]: [[T; 3]; 2]) -> Self {
        let periods = std::array::from_fn(|axis| {
            let extent = high[axis].f64() - low[axis].f64();
            axes[axis].then(|| (low[axis], T::of(extent), T::of(1.0 / extent)))
        });
        Self { periods }
    }

    pub(super) fn is_open(&self) -> bool {
        self.periods.iter().all(Option::is_none)
    }

    /// The largest coordinate of an image in the box; 0 where nothing is periodic.
    fn largest(&self) -> f64 {
        let corners = self
            .periods
            .iter()
            .flatten()
            .flat_map(|(low, period, _)| [low.f64().abs(), (low.f64() + period.f64()).abs()]);
        corners.fold(0.0, f64::max)
    }

    /// The image in the box.
    fn image(&self, p: [T; 3]) -> [T; 3] {
        std::array::from_fn(|axis| {
            let Some((low, period, inverse)) = self.periods[axis] else { return p[axis] };
            let boxes = p[axis].minus(low).times(inverse).floor();
            let image = p[axis].minus(period.times(boxes));
            let (image, end) = (if image < low { low } else { image }, low.plus(period));
            if image > end { end } else { image }
        })
    }

    /// The square of the distance, as grids round it.
    pub(super) fn distance_squared(&self, q: [T; 3], p: [T; 3]) -> T {
        let (q, p) = (self.image(q), self.image(p));
        let [dx, dy, dz] = std::array::from_fn(|axis| {
            let d = q[axis].minus(p[axis]);
            match self.periods[axis] {
                Some((_, period, inverse)) => d.minus(d.times(inverse).round().times(period)),
                None => d,
            }
        });
        dz.fma(dz, dy.fma(dy, dx.times(dx)))
    }

    /// The distance to the nearest image less the radius, with some 100 bits where space is open.
    fn excess(&self, q: [T; 3], p: [T; 3], r: T) -> f64 {
        let mut sum = Wide::product(-r.f64(), r.f64());
        let mut square = 0.0;
        for axis in 0..3 {
            let mut d = Wide::difference(q[axis].f64(), p[axis].f64());
            if let Some((_, period, _)) = self.periods[axis] {
                let period = period.f64();
                let boxes = Wide::product((d.high / period).round(), -period);
                d = d.plus(boxes);
            }
            sum = sum.plus(d.square());
            square += d.high * d.high;
        }
        sum.high / (square.sqrt() + r.f64())
    }
}

/// The unevaluated sum of two numbers.
#[derive(Clone, Copy)]
struct Wide {
    high: f64,
    low: f64,
}

impl Wide {
    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let part = high - a;
        Self { high, low: (a - (high - part)) + (b - part) }
    }

    fn difference(a: f64, b: f64) -> Self {
        Self::sum(a, -b)
    }

    fn product(a: f64, b: f64) -> Self {
        let high = a * b;
        Self { high, low: a.mul_add(b, -high) }
    }

    fn plus(self, other: Self) -> Self {
        let sum = Self::sum(self.high, other.high);
        Self::sum(sum.high, sum.low + self.low + other.low)
    }

    fn square(self) -> Self {
        let square = Self::product(self.high, self.high);
        Self::sum(square.high, square.low + 2.0 * self.high * self.low)
    }
}

fn is_finite<T: Number>(p: &[T; 3]) -> bool {
    p.iter().all(|x| x.f64().is_finite())
}

/// Points, each in a group, and where to find them fast.
pub(super) struct Oracle<'a, T> {
    pub(super) space: Space<T>,
    points: &'a [[T; 3]],
    groups: Option<&'a [u32]>,
    cells: Option<Cells>,
}

/// Indices by cell.
struct Cells {
    size: f64,
    of: HashMap<[i64; 3], Vec<u32>>,
}

impl<'a, T: Number> Oracle<'a, T> {
    /// By comparing with every point.
    pub(super) fn new(space: Space<T>, points: &'a [[T; 3]], groups: Option<&'a [u32]>) -> Self {
        Self { space, points, groups, cells: None }
    }

    /// In open space and one group, by lists of cells for radii up to this one.
    pub(super) fn with_cells(points: &'a [[T; 3]], radius: T) -> Self {
        // A little larger: the neighbours of a point are in the cells beside its own for certain.
        let size = radius.f64() * 1.001;
        let mut of = HashMap::<_, Vec<u32>>::new();
        for (index, point) in points.iter().enumerate().filter(|(_, point)| is_finite(point)) {
            of.entry(Cells::at(size, point)).or_default().push(index as u32);
        }
        Self { space: Space::open(), points, groups: None, cells: Some(Cells { size, of }) }
    }

    fn among(&self, query: &[T; 3]) -> Vec<u32> {
        let Some(cells) = &self.cells else { return (0..self.points.len() as u32).collect() };
        let [x, y, z] = Cells::at(cells.size, query);
        let mut found = Vec::new();
        for (dx, dy, dz) in (0..27).map(|i| (i % 3 - 1, i / 3 % 3 - 1, i / 9 - 1)) {
            found.extend(cells.of.get(&[x + dx, y + dy, z + dz]).into_iter().flatten());
        }
        found.sort_unstable();
        found
    }

    /// Indices and squared distances of the points within the radius, by index.
    pub(super) fn near(&self, query: [T; 3], radius: T, group: u32) -> Vec<(u32, T)> {
        let limit = radius.times(radius);
        let of_group = |index: u32| self.groups.is_none_or(|of| of[index as usize] == group);
        let is_radius = radius.f64() >= 0.0;
        if !is_finite(&query) || !is_radius {
            return Vec::new();
        }
        let candidates = self.among(&query).into_iter().filter(|index| of_group(*index));
        candidates
            .map(|index| (index, self.points[index as usize]))
            .filter(|(_, point)| is_finite(point))
            .map(|(index, point)| (index, self.space.distance_squared(query, point)))
            .filter(|(_, square)| *square <= limit)
            .collect()
    }
}

impl Cells {
    fn at<T: Number>(size: f64, point: &[T; 3]) -> [i64; 3] {
        point.map(|x| (x.f64() / size).floor() as i64)
    }
}

/// Pairs whose answers were compared with exact distances.
#[derive(Default)]
pub(super) struct Pairs {
    pub(super) compared: u64,
    /// Near in the one and far in the other.
    pub(super) differing: u64,
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.differing, self.compared)
    }
}

impl Pairs {
    /// The neighbours found for a query, ascending, against exact distances to all points: those that
    /// differ lie within rounding of the radius.
    pub(super) fn compare<T: Number>(
        &mut self,
        oracle: &Oracle<'_, T>,
        (query, radius, group): ([T; 3], T, u32),
        found: &[u32],
    ) -> TestResult {
        for index in oracle.among(&query) {
            let point = oracle.points[index as usize];
            let other_group = oracle.groups.is_some_and(|of| of[index as usize] != group);
            if other_group || !is_finite(&point) || !is_finite(&query) {
                continue;
            }
            let excess = oracle.space.excess(query, point, radius);
            let is_found = found.binary_search(&index).is_ok();
            self.compared += 1;
            // Both are 0 for a point at the query and no radius.
            if is_found != (excess <= 0.0 || excess.is_nan()) {
                self.differing += 1;
                let largest = query.iter().chain(&point).map(|x| x.f64().abs()).fold(0.0, f64::max);
                // What is wrapped into a box is rounded as numbers of its size are.
                let largest = largest.max(oracle.space.largest());
                let bound = 4.0 * T::EPSILON * (largest + radius.f64()) + T::TINY;
                ensure!(excess.abs() <= bound, "{query:?} and {point:?} within {radius}: {excess}");
            }
        }
        Ok(())
    }

    /// At most one pair in ten thousand differs.
    pub(super) fn judge(&self, what: &str) -> TestResult {
        if self.differing * 10_000 > self.compared {
            return Err(Failure::new(format!("{what}: {self} pairs differ")));
        }
        Ok(())
    }
}
