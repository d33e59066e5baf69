"""A page that reads the digit that one draws in it: the network of ``make demo`` as WebAssembly.

    python examples/browser/serve.py [folder [port]]

It needs Emscripten (Debian: ``apt install emscripten``) and a C compiler. With a port of 0 the files are only written.
"""
from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import hybrid as mx

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"


class Handler(SimpleHTTPRequestHandler):
    """Files, with the headers that pages with shared memory need: without them networks use one thread."""
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript", ".cjs": "text/javascript",
                      ".wasm": "application/wasm"}

    def end_headers(self) -> None:
        """The headers, and those two."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


def build(folder: Path) -> Path:
    """Export the network, compile it and put the page beside it; the folder to be served."""
    net = mx.gluon.SymbolBlock.imports(DATA / "lenet_digits-symbol.json", ["data"],
                                       DATA / "lenet_digits-0025.params")
    net.export_c(folder, (1, 1, 28, 28), name="digits", bindings=("javascript",))
    package = folder / "javascript"
    subprocess.run(["make", "-s", "-C", str(package)], check=True)
    shutil.copy(HERE / "index.html", package)
    return package


def main(folder: str = "build/browser", port: str = "8000") -> None:
    """Build and serve on this machine alone."""
    package = build(Path(folder))
    print(f"{package}/index.html is written")
    if int(port):
        print(f"http://localhost:{port}/ (Ctrl-C ends it)", flush=True)
        server = ThreadingHTTPServer(("localhost", int(port)), functools.partial(Handler, directory=str(package)))
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
