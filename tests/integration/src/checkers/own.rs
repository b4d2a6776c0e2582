//! The checkers find nothing in the project's own kernels, and all of them ran.

use std::collections::BTreeSet;
use std::fs;
use std::thread;

use crate::harness::{Failure, Outcome, TestResult, deep, ensure, limited_to, spawn_self};

/// Cases of the tier of the software device that take little time, and launch all kernels of geom-kernels and
/// tape. With `--deep` it is all cases but those that [`run`] leaves out.
pub(crate) const CASES: [&str; 69] = [
    "geometry::sort_orders_signed_and_floating_keys",
    "geometry::sort_in_a_graph_gives_the_same_each_time",
    "geometry::sort_takes_parts_of_buffers",
    "geometry::scans_equal_the_hosts",
    "geometry::float_sums_follow_the_documented_tree",
    "geometry::reductions_equal_the_hosts",
    "geometry::selections_are_in_order_and_counted",
    "geometry::look_back_adds_tiles_and_groups",
    "hash_grid::lists_without_room_are_cut_off",
    "hash_grid::nearest_are_those_of_brute_force_f64",
    "hash_grid::nearest_in_a_periodic_box",
    "hash_grid::rebuild_with_fewer_and_more_points",
    "hash_grid::order_of_work_does_not_change_answers",
    "hash_grid::points_lie_as_they_like",
    "mesh_topology::normals_that_cancel_are_zero",
    "mesh_topology::reports_of_known_shapes",
    "bvh::rebuild_with_fewer_and_more_boxes",
    "bvh::refit_leaves_out_what_is_no_box",
    "winding::in_any_order",
    "winding::signed_distances",
    "bvh_queries::batches_of_any_size",
    "bvh_queries::lists_without_room_are_cut_off",
    "mesh::points_that_find_nothing",
    "mesh::limits_at_their_ends",
    "mesh::points_that_are_on_no_side",
    "mesh::rays_of_any_length",
    "mesh::attributes_at_points",
    "mesh::positions_of_answers_are_where_they_say",
    "mesh::unchecked_builds_skip_wrong_faces",
    "volume_build::points_in_the_world",
    "volume_build::kernels_store_values",
    "volume_build::dense_arrays_of_other_types",
    "volume_build::lists_of_what_is_there",
    "isosurface::normals_of_a_sphere",
    "isosurface::too_little_room_is_told",
    "isosurface::one_voxel_of_a_volume",
    "volume::lookups_find_every_type",
    "volume::nearest_values_of_every_type",
    "volume::stores_write_voxels_of_leaves_alone",
    "volume::stores_of_one_voxel_by_many_threads",
    "volume::trilinear_samples",
    "volume::world_samples_are_those_of_index_space",
    "volume::samples_of_sizes_around_a_warp",
    "volume::index_grids_take_values_of_arrays",
    "volume::march::crossings_are_those_of_every_cell",
    "volume::march::integrals_are_those_of_every_cell",
    "volume::march::rays_that_find_nothing",
    "gradients::evaluate::attributes",
    "gradients::evaluate::points_among_the_attributes",
    "gradients::isosurface::volumes",
    "gradients::isosurface::room_that_is_not_needed",
    "gradients::volume::deterministic_bits",
    "gradients::rays::vertices_changed_behind_the_tape",
    "gradients::reductions::of_f64",
    "gradients::reductions::of_vectors",
    "gradients::norms::of_f64",
    "gradients::norms::behind_other_steps",
    "gradients::ties::distance_zero",
    "gradients::ties::normals_that_cancel",
    "gradients::ties::samples_between_cells",
    "tape::awkward::overlapping_slices",
    "tape::awkward::scattered_sums_f64",
    "tape::values::scratch_overflow_f32",
    "tape::graphs::forward_and_backward_in_one",
    "tape::unwritten::primals",
    "mesh::overlaps_with_balls_at_their_ends",
    "mesh::overlaps_of_many_queries_are_those_of_few",
    "mesh::overlaps_in_a_graph_follow_the_points",
    "gradients::volume::every_kernel",
];

/// Cases that launch generated adjoints: of all constructs, with sums that threads share, private copies, and scratch
/// memory that does not suffice.
const OF_GENERATED_ADJOINTS: [&str; 14] = [
    "tape::generated::gathers_and_scatters",
    "tape::generated::vectors",
    "tape::loops::that_store",
    "tape::loops::that_are_left_in_the_middle",
    "tape::loops::of_threads_that_go_on_by_the_grid",
    "tape::loops::too_little_scratch_in_several_steps",
    "tape::loops::too_little_scratch_in_a_captured_pass",
    "tape::loops::over_local_arrays",
    "tape::loops::that_end_by_their_condition",
    "tape::loops::of_whole_kernels",
    "tape::loops::matrix_products_in_two_dimensions",
    "tape::loops::dem_is_differentiated",
    "tape::awkward::generated_scattered_sums_f32",
    "tape::awkward::generated_in_place_through_two_arguments",
];

/// Seconds that all of it may take.
const LIMIT: u64 = 300;
const DEEP_LIMIT: u64 = 4 * 3600;

/// The kernels that geom-kernels and tape have.
fn all() -> Result<BTreeSet<String>, Failure> {
    let mut names = BTreeSet::new();
    for packed in geom_kernels::ptx().chain([tape::ptx()]) {
        names.extend(ptx::entries(&packed.unpack()?)?.into_iter().map(|kernel| kernel.name));
    }
    ensure!(names.len() > 400, "there are {} kernels", names.len());
    Ok(names)
}

/// The kernels that a report says were checked.
fn checked(report: &str) -> Result<BTreeSet<String>, Failure> {
    let report: serde_json::Value = serde_json::from_str(report)?;
    let names = report["checked_kernels"]
        .as_array()
        .ok_or_else(|| Failure::new("a report without kernels"))?;
    Ok(names.iter().filter_map(|name| name.as_str()).map(str::to_owned).collect())
}

/// The tier again, or these cases of it, with its kernels checked for races and for reads of unwritten memory: a
/// case with a finding fails. The kernels that ran.
fn run(cases: &[&str]) -> Result<BTreeSet<String>, Failure> {
    let mut command = spawn_self(&["--tier", "emu"])?;
    command.env("CUDA_EMU_CHECK", "race,init");
    // Of the usual size: checked they take long enough.
    command.env_remove("TEST_DEEP");
    if cases.is_empty() {
        // Not ours, or wrong on purpose: kernels as they were recorded on a GPU, of which one reads plainly before
        // a loop of compare-and-swap, and one padding; generated programs; and mistakes that are planted.
        for other in ["emu::golden", "emu::generated", "emu::seeds", "emu::schedules"] {
            command.args(["--skip", other]);
        }
        // Of thousands of blocks that meet again and again each learns of each. And the bits of 64 voxels are a
        // word: who looks one up reads plainly what others write atomically. Tiles in memory of the block race in
        // NVIDIA's header, which relies on lanes that execute together.
        for case in [
            "kernels::blocks_that_meet",
            "volume::kernels_store_and_look_up",
            "groups::tiles_in_memory_of_the_block",
        ] {
            command.args(["--skip", &format!("emu::{case}")]);
        }
    } else {
        command.arg("--exact").args(cases.iter().map(|case| format!("emu::{case}")));
    }
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    command.env("TEST_REPORT", &report);
    let limit = if cases.is_empty() { DEEP_LIMIT } else { LIMIT };
    let Outcome { status, stdout, stderr } = limited_to(command, limit)?;
    ensure!(status.success(), "{status}\n{stdout}{stderr}");
    if !cases.is_empty() {
        // The cases, and the one that closes the device.
        let ran = stdout.lines().filter(|line| line.ends_with("... ok")).count();
        ensure!(ran == cases.len() + 1, "{ran} of {} cases\n{stdout}", cases.len());
    }
    checked(&fs::read_to_string(report)?)
}

/// Runs cases in two processes for two cores: under the checkers a launch has one worker.
fn run_halves(cases: &[&str]) -> Result<BTreeSet<String>, Failure> {
    let (first, second) = thread::scope(|scope| {
        let (left, right) = cases.split_at(cases.len() / 2);
        let left = scope.spawn(|| run(left));
        let right = run(right);
        (left.join(), right)
    });
    let first = first.unwrap_or_else(|_| Err(Failure::new("a process could not be run")))?;
    Ok(&first | &second?)
}

/// Nothing is found in generated adjoints, which ran.
pub(super) fn generated_adjoints() -> TestResult {
    let checked = run_halves(&OF_GENERATED_ADJOINTS)?;
    for name in ["f_adjoint", "step_adjoint", "scale_f32_adjoint", "multiply_f64_adjoint"] {
        ensure!(checked.contains(name), "`{name}` was not checked");
    }
    Ok(())
}

/// Nothing is found, and no kernel was left out.
pub(super) fn kernels() -> TestResult {
    let checked = if deep() { run(&[])? } else { run_halves(&CASES)? };
    let all = all()?;
    let missed: Vec<_> = all.difference(&checked).collect();
    ensure!(missed.is_empty(), "of {} kernels {missed:?} were not checked", all.len());
    Ok(())
}
