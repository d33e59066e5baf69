"""Operators given arrays of several dtypes: eager calls, inference and compiled programs give the same dtypes and
values. The calls are those of the operators' examples, with one input after another in another dtype."""
from __future__ import annotations

import doctest
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from hybrid import hybridize, nd, sym
from hybrid.autograd import dispatch, known_calls, known_functions
from hybrid.base.errors import DTypeError, HybridError
from hybrid.buffers.array import NDArray, array
from hybrid.graph import symbol
from hybrid.ops.examples import examples, imports
from hybrid.ops.registry import OPS

DTYPES = ("float64", "float16", "int32")
# their inputs' shapes depend on each other in ways of their own, so that infer_type alone cannot find some
SHAPES_OF_THEIR_OWN = {"_contrib_box_encode", "_contrib_ModulatedDeformableConvolution", "_contrib_hawkesll",
                       "_contrib_DeformableConvolution", "_contrib_MultiBoxTarget", "scatter_nd",
                       "_contrib_PSROIPooling"}
ROW = np.arange(6, dtype="float32").reshape(2, 3) + 1
TWO = ("_equal _greater _hypot _lesser_equal _logical_and _maximum _minimum _mod _power _npi_add _npi_equal _npi_less "
       "_npi_floor_divide _npi_fmod _npi_ldexp _npi_mod _npi_power _npi_subtract _npi_true_divide _npi_outer").split()


@lru_cache(maxsize=1)
def calls() -> dict[str, tuple[list[Any], dict[str, Any]]]:
    """Inputs and attributes of one call of each operator of several inputs."""
    found: dict[str, Any] = {name: ([ROW, ROW[::-1].copy()], {}) for name in TWO}
    found["pick"] = ([ROW, np.array([0., 2.], "float32")], {})
    plain = dispatch._invoke

    def note(d: Any, inputs: Any, attrs: Any, *rest: Any) -> Any:
        if len(inputs) > 1 and all(x is None or isinstance(x, NDArray) for x in inputs):
            found.setdefault(d.name, ([None if x is None else x.asnumpy() for x in inputs], dict(attrs)))
        return plain(d, inputs, attrs, *rest)
    patch = pytest.MonkeyPatch()
    patch.setattr(dispatch, "_invoke", note)
    patch.setattr(dispatch, "IN_C", [])                     # calls that an earlier test made are known, too
    patch.setattr(known_calls, "find", lambda *call: None)
    patch.setattr(known_functions, "CALL", [])
    runner = doctest.DocTestRunner(verbose=False)
    for name, lines in examples().items():
        source = "\n".join([imports(lines), *lines])
        runner.run(doctest.DocTestParser().get_doctest(source, {}, name, None, 0), out=lambda text: None)
    patch.undo()
    return found


def variants() -> list[tuple[str, list[Any], dict[str, Any]]]:
    """Calls in which one input has another dtype."""
    out = []
    for name, (arrays, attrs) in calls().items():
        for k, x in enumerate(arrays):
            for dtype in DTYPES if x is not None else ():
                if x.dtype != dtype:
                    out.append((name, [*arrays[:k], x.clip(-1e4, 1e4).astype(dtype), *arrays[k + 1:]], attrs))
    return out


def eager(name: str, arrays: list[Any], attrs: dict[str, Any]) -> list[Any] | None:
    try:
        made = dispatch.invoke(OPS[name], [None if x is None else array(x, dtype=x.dtype) for x in arrays], attrs)
    except HybridError:
        return None
    return made if isinstance(made, list) else [made]


def dtypes(arrays: list[Any] | None) -> list[str] | None:
    return None if arrays is None else [np.dtype(x.dtype).name for x in arrays]


def test_inference_says_what_eager_calls_give() -> None:
    rows = variants()
    assert len({name for name, _, _ in rows}) > 190
    for name, arrays, attrs in rows:
        d, given = OPS[name], [(f"v{k}", x) for k, x in enumerate(arrays)]
        all_attrs = {**({d.arity_attr: len(arrays)} if d.arity_attr else {}), **attrs}
        net = symbol.create(d, [None if x is None else sym.Variable(v) for v, x in given], all_attrs, None)
        got = dtypes(eager(name, arrays, attrs))
        what = (name, [None if x is None else x.dtype.name for x in arrays])
        try:
            told = [np.dtype(t).name for t in net.infer_type(**{v: x.dtype for v, x in given if x is not None})[1]]
        except DTypeError:
            told = None
        assert got is None or told == got or name in SHAPES_OF_THEIR_OWN, (what, got, told)
        assert told is not None or got is None, (what, got, told)


def plain_calls() -> list[tuple[str, list[Any], dict[str, Any], list[Any]]]:
    """One call of several dtypes of each operator that draws nothing and changes nothing."""
    kept: dict[str, Any] = {}
    for name, arrays, attrs in variants():
        d = OPS[name]
        if name in kept or d.needs or d.aux or "update" in name or name == "reset_arrays":
            continue
        try:
            changes = d.program([None if x is None else x.shape for x in arrays],
                                [None if x is None else x.dtype for x in arrays],
                                d.parse({**({d.arity_attr: len(arrays)} if d.arity_attr else {}), **attrs})).updates
        except HybridError:
            continue
        got = None if changes else eager(name, arrays, attrs)
        if got is not None:
            kept[name] = (name, arrays, attrs, got)
    return list(kept.values())


def test_compiled_programs_give_what_eager_calls_give() -> None:
    rows = plain_calls()
    assert len(rows) > 120
    for at in range(0, len(rows), 45):
        part = rows[at:at + 45]

        def compute(given: list[Any], part: Any = part) -> list[Any]:
            out, left = [], iter(given)
            for name, arrays, attrs, _ in part:
                made = dispatch.invoke(OPS[name], [None if x is None else next(left) for x in arrays], attrs)
                out.append(list(made) if isinstance(made, (list, tuple)) or len(getattr(made, "entries", "1")) > 1
                           else [made])
            return out
        found = hybridize(compute)([array(x, dtype=x.dtype) for _, arrays, _, _ in part for x in arrays
                                    if x is not None])
        for (name, _, _, want), got in zip(part, found):
            assert dtypes(got) == dtypes(want), name
            for g, w in zip(got, want):
                loose = 3e-3 if w.dtype == np.float16 else 2e-5
                np.testing.assert_allclose(g.asnumpy().astype("float64"), w.asnumpy().astype("float64"), loose, loose,
                                           err_msg=name)


@pytest.mark.parametrize("dtype", ["int32", "float64", "bool"])
def test_faster_eager_ways_keep_the_dtype(dtype: str) -> None:
    x, w = nd.ones((1, 1, 3, 4)).astype(dtype), nd.ones((2, 1, 2, 2)) * .3

    def both(x: Any, w: Any) -> Any:
        rows = x.reshape((3, 4))
        return nd.Convolution(x, w, kernel=(2, 2), num_filter=2, no_bias=True), rows.pick(nd.zeros(3))
    for _ in range(2):                                                # the second call is a known one
        for f in (both, hybridize(both)):
            made = f(x, w)
            assert [np.dtype(y.dtype).name for y in made] == ["float64" if dtype == "float64" else "float32", dtype]
            assert np.ptp(made[0].asnumpy()) < 1e-6


def test_solutions_of_integers_are_wide_as_in_mxnet() -> None:
    from hybrid import np as hnp
    a, b = hnp.array([[2, 0], [0, 4]], dtype="int32"), hnp.array([1., 1.])
    for f in (hnp.linalg.solve, hybridize(lambda a, b: hnp.linalg.solve(a, b))):
        assert f(a, b).dtype == np.float64 and f(a, b).tolist() == [.5, .25]
