"""A stand-in for CuPy where there is no GPU: its arrays, functions, streams, graphs and launches, over NumPy and the
emulator.

It is as strict as CuPy: only names and parameters that CuPy has (recorded in tests/data/cupy_names.json by
tests/oracle/record_cupy.py), no NumPy array where CuPy takes none, no conversion to NumPy but by ``get``, results of
reductions are arrays, ``empty`` holds garbage, and what is captured for a graph is not run.
"""
from __future__ import annotations

import ctypes
import inspect
import json
import re
import types
from types import SimpleNamespace
from typing import Any

import numpy as np

from hybrid.runtime.cuda import emulator, nvrtc

from .fake_cupy_late import LATE, flat
from .fake_cupy_launches import (STATE, CUDADriverError, Device, Event, Module, Place, Stream, ffi,  # noqa: F401
                                 launch, library, root_of)
from ..paths import DATA

NAMES = json.loads((DATA / "cupy_names.json").read_text())
CONVERT = {"array", "asarray", "ascontiguousarray", "asanyarray"}             # these take NumPy arrays to the GPU
EMPTY = ("empty", "empty_like")                                               # these read nothing
VIEWS = ("reshape", "ravel", "squeeze", "transpose", "swapaxes", "view")      # no kernel where all lies in one piece
PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...), slice, np.generic, np.dtype, type)


def _in(x: Any, convert: bool = False) -> Any:
    """NumPy's view of an argument; TypeError as CuPy gives it."""
    if isinstance(x, ndarray):
        return x._a
    if isinstance(x, (list, tuple)):
        return type(x)(_in(v, convert) for v in x)
    if isinstance(x, np.ndarray) and x.ndim and not convert:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return x


def _out(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return ndarray(np.asarray(x))
    return (tuple if isinstance(x, tuple) else list)(_out(v) for v in x) if isinstance(x, (list, tuple)) else x


def _here(*given: Any) -> None:
    """ValueError as CuPy gives it for arrays of another device than the current one, where GPUs cannot read each
    other's memory. Where they can, CuPy computes on the current device, whose streams do not wait for the array's."""
    for x in flat(given):
        if isinstance(x, ndarray) and x._home != STATE.device:
            raise ValueError(f"The device where the array resides ({x._home}) is different from the current device "
                             f"({STATE.device}). Peer access is unavailable between these devices.")


def _copied_over(given: Any) -> None:
    """CuPy's refusal to copy from another device what does not lie in one piece."""
    for x in flat(given):
        if isinstance(x, ndarray) and x._home != STATE.device and not (x.flags.c_contiguous or x.flags.f_contiguous):
            raise NotImplementedError("CuPy cannot copy non-contiguous array between devices.")


def _bound(name: str, fn: Any, parameters: str | None) -> Any:
    """NumPy's function with CuPy's parameters and CuPy's refusals."""
    def call(*args: Any, **kwargs: Any) -> Any:
        if parameters is not None:
            known = parameters.split(",")
            stars = [k for k in known if k.startswith("*") and len(k) > 1]
            unknown = [k for k in kwargs if k not in known and not any(k.startswith("**") for k in stars)]
            if unknown or len(args) > len(known) and not any(k[1] != "*" for k in stars):
                raise TypeError(f"cupy.{name}() takes ({parameters}), got {len(args)} arguments and {sorted(kwargs)}")
        convert = name in CONVERT
        if name == "take" and len(args) > 1 and isinstance(args[1], np.ndarray):      # CuPy takes these indices along
            args = (args[0], ndarray(args[1]), *args[2:])
        (_copied_over if convert else _here)((args, kwargs))
        if LATE.on and convert and STATE.stream.ptr and len(args) == 1 and isinstance(args[0], ndarray) and not kwargs:
            return _out(LATE.copied(args[0]._a))
        if name not in EMPTY:
            LATE.settle(args, kwargs)
        given = {k: _in(v, convert) for k, v in kwargs.items()}
        result = fn(*(_in(a, convert) for a in args), **given)
        if LATE.on:
            return _out(LATE.result(result, args, kwargs, filled=name not in EMPTY))
        if name in EMPTY:
            result.view(np.uint8 if result.flags.c_contiguous and result.ndim
                        else result.dtype)[...] = 0xFF if result.dtype != bool else 1
        return _out(result)
    call.__name__ = name
    return call


# what CuPy adds at places
ADDED = ("float32", "float64", "int32", "uint32", "uint64", "complex64", "complex128", "float16")


class Ufunc:
    """An elementwise function with the methods that CuPy's have."""

    def __init__(self, fn: np.ufunc):
        self._fn, self.__name__, self.nin, self.nout = fn, fn.__name__, fn.nin, fn.nout
        self.reduce, self.accumulate, self.outer = (_bound(fn.__name__, getattr(fn, m), None)
                                                    for m in ("reduce", "accumulate", "outer"))
        self._call = _bound(fn.__name__, fn, None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        if self.__name__ not in ("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or",
                                 "bitwise_xor") or a.dtype.name not in ADDED:
            raise TypeError(f"cupy.{self.__name__}.at does not take {a.dtype}")
        _here(a, indices, b)
        LATE.settle(a, indices, b)
        self._fn.at(_in(a), _in(indices), _in(b))


def _on_device(capsule: Any, kind: int) -> Any:
    """A DLPack capsule that says its memory is of another kind of device (1 the CPU, 2 CUDA)."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    ctypes.c_int32.from_address(get(capsule, b"dltensor") + 8).value = kind         # behind the data's address
    return capsule


def _from_dlpack(source: Any) -> Any:
    assert source.__dlpack_device__()[0] == 2, "not on a GPU"
    shared = np.from_dlpack(HostView(_on_device(source.__dlpack__(), 1)))
    # NumPy takes such capsules for read-only
    interface = {**shared.__array_interface__, "data": (shared.ctypes.data, False)}
    return ndarray(np.asarray(SimpleNamespace(__array_interface__=interface, keep=shared)))


class HostView:
    """NumPy's view of a capsule."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array "on the GPU"."""

    def __init__(self, a: np.ndarray):
        root = a
        while isinstance(root.base, np.ndarray):
            root = root.base
        object.__setattr__(self, "_a", a)
        object.__setattr__(self, "_base", root_of(self, root))
        # the memory that views share, as CuPy's pointers share a block of the pool
        home = STATE.device if self._base is None else self._base._home
        object.__setattr__(self, "_place", Place(ptr=a.ctypes.data, device_id=home, mem=root))
        object.__setattr__(self, "_home", home)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in NAMES["ndarray"]:
            raise AttributeError(f"cupy.ndarray has no attribute {name!r}")
        value = getattr(self._a, name)
        if callable(value):
            def method(*args: Any, **kwargs: Any) -> Any:
                if not (name in VIEWS and self._a.flags.c_contiguous):
                    (_copied_over if name == "copy" else _here)((self, args, kwargs))
                LATE.settle(self, args, kwargs)
                result = value(*(_in(v) for v in args), **{k: _in(v) for k, v in kwargs.items()})
                return _out(LATE.result(result, self, args, kwargs))
            return method
        return value if name in ("shape", "strides", "dtype", "size", "ndim", "itemsize", "nbytes") else _out(value)

    @property
    def flags(self) -> Any:
        f = self._a.flags
        return SimpleNamespace(c_contiguous=f.c_contiguous, f_contiguous=f.f_contiguous, owndata=f.owndata)

    @property
    def data(self) -> Any:
        return self._place

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=self._home)

    @property
    def base(self) -> Any:
        return self._base

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._a.__array_interface__, "data": (self._a.ctypes.data, False), "stream": 1}

    def get(self, stream: Any = None, order: str = "C", out: Any = None) -> np.ndarray:
        if LATE.on:                            # on the array's device, but on the current device's current stream
            LATE.settle_on(self._home, LATE.stream())
        return np.array(self._a, order="C")

    def __dlpack__(self, **_: Any) -> Any:
        return _on_device(self._a.__dlpack__(), 2)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._home

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a "
                        "NumPy array explicitly.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc.__name__ not in NAMES["cupy"]:
            raise TypeError(f"cupy has no ufunc {ufunc.__name__}")
        out = kwargs.pop("out", None)
        _here(inputs, out, kwargs)
        LATE.settle(inputs, out, kwargs)
        if out is not None:
            kwargs["out"] = tuple(_in(o) for o in out)
        result = getattr(ufunc, method)(*(_in(x) for x in inputs),
                                        **{k: _in(v) if k != "out" else v for k, v in kwargs.items()})
        return out[0] if out is not None and len(out) == 1 else _out(LATE.result(result, inputs))

    def __array_function__(self, fn: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        return getattr(CUPY, fn.__name__)(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        if any(np.ndim(_in(k)) for k in flat(key)):
            _here(self, key)
        if any(not isinstance(k, (slice, type(None), type(...))) for k in flat(key)):
            LATE.settle(self, key)
        return _out(LATE.result(self._a[_in(key, True)], self))

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, (list, tuple)):
            raise TypeError(f"Unsupported type {type(value)}")
        _here(self, key, value)
        LATE.settle(self, key, value)
        at, values = _in(key, True), _in(value)
        if LATE.on:
            values = np.array(values)
            np.empty_like(self._a)[at] = values                # the errors come at once
            LATE.later(lambda: self._a.__setitem__(at, values))
        else:
            self._a[at] = values

    def __len__(self) -> int:
        return len(self._a)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self._a))])

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __index__(self) -> int:
        return self.get().__index__()

    def __repr__(self) -> str:
        return repr(self.get())


def compile_for_fake(source: str, arch: str, options: Any = ()) -> nvrtc.Compiled:
    """In place of nvrtc.compile: an image that names the emulator's library and its kernels."""
    kernels = list(dict.fromkeys(re.findall(r"__global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(", source)))
    path = emulator.compile_module(source, kernels)
    lines = "\n".join([str(path), *kernels])
    return nvrtc.Compiled(b"\x7fELF-EMU:" + lines.encode() + b"\0", "source.cu", "", {})


class FakeCuPy(types.ModuleType):
    """The module."""
    ndarray = ndarray

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in NAMES["cupy"]:
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        value = getattr(np, name)
        if inspect.isclass(value) or not callable(value):
            return value
        ufunc = name in NAMES["ufuncs"] and isinstance(value, np.ufunc)
        return Ufunc(value) if ufunc else _bound(name, value, NAMES["cupy"][name])


CUPY = FakeCuPy("cupy")
CUPY.asnumpy = lambda a: a.get() if isinstance(a, ndarray) else np.asarray(a)
CUPY.from_dlpack = _from_dlpack
CUPY.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None, free_bytes=lambda: 0)
CUPY.linalg = SimpleNamespace(**{n: _bound(n, getattr(np.linalg, n), p)
                                 for n, p in NAMES["linalg"].items() if callable(getattr(np.linalg, n, None))})
CUPY.lib = SimpleNamespace(stride_tricks=SimpleNamespace(**{
    n: _bound(n, getattr(np.lib.stride_tricks, n), p) for n,
    p in NAMES["stride_tricks"].items() if hasattr(np.lib.stride_tricks, n)}))
CUPY.cuda = SimpleNamespace(
    Device=Device, Stream=Stream, Event=Event, get_current_stream=lambda: STATE.stream,
    function=SimpleNamespace(Module=Module),
    driver=SimpleNamespace(launchKernel=launch, launchCooperativeKernel=launch, funcSetAttribute=lambda *a: None,
                           CUDADriverError=CUDADriverError,
                           occupancyMaxActiveBlocksPerMultiprocessor=lambda *a: library().stand_in_resident),
    runtime=SimpleNamespace(getDeviceCount=lambda: STATE.devices, getDevice=lambda: STATE.device,
                            free=lambda p: STATE.contexts.add(STATE.device),
                            memGetInfo=lambda: (library().stand_in_memory, 8 << 30)))
__name__ = "cupy.stand_in"          # its frames are CuPy's to whoever tells them from the user's (hybrid/jit/reads.py)
