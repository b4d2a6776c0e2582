//! Files that common readers misread without an error: each gives the mesh, or an error that names the format.

use super::*;

const OBJ: &str = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 3 4\n";
const STL: &str = "solid x\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\n\
                   endfacet\nendsolid x\n";
const PLY: &str = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n\
                   property float nx\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n\
                   0 0 0 1\n1 0 0 1\n0 1 0 1\n3 0 1 2\n";

fn utf16(text: &str, mark: bool, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let mark = mark.then_some(0xfeff);
    mark.into_iter().chain(text.encode_utf16()).flat_map(bytes).collect()
}

/// Returns a text in the encodings and with the line ends of other programs and systems.
fn variants(text: &str) -> Vec<Vec<u8>> {
    vec![
        text.as_bytes().to_vec(),
        format!("\u{feff}{text}").into_bytes(),
        utf16(text, true, u16::to_le_bytes),
        utf16(text, true, u16::to_be_bytes),
        utf16(text, false, u16::to_le_bytes),
        utf16(text, false, u16::to_be_bytes),
        text.replace('\n', "\r").into_bytes(),
        text.replace('\n', "\r\n").into_bytes(),
        text.replace('\n', "\n\n").into_bytes(),
        format!("\n \n{text}").into_bytes(),
        text.trim_ascii_end().as_bytes().to_vec(),
    ]
}

#[test]
fn encodings_and_line_ends_lose_nothing() -> Answer {
    let obj = TriangleMesh::from_obj(OBJ.as_bytes())?;
    assert_eq!((obj.points.len(), &obj.faces[..]), (4, &[[0, 1, 2], [0, 2, 3]][..]));
    for bytes in variants(OBJ) {
        assert_eq!(TriangleMesh::from_obj(&bytes[..])?, obj, "{}", bytes.escape_ascii());
    }
    let triangle = TriangleMesh { points: obj.points[..3].to_vec(), faces: vec![[0, 1, 2]] };
    for bytes in variants(STL) {
        assert_eq!(TriangleMesh::from_stl(&bytes[..])?, triangle, "{}", bytes.escape_ascii());
    }
    for bytes in variants(PLY) {
        assert_eq!(TriangleMesh::from_ply(&bytes[..])?, triangle, "{}", bytes.escape_ascii());
    }
    // The text has joined files, and comments in any encoding that end with a backslash.
    let joined = "\u{feff}v 0 0 0 # C:\\\n\u{feff}v 1 0 0\nv 0 1 0\nF 1 2 3\n";
    assert_eq!(TriangleMesh::from_obj(joined.as_bytes())?, triangle);
    let mut latin = PLY.replace("element vertex", "comment f\u{fc}r\nelement vertex").into_bytes();
    latin.retain(|byte| *byte != 0xc3);
    assert_eq!(TriangleMesh::from_ply(&latin[..])?, triangle);
    Ok(())
}

#[test]
fn padding_at_the_end_is_passed_over() -> Answer {
    for padding in ["\x1a", "\0", "\x1a\r\n", "\n\x1a\0\0\0\0", &"\0".repeat(2000)] {
        let padded = |text: &str| format!("{text}{padding}").into_bytes();
        assert_eq!(
            TriangleMesh::from_obj(&padded(OBJ)[..])?,
            TriangleMesh::from_obj(OBJ.as_bytes())?
        );
        assert_eq!(
            TriangleMesh::from_stl(&padded(STL)[..])?,
            TriangleMesh::from_stl(STL.as_bytes())?
        );
        assert_eq!(
            TriangleMesh::from_ply(&padded(PLY)[..])?,
            TriangleMesh::from_ply(PLY.as_bytes())?
        );
        // A file of padding only is not a mesh.
        assert!(TriangleMesh::from_obj(padding.as_bytes()).is_err());
    }
    // A binary file without faces is not read as text.
    let mut bytes = b"solid".to_vec();
    bytes.resize(100, 0);
    assert_eq!(TriangleMesh::from_stl(&bytes[..])?, TriangleMesh::default());
    Ok(())
}

#[test]
fn names_may_be_words_of_other_formats() -> Answer {
    let plain = TriangleMesh::from_obj(OBJ.as_bytes())?;
    assert_eq!(TriangleMesh::from_obj(format!("# VTK to OBJ\n{OBJ}").as_bytes())?, plain);
    let error = TriangleMesh::from_obj(format!("# vtk DataFile Version 3.0\n{OBJ}").as_bytes());
    assert!(error.is_err_and(|error| error.to_string().contains("the file is VTK")));
    let facet = STL.replace("solid x", "solid facet");
    assert_eq!(TriangleMesh::from_stl(facet.as_bytes())?, TriangleMesh::from_stl(STL.as_bytes())?);
    Ok(())
}

#[test]
fn unused_numbers_may_be_anything() -> Answer {
    let triangle = TriangleMesh::from_stl(STL.as_bytes())?;
    for normal in ["nan nan nan", "-nan(ind) 1.#QNAN inf", "0 0", ""] {
        let text = STL.replace("0 0 1", normal);
        assert_eq!(TriangleMesh::from_stl(text.as_bytes())?, triangle, "{normal}");
    }
    let one_line = STL.replacen('\n', "\r", 1).replace('\n', " ");
    assert_eq!(TriangleMesh::from_stl(one_line.as_bytes())?, triangle);
    let mut binary = stl_bytes(&triangle)?;
    binary[84..96].fill(0xff);
    assert_eq!(TriangleMesh::from_stl(&binary[..])?, triangle);
    for normal in ["nan", "1e99", "1,5", "-1.#IND"] {
        let text = PLY.replace("1 0 0 1", &format!("1 0 0 {normal}"));
        assert_eq!(TriangleMesh::from_ply(text.as_bytes())?, triangle, "{normal}");
    }
    // MeshLab declares one colour of a face, and writes nine numbers.
    let text = PLY.replace("3 0 1 2", "3 0 1 2 9 1 1 1");
    assert_eq!(TriangleMesh::from_ply(text.as_bytes())?, triangle);
    let text = "v 0 0 0 nan nan nan\nv 1 0 0\nv 0 1 0\nvn nan x\nvt 1,5\nf 1/x 2//y 3\n";
    assert_eq!(TriangleMesh::from_obj(text.as_bytes())?, triangle);
    Ok(())
}

#[test]
fn counts_that_lie_are_errors_with_both() -> Answer {
    let triangle = TriangleMesh::from_stl(STL.as_bytes())?;
    let mut two = triangle.clone();
    two.points.push([1.0, 1.0, 0.0]);
    two.faces.push([1, 3, 2]);
    let whole = stl_bytes(&two)?;
    for count in [0u8, 1, 3] {
        let mut bytes = whole.clone();
        bytes[80] = count;
        let error = TriangleMesh::from_stl(&bytes[..]).err().ok_or("read")?.to_string();
        let says = format!(
            "say {count} faces, which have {} bytes; 100 bytes follow, 2 faces",
            u32::from(count) * 50
        );
        assert!(error.contains(&says), "{error}");
    }
    // A remainder of less than a face is padding, also in a file that starts like a text.
    let mut bytes = whole;
    bytes[..80].fill(b' ');
    bytes[..10].copy_from_slice(b"solid part");
    bytes.push(0);
    assert_eq!(TriangleMesh::from_stl(&bytes[..])?, two);

    let mut bytes = ply_bytes(&triangle, PlyEncoding::LittleEndian)?;
    let length = bytes.len();
    bytes.extend_from_slice(b"\n\0");
    assert_eq!(TriangleMesh::from_ply(&bytes[..])?, triangle);
    bytes.push(1);
    let error = TriangleMesh::from_ply(&bytes[..]).err().ok_or("read")?.to_string();
    assert!(error.contains(&format!("byte {length}: 3 more bytes after the 4 items")), "{error}");
    Ok(())
}

#[test]
fn errors_in_binary_files_have_a_byte() -> Answer {
    let mut mesh = TriangleMesh::from_stl(STL.as_bytes())?;
    mesh.faces.push([2, 1, 0]);
    let mut bytes = stl_bytes(&mesh)?;
    // The offset is that of the y coordinate of the second corner of the second face.
    let at = 84 + 50 + 12 + 16;
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = TriangleMesh::from_stl(&bytes[..]).err().ok_or("read")?.to_string();
    assert!(error.contains(&format!("byte {at}: a coordinate of face 1 is not")), "{error}");
    for encoding in [PlyEncoding::LittleEndian, PlyEncoding::BigEndian] {
        let mut bytes = ply_bytes(&mesh, encoding)?;
        let at = bytes.len() - 13;
        bytes[at + 1..at + 5].fill(0x7f);
        let error = TriangleMesh::from_ply(&bytes[..]).err().ok_or("read")?.to_string();
        assert!(error.contains(&format!("byte {at}: `face` 1: point 2139062143 of")), "{error}");
    }
    Ok(())
}

/// If "\r" ends lines, the first byte of the data may be "\n".
#[test]
fn the_data_starts_after_one_line_end() -> Answer {
    for end in ["\r", "\n", "\r\n"] {
        let header = "ply\nformat binary_little_endian 1.0\nelement vertex 1\nproperty float x\nproperty float y\n\
                      property float z\nend_header\n";
        let mut bytes = header.replace('\n', end).into_bytes();
        let x = f32::from_le_bytes([b'\n', b'\r', 0, 1]);
        for x in [x, 2.0, 3.0] {
            bytes.extend_from_slice(&x.to_le_bytes());
        }
        assert_eq!(TriangleMesh::from_ply(&bytes[..])?.points, [[x, 2.0, 3.0]]);
    }
    Ok(())
}

#[test]
fn other_formats_are_named() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1000\n";
    let cases: [(&[u8], &str); 14] = [
        (pointer.as_bytes(), "the file is a git-LFS pointer: fetch the file with `git lfs pull`"),
        (b"<!DOCTYPE html>\n<html><body>404</body></html>", "the file is a web page"),
        (b"\n<HTML>", "the file is a web page"),
        (b"<?xml version=\"1.0\"?>\n<COLLADA>", "the file is XML"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "the file is compressed by gzip"),
        (b"PK\x03\x04\x14\0", "the file is a zip archive"),
        (b"\x28\xb5\x2f\xfd\0", "the file is compressed by zstd"),
        (b"glTF\x02\0\0\0", "the file is binary glTF"),
        (b"{\"asset\":{\"version\":\"2.0\"}}", "the file is JSON"),
        (b"Kaydara FBX Binary  \0", "the file is FBX"),
        (b"OFF\n3 1 0\n0 0 0\n", "the file is OFF"),
        (b"\xff\xfe\0\0v\0\0\0 \0\0\0", "the file is UTF-32 text"),
        (b"nothing of it", "`nothing of it`"),
        (b"\x01\x02\x03", "`\\x01\\x02\\x03`"),
    ];
    for (start, what) in cases {
        // The longer padding makes the file long enough for binary STL.
        for padding in [0, 1000] {
            let bytes = [start, &vec![b' '; padding]].concat();
            let results = [
                TriangleMesh::from_obj(&bytes[..]),
                TriangleMesh::from_ply(&bytes[..]),
                TriangleMesh::from_stl(&bytes[..]),
            ];
            for result in results {
                match result {
                    Ok(mesh) => panic!("{mesh:?} of {}", bytes.escape_ascii()),
                    // The title of a binary file may be anything.
                    Err(error) if padding > 0 && what.starts_with('`') => drop(error),
                    Err(error) => {
                        assert!(error.to_string().contains(what), "{error} without {what}");
                    }
                }
            }
        }
    }
    for (error, what) in [
        (TriangleMesh::from_obj(PLY.as_bytes()), "OBJ: the file is PLY: read it as that"),
        (TriangleMesh::from_obj(STL.as_bytes()), "OBJ: the file is STL: read it as that"),
        (TriangleMesh::from_stl(OBJ.as_bytes()), "STL: the file is OBJ: read it as that"),
        (TriangleMesh::from_stl(PLY.as_bytes()), "STL: the file is PLY: read it as that"),
        (TriangleMesh::from_ply(STL.as_bytes()), "the file is STL: read it as that"),
    ] {
        assert!(error.is_err_and(|error| error.to_string().contains(what)), "{what}");
    }
}
