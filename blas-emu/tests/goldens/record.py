"""Records what NVIDIA's cuRAND generates, on a machine with a GPU: `python3 record.py libcurand.so.10 > curand.txt`.

Each line has a generator, a seed, an offset, an order, a function, the numbers of the results of successive calls, and a
hash of all bytes (FNV-1a with 64 bits) with the first four results in hexadecimal. The test `goldens` compares them.
"""

import ctypes
import sys

cuda, curand = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(sys.argv[1])


def ok(code, what):
    if code != 0:
        sys.exit(f"{what} returned {code}")


ok(cuda.cuInit(0), "cuInit")
context = ctypes.c_void_p()
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
ok(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
memory = ctypes.c_uint64()
ok(cuda.cuMemAlloc_v2(ctypes.byref(memory), 16 << 20), "cuMemAlloc")

FUNCTIONS = {
    "Generate": (4, []),
    "GenerateUniform": (4, []),
    "GenerateUniformDouble": (8, []),
    "GenerateNormal": (4, [ctypes.c_float(1.0), ctypes.c_float(2.0)]),
    "GenerateNormalDouble": (8, [ctypes.c_double(1.0), ctypes.c_double(2.0)]),
    "GenerateLogNormal": (4, [ctypes.c_float(1.0), ctypes.c_float(0.5)]),
    "GenerateLogNormalDouble": (8, [ctypes.c_double(1.0), ctypes.c_double(0.5)]),
}


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def record(kind, seed, offset, order, name, counts):
    width, parameters = FUNCTIONS[name]
    generator = ctypes.c_void_p()
    ok(curand.curandCreateGenerator(ctypes.byref(generator), kind), "curandCreateGenerator")
    ok(curand.curandSetPseudoRandomGeneratorSeed(generator, ctypes.c_uint64(seed)), "seed")
    ok(curand.curandSetGeneratorOffset(generator, ctypes.c_uint64(offset)), "offset")
    ok(curand.curandSetGeneratorOrdering(generator, order), "order")
    done = 0
    for count in counts:
        at = ctypes.c_void_p(memory.value + done * width)
        ok(getattr(curand, "curand" + name)(generator, at, ctypes.c_size_t(count), *parameters), name)
        done += count
    ok(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    data = (ctypes.c_ubyte * (done * width))()
    ok(cuda.cuMemcpyDtoH_v2(data, memory, ctypes.c_size_t(len(data))), "cuMemcpyDtoH")
    ok(curand.curandDestroyGenerator(generator), "curandDestroyGenerator")
    data = bytes(data)
    first = " ".join(data[at * width : (at + 1) * width][::-1].hex() for at in range(min(4, done)))
    listed = ",".join(str(count) for count in counts)
    print(kind, hex(seed), offset, order, name, listed, f"{fnv(data):016x}", first)


for kind in (101, 161):
    for order in (100, 101, 103):
        for name in FUNCTIONS:
            record(kind, 0x123456789ABCDEF0, 0, order, name, [10_000])
            record(kind, 0, 0, order, name, [300_000])
    for name in FUNCTIONS:
        record(kind, 99, 8, 103, name, [10_000])
        record(kind, 99, 4097 * 4, 103, name, [10_000])
        record(kind, 99, 0, 103, name, [8192, 4, 1000, 65536])
    for name in ("Generate", "GenerateUniform", "GenerateUniformDouble"):
        record(kind, 7, 3, 103, name, [1001])
        record(kind, 7, 0, 103, name, [1, 5, 4096, 777])
