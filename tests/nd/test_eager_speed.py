"""What eager operators do not do: look again at what an earlier call found out, copy results twice, sort all for a few,
compute what is thrown away. Counted, never timed."""
from __future__ import annotations

import sys
from typing import Any, Callable, Iterator

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, nd, np
from hybrid.autograd import dispatch, known_calls
from hybrid.base import pending
from hybrid.ir import direct, evaluate, primitives, sorting_keys
from hybrid.ops.registry import OPS, OpDef
from hybrid.ir.rowcall import ROW_KERNELS


@pytest.fixture()
def searches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the operators whose program was looked up from shapes and attributes."""
    seen: list[str] = []
    real = OpDef.program
    monkeypatch.setattr(OpDef, "program", lambda d, *given, **more: (seen.append(d.name), real(d, *given, **more))[1])
    yield seen


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_of_earlier_modules() -> None:
    """Where a test before this module left a training loop in the middle of a round, operators look whether they belong
    to it."""
    pending.given_up()
    assert not pending.WATCHED[0]


def python_calls(run: Callable[[], Any]) -> int:
    """Functions of Python that a call goes through."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"
    run()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def test_a_call_made_before_is_known(searches: list[str]) -> None:
    """Shapes, dtypes, attributes and the mode tell calls apart."""
    x = nd.array([[1.5, -2.0], [3.0, 4.0]])
    for _ in range(2):
        assert (x * 2.5).asnumpy().tolist() == [[3.75, -5.0], [7.5, 10.0]]
        assert (x + x).asnumpy().tolist() == [[3.0, -4.0], [6.0, 8.0]]
        assert nd.clip(x, 0, 3).asnumpy().tolist() == [[1.5, 0.0], [3.0, 3.0]]
        known = len(searches)
    searches.clear()
    x * 2.5, x + x, nd.clip(x, 0, 3)
    assert not searches and known
    assert (x * 3.5).asnumpy()[0, 0] == 5.25 and searches == ["_mul_scalar"] * len(searches) and searches
    i = nd.array([3], dtype="int32")
    assert (i * 2).dtype == onp.int32 and (i * 2).asnumpy() == [6]
    assert (np.array([3]) / 2).asnumpy() == [1.5]


def test_numbers_that_python_calls_equal_are_told_apart() -> None:
    x = np.array([4], dtype="int64")
    assert [(x * 2).dtype, (x * 2.0).dtype, (x * 2).dtype] == [onp.int64, onp.float32, onp.int64]
    y = np.array([1.0])
    assert onp.signbit((y * 0.0).asnumpy()) == [False] and onp.signbit((y * -0.0).asnumpy()) == [True]


def test_a_small_operator_goes_through_few_functions() -> None:
    x, y = nd.ones((4, 4)), nd.ones((4, 4))
    assert python_calls(lambda: x + y) <= 14
    assert python_calls(lambda: nd.exp(x)) <= 15


def test_known_calls_are_recorded_and_trained() -> None:
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    for _ in range(3):
        with autograd.record():
            y = (x * x).sum()
        y.backward()
        assert x.grad.asnumpy().tolist() == [2.0, 4.0]
    drop = [float(nd.Dropout(nd.ones((200,)), p=0.5).sum().asscalar()) for _ in range(2)]
    with autograd.train_mode():
        assert float(nd.Dropout(nd.ones((200,)), p=0.5).asnumpy().min()) == 0.0
    assert drop == [200.0, 200.0]


def test_what_changes_its_inputs_or_draws_is_never_known() -> None:
    nd.random.uniform(shape=(3,))
    with autograd.train_mode():
        nd.Dropout(nd.ones((3,)), p=0.5)
    for d in OPS.values():
        assert all(not k.program.updates and not d.random(k.attrs, True) or "train" in d.needs
                   for k in d.known.values()), d.name


def test_subclasses_and_sparse_arrays_take_the_long_way() -> None:
    rows = nd.sparse.row_sparse_array((onp.ones((1, 2), "float32"), [1]), shape=(3, 2))
    assert known_calls.raws_of([rows]) is None and known_calls.raws_of([nd.ones((1,)), None]) is None
    for _ in range(2):
        assert (rows * 2).asnumpy().sum() == 4


def test_a_chain_writes_over_what_nobody_needs() -> None:
    """Elementwise values that die give their memory to the next; inputs, results and what others see do not."""
    x = onp.random.rand(64, 64).astype("float32")
    a = mx.ir.input(0, x.shape, x.dtype)
    middle = mx.ir.map("exp", a)
    top = mx.ir.map("sqrt", mx.ir.map("add", middle, a))
    plan = evaluate.plan(mx.ir.Program((a,), (top,)), onp)
    assert [s.into >= 0 for s in plan.steps] == [False, True, True]
    seen = evaluate.plan(mx.ir.Program((a,), (top, middle)), onp)
    assert [s.into >= 0 for s in seen.steps] == [False, False, True]
    view = mx.ir.Program((a,), (mx.ir.map("sqrt", middle), mx.ir.reshape(middle, (4096,))))
    outputs, _ = evaluate.run(view, [x], onp)
    onp.testing.assert_array_equal(outputs[1], onp.exp(x).ravel())
    kept = x.copy()
    onp.testing.assert_array_equal(evaluate.run(mx.ir.Program((a,), (top,)), [x], onp)[0][0],
                                   onp.sqrt(onp.exp(kept) + kept))
    onp.testing.assert_array_equal(x, kept)


def test_numbers_made_of_numbers_are_made_once() -> None:
    """The exponent less one in the derivative of a power is a number of the plan, not a step with an array."""
    a = mx.ir.input(0, (3, 4), onp.dtype("float32"))
    less = mx.ir.map("sub", mx.ir.full(3, a.shape, a.dtype), mx.ir.full(1, a.shape, a.dtype))
    program = mx.ir.Program((a,), (mx.ir.map("pow", a, less),))
    assert [len(step.args) for step in evaluate.plan(program, onp).steps] == [2]
    x = onp.arange(12, dtype="float32").reshape(3, 4)
    onp.testing.assert_allclose(evaluate.run(program, [x], onp)[0][0], x ** 2)
    alone = mx.ir.Program((a,), (less,))
    onp.testing.assert_array_equal(evaluate.run(alone, [x], onp)[0][0], onp.full((3, 4), 2, "float32"))


def test_constants_of_a_program_are_never_handed_out() -> None:
    one = np.zeros((1,)) + 5
    one[0] = 7
    assert (np.zeros((1,)) + 5).asnumpy() == [5]
    made = nd.full((1,), 3)
    made[:] = 9
    assert nd.full((1,), 3).asnumpy() == [3]


def test_results_in_another_shape_are_copied_once() -> None:
    made = onp.arange(6.0).reshape(2, 3).T.reshape(6)          # a copy, in another shape
    own = direct.own(made, [], onp)
    assert own is made
    held = onp.arange(6.0)
    assert direct.own(held.reshape(2, 3), [], onp).base is None
    part = onp.arange(6.0).reshape(2, 3)
    assert direct.own(held, [held], onp) is not held and direct.own(part, [part], onp) is not part


def test_warnings_are_as_before_after_a_call() -> None:
    before = onp.geterr()
    with onp.errstate(all="raise"):
        assert onp.isinf(nd.exp(nd.array([1000.0])).asnumpy()) == [True]
        with pytest.raises(FloatingPointError):
            onp.exp(onp.float32([1000.0]))
    assert onp.geterr() == before


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32", "uint32", "int64", "uint64",
                                   "bool"])
def test_orders_are_numpys_stable_ones(dtype: str) -> None:
    x = onp.random.default_rng(0).integers(0 if dtype[0] in "ub" else -5, 5, (7, 300)).astype(dtype)
    if dtype[0] == "f":
        x[0, ::7], x[1, ::5], x[2, ::9], x[2, ::11], x[0, 3] = onp.nan, -0.0, onp.inf, -onp.inf, -onp.nan
    up = onp.argsort(x, axis=-1, kind="stable")
    down = x.shape[1] - 1 - onp.argsort(x[:, ::-1], axis=-1, kind="stable")[:, ::-1]
    onp.testing.assert_array_equal(sorting_keys.stable_order(x), up)
    onp.testing.assert_array_equal(sorting_keys.stable_order(x, True), down)
    for k in (1, 5, 74, 300):
        onp.testing.assert_array_equal(sorting_keys.first_of_order(x, k, True), down[:, :k])


def test_sorting_asks_for_no_order_and_top_k_sorts_k(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[int] = []
    real = sorting_keys.stable_order
    for module in (primitives, sorting_keys):
        monkeypatch.setattr(module, "stable_order", lambda x, *more: (orders.append(x.size), real(x, *more))[1])
    x = np.array([[3.0, 1.0, onp.nan, 2.0] * 10])
    onp.testing.assert_array_equal(np.sort(x).asnumpy(), onp.sort(x.asnumpy()))
    best = nd.topk(nd.array([[5, 9, 9, 1] * 8]), k=3, ret_typ="both")
    assert [b.asnumpy().tolist() for b in best] == [[[9, 9, 9]], [[1, 2, 5]]]
    assert not orders
    np.argsort(x)
    assert orders == [40]


def test_pools_take_one_function_for_a_place_of_the_window() -> None:
    x = onp.random.rand(8, 8, 16, 16).astype("float32")
    x[0, 0, 0, 0] = onp.nan
    found = nd.Pooling(nd.array(x), kernel=(2, 2), stride=(2, 2)).asnumpy()
    onp.testing.assert_array_equal(found, x.reshape(8, 8, 8, 2, 8, 2).max((3, 5)))


@pytest.mark.parametrize("case", [dict(), dict(stride=(2, 1), pad=(1, 2)), dict(dilate=(2, 2), num_group=2),
                                  dict(kernel=(1, 1)), dict(kernel=(5, 5))], ids=str)
def test_convolutions_are_those_of_the_program(case: dict[str, Any]) -> None:
    given = {"kernel": (3, 2), "num_filter": 4, **case}
    x = nd.random.normal(shape=(3, 2, 5, 5))
    w = nd.random.normal(shape=(4, 2 // given.get("num_group", 1), *given["kernel"]))
    b = nd.random.normal(shape=(4,))
    d = OPS["Convolution"]
    a = dispatch.parse(d, given)
    program = d.program([v.shape for v in (x, w, b)], [v._data.dtype for v in (x, w, b)], a)
    want, = evaluate.run(program, [v._data for v in (x, w, b)], onp)[0]
    onp.testing.assert_allclose(nd.Convolution(x, w, b, **given).asnumpy(), want, rtol=1e-4, atol=1e-5)


def test_large_decompositions_are_numpys_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    m = onp.random.default_rng(0).normal(size=(40, 40)).astype("float32")
    x = np.array(m + m.T)
    ran: list[str] = []
    real = onp.linalg.eigvalsh
    monkeypatch.setattr(onp.linalg, "eigvalsh", lambda *given: ran.append("eigvalsh") or real(*given))
    values = mx.hybridize(lambda a: np.linalg.eigh(a)[0] * 2)
    onp.testing.assert_allclose(values(x).asnumpy(), np.linalg.eigh(x)[0].asnumpy() * 2, rtol=1e-4, atol=1e-4)
    assert ran == ["eigvalsh"]
    small = np.array((m + m.T)[:4, :4])
    values(small)
    assert ran == ["eigvalsh"]


def test_many_decompositions_are_numpys_from_smaller_sizes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    m = onp.random.default_rng(0).normal(size=(10, 16, 16)).astype("float32")
    x = np.array(m + m.swapaxes(1, 2))
    ran: list[tuple[int, ...]] = []
    real = onp.linalg.eigvalsh
    monkeypatch.setattr(onp.linalg, "eigvalsh", lambda a, *more: (ran.append(a.shape), real(a, *more))[1])
    values = mx.hybridize(lambda a: np.linalg.eigh(a)[0], dynamic=False)
    onp.testing.assert_allclose(values(x).asnumpy(), np.linalg.eigh(x)[0].asnumpy(), rtol=1e-4, atol=1e-4)
    values(x[0].copy())
    assert ran == [(10, 16, 16)]


@pytest.mark.parametrize("lead", [(), (3,)])
def test_eigenvalues_alone_are_computed_without_vectors(lead: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    m = onp.random.default_rng(0).normal(size=(*lead, 40, 40)).astype("float32")
    x, whole, vectors = np.array(m), [], onp.linalg.eigh
    x.attach_grad()
    monkeypatch.setattr(onp.linalg, "eigh", lambda *given: whole.append(1) or vectors(*given))
    values = mx.hybridize(lambda a: np.linalg.eigvalsh(a))
    onp.testing.assert_allclose(values(x).asnumpy(), onp.linalg.eigvalsh(m), rtol=1e-4, atol=1e-4)
    assert not whole
    with mx.autograd.record():
        total = (values(x) ** 2).sum()
    total.backward()                                       # the gradient reads vectors
    lower = onp.tril(m, -1)
    onp.testing.assert_allclose(x.grad.asnumpy(), 4 * lower + 2 * onp.tril(m) - 2 * lower, rtol=1e-3, atol=1e-3)
    assert whole


@pytest.mark.parametrize("lower", "LU")
@pytest.mark.parametrize("n", [5, 40])
def test_one_triangle_is_read_and_has_the_gradient(n: int, lower: str) -> None:
    m = onp.random.default_rng(n).normal(size=(n, n))
    x = np.array(m, dtype="float64")
    x.attach_grad()
    for f in (np.linalg.eigvalsh, mx.hybridize(lambda a: np.linalg.eigvalsh(a, lower)),
              mx.hybridize(lambda a: np.linalg.eigh(a, lower)[0])):
        with mx.autograd.record():
            values = f(x, lower) if f is np.linalg.eigvalsh else f(x)
            total = (values ** 3).sum()
        onp.testing.assert_allclose(values.asnumpy(), onp.linalg.eigvalsh(m, lower), rtol=1e-9, atol=1e-9)
        total.backward()                                   # of the trace of the cube: 3 times the square
        half = onp.tril(m) if lower == "L" else onp.triu(m)
        square = onp.linalg.matrix_power(half + half.T - onp.diag(onp.diag(m)), 2)
        want = 3 * (onp.tril(2 * square) if lower == "L" else onp.triu(2 * square)) - 3 * onp.diag(onp.diag(square))
        onp.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["eigvalsh", "slogdet"])
def test_a_call_of_lapack_alone_gives_its_own_arrays(name: str) -> None:
    m = onp.random.default_rng(0).normal(size=(200, 200)) + 9 * onp.eye(200)
    f = getattr(np.linalg, name)
    x, made = np.array(m, dtype="float64"), mx.hybridize(lambda a: f(a))
    found, want = ([p.asnumpy() for p in (r if isinstance(r, (tuple, list)) else [r])] for r in (made(x), f(x)))
    for p, q in zip(found, want):
        onp.testing.assert_allclose(p, q, rtol=1e-9, atol=1e-9)
    report = made.report()
    assert not report.kernels and report.refusals[-1][1].startswith("Python code")


@pytest.mark.parametrize("transpose", [False, True])
def test_large_products_with_themselves_are_of_blas(transpose: bool) -> None:
    m = onp.random.default_rng(0).normal(size=(200, 200))
    x = nd.array(m, dtype="float64")
    x.attach_grad()
    made = mx.hybridize(lambda a: nd.linalg.syrk(a + 1, transpose=transpose))
    with mx.autograd.record():
        found = made(x)
    n = m + 1
    onp.testing.assert_allclose(found.asnumpy(), n.T @ n if transpose else n @ n.T, rtol=1e-9)
    found.backward()
    ones = onp.ones((200, 200))
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * (n @ ones if transpose else ones @ n), rtol=1e-8, atol=1e-8)
    made(x)
    assert "product" in [name for name, _ in made.report().refusals]


@pytest.mark.parametrize("axes", [2, ((0, 1), (0, 1)), 0, ((0,), (1,)), ((1,), (0,))])
def test_other_products_of_a_large_matrix_and_itself_compile(axes: Any) -> None:
    m = onp.random.default_rng(0).normal(size=(200, 200) if axes else (12, 12))
    x = np.array(m, dtype="float64")
    found = mx.hybridize(lambda a: np.tensordot(a, a, axes))(x).asnumpy()
    onp.testing.assert_allclose(found, onp.tensordot(m, m, axes), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("n", [5, 70])
def test_systems_are_solved_without_an_inverse(n: int) -> None:
    r = onp.random.default_rng(n)
    a, b = r.normal(size=(2, n, n)) + 4 * onp.eye(n), r.normal(size=(n, 3))
    x, y = np.array(a, dtype="float64"), np.array(b, dtype="float64")
    want = onp.linalg.solve(a, b[None])
    for f in (np.linalg.solve, mx.hybridize(lambda p, q: np.linalg.solve(p, q))):
        onp.testing.assert_allclose(f(x, y).asnumpy(), want, rtol=1e-9, atol=1e-12)
    singular = np.zeros((n, n), dtype="float64")
    for f in (np.linalg.solve, mx.hybridize(lambda p, q: np.linalg.solve(p, q))):
        with pytest.raises(onp.linalg.LinAlgError, match="singular"):
            f(singular, y)


def test_one_matrix_without_an_answer_leaves_those_beside_it() -> None:
    good = onp.array([[2.0, 1.0], [1.0, 3.0]], "float32")
    three = onp.stack([good, onp.zeros((2, 2), "float32"), -good])
    factors = ROW_KERNELS["potrf"].eager(onp, [three], ())
    onp.testing.assert_allclose(factors[0], onp.linalg.cholesky(good), rtol=1e-6)
    assert onp.isnan(factors[2]).all()
    found, = ROW_KERNELS["inverse"].eager(onp, [three], ())
    onp.testing.assert_allclose(found[[0, 2]], onp.linalg.inv(onp.stack([good, -good])), rtol=1e-6)
    assert onp.isinf(found[1]).all()
    found, = ROW_KERNELS["gesv"].eager(onp, [three, three], ())
    onp.testing.assert_allclose(found[[0, 2]], onp.stack([onp.eye(2)] * 2), atol=1e-6)
    assert onp.isinf(found[1]).all()


@pytest.mark.parametrize("order", [2, -2, "nuc"])
def test_singular_values_alone_are_computed_without_vectors(order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    m = onp.random.default_rng(0).normal(size=(5, 7)).astype("float32")
    x, whole, real = np.array(m), list[bool](), onp.linalg.svd
    x.attach_grad()

    def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
        whole.append(compute_uv)
        return real(a, full_matrices, compute_uv)
    norm = mx.hybridize(lambda a: np.linalg.norm(a, order))
    monkeypatch.setattr(onp.linalg, "svd", svd)
    for _ in range(2):
        onp.testing.assert_allclose(norm(x).asnumpy(), onp.linalg.norm(m.astype("float64"), order), rtol=1e-5)
    assert whole and not any(whole)
    both = mx.hybridize(lambda a: [np.linalg.norm(a, order), np.linalg.svd(a)[0]])
    assert both(x)[1].shape == (5, 5) and any(whole)
    gradients = []
    for call in (norm, lambda a: np.linalg.norm(a, order)):
        with mx.autograd.record():
            y = call(x)
        y.backward()
        gradients.append(x.grad.asnumpy().copy())
    onp.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-5)
