//! The search for a surface: `geom/isosurface/signs.cuh`, `count.cuh`, `emit.cuh` and `vertices.cuh`.

use cuda_safe::{Error, Result};
use rayon::prelude::*;

use super::cases::{Triangles, lower_corner};
use super::field::{Field, Place, Signs, Source};
use crate::isosurface::{Counts, RawIndexMap};
use crate::mesh::TriangleMesh;

/// The words that a thread processes at once: a tile of the device.
const TILE: usize = 256;

/// The bits of corners that own a crossed edge along each axis, and the number of the first one's vertex.
#[derive(Debug, Clone, Copy, Default)]
struct Edges {
    along: [u32; 3],
    first: u32,
}

impl Edges {
    fn count(&self) -> u64 {
        self.along.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// Returns the number of the vertex on the edge of a lane along an axis.
    fn vertex(&self, axis: usize, lane: u32) -> u32 {
        let before: u32 = self.along[..axis].iter().map(|bits| bits.count_ones()).sum();
        let in_axis = (self.along[axis] & ((1 << lane) - 1)).count_ones();
        self.first.wrapping_add(before + in_axis)
    }
}

/// Returns the lanes whose bits are set, ascending.
fn lanes_of(mut bits: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}

/// Returns the cells of a word that have faces, and their triangles.
fn cells_of(corners: [Signs; 8]) -> impl Iterator<Item = (u32, Triangles)> {
    let (mut known, mut all, mut some) = (u32::MAX, u32::MAX, 0);
    for corner in corners {
        known &= corner.known;
        all &= corner.inside;
        some |= corner.inside;
    }
    lanes_of(known & some & !all).map(move |lane| {
        let bit = |i: usize| (corners[i].inside >> lane & 1) as u8;
        (lane, Triangles::of((0..8).fold(0, |bits, i| bits | bit(i) << i)))
    })
}

/// A tile after the count.
struct Tile {
    edges: Vec<Edges>,
    vertices: u64,
    faces: u64,
    /// Whether a value is not finite.
    broken: bool,
}

/// A search after the count.
struct Search<'a, F> {
    field: &'a F,
    iso: f32,
    signs: Vec<Signs>,
    edges: Vec<Edges>,
    /// The number of vertices before each tile.
    before: Vec<u64>,
    counts: Counts,
}

impl<'a, F: Source> Search<'a, F> {
    fn new(field: &'a F, iso: f32) -> Result<Self> {
        if !iso.is_finite() {
            return Err(Error::invalid(format!("a surface where a field is {iso}")));
        }
        let words = u32::try_from(field.words())
            .map_err(|_| Error::invalid("a field of too many words"))?;
        let sign = |word: u32| {
            let mut signs = Signs::default();
            for (lane, value) in field.values_of(word).iter().enumerate() {
                let (known, less) = (value.is_finite(), *value < iso);
                signs.known |= u32::from(known) << lane;
                signs.inside |= u32::from(known && less) << lane;
            }
            signs
        };
        let signs: Vec<Signs> = (0..words).into_par_iter().with_min_len(TILE).map(sign).collect();
        let starts = (0..words).into_par_iter().step_by(TILE);
        let mut tiles: Vec<Tile> = starts
            .map(|start| tile(field, &signs, start..start.saturating_add(TILE as u32).min(words)))
            .collect();
        let (mut counts, mut before) = (Counts::default(), Vec::with_capacity(tiles.len()));
        for tile in &mut tiles {
            before.push(counts.vertices);
            // A tile without vertices has none that faces could name.
            let mut first = counts.vertices as u32;
            for edges in tile.edges.iter_mut().filter(|_| tile.vertices > 0) {
                edges.first = first;
                first = first.wrapping_add(edges.count() as u32);
            }
            counts.vertices += tile.vertices;
            counts.faces += tile.faces;
            if tile.broken {
                counts.status |= Counts::NOT_FINITE;
            }
        }
        let edges = tiles.into_par_iter().flat_map_iter(|tile| tile.edges).collect();
        Ok(Self { field, iso, signs, edges, before, counts })
    }

    /// Returns the counts, and whether there is room for so many vertices and faces, whose numbers have 32 bits.
    fn counts_within(&self, room: [usize; 2]) -> Counts {
        let [vertices, faces] = room.map(|n| (n as u64).min(u64::from(u32::MAX)));
        let mut counts = self.counts;
        if counts.vertices > vertices {
            counts.status |= Counts::VERTICES_LEFT_OUT;
        }
        if counts.faces > faces {
            counts.status |= Counts::FACES_LEFT_OUT;
        }
        counts
    }

    /// Returns the words of each tile.
    fn tiles(&self) -> impl IndexedParallelIterator<Item = (u32, &[Edges])> {
        self.edges.par_chunks(TILE).enumerate().map(|(n, edges)| ((n * TILE) as u32, edges))
    }

    /// Writes as many vertices, and normals, as fit.
    fn write_vertices(&self, vertices: &mut [[f32; 3]], mut normals: Option<&mut [[f32; 3]]>) {
        let room = vertices.len();
        let with_normals = normals.is_some();
        let of_tile = |(start, edges): (u32, &[Edges])| {
            let mut found = Vec::new();
            for (word, edges) in (start..).zip(edges) {
                for (axis, bits) in edges.along.into_iter().enumerate() {
                    for lane in lanes_of(bits) {
                        found.push(self.vertex_on(Place { word, lane }, axis, with_normals));
                    }
                }
            }
            found
        };
        // Vertices of tiles beyond the room are not computed.
        let computed = self.before.partition_point(|before| *before < room as u64);
        let tiles: Vec<Vec<([f32; 3], [f32; 3])>> =
            self.tiles().take(computed).map(of_tile).collect();
        for (n, (vertex, normal)) in tiles.into_iter().flatten().take(room).enumerate() {
            if let Some(to) = vertices.get_mut(n) {
                *to = vertex;
            }
            if let Some(to) = normals.as_mut().and_then(|normals| normals.get_mut(n)) {
                *to = normal;
            }
        }
    }

    /// Writes as many faces as fit.
    fn write_faces(&self, faces: &mut [[u32; 3]]) {
        let mirrored = self.field.map().raw.mirrored != 0;
        let of_tile = |(start, edges): (u32, &[Edges])| {
            let mut found = Vec::new();
            for word in (start..).take(edges.len()) {
                for (lane, triangles) in cells_of(self.field.around(&self.signs, word)) {
                    let cell = Place { word, lane };
                    for n in 0..triangles.count() {
                        let [a, b, c] = triangles.edges(n).map(|edge| self.vertex_of(cell, edge));
                        found.push(if mirrored { [a, c, b] } else { [a, b, c] });
                    }
                }
            }
            found
        };
        let tiles: Vec<Vec<[u32; 3]>> = self.tiles().map(of_tile).collect();
        for (to, face) in faces.iter_mut().zip(tiles.into_iter().flatten()) {
            *to = face;
        }
    }

    /// Returns the number of the vertex on an edge of a cell.
    fn vertex_of(&self, cell: Place, edge: u32) -> u32 {
        let owner = self.field.corner(cell, lower_corner(edge));
        let edges = self.edges.get(owner.word as usize).copied().unwrap_or_default();
        edges.vertex((edge >> 2) as usize % 3, owner.lane)
    }

    /// Returns the vertex on the edge along `axis` from this corner on, and its normal if that is wanted.
    fn vertex_on(&self, lower: Place, axis: usize, with_normal: bool) -> ([f32; 3], [f32; 3]) {
        let (field, map) = (self.field, &self.field.map().raw);
        let upper = field.corner(lower, 4 >> axis);
        let value =
            |at: Place| field.values_of(at.word).get(at.lane as usize).copied().unwrap_or(f32::NAN);
        let (a, b) = (value(lower), value(upper));
        let wide = f64::from;
        let t = (wide(self.iso) - wide(a)) / (wide(b) - wide(a));
        let mut at = field.position(lower).map(f64::from);
        at[axis] += t;
        let [x, y, z] = at;
        let position = map
            .rows
            .map(|row| row[2].mul_add(z, row[1].mul_add(y, row[0].mul_add(x, row[3]))) as f32);
        if !with_normal {
            return (position, [0.0; 3]);
        }
        let (from, to) = (gradient(field, lower, a), gradient(field, upper, b));
        let between = [0, 1, 2].map(|i: usize| t.mul_add(to[i] - from[i], from[i]));
        (position, unit_normal(map, between))
    }
}

/// Counts the vertices and faces of a tile.
fn tile<F: Source>(field: &F, signs: &[Signs], words: std::ops::Range<u32>) -> Tile {
    let mut tile = Tile { edges: Vec::with_capacity(TILE), vertices: 0, faces: 0, broken: false };
    for word in words {
        let corners = field.around(signs, word);
        let own = corners[0];
        let crossed = |other: Signs| (own.inside ^ other.inside) & own.known & other.known;
        let along = [crossed(corners[4]), crossed(corners[2]), crossed(corners[1])];
        let edges = Edges { along, first: 0 };
        tile.vertices += edges.count();
        tile.faces += cells_of(corners).map(|(_, triangles)| triangles.count()).sum::<u64>();
        tile.broken |= own.known.count_ones() as usize != field.values_of(word).len();
        tile.edges.push(edges);
    }
    tile
}

/// Returns the field's gradient at a corner, in the field's indices.
fn gradient<F: Source>(field: &F, corner: Place, value: f32) -> [f64; 3] {
    [0, 1, 2].map(|axis| {
        let beside = |step| field.beside(corner, axis, step).filter(|value| value.is_finite());
        let (low, high) = (beside(-1), beside(1));
        let difference = f64::from(high.unwrap_or(value)) - f64::from(low.unwrap_or(value));
        if low.is_some() && high.is_some() { 0.5 * difference } else { difference }
    })
}

/// Returns the unit normal of the surface, towards greater values; 0 if the gradient is 0.
fn unit_normal(map: &RawIndexMap, [x, y, z]: [f64; 3]) -> [f32; 3] {
    let n = map.normal_rows.map(|row| row[2].mul_add(z, row[1].mul_add(y, row[0] * x)));
    let squared = n[2].mul_add(n[2], n[1].mul_add(n[1], n[0] * n[0]));
    if squared == 0.0 {
        return [0.0; 3];
    }
    let inverse = 1.0 / squared.sqrt();
    n.map(|x| (x * inverse) as f32)
}

/// A surface in memory that is just large enough.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Surface {
    /// Positions.
    pub vertices: Vec<[f32; 3]>,
    /// The indices of three vertices for each face, counter-clockwise seen from greater values.
    pub faces: Vec<[u32; 3]>,
    /// The unit normal of each vertex, if they were asked for.
    pub normals: Option<Vec<[f32; 3]>>,
    /// The counts; [`Counts::not_finite`] returns `true` if there may be holes.
    pub counts: Counts,
}

impl Surface {
    /// Returns the surface as a mesh, without normals.
    #[must_use]
    pub fn into_mesh(self) -> TriangleMesh {
        TriangleMesh { points: self.vertices, faces: self.faces }
    }
}

/// The caller's memory for a surface: [`extract_into`].
#[derive(Debug)]
pub struct Output<'a> {
    vertices: &'a mut [[f32; 3]],
    faces: &'a mut [[u32; 3]],
    normals: Option<&'a mut [[f32; 3]]>,
}

impl<'a> Output<'a> {
    /// Creates an output with room for as many vertices and faces as the slices have elements.
    #[must_use]
    pub fn new(vertices: &'a mut [[f32; 3]], faces: &'a mut [[u32; 3]]) -> Self {
        Self { vertices, faces, normals: None }
    }

    /// Adds memory for the unit normal of each vertex: see
    /// [`isosurface::Output::normals`](crate::isosurface::Output::normals). It must have as many elements as `vertices`.
    #[must_use]
    pub fn normals(mut self, normals: &'a mut [[f32; 3]]) -> Self {
        self.normals = Some(normals);
        self
    }
}

/// Returns the surface where the field is `iso`.
///
/// # Errors
/// `iso` is not finite; more than 2^32 - 1 vertices or faces.
pub fn extract<F: Field>(field: &F, iso: f32) -> Result<Surface> {
    exactly(field, iso, false)
}

/// Extracts the surface as [`extract`] does, with the normal of each vertex.
///
/// # Errors
/// As [`extract`].
pub fn extract_with_normals<F: Field>(field: &F, iso: f32) -> Result<Surface> {
    exactly(field, iso, true)
}

fn exactly<F: Field>(field: &F, iso: f32, with_normals: bool) -> Result<Surface> {
    let search = Search::new(field, iso)?;
    let [n, m] = search.counts.sizes()?;
    let (mut vertices, mut faces) = (vec![[0.0; 3]; n], vec![[0; 3]; m]);
    let mut normals = with_normals.then(|| vec![[0.0; 3]; n]);
    search.write_vertices(&mut vertices, normals.as_deref_mut());
    search.write_faces(&mut faces);
    Ok(Surface { vertices, faces, normals, counts: search.counts })
}

/// Works like [`extract`], but writes to the caller's memory.
///
/// The counts are always right. Vertices and faces beyond the capacities are not written, which [`Counts::status`]
/// reports; all others are written, so a face may name a vertex that was not written. If the output is larger than
/// needed, the rest is not written.
///
/// # Errors
/// `iso` is not finite; the output's `normals` and `vertices` differ in length.
pub fn extract_into<F: Field>(field: &F, iso: f32, output: Output<'_>) -> Result<Counts> {
    let Output { vertices, faces, normals } = output;
    if let Some(normals) = &normals
        && normals.len() != vertices.len()
    {
        let (n, room) = (normals.len(), vertices.len());
        return Err(Error::invalid(format!("room for {n} normals, and {room} vertices")));
    }
    let search = Search::new(field, iso)?;
    let counts = search.counts_within([vertices.len(), faces.len()]);
    search.write_vertices(vertices, normals);
    search.write_faces(faces);
    Ok(counts)
}

/// Counts the vertices and faces that [`extract`] would find.
///
/// # Errors
/// `iso` is not finite.
pub fn count<F: Field>(field: &F, iso: f32) -> Result<Counts> {
    Search::new(field, iso).map(|search| search.counts_within([usize::MAX; 2]))
}
