"""A real server process: the protocol by Triton's client, bits of batches, bad requests, slow clients, a stop."""
from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd, sym
from hybrid.gluon import nn
from ..paths import DATA

pytest.importorskip("uvicorn")
pytest.importorskip("httptools")
client_of = pytest.importorskip("tritonclient.http")

MOST = 1 << 20                   # bytes of a body that the server under test reads
PATIENCE = 1.5                   # seconds that it waits for a client


def export(net: Any, folder: Path, name: str, *shapes: tuple[int, ...], **settings: Any) -> None:
    """Write a block's files, and what is said of its first input."""
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(*(nd.zeros(s) for s in shapes))
    net.export(str(folder / name))
    said = {"data": {"shape": [-1, *shapes[0][1:]]}} if len(shapes) == 1 else {
        f"data{i}": {"shape": [-1, *s[1:]]} for i, s in enumerate(shapes)}
    (folder / f"{name}.json").write_text(json.dumps({"inputs": said, **settings}))


class Centred(mx.gluon.HybridBlock):
    """Rows less their mean: rows depend on one another."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.broadcast_sub(x, F.mean(x, axis=0, keepdims=True))


class Two(mx.gluon.HybridBlock):
    """Two inputs, two outputs."""

    def hybrid_forward(self, F: Any, a: Any, b: Any) -> Any:  # noqa: N803
        return a + b, a * b


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("lenet_digits-symbol.json", "lenet_digits-0025.params"):
        shutil.copy(DATA / name, folder)
    (folder / "lenet_digits.json").write_text('{"inputs": {"data": {"shape": [-1, 1, 28, 28]}}}')
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.LayerNorm(), nn.GELU())                     # of which any number of rows gives the same bits
    export(net, folder, "norm", (1, 4, 8), max_batch=4, max_delay_ms=20)
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="relu"), nn.Dense(8))
    export(net, folder, "mlp", (1, 32), program_rows=4, max_batch=8, max_delay_ms=20)
    export(Centred(), folder, "centred", (2, 4))
    export(Two(), folder, "two", (1, 3), (1, 3))
    out = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data", shape=(0, 5)), num_hidden=3, name="fc"), name="softmax")
    out.save(str(folder / "labelled-symbol.json"))
    nd.save(str(folder / "labelled-0003.params"), {"arg:fc_weight": nd.random.normal(shape=(3, 5)),
                                                   "arg:fc_bias": nd.zeros((3,))})
    return folder


class Server:
    """A server process. log: what it said so far."""

    def __init__(self, folder: Path, *options: str):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hybrid.serve", str(folder), "--port", "0", "--max-body", str(MOST),
             "--client-seconds", str(PATIENCE), *options], stderr=subprocess.PIPE, text=True)
        self.log: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"serving .*http://127.0.0.1:(\d+)$", line.strip()):
                self.port = int(found[1])
                threading.Thread(target=lambda: self.log.extend(self.process.stderr or ()), daemon=True).start()
                return
        raise AssertionError("".join(self.log))

    def connect(self) -> socket.socket:
        """A connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def ask(self, path: str, body: bytes | None = None, *headers: str, method: str = "") -> tuple[int, Any]:
        """The status and JSON (else text) of an answer."""
        lines = [f"{method or ('GET' if body is None else 'POST')} {path} HTTP/1.1", "Host: x", "Connection: close",
                 *([] if body is None else [f"Content-Length: {len(body)}"]), *headers, "", ""]
        with self.connect() as s:
            s.sendall("\r\n".join(lines).encode() + (body or b""))
            return answer(s)

    def stop(self) -> int:
        """End the process; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def answer(s: socket.socket) -> tuple[int, Any]:
    """The status and JSON (else text) of what comes until the connection is closed."""
    data = b""
    while part := s.recv(1 << 16):
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    text = body.decode()
    return int(head.split()[1]), json.loads(text) if b"application/json" in head else text


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Server]:
    """A server of these models."""
    found = Server(models)
    yield found
    if found.process.poll() is None:
        found.stop()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Any]:
    """Triton's client."""
    with client_of.InferenceServerClient(f"127.0.0.1:{server.port}") as found:
        yield found


def images() -> np.ndarray:
    """Some digits as LeNet takes them."""
    with np.load(DATA / "digits.npz") as f:
        pixels = max((f[n] for n in f), key=np.size).reshape(-1, 8, 8)[-12:].astype("float32") / 16
    return np.pad(pixels.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))[:, None]


def infer(client: Any, model: str, arrays: dict[str, np.ndarray], binary: bool = True) -> Any:
    """Outputs by Triton's client."""
    inputs = []
    for name, a in arrays.items():
        inputs.append(client_of.InferInput(name, a.shape, "FP32"))
        inputs[-1].set_data_from_numpy(a, binary_data=binary)
    wanted = [client_of.InferRequestedOutput(o["name"], binary_data=binary)
              for o in client.get_model_metadata(model)["outputs"]]
    return client.infer(model, inputs, outputs=wanted, request_id="7")


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("lenet_digits")
    assert client.is_model_ready("lenet_digits", "25") and not client.is_model_ready("lenet_digits", "1")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert client.get_model_metadata("lenet_digits") == {
        "name": "lenet_digits", "versions": ["25"], "platform": "hybrid",
        "inputs": [{"name": "data", "datatype": "FP32", "shape": [-1, 1, 28, 28]}],
        "outputs": [{"name": "lenet_dot0_output", "datatype": "FP32", "shape": [-1, 10]}]}
    assert [t["name"] for t in client.get_model_metadata("two", "0")["inputs"]] == ["data0", "data1"]


@pytest.mark.parametrize("binary", [True, False])
def test_a_network_of_mxnet_reads_digits(client: Any, binary: bool) -> None:
    expected = np.load(DATA / "lenet_digits.test_logits.npy")[-12:]
    found = infer(client, "lenet_digits", {"data": images()}, binary)
    assert found.get_response()["id"] == "7" and found.get_response()["model_version"] == "25"
    np.testing.assert_allclose(found.as_numpy("lenet_dot0_output"), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("binary", [True, False])
def test_several_inputs_and_outputs(client: Any, binary: bool) -> None:
    a, b = np.float32([[1, 2, 3]]), np.float32([[4, 5, 0.1]])
    found = infer(client, "two", {"data1": b, "data0": a}, binary)
    names = [o["name"] for o in client.get_model_metadata("two")["outputs"]]
    assert [found.as_numpy(n).tolist() for n in names] == [(a + b).tolist(), (a * b).tolist()]


def test_chosen_outputs(client: Any, server: Server) -> None:
    name = client.get_model_metadata("two")["outputs"][1]["name"]
    tensors = [{"name": f"data{i}", "datatype": "FP32", "shape": [1, 3], "data": [[i + 1, 2, 3]]} for i in range(2)]
    status, found = server.ask("/v2/models/two/versions/0/infer",
                               json.dumps({"inputs": tensors, "outputs": [{"name": name}]}).encode())
    assert status == 200 and "id" not in found
    assert found["outputs"] == [{"name": name, "datatype": "FP32", "shape": [1, 3], "data": [2, 4, 9]}]


def test_labels_of_output_layers_are_no_inputs(client: Any) -> None:
    assert [t["shape"] for t in client.get_model_metadata("labelled")["inputs"]] == [[-1, 5]]
    for rows in (1, 3):
        found = infer(client, "labelled", {"data": np.ones((rows, 5), "float32")}).as_numpy("softmax_output")
        np.testing.assert_allclose(found.sum(1), np.ones(rows), rtol=1e-5)


def test_rows_that_depend_on_one_another_are_computed_as_they_come(client: Any, server: Server) -> None:
    x = np.float32([[1, 2, 3, 4], [3, 4, 5, 8]])
    name = client.get_model_metadata("centred")["outputs"][0]["name"]
    assert infer(client, "centred", {"data": x}).as_numpy(name).tolist() == (x - x.mean(0)).tolist()
    assert any("centred" in line and "rows beside it" in line for line in server.log)


@pytest.mark.parametrize("model", ["lenet_digits", "norm", "mlp", "labelled"])
def test_batches_have_the_bits_of_single_requests(client: Any, server: Server, model: str) -> None:
    said = client.get_model_metadata(model)
    name, shape = said["outputs"][0]["name"], said["inputs"][0]["shape"][1:]
    x = np.random.RandomState(3).standard_normal((48, *shape)).astype("float32")
    x[5], x[6], x[7] = 0, 1e30, np.nan                     # neighbours that would show
    single = [infer(client, model, {"data": row[None]}).as_numpy(name).tobytes() for row in x]

    def one(i: int) -> tuple[int, bytes]:
        with client_of.InferenceServerClient(f"127.0.0.1:{server.port}") as own:
            return i, infer(own, model, {"data": x[i:i + 1 + i % 3]}).as_numpy(name).tobytes()
    before = batches(server, model)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(45)))
    for i, data in found:
        assert data == b"".join(single[i:i + 1 + i % 3]), i
    many = infer(client, model, {"data": x}).as_numpy(name).tobytes()
    assert many == b"".join(single)
    assert batches(server, model)[1] - before[1] == sum(1 + i % 3 for i in range(45)) + 48


def batches(server: Server, model: str) -> tuple[float, float]:
    """How many batches were computed so far, and of how many rows."""
    text = server.ask("/metrics")[1]
    count, rows = (re.search(rf'hybrid_batch_rows_{k}{{model="{model}"}} (\S+)', text) for k in ("count", "sum"))
    return (float(count[1]), float(rows[1])) if count and rows else (0, 0)


def test_requests_that_come_together_are_computed_together(client: Any, server: Server) -> None:
    body = json.dumps({"inputs": [tensor(shape=[1, 4, 8], data=np.ones((1, 4, 8)).tolist())]}).encode()
    request = (b"POST /v2/models/norm/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
               % len(body)) + body
    count, left = 16.0, 10                                 # tries: a busy machine may stop the client between requests
    while count >= 16 and (left := left - 1):
        before = batches(server, "norm")
        open_now = [server.connect() for _ in range(16)]
        for s in open_now:
            s.sendall(request)
        assert [answer(s)[0] for s in open_now] == [200] * 16
        count, rows = (b - a for a, b in zip(before, batches(server, "norm")))
    assert count < rows == 16
    for model, programs in (("norm", "1, 2"), ("mlp", "4")):
        assert any(model in line and f"programs of {programs}" in line for line in server.log)


def tensor(**changed: Any) -> dict[str, Any]:
    """A right input of the model ``labelled``, but for what is changed; None leaves a field out."""
    said = {"name": "data", "datatype": "FP32", "shape": [1, 5], "data": [1, 2, 3, 4, 5], **changed}
    return {k: v for k, v in said.items() if v is not None}


WRONG = {
    "no JSON": (b"{", "no JSON"), "nothing": (b"", "empty"), "deep": (b"[" * 100000, "no JSON"),
    "bytes": (b"\xff\xfe", "no JSON"), "a list": (b"[]", "object"), "no inputs": (b"{}", "'inputs'"),
    "a long number": (b'{"inputs": [' + b"1" * 9999 + b"]}", "no JSON|object"),
    "inputs": ({"inputs": {}}, "array"), "an absent input": ({"inputs": []}, "lacks the input 'data'"),
    "an unknown input": ({"inputs": [tensor(name="x")]}, "no input 'x'; it has data"),
    "an input twice": ({"inputs": [tensor(), tensor()]}, "twice"),
    "a datatype": ({"inputs": [tensor(datatype="INT8")]}, "FP32"),
    "a rank": ({"inputs": [tensor(shape=[5])]}, "shape"), "a length": ({"inputs": [tensor(shape=[1, 4])]}, "shape"),
    "a length below 0": ({"inputs": [tensor(shape=[-1, 5])]}, "shape"),
    "a length that is none": ({"inputs": [tensor(shape=[True, 5])]}, "shape"),
    "no rows": ({"inputs": [tensor(shape=[0, 5], data=[])]}, "at least 1"),
    "a huge length": ({"inputs": [tensor(shape=[10 ** 18, 5])]}, "numbers"),
    "few numbers": ({"inputs": [tensor(data=[1, 2])]}, "5 numbers"),
    "text": ({"inputs": [tensor(data=["1", "2", "3", "4", "5"])]}, "no FP32"),
    "null": ({"inputs": [tensor(data=[None] * 5)]}, "no FP32"),
    "ragged": ({"inputs": [tensor(data=[[1, 2], [3, 4, 5]])]}, "no array"),
    "beyond": ({"inputs": [tensor(data=[1e39, 0, 0, 0, 0])]}, "beyond"),
    "no data": ({"inputs": [tensor(data=None)]}, "neither"),
    "absent bytes": ({"inputs": [tensor(data=None, parameters={"binary_data_size": 20})]}, "0 bytes are left"),
    "wrong bytes": ({"inputs": [tensor(data=None, parameters={"binary_data_size": 4})]}, "are 20 bytes"),
    "both": ({"inputs": [tensor(parameters={"binary_data_size": 20})]}, "exclude"),
    "an unknown output": ({"inputs": [tensor()], "outputs": [{"name": "y"}]}, "no output 'y'"),
    "a sequence": ({"inputs": [tensor()], "parameters": {"sequence_id": 3}}, "sequence_id"),
    "shared memory": ({"inputs": [tensor(parameters={"shared_memory_region": "r"})]}, "shared_memory_region"),
    "an id": ({"id": 3, "inputs": [tensor()]}, "'id'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_malformed_requests_are_400_with_words(server: Server, case: str) -> None:
    given, words = WRONG[case]
    body = given if isinstance(given, bytes) else json.dumps(given).encode()
    status, found = server.ask("/v2/models/labelled/infer", body)
    assert status == 400 and re.search(words, found["error"]), found


@pytest.mark.parametrize("length", ["-1", "x", "9999", "99999999999999999999", "0"])
def test_wrong_lengths_of_the_json_are_400(server: Server, length: str) -> None:
    status, found = server.ask("/v2/models/labelled/infer", json.dumps({"inputs": [tensor()]}).encode(),
                               f"Inference-Header-Content-Length: {length}")
    assert status == 400 and found["error"]


def test_bytes_behind_the_last_tensor_are_400(server: Server) -> None:
    text = json.dumps({"inputs": [tensor()]}).encode()
    status, found = server.ask("/v2/models/labelled/infer", text + b"1234",
                               f"Inference-Header-Content-Length: {len(text)}")
    assert status == 400 and "4 bytes are left" in found["error"]


@pytest.mark.parametrize("path, status", [
    ("/v2/models/none", 404), ("/v2/models/labelled/versions/9", 404), ("/v2/models/labelled/what", 404), ("/", 404),
    ("/v2/models/../../etc/passwd", 404), ("/v2/models/%6cabelled/ready", 200), ("/v2/models/labelled/infer", 405),
    ("/v2/health/live", 200), ("/v2/models", 200)])
def test_statuses_of_paths(server: Server, path: str, status: int) -> None:
    found = server.ask(path)
    assert found[0] == status and (status == 200 or found[1]["error"])


def test_methods_and_compression(server: Server) -> None:
    assert server.ask("/v2/models/none/infer", b"{}")[0] == 404
    assert server.ask("/v2/health/live", b"{}")[0] == 405
    assert server.ask("/v2/models/labelled/infer", b"x", "Content-Encoding: gzip")[0] == 415


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_are_413(server: Server, chunked: bool) -> None:
    head = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {2 * MOST}"
    with server.connect() as s:
        s.sendall(f"POST /v2/models/labelled/infer HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode())
        for _ in range(2 * MOST >> 16):
            s.sendall((b"10000\r\n" if chunked else b"") + b" " * (1 << 16) + (b"\r\n" if chunked else b""))
        s.sendall(b"0\r\n\r\n" if chunked else b"")
        status, found = answer(s)
    assert status == 413 and str(MOST) in found["error"]


def test_a_client_that_asks_before_a_large_body_sends_none(server: Server) -> None:
    with server.connect() as s:
        s.sendall(f"POST /v2/models/labelled/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                  f"Content-Length: {2 * MOST}\r\n\r\n".encode())
        assert answer(s)[0] == 413


@pytest.mark.parametrize("begun", [
    b"", b"POST /v2/mod", b"POST /v2/models/labelled/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"in"])
def test_slow_clients_are_let_go_and_others_served(server: Server, begun: bytes) -> None:
    with server.connect() as s:
        s.sendall(begun)
        begin = time.monotonic()
        assert server.ask("/v2/health/live")[0] == 200
        assert answer(s)[0] == 408
        assert time.monotonic() - begin < PATIENCE + 10


def test_what_is_no_http_is_400_and_long_headers_431(server: Server) -> None:
    with server.connect() as s:
        s.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert answer(s)[0] == 400
    with server.connect() as s:
        s.sendall(b"GET / HTTP/1.1\r\n" + (b"X-Long: " + b"y" * 8000 + b"\r\n") * 8)
        s.sendall(b"X-Last: " + b"y" * 3000 + b"\r\n")     # beyond the limit, and all of it is read at once
        assert answer(s)[0] == 431


def test_metrics_are_prometheus_text(server: Server) -> None:
    server.ask("/v2/models/labelled/infer", json.dumps({"inputs": [tensor()]}).encode())
    status, text = server.ask("/metrics")
    assert status == 200
    line = re.compile(r'(# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [-+0-9.einf]+)\Z')
    assert all(line.match(x) for x in text.splitlines())
    assert re.search(r'hybrid_requests_total\{code="200",model="labelled"\} [1-9]', text)
    assert re.search(r'hybrid_request_seconds_bucket\{le="\+Inf",model="labelled"\} [1-9]', text)


def test_sigterm_finishes_the_requests_in_flight(models: Path) -> None:
    server = Server(models, "--client-seconds", "30")
    body = json.dumps({"inputs": [tensor()]}).encode()
    with server.connect() as s, server.connect() as idle:
        s.sendall(b"POST /v2/models/labelled/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
                  + body[:20])
        assert server.ask("/v2/health/ready")[0] == 200    # the server has read the begin of the request by now
        server.process.send_signal(signal.SIGTERM)
        assert idle.recv(1) == b""                         # a connection without a request is closed at once
        with pytest.raises(OSError):
            server.connect().close()
        s.sendall(body[20:])
        status, found = answer(s)
    assert status == 200 and len(found["outputs"][0]["data"]) == 3
    assert server.process.wait(30) == 0


def test_a_request_that_never_comes_does_not_hold_the_stop(models: Path) -> None:
    server = Server(models, "--client-seconds", "60", "--stop-seconds", "1")
    with server.connect() as s:
        s.sendall(b"POST /v2/models/labelled/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert server.ask("/v2/health/ready")[0] == 200
        begin = time.monotonic()
        assert server.stop() == 0 and time.monotonic() - begin < 30
