//! The kernels to measure.

use cuda_safe::DeviceBuffer;
use rust_kernels::{integrate, mandelbrot, matmul, nbody, plain, saxpy, spmv, stream};
use rust_kernels_checked as checked;

use super::table::{self, Row};
use super::{Bench, Case, Variant, blocks};
use crate::Failure;
use crate::arguments::Arguments;
use crate::data::{Random, Sparse, bodies, oscillators};

pub(super) type Rows = Result<Vec<Row>, Failure>;

/// Measures the kernels of a program.
type Measure = fn(&Bench<'_>) -> Rows;

/// Measures those that the arguments name.
pub(crate) fn all(bench: &Bench<'_>, arguments: &Arguments) -> Rows {
    let cases: &[(&str, Measure)] = &[
        ("saxpy", saxpys),
        ("stream", streams),
        ("integrate", integrator),
        ("nbody", all_pairs),
        ("spmv", sparse),
        ("matmul", product),
        ("mandelbrot", picture),
        ("raytrace", super::raytrace::measure),
        ("reduction", blocks::sum),
        ("scan", blocks::prefixes),
        ("histogram", blocks::counts),
        ("transpose", blocks::transposed),
        ("tiled", blocks::tiles),
        ("gemm", blocks::patches),
        ("heat", blocks::plate),
        ("softmax", blocks::softmaxes),
        ("layer_norm", blocks::norms),
        ("sort", blocks::sorts),
        ("compact", blocks::compaction),
        ("attention", super::attention::measure),
        ("ntt", super::ntt::measure),
        ("bude", super::bude::measure),
        ("conv3d", super::stencils::convolution),
        ("jacobi2d", super::stencils::jacobi),
    ];
    let mut rows = Vec::new();
    for (name, case) in cases {
        if arguments.wants(name) {
            if rows.is_empty() {
                table::print_head();
            }
            let measured = case(bench)?;
            table::print(&measured);
            rows.extend(measured);
        }
    }
    Ok(rows)
}

const A: f32 = 2.5;

fn saxpys(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 26, 1 << 16);
    let x = DeviceBuffer::from_slice(on, &Random::floats(1, n))?;
    let y = DeviceBuffer::from_slice(on, &Random::floats(2, n))?;
    let one = Case::new(bench, "saxpy", n)
        .rust(Variant::Rust, saxpy::saxpy::kernel(), |out| {
            saxpy::saxpy::launch(on, A, &x, &y, out)
        })?
        .rust(Variant::Plain, plain::saxpy::kernel(), |out| {
            plain::saxpy::launch(on, A, &x, &y, out)
        })?
        .rust(Variant::Checked, checked::saxpy::saxpy::kernel(), |out| {
            checked::saxpy::saxpy::launch(on, A, &x, &y, out)
        })?
        .twins(|twins| twins.saxpy_kernel(), |twins, out| twins.saxpy(on, A, &x, &y, out))?
        .copy(&x)
        .measure()?;
    drop((x, y));

    let fours = |seed| Random::floats(seed, n).as_chunks::<4>().0.to_vec();
    let x = DeviceBuffer::from_slice(on, &fours(1))?;
    let y = DeviceBuffer::from_slice(on, &fours(2))?;
    let (x4, y4) = (x.as_slice().cast()?, y.as_slice().cast()?);
    let four = Case::new(bench, "saxpy4", n / 4)
        .rust(Variant::Rust, saxpy::saxpy4::kernel(), |out| {
            saxpy::saxpy4::launch(on, A, &x, &y, out)
        })?
        .rust(Variant::Checked, checked::saxpy::saxpy4::kernel(), |out| {
            checked::saxpy::saxpy4::launch(on, A, &x, &y, out)
        })?
        .twins(
            |twins| twins.saxpy4_kernel(),
            |twins, out| twins.saxpy4(on, A, x4, y4, out.as_slice_mut().cast_mut()?),
        )?
        .copy(&x)
        .measure()?;
    Ok(vec![one, four])
}

fn streams(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 25, 1 << 15);
    let x = DeviceBuffer::from_slice(on, &Random::doubles(1, n))?;
    let y = DeviceBuffer::from_slice(on, &Random::doubles(2, n))?;
    let scalar = 0.4;
    let copy = Case::new(bench, "copy", n)
        .uncontracted()
        .rust(Variant::Rust, stream::copy::kernel(), |out| stream::copy::launch(on, &x, out))?
        .twins(|twins| twins.copy_kernel(), |twins, out| twins.copy(on, &x, out))?
        .measure()?;
    let mul = Case::new(bench, "mul", n)
        .uncontracted()
        .rust(Variant::Rust, stream::mul::kernel(), |out| stream::mul::launch(on, scalar, &x, out))?
        .twins(|twins| twins.mul_kernel(), |twins, out| twins.mul(on, scalar, &x, out))?
        .measure()?;
    let add = Case::new(bench, "add", n)
        .uncontracted()
        .rust(Variant::Rust, stream::add::kernel(), |out| stream::add::launch(on, &x, &y, out))?
        .twins(|twins| twins.add_kernel(), |twins, out| twins.add(on, &x, &y, out))?
        .copy(&x)
        .measure()?;
    let triad = Case::new(bench, "triad", n)
        .rust(Variant::Rust, stream::triad::kernel(), |out| {
            stream::triad::launch(on, scalar, &x, &y, out)
        })?
        .rust(Variant::Plain, plain::triad::kernel(), |out| {
            plain::triad::launch(on, scalar, &x, &y, out)
        })?
        .rust(Variant::Checked, checked::stream::triad::kernel(), |out| {
            checked::stream::triad::launch(on, scalar, &x, &y, out)
        })?
        .twins(|twins| twins.triad_kernel(), |twins, out| twins.triad(on, scalar, &x, &y, out))?
        .copy(&x)
        .measure()?;
    let dot = Case::new(bench, "dot", crate::run::stream::sums(n))
        .rust(Variant::Rust, stream::dot::kernel(), |out| stream::dot::launch(on, &x, &y, out))?
        .rust(Variant::Plain, plain::dot::kernel(), |out| plain::dot::launch(on, &x, &y, out))?
        .rust(Variant::Checked, checked::stream::dot::kernel(), |out| {
            checked::stream::dot::launch(on, &x, &y, out)
        })?
        .twins(|twins| twins.dot_kernel(), |twins, out| twins.dot(on, &x, &y, out))?
        .measure()?;
    Ok(vec![copy, mul, add, triad, dot])
}

fn integrator(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 24, 1 << 12);
    let start = DeviceBuffer::from_slice(on, &oscillators(n))?;
    let dt = 0.01;
    let row = Case::new(bench, "integrate", n)
        .rust(Variant::Rust, integrate::integrate::kernel(), |out| {
            integrate::integrate::launch(on, dt, &start, out)
        })?
        .rust(Variant::Plain, plain::integrate::kernel(), |out| {
            plain::integrate::launch(on, dt, &start, out)
        })?
        .rust(Variant::Checked, checked::integrate::integrate::kernel(), |out| {
            let start = start.as_slice().cast()?;
            checked::integrate::integrate::launch(on, dt, start, out.as_slice_mut().cast_mut()?)
        })?
        .twins(|twins| twins.integrate_kernel(), |twins, out| twins.integrate(on, dt, &start, out))?
        .measure()?;
    Ok(vec![row])
}

fn all_pairs(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 16, 1 << 9);
    let positions = DeviceBuffer::from_slice(on, &bodies(n))?;
    let row = Case::new(bench, "nbody", n)
        .rust(Variant::Rust, nbody::nbody::kernel(), |out| {
            nbody::nbody::launch(on, &positions, out)
        })?
        .rust(Variant::Plain, plain::nbody::kernel(), |out| {
            plain::nbody::launch(on, &positions, out)
        })?
        .rust(Variant::Checked, checked::nbody::nbody::kernel(), |out| {
            let positions = positions.as_slice().cast()?;
            checked::nbody::nbody::launch(on, positions, out.as_slice_mut().cast_mut()?)
        })?
        .twins(|twins| twins.nbody_kernel(), |twins, out| twins.nbody(on, &positions, out))?
        .measure()?;
    Ok(vec![row])
}

fn sparse(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 20, 1 << 11);
    let Sparse { offsets, columns, values, x } = Sparse::new(n);
    let offsets = DeviceBuffer::from_slice(on, &offsets)?;
    let columns = DeviceBuffer::from_slice(on, &columns)?;
    let values = DeviceBuffer::from_slice(on, &values)?;
    let x = DeviceBuffer::from_slice(on, &x)?;
    let row = Case::new(bench, "spmv", n)
        .rust(Variant::Rust, spmv::spmv::kernel(), |out| {
            spmv::spmv::launch(on, &offsets, &columns, &values, &x, out)
        })?
        .rust(Variant::Plain, plain::spmv::kernel(), |out| {
            plain::spmv::launch(on, &offsets, &columns, &values, &x, out)
        })?
        .rust(Variant::Checked, checked::spmv::spmv::kernel(), |out| {
            checked::spmv::spmv::launch(on, &offsets, &columns, &values, &x, out)
        })?
        .twins(
            |twins| twins.spmv_kernel(),
            // SAFETY: `Sparse` makes offsets from the number of columns so far, and columns below the number of rows.
            |twins, out| unsafe { twins.spmv(on, &offsets, &columns, &values, &x, out) },
        )?
        .measure()?;
    Ok(vec![row])
}

fn product(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(2048, 64);
    let a = DeviceBuffer::from_slice(on, &Random::floats(1, n * n))?;
    let b = DeviceBuffer::from_slice(on, &Random::floats(2, n * n))?;
    let row = Case::new(bench, "matmul", n * n)
        .rust(Variant::Rust, matmul::matmul::kernel(), |out| {
            matmul::matmul::launch(on, n, &a, &b, out)
        })?
        .rust(Variant::Plain, plain::matmul::kernel(), |out| {
            plain::matmul::launch(on, n, &a, &b, out)
        })?
        .rust(Variant::Checked, checked::matmul::matmul::kernel(), |out| {
            checked::matmul::matmul::launch(on, n, &a, &b, out)
        })?
        .twins(|twins| twins.matmul_kernel(), |twins, out| twins.matmul(on, n as u32, &a, &b, out))?
        .measure()?;
    Ok(vec![row])
}

fn picture(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let (width, height) = (bench.size(4096, 96), 4 * bench.size(512, 16));
    let (limit, w, h) = (512, width as u32, height as u32);
    let row = Case::new(bench, "mandelbrot", width * height)
        .rust(Variant::Rust, mandelbrot::mandelbrot::kernel(), |out| {
            mandelbrot::mandelbrot::launch(on, width, height, limit, out)
        })?
        .rust(Variant::Plain, plain::mandelbrot::kernel(), |out| {
            plain::mandelbrot::launch(on, width, height, limit, out)
        })?
        .rust(Variant::Checked, checked::mandelbrot::mandelbrot::kernel(), |out| {
            checked::mandelbrot::mandelbrot::launch(on, width, height, limit, out)
        })?
        .twins(
            |twins| twins.mandelbrot_kernel(),
            |twins, out| twins.mandelbrot(on, w, h, limit, out),
        )?
        .measure()?;
    Ok(vec![row])
}
