// Programs over blocks of threads, for numbers of type `F`. The module is included once for each type.

/// The softmax of each row, of which a block has one.
#[kernel(gradient)]
pub(in crate::rust) fn softmax(columns: usize, x: &[F], out: &mut [F]) {
    assert!(x.len() == out.len() && columns > 0);
    blocks(Threads::<64>, chunks(out, columns), |block, mut out| {
        let (first, n) = (out.start(), out.len());
        let mut most = block.per_thread(F::NEG_INFINITY);
        let mut sum: PerThread<F, 64> = block.per_thread(0.0);
        block.each(&mut most, |t, most| {
            for k in (t..n).step_by(64) {
                *most = most.max(x[first + k]);
            }
        });
        let top = block.max(&most);
        block.each(&mut sum, |t, sum| {
            for k in (t..n).step_by(64) {
                *sum += (x[first + k] - top).exp();
            }
        });
        let total = block.sum(&sum);
        block.each(&mut out, |k, out| *out = (x[first + k] - top).exp() / total);
    });
}

/// The same, with a warp for each row.
#[kernel(gradient)]
pub(in crate::rust) fn softmax_by_warps(columns: usize, x: &[F], out: &mut [F]) {
    assert!(x.len() == out.len());
    blocks(Threads::<128>, warps(rows(out, columns), 4), |block, mut out| {
        let first = out.start();
        let mut top = block.per_thread(F::NEG_INFINITY);
        let mut sum: PerThread<F, 128> = block.per_thread(0.0);
        block.each((&mut out, &mut top), |t, (row, top)| {
            for k in 0..row.len() {
                *top = top.max(x[(first + t / 32) * columns + row.column(k)]);
            }
        });
        block.warp_max(&mut top);
        block.each((&mut out, &mut top, &mut sum), |t, (row, top, sum)| {
            for k in 0..row.len() {
                *sum += (x[(first + t / 32) * columns + row.column(k)] - *top).exp();
            }
        });
        block.warp_sum(&mut sum);
        block.each((out, &mut top, &mut sum), |t, (mut row, top, sum)| {
            for k in 0..row.len() {
                row[k] = (x[(first + t / 32) * columns + row.column(k)] - *top).exp() / *sum;
            }
        });
    });
}

/// Rows with the mean 0 and the variance 1, whose columns are then scaled and moved.
#[kernel(gradient)]
pub(in crate::rust) fn layer_norm(columns: usize, x: &[F], scale: &[F], shift: &[F], out: &mut [F]) {
    assert!(x.len() == out.len() && scale.len() == columns && shift.len() == columns && columns > 0);
    blocks(Threads::<96>, chunks(out, columns), |block, mut out| {
        let first = out.start();
        let by = 1.0 / F::from_f64(columns as f64);
        let mut own: PerThread<F, 96> = block.per_thread(0.0);
        block.each(&mut own, |t, own| {
            for k in (t..columns).step_by(96) {
                *own += x[first + k];
            }
        });
        let sum = block.sum(&own);
        let mean = by * sum;
        block.each(&mut own, |t, own| {
            *own = 0.0;
            for k in (t..columns).step_by(96) {
                *own += (x[first + k] - mean).powi(2);
            }
        });
        let square = block.sum(&own);
        let by = 1.0 / (by * square + 1e-5).sqrt();
        block.each(&mut out, |k, out| *out = (x[first + k] - mean) * by * scale[k] + shift[k]);
    });
}

/// The same by warps.
#[kernel(gradient)]
pub(in crate::rust) fn layer_norm_by_warps(columns: usize, x: &[F], scale: &[F], shift: &[F], out: &mut [F]) {
    assert!(x.len() == out.len() && scale.len() == columns && shift.len() == columns);
    blocks(Threads::<64>, warps(rows(out, columns), 2), |block, mut out| {
        let first = out.start();
        let by = 1.0 / F::from_f64(columns as f64);
        let mut mean: PerThread<F, 64> = block.per_thread(0.0);
        let mut square: PerThread<F, 64> = block.per_thread(0.0);
        block.each((&mut out, &mut mean), |t, (row, mean)| {
            let start = (first + t / 32) * columns + t % 32;
            let mut sum = 0.0;
            for k in 0..row.len() {
                sum += x[start + 32 * k];
            }
            *mean = by * sum;
        });
        block.warp_sum(&mut mean);
        block.each((&mut out, &mut mean, &mut square), |t, (row, mean, square)| {
            let start = (first + t / 32) * columns + t % 32;
            for k in 0..row.len() {
                let d = x[start + 32 * k] - *mean;
                *square += d * d;
            }
        });
        block.warp_sum(&mut square);
        block.each((out, &mut mean, &mut square), |t, (mut row, mean, square)| {
            let lane = t % 32;
            let start = (first + t / 32) * columns + lane;
            let by = 1.0 / (*square * by + 1e-5).sqrt();
            for k in 0..row.len() {
                row[k] = (x[start + 32 * k] - *mean) * by * scale[lane + 32 * k] + shift[lane + 32 * k];
            }
        });
    });
}

/// A network of two layers with 16 hidden units, for samples of 8 numbers. A block loads the weights once.
#[kernel(gradient)]
pub(in crate::rust) fn perceptron(weights: &[F], x: &[F], out: &mut [F]) {
    assert!(weights.len() == 161 && x.len() == 8 * out.len());
    blocks(Threads::<32>, chunks(out, 32), |block, out| {
        let first = out.start();
        let mut shared = block.shared([0.0; 161]);
        block.load(&mut shared, weights, 0, 0.0);
        block.each(out, |i, out| {
            let mut result = shared[160];
            for unit in 0..16 {
                let mut sum = shared[128 + unit];
                for k in 0..8 {
                    sum += shared[8 * unit + k] * x[8 * (first + i) + k];
                }
                result += shared[144 + unit] * sum.max(0.1 * sum);
            }
            *out = result.tanh();
        });
    });
}

/// Attention of queries of 4 numbers, with a softmax that is computed on the way through tiles of keys. A thread has a
/// query.
#[kernel(gradient)]
pub(in crate::rust) fn attention(n: usize, q: &[F], k: &[F], v: &[F], out: &mut [F]) {
    assert!(q.len() == 4 * n && k.len() == 4 * n && v.len() == 4 * n && out.len() == 4 * n);
    blocks(Threads::<32>, chunks(out, 128), |block, mut out| {
        let first = out.start() / 4;
        let mut keys = block.shared([[0.0; 4]; 16]);
        let mut values = block.shared([[0.0; 4]; 16]);
        let mut shown = block.shared([0.0; 128]);
        let mut sum: PerThread<[F; 4], 32> = block.per_thread([0.0; 4]);
        let mut total: PerThread<F, 32> = block.per_thread(0.0);
        let mut top: PerThread<F, 32> = block.per_thread(-1e30);
        for start in (0..n).step_by(16) {
            block.load_matrix(&mut keys, k, [n, 4], [start as isize, 0], 0.0);
            block.load_matrix(&mut values, v, [n, 4], [start as isize, 0], 0.0);
            block.each((&mut sum, &mut total, &mut top), |i, (sum, total, top)| {
                if first + i < n {
                    for j in 0..(n - start).min(16) {
                        let mut score = 0.0;
                        for c in 0..4 {
                            score += q[4 * (first + i) + c] * keys[j][c];
                        }
                        let next = top.max(score);
                        let (shrink, weight) = ((*top - next).exp(), (score - next).exp());
                        *total = *total * shrink + weight;
                        for c in 0..4 {
                            sum[c] = sum[c] * shrink + weight * values[j][c];
                        }
                        *top = next;
                    }
                }
            });
        }
        block.each((shown.rows(4), &mut sum, &mut total), |_, (shown, sum, total)| {
            for c in 0..4 {
                shown[c] = sum[c] / total.max(1e-30);
            }
        });
        block.each(&mut out, |i, out| *out = shown[i]);
    });
}

/// An equation of a tridiagonal system.
#[derive(Debug, Clone, Copy, PartialEq, Device)]
#[repr(C)]
struct Equation {
    below: F,
    on: F,
    above: F,
    right: F,
}

#[device]
impl Equation {
    const NONE: Self = Self { below: 0.0, on: 1.0, above: 0.0, right: 0.0 };
}

/// The solutions of tridiagonal systems of up to 32 unknowns by parallel cyclic reduction, a block each.
#[kernel(gradient)]
pub(in crate::rust) fn tridiagonal(equations: &[[F; 4]], out: &mut [F]) {
    assert!(equations.len() == out.len());
    blocks(Threads::<32>, chunks(out, 32), |block, out| {
        let first = out.start();
        let mut now = block.shared([Equation::NONE; 32]);
        let mut next = block.shared([Equation::NONE; 32]);
        block.each(&mut now, |i, e| {
            if first + i < equations.len() {
                let [below, on, above, right] = equations[first + i];
                *e = Equation { below, on, above, right };
            }
        });
        let mut distance = 1;
        while distance < 32 {
            block.each(&mut next, |i, e| {
                let before = if i >= distance { now[i - distance] } else { Equation::NONE };
                let after = if i + distance < 32 { now[i + distance] } else { Equation::NONE };
                let (a, b) = (now[i].below / before.on, now[i].above / after.on);
                *e = Equation {
                    below: -before.below * a,
                    on: now[i].on - before.above * a - after.below * b,
                    above: -after.above * b,
                    right: now[i].right - before.right * a - after.right * b,
                };
            });
            std::mem::swap(&mut now, &mut next);
            distance *= 2;
        }
        block.each(out, |i, out| *out = now[i].right / now[i].on);
    });
}

/// As `softmax`, with a row in shared memory whose length comes with the launch.
#[kernel(gradient)]
pub(in crate::rust) fn softmax_in_slices(columns: usize, x: &[F], out: &mut [F]) {
    assert!(x.len() == out.len() && columns > 0);
    blocks(Threads::<64>, chunks(out, columns), |block, mut out| {
        let first = out.start();
        let mut row = block.shared_slice::<F>(columns, 0.0);
        let mut sum: PerThread<F, 64> = block.per_thread(0.0);
        block.each(&mut row, |k, e| *e = x[first + k].exp());
        block.each(&mut sum, |t, sum| {
            for k in (t..columns).step_by(64) {
                *sum += row[k];
            }
        });
        let total = block.sum(&sum);
        block.each(&mut out, |k, out| *out = row[k] / total); // refused: softmax_in_slices
    });
}
