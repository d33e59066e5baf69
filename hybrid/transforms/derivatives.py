"""Derivatives of functions: ``grad``, ``value_and_grad``, ``vjp``, ``jvp``, ``jacobian``, ``hessian``."""
from __future__ import annotations

import math
import operator
from typing import Any, Callable, Concatenate, Literal, ParamSpec, Sequence, TypeVar, overload

from .. import autograd
from ..autograd import traced_grad
from ..base.errors import AttributeValueError, DTypeError, ShapeError, user_location
from ..base.scope import SCOPE, tracing
from ..buffers.array import NDArray, full_like
from ..buffers.tape import flags
from ..graph.symbol import Symbol, create
from ..ops.registry import find
from .batch import over_rows
from .transformed import Transformed
from .values import call, chosen, flatten, unflatten, variable

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
N = TypeVar("N", bound=NDArray)
M = TypeVar("M", bound=NDArray)


def _zeros(x: Any) -> Any:
    return create(find("zeros_like"), [x], {}, None) if isinstance(x, Symbol) else full_like(x, 0)


def _pull(heads: Sequence[Any], seeds: Sequence[Any], wanted: Sequence[Any], differentiable: bool) -> list[Any]:
    """Gradients of the heads times the seeds; zeros where nothing flows."""
    trace = tracing()
    if trace is not None:
        h, s, w = ([x if isinstance(x, Symbol) else trace.capture(x) for x in xs] for xs in (heads, seeds, wanted))
        return traced_grad.gradients(h, s, w)
    used = [(h, s) for h, s in zip(heads, seeds) if h._ag is not None]
    if not used:
        return [_zeros(w) for w in wanted]
    return autograd.grad([h for h, _ in used], list(wanted), [s for _, s in used], retain_graph=True,
                         create_graph=differentiable, train_mode=SCOPE.training)


class _Linearized:
    """A function at a point: its result, and the pullback to the chosen arguments."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], kwargs: Any, numbers: Sequence[int], aux: bool):
        self.nested = SCOPE.recording
        flat = [flatten(args[i], f"argument {i}") for i in numbers]
        with flags(True, SCOPE.training):
            self.groups = [[variable(x) for x in leaves] for leaves, _ in flat]
            self.structures = [structure for _, structure in flat]
            given = list(args)
            for i, group, structure in zip(numbers, self.groups, self.structures):
                given[i] = unflatten(structure, group)
            result = f(*given, **kwargs)
        self.aux: Any = None
        if aux:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise DTypeError(f"{user_location()}: has_aux=True: the function must return (value, aux), got "
                                 f"{type(result).__name__}")
            result, self.aux = result
        self.result = result
        self.heads, self.head_structure = flatten(result, "the function's result")

    def pull(self, seeds: Sequence[Any], differentiable: bool) -> list[Any]:
        """Cotangents of the chosen arguments, each in the argument's structure."""
        wanted = [x for group in self.groups for x in group]
        found = iter(_pull(self.heads, seeds, wanted, differentiable))
        return [unflatten(s, [next(found) for _ in group]) for s, group in zip(self.structures, self.groups)]


def _frozen(argnums: Any) -> int | tuple[int, ...]:
    """The numbers of arguments as Python's ints. AttributeValueError for what is none."""
    try:
        return operator.index(argnums) if hasattr(argnums, "__index__") else tuple(map(operator.index, argnums))
    except TypeError:
        raise AttributeValueError(f"{user_location()}: argnums must be the number of an argument, or several in a "
                                  f"tuple or list, got {argnums!r}") from None


def _ones(x: Any) -> Any:
    return create(find("ones_like"), [x], {}, None) if isinstance(x, Symbol) else full_like(x, 1)


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


class ValueAndGrad(Transformed):
    """What ``value_and_grad`` gives."""
    what = "value_and_grad"
    argnums: int | tuple[int, ...]
    has_aux: bool

    def _both(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        lin = _Linearized(self._fn, args, kwargs, chosen(args, self.argnums, "grad"), self.has_aux)
        if len(lin.heads) != 1 or math.prod(lin.heads[0].shape) != 1:
            raise ShapeError(f"{user_location()}: grad: {_name(self._fn)} must return one number, it returned "
                             f"{', '.join(str(h.shape) for h in lin.heads)}: sum it, or use jacobian")
        found = lin.pull([_ones(lin.heads[0])], lin.nested)
        value = (lin.result, lin.aux) if self.has_aux else lin.result
        return value, found[0] if isinstance(self.argnums, int) else tuple(found)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._both(args, kwargs)


class Gradient(ValueAndGrad):
    """What ``grad`` gives."""
    what = "grad"

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value, found = self._both(args, kwargs)
        return (found, value[1]) if self.has_aux else found


class Jacobian(Transformed):
    """What ``jacobian`` gives."""
    what = "jacobian"
    argnums: int | tuple[int, ...]

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        numbers = chosen(args, self.argnums, "jacobian")
        leaves, structure = flatten(list(args), "the arguments")
        shape: dict[str, Any] = {}

        def rows(*values: Any) -> list[Any]:
            lin = _Linearized(self._fn, unflatten(structure, values), kwargs, numbers, False)
            shape["heads"], shape["structures"] = lin.head_structure, lin.structures
            shape["counts"] = [len(g) for g in lin.groups]
            wanted = [x for group in lin.groups for x in group]
            return [j for h in range(len(lin.heads)) for j in over_rows(lin.heads, h, wanted)]
        found = iter(call(rows, leaves))
        parts = []
        for _ in range(_count(shape["heads"])):
            own = [unflatten(s, [next(found) for _ in range(n)]) for s, n in zip(shape["structures"], shape["counts"])]
            parts.append(own[0] if isinstance(self.argnums, int) else tuple(own))
        return unflatten(shape["heads"], parts)


class Pullback:
    """The function that ``vjp`` gives: from cotangents of a result to cotangents of the primals."""

    def __init__(self, lin: _Linearized):
        self._lin = lin

    def __call__(self, cotangents: Any) -> tuple[Any, ...]:
        lin = self._lin
        seeds, structure = flatten(cotangents, "the cotangents")
        if structure != lin.head_structure:
            raise DTypeError(f"{user_location()}: vjp: the cotangents must have the structure of the function's result")
        for s, h in zip(seeds, lin.heads):
            if s.shape != h.shape:
                raise ShapeError(f"{user_location()}: vjp: a cotangent has shape {s.shape}, the result {h.shape}")
        return tuple(lin.pull(seeds, SCOPE.recording))

    def __deepcopy__(self, memo: Any) -> "Pullback":
        """Itself: nothing changes it."""
        return self

    def __reduce__(self) -> Any:
        raise DTypeError(f"{user_location()}: vjp: a pullback holds what was computed at one point and is not pickled: "
                         "pickle the function and the point, and call vjp where they are read")


@overload
def value_and_grad(f: Callable[Concatenate[A, P], R], argnums: Literal[0] = 0,
                   has_aux: Literal[False] = False) -> Callable[Concatenate[A, P], tuple[R, A]]: ...
@overload
def value_and_grad(f: Callable[P, R], argnums: int | Sequence[int] = 0,
                   has_aux: bool = False) -> Callable[P, tuple[R, Any]]: ...
def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0,
                   has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the value of ``f`` and its gradient.

    f: returns an array of one element; with has_aux a pair (value, anything). argnums: the number of the argument to
    differentiate, or several numbers for a tuple of gradients. An argument may be an array or lists, tuples and dicts
    of arrays; its gradient has its structure, shapes and dtypes. ShapeError if the value has more than one element.

    >>> from hybrid import np
    >>> value, slope = value_and_grad(lambda x: (x ** 2).sum())(np.array([1.0, 3.0]))
    >>> float(value), slope.tolist()
    (10.0, [2.0, 6.0])
    """
    return ValueAndGrad(f, argnums=_frozen(argnums), has_aux=has_aux)


@overload
def grad(f: Callable[Concatenate[A, P], Any], argnums: Literal[0] = 0,
         has_aux: Literal[False] = False) -> Callable[Concatenate[A, P], A]: ...
@overload
def grad(f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]: ...
@overload                                    # for a lambda inside of another grad, whose parameters mypy does not find
def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0,      # type: ignore[overload-cannot-match]
         has_aux: bool = False) -> Callable[..., Any]: ...
def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of ``f``; with has_aux a pair (gradient, aux). See ``value_and_grad``.

    >>> from hybrid import np
    >>> grad(grad(lambda x: (x ** 3).sum()))(np.array(2.0)).item()
    12.0
    """
    return Gradient(f, argnums=_frozen(argnums), has_aux=has_aux)


@overload
def vjp(f: Callable[..., R], *primals: Any,
        has_aux: Literal[False] = False) -> tuple[R, Callable[[R], tuple[Any, ...]]]: ...
@overload
def vjp(f: Callable[..., tuple[R, A]], *primals: Any,
        has_aux: Literal[True]) -> tuple[R, Callable[[R], tuple[Any, ...]], A]: ...
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of ``f`` at ``primals``, and a function from cotangents of it to cotangents of the primals (a tuple).

    Cotangents are given in the structure of the value. With has_aux a third result is what ``f`` returned beside it.

    >>> from hybrid import np
    >>> y, pull = vjp(lambda x: np.sin(x), np.array([0.0, 0.0]))
    >>> pull(np.array([1.0, 2.0]))[0].tolist()
    [1.0, 2.0]
    """
    lin = _Linearized(f, primals, {}, range(len(primals)), has_aux)
    pullback = Pullback(lin)
    return (lin.result, pullback, lin.aux) if has_aux else (lin.result, pullback)


def jvp(f: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[R, R]:
    """The value of ``f`` at ``primals`` and its derivative in the direction of ``tangents``.

    The pullback of f is linear in its cotangents, and its own pullback is the derivative of f (Townsend 2017, "A new
    trick for calculating Jacobian vector products").

    >>> from hybrid import np
    >>> y, dy = jvp(lambda x: x ** 2, [np.array([1.0, 3.0])], [np.array([1.0, 0.5])])
    >>> dy.tolist()
    [2.0, 3.0]
    """
    given, structure = flatten(list(tangents), "the tangents")
    points, own = flatten(list(primals), "the primals")
    if structure != own or any(t.shape != p.shape for t, p in zip(given, points)):
        raise ShapeError(f"{user_location()}: jvp: tangents must have the structure and the shapes of the primals, "
                         f"{[p.shape for p in points]}; got {[t.shape for t in given]}")
    lin = _Linearized(f, primals, {}, range(len(primals)), False)
    with flags(True, SCOPE.training):
        seeds = [variable(_zeros(h)) for h in lin.heads]
        pulled = [x for part in lin.pull(seeds, True) for x in flatten(part, "a cotangent")[0]]
    found = _pull(pulled, given, seeds, lin.nested)
    return lin.result, unflatten(lin.head_structure, found)


@overload
def jacobian(f: Callable[Concatenate[N, P], M], argnums: int = 0) -> Callable[Concatenate[N, P], M]: ...
@overload
def jacobian(f: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]: ...
def jacobian(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the Jacobian of ``f``: for a result of shape S and an argument of shape T, shape S + T.

    All rows are computed at once, as one program over a batch of one-hot cotangents. argnums as in ``grad``; nested
    results and arguments give nested Jacobians, results outside. f is traced: values cannot steer Python code in it.

    >>> from hybrid import np
    >>> jacobian(lambda x: x ** 2)(np.array([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    return Jacobian(f, argnums=_frozen(argnums))


def _count(structure: Any) -> int:
    """How many arrays a structure has."""
    return 1 if structure == "*" else 0 if structure[0] == "value" else sum(
        _count(s[1] if structure[0] == "dict" else s) for s in structure[1])


@overload
def hessian(f: Callable[Concatenate[N, P], Any], argnums: int = 0) -> Callable[Concatenate[N, P], N]: ...
@overload
def hessian(f: Callable[P, Any], argnums: int = 0) -> Callable[P, Any]: ...
def hessian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that gives the Hessian of ``f``, which returns one number: shape T + T for an argument of shape T.

    >>> from hybrid import np
    >>> hessian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(grad(f, argnums), argnums)
