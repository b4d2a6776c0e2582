//! Generated adjoints under the checkers of the software device.

use test_harness::{Case, TestResult, cases, check, ensure};

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

pub(super) fn cases() -> Vec<Case> {
    cases!["checkers", host(generated_adjoints).long(),]
}

/// Nothing is found in generated adjoints, which ran.
fn generated_adjoints() -> TestResult {
    let checked = check(&OF_GENERATED_ADJOINTS)?;
    for name in ["f_adjoint", "step_adjoint", "scale_f32_adjoint", "multiply_f64_adjoint"] {
        ensure!(checked.contains(name), "`{name}` was not checked");
    }
    Ok(())
}
