"""Records the JSON that MXNet 1.9.1 writes for every row of symbols.py, each in a fresh process (names are counted).

    MXNET_MKLDNN_ENABLED=0 python tests/oracle/record_symbols.py
"""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ONE = """
import sys; sys.path.insert(0, sys.argv[1])
import mxnet, symbols
sys.stdout.write(symbols.SYMBOLS[sys.argv[2]](mxnet).tojson())
"""


def main():
    sys.path.insert(0, str(HERE))
    from symbols import SYMBOLS
    found = {}
    for key in SYMBOLS:
        done = subprocess.run([sys.executable, "-c", ONE, str(HERE), key], capture_output=True, check=False)
        if done.returncode:
            print("MXNet cannot:", key, done.stderr.decode().strip().splitlines()[-1][:200])
        else:
            found[key] = done.stdout.decode()
    (HERE / "symbols.json").write_text(json.dumps(found, indent=0))
    print(len(found), "recorded")


if __name__ == "__main__":
    main()
