//! Kernels over blocks that drawn programs have found to differ, or not to compile.

use gpu_phases::{Block, Shared, device, kernel};

use super::{SIZES, floats, words};
use crate::both;

#[kernel]
fn nested_targets(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 70), |block, mut out| {
        let first = out.start();
        let mut tile = block.shared([[7u32; 10]; 8]);
        let mut own = block.per_thread(3u32);
        let mut line = block.shared([1u32; 70]);
        block.each(((&mut own, &mut line), &mut tile), |i, ((own, l), t)| {
            *own += i as u32;
            *l = *own;
            *t += *l;
        });
        block.each((&mut out, (&mut line, (&mut own,))), |i, (o, (l, (own,)))| {
            *o = x[first + i] ^ *l ^ tile[i % 8][i % 10] ^ *own;
        });
    });
}

#[test]
fn tuples_of_targets_are_targets() {
    for n in SIZES {
        both!(nested_targets(read words(n), write vec![0u32; n])).unwrap();
    }
}

#[device]
fn steps_back<const N: usize>(
    block: &mut Block<N>,
    now: &mut Shared<[u32; 64]>,
    next: &mut Shared<[u32; 64]>,
) -> u32 {
    let mut now = &mut *now;
    let mut next = &mut *next;
    for _ in 0..3 {
        block.each(&mut *next, |i, t| *t = now[63 - i] + i as u32);
        std::mem::swap(&mut now, &mut next);
    }
    now[5]
}

#[kernel]
fn references_in_turn(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut now = block.shared([1u32; 64]);
        let mut next = block.shared([2u32; 64]);
        let last = steps_back(block, &mut now, &mut next);
        block.each(&mut out, |i, o| *o = now[i] ^ (next[63 - i] << 9) ^ (last << 20));
    });
}

#[test]
fn references_to_arrays_are_swapped() {
    both!(references_in_turn(write vec![0u32; 100])).unwrap();
}

#[device]
fn exchange<const N: usize>(
    block: &mut Block<N>,
    low: &mut Shared<[u32; 100]>,
    high: &mut Shared<[u32; 100]>,
) {
    block.each((&mut *low, &mut *high), |i, (l, h)| {
        *l += i as u32;
        *h ^= *l;
    });
    std::mem::swap(low, high);
}

#[kernel]
fn exchanged(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 80), |block, mut out| {
        let mut a = block.shared([1u32; 100]);
        let mut b = block.shared([2u32; 100]);
        let mut grid = block.shared([[3u32; 9]; 9]);
        let mut other = block.shared([[4u32; 9]; 9]);
        block.each((&mut a, &mut b), |i, (a, b)| {
            *a = i as u32;
            *b = 7 * i as u32;
        });
        exchange(block, &mut a, &mut b);
        {
            let now = &mut a;
            let next = &mut b;
            std::mem::swap(now, next);
            block.each(&mut *now, |i, t| *t += next[99 - i]);
            exchange(block, now, next);
        }
        {
            let mut now = &mut a;
            let mut next = &mut b;
            exchange(block, now, next);
            std::mem::swap(&mut *now, &mut *next);
            std::mem::swap(&mut now, &mut next);
            block.each(&mut *next, |i, t| *t ^= now[99 - i]);
        }
        std::mem::swap(&mut grid, &mut other);
        {
            let (g, o) = (&mut grid, &mut other);
            block.each(&mut *g, |[i, j], t| *t += 10 * i as u32 + j as u32);
            std::mem::swap(g, o);
        }
        block.each(&mut out, |i, o| {
            *o = a[i] ^ (b[99 - i] << 8) ^ (grid[i % 9][8] << 16) ^ (other[i % 9][i / 9 % 9] << 24);
        });
    });
}

#[test]
fn memory_behind_references_is_swapped() {
    both!(exchanged(write vec![0u32; 200])).unwrap();
}

#[kernel]
fn late_array(at: &[u32], x: &[u32], out: &mut [u32]) {
    assert!(at.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut own = block.per_thread(0u32);
        block.each((&mut own, &mut out), |i, (own, _)| *own = x[at[first + i] as usize]);
        let mut tile = block.shared([5u32; 64]);
        let mut list = block.shared([1u32, 2, 3]);
        block.each((&mut tile, &mut own), |_, (t, own)| *t += *own);
        block.each(&mut out, |i, o| *o = tile[63 - i] + list[i % 3]);
    });
}

#[test]
fn an_array_is_filled_by_all_threads() {
    let mut at: Vec<u32> = (0..128).collect();
    both!(late_array(read at, read words(128), write vec![0u32; 128])).unwrap();
    for bad in [64, 70] {
        at[bad] = 128;
        let (cpu, fault, failed) =
            both!(late_array(read at, read words(128), write vec![0u32; 128])).unwrap_err();
        assert!(failed);
        assert_eq!(cpu.to_string(), fault.unwrap().to_string());
        at[bad] = 1;
    }
}

#[kernel]
fn other_names(x: &[u32], out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut own = block.per_thread(3u32);
        let mut other = block.per_thread(4u32);
        let a = &mut own;
        block.each(&mut *a, |i, a| *a += x[i % 32]);
        block.warp_xor(a, 3);
        let sum = block.sum(&own);
        std::mem::swap(&mut own, &mut other);
        block.each((&mut out, &mut own, &mut other), |_, (o, a, b)| *o = *a ^ (*b << 7) ^ sum);
    });
}

#[test]
fn values_of_threads_have_other_names() {
    both!(other_names(read words(32), write vec![0u32; 100])).unwrap();
}

#[kernel]
fn steps_of_memory(at: &[u32], x: &[u32], out: &mut [u32]) {
    assert!(at.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut step = block.shared([0u32; 64]);
        block.each((&mut step, &mut out), |i, (s, _)| *s = 1 + x[at[first + i] as usize] % 2);
        let mut by = 0;
        if step[5] > 0 {
            by = 1;
        }
        let mut k = 0;
        while k < 10 {
            k += by;
            block.each(&mut out, |i, o| *o += i as u32);
        }
        let mut k = 0;
        while k < 10 {
            k += step[5];
        }
        block.each(&mut out, |i, o| {
            let mut k = 0;
            while k < 10 {
                k += step[i];
            }
            *o += k;
        });
    });
}

#[test]
fn loops_whose_steps_a_thread_has_not_written_end() {
    let mut at: Vec<u32> = (0..128).collect();
    both!(steps_of_memory(read at, read words(128), write vec![0u32; 128])).unwrap();
    at[69] = 128;
    let (cpu, fault, failed) =
        both!(steps_of_memory(read at, read words(128), write vec![0u32; 128])).unwrap_err();
    assert!(failed);
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    at[69] = 69;
    both!(steps_of_memory(read at, read words(128), write vec![0u32; 128])).unwrap();
}

#[test]
fn a_loop_that_memory_does_not_decide_has_plain_barriers() {
    let text = super::sums::source();
    let (_, kernel) = text.split_once("phases_sums").unwrap();
    assert!(kernel.contains("B::sync();") && !kernel.contains("B::meet();"), "{kernel}");
}

#[kernel]
fn rows_and_closures(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut grid = block.shared([[1u32; 8]; 8]);
        let mut line = block.shared([2u32; 64]);
        block.each((&mut line, &mut out), |i, (l, _)| *l = x[first + i]);
        block.each(&mut grid, |[i, j], g| *g = (8 * i + j) as u32);
        let row = grid[3];
        let inner = |k: usize| line[63 - k % 64] + row[k % 8];
        let outer = |k: usize| inner(k + 1) ^ 5;
        block.each(&mut grid, |[i, j], g| *g += outer(i + j) + row[j]);
        let (mut low, mut high) = line.split_at_mut(20);
        std::mem::swap(&mut low, &mut high);
        block.each(&mut low, |i, l| *l += high[i % 20] + grid[i % 8][7 - i / 8]);
        let (mut a, b) = low.split_at_mut(9);
        block.each(&mut a, |i, a| *a ^= b[i]);
        block.each(&mut out, |i, o| *o = line[63 - i] ^ grid[i / 8][i % 8] ^ row[i % 8]);
    });
}

#[test]
fn rows_are_copied_and_closures_call_closures() {
    for n in SIZES {
        both!(rows_and_closures(read words(n), write vec![0u32; n])).unwrap();
    }
}

#[kernel]
fn splits(x: &[f32], out: &mut [f32], sums: &mut [f32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<96>, (chunks(out, 96), sums), |block, (mut out, result)| {
        let first = out.start();
        let mut line = block.shared([0.5f32; 101]);
        let mut grid = block.shared([[1.5f32; 7]; 20]);
        let mut own = block.per_thread(0.25f32);
        block.each((&mut line, &mut out, &mut own), |i, (l, _, own)| {
            *l = x[first + i];
            *own = *l;
        });
        block.each(line.pairs(4), |i, (a, b)| {
            *a += *b * i as f32;
            *b -= 1.0;
        });
        block.each(line.rows(9), |i, row| {
            for k in 0..row.len() {
                row[k] += row[0] + i as f32;
            }
        });
        block.each(grid.cells(7), |[i, j], g| *g = line[5 * i + j % 5]);
        let (mut low, mut high) = line.split_at_mut(40);
        let (mut middle, end) = high.split_at_mut(30);
        let start = middle.start() + end.start();
        block.each(&mut middle, |i, m| *m += end[i] + start as f32);
        block.each(&mut low, |i, l| *l += middle[29 - i % 30]);
        let sum = block.sum(&own);
        let all = block.scan(&mut own);
        block.each((&mut out, &mut own), |i, (o, own)| *o = line[100 - i] + grid[i % 20][6] + *own);
        result.set(sum * 3.0 + all);
    });
}

#[test]
fn splits_have_ragged_ends() {
    for n in SIZES {
        both!(splits(read floats(n), write vec![0.0f32; n], write vec![0.0f32; n.div_ceil(96)]))
            .unwrap();
    }
}

#[kernel]
fn bad_sizes(columns: usize, distance: usize, middle: usize, thread: usize, out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, 32), |block, mut out| {
        let mut line = block.shared([3u32; 40]);
        let mut grid = block.shared([[1u32; 7]; 5]);
        let mut own = block.per_thread(2u32);
        block.each(grid.cells(columns), |[i, j], g| *g += (i + j) as u32);
        block.each(line.pairs(distance), |_, (a, b)| *a += *b);
        block.each(line.rows(columns), |_, row| row[0] += 1);
        let (mut low, _) = line.split_at_mut(middle);
        block.each(&mut low, |i, l| *l += i as u32);
        let value = block.broadcast(&own, thread);
        block.each((&mut out, &mut own), |i, (o, own)| *o = line[i] + *own + value);
    });
}

#[test]
fn bad_sizes_fail_at_block_level() {
    let good = [7usize, 4, 40, 31];
    let [a, b, c, d] = good;
    both!(bad_sizes(value a, value b, value c, value d, write vec![0u32; 20])).unwrap();
    for (at, bad) in [(0, 8), (0, 0), (1, 0), (1, 6), (2, 41), (3, 32)] {
        let mut sizes = good;
        sizes[at] = bad;
        let [a, b, c, d] = sizes;
        let (cpu, fault, failed) =
            both!(bad_sizes(value a, value b, value c, value d, write vec![0u32; 20])).unwrap_err();
        assert!(failed);
        assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    }
}

#[kernel]
fn condition(out: &mut [u32]) {
    blocks(Threads::<96>, chunks(out, 96), |block, mut out| {
        let mut left = block.shared([3u32; 96]);
        let mut done = 0;
        while left[40] > 0 {
            block.each(&mut left, |_, l| *l -= 1);
            done += 1;
        }
        block.each(&mut out, |i, o| *o = left[95 - i] + done);
    });
}

#[test]
fn a_condition_is_read_before_the_next_phase() {
    assert_eq!(both!(condition(write vec![0u32; 100])).unwrap(), [3; 100]);
}

#[device]
fn filled<const N: usize>(block: &mut Block<N>, tile: &mut Shared<[u32; 96]>, by: u32) {
    block.each(&mut *tile, |i, t| *t += i as u32 * by);
}

#[kernel]
fn functions(out: &mut [u32]) {
    blocks(Threads::<96>, chunks(out, 96), |block, mut out| {
        let mut tile = block.shared([3u32; 96]);
        block.each(tile.rows(7), |i, row| {
            for k in 0..row.len() {
                row[k] += i as u32;
            }
        });
        filled(block, &mut tile, 2);
        block.each(&mut out, |i, o| *o = tile[95 - i]);
        filled(block, &mut tile, 3);
        let last = tile[90];
        block.each(&mut out, |i, o| *o += tile[95 - i] + last);
    });
}

#[test]
fn functions_leave_accesses() {
    both!(functions(write vec![0u32; 200])).unwrap();
}

#[kernel]
fn one_thread(count: u32, out: &mut [u32]) {
    blocks(Threads::<96>, chunks(out, 96), |block, mut out| {
        let first = out.start();
        let mut sum = 0;
        for k in 0..count {
            let value = block.one(|| first as u32 + k);
            sum += value;
        }
        block.each(&mut out, |_, o| *o = sum);
    });
}

#[test]
fn values_of_one_thread_wait_for_their_readers() {
    both!(one_thread(value 4u32, write vec![0u32; 200])).unwrap();
}

#[kernel]
fn waiting_thread(at: &[u32], x: &[u32], out: &mut [u32]) {
    assert!(at.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut step = block.shared([0u32; 64]);
        block.each((&mut step, &mut out), |i, (s, _)| *s = 1 + x[at[first + i] as usize] % 2);
        block.each(&mut out, |i, o| {
            let mut k = 0;
            while k < 10 {
                k += step[63 - i];
            }
            *o = k;
        });
    });
}

#[test]
fn a_thread_that_waits_for_memory_ends() {
    let mut at: Vec<u32> = (0..128).collect();
    both!(waiting_thread(read at, read words(128), write vec![0u32; 128])).unwrap();
    at[69] = 128;
    let (cpu, fault, failed) =
        both!(waiting_thread(read at, read words(128), write vec![0u32; 128])).unwrap_err();
    assert!(failed);
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    at[69] = 69;
    both!(waiting_thread(read at, read words(128), write vec![0u32; 128])).unwrap();
}

#[test]
fn a_swap_needs_one_barrier() {
    let text = super::steps::source();
    let (_, kernel) = text.split_once("phases_steps").unwrap();
    // After the first values, in an iteration, and before the last phase; one more for what is read before the loop.
    assert_eq!(kernel.matches("B::sync();").count(), 4, "{kernel}");
}

#[kernel]
fn in_turn(count: usize, out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut now = block.shared([1u32; 64]);
        let mut next = block.shared([2u32; 64]);
        block.each((&mut now, &mut out), |i, (t, _)| *t = i as u32);
        let mut last = now[63];
        for _ in 0..count {
            block.each(&mut next, |i, t| *t = now[63 - i] + last);
            std::mem::swap(&mut now, &mut next);
        }
        last += now[3];
        block.each(&mut out, |i, o| *o = now[63 - i] ^ last);
    });
}

#[test]
fn arrays_in_turn_wait_for_their_readers() {
    for count in [0, 1, 2, 5] {
        both!(in_turn(value count, write vec![0u32; 100])).unwrap();
    }
}
