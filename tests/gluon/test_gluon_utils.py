"""gluon.utils: splitting, clipping, checking, downloading."""
from __future__ import annotations

import hashlib
import http.server
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.base.errors import HybridError
from hybrid.gluon import utils


# ---- splitting
def test_split_data() -> None:
    x = nd.array(np.arange(24).reshape(6, 4))
    assert [p.asnumpy()[:, 0].tolist() for p in utils.split_data(x, 3)] == [[0, 4], [8, 12], [16, 20]]
    assert [p.shape for p in utils.split_data(x, 4, even_split=False)] == [(2, 4), (2, 4), (1, 4), (1, 4)]
    assert [p.shape for p in utils.split_data(x, 2, batch_axis=1)] == [(6, 2), (6, 2)]
    assert [p.shape for p in utils.split_data(x, 8, even_split=False)] == [(1, 4)] * 6 + [(0, 4)] * 2
    np.testing.assert_array_equal(np.concatenate([p.asnumpy() for p in utils.split_data(x, 3, -1, False)], 1),
                                  x.asnumpy())
    assert isinstance(utils.split_data(mx.np.ones((4,)), 2)[0], mx.np.ndarray)


def test_split_and_load() -> None:
    parts = utils.split_and_load(np.arange(6).reshape(3, 2), [mx.cpu(0), mx.cpu(1)], even_split=False)
    assert [p.shape for p in parts] == [(2, 2), (1, 2)] and [p.ctx
                                                             for p in parts] == [mx.cpu(0),
            mx.cpu(1)] and parts[0].dtype == np.float32
    x = nd.ones((3,), ctx=mx.cpu(0), dtype="int32")
    assert utils.split_and_load(x, [mx.cpu(0)]) == [x]
    assert gluon.utils.split_and_load([[1, 2], [3, 4]], ctx_list=[mx.cpu()])[0].asnumpy().tolist() == [[1, 2], [3, 4]]


def test_bad_splits() -> None:
    x = nd.ones((5, 2))
    with pytest.raises(ValueError, match=r"\(5, 2\).*2 slices along axis 0.*multiple of 2.*even_split=False"):
        utils.split_data(x, 2)
    with pytest.raises(ValueError, match="num_slice"):
        utils.split_data(x, 0)
    with pytest.raises(TypeError, match=r"write \[cpu\(0\)\]"):
        utils.split_and_load(x, mx.cpu())                          # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty"):
        utils.split_and_load(x, [])


# ---- clipping
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_clip_global_norm(dtype: str) -> None:
    values = [np.array([3.0, 0.0]), np.array([[4.0], [12.0]])]
    arrays = [nd.array(v, dtype=dtype) for v in values]
    assert utils.clip_global_norm(arrays, 6.5) == pytest.approx(13, rel=1e-3)
    for a, v in zip(arrays, values):
        assert a.dtype == np.dtype(dtype)
        np.testing.assert_allclose(a.asnumpy(), v / 2, rtol=1e-3)
    kept = [nd.array([3.0, 4.0])]
    assert utils.clip_global_norm(kept, 100.0) == pytest.approx(5) and kept[0].asnumpy().tolist() == [3, 4]
    norm = utils.clip_global_norm([nd.array([3.0, 4.0])], 1.0, check_isfinite=False)
    assert isinstance(norm, nd.NDArray) and norm.shape == (1,) and norm.asscalar() == pytest.approx(5)


def test_clip_half_precision_does_not_overflow() -> None:
    x = nd.full((100,), 300.0, dtype="float16")
    assert utils.clip_global_norm([x], 30.0) == pytest.approx(3000, rel=1e-3)
    np.testing.assert_allclose(x.asnumpy(), 3.0, rtol=2e-3)


def test_clip_warns_of_nan() -> None:
    for bad in (np.nan, np.inf):
        with pytest.warns(UserWarning, match="nan or inf is detected"):
            utils.clip_global_norm([nd.array([1.0, bad])], 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            utils.clip_global_norm([nd.array([1.0, bad])], 1.0, check_isfinite=False)
    with pytest.raises(HybridError, match="at least one"):
        utils.clip_global_norm([], 1.0)
    with pytest.raises(ValueError, match="positive"):
        utils.clip_global_norm([nd.ones((2,))], 0.0)


def test_clip_gradients_of_a_net() -> None:
    net = gluon.nn.Dense(3, in_units=4)
    net.initialize()
    with mx.autograd.record():
        loss = (net(nd.ones((2, 4)) * 100) ** 2).sum()
    loss.backward()
    grads = [p.grad() for p in net.collect_params().values()]
    before = float(np.sqrt(sum((g.asnumpy() ** 2).sum() for g in grads)))
    assert utils.clip_global_norm(grads, 1.0) == pytest.approx(before, rel=1e-5)
    assert float(np.sqrt(sum((p.grad().asnumpy() ** 2).sum()
                             for p in net.collect_params().values()))) == pytest.approx(1.0, rel=1e-5)


# ---- files
CONTENT = os.urandom(300_000)
SHA1 = hashlib.sha1(CONTENT).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    asked: list[str] = []

    def do_GET(self) -> None:                                      # noqa: N802
        type(self).asked.append(self.path)
        tries = self.asked.count(self.path)
        if self.path.startswith("/flaky") and tries < 3:
            self.send_error(503)
        elif self.path.startswith("/missing"):
            self.send_error(404)
        else:
            cut = self.path.startswith("/cut") or self.path.startswith("/once-cut") and tries == 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:1000] if cut else CONTENT)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    _Handler.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils.time, "sleep", lambda _: None)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_check_sha1(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(CONTENT)
    assert utils.check_sha1(tmp_path / "f", SHA1) and utils.check_sha1(str(tmp_path / "f"),
                                                                       SHA1.upper()) and not utils.check_sha1(
            tmp_path / "f", "0" * 40)


def test_download(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = str(tmp_path / "deep" / "er" / "file.bin")
    assert utils.download(f"{server}/a/file.bin", target) == target and Path(target).read_bytes() == CONTENT
    asked = len(_Handler.asked)
    # it is there
    assert utils.download(f"{server}/a/file.bin", target, sha1_hash=SHA1) == target and len(_Handler.asked) == asked
    Path(target).write_bytes(b"other")
    assert utils.download(f"{server}/a/file.bin", target) == target and Path(target).read_bytes() == b"other"
    utils.download(f"{server}/a/file.bin", target, sha1_hash=SHA1)
    assert Path(target).read_bytes() == CONTENT
    utils.download(f"{server}/a/file.bin", target, overwrite=True)
    assert len(_Handler.asked) == asked + 2
    assert utils.download(f"{server}/b/name.bin?x=1", tmp_path) == str(tmp_path / "name.bin")
    monkeypatch.chdir(tmp_path)
    assert utils.download(f"{server}/here.bin") == "here.bin" and (tmp_path / "here.bin").read_bytes() == CONTENT
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".")]


@pytest.mark.parametrize("kind", ["flaky", "once-cut"])
def test_download_tries_again(server: str, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = utils.download(f"{server}/{kind}/f", tmp_path / "f", sha1_hash=SHA1, retries=2)
    assert Path(out).read_bytes() == CONTENT and "more tries" in capsys.readouterr().out


@pytest.mark.parametrize(("path", "sha1", "message", "requests"), [("missing", None, "404", 1), ("cut", None,
    "1000 of 300000 bytes|IncompleteRead", 3), ("wrong", "0" * 40, "SHA-1", 3)],
                         ids=["missing", "cut", "wrong-sum"])
def test_failed_download_leaves_nothing(server: str, tmp_path: Path, path: str, sha1: str | None, message: str,
                                        requests: int) -> None:
    target = tmp_path / "kept"
    target.write_bytes(b"old")
    before = len(_Handler.asked)
    with pytest.raises(HybridError, match=rf"could not be fetched into .*kept: .*({message})"):
        utils.download(f"{server}/{path}/x", target, overwrite=True, sha1_hash=sha1, retries=2)
    assert (target.read_bytes() == b"old" and os.listdir(tmp_path) == ["kept"]
            and len(_Handler.asked) - before == requests)


def test_download_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file name"):
        utils.download("http://127.0.0.1:9/")
    with pytest.raises(ValueError, match="retries"):
        utils.download("http://127.0.0.1:9/x", retries=-1)
    with pytest.raises(HybridError, match="could not be fetched"):
        utils.download("http://127.0.0.1:9/x", tmp_path / "x", retries=0)
    with pytest.raises(HybridError, match="unknown url type"):
        utils.download("nonsense", tmp_path / "x", retries=3)


def test_progress_bar(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    utils.download(f"{server}/bar.bin", tmp_path)
    assert "bar.bin: 100%" in capsys.readouterr().err


def test_download_without_tqdm(server: str, tmp_path: Path) -> None:
    code = (f"import sys\nsys.modules['tqdm'] = None\nfrom hybrid.gluon import "
            f"utils\nprint(utils.download({server + '/n.bin'!r}, {str(tmp_path)!r}))")
    env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == str(tmp_path / "n.bin") and (tmp_path / "n.bin").read_bytes() == CONTENT


def test_replace_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    utils.replace_file(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "new" and not (tmp_path / "a").exists()
    (tmp_path / "c").write_text("x")
    with pytest.raises(OSError):
        utils.replace_file(tmp_path / "c", tmp_path / "no" / "d")
    assert not (tmp_path / "c").exists()


def test_shape_is_known() -> None:
    assert utils.shape_is_known((1, 2)) and not utils.shape_is_known((1,
                                                                      0)) and not utils.shape_is_known(
            None) and not utils.shape_is_known(())
    with pytest.raises(ValueError, match="0 or more"):
        utils.shape_is_known((1, -1))
    mx.npx.set_np()
    try:
        assert utils.shape_is_known(()) and utils.shape_is_known((0, 2)) and not utils.shape_is_known((-1,))
    finally:
        mx.npx.reset_np()


def test_hook_handle() -> None:
    net = gluon.nn.Dense(2, in_units=2)
    net.initialize()
    seen: list[int] = []
    with net.register_forward_hook(lambda *_: seen.append(1)) as handle:
        assert isinstance(handle, utils.HookHandle)
        net(nd.ones((1, 2)))
    net(nd.ones((1, 2)))
    assert seen == [1]
