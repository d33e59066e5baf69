"""An error that ends a program shows the user's frames and one of the library's, whatever was called."""
from __future__ import annotations

import dis
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, np, npx, sym
from hybrid.base.errors import _HERE
from hybrid.gluon import nn

X, Y = nd.ones((2, 3)), np.ones((2, 3))


def twice() -> None:
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = x * x
    y.backward()
    y.backward()


def net() -> Any:
    made = nn.Dense(3, in_units=4)
    made.initialize()
    return made


def another_size() -> None:
    made = net()
    made.hybridize()
    made(nd.ones((2, 4)))
    made(nd.ones((2, 7)))


def uninitialized_convolution() -> None:
    made = nn.Conv2D(3, 3)
    made.initialize()
    made(nd.ones((2, 7)))


class Short:
    """A dataset whose samples end early."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> int:
        return [1, 2, 3][i]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged files; a folder that is a file."""
    monkeypatch.chdir(tmp_path)
    Path("bad.params").write_bytes(b"nonsense" * 10)
    Path("bad.json").write_text("{}")


CALLS: dict[str, Callable[[], Any]] = {
    "np.dot": lambda: np.dot(Y, Y),
    "np.reshape": lambda: np.reshape(Y, (5,)),
    "np.reshape method": lambda: Y.reshape(5),
    "np.linalg.inv": lambda: np.linalg.inv(Y),
    "np.linalg.solve": lambda: np.linalg.solve(np.ones((3, 3)), np.ones((2,))),
    "np.concatenate": lambda: np.concatenate([Y, np.ones((3, 2))], axis=0),
    "np.stack": lambda: np.stack([Y, np.ones((3, 2))]),
    "np.add": lambda: np.add(Y, np.ones((5,))),
    "np +": lambda: Y + np.ones((5,)),
    "np.matmul": lambda: np.matmul(Y, Y),
    "np @": lambda: Y @ Y,
    "np.sum axis": lambda: np.sum(Y, axis=5),
    "np sum method": lambda: Y.sum(axis=5),
    "np.transpose": lambda: np.transpose(Y, (0, 5)),
    "np.zeros": lambda: np.zeros((-1,)),
    "np.zeros dtype": lambda: np.zeros((1,), dtype="floaty"),
    "np.array": lambda: np.array(object()),
    "np.einsum": lambda: np.einsum("ij,jk", Y, Y),
    "np.random.normal": lambda: np.random.normal(0, -1, (2,)),
    "np.take": lambda: np.take(Y, np.array([10]), axis=7),
    "np.take axis": lambda: np.take(Y, np.array([0]), axis=7),
    "np.repeat axis": lambda: np.repeat(Y, [1, 2], axis=7),
    "np.delete axis": lambda: np.delete(Y, [0], axis=7),
    "np.fft.fftshift axis": lambda: np.fft.fftshift(Y, 7),
    "np.size axis": lambda: np.size(Y, 7),
    "np.hsplit axis": lambda: np.split(Y, 2, axis=7),
    "np.tile": lambda: np.tile(Y, 1.5),
    "np.empty": lambda: np.empty([[1, 2]]),
    "np.abs out": lambda: np.abs(Y, out=3),
    "nd.random.randint": lambda: nd.random.randint(X, 3),
    "nd.random.poisson": lambda: nd.random.poisson(1, shape=1.5),
    "np.split": lambda: np.split(Y, 5),
    "np kw": lambda: np.sum(Y, axes=1),
    "npx": lambda: npx.softmax(Y, axis=9),
    "npx conv": lambda: npx.convolution(Y, Y, kernel=(3, 3), num_filter=2),
    "x[10]": lambda: X[10],
    "x[1, 2, 3]": lambda: X[1, 2, 3],
    "np x[10]": lambda: Y[10],
    "np x[1, 2, 3]": lambda: Y[1, 2, 3],
    "x['a']": lambda: X['a'],
    "setitem": lambda: X.__setitem__(slice(None), nd.ones((5,))),
    "astype": lambda: X.astype("floaty"),
    "np astype": lambda: Y.astype("floaty"),
    "nd.reshape": lambda: nd.reshape(X, shape=(5,)),
    "x.reshape": lambda: X.reshape((5,)),
    "nd.concat": lambda: nd.concat(X, nd.ones((3, 2, 1)), dim=0),
    "nd.Convolution": lambda: nd.Convolution(X, X, kernel=(3, 3), num_filter=2),
    "nd.FullyConnected": lambda: nd.FullyConnected(X, nd.ones((3, 7)), num_hidden=3, no_bias=True),
    "nd attr": lambda: nd.Pooling(nd.ones((1, 1, 4, 4)), pool_type="sum of", kernel=(2, 2)),
    "nd kw": lambda: nd.Pooling(nd.ones((1, 1, 4, 4)), kernl=(2, 2)),
    "nd.array": lambda: nd.array("abc"),
    "nd.zeros": lambda: nd.zeros((2,), ctx="gpuu"),
    "asscalar": lambda: X.asscalar(),
    "bool": lambda: bool(X),
    "float": lambda: float(X),
    "backward twice": twice,
    "backward none": lambda: nd.ones((2,)).backward(),
    "autograd.grad": lambda: autograd.grad(nd.ones((2,)), [nd.ones((2,))]),
    "attach_grad": lambda: nd.ones((2,)).attach_grad("sometimes"),
    "Trainer opt": lambda: gluon.Trainer(net().collect_params(), "sgdd"),
    "Trainer params": lambda: gluon.Trainer([1, 2], "sgd"),
    "Trainer option": lambda: gluon.Trainer(net().collect_params(), "sgd", {"lr": 1}),
    "Trainer step": lambda: gluon.Trainer(net().collect_params(), "sgd").step(1),
    "nd.load": lambda: nd.load("none"),
    "nd.load bad": lambda: nd.load("bad.params"),
    "nd.save": lambda: nd.save("bad.json/x", X),
    "load_parameters": lambda: net().load_parameters("none"),
    "load_parameters bad": lambda: net().load_parameters("bad.params"),
    "imports": lambda: gluon.SymbolBlock.imports("bad.json", ["data"]),
    "sym.load": lambda: sym.load("none"),
    "data()": lambda: nn.Dense(3, in_units=4).weight.data(),
    "set_data": lambda: net().weight.set_data(nd.ones((9, 9))),
    "Dense wrong": lambda: net()(nd.ones((2, 7))),
    "Conv wrong": lambda: uninitialized_convolution(),
    "uninit": lambda: nn.Dense(3, in_units=4)(nd.ones((2, 4))),
    "hyb wrong": lambda: another_size(),
    "layer arg": lambda: nn.Dense(-3),
    "metric": lambda: mx.metric.Accuracy().update([nd.ones((2,))], [nd.ones((3, 4))]),
    "metric name": lambda: mx.metric.create("accurracy"),
    "loss": lambda: gluon.loss.L2Loss()(nd.ones((2, 3)), nd.ones((5,))),
    "sym bind": lambda: sym.FullyConnected(sym.var("x"), num_hidden=3).bind(mx.cpu(), {}),
    "sym infer": lambda: sym.FullyConnected(sym.var("x"), sym.var("w"), num_hidden=3, no_bias=True).infer_shape(
        x=(2, 3), w=(7, 7)),
    "sym simple_bind": lambda: sym.FullyConnected(sym.var("x"), num_hidden=3).simple_bind(mx.cpu()),
    "DataLoader": lambda: list(gluon.data.DataLoader(Short(), batch_size=2)),
    "DataLoader bs": lambda: gluon.data.DataLoader([1, 2]),
    "explain": lambda: mx.explain(net(), nd.ones((2, 7))),
    "grad": lambda: mx.grad(lambda x: x)(X),
    "vmap": lambda: mx.vmap(lambda x: x, in_axes=5)(X),
    "kv push": lambda: mx.kv.create("local").push(3, X),
    "amp": lambda: mx.contrib.amp.init("float8"),
    "lr": lambda: mx.lr_scheduler.FactorScheduler(step=0),
    "init": lambda: mx.initializer.create("xaviour"),
    "initialize": lambda: nn.Dense(3, in_units=3).initialize("xaviour"),
    "opt": lambda: mx.optimizer.create("adamm"),
    "ctx": lambda: X.as_in_context(mx.gpu(7)),
    "image": lambda: mx.image.imread("none.png"),
    "imresize": lambda: mx.image.imresize(X, 0, 0),
    "hybridize opt": lambda: mx.hybridize(lambda x: x, statik=True),
    "export": lambda: net().export("x"),
    "zoo": lambda: gluon.model_zoo.get_model("resnet19"),
    "while_loop": lambda: nd.contrib.while_loop(lambda x: x, lambda x: x, [X]),
    "foreach": lambda: nd.contrib.foreach(lambda x, s: x, X, []),
    "while_loop body": lambda: nd.contrib.while_loop(lambda x: x < 5, lambda x: x, [nd.ones((1,))], 3),
    "broadcast_to": lambda: X.broadcast_to((5, 5)),
    "clip": lambda: gluon.utils.clip_global_norm([], 1),
    "split_load": lambda: gluon.utils.split_and_load(nd.ones((3, 2)), [mx.cpu(0), mx.cpu(1)]),
    "NDArrayIter": lambda: mx.io.NDArrayIter(nd.ones((4, 2)), nd.ones((3,)), batch_size=2),
    "module": lambda: mx.mod.Module(sym.FullyConnected(sym.var("data"), num_hidden=3), label_names=[]).forward(None),
    "dlpack": lambda: np.from_dlpack(3),
}


def files(text: str) -> list[str]:
    """The file of each frame of a printed traceback."""
    return [line.split('"')[1] for line in text.splitlines() if line.strip().startswith('File "')]


@pytest.mark.parametrize("name", CALLS)
def test_one_frame_of_the_library(name: str, capsys: pytest.CaptureFixture[str],
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python prints the error at the end of a program; with HYBRID_DEBUG=1 every frame is there."""
    with pytest.raises(Exception) as found:  # noqa: PT011  any: those of Python among them
        CALLS[name]()
    err, trace = found.value, found.value.__traceback__
    monkeypatch.setenv("HYBRID_DEBUG", "1")
    sys.excepthook(type(err), err, trace)
    whole = files(capsys.readouterr().err)
    monkeypatch.delenv("HYBRID_DEBUG")
    sys.excepthook(type(err), err, trace)
    said = capsys.readouterr().err
    shown = files(said)
    assert [f.startswith(_HERE) for f in shown].count(True) == 1 and len(whole) >= len(shown)
    assert [f for f in shown if not f.startswith(_HERE)] == [f for f in whole if f == __file__]
    assert "The above exception" not in said and "During handling" not in said


NOT_OURS = {"DataLoader", "dlpack"}          # the user's own error, and NumPy's


def raised_by_the_library(err: BaseException) -> bool:
    """Whether the innermost frame is at a ``raise`` of the library."""
    trace: Any = err.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    steps = {i.offset: i.opname for i in dis.get_instructions(trace.tb_frame.f_code)}
    return trace.tb_frame.f_code.co_filename.startswith(_HERE) and steps[trace.tb_lasti] == "RAISE_VARARGS"


@pytest.mark.parametrize("name", sorted(set(CALLS) - NOT_OURS))
def test_errors_are_raised_on_purpose(name: str) -> None:
    """And not where Python stumbled over what was given. The message calls operators by names that users write."""
    with pytest.raises(Exception) as found:  # noqa: PT011
        CALLS[name]()
    assert isinstance(found.value, mx.HybridError) or raised_by_the_library(found.value)
    assert not re.search(r"\b_np|operator _", str(found.value))


def test_messages() -> None:
    """What was given, and what would do."""
    said = {}
    for name in ("np.dot", "np.matmul", "np.take axis", "foreach", "np.tile", "np.abs out", "np.reshape"):
        with pytest.raises(Exception) as found:  # noqa: PT011
            CALLS[name]()
        said[name] = str(found.value)
    assert "axis 1 of the first has length 3, axis 0 of the second 2" in said["np.dot"]
    assert "the columns of the first, 3, must be as many as the rows of the second, 2" in said["np.matmul"]
    assert said["np.take axis"] == "np.take: axis 7 is out of range for an array of 2 axes: use -2 to 1"
    assert said["foreach"] == "foreach: body must return two values, (output, states), it returned NDArray"
    assert "a tuple of integers, such as (2, 3), got 1.5" in said["np.tile"]
    assert said["np.abs out"] == "out is the array to write into, got int 3"
    assert said["np.reshape"].startswith("operator np.reshape: cannot reshape (2, 3) (6 elements) to (5,)")


def run(folder: Path, text: str, *how: str) -> str:
    (folder / "program.py").write_text(text)
    return subprocess.run([sys.executable, *how, str(folder / "program.py")], capture_output=True, text=True,
                          env={**os.environ, "HYBRID_DEBUG": "0"}).stderr


def test_programs_threads_and_mxnets_programs(tmp_path: Path) -> None:
    said = run(tmp_path, "from hybrid import nd\ndef f():\n    nd.load('none')\nf()\n")
    assert [f.startswith(_HERE) for f in files(said)] == [False, False, True] and "no file 'none'" in said
    said = run(tmp_path, "import threading\nfrom hybrid import np\n"
                         "threading.Thread(target=lambda: np.ones((2, 3))[10]).start()\n")
    assert sum(f.startswith(_HERE) for f in files(said)) == 1 and "IndexError" in said and "program.py" in said
    said = run(tmp_path, "import mxnet as mx\nmx.nd.ones((2, 3)).reshape((7,))\n", "-m", "hybrid.as_mxnet")
    assert files(said) == [str(tmp_path / "program.py")] and "cannot reshape" in said


def test_workers_of_a_loader(tmp_path: Path) -> None:
    """The frames of the worker that made the sample, and those of the loop."""
    said = run(tmp_path, "from hybrid import gluon, nd\nclass Data:\n    def __len__(self):\n        return 4\n"
                         "    def __getitem__(self, i):\n        return nd.ones((2, 3)).reshape((5,))\n"
                         "if __name__ == '__main__':\n"
                         "    list(gluon.data.DataLoader(Data(), batch_size=2, num_workers=1))\n")
    assert [f.startswith(_HERE) for f in files(said)] == [False, True, False, True] and "in a worker process" in said


def test_errors_of_the_users_own_stay_whole(tmp_path: Path) -> None:
    """And so do those that the library does not raise on purpose."""
    said = run(tmp_path, "import hybrid, json\ndef f():\n    json.loads('{')\nf()\n")
    assert sum("json" in f for f in files(said)) >= 2 and "JSONDecodeError" in said
    said = run(tmp_path, "from hybrid.base import atomic\natomic.replacing = None\nfrom hybrid import nd\n"
                         "import hybrid.serialize.params as p\np.replacing = None\nnd.save('x', nd.ones((2,)))\n")
    assert sum(f.startswith(_HERE) for f in files(said)) > 1 and "NoneType" in said


def test_a_hook_of_the_users_is_called(tmp_path: Path) -> None:
    said = run(tmp_path, "import sys\nsys.excepthook = lambda *e: print('mine', e[0].__name__, file=sys.stderr)\n"
                         "import hybrid\nhybrid.nd.load('none')\n")
    assert said.strip() == "mine MissingFileError"


def test_ipython(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    (tmp_path / "x.py").write_text("from hybrid import np\nnp.linalg.inv(np.ones((2, 3)))\n")
    done = subprocess.run([sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", str(tmp_path / "x.py")],
                          capture_output=True, text=True, env={**os.environ, "IPYTHONDIR": str(tmp_path)})
    said = done.stdout + done.stderr
    assert "ShapeError" in said and "x.py:2" in said and said.count("hybrid/") <= 1
