"""The table of tensor operators against NumPy: values, inference, attribute strings, errors (gradients:
test_ops_gradients.py)."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir, runtime
from hybrid.base.device import cpu
from hybrid.base.errors import AttributeValueError, DTypeError, HybridError, ShapeError
from hybrid.ops import registry
from hybrid.passes.differentiate import vjp_program
from hybrid.runtime import reference

from .op_cases_index import CASES, Case

ROWS = [pytest.param(c, id=f"{k}-{c.name}") for k, c in enumerate(CASES)]


def _run(program: ir.Program, arrays: Any) -> list[np.ndarray]:
    return [np.asarray(y) for y in reference.run(program, list(arrays), np)[0]]


def _close(got: list[np.ndarray], expected: list[np.ndarray], tol: float) -> None:
    assert len(got) == len(expected)
    for g, e in zip(got, expected):
        assert g.shape == e.shape
        assert g.dtype == e.dtype
        np.testing.assert_allclose(g, e, rtol=tol, atol=tol)


@pytest.mark.parametrize("case", ROWS)
def test_values(case: Case) -> None:
    """Values, shapes and dtypes are NumPy's."""
    _close(_run(case.program(), case.inputs), case.expected(), case.tol)


@pytest.mark.parametrize("case", ROWS)
def test_inference(case: Case) -> None:
    """The inferred shapes and dtypes are those of the results."""
    assert [(n.shape, n.dtype) for n in case.program().outputs] == [(e.shape, e.dtype) for e in case.expected()]


@pytest.mark.parametrize("case", [p for p in ROWS if registry.find(p.values[0].name).eager])
def test_eager_route(case: Case) -> None:
    """The faster eager route gives what the definition gives."""
    d = registry.find(case.name)
    given = {**case.attrs, **({d.arity_attr: len(case.inputs)} if d.arity_attr else {})}
    fast = d.eager(np, list(case.inputs), d.parse(given))
    if fast is not None:
        _close([np.asarray(y) for y in fast], case.expected(), case.tol)


@pytest.mark.parametrize("case", ROWS)
def test_attribute_strings(case: Case) -> None:
    """Attributes print as text that parses back to the same."""
    d = registry.find(case.name)
    a = d.parse(case.attrs)
    if any(v is None and d.attrs[k].default is not None for k, v in case.attrs.items()):
        pytest.skip("a None that is not the default has no text")
    assert d.parse(a.given()).asdict() == a.asdict()


def _joined(cases: list[Case]) -> tuple[ir.Program, list[np.ndarray], list[np.ndarray], list[float]]:
    """Several rows as one program, so that the compiler is started once for all of them."""
    leaves: list[ir.Node] = []
    arrays: list[np.ndarray] = []
    outputs: list[ir.Node] = []
    expected: list[np.ndarray] = []
    tols: list[float] = []
    for c in cases:
        d = registry.find(c.name)
        own = [ir.input(len(leaves) + k, x.shape, x.dtype) for k, x in enumerate(c.inputs)]
        given = {**c.attrs, **({d.arity_attr: len(own)} if d.arity_attr else {})}
        padded = own if d.variadic else own + [None] * (len(d.inputs) - len(own))
        outputs += d.lower(padded, d.parse(given)).outputs
        leaves += own
        arrays += c.inputs
        expected += c.expected()
        tols += [c.tol] * (len(outputs) - len(tols))
    return ir.Program(tuple(leaves), tuple(outputs)), arrays, expected, tols


CHUNK = 40


@pytest.mark.parametrize("start", range(0, len(CASES), CHUNK))
def test_compiled(start: int) -> None:
    """The rows compiled to C give the same."""
    cases = CASES[start:start + CHUNK]
    program, arrays, expected, tols = _joined(cases)
    got = runtime.compile(program, cpu())([np.array(x) for x in arrays])
    for k, (g, e, tol) in enumerate(zip(got, expected, tols)):
        assert g.shape == e.shape and g.dtype == e.dtype, (start, k)
        np.testing.assert_allclose(g, e, rtol=max(tol, 1e-5), atol=max(tol, 1e-5),
                                   err_msg=f"output {k} of {[c.name for c in cases]}")


def _f(*shape: int) -> tuple[tuple[int, ...], str]:
    return shape, "float32"


# operator, inputs (shape, dtype), attributes, error, words that its message must have
ERRORS: list[tuple[str, list[Any], dict[str, Any], type[HybridError], tuple[str, ...]]] = [
    ("broadcast_add", [_f(2, 3), _f(4)], {}, ShapeError, ("broadcast_add", "(2, 3)", "(4,)")),
    ("elemwise_mul", [_f(2, 3), _f(2, 2)], {}, ShapeError, ("elemwise_mul", "(2, 3)", "(2, 2)")),
    ("exp", [_f(2)], {"axis": 1}, AttributeValueError, ("exp", "axis")),
    ("sum", [_f(2, 3)], {"axis": 2}, ShapeError, ("sum", "axis 2", "-2 to 1")),
    ("sum", [_f(2, 3)], {"axes": 1}, AttributeValueError, ("sum", "'axes'", "axis, keepdims, exclude")),
    ("max", [_f(0, 3)], {"axis": 0}, ShapeError, ("max", "(0, 3)")),
    ("argmax", [_f(0)], {"axis": 0}, ShapeError, ("argmax", "empty")),
    ("slice_axis", [_f(2, 3)], {"axis": 1, "begin": 1, "end": 4}, ShapeError,
     ("slice_axis", "end=4", "(2, 3)", "-3 to 3")),
    ("slice_axis", [_f(2, 3)], {"axis": -1, "begin": -4, "end": None}, ShapeError,
     ("slice_axis", "begin=-4", "axis 1")),
    ("Reshape", [_f(2, 3)], {"shape": (4, 2)}, ShapeError, ("Reshape", "(2, 3)", "(4, 2)")),
    ("Reshape", [_f(2, 3)], {"shape": (-7,)}, ShapeError, ("Reshape", "-7")),
    ("Reshape", [_f(2, 3)], {"shape": (-1, -1)}, ShapeError, ("Reshape", "-1")),
    ("Reshape", [_f(2, 3)], {"shape": (-4, 2)}, ShapeError, ("Reshape", "-4")),
    ("Reshape", [_f(2, 3)], {"shape": (-1, 4)}, ShapeError, ("Reshape", "(-1, 4)")),
    ("Reshape", [_f(2, 3)], {"shape": (0, 0, 0)}, ShapeError, ("Reshape", "(0, 0, 0)")),
    ("Reshape", [_f(2, 3)], {"shape": "(2, x)"}, AttributeValueError, ("Reshape", "shape")),
    ("_np_reshape", [_f(2, 3)], {"newshape": (4, -1)}, ShapeError, ("_np_reshape", "(2, 3)")),
    ("_npx_reshape", [_f(2, 3)], {"newshape": (-2, 1, -4)}, ShapeError, ("_npx_reshape", "(-2, 1, -4)")),
    ("_npx_reshape", [_f(2, 3)], {"newshape": (-3, -2)}, ShapeError, ("_npx_reshape", "-3 drops an axis of length 1")),
    ("transpose", [_f(2, 3)], {"axes": (0, 0)}, ShapeError, ("transpose", "(0, 0)")),
    ("transpose", [_f(2, 3)], {"axes": (0, 1, 2)}, ShapeError, ("transpose", "(0, 1, 2)")),
    ("transpose", [_f(2, 3)], {"axes": (0, 5)}, ShapeError, ("transpose", "5")),
    ("squeeze", [_f(2, 3)], {"axis": 1}, ShapeError, ("squeeze", "length 3")),
    ("expand_dims", [_f(2, 3)], {"axis": 4}, ShapeError, ("expand_dims", "4")),
    ("Concat", [_f(2, 3), _f(3, 3)], {"dim": 1}, ShapeError, ("Concat", "(3, 3)")),
    ("Concat", [_f(2, 3), _f(2)], {"dim": 0}, ShapeError, ("Concat", "(2,)")),
    ("stack", [_f(2, 3), _f(3)], {}, ShapeError, ("stack", "(3,)")),
    ("SliceChannel", [_f(2, 5)], {"num_outputs": 2}, ShapeError, ("SliceChannel", "5", "2 equal parts")),
    ("SliceChannel", [_f(2, 5)], {}, AttributeValueError, ("SliceChannel", "num_outputs")),
    ("slice", [_f(2)], {"begin": (0, 0), "end": (1, 1)}, ShapeError, ("slice", "1 axes")),
    ("slice", [_f(4)], {"begin": (0,), "end": (2,), "step": (0,)}, ShapeError, ("slice", "step")),
    ("slice", [_f(4)], {"begin": (0, 1), "end": (2,)}, ShapeError, ("slice", "begin", "end")),
    ("slice_like", [_f(2, 3), _f(4, 3)], {}, ShapeError, ("slice_like", "(4, 3)")),
    ("slice_like", [_f(2, 3), _f(2)], {"axes": (1,)}, ShapeError, ("slice_like", "axis 1")),
    ("Pad", [_f(2, 3)], {"pad_width": (1, 1)}, ShapeError, ("Pad", "pad_width")),
    ("Pad", [_f(2, 3)], {"pad_width": (0, 0, -1, 0)}, ShapeError, ("Pad", "negative")),
    ("Pad", [_f(2, 3)], {"mode": "reflect", "pad_width": (2, 0, 0, 0)}, ShapeError, ("Pad", "reflect")),
    ("Pad", [_f(2, 3)], {"mode": "wrap", "pad_width": (0, 0, 1, 1)}, AttributeValueError,
     ("Pad", "constant", "edge", "reflect")),
    ("tile", [_f(2)], {"reps": (-1,)}, ShapeError, ("tile", "-1")),
    ("repeat", [_f(2)], {"repeats": -1}, ShapeError, ("repeat", "-1")),
    ("depth_to_space", [_f(1, 3, 2, 2)], {"block_size": 2}, ShapeError, ("depth_to_space", "block_size")),
    ("depth_to_space", [_f(3, 2)], {"block_size": 2}, ShapeError, ("depth_to_space", "4 axes")),
    ("space_to_depth", [_f(1, 3, 3, 2)], {"block_size": 2}, ShapeError, ("space_to_depth", "block_size")),
    ("broadcast_to", [_f(2, 3)], {"shape": (2, 4)}, ShapeError, ("broadcast_to", "(2, 4)")),
    ("broadcast_to", [_f(2, 3)], {"shape": (3,)}, ShapeError, ("broadcast_to", "(3,)")),
    ("broadcast_axis", [_f(2, 3)], {"axis": (0,), "size": (4,)}, ShapeError, ("broadcast_axis", "(2, 3)")),
    ("broadcast_axis", [_f(2, 3)], {"axis": (5,), "size": (4,)}, ShapeError, ("broadcast_axis", "5")),
    ("broadcast_axis", [_f(1, 3)], {"axis": (0,), "size": (4, 2)}, ShapeError, ("broadcast_axis", "size")),
    ("broadcast_like", [_f(2, 3), _f(4, 3)], {}, ShapeError, ("broadcast_like", "(2, 3)", "(4, 3)")),
    ("broadcast_like", [_f(1, 3), _f(4, 3)], {"lhs_axes": (0,)}, ShapeError, ("broadcast_like", "rhs_axes")),
    ("SwapAxis", [_f(2, 3)], {"dim1": 0, "dim2": 2}, ShapeError, ("SwapAxis", "axis 2")),
    ("add_n", [_f(2), _f(3)], {}, ShapeError, ("add_n", "(2,)", "(3,)")),
    ("where", [_f(2, 3), _f(2, 3), _f(2, 4)], {}, ShapeError, ("where", "(2, 4)")),
    ("Embedding", [_f(2), _f(3, 4)], {"input_dim": 4, "output_dim": 3}, ShapeError, ("Embedding", "(4, 3)", "(3, 4)")),
    ("pick", [_f(3, 4), _f(4)], {}, ShapeError, ("pick", "(3,)", "(4,)")),
    ("take", [_f(3, 4), _f(4)], {"axis": 2}, ShapeError, ("take", "axis 2")),
    ("take", [_f(0, 4), _f(4)], {}, ShapeError, ("take", "(0, 4)")),
    ("gather_nd", [_f(3), ((2, 1), "int32")], {}, ShapeError, ("gather_nd", "2")),
    ("one_hot", [_f(3)], {"depth": -1}, ShapeError, ("one_hot", "depth")),
    ("one_hot", [_f(3)], {}, AttributeValueError, ("one_hot", "depth")),
    ("dot", [_f(2, 3), _f(4, 2)], {}, ShapeError, ("dot", "(2, 3)", "(4, 2)")),
    ("dot", [_f(), _f(4, 2)], {}, ShapeError, ("dot", "()")),
    ("batch_dot", [_f(2, 3), _f(3, 2)], {}, ShapeError, ("batch_dot", "(2, 3)")),
    ("batch_dot", [_f(2, 3, 4), _f(3, 4, 2)], {}, ShapeError, ("batch_dot", "(2, 3, 4)", "(3, 4, 2)")),
    ("_npi_matmul", [_f(2, 3), _f(4, 2)], {}, ShapeError, ("_npi_matmul", "(2, 3)", "(4, 2)")),
    ("_np_dot", [_f(2, 3), _f(4, 2)], {}, ShapeError, ("_np_dot", "(2, 3)", "(4, 2)")),
    ("_npi_einsum", [_f(2, 3), _f(4, 2)], {"subscripts": "ij,jk->ik"}, ShapeError, ("_npi_einsum", "'j'")),
    ("_npi_einsum", [_f(2, 3)], {"subscripts": "ij,jk->ik"}, ShapeError, ("_npi_einsum", "ij,jk")),
    ("_npi_bitwise_and", [_f(2), _f(2)], {}, DTypeError, ("_npi_bitwise_and", "integers", "float32")),
    ("Cast", [_f(2)], {"dtype": "float8"}, AttributeValueError, ("Cast", "float8", "float16")),
    ("_zeros", [], {"shape": (-1,)}, ShapeError, ("_zeros", "(-1,)")),
    ("_arange", [], {"start": 0, "stop": 4, "step": 0}, ShapeError, ("_arange", "step")),
    ("_plus_scalar", [_f(2)], {"scalar": "one"}, AttributeValueError, ("_plus_scalar", "'one'")),
    ("clip", [_f(2)], {"a_max": "high"}, AttributeValueError, ("clip", "a_max")),
    ("norm", [_f(2)], {"ord": 3}, ShapeError, ("norm", "ord=3", "1 or 2")),
]


@pytest.mark.parametrize("name, inputs, attrs, error, words",
                         [pytest.param(*row, id=f"{k}-{row[0]}") for k, row in enumerate(ERRORS)])
def test_errors(name: str, inputs: list[Any], attrs: dict[str, Any], error: type[HybridError],
                words: tuple[str, ...]) -> None:
    """Bad input gives one error that names the operator, what was given and what to do."""
    d = registry.find(name)
    given = {**attrs, **({d.arity_attr: len(inputs)} if d.arity_attr else {})}
    missing = [] if d.variadic else [None] * (len(d.inputs) - len(inputs))
    with pytest.raises(error) as caught:
        d.program([s for s, _ in inputs] + missing, [np.dtype(t) for _, t in inputs] + missing, d.parse(given))
    for word in (d.shown if w == name else w for w in words):
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"


@pytest.mark.parametrize("json_name, canonical", [("_Plus", "elemwise_add"), ("_PlusScalar", "_plus_scalar"),
                                                  ("_RMinusScalar", "_rminus_scalar"),
                                                  ("_Greater_Equal", "_greater_equal"),
                                                  ("_GreaterEqualScalar", "_greater_equal_scalar"),
                                                  ("ElementWiseSum", "add_n"), ("identity", "_copy"),
                                                  ("stop_gradient", "BlockGrad"),
                                                  ("cast", "Cast"), ("swapaxes", "SwapAxis"), ("flatten", "Flatten"),
                                                  ("reshape", "Reshape"),
                                                  ("flip", "reverse"), ("broadcast_plus", "broadcast_add"),
                                                  ("sum_axis", "sum"),
                                                  ("choose_element_0index", "pick"), ("linalg_gemm2", "_linalg_gemm2")])
def test_names_in_files(json_name: str, canonical: str) -> None:
    """Every name under which MXNet knows an operator finds it."""
    assert registry.find(json_name) is registry.find(canonical)


def test_operator_from_outside() -> None:
    """An operator registered outside the package has inference, value, gradient and C."""
    @registry.op("shifted_square_for_test", "data", shift=registry.Float(1.0), mx=("shifted_square_alias",))
    def shifted(data: ir.Node, a: registry.Attrs) -> ir.Node:
        """(data - shift)^2."""
        return ir.map("square", data - a.shift)
    try:
        assert registry.namespace("nd")["shifted_square_alias"] is shifted
        x = np.array([1.0, 2.0, 4.0])
        program = shifted.program([x.shape], [x.dtype], shifted.parse({"shift": "2"}))
        np.testing.assert_array_equal(_run(program, [x])[0], (x - 2) ** 2)
        np.testing.assert_array_equal(runtime.compile(program, cpu())([x])[0], (x - 2) ** 2)
        back = vjp_program(program, (0,))
        np.testing.assert_array_equal(_run(back, [x, np.ones(3)])[0], 2 * (x - 2))
        np.testing.assert_array_equal(runtime.compile(back, cpu())([x, np.ones(3)])[0], 2 * (x - 2))
    finally:
        registry.unregister(shifted)
    assert "shifted_square_for_test" not in registry.OPS
