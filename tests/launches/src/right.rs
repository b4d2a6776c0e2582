//! Right declarations, which must pass, and the launches that were really made.

use cuda_safe::kernels;
use cuda_safe::testing::{Report, Tested};

use super::{Test, run, run_with};

#[track_caller]
fn passes(test: Test) -> Report {
    match run(test) {
        Ok(report) => report,
        Err(error) => panic!("{error}"),
    }
}

mod several {
    pub(super) const TILE: i32 = 16;

    super::kernels! {
        #[test_launches]
        pub(super) struct Kernels;
        // SAFETY: see each kernel's clauses.
        unsafe in r#"
            extern "C" __global__ void saxpy(float a, const float* x, float* y, size_t n) {
                size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
                if (i < n) y[i] += a * x[i];
            }
            extern "C" __global__ void sum(const float* x, float* sums, unsigned n) {
                extern __shared__ float part[];
                float all = 0;
                for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
                    all += x[i];
                part[threadIdx.x] = all;
                __syncthreads();
                for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
                    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
                    __syncthreads();
                }
                if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
            }
            extern "C" __global__ void transpose(const float* x, float* out, int width, int height) {
                __shared__ float tile[16][17];
                int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
                tile[threadIdx.y][threadIdx.x] = x[row * width + column];
                __syncthreads();
                column = blockIdx.y * 16 + threadIdx.x, row = blockIdx.x * 16 + threadIdx.y;
                out[row * height + column] = tile[threadIdx.x][threadIdx.y];
            }
            extern "C" __global__ void window(const float* x, float* out, int first, int last, int n) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < last - first) out[i] = x[first + i];
            }
            extern "C" __global__ void everything(double* x, unsigned long long seed, bool up) {
                if (blockIdx.x == 0 && threadIdx.x == 0) x[0] = up ? seed : 0;
            }
            extern "C" __global__ void window_at(const float* x) {}
        "# {
            safe fn saxpy(a: f32, x: &[f32], y: &mut [f32], n: usize = x.len()) over n where y.len() == n;
            safe fn sum(x: &[f32], sums: &mut [f32], n: u32 = x.len())
                where block.x.is_power_of_two(), shared >= 4 * block.x, grid.x <= sums.len();
            safe fn transpose(x: &[f32], out: &mut [f32], width: i32, height: i32)
                over [width, height] by [TILE, TILE]
                where width % TILE == 0, height % TILE == 0, width > 0, height > 0, x.len() == width * height,
                    out.len() == x.len();
            safe fn window(x: &[f32], out: &mut [f32], first: i32, last: i32, n: i32 = x.len()) over last - first
                where 0 <= first <= last <= n, out.len() >= last - first;
            safe fn everything(x: &mut [f64], #[any] seed: u64, up: bool) where x.len() > 0;
            unsafe fn window_at(x: &[f32]);
        }
    }
}

#[test]
fn kernels_of_many_kinds() {
    let Report { tested, skipped, .. } = passes(several::Kernels::test_launches);
    let names: Vec<&str> = tested.iter().map(|kernel| kernel.kernel.as_str()).collect();
    assert_eq!(names, ["saxpy", "sum", "transpose", "window", "everything"]);
    for Tested { kernel, launched, .. } in &tested {
        assert_eq!(*launched, 200, "{kernel}");
    }
    assert_eq!(skipped, ["window_at"]);
}

#[test]
fn the_number_of_launches_is_what_was_asked() {
    let before = cuda_emu::checked_kernels().get("saxpy").copied().unwrap_or(0);
    let report = run_with(several::Kernels::test_launches, |launches| launches.count(7).seed(9));
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.tested.iter().all(|kernel| kernel.launched == 7), "{report}");
    let after = cuda_emu::checked_kernels().get("saxpy").copied().unwrap_or(0);
    assert!(after >= before + 7, "{before} {after}");
    let text = report.to_string();
    assert!(
        text.contains("saxpy: 7 launches,") && text.contains("window_at: not launched"),
        "{text}"
    );
}

mod generic {
    super::kernels! {
        #[test_launches]
        pub(super) struct Query<T: cuda_safe::DeviceRepr in [f32, f64]>;
        // SAFETY: thread i touches element i alone, and only if i < n.
        unsafe in r#"
            template <class T, class U> __global__ void convert(T scale, const T* x, U* out, unsigned n) {
                unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) out[i] = U(scale * x[i]);
            }
        "# {
            safe fn convert<U in [i32, u64]>(scale: T, x: &[T], out: &mut [U], n: u32 = x.len()) over n
                where out.len() >= n;
        }
    }
}

#[test]
fn each_instance_is_launched() {
    for test in [generic::Query::<f32>::test_launches as Test, generic::Query::<f64>::test_launches]
    {
        let report = passes(test);
        let names: Vec<&str> = report.tested.iter().map(|kernel| kernel.kernel.as_str()).collect();
        assert_eq!(names, ["convert (U = i32)", "convert (U = u64)"]);
        assert!(report.tested.iter().all(|kernel| kernel.launched == 200), "{report}");
    }
}

mod hidden {
    super::kernels! {
        #[cfg_attr(test, test_launches)]
        #[derive(Clone)]
        pub(super) struct Kernels;
        // SAFETY: it does nothing.
        unsafe in r#"extern "C" __global__ void nothing() {}"# {
            safe fn nothing();
            #[cfg(any())]
            safe fn missing();
        }
    }
}

#[test]
fn attributes_and_kernels_with_conditions() {
    let report = passes(hidden::Kernels::test_launches);
    assert_eq!(report.tested.len(), 1, "{report}");
    assert_eq!(report.tested[0].launched, 200);
}
