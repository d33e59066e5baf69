"""Losses against what MXNet 1.9.1 gives (data/losses.npz, written by oracle/record_losses.py), eager, compiled and as
symbols."""
from __future__ import annotations

import importlib.util

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, sym
from hybrid.gluon import loss as gloss

from ..paths import TESTS

_spec = importlib.util.spec_from_file_location("record_losses", TESTS / "oracle" / "record_losses.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)
STORED, MORE = oracle.read()
HybridError = mx.errors.HybridError
TOLERANCE = {"float32": {"rtol": 2e-5, "atol": 2e-6}, "float64": {"rtol": 1e-10, "atol": 1e-12}}
MODES = pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
CASES = list(oracle.CASES)
# what MXNet cannot compute in float64 (see the recorder) is compared with its float32 answer
WEAK = {"rtol": 1e-5, "atol": 1e-6}


def stored(case, dtype):
    """MXNet's answers, those of float32 where it has none, and whether they are of this dtype."""
    own = {k.split("|")[2]: v for k, v in STORED.items() if k.split("|")[:2] == [case, dtype]}
    return (own, True) if own else (stored(case, "float32")[0], False)


@MODES
@pytest.mark.parametrize("dtype", oracle.DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_loss_against_mxnet(case, dtype, hybridized):
    got = oracle.run(mx, case, dtype, hybridized)
    want, exact = stored(case, dtype)
    assert want and set(want) <= set(got)
    for k, v in want.items():
        assert got[k].shape == v.shape and got[k].dtype == dtype, k
        onp.testing.assert_allclose(got[k], v, **(TOLERANCE[dtype] if exact else WEAK), err_msg=k)


@pytest.mark.parametrize("case", CASES)
def test_repr(case):
    assert repr(oracle.build(mx, case, "float32")[0]) == MORE["reprs"][case]


# ---- symbols
# MXNet writes float32 constants for these two, which do not meet float64 inputs; here the constants are attributes
OWN_GRAPH = {"cosine": ("_full", "_zeros"), "cosine_margin": ("_full", "_zeros")}


@pytest.mark.parametrize("case", [c for c in CASES if c in MORE["graphs"]])
def test_operators_of_the_symbol(case):
    want = [op.replace("broadcast_maximum", "_maximum_scalar") if case in OWN_GRAPH else op
            for op in MORE["graphs"][case] if op not in OWN_GRAPH.get(case, ())]
    assert oracle.graph(mx, case) == want


@pytest.mark.parametrize("case", [c for c in CASES if not c.startswith("sdml")])
def test_symbol_through_json(case):
    loss, xs = oracle.build(mx, case, "float32")
    names = [None if x is None else f"x{i}" for i, x in enumerate(xs)]
    s = sym.load_json(loss(*(None if n is None else sym.var(n) for n in names)).tojson())
    given = {n: x for n, x in zip(names, xs) if n is not None}
    assert sorted(s.list_arguments()) == sorted(given)
    net = gluon.SymbolBlock(s, [sym.var(n) for n in given])
    onp.testing.assert_allclose(net(*given.values()).asnumpy(), loss(*xs).asnumpy(), rtol=1e-6, atol=1e-6)


def test_sdml_of_symbols_with_shapes():
    s = gloss.SDMLLoss()(sym.var("a", shape=(4, 3)), sym.var("b", shape=(4, 3)))
    assert s.infer_shape(a=(4, 3), b=(4, 3))[1] == [(4,)]
    with pytest.raises(HybridError, match="sym.var"):
        gloss.SDMLLoss()(sym.var("a"), sym.var("b"))


# ---- within nets, other kinds of arrays
@MODES
def test_inside_a_net(hybridized):
    class WithLoss(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.fc = gluon.nn.Dense(3, in_units=5)
            self.loss = gloss.SoftmaxCELoss(weight=2)

        def hybrid_forward(self, F, x, label, weight):
            return self.loss(self.fc(x), label, sample_weight=weight)
    net = WithLoss()
    net.initialize(mx.init.One())
    if hybridized:
        net.hybridize()
    x, label, weight = nd.array(onp.arange(20).reshape(4, 5)), nd.array([0, 1, 2, 0]), nd.array([[1], [0], [2], [1]])
    with autograd.record():
        y = net(x, label, weight)
    y.backward()
    onp.testing.assert_allclose(y.asnumpy(), [2 * onp.log(3), 0, 4 * onp.log(3), 2 * onp.log(3)], rtol=1e-5)
    share = onp.array([[1 / 3 - (k == c) for c in range(3)] for k in (0, 1, 2, 0)]) * [[2], [0], [4], [2]]
    onp.testing.assert_allclose(net.fc.weight.grad().asnumpy(), share.T @ x.asnumpy(), rtol=1e-4, atol=1e-4)


def test_weight_may_change_after_hybridize():
    loss, x, y = gloss.L1Loss(weight=1), nd.ones((2, 3)), nd.zeros((2, 3))
    loss.hybridize()
    assert loss(x, y).asnumpy().tolist() == [1, 1]
    loss._weight = 3
    assert loss(x, y).asnumpy().tolist() == [3, 3]


@MODES
@pytest.mark.parametrize("case", [c for c in CASES if not c.startswith("ctc")])
def test_np_arrays(case, hybridized):
    loss, xs = oracle.build(mx, case, "float32")
    if hybridized:
        loss.hybridize()
    want = stored(case, "float32")[0]["value"]
    got = loss(*(mx.np.array(x.asnumpy()) for x in xs))
    assert isinstance(got, mx.np.ndarray) and got.shape == want.shape
    onp.testing.assert_allclose(got.asnumpy(), want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_integer_labels(dtype):
    pred = nd.array([[1, 2], [3, 1]])
    onp.testing.assert_allclose(gloss.SoftmaxCELoss()(pred, nd.array([1, 0], dtype=dtype)).asnumpy(),
                                [0.3132617, 0.1269280], rtol=1e-5)
    got = gloss.L2Loss()(pred, nd.array([[1, 0], [0, 1]], dtype=dtype))
    assert got.dtype == onp.float32 and got.asnumpy().tolist() == [1, 2.25]


def test_half():
    pred, label = nd.array([[8, 2000], [3, 1]], dtype="float16"), nd.array([1, 0], dtype="float16")
    got = gloss.SoftmaxCELoss()(pred, label)
    assert got.dtype == onp.float16 and onp.allclose(got.asnumpy(), [0, 0.127], atol=1e-3)


def test_names_and_bases():
    assert (gloss.SigmoidBCELoss is gloss.SigmoidBinaryCrossEntropyLoss
            and gloss.SoftmaxCELoss is gloss.SoftmaxCrossEntropyLoss)
    assert gluon.loss is gloss and set(gloss.__all__) <= set(dir(gloss))
    assert all(issubclass(getattr(gloss, n), gluon.HybridBlock) for n in gloss.__all__)
    assert gloss.L2Loss(prefix="mine_").name == "mine"
    with pytest.raises(NotImplementedError, match="Loss must define hybrid_forward"):
        gloss.Loss(None, 0)(nd.ones((1,)))


def test_a_loss_of_ones_own():
    class Scaled(gloss.Loss):
        def __init__(self, weight=None, batch_axis=0, **kwargs):
            super().__init__(weight, batch_axis, **kwargs)

        def hybrid_forward(self, F, pred, label, sample_weight=None):
            label = gloss._reshape_like(F, label, pred)
            return F.mean(gloss._apply_weighting(F, F.abs(pred - label), self._weight, sample_weight),
                          axis=self._batch_axis, exclude=True)
    loss = Scaled(2)
    for _ in range(2):
        assert loss(nd.ones((2, 2)), nd.zeros((4,)), nd.array([[1], [3]])).asnumpy().tolist() == [2, 6]
        loss.hybridize()
    assert repr(loss) == "Scaled(batch_axis=0, w=2)"


# ---- edges
@MODES
def test_poisson_with_counts_of_zero(hybridized):
    """MXNet gives nan there, and changes a recorded array in place."""
    loss, pred, target = gloss.PoissonNLLLoss(compute_full=True), nd.array([0.5, 1, 2]), nd.array([0, 1, 3])
    if hybridized:
        loss.hybridize()
    pred.attach_grad()
    with autograd.record():
        y = loss(pred, target)
    y.backward()
    full = onp.exp([0.5, 1, 2]) - onp.array([0, 1, 3]) * [0.5, 1, 2] + [0, 0,
                                                                        3 * onp.log(3) - 3 + 0.5 * onp.log(6 * onp.pi)]
    onp.testing.assert_allclose(y.asnumpy(), [full.mean()], rtol=1e-5)
    onp.testing.assert_allclose(pred.grad.asnumpy(), (onp.exp([0.5, 1, 2]) - [0, 1, 3]) / 3, rtol=1e-5)


@MODES
def test_ctc_of_equal_scores(hybridized):
    """All alignments are equally likely, so the recursion meets ties everywhere: the gradient by central
    differences."""
    loss, pred, label = gloss.CTCLoss(), nd.zeros((1, 4, 3), dtype="float64"), nd.array([[0, 1]], dtype="float64")
    if hybridized:
        loss.hybridize()
    pred.attach_grad()
    with autograd.record():
        y = loss(pred, label)
    y.backward()
    assert y.asscalar() == pytest.approx(-onp.log(15 / 81))        # a subset of (blank a blank b blank) in four frames
    for index in onp.ndindex(1, 4, 3):
        sides = []
        for step in (1e-5, -1e-5):
            moved = pred.asnumpy()
            moved[index] += step
            sides.append(loss(nd.array(moved, dtype="float64"), label).asscalar())
        assert pred.grad.asnumpy()[index] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-8)


@MODES
def test_ctc_of_what_does_not_fit(hybridized):
    loss, xs = oracle.build(mx, "ctc_impossible", "float32")
    if hybridized:
        loss.hybridize()
    xs[0].attach_grad()
    with autograd.record():
        y = loss(*xs)
    y.backward()
    assert y.asnumpy()[1] == 0 and not xs[0].grad.asnumpy()[1].any() and xs[0].grad.asnumpy()[0].any()


def test_ctc_operator_with_the_blank_first():
    rng = onp.random.RandomState(3)
    data = rng.normal(size=(6, 2, 5))
    last = nd.CTCLoss(nd.array(onp.roll(data, -1, axis=2)), nd.array([[1, 0, -1], [2, 3, 1]]), blank_label="last")
    first = nd.contrib.ctc_loss(nd.array(data), nd.array([[2, 1, 0], [3, 4, 2]]))
    onp.testing.assert_allclose(first.asnumpy(), last.asnumpy(), rtol=1e-6)


# ---- bad input
X, Y = nd.ones((4, 3)), nd.ones((4,))
BAD = {
    "elements": (lambda: gloss.L2Loss()(X, Y), r"same number of elements, got shapes \(4, 3\) and \(4,\)"),
    "bce": (lambda: gloss.SigmoidBCELoss()(X, nd.ones((4, 2))), r"\(4, 3\) and \(4, 2\)"),
    "pos_weight": (lambda: gloss.SigmoidBCELoss()(X, X, None, Y), "pos_weight of shape"),
    "sparse_label": (lambda: gloss.SoftmaxCELoss()(X, nd.ones((3,))), r"have shape \(4,\), the label has \(3,\)"),
    "dense_label": (lambda: gloss.SoftmaxCELoss()(X, X), "sparse_label=False"),
    "axis": (lambda: gloss.SoftmaxCELoss(axis=2)(X, Y), r"shape \(4, 3\) has no axis 2"),
    "triplet": (lambda: gloss.TripletLoss()(X, X, Y), "same number of elements"),
    "cosine": (lambda: gloss.CosineEmbeddingLoss()(X, X, nd.ones((3,))), r"one label for each pair.*\(3,\)"),
    "sdml": (lambda: gloss.SDMLLoss()(X, nd.ones((3, 3))), "two rows or more"),
    "sdml_row": (lambda: gloss.SDMLLoss()(nd.ones((1, 3)), nd.ones((1, 3))), "two rows or more"),
    "weight": (lambda: gloss.L1Loss(weight=[1, 2])(X, X), "must be a number or None"),
    "format": (lambda: gloss.LogisticLoss(label_format="bits"), "signed or binary"),
    "layout": (lambda: gloss.CTCLoss(layout="CTN"), "NTC or TNC"),
    "label_layout": (lambda: gloss.CTCLoss(label_layout="N"), "NT or TN"),
    "ctc_batch": (lambda: gloss.CTCLoss()(nd.ones((2, 5, 4)), nd.ones((3, 2))), "label length"),
    "ctc_time": (lambda: gloss.CTCLoss()(nd.ones((2, 5, 4)), nd.ones((2, 6))), "as many time steps"),
    "ctc_lengths": (lambda: gloss.CTCLoss()(nd.ones((2, 5, 4)), nd.ones((2, 3)), nd.ones((3,))),
                    "data_lengths must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    call, text = BAD[case]
    with pytest.raises(ValueError, match=text):
        call()


def test_bad_input_inside_a_compiled_net():
    loss = gloss.L2Loss()
    loss.hybridize()
    with pytest.raises(ValueError, match="same number of elements"):
        loss(X, Y)
    assert loss(X, X).asnumpy().tolist() == [0] * 4               # and the block is usable afterwards


def test_weights_and_labels_that_broadcast_give_what_mxnet_gives_and_warn():
    pred, weights = nd.array([[1., 2, 4], [3, 1, 2]]), nd.array([1., 3])
    with pytest.warns(UserWarning, match=r"sample_weight of shape \(2,\).*\(2, 1\).*reshape\(\(-1, 1\)\)"):
        found = gloss.SoftmaxCELoss()(pred, nd.array([0, 2]), weights)
    assert found.asnumpy() == pytest.approx([6.339692, 2.815212], rel=1e-5)
    with pytest.warns(UserWarning, match="KLDivLoss have different shapes"):
        found = gloss.KLDivLoss()(pred, nd.array([[.5], [.25]]))
    assert found.asnumpy() == pytest.approx([-4.539721, -2.539721], rel=1e-5)


ELEMENTWISE = [gloss.L1Loss, gloss.L2Loss, gloss.SigmoidBCELoss, gloss.HuberLoss, gloss.HingeLoss,
               gloss.SquaredHingeLoss, gloss.LogisticLoss,
               gloss.PoissonNLLLoss]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("make", ELEMENTWISE, ids=lambda c: c.__name__)
def test_targets_that_do_not_belong_to_the_prediction(make, hybridized):
    """Transposed targets have as many elements; no arrays at all; (4, 1) against (4,) is what MXNet's code does and
    stays right."""
    loss = make()
    if hybridized:
        loss.hybridize()
    with pytest.warns(UserWarning, match=r"elements but different shapes: \(4, 3\) and \(3, 4\)"):
        loss(X, nd.ones((3, 4)))
    for target in ("abc", None, [1, 2]):
        with pytest.raises(TypeError, match=f"a loss takes arrays.*got {type(target).__name__}"):
            loss(X, target)
    assert loss(nd.ones((4, 1)), Y).size == loss(nd.ones((4, 1)), nd.ones((4, 1))).size
    assert loss(nd.ones((2, 3, 4)), nd.ones((2, 12))).shape == loss(nd.ones((2, 3, 4)), nd.ones((2, 3, 4))).shape
