//! Queries for kernels: their results depend neither on the tree nor on the order in which items are found.

use super::{Bvh, FirstItem, NearestItem};
use crate::{Aabb, Ray};

/// Items in ascending order, each once.
#[derive(Debug, Clone)]
pub struct Ascending<T>(std::vec::IntoIter<T>);

impl<T> Ascending<T> {
    fn new(found: impl Iterator<Item = T>, item: impl Fn(&T) -> u32) -> Self {
        let mut all: Vec<T> = found.collect();
        all.sort_unstable_by_key(item);
        Self(all.into_iter())
    }
}

impl<T> Iterator for Ascending<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for Ascending<T> {}

#[cfg_attr(feature = "rust-kernels", cuda_safe::kernel::device(structure))]
impl Bvh {
    /// Returns the items whose boxes overlap this one, in ascending order: in kernels of Rust,
    /// `for item in bvh.overlaps_ascending(&wanted) { … }`. Otherwise it is as [`overlaps`](Self::overlaps).
    ///
    /// In a kernel on a device, this and the other loops traverse the tree once for each 32 items that are found.
    #[must_use]
    pub fn overlaps_ascending(&self, wanted: &Aabb<f32>) -> Ascending<u32> {
        Ascending::new(self.overlaps(wanted), |item| *item)
    }

    /// Returns the items whose boxes are not farther than `radius` from `center`, in ascending order. Otherwise it is
    /// as [`within`](Self::within).
    #[must_use]
    pub fn within_ascending(&self, center: [f32; 3], radius: f32) -> Ascending<NearestItem> {
        let found = self.within(center, radius);
        let found = found.map(|(item, distance_squared)| NearestItem { item, distance_squared });
        Ascending::new(found, |found| found.item)
    }

    /// Returns the items whose boxes the ray meets, in ascending order, each with a t that is not after the one at which the
    /// ray meets the box. Otherwise it is as [`along`](Self::along).
    #[must_use]
    pub fn along_ascending(&self, ray: &Ray) -> Ascending<FirstItem> {
        Ascending::new(self.along(ray).map(|(item, t)| FirstItem { item, t }), |found| found.item)
    }

    /// Returns the number of items whose boxes overlap this one, as for [`overlaps`](Self::overlaps).
    #[must_use]
    pub fn count_overlapping(&self, wanted: &Aabb<f32>) -> u32 {
        self.overlaps(wanted).fold(0, |count, _| count + 1)
    }

    /// Returns whether there is an item whose box overlaps this one, as for [`overlaps`](Self::overlaps).
    #[must_use]
    pub fn any_overlapping(&self, wanted: &Aabb<f32>) -> bool {
        self.overlaps(wanted).next().is_some()
    }

    /// Returns the item whose box is nearest to p, within `max_distance`: [`nearest`](Self::nearest) of boxes.
    #[must_use]
    pub fn nearest_box(&self, p: [f32; 3], max_distance: f32) -> Option<NearestItem> {
        self.nearest(p, max_distance, |_, _| 0.0)
    }

    /// Returns the item whose box the ray meets first: [`first_along`](Self::first_along) of boxes.
    #[must_use]
    pub fn first_box_along(&self, ray: &Ray) -> Option<FirstItem> {
        self.first_along(ray, |_, enter, _| enter)
    }
}
