//! Invalid files, and the reasons in their errors.

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
        ("v 0 0\n", "line 1: a point of 2 coordinates"),
        ("v 0 0 x\n", "line 1: the coordinate `x` is not a number"),
        ("v 0 0 nan\n", "line 1: the coordinate `nan` is not a finite f32"),
        ("v 1 1 1\nv 0 -inf 0\n", "line 2: the coordinate `-inf`"),
        ("\n\nv 0 1e39 0\n", "line 3: the coordinate `1e39` is not a finite f32"),
        ("v 1 1 1 0\n", "line 1: a coordinate divided by w = `0`"),
        ("v 1 1 1\nf 1 1 2\n", "line 2: a face names point 2; the file has 1"),
        (
            "v 1 1 1\nf 1 1 3\nf 1 1 4\nf 1 1 2\nv 1 1 1\n",
            "line 3: a face names point 4; the file has 2",
        ),
        ("v 1 1 1\nf 0 1 1\n", "line 2: a face names point 0; points are counted from 1"),
        ("v 1 1 1\nf -2 1 1\n", "line 2: a face names point -2; the file has 1 up to here"),
        ("f 1 1 1\n", "no points: no line starts with \"v\"; the file starts with `f 1 1 1\\n`"),
        ("v 1 1 1\nf 1 1\n", "line 2: a face of 2 corners"),
        ("v 1 1 1\nf 1\n", "line 2: a face of 1 corners"),
        ("v 1 1 1\nf\n", "line 2: a face without corners"),
        ("v 1 1 1\nf 1 1 1.5\n", "line 2: `1.5` is not a number"),
        ("v 1 1 1\nf 1 1 99999999999999999999\n", "line 2: `99999999999999999999` is not a number"),
        (
            "v 1 1 1\nf 1 1 -9223372036854775808\n",
            "line 2: a face names point -9223372036854775808",
        ),
        ("v 1 1 1\nf 1 1 9223372036854775807\n", "line 2: a face names point 9223372036854775807"),
        ("v 1 1 1\nf 1 /1 1 1\n", "line 2: `` is not a number"),
        // The line of a statement over several lines is its first.
        ("v 1 1 1 \\\n\\\n\nf 1 \\\r\n1 2\n", "line 4: a face names point 2"),
        // A line that is no statement may be a damaged one.
        ("v 1 1 1\n1 1 1\n", "line 2: `1` is no statement of OBJ"),
        ("v 1 1 1\n\0v 1 1 1\n", "line 2: `\\x00v` is no statement of OBJ"),
        ("v 1 1 1\n<<<<<<< HEAD\n", "line 2: `<<<<<<<` is no statement of OBJ"),
        ("v 1 1 1\nsurf 0 1 0 1 1 2 3 4\n", "line 2: free-form surfaces"),
        ("v 1 1 1\ncall other.obj\n", "line 2: the contents of another file"),
        ("# nothing\n", "no points"),
    ];
    refuses(|bytes| TriangleMesh::from_obj(bytes), &cases);
}

#[test]
fn bad_stl() {
    let facet = "facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n";
    let solid = format!("solid\n{facet}endsolid\n");
    let cases = [
        (
            "",
            "neither a text that starts with \"solid\" nor a header of 84 bytes; the file is empty",
        ),
        ("sol", "neither"),
        ("solid", "line 1: the file ends where `facet` or `endsolid` belongs"),
        (&format!("solid\n{facet}"), "line 8: the file ends where `facet` or `endsolid` belongs"),
        (&format!("{solid}{facet}"), "line 10: `facet` where `solid` belongs"),
        (&format!("{solid}solid\n"), "line 10: the file ends"),
        (&solid.replace("1 0 0", "1 nan 0"), "line 5: the coordinate `nan` is not a finite f32"),
        (&solid.replace("1 0 0", "1 1e39 0"), "line 5: the coordinate `1e39`"),
        (&solid.replace("1 0 0", "1 0"), "line 6: the coordinate `vertex` is not a number"),
        (&solid.replace("endloop\n", ""), "line 7: `endfacet` where `endloop` belongs"),
        (&solid.replace("endloop", "vertex 1 1 1\nendloop"), "line 7: `vertex` where `endloop`"),
        (&solid.replace("outer loop\n", ""), "line 3: `vertex` where `outer loop` belongs"),
        (
            &solid.replace("facet normal", "face normal"),
            "line 2: `face` where `facet` or `endsolid`",
        ),
        // A face on the line of a name would be lost.
        (
            &format!("{solid}solid b {}\nendsolid\n", facet.replace('\n', " ")),
            "line 10: a `facet` after",
        ),
        (
            &format!("solid a\nendsolid a solid b {}endsolid b\n", facet.replace('\n', " ")),
            "line 2: a `facet` after the name of a solid can't be read",
        ),
        (&" ".repeat(84), "bytes 80 to 83 say 538976288 faces"),
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
    let empty = "element face 0\nproperty list uchar int vertex_indices\n";
    let cases = [
        ("", "the first line is not \"ply\"; the file is empty"),
        ("ply\n", "no line \"end_header\""),
        ("obj\n", "the first line is not \"ply\"; the file starts with `obj\\n`"),
        (&with("format ascii 1.0\n", ""), "no line \"format\""),
        (&with("ascii", "utf8"), "line 2: `utf8` is no format of PLY"),
        (&with("float x", "real x"), "line 4: `real` is no type of PLY"),
        (
            &with("property float x", "properties x"),
            "line 4: `properties x` is no line of a header",
        ),
        (&with("element vertex 3\n", ""), "line 3: a property before the first element"),
        (
            &with("vertex 3", "vertex 4"),
            "line 7: the header says 1 of `face`; 0 bytes are left for them",
        ),
        (&with("vertex 3", "vertex 2"), "line 12: `face` 0: a face without corners"),
        (&with("vertex 3", "vertex -3"), "line 3: `-3` is not a number"),
        (
            &with("vertex 3", "vertex 1000000000"),
            "line 3: the header says 1000000000 of `vertex`; 26 bytes",
        ),
        (&with("vertex 3", "vertex 18446744073709551615"), "the header says"),
        (&with("vertex 3", "vertex 99999999999999999999"), "line 3: `99999999999999999999`"),
        (&with("face 1", "face 2"), "line 13: `face` 1: the file is cut off"),
        (
            &with("3 0 1 2\n", "3 0 1 2\n3 0 1 2\n"),
            "line 14: 1 more lines, starting with `3 0 1 2`, after the 4 items that the header counts",
        ),
        (&with("element vertex 3", "element points 3"), "no element \"vertex\""),
        (&with("float y", "float w"), "line 3: no property \"y\""),
        (
            &with("float y", "list uchar float y"),
            "line 3: the property \"y\" of \"vertex\" is a list",
        ),
        (&with("vertex_indices", "corners"), "line 7: no property \"vertex_indices\""),
        (
            &with("list uchar int vertex_indices", "int vertex_indices"),
            "line 7: the corners of \"face\" are one number",
        ),
        (
            &with("element face 1", "element tristrips 1"),
            "line 7: triangle strips (`tristrips`) can't be read",
        ),
        (
            &with("element face 1\n", &format!("{empty}element tristrips 1\n")),
            "line 9: triangle strips (`tristrips`) can't be read",
        ),
        (
            &with("element face 1\n", &format!("{empty}element faces 1\n")),
            "line 9: faces in the element `faces` can't be read",
        ),
        (
            &with("element face 1", "element faces 1"),
            "line 7: faces in the element `faces` can't be read",
        ),
        (
            &with("float z\n", "float z\nproperty float x\n"),
            "line 7: a second property of the same name, `x`",
        ),
        (&with("element face 1", "element vertex 3"), "line 7: a second element of the same name"),
        (&with("element vertex 3", "element vertex 9\nelement vertex 3"), "same name"),
        (
            &with("element face 1", "element nothing 9\nelement face 1"),
            "line 7: the element `nothing` has no properties",
        ),
        (&with("3 0 1 2", "3 0 1 3"), "line 13: `face` 0: point 3 of a file that has 3"),
        (&with("3 0 1 2", "3 0 1 -1"), "line 13: `face` 0: -1 is no index"),
        (&with("3 0 1 2", "3 0 1 1.5"), "line 13: `face` 0: 1.5 is no index"),
        (&with("3 0 1 2", "2 0 1"), "line 13: `face` 0: a face of 2 corners"),
        (&with("3 0 1 2", "0"), "line 13: `face` 0: a face without corners"),
        (&with("3 0 1 2", "4000000000 0 1 2"), "line 13: `face` 0: the line has fewer numbers"),
        (&with("3 0 1 2", "-3 0 1 2"), "line 13: `face` 0: -3 is no index and no length"),
        (
            &with("1 0 0", "nan 0 0"),
            "line 11: `vertex` 1: the coordinate `nan` is not a finite f32",
        ),
        (&with("1 0 0", "1e39 0 0"), "line 11: `vertex` 1: the coordinate `1e39`"),
        (&with("1 0 0", "1 0"), "line 11: `vertex` 1: the line has fewer numbers"),
        (&with("1 0 0\n", ""), "line 7: the header says 1 of `face`; 0 bytes are left for them"),
    ];
    refuses(|bytes| TriangleMesh::from_ply(bytes), &cases);
}

/// Returns the most memory that a reader may allocate at once for a file of `length` bytes. A list that declares more
/// than it has costs half a MiB.
pub(super) fn allowed(length: usize) -> usize {
    (1 << 20) + 64 * length
}

/// Each name is compared with all before it.
#[test]
fn ply_headers_have_bounds() -> Answer {
    let file = |elements: usize, properties: usize| {
        let mut file = "ply\nformat ascii 1.0\nelement vertex 0\n".to_owned();
        for name in ["x", "y", "z"]
            .map(str::to_owned)
            .into_iter()
            .chain((3..properties).map(|i| format!("p{i}")))
        {
            file += &format!("property float {name}\n");
        }
        for i in 1..elements {
            file += &format!("element e{i} 0\n");
        }
        file + "end_header\n"
    };
    assert_eq!(TriangleMesh::from_ply(file(1000, 10_000).as_bytes())?, TriangleMesh::default());
    let cases = [
        (&*file(1001, 3), "line 1006: more than 1000 elements can't be read"),
        (
            &*file(1, 10_001),
            "line 10004: more than 10000 properties of an element can't be read: `vertex`",
        ),
    ];
    refuses(|bytes| TriangleMesh::from_ply(bytes), &cases);
    Ok(())
}

#[test]
fn debug_is_display() -> Answer {
    let invalid = TriangleMesh::from_obj(&b"v 0 0\n"[..]).err().ok_or("read")?;
    let missing = TriangleMesh::load("no/such.obj").err().ok_or("read")?;
    for error in [invalid, missing] {
        assert_eq!(format!("{error:?}"), error.to_string());
        assert_eq!(format!("{:?}", error.kind()), error.kind().to_string());
    }
    Ok(())
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
        // The file declares a list of two billion entries.
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
