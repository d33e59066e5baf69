"""Checks of Symbols: results, gradients against expected ones and finite differences, agreement of devices and
dtypes."""
from __future__ import annotations

import json
import time
from typing import Any, Mapping, Sequence

import numpy as np

from ..mxnet import executor
from .. import nd
from ..buffers.array import NDArray
from ..base.device import Context, current_context
from ..base.errors import AttributeValueError
from ..nd.functions import resolve
from ..graph.symbol import Symbol, var
from .compare import assert_almost_equal, default_numeric_eps, get_tolerance, get_tols, host


def _array(value: Any, ctx: Context, dtype: Any) -> NDArray:
    return value if isinstance(value, NDArray) else nd.array(value, ctx=ctx,
                                                             dtype=np.asarray(value).dtype if dtype == "asnumpy"
                                                             else dtype)


def _named(names: Sequence[str], given: Any, what: str, ctx: Context, dtype: Any) -> dict[str, NDArray]:
    """Arrays by name, from a dict or a list in order. ValueError where the names do not match."""
    if not isinstance(given, Mapping):
        given = dict(zip(names, given))
    if set(given) != set(names):
        raise ValueError(f"Symbol {what} and keys of the given values do not match: {sorted(names)} and {sorted(given)}")  # noqa: E501
    return {n: _array(given[n], ctx, dtype) for n in names}


def _states(sym: Symbol, given: Any, ctx: Context, dtype: Any) -> Any:
    return None if given is None else _named(sym.list_auxiliary_states(), given, "auxiliary states", ctx, dtype)


def _requests(sym: Symbol, grad_req: Any) -> dict[str, str]:
    if isinstance(grad_req, str):
        return {n: grad_req for n in sym.list_arguments()}
    return dict(grad_req) if isinstance(grad_req, Mapping) else dict(zip(sym.list_arguments(), grad_req))


def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: Any) -> Any:
    """The result of a Symbol on NumPy arrays, as a NumPy array (a list where there are several)."""
    ctx = ctx or current_context()
    exe = executor.bind(sym, ctx, {k: nd.array(v, ctx=ctx) for k, v in inputs.items()})
    found = [x.asnumpy() for x in exe.forward(is_train=is_train)]
    return found[0] if len(found) == 1 else found


def check_symbolic_forward(sym: Symbol, location: Any, expected: Any, rtol: Any = None, atol: Any = None,
                           aux_states: Any = None, ctx: Context | None = None,
                           equal_nan: bool = False, dtype: Any = np.float32) -> list[NDArray]:
    """AssertionError unless the outputs on ``location`` are the expected ones.

    location, aux_states, expected: lists in order, or dicts by name. dtype: of the arrays; "asnumpy" keeps those of the
    given ones.
    """
    ctx = ctx or current_context()
    exe = executor.bind(sym, ctx, _named(sym.list_arguments(), location, "arguments", ctx, dtype), grad_req="null",
                        aux_states=_states(sym, aux_states, ctx, dtype))
    names = sym.list_outputs()
    wanted = [expected[n] for n in names] if isinstance(expected, Mapping) else expected
    for name, right, out in zip(names, wanted, exe.forward(is_train=False)):
        assert_almost_equal(right, out, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan=equal_nan)
    return exe.outputs


def check_symbolic_backward(sym: Symbol, location: Any, out_grads: Any, expected: Any, rtol: Any = None,
                            atol: Any = None, aux_states: Any = None,
                            grad_req: Any = "write", ctx: Context | None = None, grad_stypes: Any = None,
                            equal_nan: bool = False,
                            dtype: Any = np.float32) -> dict[str, NDArray]:
    """AssertionError unless the gradients are the expected ones, for each ``grad_req``: "write", "add" (to noise),
    "null" (unchanged)."""
    ctx = ctx or current_context()
    wanted = dict(expected) if isinstance(expected, Mapping) else dict(zip(sym.list_arguments(), expected))
    noise = {k: np.random.normal(size=np.shape(v)) for k, v in sorted(wanted.items())}
    grads = {k: nd.array(v, ctx=ctx, dtype=host(wanted[k]).dtype if dtype == "asnumpy"
                         else dtype).tostype((grad_stypes or {}).get(k) or "default")
             for k, v in noise.items()}
    reqs = _requests(sym, grad_req)
    exe = executor.bind(sym, ctx, _named(sym.list_arguments(), location, "arguments", ctx, dtype), grads, reqs,
                        _states(sym, aux_states, ctx, dtype))
    exe.forward(is_train=True)
    if isinstance(out_grads, Mapping):
        out_grads = [out_grads[n] for n in sym.list_outputs()]
    exe.backward(None if out_grads is None else [_array(g, ctx, dtype) for g in out_grads])
    for name, right in wanted.items():
        _check_gradient(name, reqs[name], right, grads[name], noise[name], "EXPECTED", rtol, atol, equal_nan)
    return grads


def _check_gradient(name: str, req: str, right: Any, found: NDArray, before: np.ndarray, what: str, rtol: Any,
                    atol: Any, equal_nan: bool = False) -> None:
    names = (f"{what}_{name}", f"BACKWARD_{name}")
    if req == "write":
        assert_almost_equal(right, found, rtol, atol, names, equal_nan)
    elif req == "add":
        assert_almost_equal(right, (found.asnumpy() - before).astype(found.asnumpy().dtype), rtol, atol, names,
                            equal_nan)
    elif req == "null":
        assert_almost_equal(before.astype(found.asnumpy().dtype), found, rtol, atol, names, equal_nan)
    else:
        raise ValueError(f"Invalid grad_req {req!r} for argument {name!r}")


def numeric_grad(executor: Any, location: Mapping[str, Any], aux_states: Mapping[str, Any] | None = None,
                 eps: float = 1e-4, use_forward_train: bool = True,
                 dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """Gradients of the sum of the first output by central differences, one element after another."""
    out = {k: np.zeros(np.shape(v), dtype) for k, v in location.items()}

    def value() -> Any:
        for name, x in (aux_states or {}).items():
            executor.aux_dict[name][:] = x
        return executor.forward(is_train=use_forward_train)[0].asnumpy().astype(np.float64)
    for name, x in location.items():
        point = np.array(host(x), order="C")
        if point.dtype.kind != "f":
            continue
        flat = point.reshape(-1)
        for i in range(flat.size):
            old = flat[i]
            found = []
            for side in (eps / 2, -eps / 2):
                flat[i] = old + side
                executor.arg_dict[name][:] = nd.array(point, dtype=dtype)
                found.append(value())
            out[name].reshape(-1)[i] = (found[0] - found[1]).sum() / eps
            flat[i] = old
        executor.arg_dict[name][:] = nd.array(point, dtype=dtype)
    return out


def check_numeric_gradient(sym: Symbol, location: Any, aux_states: Any = None, numeric_eps: Any = None,
                           rtol: Any = None, atol: Any = None,
                           grad_nodes: Any = None, use_forward_train: bool = True, ctx: Context | None = None,
                           grad_stype_dict: Any = None,
                           dtype: Any = np.float32) -> None:
    """AssertionError unless a Symbol's gradients agree with finite differences of a random projection of its first
    output.

    location, aux_states: NumPy arrays, a list in order or a dict by name. numeric_eps: the step, by default by dtype.
    grad_nodes:
    names of the arguments to check, or a dict to their grad_req. use_forward_train: whether the differences are of
    training mode.

    >>> check_numeric_gradient(sym.tanh(sym.var('x')), [np.array([0.5, -1.])], dtype=np.float64)
    """
    ctx = ctx or current_context()
    if np.dtype(dtype).kind != "f":
        raise AttributeValueError(f"check_numeric_gradient: dtype must be float16, float32 or float64, got {dtype}")
    arrays = _named(sym.list_arguments(), location, "arguments", ctx, dtype)
    states = _states(sym, aux_states, ctx, dtype)
    points, still = {k: v.asnumpy() for k, v in arrays.items()}, {k: v.asnumpy()
                                                                  for k, v in states.items()} if states else None
    reqs = dict(grad_nodes) if isinstance(grad_nodes,
                                          Mapping) else {k: "write" for k in grad_nodes or sym.list_arguments()}
    shape = sym.infer_shape(**{k: v.shape for k, v in arrays.items()})[1][0]
    weights = resolve("sym", "broadcast_mul")(sym, var("__random_proj"))
    # no small weights: they would cost digits
    arrays["__random_proj"] = nd.array(np.random.rand(*shape) + 0.1, ctx=ctx, dtype=dtype)
    noise = {k: np.random.normal(0, 0.01, size=arrays[k].shape) for k in reqs}
    grads = {k: nd.array(v, ctx=ctx, dtype=dtype).tostype((grad_stype_dict or {}).get(k) or "default")
             for k, v in noise.items()}
    exe = executor.bind(resolve("sym", "make_loss")(weights), ctx, arrays, grads, reqs, states)
    eps = get_tolerance(exe.forward(is_train=True)[0], numeric_eps, default_numeric_eps())
    exe.backward()
    slopes = numeric_grad(exe, points, still, eps, use_forward_train, dtype)
    for name, req in reqs.items():
        _check_gradient(name, req, slopes[name], exe.grad_dict[name], noise[name], "NUMERICAL", rtol, atol)


def check_speed(sym: Symbol, location: Any = None, ctx: Context | None = None, N: int = 20, grad_req: Any = None,
                typ: str = "whole", **kwargs: Any) -> float:  # noqa: N803
    """Seconds a run over N runs: "whole" forward and backward, or "forward". kwargs: shapes, where no ``location``
    (arrays by name) is given."""
    if typ not in ("whole", "forward"):
        raise AttributeValueError(f"check_speed: typ must be 'whole' or 'forward', got {typ!r}")
    ctx = ctx or current_context()
    exe = executor.simple_bind(sym, ctx, grad_req or "write",
                               **(kwargs if location is None else {k: np.shape(v) for k, v in location.items()}))
    for name, x in exe.arg_dict.items():
        x[:] = np.random.normal(size=x.shape) if location is None else location[name]

    def once() -> None:
        exe.forward(is_train=typ == "whole")
        if typ == "whole":
            exe.backward(exe.outputs)
    once()
    nd.waitall()
    begin = time.time()
    for _ in range(N):
        once()
    nd.waitall()
    return (time.time() - begin) / N


def check_consistency(sym: Any, ctx_list: Sequence[Mapping[str, Any]], scale: float = 1.0, grad_req: Any = "write",
                      arg_params: Any = None, aux_params: Any = None,
                      rtol: Any = None, atol: Any = None, raise_on_err: bool = True, ground_truth: Any = None,
                      equal_nan: bool = False,
                      use_uniform: bool = False, rand_type: Any = np.float64) -> Any:
    """AssertionError unless a Symbol gives the same outputs and gradients on several devices or in several dtypes.

    sym: a Symbol, or one for each of ctx_list. ctx_list: dicts with ``ctx``, shapes of inputs by name, and perhaps
    ``type_dict``. The first with the widest dtype is the truth that others are compared with, unless ``ground_truth``
    is given; it is returned.
    """
    if len(ctx_list) < 2:
        raise AttributeValueError("check_consistency compares two or more entries of ctx_list")
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    exes = [executor.simple_bind(s, grad_req=grad_req, **options) for s, options in zip(symbols, ctx_list)]
    _fill(exes, scale, arg_params, aux_params, use_uniform, rand_type)
    for exe in exes:
        exe.forward(is_train=False)
    dtypes = [np.dtype(exe.outputs[0].dtype) for exe in exes]
    best = int(np.argmax([d.itemsize for d in dtypes]))
    truth = dict(ground_truth) if ground_truth is not None else dict(exes[best].output_dict)

    def compare(i: int, name: str, found: NDArray) -> None:
        right = truth[name]
        coarse = min((np.dtype(found.dtype), dtypes[i], dtypes[best]), key=lambda d: d.itemsize)
        limits = get_tols(host(found).astype(coarse), host(right).astype(coarse), rtol, atol)
        try:
            assert_almost_equal(found, right, *limits, names=(f"{name} of {i}", f"{name} of {best}"),
                                equal_nan=equal_nan)
        except AssertionError as err:
            if raise_on_err:
                raise
            print(err)
    others = [i for i in range(len(exes)) if i != best]
    for i in others:
        for name, x in exes[i].output_dict.items():
            compare(i, name, x)
    if grad_req != "null":
        _train(exes, min(dtypes, key=lambda d: d.itemsize))
        if ground_truth is None:
            truth.update(exes[best].output_dict)
            truth.update(exes[best].grad_dict)
        for i in others:
            for name, x in [*exes[i].output_dict.items(), *exes[i].grad_dict.items()]:
                compare(i, name, x)
    return truth


def _train(exes: Sequence[Any], narrow: np.dtype) -> None:
    """Outputs and gradients of all executors; the first one's outputs, in the narrowest dtype, are the gradients that
    come in."""
    for exe in exes:
        exe.forward(is_train=True)
    heads = [x.asnumpy().astype(narrow) for x in exes[0].outputs]
    for exe in exes:
        exe.backward([nd.array(h, ctx=exe._ctx, dtype=x.dtype) for h, x in zip(heads, exe.outputs)])


def _fill(exes: Sequence[Any], scale: float, arg_params: Any, aux_params: Any, use_uniform: bool,
          rand_type: Any) -> None:
    """The same values in all executors; gradients begin at 0."""
    args, aux = dict(arg_params or {}), dict(aux_params or {})
    for name, x in sorted(exes[0].arg_dict.items()):
        if name not in args:
            values = np.random.uniform(-0.92 * scale, 0.92 * scale,
                                       x.shape) if use_uniform else np.random.normal(scale=scale, size=x.shape)
            args[name] = values.astype(rand_type)
    for exe in exes:
        for name, x in exe.arg_dict.items():
            x[:] = args[name]
        for name, x in exe.aux_dict.items():
            x[:] = aux.get(name, 0)
        for g in exe.grad_dict.values():
            if g is not None:
                g[:] = 0


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Whether two Symbols have the same operators in the same order."""
    first, second = ([n["op"] for n in json.loads(s.tojson())["nodes"]]  # type: ignore[attr-defined]
                     for s in (sym1, sym2))
    return first == second
