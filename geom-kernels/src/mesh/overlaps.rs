//! The faces that overlap boxes and balls.

use cuda_safe::{Error, Kernel, Result, Stream, WriteView};

use super::{Mesh, MeshView};
use crate::bvh::{BvhQueries, Kind, OverlapLists, Overlaps};

/// What of a face is to overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// The face itself: exact for boxes (T. Akenine-Möller, "Fast 3D Triangle-Box Overlap Testing", 2001, by
    /// signs without rounding errors). Of balls, by the face's closest point in f64, rounded once, and the
    /// square of the radius as rounded. (The limits of [`closest_points`](Mesh::closest_points) and
    /// [`any_within`](Mesh::any_within) are by distances with larger errors, told there: of a face that is just so far
    /// they may say otherwise.)
    #[default]
    Faces,
    /// The face's box.
    Boxes,
}

impl Mesh<'_> {
    /// The number of faces that have a point in common with each box or ball; touching is enough.
    ///
    /// Queries are boxes or spheres; for rays see [`count_hits`](Self::count_hits). What finds
    /// nothing is listed at [`BvhQueries`].
    ///
    /// # Errors
    /// `counts` has another length than there are queries; rays; a radius that is negative or not a number;
    /// radii of another number than queries; otherwise what the driver answered.
    pub fn count_overlaps<'q, 'b>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'q>>,
        overlap: Overlap,
        counts: impl WriteView<'b, u32>,
    ) -> Result<()> {
        self.overlaps(stream, &queries.into(), overlap)?.counts(stream, counts.write_view())
    }

    /// The faces that have a point in common with each box or ball, ascending, in memory that is just large
    /// enough. Waits for the number of them.
    ///
    /// # Errors
    /// As [`count_overlaps`](Self::count_overlaps); a stream that records.
    pub fn overlap_lists<'q>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'q>>,
        overlap: Overlap,
    ) -> Result<OverlapLists> {
        self.overlaps(stream, &queries.into(), overlap)?.lists(stream)
    }

    /// As [`overlap_lists`](Self::overlap_lists), but into memory of the caller's, without waiting: it can
    /// be recorded in a graph.
    ///
    /// `offsets` is always right: its last element is how many faces there are. If `faces` is shorter, then
    /// the faces with places beyond its end are not written, and all others are; if it is longer, the rest
    /// is left as it is.
    ///
    /// # Errors
    /// `offsets` has not one element more than there are queries; otherwise as
    /// [`count_overlaps`](Self::count_overlaps).
    pub fn overlap_lists_into<'q, 'b>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'q>>,
        overlap: Overlap,
        offsets: impl WriteView<'b, u64>,
        faces: impl WriteView<'b, u32>,
    ) -> Result<()> {
        let (offsets, faces) = (offsets.write_view(), faces.write_view());
        self.overlaps(stream, &queries.into(), overlap)?.lists_into(stream, offsets, faces)
    }

    fn overlaps<'a>(
        &'a self,
        stream: &Stream,
        queries: &'a BvhQueries<'a>,
        overlap: Overlap,
    ) -> Result<Overlaps<'a, MeshView<'a>>> {
        let all = self.kernels.overlap()?;
        let kernels: [&Kernel; 2] = match (queries.kind(), overlap) {
            (Kind::Boxes, Overlap::Faces) => [all.count_faces_in_boxes, all.list_faces_in_boxes],
            (Kind::Boxes, Overlap::Boxes) => [all.count_boxes_in_boxes, all.list_boxes_in_boxes],
            (Kind::Spheres, Overlap::Faces) => [all.count_faces_in_balls, all.list_faces_in_balls],
            (Kind::Spheres, Overlap::Boxes) => [all.count_boxes_in_balls, all.list_boxes_in_balls],
            (Kind::Rays, _) => {
                return Err(Error::invalid("rays overlap nothing")
                    .with_hint("`count_hits` and `all_hits` are what rays are asked for by"));
            }
        };
        // SAFETY: the kernels are those of a mesh and of this kind of queries.
        unsafe { Overlaps::new(stream, self.tree.tree(), self.view(), kernels, queries) }
    }
}
