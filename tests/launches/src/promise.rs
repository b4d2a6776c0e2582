//! The mistakes of docs/the-promise.md: what `test_launches` says of each wrong declaration, and that it accepts the
//! right one.

use cuda_safe::kernels;
use cuda_safe::testing::Error;

use super::{Test, run};

const PAGE: &str = include_str!("../../../docs/the-promise.md");
const THIS: &str = include_str!("promise.rs");

/// Declares kernels in a module of its own.
macro_rules! declared {
    ($name:ident: $source:literal { $($declaration:tt)* }) => {
        mod $name {
            super::kernels! {
                #[test_launches]
                pub(super) struct Kernels;
                // SAFETY: the tests say which of these promises are broken; only `test_launches` calls the methods.
                unsafe in $source { $($declaration)* }
            }
        }
    };
}

declared!(unchecked: r#"
    __global__ void twice(float* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        x[i] *= 2;
    }
"# {
    safe fn twice(x: &mut [f32], n: i32 = x.len()) over n;
});
declared!(checked: r#"
    __global__ void twice(float* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] *= 2;
    }
"# {
    safe fn twice(x: &mut [f32], n: i32 = x.len()) over n;
});

declared!(unbounded: r#"
    __global__ void fill(float* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = 1;
    }
"# {
    safe fn fill(x: &mut [f32], #[any] n: i32) over n where x.len() > 0;
});
declared!(bounded: r#"
    __global__ void fill(float* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = 1;
    }
"# {
    safe fn fill(x: &mut [f32], n: i32) over n where n <= x.len();
});

declared!(part_of_a_tile: r#"
    #define TILE 16
    __global__ void reverse(float* x, int n) {
        __shared__ float tile[TILE];
        if (blockIdx.x * TILE >= n) return;
        tile[threadIdx.x] = x[blockIdx.x * TILE + threadIdx.x];
        __syncthreads();
        x[blockIdx.x * TILE + threadIdx.x] = tile[TILE - 1 - threadIdx.x];
    }
"# {
    safe fn reverse(x: &mut [f32], n: i32 = x.len()) over n by 16;
});
declared!(whole_tiles: r#"
    #define TILE 16
    __global__ void reverse(float* x, int n) {
        __shared__ float tile[TILE];
        if (blockIdx.x * TILE >= n) return;
        tile[threadIdx.x] = x[blockIdx.x * TILE + threadIdx.x];
        __syncthreads();
        x[blockIdx.x * TILE + threadIdx.x] = tile[TILE - 1 - threadIdx.x];
    }
"# {
    safe fn reverse(x: &mut [f32], n: i32 = x.len()) over n by 16 where n % 16 == 0;
});

declared!(y_without_an_index: r#"
    __global__ void count(int* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] += 1;
    }
"# {
    safe fn count(x: &mut [i32], n: i32 = x.len()) where block.x * grid.x <= 65536, block.y <= 16;
});
declared!(in_x_alone: r#"
    __global__ void count(int* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] += 1;
    }
"# {
    safe fn count(x: &mut [i32], n: i32 = x.len()) where block.x * grid.x <= 65536;
});

declared!(an_input_is_written: r#"
    __global__ void normalise(float* x, float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) { x[i] = fabsf(x[i]) + 1; out[i] = 1 / x[i]; }
    }
"# {
    safe fn normalise(#[only_read] x: &[f32], out: &mut [f32], n: i32 = x.len()) over n where out.len() == n;
});
declared!(an_output_is_written: r#"
    __global__ void normalise(float* x, float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) { x[i] = fabsf(x[i]) + 1; out[i] = 1 / x[i]; }
    }
"# {
    safe fn normalise(x: &mut [f32], out: &mut [f32], n: i32 = x.len()) over n where out.len() == n;
});

declared!(a_plain_sum: r#"
    __global__ void sum(const float* x, float* sum, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) *sum += x[i];
    }
"# {
    safe fn sum(x: &[f32], sum: &mut [f32], n: i32 = x.len()) over n where sum.len() >= 1;
});
declared!(an_atomic_sum: r#"
    __global__ void sum(const float* x, float* sum, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) atomicAdd(sum, x[i]);
    }
"# {
    safe fn sum(x: &[f32], sum: &mut [f32], n: i32 = x.len()) over n where sum.len() >= 1;
});

declared!(an_address_is_kept: r#"
    __device__ const float* table;
    __global__ void set_table(const float* x) { if (blockIdx.x == 0 && threadIdx.x == 0) table = x; }
    __global__ void look_up(float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = table[0];
    }
"# {
    safe fn set_table(x: &[f32]) where x.len() >= 1;
    safe fn look_up(out: &mut [f32], n: i32 = out.len()) over n;
});
declared!(an_address_is_passed: r#"
    __global__ void look_up(const float* table, float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = table[0];
    }
"# {
    safe fn look_up(table: &[f32], out: &mut [f32], n: i32 = out.len()) over n where table.len() >= 1;
});

/// The declarations of each row that compiles, in the order of the page: the broken one and the fixed one.
const ROWS: [(Test, Test); 7] = [
    (unchecked::Kernels::test_launches, checked::Kernels::test_launches),
    (unbounded::Kernels::test_launches, bounded::Kernels::test_launches),
    (part_of_a_tile::Kernels::test_launches, whole_tiles::Kernels::test_launches),
    (y_without_an_index::Kernels::test_launches, in_x_alone::Kernels::test_launches),
    (an_input_is_written::Kernels::test_launches, an_output_is_written::Kernels::test_launches),
    (a_plain_sum::Kernels::test_launches, an_atomic_sum::Kernels::test_launches),
    (an_address_is_kept::Kernels::test_launches, an_address_is_passed::Kernels::test_launches),
];

#[test]
fn each_row_of_the_page_is_found_and_fixed() {
    let rows: Vec<Vec<&str>> = PAGE
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| mistake"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), ROWS.len() + 1, "the last row does not compile: tests/ui of cuda-safe");
    for (row, (broken, fixed)) in rows.iter().zip(ROWS) {
        let [mistake, wrong, right, part] = row[..] else { panic!("{row:?}") };
        for code in [wrong, right].iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            assert!(THIS.contains(code), "{mistake}: no kernel here has `{code}`");
        }
        match run(broken) {
            Err(Error::Broken(broken)) => {
                assert!(
                    broken.found.iter().any(|found| found.contains(part)),
                    "{mistake}: {broken}"
                );
            }
            other => panic!("{mistake}: was not found: {other:?}"),
        }
        if let Err(error) = run(fixed) {
            panic!("{mistake}: {error}");
        }
    }
}
