"""Random bits: by NumPy's functions, by the launcher in C, and small draws of a program together."""
import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import philox
from hybrid.ir.evaluate import plan, run
from hybrid.runtime import launcher

KEYS = np.array([[7, 2**32 - 3], [2**31 + 5, 9], [0, 0]], np.uint32)
SHAPES = [(), (0,), (1,), (3, 5), (255,), (256,), (257,), (7, 900), (70001,)]


@pytest.fixture(params=["numpy", "c"])
def way(request, monkeypatch):
    """By NumPy's functions, or in C where the launcher can be built."""
    if request.param == "c" and launcher.load() is None:
        pytest.skip("no launcher")
    monkeypatch.setattr(philox, "IN_C", philox.IN_C[:] if request.param == "c" else [])


def words(key, count, stream):
    """The words of a draw, one by one, as numbers of Python."""
    out = []
    for block in range((count + 3) // 4):
        c, k0, k1 = [block, 0, int(key[1]), stream], int(key[0]), 0x9E3779B9 ^ stream
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [q >> 32 ^ c[1] ^ k0, q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k1, p & 0xFFFFFFFF]
            k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
        out += c
    return out[:count]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("stream", [0, 3, 2**32 - 1])
def test_bits_of_a_draw(way, shape, stream):
    found = philox.random_bits(np, KEYS[0], shape, stream)
    assert found.shape == shape and found.dtype == np.uint32
    some = min(found.size, 1100)
    assert found.reshape(-1)[:some].tolist() == words(KEYS[0], some, stream)
    assert found.reshape(-1)[-5:].tolist() == words(KEYS[0], found.size, stream)[-5:]


def test_small_draws_of_a_program_are_made_together(way):
    """Their bits are those of draws made alone; a large draw, and one whose key was drawn, are made alone."""
    keys = ir.input(0, (3, 2), np.dtype("uint32"))
    x = ir.input(1, (2,), np.dtype("uint32"))
    key = [ir.reshape(ir.slice(keys, (i, 0), (1, 2)), (2,)) for i in range(3)]
    draws = [ir.random_bits(key[0], (5,), 1), ir.random_bits(key[2], (3, 3), 0), ir.random_bits(key[1], (5000,), 2),
             ir.random_bits(key[1], (), 2), ir.random_bits(x + 1, (4,), 0), ir.random_bits(key[0], (0, 3), 4),
             ir.random_bits(ir.cast(ir.slice(ir.random_bits(x, (20,), 0), (18,), (2,)), np.dtype("uint32")), (2,), 0)]
    program = ir.Program((keys, x), tuple(draws))
    given = KEYS[1]
    found, _ = run(program, [KEYS, given], np)
    wanted = [KEYS[0], KEYS[2], KEYS[1], KEYS[1], given + np.uint32(1), KEYS[0],
              np.array(words(given, 20, 0)[18:], np.uint32)]
    for a, n, k in zip(found, draws, wanted):
        assert a.shape == n.shape and a.dtype == np.uint32
        assert a.reshape(-1).tolist() == words(k, n.size, n.attrs["stream"])
    assert sum(isinstance(step.call, philox.Draws) for step in plan(program, np).steps) == 1
