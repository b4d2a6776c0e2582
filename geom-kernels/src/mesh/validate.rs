//! Counts of the faces of a mesh that are skipped, by reason.

use bytemuck::{Pod, Zeroable};
use cuda_safe::{DeviceBuffer, DeviceRepr, Error, Result, Stream};

use super::report::{Report, as_counts};
use super::topology::{Surface, Topology};
use crate::lengths::cover;

/// `geom::mesh::Counts`: the counters of the kernels.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Counts {
    pub(crate) first_out_of_range: u64,
    pub(crate) first_not_finite: u64,
    pub(crate) twice_area: f64,
    pub(crate) six_volumes: f64,
    pub(crate) out_of_range: u32,
    pub(crate) not_finite: u32,
    pub(crate) collapsed: u32,
    pub(crate) degenerate: u32,
    pub(crate) edges: u32,
    pub(crate) boundary_edges: u32,
    pub(crate) non_manifold_edges: u32,
    pub(crate) inconsistent_edges: u32,
    pub(crate) used_points: u32,
    pub(crate) bounds: [u32; 6],
    pub(crate) unused: u32,
}

// SAFETY: repr(C); LAYOUTS has it as geom::mesh::Counts.
unsafe impl DeviceRepr for Counts {}

/// The offset of `twice_area` and `six_volumes`, in words of 8 bytes.
pub(crate) const SUMS_AT: usize = 2;
const WORDS: usize = size_of::<Counts>() / 8;

impl Counts {
    /// The counters of no faces.
    const START: Self = Self {
        first_out_of_range: u64::MAX,
        first_not_finite: u64::MAX,
        twice_area: 0.0,
        six_volumes: 0.0,
        out_of_range: 0,
        not_finite: 0,
        collapsed: 0,
        degenerate: 0,
        edges: 0,
        boundary_edges: 0,
        non_manifold_edges: 0,
        inconsistent_edges: 0,
        used_points: 0,
        bounds: [u32::MAX; 6],
        unused: 0,
    };

    /// Returns the initial counters on the device, as words.
    pub(crate) fn start(stream: &Stream) -> Result<DeviceBuffer<u64>> {
        let words: [u64; WORDS] = bytemuck::cast(Self::START);
        DeviceBuffer::from_slice(stream, &words)
    }

    /// Reads the counters from the device. Waits.
    pub(crate) fn read(stream: &Stream, words: &DeviceBuffer<u64>) -> Result<Self> {
        let mut counts = [Self::START];
        words.download(stream, bytemuck::cast_slice_mut(&mut counts))?;
        let [counts] = counts;
        Ok(counts)
    }

    pub(crate) fn validation(&self) -> Validation {
        Validation {
            out_of_range: self.out_of_range as usize,
            first_out_of_range: Fault::unpack(self.first_out_of_range),
            not_finite: self.not_finite as usize,
            first_not_finite: Fault::unpack(self.first_not_finite),
        }
    }
}

/// A face with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The face.
    pub face: u32,
    /// The first invalid vertex of the face: 0, 1 or 2.
    pub corner: u32,
    /// That vertex's index.
    pub vertex: u32,
}

impl Fault {
    /// Unpacks a word that `atomicMin` wrote: the face, 2 bits for the corner, 32 for the vertex.
    fn unpack(word: u64) -> Option<Self> {
        if word == u64::MAX {
            return None;
        }
        let (face, corner) = ((word >> 34) as u32, (word >> 32) as u32 & 3);
        Some(Self { face, corner, vertex: word as u32 })
    }
}

/// The numbers of faces of a mesh that are skipped. A face is counted once, in `out_of_range` if both reasons apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validation {
    /// The number of faces with an index that is not less than the number of points.
    pub out_of_range: usize,
    /// The first of them.
    pub first_out_of_range: Option<Fault>,
    /// The number of other faces with a vertex coordinate that is NaN or beyond 2^60.
    pub not_finite: usize,
    /// The first of them.
    pub first_not_finite: Option<Fault>,
}

impl Validation {
    /// Returns the number of skipped faces.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.out_of_range + self.not_finite
    }

    /// Returns an error that names the first face with an index out of range, if there is one. `points` is the number
    /// of points.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid): `face 17: vertex index 1000000, but there are
    /// 5000 points`.
    pub fn check_indices(&self, points: usize) -> Result<()> {
        let Some(Fault { face, vertex, .. }) = self.first_out_of_range else {
            return Ok(());
        };
        let message = format!("face {face}: vertex index {vertex}, but there are {points} points");
        let error = Error::invalid(message);
        if self.out_of_range == 1 {
            return Err(error);
        }
        Err(error.with_hint(format!("it is the first of {} such faces", self.out_of_range)))
    }
}

impl Topology {
    /// Counts the skipped faces. Waits.
    ///
    /// # Errors
    /// A stream that records; otherwise if the driver returns an error.
    pub fn validate(&self, stream: &Stream, surface: Surface<'_>) -> Result<Validation> {
        let mut counts = Counts::start(stream)?;
        let n = surface.faces().len();
        if n > 0 {
            let (points, faces) = (surface.points(), surface.faces());
            let (p, f) = (surface.point_count(), surface.face_count());
            let (kernels, to) = (self.geometry().kernels::<Report>()?, as_counts(&mut counts)?);
            kernels.validate(stream, cover(n), points, faces, p, f, to)?;
        }
        Ok(Counts::read(stream, &counts)?.validation())
    }
}
