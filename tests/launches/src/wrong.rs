//! Wrong declarations. Each must be found, with the launch that shows it.

use cuda_safe::kernels;
use cuda_safe::testing::{Broken, Error};

use super::{Test, run, run_with};

/// Returns how a report names the first line of this file that contains `code`.
fn at(code: &str) -> String {
    let line = include_str!("wrong.rs").lines().position(|line| line.contains(code));
    format!("wrong.rs:{}:", line.map_or(0, |line| line + 1))
}

/// Returns the launch that was found, whose report says `part`.
#[track_caller]
fn found(test: Test, part: &str) -> Broken {
    match run(test) {
        Err(Error::Broken(broken)) => {
            let text = broken.to_string();
            assert!(broken.found.iter().any(|found| found.contains(part)), "{part:?}: {text}");
            *broken
        }
        other => panic!("{part:?} was not found: {other:?}"),
    }
}

mod tiles {
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: wrong: the kernel reads whole tiles, and no clause says that the extents are multiples of a tile.
        unsafe in r#"
            #define TILE 16
            __global__ void matrixMul(float *c, float *a, float *b, int wa, int wb)
            {
                __shared__ float as[TILE][TILE], bs[TILE][TILE];
                int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
                float sum = 0;
                for (int k = 0; k < wa; k += TILE) {
                    as[threadIdx.y][threadIdx.x] = a[y * wa + k + threadIdx.x];
                    bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * wb + x];
                    __syncthreads();
                    for (int i = 0; i < TILE; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
                    __syncthreads();
                }
                c[y * wb + x] = sum;
            }
        "# {
            #[name = "matrixMul"]
            safe fn matrix_mul(
                c: &mut [f32], #[only_read] a: &[f32], #[only_read] b: &[f32], wa: i32, wb: i32,
            ) over [wb, c.len() / wb] by [16, 16]
                where wa > 0, wb > 0, c.len() % wb == 0, a.len() == c.len() / wb * wa, b.len() == wa * wb;
        }
    }
}

#[test]
fn extents_that_are_no_whole_tiles() {
    let broken = found(tiles::Kernels::test_launches, "ILLEGAL_ADDRESS");
    // The smallest launch: one block, which reads whole tiles of matrices of one element.
    for name in ["wa", "wb", "c.len()", "a.len()", "b.len()"] {
        assert_eq!(broken.value(name), Some(1), "{broken}");
    }
    assert_eq!(broken.launch, "grid (1, 1, 1), block (16, 16, 1), 0 bytes shared");
    let text = broken.to_string();
    assert!(
        text.contains("kernel `matrix_mul`")
            && text.contains(&at("as[threadIdx.y][threadIdx.x] = a[")),
        "the line: {text}"
    );
}

mod off_by_one {
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: wrong: the last element reads its neighbour behind.
        unsafe in r#"
            extern "C" __global__ void differences(const float* x, float* out, int n) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) out[i] = x[i + 1] - x[i];
            }
        "# {
            safe fn differences(x: &[f32], out: &mut [f32], n: i32 = out.len()) over n where n <= x.len();
        }
    }
}

#[test]
fn a_bound_that_is_one_too_small() {
    let broken = found(off_by_one::Kernels::test_launches, "read");
    assert_eq!(
        (broken.value("x.len()"), broken.value("out.len()")),
        (Some(1), Some(1)),
        "{broken}"
    );
    assert!(broken.to_string().contains(&at("if (i < n) out[i] = x[i + 1]")), "the line: {broken}");
}

mod any {
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: wrong: `first` is an index.
        unsafe in r#"
            extern "C" __global__ void shift(const float* x, float* out, int n, int first) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) out[i] = x[first];
            }
        "# {
            safe fn shift(x: &[f32], out: &mut [f32], n: i32 = x.len(), #[any] first: i32) over n
                where out.len() == n;
        }
    }
}

#[test]
fn an_index_without_a_clause() {
    let broken = found(any::Kernels::test_launches, "ILLEGAL_ADDRESS");
    assert_eq!(broken.value("out.len()"), Some(1), "{broken}");
    assert_eq!(broken.value("first"), Some(1), "{broken}");
}

mod grid_stride {
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: wrong: the stride leaves out the number of blocks, so blocks touch the same elements.
        unsafe in r#"
            extern "C" __global__ void add_one(float* x, unsigned n) {
                for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) x[i] += 1;
            }
        "# {
            safe fn add_one(x: &mut [f32], n: u32 = x.len()) where block.x <= 256;
        }
    }
}

#[test]
fn blocks_that_race() {
    let broken = found(grid_stride::Kernels::test_launches, "race");
    // Two blocks of one thread, and the element that both touch.
    let values = ["x.len()", "block.x", "grid.x"].map(|name| broken.value(name));
    assert_eq!(values, [Some(2), Some(1), Some(2)], "{broken}");
    assert!(broken.to_string().contains(&at("for (unsigned i = blockIdx.x")), "the line: {broken}");
}

mod swapped {
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: wrong: the row is multiplied by the height.
        unsafe in r#"
            extern "C" __global__ void fill(float* x, int width, int height, float value) {
                int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
                if (column < width && row < height) x[row * height + column] = value;
            }
        "# {
            safe fn fill(x: &mut [f32], width: i32, height: i32, value: f32) over [width, height]
                where width >= 0, height >= 0, x.len() == width * height;
        }
    }
}

#[test]
fn width_and_height_confused() {
    let broken = found(swapped::Kernels::test_launches, "ILLEGAL_ADDRESS");
    // With an extent of 1 the index stays inside, or is the same as the right one: 1 wide and 2 high is too small.
    let (width, height) = (broken.value("width"), broken.value("height"));
    assert_eq!((width, height, broken.value("x.len()")), (Some(1), Some(2), Some(2)), "{broken}");
}

mod unwritten {
    use std::mem::MaybeUninit;
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: wrong: the sum begins with what is in `out`.
        unsafe in r#"
            extern "C" __global__ void copy(const float* x, float* out, int n) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) out[i] += x[i];
            }
        "# {
            safe fn copy(x: &[f32], out: &mut [MaybeUninit<f32>], n: i32 = x.len()) over n where out.len() == n;
        }
    }
}

#[test]
fn an_output_that_is_read_before_it_is_written() {
    let broken = found(unwritten::Kernels::test_launches, "that nothing has written");
    assert_eq!(broken.value("x.len()"), Some(1), "{broken}");
}

mod written {
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: wrong: the kernel writes to `x`.
        unsafe in r#"
            __global__ void scale(float* x, float* out, int n) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) { out[i] = 2 * x[i]; x[i] = 77777; }
            }
        "# {
            safe fn scale(#[only_read] x: &[f32], out: &mut [f32], n: i32 = x.len()) over n where out.len() == n;
        }
    }
}

#[test]
fn an_input_that_is_written() {
    let broken = found(written::Kernels::test_launches, "the kernel wrote to `x`");
    assert_eq!(broken.value("x.len()"), Some(1), "{broken}");
}

mod instances {
    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: wrong, for elements of 8 bytes alone: the shared memory is too small for them.
        unsafe in r#"
            template <class T> __global__ void swap(T* x) {
                extern __shared__ __align__(8) char bytes[];
                T* part = reinterpret_cast<T*>(bytes);
                part[threadIdx.x] = x[threadIdx.x];
                __syncthreads();
                if (blockIdx.x == 0) x[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
            }
        "# {
            safe fn swap<T in [f32, f64]>(x: &mut [T])
                where x.len() == block.x, shared >= 4 * block.x, grid.x == 1;
        }
    }
}

#[test]
fn one_instance_of_two() {
    let broken = found(instances::Kernels::test_launches, "ILLEGAL_ADDRESS");
    assert_eq!(broken.kernel, "swap (T = f64)");
    let values = ["x.len()", "block.x", "shared"].map(|name| broken.value(name));
    assert_eq!(values, [Some(1), Some(1), Some(4)], "{broken}");
}

mod fields {
    use cuda_safe::DeviceRepr;

    #[repr(C)]
    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    pub(super) struct Params {
        pub(super) scale: f32,
        pub(super) n: u32,
    }
    // SAFETY: repr(C), with the fields of the kernel's structure.
    unsafe impl DeviceRepr for Params {}

    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: wrong: `<=`.
        unsafe in r#"
            struct Params { float scale; unsigned n; };
            extern "C" __global__ void scale(Params p, float* x) {
                unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i <= p.n) x[i] *= p.scale;
            }
        "# {
            safe fn scale(p: Params, x: &mut [f32]) over p.n + 1 where p.n <= x.len();
        }
    }
}

#[test]
fn a_bound_in_a_structure() {
    let broken = found(fields::Kernels::test_launches, "ILLEGAL_ADDRESS");
    assert_eq!((broken.value("p.n"), broken.value("x.len()")), (Some(0), Some(0)), "{broken}");
}

#[test]
fn the_same_seed_finds_the_same_launch() {
    let of = |seed| match run_with(tiles::Kernels::test_launches, |launches| launches.seed(seed)) {
        Err(Error::Broken(broken)) => broken,
        other => panic!("{other:?}"),
    };
    let (first, again, other) = (of(3), of(3), of(4));
    assert_eq!(
        (&first.first, &first.values, first.number),
        (&again.first, &again.values, again.number)
    );
    assert_ne!(first.first, other.first);
    assert_eq!((first.seed, other.seed), (3, 4));
}
