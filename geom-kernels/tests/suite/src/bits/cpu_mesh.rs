//! The queries of `mesh` on the CPU, whose bits are those of the device.

use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{ClosestPoint, MeshOptions, RayHit, Sign, TriangleMesh};
use geom_kernels::structures::{Limit, Mesh};

use super::book::Book;
use super::calls::{self, Got, filled, garbage};
use super::inputs::{self, SIZES, face_points, rays, rng};
use super::mesh::asked_points;
use test_harness::TestResult;

pub(super) fn mesh(of: &TriangleMesh, (builder, topology): (BuildMode, bool)) -> Got<Mesh> {
    let options = MeshOptions::default().build_mode(builder).winding().skip_validation();
    Ok(Mesh::new(of, if topology { options.topology() } else { options })?)
}

pub(super) fn arrays(book: &Book, name: &str, mesh: &Mesh) -> TestResult {
    book.compare(format!("{name}/points"), mesh.points())?;
    book.compare(format!("{name}/normals"), mesh.vertex_normals().unwrap_or_default())?;
    book.compare(format!("{name}/neighbors"), mesh.neighbors().unwrap_or_default())
}

pub(super) fn points(book: &Book, name: &str, mesh: &Mesh, n: usize) -> TestResult {
    let (mut rng, at, reach) = asked_points(n);
    let all = [
        ("given", Limit::None),
        ("sorted", Limit::None),
        ("near", Limit::All(0.2)),
        ("near_each", Limit::Each(&reach)),
    ];
    for (which, limit) in all {
        let name = format!("{name}/{which}");
        let closest = |n: usize, at: &[[f32; 3]], limit| {
            filled::<ClosestPoint>(n, |out| mesh.closest_points(at, limit, out))
        };
        book.compare(format!("{name}/closest"), &closest(n, &at, limit)?)?;
        let within = filled(n, |out: &mut [u8]| mesh.any_within(&at, limit, out))?;
        book.compare(format!("{name}/within"), &within)?;
        for (sign, by) in calls::SIGNS {
            let alone = filled(n, |out: &mut [f32]| mesh.signed_distances(&at, limit, by, out))?;
            book.compare(format!("{name}/signed_{sign}"), &alone)?;
            let mut found = vec![(0.0, garbage::<ClosestPoint>(1)[0]); n];
            mesh.signed_closest_points(&at, limit, by, &mut found)?;
            let (distances, closest): (Vec<f32>, Vec<ClosestPoint>) = found.into_iter().unzip();
            book.compare(format!("{name}/signed_closest_{sign}/distances"), &distances)?;
            book.compare(format!("{name}/signed_closest_{sign}/closest"), &closest)?;
        }
        if which == "given" || which == "sorted" {
            let sides = filled(n, |out: &mut [i32]| mesh.classify(&at, out))?;
            book.compare(format!("{name}/sides"), &sides)?;
            for beta in [1.0, 2.0, 3.5] {
                let numbers = filled(n, |out: &mut [f32]| mesh.winding_numbers(&at, beta, out))?;
                book.compare(format!("{name}/winding_{beta}"), &numbers)?;
            }
        }
    }
    // Batches of 256 points and more are sorted.
    for n in SIZES.into_iter().chain([255, 256, 257]) {
        let few = inputs::points(&mut rng, n, 1.1);
        let found =
            filled(n, |out: &mut [ClosestPoint]| mesh.closest_points(&few, Limit::None, out))?;
        book.compare(format!("{name}/closest_{n}"), &found)?;
        let signed = |out: &mut [f32]| mesh.signed_distances(&few, Limit::None, Sign::Winding, out);
        book.compare(format!("{name}/signed_{n}"), &filled(n, signed)?)?;
    }
    Ok(())
}

pub(super) fn lines(book: &Book, name: &str, mesh: &Mesh) -> TestResult {
    let mut rng = rng(320);
    for n in SIZES.into_iter().chain([200]) {
        let shot = rays(&mut rng, n, 1.0);
        let name = format!("{name}/rays_{n}");
        let nearest = filled(n, |out: &mut [RayHit]| mesh.closest_hits(&shot, out))?;
        book.compare(format!("{name}/nearest"), &nearest)?;
        let any = filled(n, |out: &mut [u8]| mesh.any_hits(&shot, out))?;
        book.compare(format!("{name}/any"), &any)?;
        let counts = filled(n, |out: &mut [u32]| mesh.count_hits_of(&shot, out))?;
        book.compare(format!("{name}/counts"), &counts)?;
        let (offsets, hits) = mesh.all_hits(&shot);
        book.compare(format!("{name}/all/offsets"), &offsets)?;
        book.compare(format!("{name}/all/hits"), &hits)?;
    }
    let n = 90;
    let boxes = inputs::boxes(&mut rng, n);
    let centers = inputs::points(&mut rng, n, 1.1);
    for (what, how) in calls::OVERLAPS {
        let of_boxes = mesh.overlap_lists(&boxes, how);
        let of_spheres = mesh.within_lists(&centers, Limit::All(0.2), how)?;
        for (kind, (offsets, faces)) in [("boxes", of_boxes), ("spheres", of_spheres)] {
            let name = format!("{name}/overlaps_{what}/{kind}");
            let counts: Vec<u32> =
                offsets.windows(2).map(|ends| (ends[1] - ends[0]) as u32).collect();
            book.compare(format!("{name}/counts"), &counts)?;
            book.compare(format!("{name}/offsets"), &offsets)?;
            book.compare(format!("{name}/faces"), &faces)?;
        }
    }
    let (vertices, faces) = (mesh.points().len(), mesh.faces().len());
    let numbers = rng.floats(7 * vertices);
    // The bits of a NaN that is computed from a point may be any.
    let is_finite = mesh.points().as_flattened().iter().all(|x| x.is_finite());
    for n in SIZES.into_iter().chain([150]) {
        let at = face_points(&mut rng, n, faces);
        let name = format!("{name}/at_{n}");
        let positions = filled(n, |out: &mut [[f32; 3]]| mesh.positions_at(&at, out))?;
        if is_finite {
            book.compare(format!("{name}/positions"), &positions)?;
        }
        let normals = filled(n, |out: &mut [[f32; 3]]| mesh.normals_at(&at, out))?;
        if is_finite {
            book.compare(format!("{name}/normals"), &normals)?;
        }
        let of = |width: usize| numbers.get(..width * vertices).unwrap_or_default();
        let one = filled(n, |out: &mut [[f32; 1]]| {
            mesh.attributes_at(&at, bytemuck::cast_slice(of(1)), out)
        })?;
        book.compare(format!("{name}/attributes_1"), &one)?;
        let three = filled(n, |out: &mut [[f32; 3]]| {
            mesh.attributes_at(&at, bytemuck::cast_slice(of(3)), out)
        })?;
        book.compare(format!("{name}/attributes_3"), &three)?;
        let seven = filled(n, |out: &mut [[f32; 7]]| {
            mesh.attributes_at(&at, bytemuck::cast_slice(of(7)), out)
        })?;
        book.compare(format!("{name}/attributes_7"), &seven)?;
    }
    Ok(())
}
