//! The checkers find nothing in the project's own kernels.

use crate::harness::{Outcome, TestResult, deep, ensure, limited_to, spawn_self};

/// Cases of the tier of the software device that take little time: some for each kind of kernels of
/// geom-kernels and tape. With `--deep` it is all cases.
const CASES: [&str; 36] = [
    "geometry::sort_takes_parts_of_buffers",
    "geometry::sort_orders_signed_and_floating_keys",
    "geometry::selections_are_in_order_and_counted",
    "geometry::look_back_adds_tiles_and_groups",
    "geometry::float_sums_follow_the_documented_tree",
    "hash_grid::rebuild_with_fewer_and_more_points",
    "hash_grid::nearest_in_a_periodic_box",
    "hash_grid::lists_without_room_are_cut_off",
    "hash_grid::points_lie_as_they_like",
    "bvh::rebuild_with_fewer_and_more_boxes",
    "bvh_queries::lists_without_room_are_cut_off",
    "mesh_topology::normals_that_cancel_are_zero",
    "mesh_topology::reports_of_known_shapes",
    "mesh::rays_of_any_length",
    "mesh::points_that_find_nothing",
    "mesh::attributes_at_points",
    "mesh::unchecked_builds_skip_wrong_faces",
    "winding::signed_distances",
    "isosurface::one_voxel_of_a_volume",
    "isosurface::too_little_room_is_told",
    "volume::lookups_find_every_type",
    "volume::stores_write_voxels_of_leaves_alone",
    "volume::samples_of_sizes_around_a_warp",
    "volume::march::rays_that_find_nothing",
    "volume_build::points_in_the_world",
    "volume_build::kernels_store_values",
    "volume_build::dense_arrays_of_other_types",
    "gradients::rays::vertices_changed_behind_the_tape",
    "gradients::evaluate::attributes",
    "gradients::isosurface::room_that_is_not_needed",
    "gradients::reductions::of_vectors",
    "gradients::volume::deterministic_bits",
    "gradients::ties::samples_between_cells",
    "tape::values::scratch_overflow_f32",
    "tape::awkward::scattered_sums_f64",
    "tape::graphs::forward_and_backward_in_one",
];

/// Seconds that all of it may take.
const LIMIT: u64 = 300;
const DEEP_LIMIT: u64 = 4 * 3600;

/// The tier again, or some of it, with its kernels checked for races and for reads of unwritten memory: a
/// case with a finding fails.
pub(super) fn kernels() -> TestResult {
    let mut command = spawn_self(&["--tier", "emu"])?;
    command.env("CUDA_EMU_CHECK", "race,init");
    // Of the usual size: checked they take long enough.
    command.env_remove("TEST_DEEP");
    if deep() {
        // Two of those kernels have what the checkers look for, and are as they were recorded on a GPU: a
        // plain read before a loop of compare-and-swap, and a read of padding.
        command.args(["--skip", "emu::golden"]);
    } else {
        command.arg("--exact").args(CASES.map(|case| format!("emu::{case}")));
    }
    let Outcome { status, stdout, stderr } =
        limited_to(command, if deep() { DEEP_LIMIT } else { LIMIT })?;
    ensure!(status.success(), "{status}\n{stdout}{stderr}");
    if !deep() {
        // The cases, and the one that closes the device.
        let ran = stdout.lines().filter(|line| line.ends_with("... ok")).count();
        ensure!(ran == CASES.len() + 1, "{ran} of {} cases\n{stdout}", CASES.len());
    }
    Ok(())
}
