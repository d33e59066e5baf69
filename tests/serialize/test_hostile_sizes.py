"""Attributes and shapes of enormous size, as a damaged file may hold them: an error, or a shape inferred at once, with
nothing of that size in memory."""
from __future__ import annotations

import json
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import HybridError
from hybrid.ops.registry import OPS
from hybrid.runtime import background

from ..packed_arrays import load
from ..paths import TESTS

HERE = TESTS / "oracle"
ARRAYS = load(HERE / "ops.npz")
HUGE = 10**9


def samples() -> dict[str, list[tuple[dict[str, Any], list[Any]]]]:
    """By operator: attributes and inputs of the recorded calls that differ in which attributes they give."""
    found: dict[str, dict[Any, tuple[dict[str, Any], list[Any]]]] = {}
    for i, line in enumerate(json.loads((HERE / "ops.json").read_text())):
        if line is not None and line["op"] in OPS:
            inputs = [ARRAYS[f"{i}.in{k}"] for k in range(line["inputs"])]
            found.setdefault(line["op"], {}).setdefault(tuple(sorted(line["attrs"])), (line["attrs"], inputs))
    return {name: list(rows.values()) for name, rows in found.items()}


SAMPLES = samples()


def attempts(name: str) -> list[tuple[list[Any], list[Any], dict[str, Any]]]:
    """Shapes, dtypes and attributes with one of them enormous."""
    out = []
    for attrs, inputs in SAMPLES[name]:
        shapes, dtypes = [x.shape for x in inputs], [x.dtype for x in inputs]
        for key in OPS[name].attrs:
            out += [(shapes, dtypes, {**attrs, key: value})
                    for value in (str(HUGE), f"({HUGE},)", f"({HUGE},{HUGE})", f"({HUGE},{HUGE},{HUGE})", str(-HUGE))]
        for k, shape in enumerate(shapes):
            out += [([*shapes[:k], (*shape[:axis], HUGE, *shape[axis + 1:]), *shapes[k + 1:]], dtypes, attrs)
                    for axis in range(len(shape))]
        out += [([(*s[:axis], HUGE, *s[axis + 1:]) if axis < len(s) else s for s in shapes], dtypes, attrs)
                for axis in range(max(map(len, shapes), default=0))]
    return out


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_enormous_sizes(name: str) -> None:
    definition = OPS[name]
    tracemalloc.start()
    begin = time.process_time()
    try:
        for shapes, dtypes, attrs in attempts(name):
            try:
                definition.infer(shapes, dtypes, definition.parse(attrs))
            except HybridError as err:
                assert len(str(err)) < 2000
            assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
        definition.cache.clear()
    assert time.process_time() - begin < 20


OTHERS = {
    "adaptive": ("_contrib_AdaptiveAvgPooling2D", [(2, 3, 7, 7)], {"output_size": str(HUGE)}),
    "adaptive negative": ("_contrib_AdaptiveAvgPooling2D", [(2, 3, 7, 7)], {"output_size": str(-HUGE)}),
    "resize": ("_contrib_BilinearResize2D", [(2, 3, 7, 7)], {"height": str(HUGE), "width": str(HUGE)}),
    "resize by scale": ("_contrib_BilinearResize2D", [(2, 3, 7, 7)], {"scale_height": "1e300"}),
    "resize large": ("_contrib_BilinearResize2D", [(2, 3, HUGE, 7)], {"height": "8", "width": "8"}),
    "fft": ("_contrib_fft", [(2, HUGE)], {}),
    "ifft": ("_contrib_ifft", [(2, HUGE)], {}),
    "triangle": ("_linalg_maketrian", [(4, 6)], {"offset": str(HUGE)}),
    "out of triangle": ("_linalg_extracttrian", [(HUGE, HUGE)], {}),
    "delete": ("_npi_delete", [(HUGE,)], {"int_ind": "1"}),
    "insert": ("_npi_insert_slice", [(HUGE,), ()], {"start": "0"}),
    "differences": ("_npi_diff", [(HUGE,)], {"n": str(HUGE - 1)}),
    "polynomial": ("_npi_polyval", [(HUGE,), (4,)], {}),
    "summed axes": ("_npi_tensordot", [(4, 4), (4, 4)], {"axes": str(HUGE)}),
    "nothing given": ("_np_moveaxis", [(4, 4)], {}),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_only_fills_the_memory_is_refused(case: str) -> None:
    name, shapes, attrs = OTHERS[case]
    definition = OPS[name]
    tracemalloc.start()
    try:
        with pytest.raises(HybridError, match=f"operator {re.escape(definition.shown)}: "):
            definition.infer(shapes, [np.dtype("float32")] * len(shapes), definition.parse(attrs))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


NEGATIVE = {
    "neighbours": ("LRN", [(2, 3, 4, 4)], {"nsize": "-1"}),
    "draws": ("_random_uniform", [], {"shape": "(-3,2)"}),
    "draws of each": ("_sample_normal", [(4,), (4,)], {"shape": "(-3,2)"}),
    "gamma": ("_random_gamma", [], {"shape": "(-1,)"}),
    "choices": ("_sample_multinomial", [(4, 4)], {"shape": "(-3,2)"}),
}


@pytest.mark.parametrize("case", NEGATIVE)
def test_no_array_has_a_negative_size(case: str) -> None:
    name, shapes, attrs = NEGATIVE[case]
    who = re.escape(OPS[name].shown)
    with pytest.raises(HybridError, match=f"operator {who}: .*(negative size|takes nsize of 1 or more)"):
        OPS[name].infer(shapes, [np.dtype("float32")] * len(shapes), OPS[name].parse(attrs))


def test_many_differences_of_few_numbers() -> None:
    assert mx.np.diff(mx.np.array([1.0, 3.0, 2.0]), n=HUGE).shape == (0,)


def broadcast(x: Any) -> Any:
    return mx.nd.broadcast_to(x, shape=(2**40,))


def tiled(x: Any) -> Any:
    return mx.nd.tile(x, reps=(2**40,)) * 2


def two_results(x: Any) -> Any:
    large = mx.nd.broadcast_to(x, shape=(2**42,))
    return large + 1, large * 2


@pytest.mark.parametrize("function", [broadcast, tiled, two_results])
@pytest.mark.parametrize("compiled", [False, True])
def test_results_larger_than_memory(function: Any, compiled: bool) -> None:
    """A result of terabytes is an error that says how much was asked for and where; the next call is as before."""
    call = mx.hybridize(function) if compiled else function
    with pytest.raises(HybridError, match=r"test_hostile_sizes\.py:\d+: .*(TiB|GiB)") as caught:
        call(mx.nd.array([1.0]))
    assert isinstance(caught.value, MemoryError)
    assert mx.nd.broadcast_to(mx.nd.array([1.0]), shape=(3,)).asnumpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("compiled", [False, True])
def test_more_elements_than_indices_reach(compiled: bool) -> None:
    def function(x: Any) -> Any:
        return mx.nd.zeros((2**33, 2**33)) + x
    with pytest.raises(HybridError, match="elements"):
        (mx.hybridize(function) if compiled else function)(mx.nd.array([1.0]))


def test_parameters_larger_than_memory() -> None:
    with pytest.raises(HybridError, match=r"test_hostile_sizes\.py:\d+: .*GiB"):
        mx.gluon.nn.Dense(2**40, in_units=4).initialize()


def test_results_larger_than_memory_before_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs by NumPy's functions while the compiler works says the same as compiled code does."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    for name, value in (("CACHE", str(folder)), ("COMPILE", "background"), ("VERIFY", "0")):
        monkeypatch.setenv(f"HYBRID_{name}", value)
    f = mx.hybridize(lambda x: x.reshape((-1, 1)) * x.reshape((1, -1)))
    try:
        with pytest.raises(HybridError, match=r"test_hostile_sizes\.py:\d+: .*(TiB|GiB)"):
            f(mx.nd.ones((2**20,)))
    finally:
        background.shut_down()


@pytest.mark.parametrize("name", ["product", "broadcast", "range", "row"])
def test_values_that_no_memory_holds(name: str) -> None:
    """A kernel that would sum over 2^40 values of which none is stored is an error at once, as eagerly."""
    wide, high = mx.nd.ones((1, 2**20)), mx.nd.ones((2**20, 1))
    call = {"product": lambda: (wide * high).sum(), "range": lambda: mx.nd.arange(2**41).sum(),
            "broadcast": lambda: (mx.nd.broadcast_to(wide, (2**20, 2**20)) + high).max(),
            "row": lambda: mx.nd.softmax(wide * high).sum()}[name]
    for run in (call, mx.hybridize(call)):
        began = time.monotonic()
        with pytest.raises(MemoryError, match="bytes|TiB"):
            run().wait_to_read()
        assert time.monotonic() - began < 20


def test_constants_of_any_size_are_no_values() -> None:
    """What folds to one number is computed, however many elements it stands for."""
    assert mx.hybridize(lambda: mx.nd.ones((2**20, 2**20)).sum())().asscalar() == 2.0**40
