"""Layers of transformers against plain NumPy, eagerly and hybridized; a cache against the whole sequence."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base.errors import AttributeValueError
from hybrid.gluon import nn

BATCH, LENGTH, UNITS, HEADS = 2, 6, 8, 2


def inputs(*shape: int, seed: int = 0) -> Any:
    return nd.array(np.random.RandomState(seed).randn(*(shape or (BATCH, LENGTH, UNITS))))


def made(layer: Any, hybridized: bool = False) -> Any:
    mx.random.seed(4)
    layer.initialize(mx.init.Uniform(0.7))
    if hybridized:
        layer.hybridize()
    return layer


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def turned(x: np.ndarray, offset: int = 0) -> np.ndarray:
    """Rotary positions of (batch, heads, length, depth) by complex numbers."""
    half = x.shape[-1] // 2
    angle = (np.arange(x.shape[2]) + offset)[:, None] * 10000.0 ** (-np.arange(half) * 2 / x.shape[-1])
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
    return np.concatenate([z.real, z.imag], -1)


def attention(layer: Any, x: np.ndarray, y: np.ndarray, seen: np.ndarray, rotary: bool = False) -> np.ndarray:
    """Attention head by head. seen: (batch or 1, m, n)."""
    def split(z: np.ndarray, proj: Any) -> np.ndarray:
        out = z @ proj.weight.data().asnumpy().T.astype("float64") + proj.bias.data().asnumpy()
        return out.reshape(*out.shape[:2], -1, UNITS // HEADS).transpose(0, 2, 1, 3)
    q, k, v = split(x, layer.query_proj), split(y, layer.key_proj), split(y, layer.value_proj)
    if rotary:
        q, k = turned(q), turned(k)
    k, v = (np.repeat(z, HEADS // z.shape[1], axis=1) for z in (k, v))
    logits = q @ k.transpose(0, 1, 3, 2) / math.sqrt(UNITS // HEADS)
    out = softmax(np.where(seen[:, None] > 0, logits, -1e30)) @ v
    out = out.transpose(0, 2, 1, 3).reshape(*x.shape[:2], UNITS)
    return out @ layer.out_proj.weight.data().asnumpy().T + layer.out_proj.bias.data().asnumpy()


CAUSAL = np.tril(np.ones((LENGTH, LENGTH)))[None]
KINDS: dict[str, dict[str, Any]] = {"plain": {}, "causal": {"causal": True}, "shared keys": {"num_kv_heads": 1},
                                    "rotary": {"rotary": True, "causal": True}}


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_attention(kind: str, hybridized: bool) -> None:
    layer, x = made(nn.MultiHeadAttention(UNITS, HEADS, **KINDS[kind]), hybridized), inputs()
    seen = CAUSAL if "causal" in KINDS[kind] else np.ones((1, LENGTH, LENGTH))
    want = attention(layer, x.asnumpy(), x.asnumpy(), seen, kind == "rotary") if layer(x) is not None else None
    np.testing.assert_allclose(layer(x).asnumpy(), want, rtol=1e-4, atol=1e-5)
    assert ("attention" in str(layer.report())) or not hybridized


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("lead", [(), (BATCH,)])
def test_attention_to_others_with_a_mask(lead: tuple[int, ...], hybridized: bool) -> None:
    layer, x, y = made(nn.MultiHeadAttention(UNITS, HEADS), hybridized), inputs(), inputs(BATCH, 4, UNITS, seed=1)
    mask = (np.random.RandomState(3).rand(*lead, LENGTH, 4) < 0.6).astype("float32")
    mask[..., 0] = 1
    got = layer(x, y, y, nd.array(mask))
    want = attention(layer, x.asnumpy(), y.asnumpy(), mask.reshape(-1, LENGTH, 4))
    np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", [(1,) * LENGTH, (4, 2), (LENGTH,)])
def test_a_cache_gives_what_the_whole_sequence_does(steps: tuple[int, ...]) -> None:
    encoder = made(nn.TransformerEncoder(2, UNITS, 12, HEADS, pre_norm=True, norm="rms", activation="swiglu",
                                         causal=True,
                                         rotary=True, num_kv_heads=1), hybridized=True)
    x = inputs()
    want, cache, outs, at = encoder(x), encoder.empty_cache(BATCH, 9), [], 0
    for n in steps:
        out, cache = encoder(x[:, at:at + n], None, cache)
        outs.append(out)
        at += n
    np.testing.assert_allclose(nd.concat(*outs, dim=1).asnumpy(), want.asnumpy(), rtol=1e-4, atol=1e-5)
    assert cache[0][2].asscalar() == LENGTH


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_decoder_is_its_layers(pre_norm: bool, hybridized: bool) -> None:
    decoder = made(nn.TransformerDecoder(2, UNITS, 12, HEADS, pre_norm=pre_norm), hybridized)
    x, memory = inputs(), inputs(BATCH, 4, UNITS, seed=1)
    got, want = decoder(x, memory).asnumpy(), x
    for layer in decoder.layers:
        want = layer(want, memory)
    want = decoder.last_norm(want) if pre_norm else want
    np.testing.assert_allclose(got, want.asnumpy(), rtol=1e-4, atol=1e-5)
    outs, cache = [], decoder.empty_cache(BATCH, LENGTH)
    for at in range(LENGTH):
        out, cache = decoder(x[:, at:at + 1], memory, None, None, cache)
        outs.append(out)
    np.testing.assert_allclose(nd.concat(*outs, dim=1).asnumpy(), got, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_encoder_layer(pre_norm: bool, hybridized: bool) -> None:
    layer, x = made(nn.TransformerEncoderLayer(UNITS, 16, HEADS, activation="gelu", pre_norm=pre_norm),
                    hybridized), inputs()
    got, seen = layer(x).asnumpy(), np.ones((1, LENGTH, LENGTH))

    def normal(z: np.ndarray) -> np.ndarray:
        return (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)

    def feed(z: np.ndarray) -> np.ndarray:
        first, second = layer.feed.body[0], layer.feed.body[2]
        h = z @ first.weight.data().asnumpy().T + first.bias.data().asnumpy()
        h = h * 0.5 * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
        return h @ second.weight.data().asnumpy().T + second.bias.data().asnumpy()
    z = x.asnumpy().astype("float64")
    if pre_norm:
        z = z + attention(layer.attention, normal(z), normal(z), seen)
        want = z + feed(normal(z))
    else:
        z = normal(z + attention(layer.attention, z, z, seen))
        want = normal(z + feed(z))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("hybridized", [False, True])
def test_positions_and_norms(hybridized: bool) -> None:
    x = inputs(BATCH, HEADS, LENGTH, UNITS)
    np.testing.assert_allclose(made(nn.RotaryPositions(UNITS), hybridized)(x).asnumpy(), turned(x.asnumpy()), rtol=1e-4,
                               atol=1e-5)
    np.testing.assert_allclose(made(nn.RotaryPositions(UNITS), hybridized)(x, nd.array([7])).asnumpy(),
                               turned(x.asnumpy(), 7), rtol=1e-4, atol=1e-5)
    y = inputs()
    angle = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(UNITS // 2) * 2 / UNITS)
    np.testing.assert_allclose(made(nn.SinusoidalPositions(UNITS), hybridized)(y).asnumpy(),
                               y.asnumpy() + np.concatenate([np.sin(angle), np.cos(angle)], 1), rtol=1e-4, atol=1e-5)
    wide = y.asnumpy().astype("float64")
    np.testing.assert_allclose(made(nn.RMSNorm(), hybridized)(y).asnumpy(),
                               wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6), rtol=1e-4, atol=1e-5)


def test_a_decoder_learns() -> None:
    """Gradients of all parts, in one compiled step."""
    layer = made(nn.TransformerDecoderLayer(UNITS, 16, HEADS, pre_norm=True), hybridized=True)
    trainer = gluon.Trainer(layer.collect_params(), "adam", {"learning_rate": 0.01})
    x, memory, target = inputs(), inputs(BATCH, 3, UNITS, seed=1), inputs(seed=2)
    layer(x, memory)
    losses = []
    for _ in range(40):
        with autograd.record():
            loss = ((layer(x, memory) - target) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    assert losses[-1] < 0.7 * losses[0]
    assert all(float(p.grad().abs().sum().asscalar()) > 0 for n, p in layer.collect_params().items()
               if not n.endswith("key_bias"))                  # which moves all logits of a query alike


@pytest.mark.parametrize("call, text", [
    (lambda: nn.MultiHeadAttention(8, 3), "units=8 must be a multiple of num_heads=3"),
    (lambda: nn.MultiHeadAttention(8, 4, 3), "num_heads=4 must be a multiple of num_kv_heads=3"),
    (lambda: nn.RotaryPositions(5), "depth=5 must be even"),
    (lambda: nn.TransformerEncoderLayer(8, 8, 2, norm="batch"), "use 'layer' or 'rms'"),
])
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(AttributeValueError, match=text):
        call()
