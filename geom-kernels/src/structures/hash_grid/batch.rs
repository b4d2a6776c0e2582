//! Batch calls: all queries of a slice, on all cores.

use cuda_safe::{Error, Result};
use rayon::prelude::*;

use super::{HashGrid, Neighbor};
use crate::MAX_POINTS;
use crate::hash_grid::Pairs;
use crate::lengths::same_length;
use crate::structures::exact::Exact;
use crate::structures::rows::Lists;

/// Queries that a thread takes at once.
const AT_ONCE: usize = 256;

/// The positions and radii of queries, as [`hash_grid::GridQueries`](crate::hash_grid::GridQueries) are on the device.
///
/// A query that is not finite, with a radius that is negative or not a number, or with a group that the grid does not
/// have, finds nothing.
#[derive(Debug, Clone, Copy)]
pub struct GridQueries<'a, T: Exact> {
    points: Option<&'a [[T; 3]]>,
    radius: T,
    radii: Option<&'a [T]>,
    groups: Option<&'a [u32]>,
    pairs: Pairs,
}

impl<'a, T: Exact> GridQueries<'a, T> {
    /// Creates queries at the grid's own points, in the order in which it was built from them.
    #[must_use]
    pub fn at_grid_points(radius: T) -> Self {
        Self { points: None, radius, radii: None, groups: None, pairs: Pairs::All }
    }

    /// Creates queries at these points.
    #[must_use]
    pub fn at(points: &'a [[T; 3]], radius: T) -> Self {
        Self { points: Some(points), ..Self::at_grid_points(radius) }
    }

    /// Sets a radius for each query.
    #[must_use]
    pub fn within_each(mut self, radii: &'a [T]) -> Self {
        self.radii = Some(radii);
        self
    }

    /// Sets the group of each query. By default, points of the grid search their own group, and others group 0.
    #[must_use]
    pub fn groups(mut self, groups: &'a [u32]) -> Self {
        self.groups = Some(groups);
        self
    }

    /// Sets which neighbours count; only for queries at the grid's own points.
    #[must_use]
    pub fn pairs(mut self, pairs: Pairs) -> Self {
        self.pairs = pairs;
        self
    }

    /// Returns the number of queries, after checking them.
    fn check(&self, grid: &HashGrid<T>) -> Result<usize> {
        let n = self.points.map_or(grid.len(), <[_]>::len);
        // A NaN fails this comparison, so it is refused.
        let is_radius = self.radii.is_some() || self.radius >= T::ZERO;
        if !is_radius {
            return Err(Error::invalid(format!("{:?} is no radius", self.radius)));
        }
        if n > MAX_POINTS {
            return Err(Error::invalid(format!("{n} queries; at most 2^30 are possible")));
        }
        let lengths =
            [("radii", self.radii.map(<[T]>::len)), ("groups", self.groups.map(<[u32]>::len))];
        for (name, len) in lengths {
            if let Some(len) = len.filter(|len| *len != n) {
                return Err(Error::invalid(format!("{len} {name} for {n} queries")));
            }
        }
        if self.points.is_some() && self.pairs != Pairs::All {
            return Err(Error::invalid("only a grid's own points make pairs with its points"));
        }
        Ok(n)
    }

    /// Returns task i: a grid's own points come in cell order, so that a thread reads the same cells again.
    fn task(&self, grid: &HashGrid<T>, i: usize) -> At<T> {
        let (position, index) = match self.points {
            Some(points) => (points.get(i).copied(), i as u32),
            None => (Some(grid.position(i)), grid.indices.get(i).copied().unwrap_or(u32::MAX)),
        };
        let own = self.points.is_none().then(|| grid.groups.get(i).copied()).flatten();
        let given = |groups: &[u32]| groups.get(index as usize).copied();
        At {
            position: position.unwrap_or([T::NAN; 3]),
            radius: match self.radii {
                Some(radii) => radii.get(index as usize).copied().unwrap_or(T::NAN),
                None => self.radius,
            },
            index,
            group: self.groups.map_or(own, given).unwrap_or(0),
        }
    }
}

/// A query of a batch, as a sum's terms see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct At<T> {
    /// The position; of a grid's own point in a periodic box, that of its image.
    pub position: [T; 3],
    /// The radius.
    pub radius: T,
    /// The index of the query.
    pub index: u32,
    /// The group.
    pub group: u32,
}

impl<T: Exact> At<T> {
    /// Returns whether a neighbour counts.
    #[inline(always)]
    fn counts(&self, pairs: Pairs, neighbor: u32) -> bool {
        match pairs {
            Pairs::All => true,
            Pairs::Others => self.index != neighbor,
            Pairs::Half => self.index < neighbor,
        }
    }
}

impl<T: Exact> HashGrid<T> {
    /// Counts the neighbours of each query.
    ///
    /// # Errors
    /// `counts` has another length than there are queries; a radius that is negative or not a number; radii or groups
    /// of another number than queries.
    pub fn count_neighbors(&self, queries: &GridQueries<'_, T>, counts: &mut [u32]) -> Result<()> {
        let n = queries.check(self)?;
        same_length("counts", counts.len(), n)?;
        self.write(queries, counts, |at| {
            let neighbors = self.neighbors_in_group(at.position, at.radius, at.group);
            neighbors.filter(|j| at.counts(queries.pairs, *j)).count() as u32
        });
        Ok(())
    }

    /// Returns the neighbours of each query, in cell order.
    ///
    /// # Errors
    /// As [`count_neighbors`](Self::count_neighbors).
    pub fn neighbor_lists(&self, queries: &GridQueries<'_, T>) -> Result<Lists> {
        Ok(Lists::new(queries.check(self)?, |task, list| {
            let at = queries.task(self, task);
            let neighbors = self.neighbors_in_group(at.position, at.radius, at.group);
            list.extend(neighbors.filter(|j| at.counts(queries.pairs, *j)));
            at.index
        }))
    }

    /// Works like [`neighbor_lists`](Self::neighbor_lists), but writes to the caller's memory.
    ///
    /// `offsets` is always right: its last element is the number of neighbours. If `indices` is shorter, neighbours
    /// beyond its end are not written; if it is longer, the rest is not written.
    ///
    /// # Errors
    /// `offsets` has not one element more than there are queries; otherwise as
    /// [`count_neighbors`](Self::count_neighbors).
    pub fn neighbor_lists_into(
        &self,
        queries: &GridQueries<'_, T>,
        offsets: &mut [u64],
        indices: &mut [u32],
    ) -> Result<()> {
        same_length("offsets", offsets.len(), queries.check(self)? + 1)?;
        self.neighbor_lists(queries)?.copy_to(offsets, indices);
        Ok(())
    }

    /// Finds the `k` nearest points within the queries' radius, which may be infinite, in order of distance. Points at
    /// equal distance are in order of their index.
    ///
    /// The results of query i are `indices[k * i..k * (i + 1)]`, and the squared distances have the same layout. If
    /// there are fewer than `k`, the remaining indices are `u32::MAX` and the distances infinite. [`Pairs::Half`] is
    /// refused.
    ///
    /// # Errors
    /// `k` is not from 1 to 128; an output of another length than `k` times the queries; otherwise as
    /// [`count_neighbors`](Self::count_neighbors).
    pub fn k_nearest(
        &self,
        queries: &GridQueries<'_, T>,
        k: usize,
        indices: &mut [u32],
        distances_squared: &mut [T],
    ) -> Result<()> {
        let n = queries.check(self)?;
        if !(1..=128).contains(&k) {
            return Err(Error::invalid(format!("the {k} nearest; from 1 to 128 are possible")));
        }
        if queries.pairs == Pairs::Half {
            return Err(Error::invalid("half of the pairs has no nearest ones of each point"));
        }
        same_length("indices", indices.len(), n.saturating_mul(k))?;
        same_length("distances", distances_squared.len(), n.saturating_mul(k))?;
        let find = |at: &At<T>, indices: &mut [u32], squares: &mut [T]| {
            let skip = if queries.pairs == Pairs::All { u32::MAX } else { at.index };
            self.find_nearest((at.position, at.radius), (at.group, skip), indices, squares);
        };
        if queries.points.is_some() {
            let out = indices.par_chunks_mut(k).zip(distances_squared.par_chunks_mut(k));
            out.enumerate().with_min_len(AT_ONCE / 8).for_each(|(i, (indices, squares))| {
                find(&queries.task(self, i), indices, squares);
            });
            return Ok(());
        }
        // The grid's own points are tasks in another order than the results.
        let (mut found, mut squares) = (vec![0; n * k], vec![T::ZERO; n * k]);
        let out = found.par_chunks_mut(k).zip(squares.par_chunks_mut(k));
        out.enumerate().with_min_len(AT_ONCE / 8).for_each(|(i, (indices, squares))| {
            find(&queries.task(self, i), indices, squares);
        });
        let places = self.indices.iter().zip(found.chunks(k).zip(squares.chunks(k)));
        for (index, (found, squares)) in places {
            let range = *index as usize * k..(*index as usize + 1) * k;
            if let Some(out) = indices.get_mut(range.clone()) {
                out.copy_from_slice(found);
            }
            if let Some(out) = distances_squared.get_mut(range) {
                out.copy_from_slice(squares);
            }
        }
        Ok(())
    }

    /// Computes a sum over the neighbours of each query, or any other loop over them: `term` is called for each
    /// neighbour, in their order, with the query's element of `sums`, which begins as the default.
    ///
    /// ```
    /// # use geom_kernels::hash_grid::GridOptions;
    /// # use geom_kernels::structures::HashGrid;
    /// # use geom_kernels::structures::hash_grid::GridQueries;
    /// let points = [[0.0f32, 0.0, 0.0], [0.5, 0.0, 0.0], [5.0, 5.0, 5.0]];
    /// let grid = HashGrid::build(&points, 1.0, GridOptions::default())?;
    /// let mut densities = [0.0f32; 3];
    /// grid.neighbor_sums(&GridQueries::at_grid_points(1.0), &mut densities, |sum, near, at| {
    ///     *sum += at.radius * at.radius - near.distance_squared;
    /// })?;
    /// assert_eq!(densities, [1.75, 1.75, 1.0]);
    /// # Ok::<(), cuda_safe::Error>(())
    /// ```
    ///
    /// # Errors
    /// `sums` has another length than there are queries; otherwise as [`count_neighbors`](Self::count_neighbors).
    pub fn neighbor_sums<Out: Default + Send>(
        &self,
        queries: &GridQueries<'_, T>,
        sums: &mut [Out],
        term: impl Fn(&mut Out, &Neighbor<T>, &At<T>) + Sync,
    ) -> Result<()> {
        let n = queries.check(self)?;
        same_length("sums", sums.len(), n)?;
        self.write(queries, sums, |at| {
            let mut sum = Out::default();
            for near in self.near_in_group(at.position, at.radius, at.group) {
                if at.counts(queries.pairs, near.index) {
                    term(&mut sum, &near, &at);
                }
            }
            sum
        });
        Ok(())
    }

    /// Writes the result of each query.
    fn write<Out: Send>(
        &self,
        queries: &GridQueries<'_, T>,
        out: &mut [Out],
        result: impl Fn(At<T>) -> Out + Sync,
    ) {
        if queries.points.is_some() {
            out.par_iter_mut().enumerate().with_min_len(AT_ONCE).for_each(|(i, out)| {
                *out = result(queries.task(self, i));
            });
            return;
        }
        let tasks = (0..out.len()).into_par_iter().with_min_len(AT_ONCE);
        let results: Vec<Out> = tasks.map(|i| result(queries.task(self, i))).collect();
        for (index, result) in self.indices.iter().zip(results) {
            if let Some(out) = out.get_mut(*index as usize) {
                *out = result;
            }
        }
    }
}
