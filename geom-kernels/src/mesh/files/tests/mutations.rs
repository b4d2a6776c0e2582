//! Ten thousand mutated files of each format. Each gives a valid mesh or an error, never a panic, and takes no more
//! memory than its size justifies.

use super::bad_files::allowed;
use super::meter::largest_block;
use super::*;
use crate::mesh::shapes;
use crate::mesh::shapes::split_mix;

const FILES: usize = 10_000;

/// Replacements for numbers and keywords.
const WORDS: [&str; 24] = [
    "-1",
    "0",
    "1",
    "3",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "-9223372036854775808",
    "nan",
    "-inf",
    "1e39",
    "1e-50",
    "1.5",
    "/",
    "//",
    "f",
    "v",
    "list",
    "double",
    "\n",
    " ",
];

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        (split_mix(&mut self.0) % (n as u64).max(1)) as usize
    }

    fn word(&mut self) -> &'static [u8] {
        let word = self.below(WORDS.len());
        WORDS.get(word).copied().unwrap_or("0").as_bytes()
    }

    /// Returns a part of a file, most often a short one.
    fn part(&mut self, length: usize) -> std::ops::Range<usize> {
        let most = if self.below(4) == 0 { length } else { 12 };
        let start = self.below(length + 1);
        start..(start + self.below(most + 1)).min(length)
    }

    fn change(&mut self, file: &mut Vec<u8>) {
        let part = self.part(file.len());
        match self.below(8) {
            0 => file.truncate(part.start),
            1 => drop(file.drain(part)),
            2 => {
                let copy = file[part.clone()].to_vec();
                let at = self.below(file.len() + 1);
                drop(file.splice(at..at, copy));
            }
            3 => {
                for byte in &mut file[part] {
                    *byte = split_mix(&mut self.0) as u8;
                }
            }
            4 => file[part].fill([0, 0xff, 0x7f, b' '][self.0 as usize % 4]),
            5 => {
                if let Some(byte) = file.get_mut(part.start) {
                    *byte ^= 1 << (self.0 % 8);
                }
            }
            // A word is replaced by another, twice as likely as the other changes.
            _ => {
                let letter = |byte: &u8| !byte.is_ascii_whitespace();
                let rest = file.get(part.start..).unwrap_or_default();
                let length = rest.iter().take_while(|byte| letter(byte)).count();
                let end = part.start + length.min(24);
                drop(file.splice(part.start..end, self.word().iter().copied()));
            }
        }
    }
}

/// Prints how many of the files were still valid meshes.
fn storm(
    files: &[Vec<u8>],
    read: fn(&[u8]) -> Result<TriangleMesh, FileError>,
    seed: u64,
) -> usize {
    let mut random = Random(seed);
    let mut meshes = 0;
    for round in 0..FILES {
        let mut file = if round % 50 == 0 {
            (0..random.below(400)).map(|_| random.below(256) as u8).collect()
        } else {
            files[round % files.len()].clone()
        };
        for _ in 0..1 + random.below(3) {
            random.change(&mut file);
        }
        let (result, largest) = largest_block(|| read(&file));
        assert!(
            largest <= allowed(file.len()),
            "{largest} bytes for {} in round {round}",
            file.len()
        );
        match result {
            Ok(mesh) => {
                meshes += 1;
                assert_eq!(check(&mesh), Ok(()));
            }
            Err(error) => assert!(error.to_string().len() < 400, "{error}"),
        }
    }
    meshes
}

fn shape() -> Result<TriangleMesh, cuda_safe::Error> {
    shapes::torus(2.0, 0.5, 4, 3)
}

/// Fails unless some changes are harmless and most are not: otherwise the test would show nothing.
fn check_share(meshes: usize) {
    assert!((FILES / 50..FILES * 4 / 5).contains(&meshes), "{meshes} of {FILES}");
}

#[test]
fn changed_obj_files_are_meshes_or_errors() -> Answer {
    let by_hand = b"o a\nv 0 0 0 1\nv 1 0 0 0 0 1\nv 0 1 0\nvn 0 0 1\ng b\nf 1//1 2//1 3//1\nf -3 -2 -1 \\\n 1\n";
    check_share(storm(
        &[obj_bytes(&shape()?)?, by_hand.to_vec()],
        |bytes| TriangleMesh::from_obj(bytes),
        1,
    ));
    Ok(())
}

#[test]
fn changed_stl_files_are_meshes_or_errors() -> Answer {
    let facet = "facet normal 0 0 1\n outer loop\n vertex 0 0 0\n vertex 1 0 0\n vertex 0 1 0\n endloop\nendfacet\n";
    let text = format!("solid a\n{facet}endsolid a\nsolid\n{facet}{facet}endsolid\n");
    let mut titled = stl_bytes(&shape()?)?;
    titled[..6].copy_from_slice(b"solid ");
    let files = [stl_bytes(&shape()?)?, text.into_bytes(), titled];
    check_share(storm(&files, |bytes| TriangleMesh::from_stl(bytes), 2));
    Ok(())
}

#[test]
fn changed_ply_files_are_meshes_or_errors() -> Answer {
    let by_hand = b"ply\nformat ascii 1.0\nelement vertex 3\nproperty double x\nproperty int y\nproperty uchar z\n\
        property list char short names\nelement face 2\nproperty list int double vertex_index\n\
        property float q\nelement edge 1\nproperty int v\nend_header\n\
        0 1 2 1 5\n1.5 2 3 0\n1 1 1 2 -1 1\n3 0 1 2 0.5\n4 0 1 2 0 1\n-7\n";
    let mut files = vec![by_hand.to_vec()];
    for encoding in ENCODINGS {
        files.push(ply_bytes(&shape()?, encoding)?);
    }
    check_share(storm(&files, |bytes| TriangleMesh::from_ply(bytes), 3));
    Ok(())
}
