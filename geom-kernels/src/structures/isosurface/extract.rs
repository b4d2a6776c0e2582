//! The search for a surface: `geom/isosurface/signs.cuh`, `count.cuh`, `emit.cuh` and `vertices.cuh`.

use cuda_safe::{Error, Result};
use rayon::prelude::*;

use super::cases::{Triangles, lower_corner};
use super::field::{AllSigns, Field, Place, Signs, Source, TILE, reserved, words_of};
use crate::isosurface::{Counts, RawIndexMap};
use crate::mesh::TriangleMesh;

/// The bits of corners that own a crossed edge along each axis, and the number of the first one's vertex.
#[derive(Debug, Clone, Copy, Default)]
struct Edges {
    along: [u32; 3],
    first: u32,
}

impl Edges {
    fn count(&self) -> u32 {
        self.along.iter().map(|bits| bits.count_ones()).sum()
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
#[derive(Debug, Default)]
struct Tile {
    /// Of each word; empty without vertices.
    edges: Box<[Edges]>,
    vertices: u32,
    faces: u32,
    /// Whether a value is not finite.
    broken: bool,
}

/// A search after the count. Its memory is that of tiles with corners on both sides of the surface, and some 70 bytes for
/// each other tile.
struct Search<'a, F> {
    field: &'a F,
    iso: f32,
    words: u32,
    signs: AllSigns,
    tiles: Vec<Tile>,
    counts: Counts,
    map: RawIndexMap,
}

/// A tile with the vertices, or faces, that it writes.
type Part<'a, T> = (usize, &'a mut [T]);

impl<'a, F: Source> Search<'a, F> {
    fn new(field: &'a F, iso: f32) -> Result<Self> {
        if !iso.is_finite() {
            return Err(Error::invalid(format!("a surface where a field is {iso}")));
        }
        let words = u32::try_from(field.words())
            .map_err(|_| Error::invalid("a field of too many words"))?;
        let signs = AllSigns::new(field, words, iso)?;
        let mut tiles = reserved(signs.0.len(), "tiles of a field")?;
        tiles.resize_with(signs.0.len(), Tile::default);
        tiles.par_iter_mut().enumerate().try_for_each(|(n, tile)| {
            *tile = Tile::new(field, &signs, words_of(n, words))?;
            Ok::<(), Error>(())
        })?;
        let mut counts = Counts::default();
        for tile in &mut tiles {
            let mut first = counts.vertices as u32;
            for edges in &mut tile.edges {
                edges.first = first;
                first = first.wrapping_add(edges.count());
            }
            counts.vertices += u64::from(tile.vertices);
            counts.faces += u64::from(tile.faces);
            if tile.broken {
                counts.status |= Counts::NOT_FINITE;
            }
        }
        let map = RawIndexMap::from(field.map());
        Ok(Self { field, iso, words, signs, tiles, counts, map })
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

    /// Divides an output among the tiles, as far as it reaches.
    fn parts<'o, T>(
        &self,
        mut output: &'o mut [T],
        size: impl Fn(&Tile) -> u32,
    ) -> Result<Vec<Part<'o, T>>> {
        let with_any = || self.tiles.iter().enumerate().filter(|(_, tile)| size(tile) > 0);
        let mut parts = reserved(with_any().count(), "parts of a surface")?;
        for (n, tile) in with_any() {
            let room = output.len().min(size(tile) as usize);
            let (part, rest) = output.split_at_mut(room);
            parts.push((n, part));
            output = rest;
        }
        Ok(parts)
    }

    /// Writes as many vertices, and normals, as fit.
    fn write_vertices(
        &self,
        vertices: &mut [[f32; 3]],
        normals: Option<&mut [[f32; 3]]>,
    ) -> Result<()> {
        let with_normals = normals.is_some();
        let vertices = self.parts(vertices, |tile| tile.vertices)?;
        let normals = self.parts(normals.unwrap_or_default(), |tile| tile.vertices)?;
        vertices.into_par_iter().zip(normals).for_each(|((n, vertices), (_, normals))| {
            let edges = self.tiles.get(n).map_or(&[][..], |tile| &tile.edges);
            let corners = words_of(n, self.words).zip(edges).flat_map(|(word, edges)| {
                let of_axis = move |axis| lanes_of(edges.along[axis]).map(move |lane| (axis, lane));
                (0..3).flat_map(of_axis).map(move |(axis, lane)| (axis, Place { word, lane }))
            });
            let mut normals = normals.iter_mut();
            for (to, (axis, corner)) in vertices.iter_mut().zip(corners) {
                let (vertex, normal) = self.vertex_on(corner, axis, with_normals);
                *to = vertex;
                if let Some(to) = normals.next() {
                    *to = normal;
                }
            }
        });
        Ok(())
    }

    /// Writes as many faces as fit.
    fn write_faces(&self, faces: &mut [[u32; 3]]) -> Result<()> {
        let mirrored = self.map.mirrored != 0;
        self.parts(faces, |tile| tile.faces)?.into_par_iter().for_each(|(n, faces)| {
            let cells = words_of(n, self.words).flat_map(|word| {
                let cells = cells_of(self.field.around(&self.signs, word));
                cells.map(move |(lane, triangles)| (Place { word, lane }, triangles))
            });
            let triangles = cells.flat_map(|(cell, triangles)| {
                (0..triangles.count()).map(move |n| (cell, triangles.edges(n)))
            });
            for (to, (cell, edges)) in faces.iter_mut().zip(triangles) {
                let [a, b, c] = edges.map(|edge| self.vertex_of(cell, edge));
                *to = if mirrored { [a, c, b] } else { [a, b, c] };
            }
        });
        Ok(())
    }

    /// Returns the number of the vertex on an edge of a cell.
    fn vertex_of(&self, cell: Place, edge: u32) -> u32 {
        let owner = self.field.corner(cell, lower_corner(edge));
        let tile = self.tiles.get(owner.word as usize / TILE);
        let edges = tile.and_then(|tile| tile.edges.get(owner.word as usize % TILE));
        edges.copied().unwrap_or_default().vertex((edge >> 2) as usize % 3, owner.lane)
    }

    /// Returns the vertex on the edge along `axis` from this corner on, and its normal if that is wanted.
    fn vertex_on(&self, lower: Place, axis: usize, with_normal: bool) -> ([f32; 3], [f32; 3]) {
        let (field, map) = (self.field, &self.map);
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

impl Tile {
    /// Counts the vertices and faces of a tile.
    fn new<F: Source>(field: &F, signs: &AllSigns, words: std::ops::Range<u32>) -> Result<Self> {
        let mut tile = Self::default();
        let (mut found, n) = ([Edges::default(); TILE], words.len());
        for (edges, word) in found.iter_mut().zip(words) {
            let corners = field.around(signs, word);
            let own = corners[0];
            let crossed = |other: Signs| (own.inside ^ other.inside) & own.known & other.known;
            edges.along = [crossed(corners[4]), crossed(corners[2]), crossed(corners[1])];
            tile.vertices += edges.count();
            tile.faces += cells_of(corners).map(|(_, all)| all.count() as u32).sum::<u32>();
            tile.broken |= own.known.count_ones() as usize != field.values_of(word).len();
        }
        if tile.vertices > 0 {
            let mut edges = reserved(n, "the edges of a tile")?;
            edges.extend_from_slice(&found[..n]);
            tile.edges = edges.into_boxed_slice();
        }
        Ok(tile)
    }
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
/// `iso` is not finite; more than 2^32 - 1 vertices or faces; no memory.
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
    let what = "a surface";
    let (mut vertices, mut faces) = (reserved(n, what)?, reserved(m, what)?);
    vertices.resize(n, [0.0; 3]);
    faces.resize(m, [0; 3]);
    let mut normals = if with_normals { Some(reserved(n, what)?) } else { None };
    normals.iter_mut().for_each(|normals| normals.resize(n, [0.0; 3]));
    search.write_vertices(&mut vertices, normals.as_deref_mut())?;
    search.write_faces(&mut faces)?;
    Ok(Surface { vertices, faces, normals, counts: search.counts })
}

/// Works like [`extract`], but writes to the caller's memory.
///
/// The counts are always right. Vertices and faces beyond the capacities are not written, which [`Counts::status`]
/// reports; all others are written, so a face may name a vertex that was not written. If the output is larger than
/// needed, the rest is not written.
///
/// # Errors
/// `iso` is not finite; the output's `normals` and `vertices` differ in length; no memory.
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
    search.write_vertices(vertices, normals)?;
    search.write_faces(faces)?;
    Ok(counts)
}

/// Counts the vertices and faces that [`extract`] would find.
///
/// # Errors
/// `iso` is not finite; no memory.
pub fn count<F: Field>(field: &F, iso: f32) -> Result<Counts> {
    Search::new(field, iso).map(|search| search.counts_within([usize::MAX; 2]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isosurface::Map;
    use crate::structures::isosurface::field::{DenseField, TileSigns};

    /// The bytes of a search.
    fn bytes<F>(search: &Search<'_, F>) -> usize {
        let of_signs = |signs: &TileSigns| match signs {
            TileSigns::Same(_) => size_of::<TileSigns>(),
            TileSigns::Each(each) => size_of::<TileSigns>() + size_of_val(&**each),
        };
        let of_tile = |tile: &Tile| size_of::<Tile>() + size_of_val(&*tile.edges);
        search.signs.0.iter().map(of_signs).sum::<usize>()
            + search.tiles.iter().map(of_tile).sum::<usize>()
    }

    /// A ball at `center` in a field of these dimensions, with `outside` beyond twice its radius.
    fn ball([nx, ny, nz]: [usize; 3], center: [usize; 3], outside: f32) -> Vec<f32> {
        let at = |i: usize| [i / (ny * nz), i / nz % ny, i % nz];
        let value = |i: usize| {
            let squares = (0..3).map(|axis| (at(i)[axis] as f32 - center[axis] as f32).powi(2));
            let distance = squares.sum::<f32>().sqrt() - 15.3;
            if distance < 15.0 { distance } else { outside }
        };
        (0..nx * ny * nz).map(value).collect()
    }

    /// Memory follows the surface, whatever the extent and the shape of the field; and the surface is that of a field
    /// which is cut to it.
    #[test]
    fn memory_of_thin_and_large_fields() {
        for (dims, outside) in
            [([1500, 1500, 2], 99.0), ([1500, 1500, 2], f32::NAN), ([3, 700, 1001], 99.0)]
        {
            let center = dims.map(|n| n / 2);
            let values = ball(dims, center, outside);
            let field = DenseField::new(&values, dims, Map::default()).unwrap();
            let search = Search::new(&field, 0.0).unwrap();
            let (used, all) = (bytes(&search), size_of_val(&*values));
            assert!(used * 12 < all, "{used} bytes for a field of {all}");

            let cut = dims.map(|n| n.min(81));
            let values = ball(cut, cut.map(|n| n / 2), outside);
            let field = DenseField::new(&values, cut, Map::default()).unwrap();
            let wanted = Search::new(&field, 0.0).unwrap().counts;
            assert!(wanted.faces > 100);
            assert_eq!(search.counts, wanted, "{dims:?}");
        }
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let error = reserved::<[f32; 3]>(1 << 58, "a surface").unwrap_err();
        assert!(error.to_string().contains("no memory for a surface: 3458764513820540928 bytes"));
    }
}
