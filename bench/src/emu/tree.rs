//! A tree of boxes over points, for a walk in which each lane takes its own way.

/// A node, as in `kernels.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Node {
    lo: [f32; 3],
    /// The first child, whose sibling is next to it; the first point of a leaf.
    left: i32,
    hi: [f32; 3],
    /// The points of a leaf; 0 for an inner node.
    count: i32,
}

/// The tree over the points, which it sorts; the root is the first node.
pub(crate) fn tree(points: &mut [[f32; 3]]) -> Vec<Node> {
    let mut nodes = vec![Node { lo: [0.0; 3], left: 0, hi: [0.0; 3], count: 0 }];
    build(&mut nodes, 0, points, 0);
    nodes
}

/// Builds the nodes below `at` by halving the points along the longest side.
fn build(nodes: &mut Vec<Node>, at: usize, points: &mut [[f32; 3]], first: usize) {
    let (mut lo, mut hi) = ([f32::MAX; 3], [f32::MIN; 3]);
    for point in points.iter() {
        for k in 0..3 {
            lo[k] = lo[k].min(point[k]);
            hi[k] = hi[k].max(point[k]);
        }
    }
    if points.len() <= 4 {
        nodes[at] = Node { lo, left: first as i32, hi, count: points.len() as i32 };
        return;
    }
    let side = |k: &usize| hi[*k] - lo[*k];
    let axis = (0..3).max_by(|a, b| side(a).total_cmp(&side(b))).unwrap_or(0);
    let half = points.len() / 2;
    points.select_nth_unstable_by(half, |a, b| a[axis].total_cmp(&b[axis]));
    let left = nodes.len();
    nodes.extend([nodes[at]; 2]);
    nodes[at] = Node { lo, left: left as i32, hi, count: 0 };
    let (below, above) = points.split_at_mut(half);
    build(nodes, left, below, first);
    build(nodes, left + 1, above, first + half);
}

/// The squared distance to the closest point, in f64.
pub(crate) fn nearest_brute_force(points: &[[f32; 3]], query: [f32; 3]) -> f64 {
    let squared = |point: &[f32; 3]| {
        (0..3).map(|k| (f64::from(point[k]) - f64::from(query[k])).powi(2)).sum::<f64>()
    };
    points.iter().map(squared).fold(f64::INFINITY, f64::min)
}
