"""What makes or takes arrays outside of operators, for arrays on another GPU than CuPy's current one: results lie where
the arrays do, and are those of the CPU.

Over the stand-in for CuPy, whose two GPUs cannot read each other's memory. Operators: test_cuda_cupy.py."""
from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, image, init, metric, nd, test_utils
from hybrid.contrib import amp
from hybrid.gluon import nn, rnn
from hybrid.gluon.data.vision import transforms
from hybrid.numpy import array_api

from . import fake_cupy
from .test_cuda_cupy import stand_in  # noqa: F401  a fixture

Case = Callable[[mx.Context], Any]
PIXELS = np.random.default_rng(0).integers(0, 256, (12, 14, 3)).astype(np.uint8)
ROWS = np.random.default_rng(1).random((6, 5), dtype=np.float32) + 0.1


def pixels(ctx: mx.Context) -> Any:
    return nd.array(PIXELS, ctx=ctx, dtype="uint8")


def bright(ctx: mx.Context) -> Any:
    return nd.array(PIXELS / 255, ctx=ctx, dtype="float32")


def rows(ctx: mx.Context) -> Any:
    return nd.array(ROWS, ctx=ctx)


def drawn(space: Any, name: str, *args: Any, **options: Any) -> Case:
    return lambda ctx: getattr(space, name)(*args, **options, ctx=ctx)


ND_RANDOM = {"bernoulli": drawn(nd.random, "bernoulli", 0.4, shape=(3, 4)),
             "exponential": drawn(nd.random, "exponential", 2.0, shape=(3, 4)),
             "gamma": drawn(nd.random, "gamma", 2.0, 0.5, shape=(3, 4)),
             "generalized_negative_binomial": drawn(nd.random, "generalized_negative_binomial", 2.0, 0.5, shape=(5,)),
             "negative_binomial": drawn(nd.random, "negative_binomial", 3, 0.5, shape=(5,)),
             "normal": drawn(nd.random, "normal", 1.0, 2.0, shape=(3, 4)),
             "poisson": drawn(nd.random, "poisson", 4.0, shape=(5,)),
             "randint": drawn(nd.random, "randint", 0, 9, shape=(3, 4)),
             "randn": drawn(nd.random, "randn", 3, 4),
             "uniform": drawn(nd.random, "uniform", -1, 1, shape=(3, 4))}
OF_ARRAYS: dict[str, Case] = {
    "multinomial": lambda ctx: nd.random.multinomial(nd.softmax(rows(ctx)), shape=3),
    "shuffle": lambda ctx: nd.random.shuffle(rows(ctx)),
    "normal of arrays": lambda ctx: nd.random.normal(rows(ctx), rows(ctx)),
    "uniform_like": lambda ctx: nd.random.uniform_like(rows(ctx)) if hasattr(nd.random, "uniform_like") else None}
NP_RANDOM = {name: drawn(mx.np.random, name, *args, size=(3, 4)) for name, args in {
    "beta": (2.0, 3.0), "chisquare": (3.0,), "exponential": (2.0,), "f": (3.0, 4.0), "gamma": (2.0, 1.0),
    "gumbel": (), "laplace": (), "logistic": (), "lognormal": (), "normal": (1.0, 2.0), "pareto": (3.0,),
    "power": (2.0,), "rayleigh": (1.0,), "uniform": (-1.0, 1.0), "weibull": (2.0,)}.items()}

IMAGE: dict[str, Case] = {
    "BrightnessJitterAug": lambda ctx: image.BrightnessJitterAug(0.5)(pixels(ctx)),
    "CastAug": lambda ctx: image.CastAug()(pixels(ctx)),
    "CenterCropAug": lambda ctx: image.CenterCropAug((5, 6))(pixels(ctx)),
    "ColorJitterAug": lambda ctx: image.ColorJitterAug(0.3, 0.3, 0.3)(pixels(ctx)),
    "ColorNormalizeAug": lambda ctx: image.ColorNormalizeAug(np.ones(3), np.full(3, 2.0))(pixels(ctx)),
    "ContrastJitterAug": lambda ctx: image.ContrastJitterAug(0.5)(pixels(ctx)),
    "CreateAugmenter": lambda ctx: image.SequentialAug(image.CreateAugmenter(
        (3, 6, 6), rand_crop=True, rand_resize=True, rand_mirror=True, mean=True, std=True, brightness=0.1,
        contrast=0.1, saturation=0.1, hue=0.1, pca_noise=0.1, rand_gray=0.5))(pixels(ctx)),
    "ForceResizeAug": lambda ctx: image.ForceResizeAug((5, 6))(pixels(ctx)),
    "HorizontalFlipAug": lambda ctx: image.HorizontalFlipAug(1.0)(pixels(ctx)),
    "HueJitterAug": lambda ctx: image.HueJitterAug(0.5)(pixels(ctx)),
    "LightingAug": lambda ctx: image.LightingAug(0.5, np.ones(3), np.eye(3))(pixels(ctx)),
    "RandomCropAug": lambda ctx: image.RandomCropAug((5, 6))(pixels(ctx)),
    "RandomGrayAug": lambda ctx: image.RandomGrayAug(1.0)(pixels(ctx)),
    "RandomOrderAug": lambda ctx: image.RandomOrderAug([image.CastAug(), image.HueJitterAug(0.2)])(pixels(ctx)),
    "RandomSizedCropAug": lambda ctx: image.RandomSizedCropAug((5, 6), 0.2, (0.8, 1.2))(pixels(ctx)),
    "ResizeAug": lambda ctx: image.ResizeAug(7)(pixels(ctx)),
    "SaturationJitterAug": lambda ctx: image.SaturationJitterAug(0.5)(pixels(ctx)),
    "SequentialAug": lambda ctx: image.SequentialAug([image.ResizeAug(7), image.CastAug()])(pixels(ctx)),
    "center_crop": lambda ctx: image.center_crop(pixels(ctx), (5, 6))[0],
    "color_normalize": lambda ctx: image.color_normalize(bright(ctx), nd.ones((3,), ctx=ctx), nd.ones((3,), ctx=ctx)),
    "copyMakeBorder": lambda ctx: image.copyMakeBorder(pixels(ctx), 1, 2, 3, 4, 0, values=(1, 2, 3)),
    "fixed_crop": lambda ctx: image.fixed_crop(pixels(ctx), 1, 2, 5, 6, (4, 4)),
    "imresize": lambda ctx: image.imresize(pixels(ctx), 7, 5, 2, out=nd.zeros((5, 7, 3), ctx=ctx, dtype="uint8")),
    "imrotate": lambda ctx: image.imrotate(bright(ctx).transpose((2, 0, 1)), 30),
    "random_crop": lambda ctx: image.random_crop(pixels(ctx), (5, 6))[0],
    "random_rotate": lambda ctx: image.random_rotate(bright(ctx).transpose((2, 0, 1)), (10, 40)),
    "random_size_crop": lambda ctx: image.random_size_crop(pixels(ctx), (5, 6), 0.2, (0.8, 1.2))[0],
    "resize_short": lambda ctx: image.resize_short(pixels(ctx), 7),
    "DetHorizontalFlipAug": lambda ctx: image.DetHorizontalFlipAug(1.0)(pixels(ctx), np.array([[0, .1, .2, .3, .4]])),
    "DetRandomPadAug": lambda ctx: image.DetRandomPadAug(area_range=(1.0, 3.0))(pixels(ctx),
                                                                               np.array([[0, .1, .2, .3, .4]])),
    "DetBorrowAug": lambda ctx: image.DetBorrowAug(image.CastAug())(pixels(ctx), np.array([[0, .1, .2, .3, .4]]))}
# they read files, or are made of those above
NO_IMAGE = {"Augmenter", "CreateDetAugmenter", "CreateMultiRandCropAugmenter", "DetAugmenter", "DetRandomCropAug",
            "DetRandomSelectAug", "ImageDetIter", "ImageIter", "imdecode", "imread", "scale_down"}

TRANSFORMS: dict[str, Case] = {
    "CenterCrop": lambda ctx: transforms.CenterCrop(5)(pixels(ctx)),
    "Cast": lambda ctx: transforms.Cast("float32")(pixels(ctx)),
    "Compose": lambda ctx: transforms.Compose([transforms.Resize(7), transforms.ToTensor()])(pixels(ctx)),
    "CropResize": lambda ctx: transforms.CropResize(1, 2, 5, 6, 4)(pixels(ctx)),
    "HybridCompose": lambda ctx: transforms.HybridCompose([transforms.Resize(7), transforms.ToTensor()])(pixels(ctx)),
    "Normalize": lambda ctx: transforms.Normalize((0.1, 0.2, 0.3), 0.5)(transforms.ToTensor()(pixels(ctx))),
    "RandomApply": lambda ctx: transforms.RandomApply(transforms.Resize(7), 1.0)(pixels(ctx)),
    "RandomBrightness": lambda ctx: transforms.RandomBrightness(0.5)(pixels(ctx)),
    "RandomColorJitter": lambda ctx: transforms.RandomColorJitter(0.3, 0.3, 0.3, 0.3)(pixels(ctx)),
    "RandomContrast": lambda ctx: transforms.RandomContrast(0.5)(pixels(ctx)),
    "RandomCrop": lambda ctx: transforms.RandomCrop(5, pad=2, pad_value=9)(pixels(ctx)),
    "RandomFlipLeftRight": lambda ctx: transforms.RandomFlipLeftRight()(pixels(ctx)),
    "RandomFlipTopBottom": lambda ctx: transforms.RandomFlipTopBottom()(pixels(ctx)),
    "RandomGray": lambda ctx: transforms.RandomGray(1.0)(pixels(ctx)),
    "RandomHue": lambda ctx: transforms.RandomHue(0.5)(pixels(ctx)),
    "RandomLighting": lambda ctx: transforms.RandomLighting(0.5)(pixels(ctx)),
    "RandomResizedCrop": lambda ctx: transforms.RandomResizedCrop(5)(pixels(ctx)),
    "RandomRotation": lambda ctx: transforms.RandomRotation((10, 40))(transforms.ToTensor()(pixels(ctx))),
    "RandomSaturation": lambda ctx: transforms.RandomSaturation(0.5)(pixels(ctx)),
    "Resize": lambda ctx: transforms.Resize(7, keep_ratio=True)(pixels(ctx)),
    "Rotate": lambda ctx: transforms.Rotate(30)(transforms.ToTensor()(pixels(ctx))),
    "ToTensor": lambda ctx: transforms.ToTensor()(pixels(ctx))}


def measured(made: Any, two: bool = False) -> Case:
    """A metric's value after one update: of labels 0 and 1, or of numbers."""
    def value(ctx: mx.Context) -> Any:
        chances = nd.softmax(rows(ctx)[:, :2])
        labels, found = (rows(ctx), rows(ctx) + 0.5) if not two else (nd.array([0, 1, 1, 0, 1, 0], ctx=ctx), chances)
        made.reset()
        made.update([labels], [found])
        return made.get()[1]
    return value


METRICS = {name: measured(metric.create(name), True) for name in ("acc", "ce", "f1", "mcc", "nll_loss", "pcc")} | {
    name: measured(metric.create(name)) for name in ("mae", "mse", "rmse", "pearsonr", "loss", "torch", "caffe")} | {
    "TopKAccuracy": measured(metric.TopKAccuracy(2), True), "Perplexity": measured(metric.Perplexity(None), True),
    "CustomMetric": measured(metric.CustomMetric(lambda label, found: float((label - found).sum()))),
    "CompositeEvalMetric": measured(metric.create(["mse", "mae"]))}


def initialized(how: Any, *shape: int, name: str = "weight") -> Case:
    """A parameter's initial values, and those of its gradient."""
    def values(ctx: mx.Context) -> Any:
        p = gluon.Parameter(name, shape=shape or (4, 3, 2, 2))
        p.initialize(how, ctx=ctx)
        return p.data(), p.grad()
    return values


INITS = {"Bilinear": initialized(init.Bilinear()), "Constant": initialized(init.Constant(3)),
         "Constant of an array": initialized(init.Constant(nd.arange(12, ctx=mx.cpu()).reshape(4, 3)), 4, 3),
         "LSTMBias": initialized(init.LSTMBias(), 8), "MSRAPrelu": initialized(init.MSRAPrelu()),
         "Mixed": initialized(init.Mixed([".*"], [init.One()])), "Normal": initialized(init.Normal()),
         "One": initialized(init.One()), "Orthogonal": initialized(init.Orthogonal()),
         "Uniform": initialized(init.Uniform()), "Xavier": initialized(init.Xavier()), "Zero": initialized(init.Zero())}


def trained(make: Callable[[], Any], *shape: int, unroll: int = 0) -> Case:
    """A network's outputs and gradients, eagerly."""
    def values(ctx: mx.Context) -> Any:
        net = make()
        net.initialize(init.Constant(0.1), ctx=ctx)
        x = nd.array(np.random.default_rng(2).random(shape), ctx=ctx, dtype="float32")
        x.attach_grad()
        with autograd.record():
            y = net.unroll(unroll, x, merge_outputs=True)[0] if unroll else net(x)
        y.backward()
        return y, x.grad, [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
    return values


def with_states(make: Callable[[], Any]) -> Case:
    def values(ctx: mx.Context) -> Any:
        net = make()
        net.initialize(init.Constant(0.1), ctx=ctx)
        return net(nd.ones((3, 2, 4), ctx=ctx), net.begin_state(2, ctx=ctx))
    return values


RNNS = {"RNN": trained(lambda: rnn.RNN(3, 2, input_size=4), 5, 2, 4), "LSTM": with_states(lambda: rnn.LSTM(3, 2)),
        "GRU": with_states(lambda: rnn.GRU(3, bidirectional=True)),
        **{cell: trained(lambda cell=cell: getattr(rnn, cell)(3, input_size=4), 2, 5, 4, unroll=5)
           for cell in ("RNNCell", "LSTMCell", "GRUCell")},
        "ZoneoutCell": trained(lambda: rnn.ZoneoutCell(rnn.RNNCell(4, input_size=4), 0.3, 0.3), 2, 5, 4, unroll=5),
        "ResidualCell": trained(lambda: rnn.ResidualCell(rnn.GRUCell(4, input_size=4)), 2, 5, 4, unroll=5),
        "BidirectionalCell": trained(lambda: rnn.BidirectionalCell(rnn.RNNCell(3, input_size=4),
                                                                   rnn.RNNCell(3, input_size=4)), 2, 5, 4, unroll=5)}
BLOCKS = {"Embedding": trained(lambda: nn.Embedding(4, 3), 2, 3), "BatchNorm": trained(nn.BatchNorm, 4, 3),
          "LayerNorm": trained(nn.LayerNorm, 4, 3), "Dropout": trained(lambda: nn.Dropout(0.5), 4, 3),
          "PReLU": trained(nn.PReLU, 4, 3), "Conv2D": trained(lambda: nn.Conv2D(2, 3), 1, 3, 6, 6)}


def lost(ctx: mx.Context, name: str) -> Any:
    """A loss and its gradient."""
    x, y = rows(ctx), rows(ctx)[:, ::-1] * 0.5
    x.attach_grad()
    loss = getattr(gluon.loss, name)()
    labels = nd.array([0, 1, 2, 3, 4, 0], ctx=ctx)
    more = {"CTCLoss": lambda: loss(nd.ones((2, 4, 5), ctx=ctx) * x[0], nd.ones((2, 2), ctx=ctx)),
            "CosineEmbeddingLoss": lambda: loss(x, y, labels), "SDMLLoss": lambda: loss(x, y),
            "SoftmaxCELoss": lambda: loss(x, labels), "SoftmaxCrossEntropyLoss": lambda: loss(x, labels),
            "TripletLoss": lambda: loss(x, y, y * 2)}
    with autograd.record():
        out = more.get(name, lambda: loss(x, y))()
    out.backward()
    return out, x.grad


LOSSES: dict[str, Case] = {name: lambda ctx, name=name: lost(ctx, name) for name in gluon.loss.__all__
                           if name != "Loss"}


def scaled(ctx: mx.Context) -> Any:
    """What the loss scaler says of infinite gradients."""
    p = gluon.Parameter("weight", shape=(3,))
    p.initialize(init.One(), ctx=ctx)
    p.grad()[:] = np.inf
    return float(amp.LossScaler().has_overflow([p]))


def numbers_as_inputs(ctx: mx.Context) -> Any:
    """A compiled function of an array and numbers."""
    f = mx.hybridize(lambda x, a, n: x * a + n)
    return [f(rows(ctx), k / 2, k) for k in range(6)]


def of_the_standard(ctx: mx.Context) -> Any:
    """Creation, operators and brackets of the array API."""
    x = array_api.asarray(ROWS, device=ctx)
    x[0, 1:3] = 2
    x[1] = [1, 2, 3, 4, 5]
    return [array_api.asarray([[1.0, 2.0]], device=ctx), array_api.zeros((2, 3), device=ctx), -x, 2 - x, x[1:, 2],
            array_api.astype(x, array_api.int32), array_api.sum(x ** 2, axis=0)]


def batches(ctx: mx.Context) -> Any:
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(rows(ctx), rows(ctx) * 2), 4)
    return [*loader, [b.data for b in mx.io.NDArrayIter(rows(ctx), batch_size=4, shuffle=True)]]


OTHERS: dict[str, Case] = {
    "nd.array of another dtype": lambda ctx: nd.array(rows(ctx), ctx=ctx, dtype="float16"),
    "nd.array of doubles": lambda ctx: nd.array(ROWS.astype(np.float64), ctx=ctx, dtype="float32"),
    "nd.array of a list": lambda ctx: nd.array([[1, 2], [3, 4]], ctx=ctx),
    "np.array of arrays": lambda ctx: mx.np.array(rows(ctx).as_np_ndarray(), ctx=ctx),
    "zeros, ones, full, arange, eye, linspace": lambda ctx: [
        nd.zeros((2, 3), ctx=ctx), nd.ones((2, 3), ctx=ctx), nd.full((2, 3), 4, ctx=ctx), nd.arange(5, ctx=ctx),
        nd.eye(3, ctx=ctx), nd.linspace(0, 1, 5, ctx=ctx), mx.np.arange(5, ctx=ctx), mx.np.eye(3, ctx=ctx)],
    "batches": batches, "numbers as inputs": numbers_as_inputs, "scaled": scaled,
    "clip_global_norm": lambda ctx: gluon.utils.clip_global_norm([rows(ctx), rows(ctx)], 1.0),
    "split_and_load": lambda ctx: gluon.utils.split_and_load(nd.array(ROWS, ctx=mx.cpu()), [ctx]),
    "rand_ndarray": lambda ctx: test_utils.rand_ndarray((3, 4), ctx=ctx),
    "row_sparse": lambda ctx: nd.sparse.retain(rows(ctx).tostype("row_sparse"), nd.array([1, 3], ctx=ctx)).tostype(
        "default"),
    "csr": lambda ctx: nd.sparse.dot(rows(ctx).tostype("csr"), nd.ones((5, 2), ctx=ctx)),
    "zeros_like of a sparse array": lambda ctx: nd.zeros_like(rows(ctx).tostype("row_sparse")).tostype("default"),
    "the array API": of_the_standard}

TABLES = {"nd.random": ND_RANDOM | OF_ARRAYS, "np.random": NP_RANDOM, "image": IMAGE, "transforms": TRANSFORMS,
          "metric": METRICS, "init": INITS, "rnn": RNNS, "nn": BLOCKS, "loss": LOSSES, "others": OTHERS}


def leaves(found: Any) -> Iterator[Any]:
    """Arrays and numbers of nested lists and tuples."""
    if isinstance(found, (list, tuple)):
        for x in found:
            yield from leaves(x)
    elif found is not None:
        yield found


@pytest.mark.parametrize("table, name", [(t, n) for t, cases in TABLES.items() for n in cases])
def test_results_are_those_of_the_cpu(table: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_cupy.STATE, "devices", 2)
    results = []
    for ctx in (mx.cpu(), mx.gpu(0)):
        mx.random.seed(3)
        np.random.seed(3)
        random.seed(3)
        with fake_cupy.Device(1), ctx:
            results.append([*leaves(TABLES[table][name](ctx))])
            for x in results[-1]:
                if isinstance(x, mx.nd.NDArray) and x.stype == "default":
                    assert x.ctx == ctx
                    assert ctx.device_type == "cpu" or x._data.device.id == ctx.device_id
            results[-1] = [x.asnumpy() if hasattr(x, "asnumpy") else x for x in results[-1]]
    for got, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("space, cases, left", [
    (nd.random, ND_RANDOM, set()), (image, IMAGE, NO_IMAGE), (transforms, TRANSFORMS, set()),
    (init, INITS, {"Initializer", "InitDesc", "FusedRNN", "Load"}), (gluon.loss, LOSSES, {"Loss"})])
def test_all_public_names_are_in_the_table(space: ModuleType, cases: dict[str, Case], left: set[str]) -> None:
    public = getattr(space, "__all__", None) or [n for n in dir(space) if inspect.isclass(getattr(space, n))
                                                 and issubclass(getattr(space, n), init.Initializer)]
    public = [n for n in public if not inspect.ismodule(getattr(space, n))]
    assert set(public) - left <= {name.split(" ")[0] for name in cases}
