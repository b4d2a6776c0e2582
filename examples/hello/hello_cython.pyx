"""Calls the shared library that `cargo build --release -p hello` makes, by Cython. There is no conversion by ctypes, so a call
costs less.

cython -3 hello_cython.pyx
cc -shared -fPIC $(python3-config --includes) hello_cython.c -o hello_cython.so -L../../target/release -lhello
LD_LIBRARY_PATH=../../target/release python3 -c "import hello_cython; hello_cython.hello(2, 4)"
"""

from libc.stdint cimport uint32_t


cdef extern from "hello.h" nogil:
    int c_hello "hello"(uint32_t blocks, uint32_t threads)
    const char *hello_error()


def hello(uint32_t blocks, uint32_t threads):
    """Prints a line from each thread of `blocks` blocks of `threads` threads."""
    cdef int code
    with nogil:  # other threads of Python run during the call
        code = c_hello(blocks, threads)
    if code != 0:
        raise RuntimeError(hello_error().decode())
