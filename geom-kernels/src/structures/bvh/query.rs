//! Queries of all items whose boxes overlap a box, a sphere or a ray: `geom/bvh/query.cuh`, `geom/math/ray.cuh`.

use super::{Block, Bvh, MOST};
use crate::structures::exact::{Exact, length_squared};
use crate::structures::lanes::{LANES, Lanes, Task, vectorized};
use crate::{Aabb, Ray};

/// Whether coordinates are ones that queries may have.
pub(super) fn is_in_range(p: [f32; 3]) -> bool {
    p.iter().all(|x| x.abs() <= MOST)
}

/// The greater number; the second if one is a NaN.
#[inline(always)]
pub(super) fn greater(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}
#[inline(always)]
fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// Blocks that are to be visited, each with the bits of a distance. Those that have no room go to the heap.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    near: [u64; Self::ROOM],
    length: usize,
    rest: Vec<u64>,
}

impl Stack {
    const ROOM: usize = 56;

    /// A stack with the root of a hierarchy.
    #[inline(always)]
    pub(super) fn new(bvh: &Bvh) -> Self {
        Self {
            near: [0; Self::ROOM],
            length: usize::from(!bvh.blocks.is_empty()),
            rest: Vec::new(),
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, distance: f32, block: u32) {
        let entry = u64::from(distance.to_bits()) << 32 | u64::from(block);
        match self.near.get_mut(self.length) {
            Some(place) => {
                *place = entry;
                self.length += 1;
            }
            None => self.rest.push(entry),
        }
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(f32, u32)> {
        let entry = match self.rest.pop() {
            Some(entry) => entry,
            None => {
                self.length = self.length.checked_sub(1)?;
                self.near[self.length % Self::ROOM]
            }
        };
        Some((f32::from_bits((entry >> 32) as u32), entry as u32))
    }
}

/// A box, sphere or ray against eight boxes.
trait Test: Copy {
    /// Returns which children may have items that are found.
    fn children<L: Lanes>(&self, block: &Block, lanes: L) -> u32;
    /// Returns which items are found, and a value of each.
    fn items<L: Lanes>(&self, block: &Block, lanes: L) -> (u32, [f32; LANES]);
}

/// The query of a box, which is finite.
#[derive(Debug, Clone, Copy)]
struct BoxTest(Aabb<f32>);

impl Test for BoxTest {
    #[inline(always)]
    fn children<L: Lanes>(&self, block: &Block, lanes: L) -> u32 {
        let mut gap = [f32::NEG_INFINITY; LANES];
        for axis in 0..3 {
            let (lower, upper) = (self.0.lower[axis], self.0.upper[axis]);
            for (lane, gap) in gap.iter_mut().enumerate() {
                // Differences of finite numbers have the right sign, and an absent box is infinitely far.
                let apart =
                    greater(block.lower[axis][lane] - upper, lower - block.upper[axis][lane]);
                *gap = greater(apart, *gap);
            }
        }
        lanes.at_most(&gap, 0.0)
    }

    #[inline(always)]
    fn items<L: Lanes>(&self, block: &Block, lanes: L) -> (u32, [f32; LANES]) {
        (self.children(block, lanes), [0.0; LANES])
    }
}

/// Returns the squares of the distances of a point from eight boxes.
#[inline(always)]
pub(super) fn distances_squared(block: &Block, p: [f32; 3]) -> [f32; LANES] {
    let mut squares = [0.0; LANES];
    for (lane, square) in squares.iter_mut().enumerate() {
        *square = length_squared(std::array::from_fn(|axis| {
            let apart =
                greater(block.lower[axis][lane] - p[axis], p[axis] - block.upper[axis][lane]);
            greater(apart, 0.0)
        }));
    }
    squares
}

/// Returns the square of a distance that is not negative; finite, so that nothing infinitely far is within it.
pub(super) fn finite_square(distance: f32) -> f32 {
    (distance * distance).min(f32::MAX)
}

/// The query of a sphere: its centre, and the square of its radius.
#[derive(Debug, Clone, Copy)]
struct SphereTest([f32; 3], f32);

impl Test for SphereTest {
    #[inline(always)]
    fn children<L: Lanes>(&self, block: &Block, lanes: L) -> u32 {
        self.items(block, lanes).0
    }

    #[inline(always)]
    fn items<L: Lanes>(&self, block: &Block, lanes: L) -> (u32, [f32; LANES]) {
        let squares = distances_squared(block, self.0);
        (lanes.at_most(&squares, self.1), squares)
    }
}

/// A ray that is ready for queries: `geom::ray<float>`.
#[derive(Debug, Clone, Copy)]
pub(super) struct RayTest {
    origin: [f32; 3],
    inverse: [f32; 3],
    /// Whether the ray goes down along each axis.
    back: [bool; 3],
    /// The greatest t at which it can cross a plane of each axis.
    most: [f32; 3],
    pub(super) t_min: f32,
    pub(super) t_max: f32,
}

impl RayTest {
    /// Prepares a ray; `None` if it meets nothing.
    pub(super) fn new(ray: &Ray) -> Option<Self> {
        let t_min = Exact::max(ray.t_min, 0.0);
        // The sum with 0 turns -0 into 0.
        let t_max = Exact::min(ray.t_max, f32::MAX) + 0.0;
        let longest = ray.direction.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let valid = is_in_range(ray.origin)
            && is_in_range(ray.direction)
            && MOST.recip() <= longest
            && ray.t_min <= ray.t_max
            && t_min <= t_max;
        let inverse = ray.direction.map(|d| {
            // Subnormal numbers count as 0.
            let d = if d.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(d) } else { d };
            1.0 / d
        });
        valid.then_some(Self {
            origin: ray.origin,
            inverse,
            back: inverse.map(f32::is_sign_negative),
            most: inverse.map(|inverse| if inverse.is_finite() { f32::MAX } else { f32::INFINITY }),
            t_min,
            t_max,
        })
    }

    /// Returns a t that is not after the ray enters each of eight boxes; infinity where it certainly meets none.
    ///
    /// Roundings are less than the factors. So that a finite t does not become infinite by rounding, it has a limit.
    #[inline(always)]
    pub(super) fn enter_all(&self, block: &Block) -> [f32; LANES] {
        const WIDE: f32 = 1.0 / (1 << 20) as f32;
        const TINY: f32 = 1e-30;
        let (mut enter, mut leave) = ([f32::NEG_INFINITY; LANES], [self.t_max; LANES]);
        for axis in 0..3 {
            let (lower, upper) = (&block.lower[axis], &block.upper[axis]);
            let (near, far) = if self.back[axis] { (upper, lower) } else { (lower, upper) };
            let (origin, inverse, most) = (self.origin[axis], self.inverse[axis], self.most[axis]);
            for lane in 0..LANES {
                // A NaN, of a ray within a plane, is no bound.
                let t = (near[lane] - origin) * inverse;
                enter[lane] = greater(lesser(most, t), enter[lane]);
                leave[lane] = lesser((far[lane] - origin) * inverse, leave[lane]);
            }
        }
        let mut all = [f32::INFINITY; LANES];
        for lane in 0..LANES {
            let at = greater(enter[lane] * (1.0 - WIDE) - TINY, self.t_min);
            if at <= leave[lane] * (1.0 + WIDE) + TINY {
                all[lane] = at;
            }
        }
        all
    }

    /// Returns the t of `enters`, if the ray meets a box.
    #[inline(always)]
    pub(super) fn enters(&self, block: &Block, lane: usize) -> Option<f32> {
        let (mut enter, mut leave) = (f32::NAN, f32::NAN);
        for axis in 0..3 {
            let planes = [block.lower[axis][lane], block.upper[axis][lane]];
            let back = usize::from(self.back[axis]);
            let t = |plane: f32| plane - self.origin[axis];
            enter = Exact::max(enter, t(planes[back]).mul_down(self.inverse[axis]));
            leave = Exact::min(leave, t(planes[1 - back]).mul_up(self.inverse[axis]));
        }
        // 1 - 4 u.
        let slack = f32::from_bits(0x3f7f_fffc);
        let enter = Exact::max(enter.mul_down(slack), self.t_min);
        (enter <= Exact::min(leave, self.t_max)).then_some(enter)
    }
}

impl Test for RayTest {
    #[inline(always)]
    fn children<L: Lanes>(&self, block: &Block, lanes: L) -> u32 {
        lanes.at_most(&self.enter_all(block), f32::MAX)
    }

    #[inline(always)]
    fn items<L: Lanes>(&self, block: &Block, lanes: L) -> (u32, [f32; LANES]) {
        let (mut found, mut values) = (self.children(block, lanes), [0.0; LANES]);
        for (lane, value) in values.iter_mut().enumerate() {
            if found >> lane & 1 != 0 {
                match self.enters(block, lane) {
                    Some(t) => *value = t,
                    None => found &= !(1 << lane),
                }
            }
        }
        (found, values)
    }
}

/// A query under way.
#[derive(Debug, Clone)]
struct Search<'a, Q> {
    bvh: &'a Bvh,
    /// `None` if the query finds nothing.
    query: Option<Q>,
    stack: Stack,
    /// The items of the last leaf that were found and not returned.
    found: u32,
    leaf: u32,
    values: [f32; LANES],
}

impl<'a, Q: Test> Search<'a, Q> {
    #[inline(always)]
    fn new(bvh: &'a Bvh, query: Option<Q>) -> Self {
        Self { bvh, query, stack: Stack::new(bvh), found: 0, leaf: 0, values: [0.0; LANES] }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<(u32, f32)> {
        if self.found == 0 {
            vectorized(Advance(self));
        }
        let lane = self.found.trailing_zeros() as usize;
        if lane >= LANES {
            return None;
        }
        self.found &= self.found - 1;
        let block = self.bvh.blocks.get(self.leaf as usize)?;
        Some((block.ids[lane], self.values[lane]))
    }
}

/// Finds the next leaf with items that are found.
struct Advance<'b, 'a, Q>(&'b mut Search<'a, Q>);

impl<Q: Test> Task for Advance<'_, '_, Q> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let search = self.0;
        let Some(query) = search.query else { return };
        while let Some((_, at)) = search.stack.pop() {
            let Some(block) = search.bvh.blocks.get(at as usize) else { continue };
            if block.is_leaf {
                (search.found, search.values) = query.items(block, lanes);
                search.leaf = at;
                if search.found != 0 {
                    return;
                }
            } else {
                let mut children = query.children(block, lanes);
                while children != 0 {
                    let lane = children.trailing_zeros() as usize % LANES;
                    children &= children - 1;
                    search.stack.push(0.0, block.ids[lane]);
                }
            }
        }
        search.query = None;
    }
}

macro_rules! iterators {
    ($($doc:literal $name:ident($test:ty) -> $item:ty, $map:expr;)*) => {$(
        #[doc = $doc]
        #[derive(Debug, Clone)]
        pub struct $name<'a>(Search<'a, $test>);

        impl Iterator for $name<'_> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                self.0.next().map($map)
            }
        }
    )*};
}
iterators! {
    "The items that overlap a box, each once, in no particular order." Overlaps(BoxTest) -> u32, |(item, _)| item;
    "The items within a sphere and the squares of their distances, in no particular order." Within(SphereTest) -> (u32, f32), |found| found;
    "The items along a ray and the t from which it meets them, in no particular order." Along(RayTest) -> (u32, f32), |found| found;
}

impl Bvh {
    /// Returns the items whose boxes overlap this one; touching is enough. Bounds may be infinite. A box that is empty
    /// or has a NaN overlaps none.
    #[must_use]
    pub fn overlaps(&self, wanted: &Aabb<f32>) -> Overlaps<'_> {
        let valid = (0..3).all(|axis| wanted.lower[axis] <= wanted.upper[axis]);
        let finite = Aabb {
            lower: wanted.lower.map(|x| x.max(f32::MIN)),
            upper: wanted.upper.map(|x| x.min(f32::MAX)),
        };
        Overlaps(Search::new(self, valid.then_some(BoxTest(finite))))
    }

    /// Returns the items whose boxes are not farther than `radius` from `center`, and the squares of their distances:
    /// those that are at most the rounded square of the radius. There are none if a coordinate is not finite or beyond
    /// 2^60, or the radius negative or NaN; it may be infinite.
    #[must_use]
    pub fn within(&self, center: [f32; 3], radius: f32) -> Within<'_> {
        let valid = is_in_range(center) && 0.0 <= radius;
        Within(Search::new(self, valid.then(|| SphereTest(center, finite_square(radius)))))
    }

    /// Returns the items whose boxes the ray meets, as defined by `enters` of `geom/math/ray.cuh`, and the t that is
    /// not after that. The conditions of rays are those of [`BvhQueries`](crate::bvh::BvhQueries).
    #[must_use]
    pub fn along(&self, ray: &Ray) -> Along<'_> {
        Along(Search::new(self, RayTest::new(ray)))
    }
}
