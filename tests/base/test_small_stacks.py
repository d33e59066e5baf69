"""Compiled programs in threads with a stack of 256 KB: kernels' own arrays do not stand there."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hybrid.runtime.cpu import has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="needs a compiler")

PROGRAM = """
import threading
import numpy as np
import hybrid as mx
from hybrid import autograd, nd
from hybrid.gluon import nn

def chain(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net

def conv(filters, size, **more):                 # smooth: of a unit that is zero but for rounding relu passes the gradient on, or not
    return nn.Conv2D(filters, size, activation="tanh", **more)

rng = np.random.default_rng(0)
NETS = {
    "winograd": (chain(conv(192, 3, padding=1), conv(64, 3, padding=1)), (1, 160, 24, 24)),
    "volume": (chain(nn.Conv3D(64, 3, padding=1), nn.Conv3DTranspose(16, 2, 2), nn.MaxPool3D(2)), (1, 64, 4, 12, 12)),
    "direct": (chain(conv(48, 5, strides=2), nn.MaxPool2D(3, 2), conv(64, 1), conv(64, 3, padding=1, groups=64)), (2, 20, 33, 35)),
    "pictures": (chain(conv(20, 5), nn.MaxPool2D(2, 2), conv(50, 5), nn.MaxPool2D(2, 2), nn.Dense(500, activation="tanh"), nn.Dense(10)), (16, 1, 28, 28)),
    "dense": (chain(nn.Dense(512, activation="tanh"), nn.Dense(300, activation="tanh")), (96, 2000)),
    "few channels": (chain(conv(3, 3, padding=1), conv(2, 7, padding=3), nn.AvgPool2D(3, 1, 1)), (4, 3, 90, 90)),
}

def same(name, found, wanted):
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max(), name

def trained(net, x):
    with autograd.record():
        y = net(x)
    y.backward()
    return y.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values())

results = {}
def work():
    for name, (net, x) in NETS.items():
        results[name] = net(x).asnumpy(), trained(net, x)

wanted = {}
mx.random.seed(7)
for name, (net, shape) in NETS.items():
    net.initialize(mx.init.Xavier())
    x = nd.array(rng.standard_normal(shape, dtype="float32"))
    NETS[name] = net, x
    wanted[name] = net(x).asnumpy(), trained(net, x)
    net.hybridize()
    net(x), trained(net, x)                    # the compiler's own threads are Python's
threading.stack_size(256 << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
for name in NETS:
    same(name, results[name][0], wanted[name][0])
    for found, exact in zip(results[name][1], wanted[name][1], strict=True):
        same(name, found, exact)
print("done", len(results))
"""  # noqa: E501


def test_threads_of_256_kilobytes() -> None:
    env = {**os.environ, "HYBRID_NUM_THREADS": "1", "HYBRID_TUNE": "0"}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False,
                         timeout=600)
    assert ran.stdout == "done 6\n", (ran.returncode, ran.stdout, ran.stderr[-2000:])


COLD = """
import threading
import numpy as np
from hybrid import hybridize, nd

def chain(x):
    for i in range(300):
        x = nd.sin(x) * 1.5 + i
    return x

x = nd.array(np.ones((3, 4), "float32"))
threading.stack_size(64 << 10)
thread = threading.Thread(target=lambda: print(np.abs(hybridize(chain)(x).asnumpy() - chain(x).asnumpy()).max() < 1e-2))
thread.start()
thread.join()
"""


def test_a_deep_graph_is_compiled_in_a_thread_of_64_kilobytes(tmp_path: Path) -> None:
    """With an empty cache: the passes, the printer and the compiler's start all run on the thread's own stack."""
    tmp_path.chmod(0o700)
    env = {**os.environ, "HYBRID_CACHE": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", COLD], env=env, capture_output=True, text=True, check=False,
                         timeout=300)
    assert ran.stdout == "True\n", (ran.returncode, ran.stdout, ran.stderr[-2000:])
