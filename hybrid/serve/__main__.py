"""``python -m hybrid.serve FOLDER``: serve the models of a folder until SIGTERM or SIGINT."""
from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Sequence

LOG = logging.getLogger("hybrid.serve")
KEPT = 75                        # seconds that a connection may idle between requests
SWITCH = 0.0005                  # seconds that a computing thread keeps Python from the one that answers


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser("python -m hybrid.serve", description="Serves models by the Open Inference "
                                     "Protocol, version 2, over HTTP: NAME-symbol.json with NAME-0000.params, or "
                                     "NAME.onnx; NAME.json beside them says more (hybrid/serve/folder.py).")
    add = parser.add_argument
    add("folder", type=Path, help="folder of the models")
    add("--host", default="127.0.0.1", help="address to listen at (default %(default)s; 0.0.0.0 for all)")
    add("--port", type=int, default=8000, help="port to listen at (default %(default)s; 0 for any that is free)")
    add("--max-body", type=int, default=16 << 20, metavar="BYTES", help="largest body (default %(default)s)")
    add("--max-waiting", type=int, default=1024, metavar="N", help="requests that may wait for a model; more get 503 "
        "(default %(default)s)")
    add("--max-connections", type=int, default=1024, metavar="N", help="open connections and requests at work; more "
        "get 503 (default %(default)s)")
    add("--client-seconds", type=float, default=30, metavar="S", help="within which a client must send a request and "
        "take a part of its answer (default %(default)s)")
    add("--stop-seconds", type=int, default=30, metavar="S", help="that requests may still take after SIGTERM "
        "(default %(default)s)")
    return parser.parse_args(given)


def listening(host: str, port: int) -> socket.socket:
    """A socket that is bound."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(address)
    return found


def main(given: Sequence[str]) -> int:
    """Load the models, then serve them; the exit status."""
    options = arguments(given)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    os.environ.setdefault("HYBRID_SKIP_ZEROS", "0")        # before programs are made: see rows.py
    os.environ.setdefault("HYBRID_COMPILE", "now")         # a row has the same bits in every batch
    signal.signal(signal.SIGTERM, _stop)                   # uvicorn raises it again when all is done
    signal.signal(signal.SIGINT, _stop)
    from ..base.errors import HybridError  # noqa: PLC0415
    try:
        import uvicorn  # noqa: PLC0415

        from .connection import patient_for  # noqa: PLC0415  needs uvicorn and httptools
    except ImportError as err:
        LOG.error("%s: the server needs more packages: pip install httptools uvicorn uvloop", err)
        return 1
    from .application import Application  # noqa: PLC0415
    try:
        models = load(options.folder)
        bound = listening(options.host, options.port)
    except (HybridError, OSError) as err:
        LOG.error("%s", err)
        return 1
    sys.setswitchinterval(SWITCH)
    application = Application(models, options.max_body, options.max_waiting)
    config = uvicorn.Config(application, http=patient_for(options.client_seconds), ws="none", lifespan="on",
                            access_log=False, log_config=None, log_level="warning", server_header=False,
                            date_header=False, proxy_headers=False, limit_concurrency=options.max_connections,
                            timeout_graceful_shutdown=options.stop_seconds,
                            timeout_keep_alive=KEPT)
    bound.listen(config.backlog)
    host, port = bound.getsockname()[:2]
    LOG.info("serving %s at http://%s:%d", ", ".join(m.name for m in models),
             f"[{host}]" if ":" in host else host, port)
    uvicorn.Server(config).run(sockets=[bound])
    return 0


def load(folder: Path) -> list:
    """The models of a folder, each with a line in the log."""
    from .folder import models_of  # noqa: PLC0415
    from .model import Model  # noqa: PLC0415
    models = []
    for files in models_of(folder):
        begin = time.perf_counter()
        model = Model(files)
        LOG.info("%s, version %s: %s -> %s; %s; %.1f s", model.name, model.version,
                 ", ".join(f"{t.name} {t.datatype}{list(t.shape)}" for t in model.inputs),
                 ", ".join(f"{t.name} {t.datatype}{list(t.shape)}" for t in model.outputs),
                 f"programs of {', '.join(map(str, model.rows.sizes))} rows" if model.rows is not None else
                 f"each request alone, since {model.alone}", time.perf_counter() - begin)
        models.append(model)
    return models


def _stop(*_: object) -> None:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
