"""model_zoo: parameter names, shapes and outputs of MXNet 1.9.1; trained files are found, fetched and checked; clear
errors."""
from __future__ import annotations

import gzip
import hashlib
import http.server
import importlib.util
import json
import threading
import zipfile
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from hybrid import HybridError, nd
from hybrid.gluon.model_zoo import model_store, vision

from ..paths import DATA, TESTS

RECORDED = json.loads(gzip.decompress((DATA / "zoo.json.gz").read_bytes()))
_spec = importlib.util.spec_from_file_location("record_zoo", TESTS / "oracle" / "record_zoo.py")
assert _spec is not None and _spec.loader is not None
record = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(record)


def test_every_model_is_there() -> None:
    assert set(vision.MODELS) == set(RECORDED) == set(model_store._model_sha1)


@pytest.mark.parametrize("name", RECORDED)
def test_names_and_shapes(name: str) -> None:
    net = vision.get_model(name)
    net.infer_shape(nd.zeros((1, 3, record.size_of(name), record.size_of(name))))
    expected = dict(RECORDED[name]["params"])
    known = [(p.name[len(net.prefix):], p.shape) for p in net.collect_params().values()]
    assert ([n for n, _ in known] == list(expected)
            and list(net._collect_params_with_prefix()) == RECORDED[name]["structure"])
    wrong = [(n, s, expected[n]) for n, s in known if not all(a in (0, -1, b) for a, b in zip(s, expected[n]))
             or len(s) != len(expected[n])]
    assert not wrong


# one of each family; the larger ones differ in numbers only
@pytest.mark.parametrize("name", ["alexnet", *(pytest.param(n, marks=pytest.mark.thorough)
                                               for n in ("densenet121", "inceptionv3", "resnet50_v2", "vgg11")),
                                  "mobilenet0.25", "mobilenetv2_0.25", "resnet18_v1", "squeezenet1.1"])
def test_outputs(name: str, tmp_path: Path) -> None:
    net = vision.get_model(name, classes=10)
    x = nd.array(record.picture(record.size_of(name)))
    for p in net.collect_params().values():
        p.init = "zeros"                                             # real numbers come below
    net.initialize()
    net(x)
    record.fill(net, nd.array)
    expected = np.array(RECORDED[name]["output"])
    scale = np.abs(expected).max()
    eager = net(x).asnumpy()[0]
    net.hybridize()
    assert np.abs(eager - expected).max() < 1e-4 * scale and np.abs(net(x).asnumpy()[0] - eager).max() < 1e-4 * scale
    if name in ("alexnet", "mobilenet0.25"):
        return_trip(net, name, x, tmp_path)


def return_trip(net: Any, name: str, x: Any, folder: Path) -> None:
    """Both kinds of file load into a new network."""
    before = net(x).asnumpy()
    net.save_parameters(str(folder / "structure.params"))
    # as the older published files are
    net.collect_params().save(str(folder / "names.params"), strip_prefix=net.prefix)
    for file in ("structure.params", "names.params"):
        other = vision.get_model(name, classes=10)
        other.load_parameters(str(folder / file))
        other.hybridize()
        assert np.array_equal(other(x).asnumpy(), before), file


def test_thumbnails() -> None:
    net = vision.resnet18_v1(thumbnail=True, classes=10)
    net.initialize()
    assert net(nd.zeros((2, 3, 32, 32))).shape == (2, 10)


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="there is no model 'resnet19_v1'; there are alexnet"):
        vision.get_model("resnet19_v1")
    with pytest.raises(ValueError, match="layers, not 20"):
        vision.get_resnet(1, 20)
    with pytest.raises(ValueError, match="versions 1 and 2"):
        vision.get_resnet(3, 18)
    with pytest.raises(ValueError, match="no trained file for 'mine'"):
        model_store.get_model_file("mine")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A server of model files on this machine; its folder."""
    folder = tmp_path / "server" / "gluon" / "models"
    folder.mkdir(parents=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                             lambda *a: _Quiet(*a, directory=str(tmp_path / "server")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MXNET_GLUON_REPO", f"http://127.0.0.1:{server.server_port}")
    yield folder
    server.shutdown()
    server.server_close()


def publish(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A trained squeezenet1.1 on the server, under its own SHA-1."""
    net = vision.squeezenet1_1()
    net.initialize()
    x = nd.array(np.random.RandomState(1).rand(1, 3, 224, 224))
    out = net(x).asnumpy()
    file = folder / "net.params"
    net.save_parameters(str(file))
    sha1 = hashlib.sha1(file.read_bytes()).hexdigest()
    monkeypatch.setitem(model_store._model_sha1, "squeezenet1.1", sha1)
    with zipfile.ZipFile(folder / f"squeezenet1.1-{sha1[:8]}.zip", "w") as z:
        z.write(file, f"squeezenet1.1-{sha1[:8]}.params")
    return x, out, f"squeezenet1.1-{sha1[:8]}.params"


def test_pretrained_is_fetched_once_and_checked(repository: Path, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    x, out, file = publish(repository, monkeypatch)
    root = tmp_path / "home" / "models"
    assert np.array_equal(vision.squeezenet1_1(pretrained=True)(x).asnumpy(), out)
    assert [p.name for p in root.iterdir()] == [file]
    for p in repository.iterdir():                                   # the second time the server is not asked
        p.unlink()
    assert np.array_equal(vision.get_model("squeezenet1.1", pretrained=True)(x).asnumpy(), out)
    (root / file).write_bytes(b"damaged")
    with pytest.raises(HybridError, match="another SHA-1"):
        vision.squeezenet1_1(pretrained=True)
    model_store.purge(root)
    assert not list(root.iterdir())
    with pytest.raises(HybridError,
                       match=f"there is no file .*{file}.*put .*{file}.*into|there is no file .*put it into") as err:
        vision.squeezenet1_1(pretrained=True, root=tmp_path / "other")
    assert str(tmp_path / "other") in str(err.value) and not list((tmp_path / "other").iterdir())


def test_a_wrong_file_from_the_server_is_not_kept(repository: Path, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, file = publish(repository, monkeypatch)
    zipped = repository / file.replace(".params", ".zip")
    for content in ({file: b"something else"}, {"other.params": b""}, None):
        if content is None:
            zipped.write_bytes(b"no zip file")
        else:
            with zipfile.ZipFile(zipped, "w") as z:
                for name, data in content.items():
                    z.writestr(name, data)
        with pytest.raises(HybridError, match="could not be fetched"):
            model_store.get_model_file("squeezenet1.1", tmp_path / "root")
        assert not list((tmp_path / "root").iterdir())
