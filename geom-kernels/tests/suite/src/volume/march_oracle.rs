//! Rays through a volume by brute force: all planes between cells are crossed, sorted, and each cell is asked.
//! In f64, and by other ways than the device's: polynomials are multiplied out, and values are those of the
//! tests' own reader.

use geom_kernels::Ray;
use nanovdb::{Grid, IndexBox};

use crate::volume_decode::Decoded;
use test_harness::Failure;

/// A volume, and the boxes of voxels outside of which all is background.
pub(super) struct Field {
    pub(super) grid: Grid,
    pub(super) boxes: Vec<IndexBox>,
    pub(super) background: f64,
    decoded: Decoded,
}

/// A ray in index space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) from: [f64; 3],
    pub(super) along: [f64; 3],
    pub(super) t_min: f64,
    pub(super) t_max: f64,
}

/// A part of a line, in one cell or in the background, where the field is c0 + c1 s + c2 s^2 + c3 s^3, s from
/// 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) t0: f64,
    pub(super) t1: f64,
    pub(super) c: [f64; 4],
    /// What the field may be off by for roundings in f64, of the position too.
    pub(super) error: f64,
    /// A bound on how fast it changes with t.
    pub(super) slope: f64,
}

/// Coordinates beyond which nothing is looked for.
const REACH: f64 = (1u64 << 30) as f64;

/// What is off in f64, of coordinates: more than four roundings.
const ROUNDING: f64 = 1.0 / (1u64 << 49) as f64;

impl Line {
    /// As it is given in the world; none if it is no ray.
    pub(super) fn new(field: &Field, ray: &Ray) -> Option<Self> {
        let map = field.grid.map();
        let (o, d) = (ray.origin.map(f64::from), ray.direction.map(f64::from));
        let valid = o.iter().chain(&d).all(|x| x.is_finite()) && ray.t_min <= ray.t_max;
        let mut line = Self {
            from: map.apply_inverse(o),
            along: map.apply_inverse_direction(d),
            t_min: f64::from(ray.t_min.max(0.0)),
            t_max: f64::from(ray.t_max.min(f32::MAX)),
        };
        if !valid || line.along == [0.0; 3] {
            return None;
        }
        line = line.clipped([-REACH; 3], [REACH; 3])?;
        Some(line)
    }

    fn clipped(mut self, lower: [f64; 3], upper: [f64; 3]) -> Option<Self> {
        for axis in 0..3 {
            let (o, d) = (self.from[axis], self.along[axis]);
            if d == 0.0 {
                if o < lower[axis] || o > upper[axis] {
                    return None;
                }
                continue;
            }
            let ends = [(lower[axis] - o) / d, (upper[axis] - o) / d];
            self.t_min = self.t_min.max(ends[0].min(ends[1]));
            self.t_max = self.t_max.min(ends[0].max(ends[1]));
        }
        (self.t_min <= self.t_max).then_some(self)
    }

    pub(super) fn at(&self, t: f64) -> [f64; 3] {
        std::array::from_fn(|axis| t.mul_add(self.along[axis], self.from[axis]))
    }
}

/// A value's bytes as a number: of `f32` there are 4, of `f64` 8.
fn number(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        4 => bytes.try_into().ok().map(|b| f64::from(f32::from_le_bytes(b))),
        _ => bytes.try_into().ok().map(f64::from_le_bytes),
    }
}

impl Field {
    pub(super) fn new(grid: Grid, boxes: Vec<IndexBox>) -> Result<Self, Failure> {
        let decoded = Decoded::new(grid.bytes());
        let background = number(&decoded.background());
        let background = background.ok_or_else(|| Failure::new("values that are no numbers"))?;
        Ok(Self { grid, boxes, background, decoded })
    }

    pub(super) fn value(&self, voxel: [i32; 3]) -> f64 {
        number(&self.decoded.value(voxel)).unwrap_or(f64::NAN)
    }

    pub(super) fn corners(&self, cell: [i32; 3]) -> [f64; 8] {
        std::array::from_fn(|i| {
            let offset = [i as i32 >> 2, i as i32 >> 1 & 1, i as i32 & 1];
            self.value(std::array::from_fn(|axis| cell[axis] + offset[axis]))
        })
    }

    /// All of the line, in order.
    pub(super) fn pieces(&self, line: &Line) -> Vec<Piece> {
        let mut inside: Vec<Piece> =
            self.boxes.iter().flat_map(|b| self.pieces_in(line, b)).collect();
        inside.sort_by(|a, b| a.t0.total_cmp(&b.t0));
        let mut all: Vec<Piece> = Vec::new();
        let mut t = line.t_min;
        let between = |t0: f64, t1: f64| Piece {
            t0,
            t1,
            c: [self.background, 0.0, 0.0, 0.0],
            error: 0.0,
            slope: 0.0,
        };
        for piece in inside {
            if piece.t0 > t {
                all.push(between(t, piece.t0));
            }
            t = piece.t1;
            all.push(piece);
        }
        if line.t_max > t || all.is_empty() {
            all.push(between(t, line.t_max));
        }
        all
    }

    fn pieces_in(&self, line: &Line, voxels: &IndexBox) -> Vec<Piece> {
        // With the cells that have one of the voxels as a corner.
        let (lower, upper) = (voxels.min.map(|x| x - 1), voxels.max.map(|x| x + 1));
        let Some(line) = line.clipped(lower.map(f64::from), upper.map(f64::from)) else {
            return Vec::new();
        };
        let mut ends = vec![line.t_min, line.t_max];
        for axis in 0..3 {
            let (o, d) = (line.from[axis], line.along[axis]);
            if d == 0.0 {
                continue;
            }
            let (a, b) = (line.at(line.t_min)[axis], line.at(line.t_max)[axis]);
            let first = (a.min(b).floor() as i32 - 1).max(lower[axis]);
            let last = (a.max(b).ceil() as i32 + 1).min(upper[axis]);
            ends.extend((first..=last).map(|plane| (f64::from(plane) - o) / d));
        }
        ends.retain(|t| (line.t_min..=line.t_max).contains(t));
        ends.sort_by(f64::total_cmp);
        ends.windows(2).filter(|t| t[0] < t[1]).map(|t| self.piece(&line, t[0], t[1])).collect()
    }

    fn piece(&self, line: &Line, t0: f64, t1: f64) -> Piece {
        let (a, b, middle) = (line.at(t0), line.at(t1), line.at(0.5 * (t0 + t1)));
        let cell = middle.map(|x| x.floor() as i32);
        let corners = self.corners(cell);
        // Each coordinate is a polynomial in s, and so are the weights of the corners.
        let coordinate: [[f64; 2]; 3] =
            std::array::from_fn(|axis| [a[axis] - f64::from(cell[axis]), b[axis] - a[axis]]);
        let mut c = [0.0; 4];
        for (i, corner) in corners.iter().enumerate() {
            let factor = |axis: usize| -> [f64; 2] {
                let [x, e] = coordinate[axis];
                if i >> (2 - axis) & 1 == 1 { [x, e] } else { [1.0 - x, -e] }
            };
            let (x, y, z) = (factor(0), factor(1), factor(2));
            for (k, c) in c.iter_mut().enumerate() {
                for j in 0..8usize {
                    if j.count_ones() as usize == k {
                        *c += corner * x[j & 1] * y[j >> 1 & 1] * z[j >> 2];
                    }
                }
            }
        }
        let size = corners.iter().map(|v| v.abs()).fold(0.0, f64::max);
        let least = corners.iter().copied().fold(f64::INFINITY, f64::min);
        let most = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let speed: f64 = line.along.iter().map(|d| d.abs()).sum();
        let coordinates: f64 = (0..3).map(|i| line.from[i].abs() + t1 * line.along[i].abs()).sum();
        Piece {
            t0,
            t1,
            c,
            error: 1e-14 * size + (most - least) * coordinates * ROUNDING,
            slope: (most - least) * speed,
        }
    }
}

impl Piece {
    pub(super) fn at(&self, s: f64) -> f64 {
        ((self.c[3] * s + self.c[2]) * s + self.c[1]) * s + self.c[0]
    }

    /// The s of a t.
    pub(super) fn place(&self, t: f64) -> f64 {
        ((t - self.t0) / (self.t1 - self.t0)).clamp(0.0, 1.0)
    }

    /// Ends of the parts of [0, end] in which the field only grows or only falls.
    fn turns(&self, end: f64) -> Vec<f64> {
        let [_, c, b, a] = self.c;
        // 3 a s^2 + 2 b s + c
        let root = (b * b - 3.0 * a * c).max(0.0).sqrt();
        let q = -(b + root.copysign(b));
        let mut turns = vec![0.0, q / (3.0 * a), c / q, end];
        turns.retain(|s| (0.0..=end).contains(s));
        turns.sort_by(f64::total_cmp);
        turns
    }

    /// The first s up to `end` at which the field is on the wrong side of `limit`: above it, or below.
    fn first_beyond(&self, limit: f64, above: bool, end: f64) -> Option<f64> {
        let beyond = |s: f64| if above { self.at(s) > limit } else { self.at(s) < limit };
        let turns = self.turns(end);
        let (mut low, mut high) = (0.0, *turns.iter().find(|s| beyond(**s))?);
        low = turns.iter().copied().filter(|s| *s < high).fold(low, f64::max);
        if beyond(low) {
            return Some(low);
        }
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if beyond(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }

    pub(super) fn mean(&self) -> f64 {
        self.c[0] + self.c[1] / 2.0 + self.c[2] / 3.0 + self.c[3] / 4.0
    }
}

/// Where a line that begins inside (where the field is less than `iso`) or outside has certainly crossed, up to
/// `end`: the field is on the other side there by more than what is off.
pub(super) fn certain(pieces: &[Piece], iso: f64, inside: bool, end: f64) -> Option<f64> {
    for piece in pieces.iter().take_while(|piece| piece.t0 < end) {
        let limit = if inside { iso + piece.error } else { iso - piece.error };
        if let Some(s) = piece.first_beyond(limit, inside, piece.place(end)) {
            return Some(piece.t0 + s * (piece.t1 - piece.t0));
        }
    }
    None
}
