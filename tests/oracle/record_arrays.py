"""Records what MXNet 1.9.1 gives for every line of array_lines.py, in processes of their own: some lines end MXNet.

    MXNET_MKLDNN_ENABLED=0 python tests/oracle/record_arrays.py
"""
from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent


def record(lines: list[str]) -> dict[str, object]:
    """Answers to lines, by a process that dies with them; halves are tried where it does."""
    done = subprocess.run([sys.executable, __file__, json.dumps(lines)], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if len(lines) == 1:
        print("MXNet crashes:", lines[0])
        return {}
    middle = len(lines) // 2
    return {**record(lines[:middle]), **record(lines[middle:])}


def answer(lines: list[str]) -> None:
    """In the process: print the answers."""
    warnings.simplefilter("ignore")
    import array_lines
    import mxnet
    import numpy
    found = {}
    for line in lines:
        try:
            found[line] = array_lines.run(mxnet, numpy, line)
        except Exception as err:                              # noqa: BLE001  not recorded: hybrid may do better
            print("MXNet cannot:", line, type(err).__name__, file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    if len(sys.argv) > 1:
        answer(json.loads(sys.argv[1]))
    else:
        from array_lines import LINES
        answers = record(LINES)
        (HERE.parent / "data" / "arrays.json").write_text(json.dumps(answers, indent=0) + "\n")
        print(len(answers), "recorded of", len(LINES))
