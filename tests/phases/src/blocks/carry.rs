//! Values that blocks pass on in their order.

use cuda_safe::DeviceBuffer;
use gpu_phases::{Device, device, kernel};

use super::{floats, words};
use crate::both;

/// Blocks of 40 elements: less than a group of them, whole groups, and groups of groups.
const SIZES: [usize; 12] =
    [0, 1, 31, 32, 33, 40, 41, 40 * 31, 40 * 32, 40 * 32 + 1, 40 * 65 + 7, 40 * 1056 + 39];

/// Runs the test with each order in which the software device schedules threads.
fn seeds(test: impl Fn()) {
    let seeds = if crate::is_emulated() { 6 } else { 1 };
    for seed in 1..=seeds {
        if crate::is_emulated() {
            let _alone = crate::alone();
            crate::stream().context().synchronize().unwrap();
            assert!(cuda_emu::reseed(Some(seed)), "the device is not idle");
        }
        test();
    }
}

#[kernel]
fn scan(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 40), |block, mut out| {
        let first = out.start();
        let mut own = block.per_thread(0u32);
        block.each((&mut out, &mut own), |i, (_, own)| *own = x[first + i]);
        let total = block.scan(&mut own);
        let before = block.carry(total, 7, |a, b| a.wrapping_add(b));
        block.each((out, &mut own), |i, (out, own)| {
            *out = before.wrapping_add(*own).wrapping_add(x[first + i]);
        });
    });
}

fn scanned(x: &[u32]) -> Vec<u32> {
    let sum = |sum: &mut u32, x: &u32| {
        *sum = sum.wrapping_add(*x);
        Some(*sum)
    };
    x.iter().scan(7, sum).collect()
}

#[test]
fn a_scan_is_one_launch() {
    for n in SIZES {
        let x = words(n);
        assert_eq!(both!(scan(read x, write vec![0u32; n])).unwrap(), scanned(&x), "{n}");
    }
    let x = words(40 * 70);
    seeds(|| assert_eq!(both!(scan(read x, write vec![0u32; 2800])).unwrap(), scanned(&x)));
}

/// A matrix of two rows, whose products depend on their order.
#[derive(Debug, Clone, Copy, PartialEq, Device, bytemuck::NoUninit, bytemuck::AnyBitPattern)]
#[repr(C)]
struct Matrix {
    a: u32,
    b: u32,
    c: u32,
    d: u32,
}

#[device]
impl Matrix {
    const ONE: Self = Self { a: 1, b: 0, c: 0, d: 1 };

    fn of(x: u32) -> Self {
        Self { a: x, b: x >> 3 | 1, c: x ^ 5, d: 2 }
    }

    fn times(self, o: Self) -> Self {
        let sum =
            |a: u32, b: u32, c: u32, d: u32| a.wrapping_mul(b).wrapping_add(c.wrapping_mul(d));
        Self {
            a: sum(self.a, o.a, self.b, o.c),
            b: sum(self.a, o.b, self.b, o.d),
            c: sum(self.c, o.a, self.d, o.c),
            d: sum(self.c, o.b, self.d, o.d),
        }
    }
}

#[kernel]
fn several(x: &[u32], products: &mut [Matrix], sums: &mut [f32], counts: &mut [u64]) {
    assert!(x.len() == products.len() && sums.len() == x.len() && counts.len() == x.len());
    blocks(Threads::<4, 8>, (products, sums, counts), |block, (product, sum, count)| {
        let x = x[block.index()];
        let one = Matrix::ONE;
        let before = block.carry(Matrix::of(x), one, |a, b| a.times(b));
        let offset = (x % 3) as f32;
        let far = block.carry(x as f32 * 0.37, 0.25, |a, b| a + b + (offset - offset));
        let mut odd = x & 1 == 1;
        odd = block.carry(odd, false, |a, b| {
            if a {
                return !b;
            }
            b
        });
        let large = block.carry(x as u64, 1 << 40, |a, b| a.max(b));
        product.set(before);
        sum.set(far);
        count.set(large + odd as u64);
    });
}

#[test]
fn kernels_pass_on_several_values() {
    for n in [0, 1, 2, 31, 32, 33, 64, 1023, 1024, 1025, 1100] {
        let x = words(n);
        let (products, sums, counts) = both!(several(
            read x, write vec![Matrix::ONE; n], write vec![0.0f32; n], write vec![0u64; n]
        ))
        .unwrap();
        let (mut product, mut sum, mut odd) = (Matrix::ONE, 0.25, false);
        for (at, x) in x.iter().enumerate() {
            assert_eq!(products[at], product, "{at} of {n}");
            assert!((f64::from(sums[at]) - sum).abs() <= 1e-5 * sum, "{} {sum}", sums[at]);
            assert_eq!(counts[at], (1 << 40) + u64::from(odd));
            product = product.times(Matrix::of(*x));
            sum += f64::from(*x as f32 * 0.37);
            odd ^= x & 1 == 1;
        }
    }
}

/// The sums of floats are those of groups, whose order is defined.
#[kernel]
fn grouped(x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<32>, out, |block, out| {
        let own = x[block.index()];
        let before = block.carry(own, 0.0, |a, b| a + b);
        out.set(before);
    });
}

#[test]
fn sums_of_floats_have_one_order() {
    let x = floats(1100);
    let out = both!(grouped(read x, write vec![0.0f32; 1100])).unwrap();
    fn tree(x: &[f32]) -> f32 {
        let mut lanes = x.to_vec();
        while lanes.len() > 1 {
            lanes = lanes
                .chunks(2)
                .map(|pair| pair.iter().copied().reduce(|a, b| a + b).unwrap())
                .collect();
        }
        lanes[0]
    }
    let group = |k: usize| tree(&x[32 * k..32 * k + 31]) + x[32 * k + 31];
    let groups: Vec<f32> = (0..34).map(group).collect();
    let large = tree(&groups[..31]) + groups[31];
    assert_eq!(out[9], 0.0 + tree(&x[..9]));
    assert_eq!(out[40], 0.0 + (tree(&groups[..1]) + tree(&x[32..40])));
    assert_eq!(out[1023], 0.0 + (tree(&groups[..31]) + tree(&x[992..1023])));
    assert_eq!(out[1024], 0.0 + large);
    assert_eq!(out[1099], 0.0 + (large + (tree(&groups[32..34]) + tree(&x[1088..1099]))));
    seeds(|| assert_eq!(both!(grouped(read x, write vec![0.0f32; 1100])).unwrap(), out));
}

/// A fault of the thread `at`: before the value is passed on (1), at it (2), in the operation of values (3), after it
/// (4).
#[kernel]
fn failing(site: u32, bad: usize, at: usize, x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 40), |block, mut out| {
        let first = out.start();
        let here = block.index() == bad;
        let mut tile = block.shared([0u32; 64]);
        block.each(&mut tile, |i, t| {
            if here && site == 1 && i == at {
                *t = x[x.len() + i];
            }
            *t += 1;
        });
        let own = if here && site == 2 { x[x.len() + 5] } else { tile[at] };
        let before = block.carry(own, 0, |a, b| {
            if here && site == 3 {
                return x[x.len() + 9];
            }
            a + b
        });
        block.each(&mut out, |i, o| {
            if here && site == 4 && i == at {
                *o = x[x.len() + i];
            }
            *o = before + tile[i] + x[first + i];
        });
        let mut sum = block.per_thread(1u32);
        block.each((out, &mut sum), |_, (o, s)| *s = *o);
        let _ = block.carry(before, 0, |a, b| a.max(b));
    });
}

#[test]
fn a_fault_ends_the_launch() {
    let n = 40 * 70;
    let x = words(n).iter().map(|x| x % 1000).collect::<Vec<u32>>();
    let good = both!(failing(value 0u32, value 0usize, value 0usize, read x, write vec![0u32; n]));
    let good = good.unwrap();
    for (i, good) in good.iter().enumerate() {
        assert_eq!(*good, (i / 40) as u32 + 1 + x[i]);
    }
    seeds(|| {
        for bad in [0, 31, 35, 69] {
            for site in 1..=4 {
                for at in [0, 39] {
                    let result = both!(failing(
                        value site, value bad, value at, read x, write vec![0u32; n]
                    ));
                    // The first block combines nothing.
                    if site == 3 && bad == 0 {
                        assert_eq!(result.unwrap(), good);
                        continue;
                    }
                    let (cpu, fault, failed) = result.unwrap_err();
                    assert!(failed, "{site} {bad} {at}");
                    assert_eq!(cpu.to_string(), fault.unwrap().to_string(), "{site} {bad} {at}");
                }
            }
        }
        // The memory of the stream is left for the next launch.
        let again =
            both!(failing(value 0u32, value 0usize, value 0usize, read x, write vec![0u32; n]));
        assert_eq!(again.unwrap(), good);
    });
}

/// Phases stand between a carry and the use of its value. Thread 33 of a block may fail in one.
#[kernel]
fn late(bad: usize, x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 40), |block, mut out| {
        let (first, here) = (out.start(), block.index() == bad);
        let mut tile = block.shared([0u32; 64]);
        let mut own = block.per_thread(0u32);
        block.each((&mut out, &mut own), |i, (_, own)| *own = x[first + i]);
        let total = block.scan(&mut own);
        let before = block.carry(total, 7, |a, b| a.wrapping_add(b));
        block.each((&mut tile, &mut own), |i, (t, own)| {
            *t = if here && i == 33 { x[x.len()] } else { *own };
        });
        block.each(out, |i, out| *out = before.wrapping_add(tile[63 - i]));
    });
}

#[test]
fn phases_come_before_the_value_of_a_carry() {
    let source = late::source();
    let at = |what| source.find(what).unwrap();
    let order = ["b_offer<B, 0>(c, ", "target<B>(tile_", " = b_carry<B, 0>(c, "].map(at);
    assert!(order.is_sorted(), "{source}");
    let (n, none) = (40 * 70 + 33, usize::MAX);
    let x = words(n);
    let sums: Vec<u32> = std::iter::once(7).chain(scanned(&x)).collect();
    let expected: Vec<u32> = (0..n)
        .map(|i| (i / 40 * 40, i % 40))
        .map(|(first, i)| sums[(first + 63 - i).min(first + 40).min(n)])
        .collect();
    seeds(|| {
        let run = |bad| {
            both!(late(value bad, read x, write vec![0u32; n])).map_err(|error| error.1.unwrap())
        };
        assert_eq!(run(none).unwrap(), expected);
        for bad in [0usize, 31, 32, 69] {
            let fault = run(bad).unwrap_err();
            assert_eq!((fault.block, fault.element), (Some(bad as u64), [33, 0, 0]));
        }
        assert_eq!(run(none).unwrap(), expected);
    });
}

/// The thread 40 of a block does not write the value that the block passes on, by which others count.
#[kernel]
fn steps(bad: usize, x: &[u32], out: &mut [u32]) {
    blocks(Threads::<64>, out, |block, out| {
        let here = block.index() == bad;
        let mut tile = block.shared([0u32; 64]);
        block.each(&mut tile, |i, t| *t = if here && i == 40 { x[x.len()] } else { 3 });
        let step = block.carry(tile[40], 5, |_, b| b);
        let mut at = 0;
        while at < 100 {
            at += step;
        }
        out.set(at);
    });
}

#[test]
fn a_value_that_was_not_written_is_not_passed_on() {
    let out = both!(steps(value 99usize, read words(4), write vec![0u32; 40])).unwrap();
    assert_eq!(out[..3], [100, 102, 102]);
    for bad in [0, 1, 31, 38] {
        let (cpu, fault, _) =
            both!(steps(value bad, read words(4), write vec![0u32; 40])).unwrap_err();
        let fault = fault.unwrap();
        assert_eq!((fault.block, fault.element), (Some(bad as u64), [40, 0, 0]));
        assert_eq!(cpu.to_string(), fault.to_string());
    }
}

#[test]
fn launches_on_a_stream_leave_their_memory_to_the_next() {
    let _alone = crate::alone();
    let stream = crate::stream();
    for n in [41, 1, 5000, 40, 41_000, 33, 41_000, 0, 120] {
        let x = words(n);
        let device = DeviceBuffer::from_slice(&stream, &x).unwrap();
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, n).unwrap();
        for _ in 0..3 {
            scan::launch(&stream, &device, &mut out).unwrap();
        }
        assert_eq!(out.to_vec(&stream).unwrap(), scanned(&x));
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, 100).unwrap();
        let x = floats(100);
        let device = DeviceBuffer::from_slice(&stream, &x).unwrap();
        grouped::launch(&stream, &device, &mut out).unwrap();
        let mut cpu = vec![0.0; 100];
        grouped::cpu(&x, &mut cpu).unwrap();
        assert_eq!(out.to_vec(&stream).unwrap(), cpu);
    }
}

#[test]
fn values_of_earlier_launches_are_not_those_of_this_one() {
    let _alone = crate::alone();
    let stream = crate::stream();
    let x = DeviceBuffer::from_slice(&stream, &words(4)).unwrap();
    for bad in [99, 2, 99, 0, 35] {
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, 40).unwrap();
        steps::launch(&stream, bad, &x, &mut out).unwrap();
        assert_eq!(stream.synchronize().is_err(), bad < 40);
        let _ = stream.context().take_fault();
        let out = out.to_vec(&stream).unwrap();
        // Blocks after the one that has failed get no value, and end.
        let after = &out[(bad + 1).min(40)..];
        assert!(after.iter().all(|count| *count == 0), "{bad}: {after:?}");
    }
}

#[test]
fn launches_of_streams_and_graphs_have_memory_of_their_own() {
    let _alone = crate::alone();
    let streams: Vec<_> = (0..3).map(|_| crate::stream()).collect();
    let context = streams[0].context();
    let n = 40 * 50;
    let x = words(n);
    let device = DeviceBuffer::from_slice(&streams[0], &x).unwrap();
    let zeroed = |at: usize| DeviceBuffer::<u32>::zeroed(&streams[at % 3], n).unwrap();
    let mut graphs: Vec<_> = (0..2)
        .map(|at| {
            let state = [zeroed(at), zeroed(at)];
            // Two branches, which may run at once.
            let record = |stream: &cuda_safe::Stream, [a, b]: &mut [DeviceBuffer<u32>; 2]| {
                let other = stream.fork()?;
                scan::launch(stream, &device, &mut *a)?;
                scan::launch(&other, &device, &mut *b)
            };
            context.capture(state, record).unwrap()
        })
        .collect();
    let mut outs: Vec<_> = (0..3).map(zeroed).collect();
    for turn in 0..4 {
        for (stream, out) in streams.iter().zip(&mut outs) {
            scan::launch(stream, &device, out).unwrap();
        }
        for (at, graph) in graphs.iter_mut().enumerate() {
            graph.launch(&streams[(turn + at) % 3]).unwrap();
        }
    }
    let expected = scanned(&x);
    // A launch in a graph is changed.
    let record = |stream: &cuda_safe::Stream, [a, _]: &mut [DeviceBuffer<u32>; 2]| {
        scan::launch(stream, &device, a)?;
        stream.last_node().map(drop)
    };
    let mut changed = context.capture([zeroed(0), zeroed(1)], record).unwrap();
    changed.launch(&streams[1]).unwrap();
    let node = changed.nodes().next().unwrap();
    let other = |stream: &cuda_safe::Stream, [_, b]: &mut [DeviceBuffer<u32>; 2]| {
        scan::launch(stream, &device, b)
    };
    changed.update(node, other).unwrap();
    changed.launch(&streams[2]).unwrap();
    graphs.push(changed);
    for out in outs.iter().chain(graphs.iter_mut().flat_map(|graph| graph.state())) {
        assert_eq!(out.to_vec(&streams[0]).unwrap(), expected);
    }
}

#[kernel]
fn scan_of_tiles(rows: usize, columns: usize, x: &[u32], out: &mut [u32]) {
    blocks(Threads::<32>, tiles::<1, 4, _>(out, [rows, columns]), |block, out| {
        let [y, z] = out.origin();
        let mut own = block.per_thread(0u32);
        let first = y * columns + z;
        let n = (columns - z).min(4);
        block.each(&mut own, |i, own| {
            if i < n {
                *own = x[first + i];
            }
        });
        let total = block.sum(&mut own);
        let before = block.carry(total, 7, |a, b| a.wrapping_add(b));
        block.each(out, |_, out| *out = before);
    });
}

#[test]
fn tiles_pass_values_on() {
    // The memory of the values is for all blocks of the grid, which has the shape of the tiles.
    for [rows, columns] in [[1, 4], [3000, 3], [40, 70], [2, 4000], [70_000, 1]] {
        let x = words(rows * columns);
        let out = both!(scan_of_tiles(
            value rows, value columns, read x, write vec![0u32; rows * columns]
        ))
        .unwrap();
        let mut before = 7u32;
        for (x, out) in x.chunks(columns).zip(out.chunks(columns)) {
            for (x, out) in x.chunks(4).zip(out.chunks(4)) {
                assert!(out.iter().all(|out| *out == before));
                before = x.iter().fold(before, |sum, x| sum.wrapping_add(*x));
            }
        }
    }
}
