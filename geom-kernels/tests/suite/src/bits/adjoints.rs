//! The adjoints of `adjoint.cuh`, for kernels of the user's own: through those of the tests.

use cuda_safe::{LaunchConfig, Module};
use geom_kernels::Real;

use super::book::Book;
use super::calls::{self, Lab};
use super::inputs::rng;
use test_harness::{TestDevice, TestResult};

const MESH: &str = include_str!("../../kernels/adjoints_mesh.cu");
const ISOSURFACE: &str = include_str!("../../kernels/adjoints_isosurface.cu");

/// Rows of a kernel.
const N: usize = 333;

pub(super) fn all(device: &TestDevice, book: &mut Book) -> TestResult {
    let module =
        |source: &str| calls::module(device, geom_kernels::program(source).cuda_headers(false));
    let (mesh, surface) = (module(MESH)?, module(ISOSURFACE)?);
    // The kernel, and how many numbers a row has and gives.
    for (module, kernel, columns, results) in [
        (&mesh, "closest", 22, 49),
        (&mesh, "ray_hit", 18, 15),
        (&mesh, "position_at", 14, 22),
        (&mesh, "normal", 12, 18),
        (&mesh, "vertex_normal", 21, 18),
        (&surface, "edge_point", 12, 9),
    ] {
        of::<f32>(device, book, module, (kernel, "f32"), [columns, results])?;
        of::<f64>(device, book, module, (kernel, "f64"), [columns, results])?;
    }
    Ok(())
}

fn of<T: Real>(
    device: &TestDevice,
    book: &mut Book,
    module: &Module,
    (kernel, real): (&str, &str),
    [columns, results]: [usize; 2],
) -> TestResult {
    let lab = Lab::new(device)?;
    let mut rng = rng(900);
    let mut rows: Vec<T> = (0..N * columns).map(|_| T::narrow(f64::from(rng.float()))).collect();
    if kernel == "closest" {
        // Which feature is closest: a corner, an edge or the inside.
        for (i, row) in rows.chunks_mut(columns).enumerate() {
            row[12] = T::narrow((i % 7) as f64);
        }
    }
    let rows = lab.up(&rows)?;
    let run = module.kernel(&format!("{kernel}_{real}"))?;
    let found = lab.filled::<T>(N * results, |out| {
        // SAFETY: each of N threads reads the numbers of its row, and writes its results.
        unsafe {
            device.launch(&run, &lab.stream, LaunchConfig::cover(N, 64), (&rows, N as u32, out))
        }
    })?;
    book.put(format!("{kernel}/{real}"), &found);
    Ok(())
}
