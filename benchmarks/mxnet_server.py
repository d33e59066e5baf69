"""Run by a Python that has MXNet 1.9.1: times the Gluon networks of nets.py on request, so that it takes turns with the
others.

Each line read is JSON: {"title": ..., "file": parameters} builds a workload, answered by {"out": file} for networks;
{"calls": n} times n calls, answered by {"seconds": s}.
"""
import json
import os
import sys
import time

os.environ["BENCH_FRAMEWORK"] = "mxnet"
import numpy as np  # noqa: E402
import nets  # noqa: E402
from nets import mx  # noqa: E402

real, sys.stdout = sys.stdout, sys.stderr         # only answers go to standard output


def answer(**fields):
    real.write(json.dumps(fields) + "\n")
    real.flush()


def prepare(title, file):
    work = next(w for w in nets.INFERENCE + nets.TRAINING if w.title == title)
    net = work.make()
    rng = np.random.RandomState(0)
    if isinstance(work, nets.Step):
        net.load_parameters(file)
        net.hybridize(static_alloc=True, static_shape=True)
        step, x, y = (nets.gluon_step(net, work), mx.nd.array(rng.rand(*work.shape)),
                      mx.nd.array(rng.randint(0, 10, work.shape[0])))

        def call():
            step(x, y)
            mx.nd.waitall()
        return call, None
    if net.collect_params():
        net.load_parameters(file)
    net.hybridize(static_alloc=True, static_shape=True)
    xs = [mx.nd.array(rng.standard_normal(s).astype("float32")) for s in work.shapes]
    return (lambda: net(*xs).wait_to_read()), net(*xs).asnumpy()


call = None
for line in sys.stdin:
    request = json.loads(line)
    if "title" in request:
        call, out = prepare(request["title"], request["file"])
        if out is not None:
            np.save(request["file"] + ".npy", out)
        answer(ready=True)
    else:
        begin = time.perf_counter()
        for _ in range(request["calls"]):
            call()
        answer(seconds=time.perf_counter() - begin)
