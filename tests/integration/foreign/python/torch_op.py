"""The operators of examples/torch-op by ctypes and NumPy: python3 torch_op.py libtorch_op.so examples/torch-op

Memory of the device comes from the driver. Values and gradients are compared with `reference.py` in the folder of the
example. A check that fails is an exception.
"""

import ctypes
import os
import sys
import threading

import numpy as np

sys.path.insert(0, sys.argv[2])
from reference import GRADIENT, oracle, sphere

CUDA, HOST = 2, 1
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
CODES = {"i": 0, "u": 1, "f": 2}


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Driver:
    """The functions of the driver: `driver.cuInit(0)`. A code that is not success is an exception."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        def call(*arguments):
            # Addresses and sizes have 64 bits; a call with more than a function reads harms nothing.
            wide = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
            code = getattr(self.library, name)(*wide)
            if code != 0:
                raise RuntimeError(f"{name}: {code}")

        return call

    def made(self, name, *arguments):
        """The handle or address that a function writes to its first parameter."""
        place = ctypes.c_uint64()
        getattr(self, name)(ctypes.byref(place), *arguments)
        return place.value


driver = Driver()


def require(holds, what):
    if not holds:
        raise AssertionError(what)


class Tensor:
    """A copy of an array in memory of the device."""

    def __init__(self, array, device_type=CUDA, strides=None, offset=0):
        self.array = np.ascontiguousarray(array)
        self.bytes = self.array.nbytes
        self.address = driver.made("cuMemAlloc_v2", self.bytes + 64) if self.bytes else 0
        if self.bytes:
            driver.cuMemcpyHtoD_v2(self.address + offset, self.array.ctypes.data, self.bytes)
        shape = self.array.shape
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(shape))(*strides)
        self.offset = offset
        self.raw = DLTensor(
            data=self.address or None,
            device_type=device_type,
            device_id=0,
            ndim=len(shape),
            code=CODES[self.array.dtype.kind],
            bits=8 * self.array.itemsize,
            lanes=1,
            shape=self.shape,
            strides=self.strides or None,
            byte_offset=offset,
        )

    def numpy(self):
        back = np.empty_like(self.array)
        if self.bytes:
            driver.cuMemcpyDtoH_v2(back.ctypes.data, self.address + self.offset, self.bytes)
        return back

    def free(self):
        if self.bytes:
            driver.cuMemFree_v2(self.address)


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        tensor = ctypes.POINTER(DLTensor)
        functions = {
            "axpy": [ctypes.c_float] + 3 * [tensor],
            "signed_distance": 4 * [tensor],
            "signed_distance_backward": 6 * [tensor] + [ctypes.c_int],
        }
        for name, types in functions.items():
            getattr(self.library, f"torch_op_{name}").argtypes = [ctypes.c_void_p, *types]
        self.library.torch_op_error.restype = ctypes.c_char_p

    def error(self):
        return self.library.torch_op_error().decode()

    def __call__(self, name, stream, *arguments):
        raw = [ctypes.byref(a.raw) if isinstance(a, Tensor) else a for a in arguments]
        code = getattr(self.library, f"torch_op_{name}")(int(stream), *raw)
        if code != 0:
            raise {1: ValueError, 2: RuntimeError}[code](self.error())


class Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


class Table(ctypes.Structure):
    """DLPackExchangeAPI, whose functions for managed tensors of objects are not needed."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p)
        for name in ("prev_api", "allocate", "from_object", "to_object", "borrow", "current_stream")
    ]


class Framework:
    """Calls the functions for Python objects, with a table of functions in place of PyTorch's."""

    def __init__(self, path):
        self.library, self.stream, self.live, self.allocated = ctypes.PyDLL(path), 0, {}, 0
        tensor, out, integer = ctypes.POINTER(DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int
        callbacks = {
            "allocate": (self.allocate, tensor, out, ctypes.c_void_p, ctypes.c_void_p),
            "borrow": (self.borrow, ctypes.py_object, tensor),
            "current_stream": (self.current_stream, integer, integer, out),
        }
        self.kept = {name: ctypes.CFUNCTYPE(integer, *types)(f) for name, (f, *types) in callbacks.items()}
        self.delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.free)
        addresses = {name: ctypes.cast(f, ctypes.c_void_p).value for name, f in self.kept.items()}
        self.table = Table(major=1, minor=3, **addresses)

    def allocate(self, prototype, out, context, set_error):
        size = prototype[0].shape[0]
        memory = driver.made("cuMemAlloc_v2", size)
        shape = (ctypes.c_int64 * 1)(size)
        raw = DLTensor(memory, CUDA, 0, 1, 1, 8, 1, shape, None, 0)
        managed = Managed(1, 3, None, ctypes.cast(self.delete, ctypes.c_void_p).value, 0, raw)
        out[0] = ctypes.addressof(managed)
        self.live[ctypes.addressof(managed)] = (managed, shape)
        self.allocated += 1
        return 0

    def free(self, managed):
        driver.cuMemFree_v2(self.live.pop(managed)[0].tensor.data)

    def borrow(self, thing, out):
        if not isinstance(thing, Tensor):
            return -1
        out[0] = thing.raw
        return 0

    def current_stream(self, kind, device, out):
        out[0] = self.stream
        return 0

    def __call__(self, name, stream, *arguments):
        self.stream = stream
        function = self.library[f"torch_op_{name}_objects"]
        types = {float: ctypes.c_float, int: ctypes.c_int}
        function.argtypes = [ctypes.c_void_p, *(types.get(type(a), ctypes.py_object) for a in arguments)]
        self.library.torch_op_error.restype = ctypes.c_char_p
        code = function(ctypes.addressof(self.table), *arguments)
        if code != 0:
            raise {1: ValueError, 2: RuntimeError}[code](self.library.torch_op_error().decode())


def objects(library, framework, stream, rng):
    """Calls with Python objects give the bits of calls with tensors, and take memory from the framework."""
    x, y = (Tensor(rng.standard_normal(1001).astype(np.float32)) for _ in range(2))
    vertices, faces = sphere(1, rng)
    query = [Tensor(rng.uniform(-2, 2, (33, 3)).astype(np.float32)), Tensor(vertices), Tensor(faces)]
    g, results = Tensor(rng.standard_normal(33).astype(np.float32)), []
    for call in (library, framework):
        out, distances, by = Tensor(np.zeros(1001, np.float32)), Tensor(np.zeros(33, np.float32)), []
        call("axpy", stream, 0.5, x, y, out)
        call("signed_distance", stream, *query, distances)
        by = [Tensor(np.zeros((33, 3), np.float32)), Tensor(np.zeros_like(vertices))]
        call("signed_distance_backward", stream, g, *query, *by, 1)
        driver.cuStreamSynchronize(stream)
        results.append([tensor.numpy().tobytes() for tensor in (out, distances, *by)])
    require(results[0] == results[1], "calls with Python objects give other bits")
    require(framework.allocated > 0 and not framework.live, f"{framework.allocated} {framework.live}")
    refused(framework, ["dltensor_from_py_object_no_sync", "-1"], "axpy", 0.5, x, "a text", out)
    refused(framework, ["`y`", "[33]"], "axpy", 0.5, x, g, out)


def float32(*values):
    return np.asarray(values, dtype=np.float32)


def near(what, given, wanted, bound):
    require(given.shape == wanted.shape, f"{what}: the shape {given.shape}, not {wanted.shape}")
    # The most that a number is off, of what is allowed for it. NaN is refused.
    off = (np.abs(given - wanted) / bound).max(initial=0.0)
    require(off <= 1, f"{what}: off by {off} times the bound")


def axpy(library, stream, rng):
    for n in (0, 1, 3, 4, 5, 31, 32, 33, 1023, 1024, 1025, 100_003):
        for offset in (0, 4, 16):
            x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
            tensors = [Tensor(x, offset=offset), Tensor(y), Tensor(np.full_like(y, np.nan))]
            library("axpy", stream, 2.5, *tensors)
            driver.cuStreamSynchronize(stream)
            near(f"axpy of {n} floats", tensors[2].numpy(), 2.5 * x.astype(float) + y, 1e-5)
            for tensor in tensors:
                tensor.free()


def distances(library, stream, rng):
    for detail, n in ((0, 0), (0, 1), (1, 31), (1, 32), (2, 33), (2, 1000)):
        vertices, faces = sphere(detail, rng)
        # Not close to the surface, where a small error of the nearest point turns the direction to it by much.
        points = rng.uniform(-1.5, 1.5, (4 * n, 3)).astype(np.float32)
        far = np.abs(oracle(points, vertices, faces, np.zeros(4 * n))[0]) > 0.1
        points = points[far][:n]
        g = rng.standard_normal(n).astype(np.float32)
        query = [Tensor(points), Tensor(vertices), Tensor(faces)]
        out, seeds = Tensor(np.full(n, np.nan, np.float32)), Tensor(g)
        library("signed_distance", stream, *query, out)
        by = [Tensor(np.full_like(points, np.nan)), Tensor(np.full_like(vertices, np.nan))]
        library("signed_distance_backward", stream, seeds, *query, *by, 0)
        driver.cuStreamSynchronize(stream)
        wanted = oracle(points, vertices, faces, g)
        what = f"{n} points, {len(faces)} faces"
        near(f"distances, {what}", out.numpy(), wanted[0], 1e-5)
        near(f"by points, {what}", by[0].numpy(), wanted[1], GRADIENT)
        near(f"by vertices, {what}", by[1].numpy(), wanted[2], GRADIENT)
        # A gradient that is not wanted is left alone, and deterministic ones have the same bits.
        none = Tensor(np.zeros((0, 3), np.float32))
        again = [Tensor(np.full_like(points, np.nan)), Tensor(np.full_like(vertices, np.nan))]
        library("signed_distance_backward", stream, seeds, *query, again[0], none, 0)
        bits = []
        for _ in range(2):
            library("signed_distance_backward", stream, seeds, *query, none, again[1], 1)
            driver.cuStreamSynchronize(stream)
            bits.append(again[1].numpy().tobytes())
        near(f"by points alone, {what}", again[0].numpy(), by[0].numpy(), 1e-6)
        near(f"by vertices alone, {what}", again[1].numpy(), by[1].numpy(), 1e-5)
        require(bits[0] == bits[1], "deterministic gradients have other bits")
        library("signed_distance_backward", stream, seeds, *query, none, none, 0)
        for tensor in (*query, out, seeds, *by, *again):
            tensor.free()


def refused(library, words, name, *arguments):
    """The call fails because of an argument, says these words of it, and changes nothing."""
    before = [a.numpy() for a in arguments if isinstance(a, Tensor) and a.raw.device_type == CUDA]
    try:
        library(name, 0, *arguments)
    except ValueError as error:
        missing = [word for word in words if word not in str(error)]
        require(not missing, f"{missing} is not in: {error}")
    else:
        raise AssertionError(f"{name} has taken what is wrong: {words}")
    after = [a.numpy() for a in arguments if isinstance(a, Tensor) and a.raw.device_type == CUDA]
    require(all(np.array_equal(a, b) for a, b in zip(before, after)), f"{words}: memory has changed")


def errors(library, rng):
    def of(shape, kind=np.float32):
        return Tensor(np.ones(shape, kind))

    x, y, out = (of(6) for _ in range(3))
    refused(library, ["`y`", "float64"], "axpy", 1.0, x, of(6, np.float64), out)
    refused(library, ["`x`", "int32"], "axpy", 1.0, of(6, np.int32), y, out)
    refused(library, ["`y`", "[5]", "[6]"], "axpy", 1.0, x, of(5), out)
    refused(library, ["`out`", "[2, 3]", "[6]"], "axpy", 1.0, x, y, of((2, 3)))
    refused(library, ["`x`", "device type 1"], "axpy", 1.0, Tensor(np.ones(6, np.float32), HOST), y, out)
    refused(library, ["`y`", "host"], "axpy", 1.0, x, Tensor(np.ones(6, np.float32), HOST), out)
    refused(library, ["`out`", "null"], "axpy", 1.0, x, y, None)
    refused(library, ["`out`", "overlap"], "axpy", 1.0, x, y, x)
    wide = Tensor(np.ones((3, 2), np.float32), strides=(1, 3))
    refused(library, ["`y`", "[1, 3]", "[3, 2]"], "axpy", 1.0, of((3, 2)), wide, of((3, 2)))
    wide = of(6)
    wide.raw.device_id = 7
    refused(library, ["`y`", "device 7"], "axpy", 1.0, x, wide, out)
    wide = of(6)
    wide.raw.byte_offset = 2
    refused(library, ["`x`", "aligned"], "axpy", 1.0, wide, y, out)

    vertices, faces = (Tensor(a) for a in sphere(0, rng))
    points, distances = of((4, 3)), of(4)
    name = "signed_distance"
    refused(library, ["`points`", "[4, 2]"], name, of((4, 2)), vertices, faces, distances)
    refused(library, ["`faces`", "int64"], name, points, vertices, of((4, 3), np.int64), distances)
    refused(library, ["`vertices`", "float64"], name, points, of((4, 3), np.float64), faces, distances)
    refused(library, ["`distances`", "[5]", "[4]"], name, points, vertices, faces, of(5))
    name = "signed_distance_backward"
    query = (points, vertices, faces)
    refused(library, ["`g`", "[5]", "[4]"], name, of(5), *query, of((4, 3)), of((12, 3)), 0)
    refused(library, ["`by_points`", "[5, 3]"], name, distances, *query, of((5, 3)), of((12, 3)), 0)
    refused(library, ["`by_vertices`", "[4, 3]"], name, distances, *query, of((4, 3)), of((4, 3)), 0)

    # Another device or stream that is none is an error of the driver.
    try:
        wide = of(6)
        wide.raw.device_id = 7
        library("axpy", 0, 1.0, wide, y, out)
    except (ValueError, RuntimeError) as error:
        require("7" in str(error), f"device 7: {error}")
    else:
        raise AssertionError("device 7 was used")

    # The text is the thread's own, and the context is usable.
    text = library.error()
    others = []
    thread = threading.Thread(target=lambda: others.append(library.error()))
    thread.start()
    thread.join()
    require(text and others == [""], f"errors of two threads: {text!r} and {others}")
    library("axpy", 0, 1.0, x, y, out)
    driver.cuStreamSynchronize(0)
    near("axpy after errors", out.numpy(), np.full(6, 2.0), 1e-6)


def faces_out_of_range(library, rng):
    """They are skipped, as faces with a vertex that is not finite."""
    vertices, faces = sphere(1, rng)
    points = float32([0, 0, 3], [0.1, 0.2, 0.3])
    bad = np.array([[0, 1, 99999], [-1, 0, 1], [2, 2147483647, 3]], np.int32)
    results = []
    for more in (faces, np.concatenate([bad, faces])):
        out = Tensor(np.zeros(2, np.float32))
        library("signed_distance", 0, Tensor(points), Tensor(vertices), Tensor(more), out)
        driver.cuStreamSynchronize(0)
        results.append(out.numpy())
    require(np.array_equal(*results), f"faces out of range: {results}")


def captured(library, rng):
    """The work of calls becomes part of a graph of the caller, which computes with the values of its launch."""
    stream = driver.made("cuStreamCreate", NON_BLOCKING)
    vertices, faces = sphere(1, rng)
    points = rng.uniform(1.2, 1.5, (33, 3)).astype(np.float32)
    query = [Tensor(points), Tensor(vertices), Tensor(faces)]
    g = Tensor(np.ones(33, np.float32))
    out, by = Tensor(np.zeros(33, np.float32)), Tensor(np.zeros_like(points))
    none = Tensor(np.zeros((0, 3), np.float32))

    def calls():
        library("signed_distance", stream, *query, out)
        library("signed_distance_backward", stream, g, *query, by, none, 0)

    # Kernels are loaded before.
    calls()
    driver.cuStreamSynchronize(stream)
    driver.cuStreamBeginCapture_v2(stream, RELAXED)
    calls()
    graph = ctypes.c_uint64()
    driver.cuStreamEndCapture(stream, ctypes.byref(graph))
    launch = driver.made("cuGraphInstantiateWithFlags", graph.value, 0)
    for scale in (1.0, 1.5):
        moved = (scale * points).astype(np.float32)
        driver.cuMemcpyHtoD_v2(query[0].address, moved.ctypes.data, moved.nbytes)
        driver.cuGraphLaunch(launch, stream)
        driver.cuStreamSynchronize(stream)
        wanted = oracle(moved, vertices, faces, np.ones(33))
        near("distances of a graph", out.numpy(), wanted[0], 1e-5)
        near("gradients of a graph", by.numpy(), wanted[1], GRADIENT)
    driver.cuGraphExecDestroy(launch)
    driver.cuGraphDestroy(graph.value)


def threads(library, rng):
    """Calls of threads without a current context, each on its stream or on the legacy one."""
    failures, works = [], []
    for at in range(4):
        stream = driver.made("cuStreamCreate", NON_BLOCKING) if at % 2 else 0
        x, y = (rng.standard_normal(1000 + at).astype(np.float32) for _ in range(2))
        works.append((stream, [Tensor(x), Tensor(y), Tensor(np.zeros_like(x))]))

    def work(stream, tensors):
        try:
            for _ in range(20):
                library("axpy", stream, -1.5, *tensors)
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=work_of) for work_of in works]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    require(not failures, f"threads: {failures}")
    for stream, (x, y, out) in works:
        driver.cuStreamSynchronize(stream)
        near("axpy of a thread", out.numpy(), -1.5 * x.array.astype(float) + y.array, 1e-5)


def forked(library):
    """In a child process a call is an error, not a crash or a hang."""
    x, y, out = (Tensor(np.ones(6, np.float32)) for _ in range(3))
    child = os.fork()
    if child == 0:
        try:
            library("axpy", 0, 1.0, x, y, out)
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 2)
        finally:
            os._exit(3)
    require(os.waitpid(child, 0)[1] == 0, "a call after fork")


def main():
    library, framework = Library(sys.argv[1]), Framework(sys.argv[1])
    driver.cuInit(0)
    driver.cuCtxSetCurrent(driver.made("cuDevicePrimaryCtxRetain", 0))
    stream = driver.made("cuStreamCreate", NON_BLOCKING)
    rng = np.random.default_rng(25)
    for at in (stream, 0):
        axpy(library, at, rng)
        distances(library, at, rng)
        objects(library, framework, at, rng)
    errors(library, rng)
    faces_out_of_range(library, rng)
    captured(library, rng)
    threads(library, rng)
    forked(library)
    print("all right")


if __name__ == "__main__":
    main()
