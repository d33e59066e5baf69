"""Small programs whose answers MXNet 1.9.1 gave: executors, modules, kvstores, SVRG, operators in NumPy, data sets that
are fetched."""
from __future__ import annotations

import gzip
import hashlib
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, io, nd, sym
from hybrid.contrib.svrg_optimization import SVRGModule

CPU = mx.cpu()
var = sym.var


# ---- executors
def test_outputs_are_written_in_place() -> None:
    a = nd.array([1.])
    e = (var("d") * 2).bind(CPU, {"d": a})
    held = e.outputs[0]
    e.forward()
    view = held[0:1]
    first = held.asscalar()
    a[:] = 5
    e.forward(is_train=True)
    assert (first, held.asscalar(), view.asscalar(), e.outputs[0] is held) == (2., 10., 10., True)


def test_an_output_that_is_an_argument_does_not_alias_it() -> None:
    a = nd.array([1.])
    e = var("d").bind(CPU, {"d": a}, args_grad={"d": nd.zeros((1,))})
    e.forward(is_train=True)[0][:] = 7
    assert a.asscalar() == 1.


def test_backward_takes_is_train_and_more_gradients_than_outputs() -> None:
    e = (var("a") * 2).simple_bind(CPU, a=(1,))
    e.forward(is_train=True)
    e.backward([nd.ones((1,)) * 3, nd.ones((1,))], is_train=True)
    assert e.grad_dict["a"].asscalar() == 6.


def test_group2ctx() -> None:
    with mx.AttrScope(ctx_group="d1"):
        b = var("a") * 2
    with mx.AttrScope(ctx_group="d2"):
        c = b + var("c")
    e = c.simple_bind(mx.cpu(0), a=(2,), c=(2,), group2ctx={"d1": mx.cpu(1), "d2": mx.cpu(2)})
    e.forward()
    assert [str(x.context) for x in (*e.arg_arrays, *e.grad_arrays,
                                     *e.outputs)] == ["cpu(1)", "cpu(2)", "cpu(1)", "cpu(2)", "cpu(2)"]
    m = mx.mod.Module(b, data_names=("a",), label_names=None, group2ctxs={"d1": [mx.cpu(1)]})
    m.bind([("a", (1,))])
    assert [str(x.context) for x in m._exec_group.execs[0].arg_arrays] == ["cpu(1)"]


# ---- modules
def test_buckets_with_automatic_names_share_weights() -> None:
    def generate(k: int) -> Any:
        e = sym.Embedding(var("data"), input_dim=10, output_dim=4)
        f = sym.FullyConnected(sym.mean(e, axis=1), num_hidden=2)
        return sym.SoftmaxOutput(f, var("softmax_label"), name="softmax"), ("data",), ("softmax_label",)
    m = mx.mod.BucketingModule(generate, default_bucket_key=5, context=CPU)
    m.bind([("data", (2, 5))], [("softmax_label", (2,))])
    m.init_params(mx.init.Constant(0.5))
    m.init_optimizer(optimizer_params={"learning_rate": 1.0})
    found = []
    for k in (5, 3, 5):
        m.forward(io.DataBatch([nd.ones((2, k))], [nd.zeros((2,))], bucket_key=k, provide_data=[("data", (2, k))],
                               provide_label=[("softmax_label", (2,))]), True)
        found.append(round(float(m.get_outputs()[0][0, 0].asscalar()), 3))
        m.backward()
        m.update()
    assert found == [0.5, 0.881, 0.932]


def test_prelu_starts_at_a_quarter() -> None:
    m = mx.mod.Module(sym.LeakyReLU(var("data"), act_type="prelu", name="p"), label_names=None)
    m.bind([("data", (2, 3))])
    m.init_params()
    assert m.get_params()[0]["p_gamma"].asnumpy().tolist() == [0.25] * 3


def svrg(freq: int = 2) -> tuple[SVRGModule, io.NDArrayIter]:
    x, y = onp.arange(12).reshape(6, 2).astype("f") / 10, onp.arange(6).astype("f")
    s = sym.LinearRegressionOutput(sym.FullyConnected(var("data"), num_hidden=1, name="fc"), label=var("lro_label"),
                                   name="lro")
    return SVRGModule(s, label_names=("lro_label",), update_freq=freq), io.NDArrayIter(x, y, 2, label_name="lro_label")


def test_svrg() -> None:
    m, it = svrg()
    m.bind(it.provide_data, it.provide_label)
    m.init_params(mx.init.One())
    m.init_optimizer(optimizer_params=(("learning_rate", .05),))
    m.update_full_grads(it)
    it.reset()
    full = {n: x.asnumpy().ravel().tolist() for n, x in m._param_dict[0].items()}
    assert full == {"fc_weight": pytest.approx([-2.1, -2.38], rel=1e-4), "fc_bias": pytest.approx([-2.8], rel=1e-4)}
    for b in it:
        m.forward_backward(b)
        m.update()
    assert m.get_params()[0]["fc_weight"].asnumpy().ravel().tolist() == pytest.approx([1.1387, 1.1574], abs=1e-4)
    m.update_full_grads(it)                                      # a mean of the data, whatever was before
    other, again = svrg()
    other.bind(again.provide_data, again.provide_label)
    other.init_params(None, *m.get_params())
    other.init_optimizer()
    other.update_full_grads(again)
    onp.testing.assert_allclose(m._param_dict[0]["fc_weight"].asnumpy(), other._param_dict[0]["fc_weight"].asnumpy(),
                                rtol=1e-5)


def test_svrg_fit() -> None:
    m, it = svrg()
    m.fit(it, eval_metric="mse", optimizer_params=(("learning_rate", .05),), num_epoch=2, initializer=mx.init.One())
    assert m.get_params()[0]["fc_weight"].asnumpy().ravel().tolist() == pytest.approx([1.2486, 1.2810], abs=1e-4)


@pytest.mark.parametrize("freq, error", [(0, ValueError), (-1, ValueError), (None, TypeError), (1.5, TypeError)])
def test_svrg_frequency(freq: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="update_freq"):
        SVRGModule(var("data"), update_freq=freq)


# ---- operators in Python, as they were first written
class Softmax(mx.operator.NumpyOp):                         # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(False)

    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

    def forward(self, in_data: Any, out_data: Any) -> None:
        y = onp.exp(in_data[0] - in_data[0].max(axis=1, keepdims=True))
        out_data[0][:] = y / y.sum(axis=1, keepdims=True)

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        in_grad[0][:] = out_data[0]
        in_grad[0][onp.arange(len(in_data[1])), in_data[1].astype(int)] -= 1.0


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_numpy_op() -> None:
    s = Softmax()(data=var("data"), name="sm")
    assert s.list_arguments() == ["data", "sm_label"] and s.list_outputs() == ["sm_output"]
    e = s.simple_bind(CPU, data=(2, 3))
    e.arg_dict["data"][:] = nd.array([[1, 2, 3], [1, 0, 1]])
    e.arg_dict["sm_label"][:] = nd.array([1, 2])
    e.forward(is_train=True)
    e.backward()
    onp.testing.assert_allclose(e.grad_dict["data"].asnumpy(), [[.0900, -.7553, .6652], [.4223, .1554, -.5777]],
                                atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_ndarray_op() -> None:
    class Square(mx.operator.NDArrayOp):                    # type: ignore[misc,name-defined]
        def forward(self, in_data: Any, out_data: Any) -> None:
            out_data[0][:] = in_data[0] * in_data[0]

        def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
            in_grad[0][:] = 2 * in_data[0] * out_grad[0]
    e = Square()(var("data")).simple_bind(CPU, data=(2,))
    e.arg_dict["data"][:] = nd.array([1, 2])
    e.forward(is_train=True)
    e.backward([nd.ones((2,)) * 3])
    assert e.outputs[0].asnumpy().tolist() == [1., 4.] and e.grad_dict["data"].asnumpy().tolist() == [6., 12.]
    with pytest.raises(NotImplementedError):
        mx.operator.PythonOp()(var("a"))


# ---- kvstores of one's own
class Tenfold(mx.kv.KVStoreBase):                           # type: ignore[misc]
    """Gives gradients ten times over, and writes down what it is asked."""
    capable = False

    def __init__(self) -> None:
        self.log: list[Any] = []

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        self.log.append(("broadcast", key))

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        self.log.append(("pushpull", key))
        for x, g in zip(value if out is None else out, value):
            x[:] = g * 10

    def is_capable(self, capability: str) -> bool:
        return self.capable

    def set_optimizer(self, optimizer: Any) -> None:
        self.log.append(("optimizer", type(optimizer).__name__))

    @property
    def type(self) -> str:
        return "tenfold"


class Capable(Tenfold):
    capable = True


def trained(store: Any, steps: int = 2) -> Any:
    p = gluon.Parameter("w", shape=(1,))
    p.initialize(mx.init.One())
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0}, kvstore=store)
    for _ in range(steps):
        with autograd.record():
            y = p.data() * 2
        y.backward()
        trainer.step(1)
    assert trainer._kvstore is store
    return p.data().asscalar()


def test_a_kvstore_of_ones_own_in_trainer() -> None:
    store = Tenfold()
    assert trained(store) == 1 - 2 * 20 and store.log == [("broadcast", 0), ("pushpull", 0), ("pushpull", 0)]
    able = Capable()
    # it wrote the weights itself
    assert trained(able) == 20. and able.log[:2] == [("broadcast", 0), ("optimizer", "SGD")]
    p = gluon.Parameter("w", shape=(1,))
    p.initialize()
    with pytest.raises(ValueError, match="does not update weights"):
        gluon.Trainer([p], "sgd", kvstore=store, update_on_kvstore=True)


# ---- data
def test_csv_iter_gives_an_array(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("1,2\n3,4\n")
    with pytest.warns(UserWarning, match="no argument foo"):
        it = io.CSVIter(data_csv=str(tmp_path / "d.csv"), data_shape=(2,), batch_size=2, foo=1)
    assert it.iter_next() and it.getdata().asnumpy().tolist() == [[1., 2.], [3., 4.]] and it.getlabel().shape == (2,)


def test_data_sets_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = tmp_path / "gluon" / "dataset" / "mnist"
    served.mkdir(parents=True)
    files = {}
    for stem, head in (("images-idx3", (0x803, 2, 28, 28)), ("labels-idx1", (0x801, 2))):
        raw = gzip.compress(struct.pack(f">{len(head)}I", *head) + bytes(2 * 28 * 28 if len(head) == 4 else 2))
        name = f"train-{stem}-ubyte.gz"
        (served / name).write_bytes(raw)
        files["_train_data" if len(head) == 4 else "_train_label"] = name, hashlib.sha1(raw).hexdigest()
    monkeypatch.setenv("MXNET_GLUON_REPO", tmp_path.as_uri() + "/")
    for attribute, file in files.items():
        monkeypatch.setattr(gluon.data.vision.MNIST, attribute, file)
    assert (len(gluon.data.vision.MNIST(root=str(tmp_path / "here"))) == 2
            and len(list((tmp_path / "here").iterdir())) == 2)
    monkeypatch.setattr(gluon.data.vision.MNIST, "_train_data", (files["_train_data"][0], "0" * 40))
    with pytest.raises(FileNotFoundError, match="SHA-1.*put it there"):
        gluon.data.vision.MNIST(root=str(tmp_path / "there"))
    with pytest.raises(FileNotFoundError, match="cifar-10-binary.tar.gz.*could not be fetched"):
        gluon.data.vision.CIFAR10(root=str(tmp_path / "there"))


def test_archives_are_fetched_and_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("inside.txt", "text")
    folder = tmp_path / "data"
    mx.test_utils.get_zip_data(str(folder), (tmp_path / "a.zip").as_uri(), "a.zip")
    assert (folder / "inside.txt").read_text() == "text"
    import bz2  # noqa: PLC0415
    (tmp_path / "b.bz2").write_bytes(bz2.compress(b"more"))
    mx.test_utils.get_bz2_data(str(folder), "b", (tmp_path / "b.bz2").as_uri(), "b.bz2")
    assert (folder / "b").read_bytes() == b"more"


def test_export_after_forward_alone(tmp_path: Path) -> None:
    net = gluon.nn.Dense(2)
    net.initialize()
    net.hybridize()
    net.forward(nd.ones((1, 3)))
    net.export(str(tmp_path / "e"))
    assert (tmp_path / "e-symbol.json").exists()


def test_order_of_deformable_parameters() -> None:
    def order(layer: Any) -> list[str]:
        return [k[len(layer.prefix):] for k in layer.collect_params()]
    cnn = gluon.contrib.cnn
    assert order(cnn.ModulatedDeformableConvolution(4, kernel_size=3,
                                                    in_channels=2)) == ["deformable_conv_weight",
                                                                        "deformable_conv_bias", "offset_weight",
                                                                                          "offset_bias"]
    assert order(cnn.DeformableConvolution(4, kernel_size=3, in_channels=2))[:2] == ["offset_weight", "offset_bias"]
