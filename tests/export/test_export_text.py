"""The text of exported C: what its making leaves behind is gone, lines have 120 columns, nothing is unused."""
from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.export.simpler import simpler, with_read_parameters
from hybrid.export.wrapping import WIDEST, wrapped
from hybrid.gluon import nn
from hybrid.ir.parse import lines_of, parse
from hybrid.ir.stmt import text_of

from .test_export_c import Encoder, lenet

# what programs are said to have that are no programs of ours
QUIET = ("-Wunused-variable", "-Wunused-parameter", "-Wunused-but-set-variable", "-Wunused-function")
WORDS = """
static void f(float *to, const float *from, const float *none, void *scratch) {
  for (long n = 0; n < 1; n++) {
    {
      const long ty = n, dead = 5;
      long u = ty;
      u /= 1; u += 0;
      const float *x = (from) + ty * 4l;
      for (long i = 0; i < 4; i++) {
        {
          const long q = i;
          float v3001 = (x[q] * 0x1.8p+0f);
          to[q + (n * 4l)] = v3001 / 1;
        }
      }
    }
  }
}
static void net(void **b) {
  f((float *)b[0], (float *)b[1], (float *)b[1], b[2]);
}
"""
SIMPLE = """
static void f(float *to, const float *from) {
  for (long i = 0; i < 4; i++) {
    float v1 = from[i] * 1.5f;
    to[i] = v1;
  }
}
static void net(void **b) {
  f((float *)b[0], (float *)b[1]);
}
"""
# of which nothing may go: a loop that is left, a name that changes, two variables of one name, a function's address
KEPT = """
static void g(long *to, long n) {
  for (long i = 0; i < 1; i++) {
    if (n > 2) break;
    to[i] = 1;
  }
  long m = n;
  m += 2;
  to[1] = m;
  {
    const long a = h(n, 1);
    to[2] = a;
  }
  {
    const long a = n - 1;
    to[3] = a - 0.5 * a;
  }
  call(g2, to);
}
static void g2(long *to, long unread) {
  to[0] = 1;
}
"""
# second names of values of which a part changes; g1 is one of a pointer, which stays as it is
PARTS = """
static void g(long *to, hy_t a, hy_v b) {
  hy_t a1 = a;
  a.x = 1;
  hy_t a2 = a;
  a2.y[1]++;
  hy_v b1 = b;
  b[0] = 2;
  f(a1, a2, b1);
}
static void h(long *to) {
  long *g1 = to;
  g1[0] = 1;
}
"""


# of the first function two parameters go, one after the other: the second one is read by a call alone
TWICE = """
static void g(long *to, const long *from, long none) {
  to[0] = from[0];
}
static void f(const hy_team *hy, long *to, const long *from, long none, void *unread) {
  g(to, from, none);
  to[1] = hy->threads;
}
static void net(void **b) {
  f(hy, b[0], b[1], 3, b[2]);
}
"""
ONCE = """
static void g(long *to, const long *from) {
  to[0] = from[0];
}
static void f(const hy_team *hy, long *to, const long *from) {
  g(to, from);
  to[1] = hy->threads;
}
static void net(void **b) {
  f(hy, b[0], b[1]);
}
"""


def simplified(text: str) -> str:
    return "\n".join(["", text_of(simpler(with_read_parameters(simpler(parse(text.strip()))))), ""])


def test_what_is_left_out() -> None:
    assert simplified(WORDS) == SIMPLE


def test_second_names_of_what_changes_stay() -> None:
    assert simplified(PARTS) == PARTS.replace("  long *g1 = to;\n", "").replace("g1[0]", "to[0]")


def test_arguments_go_in_lengths_of_arrays_too() -> None:
    call = "  float a[g(n, n)];\n  h(a);\n"
    text = "\nstatic long g(long n, long none) {\n  return n;\n}\nstatic void f(long n) {\n" + call + "}\n"
    assert simplified(text) == text.replace("long n, long none", "long n").replace("g(n, n)", "g(n)")


def test_parameters_go_one_after_the_other() -> None:
    assert simplified(TWICE) == ONCE


def test_what_stays() -> None:
    assert simplified(KEPT) == KEPT


@pytest.mark.parametrize("value", ["0x1p-149f", "0x1.fffffep+127f", "0x1.99999ap-4f", "0x1.5555555555555p-2",
                                   "0x0.0p+0f"])
def test_constants_mean_the_same_numbers(value: str) -> None:
    text = simplified(f"static void f(float *to) {{\n  to[0] = {value};\n}}")
    said = re.search(r"= (.*);", text)
    assert said is not None and "0x" not in said[1] and said[1].endswith("f") == value.endswith("f")
    kind = np.float32 if value.endswith("f") else np.float64
    assert kind(said[1].removesuffix("f")) == kind(float.fromhex(value.removesuffix("f")))


def test_long_lines_go_on() -> None:
    line = "  call(" + ", ".join(f"first_{i}[{i}]" for i in range(30)) + ");"
    macro = "#define F(x) " + " + ".join(f"(x) * {i}" for i in range(30))
    for text in (line, macro):
        lines = wrapped(lines_of(text))
        assert len(lines) > 1 and max(map(len, lines)) <= WIDEST
        assert "".join("".join(lines).replace("\\", "").split()) == "".join(text.split())
    assert all(part.endswith(" \\") for part in wrapped(lines_of(macro))[:-1])


def networks() -> dict[str, tuple[Any, Any]]:
    dense, lstm, sparse = nn.HybridSequential(), nn.HybridSequential(), nn.HybridSequential()
    sparse.add(nn.Conv2D(576, 3, padding=1, groups=576, activation="relu"), nn.Conv2D(96, 1))
    lstm.add(mx.gluon.rnn.LSTM(32, num_layers=2, layout="NTC"), nn.Dense(5))
    dense.add(nn.Dense(64), nn.Activation("relu"), nn.Dense(10))
    return {"lenet": (lenet(), nd.ones((2, 1, 28, 28))), "dense": (dense, nd.ones((16, 128))),
            "encoder": (Encoder(32), nd.ones((2, 8, 32))), "lstm": (lstm, nd.ones((2, 16, 8))),
            "sparse": (sparse, nd.ones((8, 576, 4, 4)))}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", ["lenet", "dense", "encoder", "lstm", "sparse"])
def test_compilers_find_nothing_unused(name: str, plain: bool, tmp_path: Path) -> None:
    net, x = networks()[name]
    net.initialize(mx.init.Xavier())
    net(x)
    net.export_c(tmp_path, x, name="net", plain=plain)
    text = (tmp_path / "net.c").read_text()
    assert max(map(len, text.splitlines())) <= WIDEST
    assert not re.search(r"\b0x[0-9a-f.]+p[+-]|HY_ANY\(\(char|\(b\[\d+\]\)", text.split("---- kernels")[1])
    assert "__device__" not in text
    assert name != "dense" or not any(w in text for w in ("convolution", "pthread", "hy_half", "hy_ulong", "hy_team"))
    (tmp_path / "net.c").write_text("\n".join(s for s in text.splitlines() if not any(f'"{w}"' in s for w in QUIET)))
    for cc in filter(shutil.which, ("gcc", "clang") if plain else ("gcc",)):      # masks of shuffles are words of one
        done = subprocess.run([cc, "-std=c11", "-O1", "-march=native", "-Wall", "-Wextra", "-Werror", "-c", "net.c"],
                              cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]
