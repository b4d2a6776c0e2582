//! Boxes of all kinds.

use geom_kernels::Aabb;

use test_harness::Rng;

/// Boxes, and what they are called.
pub(super) struct Input {
    pub(super) name: &'static str,
    pub(super) boxes: Vec<Aabb<f32>>,
}

/// The box of a small triangle near `at`.
pub(super) fn triangle(rng: &mut Rng, at: [f32; 3], size: f32) -> Aabb<f32> {
    let mut corner = || std::array::from_fn(|axis| at[axis] + size * rng.float());
    around([corner(), corner(), corner()])
}

/// Small boxes all over a cube.
pub(super) fn uniform(rng: &mut Rng, n: usize) -> Vec<Aabb<f32>> {
    (0..n)
        .map(|_| {
            let at = [rng.float(), rng.float(), rng.float()];
            triangle(rng, at, 0.02)
        })
        .collect()
}

/// The triangles of a bumpy plane: neighbours in the list are neighbours in space.
pub(super) fn surface(rng: &mut Rng, side: usize) -> Vec<Aabb<f32>> {
    let heights = rng.floats((side + 1) * (side + 1));
    let point = |x: usize, y: usize| [x as f32, y as f32, 0.3 * heights[y * (side + 1) + x]];
    halves(side, side, point)
}

/// Of each quadrilateral of a grid both halves.
fn halves(width: usize, height: usize, point: impl Fn(usize, usize) -> [f32; 3]) -> Vec<Aabb<f32>> {
    let mut boxes = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for corners in [[(0, 0), (1, 0), (0, 1)], [(1, 1), (0, 1), (1, 0)]] {
                boxes.push(around(corners.map(|(dx, dy)| point(x + dx, y + dy))));
            }
        }
    }
    boxes
}

/// The smallest box with these points.
pub(super) fn around(points: [[f32; 3]; 3]) -> Aabb<f32> {
    Aabb {
        lower: std::array::from_fn(|axis| {
            points.map(|p| p[axis]).iter().copied().fold(f32::INFINITY, f32::min)
        }),
        upper: std::array::from_fn(|axis| {
            points.map(|p| p[axis]).iter().copied().fold(f32::NEG_INFINITY, f32::max)
        }),
    }
}

/// Triangles of very different sizes, all over a cube.
pub(super) fn soup(rng: &mut Rng, n: usize) -> Vec<Aabb<f32>> {
    (0..n)
        .map(|_| {
            let at = [rng.float(), rng.float(), rng.float()];
            let size = (5.0 * rng.float() - 5.0).exp2();
            triangle(rng, at, size)
        })
        .collect()
}

/// The triangles of a sphere with bumps: `rings` rings of twice as many quadrilaterals, each halved.
pub(super) fn sphere(rng: &mut Rng, rings: usize) -> Vec<Aabb<f32>> {
    let sides = 2 * rings;
    let radii: Vec<f32> = (0..(rings + 1) * sides).map(|_| 1.0 + 0.05 * rng.float()).collect();
    let point = |ring: usize, side: usize| {
        let side = side % sides;
        let r = radii[ring * sides + side];
        let theta = std::f32::consts::PI * ring as f32 / rings as f32;
        let phi = std::f32::consts::PI * side as f32 / rings as f32;
        [r * theta.sin() * phi.cos(), r * theta.sin() * phi.sin(), r * theta.cos()]
    };
    halves(sides, rings, |side, ring| point(ring, side))
}

/// A box that is not one: each kind in turn.
pub(super) fn invalid(kind: usize) -> Aabb<f32> {
    let beyond = (60.0f32).exp2().next_up();
    let mut b = Aabb { lower: [0.0; 3], upper: [1.0; 3] };
    match kind % 9 {
        0 => b.lower[0] = f32::NAN,
        1 => b.upper[1] = f32::NAN,
        2 => b.upper[2] = f32::INFINITY,
        3 => b.lower[0] = f32::NEG_INFINITY,
        4 => b.upper[0] = beyond,
        5 => b.lower[1] = -beyond,
        6 => b.lower[2] = 1.0f32.next_up(),
        7 => b = Aabb::<f32>::EMPTY,
        _ => b = Aabb { lower: [f32::NAN; 3], upper: [f32::NAN; 3] },
    }
    b
}

/// All kinds, about `n` of each.
pub(super) fn inputs(rng: &mut Rng, n: usize) -> Vec<Input> {
    let mut all = Vec::new();
    let mut input = |name, boxes| all.push(Input { name, boxes });
    input("uniform", uniform(rng, n));
    input("equal", vec![Aabb { lower: [-1.0, 2.0, 3.0], upper: [4.0, 5.0, 6.0] }; n]);
    input("one point", vec![Aabb { lower: [0.25; 3], upper: [0.25; 3] }; n]);
    let line = |i: usize| Aabb { lower: [i as f32, 0.0, 7.0], upper: [i as f32 + 0.5, 0.0, 7.0] };
    input("line", (0..n).map(line).collect());
    // Around one centre, each larger than the last.
    let shell = |i: usize| Aabb { lower: [-(i as f32); 3], upper: [i as f32; 3] };
    input("shells", (0..n).map(shell).collect());
    // Each twice as far as the last, again and again.
    let far = |i: usize| [(0.5f32 + (i % 120) as f32 - 60.0).exp2(); 3];
    input("geometric", (0..n).map(|i| Aabb { lower: far(i), upper: far(i) }).collect());
    let most = (60.0f32).exp2();
    let clustered = (0..n).map(|i| {
        let at = [[0.0, 0.0, 0.0], [most; 3], [-most, most, 0.0]][i % 3];
        let mut b = triangle(rng, [0.0; 3], [1e-30, 1e30, 1.0][i % 3]);
        b.lower = std::array::from_fn(|axis| (b.lower[axis] + at[axis]).clamp(-most, most));
        b.upper = std::array::from_fn(|axis| (b.upper[axis] + at[axis]).clamp(-most, most));
        b
    });
    input("clustered", clustered.collect());
    // Denormal extents, and zeros of both signs.
    let tiny =
        |i: usize| f32::from_bits(i as u32 % 7) * if i.is_multiple_of(2) { 1.0 } else { -1.0 };
    let tiny = (0..n).map(|i| Aabb { lower: [tiny(i).min(0.0); 3], upper: [tiny(i).max(0.0); 3] });
    input("tiny", tiny.collect());
    let mut skipped = uniform(rng, n);
    for (kind, i) in (0..n).step_by(3).enumerate() {
        skipped[i] = invalid(kind);
    }
    input("skipped", skipped);
    input("all skipped", (0..n).map(invalid).collect());
    all
}
