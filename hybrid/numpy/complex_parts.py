"""Complex arrays as two real ones: what ``np.fft`` gives, and ``np.array`` of complex numbers, so that programs and
gradients know them."""
from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as _np

from ..base.errors import DTypeError, TraceError, user_location
from ..buffers.array import NDArray
from ..graph.symbol import Symbol
from ..nd import functions
from . import protocol
from ..nd.operators import BESIDE_COMPLEX
from .multiarray import COMPLEX, array, is_value

_Parts = namedtuple("_Parts", "real imag")


def _np_function(name: str) -> Any:
    return functions.resolve("np", name)


class ComplexParts(_Parts):
    """A complex array: ``real`` and ``imag`` are arrays, or traced values, of one shape. It has arithmetic, ``abs``,
    ``conj``, ``angle``, indices, sums and shapes, takes part in NumPy's functions of those names, and may be given to
    and returned from hybridized code, as a tuple may."""
    __slots__ = ()
    __array_priority__ = 2000.0

    # ---- what it is
    @property
    def shape(self) -> Any:
        """Lengths of the axes."""
        return self.real.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> _np.dtype:
        """complex64, or complex128 where the parts are float64."""
        return _np.dtype("complex128" if _np.dtype(self.real.dtype) == "float64" else "complex64")

    def __array__(self, dtype: Any = None, copy: Any = None) -> _np.ndarray:
        return _np.asarray(self.asnumpy(), dtype)

    def asnumpy(self) -> _np.ndarray:
        """A complex array of NumPy's."""
        return (self.real.asnumpy() + 1j * self.imag.asnumpy()).astype(self.dtype)

    def __repr__(self) -> str:
        return repr(self.asnumpy()) if isinstance(self.real, NDArray) else f"ComplexParts({self.real}, {self.imag})"

    # ---- arithmetic
    def __add__(self, other: Any) -> Any:
        other = parts_of(other)
        return ComplexParts(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Any) -> Any:
        other = parts_of(other)
        return ComplexParts(self.real - other.real, self.imag - other.imag)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if is_value(other) or isinstance(other, (int, float, _np.floating, _np.integer)):
            return ComplexParts(self.real * other, self.imag * other)
        other = parts_of(other)
        return ComplexParts(self.real * other.real - self.imag * other.imag,
                            self.real * other.imag + self.imag * other.real)

    def __radd__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, list) else self + other       # a list goes on with the two parts

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if is_value(other) or isinstance(other, (int, float, _np.floating, _np.integer)):
            return ComplexParts(self.real / other, self.imag / other)
        other = parts_of(other)
        return self * other.conj() / (other.real * other.real + other.imag * other.imag)

    def __rtruediv__(self, other: Any) -> Any:
        return self.conj() * other / (self.real * self.real + self.imag * self.imag)

    def __neg__(self) -> Any:
        return ComplexParts(-self.real, -self.imag)

    def __pos__(self) -> Any:
        return self

    def __pow__(self, power: int) -> Any:
        if not isinstance(power, int) or power < 1:
            raise TypeError(f"{user_location()}: a complex array is raised to whole powers from 1 on, got {power!r}")
        return self if power == 1 else self * self ** (power - 1)

    def __abs__(self) -> Any:
        square = self.real * self.real + self.imag * self.imag
        none = square == 0                                # the square root has no derivative at 0: it counts as 0
        return _np_function("sqrt")(square + none.astype(square.dtype)) * (1 - none.astype(square.dtype))

    def __eq__(self, other: Any) -> Any:
        other = parts_of(other)
        return _np_function("logical_and")(self.real == other.real, self.imag == other.imag)

    def __ne__(self, other: Any) -> Any:
        return _np_function("logical_not")(self == other)

    __hash__ = None                                       # type: ignore[assignment]

    def conj(self) -> Any:
        """The conjugate: the other sign of the imaginary part."""
        return ComplexParts(self.real, -self.imag)

    conjugate = conj

    def angle(self, deg: bool = False) -> Any:
        """The angle, from -pi to pi, or in degrees."""
        found = _np_function("arctan2")(self.imag, self.real)
        return found * (180 / _np.pi) if deg else found

    # ---- shapes
    def each(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A method of arrays, on both parts."""
        return ComplexParts(*(getattr(part, name)(*args, **kwargs) for part in (self.real, self.imag)))

    def __getitem__(self, key: Any) -> Any:
        return ComplexParts(self.real[key], self.imag[key])

    def __len__(self) -> int:
        return len(self.real)

    def reshape(self, *shape: Any) -> Any:
        """The elements in another shape."""
        return self.each("reshape", *shape)

    def transpose(self, *axes: Any) -> Any:
        """Axes in another order."""
        return self.each("transpose", *axes)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Sums over axes."""
        return self.each("sum", axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Means over axes."""
        return self.each("mean", axis=axis, keepdims=keepdims)

    # ---- NumPy's protocols
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        fn = UFUNCS.get(ufunc.__name__)
        if fn is not None and method == "__call__" and not kwargs:
            return fn(*(parts_of(x) for x in inputs))
        return _refuse(f"{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        module = getattr(func, "__module__", "") or ""
        if module.startswith("numpy.fft"):
            return getattr(protocol.namespace().fft, func.__name__)(*args, **kwargs)
        fn = FUNCTIONS.get(func.__name__)
        return fn(*args, **kwargs) if fn is not None else _refuse(func.__name__)


def _refuse(name: str) -> Any:
    known = ", ".join(sorted({*UFUNCS, *FUNCTIONS}))
    raise TraceError(f"{user_location()}: numpy.{name} of a complex array is not supported "
                     f"(known: {known}); compute with z.real and z.imag, or outside of hybridized code and of "
                     f"autograd.record() with numpy.{name}(z.asnumpy())")


UFUNCS: dict[str, Any] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b, "true_divide": lambda a, b: a / b, "negative": lambda a: -a, "positive": lambda a: a,
    "absolute": abs, "conjugate": ComplexParts.conj, "square": lambda a: a * a,
    "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b}
FUNCTIONS: dict[str, Any] = {
    "real": lambda val: val.real, "imag": lambda val: val.imag, "angle": lambda z, deg=False: z.angle(deg),
    "sum": ComplexParts.sum, "mean": ComplexParts.mean, "reshape": ComplexParts.reshape,
    "transpose": ComplexParts.transpose, "shape": lambda a: a.shape, "ndim": lambda a: a.ndim,
    "iscomplexobj": lambda x: True, "isrealobj": lambda x: False}


def parts_of(x: Any) -> ComplexParts:
    """Both parts of a value: of a complex array, a real one, or a number."""
    if isinstance(x, ComplexParts):
        return x
    if isinstance(x, complex):
        return ComplexParts(x.real, x.imag)
    if type(x) is Symbol or isinstance(x, (NDArray, int, float)):
        return ComplexParts(x, 0.0)
    given = _np.asarray(x)
    if given.dtype.kind not in "iufcb":
        raise DTypeError(f"{user_location()}: numbers are wanted beside a complex array, got {given.dtype}")
    if given.ndim == 0:
        return parts_of(given.item())
    width = "float64" if given.dtype in (_np.complex128, _np.float64) else "float32"
    imag = array(given.imag.astype(width)) if given.dtype.kind == "c" else 0.0
    return ComplexParts(array(given.real.astype(width)), imag)


def _complex_array(values: Any, dtype: Any, ctx: Any) -> ComplexParts | None:
    """A complex array of new parts, from complex values, or from any if the dtype is complex; None for real ones."""
    wanted = dtype is not None and _np.dtype(dtype).kind == "c"
    if not (wanted or dtype is None and _is_complex(values)):
        return None
    z = values if isinstance(values, ComplexParts) else ComplexParts(values, values * 0) if is_value(values) \
        else _np.asarray(values)
    width = "float64" if (_np.dtype(dtype) if wanted else z.dtype) == "complex128" else "float32"
    return ComplexParts(array(z.real, width, ctx), array(z.imag, width, ctx))


def _is_complex(values: Any) -> bool:
    return isinstance(values, (ComplexParts, _np.ndarray, _np.generic)) and values.dtype.kind == "c"


COMPLEX.append(_complex_array)


def _with_complex(name: str, lhs: Any, rhs: Any) -> Any:
    """An operation of an array and a complex number."""
    run = UFUNCS.get(name)
    return NotImplemented if run is None else run(*(ComplexParts(x, x * 0) if is_value(x) else x for x in (lhs, rhs)))


BESIDE_COMPLEX.append(_with_complex)


__all__ = ["ComplexParts", "parts_of"]
