//! Kernels over blocks: phases, shared memory, splits, collectives.

mod atomics;
mod carry;
mod code;
mod found;
mod lines;
mod order;
mod sizes;

use gpu_phases::{Block, Device, PerThread, Shared, device, kernel};

use crate::both;

const SIZES: [usize; 7] = [0, 1, 31, 32, 33, 256, 1000];

fn floats(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.37).sin() * 100.0).collect()
}

fn words(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7).collect()
}

#[kernel]
fn sums(x: &[f32], sums: &mut [f32]) {
    blocks(Threads::<256>, sums, |block, sum| {
        let first = block.index() * 256;
        let mut tile = block.shared([0.0f32; 256]);
        block.each(&mut tile, |i, t| *t = if first + i < x.len() { x[first + i] } else { 0.0 });
        let mut half = 128;
        while half > 0 {
            let (mut low, high) = tile.split_at_mut(half);
            block.each(&mut low, |i, a| *a += high[i]);
            half /= 2;
        }
        sum.set(tile[0]);
    });
}

#[test]
fn sums_of_blocks() {
    for n in SIZES {
        let x = floats(n);
        let out = both!(sums(read x, write vec![0.0f32; n.div_ceil(256)])).unwrap();
        for (sum, x) in out.iter().zip(x.chunks(256)) {
            let exact: f64 = x.iter().map(|x| f64::from(*x)).sum();
            assert!((f64::from(*sum) - exact).abs() < 1e-2, "{sum} {exact}");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Device, bytemuck::NoUninit, bytemuck::AnyBitPattern)]
#[repr(C)]
struct Vec3 {
    x: f32,
    y: f32,
    z: f32,
}

#[device]
impl Vec3 {
    const ZERO: Self = Self { x: 0.0, y: 0.0, z: 0.0 };

    fn dot(self, o: Self) -> f32 {
        self.x * o.x + self.y * o.y + self.z * o.z
    }

    fn plus(self, o: Self) -> Self {
        Self { x: self.x + o.x, y: self.y + o.y, z: self.z + o.z }
    }

    fn minus(self, o: Self) -> Self {
        Self { x: self.x - o.x, y: self.y - o.y, z: self.z - o.z }
    }

    fn scale(self, s: f32) -> Self {
        Self { x: self.x * s, y: self.y * s, z: self.z * s }
    }
}

#[device]
fn pull(p: Vec3, q: Vec3) -> Vec3 {
    let d = q.minus(p);
    let r = 1.0 / (d.dot(d) + 0.01).sqrt();
    d.scale(r * r * r)
}

#[kernel]
fn nbody(positions: &[Vec3], forces: &mut [Vec3]) {
    assert!(positions.len() == forces.len());
    let n = positions.len();
    blocks(Threads::<64>, chunks(forces, 64), |block, forces| {
        let first = forces.start();
        let mut tile = block.shared([Vec3::ZERO; 64]);
        let (zero, mut start) = (Vec3::ZERO, 0);
        let mut own = block.per_thread(zero);
        let mut sum = block.per_thread(zero);
        block.each(&mut own, |i, p| *p = positions[(first + i).min(n - 1)]);
        while start < n {
            block.each(&mut tile, |i, q| *q = positions[(start + i).min(n - 1)]);
            block.each((&mut sum, &mut own), |_, (s, p)| {
                for j in 0..(n - start).min(64) {
                    *s = s.plus(pull(*p, tile[j]));
                }
            });
            start += 64;
        }
        block.each((forces, &mut sum), |_, (f, s)| *f = *s);
    });
}

#[test]
fn all_pairs_by_tiles() {
    for n in SIZES {
        let x: Vec<Vec3> =
            floats(3 * n).chunks_exact(3).map(|v| Vec3 { x: v[0], y: v[1], z: v[2] }).collect();
        let out = both!(nbody(read x, write vec![Vec3::ZERO; n])).unwrap();
        if n == 33 {
            let exact: f64 = x
                .iter()
                .map(|q| {
                    let d = [q.x - x[7].x, q.y - x[7].y, q.z - x[7].z].map(f64::from);
                    let r = d.iter().map(|d| d * d).sum::<f64>() + 0.01;
                    d[0] / (r * r.sqrt())
                })
                .sum();
            assert!((f64::from(out[7].x) - exact).abs() < 1e-4 * exact.abs().max(1.0));
        }
    }
}

#[kernel]
fn shifted(start: isize, short: usize, x: &[u32], out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, 50), |block, mut out| {
        let mut tile = block.shared([[1u32; 7]; 5]);
        block.load(&mut out, x, start, 77);
        block.load_matrix(&mut tile, x, [x.len() / 7 + short, 7], [start, -2], 9);
        block.each(&mut out, |i, o| *o += tile[i % 5][i % 7]);
    });
}

#[test]
fn loads_have_a_value_outside() {
    for n in [0, 7, 31, 50, 120] {
        for start in [-60, -3, 0, 1, 40, isize::MAX, isize::MIN] {
            both!(shifted(value start, value 0usize, read words(n), write vec![0u32; n])).unwrap();
        }
    }
    let (cpu, fault, failed) =
        both!(shifted(value 0isize, value 1usize, read words(20), write vec![0u32; 20]))
            .unwrap_err();
    assert!(failed);
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
}

#[kernel]
fn moved(rows: usize, columns: usize, x: &[u32], out: &mut [u32]) {
    assert!(x.len() == rows * columns && out.len() == rows * columns);
    blocks(Threads::<4, 8>, tiles::<4, 8, _>(out, [rows, columns]), |block, mut out| {
        let [row, column] = out.origin();
        let mut own = block.per_thread(0u32);
        let [row, column] = [row as isize, column as isize];
        block.load_matrix(&mut out, x, [rows, columns], [row - 1, column + 2], 5);
        block.load_matrix(&mut own, x, [rows, columns], [row, column], 7);
        block.each((&mut own, &mut out), |[i, j], (own, out)| {
            *own = *own ^ *out ^ (8 * i + j) as u32
        });
        block.each((out, &mut own), |_, (out, own)| *out = *own);
    });
}

#[test]
fn loads_fill_tiles_and_values_of_threads() {
    for (rows, columns) in [(4, 8), (1, 1), (9, 20), (3, 0)] {
        let x = words(rows * columns);
        let out = both!(moved(value rows, value columns, read x, write vec![0u32; rows * columns]))
            .unwrap();
        for (at, out) in out.iter().enumerate() {
            let (i, j) = (at / columns, at % columns);
            let above = if i > 0 && j + 2 < columns { x[at - columns + 2] } else { 5 };
            assert_eq!(*out, x[at] ^ above ^ (8 * (i % 4) + j % 8) as u32);
        }
    }
}

#[kernel]
fn matmul(m: usize, n: usize, k: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    blocks(Threads::<16, 16>, tiles::<16, 16, _>(c, [m, n]), |block, c| {
        let [row, column] = c.origin();
        let mut left = block.shared([[0.0f32; 16]; 16]);
        let mut right = block.shared([[0.0f32; 16]; 16]);
        let mut sum = block.per_thread(0.0f32);
        let mut start = 0;
        while start < k {
            block.load_matrix(&mut left, a, [m, k], [row as isize, start as isize], 0.0);
            block.load_matrix(&mut right, b, [k, n], [start as isize, column as isize], 0.0);
            block.each(&mut sum, |[i, j], s| {
                for t in 0..16 {
                    *s += left[i][t] * right[t][j];
                }
            });
            start += 16;
        }
        block.each((c, &mut sum), |_, (c, s)| *c = *s);
    });
}

#[test]
fn matrix_products_by_tiles() {
    for (m, n, k) in [(1, 1, 1), (16, 16, 16), (33, 17, 40), (5, 70, 3), (0, 4, 2), (4, 4, 0)] {
        let (a, b) = (floats(m * k), floats(k * n));
        let c = both!(matmul(value m, value n, value k, read a, read b, write vec![0.0f32; m * n]))
            .unwrap();
        for (at, c) in c.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let exact: f64 =
                (0..k).map(|t| f64::from(a[i * k + t]) * f64::from(b[t * n + j])).sum();
            assert!((f64::from(*c) - exact).abs() < 0.1, "{c} {exact}");
        }
    }
}

#[kernel(contract)]
fn product_by_patches(m: usize, n: usize, k: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    blocks(Threads::<4, 8>, tiles::<16, 32, _>(c, [m, n]), |block, mut c| {
        let [row, column] = c.origin();
        let mut left = block.shared([[0.0f32; 8]; 16]);
        let mut right = block.shared([[0.0f32; 32]; 8]);
        let mut sum = block.per_thread([[0.0f32; 4]; 4]);
        for start in (0..k).step_by(8) {
            block.load_matrix(&mut left, a, [m, k], [row as isize, start as isize], 0.0);
            block.load_matrix(&mut right, b, [k, n], [start as isize, column as isize], 0.0);
            block.each(&mut sum, |[i, j], s| {
                for t in 0..8 {
                    for y in 0..4 {
                        for x in 0..4 {
                            s[y][x] += left[4 * i + y][t] * right[t][4 * j + x];
                        }
                    }
                }
            });
        }
        block.each((c.patches::<4, 4>(), &mut sum), |_, (mut c, s)| *c = *s);
    });
}

#[kernel]
fn uneven_patches(size: [usize; 2], x: &mut [u32]) {
    blocks(Threads::<64>, tiles::<9, 32, _>(x, size), |block, mut x| {
        let origin = x.origin();
        block.each(x.patches::<2, 5>(), |[i, j], mut x| {
            let (mut sum, first) = (0u32, x[0][0]);
            for row in x.iter() {
                for x in row {
                    sum += *x % 1000;
                }
            }
            x[0][0] = sum;
            x[1][4] += first + (1000 * i + j) as u32;
        });
        block.each(&mut x, |[i, j], x| *x += (origin[0] + i + origin[1] + j) as u32);
    });
}

#[test]
fn a_thread_has_a_patch_of_a_tile() {
    for (m, n, k) in [(1, 1, 1), (16, 32, 8), (33, 70, 40), (5, 70, 3), (0, 4, 2), (4, 4, 0)] {
        let (a, b) = (floats(m * k), floats(k * n));
        let c = both!(product_by_patches(value m, value n, value k, read a, read b, write vec![0.0f32; m * n]))
            .unwrap();
        for (at, c) in c.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let exact: f64 =
                (0..k).map(|t| f64::from(a[i * k + t]) * f64::from(b[t * n + j])).sum();
            assert!((f64::from(*c) - exact).abs() < 0.1, "{c} {exact}");
        }
        let before = words(m * n);
        let x = both!(uneven_patches(value [m, n], write words(m * n))).unwrap();
        for (at, x) in x.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let first = [i - i % 9 % 2, j - j % 32 % 5];
            let (tile, word) = ([i / 9, j / 32], |i: usize, j: usize| before[i * n + j]);
            let inside = |i: usize, j: usize| i < m && j < n && [i / 9, j / 32] == tile;
            let mut expected = word(i, j);
            if [i, j] == first {
                let at = |k: usize| [i + k / 5, j + k % 5];
                let value = |[y, x]: [usize; 2]| if inside(y, x) { word(y, x) } else { word(i, j) };
                expected = (0..10).map(|k| value(at(k)) % 1000).sum();
            }
            if [i, j] == [first[0] + 1, first[1] + 4] {
                expected +=
                    word(first[0], first[1]) + (1000 * (first[0] % 9) + first[1] % 32) as u32;
            }
            assert_eq!(*x, expected + (i + j) as u32, "{i} {j} of {m} {n}");
        }
    }
}

#[kernel]
fn transpose(rows: usize, columns: usize, x: &[f32], out: &mut [f32]) {
    assert!(x.len() == rows * columns && out.len() == rows * columns);
    blocks(Threads::<256>, tiles::<32, 32, _>(out, [columns, rows]), |block, out| {
        let [row, column] = out.origin();
        let mut tile = block.shared([[0.0f32; 33]; 32]);
        block.load_matrix(tile.cells(32), x, [rows, columns], [column as isize, row as isize], 0.0);
        block.each(out, |[i, j], o| *o = tile[j][i]);
    });
}

#[test]
fn transposes_with_padding() {
    for (rows, columns) in [(1, 1), (32, 32), (33, 70), (64, 31), (0, 3)] {
        let x = floats(rows * columns);
        let out =
            both!(transpose(value rows, value columns, read x, write vec![0.0f32; rows * columns]))
                .unwrap();
        for i in 0..rows {
            for j in 0..columns {
                assert_eq!(out[j * rows + i].to_bits(), x[i * columns + j].to_bits());
            }
        }
    }
}

#[kernel]
fn bitonic(x: &mut [u32]) {
    blocks(Threads::<64>, chunks(x, 256), |block, mut x| {
        let mut tile = block.shared([u32::MAX; 256]);
        block.each((&mut tile, &mut x), |_, (t, x)| *t = *x);
        let mut size = 2;
        while size <= 256 {
            let mut distance = size / 2;
            while distance > 0 {
                block.each(tile.pairs(distance), |i, (a, b)| {
                    if (*a > *b) == (i & size == 0) {
                        let t = *a;
                        *a = *b;
                        *b = t;
                    }
                });
                distance /= 2;
            }
            size *= 2;
        }
        block.each(x, |i, x| *x = tile[i]);
    });
}

/// Each element gets the index of its pair's first element and its partner's value, and one that has no partner 0.
#[kernel]
fn partners(distance: usize, indices: &mut [u32], x: &mut [u32]) {
    assert!(indices.len() == x.len());
    blocks(Threads::<32>, (chunks(indices, 90), chunks(x, 90)), |block, (mut indices, mut x)| {
        block.each(&mut indices, |_, index| *index = 0);
        let mut seen = block.shared([0u32; 90]);
        block.each(seen.pairs(distance), |i, (a, b)| {
            *a = i as u32 + 1;
            *b = i as u32 + 1;
        });
        block.each((&mut indices, &mut seen), |_, (index, seen)| *index = *seen);
        block.each(x.pairs(distance), |_, (a, b)| {
            let t = *a;
            *a = *b;
            *b = t;
        });
    });
}

#[test]
fn pairs_of_a_last_group_that_is_cut_off() {
    for distance in [1, 2, 4, 8, 16, 32, 64, 128, 1 << 40] {
        for n in [90, 180, 45, 91, 1] {
            let (indices, x) =
                both!(partners(value distance, write vec![0u32; n], write words(n))).unwrap();
            for at in 0..n {
                let (start, i) = (at / 90 * 90, at % 90);
                let len = (n - start).min(90);
                let partner = i ^ distance;
                let expected = if partner < len { words(n)[start + partner] } else { words(n)[at] };
                assert_eq!(x[at], expected, "{distance} {n} {at}");
                let first = if partner < 90 { i.min(partner) as u32 + 1 } else { 0 };
                assert_eq!(indices[at], first, "{distance} {n} {at}");
            }
        }
    }
}

#[kernel]
fn sorted(x: &mut [f32]) {
    blocks(Threads::<96>, chunks(x, 200), |block, mut x| {
        let mut tile = block.shared([f32::INFINITY; 200]);
        block.each((&mut tile, &mut x), |_, (t, x)| *t = *x);
        block.sort(&mut tile);
        block.each(x, |i, x| *x = tile[i]);
    });
}

#[test]
fn sorts() {
    for n in [256, 512, 1, 0] {
        let x = words(n);
        let mut expected = x.clone();
        expected.chunks_mut(256).for_each(<[u32]>::sort_unstable);
        if n % 256 == 0 {
            assert_eq!(both!(bitonic(write x)).unwrap(), expected);
        }
    }
    for n in SIZES {
        let x = floats(n);
        let mut expected = x.clone();
        expected.chunks_mut(200).for_each(|x| x.sort_unstable_by(f32::total_cmp));
        assert_eq!(both!(sorted(write x)).unwrap(), expected);
    }
}

#[kernel]
fn softmax(columns: usize, x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<128>, warps(rows(out, columns), 4), |block, mut out| {
        let first = out.start();
        let mut top = block.per_thread(f32::NEG_INFINITY);
        let mut sum = block.per_thread(0.0f32);
        block.each((&mut out, &mut top), |t, (row, top)| {
            for k in 0..row.len() {
                *top = top.max(x[(first + t / 32) * columns + row.column(k)]);
            }
        });
        block.warp_max(&mut top);
        block.each((&mut out, &mut top, &mut sum), |t, (mut row, top, sum)| {
            for k in 0..row.len() {
                let e = 1.0 / (1.0 + *top - x[(first + t / 32) * columns + row.column(k)]);
                row[k] = e;
                *sum += e;
            }
        });
        block.warp_sum(&mut sum);
        block.each((out, &mut sum), |_, (mut row, sum)| {
            for k in 0..row.len() {
                row[k] = row[k] / *sum;
            }
        });
    });
}

#[test]
fn a_warp_has_a_row() {
    for (rows, columns) in [(1, 1), (3, 5), (9, 32), (4, 100), (5, 33)] {
        let x = floats(rows * columns);
        let out =
            both!(softmax(value columns, read x, write vec![0.0f32; rows * columns])).unwrap();
        for row in out.chunks(columns) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }
}

#[kernel]
fn dots(columns: usize, x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() * columns);
    blocks(Threads::<64>, warps(out, 2), |block, out| {
        let first = out.start();
        let count = x.len() / columns;
        let mut sum = block.per_thread(0.0f32);
        block.each(&mut sum, |t, s| {
            let (row, lane) = (first + t / 32, t % 32);
            if row < count {
                for k in (lane..columns).step_by(32) {
                    *s += x[row * columns + k];
                }
            }
        });
        block.warp_sum(&mut sum);
        // Only the first lane has an item.
        block.each((out, &mut sum), |t, (o, s)| *o = *s + (t % 32) as f32);
    });
}

#[test]
fn a_warp_has_an_element() {
    for (rows, columns) in [(1, 1), (3, 5), (9, 32), (4, 100)] {
        let x = floats(rows * columns);
        let out = both!(dots(value columns, read x, write vec![0.0f32; rows])).unwrap();
        for (row, sum) in x.chunks(columns).zip(out) {
            let exact: f64 = row.iter().map(|x| f64::from(*x)).sum();
            assert!((f64::from(sum) - exact).abs() < 1e-2);
        }
    }
}

#[device]
fn total<const N: usize>(
    block: &mut Block<N>,
    tile: &mut Shared<[i32; 128]>,
    x: &mut PerThread<i32, N>,
) -> i32 {
    if block.threads() > 512 {
        return -1;
    }
    block.each((&mut *tile, x), |_, (t, x)| {
        *t = *x;
        *x += 1;
    });
    let mut sum = 0;
    for i in 0..128 {
        sum += tile[i];
    }
    sum
}

#[kernel]
fn collectives(x: &[i32], sums: &mut [i32], all: &mut [i32], kept: &mut [u32]) {
    assert!(x.len() == all.len() && kept.len() == all.len());
    blocks(
        Threads::<128>,
        (sums, chunks(all, 128), chunks(kept, 128)),
        |block, (sum, mut all, mut kept)| {
            let first = all.start();
            let mut own = block.per_thread(0i32);
            block.each((&mut own, &mut all), |i, (own, _)| *own = x[first + i]);
            let mut tile = block.shared([0i32; 128]);
            let mut result = total(block, &mut tile, &mut own);
            result += total(block, &mut tile, &mut own);
            let s = block.sum(&own);
            let low = block.min(&own);
            let high = block.max(&own);
            let mut before = block.per_thread(0i32);
            block.each((&mut before, &mut own), |_, (b, x)| *b = *x);
            let scanned = block.scan(&mut before);
            let mut odd = block.per_thread(false);
            block.each((&mut odd, &mut own), |_, (odd, x)| *odd = *x & 1 == 1);
            let mut slot = block.per_thread(0u32);
            let count = block.compact(&odd, &mut slot);
            let mut bits = block.per_thread(0u32);
            block.warp_ballot(&odd, &mut bits);
            let mut from = block.per_thread(0u32);
            block.each(&mut from, |i, f| *f = (i as u32 * 7) % 32);
            let mut moved = block.per_thread(0i32);
            block.each((&mut moved, &mut own), |_, (m, x)| *m = *x);
            block.warp_broadcast(&mut moved, &from);
            block.warp_xor(&mut moved, 5);
            block.warp_scan(&mut moved);
            let third = block.broadcast(&own, 3);
            let one = block.one(|| x[first] + 1);
            block.each((&mut all, &mut before, &mut moved), |_, (a, b, m)| {
                *a = b.wrapping_add(m.wrapping_mul(3))
            });
            block.each((&mut kept, &mut slot, &mut bits, &mut odd), |_, (k, s, b, odd)| {
                *k = if *odd { *s } else { *b }
            });
            sum.set(result ^ s ^ low ^ high ^ scanned ^ count as i32 ^ third ^ one);
        },
    );
}

#[test]
fn functions_of_warps_and_blocks() {
    for n in [0usize, 1, 31, 33, 128, 300] {
        let x: Vec<i32> = words(n).iter().map(|x| *x as i32 % 1000).collect();
        let blocks = n.div_ceil(128);
        both!(collectives(read x, write vec![0i32; blocks], write vec![0i32; n], write vec![0u32; n])).unwrap();
    }
}

#[kernel]
fn steps(count: usize, x: &mut [f32]) {
    blocks(Threads::<64>, chunks(x, 64), |block, mut x| {
        let n = x.len();
        let mut now = block.shared([0.0f32; 64]);
        let mut next = block.shared([0.0f32; 64]);
        block.each((&mut now, &mut x), |_, (t, x)| *t = *x);
        for _ in 0..count {
            block.each(&mut next, |i, t| {
                let left = if i > 0 { now[i - 1] } else { 0.0 };
                let right = if i + 1 < n { now[i + 1] } else { 0.0 };
                *t = 0.25 * left + 0.5 * now[i] + 0.25 * right;
            });
            std::mem::swap(&mut now, &mut next);
        }
        block.each(&mut x, |i, x| *x = now[i]);
    });
}

#[test]
fn handles_are_swapped() {
    for n in SIZES {
        both!(steps(value 5usize, write floats(n))).unwrap();
    }
}
