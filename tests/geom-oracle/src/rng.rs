//! Random meshes that are the same in every run.

pub(crate) use test_support::Rng;

pub(crate) type Soup = (Vec<[f32; 3]>, Vec<[u32; 3]>);

/// Faces between random points, by `kind`: 0 of any shape; 1 with all kinds of degenerate ones; 2 needles of all heights;
/// 3 small ones far from the origin.
pub(crate) fn soup(rng: &mut Rng, faces: usize, kind: usize) -> Soup {
    let mut points = Vec::new();
    let mut corners = Vec::new();
    for face in 0..faces as u32 {
        let a = if kind == 1 { rng.lattice_point() } else { rng.point() };
        let mut next = |reach: f32| {
            let to = if kind == 1 { rng.lattice_point() } else { rng.point() };
            std::array::from_fn(|i| a[i] + (to[i] - a[i]) * reach)
        };
        let (b, c): ([f32; 3], [f32; 3]) = match kind {
            2 => {
                let (b, off): ([f32; 3], [f32; 3]) = (next(1.0), next(1.0));
                let height = 0.5f32.powi(face as i32 % 26);
                (b, std::array::from_fn(|i| b[i] * 0.5 + a[i] * 0.5 + (off[i] - a[i]) * height))
            }
            _ => (next(0.5), next(0.5)),
        };
        let far = if kind == 3 { 4096.0 } else { 0.0 };
        points.extend([a, b, c].map(|p: [f32; 3]| p.map(|x| x + far)));
        corners.push([3 * face, 3 * face + 1, 3 * face + 2]);
        if kind == 1 && face % 7 == 0 {
            corners.push([3 * face, 3 * face, 3 * face + 1]);
        }
    }
    (points, corners)
}

/// A closed surface around the origin, turned outwards: an octahedron, each face cut in four `cuts` times.
pub(crate) fn sphere(cuts: usize) -> Soup {
    let mut points = vec![
        [1.0, 0.0, 0.0],
        [-1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, -1.0, 0.0],
        [0.0, 0.0, 1.0],
        [0.0, 0.0, -1.0],
    ];
    let mut faces = vec![
        [0, 2, 4],
        [2, 1, 4],
        [1, 3, 4],
        [3, 0, 4],
        [2, 0, 5],
        [1, 2, 5],
        [3, 1, 5],
        [0, 3, 5],
    ];
    for _ in 0..cuts {
        let mut middles = std::collections::HashMap::new();
        let mut middle = |p: u32, q: u32| {
            *middles.entry((p.min(q), p.max(q))).or_insert_with(|| {
                let (a, b): ([f32; 3], [f32; 3]) = (points[p as usize], points[q as usize]);
                let m: [f32; 3] = std::array::from_fn(|i| a[i] + b[i]);
                let length = m.iter().map(|x| x * x).sum::<f32>().sqrt();
                points.push(m.map(|x| x / length));
                points.len() as u32 - 1
            })
        };
        let cut = faces.iter().flat_map(|&[a, b, c]| {
            let (ab, bc, ca) = (middle(a, b), middle(b, c), middle(c, a));
            [[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]
        });
        faces = cut.collect();
    }
    (points, faces)
}
