//! Signed distances of points on one device, computed by all devices.

use std::ops::Range;

use cuda_safe::vector::Float3;
use cuda_safe::{Context, DeviceBuffer, Error, Event, Result, Stream, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::{Mesh, MeshOptions, PointQueries, Sign, TriangleMesh};

use crate::shares::Shares;

kernels! {
    struct Parts;
    // SAFETY: thread i touches element i alone, and only if i < n, but for what `order` names, which is compared with n.
    unsafe in include_str!("queries.cu") {
        safe fn part_keys(points: &[Float3], lower: Float3, scale: Float3, parts: u32, keys: &mut [u32],
            n: u32 = points.len()) over n where keys.len() == n, 1 <= parts <= 256;
        safe fn gather(points: &[Float3], order: &[u32], sorted: &mut [Float3], n: u32 = points.len()) over n
            where order.len() == n, sorted.len() == n;
        /// # Safety
        /// No number is in `order` twice: each thread writes the element that `order` names.
        unsafe fn scatter(sorted: &[f32], order: &[u32], distances: &mut [f32], n: u32 = distances.len()) over n
            where order.len() == n, sorted.len() == n;
    }
}

/// A mesh on several devices, the first of which has the points.
#[derive(Debug)]
pub struct ShardedMesh {
    first: First,
    others: Vec<Shard>,
    chunk: usize,
    shares: Shares,
}

/// The mesh on the device that has the points, and what it needs to part them.
#[derive(Debug)]
struct First {
    mesh: Mesh<'static>,
    stream: Stream,
    geometry: GeometryKernels,
    parts: Parts,
    lower: Float3,
    scale: Float3,
    sorted: Sorted,
    span: Span,
}

/// Where a device's work of a call begins and ends.
#[derive(Debug)]
struct Span {
    begin: Event,
    end: Event,
}

/// Points in the order of parts.
#[derive(Debug)]
struct Sorted {
    keys: DeviceBuffer<u32>,
    order: DeviceBuffer<u32>,
    points: DeviceBuffer<Float3>,
    distances: DeviceBuffer<f32>,
}

/// The mesh on another device, and memory for two chunks of points: while one is computed, others travel.
#[derive(Debug)]
struct Shard {
    mesh: Mesh<'static>,
    queries: Stream,
    /// For chunks that come, and for results that go.
    copies: [Stream; 2],
    points: [DeviceBuffer<Float3>; 2],
    distances: [DeviceBuffer<f32>; 2],
    span: Span,
}

impl ShardedMesh {
    /// Uploads the mesh to the first device, copies it to the others, and builds it on each. Other devices get points in
    /// chunks of at most `chunk`.
    ///
    /// # Errors
    /// No devices, or more than 256; chunks of 0 points; as [`Mesh::build`].
    pub fn new(contexts: &[Context], mesh: &TriangleMesh, chunk: usize) -> Result<Self> {
        let Some((context, others)) = contexts.split_first().filter(|_| contexts.len() <= 256)
        else {
            let number = contexts.len();
            return Err(Error::invalid(format!("{number} devices; from 1 to 256 are possible")));
        };
        if chunk == 0 {
            return Err(Error::invalid("chunks of 0 points; at least 1 is needed"));
        }
        let first = First::new(context, mesh)?;
        let shard = |context: &Context| Shard::new(context, &first.mesh, chunk);
        let others = others.iter().map(shard).collect::<Result<_>>()?;
        Ok(Self { first, others, chunk, shares: Shares::equal(contexts.len()) })
    }

    /// Returns the stream of the first device.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.first.stream
    }

    /// Computes the signed distance of each point as [`Mesh::signed_distances`] does, a part of them on each device, in the
    /// order of [`stream`](Self::stream). Points and distances are memory of the first device. The parts are equal at first,
    /// and then as long as each device's speed in the calls before allows, so that all end together. The host does not wait.
    ///
    /// # Errors
    /// `distances` has another length than `points`; otherwise if the driver returns an error.
    pub fn signed_distances(
        &mut self,
        points: &DeviceBuffer<Float3>,
        distances: &mut DeviceBuffer<f32>,
    ) -> Result<()> {
        let (first, n, chunk) = (&mut self.first, points.len(), self.chunk);
        if distances.len() != n {
            return Err(Error::invalid(format!("{} distances for {n} points", distances.len())));
        }
        if self.others.is_empty() {
            let queries = PointQueries::at(points);
            return first.mesh.signed_distances(&first.stream, &queries, Sign::Normal, distances);
        }
        // Nobody waits for times: those of a call that has not ended are left out.
        if let Some(times) = times(&first.span, &self.others)? {
            self.shares.learn(&times);
        }
        first.sort(points, self.others.len() + 1)?;
        first.span.begin.record(&first.stream)?;
        let Some((own, others)) = self.shares.cut(n).split_first() else {
            return Err(Error::invalid("no parts for the devices"));
        };
        let sorted = &mut first.sorted;
        for shard in &self.others {
            shard.copies[0].wait_stream(&first.stream)?;
            shard.span.begin.record(&shard.copies[0])?;
        }
        let longest = others.iter().map(Range::len).max().unwrap_or(0);
        for number in 0..longest.div_ceil(chunk) {
            for (all, shard) in others.iter().zip(&mut self.others) {
                let begin = (all.start + number * chunk).min(all.end);
                shard.compute(number % 2, begin..(begin + chunk).min(all.end), sorted)?;
            }
        }
        for shard in &self.others {
            shard.span.end.record(&shard.copies[1])?;
        }
        let own = own.clone();
        let (queries, out) = (sorted.points.slice(own.clone())?, sorted.distances.slice_mut(own)?);
        let queries = PointQueries::at(queries);
        first.mesh.signed_distances(&first.stream, &queries, Sign::Normal, out)?;
        first.span.end.record(&first.stream)?;
        let (distances_there, order) = (&sorted.distances, &sorted.order);
        // SAFETY: the order is that of a sort of as many keys: each index once.
        unsafe { first.parts.scatter(&first.stream, distances_there, order, distances) }
    }
}

/// Milliseconds of each device's work in the call before, if it has ended.
fn times(first: &Span, others: &[Shard]) -> Result<Option<Vec<f32>>> {
    let spans: Vec<_> = [first].into_iter().chain(others.iter().map(|shard| &shard.span)).collect();
    for span in &spans {
        if !span.end.is_done()? {
            return Ok(None);
        }
    }
    spans.iter().map(|span| span.begin.elapsed_ms(&span.end)).collect::<Result<_>>().map(Some)
}

impl Span {
    /// A span of nothing.
    fn new(stream: &Stream) -> Result<Self> {
        let context = stream.context();
        let span = Self { begin: Event::timing(&context)?, end: Event::timing(&context)? };
        span.begin.record(stream)?;
        span.end.record(stream)?;
        Ok(span)
    }
}

impl First {
    fn new(context: &Context, mesh: &TriangleMesh) -> Result<Self> {
        let (stream, geometry) = (context.stream()?, GeometryKernels::new(context));
        let bounds = mesh.bounds();
        let [lower, upper] = bounds.map_or([[0.0; 3]; 2], |bounds| [bounds.lower, bounds.upper]);
        let scale: [f32; 3] = std::array::from_fn(|axis| {
            let extent = upper[axis] - lower[axis];
            if extent > 0.0 { 1.0 / extent } else { 0.0 }
        });
        Ok(Self {
            mesh: Mesh::upload(&stream, &geometry, mesh, MeshOptions::default())?,
            parts: Parts::load(context)?,
            lower: Float3::from(lower),
            scale: Float3::from(scale),
            sorted: Sorted::new(&stream, 0)?,
            span: Span::new(&stream)?,
            stream,
            geometry,
        })
    }

    /// Sorts the points by part and cell: one pass, as keys have 8 bits.
    fn sort(&mut self, points: &DeviceBuffer<Float3>, parts: usize) -> Result<()> {
        let (stream, n) = (&self.stream, points.len());
        if self.sorted.order.len() != n {
            self.sorted = Sorted::new(stream, n)?;
        }
        let Sorted { keys, order, points: sorted, .. } = &mut self.sorted;
        self.parts.part_keys(stream, points, self.lower, self.scale, parts, &mut *keys)?;
        self.geometry.algorithms().argsort(stream, &*keys, &mut *order, 0..8)?;
        self.parts.gather(stream, points, &*order, sorted)
    }
}

impl Sorted {
    fn new(stream: &Stream, n: usize) -> Result<Self> {
        Ok(Self {
            keys: DeviceBuffer::zeroed(stream, n)?,
            order: DeviceBuffer::zeroed(stream, n)?,
            points: DeviceBuffer::zeroed(stream, n)?,
            distances: DeviceBuffer::zeroed(stream, n)?,
        })
    }
}

impl Shard {
    fn new(context: &Context, mesh: &Mesh<'_>, chunk: usize) -> Result<Self> {
        let queries = context.stream()?;
        let mut points = DeviceBuffer::zeroed(&queries, mesh.points().len())?;
        points.as_slice_mut().copy_from_peer(&queries, mesh.points())?;
        let mut faces = DeviceBuffer::zeroed(&queries, mesh.faces().len())?;
        faces.as_slice_mut().copy_from_peer(&queries, mesh.faces())?;
        let options = MeshOptions::default();
        Ok(Self {
            mesh: Mesh::build(&queries, &GeometryKernels::new(context), points, faces, options)?,
            copies: [context.stream()?, context.stream()?],
            points: [
                DeviceBuffer::zeroed(&queries, chunk)?,
                DeviceBuffer::zeroed(&queries, chunk)?,
            ],
            distances: [
                DeviceBuffer::zeroed(&queries, chunk)?,
                DeviceBuffer::zeroed(&queries, chunk)?,
            ],
            span: Span::new(&queries)?,
            queries,
        })
    }

    /// Fetches a chunk of points, computes, and sends the results back.
    fn compute(&mut self, buffer: usize, range: Range<usize>, sorted: &mut Sorted) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let [fetch, send] = &self.copies;
        let mut here = self.points[buffer].slice_mut(..range.len())?;
        here.copy_from_peer(fetch, sorted.points.slice(range.clone())?)?;
        let mut out = self.distances[buffer].slice_mut(..range.len())?;
        let queries = PointQueries::at(&here);
        self.mesh.signed_distances(&self.queries, &queries, Sign::Normal, &mut out)?;
        sorted.distances.slice_mut(range)?.copy_from_peer(send, out.as_slice())
    }
}
