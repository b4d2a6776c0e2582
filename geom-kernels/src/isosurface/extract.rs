//! Batch calls that find surfaces.

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, DeviceSliceMut, Error, Result, Stream, WriteView};

use super::field::Field;
use super::output::{Counts, Output, TriangleBuffers, one_count};
use super::passes::{Kind, Search};
use crate::GeometryKernels;
use crate::part::{enqueues, scratch};
use crate::preparation::Operation;

/// Finds surfaces. See the [module](super).
///
/// Scratch memory comes from the pool of the context while a call needs it: for a dense field, 24 bytes per 32
/// values.
#[derive(Debug)]
pub struct MarchingCubes {
    geometry: GeometryKernels,
}

impl MarchingCubes {
    #[cfg(feature = "tape")]
    pub(crate) fn geometry(&self) -> &GeometryKernels {
        &self.geometry
    }

    /// Creates the calls for the context of `geometry`. Kernels are loaded on first use.
    #[must_use]
    pub fn new(geometry: &GeometryKernels) -> Self {
        Self { geometry: geometry.clone() }
    }

    /// Returns the surface where the field is `iso`, in memory that is just large enough. Waits for its size.
    ///
    /// # Errors
    /// `iso` is not finite; more than 2^32 - 1 vertices or faces; a stream that records; otherwise if the driver
    /// returns an error.
    pub fn extract<F: Field>(
        &self,
        stream: &Stream,
        field: &F,
        iso: f32,
    ) -> Result<TriangleBuffers> {
        self.exactly(stream, field, iso, false)
    }

    /// Extracts the surface as [`extract`](Self::extract) does, with the normal of each vertex: see
    /// [`Output::normals`].
    ///
    /// # Errors
    /// As [`extract`](Self::extract).
    pub fn extract_with_normals<F: Field>(
        &self,
        stream: &Stream,
        field: &F,
        iso: f32,
    ) -> Result<TriangleBuffers> {
        self.exactly(stream, field, iso, true)
    }

    /// Works like [`extract`](Self::extract), but writes to the caller's memory, without waiting. The call can be
    /// recorded in a graph.
    ///
    /// The counts are always right. Vertices and faces beyond the capacities are not written, which
    /// [`Counts::status`] reports; all others are written, so a face may name a vertex that was not written. If the
    /// output is larger than needed, the rest is not written.
    ///
    /// # Errors
    /// `iso` is not finite; `counts` does not have one element; `normals` and `vertices` differ in length; otherwise
    /// if the driver returns an error.
    pub fn extract_into<F: Field>(
        &self,
        stream: &Stream,
        field: &F,
        iso: f32,
        mut output: Output<'_>,
    ) -> Result<()> {
        self.search_into(stream, stream, field, iso, &mut output).map(drop)
    }

    /// Enqueues the search and its output, with scratch memory on `home`. Returns `None` if the field has no cell.
    pub(crate) fn search_into<'a, F: Field>(
        &'a self,
        stream: &Stream,
        home: &Stream,
        field: &'a F,
        iso: f32,
        output: &mut Output<'_>,
    ) -> Result<Option<Search<'a, F>>> {
        output.check()?;
        self.prepare::<F>(output.has_normals())?;
        // All passes must see the same field and write the same surface, even if graphs write to them.
        let fields = field.allocations();
        enqueues(stream, fields.iter().chain(output.allocations())).run(|| {
            let capacities = output.capacities();
            let search =
                self.count_for(stream, home, field, iso, capacities, &mut output.counts)?;
            if let Some(search) = &search
                && capacities != [0, 0]
            {
                search.emit(stream, output)?;
            }
            Ok(search)
        })
    }

    /// Counts the vertices and faces that [`extract`](Self::extract) would find; `counts` has one element. It does not
    /// wait, and can be recorded in a graph.
    ///
    /// # Errors
    /// `iso` is not finite; `counts` does not have one element; otherwise if the driver returns an error.
    pub fn count<'a, F: Field>(
        &self,
        stream: &Stream,
        field: &F,
        iso: f32,
        counts: impl WriteView<'a, Counts>,
    ) -> Result<()> {
        let mut counts = counts.write_view();
        one_count(&counts)?;
        let fields = field.allocations();
        enqueues(stream, fields.iter().chain([counts.allocation()])).run(|| {
            self.count_for(stream, stream, field, iso, [u32::MAX; 2], &mut counts).map(drop)
        })
    }

    /// Compiles the kernels in parallel.
    fn prepare<F: Field>(&self, with_normals: bool) -> Result<()> {
        self.geometry.prepare_kernels(&[match (F::Kind::DENSE, with_normals) {
            (true, false) => Operation::DENSE_SURFACE,
            (true, true) => Operation::DENSE_SURFACE_WITH_NORMALS,
            (false, false) => Operation::BLOCK_SURFACE,
            (false, true) => Operation::BLOCK_SURFACE_WITH_NORMALS,
        }])
    }

    /// Enqueues the counting of vertices and faces. Returns the search, which can write them, or `None` if the field
    /// has no cell.
    fn count_for<'a, F: Field>(
        &'a self,
        stream: &Stream,
        home: &Stream,
        field: &'a F,
        iso: f32,
        capacities: [u32; 2],
        counts: &mut DeviceSliceMut<'_, Counts>,
    ) -> Result<Option<Search<'a, F>>> {
        if !iso.is_finite() {
            return Err(Error::invalid(format!("a surface where a field is {iso}")));
        }
        if field.words() == 0 {
            counts.reborrow().cast_mut::<u32>()?.fill(stream, 0)?;
            return Ok(None);
        }
        let search = Search::new(stream, home, &self.geometry, field, iso)?;
        search.count(stream, capacities, counts)?;
        Ok(Some(search))
    }

    fn exactly<F: Field>(
        &self,
        stream: &Stream,
        field: &F,
        iso: f32,
        with_normals: bool,
    ) -> Result<TriangleBuffers> {
        self.prepare::<F>(with_normals)?;
        let mut on_device = DeviceBuffer::<Counts>::zeroed(stream, 1)?;
        let mut view = on_device.as_slice_mut();
        let search = self.count_for(stream, stream, field, iso, [u32::MAX; 2], &mut view)?;
        let counts = on_device.to_vec(stream)?.first().copied().unwrap_or_default();
        let [vertices, faces] = counts.sizes()?;
        // A graph that another thread launches may change the field after the count. Vertices then lie elsewhere on
        // the lines of their edges, or are NaN, and there may be fewer faces.
        let shared = field.allocations().iter().any(|memory| memory.is_captured());
        let mut surface = TriangleBuffers {
            vertices: room(stream, vertices, shared)?,
            faces: room(stream, faces, shared)?,
            normals: with_normals.then(|| room(stream, vertices, shared)).transpose()?,
            counts,
        };
        if let Some(search) = search
            && vertices > 0
        {
            let TriangleBuffers { vertices, faces, normals, .. } = &mut surface;
            let mut output = Output::new(vertices, faces, &mut on_device);
            if let Some(normals) = normals {
                output = output.normals(normals);
            }
            search.emit(stream, &mut output)?;
        }
        Ok(surface)
    }
}

/// Allocates memory that is written completely, unless a graph changes the field; if the field is `shared` with a
/// graph, the memory is zeroed.
fn room<T: Pod>(stream: &Stream, n: usize, shared: bool) -> Result<DeviceBuffer<T>> {
    if shared {
        return DeviceBuffer::zeroed(stream, n);
    }
    // SAFETY: all of it is written: as many elements were counted, in a field that has not changed, and no other code
    // has the scratch memory with the positions.
    unsafe { scratch(stream, n) }
}
