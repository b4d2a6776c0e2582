// Arithmetic of f64. At most one operand is NaN: which of two comes out is nobody's promise.
#include "prelude.cuh"

#define DOUBLES THREAD double p = f64(a), q = f64(number(b)), r = f64(number(c));

KERNEL(f64_add) {
    DOUBLES
    OUT(bits(__dadd_rn(p, q))); OUT(bits(__dadd_rz(p, q))); OUT(bits(__dadd_rd(p, q)));
    OUT(bits(__dadd_ru(p, q))); OUT(bits(__dsub_rn(p, q))); OUT(bits(__dsub_rz(p, q)));
    OUT(bits(__dsub_rd(p, q))); OUT(bits(__dsub_ru(p, q))); OUT(bits(p + r)); OUT(bits(r - q));
}

KERNEL(f64_multiply) {
    DOUBLES
    OUT(bits(__dmul_rn(p, q))); OUT(bits(__dmul_rz(p, q))); OUT(bits(__dmul_rd(p, q)));
    OUT(bits(__dmul_ru(p, q))); OUT(bits(p * r)); OUT(usual(q * r + p)); OUT(usual(r * 0.1 - q));
}

KERNEL(f64_fma) {
    DOUBLES
    OUT(bits(__fma_rn(p, q, r))); OUT(bits(__fma_rz(p, q, r))); OUT(bits(__fma_rd(p, q, r)));
    OUT(bits(__fma_ru(p, q, r)));
    // Nearly cancels.
    u64 product = number(bits(__dmul_rn(q, r)));
    double s = f64(product ^ 0x8000000000000000ull);
    OUT(usual(__fma_rn(q, r, s))); OUT(usual(__fma_rd(q, r, s))); OUT(usual(__fma_ru(q, r, s)));
}

KERNEL(f64_divide) {
    DOUBLES
    OUT(usual(__ddiv_rn(p, q))); OUT(usual(__ddiv_rz(p, q))); OUT(usual(__ddiv_rd(p, q)));
    OUT(usual(__ddiv_ru(p, q))); OUT(usual(r / p)); OUT(usual(r / 3.0)); OUT(usual(1.0 / q));
}

KERNEL(f64_reciprocal) {
    DOUBLES
    OUT(usual(__drcp_rn(p))); OUT(usual(__drcp_rz(p))); OUT(usual(__drcp_rd(p)));
    OUT(usual(__drcp_ru(p))); OUT(usual(__drcp_rn(q)));
}

KERNEL(f64_root) {
    DOUBLES
    OUT(usual(__dsqrt_rn(p))); OUT(usual(__dsqrt_rz(p))); OUT(usual(__dsqrt_rd(p)));
    OUT(usual(__dsqrt_ru(p))); OUT(usual(sqrt(fabs(q)))); OUT(usual(sqrt(r)));
}

KERNEL(f64_minimum) {
    DOUBLES
    D2("min.f64", q, r); D2("max.f64", q, r); OUT(usual(fmin(p, q))); OUT(usual(fmax(p, r)));
    OUT(bits(fmin(q, 0.0))); OUT(bits(fmax(r, -0.0)));
}

KERNEL(f64_sign) {
    DOUBLES
    D1("neg.f64", q); D1("abs.f64", q); D2("copysign.f64", q, r); OUT(bits(fabs(r)));
    OUT(usual(-q * r)); OUT(usual(fabs(q) - fabs(r))); OUT(bits(copysign(q, r)));
}

KERNEL(f64_integral) {
    DOUBLES
    double t = f64((b & 0x800fffffffffffffull) | 0x40e0000000000000ull);
    OUT(bits(rint(q))); OUT(bits(trunc(q))); OUT(bits(floor(q))); OUT(bits(ceil(q)));
    OUT(bits(rint(t))); OUT(bits(trunc(t))); OUT(bits(floor(t))); OUT(bits(ceil(t)));
    OUT(bits(round(t))); OUT(bits(nearbyint(r)));
}

KERNEL(f64_chain) {
    DOUBLES
    double s = f64((a & 0x800fffffffffffffull) | 0x3fe0000000000000ull);
    double t = f64((b & 0x800fffffffffffffull) | 0x3ff0000000000000ull);
    for (int k = 0; k < 40; k++) {
        double u = s * t + 0.3;
        t = (t - s) / 1.7;
        s = sqrt(fabs(u)) - t;
    }
    OUT(bits(s)); OUT(bits(t));
}
