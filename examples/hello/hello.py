"""Calls the shared library that `cargo build --release -p hello` makes:
python3 hello.py ../../target/release/libhello.so"""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.hello.argtypes = [ctypes.c_uint32, ctypes.c_uint32]
library.hello_error.restype = ctypes.c_char_p

if library.hello(2, 4) != 0:
    sys.exit(library.hello_error().decode())
