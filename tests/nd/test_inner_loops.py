"""Elementwise programs as NumPy's inner loops (hybrid/ir/inner_loops.py, kernels/c/launcher_elementwise.h): the bits of
what runs them step by step."""
from __future__ import annotations

from typing import Iterator

import numpy as np
import pytest

from hybrid import ir
from hybrid.autograd import known_calls
from hybrid.base.errors import HybridError
from hybrid.ir import Program
from hybrid.ir.evaluate import straight
from hybrid.ir.inner_loops import loops
from hybrid.ir.quiet import silently
from hybrid.ops.registry import OPS
from hybrid.runtime import launcher

DTYPES = "float32 float64 float16 int8 uint8 int32 int64 bool".split()
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 0.49999997, -0.49999997, 8388609.0, -8388609.0, 1e-45, 3e38,
           float("inf"), -float("inf"), float("nan")]


@pytest.fixture(autouse=True)
def loaded() -> None:
    if launcher.load() is None:
        pytest.skip("needs Python's headers and a compiler")


def numbers(dtype: str, size: int, seed: int = 0) -> np.ndarray:
    """Numbers of a dtype, of floats the special ones among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(size) > 0.5
    if "int" in dtype:
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -9), min(info.max, 9), size).astype(dtype)
    found = rng.normal(0, 3, size)
    found[:len(SPECIAL)] = rng.permutation(SPECIAL)[:size]
    with np.errstate(over="ignore"):
        return found.astype(dtype)


def programs(dtype: str, size: int) -> Iterator[tuple[str, Program]]:
    """Of every operator with default attributes, or a number, the program for vectors."""
    for name, d in OPS.items():
        if name != d.name or d.variadic or not 1 <= len(d.inputs) <= 3 or d.needs:
            continue
        given = {"scalar": 2} if "scalar" in d.attrs else {"a_min": 1, "a_max": 3} if "a_min" in d.attrs else {}
        try:
            program = d.program([(size,)] * len(d.inputs), [np.dtype(dtype)] * len(d.inputs), d.parse(given), False)
        except (HybridError, ValueError, TypeError, IndexError):
            continue
        if len(program.inputs) == len(d.inputs) and len(program.outputs) == 1:
            yield name, program


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 5000])
def test_every_operator_gives_the_same_bits(dtype: str, size: int) -> None:
    count = 0
    for name, program in programs(dtype, size):
        made = known_calls.elementwise(program)
        if made is None:
            continue
        count += 1
        raws = [numbers(dtype, size, seed) for seed in range(len(program.inputs))]
        before = [x.copy() for x in raws]
        wanted = silently(straight(program))(*raws)
        found = silently(made)(*raws)
        assert found.dtype == wanted.dtype and found.shape == wanted.shape, name
        assert found.tobytes() == wanted.tobytes() or same_but_nans(found, wanted), name
        assert all(x.tobytes() == b.tobytes() for x, b in zip(raws, before)), name
    assert count > (60 if "float" in dtype and dtype != "float16" else 25)


def same_but_nans(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are bit by bit the same where they are numbers; NaNs may have another sign."""
    whole = f"u{a.dtype.itemsize}"
    return bool(((a.view(whole) == b.view(whole)) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_halves_are_rounded_to_the_lower_one(dtype: str) -> None:
    x = np.concatenate([numbers(dtype, 2000), np.arange(-1500, 1500).astype(dtype) / 2])
    d = OPS["rint"]
    made = known_calls.elementwise(d.program([(5000,)], [x.dtype], d.parse({}), False), "lower rint")
    assert made is not None and made.works == 1              # type: ignore[attr-defined]
    with np.errstate(invalid="ignore"):
        wanted = np.where(x - np.floor(x) <= np.ceil(x) - x, np.floor(x), np.ceil(x))
    np.testing.assert_array_equal(made(x), wanted)


def one(name: str, inputs: list[np.ndarray], **given: object) -> np.ndarray:
    """An operator of arrays by its inner loops."""
    d = OPS[name]
    program = d.program([x.shape for x in inputs], [x.dtype for x in inputs], d.parse(given), False)
    made = known_calls.elementwise(program)
    assert made is not None, (name, inputs[0].dtype)
    return silently(made)(*inputs)                           # type: ignore[no-any-return]


def same_numbers(found: np.ndarray, wanted: np.ndarray) -> bool:
    return found.dtype == wanted.dtype and same_but_nans(found, wanted)


def test_every_half_is_rounded_and_cast_as_by_numpy() -> None:
    x = np.arange(1 << 16, dtype="uint16").view("float16")
    wide = x.astype("float32")
    with np.errstate(all="ignore"):
        sign = np.sign(wide)
        away = np.trunc(np.copysign(0.5, wide) + wide).astype("float16")
        away[abs(wide) >= 1024] = x[abs(wide) >= 1024]
    assert same_numbers(one("_npi_sign", [x]), sign.astype("float16"))
    assert same_numbers(one("sign", [x]), np.where(np.isnan(sign), 0, sign).astype("float16"))
    assert same_numbers(one("round", [x]), away)
    for dtype in ("float32", "float64"):
        assert same_numbers(one("Cast", [x], dtype=dtype), x.astype(dtype))
    assert one("Cast", [x], dtype="bool").tolist() == (x != 0).tolist()


def test_numbers_are_cast_to_halves_as_by_numpy() -> None:
    rng = np.random.default_rng(0)
    halves = np.arange(1 << 16, dtype="uint16").view("float16").astype("float32")
    between = np.concatenate([np.nextafter(halves, np.float32(k)) for k in (-1e38, 1e38)] + [
        (halves[:-1] + halves[1:]) / 2])
    some = rng.integers(0, 1 << 32, 1 << 18, dtype="uint32").view("float32")
    with np.errstate(all="ignore"):
        for x in (halves, between, some):
            assert same_numbers(one("Cast", [x], dtype="float16"), x.astype("float16"))
        for dtype in ("int8", "uint8", "int32", "int64", "bool"):
            x = rng.integers(-70000, 70000, 5000).astype(dtype)
            assert same_numbers(one("Cast", [x], dtype="float16"), x.astype("float16"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_quotients_of_integers(dtype: str) -> None:
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    few = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7, *([-1, -2, -7] if info.min else [])]
    x = np.concatenate([np.repeat(few, len(few)), rng.integers(info.min, info.max, 500, dtype)]).astype(dtype)
    y = np.concatenate([np.tile(few, len(few)), rng.integers(info.min, info.max, 500, dtype) >> 3]).astype(dtype)

    def quotient(a: int, b: int) -> int:
        return 0 if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    def wrapped(values: list[int]) -> list[int]:
        return [(v - info.min) % (1 << info.bits) + info.min for v in values]
    a, b = x.tolist(), y.tolist()
    assert one("elemwise_div", [x, y]).tolist() == wrapped([quotient(*pair) for pair in zip(a, b)])
    for number in few:
        if abs(number) < 1 << 53:                            # attributes are floats
            assert one("_div_scalar", [x], scalar=number).tolist() == wrapped([quotient(v, number) for v in a])
            assert one("_rdiv_scalar", [x], scalar=number).tolist() == wrapped([quotient(number, v) for v in a])


def test_arguments_that_are_strided_are_read_in_order() -> None:
    program = OPS["smooth_l1"].program([(40, 60)], [np.dtype("float32")], OPS["smooth_l1"].parse({}), False)
    made = known_calls.elementwise(program)
    assert made is not None
    x = np.random.default_rng(0).normal(size=(60, 40)).astype("float32").T
    np.testing.assert_array_equal(made(x), straight(program)(np.ascontiguousarray(x)))      # type: ignore[misc]
    big = OPS["smooth_l1"].program([(400, 600)], [np.dtype("float32")], OPS["smooth_l1"].parse({}), False)
    x = np.random.default_rng(0).normal(size=(600, 400)).astype("float32").T
    np.testing.assert_array_equal(known_calls.elementwise(big)(x), straight(big)(x))        # type: ignore[misc]


def test_other_arrays_are_refused() -> None:
    d = OPS["elemwise_add"]
    made = known_calls.elementwise(d.program([(3,)] * 2, [np.dtype("float32")] * 2, d.parse({}), False))
    x = np.ones(3, "float32")
    assert made is not None and made(x, x).tolist() == [2, 2, 2]
    for wrong in ((x,), (x, x.astype("float64")), (x, np.ones(4, "float32")), (x, [1, 2, 3]),
                  (x, x.astype(">f4"))):
        with pytest.raises(TypeError):
            made(*wrong)


def test_programs_of_other_steps_have_no_loops() -> None:
    x = np.dtype("float32")
    for name, shapes in (("sum", [(3, 4)]), ("softmax", [(3, 4)]), ("transpose", [(3, 4)]), ("dot", [(3, 4), (4, 3)]),
                         ("broadcast_add", [(3, 4), (1, 4)])):
        d = OPS[name]
        assert loops(d.program(shapes, [x] * len(shapes), d.parse({}), False)) is None, name


def test_comparisons_are_joined_with_what_reads_them() -> None:
    x = np.dtype("float32")
    clip = OPS["clip"].program([(9,)], [x], OPS["clip"].parse({"a_min": 1, "a_max": 2}), False)
    greater = OPS["_greater"].program([(9,)] * 2, [x] * 2, OPS["_greater"].parse({}), False)
    limit = OPS["clip"].program([(9,)], [x], OPS["clip"].parse({"a_min": 1}), False)
    for program, names in ((clip, ["clip"]), (limit, ["less where"]), (greater, ["greater cast"])):
        steps = loops(program)
        assert steps is not None and [s.function for s in steps.steps] == names
    for low, high, count in ((1, 2, 2), (2, 1, 3)):          # limits out of order: what is below the first is below
        clip = OPS["clip"].program([(9,)], [np.dtype("int8")], OPS["clip"].parse({"a_min": low, "a_max": high}), False)
        assert len(loops(clip).steps) == count               # type: ignore[union-attr]
        v = np.arange(-4, 5).astype("int8")
        wanted = np.where(v > high, high, np.where(v < low, low, v))
        assert known_calls.elementwise(clip)(v).tolist() == wanted.tolist()     # type: ignore[misc]


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_floats_between_limits(dtype: str) -> None:
    v = np.array([-1, 1, 1.5, 2, 3, np.nan, np.inf, -np.inf, -0.0, 0.0], dtype)
    for low, high in ((1, 2), (2, 1), (-0.0, 1), (0.0, 1), (np.nan, 1), (1, np.nan)):
        clip = OPS["clip"].program([(10,)], [v.dtype], OPS["clip"].parse({"a_min": low, "a_max": high}), False)
        below = np.where(v < low, np.asarray(low, dtype), v)
        wanted = np.where(v > high, np.asarray(high, dtype), below)
        assert known_calls.elementwise(clip)(v).tobytes() == wanted.tobytes()   # type: ignore[misc]


def test_a_truth_value_that_two_steps_read_is_kept() -> None:
    a, b = (ir.input(i, (5,), np.dtype("float32")) for i in (0, 1))
    above = ir.map("gt", a, b)
    program = Program((a, b), (ir.map("where", above, ir.cast(above, a.dtype), a),))
    x, y = (numbers("float32", 5, seed) for seed in (3, 4))
    assert known_calls.elementwise(program)(x, y).tobytes() == np.where(x > y, 1, x).astype("f4").tobytes()  # type: ignore[misc]
    assert len(loops(program).steps) == 3                    # type: ignore[union-attr]


MOVES = {"transpose": {}, "flip": {"axis": 1}, "slice": {"begin": (1, 0), "end": (3, 5)}, "tile": {"reps": (2, 3)},
         "slice_axis": {"axis": 1, "begin": 1, "end": 4}, "repeat": {"repeats": 2, "axis": 1}, "diag": {"k": 1},
         "expand_dims": {"axis": 0}, "Flatten": {}, "broadcast_axis": {"axis": 0, "size": 3}}


@pytest.mark.parametrize("name", MOVES)
def test_moved_elements_are_those_of_the_steps(name: str) -> None:
    d, shape = OPS[name], (1, 6) if name == "broadcast_axis" else (4, 6)
    for dtype in DTYPES:
        program = d.program([shape], [np.dtype(dtype)], d.parse(MOVES[name]), False)
        made = known_calls.moved(program)
        assert made is not None, name
        x = numbers(dtype, shape[0] * shape[1]).reshape(shape)
        for given in (x, np.repeat(x, 2, 1)[:, ::2]):
            found, wanted = made(given), straight(program)(given)           # type: ignore[misc]
            assert found.shape == wanted.shape and found.flags.c_contiguous and found.dtype == wanted.dtype
            assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()
        found[...] = 1
        assert not np.shares_memory(found, x)
        for wrong in (x.ravel()[:-1], x.astype("complex64"), list(x)):
            with pytest.raises(TypeError):
                made(wrong)


def test_elements_outside_of_an_array_are_refused() -> None:
    strided, f4 = launcher.part("Strided"), np.dtype("float32")
    for size, offset, dims, strides, shape in ((4, 0, (5,), (4,), (5,)), (4, 4, (4,), (4,), (4,)),
                                               (4, 0, (2,), (-4,), (2,)), (4, 0, (4,), (4,), (3,)),
                                               (4, 0, (2, 2), (4,), (4,))):
        with pytest.raises(ValueError, match="."):
            strided(f4, size, offset, dims, strides, shape, len)


def test_integers_of_another_name_are_the_same() -> None:
    d = OPS["elemwise_add"]
    x = np.arange(3, dtype="int64")
    made = known_calls.elementwise(d.program([(3,)] * 2, [x.dtype] * 2, d.parse({}), False))
    assert made is not None and made(x, x.astype(np.longlong)).tolist() == [0, 2, 4]
