//! Declarations that can't be tested: each is an error that says why.

use cuda_safe::kernels;
use cuda_safe::testing::Error;

use super::{Test, run, run_with};

#[track_caller]
fn unmet(test: Test) -> String {
    match run(test) {
        Err(Error::Unmet { kernel, clause, .. }) => format!("{kernel}: {clause}"),
        other => panic!("a launch was found: {other:?}"),
    }
}

macro_rules! declared {
    ($module:ident: $($declaration:tt)*) => {
        mod $module {
            super::kernels! {
                #[test_launches]
                pub(super) struct Kernels;
                // SAFETY: the kernel does nothing.
                unsafe in r#"extern "C" __global__ void k(const float* x, int n) {}"# {
                    safe fn k(x: &[f32], n: i32) $($declaration)*;
                }
            }
        }
    };
}

declared!(contradiction: where n > 5, n < 3, n <= x.len());
declared!(overflow: where n * n * n * n * n * n <= x.len(), n > 2_000_000_000);
declared!(division: where n / (n - n) <= x.len());
declared!(plain: over n where n <= x.len());
declared!(lengths: where n <= x.len());
declared!(large: where n <= x.len(), n > 100_000);
declared!(shape: where n <= x.len(), block.x == 7 * 1024);
declared!(awkward: where n * n % 997 == 1, n > 1, n <= x.len(), grid.x % 7 == 3 || block.x * 3 == 99);

#[test]
fn clauses_that_no_launch_meets() {
    assert!(unmet(contradiction::Kernels::test_launches).starts_with("k: n "));
    assert_eq!(unmet(division::Kernels::test_launches), "k: n / (n - n) <= x.len()");
    assert_eq!(unmet(shape::Kernels::test_launches), "k: block.x == 7 * 1024");
    let text = unmet(overflow::Kernels::test_launches);
    assert!(text.starts_with("k: n"), "{text}");
}

#[test]
fn clauses_that_want_more_than_the_test_has() {
    assert!(unmet(large::Kernels::test_launches).starts_with("k: n "));
    let report = run_with(large::Kernels::test_launches, |it| it.most_elements(1 << 20).count(5));
    assert!(report.is_ok_and(|report| report.tested[0].launched == 5));
}

#[test]
fn sizes_that_no_test_can_have() {
    let none = run_with(plain::Kernels::test_launches, |it| it.most_elements(0).most_threads(0));
    assert!(
        matches!(&none, Err(Error::Unmet { clause, .. }) if clause.contains("n <= x.len()")),
        "{none:?}"
    );
    let all = run_with(lengths::Kernels::test_launches, |it| it.most_elements(u64::MAX));
    let text = all.map_or_else(|error| error.to_string(), |_| "no error".to_owned());
    assert!(text.contains("more than 1073741824 bytes; hint: set fewer elements"), "{text}");
}

#[test]
fn clauses_that_are_hard_to_meet() {
    let report = run_with(awkward::Kernels::test_launches, |it| it.count(20));
    assert!(report.is_ok_and(|report| report.tested[0].launched == 20));
}

mod types {
    use cuda_safe::DeviceRepr;

    /// A direction: 0 or 1.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(super) struct Direction(pub(super) u32);
    // SAFETY: repr(C), and an unsigned in CUDA C++.
    unsafe impl DeviceRepr for Direction {}

    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: thread i touches element i alone, and only if i < n. A direction is 0 or 1.
        unsafe in r#"
            extern "C" __global__ void turn(unsigned direction, unsigned* x, int n) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                int table[2] = {1, -1};
                if (i < n) x[i] += table[direction];
            }
        "# {
            safe fn turn(direction: Direction, x: &mut [u32], n: i32 = x.len()) over n;
        }
    }
}

#[test]
fn values_of_a_type_that_has_none() {
    match run(types::Kernels::test_launches) {
        Err(Error::NoValues { kernel, parameter, type_name, .. }) => {
            assert_eq!((kernel.as_str(), parameter.as_str()), ("turn", "direction"));
            assert!(type_name.ends_with("Direction"));
        }
        other => panic!("{other:?}"),
    }
    let report = run_with(types::Kernels::test_launches, |launches| {
        launches
            .values(|random| types::Direction(random.below(2) as u32))
            .elements(|random| random.below(5) as u32)
    });
    assert!(report.as_ref().is_ok_and(|report| report.tested[0].launched == 200), "{report:?}");
}

mod too_large {
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: it does nothing.
        unsafe in r#"extern "C" __global__ __launch_bounds__(64) void small() {}"# {
            safe fn small() where block.x == 128;
        }
    }
}

#[test]
fn launches_that_are_all_refused() {
    match run_with(too_large::Kernels::test_launches, |launches| launches.count(10)) {
        Err(error @ Error::TooFew { launched: 0, refused: Some(_), .. }) => {
            assert!(error.to_string().contains("0 of 10 launches"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

mod broken_source {
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: it does not compile.
        unsafe in "extern \"C\" __global__ void k() { wrong }" { safe fn k(); }
    }
}

#[test]
fn a_source_that_does_not_compile() {
    assert!(matches!(run(broken_source::Kernels::test_launches), Err(Error::Device(_))));
}
