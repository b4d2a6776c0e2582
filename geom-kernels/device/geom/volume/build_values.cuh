// Values of a type that is known at run time: as bytes, and, where an array is scanned, as numbers.
//
// Comparisons use exact arithmetic (exact.cuh).
#pragma once

#include <geom/volume/build_types.cuh>

namespace geom {
namespace volume {

// Copies a value of `bytes` bytes; both addresses are multiples of `align`, which is 1, 2, 4 or 8.
__device__ __forceinline__ void copy_value(unsigned char* to, const unsigned char* from, unsigned bytes,
                                           unsigned align) {
    if (align == 4) {
        for (unsigned i = 0; i < bytes; i += 4)
            *reinterpret_cast<unsigned*>(to + i) = *reinterpret_cast<const unsigned*>(from + i);
    } else if (align == 8) {
        for (unsigned i = 0; i < bytes; i += 8)
            *reinterpret_cast<unsigned long long*>(to + i) =
                *reinterpret_cast<const unsigned long long*>(from + i);
    } else if (align == 2) {
        *reinterpret_cast<unsigned short*>(to) = *reinterpret_cast<const unsigned short*>(from);
    } else {
        *to = *from;
    }
}

__device__ __forceinline__ bool differs(double a, double b, double tolerance) {
    return !exact::less_equal(exact::abs(exact::sub(a, b)), tolerance);
}
__device__ __forceinline__ bool differs(float a, float b, double tolerance) {
    return differs(exact::widen(a), exact::widen(b), tolerance);
}
// `tolerance` is an integer here.
__device__ __forceinline__ bool differs(long long a, long long b, unsigned long long tolerance) {
    const unsigned long long x = a, y = b;
    return (a < b ? y - x : x - y) > tolerance;
}

// The largest difference with which values count as equal to the background: as a real number, and as the greatest
// integer that is not greater.
struct Tolerance {
    double real;
    unsigned long long whole;
};

template <class T>
__device__ __forceinline__ T number_at(const unsigned char* values, unsigned i) {
    return reinterpret_cast<const T*>(values)[i];
}

// Whether one of the numbers of value a differs from b's by more than allowed. A NaN differs.
__device__ __forceinline__ bool value_differs(const NodeLayout& layout, const unsigned char* a,
                                              const unsigned char* b, const Tolerance& tolerance) {
    bool found = false;
    for (unsigned i = 0; i < layout.numbers; ++i) {
        const auto as_whole = [&](long long x, long long y) { return differs(x, y, tolerance.whole); };
        switch (layout.number) {
        case number_f32:
            found |= differs(number_at<float>(a, i), number_at<float>(b, i), tolerance.real);
            break;
        case number_f64:
            found |= differs(number_at<double>(a, i), number_at<double>(b, i), tolerance.real);
            break;
        case number_i16: found |= as_whole(number_at<short>(a, i), number_at<short>(b, i)); break;
        case number_i32: found |= as_whole(number_at<int>(a, i), number_at<int>(b, i)); break;
        case number_i64: found |= as_whole(number_at<long long>(a, i), number_at<long long>(b, i)); break;
        case number_u8: found |= as_whole(number_at<unsigned char>(a, i), number_at<unsigned char>(b, i)); break;
        default: found |= as_whole(number_at<unsigned>(a, i), number_at<unsigned>(b, i)); break;
        }
    }
    return found;
}

// A value that is one real number.
__device__ __forceinline__ double real_at(const NodeLayout& layout, const unsigned char* value) {
    return layout.number == number_f32 ? exact::widen(number_at<float>(value, 0))
                                       : number_at<double>(value, 0);
}

} // namespace volume
} // namespace geom
