//! The kernels: bodies of `f(real a, const real* x, real* y, real* out, const unsigned* index, unsigned n)` for thread
//! i < n.
//!
//! `x`, `y` and `out` have four numbers for each thread: `s`, `own` and `t` are the thread's. Of `index`, there are
//! `trips`, which is below 8, `rows` of `columns` (row i is from `rows[i]` to `rows[i + 1]`), and 4 n `columns` below 4 n.

/// Loops that end where their condition says.
pub(super) const DYNAMIC: [(&str, &str); 17] = [
    (
        "a product",
        "real p = 1; for (unsigned k = 0; k < trips; ++k) p *= s[0] * a; t[0] = p;",
    ),
    (
        "a product of different factors",
        "real p = s[1]; for (unsigned k = 0; k < trips; ++k) p *= s[k & 3] + a; t[0] = p;",
    ),
    (
        "overwritten locals",
        "real p = s[0], q = s[1];
         for (unsigned k = 0; k < trips; ++k) {
             real old = p; p = p * q * real(0.5) + a; q = old - q * p * real(0.25); p *= real(0.5);
         }
         t[0] = p; t[1] = q;",
    ),
    (
        "nested loops",
        "real sum = 0;
         for (unsigned j = 0; j < trips; ++j) {
             real row = s[1];
             for (unsigned k = 0; k < (j + trips) % 5; ++k) row = row * s[0] * real(0.5) + a;
             sum = sum * s[2] * real(0.5) + row;
         }
         t[0] = sum;",
    ),
    (
        "three nested loops",
        "for (unsigned r = 0; r < 2; ++r)
             for (unsigned c = 0; c < 2; ++c) {
                 real sum = 0;
                 for (unsigned k = 0; k < trips; ++k)
                     sum += x[(4 * i + 2 * r + 5 * k) % (4 * n)] * x[(4 * i + c + 3 * k) % (4 * n)];
                 t[2 * r + c] = a * sum;
             }",
    ),
    (
        "a while loop that swaps two variables",
        "real p = s[0], q = s[1]; unsigned k = trips;
         while (k) { real next = p * real(0.5) + q * a; p = q; q = next; --k; }
         t[0] = p * q; t[1] = q;",
    ),
    (
        "a greatest common divisor",
        "unsigned p = columns[4 * i] + 1, q = columns[4 * i + 1] + 1; real v = s[0];
         while (q) { unsigned r = p % q; p = q; q = r; v = v * a + s[q & 3] * s[1]; }
         t[0] = v; t[p & 3] = v * s[2];",
    ),
    (
        "do while",
        "real v = s[0]; unsigned k = 0;
         do { v = v * s[1] * real(0.5) + a; ++k; } while (k < trips);
         t[0] = v * v;",
    ),
    (
        "a counter that goes down, in threes",
        "real v = s[3]; for (int k = 3 * int(trips) - 2; k >= 0; k -= 3) v = v * real(0.5) + s[k & 3] * s[0] * a; t[0] = v;",
    ),
    (
        "a number as the counter",
        "real v = 0;
         #pragma unroll 1
         for (real z = 0; z < real(1.9); z += real(0.375)) v += z * s[0] * s[0] + a * s[1]; t[0] = v;",
    ),
    (
        "an active counter",
        "real v = 0, h = real(0.4) + a * real(0.25); for (real z = s[0]; z < 2; z += h) v += z * z * s[1]; t[0] = v;",
    ),
    (
        "set bits",
        "real v = 1; for (unsigned m = columns[4 * i]; m; m &= m - 1) v = v * s[__popc(m) & 3] * a + s[0]; t[0] = v;",
    ),
    (
        "a list",
        "real v = s[0]; unsigned j = 4 * i; for (unsigned k = 0; k < trips; ++k) { j = columns[j]; v = v * a + x[j] * s[1]; } t[0] = v;",
    ),
    (
        "one loop after another",
        "real p = 1, q = 0;
         for (unsigned k = 0; k < trips; ++k) p = p * s[k & 3] * a + q;
         for (unsigned k = 0; k < (trips ^ 5); ++k) q = q * p * real(0.25) + s[k & 3];
         for (unsigned k = 0; k < 3 + trips; ++k) p += q * q * real(0.125) * p;
         t[0] = p; t[1] = q;",
    ),
    (
        "trips by data of the iteration outside",
        "real v = s[0] + 1;
         for (unsigned j = 0; j < trips; ++j) {
             int most = int(fabs(v) * 3);
             for (int k = 0; k < most; ++k) v = v * real(0.75) + a * s[(j + k) & 3];
         }
         t[0] = v;",
    ),
    (
        "many variables",
        "real p0 = s[0], p1 = s[1], p2 = s[2], p3 = s[3], p4 = a, p5 = s[0] * a, p6 = 1, p7 = s[1] * s[2], p8 = 0, p9 = s[3];
         for (unsigned k = 0; k < trips; ++k) {
             real q = p0 * p9 * real(0.25); p0 = p1 - p5 * q; p1 = p2 * a; p2 = p3 + p8; p3 = p4 * p4 * real(0.5);
             p4 = p5 - q; p5 = p6 * s[k & 3]; p6 = p7 * real(0.5); p7 = p8 + p0; p8 = p9 * p1 * real(0.5); p9 = q;
         }
         t[0] = p0 * p1 + p2; t[1] = p3 * p4 + p5; t[2] = p6 * p7 + p8; t[3] = p9;",
    ),
    (
        "a final accumulator",
        "real sum = 0; for (unsigned k = 0; k < trips; ++k) sum += s[k & 3] * s[k & 3];
         real mean = sum / (trips + 1); t[0] = mean * mean * a; t[1] = sqrt(sum + 1) * mean;",
    ),
];

/// Loops that are left, or go on, in the middle; and choices in loops.
pub(super) const EXITS: [(&str, &str); 18] = [
    (
        "break",
        "real v = s[0], w = 0;
         for (unsigned k = 0; k < trips; ++k) { v = v * v * real(0.5) + s[k & 3]; if (v > real(1.1)) break; w += v * a; }
         t[0] = v; t[1] = w * v;",
    ),
    (
        "continue",
        "real v = s[0];
         for (unsigned k = 0; k < 2 * trips; ++k) {
             if (columns[(4 * i + k) % (4 * n)] % 3 == 0) continue;
             if (s[k & 3] < 0) continue;
             v = v * real(0.5) + s[k & 3] * a;
         }
         t[0] = v * s[1];",
    ),
    (
        "break and continue of both loops",
        "real v = s[0];
         for (unsigned j = 0; j < trips; ++j) {
             for (unsigned k = 0; k < 4; ++k) {
                 if (s[k] > v) { v += s[k] * a; goto next; }
                 if (v > 3) goto done;
                 if (k == trips) break;
                 v = v * s[k] * real(0.5) + real(0.25);
             }
             v *= a;
             next: v -= s[j & 3] * real(0.5) * v;
         }
         done: t[0] = v * v;",
    ),
    (
        "an early return",
        "real v = s[1];
         for (unsigned k = 0; k < trips; ++k) { v = v * s[0] * real(0.5) + a; if (v > real(1.2)) { t[1] = v * v; return; } }
         t[0] = v;",
    ),
    (
        "an early return out of two loops",
        "real v = s[1], w = 1;
         for (unsigned j = 0; j < trips; ++j) {
             for (unsigned k = j; k < trips; ++k) {
                 v = v * s[k & 3] * real(0.5) + a;
                 if (v < real(-0.5)) { t[0] = v * w; return; }
                 w *= real(0.5) + v * real(0.25);
             }
             if (w > real(1.5)) { t[1] = w * w * s[0]; return; }
             t[2] = w;
         }
         t[3] = v * w;",
    ),
    (
        "an end in the middle",
        "real v = s[0]; unsigned k = 0;
         for (;;) { v = v * real(0.5) + s[k & 3]; if (++k > trips) break; v *= a; }
         t[0] = v * v;",
    ),
    (
        "ends that lead to different places",
        "real v = s[0], w = s[1];
         for (unsigned k = 0; k < trips; ++k) {
             v = v * real(0.75) + s[k & 3] * a; if (v > 1) goto high;
             w = w * v * real(0.5) + s[2]; if (w < -1) goto low;
         }
         t[0] = v * w; return;
         high: t[1] = v * v * w; return;
         low: t[2] = w * w * w + v;",
    ),
    (
        "a ternary",
        "real v = s[0]; for (unsigned k = 0; k < trips; ++k) v = s[k & 3] > v ? v * a + s[k & 3] : s[k & 3] - v * s[0] * real(0.5); t[0] = v;",
    ),
    (
        "the largest and where it is",
        "real most = -10; unsigned at = 0; for (unsigned k = 0; k <= trips; ++k) { real v = x[(4 * i + 3 * k) % (4 * n)] * a; if (v > most) { most = v; at = k; } }
         t[0] = most * most; t[1] = s[at & 3] * most;",
    ),
    (
        "least and largest",
        "real low = a, high = a; for (unsigned k = 0; k < trips; ++k) { low = min(low, s[k & 3] * s[0]); high = fmax(high, s[k & 3] + low); } t[0] = low * high;",
    ),
    (
        "what is not chosen",
        "real sum = 0;
         for (unsigned k = 0; k < trips; ++k) {
             real d = s[k & 3] > 0 ? s[k & 3] : real(0); real q = s[1] / d;
             sum = sum * real(0.5) + (d > 0 ? q * d * d : a) + (d > real(0.1) ? sqrt(d) : s[2]);
         }
         t[0] = sum;",
    ),
    (
        "branches",
        "real v = s[0], w = s[1];
         for (unsigned k = 0; k < trips; ++k) {
             if (s[k & 3] > 0) { v = v * real(0.5) + w * a; if (v > 1) w = w * w * real(0.25); }
             else { real old = v; v = w * s[2] * real(0.5); w = old; }
         }
         t[0] = v; t[1] = w;",
    ),
    (
        "a loop in a branch in a loop",
        "real v = s[0];
         for (unsigned j = 0; j < trips; ++j) {
             if (s[j & 3] > 0) { for (unsigned k = 0; k < j; ++k) v = v * s[k & 3] * real(0.5) + a; }
             else v = v * real(0.5) - s[1] * v;
         }
         t[0] = v;",
    ),
    (
        "a switch",
        "real v = s[0];
         for (unsigned k = 0; k < trips; ++k)
             switch ((k + trips) % 5) {
                 case 0: v *= s[1]; break;
                 case 1: v = v / (2 + s[2] * s[2]); // falls through
                 case 2: v += a * s[3]; break;
                 case 3: continue;
                 default: v = v * v * real(0.25);
             }
         t[0] = v;",
    ),
    (
        "Newton's method",
        "real c = 1 + s[0] * s[0], r = 1 + fabs(s[1]) * a;
         for (int k = 0; k < 50; ++k) { real d = (r * r - c) / (2 * r); r -= d; if (fabs(d) < real(1e-3)) break; }
         t[0] = r * s[2];",
    ),
    (
        "until it is small",
        "real v = 2 + s[0], sum = 0; while (v > real(0.1)) { sum += v * s[1]; v *= real(0.5) + a * real(0.25); } t[0] = sum; t[1] = v;",
    ),
    (
        "steps that are halved",
        "real q = s[0], z = 0, h = real(0.5); int iterations = 0;
         while (z < 1 && ++iterations < 40) {
             real k1 = -a * q * q * q, k2 = -a * (q + h * k1) * (q + h * k1) * (q + h * k1);
             if (fabs(k1 - k2) * h > real(0.02)) { h *= real(0.5); continue; }
             q += h * real(0.5) * (k1 + k2); z += h;
         }
         t[0] = q;",
    ),
    (
        "what an inner loop ends with",
        "real v = s[0], w = 0; unsigned k = 0;
         for (unsigned j = 0; j < trips; ++j) {
             for (k = j; k < 6 && v < 1; ++k) v = v * real(0.75) + s[k & 3] * s[k & 3] * a;
             w = w * real(0.5) + v * s[k & 3]; v -= real(0.75);
         }
         t[0] = w; t[k & 3] = v * w;",
    ),
];

/// Loops over local arrays.
pub(super) const ARRAYS: [(&str, &str); 15] = [
    (
        "an array that is overwritten",
        "real v[4] = {s[0], s[1], s[2], s[3]};
         for (unsigned k = 0; k < trips; ++k) v[k & 3] = v[(k + 1) & 3] * a + v[k & 3] * s[1] * real(0.5);
         for (unsigned k = 0; k < 4; ++k) t[k] = v[k];",
    ),
    (
        "an array that is read and written anywhere",
        "real v[8]; for (unsigned k = 0; k < 8; ++k) v[k] = s[k & 3] * (k + 1);
         for (unsigned k = 0; k < 2 * trips; ++k) { unsigned j = columns[(4 * i + k) % (4 * n)] % 8; v[j] = v[j] * v[(j + trips) % 8] * real(0.125) + a; }
         t[0] = v[trips]; t[1] = v[0] * v[7 - trips];",
    ),
    (
        "bubble sort",
        "real v[6] = {s[0], s[1], s[2], s[3], s[0] * s[1], a};
         for (int j = 5; j > 0; --j) for (int k = 0; k < j; ++k) if (v[k] > v[k + 1]) { real old = v[k]; v[k] = v[k + 1]; v[k + 1] = old; }
         t[0] = v[trips % 6] * v[0]; t[1] = v[5] * v[4];",
    ),
    (
        "bubble sort until nothing moves",
        "real v[8]; for (unsigned k = 0; k <= trips; ++k) v[k] = x[(4 * i + 3 * k) % (4 * n)] * a;
         for (bool moved = true; moved;) {
             moved = false;
             for (unsigned k = 0; k < trips; ++k) if (v[k] > v[k + 1]) { real old = v[k]; v[k] = v[k + 1]; v[k + 1] = old; moved = true; }
         }
         t[0] = v[0] * s[1]; t[1] = v[trips / 2] * v[trips];",
    ),
    (
        "Horner's scheme",
        "real c[8]; for (unsigned k = 0; k <= trips; ++k) c[k] = s[k & 3] * a + real(k) * real(0.125);
         real p = 0; for (int k = trips; k >= 0; --k) p = p * s[0] * real(0.75) + c[k]; t[0] = p;",
    ),
    (
        "structures",
        "particle p[4]; for (unsigned k = 0; k < 4; ++k) p[k] = {s[k], s[(k + 1) & 3] * a};
         for (unsigned k = 0; k < 2 * trips; ++k) { particle& q = p[k & 3]; q.place += q.speed * real(0.25); q.speed -= p[(k + 1) & 3].place * q.place * real(0.25); }
         t[0] = p[trips & 3].place; t[1] = p[0].speed * p[3].place;",
    ),
    (
        "vectors of four",
        "real4 v[3]; for (unsigned k = 0; k < 3; ++k) v[k] = ((const real4*)x)[(i + k) % n];
         for (unsigned k = 0; k < trips; ++k) { real4 w = v[k % 3]; w.x *= a; w.y += w.x * w.z * real(0.5); v[(k + 1) % 3] = w; }
         ((real4*)out)[i] = v[trips % 3];",
    ),
    (
        "a small network",
        "real hidden[12]; unsigned units = 4 + trips;
         for (unsigned h = 0; h < units; ++h) {
             real sum = a; for (unsigned k = 0; k < 4; ++k) sum += x[(5 * h + k) % (4 * n)] * s[k];
             hidden[h] = sum > 0 ? sum : real(0.125) * sum;
         }
         real sum = 0; for (unsigned h = 0; h < units; ++h) sum += hidden[h] * hidden[units - 1 - h] * x[(3 * h) % (4 * n)];
         t[0] = sum; t[1] = hidden[trips];",
    ),
    (
        "a system of equations",
        "real m[3][4];
         for (int r = 0; r < 3; ++r) for (int c = 0; c < 4; ++c) m[r][c] = (r == c ? 3 : 0) + s[(r + c) & 3] * real(0.5) + (c == 3 ? a * real(r + 1) : real(0));
         for (int c = 0; c < 3; ++c) {
             int p = c; for (int r = c + 1; r < 3; ++r) if (fabs(m[r][c]) > fabs(m[p][c])) p = r;
             for (int k = 0; k < 4; ++k) { real old = m[c][k]; m[c][k] = m[p][k]; m[p][k] = old; }
             for (int r = c + 1; r < 3; ++r) { real f = m[r][c] / m[c][c]; for (int k = c; k < 4; ++k) m[r][k] -= f * m[c][k]; }
         }
         for (int r = 2; r >= 0; --r) { real v = m[r][3]; for (int k = r + 1; k < 3; ++k) v -= m[r][k] * t[k]; t[r] = v / m[r][r]; }",
    ),
    (
        "sums of others in an array",
        "real bins[4] = {0, 0, a, 1}; for (unsigned k = rows[i]; k < rows[i + 1]; ++k) bins[columns[k] & 3] += x[columns[k]] * s[k & 3];
         for (unsigned k = 0; k < 4; ++k) t[k] = bins[k] * bins[(k + trips) & 3];",
    ),
    (
        "quotients and products in place",
        "real v[4] = {s[0], s[1], s[2], s[3]};
         for (unsigned k = 0; k < trips; ++k) { v[k & 3] *= s[(k + 1) & 3]; v[(k + 2) & 3] /= 2 + v[k & 3] * v[k & 3]; v[trips & 3] -= a * v[0]; }
         t[0] = v[0] + v[1]; t[1] = v[2] * v[3];",
    ),
    (
        "an array that functions change",
        "real v[5]; for (int k = 0; k < 5; ++k) v[k] = s[k & 3] * a;
         for (unsigned k = 0; k < trips; ++k) iteration(v, 5, columns[4 * i] + k);
         t[0] = total(v, 1 + trips % 5); t[1] = v[trips % 5];",
    ),
    (
        "an array that each iteration begins anew",
        "real sum = 0;
         for (unsigned j = 0; j < trips; ++j) {
             real v[4]; for (unsigned k = 0; k < 4; ++k) v[k] = s[k] + sum * real(0.125);
             v[j & 3] = v[(j + trips) & 3] * v[3]; sum += v[columns[4 * i] & 3] * a;
         }
         t[0] = sum;",
    ),
    (
        "an array of which a part is overwritten by what does not depend on anything",
        "real v[4] = {s[0], s[1], s[2], s[3]}; for (unsigned k = 0; k < trips; ++k) { v[columns[(4 * i + k) % (4 * n)] & 3] = real(0.5); v[k & 3] += a * s[0]; }
         t[0] = v[0] * v[1]; t[1] = v[2] * v[3];",
    ),
    (
        "an array of the last values",
        "real v[4] = {0, 0, 0, 0}; real w = s[0];
         for (unsigned k = 0; k < 3 * trips; ++k) { w = w * real(0.5) + s[k & 3] + v[(k + 1) & 3] * a * real(0.25); v[k & 3] = w; }
         t[0] = v[trips & 3] * w;",
    ),
];

/// Loops that store to memory, or add to it.
pub(super) const MEMORY: [(&str, &str); 15] = [
    (
        "a product in place",
        "for (unsigned k = 0; k < trips; ++k) own[0] *= s[k & 3];",
    ),
    (
        "a quotient in place",
        "for (unsigned k = 0; k < trips; ++k) own[k & 3] /= 2 + s[k & 3] * s[k & 3] * own[(k + 1) & 3] * own[(k + 1) & 3];",
    ),
    (
        "products in place before and behind a loop",
        "own[0] *= s[0]; real v = own[0]; for (unsigned k = 0; k < trips; ++k) v *= s[k & 3]; own[0] /= 2 + v * v; own[1] *= own[0] * a;",
    ),
    (
        "memory that each iteration overwrites",
        "for (unsigned k = 0; k < trips; ++k) own[k & 3] = own[(k + 1) & 3] * s[0] + a;",
    ),
    (
        "memory that nested loops overwrite",
        "for (unsigned j = 0; j < trips; ++j) { for (unsigned k = 0; k < j; ++k) own[k & 3] = own[j & 3] * s[k & 3] * real(0.5) + a; own[j & 3] -= own[0] * s[1]; }",
    ),
    (
        "an output that is read again",
        "t[0] = s[0]; for (unsigned k = 0; k < trips; ++k) t[0] = t[0] * a + s[k & 3] * t[0] * real(0.25);",
    ),
    (
        "an output that is stored twice in each iteration",
        "real v = s[0]; for (unsigned k = 0; k < trips; ++k) { t[0] = v; v = v * a + s[k & 3]; t[0] = v * s[1]; t[k & 3] = v; }",
    ),
    (
        "partial sums",
        "real sum = 0; for (unsigned k = 0; k < (trips & 3) + 1; ++k) { sum += s[k] * s[k] * a; t[k] = sum; }",
    ),
    (
        "partial sums in place",
        "for (unsigned k = 1; k < (trips & 3) + 1; ++k) own[k] += own[k - 1] * s[k] * a;",
    ),
    (
        "springs",
        "for (unsigned k = rows[i]; k < rows[i + 1]; ++k) {
             unsigned j = columns[k]; real d = x[j] - s[0], f = a * d * (1 + d * d * real(0.25));
             atomicAdd(&y[j], f); atomicAdd(&y[4 * i + 1], -f * s[1]);
         }",
    ),
    (
        "a matrix of rows",
        "real sum = 0; for (unsigned k = rows[i]; k < rows[i + 1]; ++k) sum += x[k] * y[columns[k]]; t[0] = a * sum;",
    ),
    (
        "ragged rows",
        "real most = 0, sum = 0; for (unsigned k = rows[i]; k < rows[i + 1]; ++k) { sum = sum * a + x[k] * x[k]; most = fmax(most, sum); } t[0] = sum * most; t[1] = most;",
    ),
    (
        "a sum of all threads",
        "for (unsigned k = 0; k < trips; ++k) atomicAdd(&y[k & 3], s[k & 3] * s[0] * a);",
    ),
    (
        "sums at the end of each iteration, and a break",
        "real v = s[0]; for (unsigned k = 0; k < 8; ++k) { v = v * real(0.5) + s[k & 3]; atomicAdd(&own[k & 3], v * a); if (v > 1 || k == trips) break; }",
    ),
    (
        "a stencil",
        "int radius = trips & 3; real sum = 0;
         for (int o = -radius; o <= radius; ++o) { unsigned j = (i + n * 4 + o) % n; sum += x[4 * j] * x[4 * j + 1] / real(1 + o * o); }
         t[0] = sum - a * s[0] * sum;",
    ),
];

/// Larger ones.
pub(super) const WHOLE: [(&str, &str); 8] = [
    (
        "64 steps of an integrator",
        "real q = s[0], p = s[1], h = real(0.0625);
         #pragma unroll 1
         for (int k = 0; k < 64; ++k) { p -= h * (a * q + q * q * q * real(0.25)); q += h * p; }
         t[0] = q; t[1] = p;",
    ),
    (
        "64 steps that were unrolled",
        "real q = s[0], p = s[1], h = real(0.0625);
         #pragma unroll
         for (int k = 0; k < 64; ++k) { p -= h * (a * q + q * q * q * real(0.25)); q += h * p; }
         t[0] = q; t[1] = p;",
    ),
    (
        "as many steps of Runge and Kutta as are asked for",
        "real q = s[0], p = s[1], h = real(0.125);
         for (unsigned k = 0; k < 2 * trips; ++k) {
             real q1 = p, p1 = force(q, a), q2 = p + h / 2 * p1, p2 = force(q + h / 2 * q1, a);
             real q3 = p + h / 2 * p2, p3 = force(q + h / 2 * q2, a), q4 = p + h * p3, p4 = force(q + h * q3, a);
             q += h / 6 * (q1 + 2 * q2 + 2 * q3 + q4); p += h / 6 * (p1 + 2 * p2 + 2 * p3 + p4);
         }
         t[0] = q; t[1] = p;",
    ),
    (
        "functions with loops",
        "real v = s[0]; for (unsigned k = 0; k < trips; ++k) { v = power(v, k & 3) * real(0.5) + a; change(v, s[k & 3]); v *= real(0.25); } t[0] = v;",
    ),
    (
        "vectors of four by way of a pointer that is chosen",
        "real4 sum = {0, 0, 0, 0};
         for (unsigned k = 0; k < trips; ++k) {
             const real4* p = (const real4*)x + (s[k & 3] > 0 ? i : (i + k) % n);
             real4 v = *p; sum.x += v.x * v.y; sum.y = sum.y * v.z * real(0.5) + v.w; sum.z -= a * v.x; sum.w *= v.w;
         }
         ((real4*)out)[i] = sum;",
    ),
    (
        "wider numbers",
        "double sum = 0; for (unsigned k = 0; k < trips; ++k) sum = sum * 0.5 + double(s[k & 3]) * double(a) * s[0]; t[0] = real(sum * sum);",
    ),
    (
        "two sums of products, in twos",
        "real even = 0, odd = 0; const real* p = x + 4 * i;
         for (unsigned k = 0; k + 1 < trips + 1; k += 2) { even = even * real(0.5) + p[0] * p[1]; odd += p[1] * even * a; p = x + (4 * i + 2 * k + 2) % (4 * n - 2); }
         t[0] = even; t[1] = odd;",
    ),
    (
        "a fraction that is continued",
        "real v = 1; for (int k = trips; k > 0; --k) v = k + s[k & 3] * s[k & 3] / v; t[0] = a / v; t[1] = v * s[0];",
    ),
];
