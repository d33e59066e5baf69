"""A connection whose client must send and take bytes in time, for uvicorn."""
from __future__ import annotations

import asyncio
import http
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS = 64 << 10               # bytes that a request's line and headers may have


def patient_for(seconds: float) -> type[HttpToolsProtocol]:
    """The class of connections on which a whole request must come within so many seconds, and a part of its answer be
    taken within as many."""

    class Timed(Connection):
        pass
    Timed.seconds = seconds
    return Timed


class Connection(HttpToolsProtocol):
    """uvicorn's, with two timers: from a connection's begin, or a request's first byte, to the request's last one; and
    from when the system takes no more bytes of an answer to when it does again."""
    seconds = 30.0

    def __init__(self, *args: Any, **keywords: Any):
        super().__init__(*args, **keywords)
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._headers = 0                                  # bytes of headers so far; -1 in a body and between requests
        self._ended = False                                # whether the last bytes ended a request

    def connection_made(self, transport: asyncio.Transport) -> None:             # type: ignore[override]
        """A client is there."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        self._ended = False
        super().data_received(data)
        if self._headers >= 0 and not self._ended:         # bytes behind a request's end count from the next ones on
            self._headers += len(data)
        if self._headers > HEADERS and self.transport is not None and not self.transport.is_closing():
            self._close(431, f"the headers have more than {HEADERS} bytes")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._headers = 0
        self._wait()

    def on_headers_complete(self) -> None:
        """A body begins."""
        self._headers = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._headers, self._ended = -1, True
        self._stop()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client takes no more bytes for now."""
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client takes bytes again."""
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._close(400, msg)

    def _wait(self) -> None:
        self._stop()
        self._reading = self.loop.call_later(self.seconds, self._late)

    def _stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _late(self) -> None:
        self._reading = None
        if not self.transport.is_closing():
            self._close(408, f"the request did not come within {self.seconds:g} seconds")

    def _close(self, status: int, words: str) -> None:
        """Answer, unless an answer has begun, and close."""
        self._stop()
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            body = json.dumps({"error": words}).encode()
            self.transport.write(b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                                 b"connection: close\r\n\r\n%s" % (status, http.HTTPStatus(status).phrase.encode(),
                                                                   len(body), body))
        self.transport.close()
