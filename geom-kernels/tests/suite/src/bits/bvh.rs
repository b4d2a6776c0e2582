//! Hierarchies of boxes: both builders, refits, every query.

use geom_kernels::bvh::{Bvh, BvhQueries};

use super::book::Book;
use super::calls::{self, Lab};
use super::inputs::{SIZES, boxes, points, rays, rng};
use test_harness::{TestDevice, TestResult};

pub(super) fn all(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    for (builder, how) in calls::BUILDERS {
        for n in [0, 1, 2, 31, 32, 33, 900] {
            let there = lab.up(&boxes(&mut rng(100), n))?;
            let bvh = calls::bvh(&lab, &there, how)?;
            structure(&lab, book, &format!("{builder}/size_{n}"), &bvh)?;
            if n != 900 {
                queries(&lab, book, &format!("{builder}/size_{n}"), &bvh, 33)?;
            } else {
                queries(&lab, book, &format!("{builder}/size_{n}"), &bvh, 200)?;
            }
        }
        // In place: other boxes, fewer boxes, moved boxes.
        let mut bvh = calls::empty_bvh(&lab, 500, how)?;
        structure(&lab, book, &format!("{builder}/empty"), &bvh)?;
        for (name, seed, n, is_refit) in [
            ("first", 101, 500, false),
            ("refitted", 102, 500, true),
            ("fewer", 103, 77, false),
            ("refitted_fewer", 104, 77, true),
        ] {
            let there = lab.up(&boxes(&mut rng(seed), n))?;
            match is_refit {
                true => calls::refit_bvh(&lab, &mut bvh, &there)?,
                false => calls::rebuild_bvh(&lab, &mut bvh, &there)?,
            }
            structure(&lab, book, &format!("{builder}/{name}"), &bvh)?;
            queries(&lab, book, &format!("{builder}/{name}"), &bvh, 64)?;
        }
    }
    Ok(())
}

fn structure(lab: &Lab, book: &mut Book, name: &str, bvh: &Bvh) -> TestResult {
    book.put(format!("{name}/report"), &calls::bvh_report(lab, bvh)?);
    let (nodes, items) = calls::bvh_parts(lab, bvh)?;
    book.put(format!("{name}/nodes"), &nodes);
    book.put(format!("{name}/items"), &items);
    Ok(())
}

fn queries(lab: &Lab, book: &mut Book, name: &str, bvh: &Bvh, n: usize) -> TestResult {
    let mut rng = rng(110);
    let asked = lab.up(&boxes(&mut rng, n))?;
    let mut host = points(&mut rng, n, 1.2);
    host[n / 2] = [f32::NAN, 0.0, 0.0];
    let centers = lab.up(&host)?;
    let radii: Vec<f32> = (0..n).map(|i| 0.003 * i as f32 - 0.02).collect();
    let radii = lab.up(&radii)?;
    let shot = lab.up(&rays(&mut rng, n, 1.0))?;
    let all: [(&str, BvhQueries<'_>); 4] = [
        ("boxes", calls::in_boxes(&asked)),
        ("spheres", calls::in_spheres(&centers, 0.15)),
        ("spheres_of", calls::in_spheres_of(&centers, &radii)),
        ("rays", calls::on_rays(&shot)),
    ];
    for (kind, queries) in all {
        let counts = calls::overlap_counts(lab, bvh, queries)?;
        let total = counts.iter().map(|n| *n as usize).sum::<usize>();
        book.put(format!("{name}/{kind}/counts"), &counts);
        let (offsets, indices) = calls::overlap_lists(lab, bvh, queries)?;
        book.put(format!("{name}/{kind}/offsets"), &offsets);
        book.put(format!("{name}/{kind}/indices"), &indices);
        let (offsets, indices) = calls::overlap_lists_into(lab, bvh, queries, total / 2)?;
        book.put(format!("{name}/{kind}/into/offsets"), &offsets);
        book.put(format!("{name}/{kind}/into/indices"), &indices);
    }
    for n in SIZES {
        let few = lab.up(&points(&mut rng, n, 1.0))?;
        let counts = calls::overlap_counts(lab, bvh, calls::in_spheres(&few, 0.3))?;
        book.put(format!("{name}/spheres_{n}/counts"), &counts);
    }
    Ok(())
}
