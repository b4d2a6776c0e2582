//! Batch calls: all queries of a slice, on all cores.

use cuda_safe::{Error, Result};
use rayon::prelude::*;

use super::Bvh;
use crate::lengths::same_length;
use crate::structures::rows::Lists;
use crate::{Aabb, MAX_POINTS, Ray};

/// Queries that a thread takes at once.
const AT_ONCE: usize = 256;

/// Queries by boxes, spheres or rays, as [`bvh::BvhQueries`](crate::bvh::BvhQueries) are on the device.
#[derive(Debug, Clone, Copy)]
pub struct BvhQueries<'a> {
    what: What<'a>,
    radius: f32,
    radii: Option<&'a [f32]>,
}

#[derive(Debug, Clone, Copy)]
enum What<'a> {
    Boxes(&'a [Aabb<f32>]),
    Spheres(&'a [[f32; 3]]),
    Rays(&'a [Ray]),
}

impl<'a> BvhQueries<'a> {
    /// Creates queries by these boxes.
    #[must_use]
    pub fn boxes(boxes: &'a [Aabb<f32>]) -> Self {
        Self { what: What::Boxes(boxes), radius: 0.0, radii: None }
    }

    /// Creates queries by spheres of one radius, which may be infinite.
    #[must_use]
    pub fn spheres(centers: &'a [[f32; 3]], radius: f32) -> Self {
        Self { what: What::Spheres(centers), radius, radii: None }
    }

    /// Creates queries by these rays.
    #[must_use]
    pub fn rays(rays: &'a [Ray]) -> Self {
        Self { what: What::Rays(rays), radius: 0.0, radii: None }
    }

    /// Sets a radius for each sphere. Queries by boxes or rays with radii are refused.
    #[must_use]
    pub fn within_each(self, radii: &'a [f32]) -> Self {
        Self { radius: 0.0, radii: Some(radii), ..self }
    }

    /// Returns the number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.what {
            What::Boxes(boxes) => boxes.len(),
            What::Spheres(centers) => centers.len(),
            What::Rays(rays) => rays.len(),
        }
    }

    /// Returns whether there are no queries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn check(&self) -> Result<usize> {
        let n = self.len();
        if n > MAX_POINTS {
            return Err(Error::invalid(format!("{n} queries; at most 2^30 are possible")));
        }
        // A NaN fails this comparison, so it is refused.
        let is_radius = self.radius >= 0.0;
        if !is_radius {
            return Err(Error::invalid(format!("{:?} is no radius", self.radius)));
        }
        if let Some(radii) = self.radii {
            if !matches!(self.what, What::Spheres(_)) {
                return Err(Error::invalid("boxes and rays have no radius")
                    .with_hint("`BvhQueries::spheres` makes queries that have one"));
            }
            if radii.len() != n {
                return Err(Error::invalid(format!("{} radii for {n} queries", radii.len())));
            }
        }
        Ok(n)
    }

    /// Calls `each` for every item of query i.
    fn visit(&self, bvh: &Bvh, i: usize, mut each: impl FnMut(u32)) {
        match self.what {
            What::Boxes(boxes) => {
                let of = boxes.get(i);
                of.into_iter().flat_map(|of| bvh.overlaps(of)).for_each(each);
            }
            What::Spheres(centers) => {
                let radius = match self.radii {
                    Some(radii) => radii.get(i).copied().unwrap_or(f32::NAN),
                    None => self.radius,
                };
                let center = centers.get(i).copied().unwrap_or([f32::NAN; 3]);
                bvh.within(center, radius).for_each(|(item, _)| each(item));
            }
            What::Rays(rays) => {
                let ray = rays.get(i);
                ray.into_iter().flat_map(|ray| bvh.along(ray)).for_each(|(item, _)| each(item));
            }
        }
    }
}

impl Bvh {
    /// Counts the items that overlap each query.
    ///
    /// # Errors
    /// `counts` has another length than there are queries; a radius that is negative or not a number; radii of another
    /// number than queries.
    pub fn count_overlaps(&self, queries: &BvhQueries<'_>, counts: &mut [u32]) -> Result<()> {
        same_length("counts", counts.len(), queries.check()?)?;
        counts.par_iter_mut().enumerate().with_min_len(AT_ONCE).for_each(|(i, count)| {
            *count = 0;
            queries.visit(self, i, |_| *count += 1);
        });
        Ok(())
    }

    /// Returns the items that overlap each query. Each list is ascending, so lists are the same for every hierarchy of
    /// the same boxes.
    ///
    /// # Errors
    /// As [`count_overlaps`](Self::count_overlaps).
    pub fn overlap_lists(&self, queries: &BvhQueries<'_>) -> Result<Lists> {
        Ok(Lists::new(queries.check()?, |i, list| {
            let begin = list.len();
            queries.visit(self, i, |item| list.push(item));
            if let Some(own) = list.get_mut(begin..) {
                own.sort_unstable();
            }
            i as u32
        }))
    }

    /// Works like [`overlap_lists`](Self::overlap_lists), but writes to the caller's memory.
    ///
    /// `offsets` is always right: its last element is the number of items. If `indices` is shorter, items beyond its
    /// end are not written; if it is longer, the rest is not written.
    ///
    /// # Errors
    /// `offsets` has not one element more than there are queries; otherwise as
    /// [`count_overlaps`](Self::count_overlaps).
    pub fn overlap_lists_into(
        &self,
        queries: &BvhQueries<'_>,
        offsets: &mut [u64],
        indices: &mut [u32],
    ) -> Result<()> {
        same_length("offsets", offsets.len(), queries.check()? + 1)?;
        self.overlap_lists(queries)?.copy_to(offsets, indices);
        Ok(())
    }
}
