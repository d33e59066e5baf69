"""Targets of the C printer are rows (hybrid/codegen/targets.py). C99 without vectors, by tcc, computes the tables of
operators and programs of every kind of kernel."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hybrid.codegen import targets
from hybrid.kernels import text as kernel_text

from ..paths import ROOT



@pytest.mark.skipif(shutil.which("tcc") is None, reason="needs tcc (Debian: tcc)")
def test_c99_computes_the_tables(tmp_path: Path) -> None:
    code = f"import sys; sys.path.append({str(ROOT)!r}); from tests.codegen import target_worker; target_worker.main()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=1800,
                         env={**os.environ, "HYBRID_WARM": "", "HYBRID_CC": "tcc", "HYBRID_CACHE": str(tmp_path),
                              "HYBRID_VERIFY": "0"})
    assert ran.returncode == 0, ran.stderr[-3000:]
    out = json.loads(ran.stdout)
    assert (out["target"], out["vector"]) == ("C99", 4)
    for kind, least in (("operators", 600), ("programs", 80)):
        count, wrong = out[kind]
        assert count >= least and not wrong, wrong


def test_a_compiler_is_of_one_target() -> None:
    assert targets.row_of("/usr/bin/gcc gcc (Debian 14.2.0) 14.2.0").name == "GNU C"
    assert targets.row_of("/usr/bin/tcc tcc version 0.9.27 (x86_64 Linux)").name == "C99"
    with pytest.raises(ValueError, match="'C99' already"):
        targets.register(targets.Row("C99", (), 4))


def test_what_only_c99_uses_is_short() -> None:
    own = kernel_text("c", "standard.h").splitlines() + Path(targets.__file__).read_text().splitlines()
    assert len(own) < 150
