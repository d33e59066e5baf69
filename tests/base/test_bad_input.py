"""Bad input to layers, parameters and calls: one clear error each, the same eagerly and hybridized."""
from __future__ import annotations

import os
import subprocess
import sys

import numpy as onp
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn

MODES = pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])

# what, layer, the error
BAD_ARGUMENTS = [
    ("units-1", lambda: nn.Dense(-1), ValueError, "Dense: units must be at least 0, got -1"),
    ("units-text", lambda: nn.Dense("3"), TypeError, "units must be an integer, got '3'"),
    ("units-float", lambda: nn.Dense(3.5), TypeError, "units must be an integer, got 3.5"),
    ("in-units", lambda: nn.Dense(3, in_units=-2), ValueError, "in_units must be at least 0, got -2"),
    ("option", lambda: nn.Dense(3, unit=4), TypeError, "unit"),
    ("channels", lambda: nn.Conv2D("a", 3), TypeError, "Conv2D: channels must be an integer, got 'a'"),
    ("kernel-0", lambda: nn.Conv2D(3, 0), ValueError, "kernel_size must be at least 1, got 0"),
    ("kernel-3d", lambda: nn.Conv2D(3, (3, 3, 3)), ValueError,
     r"kernel_size must be an integer or 2 of them, got \(3, 3, 3\)"),
    ("stride-0", lambda: nn.Conv1D(3, 3, strides=0), ValueError, "Conv1D: strides must be at least 1, got 0"),
    ("padding", lambda: nn.Conv2D(3, 3, padding=-1), ValueError, "padding must be at least 0, got -1"),
    ("padding-same", lambda: nn.Conv2D(3, 3, padding="same"), ValueError,
     "padding must be an integer or 2 of them, got 'same'"),
    ("groups", lambda: nn.Conv2D(3, 3, groups=2), ValueError, "multiples of groups=2"),
    ("layout", lambda: nn.Conv2D(3, 3, layout="foo"), ValueError, "layout must be NCHW or NHWC, got 'foo'"),
    ("pool-layout", lambda: nn.MaxPool1D(layout="NCHW"), ValueError,
     "MaxPool1D: layout must be NCW or NWC, got 'NCHW'"),
    ("pool-size", lambda: nn.MaxPool2D("a"), ValueError, "pool_size must be an integer or 2 of them, got 'a'"),
    ("rate", lambda: nn.Dropout(1.5), ValueError, "rate must be at most 1, got 1.5"),
    ("rate-text", lambda: nn.Dropout("a"), TypeError, "rate must be a number, got 'a'"),
    ("alpha", lambda: nn.LeakyReLU(-1), ValueError, "alpha must be at least 0, got -1"),
    ("embedding", lambda: nn.Embedding(0, 4), ValueError, "input_dim must be at least 1, got 0"),
    ("sparse", lambda: gluon.Parameter("w", shape=(2,), stype="blocks"), ValueError,
     "storage types are default, row_sparse, csr, got 'blocks'"),
    ("groups-0", lambda: nn.GroupNorm(0), ValueError, "num_groups must be at least 1, got 0"),
    ("function", lambda: nn.HybridLambda("nosuch"), AssertionError, "Function name nosuch is not found"),
    ("reflection", lambda: nn.ReflectionPad2D((1, 2)), ValueError, "one number or eight"),
    ("shuffle", lambda: gluon.contrib.nn.PixelShuffle2D((1, 2, 3)), ValueError,
     "factor must be an integer or 2 of them"),
]


@pytest.mark.parametrize(("make", "error", "text"), [row[1:] for row in BAD_ARGUMENTS],
                         ids=[row[0] for row in BAD_ARGUMENTS])
def test_layer_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


BAD_SHAPES = [
    ("dense", lambda: nn.Dense(3, in_units=7), (2, 6), r"weight must be \(3, 6\).*got \(3, 7\)"),
    ("dense-0d", lambda: nn.Dense(3), (), r"FullyConnected.*data float32\(\)"),
    ("conv-axes", lambda: nn.Conv2D(3, 3), (2, 4, 10), r"needs data of 4 axes.*got \(2, 4, 10\)"),
    ("conv-channels", lambda: nn.Conv2D(3, 3, in_channels=5), (2, 4, 8, 8),
     r"weight must be \(3, 4, 3, 3\).*got \(3, 5, 3, 3\)"),
    ("conv-small", lambda: nn.Conv2D(3, 9), (2, 4, 8, 8), r"kernel \(9, 9\).*larger than the padded input \(8, 8\)"),
    ("pool-axes", lambda: nn.MaxPool2D(), (2, 4, 10), "needs data of 4 axes"),
    ("pool-small", lambda: nn.AvgPool2D(9), (2, 4, 8, 8), "larger than the padded input"),
    ("batchnorm", lambda: nn.BatchNorm(in_channels=5), (2, 6), r"gamma must be \(6,\).*got \(5,\)"),
    ("batchnorm-axis", lambda: nn.BatchNorm(axis=7), (2, 6), "axis 7 is out of range for an array of 2 axes"),
    ("layernorm-axis", lambda: nn.LayerNorm(axis=3), (2, 6), "axis 3 is out of range for an array of 2 axes"),
    ("groupnorm", lambda: nn.GroupNorm(3), (2, 4, 8), "4 channels cannot be split into num_groups=3"),
    ("instancenorm", lambda: nn.InstanceNorm(axis=5), (2, 4, 8), "axis 5 is out of range"),
    ("prelu", lambda: nn.PReLU(in_channels=5), (2, 6), r"each of the 6 channels of data \(2, 6\), got \(5,\)"),
    ("flatten", lambda: nn.Flatten(), (), "Flatten"),
]


@MODES
@pytest.mark.parametrize(("make", "shape", "text"), [row[1:] for row in BAD_SHAPES], ids=[row[0] for row in BAD_SHAPES])
def test_layer_shapes(make, shape, text, hybridized):
    net = make()
    net.initialize()
    if hybridized:
        net.hybridize()
    for _ in range(2):                                     # an error leaves the block usable, also for the next error
        with pytest.raises(mx.errors.ShapeError, match=text):
            net(nd.ones(shape))


@MODES
def test_empty_containers(hybridized):
    for make in (gluon.contrib.nn.HybridConcurrent, gluon.contrib.nn.Concurrent):
        net = make()
        net.hybridize(hybridized)
        with pytest.raises(mx.errors.HybridError, match="has no blocks to join"):
            net(nd.ones((2, 2)))
    empty = nn.HybridSequential()
    empty.hybridize(hybridized)
    assert empty(nd.ones((2, 2))).shape == (2, 2)


@MODES
def test_empty_batches_find_the_shapes(hybridized):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3), nn.BatchNorm(), nn.Dense(3))
    net.initialize()
    if hybridized:
        net.hybridize()
    assert net(nd.zeros((0, 3, 8, 8))).shape == (0, 3)
    assert net(nd.ones((2, 3, 8, 8))).shape == (2, 3) and net[0].weight.shape == (2, 3, 3, 3)


WINDOWS = [("stride", {"stride": (0, 1)}), ("pad", {"pad": (-1, 0)}), ("short", {"stride": (1,)}),
           ("kernel", {"kernel": (0, 3)})]


@pytest.mark.parametrize("given", [row[1] for row in WINDOWS], ids=[row[0] for row in WINDOWS])
@pytest.mark.parametrize("name", ["Convolution", "Deconvolution", "Pooling"])
def test_windows_of_operators(name, given):
    x, w = nd.ones((1, 2, 5, 5)), nd.ones((2, 2, 3, 3))
    attrs = {"kernel": (3, 3), **given}
    with pytest.raises(mx.errors.ShapeError, match="must have 2 numbers of at least"):
        getattr(nd, name)(x, **attrs) if name == "Pooling" else getattr(nd,
                                                                        name)(x, w, num_filter=2, no_bias=True, **attrs)
    with pytest.raises(mx.errors.AttributeValueError, match="layout='foo'"):
        getattr(nd, name)(x, layout="foo", kernel=(3, 3), **({} if name == "Pooling" else {"num_filter": 2}))


def test_pixel_shuffles():
    def shuffled(factor, *shape):
        layer = getattr(gluon.contrib.nn, f"PixelShuffle{len(shape) - 2}D")(factor)
        x = nd.array(onp.arange(onp.prod(shape)).reshape(shape))
        y = layer(x)
        layer.hybridize()
        onp.testing.assert_array_equal(layer(x).asnumpy(), y.asnumpy())
        return y
    assert shuffled(2, 1, 4, 3).asnumpy().tolist() == [[[0, 3, 1, 4, 2, 5], [6, 9, 7, 10, 8, 11]]]
    assert shuffled((2, 1), 1, 4, 1, 2).asnumpy().tolist() == [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]]
    y = shuffled(2, 1, 16, 1, 2, 2)
    assert y.shape == (1, 2, 2, 4, 4) and y.asnumpy()[0, 0, :, 0,
                                                      0].tolist() == [0,
                                                                      16] and y.asnumpy()[0, 0, 0, 0,
            :2].tolist() == [0, 4]


# ---- compilers and cache folders
PROGRAM = """
import warnings
from hybrid import nd, hybridize
f = hybridize(lambda x: x * 2 + 1)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert f(nd.ones((3,))).asnumpy().tolist() == [3, 3, 3]
print(*[w.message for w in seen])
"""
ON_CPU = pytest.mark.skipif(os.environ.get("HYBRID_DEVICE", "cpu") != "cpu", reason="a matter of the CPU")


def run(cache, **env):
    return subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, "HYBRID_CACHE": str(cache), **env},
                          capture_output=True, text=True, timeout=300)


@ON_CPU
def test_a_compiler_that_is_none(tmp_path):
    assert "HYBRID_CC='/nowhere/gcc' names no program" in run(tmp_path, HYBRID_CC="/nowhere/gcc").stdout
    quiet = tmp_path / "quiet"
    quiet.write_text("#!/bin/sh\nexit 0\n")
    quiet.chmod(0o700)
    assert "wrote no program; is HYBRID_CC a C compiler?" in run(tmp_path / "c", HYBRID_CC=str(quiet)).stderr
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/sh\necho broken header >&2\nexit 1\n")
    fails.chmod(0o700)
    text = run(tmp_path / "d", HYBRID_CC=str(fails)).stderr
    assert "CompileError" in text and "broken header" in text
    fails.write_text("#!/bin/sh\ncase \"$*\" in *net.so*) exit 3;; esac\n")
    assert "said nothing and ended with status 3" in run(tmp_path / "e", HYBRID_CC=str(fails)).stderr
    fails.write_text("no program\n")
    assert "cannot be run: Exec format error. Set HYBRID_CC" in run(tmp_path / "f", HYBRID_CC=str(fails)).stderr


@ON_CPU
@pytest.mark.skipif(os.environ.get("HYBRID_CC") == "none", reason="needs a compiler")
def test_damaged_files_in_the_cache_are_made_again(tmp_path):
    assert run(tmp_path).returncode == 0
    files = list(tmp_path.iterdir())
    assert any(f.suffix == ".so" for f in files)
    for size in (100, 0, -1):                             # cut off, and one byte changed
        for f in files:
            whole = f.read_bytes()
            f.unlink()
            f.write_bytes(whole[:size] if size >= 0 else whole[:9] + bytes([whole[9] ^ 255]) + whole[10:]
                          if len(whole) > 9 else b"")
        done = run(tmp_path)
        assert done.returncode == 0, done.stderr


@ON_CPU
@pytest.mark.skipif(os.environ.get("HYBRID_CC") == "none" or not hasattr(os, "fork"), reason="needs a compiler")
def test_a_full_disk(tmp_path):
    """No file may grow beyond 4 KiB: neither the cache nor the temporary folder takes the program."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n" + PROGRAM
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "HYBRID_CACHE": str(tmp_path / "c")},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode and "can be written" in done.stderr.splitlines()[-1]
    assert not [f for f in (tmp_path / "c").glob("*") if f.suffix == ".so"]
    assert run(tmp_path / "c").returncode == 0                # and afterwards all is well
