//! Refitting.

use cuda_safe::DeviceBuffer;
use geom_kernels::Aabb;

use super::inputs::{inputs, invalid, uniform};
use super::structure::{Structure, check};
use super::{BUILDERS, Fixture};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "bvh",
        device(refit_is_tight_after_any_motion),
        device(refit_of_any_size),
        device(refit_follows_again_and_again),
        device(refit_leaves_out_what_is_no_box),
    ]
}

fn refit_is_tight_after_any_motion(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(710);
    for builder in BUILDERS {
        for input in inputs(&mut rng, 300) {
            let mut bvh = fixture.built(&input.boxes, builder)?;
            let fail = |e: Failure| Failure::new(format!("{builder:?}, {}: {e}", input.name));
            // The same boxes, then others; what was skipped stays so.
            for now in [input.boxes.clone(), uniform(&mut rng, input.boxes.len())] {
                bvh.refit(stream, &fixture.upload(&now)?)?;
                Structure::checked(stream, &bvh, &input.boxes, &now).map_err(fail)?;
            }
        }
    }
    Ok(())
}

fn refit_of_any_size(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(711);
    for builder in BUILDERS {
        for n in [0, 1, 2, 3, 4, 5, 16, 17, 31, 32, 33, 1000, 20_000] {
            let (built, now) = (uniform(&mut rng, n), uniform(&mut rng, n));
            let mut bvh = fixture.built(&built, builder)?;
            bvh.refit(stream, &fixture.upload(&now)?)?;
            Structure::checked(stream, &bvh, &built, &now)
                .map_err(|e| Failure::new(format!("{builder:?}, {n}: {e}")))?;
        }
    }
    Ok(())
}

/// In memory that is larger, between builds.
fn refit_follows_again_and_again(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(712);
    for builder in BUILDERS {
        let mut bvh = fixture.with_capacity(500, builder)?;
        bvh.refit(stream, &DeviceBuffer::<Aabb<f32>>::zeroed(stream, 0)?)?;
        check(stream, &bvh, &[])?;
        for n in [400, 20, 500] {
            let built = uniform(&mut rng, n);
            bvh.rebuild(stream, &fixture.upload(&built)?)?;
            for _ in 0..3 {
                let now = uniform(&mut rng, n);
                bvh.refit(stream, &fixture.upload(&now)?)?;
                Structure::checked(stream, &bvh, &built, &now)?;
            }
            // Back again, it is what it was.
            bvh.refit(stream, &fixture.upload(&built)?)?;
            let refitted = Structure::checked(stream, &bvh, &built, &built)?;
            bvh.rebuild(stream, &fixture.upload(&built)?)?;
            let anew = Structure::checked(stream, &bvh, &built, &built)?;
            first_difference(&refitted.items, &anew.items)?;
        }
    }
    Ok(())
}

fn refit_leaves_out_what_is_no_box(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(713);
    for builder in BUILDERS {
        let built = uniform(&mut rng, 200);
        let mut bvh = fixture.built(&built, builder)?;
        for step in [1, 2, 5] {
            let mut now = uniform(&mut rng, 200);
            for (kind, i) in (0..200).step_by(step).enumerate() {
                now[i] = invalid(kind);
            }
            bvh.refit(stream, &fixture.upload(&now)?)?;
            Structure::checked(stream, &bvh, &built, &now)?;
        }
    }
    Ok(())
}
