"""Lines of code on the modules beside arrays and Gluon, run by MXNet when recording and by hybrid when checking:
module_lines.txt, one a line.

``x`` is ``nd.arange(12).reshape((3, 4))``, ``np`` is NumPy. A line with ``; `` runs its statements first; what the last
part gives is recorded, or the kind of error. ``out(f)`` is what f() prints or logs, line by line.
"""
import contextlib
import io
import logging
import random
import warnings
from pathlib import Path

import array_lines

LINES = [line for line in (Path(__file__).resolve().parent / "module_lines.txt").read_text().splitlines() if line
         and not line.startswith("#")]


def out(function):
    """The lines that a call prints or logs."""
    text = io.StringIO()
    handler, root = logging.StreamHandler(text), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        with contextlib.redirect_stdout(text):
            function()
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return text.getvalue().splitlines()


def run(mx, np, line):
    """What the line gives, as plain data; an error as ["raises", name of its type]."""
    try:
        mx.nd.waitall()                                       # errors of the line before, which MXNet raises late
    except mx.base.MXNetError:
        pass
    random.seed(0)
    np.random.seed(0)
    mx.random.seed(0)
    space = {"mx": mx, "nd": mx.nd, "np": np, "x": mx.nd.arange(12).reshape((3, 4)), "random": random, "out": out,
             "T": mx.gluon.data.vision.transforms}
    *before, last = line.split("; ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for statement in before:
                exec(statement, space)                        # noqa: S102  our own lines
            return plain(mx, np, eval(last, space))           # noqa: S307
    except Exception as err:                                  # noqa: BLE001  the error is the answer
        return ["raises", type(err).__name__]


def plain(mx, np, value):
    """As ``array_lines.plain``, with numbers of six digits, and dicts."""
    if isinstance(value, dict):
        return {str(k): plain(mx, np, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(plain(mx, np, v) for v in value)]
    if isinstance(value, float):
        return float(f"{value:.5g}")
    found = array_lines.plain(mx, np, value)
    return found
