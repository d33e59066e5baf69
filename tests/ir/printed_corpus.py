"""The C and CUDA of a corpus of programs, to see what a change of the code generator changes.

``python -m tests.ir.printed_corpus FOLDER`` writes each program's text into a folder, nothing is compiled; compare two
with ``diff``.
"""
from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterator

import hybrid as mx
from hybrid.codegen import cuda
from hybrid.export import export_c
from hybrid.passes import batch_in_lanes, layout
from hybrid.passes.low_precision import in_bfloat16
from hybrid.passes.pipeline import plan
from hybrid.runtime import build, shared_objects, toolchain
from hybrid.runtime.cuda import program as cuda_program

from ..cuda import cuda_forms
from .. import programs
from ..codegen import sanit_programs, test_packed_convolutions

MACHINES = {"avx512": (64, (17, 65)), "masks": (64, (3, 63)), "avx2": (32, (7, 31)), "plain": (16, (13,)),
            "none": (4, (5,))}


@contextlib.contextmanager
def machine(vector: int) -> Iterator[None]:
    """A machine with vectors of so many bytes, for which nothing is compiled."""
    before = shared_objects.build, shared_objects.begin, toolchain.vector_bytes, shared_objects.ran
    shared_objects.build = lambda source: (Path("a.so"), Path("a.c"))         # type: ignore[assignment]
    shared_objects.begin = lambda source: lambda: (Path("a.so"), Path("a.c"))  # type: ignore[assignment]
    toolchain.vector_bytes = lambda: vector                              # type: ignore[assignment]
    shared_objects.ran = lambda library: True                                 # type: ignore[assignment]
    layout.LEAST_WORK = batch_in_lanes.LEAST_WORK = 1
    try:
        yield
    finally:
        shared_objects.build, shared_objects.begin, toolchain.vector_bytes, shared_objects.ran = before


def sources(built: Any) -> Iterator[str]:
    """The texts of a program and of the one that prepares its values."""
    yield built.source
    if built.prepare is not None:
        yield from sources(built.prepare)


def c_texts() -> Iterator[tuple[str, str]]:
    """C of all programs for all machines."""
    for name, (vector, sizes) in MACHINES.items():
        fixed = [c for make in sanit_programs.FIXED.values() for c in make()] if name == "masks" else []
        cases = [(n, case) for n, case, _ in (*sanit_programs.sized(sizes), *fixed)]
        with machine(vector):
            for n, case in [*cases, *programs.cases().items()]:
                planned = build.planned(case[0], case[0].memo.get("frozen", frozenset()))
                yield f"c {name} {n}", "\n".join(sources(build.build(planned)))


def narrow_texts() -> Iterator[tuple[str, str]]:
    """C of products of bfloat16 numbers, by words of 32 bits and by tiles of them."""
    for words in (frozenset({"bfloat16"}), frozenset({"bfloat16", "tiles"})):
        with machine(64):
            for name in test_packed_convolutions.SHAPES:
                p, *_ = test_packed_convolutions.program(name)
                frozen = p.memo["frozen"]
                text = sources(build.build(build.planned(in_bfloat16(p, frozen, words), frozen, words)))
                yield f"c {' '.join(sorted(words))} {name}", "\n".join(text)


def cuda_texts() -> Iterator[tuple[str, str]]:
    """CUDA of all programs."""
    found = {**{n: c[0] for n, c in programs.cases().items()},
             "forms": cuda_forms.program(list(cuda_forms.FORMS.values()))[0],
             **{n: case[0] for n, case, _ in sanit_programs.sized((17,))}}
    for n, p in found.items():
        planned = plan(p, cuda_program.JOINING)
        yield f"cuda {n}", cuda.print_program(planned.groups).source


def exported_texts() -> Iterator[tuple[str, str]]:
    """C files of networks, with vectors and in standard C."""
    nn = mx.gluon.nn
    mx.random.seed(1)
    nets = {"lenet": (nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Flatten(),
                      nn.Dense(84, activation="tanh"), nn.LayerNorm(), nn.Dense(10))}
    for name, layers in nets.items():
        net = nn.HybridSequential()
        net.add(*layers)
        net.initialize(mx.init.One())
        for shape in ((1, 1, 28, 28), (64, 1, 28, 28)):
            for plain in (False, True):
                with TemporaryDirectory() as folder:
                    for path in export_c(net, folder, shape, name=name, plain=plain):
                        if path.suffix in (".c", ".h"):
                            yield f"export {name} {shape[0]} {plain} {path.name}", path.read_text()


def main() -> None:
    """Writes all texts into a folder."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True)
    for name, text in (*c_texts(), *narrow_texts(), *cuda_texts(), *exported_texts()):
        (out / name.replace(" ", "_").replace("/", "_")).write_text(text)


if __name__ == "__main__":
    main()
