"""The functions of compiled programs and of their threads, as cffi knows them once their declarations are parsed.

Written by cffi's ``emit_python_code`` (tests/test_runtime.py does it again and compares): parsing them at each start would
cost more than everything else between a cached program and its first result.
"""
from typing import Any

import _cffi_backend

CDEF = """
void net(void **);
void hy_set_threads(int, void *, void *);
void hy_pool_run(void (*)(void *), void *, int, int);
int *hy_pool_me(void);
"""
ffi: Any = _cffi_backend.FFI(
    "net_ffi", _version=0x2601,
    _types=b"\x00\x00\x13\x0D\x00\x00\x00\x0F\x00\x00\x14\x0D\x00\x00\x07\x01\x00\x00\x14\x03\x00\x00\x04\x11\x00\x00\x00\x0F\x00\x00\x14\x0D"
           b"\x00\x00\x04\x03\x00\x00\x00\x0F\x00\x00\x14\x0D\x00\x00\x04\x11\x00\x00\x00\x0F\x00\x00\x14\x0D\x00\x00\x0A\x03\x00\x00\x04\x11"
           b"\x00\x00\x07\x01\x00\x00\x07\x01\x00\x00\x00\x0F\x00\x00\x03\x03\x00\x00\x00\x01",
    _globals=(b"\x00\x00\x00\x23hy_pool_me", 0, b"\x00\x00\x0D\x23hy_pool_run", 0, b"\x00\x00\x02\x23hy_set_threads", 0, b"\x00\x00\x07\x23net", 0))
