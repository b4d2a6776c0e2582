//! Signed distances of points on one device, computed by all devices.

use std::ops::Range;

use cuda_safe::{Context, DeviceBuffer, Error, Result, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::{Mesh, MeshOptions, PointQueries, Sign, TriangleMesh};

/// A mesh on several devices, the first of which has the points.
#[derive(Debug)]
pub struct ShardedMesh {
    first: (Mesh<'static>, Stream),
    others: Vec<Shard>,
    chunk: usize,
}

/// The mesh on another device, and memory for two chunks of points: while one is computed, others travel.
#[derive(Debug)]
struct Shard {
    mesh: Mesh<'static>,
    queries: Stream,
    /// For chunks that come, and for results that go.
    copies: [Stream; 2],
    points: [DeviceBuffer<[f32; 3]>; 2],
    distances: [DeviceBuffer<f32>; 2],
}

impl ShardedMesh {
    /// Uploads the mesh to the first device, copies it to the others, and builds it on each. Other devices get points in
    /// chunks of at most `chunk`.
    ///
    /// # Errors
    /// No devices, chunks of 0 points; as [`Mesh::build`].
    pub fn new(contexts: &[Context], mesh: &TriangleMesh, chunk: usize) -> Result<Self> {
        let Some((first, others)) = contexts.split_first() else {
            return Err(Error::invalid("no devices to put the mesh on"));
        };
        if chunk == 0 {
            return Err(Error::invalid("chunks of 0 points; at least 1 is needed"));
        }
        let stream = first.stream()?;
        let options = MeshOptions::default();
        let root = Mesh::upload(&stream, &GeometryKernels::new(first), mesh, options)?;
        let shard = |context: &Context| {
            for (user, owner) in [(context, first), (first, context)] {
                if user.can_access_peer(owner)? {
                    user.enable_peer_access(owner)?;
                }
            }
            let queries = context.stream()?;
            let mut points = DeviceBuffer::zeroed(&queries, root.points().len())?;
            points.as_slice_mut().copy_from_peer(&queries, root.points())?;
            let mut faces = DeviceBuffer::zeroed(&queries, root.faces().len())?;
            faces.as_slice_mut().copy_from_peer(&queries, root.faces())?;
            let geometry = GeometryKernels::new(context);
            let mesh = Mesh::build(&queries, &geometry, points, faces, options)?;
            Ok(Shard {
                mesh,
                copies: [context.stream()?, context.stream()?],
                points: [
                    DeviceBuffer::zeroed(&queries, chunk)?,
                    DeviceBuffer::zeroed(&queries, chunk)?,
                ],
                distances: [
                    DeviceBuffer::zeroed(&queries, chunk)?,
                    DeviceBuffer::zeroed(&queries, chunk)?,
                ],
                queries,
            })
        };
        let others = others.iter().map(shard).collect::<Result<_>>()?;
        Ok(Self { first: (root, stream), others, chunk })
    }

    /// Returns the stream of the first device.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.first.1
    }

    /// Computes the signed distance of each point as [`Mesh::signed_distances`] does, an equal part of them on each
    /// device. Points and distances are memory of the first device. The host does not wait, and later work on
    /// `distances` waits for all devices.
    ///
    /// # Errors
    /// `distances` has another length than `points`; otherwise if the driver returns an error.
    pub fn signed_distances(
        &mut self,
        points: &DeviceBuffer<[f32; 3]>,
        distances: &mut DeviceBuffer<f32>,
    ) -> Result<()> {
        let n = points.len();
        if distances.len() != n {
            return Err(Error::invalid(format!("{} distances for {n} points", distances.len())));
        }
        let parts = self.others.len() + 1;
        let part = |index: usize| n * index / parts..n * (index + 1) / parts;
        // The others first: their points have to travel.
        let chunks = (part(0).len() + 1).div_ceil(self.chunk);
        for number in 0..chunks {
            for (index, shard) in self.others.iter_mut().enumerate() {
                let all = part(index + 1);
                let begin = (all.start + number * self.chunk).min(all.end);
                let range = begin..(begin + self.chunk).min(all.end);
                shard.chunk(number % 2, range, points, distances)?;
            }
        }
        let (mesh, stream) = &self.first;
        let (own, out) = (points.slice(part(0))?, distances.slice_mut(part(0))?);
        mesh.signed_distances(stream, &PointQueries::at(own), Sign::Normal, out)
    }

    /// Makes the first device's stream wait for the results of all devices, as an event for the whole time needs.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn join(&self) -> Result<()> {
        let (_, stream) = &self.first;
        self.others.iter().try_for_each(|shard| {
            let [_, send] = &shard.copies;
            stream.wait_stream(send)
        })
    }
}

impl Shard {
    /// Fetches a chunk of points, computes, and sends the results back.
    fn chunk(
        &mut self,
        buffer: usize,
        range: Range<usize>,
        points: &DeviceBuffer<[f32; 3]>,
        distances: &mut DeviceBuffer<f32>,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let [fetch, send] = &self.copies;
        let mut here = self.points[buffer].slice_mut(..range.len())?;
        here.copy_from_peer(fetch, points.slice(range.clone())?)?;
        let mut out = self.distances[buffer].slice_mut(..range.len())?;
        let queries = PointQueries::at(&here);
        self.mesh.signed_distances(&self.queries, &queries, Sign::Normal, &mut out)?;
        distances.slice_mut(range)?.copy_from_peer(send, out.as_slice())
    }
}
