//! Meshes to ask about.

use std::f64::consts::TAU;

use test_harness::Rng;

/// Points and faces.
#[derive(Debug, Clone, Default)]
pub(super) struct Mesh {
    pub(super) points: Vec<[f32; 3]>,
    pub(super) faces: Vec<[u32; 3]>,
}

impl Mesh {
    /// With further faces.
    pub(super) fn and(mut self, faces: &[[u32; 3]]) -> Self {
        self.faces.extend(faces);
        self
    }

    /// Face `index` turned around.
    pub(super) fn flipped(mut self, index: usize) -> Self {
        self.faces[index].swap(1, 2);
        self
    }

    /// Every point moved.
    pub(super) fn moved(mut self, by: f32) -> Self {
        for point in &mut self.points {
            *point = point.map(|x| x + by);
        }
        self
    }
}

/// The cube between 0 and 1.
pub(super) fn cube() -> Mesh {
    let points = (0..8).map(|i: u8| [i & 1, i >> 1 & 1, i >> 2 & 1].map(f32::from)).collect();
    let faces = vec![
        [0, 4, 6],
        [0, 6, 2],
        [1, 3, 7],
        [1, 7, 5],
        [0, 1, 5],
        [0, 5, 4],
        [2, 6, 7],
        [2, 7, 3],
        [0, 2, 3],
        [0, 3, 1],
        [4, 5, 7],
        [4, 7, 6],
    ];
    Mesh { points, faces }
}

/// A regular icosahedron of edges of length 2.
pub(super) fn icosahedron() -> Mesh {
    let g = (0.5 * (1.0 + 5f64.sqrt())) as f32;
    let points = [[0.0, 1.0, g], [0.0, -1.0, g], [0.0, 1.0, -g], [0.0, -1.0, -g]];
    let points: Vec<[f32; 3]> = (0..12).map(|i| turned(points[i % 4], i / 4)).collect();
    let near = |i: usize, j: usize| {
        let squared: f32 = (0..3).map(|axis| (points[i][axis] - points[j][axis]).powi(2)).sum();
        squared < 4.1
    };
    let mut faces = Vec::new();
    for i in 0..12 {
        for j in i + 1..12 {
            for k in j + 1..12 {
                if near(i, j) && near(j, k) && near(k, i) {
                    let [a, b, c] = [i, j, k].map(|vertex| points[vertex].map(f64::from));
                    // Counter-clockwise seen from outside: the centre is below.
                    let volume = dot(a, cross(b, c));
                    faces.push(if volume > 0.0 { [i, j, k] } else { [i, k, j] });
                }
            }
        }
    }
    Mesh { points, faces: faces.into_iter().map(|face| face.map(|vertex| vertex as u32)).collect() }
}

fn turned([x, y, z]: [f32; 3], times: usize) -> [f32; 3] {
    match times {
        0 => [x, y, z],
        1 => [z, x, y],
        _ => [y, z, x],
    }
}

pub(super) fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// `columns` by `rows` squares of two faces each; the last column joined to the first, and the last row
/// to the first, if that is asked for. With `twist`, columns are joined upside down.
fn lattice(
    [columns, rows]: [usize; 2],
    [around, closed]: [bool; 2],
    twist: bool,
    place: impl Fn(f64, f64) -> [f64; 3],
) -> Mesh {
    let [width, height] =
        [if around { columns } else { columns + 1 }, if closed { rows } else { rows + 1 }];
    let at = |x: usize, y: usize| {
        let y = if twist && x >= width { rows - y } else { y };
        ((y % height) * width + x % width) as u32
    };
    let point = |i: usize| {
        let (x, y) = ((i % width) as f64, (i / width) as f64);
        place(x / columns as f64, y / rows as f64).map(|x| x as f32)
    };
    let square = |i: usize| {
        let (x, y) = (i % columns, i / columns);
        let [a, b, c, d] = [at(x, y), at(x + 1, y), at(x + 1, y + 1), at(x, y + 1)];
        [[a, b, c], [a, c, d]]
    };
    Mesh {
        points: (0..width * height).map(point).collect(),
        faces: (0..columns * rows).flat_map(square).collect(),
    }
}

/// A flat rectangle, whose boundary is open.
pub(super) fn grid(columns: usize, rows: usize) -> Mesh {
    lattice([columns, rows], [false, false], false, |x, y| [x, y, 0.0])
}

/// A torus of radii 2 and 1.
pub(super) fn torus(columns: usize, rows: usize) -> Mesh {
    lattice([columns, rows], [true, true], false, |x, y| {
        let (out, up) = (2.0 + (TAU * y).cos(), (TAU * y).sin());
        [(TAU * x).cos() * out, (TAU * x).sin() * out, up]
    })
}

/// A strip that has one side only.
pub(super) fn moebius(columns: usize) -> Mesh {
    lattice([columns, 2], [true, false], true, |x, y| {
        let (out, up) =
            (2.0 + (y - 0.5) * (TAU * x / 2.0).cos(), (y - 0.5) * (TAU * x / 2.0).sin());
        [(TAU * x).cos() * out, (TAU * x).sin() * out, up]
    })
}

/// `n` faces around vertex 0, not closed, over a hill.
pub(super) fn fan(n: usize) -> Mesh {
    let rim = |i: usize| {
        let angle = 5.0 * i as f64 / n as f64;
        [angle.cos() as f32, angle.sin() as f32, -1.0 - 0.25 * (i % 3) as f32]
    };
    let points = std::iter::once([0.0; 3]).chain((0..=n).map(rim)).collect();
    Mesh { points, faces: (1..=n as u32).map(|i| [0, i, i + 1]).collect() }
}

/// Three faces at an edge.
pub(super) fn book() -> Mesh {
    let points =
        vec![[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [-1.0, -1.0, 0.5]];
    Mesh { points, faces: vec![[0, 1, 2], [1, 0, 3], [0, 1, 4]] }
}

/// Faces of any points, of which so many share few points that anything may happen at an edge.
pub(super) fn soup(rng: &mut Rng, points: usize, faces: usize) -> Mesh {
    // Whole numbers, so that faces without area occur.
    let point = |rng: &mut Rng| [0; 3].map(|_: u8| rng.below(5) as f32);
    let face = |rng: &mut Rng| [0; 3].map(|_: u8| rng.below(points) as u32);
    Mesh {
        points: (0..points).map(|_| point(rng)).collect(),
        faces: (0..faces).map(|_| face(rng)).collect(),
    }
}

/// A soup with every fault there is.
pub(super) fn bad_soup(rng: &mut Rng, points: usize, faces: usize) -> Mesh {
    let mut mesh = soup(rng, points, faces);
    let bad = [f32::NAN, f32::INFINITY, -f32::INFINITY, f32::MAX, -1.2e18];
    for (i, value) in bad.into_iter().enumerate() {
        let point = rng.below(points);
        mesh.points[point][i % 3] = value;
    }
    for index in [points as u32, u32::MAX, 1 << 31, points as u32 + 7] {
        for _ in 0..faces.div_ceil(40) {
            let (face, corner) = (rng.below(faces), rng.below(3));
            mesh.faces[face][corner] = index;
        }
    }
    mesh
}

/// All of them, by name; none of it large.
pub(super) fn all(rng: &mut Rng) -> Vec<(String, Mesh)> {
    let icosahedron = icosahedron();
    let named = [
        ("nothing", Mesh::default()),
        ("no faces", Mesh { points: vec![[1.0; 3]; 5], faces: vec![] }),
        ("no points", Mesh { points: vec![], faces: vec![[0, 1, 2], [0, 0, 0]] }),
        ("one point", Mesh { points: vec![[1.0; 3]], faces: vec![[0, 0, 0]] }),
        ("one face", Mesh { points: grid(1, 1).points, faces: vec![[2, 0, 1]] }),
        ("a cube", cube()),
        ("an icosahedron", icosahedron.clone()),
        ("one of it flipped", icosahedron.clone().flipped(7)),
        ("one of it twice", icosahedron.clone().and(&icosahedron.faces[3..4])),
        ("all of it twice", icosahedron.clone().and(&icosahedron.faces)),
        ("collapsed faces", icosahedron.clone().and(&[[0, 1, 0], [5, 5, 5], [2, 2, 9]])),
        (
            "a face from both sides",
            Mesh { points: cube().points, faces: vec![[1, 2, 4], [1, 4, 2]] },
        ),
        ("a face twice", Mesh { points: cube().points, faces: vec![[1, 2, 4], [4, 1, 2]] }),
        ("a torus", torus(12, 7)),
        ("a grid", grid(9, 5)),
        ("a strip of one side", moebius(11)),
        ("three at an edge", book()),
        ("a fan", fan(100)),
        ("far away", torus(6, 5).moved(4096.0)),
    ];
    let mut all: Vec<_> = named.map(|(name, mesh)| (name.to_owned(), mesh)).into();
    for n in [1, 2, 31, 32, 33, 85, 86, 300] {
        all.push((format!("soup of {n}"), soup(rng, 3 + n / 4, n)));
        all.push((format!("bad soup of {n}"), bad_soup(rng, 20 + n, n)));
    }
    for n in [31, 32, 33] {
        all.push((
            format!("strip of {n}"),
            Mesh { faces: grid(17, 1).faces[..n].to_vec(), ..grid(17, 1) },
        ));
        all.push((format!("fan of {n}"), fan(n)));
    }
    all
}
