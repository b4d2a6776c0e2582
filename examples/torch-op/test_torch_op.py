"""Tests the operators on a GPU: python3 test_torch_op.py

Prints a line for each check, and fails if one does. Checks of packages and devices that are missing are not run.
"""

import ctypes
import importlib.util
import os
import shutil
import sys
import threading
import traceback
import warnings

import numpy as np
import torch

import torch_op
from reference import GRADIENT, oracle, sphere

CHECKS = []
DEVICE = torch.device("cuda:0")


class NotRun(Exception):
    """The machine lacks what a check needs."""


def check(function):
    CHECKS.append(function)
    return function


def require(holds, what):
    if not holds:
        raise AssertionError(what)


def near(what, given, wanted, bound=GRADIENT):
    given = given.detach().cpu().double().numpy() if isinstance(given, torch.Tensor) else given
    wanted = wanted.detach().cpu().double().numpy() if isinstance(wanted, torch.Tensor) else wanted
    off = np.abs(given - wanted).max(initial=0.0)
    require(given.shape == wanted.shape and off <= bound, f"{what}: off by {off}, allowed is {bound}")


def refused(error, words, call):
    """The call raises the error, whose text has the words."""
    try:
        call()
        torch.cuda.synchronize()
    except error as raised:
        missing = [word for word in words if word not in str(raised)]
        require(not missing, f"{missing} is not in: {raised}")
    else:
        raise AssertionError(f"no error with {words}")


def scene(n=200, detail=2, device=DEVICE, seed=0):
    """Points, and vertices and faces of a bumpy sphere; the points are not close to its surface."""
    rng = np.random.default_rng(seed)
    vertices, faces = sphere(detail, rng)
    points = rng.uniform(-1.5, 1.5, (8 * n, 3)).astype(np.float32)
    far = np.abs(oracle(points, vertices, faces, np.zeros(len(points)))[0]) > 0.1
    query = [torch.tensor(array, device=device) for array in (points[far][:n], vertices, faces)]
    query[0].requires_grad_(), query[1].requires_grad_()
    return query


def host(tensors):
    return [tensor.detach().cpu().numpy() for tensor in tensors]


def gradients_near(query, g):
    """The gradients in `.grad` are those of the reference."""
    wanted = oracle(*host(query), np.asarray(g, dtype=np.float32))
    near("by points", query[0].grad, wanted[1])
    near("by vertices", query[1].grad, wanted[2])


@check
def axpy_has_the_values_of_torch_add():
    for n in (0, 1, 3, 4, 5, 31, 32, 33, 1023, 1024, 1025, (1 << 20) + 3):
        for offset in (0, 1):
            x, y = (torch.randn(n + offset, device=DEVICE)[offset:] for _ in range(2))
            wanted = torch.add(y, x, alpha=2.5)
            near(f"axpy of {n}", torch_op.axpy(2.5, x, y), wanted, 1e-5)
            out = torch.full_like(x, float("nan"))
            torch_op.axpy_out(2.5, x, y, out)
            near(f"axpy_out of {n}", out, wanted, 1e-5)
    x = torch.randn(3, 5, 7, device=DEVICE)
    near("axpy of three dimensions", torch_op.axpy(-1.0, x, x), torch.zeros_like(x), 0)


@check
def distances_and_gradients_are_those_of_the_reference():
    for n, detail in ((0, 0), (1, 0), (31, 1), (32, 1), (33, 2), (1000, 2)):
        query = scene(n, detail)
        g = torch.randn(n, device=DEVICE)
        distances = torch_op.signed_distance(*query)
        near("distances", distances, oracle(*host(query), host([g])[0])[0], 1e-5)
        distances.backward(g)
        gradients_near(query, host([g])[0])


@check
def a_gradient_that_is_not_wanted_is_not_computed():
    for wanted in (0, 1):
        query = scene()
        query[1 - wanted].requires_grad_(False)
        torch_op.signed_distance(*query).sum().backward()
        require(query[1 - wanted].grad is None, "a gradient that nobody wants")
        near("the wanted gradient", query[wanted].grad, oracle(*host(query), np.ones(200))[1 + wanted])


@check
def gradcheck():
    query = scene(12, 0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*double precision.*")
        require(
            torch.autograd.gradcheck(
                lambda points, vertices: torch_op.signed_distance(points, vertices, query[2]),
                tuple(query[:2]),
                eps=1e-3,
                atol=1e-2,
                rtol=1e-2,
                nondet_tol=1e-5,
            ),
            "gradcheck",
        )


@check
def opcheck():
    points, vertices, faces = scene(20, 1)
    x = torch.randn(10, device=DEVICE)
    cases = [
        (torch_op.axpy, (2.0, x, x.clone())),
        (torch_op.signed_distance, (points, vertices, faces)),
        (torch_op.signed_distance, (points.detach(), vertices, faces)),
        (
            torch.ops.torch_op.signed_distance_backward.default,
            (torch.randn(20, device=DEVICE), points.detach(), vertices.detach(), faces, [True, False]),
        ),
    ]
    for operator, arguments in cases:
        results = torch.library.opcheck(operator, arguments)
        require(set(results.values()) == {"SUCCESS"}, f"{operator}: {results}")


def loss_of(points, vertices, faces):
    distances = torch_op.signed_distance(points, vertices, faces)
    return torch_op.axpy(2.0, distances.detach(), distances.detach()).sum() + (distances**2).sum()


def compiled(backend):
    query, compiled_query = scene(), scene()
    torch._dynamo.reset()
    wanted = loss_of(*query)
    given = torch.compile(loss_of, fullgraph=True, backend=backend)(*compiled_query)
    wanted.backward(), given.backward()
    near("loss", given, wanted, 1e-2)
    near("by points", compiled_query[0].grad, query[0].grad, 1e-5)
    near("by vertices", compiled_query[1].grad, query[1].grad, 1e-3)


@check
def compile_fullgraph_without_code_generation():
    compiled("aot_eager")


@check
def compile_fullgraph():
    if not (importlib.util.find_spec("triton") and (shutil.which("cc") or shutil.which("gcc"))):
        raise NotRun("torch.compile's code generator needs triton and a C compiler")
    compiled("inductor")


@check
def a_captured_operator_is_replayed():
    x, y, query = torch.randn(1000, device=DEVICE), torch.randn(1000, device=DEVICE), scene()

    def work():
        distances = torch_op.signed_distance(*query)
        return torch_op.axpy(2.0, x, y), distances, torch.autograd.grad(distances.sum(), query[:2])

    # Kernels are loaded before the capture.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total, distances, gradients = work()
    for factor in (1.0, 3.0):
        with torch.no_grad():
            query[0].mul_(factor), x.mul_(factor)
        graph.replay()
        torch.cuda.synchronize()
        wanted = oracle(*host(query), np.ones(200))
        near("axpy", total, torch.add(y, x, alpha=2.0), 1e-5)
        near("distances", distances, wanted[0], 1e-5)
        near("by vertices", gradients[1], wanted[2])
    del graph


@check
def work_is_ordered_by_the_current_stream():
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            x, y = torch.zeros(1 << 20, device=DEVICE), torch.ones(1 << 20, device=DEVICE)
            torch.cuda._sleep(100_000_000)
            x.fill_(3.0)
            out = torch_op.axpy(2.0, x, y)
            y.fill_(float("nan"))
            near("axpy behind a slow kernel", out, torch.full_like(out, 7.0), 0)


@check
def scratch_memory_is_pytorchs():
    query = scene(1000, 3)
    torch_op.signed_distance(*query)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    distances = torch_op.signed_distance(*query)
    grown = torch.cuda.max_memory_allocated() - before - distances.untyped_storage().nbytes()
    require(grown > 4 * query[2].numel(), f"the peak has grown by {grown} bytes besides the result")
    del distances
    require(torch.cuda.memory_allocated() == before, "memory is not freed")


@check
def capsules_give_the_same_bits():
    tensor, query = torch.Tensor, host(scene())
    query = [torch.tensor(array, device=DEVICE) for array in query]
    x, y, out = (torch.randn(1000, device=DEVICE) for _ in range(3))
    torch_op._function("axpy", ctypes.c_float, *[tensor] * 3, table=None)(2.0, x, y, out)
    require(torch.equal(out, torch_op.axpy(2.0, x, y)), "axpy")
    distances = torch.empty(len(query[0]), device=DEVICE)
    by_capsules = torch_op._function("signed_distance", *[tensor] * 4, table=None)
    by_capsules(*query, distances)
    require(torch.equal(distances, torch_op.signed_distance(*query)), "signed_distance")
    refused(ValueError, ["`y`", "float64"], lambda: by_capsules_of_axpy(x, y.double(), out))


def by_capsules_of_axpy(x, y, out):
    torch_op._function("axpy", ctypes.c_float, *[torch.Tensor] * 3, table=None)(2.0, x, y, out)


@check
def deterministic_algorithms_give_the_same_bits():
    bits = set()
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(3):
            query = scene(1000, 1)
            torch_op.signed_distance(*query).sum().backward()
            bits.add(query[1].grad.cpu().numpy().tobytes())
            gradients_near(query, np.ones(1000))
    finally:
        torch.use_deterministic_algorithms(False)
    require(len(bits) == 1, f"{len(bits)} different results")


@check
def errors_name_argument_and_value():
    x, y, out = (torch.ones(6, device=DEVICE) for _ in range(3))
    axpy = torch_op.axpy
    refused(ValueError, ["`x`", "int32"], lambda: axpy(1.0, x.int(), y))
    refused(ValueError, ["`y`", "float64"], lambda: axpy(1.0, x, y.double()))
    refused(ValueError, ["`y`", "bfloat16"], lambda: axpy(1.0, x, y.bfloat16()))
    refused(ValueError, ["`y`", "host"], lambda: axpy(1.0, x, y.cpu()))
    refused(ValueError, ["`x`", "device type 1"], lambda: torch_op.axpy_out(1.0, x.cpu(), y, out))
    refused(ValueError, ["`y`", "[5]", "[6]"], lambda: axpy(1.0, x, y[:5]))
    refused(ValueError, ["`x`", "[2]", "[3]"], lambda: axpy(1.0, x[::2], y[:3]))
    refused(ValueError, ["`x`", "[1, 2]", "[2, 3]"], lambda: axpy(1.0, x.view(3, 2).t(), y.view(2, 3)))
    refused(ValueError, ["`out`", "overlap"], lambda: torch_op.axpy_out(1.0, x, y, y))
    refused(RuntimeError, ["axpy", "gradient"], lambda: axpy(1.0, x.clone().requires_grad_(), y))
    refused(NotImplementedError, ["axpy", "CPU"], lambda: axpy(1.0, x.cpu(), y.cpu()))
    refused((RuntimeError, TypeError, ctypes.ArgumentError), [], lambda: torch_op.axpy_out(1.0, [1.0], y, out))
    with torch.no_grad():
        axpy(1.0, x.clone().requires_grad_(), y)

    points, vertices, faces = (tensor.detach() for tensor in scene())
    distance = torch_op.signed_distance
    refused(ValueError, ["`faces`", "int64"], lambda: distance(points, vertices, faces.long()))
    refused(ValueError, ["`points`", "[200, 2]"], lambda: distance(points[:, :2].contiguous(), vertices, faces))
    turned = points.t().contiguous().t()
    refused(ValueError, ["`points`", "[1, 200]", "[200, 3]"], lambda: distance(turned, vertices, faces))
    refused(ValueError, ["`vertices`", "float16"], lambda: distance(points, vertices.half(), faces))
    near("axpy after errors", axpy(1.0, x, y), torch.full_like(x, 2.0), 0)


@check
def a_change_in_place_before_backward_is_an_error():
    for which in range(3):
        query = scene()
        loss = torch_op.signed_distance(*query).sum()
        with torch.no_grad():
            query[which].mul_(2)
        refused(RuntimeError, ["modified by an inplace operation"], loss.backward)


@check
def gradients_need_not_be_contiguous():
    g = torch.randn(400, device=DEVICE)[::2]
    query = scene()
    torch_op.signed_distance(*query).backward(g)
    gradients_near(query, host([g])[0])
    query = scene()
    torch_op.signed_distance(*query).sum().backward()  # an expanded 1, with a stride of 0
    gradients_near(query, np.ones(200))


@check
def retain_graph():
    query = scene()
    loss = torch_op.signed_distance(*query).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    gradients_near(query, np.full(200, 2.0))
    refused(RuntimeError, ["second time"], loss.backward)


@check
def there_is_no_second_derivative():
    query = scene()
    gradient = torch.autograd.grad(torch_op.signed_distance(*query).sum(), query[0], create_graph=True)[0]
    refused(RuntimeError, ["no second derivative"], lambda: gradient.norm(dim=1).sum().backward())


@check
def backward_on_another_thread_and_stream():
    query, failures = scene(), []
    forward, other = torch.cuda.Stream(), torch.cuda.Stream()
    forward.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(forward):
        torch.cuda._sleep(10_000_000)
        loss = torch_op.signed_distance(*query).sum()

    def backward():
        try:
            with torch.cuda.stream(other):
                loss.backward()
            other.synchronize()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    require(not failures, f"backward: {failures}")
    torch.cuda.synchronize()
    gradients_near(query, np.ones(200))


@check
def threads_with_streams_of_their_own():
    failures = []

    def work(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for step in range(50):
                    x = torch.full((1000 + seed,), float(step), device=DEVICE)
                    near("axpy", torch_op.axpy(2.0, x, x), 3 * x, 0)
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    require(not failures, f"{failures}")


@check
def a_call_after_fork_is_an_error():
    x, y, out = (torch.ones(6, device=DEVICE) for _ in range(3))
    torch_op.axpy_out(1.0, x, y, out)
    torch.cuda.synchronize()
    child = os.fork()
    if child == 0:
        try:
            torch_op.axpy_out(1.0, x, y, out)
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 2)
        finally:
            os._exit(3)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    require(status == 0, f"the child has ended with {status}")
    near("axpy in the parent", torch_op.axpy(1.0, x, y), torch.full_like(x, 2.0), 0)


def second_device():
    if torch.cuda.device_count() < 2:
        raise NotRun("there is one device")
    return torch.device("cuda:1")


@check
def another_device_than_the_current_one():
    device = second_device()
    require(torch.cuda.current_device() == 0, "the current device")
    x, y = (torch.randn(1000, device=device) for _ in range(2))
    near("axpy", torch_op.axpy(2.0, x, y), torch.add(y, x, alpha=2.0), 1e-5)
    query = scene(device=device)
    torch_op.signed_distance(*query).sum().backward()
    gradients_near(query, np.ones(200))
    refused(ValueError, ["`y`", "device 0", "device 1"], lambda: torch_op.axpy(1.0, x, y.to(DEVICE)))
    require(torch.cuda.current_device() == 0, "the current device has changed")


@check
def data_parallel():
    second_device()

    class Distance(torch.nn.Module):
        def __init__(self, vertices, faces):
            super().__init__()
            self.vertices = torch.nn.Parameter(vertices.detach())
            self.register_buffer("faces", faces)

        def forward(self, points):
            return torch_op.signed_distance(points, self.vertices, self.faces)

    query = scene()
    module = Distance(*query[1:])
    parallel = torch.nn.DataParallel(module, device_ids=[0, 1])
    parallel(query[0]).sum().backward()
    query[1].grad = module.vertices.grad
    gradients_near(query, np.ones(200))


@check
def fake_tensors_have_shape_and_device():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        points, vertices = torch.empty(7, 3, device="cuda"), torch.empty(9, 3, device="cuda")
        faces = torch.empty(5, 3, dtype=torch.int32, device="cuda")
        distances = torch_op.signed_distance(points, vertices, faces)
        require(distances.shape == (7,) and distances.is_cuda, f"{distances}")
        require(torch_op.axpy(1.0, points, points).shape == (7, 3), "axpy")


@check
def the_profiler_shows_the_kernels_name():
    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(1000, device=DEVICE)
    query = scene()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        torch_op.axpy(2.0, x, x)
        torch_op.signed_distance(*query)
        torch.cuda.synchronize()
    names = {event.key for event in profiler.key_averages()}
    require("axpy" in names, f"no kernel `axpy` in {sorted(names)}")
    require("torch_op::axpy" in names, f"no operator `torch_op::axpy` in {sorted(names)}")


@check
def tensors_of_cupy():
    if not importlib.util.find_spec("cupy"):
        raise NotRun("CuPy is not installed")
    import cupy

    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, dtype=cupy.float32)
    cupy.cuda.get_current_stream().synchronize()
    out = torch_op.axpy(2.0, torch.from_dlpack(x), torch.from_dlpack(y))
    torch.cuda.synchronize()
    require(bool((cupy.from_dlpack(out) == 2 * x + y).all()), "axpy of CuPy's arrays")
    # Written in CuPy's memory.
    torch_op.axpy_out(3.0, torch.from_dlpack(x), torch.from_dlpack(y), torch.from_dlpack(z := cupy.zeros_like(x)))
    torch.cuda.synchronize()
    require(bool((z == 3 * x + y).all()), "axpy into CuPy's array")


@check
def tensors_of_jax():
    if not importlib.util.find_spec("jax"):
        raise NotRun("JAX is not installed")
    import jax

    if all(device.platform != "gpu" for device in jax.devices()):
        raise NotRun("JAX has no GPU")
    x = jax.numpy.arange(1000, dtype=jax.numpy.float32).block_until_ready()
    out = torch_op.axpy(2.0, torch.from_dlpack(x), torch.from_dlpack(x))
    torch.cuda.synchronize()
    require(bool((jax.dlpack.from_dlpack(out) == 3 * x).all()), "axpy of JAX's arrays")


def main():
    torch.manual_seed(25)
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, exchange table: {bool(torch_op._table)}")
    failed = 0
    for function in CHECKS:
        if len(sys.argv) > 1 and function.__name__ not in sys.argv[1:]:
            continue
        try:
            function()
            torch.cuda.synchronize()
            print(f"ok {function.__name__}", flush=True)
        except NotRun as reason:
            print(f"not run {function.__name__}: {reason}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {function.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{failed} failed" if failed else "all right")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
