//! The tests that are slow without a fault. They would take more than half of a sweep's time, so a run sweeps a part of them.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::is_swept;
use crate::harness::{TestResult, deep, ensure, sample};

/// A run sweeps one of so many, drawn by its seed; a deep run sweeps all, and any run those that it names.
const TURNS: u64 = 4;

/// Tests that took more than 0.9 s without a fault, on one core of an AMD EPYC on 2026-11-28.
const SLOW: [&str; 102] = [
    "adjoints::samples_of_index_grids",
    "adjoints::samples_of_numbers",
    "adjoints::samples_of_vectors",
    "bvh::builds_of_many",
    "bvh_queries::batches_in_another_order",
    "bvh_queries::small_stacks_lose_nothing",
    "generated::programs",
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
    "guarded::later_uses_are_refused_after_a_second",
    "hash_grid::a_graph_of_another_thread_builds",
    "hash_grid::any_radius_to_build_with",
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
    "kernels::blocks_that_meet",
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
    "ports::conjugate_gradient",
    "several::copies_of_every_size",
    "tape::chains::against_differences_and_doubles",
    "tape::chains::of_generated_adjoints",
    "tape::gradcheck::kinks_are_not_blamed_f32",
    "tape::gradcheck::kinks_are_not_blamed_f64",
    "tape::gradcheck::large_launches",
    "tape::gradcheck::mistakes_are_named_f32",
    "tape::gradcheck::mistakes_are_named_f64",
    "tape::gradcheck::right_adjoints_f32",
    "tape::gradcheck::right_adjoints_f64",
    "tape::gradcheck::views_and_aliases",
    "tape::graphs::of_generated_adjoints",
    "tape::halves::gradients_are_those_of_doubles",
    "tape::libm::derivatives_of_special_functions_f64",
    "tape::libm::rules_with_wrong_derivatives_do_not_compile",
    "tape::logs::the_same_bits_in_each_run",
    "tape::loops::of_whole_kernels",
    "tape::loops::over_local_arrays",
    "tape::loops::that_are_left_in_the_middle",
    "tape::loops::that_end_by_their_condition",
    "tape::loops::that_store",
    "tape::twins::of_files_f32",
    "tape::unseen::kernels",
    "tape::withheld::deterministic_bits_of_a_hundred_passes",
    "tape::withheld::sums_by_atomics_in_grid_stride_loops",
    "tape::withheld::weights_that_many_threads_read",
    "unified::dropped_while_in_use",
    "unified::others_are_not_waited_for",
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

/// Returns whether a run that names no tests sweeps this one.
pub(super) fn is_due(name: &str) -> bool {
    let mut hasher = DefaultHasher::new();
    (sample::seed(), name).hash(&mut hasher);
    deep() || !SLOW.contains(&name) || hasher.finish().is_multiple_of(TURNS)
}

/// Fails if the list names a test that does not exist, such as one that was renamed.
pub(super) fn exist() -> TestResult {
    let all = crate::cases();
    for name in SLOW {
        ensure!(
            all.iter().any(|case| case.name == name && is_swept(case)),
            "there is no test {name} to sweep"
        );
    }
    Ok(())
}
