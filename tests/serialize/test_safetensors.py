"""Arrays and parameters in safetensors files, written here and by the safetensors package itself."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from hybrid import HybridError, nd
from hybrid.gluon import nn

st = pytest.importorskip("safetensors.numpy")
TYPES = ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", TYPES)
def test_there_and_back(dtype: str, tmp_path: Path) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype)
    path = tmp_path / "x.safetensors"
    nd.save(str(path), {"a": nd.array(x, dtype=dtype), "b": nd.array(x, dtype=dtype).T})
    ours, theirs = nd.load(str(path)), st.load_file(path)
    for found in (ours["a"].asnumpy(), theirs["a"]):
        assert found.dtype == x.dtype and np.array_equal(found, x)
    assert np.array_equal(theirs["b"], x.T) and np.array_equal(ours["b"].asnumpy(), x.T)
    st.save_file({"w": x}, tmp_path / "theirs.safetensors")
    assert np.array_equal(nd.load(tmp_path / "theirs.safetensors")["w"].asnumpy(), x)


def test_bfloat16_and_odd_shapes(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    path = str(tmp_path / "x.safetensors")
    nd.save(path, {"half": nd.ones((2, 2)).astype("bfloat16"), "none": nd.zeros((0, 3)),
                   "one": nd.array(np.float32(2.5).reshape(()))})
    found = nd.load(path)
    assert found["half"].astype("float32").asnumpy().tolist() == [[1, 1],
                                                                  [1, 1]] and found["none"].shape == (0,
            3) and found["one"].shape == ()


def test_parameters_of_a_network(tmp_path: Path) -> None:
    def make() -> nn.HybridSequential:
        net = nn.HybridSequential()
        net.add(nn.Dense(4, activation="relu"), nn.BatchNorm(), nn.Dense(2))
        return net
    net, other = make(), make()
    net.initialize()
    x = nd.array(np.random.RandomState(0).rand(3, 5))
    expected = net(x).asnumpy()
    path = str(tmp_path / "net.safetensors")
    net.save_parameters(path)
    assert set(st.load_file(path)) == set(net._collect_params_with_prefix())
    other.load_parameters(path)
    other.hybridize()
    np.testing.assert_allclose(other(x).asnumpy(), expected, rtol=1e-5)


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    nd.save(str(path), {"a": nd.ones((2, 3)), "b": nd.ones((4,))})
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(HybridError, match="x.safetensors is no safetensors file"):
            nd.load(str(path))
    rng = np.random.RandomState(0)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[rng.randint(len(whole))] = rng.randint(256)
        path.write_bytes(damaged)
        try:
            assert all(a.size < 100 for a in nd.load(str(path)).values())
        except HybridError:
            pass


def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "x.safetensors")
    with pytest.raises(TypeError, match="by name"):
        nd.save(path, [nd.ones((1,))])
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        nd.save(path, {"a": nd.ones((1,))})
    assert not list(tmp_path.iterdir())
