"""What is told of compilations: logging, a terminal; and that Ctrl-C ends them, and long calls, and breaks nothing."""
from __future__ import annotations

import logging
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import hybrid as mx
from hybrid import nd

SLOW = """
import sys, time
import hybrid as mx
from hybrid import nd
if len(sys.argv) > 1:
    sys.modules['tqdm'] = None
@mx.hybridize
def slow(x):
    time.sleep(0.7)
    return x * 3
slow(nd.ones((4, 4)))
"""


def test_events_go_to_logging(caplog: pytest.LogCaptureFixture, tmp_path: Path,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path))
    for name in ("HYBRID_VERIFY", "HYBRID_DEBUG"):           # with which nothing is read from the disk cache
        monkeypatch.setenv(name, "0")
    caplog.set_level(logging.DEBUG, "hybrid")
    for _ in range(2):
        @mx.hybridize
        def logged(x: nd.NDArray) -> nd.NDArray:
            return x * 5 + 1
        logged(nd.ones((2, 3)))
    logged(nd.ones((4, 3)))
    said = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "hybrid"]
    assert said[0] == ("DEBUG", f"{logged.__qualname__}: cache miss, first call")
    assert said[1][0] == "INFO" and re.match(r"compiled \S+logged in \d+\.\d+ s: 1 kernels, source /", said[1][1])
    assert re.match(r"loaded \S+logged in \d+\.\d+ s", said[3][1])         # from the disk cache
    assert said[4][1].endswith("cache miss, arrays: input 0 float32(2, 3) -> float32(4, 3)")


@pytest.mark.parametrize(("plain", "width"), [(False, 80), (False, 0), (True, 80)])
def test_a_terminal_is_told_of_long_compilations(plain: bool, width: int) -> None:
    """With tqdm and without; also a terminal that does not know how wide it is."""
    fcntl, pty, termios = (pytest.importorskip(m) for m in ("fcntl", "pty", "termios"))
    if not plain:
        pytest.importorskip("tqdm")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if width else 0, width, 0, 0))
    subprocess.run([sys.executable, "-c", SLOW, *(["x"] if plain else [])], stderr=theirs, check=True)
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert re.search(r"hybrid: compiling slow \.\.\. \d\.\d s" if plain else r"hybrid: compiled slow in \d\.\d s", said)


def test_pipes_and_the_setting_are_silent() -> None:
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == done.stderr == ""


def test_an_interrupt_ends_a_compilation(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f"""#!/bin/sh
case "$*" in
  *net.so*) if [ -e {tmp_path}/slow ]; then touch {tmp_path}/began; exec sleep 20; fi;;
esac
exec gcc "$@"
""")
    compiler.chmod(0o755)
    (tmp_path / "slow").touch()
    code = f"""
import os, time
import hybrid as mx
from hybrid import nd
f = mx.hybridize(lambda x: nd.tanh(x) * 3)
try:
    f(nd.ones((2, 3)))
except KeyboardInterrupt:
    print("interrupted", flush=True)
os.unlink({str(tmp_path / 'slow')!r})
print(f(nd.zeros((2, 3))).asnumpy().tolist(), flush=True)
os._exit(0)
"""
    env = {**os.environ, "HYBRID_CC": str(compiler), "HYBRID_CACHE": str(tmp_path / "cache"), "HYBRID_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
    late = time.monotonic() + 60
    while not (tmp_path / "began").exists() and time.monotonic() < late:
        time.sleep(0.05)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert said.splitlines() == ["interrupted", str([[0.0] * 3] * 2)] and time.monotonic() - begin < 10


def test_an_interrupt_ends_a_long_call() -> None:
    @mx.hybridize
    def long(x: nd.NDArray) -> nd.NDArray:
        return nd.contrib.foreach(lambda d, s: (s.sum(), nd.dot(s, s) * 0.001 + d), x, nd.ones((256, 256)))[0]
    x = nd.ones((4000, 1))                                   # a second or two
    want = long(x).asnumpy()
    begin = time.monotonic()
    assert (long(x).asnumpy() == want).all()
    took = time.monotonic() - begin
    timer = threading.Timer(took / 10, lambda: os.kill(os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        long(x)
    assert time.monotonic() - begin < took / 2
    assert (long(x).asnumpy() == want).all()                 # beside the call that goes on to its end
    quick = mx.hybridize(lambda x: x * 2)
    for _ in range(3):
        quick(x)
    assert quick._fast_path[0] is not None                    # short programs take no thread
