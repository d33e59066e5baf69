"""The C kernels on aarch64, where a cross compiler and an emulator are installed (Debian: gcc-aarch64-linux-gnu,
libc6-dev-arm64-cross, qemu-user-static)."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .cross_worker import TARGETS
from ..paths import ROOT



@pytest.mark.skipif(bool(TARGETS["aarch64"].missing()), reason=TARGETS["aarch64"].missing())
def test_every_program(tmp_path: Path) -> None:
    code = (f"import sys; sys.path.append({str(ROOT)!r}); from tests.codegen import cross_worker; "
            "cross_worker.main('aarch64')")
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)],
                         env={**os.environ, "HYBRID_CACHE": str(tmp_path / "cache"), "HYBRID_VERIFY": "0"},
                         capture_output=True, text=True, check=False, timeout=1800)
    said = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.returncode == 0 and len(said) > 60, ran.stderr[-2000:]
    assert [s for s in said if s[1]] == []
