"""SSD's operators, deformable convolutions and masks: what MXNet 1.9.1 gave, eagerly and hybridized; by loops where it
has no CPU code."""
from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd, np as mnp, sym
from hybrid.base.errors import ShapeError, TraceError

from ..packed_arrays import load
from ..paths import DATA

TABLE = [row for row in json.loads((DATA / "detection.json").read_text()) if row]
ARRAYS = load(DATA / "detection.npz")
IDS = [f"{k}-{row['op'].rsplit('.', 1)[-1]}" for k, row in enumerate(TABLE)]
EAGER_ONLY = {"contrib.boolean_mask"}


def check(number, wrap):
    row = TABLE[number]
    attrs = {k: tuple(v) if isinstance(v, list) else v for k, v in row["attrs"].items()}
    call = wrap(lambda *xs: getattr(nd.contrib, row["op"].split(".")[1])(*xs, **attrs))
    xs = [nd.array(ARRAYS[f"{number}.in{k}"], dtype=ARRAYS[f"{number}.in{k}"].dtype) for k in range(row["inputs"])]
    for k in row["grads"]:
        xs[k].attach_grad()
    with autograd.record() if row["grads"] else autograd.pause():
        ys = call(*xs)
    ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    assert len(ys) == row["outputs"]
    tol = row.get("tol", 2e-5)
    for k, y in enumerate(ys):
        want = ARRAYS[f"{number}.out{k}"]
        assert y.shape == want.shape and y.dtype == want.dtype
        np.testing.assert_allclose(y.asnumpy(), want, rtol=tol, atol=tol)
    if row["grads"]:
        autograd.backward(ys, [nd.array(ARRAYS[f"{number}.head{k}"], dtype=y.dtype) for k, y in enumerate(ys)])
        for k in row["grads"]:
            np.testing.assert_allclose(xs[k].grad.asnumpy(), ARRAYS[f"{number}.grad{k}"], rtol=tol, atol=tol,
                                       err_msg=f"gradient {k}")


@pytest.mark.parametrize("number", range(len(TABLE)), ids=IDS)
def test_eager(number):
    check(number, lambda f: f)


@pytest.mark.parametrize("number", [k for k, row in enumerate(TABLE) if row["op"] not in EAGER_ONLY],
                         ids=[n for n, row in zip(IDS, TABLE) if row["op"] not in EAGER_ONLY])
def test_hybridized(number):
    check(number, mx.hybridize)


def modulated(x, offset, mask, weight, pad, parts):
    """By the formula, one number at a time."""
    n, c, h, w = x.shape
    filters, _, kh, kw = weight.shape
    oh, ow = offset.shape[2:]
    out = np.zeros((n, filters, oh, ow))

    def pixel(b, ch, i, j):
        return x[b, ch, i, j] if 0 <= i < h and 0 <= j < w else 0.0
    for b, ch, i, j, p, q in itertools.product(range(n), range(c), range(oh), range(ow), range(kh), range(kw)):
        tap = (ch // (c // parts)) * kh * kw + p * kw + q
        y, z = i - pad + p + offset[b, 2 * tap, i, j], j - pad + q + offset[b, 2 * tap + 1, i, j]
        y0, z0 = int(np.floor(y)), int(np.floor(z))
        value = sum(pixel(b, ch, y0 + dy, z0 + dz) * (1 - abs(y - y0 - dy)) * (1 - abs(z - z0 - dz)) for dy in (0, 1)
                    for dz in (0, 1))
        out[b, :, i, j] += weight[:, ch, p, q] * value * mask[b, tap, i, j]
    return out


def test_modulated_deformable_convolution():
    r = np.random.RandomState(3)
    x, weight = r.uniform(-1, 1, (2, 4, 5, 4)).astype("float32"), r.uniform(-1, 1, (3, 4, 3, 3)).astype("float32")
    offset, mask = r.uniform(-1.5, 1.5, (2, 36, 5,
                                         4)).astype("float32"), r.uniform(0, 1, (2, 18, 5, 4)).astype("float32")
    want = modulated(x, offset, mask, weight, 1, 2)

    def call(*arrays):
        return nd.contrib.ModulatedDeformableConvolution(*arrays, kernel=(3, 3), pad=(1, 1), num_filter=3,
                                                         num_deformable_group=2, no_bias=True)
    for f in (call, mx.hybridize(call)):
        np.testing.assert_allclose(f(*map(nd.array, (x, offset, mask, weight))).asnumpy(), want, rtol=1e-4, atol=1e-5)
    graph = sym.contrib.ModulatedDeformableConvolution(sym.var("x"), sym.var("o"), sym.var("m"), kernel=(3, 3),
                                                       pad=(1, 1), num_filter=3, num_deformable_group=2, name="d")
    assert graph.list_arguments() == ["x", "o", "m", "d_weight", "d_bias"]
    assert graph.infer_shape(x=x.shape, o=offset.shape, m=mask.shape)[0][3:] == [weight.shape, (3,)]


def test_shapes_that_depend_on_numbers_stay_eager():
    x, mask = nd.array([[1.0, 2.0], [3.0, 4.0]]), nd.array([0.0, 1.0])
    assert nd.contrib.boolean_mask(x, mask, axis=1).asnumpy().tolist() == [[2.0], [4.0]]
    assert nd.contrib.boolean_mask(x, nd.zeros((2,))).shape == (0, 2)
    with pytest.raises(ShapeError, match="needs a mask of 2 numbers"):
        nd.contrib.boolean_mask(x, nd.zeros((3,)))
    for call in (lambda v: nd.contrib.boolean_mask(v, mask), lambda v: mnp.nonzero(v), lambda v: mnp.where(v),
                 lambda v: mnp.unique(v), lambda v: mx.npx.nonzero(v)):
        with pytest.raises(TraceError, match=r"test_detection.py:\d+: the shape of .* depends on the numbers"):
            mx.hybridize(call)(x.as_np_ndarray())
    with pytest.raises(TraceError, match="depends on the numbers"):
        sym.contrib.boolean_mask(sym.var("x"), sym.var("m"))


def test_bad_input():
    x, offset, weight = nd.zeros((1, 4, 5, 5)), nd.zeros((1, 18, 3, 3)), nd.zeros((2, 4, 3, 3))
    for arrays, options, message in (((x, nd.zeros((1, 8, 3, 3)), weight), {}, r"offset must be \(1, 18, 3, 3\)"),
                                     ((x, offset, nd.zeros((2, 3, 3, 3))), {}, "weight must be"),
                                     ((x, offset, weight), {"num_deformable_group": 3}, "must be divided"),
                                     ((nd.zeros((4, 5, 5)), offset, weight), {}, "data .N, C, H, W.")):
        with pytest.raises(ShapeError, match=message):
            nd.contrib.DeformableConvolution(*arrays, kernel=(3, 3), num_filter=2, no_bias=True, **options)
    with pytest.raises(ShapeError, match=r"anchors must be \(1, N, 4\)"):
        nd.contrib.MultiBoxTarget(nd.zeros((3, 4)), nd.zeros((1, 2, 5)), nd.zeros((1, 2, 3)))
    with pytest.raises(ShapeError, match="loc_pred"):
        nd.contrib.MultiBoxDetection(nd.zeros((1, 2, 3)), nd.zeros((1, 8)), nd.zeros((1, 3, 4)))
    with pytest.raises(ShapeError, match="at least one size"):
        nd.contrib.MultiBoxPrior(nd.zeros((1, 3, 2, 2)), sizes=())


@pytest.mark.parametrize("name", ["DeformableConvolution", "ModulatedDeformableConvolution"])
def test_layers(name):
    layer = getattr(mx.gluon.contrib.cnn, name)(4, (3, 3), padding=(1, 1), activation="relu", groups=2,
                                                num_deformable_group=2, prefix="net_")
    assert sorted(layer.collect_params()) == ["net_deformable_conv_bias", "net_deformable_conv_weight",
                                              "net_offset_bias", "net_offset_weight"]
    layer.initialize(mx.init.Xavier())
    x = nd.array(np.random.RandomState(5).uniform(-1, 1, (2, 6, 5, 4)))
    out = layer(x)
    assert layer.deformable_conv_weight.shape == (4, 3, 3,
                                                  3) and layer.offset_weight.shape == ((18 if name[0] == "D"
            else 27) * 2, 3, 3, 3)
    plain = nd.relu(nd.Convolution(x, layer.deformable_conv_weight.data(), layer.deformable_conv_bias.data(),
                                   kernel=(3, 3), pad=(1, 1), num_filter=4, num_group=2))
    # the offsets begin as 0, the factors as 1
    np.testing.assert_allclose(out.asnumpy(), plain.asnumpy(), rtol=1e-4, atol=1e-5)
    layer.offset_bias.set_data(nd.random.uniform(-1, 1, layer.offset_bias.shape))
    moved = layer(x).asnumpy()
    assert np.abs(moved - plain.asnumpy()).max() > 0.01
    layer.hybridize()
    np.testing.assert_allclose(layer(x).asnumpy(), moved, rtol=1e-4, atol=1e-5)
    assert repr(layer).startswith(f"{name}(3 -> 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2")
    with pytest.raises(ValueError, match="layout must be NCHW"):
        getattr(mx.gluon.contrib.cnn, name)(4, layout="NHWC")
