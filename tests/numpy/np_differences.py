"""Where hybrid.np answers otherwise than NumPy, with MXNet's answer beside it: what test_np_numpy.py holds, and the
page docs/numpy.md.

``python -m tests.numpy.np_differences --write`` measures anew, keeps MXNet's known answers and writes both;
``--write ANSWERS.jsonl`` takes MXNet's answers from tests/oracle/record_np_calls.py.
"""
from __future__ import annotations

import ast
import inspect
import json
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as onp

from hybrid import HybridError, hybridize, np
from tests.numpy.np_answers import Answer, answer, brief, difference
from tests.numpy.np_calls import ARRAYS, calls, evaluate

from ..paths import DATA, ROOT

ARRAY_API, TEXT, RECORD = DATA / "array_api.md", DATA / "numpy.md", DATA / "np_differences.json"
PAGE = ROOT / "docs" / "numpy.md"
FLOATS = ("float16", "float32", "float64")

# a difference that is no rule's: by call, or by how calls begin
SINGLE = {
    "np.reciprocal(": "1 / 0 has no value among integers: 0 here, the least integer in NumPy; of truth values and of "
                      "lists (float32) the fraction",
    "np.diff([True, False])": "a list is an array of float32, also of truth values",
    "np.add(b, True)": "bool and a number add up to int64; of two arrays of bool the result is bool, as NumPy's",
    "np.mean(f4_empty": "MXNet's mean of nothing is 0; np.average gives nan",
    "np.clip(f4, 0)": "one bound may be given alone",
    "np.clip(": "a bound is taken in the array's dtype, and the lower one wins where they cross, as in MXNet",
    "np.array([None])": "None is nan in an array of float32, as in MXNet",
    "np.unique(": "the inverse is a vector, as in MXNet and in NumPy up to 1.26",
    "np.linalg.svd(": "full_matrices is False by default, as in MXNet; True is refused",
    "f4 == ": "what is neither an array nor a number is not equal, as Python's own objects are not",
    "f4 != ": "what is neither an array nor a number is not equal, as Python's own objects are not",
    "type(hash(": "arrays are keys of dictionaries: blocks and gradients are kept by them",
    "f4.__array_priority__": "arrays come before NumPy's in mixed operators, as MXNet's",
    "np.squeeze(f4_0d": "an array without axes has no axis 0",
    "np.split(": "a ShapeError, which is a ValueError",
    "(f4.__setitem__(0, None)": "None is no number",
    "np.positive([1, 2])": "a list is an array of float32",
    "np.histogram(i4": "edges are float32, as MXNet's",
    "np.meshgrid(": "numbers and lists are arrays of float32",
    "np.broadcast_arrays(": "numbers and lists are arrays of float32",
    "np.ravel(": "numbers and lists are arrays of float32", "np.tile(": "numbers and lists are arrays of float32",
    "np.flip(": "numbers and lists are arrays of float32",
    "np.take(f4, f4)": "np.array([0, 2]) is float32: whole numbers of any dtype are indices, as in MXNet",
    "np.round(": "floats alone are rounded, others are what they were", "np.clip(b": "of truth values, truth values",
    "np.diagflat(b)": "truth values become int64", "np.conj": "a copy, in the dtype of the array",
    "np.nansum(": "sums and products keep the integers' dtype, as MXNet's np.sum",
    "np.nanprod(": "sums and products keep the integers' dtype, as MXNet's np.sum",
    "b - b": "b - True is int64 in MXNet; so is the difference of two arrays",
    "operator.isub(b": "b - True is int64 in MXNet; so is the difference of two arrays",
    "np.subtract(b, b)": "b - True is int64 in MXNet; so is the difference of two arrays",
    "np.negative(b)": "-b is int64 in MXNet; so is np.negative(b)",
}
REASONS = {
    "mxnet": "MXNet answers the same",
    "float32": "float32 is the default dtype, and the float's dtype wins beside integers (rules 1 to 3)",
    "integers": "rule 4: sums of integers keep their dtype, arithmetic of truth values is int64",
    "names": "parameters may be given by name (rule 5)",
    "wraps": "integers wrap around (rule 6)",
    "more": "more is taken than NumPy and MXNet take",
    "refused": "refused (rule 7)",
    "class": "another class of error"}

ORDER = ("", "refused", "more", "class", "wraps", "integers", "mxnet", "names", "float32")         # on the page


def reason(call: str, kind: str, ours: Answer, numpys: Answer, mxnets: Answer) -> str:
    """Why a difference stays: a key of REASONS, or the reason itself; "" where none is known."""
    same = not difference(ours, mxnets)
    refused = kind == "error" and numpys[0] == "error"           # NumPy refuses what is answered here
    if kind == "dtype" and _of(ours) in FLOATS and _of(numpys) in (*FLOATS, "int64", "int32", "int16", "bool"):
        return "float32"
    if refused and re.search(r"\b(x|x1|a)=", call):
        return "names"
    if refused and ("OverflowError" in numpys[2] or re.search(r"pow|\*\*", call)):
        return "wraps"
    single = next((text for start, text in SINGLE.items() if call.startswith(start)), "")
    if same or single:
        return "mxnet" if same else single
    if kind == "error":
        return "more" if refused else "refused"
    return {"dtype": "integers", "class of error": "class"}.get(kind, "")


def _of(found: Answer) -> str:
    return next((_of(v) for v in found[1] if _of(v) in FLOATS), "") if found[0] == "list" else found[0]


def ours(call: str) -> Answer:
    return answer(call, np, lambda a: np.array(a, dtype=a.dtype))


def numpys(call: str) -> Answer:
    return answer(call, onp, lambda a: a.copy())


def measured() -> dict[str, tuple[str, str, Answer, Answer]]:
    """Of every call that differs from NumPy: its function, how, and both answers."""
    found = {}
    for name, texts in calls().items():
        for call in texts:
            here, there = ours(call), numpys(call)
            if kind := difference(here, there):
                found[call] = (name, kind, here, there)
    return found


# ---- signatures
def _resolve(space: Any, name: str) -> Any:
    for part in name.split("."):
        space = getattr(space, part, None)
    return space


def _named(call: str, parameters: list[inspect.Parameter], at: int) -> str | None:
    """A call with the parameter ``at`` given by name: its value, or NumPy's default where the call does not give it."""
    tree = ast.parse(call, mode="eval").body
    if not isinstance(tree, ast.Call):
        return None
    given = tree.args[at:]
    if given:
        if any(isinstance(v, ast.Starred) for v in tree.args):
            return None
        tree.args = tree.args[:at]
        tree.keywords += [ast.keyword(p.name, v) for p, v in zip(parameters[at:], given)]
    else:
        default = parameters[at].default
        if not (default is None or isinstance(default, (bool, int, float, str))):
            return None
        tree.keywords.append(ast.keyword(parameters[at].name, ast.Constant(default)))
    return ast.unparse(tree)


def missing() -> dict[str, list[str]]:
    """NumPy's parameters, by function, that a call here cannot give by name; positional-only ones aside."""
    found: dict[str, list[str]] = {}
    for name, texts in calls().items():
        there = _resolve(onp, name)
        call = next((c for c in texts if c.startswith(f"np.{name}(") and "=" not in c
                     and "error" not in (ours(c)[0], numpys(c)[0])), None)
        if call is None or isinstance(there, onp.ufunc):
            continue
        try:
            parameters = list(inspect.signature(there).parameters.values())
        except (TypeError, ValueError):
            continue
        for at, p in enumerate(parameters):
            if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) or p.name in ("like", "subok", "device"):
                continue
            by_name = _named(call, parameters, at)
            if by_name is not None and (got := ours(by_name))[0] == "error" and "TypeError" in got[2] \
                    and numpys(by_name)[0] != "error":
                found.setdefault(name, []).append(p.name)
    return found


# ---- compiled
INPUTS = "b u1 i4 f4 f8 i4_pos f4_pos f4_row unit vec sq cube tall idx".split()


def _compiled_calls() -> dict[str, str]:
    """For each function the first call on a few arrays that gives arrays."""
    found = {}
    for name, texts in calls().items():
        if name.startswith("random.") or name in ("assignment", "in place", "ndarray.sort", "conversion"):
            continue
        for call in texts:
            used = set(re.findall(r"\b\w+\b", call)) & set(ARRAYS)
            if used and used <= set(INPUTS) and "out=" not in call and "error" != numpys(call)[0]:
                got = ours(call)
                if got[0] not in ("error", "other", "int", "float") and got[:2] != ["bool", []]:
                    found[name] = call
                    break
    return found


def eager_alone() -> list[str]:
    """The functions of arrays that are NumPy's own, on copies."""
    return sorted(name for name, texts in calls().items() if not name.startswith("random.")
                  and (getattr(_resolve(np, name), "__doc__", None) or "").startswith("NumPy's own")
                  and any(set(re.findall(r"\b\w+\b", text)) & set(ARRAYS) for text in texts))


def compiled() -> dict[str, Any]:
    """What one program answers to a call of each function, but for those that are NumPy's own."""
    wanted = _compiled_calls()

    def program(given: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for name, call in wanted.items():
            try:
                made[call] = evaluate(call, np, lambda a: np.array(a, dtype=a.dtype), given)
            except (HybridError, AttributeError, TypeError):
                pass
        return made
    return hybridize(program)({name: np.array(ARRAYS[name], dtype=ARRAYS[name].dtype) for name in INPUTS})


# ---- the data and the page
def load() -> dict[str, Any]:
    return json.loads(RECORD.read_text())


def write(answers: Path | None) -> None:
    known = load()["calls"] if RECORD.exists() else {}
    lines = map(json.loads, answers.read_text().splitlines()) if answers else ()
    mxnet = {row[0]: row[1] for row in lines}
    rows: dict[str, list[str]] = {}
    unknown = []
    for call, (name, kind, here, there) in measured().items():
        if call in mxnet:
            why, theirs = reason(call, kind, here, there, mxnet[call]), brief(mxnet[call])
        elif call in known and known[call][1:4] == [kind, brief(here), brief(there)]:
            theirs, why = known[call][4:]
        else:
            why = theirs = ""
        if not why:
            unknown.append(f"{call}: {kind}, here {brief(here)}, NumPy {brief(there)}, MXNet {theirs or 'not asked'}")
        rows[call] = [name, kind, brief(here), brief(there), theirs, why]
    if unknown:
        raise SystemExit("no reason is known for:\n" + "\n".join(unknown))
    text = ",\n".join(f"{json.dumps(call)}: {json.dumps(row)}" for call, row in rows.items())
    extra = json.dumps({"numpy": onp.__version__, "missing": missing(), "eager": eager_alone(), "absent": absent()})
    _replace(RECORD, f'{extra[:-1]}, "calls": {{\n{text}\n}}}}\n')
    _replace(PAGE, page())


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    os.replace(fresh, path)


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|").replace("\n", " ") + "`"


def page() -> str:
    """docs/numpy.md, of the data."""
    data = load()
    groups: dict[str, dict[tuple[str, str], list[tuple[str, list[str]]]]] = {}
    for call, row in data["calls"].items():
        groups.setdefault(row[5] if row[5] in REASONS else "", {}).setdefault((row[0], row[5]), []).append((call, row))
    tables = [_table(key, groups[key]) for key in ORDER if key in groups]
    facts = {"calls": sum(map(len, calls().values())), "functions": len(calls()), "differ": len(data["calls"]),
             "numpy": data["numpy"], "tables": "\n\n".join(tables), "eager": _names(data["eager"]),
             "absent": _names(data["absent"]), "array_api": ARRAY_API.read_text().strip(),
             "missing": "\n".join(f"| `{name}` | {_names(given)} |" for name, given in data["missing"].items())}
    return re.sub(r"\{(\w+)\}", lambda m: str(facts.get(m[1], m[0])), TEXT.read_text())


def _table(key: str, rows: dict[tuple[str, str], list[tuple[str, list[str]]]]) -> str:
    title = REASONS.get(key, "single differences, each with its reason")
    lines = [f"### {title[0].upper()}{title[1:]}", "",
             "| function | call | here | NumPy | MXNet |" + ("" if key else " reason |"),
             "| --- | --- | --- | --- | --- |" + ("" if key else " --- |")]
    for (name, why), cases in rows.items():
        call, row = cases[0]
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        lines.append(f"| `{name}` | {_code(call)}{more} | {_code(row[2])} | {_code(row[3])} | {_code(row[4])} |"
                     + ("" if key else f" {why} |"))
    return "\n".join(lines)


def _names(names: list[str]) -> str:
    return textwrap.fill(", ".join(map(_code, names)), 119, break_on_hyphens=False)


def absent() -> list[str]:
    """Functions of NumPy's that hybrid.np does not have."""
    found = []
    for part in ("", "linalg.", "fft.", "random."):
        space = _resolve(onp, part[:-1]) if part else onp
        for name in dir(space):
            value = getattr(space, name)
            if callable(value) and not name.startswith("_") and not isinstance(value, type):
                if _resolve(np, part + name) is None:
                    found.append(part + name)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        raise SystemExit(__doc__)
    write(Path(sys.argv[2]) if sys.argv[2:] else None)
