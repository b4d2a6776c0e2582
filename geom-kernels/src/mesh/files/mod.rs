//! Meshes from and to OBJ, STL and PLY files. Only with the feature `mesh-files`.
//!
//! ```
//! use geom_kernels::mesh::{TriangleMesh, shapes};
//!
//! # let folder = std::env::temp_dir().join(format!("mesh-files-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let sphere = shapes::icosphere(2, 1.0)?;
//! sphere.save(folder.join("sphere.ply"))?;
//! assert_eq!(TriangleMesh::load(folder.join("sphere.ply"))?, sphere);
//!
//! let quad = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n";
//! assert_eq!(TriangleMesh::from_obj(quad.as_bytes())?.faces, [[0, 1, 2], [0, 2, 3]]);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Only positions and faces are read and written: no normals, colours, texture coordinates, materials,
//! groups. A polygon becomes a fan of triangles around its first corner, which is right for convex ones.
//!
//! | | read | written | points |
//! |---|---|---|---|
//! | OBJ | `v` and `f`; any polygons, negative indices; w divides | text | as in the file, shared by all groups |
//! | STL | text, also of several solids; binary | binary | merged by position ([`weld`](TriangleMesh::weld)) |
//! | PLY | text, binary of either order; x, y, z of any number type; `vertex_indices` or `vertex_index` of any list type; any other elements and properties are passed over | any of the three | as in the file |
//!
//! Text is written with enough digits to read the same `f32` back. Text that is read may be UTF-8 with or without a
//! byte order mark, UTF-16, or any other superset of ASCII, with line ends of any system. Unused numbers may have any
//! value, and a line may have more of them than its format says. Ctrl-Z and zeros at the end of a text are skipped.
//!
//! Reading and writing return an error for a mesh whose faces name points that do not exist, or whose coordinates are
//! not finite. Reading also returns an error for files that are cut off, hold more or fewer items than they say, or are of
//! another format, which the error names if it is a common one; for OBJ files without a point that are not empty; and for
//! surfaces that can't be read (`surf` and `call` in OBJ, `tristrips` in PLY); and for PLY
//! files of more than 1000 elements or more than 10,000 properties of an element. Errors in a file have the line, or in
//! binary files the byte, counted from 0. Reading allocates no more memory than the file's contents need. A file is read
//! into memory as a whole.

mod error;
mod obj;
mod ply;
mod stl;
#[cfg(test)]
mod tests;
mod text;

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

pub use error::{FileError, FileErrorKind, FileFormat};
pub use ply::PlyEncoding;

use super::TriangleMesh;

impl TriangleMesh {
    /// Reads the mesh in a file. Its extension gives the format: obj, stl or ply, in upper or lower case.
    ///
    /// # Errors
    /// The extension is another, or the file can't be read or is not a valid mesh.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let read = |format: FileFormat| {
            let bytes = std::fs::read(path).map_err(|error| FileError::new(format, error))?;
            match format {
                FileFormat::Obj => obj::read(&bytes),
                FileFormat::Stl => stl::read(&bytes),
                FileFormat::Ply => ply::read(&bytes),
            }
        };
        FileFormat::of(path).and_then(read).map_err(|error| error.at(path))
    }

    /// Writes the mesh to a file. Its extension gives the format: obj, stl (binary) or ply (binary, little-endian). A
    /// file of that name is overwritten, unless the mesh can't be written.
    ///
    /// # Errors
    /// The extension is another, the file can't be written, an index is out of range, or a coordinate is not
    /// finite.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        let path = path.as_ref();
        let write = |format: FileFormat| {
            check(self).map_err(|what| FileError::new(format, what))?;
            let file = File::create(path).map_err(|error| FileError::new(format, error))?;
            match format {
                FileFormat::Obj => self.write_obj(file),
                FileFormat::Stl => self.write_stl(file),
                FileFormat::Ply => self.write_ply(file, PlyEncoding::default()),
            }
        };
        FileFormat::of(path).and_then(write).map_err(|error| error.at(path))
    }

    /// Reads the mesh in an OBJ file (Wavefront), from its bytes (`&[u8]`) or any reader.
    ///
    /// # Errors
    /// Reading fails, or the data is not a valid mesh.
    pub fn from_obj(reader: impl Read) -> Result<Self, FileError> {
        obj::read(&all_of(reader, FileFormat::Obj)?)
    }

    /// Reads the mesh in an STL file, text or binary, from its bytes (`&[u8]`) or any reader. Points of the same
    /// position are merged: the format has no shared points.
    ///
    /// # Errors
    /// Reading fails, or the data is not a valid mesh.
    pub fn from_stl(reader: impl Read) -> Result<Self, FileError> {
        stl::read(&all_of(reader, FileFormat::Stl)?)
    }

    /// Reads the mesh in a PLY file, text or binary, from its bytes (`&[u8]`) or any reader. A file without faces
    /// is a mesh without faces.
    ///
    /// # Errors
    /// Reading fails, or the data is not a valid mesh.
    pub fn from_ply(reader: impl Read) -> Result<Self, FileError> {
        ply::read(&all_of(reader, FileFormat::Ply)?)
    }

    /// Writes the mesh as an OBJ file. Writes are buffered here.
    ///
    /// # Errors
    /// Writing fails, an index is out of range, or a coordinate is not finite.
    pub fn write_obj(&self, writer: impl Write) -> Result<(), FileError> {
        self.write(FileFormat::Obj, writer, |writer| obj::write(self, writer))
    }

    /// Writes the mesh as a binary STL file. Writes are buffered here. Points without faces are not in it.
    ///
    /// # Errors
    /// Writing fails, an index is out of range, or a coordinate is not finite.
    pub fn write_stl(&self, writer: impl Write) -> Result<(), FileError> {
        self.write(FileFormat::Stl, writer, |writer| stl::write(self, writer))
    }

    /// Writes the mesh as a PLY file. Writes are buffered here.
    ///
    /// # Errors
    /// Writing fails, an index is out of range, or a coordinate is not finite.
    pub fn write_ply(&self, writer: impl Write, encoding: PlyEncoding) -> Result<(), FileError> {
        self.write(FileFormat::Ply, writer, |writer| ply::write(self, writer, encoding))
    }

    fn write<W: Write>(
        &self,
        format: FileFormat,
        writer: W,
        body: impl FnOnce(&mut BufWriter<W>) -> std::io::Result<()>,
    ) -> Result<(), FileError> {
        check(self).map_err(|what| FileError::new(format, what))?;
        let mut writer = BufWriter::new(writer);
        let written = body(&mut writer).and_then(|()| writer.flush());
        written.map_err(|error| FileError::new(format, error))
    }
}

fn all_of(mut reader: impl Read, format: FileFormat) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|error| FileError::new(format, error))?;
    Ok(bytes)
}

/// Checks that a mesh can be stored in a file: few enough points and faces, finite coordinates, indices in range.
fn check(mesh: &TriangleMesh) -> Result<(), String> {
    check_counts(mesh)?;
    let points = mesh.points.len() as u64;
    let bad = |point: &[f32; 3]| !point.iter().all(|x| x.is_finite());
    if let Some(at) = mesh.points.iter().position(bad) {
        return Err(format!("a coordinate of point {at} is not a finite f32"));
    }
    let bad = |face: &[u32; 3]| face.iter().any(|index| u64::from(*index) >= points);
    if let Some(at) = mesh.faces.iter().position(bad) {
        return Err(format!("face {at} names a point that is not there; there are {points}"));
    }
    Ok(())
}

fn check_counts(mesh: &TriangleMesh) -> Result<(), String> {
    let (points, faces) = (mesh.points.len() as u64, mesh.faces.len() as u64);
    super::host::check_counts(points, faces).map_err(|error| error.to_string())
}

/// Adds a polygon as a triangle fan around its first corner.
fn push_fan(faces: &mut Vec<[u32; 3]>, corners: &[u32]) -> Result<(), String> {
    let [first, rest @ ..] = corners else { return Err("a face without corners".into()) };
    if rest.len() < 2 {
        return Err(format!("a face of {} corners; it takes 3", corners.len()));
    }
    faces.extend(rest.windows(2).filter_map(|pair| Some([*first, *pair.first()?, *pair.last()?])));
    Ok(())
}
