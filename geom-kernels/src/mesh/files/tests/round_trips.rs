//! Written meshes are read back unchanged.

use super::*;
use crate::mesh::shapes;

fn meshes() -> Result<Vec<TriangleMesh>, cuda_safe::Error> {
    Ok(vec![
        TriangleMesh::default(),
        TriangleMesh { points: vec![[1.0, 2.0, 3.0]], faces: Vec::new() },
        TriangleMesh { points: vec![[1.0, 2.0, 3.0], [4.0; 3]], faces: vec![[0, 1, 1]] },
        TriangleMesh { points: vec![[1.0; 3], [2.0; 3], [3.0; 3]], faces: vec![[2, 0, 1]] },
        TriangleMesh { points: vec![[1.0; 3]; 4], faces: vec![[3, 2, 1], [0, 0, 0]] },
        awkward(),
        shapes::knot(31, 33)?,
        shapes::plane([3.0, 4.0], [32, 1])?,
    ])
}

#[test]
fn obj_and_ply_keep_every_bit() -> Answer {
    for mesh in meshes()? {
        let mut read = vec![TriangleMesh::from_obj(&obj_bytes(&mesh)?[..])?];
        for encoding in ENCODINGS {
            read.push(TriangleMesh::from_ply(&ply_bytes(&mesh, encoding)?[..])?);
        }
        for read in read {
            assert_eq!(bits(&read), bits(&mesh));
            assert_eq!(read.faces, mesh.faces);
        }
    }
    Ok(())
}

#[test]
fn stl_keeps_the_corners_of_faces() -> Answer {
    for mesh in meshes()? {
        let bytes = stl_bytes(&mesh)?;
        assert_eq!(bytes.len(), 84 + 50 * mesh.faces.len());
        let read = TriangleMesh::from_stl(&bytes[..])?;
        let corners = |mesh: &TriangleMesh| -> Vec<[[f32; 3]; 3]> {
            mesh.faces.iter().map(|face| face.map(|index| mesh.points[index as usize])).collect()
        };
        assert_eq!(corners(&read), corners(&mesh));
        let mut welded = read.clone();
        welded.weld();
        assert_eq!(welded, read);
    }
    let mesh = shapes::knot(31, 33)?;
    let read = TriangleMesh::from_stl(&stl_bytes(&mesh)?[..])?;
    assert_eq!(read.points.len(), mesh.points.len());
    Ok(())
}

#[test]
fn stl_has_normals_of_length_one_or_none() -> Answer {
    let mut mesh = shapes::cube(2.0)?;
    mesh.faces.push([0, 0, 1]);
    let bytes = stl_bytes(&mesh)?;
    let normal = |face: usize| -> [f32; 3] {
        let number = |at: usize| {
            bytes[84 + face * 50 + at * 4..].first_chunk().map(|b| f32::from_le_bytes(*b))
        };
        [0, 1, 2].map(|at| number(at).unwrap_or(f32::NAN))
    };
    assert_eq!([normal(0), normal(2)], [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]);
    assert_eq!(normal(12), [0.0; 3]);
    Ok(())
}

#[test]
fn files_are_chosen_by_their_extension() -> Answer {
    let folder = std::env::temp_dir().join(format!("mesh-files-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mesh = shapes::icosphere(1, 2.0)?;
    for (name, start) in [("a.obj", "v "), ("b.PLY", "ply\n"), ("c.Stl", "\0")] {
        let path = folder.join(name);
        mesh.save(&path)?;
        assert!(std::fs::read(&path)?.starts_with(start.as_bytes()));
        let read = TriangleMesh::load(&path)?;
        assert_eq!((read.points.len(), read.faces.len()), (42, 80));
        assert!((read.volume() - mesh.volume()).abs() < 1e-9);

        // A mesh that can't be written leaves the file unchanged.
        let broken = TriangleMesh { points: vec![[0.0; 3]], faces: vec![[0, 0, 1]] };
        let error = broken.save(&path).err().ok_or("written")?;
        assert!(
            error.to_string().contains(name) && error.to_string().contains("face 0"),
            "{error}"
        );
        assert_eq!(TriangleMesh::load(&path)?, read);
    }
    let error = mesh.save(folder.join("mesh.off")).err().ok_or("saved")?;
    assert!(matches!(error.kind(), FileErrorKind::UnknownFormat) && error.format().is_none());
    assert!(TriangleMesh::load(folder.join("obj")).is_err());
    let missing = folder.join("missing.obj");
    let error = TriangleMesh::load(&missing).err().ok_or("loaded")?;
    assert!(matches!(error.kind(), FileErrorKind::Io(_)));
    assert_eq!((error.path(), error.format()), (Some(&*missing), Some(FileFormat::Obj)));
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

#[test]
fn meshes_that_could_not_be_read_are_not_written() {
    let nan = TriangleMesh { points: vec![[0.0; 3], [0.0, f32::NAN, 0.0]], faces: Vec::new() };
    let range = TriangleMesh { points: vec![[0.0; 3]], faces: vec![[0, 0, 0], [0, 1, 0]] };
    for (mesh, what) in [(nan, "point 1"), (range, "face 1")] {
        let mut bytes = Vec::new();
        let mut errors = vec![mesh.write_obj(&mut bytes), mesh.write_stl(&mut bytes)];
        errors.extend(ENCODINGS.map(|encoding| mesh.write_ply(&mut bytes, encoding)));
        for error in errors {
            assert!(error.is_err_and(|error| error.to_string().contains(what)));
        }
        assert!(bytes.is_empty());
    }
}

/// A writer that takes a few bytes and then fails.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::Error::other("full"));
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn full_disks_are_errors() -> Answer {
    let mesh = shapes::cube(1.0)?;
    for room in [0, 10, 100] {
        let mut errors = vec![mesh.write_obj(Full(room)), mesh.write_stl(Full(room))];
        errors.extend(ENCODINGS.map(|encoding| mesh.write_ply(Full(room), encoding)));
        for error in errors {
            assert!(error.is_err_and(|error| error.to_string().contains("full")));
        }
    }
    Ok(())
}
