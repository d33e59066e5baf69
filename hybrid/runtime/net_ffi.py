"""The functions of compiled programs and of their threads, as cffi knows them once their declarations are parsed.

Written by cffi's ``emit_python_code`` (tests/runtime/test_runtime.py does it again and compares): parsing them at each
start would cost more than everything else between a cached program and its first result.
"""
from typing import Any

import _cffi_backend

CDEF = """
void net(void **);
struct hy_link { int *threads; int parts; void **pool, **me; };
extern const struct hy_link hy_link;
void hy_pool_run(void (*)(void *), void *, int, int);
int *hy_pool_me(void);
extern int hy_pool_most;
"""
ffi: Any = _cffi_backend.FFI(
    "net_ffi", _version=0x2601,
    _types=b"\x00\x00\x0E\x0D\x00\x00\x00\x0F\x00\x00\x10\x0D\x00\x00\x06\x03\x00\x00\x00\x0F\x00\x00\x10\x0D\x00\x00\x10\x03\x00\x00\x00\x0F"  # noqa: E501
           b"\x00\x00\x10\x0D\x00\x00\x05\x03\x00\x00\x06\x11\x00\x00\x07\x01\x00\x00\x07\x01\x00\x00\x00\x0F\x00\x00\x0B\x03\x00\x00\x00\x09"  # noqa: E501
           b"\x00\x00\x00\x01",
    _globals=(b"\x00\x00\x0F\x25hy_link", 0, b"\x00\x00\x00\x23hy_pool_me", 0,
              b"\x00\x00\x0B\x21hy_pool_most", 0, b"\x00\x00\x08\x23hy_pool_run", 0, b"\x00\x00\x02\x23net", 0),
    _struct_unions=((b"\x00\x00\x00\x0F\x00\x00\x00\x02hy_link", b"\x00\x00\x0E\x11threads", b"\x00\x00\x0B\x11parts",
                     b"\x00\x00\x03\x11pool",
                     b"\x00\x00\x03\x11me"),))
