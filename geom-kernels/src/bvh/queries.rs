//! Queries of the items that overlap boxes, spheres or rays.

use cuda_safe::{
    DeviceBuffer, DeviceSlice, Error, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgType, UseVisitor},
};

use super::build::Tree;
use super::layout::RawQueries;
use super::lists::Query;
use crate::lengths::cover;
use crate::order::QueryOrder;
use crate::part::read;
use crate::points::{MAX_POINTS, Points};
use crate::{Aabb, Ray};

/// Threads in a block of queries.
const BLOCK: u32 = 128;

/// The kind of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Boxes,
    Spheres,
    Rays,
}

/// An array of queries: boxes, spheres or rays.
///
/// Only an item's own box decides whether the item is found, not the hierarchy:
/// - by a box ([`BvhQueries::boxes`], or `into()`), if the two have a point in common; touching is enough.
///   A box may be infinite. A box that is empty or has a NaN finds nothing;
/// - by a sphere, if the square of the box's distance from the centre, of differences rounded to nearest,
///   is at most the square of the radius. A centre that is not finite, or beyond 2^60, finds nothing, nor does a radius
///   that is negative or NaN;
/// - by a ray, if it meets the box, as defined by `enters` of `geom/math/ray.cuh`: no box is missed, and a ray that
///   passes a box within some ulp may meet it. In addition to the conditions of [`Ray`], a ray whose largest
///   direction component is not from 2^-60 to 2^60 in magnitude finds nothing.
#[derive(Debug, Clone, Copy)]
pub struct BvhQueries<'a> {
    what: What<'a>,
    /// The radius of spheres; 0 for other queries.
    radius: f32,
    radii: Option<DeviceSlice<'a, f32>>,
    order: QueryOrder,
}

#[derive(Debug, Clone, Copy)]
enum What<'a> {
    Boxes(DeviceSlice<'a, Aabb<f32>>),
    Spheres(Points<'a, f32>),
    Rays(DeviceSlice<'a, Ray>),
}

impl<'a> BvhQueries<'a> {
    fn new(what: What<'a>) -> Self {
        Self { what, radius: 0.0, radii: None, order: QueryOrder::Auto }
    }

    /// Creates queries by these boxes.
    #[must_use]
    pub fn boxes(boxes: impl Into<DeviceSlice<'a, Aabb<f32>>>) -> Self {
        Self::new(What::Boxes(boxes.into()))
    }

    /// Creates queries by spheres of one radius, which may be infinite; [`within_each`](Self::within_each) sets a
    /// radius for each.
    #[must_use]
    pub fn spheres(centers: impl Into<Points<'a, f32>>, radius: f32) -> Self {
        Self::new(What::Spheres(centers.into())).within(radius)
    }

    /// Creates queries by these rays.
    #[must_use]
    pub fn rays(rays: impl Into<DeviceSlice<'a, Ray>>) -> Self {
        Self::new(What::Rays(rays.into()))
    }

    /// Sets the radius of all spheres. Queries by boxes or rays with a radius are refused.
    #[must_use]
    pub fn within(self, radius: f32) -> Self {
        Self { radius, radii: None, ..self }
    }

    /// Sets a radius for each sphere. Queries by boxes or rays with radii are refused.
    #[must_use]
    pub fn within_each(self, radii: impl Into<DeviceSlice<'a, f32>>) -> Self {
        Self { radius: 0.0, radii: Some(radii.into()), ..self }
    }

    /// Sets the order in which boxes and spheres are processed. Rays are processed in their order.
    #[must_use]
    pub fn order(self, order: QueryOrder) -> Self {
        Self { order, ..self }
    }

    /// Returns the number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.what {
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

    fn check(&self) -> Result<()> {
        let n = self.len();
        if n > MAX_POINTS {
            return Err(Error::invalid(format!("{n} queries; at most 2^30 are possible")));
        }
        // A NaN fails this comparison, so it is refused.
        let is_radius = self.radius >= 0.0;
        if !is_radius {
            return Err(Error::invalid(format!("{:?} is no radius", self.radius)));
        }
        if self.kind() != Kind::Spheres && (self.radius > 0.0 || self.radii.is_some()) {
            return Err(Error::invalid("boxes and rays have no radius")
                .with_hint("`BvhQueries::spheres` makes queries that have one"));
        }
        if let Some(radii) = self.radii.filter(|radii| radii.len() != n) {
            return Err(Error::invalid(format!("{} radii for {n} queries", radii.len())));
        }
        Ok(())
    }

    pub(crate) fn kind(&self) -> Kind {
        match &self.what {
            What::Boxes(_) => Kind::Boxes,
            What::Spheres(_) => Kind::Spheres,
            What::Rays(_) => Kind::Rays,
        }
    }
}

impl<'a> From<&BvhQueries<'a>> for BvhQueries<'a> {
    fn from(queries: &BvhQueries<'a>) -> Self {
        *queries
    }
}

impl<'a> From<DeviceSlice<'a, Aabb<f32>>> for BvhQueries<'a> {
    fn from(boxes: DeviceSlice<'a, Aabb<f32>>) -> Self {
        Self::boxes(boxes)
    }
}

impl<'a> From<&'a DeviceBuffer<Aabb<f32>>> for BvhQueries<'a> {
    fn from(boxes: &'a DeviceBuffer<Aabb<f32>>) -> Self {
        Self::boxes(boxes)
    }
}

impl<'a> From<DeviceSlice<'a, Ray>> for BvhQueries<'a> {
    fn from(rays: DeviceSlice<'a, Ray>) -> Self {
        Self::rays(rays)
    }
}

impl<'a> From<&'a DeviceBuffer<Ray>> for BvhQueries<'a> {
    fn from(rays: &'a DeviceBuffer<Ray>) -> Self {
        Self::rays(rays)
    }
}

/// Checked queries, and the order in which threads process them: `geom::bvh::Queries` to a kernel.
#[derive(Debug)]
pub(crate) struct Ordered<'a> {
    queries: &'a BvhQueries<'a>,
    order: Option<DeviceBuffer<u32>>,
}

/// The bits of the sort keys of queries: `bvh::morton` in device/geom/bvh/order.cuh.
const KEY_BITS: u32 = 30;

impl<'a> Ordered<'a> {
    /// Checks the queries, and sorts them along a Morton curve through the hierarchy's bounds if that pays. Rays keep
    /// their order.
    pub(crate) fn new(stream: &Stream, tree: &Tree, queries: &'a BvhQueries<'a>) -> Result<Self> {
        queries.check()?;
        let (n, kind) = (queries.len(), queries.kind());
        let plain = Self { queries, order: None };
        if !queries.order.sorts(n) || tree.length == 0 || kind == Kind::Rays {
            return Ok(plain);
        }
        let make = |keys: &mut DeviceBuffer<u32>| {
            let header = tree.memory.read(&tree.memory.header);
            let (launch, boxes) = (cover(n), u32::from(kind == Kind::Boxes));
            let kernels = tree.geometry.kernels::<Query>()?;
            // SAFETY: there are as many keys, and `kind` is the kind of the queries.
            unsafe { kernels.query_keys(stream, launch, header, &plain, boxes, keys) }
        };
        let places = tree.sort.kernels().sort_indices::<u32>(stream, n, KEY_BITS, make)?;
        Ok(Self { queries, order: Some(places.into_indices()) })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.queries.kind()
    }

    /// Returns a launch with a thread for each query. (It launches nothing for no queries.)
    pub(crate) fn launch(&self) -> LaunchConfig {
        LaunchConfig::cover(self.queries.len(), BLOCK)
    }
}

// SAFETY: the kernels read the data of queries below `length`: all boxes or rays, or the centres in the memory that
// `Points` reports and as many radii (`BvhQueries::check`). `BvhQueries::kind` chooses the kernel of the queries' kind.
// The order names each of them once.
unsafe impl KernelArg for &Ordered<'_> {
    type Abi = RawQueries;
    const TYPE: ArgType = ArgType::value::<RawQueries>();

    fn abi(&self) -> RawQueries {
        let BvhQueries { what, radius, radii, .. } = self.queries;
        let (data, (stride, component)) = match what {
            What::Boxes(boxes) => (boxes.device_ptr(), (0, 0)),
            What::Rays(rays) => (rays.device_ptr(), (0, 0)),
            What::Spheres(centers) => (centers.address(), centers.strides()),
        };
        RawQueries {
            data,
            stride,
            component,
            radii: radii.map_or(0, |radii| radii.device_ptr()),
            radius: *radius,
            // The number is at most 2^30.
            length: self.queries.len() as u32,
            order: self.order.as_ref().map_or(0, DeviceBuffer::device_ptr),
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        if let Some(order) = &self.order {
            read(visitor, &order.as_slice())?;
        }
        match &self.queries.what {
            What::Boxes(boxes) => read(visitor, boxes)?,
            What::Rays(rays) => read(visitor, rays)?,
            What::Spheres(centers) => centers.uses(visitor)?,
        }
        self.queries.radii.as_ref().map_or(Ok(()), |radii| read(visitor, radii))
    }
}
