// The kernels by hand, without checks.

struct Vec3 {
    float x, y, z;
};

struct Oscillator {
    float position, velocity;
};

__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

__global__ void saxpy(float a, const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ out,
                      unsigned n) {
    unsigned i = thread();
    if (i < n) {
        out[i] = a * x[i] + y[i];
    }
}

__global__ void saxpy4(float a, const float4 *__restrict__ x, const float4 *__restrict__ y, float4 *__restrict__ out,
                       unsigned n) {
    unsigned i = thread();
    if (i < n) {
        float4 u = x[i];
        float4 v = y[i];
        out[i] = make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
    }
}

__global__ void copy(const double *__restrict__ a, double *__restrict__ c, unsigned n) {
    unsigned i = thread();
    if (i < n) {
        c[i] = a[i];
    }
}

__global__ void mul(double scalar, const double *__restrict__ c, double *__restrict__ b, unsigned n) {
    unsigned i = thread();
    if (i < n) {
        b[i] = scalar * c[i];
    }
}

__global__ void add(const double *__restrict__ a, const double *__restrict__ b, double *__restrict__ c, unsigned n) {
    unsigned i = thread();
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}

__global__ void triad(double scalar, const double *__restrict__ b, const double *__restrict__ c,
                      double *__restrict__ a, unsigned n) {
    unsigned i = thread();
    if (i < n) {
        a[i] = b[i] + scalar * c[i];
    }
}

__global__ void dot(const double *__restrict__ a, const double *__restrict__ b, unsigned n, double *__restrict__ sums,
                    unsigned stride) {
    unsigned i = thread();
    if (i < stride) {
        double s = 0.0;
        for (unsigned k = i; k < n; k += stride) {
            s += a[k] * b[k];
        }
        sums[i] = s;
    }
}

__global__ void mandelbrot(unsigned width, unsigned height, unsigned limit, unsigned *__restrict__ counts) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        float dx = 3.5f / width, dy = 2.0f / height;
        float a = x * dx - 2.5f, b = y * dy - 1.0f;
        float re = 0.0f, im = 0.0f;
        unsigned n = 0;
        while (n < limit && re * re + im * im <= 4.0f) {
            float next = re * re - im * im + a;
            im = 2.0f * re * im + b;
            re = next;
            n += 1;
        }
        counts[y * width + x] = n;
    }
}

__global__ void nbody(const Vec3 *__restrict__ positions, Vec3 *__restrict__ forces, unsigned n) {
    unsigned i = thread();
    if (i < n) {
        Vec3 p = positions[i];
        Vec3 sum = {0.0f, 0.0f, 0.0f};
        for (unsigned j = 0; j < n; j++) {
            Vec3 q = positions[j];
            float x = q.x - p.x, y = q.y - p.y, z = q.z - p.z;
            float r = 1.0f / sqrtf(x * x + y * y + z * z + 1e-3f);
            r = r * r * r;
            sum.x += x * r;
            sum.y += y * r;
            sum.z += z * r;
        }
        forces[i] = sum;
    }
}

__global__ void spmv(const unsigned *__restrict__ offsets, const unsigned *__restrict__ columns,
                     const float *__restrict__ values, const float *__restrict__ x, float *__restrict__ y,
                     unsigned rows) {
    unsigned row = thread();
    if (row < rows) {
        float sum = 0.0f;
        for (unsigned k = offsets[row]; k < offsets[row + 1]; k++) {
            sum += values[k] * x[columns[k]];
        }
        y[row] = sum;
    }
}

__global__ void integrate(float dt, const Oscillator *__restrict__ start, Oscillator *__restrict__ end, unsigned n) {
    unsigned i = thread();
    if (i < n) {
        float x = start[i].position, v = start[i].velocity;
        for (int step = 0; step < 64; step++) {
            v -= dt * (x + 0.5f * x * x * x + 0.1f * v);
            x += dt * v;
        }
        end[i] = Oscillator{x, v};
    }
}

__global__ void matmul(unsigned n, const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < n && row < n) {
        float sum = 0.0f;
        for (unsigned k = 0; k < n; k++) {
            sum += a[row * n + k] * b[k * n + column];
        }
        c[row * n + column] = sum;
    }
}
