//! Attacks on files of meshes and volumes: bytes that lie.

use std::fs;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::files::PlyEncoding;
use geom_kernels::mesh::{ClosestPoint, Mesh, MeshOptions, PointQueries, TriangleMesh, shapes};
use geom_kernels::volume::nanovdb::{self, Builder, ChecksumMode, Grid, WriteOptions};
use geom_kernels::volume::{Interpolation, Samples, Volume};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

/// A generator of small random numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

/// Reads mesh files that claim more than they have, end early, or name points that are not there.
///
/// - row: launching foreign code is unsafe
/// - targets: `TriangleMesh::from_ply`, `TriangleMesh::from_stl`, `TriangleMesh::from_obj`, `TriangleMesh::load`,
///   `Mesh::upload`, `TriangleMesh::write_ply`, `TriangleMesh::save`
fn mesh_files_that_lie(lab: &Lab) -> TestResult {
    let ply = |text: &str| TriangleMesh::from_ply(text.as_bytes());
    let head = "ply\nformat ascii 1.0\nelement vertex";
    let xyz = "property float x\nproperty float y\nproperty float z\n";
    for text in [
        format!("{head} 18446744073709551615\n{xyz}end_header\n0 0 0\n"),
        format!("{head} -1\n{xyz}end_header\n"),
        format!(
            "{head} 1\n{xyz}element face 99999999999\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n"
        ),
        format!(
            "{head} 1\n{xyz}element face 1\nproperty list uint int vertex_indices\nend_header\n0 0 0\n4294967295 0\n"
        ),
        format!(
            "{head} 1\n{xyz}element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n3 0 0 1\n"
        ),
        format!(
            "{head} 1\n{xyz}element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n3 0 0 -1\n"
        ),
        format!("{head} 1\n{xyz}"),
        format!("{}ply\n", "\0".repeat(9)),
    ] {
        lab.refused(ply(&text), "PLY: ")?;
    }
    let binary = "ply\nformat binary_little_endian 1.0\nelement vertex 4000000000\n";
    lab.refused(
        ply(&format!("{binary}{xyz}end_header\n0123")),
        "PLY: line 3: the header says 4000000000 of",
    )?;
    for text in [
        "f 1 2 3\n",
        "v 0 0 0\nf 1 1 2\n",
        "v 0 0 0\nf 0 0 0\n",
        "v 0 0 0\nf -1 -1 -2\n",
        "v 0 0\n",
        "v 1 2 x\n",
        "v 0 0 0\nf 1 1 99999999999999999999\n",
        "v 0 0 0\nf 1 1 -9223372036854775808\n",
    ] {
        lab.refused(TriangleMesh::from_obj(text.as_bytes()), "OBJ: ")?;
    }
    // Files in which nothing of the format is found.
    lab.refused(
        TriangleMesh::from_obj(&b"version https://git-lfs.github.com/spec/v1\nsize 1000\n"[..]),
        "OBJ: the file is a git-LFS pointer",
    )?;
    lab.refused(TriangleMesh::from_obj(&b"o cube\nf 1 2 3\n"[..]), "OBJ: no points: no line")?;
    let mut stl = vec![b'x'; 80];
    stl.extend(u32::MAX.to_le_bytes());
    stl.extend([0; 50]);
    lab.refused(
        TriangleMesh::from_stl(&stl[..]),
        "STL: bytes 80 to 83 say 4294967295 faces, which have 214748364750 bytes; 50 bytes follow, 1 faces",
    )?;
    lab.refused(
        TriangleMesh::from_stl(&b"solid s\nfacet normal 0 0 1\nouter loop\nvertex 0 0"[..]),
        "STL: line 4: the file ends where a coordinate belongs",
    )?;
    lab.refused(TriangleMesh::from_stl(&[][..]), "STL: neither a text that starts with")?;
    fs::create_dir("folder.ply")?;
    lab.refused(TriangleMesh::load("folder.ply"), "folder.ply: PLY: Is a directory (os error 21)")?;
    lab.refused(
        TriangleMesh::load("none.obj"),
        "none.obj: OBJ: No such file or directory (os error 2)",
    )?;
    lab.refused(TriangleMesh::load("none"), "none: not one of the extensions obj, stl and ply")?;
    // What can't be written leaves the file that was there.
    fs::write("kept.ply", "kept")?;
    let odd = TriangleMesh { points: vec![[0.0; 3]], faces: vec![[0, 0, 1]] };
    lab.refused(
        odd.save("kept.ply"),
        "kept.ply: PLY: face 0 names a point that is not there; there are 1",
    )?;
    let odd = TriangleMesh { points: vec![[f32::NAN; 3]], faces: vec![[0; 3]] };
    lab.refused(
        odd.save("kept.ply"),
        "kept.ply: PLY: a coordinate of point 0 is not a finite f32",
    )?;
    ensure_eq!(fs::read("kept.ply")?, b"kept");
    // Whatever comes of changed bytes can be asked.
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let mut whole = Vec::new();
    shapes::icosphere(1, 1.0)?.write_ply(&mut whole, PlyEncoding::BigEndian)?;
    let mut dice = Dice(1);
    let mut taken = 0;
    for round in 0..300 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(dice.below(whole.len())),
            1 => (0..3).for_each(|_| bytes[dice.below(whole.len())] ^= 1 << dice.below(8)),
            _ => (0..40).for_each(|_| bytes[dice.below(whole.len())] = dice.below(256) as u8),
        }
        let Ok(mesh) = TriangleMesh::from_ply(&bytes[..]) else { continue };
        ensure!(round % 3 != 0 || bytes.len() == whole.len(), "a file that ends early was taken");
        ensure!(mesh.faces.iter().flatten().all(|i| (*i as usize) < mesh.points.len()));
        if taken < 10 {
            let mesh = Mesh::upload(&stream, &geometry, &mesh, MeshOptions::default())?;
            let at = DeviceBuffer::from_slice(&stream, &[[0.1f32; 3]])?;
            let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 1)?;
            mesh.closest_points(&stream, &PointQueries::at(&at), &mut closest)?;
            ensure!((closest.to_vec(&stream)?[0].face as usize) < 80);
            taken += 1;
        }
    }
    ensure!(taken > 2, "all were refused");
    Ok(())
}

/// Asks a volume everywhere, so that each offset in it is followed.
fn ask(stream: &Stream, volume: &Volume) -> cuda_safe::Result<Vec<f32>> {
    let steps = [-4097, -129, -9, -1, 0, 1, 7, 8, 100, 127, 128, 4000, 4096, 5000];
    let voxels: Vec<[i32; 3]> =
        (0..14 * 14).map(|i| [steps[i % 14], steps[i / 14], steps[(i / 3) % 14]]).collect();
    let points: Vec<[f32; 3]> = voxels.iter().map(|v| v.map(|x| x as f32 + 0.5)).collect();
    let voxels = DeviceBuffer::from_slice(stream, &voxels)?;
    let points = DeviceBuffer::from_slice(stream, &points)?;
    let mut values = DeviceBuffer::<f32>::zeroed(stream, 196)?;
    let mut active = DeviceBuffer::<u8>::zeroed(stream, 196)?;
    volume.is_active(stream, &voxels, &mut active)?;
    volume.counts(stream)?;
    volume.leaf_origins(stream)?;
    volume.sample(stream, &Samples::index(&points), Interpolation::Trilinear, &mut values)?;
    volume.lookup(stream, &voxels, &mut values)?;
    values.to_vec(stream)
}

/// A grid with nodes of all levels, and no checksum.
fn grid() -> Result<Grid, Failure> {
    let mut builder = Builder::<f32>::new(0.5);
    builder.name("attacked").fill_tile(1, [4096, 0, 0], 3.0, true).fill_tile(
        2,
        [0, 4096, 0],
        4.0,
        false,
    );
    for i in 0..4 {
        builder.set([i * 1000, i, i * 100], i as f32).set([i, i, i], 1.0);
    }
    let mut grid = builder.build()?;
    grid.update_checksum(ChecksumMode::Disabled);
    Ok(grid)
}

/// Changes bytes of a grid, its head, its offsets and its tables, and asks each volume that is taken for everything.
///
/// - row: an index that a kernel reads from memory
/// - targets: `Volume::read`, `Volume::sample`, `Volume::lookup`, `Volume::leaf_origins`, `Volume::counts`
fn grids_with_changed_bytes(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let whole = grid()?.bytes().to_vec();
    let expected = {
        let [volume] = &Volume::read(&stream, &geometry, &whole)?[..] else {
            return Err(Failure::new("not one volume"));
        };
        ask(&stream, volume)?
    };
    let mut dice = Dice(7);
    // Bytes that are not zero are offsets, masks and heads: most of the rest are tables of nothing.
    let places: Vec<usize> = (0..whole.len()).filter(|i| whole[*i] != 0).collect();
    let (mut taken, mut refused) = (0, 0);
    for round in 0..72 {
        let mut bytes = whole.clone();
        let at = match round % 3 {
            0 => places[dice.below(places.len())],
            1 => dice.below(1200),
            _ => dice.below(whole.len()),
        };
        bytes[at] = match round % 4 {
            0 => bytes[at] ^ (1 << dice.below(8)),
            1 => 0xff,
            2 => bytes[at].wrapping_add(32),
            _ => 0x80,
        };
        match Volume::read(&stream, &geometry, &bytes) {
            Err(_) => refused += 1,
            Ok(volumes) => {
                for volume in &volumes {
                    // A changed byte may be a value's, a name's, or change the type.
                    let Ok(seen) = ask(&stream, volume) else { continue };
                    ensure_eq!(seen.len(), expected.len());
                    taken += 1;
                }
            }
        }
    }
    ensure!(taken > 5 && refused > 5, "{taken} were taken and {refused} refused");
    // Cut short, or with bytes behind.
    for len in [0, 1, 31, 671, 672, whole.len() - 32, whole.len() - 1] {
        ensure!(Volume::read(&stream, &geometry, &whole[..len]).is_err(), "{len} bytes");
    }
    Ok(())
}

/// Reads and writes volume files whose segments claim sizes, whose target is a folder, a link, or has no folder.
///
/// - row: a library that a search finds is loaded only if
/// - targets: `Volume::read_file`, `Volume::read`, `Volume::download`
#[cfg(unix)]
fn volume_files_in_the_way(lab: &Lab) -> TestResult {
    let refusal = "Is a directory (os error 21)";
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let (grids, options) = ([grid()?], WriteOptions::default());
    let file = nanovdb::write(&grids, &options)?;
    // Each number of the file's head, as large as can be.
    for at in (0..200usize).step_by(8) {
        let mut bytes = file.clone();
        bytes[at..at + 8].fill(0xff);
        if let Ok(volumes) = Volume::read(&stream, &geometry, &bytes) {
            ensure!(volumes.len() <= 1);
        }
    }
    fs::create_dir("folder")?;
    fs::write("victim", "victim")?;
    std::os::unix::fs::symlink("victim", "link.nvdb")?;
    lab.refused(nanovdb::write_file("folder", &grids, &options), refusal)?;
    lab.refused(
        nanovdb::write_file("none/file.nvdb", &grids, &options),
        "No such file or directory (os error 2)",
    )?;
    lab.refused(
        nanovdb::write_file("", &grids, &options),
        "No such file or directory (os error 2)",
    )?;
    lab.refused(
        nanovdb::write_file("file.nvdb", &[], &options),
        "a file needs a grid (check file-grid-count)",
    )?;
    lab.refused(Volume::read_file(&stream, &geometry, "folder"), refusal)?;
    lab.refused(
        Volume::read_file(&stream, &geometry, "victim"),
        "invalid NanoVDB data: no NanoVDB file, at byte 0 (check file-magic)",
    )?;
    // A link is replaced, and what it leads to stays.
    nanovdb::write_file("link.nvdb", &grids, &options)?;
    ensure_eq!(fs::read("victim")?, b"victim");
    // Two threads write one file: it is one of theirs, whole.
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let grids = grids.clone();
            std::thread::spawn(move || {
                (0..5).try_for_each(|_| {
                    nanovdb::write_file("one.nvdb", &grids, &WriteOptions::default())
                })
            })
        })
        .collect();
    for writer in writers {
        writer.join().map_err(|_| Failure::new("a panic"))??;
    }
    ensure_eq!(fs::read("one.nvdb")?, file);
    let [volume] = &Volume::read_file(&stream, &geometry, "one.nvdb")?[..] else {
        return Err(Failure::new("not one volume"));
    };
    ensure_eq!(volume.download(&stream)?.active_voxels(), grids[0].active_voxels());
    let mut left: Vec<_> =
        fs::read_dir(".")?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?;
    left.sort();
    ensure_eq!(left, ["folder", "link.nvdb", "one.nvdb", "victim"]);
    Ok(())
}

#[cfg(unix)]
attacks![
    "geometry",
    refused(mesh_files_that_lie),
    right(grids_with_changed_bytes).limit(60),
    refused(volume_files_in_the_way),
];
#[cfg(not(unix))]
list![mesh_files_that_lie, grids_with_changed_bytes];
