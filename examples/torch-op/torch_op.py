"""Operators for PyTorch in CUDA and Rust: axpy, and signed_distance with gradients. README.md explains this file."""
import ctypes
import functools
import os
import torch

# 1. The library: named by a variable, or where cargo builds it.
_built = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../target/release/libtorch_op.so")
_path = os.environ.get("TORCH_OP_LIBRARY", _built)
_c = ctypes.CDLL(_path)  # releases the interpreter's lock during a call
_python = ctypes.PyDLL(_path)  # keeps it, for functions that read Python objects
_c.torch_op_error.restype = ctypes.c_char_p
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

# 2. Its functions. They enqueue on PyTorch's current stream and do not wait. PyTorch 2.11 and later have a table of C
# functions, by which the library reads tensors, stream and allocator. Without it, tensors are passed as DLPack capsules.
_table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)


def _raise_error(code, function, arguments):
    if code != 0:
        raise (ValueError if code == 1 else RuntimeError)(_c.torch_op_error().decode())


def _function(name, *types, table=_table):
    function = _python[f"torch_op_{name}_objects"] if table else _c[f"torch_op_{name}"]
    tensor = ctypes.py_object if table else ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, *(tensor if type is torch.Tensor else type for type in types)]
    function.errcheck = _raise_error
    if table:
        return functools.partial(function, _pointer(table, b"dlpack_exchange_api"))
    def by_capsules(*arguments):
        device = next(a.device for a in arguments if isinstance(a, torch.Tensor))
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        # What a capsule points to begins with the DLTensor. It is freed with the capsule, after the call.
        capsules = [torch.utils.dlpack.to_dlpack(a) if isinstance(a, torch.Tensor) else None for a in arguments]
        function(stream, *(_pointer(c, b"dltensor") if c else a for a, c in zip(arguments, capsules)))
    return by_capsules


# The fastest call: PyTorch's dispatcher has no part in it. axpy_out(a, x, y, out) has no gradient.
axpy_out = _function("axpy", ctypes.c_float, *[torch.Tensor] * 3)
_distance_out = _function("signed_distance", *[torch.Tensor] * 4)
_gradients_out = _function("signed_distance_backward", *[torch.Tensor] * 6, ctypes.c_int)
# 3. The operators.
_library = torch.library.Library("torch_op", "DEF")


def _operator(schema, results, compute):
    """Defines an operator by its schema, its results without contents, and a function that writes them on a GPU."""
    def run(*inputs):
        out = results(*inputs)
        compute(*inputs, out)
        return out
    name = schema.partition("(")[0]
    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(name, run, "CUDA")
    torch.library.register_fake(f"torch_op::{name}", results, lib=_library)  # for torch.compile
    return getattr(torch.ops.torch_op, name).default


def _axpy(a, x, y, out):
    if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad):
        raise RuntimeError("axpy has no gradient: detach `x` and `y`, or call it under torch.no_grad()")
    axpy_out(a, x, y, out)


def _gradients(g, points, vertices, faces, wanted):  # one that is not wanted has no elements
    return tuple(torch.empty_like(x) if want else x.new_empty((0, 3)) for x, want in zip((points, vertices), wanted))


def _write_gradients(g, points, vertices, faces, wanted, out):
    _gradients_out(g, points, vertices, faces, *out, torch.are_deterministic_algorithms_enabled())


_tensors = "Tensor points, Tensor vertices, Tensor faces"
_distances = lambda points, vertices, faces: points.new_empty(points.shape[:-1])
axpy = _operator("axpy(float a, Tensor x, Tensor y) -> Tensor", lambda a, x, y: torch.empty_like(x), _axpy)
signed_distance = _operator(f"signed_distance({_tensors}) -> Tensor", _distances, _distance_out)
_schema = f"signed_distance_backward(Tensor g, {_tensors}, bool[2] wanted) -> (Tensor, Tensor)"
_signed_distance_backward = _operator(_schema, _gradients, _write_gradients)


# 4. The gradient. PyTorch saves the tensors, so it notices if one is changed before `backward`.
def _backward(ctx, g):
    wanted = ctx.needs_input_grad[:2]
    gradients = _signed_distance_backward(g.contiguous(), *ctx.saved_tensors, wanted)
    return *(gradient if want else None for gradient, want in zip(gradients, wanted)), None


def _no_second_derivative(ctx, *g):
    raise RuntimeError("signed_distance has no second derivative")


_save = lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
torch.library.register_autograd("torch_op::signed_distance", _backward, setup_context=_save, lib=_library)
torch.library.register_autograd("torch_op::signed_distance_backward", _no_second_derivative, lib=_library)
