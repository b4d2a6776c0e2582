//! What the harness must know of these tests.

use std::collections::BTreeSet;

use test_harness::schedules::Schedules;
use test_harness::{Absorbed, Codes, Failure, Suite};

/// The tests of `tape`.
#[must_use]
pub fn suite() -> Suite {
    let cases = super::cases();
    Suite {
        slow: SLOW.to_vec(),
        absorbed: vec![
            Absorbed {
                calls: &["cuEventRecord", "cuEventSynchronize", "cuMemcpyDtoHAsync_v2"],
                codes: Codes::All,
                tests: "tape::specs::another_abi_is_told",
                why: "the pass had failed before, and its caller gets the first error",
            },
            Absorbed {
                calls: &["cuEventQuery", "cuEventRecord", "cuMemcpyDtoHAsync_v2"],
                codes: Codes::All,
                tests: "tape::rust::volumes_that_change",
                why: "the pass had failed before, and its caller gets the first error",
            },
            Absorbed {
                calls: &["cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2"],
                codes: Codes::All,
                tests: "tape::rust::",
                why: "the slot of faults is managed memory where none can be pinned",
            },
        ],
        schedules: vec![Schedules {
            short: Some(&SEVERAL_STREAMS),
            any_order: &ANY_ORDER,
            ..Schedules::of(&cases)
        }],
        kernels: vec![kernels],
        checked: CHECKED.to_vec(),
        ..Suite::new("-p cuda-tape --test suite", cases)
    }
}

/// The kernels of the crate.
fn kernels() -> Result<BTreeSet<String>, Failure> {
    let entries = ptx::entries(&tape::ptx().unpack()?)?;
    Ok(entries.into_iter().map(|kernel| kernel.name).collect())
}

/// Tests whose numbers are sums that atomics add in any order: those of passes that were not asked
/// to be deterministic.
const ANY_ORDER: [&str; 5] = [
    "tape::graphs::backward_of_what_ran",
    "tape::graphs::forward_and_backward_in_one",
    "tape::graphs::forward_and_backward_in_two",
    "tape::graphs::gradients_of_a_pass_that_never_ran",
    "tape::unfinished::graphs_of_another_thread",
];

/// How the names of the other tests begin whose work a seed can order.
const SEVERAL_STREAMS: [&str; 6] = [
    "tape::chains::",
    "tape::libm::derivatives_of_",
    "tape::refusals::three_dimensions",
    "tape::rust::neighbors_in_periodic_boxes",
    "tape::rust::sums_over_neighbors",
    "tape::unborrowed::",
];

/// Tests that took more than 0.9 s without a fault, on one core of an AMD EPYC on 2026-11-28.
const SLOW: [&str; 53] = [
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
    "tape::rust::closest_points",
    "tape::rust::hits_of_rays",
    "tape::rust::meshes_that_change",
    "tape::rust::neighbors_in_periodic_boxes",
    "tape::rust::neighbors_over_blocks",
    "tape::rust::of_a_cell_with_memory",
    "tape::rust::of_a_chain",
    "tape::rust::of_a_network_in_shared_memory",
    "tape::rust::of_attention",
    "tape::rust::of_cloth",
    "tape::rust::of_elements",
    "tape::rust::of_functions",
    "tape::rust::of_gathers",
    "tape::rust::of_images",
    "tape::rust::of_implicit_steps",
    "tape::rust::of_layer_norm",
    "tape::rust::of_loops",
    "tape::rust::of_rays_through_a_field",
    "tape::rust::of_rigid_bodies",
    "tape::rust::of_smoothed_particles",
    "tape::rust::of_softmax",
    "tape::rust::of_splats",
    "tape::rust::of_splines",
    "tape::rust::of_tridiagonal_systems",
    "tape::rust::queries_without_a_gradient",
    "tape::rust::samples_of_arrays",
    "tape::rust::samples_of_volumes",
    "tape::rust::sums_over_neighbors",
    "tape::twins::of_files_f32",
    "tape::unseen::kernels",
    "tape::withheld::deterministic_bits_of_a_hundred_passes",
    "tape::withheld::sums_by_atomics_in_grid_stride_loops",
    "tape::withheld::weights_that_many_threads_read",
];

/// Tests that take little time, and launch the kernels of the crate.
const CHECKED: [&str; 6] = [
    "tape::awkward::overlapping_slices",
    "tape::awkward::scattered_sums_f64",
    "tape::values::scratch_overflow_f32",
    "tape::graphs::forward_and_backward_in_one",
    "tape::unwritten::primals",
    "tape::stale::generated_written_before_it_is_used",
];
