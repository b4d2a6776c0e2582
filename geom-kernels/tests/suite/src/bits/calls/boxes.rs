//! `geom_kernels::bvh`.

use cuda_safe::DeviceBuffer;
use geom_kernels::bvh::{BuildMode, Bvh, BvhNode, BvhQueries, BvhReport};
use geom_kernels::{Aabb, Ray};

use super::{Got, Lab, word};

pub(in super::super) const BUILDERS: [(&str, BuildMode); 2] =
    [("fast", BuildMode::Fast), ("quality", BuildMode::Quality)];

pub(in super::super) fn bvh(
    lab: &Lab,
    boxes: &DeviceBuffer<Aabb<f32>>,
    how: BuildMode,
) -> Got<Bvh> {
    Ok(Bvh::build(&lab.stream, &lab.geometry, boxes, how)?)
}

pub(in super::super) fn empty_bvh(lab: &Lab, capacity: usize, how: BuildMode) -> Got<Bvh> {
    Ok(Bvh::new(&lab.stream, &lab.geometry, capacity, how)?)
}

pub(in super::super) fn rebuild_bvh(
    lab: &Lab,
    bvh: &mut Bvh,
    boxes: &DeviceBuffer<Aabb<f32>>,
) -> Got<()> {
    Ok(bvh.rebuild(&lab.stream, boxes)?)
}

pub(in super::super) fn refit_bvh(
    lab: &Lab,
    bvh: &mut Bvh,
    boxes: &DeviceBuffer<Aabb<f32>>,
) -> Got<()> {
    Ok(bvh.refit(&lab.stream, boxes)?)
}

/// Items, items skipped, nodes, depth, and the bits of the bounds.
pub(in super::super) fn report_words(report: &BvhReport) -> Vec<u64> {
    let bounds = report.bounds.map_or([[0; 3]; 2], |bounds| {
        [bounds.lower, bounds.upper].map(|corner| corner.map(|x| u64::from(x.to_bits())))
    });
    let mut words = [report.items, report.skipped, report.nodes, report.depth].map(word).to_vec();
    words.extend(bounds.as_flattened());
    words
}

/// The nodes' boxes, items and kinds, sorted: their numbers depend on the order in which blocks take them.
pub(in super::super) fn sorted_nodes(nodes: &[BvhNode]) -> Vec<u8> {
    let one = |node: &BvhNode| {
        let bounds = [node.lower.as_flattened(), node.upper.as_flattened()].concat();
        let mut words: Vec<u32> = bounds.into_iter().map(f32::to_bits).collect();
        words.extend([node.inner, node.first, node.count]);
        words
    };
    let mut all: Vec<Vec<u32>> = nodes.iter().map(one).collect();
    all.sort_unstable();
    bytemuck::cast_slice(&all.concat()).to_vec()
}

/// The nodes, sorted, and the items.
pub(in super::super) fn bvh_parts(lab: &Lab, bvh: &Bvh) -> Got<(Vec<u8>, Vec<u32>)> {
    let (nodes, items) = bvh.parts(&lab.stream)?;
    Ok((sorted_nodes(&nodes), items))
}

pub(in super::super) fn in_boxes(boxes: &DeviceBuffer<Aabb<f32>>) -> BvhQueries<'_> {
    BvhQueries::boxes(boxes)
}

pub(in super::super) fn in_spheres(
    centers: &DeviceBuffer<[f32; 3]>,
    radius: f32,
) -> BvhQueries<'_> {
    BvhQueries::spheres(centers, radius)
}

pub(in super::super) fn in_spheres_of<'a>(
    centers: &'a DeviceBuffer<[f32; 3]>,
    radii: &'a DeviceBuffer<f32>,
) -> BvhQueries<'a> {
    BvhQueries::spheres(centers, 0.0).within_each(radii)
}

pub(in super::super) fn on_rays(rays: &DeviceBuffer<Ray>) -> BvhQueries<'_> {
    BvhQueries::rays(rays)
}

pub(in super::super) fn overlap_counts(
    lab: &Lab,
    bvh: &Bvh,
    queries: BvhQueries<'_>,
) -> Got<Vec<u32>> {
    lab.filled(queries.len(), |counts| bvh.count_overlaps(&lab.stream, queries, counts))
}

/// Offsets and indices.
pub(in super::super) fn overlap_lists(
    lab: &Lab,
    bvh: &Bvh,
    queries: BvhQueries<'_>,
) -> Got<(Vec<u64>, Vec<u32>)> {
    let lists = bvh.overlap_lists(&lab.stream, queries)?;
    Ok((lab.down(&lists.offsets)?, lab.down(&lists.indices)?))
}

pub(in super::super) fn overlap_lists_into(
    lab: &Lab,
    bvh: &Bvh,
    queries: BvhQueries<'_>,
    room: usize,
) -> Got<(Vec<u64>, Vec<u32>)> {
    lab.filled_both((queries.len() + 1, room), |offsets, indices| {
        bvh.overlap_lists_into(&lab.stream, queries, offsets, indices)
    })
}
