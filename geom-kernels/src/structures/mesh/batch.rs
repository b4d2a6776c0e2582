//! Queries of arrays, on all cores.

use cuda_safe::{Error, Result};
use rayon::prelude::*;

use super::Mesh;
use super::closest::{ByNormal, ByParity, Closest, NOTHING, Within};
use super::exact::NAN;
use super::ordered::{Points, for_points};
use super::rays::{Any, Count, NO_HIT, Nearest, RayQuery};
use super::sides::side_of;
use super::simd::{Simd, Task, with_simd};
use super::winding::{ByWinding, Number, Winding};
use crate::lengths::{has_length, same_length};
use crate::mesh::{ClosestPoint, FacePoint, Overlap, RayHit, Sign};
use crate::{Aabb, Ray};

/// Queries that a thread computes at once.
pub(super) const CHUNK: usize = 64;

/// The distance within which queries of points search.
///
/// A query with a distance that is negative or not a number finds nothing.
#[derive(Debug, Clone, Copy, Default)]
pub enum Limit<'a> {
    /// No limit.
    #[default]
    None,
    /// The same for all points.
    All(f32),
    /// One for each point.
    Each(&'a [f32]),
}

impl Limit<'_> {
    pub(super) fn at(&self, i: usize) -> f32 {
        match self {
            Self::None => f32::INFINITY,
            Self::All(distance) => *distance,
            Self::Each(distances) => distances.get(i).copied().unwrap_or(f32::NAN),
        }
    }

    fn check(&self, n: usize) -> Result<()> {
        match self {
            Self::Each(distances) if distances.len() != n => {
                Err(Error::invalid(format!("{} distances for {n} points", distances.len())))
            }
            _ => Ok(()),
        }
    }
}

/// The queries of a chunk.
struct Chunk<'a, T, R, F> {
    first: usize,
    queries: &'a [T],
    results: &'a mut [R],
    find: F,
}

/// A function of a query and its index. `find` is `#[inline(always)]`, which closures cannot be.
trait Find<T, R>: Copy + Sync {
    fn find<S: Simd>(self, simd: S, i: usize, query: &T) -> R;
}

impl<T, R, F: Find<T, R>> Task for Chunk<'_, T, R, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (i, (query, result)) in self.queries.iter().zip(self.results).enumerate() {
            *result = self.find.find(simd, self.first + i, query);
        }
    }
}

/// Computes the result of each query.
fn for_all<T: Sync, R: Send>(
    what: &str,
    queries: &[T],
    results: &mut [R],
    find: impl Find<T, R>,
) -> Result<()> {
    same_length(what, results.len(), queries.len())?;
    let chunks = queries.par_chunks(CHUNK).zip(results.par_chunks_mut(CHUNK)).enumerate();
    chunks.with_max_len(1).for_each(|(chunk, (queries, results))| {
        with_simd(Chunk { first: chunk * CHUNK, queries, results, find });
    });
    Ok(())
}

/// Queries of rays, whose results are converted.
#[derive(Clone, Copy)]
struct Rays<'a, Q, C> {
    mesh: &'a Mesh,
    query: Q,
    convert: C,
}

impl<Q: RayQuery + Copy + Sync, C: Fn(Q::Found) -> R + Copy + Sync, R> Find<Ray, R>
    for Rays<'_, Q, C>
{
    #[inline(always)]
    fn find<S: Simd>(self, simd: S, _: usize, ray: &Ray) -> R {
        (self.convert)(self.query.find(simd, self.mesh, ray))
    }
}

/// Sides of points.
#[derive(Clone, Copy)]
struct Sides<'a>(&'a Mesh);

impl Find<[f32; 3], i32> for Sides<'_> {
    #[inline(always)]
    fn find<S: Simd>(self, simd: S, _: usize, q: &[f32; 3]) -> i32 {
        side_of(simd, self.0, *q)
    }
}

/// Batch calls: each element of the output is the result of the query with its index.
impl Mesh {
    /// Finds the closest point for each point. Where nothing is found, the face is
    /// [`NO_FACE`](crate::mesh::NO_FACE) and the distance infinite.
    ///
    /// # Errors
    /// `closest` or the limit's distances have another length than `points`.
    pub fn closest_points(
        &self,
        points: &[[f32; 3]],
        limit: Limit<'_>,
        closest: &mut [ClosestPoint],
    ) -> Result<()> {
        limit.check(points.len())?;
        let convert = |found: Option<_>| found.unwrap_or(NOTHING);
        for_points(
            "closest points",
            points,
            closest,
            Points { mesh: self, limit, query: Closest, convert },
        )
    }

    /// Writes whether a face is within the limit of each point.
    ///
    /// # Errors
    /// As [`closest_points`](Self::closest_points).
    pub fn any_within(
        &self,
        points: &[[f32; 3]],
        limit: Limit<'_>,
        within: &mut [u8],
    ) -> Result<()> {
        limit.check(points.len())?;
        for_points(
            "flags",
            points,
            within,
            Points { mesh: self, limit, query: Within, convert: u8::from },
        )
    }

    /// Computes the signed distance of each point: negative inside, 0 on the mesh, infinite where nothing is found.
    ///
    /// # Errors
    /// `distances` or the limit's distances have another length than `points`; [`Sign::Winding`] for a mesh that was
    /// made without [`MeshOptions::winding`](crate::mesh::MeshOptions::winding).
    pub fn signed_distances(
        &self,
        points: &[[f32; 3]],
        limit: Limit<'_>,
        sign: Sign,
        distances: &mut [f32],
    ) -> Result<()> {
        self.signed(points, limit, sign, distances, |found| found.map_or(f32::INFINITY, |(d, _)| d))
    }

    /// Computes the signed distances and the closest points.
    ///
    /// # Errors
    /// As [`signed_distances`](Self::signed_distances).
    pub fn signed_closest_points(
        &self,
        points: &[[f32; 3]],
        limit: Limit<'_>,
        sign: Sign,
        found: &mut [(f32, ClosestPoint)],
    ) -> Result<()> {
        self.signed(points, limit, sign, found, |found| found.unwrap_or((f32::INFINITY, NOTHING)))
    }

    fn signed<R: Send + Copy>(
        &self,
        points: &[[f32; 3]],
        limit: Limit<'_>,
        sign: Sign,
        results: &mut [R],
        convert: impl Fn(Option<(f32, ClosestPoint)>) -> R + Copy + Sync,
    ) -> Result<()> {
        limit.check(points.len())?;
        match sign {
            Sign::Normal => for_points(
                "distances",
                points,
                results,
                Points { mesh: self, limit, query: ByNormal, convert },
            ),
            Sign::Parity => for_points(
                "distances",
                points,
                results,
                Points { mesh: self, limit, query: ByParity, convert },
            ),
            Sign::Winding => for_points(
                "distances",
                points,
                results,
                Points { mesh: self, limit, query: ByWinding(self.moments()?), convert },
            ),
        }
    }

    fn moments(&self) -> Result<&Winding> {
        let missing = || Error::invalid("a mesh without winding numbers: MeshOptions::winding");
        self.winding.as_ref().ok_or_else(missing)
    }

    /// Computes how often the mesh winds around each point: see
    /// [`mesh::Mesh::winding_numbers`](crate::mesh::Mesh::winding_numbers). The bits are those of a device's mesh that was
    /// built with the same options, and refitted as often.
    ///
    /// # Errors
    /// The mesh was made without [`MeshOptions::winding`](crate::mesh::MeshOptions::winding); `beta` is less than 1
    /// or not a number; `numbers` has another length than `points`.
    pub fn winding_numbers(
        &self,
        points: &[[f32; 3]],
        beta: f32,
        numbers: &mut [f32],
    ) -> Result<()> {
        let query = Number(self.moments()?, beta);
        if beta.is_nan() || beta < 1.0 {
            return Err(Error::invalid(format!("a beta of {beta}; it is at least 1")));
        }
        let convert = |number: f32| number;
        let queries = Points { mesh: self, limit: Limit::None, query, convert };
        for_points("winding numbers", points, numbers, queries)
    }

    /// Finds on which side of a closed mesh each point is: see [`side_of`](Self::side_of).
    ///
    /// # Errors
    /// `sides` has another length than `points`.
    pub fn classify(&self, points: &[[f32; 3]], sides: &mut [i32]) -> Result<()> {
        for_all("sides", points, sides, Sides(self))
    }

    /// Finds the first hit of each ray. Where nothing is hit, the face is [`NO_FACE`](crate::mesh::NO_FACE) and t
    /// infinite.
    ///
    /// # Errors
    /// `hits` has another length than `rays`.
    pub fn closest_hits(&self, rays: &[Ray], hits: &mut [RayHit]) -> Result<()> {
        let convert = |found: Option<_>| found.unwrap_or(NO_HIT);
        for_all("hits", rays, hits, Rays { mesh: self, query: Nearest, convert })
    }

    /// Finds whether each ray hits anything.
    ///
    /// # Errors
    /// As [`closest_hits`](Self::closest_hits).
    pub fn any_hits(&self, rays: &[Ray], hits: &mut [u8]) -> Result<()> {
        for_all("flags", rays, hits, Rays { mesh: self, query: Any, convert: u8::from })
    }

    /// Counts the faces that each ray hits.
    ///
    /// # Errors
    /// As [`closest_hits`](Self::closest_hits).
    pub fn count_hits_of(&self, rays: &[Ray], counts: &mut [u32]) -> Result<()> {
        for_all(
            "counts",
            rays,
            counts,
            Rays { mesh: self, query: Count, convert: |count: u32| count },
        )
    }

    /// Returns all hits of each ray: those of ray i are `hits[offsets[i]..offsets[i + 1]]`, nearest first, of equally
    /// near ones the face of the least index first.
    #[must_use]
    pub fn all_hits(&self, rays: &[Ray]) -> (Vec<u64>, Vec<RayHit>) {
        lists(rays, |ray, hits: &mut Vec<RayHit>| {
            self.for_each_hit(ray, |hit| {
                hits.push(hit);
                false
            });
            hits.sort_unstable_by(|a, b| a.t.total_cmp(&b.t).then(a.face.cmp(&b.face)));
        })
    }

    /// Returns the faces that have a point in common with each box, ascending: those of box i are
    /// `faces[offsets[i]..offsets[i + 1]]`.
    #[must_use]
    pub fn overlap_lists(&self, boxes: &[Aabb<f32>], overlap: Overlap) -> (Vec<u64>, Vec<u32>) {
        lists(boxes, |of, faces: &mut Vec<u32>| {
            self.for_each_overlap(of, overlap, |face| {
                faces.push(face);
                false
            });
            faces.sort_unstable();
        })
    }

    /// Returns the faces that are not farther from each point than its limit, ascending: those of point i are
    /// `faces[offsets[i]..offsets[i + 1]]`.
    ///
    /// # Errors
    /// The limit's distances have another length than `centers`.
    pub fn within_lists(
        &self,
        centers: &[[f32; 3]],
        limit: Limit<'_>,
        overlap: Overlap,
    ) -> Result<(Vec<u64>, Vec<u32>)> {
        limit.check(centers.len())?;
        let balls: Vec<_> = centers.iter().enumerate().map(|(i, q)| (*q, limit.at(i))).collect();
        Ok(lists(&balls, |(center, radius), faces: &mut Vec<u32>| {
            self.for_each_within(*center, *radius, overlap, |face| {
                faces.push(face);
                false
            });
            faces.sort_unstable();
        }))
    }

    /// Computes the position of each point of a face; NaN if the face does not exist.
    ///
    /// # Errors
    /// `positions` has another length than `points`.
    pub fn positions_at(&self, points: &[FacePoint], positions: &mut [[f32; 3]]) -> Result<()> {
        evaluate("positions", points, positions, |point| self.position_at(point))
    }

    /// Computes the unit normal of each face: zero without an area; NaN if the face does not exist.
    ///
    /// # Errors
    /// `normals` has another length than `points`.
    pub fn normals_at(&self, points: &[FacePoint], normals: &mut [[f32; 3]]) -> Result<()> {
        evaluate("normals", points, normals, |point| self.face_normal(point.face))
    }

    /// Interpolates attributes of the mesh's points at each point of a face; NaN if the face does not exist.
    ///
    /// # Errors
    /// `attributes` has another length than the mesh's points, or `out` than `points`.
    pub fn attributes_at<const N: usize>(
        &self,
        points: &[FacePoint],
        attributes: &[[f32; N]],
        out: &mut [[f32; N]],
    ) -> Result<()> {
        has_length("the array of attributes", attributes.len(), self.points.len())?;
        evaluate("attributes", points, out, |point| self.attribute_at(attributes, point))
    }
}

/// Computes the value at each point, on all cores.
fn evaluate<const N: usize>(
    what: &str,
    points: &[FacePoint],
    values: &mut [[f32; N]],
    value: impl Fn(FacePoint) -> Option<[f32; N]> + Sync,
) -> Result<()> {
    same_length(what, values.len(), points.len())?;
    let pairs = points.par_iter().zip(values.par_iter_mut()).with_min_len(CHUNK);
    pairs.for_each(|(point, to)| *to = value(*point).unwrap_or([NAN; N]));
    Ok(())
}

/// Returns the concatenated lists of all queries, and the start of each, on all cores. `list` adds to a list, which is
/// empty.
fn lists<T: Sync, R: Send>(
    queries: &[T],
    list: impl Fn(&T, &mut Vec<R>) + Sync,
) -> (Vec<u64>, Vec<R>) {
    let of_query = |query| {
        let mut results = Vec::new();
        list(query, &mut results);
        results
    };
    let all: Vec<Vec<R>> = queries.par_iter().with_min_len(CHUNK).map(of_query).collect();
    let mut offsets = vec![0];
    let mut end = 0;
    offsets.extend(all.iter().map(|results| {
        end += results.len() as u64;
        end
    }));
    (offsets, all.into_iter().flatten().collect())
}
