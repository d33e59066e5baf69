"""Products of bfloat16 and of 8-bit integers with any batch size: one program gives what eager code and programs made
for each size give."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import init, nd, random
from hybrid.contrib import quantization
from hybrid.gluon import nn
from hybrid.runtime import toolchain

pytest.importorskip("ml_dtypes")
needs_words = pytest.mark.skipif(not {"bfloat16", "uint8"} <= toolchain.words(),
                                 reason="the processor or the compiler has no products of bfloat16 and bytes")
SIZES = (64, 63, 1, 2, 15, 16, 17, 64, 100, 33)


def dense() -> list[Any]:
    """Layers whose filters and depth are no multiples of vectors, tiles and words."""
    return [nn.Dense(70, activation="relu"), nn.Dense(33, activation="relu"), nn.Dense(10)]


def images() -> list[Any]:
    """Convolutions by words, with and without a border, and 3x3 ones in Winograd's form where bfloat16 has it."""
    return [nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(), nn.Conv2D(33, 3, padding=1, activation="relu"),
            nn.Conv2D(32, 3, padding=1, activation="relu"), nn.Conv2D(48, 1, strides=2), nn.Flatten(), nn.Dense(10)]


NETS = {"dense": (dense, (129,)), "images": (images, (3, 20, 18))}


def network(name: str, numbers: bool = True) -> tuple[Any, np.ndarray]:
    """A network, and images for its largest batch. numbers: whether weights and data are bfloat16 numbers."""
    make, shape = NETS[name]
    random.seed(0)
    net = nn.HybridSequential()
    net.add(*make())
    net.initialize(init.Xavier())
    x = np.random.default_rng(0).standard_normal((max(SIZES), *shape)).astype("float32")
    net(nd.array(x[:2]))
    if numbers:
        for p in net.collect_params().values():
            p.set_data(p.data().astype("bfloat16").astype("float32"))
    return net, x


def same_at_all_sizes(fast: Any, wanted: Any, x: np.ndarray, near: float) -> None:
    """Whether two networks agree at all sizes, to so much of the greatest result."""
    for n in SIZES:
        want = wanted(nd.array(x[:n])).asnumpy()
        np.testing.assert_allclose(fast(nd.array(x[:n])).asnumpy(), want, rtol=0, atol=near * np.abs(want).max(),
                                   err_msg=str(n))


@needs_words
@pytest.mark.parametrize("name", NETS)
def test_bfloat16_of_any_batch_is_one_program(name: str) -> None:
    """Of the first size, of 1, and for all others; near float32's results, and those of programs of each size, which
    round the same operands."""
    (net, x), (each, _), (exact, _) = network(name), network(name), network(name)
    each.hybridize(precision="bf16", dynamic=False)
    net.hybridize(precision="bf16")
    same_at_all_sizes(net, exact, x, 2e-2)
    assert len(net.programs) == 3 and "words" in str(net.report()), [str(p) for p in net.programs]
    for n in (17, 64):                           # a rounding that falls the other way is 2 ** -9 of an operand
        got, want = net(nd.array(x[:n])).asnumpy(), each(nd.array(x[:n])).asnumpy()
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-3 * np.abs(want).max())


@needs_words
def test_operands_are_rounded_at_all_sizes() -> None:
    """Of one layer: its results are those of rounded operands, to float32's rounding, and not those of exact ones."""
    random.seed(0)
    net = nn.Dense(33, in_units=130)
    net.initialize(init.Normal(0.1))
    x = np.random.default_rng(0).standard_normal((100, 130)).astype("float32")
    w, exact = (nd.array(a).astype("bfloat16").astype("float32").asnumpy() for a in (net.weight.data().asnumpy(), x))
    net.hybridize(precision="bf16")
    for n in (64, 63, 2, 15, 16, 17, 100):
        y = net(nd.array(x[:n])).asnumpy()
        np.testing.assert_allclose(y, exact[:n] @ w.T, rtol=0, atol=1e-5, err_msg=str(n))
        assert np.abs(y - x[:n] @ net.weight.data().asnumpy().T).max() > 1e-4, n
    assert len(net.programs) == 2, [str(p) for p in net.programs]


@needs_words
@pytest.mark.parametrize("name, dtype", [("dense", "int8"), ("images", "auto")])
def test_bytes_of_any_batch_are_one_program(name: str, dtype: str) -> None:
    """Sums of bytes are exact, so eager results are the same but for the rounding of scales."""
    net, x = network(name)
    net.hybridize()
    net(nd.array(x))
    fast, wanted = (quantization.quantize_net(net, dtype, calib_data=[nd.array(x)], calib_mode="naive")
                    for _ in range(2))
    fast.hybridize()
    same_at_all_sizes(fast, wanted, x, 2e-3)
    assert len(fast.programs) == 3 and "words of 4" in str(fast.report()), [str(p) for p in fast.programs]
    assert not getattr(wanted, "programs", ())
