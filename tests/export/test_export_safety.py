"""Exported networks under valgrind, with 64 threads, and with weights files that are truncated, swapped or hostile."""
from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from ..c_tools import build
from .test_export_bars import NETWORKS, Exported

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]
CHECKED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
MUTATED = 3000


@pytest.fixture(scope="module", params=sorted(NETWORKS))
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return Exported(request.param, tmp_path_factory.mktemp(request.param))


def test_valgrind_finds_nothing(exported: Exported) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    build(exported.folder, "net.c", "example.c", flags=("-O2", "-g"), out="plain.elf")
    (exported.folder / "checked").write_text(
        '#!/bin/sh\nexec valgrind -q --error-exitcode=9 --leak-check=full ./plain.elf "$@"\n')
    (exported.folder / "checked").chmod(0o755)
    exported.near(exported.run("checked", threads=2))


THREADS = """
#include "net.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *x, *wanted;
static net_model *model;
static void *call(void *given) {
  void *y = malloc(net_outputs[0].bytes);
  const void *inputs[] = {x};
  void *outputs[] = {y};
  (void)given;
  for (int i = 0; i < 2; i++)
    if (net_run(model, inputs, outputs) || memcmp(y, wanted, net_outputs[0].bytes)) exit(3);
  free(y);
  return NULL;
}
int main(void) {
  int error;
  pthread_t threads[64];
  model = net_load("net.weights", &error);
  x = malloc(net_inputs[0].bytes), wanted = malloc(net_outputs[0].bytes);
  FILE *file = fopen("in0.bin", "rb");
  if (!model || !file || fread(x, 1, net_inputs[0].bytes, file) != net_inputs[0].bytes) return 1;
  fclose(file);
  const void *inputs[] = {x};
  void *outputs[] = {wanted};
  if (net_set_threads(model, 3) || net_run(model, inputs, outputs)) return 2;
  for (int i = 0; i < 64; i++) if (pthread_create(&threads[i], NULL, call, NULL)) return 4;
  for (int i = 0; i < 64; i++) pthread_join(threads[i], NULL);
  net_free(model), free(x), free(wanted);
  printf("128 calls\\n");
  return 0;
}
"""


def test_64_threads(exported: Exported) -> None:
    """Calls of one model at the same time: the bits of a call alone, nothing for sanitizers."""
    (exported.folder / "threads.c").write_text(THREADS)
    exported.x.asnumpy().tofile(exported.folder / "in0.bin")
    build(exported.folder, "net.c", "threads.c", flags=("-march=native", *CHECKED), out="threads")
    done = subprocess.run(["./threads"], cwd=exported.folder, capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stdout) == (0, "128 calls\n"), done.stderr[:2000]


LOADS = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int error;
  for (int i = 1; i < argc; i++) {
    net_model *m = net_load(argv[i], &error);
    if (!m != (error != NET_OK) || !*net_error_text(error)) return 2;
    printf("%d ", error);
    net_free(m);
  }
  return 0;
}
"""
Header = dict[str, Any]


def _file(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def _hostile(content: bytes, other: bytes) -> list[bytes]:
    """Files that somebody wrote to do harm: sizes, offsets and nesting that no writer of the format makes."""
    size = int.from_bytes(content[:8], "little")
    data, names = content[8 + size:], [n for n in json.loads(content[8:8 + size]) if n != "__metadata__"]

    def changed(change: Callable[[Header], None]) -> bytes:
        header = json.loads(content[8:8 + size])
        change(header)
        return _file(header, data)
    first, last, huge = names[0], names[-1], 1 << 60
    return [
        b"", content[:7], content[:8], content[:8 + size], content[:-1], content + b"\0", other,
        other[:8] + content[8:],
        (1 << 63).to_bytes(8, "little") + content[8:], b"\xff" * 8 + content[8:], (huge).to_bytes(8, "little"),
        _file(b"[" * 100_000, data), _file(b'{"a":' * 100_000, data), _file(b'{"' + b"a" * 100_000, data),
        _file(b'{"\\u' + b"0" * 9, data), _file(b"{}", data), _file(b"", data), _file(b"\0" * 64, data),
        changed(lambda h: h[first].update(data_offsets=[0, huge])),
        changed(lambda h: h[first].update(data_offsets=[huge, huge + h[first]["data_offsets"][1]])),
        changed(lambda h: h[first].update(data_offsets=h[first]["data_offsets"][::-1])),
        changed(lambda h: h[last].update(data_offsets=[d + 1 for d in h[last]["data_offsets"]])),
        changed(lambda h: h[first].update(data_offsets=[0])), changed(lambda h: h[first].update(data_offsets=[-1, 3])),
        changed(lambda h: h[first].update(shape=[huge, huge])), changed(lambda h: h[first].update(shape=[1] * 5000)),
        changed(lambda h: h[first].update(dtype="F64")), changed(lambda h: h[first].update(dtype="F" * 5000)),
        changed(lambda h: h.pop(first)), changed(lambda h: h.update({"x" * 5000: h[first]})),
        changed(lambda h: h.pop("__metadata__")),
        changed(lambda h: h["__metadata__"].update({"hybrid.version": "9" * 400})),
        changed(lambda h: h["__metadata__"].update({"hybrid.crc32": "0" * 5000})),
        changed(lambda h: h["__metadata__"].update({"hybrid.fingerprint": "0" * 32})),
        content[:8 + size] + data[:100] + bytes([data[100] ^ 1]) + data[101:]]


def test_truncated_swapped_and_hostile_weights(exported: Exported, tmp_path: Path) -> None:
    """Each gives an error code, and sanitizers find nothing. Thousands of mutated files of the small networks."""
    (exported.folder / "loads.c").write_text(LOADS)
    build(exported.folder, "net.c", "loads.c", flags=CHECKED, out="loads")
    content = (exported.folder / "net.weights").read_bytes()
    size, draw = int.from_bytes(content[:8], "little"), np.random.RandomState(5)
    other = Exported("lstm" if exported.kind == "mlp" else "mlp", tmp_path / "other").folder / "net.weights"
    files = _hostile(content, other.read_bytes())
    for i in range(MUTATED if len(content) < 1 << 21 else 20):
        damaged = bytearray(content[:draw.randint(len(content))] if i % 4 == 0 else content)
        for _ in range(1 + i % 5):
            if damaged:
                damaged[draw.randint(min(len(damaged), size + 8 if i % 2 else len(damaged)))] ^= 1 << draw.randint(8)
        files.append(bytes(damaged))
    codes = []
    for begin in range(0, len(files), 100):
        paths = [tmp_path / f"{i}.weights" for i in range(len(files[begin:begin + 100]))]
        for path, b in zip(paths, files[begin:]):
            path.write_bytes(b)
        done = subprocess.run([str(exported.folder / "loads"), *map(str, paths)], capture_output=True, text=True,
                              timeout=500)
        assert done.returncode == 0, done.stderr[:2000]
        codes += list(map(int, done.stdout.split()))
    fine = [i for i, c in enumerate(codes) if not c]
    # a changed space of the JSON text changes nothing that is read
    assert len(codes) == len(files) and all(
        files[i][8 + size:] == content[8 + size:] for i in fine) and len(fine) < len(files) // 50, fine
    assert all(codes[:len(_hostile(content, b""))]) and len(set(codes)) >= 5, sorted(set(codes))
