"""Records what MXNet 1.9.1 gives for every line of operator_lines.txt, in processes of their own: some lines end MXNet.

    MXNET_MKLDNN_ENABLED=0 python tests/oracle/record_operator_lines.py
"""
from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent))                            # behind installed packages: its folders have their names

import numpy as np  # noqa: E402
import operator_lines  # noqa: E402
import packed_arrays  # noqa: E402


def record(numbers: list[int]) -> dict[str, np.ndarray]:
    """Answers to lines, by a process that dies with them; halves are tried where it does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.npz"
        done = subprocess.run([sys.executable, __file__, str(path), *map(str, numbers)], capture_output=True,
                              text=True, check=False)
        if done.returncode == 0:
            print(done.stdout, end="")
            return packed_arrays.load(path)
    if len(numbers) == 1:
        print("MXNet crashes:", operator_lines.LINES[numbers[0]])
        return {}
    middle = len(numbers) // 2
    return {**record(numbers[:middle]), **record(numbers[middle:])}


def answer(path: Path, numbers: list[int]) -> None:
    """In the process: the answers, by the line's number and the array's name."""
    import mxnet
    found: dict[str, np.ndarray] = {"none": np.zeros(1, np.float32)}
    for k in numbers:
        try:
            found.update({f"{k}.{name}": value
                          for name, value in operator_lines.run(mxnet, operator_lines.LINES[k]).items()})
        except Exception as err:                              # noqa: BLE001  not recorded: hybrid may do better
            print("MXNet cannot:", operator_lines.LINES[k], type(err).__name__)
    packed_arrays.save(path, found)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        answer(Path(sys.argv[1]), [int(a) for a in sys.argv[2:]])
    else:
        answers = record(list(range(len(operator_lines.LINES))))
        packed_arrays.save(HERE.parent / "data" / "operator_lines.npz", answers)
        print(len({name.split(".")[0] for name in answers}) - 1, "recorded of", len(operator_lines.LINES))
