// Assertions on the layout of a structure that the host also declares: they fail where a compiler lays it out in
// another way than the host.
#pragma once

// The size and alignment of a type, in bytes; then where its fields lie.
#define GEOM_LAYOUT(type, size, align)                                                              \
    static_assert(sizeof(type) == (size), "the size of " #type " is not the host's");               \
    static_assert(alignof(type) == (align), "the alignment of " #type " is not the host's")
#define GEOM_FIELD(type, field, offset)                                                             \
    static_assert(GEOM_OFFSET(type, field) == (offset), #type "::" #field " lies elsewhere")

// NVRTC has no offsetof of its own before some header defines it, but what such headers make it of.
#ifdef __CUDACC_RTC__
#define GEOM_OFFSET(type, field) __INTADDR__(&(((type*)0)->field))
#else
#define GEOM_OFFSET(type, field) __builtin_offsetof(type, field)
#endif
