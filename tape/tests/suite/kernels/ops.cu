// Operations of the tape's tests and their adjoints, for float and double.
#include <geom/tape.cuh>

using namespace geom::tape;

__device__ inline unsigned at_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// out = a x
template <typename T>
__device__ void scale(T a, const T* x, T* out, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        out[i] = a * x[i];
}
template <typename T>
__device__ void
scale_adjoint(T a, const T* x, unsigned n, T* ga, T* gx, T* gout, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    T g = i < n ? grad_take(frame, 2, at(gout, i)) : T(0);
    if (i < n)
        grad_own(frame, 1, at(gx, i), a * g);
    partial_add(frame, ga, i < n ? x[i] * g : T(0));
}

// y = x x + y, in place
template <typename T>
__device__ void square_add(const T* x, T* y, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        y[i] += x[i] * x[i];
}
template <typename T>
__device__ void square_add_adjoint(const T* x, unsigned n, T* gx, T* gy, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i < n)
        grad_own(frame, 0, at(gx, i), T(2) * x[i] * grad_read(at(gy, i)));
}

// x = sin-like polynomial of x, in place: x - x^3 / 6
template <typename T>
__device__ void bend(T* x, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        x[i] = x[i] - x[i] * x[i] * x[i] / T(6);
}
template <typename T>
__device__ void bend_adjoint(const T* x, unsigned n, T* gx, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i < n && gx)
        grad_replace(gx + i, (T(1) - x[i] * x[i] / T(2)) * gx[i]);
}

// out[i] = x[i] y[i]
template <typename T>
__device__ void multiply(const T* x, const T* y, T* out, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        out[i] = x[i] * y[i];
}
template <typename T>
__device__ void multiply_adjoint(
    const T* x, const T* y, unsigned n, T* gx, T* gy, T* gout, const Frame& frame
) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i >= n)
        return;
    // Both factors may be one buffer: their values before the gradients.
    T a = x[i], b = y[i], g = grad_take(frame, 2, at(gout, i));
    grad_own(frame, 0, at(gx, i), b * g);
    grad_own(frame, 1, at(gy, i), a * g);
}

// The same with factors that may overlap.
template <typename T>
__device__ void multiply_shared_adjoint(
    const T* x, const T* y, unsigned n, T* gx, T* gy, T* gout, const Frame& frame
) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i >= n)
        return;
    T g = grad_take(frame, 2, at(gout, i));
    grad_add(frame, 0, at(gx, i), y[i] * g);
    grad_add(frame, 1, at(gy, i), x[i] * g);
}

// loss += sum of x x
template <typename T>
__device__ void energy(const T* x, T* loss, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        atomicAdd(loss, x[i] * x[i]);
}
template <typename T>
__device__ void energy_adjoint(const T* x, unsigned n, T* gx, T* gloss, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i < n)
        grad_own(frame, 0, at(gx, i), T(2) * x[i] * grad_read(gloss));
}

// out[i] = x[index[i]]: several i may gather one x
template <typename T>
__device__ void gather(const T* x, const unsigned* index, T* out, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        out[i] = x[index[i]];
}
template <typename T>
__device__ void
gather_adjoint(const unsigned* index, unsigned n, T* gx, T* gout, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i < n)
        grad_add(frame, 0, at(gx, index[i]), grad_take(frame, 1, at(gout, i)));
}

// out = x^(1 + i % 4) by a loop whose product is carried: what must be known of each iteration
template <typename T>
__device__ void power(const T* x, T* out, unsigned n) {
    unsigned i = at_thread();
    if (i >= n)
        return;
    T product = T(1);
    for (unsigned k = 0; k <= i % 4; k++)
        product *= x[i];
    out[i] = product;
}
template <typename T>
__device__ void power_adjoint(const T* x, unsigned n, T* gx, T* gout, const Frame& frame) {
    Scratch scratch(frame);
    if (!scratch.begin())
        return;
    unsigned i = at_thread();
    if (i >= n)
        return;
    unsigned iterations = 1 + i % 4;
    T* before = scratch.take<T>(iterations);
    if (!before)
        return;
    T product = T(1);
    for (unsigned k = 0; k < iterations; k++) {
        before[k] = product;
        product *= x[i];
    }
    T g = grad_take(frame, 1, at(gout, i)), sum = T(0);
    for (unsigned k = iterations; k-- > 0;) {
        sum += before[k] * g;
        g *= x[i];
    }
    grad_own(frame, 0, at(gx, i), sum);
    scratch.finish();
}

// As `power`, times a number: threads that have run out of scratch memory add 0 to its gradient.
template <typename T>
__device__ void power_times(T a, const T* x, T* out, unsigned n) {
    power(x, out, n);
    unsigned i = at_thread();
    if (i < n)
        out[i] *= a;
}
template <typename T>
__device__ void power_times_adjoint(
    T a, const T* x, unsigned n, T* ga, T* gx, T* gout, const Frame& frame
) {
    Scratch scratch(frame);
    unsigned i = at_thread();
    T* before = scratch.begin() && i < n ? scratch.take<T>(1 + i % 4) : nullptr;
    T by_a = T(0);
    if (before) {
        T product = T(1);
        for (unsigned k = 0; k <= i % 4; k++) {
            before[k] = product;
            product *= x[i];
        }
        T g = grad_take(frame, 2, at(gout, i)), sum = T(0);
        by_a = product * g;
        g *= a;
        for (unsigned k = 1 + i % 4; k-- > 0;) {
            sum += before[k] * g;
            g *= x[i];
        }
        grad_own(frame, 1, at(gx, i), sum);
        scratch.finish();
    }
    partial_add(frame, ga, by_a);
}

// one = x, two = 2 x
template <typename T>
__device__ void split(const T* x, T* one, T* two, unsigned n) {
    unsigned i = at_thread();
    if (i < n) {
        one[i] = x[i];
        two[i] = T(2) * x[i];
    }
}
template <typename T>
__device__ void split_adjoint(unsigned n, T* gx, T* gone, T* gtwo, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i < n) {
        T one = grad_take(frame, 1, at(gone, i)), two = grad_take(frame, 2, at(gtwo, i));
        grad_own(frame, 0, at(gx, i), one + T(2) * two);
    }
}

// The same, of an adjoint that does not know of the second output.
template <typename T>
__device__ void split_one_adjoint(unsigned n, T* gx, T* gone, const Frame& frame) {
    split_adjoint(n, gx, gone, (T*)nullptr, frame);
}

// y = x y, in place
template <typename T>
__device__ void times(const T* x, T* y, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        y[i] = x[i] * y[i];
}
template <typename T>
__device__ void
times_adjoint(const T* x, const T* y, unsigned n, T* gx, T* gy, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i >= n)
        return;
    T g = grad_read(at(gy, i));
    grad_own(frame, 0, at(gx, i), y[i] * g);
    grad_replace(at(gy, i), x[i] * g);
}

// out = 3 x, by threads that go on to further elements
template <typename T>
__device__ void triple(const T* x, T* out, unsigned n) {
    for (unsigned i = at_thread(); i < n; i += gridDim.x * blockDim.x)
        out[i] = T(3) * x[i];
}
template <typename T>
__device__ void triple_adjoint(unsigned n, T* gx, T* gout, const Frame& frame) {
    if (!begin(frame))
        return;
    for (unsigned i = at_thread(); i < n; i += gridDim.x * blockDim.x)
        grad_own(frame, 0, at(gx, i), T(3) * grad_take(frame, 1, at(gout, i)));
}

template <typename T>
struct Line {
    T slope, offset;
    unsigned power;  // 1 or 2
};
// out = (slope x + offset)^power
template <typename T>
__device__ void line(Line<T> l, const T* x, T* out, unsigned n) {
    unsigned i = at_thread();
    if (i >= n)
        return;
    T y = l.slope * x[i] + l.offset;
    out[i] = l.power == 2 ? y * y : y;
}
template <typename T>
__device__ void line_adjoint(
    Line<T> l, const T* x, unsigned n, Line<T>* gl, T* gx, T* gout, const Frame& frame
) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    T g = T(0), here = T(0);
    if (i < n) {
        g = grad_take(frame, 2, at(gout, i));
        here = x[i];
        if (l.power == 2)
            g *= T(2) * (l.slope * here + l.offset);
        grad_own(frame, 1, at(gx, i), l.slope * g);
    }
    partial_add(frame, gl ? &gl->slope : nullptr, here * g);
    partial_add(frame, gl ? &gl->offset : nullptr, g);
}

template <typename T>
struct Table {
    const T* values;
    unsigned length;
};
// out[i] = table[i % length]^2, the table by a structure
template <typename T>
__device__ void look_up(Table<T> table, T* out, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        out[i] = table.values[i % table.length] * table.values[i % table.length];
}
template <typename T>
__device__ void
look_up_adjoint(Table<T> table, unsigned n, Table<T> gtable, T* gout, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i >= n)
        return;
    T g = grad_take(frame, 1, at(gout, i));
    unsigned k = i % table.length;
    grad_add(frame, 0, at((T*)gtable.values, k), T(2) * table.values[k] * g);
}

// out = exp-like series of x; the primal keeps the derivative.
template <typename T>
__device__ void series(const T* x, T* out, unsigned n, T* kept) {
    unsigned i = at_thread();
    if (i >= n)
        return;
    T v = x[i];
    out[i] = T(1) + v + v * v / T(2);
    if (kept)
        kept[i] = T(1) + v;
}
template <typename T>
__device__ void series_primal(const T* x, T* out, unsigned n, const Frame& frame) {
    if (frame.flags & COUNT) {
        if (at_thread() == 0)
            raise(frame, FINE, n * sizeof(T));
        return;
    }
    bool room = frame.tape_bytes >= n * sizeof(T);
    if (!room && at_thread() == 0)
        raise(frame, TAPE_OVERFLOW, n * sizeof(T));
    series(x, out, n, room ? (T*)frame.tape : nullptr);
}
template <typename T>
__device__ void series_adjoint(unsigned n, T* gx, T* gout, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i < n)
        grad_own(frame, 0, at(gx, i), ((const T*)frame.tape)[i] * grad_take(frame, 1, at(gout, i)));
}

// out = 1 / (2 + x), whose derivative is -out out
template <typename T>
__device__ void invert(const T* x, T* out, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        out[i] = T(1) / (T(2) + x[i]);
}
template <typename T>
__device__ void invert_adjoint(const T* out, unsigned n, T* gx, T* gout, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i < n)
        grad_own(frame, 0, at(gx, i), -out[i] * out[i] * grad_take(frame, 1, at(gout, i)));
}

// x = bend(x), whose adjoint does the same to a copy of x that it may write, and goes back from there
template <typename T>
__device__ void replay_adjoint(T* x, unsigned n, T* gx, const Frame& frame) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i >= n || !gx)
        return;
    T before = x[i];
    bend(x, n);
    // x is now before - before^3 / 6, so this is 1 - before^2 / 2 where before is not 0.
    T slope = before == T(0) ? T(1) : T(3) * (x[i] / before) - T(2);
    grad_replace(gx + i, slope * gx[i]);
}

// out = x; the adjoint tells what it was asked to do.
struct Told {
    unsigned long long assign, drop;
    unsigned gx, gout, status, unused;
};
extern "C" __global__ void probe(const float* x, float* out, Told*, unsigned n) {
    unsigned i = at_thread();
    if (i < n)
        out[i] = x[i];
}
extern "C" __global__ void probe_adjoint(
    const float*, float*, Told* told, unsigned n, float* gx, float* gout, Frame frame
) {
    if (!begin(frame))
        return;
    unsigned i = at_thread();
    if (i < n)
        grad_own(frame, 0, at(gx, i), grad_take(frame, 1, at(gout, i)));
    if (i == 0) {
        told->assign = frame.assign;
        told->drop = frame.drop;
        told->gx = gx != nullptr;
        told->gout = gout != nullptr;
        told->status = frame.status != nullptr;
    }
}

#define BOTH(T, s)                                                                                  \
    extern "C" {                                                                                    \
    __global__ void scale_##s(T a, const T* x, T* out, unsigned n) { scale(a, x, out, n); }         \
    __global__ void scale_##s##_adjoint(                                                            \
        T a, const T* x, T*, unsigned n, T* ga, T* gx, T* gout, Frame frame                         \
    ) {                                                                                             \
        scale_adjoint(a, x, n, ga, gx, gout, frame);                                                \
    }                                                                                               \
    __global__ void square_add_##s(const T* x, T* y, unsigned n) { square_add(x, y, n); }           \
    __global__ void square_add_##s##_adjoint(                                                       \
        const T* x, T*, unsigned n, T* gx, T* gy, Frame frame                                       \
    ) {                                                                                             \
        square_add_adjoint(x, n, gx, gy, frame);                                                    \
    }                                                                                               \
    __global__ void bend_##s(T* x, unsigned n) { bend(x, n); }                                      \
    __global__ void bend_##s##_adjoint(T* x, unsigned n, T* gx, Frame frame) {                      \
        bend_adjoint(x, n, gx, frame);                                                              \
    }                                                                                               \
    __global__ void multiply_##s(const T* x, const T* y, T* out, unsigned n) {                      \
        multiply(x, y, out, n);                                                                     \
    }                                                                                               \
    __global__ void multiply_##s##_adjoint(                                                         \
        const T* x, const T* y, T*, unsigned n, T* gx, T* gy, T* gout, Frame frame                  \
    ) {                                                                                             \
        multiply_adjoint(x, y, n, gx, gy, gout, frame);                                             \
    }                                                                                               \
    __global__ void multiply_shared_##s(const T* x, const T* y, T* out, unsigned n) {               \
        multiply(x, y, out, n);                                                                     \
    }                                                                                               \
    __global__ void multiply_shared_##s##_adjoint(                                                  \
        const T* x, const T* y, T*, unsigned n, T* gx, T* gy, T* gout, Frame frame                  \
    ) {                                                                                             \
        multiply_shared_adjoint(x, y, n, gx, gy, gout, frame);                                      \
    }                                                                                               \
    __global__ void energy_##s(const T* x, T* loss, unsigned n) { energy(x, loss, n); }             \
    __global__ void energy_##s##_adjoint(                                                           \
        const T* x, T*, unsigned n, T* gx, T* gloss, Frame frame                                    \
    ) {                                                                                             \
        energy_adjoint(x, n, gx, gloss, frame);                                                     \
    }                                                                                               \
    __global__ void gather_##s(const T* x, const unsigned* index, T* out, unsigned n) {             \
        gather(x, index, out, n);                                                                   \
    }                                                                                               \
    __global__ void gather_##s##_adjoint(                                                           \
        const T*, const unsigned* index, T*, unsigned n, T* gx, T* gout, Frame frame                \
    ) {                                                                                             \
        gather_adjoint(index, n, gx, gout, frame);                                                  \
    }                                                                                               \
    __global__ void power_##s(const T* x, T* out, unsigned n) { power(x, out, n); }                 \
    __global__ void power_##s##_adjoint(                                                            \
        const T* x, T*, unsigned n, T* gx, T* gout, Frame frame                                     \
    ) {                                                                                             \
        power_adjoint(x, n, gx, gout, frame);                                                       \
    }                                                                                               \
    __global__ void power_times_##s(T a, const T* x, T* out, unsigned n) {                          \
        power_times(a, x, out, n);                                                                  \
    }                                                                                               \
    __global__ void power_times_##s##_adjoint(                                                      \
        T a, const T* x, T*, unsigned n, T* ga, T* gx, T* gout, Frame frame                         \
    ) {                                                                                             \
        power_times_adjoint(a, x, n, ga, gx, gout, frame);                                          \
    }                                                                                               \
    __global__ void split_##s(const T* x, T* one, T* two, unsigned n) { split(x, one, two, n); }    \
    __global__ void split_##s##_adjoint(                                                            \
        const T*, T*, T*, unsigned n, T* gx, T* gone, T* gtwo, Frame frame                          \
    ) {                                                                                             \
        split_adjoint(n, gx, gone, gtwo, frame);                                                    \
    }                                                                                               \
    __global__ void split_##s##_one_adjoint(                                                        \
        const T*, T*, T*, unsigned n, T* gx, T* gone, Frame frame                                   \
    ) {                                                                                             \
        split_one_adjoint(n, gx, gone, frame);                                                      \
    }                                                                                               \
    __global__ void times_##s(const T* x, T* y, unsigned n) { times(x, y, n); }                     \
    __global__ void times_##s##_adjoint(                                                            \
        const T* x, T* y, unsigned n, T* gx, T* gy, Frame frame                                     \
    ) {                                                                                             \
        times_adjoint(x, y, n, gx, gy, frame);                                                      \
    }                                                                                               \
    __global__ void triple_##s(const T* x, T* out, unsigned n) { triple(x, out, n); }               \
    __global__ void triple_##s##_adjoint(                                                           \
        const T*, T*, unsigned n, T* gx, T* gout, Frame frame                                       \
    ) {                                                                                             \
        triple_adjoint(n, gx, gout, frame);                                                         \
    }                                                                                               \
    __global__ void line_##s(Line<T> l, const T* x, T* out, unsigned n) { line(l, x, out, n); }     \
    __global__ void line_##s##_adjoint(                                                             \
        Line<T> l, const T* x, T*, unsigned n, Line<T>* gl, T* gx, T* gout, Frame frame             \
    ) {                                                                                             \
        line_adjoint(l, x, n, gl, gx, gout, frame);                                                 \
    }                                                                                               \
    __global__ void look_up_##s(Table<T> table, T* out, unsigned n) { look_up(table, out, n); }     \
    __global__ void look_up_##s##_adjoint(                                                          \
        Table<T> table, T*, unsigned n, Table<T> gtable, T* gout, Frame frame                       \
    ) {                                                                                             \
        look_up_adjoint(table, n, gtable, gout, frame);                                             \
    }                                                                                               \
    __global__ void invert_##s(const T* x, T* out, unsigned n) { invert(x, out, n); }               \
    __global__ void invert_##s##_adjoint(                                                           \
        const T*, T* out, unsigned n, T* gx, T* gout, Frame frame                                   \
    ) {                                                                                             \
        invert_adjoint(out, n, gx, gout, frame);                                                    \
    }                                                                                               \
    __global__ void replay_##s(T* x, unsigned n) { bend(x, n); }                                    \
    __global__ void replay_##s##_adjoint(T* x, unsigned n, T* gx, Frame frame) {                    \
        replay_adjoint(x, n, gx, frame);                                                            \
    }                                                                                               \
    __global__ void series_##s(const T* x, T* out, unsigned n) { series(x, out, n, (T*)nullptr); }  \
    __global__ void series_##s##_primal(const T* x, T* out, unsigned n, Frame frame) {              \
        series_primal(x, out, n, frame);                                                            \
    }                                                                                               \
    __global__ void series_##s##_adjoint(                                                           \
        const T*, T*, unsigned n, T* gx, T* gout, Frame frame                                       \
    ) {                                                                                             \
        series_adjoint(n, gx, gout, frame);                                                         \
    }                                                                                               \
    }
BOTH(float, f32)
BOTH(double, f64)
