"""The server's answers, as an ASGI application."""
from __future__ import annotations

import json
import logging
import time
from typing import Any, Awaitable, Callable, Mapping, Sequence
from urllib.parse import quote

from ..base.errors import HybridError
from .batching import Batcher
from .errors import RequestError
from .metrics import Metrics
from .model import Model
from .wire import read, write

LOG = logging.getLogger("hybrid.serve")
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
JSON = b"application/json"
DROPPED = 8                      # times the largest body: read and dropped, so that a client gets to see the answer


class Application:
    """Answers of the Open Inference Protocol for some models; ``GET /metrics`` for Prometheus. most_bytes: of a
    request's body; most_waiting: requests that may wait for a model."""

    def __init__(self, models: Sequence[Model], most_bytes: int, most_waiting: int):
        self.metrics = Metrics()
        self.most_bytes = most_bytes
        self.batchers = {m.name: Batcher(m, self.metrics, most_waiting) for m in models}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """An ASGI connection."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for batcher in self.batchers.values():
            batcher.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        begin, model = time.perf_counter(), ""
        headers: list[tuple[bytes, bytes]] = []
        status, body, kind = 200, b"", JSON
        try:
            parts = scope["path"].strip("/").split("/")
            model = parts[2] if parts[:2] == ["v2", "models"] and len(parts) > 2 and parts[2] in self.batchers else ""
            found = self._get(scope["method"], parts)
            if isinstance(found, Batcher):
                body, size = await self._infer(found, scope, receive)
                if size is not None:
                    kind, headers = b"application/octet-stream", [(b"inference-header-content-length", b"%d" % size)]
            elif isinstance(found, str):
                body, kind = found.encode(), b"text/plain; version=0.0.4; charset=utf-8"
            else:
                body = json.dumps(found).encode()
        except _Gone:
            return
        except RequestError as err:
            status, body = err.status, _error(str(err))
            if status == 405:
                headers = [(b"allow", b"POST" if scope["path"].endswith("/infer") else b"GET")]
            if status in (413, 415, 417):
                headers = [(b"connection", b"close")]
        except HybridError as err:
            status, body = 400, _error(f"the model cannot compute with these inputs: {err}")
        except Exception:                                      # noqa: BLE001  whatever it is, the client hears of it
            LOG.exception("%s %s failed", scope["method"], quote(scope["path"][:200]))
            status, body = 500, _error("the server failed; its log says more")
        self.metrics.requests.add(1, model=model, code=str(status))
        if model and status == 200 and scope["method"] == "POST":
            self.metrics.seconds.add(time.perf_counter() - begin, model)
        await send({"type": "http.response.start", "status": status, "headers": [
            (b"content-type", kind), (b"content-length", b"%d" % len(body)), *headers]})
        await send({"type": "http.response.body", "body": body})

    def _get(self, method: str, parts: Sequence[str]) -> Any:
        """What is asked for: a JSON value, text, or a Batcher for an inference request."""
        infer = len(parts) > 3 and parts[:2] == ["v2", "models"] and parts[-1] == "infer"
        found = self._model(parts[2], parts[3:]) if parts[:2] == ["v2", "models"] and len(parts) > 2 else self._server(
            parts)
        if method not in (("POST",) if infer else ("GET", "HEAD")):
            raise RequestError(405, f"{'/' + '/'.join(parts)} takes {'POST' if infer else 'GET'}, not {method}")
        return found

    def _server(self, parts: Sequence[str]) -> Any:
        path = "/".join(parts)
        if path in ("v2/health/live", "v2/health/ready"):
            return {parts[-1]: True}
        if path == "v2":
            import hybrid  # noqa: PLC0415  for its version
            return {"name": "hybrid", "version": hybrid.__version__, "extensions": ["binary_tensor_data"]}
        if path == "v2/models":
            return {"models": list(self.batchers)}
        if path == "metrics":
            return self.metrics.text()
        raise RequestError(404, f"there is nothing at /{path[:200]}; /v2/models lists the models")

    def _model(self, name: str, rest: Sequence[str]) -> Any:
        """What is asked for of a model."""
        batcher = self.batchers.get(name)
        if batcher is None:
            raise RequestError(404, f"there is no model {name[:100]!r}; there are {', '.join(self.batchers)}")
        if rest[:1] == ["versions"] and len(rest) > 1:
            if rest[1] != batcher.model.version:
                raise RequestError(404, f"the model {name!r} has the version {batcher.model.version}, not "
                                        f"{rest[1][:100]!r}")
            rest = rest[2:]
        if not rest:
            return batcher.model.metadata()
        if rest == ["ready"]:
            return {"name": name, "ready": True}
        if rest == ["infer"]:
            return batcher
        raise RequestError(404, f"a model has no {'/'.join(rest)[:100]!r}: ask for its metadata, 'ready' or 'infer'")

    async def _infer(self, batcher: Batcher, scope: Message, receive: Receive) -> tuple[bytes, int | None]:
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity") != b"identity":
            await self._drop(receive, 0)
            raise RequestError(415, "compressed bodies are not read here: send the body without Content-Encoding")
        length = headers.get(b"inference-header-content-length")
        if length is not None and not (length.isdigit() and len(length) < 19):
            raise RequestError(400, "Inference-Header-Content-Length must be a number of bytes")
        body = await self._body(headers, receive)
        model = batcher.model
        request = read(body, None if length is None else int(length), model.inputs, model.outputs)
        arrays = await batcher.infer(request.arrays)
        return write(model.name, model.version, request, model.outputs, arrays)

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        announced = headers.get(b"content-length", b"")
        large = announced.isdigit() and int(announced[:19]) > self.most_bytes
        parts: list[bytes] = []
        size = 0
        while not large:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            size += len(message.get("body", b""))
            large = size > self.most_bytes
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        if large:
            parts.clear()
            if headers.get(b"expect", b"").lower() != b"100-continue":
                await self._drop(receive, size)
            raise RequestError(413, f"the body has more than {self.most_bytes} bytes, the most that this server "
                                    f"reads: send fewer rows a request, or start it with a larger --max-body")
        return b"".join(parts)

    async def _drop(self, receive: Receive, size: int) -> None:
        """Read what a client still sends, up to some times the largest body: one that is cut off sees no answer."""
        more = True
        while more and size <= DROPPED * self.most_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            size += len(message.get("body", b""))
            more = message.get("more_body", False)


class _Gone(Exception):
    """The client closed the connection."""


def _error(words: str) -> bytes:
    return json.dumps({"error": words}).encode()
