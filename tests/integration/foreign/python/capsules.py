"""Capsules of DLPack, used once and twice: python3 capsules.py libtorch_op.so examples/torch-op

`capsules.py` in the folder of the example takes them, for the functions of the library. The capsules are made here, as
`dlpack.h` says. A check that fails is an exception.
"""

import contextlib
import ctypes
import gc
import importlib.util
import pathlib
import sys
import threading

import numpy as np
from torch_op import HOST, NON_BLOCKING, RELAXED, DLTensor, Library, Managed, Tensor, driver, near, require

# This file has the name of the example's.
spec = importlib.util.spec_from_file_location("example", pathlib.Path(sys.argv[2]) / "capsules.py")
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
take = example.take

DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
api = ctypes.pythonapi
make = api.PyCapsule_New
make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR]
# The destructor gets the capsule when nothing refers to it, so as an address.
is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", api))
get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", api))

AXPY = np.float32(2) * np.arange(6, dtype=np.float32) + 1


class Unversioned(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Producer:
    """A capsule of a tensor, whose deletions are counted."""

    live = []

    def __init__(self, tensor, name=b"dltensor_versioned", major=1, flags=0):
        self.tensor, self.name, self.deleted = tensor, name, 0
        self.delete, self.destroy = DELETER(self.count), DESTRUCTOR(self.destroyed)
        delete = ctypes.cast(self.delete, ctypes.c_void_p).value
        versioned = name.endswith(b"versioned")
        self.managed = (
            Managed(major, 3, None, delete, flags, tensor.raw) if versioned else Unversioned(tensor.raw, None, delete)
        )
        self.capsule = make(ctypes.addressof(self.managed), name, self.destroy)
        Producer.live.append(self)  # a deletion that comes too late must find it

    def count(self, managed):
        self.deleted += 1

    def destroyed(self, capsule):
        # A capsule that nobody has used deletes its tensor.
        if is_valid(capsule, self.name):
            self.delete(get_pointer(capsule, self.name))

    def forgotten(self):
        """How often the tensor is deleted in all, when nothing refers to the capsule."""
        self.capsule = None
        gc.collect()
        return self.deleted


class Array:
    """A capsule for NumPy."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (HOST, 0)


def refused(words, capsule, argument="x", **how):
    try:
        with take(capsule, argument, **how):
            raise AssertionError(f"a capsule was taken: {words}")
    except ValueError as error:
        missing = [word for word in words if word not in str(error)]
        require(not missing, f"{missing} is not in: {error}")


def arguments():
    """x, y and out of an axpy whose result is `AXPY`."""
    x, y = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    return Tensor(x), Tensor(y), Tensor(np.full(6, -1, np.float32))


def axpy(library, stream, x, y, out):
    """The function of C, with addresses of tensors."""
    pointer = ctypes.POINTER(DLTensor)
    library("axpy", stream, 2.0, *(ctypes.cast(a, pointer) if isinstance(a, int) else a for a in (x, y, out)))


def works(library, stream):
    """The context is usable."""
    x, y, out = arguments()
    axpy(library, stream, x, y, out)
    driver.cuStreamSynchronize(stream)
    near("axpy of plain tensors", out.numpy(), AXPY, 1e-6)


def twice(library, stream, name):
    x, y, out = arguments()
    producer, used = Producer(x, name), f"used_{name.decode()}"
    with take(producer.capsule, "x") as taken:
        axpy(library, stream, taken, y, out)
        require(producer.deleted == 0, "the tensor was deleted during the call")
    driver.cuStreamSynchronize(stream)
    near("axpy of a capsule", out.numpy(), AXPY, 1e-6)
    require(producer.deleted == 1, f"deleted {producer.deleted} times by the call")

    # A later call: nothing is enqueued, not even in a capture, and nothing is deleted.
    driver.cuStreamBeginCapture_v2(stream, RELAXED)
    for _ in range(2):
        refused(["argument `x`", f"named `{used}`", "used before"], producer.capsule)
    graph, nodes = ctypes.c_uint64(), ctypes.c_uint64(99)
    driver.cuStreamEndCapture(stream, ctypes.byref(graph))
    driver.cuGraphGetNodes(graph.value, None, ctypes.byref(nodes))
    require(nodes.value == 0, f"{nodes.value} nodes of a refused call")
    driver.cuGraphDestroy(graph.value)
    require(producer.forgotten() == 1, f"deleted {producer.deleted} times in all")
    works(library, stream)


def for_two_arguments(library, stream, name):
    x, _, out = arguments()
    producer = Producer(x, name)
    try:
        with take(producer.capsule, "x") as taken, take(producer.capsule, "y") as again:
            axpy(library, stream, taken, again, out)
    except ValueError as error:
        require("argument `y`" in str(error) and f"used_{name.decode()}" in str(error), str(error))
    else:
        raise AssertionError("one capsule for two arguments")
    driver.cuStreamSynchronize(stream)
    require((out.numpy() == -1).all(), "the result was written")
    require(producer.forgotten() == 1, f"deleted {producer.deleted} times")
    works(library, stream)


def after_a_failed_call(library, stream):
    """A call that fails has used its capsule, too."""
    x, y, _ = arguments()
    producer = Producer(x)
    with contextlib.suppress(ValueError), take(producer.capsule, "x") as taken:
        axpy(library, stream, taken, y, taken)
        raise AssertionError("x and out overlap")
    refused(["argument `x`", "used_dltensor_versioned"], producer.capsule)
    require(producer.forgotten() == 1, f"deleted {producer.deleted} times")
    works(library, stream)


def of_others(library, stream):
    """NumPy and this code do not take what the other one has taken."""

    def on_host():
        tensor = Tensor(np.arange(6, dtype=np.float32))
        tensor.raw.device_type, tensor.raw.data = HOST, tensor.array.ctypes.data
        return Producer(tensor, b"dltensor")

    producer = on_host()
    array = np.from_dlpack(Array(producer.capsule))
    refused(["argument `x`", "used_dltensor"], producer.capsule)
    del array
    require(producer.forgotten() == 1, f"deleted {producer.deleted} times after NumPy")

    producer = on_host()
    with take(producer.capsule, "x"):
        try:
            np.from_dlpack(Array(producer.capsule))
        except (ValueError, RuntimeError, BufferError):
            pass
        else:
            raise AssertionError("NumPy has taken a used capsule")
    require(producer.forgotten() == 1, f"deleted {producer.deleted} times")
    works(library, stream)


def by_threads():
    """Of threads that take a capsule at once, one gets it."""
    for _ in range(50):
        producer, taken, refusals = Producer(arguments()[0]), [], []
        start = threading.Barrier(4)

        def work():
            start.wait()
            try:
                with take(producer.capsule, "x") as address:
                    taken.append(address)
            except ValueError as error:
                refusals.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        require(len(taken) == 1 and len(refusals) == 3, f"{taken} {refusals}")
        require(producer.forgotten() == 1, f"deleted {producer.deleted} times by threads")


def of_no_use():
    """What is no capsule of a tensor is not deleted here, and a tensor that does not fit is."""
    x = arguments()[0]
    for other, words in ((b"arrow_array", ["`arrow_array`", "no tensor"]), (None, ["without a name"])):
        refused(["argument `x`", *words], make(ctypes.addressof(x.raw), other, DESTRUCTOR()))
    refused([], x)
    producer = Producer(x, major=2)
    refused(["argument `x`", "version 2"], producer.capsule)
    require(producer.forgotten() == 1, f"deleted {producer.deleted} times for its version")
    producer = Producer(x, flags=1)
    refused(["argument `out`", "read-only"], producer.capsule, "out", writes=True)
    require(producer.forgotten() == 1, f"deleted {producer.deleted} times for being read-only")
    producer = Producer(x, flags=1)
    with take(producer.capsule, "x") as taken:
        require(DLTensor.from_address(taken).data == x.address, "a tensor to read")
    require(producer.forgotten() == 1, f"deleted {producer.deleted} times")
    producer = Producer(x)
    require(producer.forgotten() == 1, f"deleted {producer.deleted} times without a use")


def main():
    library = Library(sys.argv[1])
    driver.cuInit(0)
    driver.cuCtxSetCurrent(driver.made("cuDevicePrimaryCtxRetain", 0))
    stream = driver.made("cuStreamCreate", NON_BLOCKING)
    for name in (b"dltensor_versioned", b"dltensor"):
        twice(library, stream, name)
        for_two_arguments(library, stream, name)
    after_a_failed_call(library, stream)
    of_others(library, stream)
    by_threads()
    of_no_use()
    print("all right")


main()
