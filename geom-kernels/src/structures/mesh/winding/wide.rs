//! Nodes with four children, as a device builds them: `geom/bvh/build_collapse.cuh`. Only the numbers of nodes differ.

use super::super::block::face_of;
use super::super::exact::three;
use super::super::triangle::{Triangle, bounds, is_valid, normal};
use super::binary::{Binary, Cluster, half_area, unite};
use crate::Aabb;
use crate::bvh::BuildMode;

/// The most faces of a leaf.
const LEAF_SIZE: u32 = 4;
/// The number of no child and no node.
pub(super) const NOTHING: u32 = u32::MAX;
/// The bit of children that are leaves.
const LEAF: u32 = 1 << 31;

/// Returns the places of a leaf's triangles; `None` if the child is no leaf.
pub(super) fn places_of(child: u32) -> Option<std::ops::Range<usize>> {
    let (first, count) = ((child & 0x0fff_ffff) as usize, (child >> 28 & 7) as usize + 1);
    (child & LEAF != 0 && child != NOTHING).then(|| first..first + count)
}

/// A node.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The boxes of the children.
    pub(super) bounds: [Aabb<f32>; 4],
    /// Nodes, leaves or nothing, as in `geom::BvhNode`.
    pub(super) children: [u32; 4],
    /// The parent's index times 4, plus the index of this child in it.
    pub(super) parent: u32,
}

/// A triangle in the order of leaves.
#[derive(Debug, Clone)]
pub(super) struct Corners {
    /// The corners in the order of their vertices' indices; NaN if the face is skipped.
    pub(super) ordered: Triangle,
    /// Whether that order has reversed the orientation.
    pub(super) turned: bool,
    /// Whether it has an area.
    pub(super) has_area: bool,
}

impl Corners {
    fn new(points: &[[f32; 3]], faces: &[[u32; 3]], face: u32) -> Self {
        let Some((index, mut ordered)) = face_of(points, faces, face) else {
            return Self { ordered: [[f32::NAN; 3]; 3], turned: false, has_area: false };
        };
        let mut order = index;
        let mut turned = false;
        for (low, high) in [(0, 1), (1, 2), (0, 1)] {
            if order[low] > order[high] {
                order.swap(low, high);
                ordered.swap(low, high);
                turned = !turned;
            }
        }
        Self { ordered, turned, has_area: normal(ordered) != [0.0; 3] }
    }

    /// Returns the box; `None` if the face is skipped.
    fn bounds(&self) -> Option<Aabb<f32>> {
        self.ordered.iter().all(|p| is_valid(*p)).then(|| bounds(self.ordered))
    }
}

/// A hierarchy with the order of a device's.
#[derive(Debug, Clone)]
pub(super) struct Wide {
    /// The root is the first, and parents come before their children.
    pub(super) nodes: Vec<Node>,
    /// The faces in the order of leaves.
    faces: Vec<u32>,
    pub(super) triangles: Vec<Corners>,
}

impl Wide {
    /// Builds the hierarchy over the faces that are not skipped.
    pub(super) fn new(points: &[[f32; 3]], faces: &[[u32; 3]], mode: BuildMode) -> Self {
        let binary = Binary::new(points, faces, mode);
        let mut all = Self { nodes: Vec::new(), faces: Vec::new(), triangles: Vec::new() };
        let row = match binary.root {
            Some(root) if root.count > LEAF_SIZE => binary.nodes[root.id as usize].to_vec(),
            root => root.into_iter().collect(),
        };
        all.collapse(&binary, row, NOTHING);
        all.triangles = all.faces.iter().map(|face| Corners::new(points, faces, *face)).collect();
        all.fit();
        all
    }

    /// Updates the triangles and the boxes to points that have moved.
    pub(super) fn refit(&mut self, points: &[[f32; 3]], faces: &[[u32; 3]]) {
        for (to, face) in self.triangles.iter_mut().zip(&self.faces) {
            *to = Corners::new(points, faces, *face);
        }
        self.fit();
    }

    /// Makes a node of these children, and the nodes below; returns its number.
    fn collapse(&mut self, binary: &Binary, mut row: Vec<Cluster>, parent: u32) -> u32 {
        // Of those with the largest surface, the first is opened.
        while row.len() < 4 {
            let opens = row.iter().enumerate().filter(|(_, child)| child.count > LEAF_SIZE);
            let area = |child: &Cluster| half_area(&child.bounds).to_bits();
            let Some((at, id)) = opens
                .rev()
                .max_by_key(|(_, child)| area(child))
                .map(|(at, child)| (at, child.id as usize))
            else {
                break;
            };
            row.splice(at..=at, binary.nodes[id]);
        }
        let number = self.nodes.len() as u32;
        let (bounds, children) = ([Aabb::<f32>::EMPTY; 4], [NOTHING; 4]);
        self.nodes.push(Node { bounds, children, parent });
        // Items lie in the order of children, and those of a child below its own.
        for (lane, child) in row.into_iter().enumerate() {
            let word = if child.count > LEAF_SIZE {
                let row = binary.nodes[child.id as usize].to_vec();
                self.collapse(binary, row, 4 * number + lane as u32)
            } else {
                let first = self.faces.len() as u32;
                self.add_items(binary, &child);
                LEAF | (child.count - 1) << 28 | first
            };
            self.nodes[number as usize].children[lane] = word;
        }
        number
    }

    /// Adds the faces below a cluster, from left to right.
    fn add_items(&mut self, binary: &Binary, of: &Cluster) {
        if of.count == 1 {
            self.faces.push(of.id);
            return;
        }
        for child in binary.nodes[of.id as usize] {
            self.add_items(binary, &child);
        }
    }

    /// Computes the boxes of all nodes, from the leaves to the root.
    fn fit(&mut self) {
        for number in (0..self.nodes.len()).rev() {
            for (lane, child) in self.nodes[number].children.into_iter().enumerate() {
                if let Some(places) = places_of(child) {
                    let boxes = self.triangles[places].iter().filter_map(Corners::bounds);
                    self.nodes[number].bounds[lane] =
                        boxes.fold(Aabb::<f32>::EMPTY, |all, of| unite(&all, &of));
                }
            }
            let Node { bounds, parent, .. } = &self.nodes[number];
            let all = bounds.iter().fold(Aabb::<f32>::EMPTY, |all, of| unite(&all, of));
            let (up, lane) = ((*parent / 4) as usize, (*parent % 4) as usize);
            if let Some(parent) = self.nodes[..number].get_mut(up) {
                parent.bounds[lane] = all;
            }
        }
    }

    /// Returns the distance from a point to the farthest point of a child's box.
    #[inline(always)]
    pub(super) fn reach(node: &Node, lane: usize, from: [f64; 3]) -> f64 {
        let Aabb { lower, upper } = &node.bounds[lane % 4];
        let d = three(|axis| {
            let (below, above) =
                (from[axis] - f64::from(lower[axis]), f64::from(upper[axis]) - from[axis]);
            if below > above { below } else { above }
        });
        super::super::exact::length_squared(d).sqrt()
    }
}
