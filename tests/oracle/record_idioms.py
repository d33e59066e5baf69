"""Records what MXNet 1.9.1 gives for every row of forward_idioms.py: results eagerly, and the graph it exports.

    MXNET_MKLDNN_ENABLED=0 python tests/oracle/record_idioms.py
"""
from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main():
    sys.path.insert(0, str(HERE))
    import forward_idioms
    import mxnet
    import numpy
    arrays, graphs = {}, {}
    for name in forward_idioms.IDIOMS:
        try:
            out, _ = forward_idioms.run(mxnet, name, False)
            arrays.update({f"{name}.{i}": a for i, a in enumerate(out)})
        except Exception as err:                              # noqa: BLE001  reported
            print("MXNet cannot run", name, str(err).strip().splitlines()[-1][:100])
        try:
            with mxnet.name.NameManager(), tempfile.TemporaryDirectory() as folder:
                graphs[name] = forward_idioms.run(mxnet, name, True, folder + "/m")[1]
        except Exception as err:                              # noqa: BLE001  reported
            print("MXNet cannot export", name, str(err).strip().splitlines()[-1][:100])
    numpy.savez_compressed(HERE.parent / "data" / "idioms.npz", **arrays)
    (HERE.parent / "data" / "idioms.json").write_text(json.dumps(graphs, indent=0) + "\n")
    print(len(graphs), "graphs")


if __name__ == "__main__":
    main()
