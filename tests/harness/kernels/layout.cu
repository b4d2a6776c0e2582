// Sizes, alignments and offsets as the device sees them.

template <class T>
struct After {
    char c;
    T t;
};

// Size, alignment, and where it falls behind a char.
template <class T>
__device__ unsigned* put(unsigned* out) {
    out[0] = sizeof(T);
    out[1] = alignof(T);
    out[2] = (unsigned)(unsigned long long)&((After<T>*)0)->t;
    return out + 3;
}

// A third and a fourth component that lie where an array's would.
template <class T, class E>
__device__ bool in_order(T v) {
    const E* e = &v.x;
    return &v.y == e + 1 && &v.z == e + 2;
}

#if __CUDACC_VER_MAJOR__ >= 13
typedef longlong4_16a wide_longlong4;
typedef ulonglong4_16a wide_ulonglong4;
typedef double4_16a wide_double4;
#else
typedef longlong4 wide_longlong4;
typedef ulonglong4 wide_ulonglong4;
typedef double4 wide_double4;
#endif

extern "C" __global__ void layout(unsigned* out) {
    out = put<char1>(out), out = put<char2>(out), out = put<char3>(out), out = put<char4>(out);
    out = put<uchar1>(out), out = put<uchar2>(out), out = put<uchar3>(out), out = put<uchar4>(out);
    out = put<short1>(out), out = put<short2>(out), out = put<short3>(out), out = put<short4>(out);
    out = put<ushort1>(out), out = put<ushort2>(out), out = put<ushort3>(out);
    out = put<ushort4>(out);
    out = put<int1>(out), out = put<int2>(out), out = put<int3>(out), out = put<int4>(out);
    out = put<uint1>(out), out = put<uint2>(out), out = put<uint3>(out), out = put<uint4>(out);
    out = put<longlong1>(out), out = put<longlong2>(out), out = put<longlong3>(out);
    out = put<wide_longlong4>(out);
    out = put<ulonglong1>(out), out = put<ulonglong2>(out), out = put<ulonglong3>(out);
    out = put<wide_ulonglong4>(out);
    out = put<float1>(out), out = put<float2>(out), out = put<float3>(out), out = put<float4>(out);
    out = put<double1>(out), out = put<double2>(out), out = put<double3>(out);
    out = put<wide_double4>(out);
    out[0] = in_order<float3, float>(make_float3(0, 0, 0));
    out[1] = in_order<float4, float>(make_float4(0, 0, 0, 0));
}
