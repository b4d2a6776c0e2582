//! The faces that overlap boxes and balls.

use cuda_safe::{Error, Result, Stream, WriteView};

use super::{Mesh, MeshView};
use crate::bvh::{BvhQueries, Kind, Ordered, OverlapLists, overlap_kernels};
use crate::geometry::Source;
use crate::rows::{Find, Rows};

overlap_kernels! {
    struct Overlaps in Source::MESH_OVERLAP, "mesh_{}", MeshView<'_>;
    count_faces_in_boxes, list_faces_in_boxes;
    count_boxes_in_boxes, list_boxes_in_boxes;
    count_faces_in_balls, list_faces_in_balls;
    count_boxes_in_balls, list_boxes_in_balls;
}

/// The part of a face that must overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// The face itself. For boxes the test is exact (T. Akenine-Möller, "Fast 3D Triangle-Box Overlap Testing", 2001,
    /// by signs without rounding errors). For balls, it compares the distance of the face's closest point, in f64 and
    /// rounded once, with the rounded square of the radius. (The limits of [`closest_points`](Mesh::closest_points)
    /// and [`any_within`](Mesh::any_within) use distances with larger errors, documented there, so results may differ
    /// for a face at about that distance.)
    #[default]
    Faces,
    /// The face's box.
    Boxes,
}

impl Mesh<'_> {
    /// Counts the faces that have a point in common with each box or ball; touching is enough.
    ///
    /// Queries are boxes or spheres; for rays see [`count_hits`](Self::count_hits). [`BvhQueries`] lists the queries
    /// that find nothing.
    ///
    /// # Errors
    /// `counts` has another length than there are queries; rays; a radius that is negative or not a number;
    /// radii of another number than queries; otherwise if the driver returns an error.
    pub fn count_overlaps<'a, 'b>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'a>>,
        overlap: Overlap,
        counts: impl WriteView<'b, u32>,
    ) -> Result<()> {
        self.overlaps(stream, &queries.into(), overlap)?.counts(counts.write_view())
    }

    /// Lists the faces that have a point in common with each box or ball, ascending, in memory that is just large
    /// enough. Waits for the number of them.
    ///
    /// # Errors
    /// As [`count_overlaps`](Self::count_overlaps); a stream that records.
    pub fn overlap_lists<'a>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'a>>,
        overlap: Overlap,
    ) -> Result<OverlapLists> {
        let (queries, sort) = (queries.into(), &self.topology_kernels.sort);
        let (offsets, indices) = self.overlaps(stream, &queries, overlap)?.lists(stream, sort)?;
        Ok(OverlapLists { offsets, indices })
    }

    /// Works like [`overlap_lists`](Self::overlap_lists), but writes to the caller's memory, without waiting. The
    /// call can be recorded in a graph.
    ///
    /// `offsets` is always right: its last element is the number of faces. If `faces` is shorter, faces beyond its end
    /// are not written, and all others are; if it is longer, the rest is not written.
    ///
    /// # Errors
    /// `offsets` has not one element more than there are queries; otherwise as
    /// [`count_overlaps`](Self::count_overlaps).
    pub fn overlap_lists_into<'a, 'b, 'c>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'a>>,
        overlap: Overlap,
        offsets: impl WriteView<'b, u64>,
        faces: impl WriteView<'c, u32>,
    ) -> Result<()> {
        let (queries, sort) = (queries.into(), &self.topology_kernels.sort);
        let memory = self.tree.tree().memory.buffer().allocation();
        let overlaps = self.overlaps(stream, &queries, overlap)?;
        overlaps.lists_into(stream, sort, memory, offsets, faces)
    }

    fn overlaps<'a>(
        &'a self,
        stream: &'a Stream,
        queries: &'a BvhQueries<'a>,
        overlap: Overlap,
    ) -> Result<Rows<u32, impl Fn(Find<'_, u32>) -> Result<()> + 'a>> {
        let balls = match queries.kind() {
            Kind::Boxes => false,
            Kind::Spheres => true,
            Kind::Rays => {
                return Err(Error::invalid("rays overlap nothing")
                    .with_hint("`count_hits` and `all_hits` are what rays are asked for by"));
            }
        };
        let kernels = self.geometry().kernels::<Overlaps>()?;
        let ordered = Ordered::new(stream, self.tree.tree(), queries)?;
        let find = move |find: Find<'_, u32>| {
            let (launch, mesh, queries) = (ordered.launch(), self.view(), &ordered);
            // SAFETY: the kernels are those of this kind of queries; there are as many counts and offsets as
            // `Rows` says.
            unsafe {
                match find {
                    Find::Counts(out) => {
                        let count = match (overlap, balls) {
                            (Overlap::Faces, false) => Overlaps::count_faces_in_boxes,
                            (Overlap::Boxes, false) => Overlaps::count_boxes_in_boxes,
                            (Overlap::Faces, true) => Overlaps::count_faces_in_balls,
                            (Overlap::Boxes, true) => Overlaps::count_boxes_in_balls,
                        };
                        count(&kernels, stream, launch, mesh, queries, out)
                    }
                    Find::Lists(offsets, to) => {
                        let n = to.len() as u64;
                        let list = match (overlap, balls) {
                            (Overlap::Faces, false) => Overlaps::list_faces_in_boxes,
                            (Overlap::Boxes, false) => Overlaps::list_boxes_in_boxes,
                            (Overlap::Faces, true) => Overlaps::list_faces_in_balls,
                            (Overlap::Boxes, true) => Overlaps::list_boxes_in_balls,
                        };
                        list(&kernels, stream, launch, mesh, queries, offsets, to, n)
                    }
                }
            }
        };
        // SAFETY: the kernels write the count of each query.
        Ok(unsafe { Rows::new(queries.len(), find) })
    }
}
