"""Fill a folder with the compiled programs of a script, for a container or a package:

    python -m hybrid.warm FOLDER SCRIPT [ARGUMENT ...]

The script is run as by ``python SCRIPT``. Every program that it compiles, or finds in the disk cache, goes into the
folder too, and what it is is printed. Processes that have HYBRID_WARM=FOLDER find the programs there.
"""
from __future__ import annotations

import argparse
import os
import runpy
import sys
from typing import Sequence

from ..base import config
from ..runtime import launcher, threads, toolchain, warmed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hybrid.warm",
                                     description="Fill a folder with the compiled programs of a script")
    parser.add_argument("folder", help="the folder, which is made where it is not there")
    parser.add_argument("script", help="the Python script that calls the models")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")
    return parser


def _run(script: str, arguments: Sequence[str]) -> int:
    """Run a script as Python does; its exit status."""
    sys.argv[:] = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def main(argv: Sequence[str]) -> int:
    """The command; its exit status, which is the script's where that is not 0."""
    parser = _parser()
    given = parser.parse_args(list(argv))
    if not os.path.isfile(given.script):
        parser.error(f"there is no script {given.script}")
    if toolchain.compiler() is None:
        parser.error("there is no C compiler here, so nothing can be compiled beforehand")
    if config.verify() or config.debug_level():
        parser.error("with HYBRID_VERIFY or HYBRID_DEBUG programs are compiled anew by every process: unset them")
    os.environ["HYBRID_COMPILE"] = "now"
    os.environ.pop("HYBRID_WARM", None)
    try:
        where = warmed.begin(given.folder)
    except OSError as err:
        parser.error(f"the folder {given.folder} cannot be used: {err}")
    # first: what a program's first call builds beside it has a low priority, and would be waited for here
    whole = threads.built() is not None and launcher.built() is not None
    status = _run(given.script, given.arguments)
    if not whole:
        print("without Python's headers (python3-dev) calls of the programs are slower by about two microseconds")
    made = warmed.end()
    print("\n".join(made))
    print(f"{len(made)} programs in {where}; run with HYBRID_WARM={where}")
    if not made and not status:
        print("the script called no hybridized code", file=sys.stderr)
        return 1
    return status
