"""A program on NVIDIA's cuda-bindings: python3 program.py kernels.ptx

It checks all that it computes; a check that fails is an exception.
"""

import ctypes
import sys

from cuda.bindings import driver, nvrtc

N = 10_000
BLOCK = 256
BLOCKS = -(-N // BLOCK)


def check(answer):
    """What a call answers behind its code, if that says success."""
    code, *values = answer
    if code.value != 0:
        name = driver.cuGetErrorName(code)[1] if isinstance(code, driver.CUresult) else b""
        raise RuntimeError(f"{code!r} {name.decode()}")
    return values[0] if len(values) == 1 else tuple(values)


def require(holds, what):
    if not holds:
        raise AssertionError(what)


def launch(kernel, stream, types, *values, grid=BLOCKS, block=BLOCK, shared=0):
    arguments = (tuple(values), tuple(types))
    check(driver.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared, stream, arguments, 0))


def address(array):
    return ctypes.addressof(array)


POINTER = None  # how cuda-bindings calls the type of a device address
SAXPY = (ctypes.c_float, POINTER, POINTER, ctypes.c_uint)


class Program:
    def __init__(self, path):
        check(driver.cuInit(0))
        self.device = check(driver.cuDeviceGet(0))
        self.context = check(driver.cuDevicePrimaryCtxRetain(self.device))
        check(driver.cuCtxSetCurrent(self.context))
        with open(path, "rb") as file:
            self.ptx = file.read()
        self.module = check(driver.cuModuleLoadData(self.ptx))

    def kernel(self, name):
        return check(driver.cuModuleGetFunction(self.module, name))

    def queries(self):
        """What a program such as nvidia-smi shows."""
        attribute = driver.CUdevice_attribute
        count = check(driver.cuDeviceGetCount())
        name = check(driver.cuDeviceGetName(100, self.device)).split(b"\0")[0].decode()
        bus = check(driver.cuDeviceGetPCIBusId(32, self.device)).split(b"\0")[0].decode()
        uuid = bytes(check(driver.cuDeviceGetUuid(self.device)).bytes)
        memory = check(driver.cuDeviceTotalMem(self.device))
        free, total = check(driver.cuMemGetInfo())
        version = check(driver.cuDriverGetVersion())
        values = [
            check(driver.cuDeviceGetAttribute(which, self.device))
            for which in (
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE,
            )
        ]
        require(count >= 1 and version >= 12_000 and name and bus, "the device says who it is")
        require(len(uuid) == 16 and any(uuid), "the device has an identity")
        require(0 < free <= total <= memory, "memory is told")
        require(values[0] >= 7 and values[2] > 0 and values[3] == 32, f"attributes: {values}")
        print(f"{count} x {name} ({values[0]}.{values[1]}), bus {bus}, driver {version}")

    def modules(self):
        """What cannot be loaded or is not there is an error; a global is written and read."""
        code, _ = driver.cuModuleLoadData(b".version 8.0\n.target sm_75\nnonsense\n")
        require(code == driver.CUresult.CUDA_ERROR_INVALID_PTX, f"nonsense: {code}")
        code, _ = driver.cuModuleGetFunction(self.module, b"no_such_kernel")
        require(code == driver.CUresult.CUDA_ERROR_NOT_FOUND, f"no such kernel: {code}")
        require(check(driver.cuGetErrorString(code)), "errors have descriptions")
        factor, size = check(driver.cuModuleGetGlobal(self.module, b"factor"))
        require(size == 4, "the size of a global")
        value, back = ctypes.c_float(2.5), ctypes.c_float()
        check(driver.cuMemcpyHtoD(factor, address(value), 4))
        check(driver.cuMemcpyDtoH(address(back), factor, 4))
        require(back.value == 2.5, "a global keeps its value")

    def launches(self):
        x = (ctypes.c_float * N)(*range(N))
        y = (ctypes.c_float * N)(*(2 * i for i in range(N)))
        dx, dy = (check(driver.cuMemAlloc(4 * N)) for _ in range(2))
        check(driver.cuMemcpyHtoD(dx, address(x), 4 * N))
        check(driver.cuMemcpyHtoD(dy, address(y), 4 * N))
        launch(self.kernel(b"saxpy"), 0, SAXPY, 3.0, dx, dy, N)
        launch(self.kernel(b"scale"), 0, (POINTER, ctypes.c_uint), dx, N)
        check(driver.cuCtxSynchronize())
        check(driver.cuMemcpyDtoH(address(y), dy, 4 * N))
        check(driver.cuMemcpyDtoH(address(x), dx, 4 * N))
        require(list(y) == [5.0 * i for i in range(N)], "saxpy")
        require(list(x) == [2.5 * i for i in range(N)], "scale")
        kind = check(
            driver.cuPointerGetAttribute(
                driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, dx
            )
        )
        require(kind == driver.CUmemorytype.CU_MEMORYTYPE_DEVICE, f"memory of a device: {kind}")
        for memory in (dx, dy):
            check(driver.cuMemFree(memory))

    def sums(self):
        """Shared memory, and a kernel's attributes and occupancy."""
        kernel = self.kernel(b"block_sums")
        attribute = driver.CUfunction_attribute
        check(
            driver.cuFuncSetAttribute(
                kernel, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4 * BLOCK
            )
        )
        most = check(
            driver.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel)
        )
        resident = check(
            driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, BLOCK, 4 * BLOCK)
        )
        require(most >= BLOCK and resident >= 1, f"occupancy: {most}, {resident}")
        x = (ctypes.c_uint * N)(*range(N))
        sums = (ctypes.c_uint * BLOCKS)()
        dx = check(driver.cuMemAlloc(4 * N))
        dsums = check(driver.cuMemAlloc(4 * BLOCKS))
        check(driver.cuMemcpyHtoD(dx, address(x), 4 * N))
        check(driver.cuMemsetD8(dsums, 0xFF, 4 * BLOCKS))
        types = (POINTER, POINTER, ctypes.c_uint)
        launch(kernel, 0, types, dx, dsums, N, shared=4 * BLOCK)
        check(driver.cuMemcpyDtoH(address(sums), dsums, 4 * BLOCKS))
        wanted = [sum(range(at, min(at + BLOCK, N))) for at in range(0, N, BLOCK)]
        require(list(sums) == wanted, "block_sums")
        for memory in (dx, dsums):
            check(driver.cuMemFree(memory))

    def streams(self):
        """Two streams in order by an event, on stream-ordered memory, into pinned memory."""
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        first = check(driver.cuStreamCreate(flags))
        second = check(driver.cuStreamCreateWithPriority(flags, 0))
        begin, end = (check(driver.cuEventCreate(0)) for _ in range(2))
        place = check(driver.cuMemAllocHost(4 * N))
        host = (ctypes.c_float * N).from_address(int(place))
        host[:] = range(N)

        check(driver.cuEventRecord(begin, first))
        x = check(driver.cuMemAllocAsync(8 * N, first))
        y = driver.CUdeviceptr(int(x) + 4 * N)
        check(driver.cuMemcpyHtoDAsync(x, place, 4 * N, first))
        check(driver.cuMemsetD32Async(y, 0, N, first))
        launch(self.kernel(b"saxpy"), first, SAXPY, 0.5, x, y, N)
        check(driver.cuEventRecord(end, first))
        check(driver.cuStreamWaitEvent(second, end, 0))
        check(driver.cuMemcpyDtoHAsync(place, y, 4 * N, second))
        check(driver.cuMemFreeAsync(x, second))
        check(driver.cuStreamSynchronize(second))
        check(driver.cuEventSynchronize(end))
        require(check(driver.cuEventElapsedTime(begin, end)) >= 0, "time does not run backwards")
        require(driver.cuStreamQuery(first)[0] == driver.CUresult.CUDA_SUCCESS, "all is done")
        require(driver.cuEventQuery(end)[0] == driver.CUresult.CUDA_SUCCESS, "all has happened")
        require(list(host) == [0.5 * i for i in range(N)], "what the streams did in order")

        check(driver.cuMemFreeHost(place))
        for event in (begin, end):
            check(driver.cuEventDestroy(event))
        for stream in (first, second):
            check(driver.cuStreamDestroy(stream))

    def captured(self, stream, x, y):
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        check(driver.cuStreamBeginCapture(stream, mode))
        check(driver.cuMemsetD32Async(x, 0x3F800000, N, stream))  # 1.0
        launch(self.kernel(b"saxpy"), stream, SAXPY, 2.0, x, y, N)
        status, *_ = check(driver.cuStreamGetCaptureInfo(stream))
        active = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
        require(status == active, f"capturing: {status}")
        graph = check(driver.cuStreamEndCapture(stream))
        require(check(driver.cuGraphGetNodes(graph, 2))[1] == 2, "a memset and a kernel")
        return graph

    def built(self, x, y):
        graph = check(driver.cuGraphCreate(0))
        memset = driver.CUDA_MEMSET_NODE_PARAMS()
        memset.dst, memset.value, memset.elementSize = y, 0, 4
        memset.width, memset.height = N, 1
        fill = check(driver.cuGraphAddMemsetNode(graph, None, 0, memset, self.context))
        kernel = driver.CUDA_KERNEL_NODE_PARAMS()
        kernel.func = self.kernel(b"saxpy")
        kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ = BLOCKS, 1, 1
        kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ = BLOCK, 1, 1
        kernel.kernelParams = ((3.0, x, y, N), SAXPY)
        check(driver.cuGraphAddKernelNode(graph, [fill], 1, kernel))
        return graph

    def graphs(self):
        stream = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        x, y = (check(driver.cuMemAlloc(4 * N)) for _ in range(2))
        check(driver.cuMemsetD32(y, 0, N))
        check(driver.cuCtxSynchronize())  # the stream does not wait for the NULL stream
        back = (ctypes.c_float * N)()
        for make, wanted in (
            (lambda: self.captured(stream, x, y), 6.0),
            (lambda: self.built(x, y), 3.0),
        ):
            graph = make()
            executable = check(driver.cuGraphInstantiate(graph, 0))
            for _ in range(3):
                check(driver.cuGraphLaunch(executable, stream))
            check(driver.cuStreamSynchronize(stream))
            check(driver.cuMemcpyDtoH(address(back), y, 4 * N))
            require(list(back) == [wanted] * N, f"three launches: {back[0]}, not {wanted}")
            check(driver.cuGraphExecDestroy(executable))
            check(driver.cuGraphDestroy(graph))
        for memory in (x, y):
            check(driver.cuMemFree(memory))
        check(driver.cuStreamDestroy(stream))

    def compiled(self):
        """Source to NVRTC, by the same package, and its PTX to a library."""
        source = b'extern "C" __global__ void plus(int* x, int n) { x[threadIdx.x] += n; }'
        major, minor = check(nvrtc.nvrtcVersion())
        program = check(nvrtc.nvrtcCreateProgram(source, b"plus.cu", 0, [], []))
        check(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=compute_80"]))
        ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
        check(nvrtc.nvrtcGetPTX(program, ptx))
        check(nvrtc.nvrtcDestroyProgram(program))
        library = check(driver.cuLibraryLoadData(ptx, [], [], 0, [], [], 0))
        kernel = check(driver.cuLibraryGetKernel(library, b"plus"))
        function = check(driver.cuKernelGetFunction(kernel))
        memory = check(driver.cuMemAllocManaged(4 * 32, 1))
        words = (ctypes.c_int * 32).from_address(int(memory))
        words[:] = range(32)
        launch(function, 0, (POINTER, ctypes.c_int), memory, 10, grid=1, block=32)
        check(driver.cuCtxSynchronize())
        require(list(words) == list(range(10, 42)), "a kernel of NVRTC's")
        check(driver.cuMemFree(memory))
        check(driver.cuLibraryUnload(library))
        print(f"NVRTC {major}.{minor}")

    def close(self):
        check(driver.cuModuleUnload(self.module))
        check(driver.cuDevicePrimaryCtxRelease(self.device))


def main():
    program = Program(sys.argv[1])
    program.queries()
    program.modules()
    program.launches()
    program.sums()
    program.streams()
    program.graphs()
    program.compiled()
    program.close()
    print("all right")


if __name__ == "__main__":
    main()
