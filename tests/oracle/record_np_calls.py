"""Records what MXNet 1.9.1's np answers to the calls of tests/data/np_calls.txt, one a line: a call and its answer.

Run with a Python that has mxnet 1.9.1: ``python tests/oracle/record_np_calls.py ANSWERS.jsonl``; where MXNet ended the
process, run it again: it goes on behind that call, whose answer is then a crash. ``python -m tests.numpy.np_differences
--write ANSWERS.jsonl`` makes the table of them.
"""
from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

os.environ["MXNET_MKLDNN_ENABLED"] = "0"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.numpy.np_answers import answer  # noqa: E402  beside MXNet
from tests.numpy.np_calls import calls  # noqa: E402

CRASH = ["error", "ended the process", []]


def main() -> None:
    from mxnet import np, npx
    npx.set_np()
    path = Path(sys.argv[1])
    done = {json.loads(line)[0] for line in path.read_text().splitlines()} if path.exists() else set()
    with path.open("a") as out:
        for call in (c for texts in calls().values() for c in texts if c not in done):
            out.write(json.dumps([call, CRASH]) + "\n")          # the line behind it is the answer, if one comes
            out.flush()
            signal.alarm(10)
            found = answer(call, np, lambda a: np.array(a, dtype=a.dtype))
            signal.alarm(0)
            out.write(json.dumps([call, found]) + "\n")


if __name__ == "__main__":
    main()
