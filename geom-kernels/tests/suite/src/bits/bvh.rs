//! Hierarchies of boxes: both builders, refits, every query.

use geom_kernels::bvh::{Bvh, BvhQueries};
use geom_kernels::structures::bvh as cpu;

use super::book::Book;
use super::calls::{self, Lab, filled, filled_both};
use super::inputs::{SIZES, boxes, points, rays, rng};
use test_harness::{TestDevice, TestResult, ensure_eq};

pub(super) fn all(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    for (builder, how) in calls::BUILDERS {
        for n in [0, 1, 2, 31, 32, 33, 900] {
            let host = boxes(&mut rng(100), n);
            let bvh = calls::bvh(&lab, &lab.up(&host)?, how)?;
            let both = (&bvh, &cpu::Bvh::build(&host)?);
            structure(&lab, book, &format!("{builder}/size_{n}"), both)?;
            let asked = if n == 900 { 200 } else { 33 };
            queries(&lab, book, &format!("{builder}/size_{n}"), both, asked)?;
        }
        // In place: other boxes, fewer boxes, moved boxes.
        let mut bvh = calls::empty_bvh(&lab, 500, how)?;
        let mut on_cpu = cpu::Bvh::default();
        structure(&lab, book, &format!("{builder}/empty"), (&bvh, &on_cpu))?;
        for (name, seed, n, is_refit) in [
            ("first", 101, 500, false),
            ("refitted", 102, 500, true),
            ("fewer", 103, 77, false),
            ("refitted_fewer", 104, 77, true),
        ] {
            let host = boxes(&mut rng(seed), n);
            let there = lab.up(&host)?;
            if is_refit {
                calls::refit_bvh(&lab, &mut bvh, &there)?;
                on_cpu.refit(&host)?;
            } else {
                calls::rebuild_bvh(&lab, &mut bvh, &there)?;
                on_cpu.rebuild(&host)?;
            }
            structure(&lab, book, &format!("{builder}/{name}"), (&bvh, &on_cpu))?;
            queries(&lab, book, &format!("{builder}/{name}"), (&bvh, &on_cpu), 64)?;
        }
    }
    Ok(())
}

/// A hierarchy of the device, and the same on the CPU, whose tree is another one.
type Both<'a> = (&'a Bvh, &'a cpu::Bvh);

fn structure(lab: &Lab, book: &mut Book, name: &str, (there, here): Both<'_>) -> TestResult {
    let report = there.report(&lab.stream)?;
    let on_cpu = here.report();
    ensure_eq!((on_cpu.items, on_cpu.skipped), (report.items, report.skipped), "{name}");
    ensure_eq!(on_cpu.bounds, report.bounds, "{name}");
    book.put(format!("{name}/report"), &calls::report_words(&report));
    let (nodes, items) = calls::bvh_parts(lab, there)?;
    book.put(format!("{name}/nodes"), &nodes);
    book.put(format!("{name}/items"), &items);
    Ok(())
}

fn queries(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    (there, here): Both<'_>,
    n: usize,
) -> TestResult {
    let mut rng = rng(110);
    let host_boxes = boxes(&mut rng, n);
    let mut host = points(&mut rng, n, 1.2);
    host[n / 2] = [f32::NAN, 0.0, 0.0];
    let host_radii: Vec<f32> = (0..n).map(|i| 0.003 * i as f32 - 0.02).collect();
    let host_rays = rays(&mut rng, n, 1.0);
    let (asked, centers) = (lab.up(&host_boxes)?, lab.up(&host)?);
    let (radii, shot) = (lab.up(&host_radii)?, lab.up(&host_rays)?);
    let spheres = cpu::BvhQueries::spheres(&host, 0.15);
    let all: [(&str, BvhQueries<'_>, cpu::BvhQueries<'_>); 4] = [
        ("boxes", calls::in_boxes(&asked), cpu::BvhQueries::boxes(&host_boxes)),
        ("spheres", calls::in_spheres(&centers, 0.15), spheres),
        ("spheres_of", calls::in_spheres_of(&centers, &radii), spheres.within_each(&host_radii)),
        ("rays", calls::on_rays(&shot), cpu::BvhQueries::rays(&host_rays)),
    ];
    for (kind, queries, on_cpu) in all {
        let name = format!("{name}/{kind}");
        let counts = calls::overlap_counts(lab, there, queries)?;
        let found = filled(n, |counts| here.count_overlaps(&on_cpu, counts))?;
        book.put_both(format!("{name}/counts"), &counts, &found)?;
        let total = counts.iter().map(|n| *n as usize).sum::<usize>();
        let (offsets, indices) = calls::overlap_lists(lab, there, queries)?;
        let found = here.overlap_lists(&on_cpu)?;
        book.put_both(format!("{name}/offsets"), &offsets, &found.offsets)?;
        book.put_both(format!("{name}/indices"), &indices, &found.indices)?;
        let (offsets, indices) = calls::overlap_lists_into(lab, there, queries, total / 2)?;
        let (found_offsets, found) = filled_both((n + 1, total / 2), |offsets, indices| {
            here.overlap_lists_into(&on_cpu, offsets, indices)
        })?;
        book.put_both(format!("{name}/into/offsets"), &offsets, &found_offsets)?;
        book.put_both(format!("{name}/into/indices"), &indices, &found)?;
    }
    for n in SIZES {
        let few = points(&mut rng, n, 1.0);
        let counts = calls::overlap_counts(lab, there, calls::in_spheres(&lab.up(&few)?, 0.3))?;
        let on_cpu = cpu::BvhQueries::spheres(&few, 0.3);
        let found = filled(n, |counts| here.count_overlaps(&on_cpu, counts))?;
        book.put_both(format!("{name}/spheres_{n}/counts"), &counts, &found)?;
    }
    Ok(())
}
