//! Reports about kernels that a program loads as any does: they name the Rust file and the line in it where the source is a
//! literal, since line information is on by default on the software device.

use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, kernels};

use super::observed;

/// Returns how a report names the first line of this file that contains `code`.
fn at(code: &str) -> String {
    let line = include_str!("reports.rs").lines().position(|line| line.contains(code));
    format!("src/reports.rs:{}:", line.map_or(0, |line| line + 1))
}

/// Returns the one report that `run` leads to.
#[track_caller]
fn report(run: fn(&Context) -> Result<()>) -> String {
    let (done, mut found) = observed(run);
    done.expect("an observation keeps faults from the driver's calls");
    let report = found.pop().expect("a mistake is reported");
    assert!(found.is_empty(), "one mistake: {found:?} and {report}");
    report
}

kernels! {
    struct Kernels;
    // SAFETY: wrong, each in its way: the tests launch them where they go wrong.
    unsafe in r#"
        __global__ void beyond(float* x, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i <= n) x[i + 256] = 1.0f;
        }
        __global__ void stops(int n) {
            if (n > 2)
                __trap();
        }
        __global__ void meets(float* x) {
            __shared__ float last;
            last = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = last;
        }
    "# {
        safe fn beyond(x: &mut [f32], n: i32 = x.len()) over n;
        safe fn stops(#[any] n: i32) where grid.x == 1, block.x == 1;
        safe fn meets(x: &mut [f32]) where grid.x == 1, block.x == x.len();
    }
}

#[test]
fn an_access_out_of_bounds_names_the_line() {
    let report = report(|context| {
        let stream = context.stream()?;
        let mut x = DeviceBuffer::zeroed(&stream, 4)?;
        Kernels::load(context)?.beyond(&stream, &mut x)?;
        stream.synchronize()
    });
    assert!(
        report.contains("CUDA_ERROR_ILLEGAL_ADDRESS") && report.contains("in kernel beyond,"),
        "{report}"
    );
    assert!(report.contains(&at("x[i + 256] = 1.0f;")), "{report}");
}

#[test]
fn a_trap_names_the_line() {
    let report = report(|context| {
        let stream = context.stream()?;
        Kernels::load(context)?.stops(&stream, LaunchConfig::new(1, 1), 3)?;
        stream.synchronize()
    });
    assert!(report.contains(&at("__trap();")), "{report}");
}

#[test]
fn a_race_names_the_line() {
    let report = report(|context| {
        let stream = context.stream()?;
        let mut x = DeviceBuffer::from_slice(&stream, &[1.0, 2.0, 3.0, 4.0])?;
        Kernels::load(context)?.meets(&stream, LaunchConfig::new(1, 4), &mut x)?;
        stream.synchronize()
    });
    assert!(report.contains("race"), "{report}");
    // Both accesses are in this line.
    assert_eq!(report.matches(&at("last = x[threadIdx.x];")).count(), 2, "{report}");
    assert!(!report.contains("PTX"), "{report}");
}
