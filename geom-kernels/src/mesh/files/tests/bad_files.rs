//! Files that are wrong, and the reasons that are given.

use super::meter::largest_block;
use super::*;

type Reader = fn(&[u8]) -> Result<TriangleMesh, FileError>;

fn refuses(read: Reader, cases: &[(&str, &str)]) {
    for (file, reason) in cases {
        match read(file.as_bytes()) {
            Ok(mesh) => panic!("{file:?} was read as {mesh:?}"),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(reason), "{text:?} instead of {reason:?} for {file:?}");
            }
        }
    }
}

#[test]
fn bad_obj() {
    let cases = [
        ("v 0 0\n", "position"),
        ("v 0 0 x\n", "position"),
        ("v 0 0 nan\n", "point 0"),
        ("v 1 1 1\nv 0 -inf 0\n", "point 1"),
        ("v 0 1e39 0\n", "finite"),
        ("v 1 1 1 0\n", "by zero"),
        ("v 1 1 1\nf 1 1 2\n", "out of bounds"),
        ("v 1 1 1\nf 0 1 1\n", "out of bounds"),
        ("v 1 1 1\nf -2 1 1\n", "out of bounds"),
        ("f 1 1 1\n", "out of bounds"),
        ("v 1 1 1\nf 1 1\n", "corners"),
        ("v 1 1 1\nf 1\n", "corners"),
        ("v 1 1 1\nf\n", "corners"),
        ("v 1 1 1\nf 1 1 1.5\n", "face"),
        ("v 1 1 1\nf 1 1 99999999999999999999\n", "face"),
        ("v 1 1 1\nf 1 1 -9223372036854775808\n", "out of bounds"),
        ("v 1 1 1\nf 1 1 9223372036854775807\n", "out of bounds"),
        ("v 1 1 1\nf 1 /1 1 1\n", "out of bounds"),
    ];
    refuses(|bytes| TriangleMesh::from_obj(bytes), &cases);
}

#[test]
fn bad_stl() {
    let facet = "facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n";
    let solid = format!("solid\n{facet}endsolid\n");
    let cases = [
        ("", "neither"),
        ("sol", "neither"),
        ("solid", "EOF"),
        (&format!("solid\n{facet}"), "EOF"),
        (&format!("{solid}{facet}"), "not a solid"),
        (&format!("{solid}solid\n"), "EOF"),
        (&solid.replace("1 0 0", "1 nan 0"), "finite"),
        (&solid.replace("1 0 0", "1 1e39 0"), "finite"),
        (&solid.replace("1 0 0", "1 0"), "vertex"),
        (&solid.replace("endloop\n", ""), "endloop"),
        (&" ".repeat(84), "header says"),
    ];
    refuses(|bytes| TriangleMesh::from_stl(bytes), &cases);
}

#[test]
fn bad_ply() {
    let good = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n\
                element face 1\nproperty list uchar int vertex_indices\nend_header\n\
                0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n";
    assert!(TriangleMesh::from_ply(good.as_bytes()).is_ok());
    let with = |from: &str, to: &str| {
        assert!(good.contains(from));
        good.replace(from, to)
    };
    let cases = [
        ("", "magic"),
        ("ply\n", "end of file"),
        ("obj\n", "magic"),
        (&with("ascii", "utf8"), "line"),
        (&with("vertex 3", "vertex 4"), "1 of \"face\""),
        (&with("vertex 3", "vertex 2"), "face 0: a face without corners"),
        (&with("vertex 3", "vertex -3"), "line"),
        (&with("vertex 3", "vertex 1000000000"), "the header says"),
        (&with("vertex 3", "vertex 18446744073709551615"), "the header says"),
        (&with("vertex 3", "vertex 99999999999999999999"), "element"),
        (&with("face 1", "face 2"), "cut off"),
        (&with("element vertex 3", "element points 3"), "\"vertex\""),
        (&with("float y", "float w"), "\"y\""),
        (&with("float y", "list uchar float y"), "vertex 0"),
        (&with("vertex_indices", "corners"), "vertex_indices"),
        (&with("list uchar int vertex_indices", "int vertex_indices"), "no indices"),
        (&with("element face 1", "element tristrips 1"), "strips"),
        (&with("float z\n", "float z\nproperty float x\n"), "same name"),
        (&with("element face 1", "element vertex 3"), "same name"),
        (&with("element vertex 3", "element vertex 9\nelement vertex 3"), "same name"),
        (&with("element face 1", "element nothing 9\nelement face 1"), "no properties"),
        (&with("3 0 1 2", "3 0 1 3"), "face 0"),
        (&with("3 0 1 2", "3 0 1 -1"), "no indices"),
        (&with("3 0 1 2", "3 0 1 1.5"), "face 0"),
        (&with("3 0 1 2", "2 0 1 1"), "2 corners"),
        (&with("3 0 1 2", "0"), "without corners"),
        (&with("3 0 1 2", "4000000000 0 1 2"), "list"),
        (&with("3 0 1 2", "-3 0 1 2"), "face 0"),
        (&with("1 0 0", "nan 0 0"), "vertex 1"),
        (&with("1 0 0", "1e39 0 0"), "point 1"),
        (&with("1 0 0", "1 0"), "vertex 1"),
        (&with("1 0 0", ""), "vertex 1"),
    ];
    refuses(|bytes| TriangleMesh::from_ply(bytes), &cases);
}

/// Returns how much a reader may ask for at once, for a file of so many bytes. A list that says it is longer than it is
/// costs half a MiB.
pub(super) fn allowed(length: usize) -> usize {
    (1 << 20) + 64 * length
}

#[test]
fn headers_that_lie_reserve_nothing() {
    let mut stl = vec![0; 84 + 50];
    stl[80..84].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut files: Vec<(Reader, Vec<u8>)> = vec![(|bytes| TriangleMesh::from_stl(bytes), stl)];
    for encoding in ["ascii", "binary_little_endian", "binary_big_endian"] {
        for count in ["4000000000", "1000000000000000000", "18446744073709551615"] {
            for element in ["element vertex", "element face", "element other", "element nothing"] {
                let mut header = format!(
                    "ply\nformat {encoding} 1.0\nelement nothing 0\nelement other 0\nproperty list int int a\n\
                     element vertex 0\nproperty float x\nproperty float y\nproperty float z\n\
                     element face 0\nproperty list uint double vertex_index\nend_header\n"
                );
                header = header.replace(&format!("{element} 0"), &format!("{element} {count}"));
                let mut bytes = header.into_bytes();
                bytes.extend_from_slice(&[0x7f; 1000]);
                files.push((|bytes| TriangleMesh::from_ply(bytes), bytes));
            }
        }
        // One list that says it has two thousand million entries.
        let mut bytes = format!(
            "ply\nformat {encoding} 1.0\nelement vertex 0\nproperty float x\nproperty float y\nproperty float z\n\
             element face 1\nproperty list uint double vertex_index\nend_header\n"
        )
        .into_bytes();
        bytes.extend_from_slice(if encoding == "ascii" { b"2000000000 1" } else { &[0x7f; 99] });
        files.push((|bytes| TriangleMesh::from_ply(bytes), bytes));
    }
    for (read, bytes) in files {
        let (result, largest) = largest_block(|| read(&bytes));
        assert!(result.is_err());
        assert!(
            largest <= allowed(bytes.len()),
            "{largest} bytes for {}",
            String::from_utf8_lossy(&bytes)
        );
    }
}

#[test]
fn reasons_are_short() {
    let noise = vec![b'x'; 3 << 20];
    for file in [b"ply\n".as_slice(), b"ply\nformat ascii 1.0\ncomment ", b"solid\nfacet ", b"v "] {
        let bytes = [file, &noise].concat();
        let readers: [Reader; 3] = [
            |bytes| TriangleMesh::from_obj(bytes),
            |bytes| TriangleMesh::from_stl(bytes),
            |bytes| TriangleMesh::from_ply(bytes),
        ];
        for read in readers {
            if let Err(error) = read(&bytes) {
                let text = error.to_string();
                assert!(text.len() < 300 && !text.contains('\n'), "{text}");
            }
        }
    }
}
