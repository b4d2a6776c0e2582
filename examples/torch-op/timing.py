"""Times the operators on a GPU: python3 timing.py

Prints a line of JSON for each measurement, and shows how a measurement goes wrong.
"""

import json
import statistics
import time

import numpy as np
import torch

import torch_op
from reference import sphere

DEVICE = torch.device("cuda:0")
ROUNDS = 30


def axpy(a: float, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch_op.axpy_out(a, x, y, out)
    return out


# The same operator, registered in two other ways.
custom_axpy = torch.library.custom_op("torch_op_timing::axpy", axpy, mutates_args=(), device_types="cuda")
custom_axpy.register_fake(lambda a, x, y: torch.empty_like(x))
library = torch.library.Library("torch_op_timing", "FRAGMENT")
library.define("axpy_with_gradient(float a, Tensor x, Tensor y) -> Tensor")
library.impl("axpy_with_gradient", axpy, "CUDA")
torch.library.register_autograd(
    "torch_op_timing::axpy_with_gradient",
    lambda ctx, g: (None, ctx.a * g, g),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "a", inputs[0]),
    lib=library,
)
axpy_with_gradient = torch.ops.torch_op_timing.axpy_with_gradient.default


def host_us(calls, count=500):
    """What the host spends on each call, in µs: the median of rounds, which take turns. The device keeps up with calls as
    small as these, so that none waits for room in a queue."""
    times = [[] for _ in calls]
    for turn in range(ROUNDS + 3):
        for call, of_call in zip(calls, times):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            of_call.append((time.perf_counter() - start) / count * 1e6)
    return [statistics.median(of_call[3:]) for of_call in times]


def device_us(calls, count=20):
    """What the device spends on each call, in µs, by CUDA events on PyTorch's stream."""
    times = [[] for _ in calls]
    for turn in range(ROUNDS + 3):
        for call, of_call in zip(calls, times):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(count):
                call()
            end.record()
            end.synchronize()
            of_call.append(start.elapsed_time(end) / count * 1e3)
    return [statistics.median(of_call[3:]) for of_call in times]


def show(what, bar=None, holds=None, **values):
    rounded = {name: round(value, 3) for name, value in values.items()}
    print(json.dumps({"what": what, **rounded, "bar": bar, "holds": holds}), flush=True)


def small():
    x, y, out = (torch.randn(1024, device=DEVICE) for _ in range(3))
    ours, torchs = host_us(
        [lambda: torch_op.axpy_out(2.0, x, y, out), lambda: torch.add(y, x, alpha=2.0, out=out)]
    )
    show(
        "axpy of 1,024 floats from Python, host",
        bar="axpy_out_us < torch_add_out_us",
        holds=ours < torchs,
        axpy_out_us=ours,
        torch_add_out_us=torchs,
    )
    operator, custom, with_gradient, add = host_us(
        [
            lambda: torch_op.axpy(2.0, x, y),
            lambda: custom_axpy(2.0, x, y),
            lambda: axpy_with_gradient(2.0, x, y),
            lambda: torch.add(y, x, alpha=2.0),
        ]
    )
    show(
        "the operator by torch.library, of custom_op, host",
        bar="ratio <= 0.56",
        holds=operator / custom <= 0.56,
        operator_us=operator,
        custom_op_us=custom,
        with_register_autograd_us=with_gradient,
        torch_add_us=add,
        ratio=operator / custom,
    )


def large():
    x, y, out = (torch.randn(1 << 24, device=DEVICE) for _ in range(3))
    ours, torchs = device_us(
        [lambda: torch_op.axpy_out(2.0, x, y, out), lambda: torch.add(y, x, alpha=2.0, out=out)]
    )
    show(
        "axpy of 16 Mi floats on PyTorch's stream, events",
        bar="axpy_us <= 50 (H200)",
        holds=ours <= 50,
        axpy_us=ours,
        torch_add_us=torchs,
    )
    # The wrong way: a call returns when its work is enqueued, so the clock shows the host's time.
    torch.cuda.synchronize()
    start = time.perf_counter()
    torch_op.axpy_out(2.0, x, y, out)
    wrong = (time.perf_counter() - start) * 1e6
    torch.cuda.synchronize()
    # Right, and rougher than events: it includes the launch and the wait.
    start = time.perf_counter()
    torch_op.axpy_out(2.0, x, y, out)
    torch.cuda.synchronize()
    waited = (time.perf_counter() - start) * 1e6
    show("axpy of 16 Mi floats by the host's clock", without_wait_us=wrong, with_wait_us=waited, events_us=ours)


def distances():
    n, rng = 100_000, np.random.default_rng(0)
    vertices, faces = (torch.tensor(array, device=DEVICE) for array in sphere(5, rng))
    points = torch.rand(n, 3, device=DEVICE) * 3 - 1.5
    points.requires_grad_(), vertices.requires_grad_()
    g = torch.ones(n, device=DEVICE)

    def forward():
        with torch.no_grad():
            torch_op.signed_distance(points, vertices, faces)

    def both():
        torch.autograd.grad(torch_op.signed_distance(points, vertices, faces), (points, vertices), g)

    alone, together = device_us([forward, both], count=5)
    what = f"signed_distance of {n} points from {len(faces)} faces, events"
    show(what, forward_us=alone, forward_backward_us=together)


if __name__ == "__main__":
    print(json.dumps({"device": torch.cuda.get_device_name(), "pytorch": torch.__version__}), flush=True)
    small()
    large()
    distances()
