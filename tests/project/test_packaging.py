"""The package is what setup.cfg says: folders, kernel sources, needs."""
from __future__ import annotations

import ast
import configparser
import datetime
import io
import re
import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hybrid

from ..paths import ROOT, TESTS



def config() -> configparser.ConfigParser:
    out = configparser.ConfigParser()
    out.read(ROOT / "setup.cfg")
    return out


def folder(package: str) -> Path:
    """The folder of a package: those of codegen and kernels lie beside hybrid."""
    parts = package.split(".")
    return ROOT.joinpath(*(parts[1:] if parts[1:2] in (["codegen"], ["kernels"]) else parts))


def test_releases_in_the_changelog_have_their_day() -> None:
    """The newest heading is this version's; it alone may be without a day, while it is not released."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.findall(r"^## (\d+\.\d+\.\d+) \((unreleased|\d{4}-\d\d-\d\d)\)$", text, re.M)
    assert len(found) == len(re.findall(r"^## ", text, re.M)), "a heading is `## 1.2.3 (2026-12-31)` or `(unreleased)`"
    assert found[0][0] == config()["metadata"]["version"]
    days = [datetime.date.fromisoformat(day) for _, day in found if day != "unreleased"]
    assert len(days) >= len(found) - 1 and days == sorted(days, reverse=True)
    versions = [tuple(map(int, version.split("."))) for version, _ in found]
    assert versions == sorted(set(versions), reverse=True)


def test_packages_are_the_folders() -> None:
    listed = set(config()["options"]["packages"].split())
    found = {".".join([*above, *p.parent.relative_to(ROOT).parts])
             for above, top in (((), "hybrid"), (("hybrid",), "codegen"), (("hybrid",), "kernels"))
             for p in (ROOT / top).rglob("__init__.py")}
    assert listed == found
    assert all((folder(p) / "__init__.py").is_file() for p in listed)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of git")
def test_programs_left_no_files_in_the_root() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    kinds = {Path(f).suffix or Path(f).name for f in files if f and "/" not in f}
    assert kinds <= {".md", ".toml", ".cfg", ".gitignore", "LICENSE", "Makefile"}


def test_kernel_sources_are_package_data() -> None:
    patterns = config()["options.package_data"]["hybrid.kernels"].split()
    shipped = {f for p in patterns for f in (ROOT / "kernels").glob(p)}
    sources = {f for f in (ROOT / "kernels").rglob("*") if f.is_file() and (
        f.suffix in (".h", ".c", ".cpp", ".cu", ".cuh") or "export" in f.parts)}
    assert shipped == sources


def test_extras_for_gpus_bring_the_compiler() -> None:
    """CuPy's wheels bring neither NVRTC nor cuBLAS; their extra ctk does."""
    extras = config()["options.extras_require"]
    for n in (12, 13):
        name, _, version = extras[f"cuda{n}"].partition(">=")
        assert name == f"cupy-cuda{n}x[ctk]" and int(version) >= 14                 # the first with bfloat16


def needed(module: ast.Module) -> set[str]:
    """Packages without which a file of tests is skipped as a whole."""
    calls = [s.value for s in module.body if isinstance(s, (ast.Expr, ast.Assign)) and isinstance(s.value, ast.Call)]
    return {ast.literal_eval(c.args[0]) for c in calls if ast.unparse(c.func) == "pytest.importorskip"}


def test_files_of_tests_are_skipped_with_those_they_import() -> None:
    """Where a package is missing, one file that cannot be imported ends the whole run."""
    modules = {p.stem: ast.parse(p.read_text()) for p in (ROOT / "tests").glob("*/test_*.py")}
    assert needed(modules["test_serve"])
    for name, module in modules.items():
        for s in module.body:
            other = str(s.module).split(".")[-1] if isinstance(s, ast.ImportFrom) and s.level else ""
            if other in modules:
                assert needed(modules[other]) <= needed(module), f"{name}.py imports from {other}.py"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_checkout_works_from_its_own_folder() -> None:
    code = (f"import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in "
            f"repr(f).lower()]\nsys.path.insert(0, {str(ROOT)!r})\nimport hybrid as mx\n"
            "import hybrid.codegen.c, hybrid.kernels\nprint(hybrid.kernels.__file__, mx.hybridize(lambda x: x * "
            "2)(mx.nd.ones((1,), ctx=mx.cpu())).asscalar())")
    assert run(code).split() == [str(ROOT / "kernels" / "__init__.py"), "2.0"]


def test_import_needs_numpy_and_cffi_alone() -> None:
    blocked = ["cupy", "onnx", "torch", "matplotlib", "ml_dtypes", "tqdm", "pytest", "scipy"]
    code = (f"import sys\nfor m in {blocked}: sys.modules[m] = None\nimport hybrid\nprint(hybrid.nd.ones((2,), "
            f"ctx=hybrid.cpu()).sum().asscalar())")
    assert run(code).strip() == "2.0"


def test_public_names() -> None:
    expected = {"nd", "sym", "np", "npx", "gluon", "autograd", "random", "init", "cpu", "gpu", "Context", "hybridize",
                "NDArray", "Symbol", "waitall"}
    assert expected <= set(dir(hybrid))


@pytest.mark.skipif(not (ROOT / "LICENSE").is_file(), reason="not a checkout")
def test_licence() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()


SPACES = {"hybrid": hybrid, "nd": hybrid.nd, "np": hybrid.np, "npx": hybrid.npx, "gluon": hybrid.gluon}


@pytest.mark.parametrize("name", SPACES)
def test_dir_is_the_public_surface(name: str) -> None:
    """``data/public_names.txt`` holds what each namespace shows; a name that comes or goes is put there on purpose."""
    text = (TESTS / "data/public_names.txt").read_text(encoding="utf-8")
    public = dict(part.split(":", 1) for part in text.split("\n\n"))
    assert dir(SPACES[name]) == public[name].split()
    missing = [n for n in dir(SPACES[name]) if not hasattr(SPACES[name], n)]
    assert not missing


def test_an_sdist_of_the_same_files_has_the_same_bytes(tmp_path: Path) -> None:
    """Whoever made it, when, and in which order."""
    rewritten = runpy.run_path(str(ROOT / ".ci" / "same_bytes.py"))["rewritten"]
    made = []
    for k, names in enumerate((["b/one.py", "b/two.py"], ["b/two.py", "b/one.py"])):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.uid, member.uname, member.mode = 4, 7 * k, k, f"u{k}", 0o664 - 32 * k
                archive.addfile(member, io.BytesIO(b"x=1\n"))
        made.append(rewritten(out.getvalue(), 1_700_000_000))
    assert made[0] == made[1]
    with tarfile.open(fileobj=io.BytesIO(made[0])) as archive:
        assert [m.mtime for m in archive] == [1_700_000_000] * 2 and archive.extractfile("b/one.py").read() == b"x=1\n"


def test_a_wheel_of_the_same_files_has_the_same_bytes() -> None:
    """Whatever the umask of whoever built it; programs stay programs."""
    rewritten = runpy.run_path(str(ROOT / ".ci" / "same_bytes.py"))["rewritten_wheel"]
    made = []
    for k, mode in enumerate((0o664, 0o600)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, bits in (("b/one.py", mode), ("b/tool", mode | 0o100)):
                member = zipfile.ZipInfo(name, (2020 + k, 1, 1, 0, 0, 0))
                member.external_attr = (0o100000 | bits) << 16
                archive.writestr(member, b"x=1\n")
        made.append(rewritten(out.getvalue(), 1_700_000_000))
    assert made[0] == made[1]
    with zipfile.ZipFile(io.BytesIO(made[0])) as archive:
        assert [oct(m.external_attr >> 16) for m in archive.infolist()] == ["0o100644", "0o100755"]
        assert archive.read("b/one.py") == b"x=1\n" and archive.infolist()[0].date_time[:3] == (2023, 11, 14)
