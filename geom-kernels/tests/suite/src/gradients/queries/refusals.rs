//! Kernels whose queries would lose a gradient are refused, with the caller's line.

use geom_kernels::hash_grid::GridView;
use geom_kernels::mesh::MeshView;
use geom_kernels::volume::VolumeView;
use tape::ptx_ad::Reason;
use tape::{DifferentiateError, Element, Param};

use super::{POINT, each, spec, try_differentiate};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::queries",
        device(copies_are_refused),
        device(results_without_gradients_are_refused),
        device(what_does_not_matter_is_accepted),
    ]
}

/// A statement for `i < n` that uses the argument `a`, `x[i]` and `out[i]`. It is in line 6.
fn kernel(header: &str, argument: &str, body: &str) -> String {
    format!(
        "#include <geom/{header}>
extern \"C\" __global__ void f({argument} a, const geom::vec3<float>* x, float* out, unsigned n) {{
    using namespace geom;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {body}
}}"
    )
}

fn attempt(device: &TestDevice, a: Param, text: &str) -> Result<(), DifferentiateError> {
    let spec = spec("f", vec![a, each("x", POINT), each("out", Element::F32)]);
    try_differentiate(device.context(), spec, text).map(drop)
}

fn refused(device: &TestDevice, a: Param, text: &str, reason: &Reason, part: &str) -> TestResult {
    match attempt(device, a, text) {
        Err(DifferentiateError::NotDifferentiable(error)) => {
            let message = error.to_string();
            let found = error.refusals.iter().find(|refusal| refusal.reason == *reason);
            let line = found.and_then(|refusal| refusal.user.as_ref()).map(|place| place.line);
            ensure!(line == Some(6), "{text}: line {line:?} of {message}");
            ensure!(message.contains(part), "{text}: {message:?} lacks {part:?}");
            Ok(())
        }
        other => Err(Failure::new(format!("{text}: {other:?}"))),
    }
}

const ARRAY: &str = "give the array that the grid was built from";

fn copies_are_refused(device: &TestDevice) -> TestResult {
    let grid = || Param::argument::<GridView<'_, f32>>("a");
    for body in [
        "float s = 0; for_each_neighbor(a, x[i], 0.5f, [&](const Neighbor<float>& j) { s += j.distance_squared; }); out[i] = s;",
        "float s = 0; for_each_neighbor(a, x[i], 0.5f, [&](const Neighbor<float>& j) { s += j.delta.x * x[i].x; }); out[i] = s;",
        "float s = 0; find_neighbor(a, x[i], 0.5f, [&](const Neighbor<float>& j) { s += j.position.y; return s > 3; }); out[i] = s * x[i].x;",
        "auto p = point_at(a, i); out[i] = p.x * x[i].x;",
        "NeighborIterator<float> all(a, x[i], 0.5f); Neighbor<float> j; while (all.next(j)) out[i] = j.distance_squared * x[i].x;",
        "Nearest<float, 2> near; nearest_neighbors(a, x[i], 2u, 1.0f, near); out[i] = near.count > 0 ? near.distance_squared[0] : x[i].x;",
    ] {
        let text = kernel("hash_grid.cuh", "geom::HashGrid<float>", body);
        refused(device, grid(), &text, &Reason::Lost, ARRAY)?;
    }
    // The copies themselves.
    let body = "out[i] = a.points[i].x * x[i].x;";
    let text = kernel("hash_grid.cuh", "geom::HashGrid<float>", body);
    refused(device, grid(), &text, &Reason::PointerInMemory, "not known")?;
    let body = "out[i] = a.triangles[i].x0 * x[i].x;";
    let text = kernel("mesh.cuh", "geom::Mesh", body);
    refused(
        device,
        Param::argument::<MeshView<'_>>("a"),
        &text,
        &Reason::PointerInMemory,
        "not known",
    )
}

fn results_without_gradients_are_refused(device: &TestDevice) -> TestResult {
    let mesh = || Param::argument::<MeshView<'_>>("a");
    let text = kernel("mesh.cuh", "geom::Mesh", "out[i] = winding_number(a, x[i]);");
    refused(device, mesh(), &text, &Reason::Lost, "the result of this query has no gradient")?;
    let body = "auto c = closest_point(a, x[i]); out[i] = smooth_normal(a, face_point(c)).x;";
    let text = kernel("mesh.cuh", "geom::Mesh", body);
    refused(device, mesh(), &text, &Reason::Lost, "the normals of vertices")?;
    let body = "for_each_within(a.bvh, x[i], 0.5f, [&](unsigned item, float square) { out[i] += square * x[i].x; });";
    let text = kernel("mesh.cuh", "geom::Mesh", body);
    refused(device, mesh(), &text, &Reason::Lost, "the result of this query has no gradient")?;
    let volume = Param::argument::<VolumeView<'_, f32>>("a");
    let body =
        "VolumeHit h; if (first_crossing(a, make_ray(x[i], x[i + 1]), 0.0, &h)) out[i] = h.t;";
    let text = kernel("volume/march.cuh", "geom::Volume<float>", body);
    refused(device, volume, &text, &Reason::Lost, "the result of this query has no gradient")
}

/// Comparisons, indices and `stop`.
fn what_does_not_matter_is_accepted(device: &TestDevice) -> TestResult {
    let grid = || Param::argument::<GridView<'_, f32>>("a");
    for body in [
        "float s = 0; for_each_neighbor(a, x[i], 0.5f, [&](const Neighbor<float>& j) { if (j.distance_squared > 0.1f) s += x[j.index].x; }); out[i] = s;",
        "float s = 0; for_each_neighbor(a, x[i], 0.5f, [&](const Neighbor<float>& j) { s += geom::ad::stop(j.delta.x) * x[i].x; }); out[i] = s;",
        "out[i] = any_neighbor(a, x[i], 0.25f) ? x[i].x : x[i].y;",
    ] {
        let text = kernel("hash_grid.cuh", "geom::HashGrid<float>", body);
        let text = format!("#include <geom/ad.cuh>\n{text}");
        if let Err(error) = attempt(device, grid(), &text) {
            ensure!(false, "{text}: {error}");
        }
    }
    let body = "out[i] = is_within(a, x[i], 0.25f) || side_of(a, x[i]) < 0 || any_hit(a, make_ray(x[i], x[0])) ? x[i].x : x[i].y;";
    let text = kernel("mesh.cuh", "geom::Mesh", body);
    if let Err(error) = attempt(device, Param::argument::<MeshView<'_>>("a"), &text) {
        ensure!(false, "{text}: {error}");
    }
    Ok(())
}
