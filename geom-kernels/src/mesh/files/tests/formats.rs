//! Files in the forms that other programs write.

use super::*;

#[test]
fn obj_by_hand() -> Answer {
    let text = "# a cube without its top, by groups\r
mtllib nowhere at all.mtl
o Cube
v 0 0 0 # corner
v\t1 0 0 0.5 0.5 0.5
v 2 2 0 2
v 0 1 0
vt 0.5 0.5
vn 0 0 1
s off
g bottom
usemtl
f 1/1/1 4/99999999/1 3//9 2/1
g front
v 0 0 1
v 1.0e0 +0 1
f -6 -5 \\
  -1 -2
l 1 2 3 4
p 1
g others \u{e4}
f 2 3 6
f 6 3 4 5 1
v 7 7 7
";
    let wanted = [
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
        [1.0, 1.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, 0.0, 1.0],
        [1.0, 0.0, 1.0],
        [7.0, 7.0, 7.0],
    ];
    // Comments in Latin-1 are accepted.
    let mut latin = text.as_bytes().to_vec();
    latin.extend_from_slice(b"# \xe4\xff\n");
    for bytes in [text.as_bytes(), &text.replace('\n', "\r\n").into_bytes(), &latin] {
        let mesh = TriangleMesh::from_obj(bytes)?;
        assert_eq!(mesh.points, wanted);
        let fans = [
            [0, 3, 2],
            [0, 2, 1],
            [0, 1, 5],
            [0, 5, 4],
            [1, 2, 5],
            [5, 2, 3],
            [5, 3, 4],
            [5, 4, 0],
        ];
        assert_eq!(mesh.faces, fans);
    }
    // A face may come before its points.
    let mesh = TriangleMesh::from_obj(&b"f 1 2 3\nv 1 2 3\nv 4 5 6\nv 7 8 9"[..])?;
    assert_eq!(mesh.faces, [[0, 1, 2]]);
    assert_eq!(TriangleMesh::from_obj(&b""[..])?, TriangleMesh::default());
    Ok(())
}

const TEXT_STL: &str = "solid two triangles
  facet normal 0 0 1
    outer loop
      vertex 0 0 0
      vertex 1.0 0 -0.0
      vertex 0 1e0 0
    endloop
  endfacet
  facet normal 0 0 0
    outer loop
      vertex 1 0 0
      vertex 1 1 0
      vertex 0 1 0
    endloop
  endfacet
endsolid two triangles
";

#[test]
fn stl_as_text() -> Answer {
    let points = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]];
    let unnamed = TEXT_STL.replace(" two triangles", "");
    let mut latin = TEXT_STL.as_bytes().to_vec();
    latin[6] = 0xe4;
    let variants = [
        TEXT_STL.as_bytes(),
        unnamed.as_bytes(),
        &TEXT_STL.to_uppercase().into_bytes(),
        &TEXT_STL.replace('\n', "\r\n").into_bytes(),
        &unnamed.replace('\n', "\r\n").into_bytes(),
        unnamed.trim_end().as_bytes(),
        &latin,
    ];
    for bytes in variants {
        let mesh = TriangleMesh::from_stl(bytes)?;
        assert_eq!(mesh.points, points);
        assert_eq!(mesh.faces, [[0, 1, 2], [1, 3, 2]]);
    }
    // Two solids become one mesh, whose points are merged.
    let mesh = TriangleMesh::from_stl(format!("{TEXT_STL}\n{unnamed}").as_bytes())?;
    assert_eq!(mesh.points, points);
    assert_eq!(mesh.faces, [[0, 1, 2], [1, 3, 2], [0, 1, 2], [1, 3, 2]]);
    let mesh = TriangleMesh::from_stl(&b"solid\nendsolid"[..])?;
    assert_eq!(mesh, TriangleMesh::default());
    Ok(())
}

#[test]
fn binary_stl_may_begin_with_solid_and_end_with_more() -> Answer {
    let mesh = TriangleMesh { points: vec![[1.0; 3], [2.0; 3], [3.0; 3]], faces: vec![[0, 1, 2]] };
    for title in ["solid by a program\n", "solid", "SOLID x", "Other"] {
        let mut bytes = stl_bytes(&mesh)?;
        bytes[..title.len()].copy_from_slice(title.as_bytes());
        assert_eq!(TriangleMesh::from_stl(&bytes[..])?, mesh);
    }
    let mut bytes = stl_bytes(&mesh)?;
    bytes.extend_from_slice(b"more");
    assert_eq!(TriangleMesh::from_stl(&bytes[..])?, mesh);
    Ok(())
}

#[test]
fn ply_of_any_types() -> Answer {
    let text = "ply\r
format ascii 1.0
comment made by hand
obj_info anything
element material 1
property list int float shades
property uchar kind
element face 3
property uchar red
property list short double vertex_index
property list uchar float texcoord
element vertex 5
property double z
property short x
property float nx
property uint8 y
element edge 0
end_header
2 0.5 1.5 7
0 3 0 1 2 0
1 4 1 2 3 4 2 0.5 0.5
2 3 4 0 3 1 1
3.5 -1 0.125 255
1e-3 2 0 3
1 1 1 1
2 2 2 2
0 32767 0 0
";
    let mesh = TriangleMesh::from_ply(text.as_bytes())?;
    let points = [
        [-1.0, 255.0, 3.5],
        [2.0, 3.0, 1e-3],
        [1.0, 1.0, 1.0],
        [2.0, 2.0, 2.0],
        [32767.0, 0.0, 0.0],
    ];
    assert_eq!(mesh.points, points);
    assert_eq!(mesh.faces, [[0, 1, 2], [1, 2, 3], [1, 3, 4], [4, 0, 3]]);
    Ok(())
}

/// Appends the bytes of a number in the file's byte order.
type Order = fn(&mut Vec<u8>, u64, usize);

#[test]
fn binary_ply_by_hand() -> Answer {
    let little: Order = |out, value, size| out.extend_from_slice(&value.to_le_bytes()[..size]);
    let big: Order = |out, value, size| out.extend_from_slice(&value.to_be_bytes()[8 - size..]);
    for (name, number) in [("little", little), ("big", big)] {
        for (list, size) in
            [("char", 1), ("uchar", 1), ("short", 2), ("ushort", 2), ("int", 4), ("uint", 4)]
        {
            let mut bytes = format!(
                "ply\nformat binary_{name}_endian 1.0\nelement vertex 4\nproperty double x\n\
                 property uchar flags\nproperty float y\nproperty int z\nelement face 1\n\
                 property list ushort {list} vertex_indices\nproperty short group\nend_header\n"
            )
            .into_bytes();
            for i in 0..4u32 {
                number(&mut bytes, (f64::from(i) * 0.25).to_bits(), 8);
                number(&mut bytes, 255, 1);
                number(&mut bytes, u64::from((i as f32 - 1.5).to_bits()), 4);
                number(&mut bytes, u64::from(7u32.wrapping_sub(i * 4)), 4);
            }
            number(&mut bytes, 4, 2);
            for i in [3, 1, 0, 2] {
                number(&mut bytes, i, size);
            }
            number(&mut bytes, 0xffff, 2);
            let mesh = TriangleMesh::from_ply(&bytes[..])?;
            let points = [[0.0, -1.5, 7.0], [0.25, -0.5, 3.0], [0.5, 0.5, -1.0], [0.75, 1.5, -5.0]];
            assert_eq!(mesh.points, points);
            assert_eq!(mesh.faces, [[3, 1, 0], [3, 0, 2]]);
            // The file is an error if it is cut off anywhere.
            for length in 0..bytes.len() {
                assert!(TriangleMesh::from_ply(&bytes[..length]).is_err(), "{length}");
            }
        }
    }
    Ok(())
}
