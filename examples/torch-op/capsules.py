"""Takes tensors out of DLPack capsules, for the functions of torch_op.h.

For frameworks without an exchange table, such as JAX and CuPy:

    with take(x.__dlpack__(stream=1), "x") as x, take(out.__dlpack__(stream=1), "out", writes=True) as out:
        library.torch_op_axpy(1, 2.0, x, x, out)
"""
import contextlib
import ctypes
import threading


def _api(name, result, *types):
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, types
    return function


_is_capsule = _api("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_get_name = _api("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_get_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_set_name = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# A capsule points to its name, so the new names are never freed.
_USED = {name: ctypes.c_char_p(b"used_" + name) for name in (b"dltensor", b"dltensor_versioned")}
for _name in _USED.values():
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_name))
_rename = threading.Lock()
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


@contextlib.contextmanager
def take(capsule, argument, writes=False):
    """Gives the address of a capsule's DLTensor, and deletes the tensor at the end. A capsule is taken once."""
    with _rename:  # so that of two threads one takes it
        name = _get_name(capsule)  # raises an exception for other objects
        if name not in _USED or not _is_capsule(capsule, name):
            given = "without a name" if name is None else f"named `{name.decode(errors='replace')}`"
            used = "it was used before" if name and name.startswith(b"used_") else "it holds no tensor"
            raise ValueError(f"argument `{argument}` is a capsule {given}: {used}")
        managed = _get_pointer(capsule, name)
        _set_name(capsule, _USED[name])  # now the tensor is not deleted with the capsule
    versioned = name == b"dltensor_versioned"
    # In DLManagedTensorVersioned: version, manager_ctx, deleter, flags, dl_tensor. Before: dl_tensor, manager_ctx, deleter.
    tensor, deleter = (managed + 32, managed + 16) if versioned else (managed, managed + 56)
    try:
        if versioned:
            major, flags = ctypes.c_uint32.from_address(managed).value, ctypes.c_uint64.from_address(managed + 24).value
            if major != 1:
                raise ValueError(f"argument `{argument}` has version {major} of DLPack, not 1")
            if writes and flags & _READ_ONLY:
                raise ValueError(f"argument `{argument}` is written, and its tensor is read-only")
        yield tensor
    finally:
        delete = ctypes.c_void_p.from_address(deleter).value
        if delete:
            _DELETER(delete)(managed)
