//! Shared arrays whose length the launch decides.

use cuda_safe::kernel::recording::collect;
use cuda_safe::{DeviceBuffer, Stream};
use gpu_phases::kernel::{CpuError, Extent, Kernel};
use gpu_phases::target::{Args, Record};
use gpu_phases::trust::Checked;
use gpu_phases::{Block, Shared, device, kernel};

use super::{floats, words};
use crate::both;

#[device]
fn halved<const N: usize>(block: &mut Block<N>, tile: &mut Shared<Vec<f32>>) -> f32 {
    let mut count = tile.len();
    while count > 1 {
        let half = count.div_ceil(2);
        let (mut low, high) = tile.split_at_mut(half);
        block.each(&mut low, |i, x| {
            if half + i < count {
                *x = x.max(high[i]);
            }
        });
        count = half;
    }
    tile[0]
}

/// Rows, scaled by their maxima, in the order of their words, which are counted.
#[kernel]
fn scaled(columns: usize, x: &[f32], order: &[u32], out: &mut [f32], counts: &mut [u32]) {
    assert!(x.len() == out.len() && order.len() == out.len());
    let bins = columns / 2 + 1;
    blocks(
        Threads::<96>,
        (chunks(out, columns), chunks(counts, bins)),
        |block, (mut out, counts)| {
            let first = out.start();
            let n = out.len();
            let mut numbers = block.shared_slice::<u8>(columns, 7);
            let mut row = block.shared_slice::<f32>(columns, f32::NEG_INFINITY);
            let mut again = block.shared_slice::<f32>(columns, 0.0);
            let mut own = block.shared_slice::<u32>(bins, 0);
            block.load(&mut row, x, first as isize, f32::NEG_INFINITY);
            block.each((&mut again, &mut numbers), |i, (a, n)| {
                *a = row[i];
                *n += (i % 3) as u8;
            });
            let most = halved(block, &mut row);
            std::mem::swap(&mut row, &mut again);
            let bin = own.atomic();
            block.run(n, |i| {
                bin.fetch_add(order[first + i] as usize % bins, 1);
            });
            block.each(&mut out, |i, o| *o = row[columns - 1 - i] / most + numbers[i] as f32);
            block.each(counts, |i, c| *c = own[i]);
        },
    );
}

#[test]
fn lengths_of_shared_arrays_are_those_of_the_launch() {
    for (rows, columns) in [(0, 5), (1, 1), (3, 31), (2, 33), (2, 96), (2, 1001)] {
        let n = rows * columns;
        let (x, order): (Vec<f32>, _) = (floats(n).iter().map(|x| x + 101.0).collect(), words(n));
        let bins = columns / 2 + 1;
        let (out, counts) = both!(scaled(value columns, read x, read order, write vec![0.0f32; n], write vec![0u32; rows * bins]))
            .unwrap();
        for (row, counts) in x.chunks(columns).enumerate().zip(counts.chunks(bins)) {
            let (row, x) = row;
            let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for i in 0..columns {
                let number = (7 + i % 3) as f32;
                assert_eq!(out[row * columns + i], x[columns - 1 - i] / most + number);
            }
            assert_eq!(counts.iter().sum::<u32>() as usize, columns);
        }
    }
}

#[kernel]
fn far(n: usize, distance: usize, out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, n), |block, mut out| {
        let mut tile = block.shared_slice::<u32>(n, 1);
        block.each((&mut tile, &mut out), |i, (t, o)| *t += *o + i as u32);
        block.each(out, |i, o| *o = tile[i + distance]);
    });
}

#[test]
fn shared_arrays_may_have_most_of_a_multiprocessor() {
    // 200,000 bytes, and the last element that there is.
    both!(far(value 50_000usize, value 0usize, write words(60_000))).unwrap();
    let (cpu, fault, failed) =
        both!(far(value 50_000usize, value 1usize, write words(50_000))).unwrap_err();
    assert!(failed);
    let fault = fault.unwrap();
    assert_eq!((fault.index, fault.len, fault.element), (50_000, 50_000, [49_999 % 64, 0, 0]));
    assert_eq!(cpu.to_string(), fault.to_string());
    for n in [60_000, usize::MAX / 2] {
        let refused = far::cpu(n, 0, &mut [1, 2]).unwrap_err();
        assert!(
            matches!(&refused, CpuError::Refused(refused) if refused.message.contains("232448")),
            "{refused}"
        );
        let stream = crate::stream();
        let mut out = DeviceBuffer::from_slice(&stream, &[1u32, 2]).unwrap();
        let error = far::launch(&stream, n, 0, &mut out).unwrap_err();
        assert!(error.to_string().contains("232448"), "{error}");
        assert_eq!(out.to_vec(&stream).unwrap(), [1, 2]);
    }
}

#[kernel]
fn loads_from_arrays(weights: [f32; 6], x: &[f32], out: &mut [f32]) {
    blocks(Threads::<32>, chunks(out, 40), |block, mut out| {
        let mut rows = block.shared([[1.0f32; 20]; 3]);
        let mut tile = block.shared([0.0f32; 40]);
        let mut square = block.shared([[0.0f32; 4]; 4]);
        block.load_matrix(&mut rows, x, [x.len() / 20, 20], [0, -3], 2.0);
        block.load(&mut tile, &rows[1], 5, 0.5);
        block.load_matrix(&mut square, &weights, [2, 3], [-1, 0], -1.0);
        block.each(&mut rows, |[i, j], r| *r = (i * j) as f32);
        block.each(&mut out, |i, o| *o = tile[39 - i] + square[i % 4][i / 10] + rows[2][i % 20]);
    });
}

#[test]
fn arrays_are_sources_of_loads() {
    let (x, weights) = (floats(60), [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let out = both!(loads_from_arrays(value weights, read x, write vec![0.0f32; 70])).unwrap();
    for (at, out) in out.iter().enumerate() {
        let i = at % 40;
        let row = |j: usize| if j < 3 { 2.0 } else { x[20 + j - 3] };
        let tile = if 44 - i < 20 { row(44 - i) } else { 0.5 };
        let (y, z) = (i % 4, i / 10);
        let square = if (1..3).contains(&y) && z < 3 { weights[3 * (y - 1) + z] } else { -1.0 };
        assert_eq!(*out, tile + square + (2 * (i % 20)) as f32);
    }
}

#[kernel]
fn tiles_of_two(
    rows: usize,
    columns: usize,
    by: usize,
    across: usize,
    a: &mut [u32],
    b: &mut [u32],
) {
    blocks(
        Threads::<32>,
        (tiles::<1, 2, _>(a, [rows, columns]), tiles::<2, 1, _>(b, [by, across])),
        |block, (a, b)| {
            let ([y, x], [v, u]) = (a.origin(), b.origin());
            let number = block.index() as u32 * 8;
            block.each(a, |[i, j], a| *a = number + ((y + i) * 3 + x + j) as u32);
            block.each(b, |[i, j], b| *b = number + ((v + i) * 5 + u + j) as u32);
        },
    );
}

#[test]
fn a_grid_has_the_shape_of_tiles_or_one_row() {
    // Outputs with tiles of different shapes, and more rows of tiles than a grid can have.
    for [rows, columns, by] in [[6, 8, 12], [1, 2, 2], [65_535, 2, 2], [65_536, 2, 131_072]] {
        let len = rows * columns;
        let (a, b) = both!(tiles_of_two(
            value rows, value columns, value by, value len / by, write vec![0u32; len], write vec![0u32; len]
        ))
        .unwrap();
        for at in 0..len {
            let (y, x) = (at / columns, at % columns);
            let block = y * columns.div_ceil(2) + x / 2;
            assert_eq!(a[at] as usize, block * 8 + y * 3 + x);
            let (v, u) = (at / (len / by), at % (len / by));
            let block = v / 2 * (len / by) + u;
            assert_eq!(b[at] as usize, block * 8 + v / 2 * 2 * 5 + v % 2 * 5 + u);
        }
    }
}

#[kernel]
fn filled_with_an_element(at: usize, x: &[f32], out: &mut [f32]) {
    blocks(Threads::<32>, chunks(out, 32), |block, mut out| {
        let mut tile = block.shared([x[at]; 32]);
        block.load(&mut tile, x, 0, 0.0);
        block.each(&mut out, |i, out| *out = tile[i]);
    });
}

#[test]
fn an_array_that_a_load_overwrites_fails_as_it_is_made() {
    let x = floats(40);
    let out = both!(filled_with_an_element(value 39usize, read x, write vec![0.0f32; 32])).unwrap();
    assert_eq!(out, x[..32]);
    let (cpu, fault, failed) =
        both!(filled_with_an_element(value 40usize, read x, write vec![0.0f32; 32])).unwrap_err();
    assert!(failed);
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
}

/// Launches on a grid of another shape with as many blocks.
struct OnGrid<'s> {
    stream: &'s Stream,
    shape: fn([u64; 2]) -> [u64; 2],
    /// The grid that the declaration has.
    declared: [u32; 3],
}

// SAFETY: it launches what it is given, once, with as many blocks.
unsafe impl<'s> Record for OnGrid<'s> {
    type Target = &'s Stream;

    fn target(&self) -> &'s Stream {
        self.stream
    }

    fn record<'a, A: Args<'a, &'s Stream>>(
        &mut self,
        kernel: &'static Kernel,
        extent: Extent,
        args: A,
        checked: Checked,
    ) -> cuda_safe::Result<()> {
        let [across, down, _] = extent.size;
        let [x, y] = (self.shape)([across, down]);
        self.declared = extent.size.map(|size| u32::try_from(size).unwrap());
        collect(
            self.stream,
            kernel,
            Extent { size: [x, y, 1], ..extent },
            args,
            checked,
            |launch| {
                let grid = launch.config().grid;
                assert_eq!([grid.x, grid.y, grid.z].map(u64::from), [x, y, 1]);
                launch.enqueue()
            },
        )
    }
}

#[kernel(gradient)]
fn numbered(rows: usize, columns: usize, out: &mut [f32]) {
    blocks(Threads::<32>, tiles::<4, 8, _>(out, [rows, columns]), |block, out| {
        let [y, x] = out.origin();
        let number = (block.index() * 64) as f32;
        block.each(out, |[i, j], out| *out = number + (100_000 * (y + i) + x + j) as f32);
    });
}

#[test]
fn a_launch_over_tiles_has_a_grid_of_two_dimensions_on_which_nothing_depends() {
    for [rows, columns] in [[1, 1], [4, 9], [31, 33], [32, 32], [33, 31], [1, 700], [130, 8]] {
        let _alone = crate::alone();
        let stream = crate::stream();
        let mut cpu = vec![0.0; rows * columns];
        numbered::cpu(rows, columns, &mut cpu).unwrap();
        let [across, down] = [columns.div_ceil(8), rows.div_ceil(4)];
        for (at, value) in cpu.iter().enumerate() {
            let (y, x) = (at / columns, at % columns);
            let block = y / 4 * across + x / 8;
            assert_eq!(*value, (block * 64 + 100_000 * y + x) as f32);
        }
        let shapes: [fn([u64; 2]) -> [u64; 2]; 4] =
            [|size| size, |[x, y]| [y, x], |[x, y]| [x * y, 1], |[x, y]| [1, x * y]];
        for shape in shapes {
            let mut out = DeviceBuffer::<f32>::zeroed(&stream, rows * columns).unwrap();
            let mut grid = OnGrid { stream: &stream, shape, declared: [0; 3] };
            numbered::record(&mut grid, rows, columns, &mut out).unwrap();
            assert_eq!(grid.declared.map(|size| size as usize), [across, down, 1]);
            assert_eq!(out.to_vec(&stream).unwrap(), cpu, "{rows} {columns}");
        }
    }
}
