//! The kernels of hierarchies.

use cuda_safe::{Kernel, LaunchConfig, Result};

use crate::geometry::{GeometryKernels, Group, Source};

/// Threads in a block of kernels whose threads wait for others: the sooner a block can end, the better.
const SMALL_BLOCK: u32 = 128;

/// Blocks that make nodes: those that have none to make only ask whether there will be one.
const MOST_COLLAPSE_BLOCKS: usize = 528;

/// Threads in a block of queries.
pub(super) const QUERY_BLOCK: u32 = 128;

/// What queries are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Boxes,
    Spheres,
    Rays,
}

/// They are loaded when they are first asked for.
#[derive(Debug)]
pub(super) struct Kernels {
    geometry: GeometryKernels,
    build: Group<3>,
    cluster: Group<1>,
    boxes: Group<3>,
    queries: Group<7>,
}

/// Those that build, whatever from.
pub(super) struct Build<'a> {
    pub(super) keys: &'a Kernel,
    pub(super) radix: &'a Kernel,
    pub(super) collapse: &'a Kernel,
}

impl Kernels {
    pub(super) fn new(geometry: &GeometryKernels) -> Self {
        Self {
            geometry: geometry.clone(),
            build: Group::default(),
            cluster: Group::default(),
            boxes: Group::default(),
            queries: Group::default(),
        }
    }

    pub(super) fn build(&self) -> Result<Build<'_>> {
        let names = || ["bvh_keys", "bvh_radix", "bvh_collapse"].map(String::from);
        let [keys, radix, collapse] = self.build.get(&self.geometry, Source::BvhBuild, names)?;
        Ok(Build { keys, radix, collapse })
    }

    /// The builder by nearness.
    pub(super) fn cluster(&self) -> Result<&Kernel> {
        let names = || ["bvh_cluster"].map(String::from);
        self.cluster.get(&self.geometry, Source::BvhCluster, names).map(|[cluster]| cluster)
    }

    /// What finds the bounds of boxes in an array.
    pub(super) fn bound_boxes(&self) -> Result<&Kernel> {
        self.boxes().map(|[bound, ..]| bound)
    }

    /// What refits to boxes in an array.
    pub(super) fn refit_boxes(&self) -> Result<&Kernel> {
        self.boxes().map(|[_, refit, _]| refit)
    }

    /// What writes the boxes of items in the order of leaves.
    pub(super) fn keep_boxes(&self) -> Result<&Kernel> {
        self.boxes().map(|[.., keep]| keep)
    }

    fn boxes(&self) -> Result<&[Kernel; 3]> {
        let names = || ["bvh_bound_boxes", "bvh_refit_boxes", "bvh_keep_boxes"].map(String::from);
        self.boxes.get(&self.geometry, Source::BvhBoxes, names)
    }

    /// What counts, and what lists, the items that overlap queries of a kind.
    pub(super) fn queries(&self, kind: Kind) -> Result<[&Kernel; 2]> {
        let [b0, b1, s0, s1, r0, r1, _] = self.all_queries()?;
        Ok(match kind {
            Kind::Boxes => [b0, b1],
            Kind::Spheres => [s0, s1],
            Kind::Rays => [r0, r1],
        })
    }

    /// What tells where queries lie on a curve.
    pub(super) fn query_keys(&self) -> Result<&Kernel> {
        self.all_queries().map(|[.., keys]| keys)
    }

    fn all_queries(&self) -> Result<&[Kernel; 7]> {
        let names = || {
            [
                "bvh_count_boxes",
                "bvh_list_boxes",
                "bvh_count_spheres",
                "bvh_list_spheres",
                "bvh_count_rays",
                "bvh_list_rays",
                "bvh_query_keys",
            ]
            .map(String::from)
        };
        self.queries.get(&self.geometry, Source::BvhQuery, names)
    }
}

/// The same in small blocks.
pub(super) fn cover_small(n: usize) -> LaunchConfig {
    LaunchConfig::cover(n.max(1), SMALL_BLOCK)
}

/// For the kernel that makes up to `nodes` nodes.
pub(super) fn cover_nodes(nodes: usize) -> LaunchConfig {
    let blocks = nodes.div_ceil(SMALL_BLOCK as usize).clamp(1, MOST_COLLAPSE_BLOCKS);
    LaunchConfig::new(blocks as u32, SMALL_BLOCK)
}
