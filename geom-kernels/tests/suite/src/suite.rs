//! What the harness must know of these tests.

use std::collections::BTreeSet;

use test_harness::schedules::Schedules;
use test_harness::{Absorbed, Codes, Failure, Suite};

use crate::bits;

/// The tests of `geom-kernels`.
#[must_use]
pub fn suite() -> Suite {
    let mut cases = super::cases();
    let schedules = vec![Schedules { slow: true, short: Some(&[]), ..Schedules::of(&cases) }];
    cases.extend(bits::cases());
    Suite {
        slow: SLOW.to_vec(),
        absorbed: vec![
            Absorbed {
                calls: &[
                    "cuEventCreate",
                    "cuEventRecord",
                    "cuEventSynchronize",
                    "cuMemHostRegister_v2",
                    "cuMemcpyDtoHAsync_v2",
                ],
                codes: Codes::All,
                tests: "gradients::queries::grids_that_change",
                why: "the pass had failed before, and its caller gets the first error",
            },
            slot_of_faults("bvh_queries::hierarchies_in_kernels"),
            slot_of_faults("rust_kernels::"),
        ],
        not_swept: vec![
            (
                "golden::bits::",
                "they call what others call, many times each, and only compare bits",
            ),
            ("volume::cpu::", "they call what others call, and only compare bits"),
            (
                "::a_build_that_fails_at_any_launch_leaves_no_answers",
                "they have a driver of their own, whose launches fail one by one, and its context is kept",
            ),
        ],
        schedules,
        kernels: vec![kernels],
        checked: CHECKED.to_vec(),
        ..Suite::new("-p geom-kernels --test suite", cases)
    }
}

/// Tests that launch kernels in Rust.
const fn slot_of_faults(tests: &'static str) -> Absorbed {
    Absorbed {
        calls: &["cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2"],
        codes: Codes::All,
        tests,
        why: "the slot of faults is managed memory where none can be pinned",
    }
}

/// The kernels of the crate.
fn kernels() -> Result<BTreeSet<String>, Failure> {
    let mut names = BTreeSet::new();
    for packed in geom_kernels::ptx() {
        names.extend(ptx::entries(&packed.unpack()?)?.into_iter().map(|kernel| kernel.name));
    }
    Ok(names)
}

/// Tests that took more than 0.9 s without a fault, on one core of an AMD EPYC on 2026-11-28.
const SLOW: [&str; 74] = [
    "adjoints::samples_of_index_grids",
    "adjoints::samples_of_numbers",
    "adjoints::samples_of_vectors",
    "bvh::builds_of_many",
    "bvh_queries::batches_in_another_order",
    "bvh_queries::small_stacks_lose_nothing",
    "geometry::sort_is_stable_for_all_sizes_and_shapes",
    "gradients::compositions::closest_points",
    "gradients::compositions::tricubic_samples",
    "gradients::isosurface::blocks",
    "gradients::mesh::distances",
    "gradients::mesh::signed_distances",
    "gradients::neighbors::densities_f32",
    "gradients::neighbors::densities_f64",
    "gradients::queries::signed_distances",
    "gradients::queries::sums_over_hits",
    "gradients::volume::arrays_of_values",
    "gradients::volume::every_kernel",
    "gradients::volume::tricubic_samples",
    "gradients::volume::trilinear_samples",
    "hash_grid::a_graph_of_another_thread_builds",
    "hash_grid::any_radius_to_build_with",
    "hash_grid::cpu_grids_are_the_devices_f32",
    "hash_grid::cpu_grids_are_the_devices_f64",
    "hash_grid::cpu_grids_of_any_size",
    "hash_grid::cpu_queries_are_the_kernels",
    "hash_grid::kernels_do_not_depend_on_flags",
    "hash_grid::lists_are_in_cell_order_f32",
    "hash_grid::lists_are_in_cell_order_f64",
    "hash_grid::order_of_work_does_not_change_answers",
    "hash_grid::sets_at_sizes_around_a_warp",
    "hash_grid::sets_equal_brute_force_f32",
    "hash_grid::sets_equal_brute_force_f64",
    "isosurface::closed_surfaces_are_watertight",
    "isosurface::fog_is_closed_where_leaves_end",
    "isosurface::tiles_of_upper_nodes",
    "isosurface::tiles_that_meet",
    "isosurface::volumes_are_dense_fields",
    "mesh::builds_of_any_number_of_faces",
    "mesh::closest_points_do_not_depend_on_the_hierarchy",
    "mesh::graphs_build_refit_and_ask",
    "mesh::kernels_find_what_batches_find_under_all_flags",
    "mesh::limits_are_those_of_all_faces",
    "mesh::overlaps_are_those_of_all_faces",
    "mesh::overlaps_of_many_queries_are_those_of_few",
    "mesh::overlaps_with_boxes_are_exact",
    "mesh::points_and_faces_change",
    "mesh::queries_take_every_layout_of_points",
    "mesh::rays_between_two_t",
    "mesh::rays_do_not_depend_on_the_hierarchy",
    "mesh::rays_do_not_slip_through",
    "mesh::rays_hit_what_all_faces_say",
    "mesh::rays_hit_what_the_oracle_is_sure_of",
    "mesh::signs_of_solids_are_right",
    "mesh::ten_million_pairs",
    "volume::index_grids_take_values_of_arrays",
    "volume::lookups_find_every_type",
    "volume::march::crossings_are_those_of_every_cell",
    "volume::march::integrals_are_those_of_every_cell",
    "volume::march::kernels_find_what_batches_find_under_all_flags",
    "volume::march::segments_follow_each_other_and_are_few",
    "volume::nearest_values_of_every_type",
    "volume::roots_of_any_size_are_searched",
    "volume::samples_take_every_layout_of_points",
    "volume::tricubic_samples",
    "volume::what_is_stored_is_saved",
    "volume_build::built_in_place",
    "volume_build::dense_arrays",
    "volume_build::dense_arrays_of_other_types",
    "volume_build::lists_of_any_length",
    "volume_build::room_is_not_saved",
    "volume_build::tiles_of_every_type",
    "volume_build::voxels_of_every_type",
    "winding::series_are_as_good_as_promised",
];

/// Tests that take little time, and launch all kernels of the crate.
const CHECKED: [&str; 64] = [
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
    "mesh::overlaps_with_balls_at_their_ends",
    "mesh::overlaps_of_many_queries_are_those_of_few",
    "mesh::overlaps_in_a_graph_follow_the_points",
    "gradients::volume::every_kernel",
];
