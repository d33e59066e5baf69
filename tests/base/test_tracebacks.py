"""Tracebacks show the user's frames and one of the library's; hints in errors fit the code at hand."""
from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, Callable

import pytest

import hybrid as mx
from hybrid import nd, np
from hybrid.base.errors import _HERE
from hybrid.gluon import nn


class Wrong(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return self.inner(F, x)

    def inner(self, F: Any, x: Any) -> Any:  # noqa: N803
        if x.sum() > 0:
            return x
        return F.dot(x, x)


@mx.hybridize
def loops(x: Any) -> Any:
    while x.sum() > 0:
        x = x - 1
    return x


@mx.hybridize
def in_numpy(x: Any) -> Any:
    return x if x.sum() > 0 else -x


@mx.hybridize
def asserts(x: Any) -> Any:
    assert x.sum() > 0
    return x


@mx.hybridize
def shapes(x: Any) -> Any:
    return nd.dot(x, nd.ones((7, 7)))


@mx.hybridize
def users(x: Any) -> Any:
    raise KeyError("mine")


def wrong() -> Any:
    net = Wrong()
    net.hybridize()
    return net


X = nd.ones((2, 3))
CALLS: list[tuple[Callable[[], Any], list[str]]] = [
    (lambda: wrong()(X), ["<lambda>", "library", "hybrid_forward", "inner"]),
    (lambda: Wrong()(nd.zeros((2, 3))), ["<lambda>", "library", "hybrid_forward", "inner"]),
    (lambda: loops(X), ["<lambda>", "library", "loops"]),
    (lambda: shapes(X), ["<lambda>", "library", "shapes"]),
    (lambda: users(X), ["<lambda>", "library", "users"]),
    (lambda: nd.dot(X, X), ["<lambda>", "library"]),
    (lambda: X + nd.ones((5,)), ["<lambda>", "library"]),
]


def frames(call: Callable[[], Any]) -> list[str]:
    """Names of the functions in an error's traceback, "library" for those of this library."""
    try:
        call()
    except Exception as err:  # noqa: BLE001
        return ["library" if f.filename.startswith(_HERE) else f.name
                for f in traceback.extract_tb(err.__traceback__)][1:]
    raise AssertionError("no error")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 raises again with the traceback it had")
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_frames(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    call, want = CALLS[number]
    assert frames(call) == want
    monkeypatch.setenv("HYBRID_DEBUG", "1")
    assert len(frames(call)) > len(want)                     # all of them


@pytest.mark.parametrize("call, kind, hint", [
    (lambda: wrong()(X), "this `if` needs the value", "Use F.where(condition, a, b)"),
    (lambda: loops(X), "this `while` needs the value", "Use nd.contrib.while_loop(cond, func, loop_vars"),
    (lambda: in_numpy(np.ones((2,))), "this `if` needs the value", "Use np.where(condition, a, b)"),
    (lambda: mx.hybridize(lambda x: max(x))(X[0]), "a test, as and, or, not, max()",
     "nd.maximum, nd.minimum and nd.sort"),
    (lambda: asserts(X), "this `assert` needs the value", "hybrid.debug.print"),
    (lambda: mx.hybridize(lambda x: [1, 2][x.sum()])(X), "use as an index", "Use nd.take(array, index)"),
])
def test_hints(call: Callable[[], Any], kind: str, hint: str) -> None:
    with pytest.raises(mx.HybridError) as found:
        call()
    assert kind in str(found.value) and hint in str(found.value)


def test_ipython_shows_the_same_frames(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    (tmp_path / "x.py").write_text("from hybrid import nd\nnd.dot(nd.ones((2, 3)), nd.ones((5,)))\n")
    done = subprocess.run([sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", str(tmp_path / "x.py")],
                          capture_output=True, text=True, env={**os.environ, "IPYTHONDIR": str(tmp_path)})
    said = done.stdout + done.stderr
    assert "ShapeError" in said and "x.py:2" in said and said.count("hybrid/") <= 2 and "dispatch.py" not in said


def test_code_of_a_command_line_has_lines() -> None:
    program = "from hybrid import hybridize, nd\ntry:\n    hybridize(lambda x: int(x.sum()))(nd.ones((2,)))\n" \
              "except TypeError as err:\n    print(err)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("<string>:3: int() needs the value"), done.stdout + done.stderr
