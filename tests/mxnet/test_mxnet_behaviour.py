"""Answers of MXNet 1.9.1 where it is easily taken to give another: metrics, iterators, executors, modules, shapes,
operators' corners."""
from __future__ import annotations

from typing import Any, Callable

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, io, nd, np, npx, sym

CPU = mx.cpu()
var = sym.var


def numbers(x: Any) -> Any:
    """Nested lists of rounded numbers, of arrays inside of anything."""
    if isinstance(x, nd.NDArray):
        x = x.asnumpy()
    if isinstance(x, onp.ndarray):
        return onp.asarray(x, onp.float64).round(4).tolist()
    return type(x)(numbers(v) for v in x) if isinstance(x, (list, tuple)) else x


def metric_of(metric: Any, labels: list[float], preds: list[Any]) -> float:
    metric.update([nd.array(labels)], [nd.array(preds)])
    return round(float(metric.get()[1]), 5)


PREDICTED = [[.2, .8], [.3, .7], [.4, .6]]
NORMS = [[0, .5, .1, .1, .2, .2], [1, .3, .1, .1, .14, .14], [-1, .6, .5, .5, .7, .8], [-2, .7, .5, .5, .9, .8]]


def kept(background: int) -> list[Any]:
    out = nd.contrib.box_nms(nd.array(NORMS), id_index=0, coord_start=2, score_index=1, background_id=background)
    return [int(v) for v in out.asnumpy()[:, 0]]


def signum(**kwargs: Any) -> Any:
    o = mx.optimizer.Signum(learning_rate=.1, **kwargs)
    w, g = nd.array([1., -2, .3]), nd.array([1., -.2, 3])
    state = o.create_state(0, w)
    for _ in range(3):
        o.update(0, w, g, state)
    return numbers([w, state])


def correlation() -> Any:
    x, y = nd.ones((1, 1, 2, 2)), nd.ones((1, 1, 2, 2))
    x.attach_grad()
    with autograd.record():
        z = nd.Correlation(x, y, kernel_size=1, max_displacement=0, stride1=1, stride2=1, pad_size=0, is_multiply=False)
    z.backward()
    return numbers(x.grad)[0][0][0]


def ctc_of_nan_padding() -> Any:
    x = onp.zeros((4, 1, 3), "f")
    x[3:] = onp.nan
    d = nd.array(x)
    d.attach_grad()
    with autograd.record():
        loss = nd.CTCLoss(d, nd.array([[1, 2]]), nd.array([3]), nd.array([2]), use_data_lengths=True,
                          use_label_lengths=True)
    loss.backward()
    return numbers(d.grad[3, 0]), bool(onp.isfinite(d.grad.asnumpy()).all())


def third_output() -> Any:
    with autograd.record():
        return numbers(nd.contrib.SyncBatchNorm(nd.arange(6).reshape((2, 1, 3)), nd.ones(1), nd.zeros(1), nd.zeros(1),
                                                nd.ones(1), output_mean_var=True,
                                                key="k")[2])


def twice_from_numpy() -> Any:
    a = onp.ones((2,), "f")
    first, second = nd.from_numpy(a), nd.from_numpy(a)
    second[0] = 7
    return a.tolist(), numbers(first)


def seeded() -> Any:
    npx.random.seed(seed=3)
    first = np.random.uniform(size=(3,))
    npx.random.seed(seed=3)
    return bool((first == np.random.uniform(size=(3,))).all())


OPERATORS: dict[str, tuple[Callable[[], Any], Any]] = {
    "box_nms background -1": (lambda: kept(-1), [-2, 0, 1, -1]),
    "box_nms background -2": (lambda: kept(-2), [-1, 0, 1, -1]),
    "box_nms background 0": (lambda: kept(0), [-2, -1, 1, -1]),
    "rint halves down": (lambda: numbers(nd.rint(nd.array([.5, 1.5, -.5, -1.5, 2.5, .3, -.7]))),
                         [0., 1., -1., -2., 2., 0., -1.]),
    "np.rint, NumPy's": (lambda: numbers(np.rint(np.array([1.5, -1.5]))), [2., -2.]),
    "unravel_index beyond the shape": (lambda: numbers(nd.unravel_index(nd.array([7]), shape=(2, 3))), [[2.], [1.]]),
    "diag at its limit": (lambda: nd.diag(nd.ones((2, 3)), k=3).shape, (0,)),
    "Correlation's gradient of equal numbers": (correlation, [1., 1.]),
    "CTC, NaN in padding": (ctc_of_nan_padding, ([0., 0., 0.], True)),
    "SyncBatchNorm's variance": (third_output, [2.9167]),
    "np.var of one, ddof 1": (lambda: bool(onp.isnan(np.ones((1,)).var(ddof=1).asnumpy())), True),
    "bool of an empty array": (lambda: bool(nd.array([])), False),
    "from_numpy twice": (twice_from_numpy, ([7., 1.], [7., 1.])),
    "npx.random.seed by name": (seeded, True),
    "multinomial's dtype as a type": (lambda: nd.random.multinomial(nd.array([[.5, .5]]), shape=2,
                                                                    dtype=onp.int32).dtype, onp.int32),
    "sample_multinomial's dtype as a type": (lambda: nd.sample_multinomial(nd.array([[.5, .5]]), shape=2, dtype=onp.int64).dtype, onp.int64),  # noqa: E501
    "Signum": (lambda: signum(momentum=.9, clip_gradient=.4, wd=.5), [[.7, -1.7, 0.], [-.2294, .3107, -.1346]]),
    "Perplexity, labels out of range": (lambda: metric_of(mx.metric.Perplexity(None), [2., -3, 1], PREDICTED), 1.90786),
    "Perplexity, ignored": (lambda: metric_of(mx.metric.Perplexity(0), [2., 0, 1], PREDICTED), 1.44338),
    "cross entropy, a label from the end": (lambda: metric_of(mx.metric.CrossEntropy(), [-1.], PREDICTED[:1]), 0.22314),
    "NDArrayIter, more labels than samples": (lambda: [numbers(b.label[0])
                                                       for b in io.NDArrayIter(onp.zeros((4, 2)), onp.arange(8),
        batch_size=2)],
                                              [[0., 1.], [2., 3.]]),
    "a loss broadcast by its weights": (lambda: gluon.loss.SoftmaxCELoss(sparse_label=False)(*[nd.ones((2, 5, 20))] * 3).shape, (2,)),  # noqa: E501
    "weights of more axes": (lambda: gluon.loss.SoftmaxCELoss()(nd.ones((2, 24, 7)), nd.ones((2, 24)),
                                                                nd.ones((2, 1, 1, 24))).shape, (2,)),
    "Dense(0)": (lambda: repr(gluon.nn.Dense(0)), "Dense(None -> 0, linear)"),
    "_deferred_init": (lambda: gluon.Parameter("w", shape=(2,))._deferred_init, ()),
    "prelu's start": (lambda: sym.LeakyReLU(var("d"), gamma=var("g"), act_type="prelu", name="p").attr_dict()["g"],
                      {"__init__": '["Constant", {"value": 0.25}]'}),
    "a start that is given": (lambda: sym.LeakyReLU(var("d"), gamma=var("g", init="zeros"),
                                                    act_type="prelu").attr_dict()["g"], {"__init__": "zeros"}),
    "BatchNorm's own variable": (lambda: sym.BatchNorm(var("d"), moving_var=var("v")).attr_dict()["v"],
                                 {"__init__": '["one", {}]'}),
    "arguments of an operator": (lambda: mx.operator.get_operator_arguments("Convolution").names,
                                 "data weight bias kernel stride dilate pad num_filter num_group workspace no_bias "
                                 "cudnn_tune cudnn_off layout".split()),
    "arguments of Activation": (lambda: tuple(mx.operator.get_operator_arguments("Activation")),
                                (2, ["data", "act_type"], ["NDArray-or-Symbol", "{'relu', 'sigmoid', 'softrelu', "
                                                           "'softsign', 'tanh'}, required"])),
    "a default of words": (lambda: mx.operator.get_operator_arguments("CTCLoss").types[-1],
                           "{'first', 'last'},optional, default='first'"),
    "arguments of Custom": (lambda: tuple(mx.operator.get_operator_arguments("Custom")),
                            (2, ["data", "op_type"], ["NDArray-or-Symbol[]", "string"])),
    "arguments of add_n": (lambda: tuple(mx.operator.get_operator_arguments("add_n")),
                           (1, ["args"], ["NDArray-or-Symbol[]"])),
    "arguments of Concat": (lambda: mx.operator.get_operator_arguments("Concat")[1:],
                            (["data", "num_args", "dim"], ["NDArray-or-Symbol[]", "int, required",
                                                           "int, optional, default=1"])),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_answers(name: str) -> None:
    call, expected = OPERATORS[name]
    assert call() == expected


FLOAT, HALF, INT = onp.float32, onp.float16, onp.int32
fc = sym.FullyConnected
INFERRED: dict[str, tuple[Callable[[], Any], Any]] = {
    "a cast tells the type behind it": (lambda: fc(sym.Cast(var("d"), dtype="float16"), num_hidden=3,
                                                   name="f").infer_type_partial()[:2],
                                        ([None, HALF, HALF], [HALF])),
    "all of it, not everything known": (lambda: fc(sym.Cast(var("d"), dtype="float16"), num_hidden=3).infer_type(),
                                        (None, None, None)),
    "the other operand's integers": (lambda: (var("a") + var("b")).infer_type_partial(b="int32")[:2],
                                     ([INT, INT], [INT])),
    "a constant's type": (lambda: (var("a") + sym.zeros((2,), dtype="float16")).infer_type()[:2], ([HALF], [HALF])),
    "before a cast": (lambda: sym.Cast(var("a") + var("b"), dtype="int32").infer_type_partial()[:2],
                      ([None, None], [INT])),
    "statistics of halves": (lambda: sym.BatchNorm(sym.Cast(var("a"), dtype="float16")).infer_type_partial(),
                             ([None, FLOAT, FLOAT], [HALF], [FLOAT, FLOAT])),
    "joined arrays": (lambda: sym.concat(var("a"), var("b"), dim=1).infer_shape_partial(a=(2, 0, 4), b=(0, 3, 0))[0],
                      [(2, 0, 4), (2, 3, 4)]),
    "back through transpose": (lambda: (sym.transpose(var("a"),
                                                      axes=(1, 0, 2)) + sym.ones((2, 3, 4))).infer_shape()[0],
                                                      [(3, 2, 4)]),
    "back through expand_dims": (lambda: (sym.expand_dims(var("a"), axis=1) + sym.ones((2, 1, 3))).infer_shape()[0],
                                 [(2, 3)]),
    "not back through flatten": (lambda: (sym.Flatten(var("a")) + sym.ones((2, 3))).infer_shape_partial()[0], [()]),
    "back through reshape": (lambda: (sym.reshape(var("x"),
                                                  shape=(0, -1)) + sym.ones((2, 75))).infer_shape(x=(0, 3, 5, 5))[0],
                                                  [(2, 3, 5, 5)]),
    "UpSampling's weight": (lambda: sym.UpSampling(var("d"), sample_type="bilinear", scale=3, num_filter=3, num_args=2,
                                                   name="u").infer_shape(d=(1, 3, 4, 4))[0],
                            [(1, 3, 4, 4), (3, 1, 5, 5)]),
    "UpSampling's start": (lambda: sym.UpSampling(var("d"), sample_type="bilinear", scale=3, num_args=2,
                                                  name="u").attr_dict()["u_weight"]["__init__"],
                           '["bilinear", {}]'),
    "det of a Symbol": (lambda: sym.np.linalg.det(var("a").as_np_ndarray()).list_arguments(), ["a"]),
    "slogdet of a Symbol": (lambda: sym.np.linalg.slogdet(var("a").as_np_ndarray())[1].list_arguments(), ["a"]),
    "np.linalg.norm's output": (lambda: sym.np.linalg.norm(var("a").as_np_ndarray(), ).list_outputs()[0].split("_")[1],
                                "output0"),
}


@pytest.mark.parametrize("name", INFERRED)
def test_inference(name: str) -> None:
    call, expected = INFERRED[name]
    assert call() == expected


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("code", [lambda F, x, w: F.np.dot(x, w), lambda F, x, w: F.np.matmul(x, w)])
def test_a_block_under_numpys_rules_has_np_arrays_whose_lengths_are_found_out(code: Any, hybridized: bool) -> None:
    @mx.util.use_np
    class Layer(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.w = self.params.get("w", shape=(-1, 4), allow_deferred_init=True)

        def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:  # noqa: N803
            return code(F, x, w)
    layer = Layer()
    layer.initialize()
    if hybridized:
        layer.hybridize()
    assert layer(np.ones((2, 3))).shape == (2, 4)
    assert layer.w.shape == (3, 4) and type(layer.w.data()) is np.ndarray


REFUSED: dict[str, Callable[[], Any]] = {
    "where, rows": lambda: nd.where(nd.array([1, 0]), nd.ones((3, 2)), nd.ones((3, 2))),
    "where, broadcast condition": lambda: nd.where(nd.ones((3, 1)), nd.ones((3, 2)), nd.ones((3, 2))),
    "tile 0": lambda: nd.tile(nd.ones((2, 3)), reps=(0, 2)),
    "diag": lambda: nd.diag(nd.ones((2, 3)), k=5),
    "moveaxis": lambda: nd.moveaxis(nd.ones((2, 3, 4)), [0, 1], [1, 1]),
    "squeeze": lambda: nd.squeeze(nd.ones((1, 1, 3)), axis=(0, 0)),
    "split_v2": lambda: nd.split_v2(nd.ones((4, 3)), (3, 2), axis=0),
    "slice_like": lambda: nd.slice_like(nd.ones((4, 3)), nd.ones((2,))),
    "add_n": lambda: nd.add_n(nd.ones((2, 3)), nd.ones((1, 3))),
    "batch_dot": lambda: nd.batch_dot(nd.ones((2, 3, 4)), nd.ones((1, 4, 2))),
    "pooling of padding alone": lambda: nd.Pooling(nd.ones((1, 3, 4, 4)), kernel=(2, 2), pool_type="max", pad=(2, 2)),
    "lp pooling": lambda: nd.Pooling(nd.ones((1, 3, 4, 4)), kernel=(2, 2), pool_type="lp", p_value=0),
    "arange repeat": lambda: nd.arange(0, 1, repeat=0),
    "extractdiag": lambda: nd.linalg.extractdiag(nd.ones((2, 3))),
    "bernoulli": lambda: npx.random.bernoulli(3.0, None),
    "bernoulli of arrays": lambda: npx.random.bernoulli(np.array([.5, 1.1])),
    "gamma": lambda: np.random.gamma(np.array([-1.])),
    "gamma's scale": lambda: np.random.gamma(np.array([1.]), np.array([-1.])),
    "normal": lambda: np.random.normal(np.array([0.]), np.array([-1.])),
    "weibull": lambda: np.random.weibull(np.array([-1.])),
    "logistic": lambda: np.random.logistic(np.array([0.]), np.array([-1.])),
    "a weight that would square the batch": lambda: gluon.loss.L2Loss()(nd.ones((2, 3)), nd.ones((2, 3)),
                                                                        nd.ones((2,))),
    "Dense(0) called": lambda: nd.FullyConnected(nd.ones((1, 2)), nd.ones((3, 2)), num_hidden=0, no_bias=True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises((mx.HybridError, ValueError)):
        REFUSED[name]()


def test_what_numpy_takes_is_taken_by_np() -> None:
    assert np.where(np.ones((3, 1)), np.ones((3, 2)), np.zeros((1, 2))).shape == (3, 2)
    assert np.tile(np.ones((2,)), (0, 2)).shape == (0, 4) and np.diag(np.ones((2, 3)), k=5).shape == (0,)
