//! The kernels over blocks to measure.

use std::cell::RefCell;

use cuda_safe::DeviceBuffer;
use rust_kernels::{
    compact, gemm, heat, histogram, layer_norm, reduction, scan, softmax, sort, tiled, transpose,
};
use rust_kernels_checked as checked;

use super::cases::Rows;
use super::{Bench, Case, Variant};
use crate::data::Random;

/// Blocks of a sum: a few for each multiprocessor of a large device.
const SUMS: usize = 1056;

pub(super) fn sum(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 26, 1 << 16);
    let x = DeviceBuffer::from_slice(on, &Random::floats(1, n))?;
    let row = Case::new(bench, "reduction", SUMS.min(n.div_ceil(reduction::CHUNK)))
        .uncontracted()
        .rust(Variant::Rust, reduction::reduction::kernel(), |out| {
            reduction::reduction::launch(on, &x, out)
        })?
        .rust(Variant::Checked, checked::reduction::reduction::kernel(), |out| {
            checked::reduction::reduction::launch(on, &x, out)
        })?
        .block_twins(|twins| twins.reduction_kernel(), |twins, out| twins.reduction(on, &x, out))?
        .measure()?;
    Ok(vec![row])
}

/// The twin with a fill of its state before each launch.
pub(super) fn prefixes(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 25, 1 << 16);
    let mut random = Random::new(2);
    let x: Vec<u32> = (0..n).map(|_| random.below(8) as u32).collect();
    let x = DeviceBuffer::from_slice(on, &x)?;
    let state = RefCell::new(DeviceBuffer::<u64>::zeroed(on, 1 + n.div_ceil(scan::CHUNK))?);
    let row = Case::new(bench, "scan", n)
        .uncontracted()
        .rust(Variant::Rust, scan::scan::kernel(), |out| scan::scan::launch(on, &x, out))?
        .rust(Variant::Checked, checked::scan::scan::kernel(), |out| {
            checked::scan::scan::launch(on, &x, out)
        })?
        .block_twins(
            |twins| twins.scan_kernel(),
            |twins, out| {
                let state = &mut *state.borrow_mut();
                state.fill(on, 0)?;
                // SAFETY: the state is all zero.
                unsafe { twins.scan(on, &x, out, state) }
            },
        )?
        .copy(&x)
        .measure()?;
    Ok(vec![row])
}

/// With a fill of the 256 counts before each launch.
pub(super) fn counts(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 26, 1 << 16);
    let data = DeviceBuffer::from_slice(on, &words(3, n))?;
    let row = Case::new(bench, "histogram", 256)
        .uncontracted()
        .rust(Variant::Rust, histogram::histogram::kernel(), |out| {
            out.fill(on, 0)?;
            histogram::histogram::launch(on, &data, out)
        })?
        .rust(Variant::Checked, checked::histogram::histogram::kernel(), |out| {
            out.fill(on, 0)?;
            checked::histogram::histogram::launch(on, &data, out)
        })?
        .block_twins(
            |twins| twins.histogram_kernel(),
            |twins, out| {
                out.fill(on, 0)?;
                twins.histogram(on, &data, out)
            },
        )?
        .measure()?;
    Ok(vec![row])
}

pub(super) fn transposed(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let (rows, columns) = (bench.size(4096, 96), bench.size(6144, 160));
    let x = DeviceBuffer::from_slice(on, &Random::floats(4, rows * columns))?;
    let row = Case::new(bench, "transpose", rows * columns)
        .uncontracted()
        .rust(Variant::Rust, transpose::transpose::kernel(), |out| {
            transpose::transpose::launch(on, rows, columns, &x, out)
        })?
        .rust(Variant::Checked, checked::transpose::transpose::kernel(), |out| {
            checked::transpose::transpose::launch(on, rows, columns, &x, out)
        })?
        .block_twins(
            |twins| twins.transpose_kernel(),
            |twins, out| twins.transpose(on, rows as u32, columns as u32, &x, out),
        )?
        .copy(&x)
        .measure()?;
    Ok(vec![row])
}

pub(super) fn tiles(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(2048, 64);
    let a = DeviceBuffer::from_slice(on, &Random::floats(5, n * n))?;
    let b = DeviceBuffer::from_slice(on, &Random::floats(6, n * n))?;
    let side = n as u32;
    let row = Case::new(bench, "tiled", n * n)
        .uncontracted()
        .rust(Variant::Rust, tiled::tiled::kernel(), |out| {
            tiled::tiled::launch(on, n, n, n, &a, &b, out)
        })?
        .rust(Variant::Checked, checked::tiled::tiled::kernel(), |out| {
            checked::tiled::tiled::launch(on, n, n, n, &a, &b, out)
        })?
        .block_twins(
            |twins| twins.tiled_kernel(),
            |twins, out| twins.tiled(on, side, side, side, &a, &b, out),
        )?
        .measure()?;
    Ok(vec![row])
}

pub(super) fn plate(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let (rows, columns, rate) = (bench.size(4096, 64), bench.size(6144, 160), 0.2);
    let now = DeviceBuffer::from_slice(on, &Random::floats(7, rows * columns))?;
    let row = Case::new(bench, "heat", rows * columns)
        .uncontracted()
        .rust(Variant::Rust, heat::heat::kernel(), |out| {
            heat::heat::launch(on, rate, rows, columns, &now, out)
        })?
        .rust(Variant::Checked, checked::heat::heat::kernel(), |out| {
            checked::heat::heat::launch(on, rate, rows, columns, &now, out)
        })?
        .block_twins(
            |twins| twins.heat_kernel(),
            |twins, out| twins.heat(on, rate, rows as u32, columns as u32, &now, out),
        )?
        .copy(&now)
        .measure()?;
    Ok(vec![row])
}

pub(super) fn patches(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(4096, 256);
    let a = DeviceBuffer::from_slice(on, &Random::floats(8, n * n))?;
    let b = DeviceBuffer::from_slice(on, &Random::floats(9, n * n))?;
    let side = n as u32;
    let row = Case::new(bench, "gemm", n * n)
        .uncontracted()
        .rust(Variant::Rust, gemm::gemm::kernel(), |out| {
            gemm::gemm::launch(on, n, n, n, &a, &b, out)
        })?
        .rust(Variant::Checked, checked::gemm::gemm::kernel(), |out| {
            checked::gemm::gemm::launch(on, n, n, n, &a, &b, out)
        })?
        .block_twins(
            |twins| twins.gemm_kernel(),
            |twins, out| twins.gemm(on, side, side, side, &a, &b, out),
        )?
        .measure()?;
    Ok(vec![row])
}

/// Rows and columns of functions of rows.
fn rows(bench: &Bench<'_>) -> [usize; 2] {
    [bench.size(1 << 14, 64), bench.size(1 << 10, 160)]
}

pub(super) fn softmaxes(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let [rows, columns] = rows(bench);
    let x = DeviceBuffer::from_slice(on, &Random::floats(8, rows * columns))?;
    let row = Case::new(bench, "softmax", rows * columns)
        .uncontracted()
        .rust(Variant::Rust, softmax::softmax::kernel(), |out| {
            softmax::softmax::launch(on, columns, &x, out)
        })?
        .rust(Variant::Checked, checked::softmax::softmax::kernel(), |out| {
            checked::softmax::softmax::launch(on, columns, &x, out)
        })?
        .block_twins(
            |twins| twins.softmax_kernel(),
            |twins, out| twins.softmax(on, columns as u32, &x, out),
        )?
        .copy(&x)
        .measure()?;
    Ok(vec![row])
}

pub(super) fn norms(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let [rows, columns] = rows(bench);
    let x = DeviceBuffer::from_slice(on, &Random::floats(9, rows * columns))?;
    let scale = DeviceBuffer::from_slice(on, &Random::floats(10, columns))?;
    let shift = DeviceBuffer::from_slice(on, &Random::floats(11, columns))?;
    let row = Case::new(bench, "layer_norm", rows * columns)
        .uncontracted()
        .rust(Variant::Rust, layer_norm::layer_norm::kernel(), |out| {
            layer_norm::layer_norm::launch(on, columns, &x, &scale, &shift, out)
        })?
        .rust(Variant::Checked, checked::layer_norm::layer_norm::kernel(), |out| {
            checked::layer_norm::layer_norm::launch(on, columns, &x, &scale, &shift, out)
        })?
        .block_twins(
            |twins| twins.layer_norm_kernel(),
            |twins, out| twins.layer_norm(on, columns as u32, &x, &scale, &shift, out),
        )?
        .copy(&x)
        .measure()?;
    Ok(vec![row])
}

/// Random words.
fn words(seed: u64, n: usize) -> Vec<u32> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.bits() as u32).collect()
}

pub(super) fn sorts(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 24, 1 << 13);
    let x = DeviceBuffer::from_slice(on, &words(12, n))?;
    let row = Case::new(bench, "sort", n)
        .uncontracted()
        .rust(Variant::Rust, sort::sort_chunks::kernel(), |out| {
            sort::sort_chunks::launch(on, &x, out)
        })?
        .rust(Variant::Checked, checked::sort::sort_chunks::kernel(), |out| {
            checked::sort::sort_chunks::launch(on, &x, out)
        })?
        .block_twins(
            |twins| twins.sort_chunks_kernel(),
            |twins, out| twins.sort_chunks(on, &x, out),
        )?
        .copy(&x)
        .measure()?;
    Ok(vec![row])
}

/// The twin with a fill of its state before each launch.
pub(super) fn compaction(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let (n, limit) = (bench.size(1 << 26, 1 << 16), 1 << 31);
    let x = words(13, n);
    let kept = x.iter().filter(|x| **x < limit).count();
    let x = DeviceBuffer::from_slice(on, &x)?;
    let count = RefCell::new(DeviceBuffer::<u32>::zeroed(on, 1)?);
    let state = RefCell::new(DeviceBuffer::<u64>::zeroed(on, 1 + n.div_ceil(compact::CHUNK))?);
    let row = Case::new(bench, "compact", kept)
        .uncontracted()
        .rust(Variant::Rust, compact::keep_less::kernel(), |out| {
            compact::keep_less::launch(on, limit, &x, out, &mut *count.borrow_mut())
        })?
        .rust(Variant::Checked, checked::compact::keep_less::kernel(), |out| {
            checked::compact::keep_less::launch(on, limit, &x, out, &mut *count.borrow_mut())
        })?
        .block_twins(
            |twins| twins.keep_less_kernel(),
            |twins, out| {
                let state = &mut *state.borrow_mut();
                state.fill(on, 0)?;
                // SAFETY: the state is all zero, and the output has as many elements as are kept.
                unsafe { twins.keep_less(on, limit, &x, out, &mut *count.borrow_mut(), state) }
            },
        )?
        .measure()?;
    Ok(vec![row])
}
