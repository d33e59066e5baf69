"""Requests a second and latencies of ``python -m hybrid.serve``: LeNet of the digits, one image a request.

``python benchmarks/serve.py [--connections 16] [--seconds 5] [--json]`` starts a server and a client on this machine,
which share its cores. Needs ``pip install '.[serve]'``.
"""
from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent.parent / "examples" / "data"
PATH = "/v2/models/lenet_digits/infer"


def bodies(binary: bool) -> list[bytes]:
    """Whole requests, one for each of some digits."""
    with np.load(DATA / "digits.npz") as f:
        images = f["images"][-360:].reshape(-1, 8, 8).astype("float32") / 16
    images = np.pad(np.kron(images, np.ones((1, 3, 3), "float32")), ((0, 0), (2, 2), (2, 2)))[:, None]
    out = []
    for image in images:
        tensor = {"name": "data", "datatype": "FP32", "shape": [1, *image.shape]}
        if binary:
            text = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": image.nbytes}}],
                               "parameters": {"binary_data_output": True}}).encode()
            body, more = text + image.tobytes(), f"Inference-Header-Content-Length: {len(text)}\r\n"
        else:
            body, more = json.dumps({"inputs": [{**tensor, "data": image.ravel().tolist()}]}).encode(), ""
        out.append(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode()
                   + body)
    return out


async def connection(port: int, requests: list[bytes], end: float, times: list[float]) -> None:
    """Send one request after another until it is time to end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    at = 0
    while (begin := time.perf_counter()) < end:
        writer.write(requests[at % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert head.startswith(b"HTTP/1.1 200") and length, head
        await reader.readexactly(int(length[1]))
        times.append(time.perf_counter() - begin)
        at += 1
    writer.close()


async def measure(port: int, connections: int, seconds: float, requests: list[bytes]) -> list[float]:
    """Seconds of each request."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    await asyncio.gather(*(connection(port, requests[i:] + requests[:i], end, times) for i in range(connections)))
    return times


def main() -> None:
    """Start a server, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--json", action="store_true", help="tensors as JSON (default: as they lie in memory)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("lenet_digits-symbol.json", "lenet_digits-0025.params"):
            shutil.copy(DATA / name, folder)
        (Path(folder) / "lenet_digits.json").write_text('{"inputs": {"data": {"shape": [-1, 1, 28, 28]}}}')
        server = subprocess.Popen([sys.executable, "-m", "hybrid.serve", folder, "--port", "0"],
                                  stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            port = next(int(m[1]) for line in server.stderr if (m := re.search(r"serving .*:(\d+)$", line.strip())))
            requests = bodies(not options.json)
            asyncio.run(measure(port, options.connections, 1, requests))
            times = np.array(asyncio.run(measure(port, options.connections, options.seconds, requests))) * 1000
        finally:
            server.terminate()
            server.wait(30)
    print(f"{options.connections} connections, {'JSON' if options.json else 'binary tensors'}: "
          f"{len(times) / options.seconds:.0f} requests a second; milliseconds: median {np.median(times):.2f}, "
          f"p99 {np.percentile(times, 99):.2f}, most {times.max():.2f}")


if __name__ == "__main__":
    main()
