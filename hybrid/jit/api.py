"""The decorator: ``@hybridize`` on functions, plain classes and Block classes."""
from __future__ import annotations

import copy
import functools
import importlib
from collections import OrderedDict
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Callable, TypeVar, overload

import numpy as np

from ..buffers.array import NDArray
from ..base.dtype import as_dtype
from ..base.errors import TraceError, shortened, warn_user
from ..base.pickles import name_of, taken_by_value
from .dims import checked
from .fast_path import NO_FAST_PATH
from .programs import ProgramInfo
from .deferred import entrances  # noqa: F401  blocks tell it of their calls
from .trace import Hybridized

OPTIONS = {"active", "backend", "backend_opts", "clear", "static_alloc", "static_shape", "inline_limit",
           "forward_bulk_size", "backward_bulk_size", "partition_if_dynamic", "precision", "dynamic"}
HYBRIDIZE_BLOCKS: list[Callable[[Any, dict[str, Any]], Any]] = []     # gluon says how its blocks are hybridized


def check_options(options: dict[str, Any]) -> dict[str, Any]:
    """Known options; of others a warning is given, for the ``hybridize`` of MXNet's blocks takes any."""
    if set(options) - OPTIONS:
        warn_user(f"{_unknown(options)}: ignored")
    if "dynamic" in options:
        options = {**options, "dynamic": checked(options["dynamic"])}
    return {k: _precision(v) if k == "precision" else v for k, v in options.items() if k in OPTIONS}


def _precision(given: Any) -> str | None:
    """The precision of products with parameters: "bf16", or None for float32."""
    if given in (None, "float32", "fp32", "f32"):
        return None
    if given not in ("bf16", "bfloat16"):
        raise ValueError(f"hybridize(precision=...) takes 'bf16' or 'float32', got {given!r}; for 8-bit integers see "
                         "hybrid.contrib.quantization, for float16 net.cast")
    as_dtype("bfloat16")                                   # says what to install
    return "bf16"


def _unknown(options: dict[str, Any]) -> str:
    return f"hybridize has no option {', '.join(sorted(set(options) - OPTIONS))}; it has {', '.join(sorted(OPTIONS))}"


if TYPE_CHECKING:
    from typing import Protocol

    from typing_extensions import ParamSpec

    Parameters = ParamSpec("Parameters")
    Result_co = TypeVar("Result_co", covariant=True)

    class Compiling(Protocol[Parameters, Result_co]):
        """A hybridized function, as type checkers see it."""

        def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result_co: ...
        def hybridize(self, active: bool = True, **options: Any) -> None: ...
        def report(self) -> Any: ...
        def explain(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Any: ...
        @property
        def cache_misses(self) -> list[str]: ...
        @property
        def programs(self) -> list[ProgramInfo]: ...
        @overload
        def __get__(self, owner: None, cls: type) -> "Compiling[Parameters, Result_co]": ...
        @overload
        def __get__(self, owner: object, cls: type | None = None) -> Callable[..., Result_co]: ...

    class Hybridizing(Protocol):
        """``hybridize`` with options, still without its target."""

        @overload
        def __call__(self, target: type[Class]) -> type[Class]: ...     # type: ignore[overload-overlap]
        @overload
        def __call__(self, target: Callable[Parameters, Result_co]) -> Compiling[Parameters, Result_co]: ...

Class = TypeVar("Class")


@overload
def hybridize(target: None = None, **options: Any) -> Hybridizing: ...
@overload
def hybridize(target: type[Class], **options: Any) -> type[Class]: ...
@overload
def hybridize(target: Callable[Parameters, Result_co], **options: Any) -> Compiling[Parameters, Result_co]: ...
def hybridize(target: Any = None, **options: Any) -> Any:
    """Compile a function, or the instances of a class, at the first call with each kind of arguments.

    On a function, arrays among the arguments (also nested in lists, tuples, dicts) are inputs of the compiled program;
    other arguments must be hashable and are part of its signature. On a class with ``forward`` or ``__call__``, arrays
    and parameters in its attributes are inputs too. Options are those of ``HybridBlock.hybridize``.

    >>> @hybridize
    ... def f(x, y):
    ...     return (x * y + 1).sum()
    """
    if set(options) - OPTIONS:
        raise TypeError(_unknown(options))
    options = check_options(options)
    if target is None:
        return functools.partial(hybridize, **options)
    if options.get("active") is False:
        return target
    if isinstance(target, type):
        for decorate in HYBRIDIZE_BLOCKS:
            done = decorate(target, options)
            if done is not None:
                return done
        return _plain_class(target, options)
    if isinstance(target, (classmethod, staticmethod)):
        return type(target)(hybridize(target.__func__, **options))
    if hasattr(target, "hybridize") and not callable(getattr(target, "__wrapped__", None)):
        target.hybridize(**options)
        return target
    if not callable(target):
        raise TypeError(f"@hybridize needs a function or a class, got {target!r}")
    return HybridFunction(target, options)


class HybridFunction:
    """A hybridized function; also works as a method."""

    def __init__(self, fn: Callable[..., Any], options: dict[str, Any]):
        functools.update_wrapper(self, fn)
        self._fn, self._options = fn, options
        self._engine = Hybridized(fn, getattr(fn, "__qualname__", "function"), options=options)
        self._active = True
        self._fast_path = self._engine.fast_path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            fast = self._fast_path[0]
            if fast is not None:
                out = fast(*args, **kwargs) if kwargs else fast(*args)
                if out is not None:
                    return out
            return self._engine.slow_path(*args, **kwargs) if self._active else self._fn(*args, **kwargs)
        except Exception as err:
            shortened(err)
            raise

    def __repr__(self) -> str:
        return f"<hybridized {getattr(self, '__qualname__', None) or repr(self._fn)}>"

    def hybridize(self, active: bool = True, **options: Any) -> None:
        """Switch compilation on or off."""
        check_options(options)
        self._active, self._fast_path = active, self._engine.fast_path if active else NO_FAST_PATH

    def report(self) -> Any:
        """The compile report of the newest signature."""
        return self._engine.report()

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """A page that shows what a call is compiled to and how it runs: ``hybrid.explain``."""
        return importlib.import_module("hybrid.debug").explain(self, *args, **kwargs)

    @property
    def cache_misses(self) -> list[str]:
        """Why calls had to be compiled."""
        return self._engine.cache_misses

    @property
    def programs(self) -> list[ProgramInfo]:
        """The compiled programs, the oldest first: sizes, guards, and how often the compiler ran."""
        return self._engine.programs()

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        if owner is None:
            return self
        name, full = self.__name__, self.__qualname__  # type: ignore[attr-defined]
        return _bound(owner, f"_hybrid_{name}", self._fn, full, self._options, name)

    def __deepcopy__(self, memo: Any) -> "HybridFunction":
        """Itself, as copies of functions are, but of a copy of what has arrays of its own: a Block, a partial."""
        fn = copy.deepcopy(self._fn, memo)
        if fn is self._fn:
            return self
        made = HybridFunction.__new__(HybridFunction)
        made.__setstate__((fn, self._options, self._active))
        return made

    def __reduce__(self) -> Any:
        """By its name, as functions are pickled; without one that leads to it, and where cloudpickle takes functions of
        its module by value, it is hybridized anew."""
        name = name_of(self)
        # its own globals may lead to it: what it is made of comes after it
        return name or (HybridFunction.__new__, (HybridFunction,), (self._fn, self._options, self._active))

    def __setstate__(self, state: tuple[Callable[..., Any], dict[str, Any], bool]) -> None:
        fn, options, active = state
        self.__init__(fn, options)                                # type: ignore[misc]
        self.hybridize(active)


class ObjectCall:
    """A hybridized method: the arrays in its object's attributes are inputs of the program."""

    def __init__(self, owner: Any, fn: Callable[..., Any], name: str, options: dict[str, Any],
                 attribute: str | None = None):
        self.owner, self._attribute = owner, attribute       # under which the object gives it
        self._made_of = fn, name, options
        self.engine = Hybridized(fn, name, state=None if isinstance(owner, type) else lambda: collect(owner),
                                 options=options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.engine(*args, **kwargs)
        except Exception as err:
            shortened(err)
            raise

    def __deepcopy__(self, memo: Any) -> Any:
        """The method of a copy of the object."""
        return _method(copy.deepcopy(self.owner, memo), self._attribute)

    def __reduce__(self) -> Any:
        """As ``__deepcopy__``. A class that is written down as a whole is not whole yet when this is read."""
        if isinstance(self.owner, type) and taken_by_value(self.owner.__module__):
            return ObjectCall.__new__, (ObjectCall,), (self.owner, *self._made_of, self._attribute)
        return _method, (self.owner, self._attribute)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)                                     # type: ignore[misc]

    def report(self) -> Any:
        """The compile report of the newest signature."""
        return self.engine.report()

    @property
    def programs(self) -> list[ProgramInfo]:
        """As of a hybridized function."""
        return self.engine.programs()


def _method(owner: Any, attribute: str | None) -> Any:
    """The hybridized method that an object gives under a name; None where other code asks for it again."""
    return getattr(owner, attribute) if attribute is not None else None


# calls of objects that have no ``__dict__``, by id
_ELSEWHERE: "OrderedDict[int, tuple[Any, dict[str, ObjectCall]]]" = OrderedDict()
MOST = 256                              # such objects that are remembered, those used last


def _calls_of(owner: Any) -> dict[str, ObjectCall]:
    """The hybridized methods of an object without a ``__dict__``."""
    found = _ELSEWHERE.setdefault(id(owner), (owner, {}))        # it is kept, so its id is its own
    _ELSEWHERE.move_to_end(id(owner))
    if len(_ELSEWHERE) > MOST:
        _ELSEWHERE.popitem(last=False)
    return found[1]


def _bound(owner: Any, key: str, fn: Callable[..., Any], name: str, options: dict[str, Any],
           attribute: str | None = None) -> ObjectCall:
    """A hybridized method of an object or class, made once."""
    calls = owner.__dict__ if hasattr(owner, "__dict__") else _calls_of(owner)
    bound = calls.get(key)
    if bound is None or bound.owner is not owner:                # a copy of the object has attributes of its own
        bound = ObjectCall(owner, functools.partial(fn, owner), name, options, attribute)
        if isinstance(owner, type):
            setattr(owner, key, bound)
        else:
            calls[key] = bound
    return bound


def attributes_of(owner: Any) -> dict[str, Any]:
    """Attributes of an object, those in slots too."""
    found = {k: getattr(owner, k) for cls in type(owner).__mro__
             for k, v in vars(cls).items() if isinstance(v, MemberDescriptorType) and hasattr(owner, k)}
    return {**found, **getattr(owner, "__dict__", {})}


def collect(owner: Any) -> tuple[list[NDArray], Any]:
    """Arrays in an object's attributes (nested in lists, dicts and objects), and the rest as a hashable signature."""
    arrays: list[NDArray] = []
    seen: set[int] = set()

    def walk(value: Any) -> Any:
        if isinstance(value, NDArray):
            if id(value) not in seen:
                seen.add(id(value))
                arrays.append(value)
            return ("array", [i for i, a in enumerate(arrays) if a is value][0])
        if isinstance(value, (ObjectCall, HybridFunction, Hybridized)):
            return None
        if hasattr(value, "_signature_version"):                  # Blocks and Parameters: captured while tracing
            return ("block", id(value), value._signature_version())
        if isinstance(value, dict):
            return ("dict", tuple((str(k), walk(v)) for k, v in value.items() if not str(k).startswith("_hybrid_")))
        if isinstance(value, (list, tuple)):
            return (type(value).__name__, tuple(walk(v) for v in value))
        if isinstance(value, (int, float, str, bool, bytes, type(None), np.dtype, type, np.generic)) or callable(value):
            return ("value", type(value).__name__,
                    value if isinstance(value, (int, float, str, bool, bytes, type(None))) else id(value))
        if isinstance(value, np.ndarray):
            raise TraceError("an attribute is a NumPy array, which a compiled program cannot follow; make it an array "
                             "of this library (nd.array)")
        if id(value) in seen:
            return ("again", id(value))
        seen.add(id(value))
        return ("object", id(value), walk(attributes_of(value)))
    return arrays, walk(attributes_of(owner))


def _plain_class(cls: type, options: dict[str, Any]) -> type:
    name = "forward" if "forward" in vars(cls) or not callable(vars(cls).get("__call__")) else "__call__"
    fn = getattr(cls, name, None)
    if fn is None:
        raise TypeError(f"@hybridize on class {cls.__name__}: it has neither forward nor __call__")
    method = HybridFunction(fn, options)
    if name == "forward":
        setattr(cls, "forward", method)
        if "__call__" not in vars(cls) and not any("__call__" in vars(b) for b in cls.__mro__[1:-1]):
            setattr(cls, "__call__", lambda self, *args, **kwargs: self.forward(*args, **kwargs))
        return cls

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _bound(self, "_hybrid___call__", fn, cls.__qualname__, options)(*args, **kwargs)
    functools.update_wrapper(call, fn)
    setattr(cls, "__call__", call)
    return cls
