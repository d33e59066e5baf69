"""Every form of C kernel under sanitizers: addresses and undefined behaviour for each width of vectors, odd sizes,
arrays that begin anywhere; races between threads. Each configuration is a process of its own (sanit_worker.py), whose
results are also compared with float64.
"""
from __future__ import annotations

import ast
import cProfile
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hybrid import codegen
from hybrid.passes import layout, batch_in_lanes
from hybrid.runtime import build, shared_objects, toolchain

from .sanit_programs import SIZED
from .sanit_worker import CONFIGURATIONS, RACES, cases
from ..paths import ROOT

TESTS = [pytest.param(c, kind, id=f"{c}-{kind}".replace(" ", "_"),
                      marks=[pytest.mark.thorough] if c in ("avx2", "masks", "plain", "races") else [])
         for c, made in CONFIGURATIONS.items() for kind in (*SIZED, *made.fixed)]


def library(sanitize: tuple[str, ...]) -> str:
    """The sanitizer's library, which Python must load first."""
    cc = toolchain.compiler()
    if cc is None or toolchain.is_clang():
        pytest.skip("needs gcc, whose sanitizers can be loaded into Python")
    name = "libtsan.so" if sanitize == RACES else "libasan.so"
    return subprocess.run([cc, f"-print-file-name={name}"], capture_output=True, text=True, check=False).stdout.strip()


def start(arguments: list[str], sanitize: tuple[str, ...], folder: Path,
          function: str = "main") -> "subprocess.CompletedProcess[str]":
    """A process of the worker."""
    loaded = library(sanitize)
    # OpenBLAS has threads of its own that the sanitizer does not see begin; the pool of threads that this run of the
    # tests shares (HYBRID_WARM) was compiled without it, so that it would not see them wait for each other
    env = {**{k: v for k, v in os.environ.items() if k != "HYBRID_WARM"}, "LD_PRELOAD": loaded,
           "HYBRID_CACHE": str(folder), "HYBRID_NUM_THREADS": "2", "HYBRID_VERIFY": "0", "OPENBLAS_NUM_THREADS": "1",
           "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1",
           "TSAN_OPTIONS": "exitcode=0 history_size=7"}
    probe = subprocess.run([sys.executable, "-c", "import numpy; print('runs')"], env=env, capture_output=True,
                           text=True, check=False)
    if not Path(loaded).is_absolute() or probe.stdout != "runs\n":
        pytest.skip(f"Python does not run with {loaded}: {probe.stderr[-300:]}")
    code = (f"import sys; sys.path.append({str(ROOT)!r}); from tests.codegen import sanit_worker; "
            f"sanit_worker.{function}()")
    return subprocess.run([sys.executable, "-c", code, *arguments], env=env, cwd=folder, capture_output=True,
                          text=True, check=False, timeout=1800)


def races(said: str) -> list[str]:
    """What the sanitizer of threads reports, but for two threads that write the same result in one kernel: tiles at an
    edge overlap, and both write the number that the results are compared for. Reading what another thread writes is
    never left out.
    """
    found = []
    for report in re.findall(r"={18}\nWARNING: ThreadSanitizer: .*?\n={18}", said, re.DOTALL):
        accesses = re.findall(r"^  (?:Previous )?((?:atomic )?(?:read|write)) of size \d+ .*\n +(?:#0 (\S+) "
                              r".*\((\S+\.so)\+|\[failed)", report, re.MULTILINE | re.IGNORECASE)
        kinds, where = [kind.lower() for kind, *_ in accesses], {(re.split(r"[_.]", function)[0], library)
                                                                 for _, function, library in accesses if function}
        if not (kinds == ["write", "write"] and len(where) == 1 and re.fullmatch(r"k\d+|<null>", where.pop()[0])):
            found.append(report)
    return found


def test_a_race_is_left_out_only_where_both_threads_write_one_kernels_result() -> None:
    text = "\n".join(["=" * 18, "WARNING: ThreadSanitizer: data race (pid=1)", "  {} of size 8 at 0x1 by thread T1:",
                      "    #0 {} a.c:1 (/x/a.so+0x1)", "",
                      "  Previous {} of size 8 at 0x1:", "    #0 {} a.c:2 ({}+0x2)", "=" * 18])
    rows = [("Write", "k1_out", "write", "k1._omp_fn.0", "/x/a.so"), ("Write", "<null>", "write", "<null>", "/x/a.so"),
            ("Read", "k1_out", "write", "k1_out", "/x/a.so"),
            ("Write", "k1_out", "atomic write", "k1_out", "/x/a.so"),
            ("Write", "k1_out", "write", "k2_out", "/x/a.so"), ("Write", "help", "write", "help", "/x/a.so"),
            ("Write", "k1_out", "write", "k1_out", "/x/b.so")]
    assert [len(races(text.format(*row))) for row in rows] == [0, 0, 1, 1, 1, 1, 1]


@functools.lru_cache(maxsize=len(CONFIGURATIONS))
def outcome(name: str, folder: Path) -> tuple[dict[str, str], str, str]:
    """What was wrong with each program, the one at which the process ended, and what it said."""
    c = CONFIGURATIONS[name]
    cc = toolchain.compiler()
    assert cc is not None
    if not toolchain.accepts(cc, list(c.machine)):
        pytest.skip(f"the compiler does not take {' '.join(c.machine)}")
    if name == "avx512" and toolchain.vector_bytes() < 64:
        pytest.skip("no vectors of 64 bytes here")
    ran = start([name], c.sanitize, folder)
    wrong: dict[str, str] = {}
    sources: dict[str, str] = {}
    last = ""
    for line in ran.stdout.splitlines():
        said = json.loads(line)
        last = said["name"]
        if "wrong" in said:
            wrong[last] = said["wrong"]
        else:
            sources[Path(said["source"]).stem] = last
    for report in races(ran.stderr):
        wrong[next((name for key, name in sources.items() if key in report), last)] = report[:4000]
    return wrong, "" if ran.returncode == 0 else last or "the beginning", ran.stderr[:4000]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sanitized")


@pytest.mark.share(2)
@pytest.mark.parametrize("configuration, kind", TESTS)
def test_kernels(configuration: str, kind: str, folder: Path) -> None:
    library(CONFIGURATIONS[configuration].sanitize)
    wrong, ended, said = outcome(configuration, folder)
    own = {name: text for name, text in wrong.items() if name == kind or name.startswith(f"{kind} ")}
    assert not any(own.values()), {name: text for name, text in own.items() if text}
    assert not ended.startswith(f"{kind} "), said
    assert own, f"not run, because the process ended at {ended}"


# Printers that no program of the corpus needs, and why
ELSEWHERE = {"dialect": "spellings", "rowcall": "test_networks", "sort.print_cuda": "CUDA",
             "pixels_in_lanes.print": "print_convolution calls its parts", "packed.panel": "called while planning",
             "packed.group": "called while planning",
             "packed.blocking": "called while planning", "vector_forms.in_vectors": "asked while planning",
             "loops.store_side": "results beside a plain loop",
             "contraction.turns": "asked while planning",
             "block_loop.block_loop": "test_blocks", "outlining": "test_export_c", "declarations": "test_export_c",
             "plain": "test_export_c", "targets": "test_targets", "registered": "test_outside",
             "merged_launches": "CUDA", "lazy_import": "called by imports", "emit.source": "nd.pick: op_cases_index",
             **dict.fromkeys(("packed_words", "packed_winograd_words"), "needs a processor that multiplies by words"),
             "packed_tiles": "test_tiles",
             **dict.fromkeys(("size_parameters.alone", "tiles.most_rows", "convolution.print_over_any_image"),
                             "programs for any size: test_any_size_products, test_any_size_images, test_export_sizes")}


def forget() -> None:
    """Texts that printers keep: what an earlier test had printed would not be printed again."""
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{codegen.__name__}."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def test_the_corpus_takes_every_printer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each public function and method of the printers of C is called for one of the programs: a new form needs a
    program in sanit_programs.py."""
    monkeypatch.setattr(shared_objects, "build", lambda source: (tmp_path / "a.so", tmp_path / "a.c"))
    monkeypatch.setattr(toolchain, "vector_bytes", lambda: 64)
    monkeypatch.setattr(layout, "LEAST_WORK", 1)
    monkeypatch.setattr(batch_in_lanes, "LEAST_WORK", 1)
    monkeypatch.setattr(batch_in_lanes.BatchInLanes, "_elsewhere", lambda self, c: float("inf"))
    folder, seen = Path(codegen.c.__file__).parent, cProfile.Profile(timer=lambda: 0)
    forget()
    for _, case, _ in cases(CONFIGURATIONS["masks"]):
        planned = build.planned(case[0], case[0].memo.get("frozen", frozenset()))
        with seen:
            build.build(planned)
    codes = [entry.code for entry in seen.getstats() if not isinstance(entry.code, str)]
    called = {(Path(code.co_filename).stem, code.co_name) for code in codes
              if code.co_filename.startswith(str(folder)) and "cuda" not in code.co_filename[len(str(folder)):]}
    trees = {path.stem: ast.parse(path.read_text()).body for path in folder.rglob("*.py")
             if "cuda" not in str(path.relative_to(folder))}
    wanted = {(module, n.name) for module, body in trees.items() for part in body
              for n in (part.body if isinstance(part, ast.ClassDef) else [part])
              if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")}
    missing = {f"{module}.{name}" for module, name in wanted - called if module not in ELSEWHERE}
    left = sorted(missing - set(ELSEWHERE))
    assert not left, " ".join(left)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("configuration", ["avx512", pytest.param("races", marks=pytest.mark.thorough)])
def test_networks(configuration: str, folder: Path) -> None:
    """Training, inference through the launcher, calls from several threads: code, launcher and threads as users have
    them."""
    ran = start([configuration], CONFIGURATIONS[configuration].sanitize, folder, "networks")
    assert ran.returncode == 0 and ran.stdout.endswith("ended\n"), ran.stdout[-500:] + ran.stderr[:4000]
    assert not races(ran.stderr)
