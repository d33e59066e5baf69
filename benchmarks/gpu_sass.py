"""Instructions of a cubin by kind, and its loops: from cuobjdump and nvdisasm (PyPI: nvidia-cuda-cuobjdump,
nvidia-cuda-nvdisasm; or those of a CUDA toolkit on PATH)."""
from __future__ import annotations

import collections
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """One line of SASS."""
    at: int
    predicate: str
    op: str
    operands: str


_INTEGER = (r"IMAD|LEA|IADD|UIADD|UIMAD|ULEA|LOP|SHF|ISETP|VIADD|USHF|ULOP|UISETP|IABS|PRMT|IMNMX|VIMNMX|R2UR|UMOV|MOV|"
            r"SEL|CS2R|PLOP")
KINDS = (("LDG.128", r"LDG.*\.128"), ("LDG.64", r"LDG.*\.64"), ("LDG", r"LDG"), ("STG.128", r"STG.*\.128"),
         ("STG.64", r"STG.*\.64"), ("STG", r"STG"), ("LDGSTS", r"LDGSTS"), ("bulk", r"UBLKCP|UTMA"), ("LDSM", r"LDSM"),
         ("LDS.128", r"LDS.*\.128"), ("LDS.64", r"LDS.*\.64"), ("LDS", r"LDS"), ("STS.128", r"STS.*\.128"),
         ("STS.64", r"STS.*\.64"), ("STS", r"STS"), ("HMMA", r"HMMA"), ("HGMMA", r"HGMMA"), ("FFMA", r"FFMA"),
         ("MUFU", r"MUFU"), ("SHFL", r"SHFL"), ("BAR", r"BAR"), ("local", r"LDL|STL"), ("integer", _INTEGER),
         ("branch", r"BRA|CALL|RET|EXIT"))


@functools.cache
def tool(name: str) -> str:
    """Path of cuobjdump or nvdisasm; empty where it is not installed."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob(f"*/bin/{name}")):
            if os.access(path, os.X_OK):
                return str(path)
    return shutil.which(name) or ""


def available() -> bool:
    """Whether both tools are there."""
    return bool(tool("cuobjdump") and tool("nvdisasm"))


def sass(cubin: bytes) -> dict[str, list[Instruction]]:
    """The instructions of each kernel."""
    if not available():
        raise SystemExit("counting instructions takes cuobjdump and nvdisasm: pip install nvidia-cuda-cuobjdump "
                         "nvidia-cuda-nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        path = os.path.dirname(tool("nvdisasm")) + os.pathsep + os.environ.get("PATH", "")
        done = subprocess.run([tool("cuobjdump"), "-sass", file.name], capture_output=True, text=True, check=True,
                              env={**os.environ, "PATH": path})
    kernels: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    for line in done.stdout.splitlines():
        name = re.search(r"Function : (\w+)", line)
        if name:
            current = kernels.setdefault(name[1], [])
        m = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)", line)
        if m:
            current.append(Instruction(int(m[1], 16), (m[2] or "").strip(), m[3], m[4].split("/*")[0].strip()))
    return kernels


def kind(op: str) -> str:
    """The kind of an instruction."""
    return next((name for name, pattern in KINDS if re.match(pattern, op)), "other")


def counts(instructions: Iterable[Instruction]) -> collections.Counter[str]:
    """Instructions by kind, without NOP."""
    return collections.Counter(kind(i.op) for i in instructions if i.op != "NOP")


def loops(instructions: list[Instruction]) -> list[tuple[int, int, list[Instruction]]]:
    """(first, last, body) of each backward branch that is longer than a wait, and does not come from behind the
    kernel's end, where what seldom happens goes back to its loop."""
    out = []
    for i in instructions:
        to = re.search(r"0x([0-9a-f]+)", i.operands) if i.op.startswith("BRA") else None
        if to and int(to[1], 16) < i.at - 0x20:
            first = int(to[1], 16)
            body = [b for b in instructions if first <= b.at <= i.at]
            if not any(b.op == "EXIT" and not b.predicate for b in body):
                out.append((first, i.at, body))
    return out
