//! Meshes: builders, refits and every query; and what topology tells of faulty ones.

use geom_kernels::mesh::{Mesh, Sign, TriangleMesh};

use super::book::Book;
use super::calls::{self, Lab};
use super::cpu_mesh as cpu;
use super::inputs::{self, SIZES, face_points, hills, moved, rays, rng, soup, stone};
use test_harness::{Rng, TestDevice, TestResult};

pub(super) fn closed(device: &TestDevice, book: &mut Book) -> TestResult {
    of(device, book, &stone()?)
}

pub(super) fn open(device: &TestDevice, book: &mut Book) -> TestResult {
    of(device, book, &hills(14))
}

pub(super) fn faulty(device: &TestDevice, book: &mut Book) -> TestResult {
    of(device, book, &soup(200, true))
}

fn of(device: &TestDevice, book: &mut Book, host: &TriangleMesh) -> TestResult {
    let lab = Lab::new(device)?;
    for (builder, how) in calls::BUILDERS {
        for (kind, topology) in [("plain", false), ("topology", true)] {
            if (builder, kind) == ("fast", "plain") {
                continue;
            }
            let name = format!("{builder}/{kind}");
            let mut mesh = calls::mesh(&lab, host, (how, topology))?;
            arrays(&lab, book, &name, &mesh)?;
            points(&lab, book, &name, &mesh, 130)?;
            let mut on_cpu = cpu::mesh(host, (how, topology))?;
            cpu::points(book, &name, &on_cpu, 130)?;
            if !topology {
                continue;
            }
            cpu::arrays(book, &name, &on_cpu)?;
            lines(&lab, book, &name, &mesh)?;
            cpu::lines(book, &name, &on_cpu)?;
            let other = moved(host, 300).points;
            calls::move_points(&lab, &mut mesh, &other)?;
            calls::refit_mesh(&lab, &mut mesh)?;
            arrays(&lab, book, &format!("{name}/refitted"), &mesh)?;
            points(&lab, book, &format!("{name}/refitted"), &mesh, 40)?;
            on_cpu.refit_to(&other)?;
            cpu::arrays(book, &format!("{name}/refitted"), &on_cpu)?;
            cpu::points(book, &format!("{name}/refitted"), &on_cpu, 40)?;
            let other = moved(host, 301);
            calls::refit_mesh_to(&lab, &mut mesh, &other.points)?;
            points(&lab, book, &format!("{name}/refitted_to"), &mesh, 40)?;
            on_cpu.refit_to(&other.points)?;
            cpu::points(book, &format!("{name}/refitted_to"), &on_cpu, 40)?;
            calls::rebuild_mesh(&lab, &mut mesh)?;
            arrays(&lab, book, &format!("{name}/rebuilt"), &mesh)?;
            points(&lab, book, &format!("{name}/rebuilt"), &mesh, 40)?;
            let on_cpu = cpu::mesh(&other, (how, topology))?;
            cpu::arrays(book, &format!("{name}/rebuilt"), &on_cpu)?;
            cpu::points(book, &format!("{name}/rebuilt"), &on_cpu, 40)?;
        }
        let trees = calls::face_tree_parts(&lab, how, (host, &moved(host, 302)))?;
        for (name, (nodes, items, words, report)) in ["built", "refitted"].into_iter().zip(trees) {
            let name = format!("{builder}/face_tree/{name}");
            book.put(format!("{name}/nodes"), &nodes);
            book.put(format!("{name}/items"), &items);
            book.put(format!("{name}/triangles"), &words);
            book.put(format!("{name}/report"), &report);
        }
    }
    Ok(())
}

fn arrays(lab: &Lab, book: &mut Book, name: &str, mesh: &Mesh<'_>) -> TestResult {
    book.put(format!("{name}/reports"), &calls::mesh_reports(lab, mesh)?);
    let all = calls::mesh_arrays(lab, mesh)?;
    for (what, words) in ["points", "faces", "normals", "neighbors"].into_iter().zip(all) {
        book.put(format!("{name}/{what}"), &words);
    }
    Ok(())
}

/// The points of queries, and limits; and the rest of their numbers.
pub(super) fn asked_points(n: usize) -> (Rng, Vec<[f32; 3]>, Vec<f32>) {
    let mut rng = rng(310);
    let mut host = inputs::points(&mut rng, n, 1.3);
    host[3] = [f32::NAN, 0.0, 0.0];
    host[4] = [1e30, 0.0, 0.0];
    host[5] = [0.0; 3];
    (rng, host, (0..n).map(|i| 0.01 * i as f32 - 0.05).collect())
}

/// Queries at points.
fn points(lab: &Lab, book: &mut Book, name: &str, mesh: &Mesh<'_>, n: usize) -> TestResult {
    let (mut rng, host, reach) = asked_points(n);
    let (there, reach) = (lab.up(&host)?, lab.up(&reach)?);
    let given = calls::points_at(&there, false);
    let all = [
        ("given", given),
        ("sorted", calls::points_at(&there, true)),
        ("near", calls::up_to(given, 0.2)),
        ("near_each", calls::up_to_each(given, &reach)),
    ];
    for (which, queries) in all {
        let name = format!("{name}/{which}");
        book.put(format!("{name}/closest"), &calls::closest_points(lab, mesh, &queries)?);
        book.put(format!("{name}/within"), &calls::are_within(lab, mesh, &queries)?);
        for (sign, by) in calls::SIGNS {
            let (alone, distances, closest) = calls::signed_distances(lab, mesh, &queries, by)?;
            book.put(format!("{name}/signed_{sign}"), &alone);
            book.put(format!("{name}/signed_closest_{sign}/distances"), &distances);
            book.put(format!("{name}/signed_closest_{sign}/closest"), &closest);
        }
        if which == "given" || which == "sorted" {
            book.put(format!("{name}/sides"), &calls::sides(lab, mesh, &queries)?);
            for beta in [1.0, 2.0, 3.5] {
                let numbers = calls::winding_numbers(lab, mesh, &queries, beta)?;
                book.put(format!("{name}/winding_{beta}"), &numbers);
            }
        }
    }
    for n in SIZES.into_iter().chain([255, 256, 257]) {
        let few = lab.up(&inputs::points(&mut rng, n, 1.1))?;
        let queries = calls::points_at(&few, false);
        book.put(format!("{name}/closest_{n}"), &calls::closest_points(lab, mesh, &queries)?);
        let (signed, ..) = calls::signed_distances(lab, mesh, &queries, Sign::Winding)?;
        book.put(format!("{name}/signed_{n}"), &signed);
    }
    Ok(())
}

/// Rays, overlaps, and values at points of faces.
fn lines(lab: &Lab, book: &mut Book, name: &str, mesh: &Mesh<'_>) -> TestResult {
    let mut rng = rng(320);
    for n in SIZES.into_iter().chain([200]) {
        let shot = lab.up(&rays(&mut rng, n, 1.0))?;
        let name = format!("{name}/rays_{n}");
        book.put(format!("{name}/nearest"), &calls::closest_hits(lab, mesh, &shot)?);
        book.put(format!("{name}/any"), &calls::any_hits(lab, mesh, &shot)?);
        let counts = calls::hit_counts(lab, mesh, &shot)?;
        book.put(format!("{name}/counts"), &counts);
        let (offsets, hits) = calls::all_hits(lab, mesh, &shot)?;
        book.put(format!("{name}/all/offsets"), &offsets);
        book.put(format!("{name}/all/hits"), &hits);
        let total = counts.iter().map(|n| *n as usize).sum::<usize>();
        let (offsets, hits) = calls::all_hits_into(lab, mesh, &shot, total / 2)?;
        book.put(format!("{name}/into/offsets"), &offsets);
        book.put(format!("{name}/into/hits"), &hits);
    }
    let n = 90;
    let boxes = lab.up(&inputs::boxes(&mut rng, n))?;
    let centers = lab.up(&inputs::points(&mut rng, n, 1.1))?;
    let all = [("boxes", calls::in_boxes(&boxes)), ("spheres", calls::in_spheres(&centers, 0.2))];
    for (what, how) in calls::OVERLAPS {
        for (kind, queries) in all {
            let name = format!("{name}/overlaps_{what}/{kind}");
            let counts = calls::mesh_overlap_counts(lab, mesh, queries, how)?;
            book.put(format!("{name}/counts"), &counts);
            let (offsets, faces) = calls::mesh_overlap_lists(lab, mesh, queries, how)?;
            book.put(format!("{name}/offsets"), &offsets);
            book.put(format!("{name}/faces"), &faces);
            let half = faces.len() / 2;
            let (offsets, faces) = calls::mesh_overlap_lists_into(lab, mesh, queries, (how, half))?;
            book.put(format!("{name}/into/offsets"), &offsets);
            book.put(format!("{name}/into/faces"), &faces);
        }
    }
    let (vertices, faces) = (mesh.points().len(), mesh.faces().len());
    let numbers = rng.floats(7 * vertices);
    for n in SIZES.into_iter().chain([150]) {
        let at = lab.up(&face_points(&mut rng, n, faces))?;
        let name = format!("{name}/at_{n}");
        let (positions, normals) = calls::evaluated(lab, mesh, &at)?;
        book.put(format!("{name}/positions"), &positions);
        book.put(format!("{name}/normals"), &normals);
        let of = |width: usize| numbers.get(..width * vertices).unwrap_or_default();
        book.put(format!("{name}/attributes_1"), &calls::attributes::<1>(lab, mesh, &at, of(1))?);
        book.put(format!("{name}/attributes_3"), &calls::attributes::<3>(lab, mesh, &at, of(3))?);
        book.put(format!("{name}/attributes_7"), &calls::attributes::<7>(lab, mesh, &at, of(7))?);
    }
    Ok(())
}

pub(super) fn topology(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let mut flipped = stone()?;
    if let Some(face) = flipped.faces.get_mut(5) {
        face.swap(0, 1);
    }
    let meshes = [
        ("stone", stone()?),
        ("flipped", flipped),
        ("hills", hills(9)),
        ("soup", soup(300, false)),
        ("broken", soup(300, true)),
        ("one", soup(1, false)),
        ("points", TriangleMesh { points: vec![[0.5; 3]; 40], faces: Vec::new() }),
        ("none", TriangleMesh::default()),
    ];
    for (name, mesh) in meshes {
        let facts = calls::topology(&lab, &mesh)?;
        book.put(format!("{name}/neighbors"), &facts.neighbors);
        book.put(format!("{name}/closed"), &facts.closed);
        book.put(format!("{name}/normals"), &facts.normals);
        book.put(format!("{name}/report"), &facts.report);
        book.put(format!("{name}/validation"), &facts.validation);
    }
    // Borrowed arrays, and small ones.
    for n in [0, 1, 3, 31, 33] {
        let host = soup(n, false);
        let (points, faces) = (lab.up(&host.points)?, lab.up(&host.faces)?);
        let mesh = calls::borrowing_mesh(&lab, &points, &faces)?;
        book.put(format!("borrowed_{n}/reports"), &calls::mesh_reports(&lab, &mesh)?);
        let asked = lab.up(&inputs::points(&mut rng(330), 40, 1.0))?;
        let found = calls::closest_points(&lab, &mesh, &calls::points_at(&asked, false))?;
        book.put(format!("borrowed_{n}/closest"), &found);
    }
    Ok(())
}
