//! BvhQueries: what items may overlap.

use cuda_safe::{
    DeviceBuffer, DeviceSlice, Error, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgType, UseVisitor},
};

use super::build::Tree;
use super::kernels::{Kind, QUERY_BLOCK};
use super::layout::RawQueries;
use crate::lengths::cover;
use crate::part::read;
use crate::points::{MAX_POINTS, Points};
use crate::{Aabb, Ray};

/// What to look for, many at once: boxes, spheres or rays.
///
/// An item is found by its own box, whatever the hierarchy:
/// - by a box ([`BvhQueries::boxes`], or `into()`), if the two have a point in common; touching is enough.
///   A box may be infinite. One that is empty or has a NaN finds nothing;
/// - by a sphere, if the square of the box's distance from the centre, of differences rounded to nearest,
///   is at most the square of the radius. A centre that is not finite, or beyond 2^60, finds nothing, nor
///   does a radius of its own that is negative or NaN;
/// - by a ray, if it meets the box, as `enters` of `geom/math/ray.cuh` says: never missed, and a ray that
///   passes within some ulp of a box may meet it. Beyond what [`Ray`] says, one whose direction has no
///   component of a magnitude of 2^-60 at least, or one above 2^60, finds nothing.
#[derive(Debug, Clone, Copy)]
pub struct BvhQueries<'a> {
    what: What<'a>,
}

#[derive(Debug, Clone, Copy)]
enum What<'a> {
    Boxes(DeviceSlice<'a, Aabb<f32>>),
    Spheres { centers: Points<'a, f32>, radius: f32, radii: Option<DeviceSlice<'a, f32>> },
    Rays(DeviceSlice<'a, Ray>),
}

impl<'a> BvhQueries<'a> {
    /// These boxes.
    #[must_use]
    pub fn boxes(boxes: impl Into<DeviceSlice<'a, Aabb<f32>>>) -> Self {
        Self { what: What::Boxes(boxes.into()) }
    }

    /// Spheres of one radius, which may be infinite.
    #[must_use]
    pub fn spheres(centers: impl Into<Points<'a, f32>>, radius: f32) -> Self {
        Self { what: What::Spheres { centers: centers.into(), radius, radii: None } }
    }

    /// Spheres of a radius each.
    #[must_use]
    pub fn spheres_of(
        centers: impl Into<Points<'a, f32>>,
        radii: impl Into<DeviceSlice<'a, f32>>,
    ) -> Self {
        let radii = Some(radii.into());
        Self { what: What::Spheres { centers: centers.into(), radius: 0.0, radii } }
    }

    /// These rays.
    #[must_use]
    pub fn rays(rays: impl Into<DeviceSlice<'a, Ray>>) -> Self {
        Self { what: What::Rays(rays.into()) }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.what {
            What::Boxes(boxes) => boxes.len(),
            What::Spheres { centers, .. } => centers.len(),
            What::Rays(rays) => rays.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are, once they have been checked.
    pub(super) fn check(&self) -> Result<usize> {
        let n = self.len();
        if n > MAX_POINTS {
            return Err(Error::invalid(format!("{n} queries; at most 2^30 are possible")));
        }
        if let What::Spheres { radius, radii, .. } = &self.what {
            // Written so that a NaN is refused.
            let is_radius = *radius >= 0.0;
            if !is_radius {
                return Err(Error::invalid(format!("{radius:?} is no radius")));
            }
            if let Some(radii) = radii.filter(|radii| radii.len() != n) {
                return Err(Error::invalid(format!("{} radii for {n} queries", radii.len())));
            }
        }
        Ok(n)
    }

    pub(crate) fn kind(&self) -> Kind {
        match &self.what {
            What::Boxes(_) => Kind::Boxes,
            What::Spheres { .. } => Kind::Spheres,
            What::Rays(_) => Kind::Rays,
        }
    }

    /// A launch with a thread for each. (Without any it is none.)
    pub(super) fn launch(&self) -> LaunchConfig {
        LaunchConfig::cover(self.len(), QUERY_BLOCK)
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

/// BvhQueries, and in which order threads take them.
#[derive(Debug)]
pub(crate) struct Ordered<'a> {
    queries: &'a BvhQueries<'a>,
    order: Option<DeviceBuffer<u32>>,
}

/// From how many queries on sorting them pays.
const SORTED_FROM: usize = 32_768;

/// Bits of the keys that queries are sorted by: `bvh::morton` in device/geom/bvh/order.cuh.
const KEY_BITS: u32 = 30;

impl<'a> Ordered<'a> {
    /// Checked queries: sorted along a curve through the hierarchy's bounds, if that pays. Rays are
    /// taken as they are given.
    pub(super) fn new(stream: &Stream, tree: &Tree, queries: &'a BvhQueries<'a>) -> Result<Self> {
        let (n, kind) = (queries.len(), queries.kind());
        let plain = Self { queries, order: None };
        if n < SORTED_FROM || tree.length == 0 || kind == Kind::Rays {
            return Ok(plain);
        }
        let make = |keys: &mut DeviceBuffer<u32>| {
            let header = tree.memory.read(&tree.memory.header);
            let args = (header, &plain, u32::from(kind == Kind::Boxes), keys);
            // SAFETY: writes a key for each query.
            unsafe { tree.kernels.query_keys()?.launch(stream, cover(n), args) }
        };
        let places = tree.sort.kernels().sort_indices::<u32>(stream, n, KEY_BITS, make)?;
        Ok(Self { queries, order: Some(places.into_indices()) })
    }
}

// SAFETY: the kernels read what belongs to queries below `length`: of boxes and rays all that there are, of
// centres those that lie in what `Points` reports, and of radii as many (`BvhQueries::check`). Which kind they
// are the kernel knows, which is chosen by `BvhQueries::kind`. The order names each of them once.
unsafe impl KernelArg for &Ordered<'_> {
    type Abi = RawQueries;
    const TYPE: ArgType = ArgType::value::<RawQueries>();

    fn abi(&self) -> RawQueries {
        // At most 2^30.
        let length = self.queries.len() as u32;
        let order = self.order.as_ref().map_or(0, DeviceBuffer::device_ptr);
        let (stride, component, radii, radius) = (0, 0, 0, 0.0);
        let plain = |data| RawQueries { data, stride, component, radii, radius, length, order };
        match &self.queries.what {
            What::Boxes(boxes) => plain(boxes.device_ptr()),
            What::Rays(rays) => plain(rays.device_ptr()),
            What::Spheres { centers, radius, radii } => {
                let (stride, component) = centers.strides();
                let radii = radii.map_or(0, |radii| radii.device_ptr());
                let data = centers.address();
                RawQueries { data, stride, component, radii, radius: *radius, length, order }
            }
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        if let Some(order) = &self.order {
            read(visitor, &order.as_slice())?;
        }
        match &self.queries.what {
            What::Boxes(boxes) => read(visitor, boxes),
            What::Rays(rays) => read(visitor, rays),
            What::Spheres { centers, radii, .. } => {
                centers.uses(visitor)?;
                radii.as_ref().map_or(Ok(()), |radii| read(visitor, radii))
            }
        }
    }
}
