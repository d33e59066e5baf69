"""mod.Module, BucketingModule, callbacks, Monitor and checkpoints, against trainings recorded from MXNet 1.9.1."""
from __future__ import annotations

import importlib.util
import json
import re
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import HybridError, io, nd, sym

from ..paths import DATA, TESTS

RECORDED = json.loads((DATA / "module.json").read_text())
_spec = importlib.util.spec_from_file_location("module_cases", TESTS / "oracle" / "module_cases.py")
assert _spec is not None and _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
@pytest.mark.parametrize("name", cases.CASES)
def test_as_mxnet(name: str) -> None:
    found, expected = cases.CASES[name](mx), RECORDED[name]
    assert set(found) == set(expected)
    for key, value in expected.items():
        if key == "lines":
            assert [parted(line)[0] for line in found[key]] == [parted(line)[0] for line in value]
            for got, want in zip(found[key], value):
                np.testing.assert_allclose(parted(got)[1], parted(want)[1], rtol=1e-5, err_msg=want)
        elif key in ("seen", "metric", "shapes"):
            assert found[key] == value, key
        else:
            np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


def parted(line: str) -> tuple[str, list[float]]:
    """A line with its numbers taken out, and the numbers."""
    number = r"\d+\.\d+"
    return re.sub(number, "#", line), [float(n) for n in re.findall(number, line)]


def trained(folder: Path | None = None, epochs: int = 2, **kwargs: Any) -> Any:
    x, y = cases.data()
    mod = mx.mod.Module(cases.network(mx))
    mod.fit(io.NDArrayIter(x, y, batch_size=5), num_epoch=epochs,
            optimizer_params={"learning_rate": 0.1, "momentum": 0.9}, initializer=mx.init.Xavier(), **kwargs)
    return mod, x, y


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    mod, x, y = trained()
    mod.save_checkpoint(str(tmp_path / "net"), 2, save_optimizer_states=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net-0002.params", "net-0002.states", "net-symbol.json"]
    other = mx.mod.Module.load(str(tmp_path / "net"), 2, load_optimizer_states=True)
    other.bind([("data", (5, 6))], [("softmax_label", (5,))])
    other.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    for m in (mod, other):
        for batch in io.NDArrayIter(x, y, batch_size=5):
            m.forward_backward(batch)
            m.update()
    for a, b in zip(mod.get_params(), other.get_params()):
        assert a.keys() == b.keys() and all(np.array_equal(a[n].asnumpy(), b[n].asnumpy()) for n in a)
    bare = mx.mod.Module.load(str(tmp_path / "net"), 2)
    assert bare.get_params()[0].keys() == mod.get_params()[0].keys()


def test_a_model_that_mxnet_trained() -> None:
    symbol, args, auxs = mx.model.load_checkpoint(str(DATA / "lenet_digits"), 25)
    digits = np.load(DATA / "digits.npz")
    images = digits[digits.files[0]] if "images" not in digits.files else digits["images"]
    x = np.pad(np.repeat(np.repeat(images[-360:].reshape(-1, 1, 8, 8) / 16, 3, 2), 3, 3),
               ((0, 0), (0, 0), (2, 2), (2, 2))).astype("float32")
    mod = mx.mod.Module(symbol, label_names=None)
    mod.bind([("data", (100, 1, 28, 28))], for_training=False)
    mod.set_params(args, auxs)
    out = mod.predict(io.NDArrayIter(x, batch_size=100)).asnumpy()
    np.testing.assert_allclose(out, np.load(DATA / "lenet_digits.test_logits.npy"), rtol=1e-4, atol=1e-4)


def test_predict_and_score_forms() -> None:
    mod, x, y = trained()
    data = io.NDArrayIter(x, y, batch_size=8)                        # 20 samples: the last batch is padded by 4
    whole = mod.predict(data)
    assert whole.shape == (20, 3) and np.allclose(mod.predict(x).asnumpy(), whole.asnumpy(), atol=1e-6)
    assert [len(b) for b in mod.predict(data, merge_batches=False)] == [1, 1,
                                                                        1] and isinstance(mod.predict(data,
            always_output_list=True), list)
    assert mod.predict(data, num_batch=1).shape == (8, 3)
    pieces = [(n, out[0].shape) for out, n, batch in mod.iter_predict(data)]
    assert pieces == [(0, (8, 3)), (1, (8, 3)), (2, (4, 3))]
    seen: list[Any] = []
    mod.score(data, mx.metric.Accuracy(), num_batch=2, batch_end_callback=lambda p: seen.append(p.nbatch),
              score_end_callback=[lambda p: seen.append("end")])
    assert seen == [0, 1, "end"]


def test_callbacks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        mod, _, _ = trained(batch_end_callback=[mx.callback.Speedometer(5, 2), mx.callback.log_train_metric(3),
                                                mx.callback.ProgressBar(4, 8)],
                            epoch_end_callback=mx.callback.do_checkpoint(str(tmp_path / "net"), 2),
                            eval_end_callback=mx.callback.LogValidationMetricsCallback(),
                            eval_data=io.NDArrayIter(*cases.data(), batch_size=5))
    lines = [r.getMessage() for r in caplog.records]
    assert [x.split("\t")[0] for x in lines if "Speed" in x] == ["Epoch[0] Batch [0-2]", "Epoch[1] Batch [0-2]"]
    assert all("samples/sec\taccuracy=" in x for x in lines if "Speed" in x)
    assert sum(x.startswith("Iter[0] Batch[3] Train-accuracy=") for x in lines) == 1 and "[======--] 75%\r" in lines
    assert sum("Validation-accuracy" in x for x in lines) == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net-0002.params", "net-symbol.json"]
    mx.callback.module_checkpoint(mod, str(tmp_path / "mod"), save_optimizer_states=True)(0)
    assert (tmp_path / "mod-0001.states").is_file()


def test_monitor() -> None:
    watch = mx.monitor.Monitor(2, stat_func=lambda x: x.abs().max(), pattern="fc\\d_(?!backward)", sort=True)
    rows: list[Any] = []
    watch.toc_print = lambda: rows.extend(watch.toc())               # type: ignore[method-assign]
    mod, _, _ = trained(epochs=1, monitor=watch)
    assert [r[:2] for r in rows[:6]] == [(1, n) for n in ("fc1_bias", "fc1_output", "fc1_weight", "fc2_bias",
                                                          "fc2_output", "fc2_weight")]
    assert {r[0] for r in rows} == {1, 3} and all(float(r[2]) >= 0 for r in rows)


def test_states() -> None:
    h = sym.var("h")
    out = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc") + h
    mod = mx.mod.Module(sym.Group([out, sym.BlockGrad(out)]), label_names=None, state_names=["h"])
    mod.bind([("data", (3, 4))], for_training=False)
    mod.init_params(mx.init.Zero())
    batch = io.DataBatch([nd.ones((3, 4))])
    mod.set_states(value=2)
    mod.forward(batch)
    mod.set_states(states=mod.get_outputs(False)[1:])
    mod.forward(batch)
    assert mod.get_outputs()[0].asnumpy().tolist() == [[2, 2]] * 3 and mod.get_states()[0].shape == (3, 2)


def network() -> Any:
    return mx.mod.Module(cases.network(mx))


def bound() -> Any:
    mod = network()
    mod.bind([("data", (4, 6))], [("softmax_label", (4,))])
    return mod


def initialized() -> Any:
    mod = bound()
    mod.init_params()
    return mod


BATCH = io.DataBatch([nd.ones((4, 6))], [nd.zeros((4,))])
ERRORS = {
    "no symbol": (lambda: mx.mod.Module(mx.gluon.nn.Dense(2)), "takes a Symbol, got Dense"),
    "data name": (lambda: mx.mod.Module(cases.network(mx), data_names=["dat"]), "no argument 'dat' .nearest: data."),
    "fixed name": (lambda: mx.mod.Module(cases.network(mx), fixed_param_names=["fc1"]), "no argument 'fc1'"),
    "not bound": (lambda: network().init_params(), "call bind"),
    "no parameters": (lambda: bound().forward(BATCH), "call init_params"),
    "no optimizer": (lambda: initialized().update(), "call init_optimizer"),
    "shapes of others": (lambda: network().bind([("x", (4, 6))]), "data_shapes are of x, the module has data"),
    "too few": (lambda: initialized().forward(io.DataBatch([])), "a batch has 0 arrays of data"),
    "width": (lambda: initialized().forward(io.DataBatch([nd.ones((4, 7))], [nd.zeros((4,))])),
              "cannot depend on the input's size"),
    "value's shape": (lambda: initialized().set_params({"fc1_weight": nd.ones((2, 2))}, {}, allow_missing=True),
                      "has the shape"),
    "missing value": (lambda: initialized().set_params({}, {}), "is not presented"),
    "unknown value": (lambda: initialized().set_params({"nothing": nd.ones((1,))}, {}, allow_missing=True),
                      "no parameter 'nothing'"),
    "machines": (lambda: initialized().init_optimizer(kvstore="dist_async"), "use 'dist_sync'"),
    "gradients not asked for": (lambda: initialized().get_input_grads(), "inputs_need_grad=True"),
    "no epochs": (lambda: network().fit(io.NDArrayIter(*cases.data(), batch_size=5)), "number of epochs"),
    "more devices than samples": (lambda: mx.mod.Module(cases.network(mx),
                                                        context=[mx.cpu(i)
                                                                 for i in range(5)]).bind([("data", (4, 6))],
        [("softmax_label", (4,))]),
                                  "batch of 4 cannot be divided over 5"),
    "no bucket": (lambda: mx.mod.BucketingModule(lambda key: None), "default_bucket_key"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    call, message = ERRORS[case]
    with pytest.raises((HybridError, ValueError), match=message):
        call()


def test_backward_of_prediction_and_unknown_shapes() -> None:
    mod = network()
    mod.bind([("data", (4, 6))], for_training=False)
    mod.init_params()
    mod.forward(BATCH)
    with pytest.raises(HybridError, match="for_training=False"):
        mod.backward()
    with pytest.raises(HybridError, match="do not tell the shape of"):
        mx.mod.Module(sym.FullyConnected(sym.var("data"), num_hidden=2) * sym.reshape(sym.var("other"), shape=(-1, 2)),
                      label_names=None).bind([("data", (2, 3))])


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    mod, _, _ = trained(epochs=1)
    nd.save(str(tmp_path / "x.params"), {"w": nd.ones((1,))})
    with pytest.raises(HybridError, match="is no checkpoint"):
        mod.load_params(str(tmp_path / "x.params"))
    mod.save_params(str(tmp_path / "own.params"))
    mod.load_params(str(tmp_path / "own.params"))
    (tmp_path / "x.states").write_bytes(b"nothing")
    with pytest.raises(HybridError, match="x.states"):
        mod.load_optimizer_states(tmp_path / "x.states")
    assert len(trained(epochs=1, force_rebind=True)[0].output_shapes) == 1


def test_what_programs_reach_below_the_interface() -> None:
    """Names of MXNet's modules that translation toolkits use: parameters that stay fixed, gradients by the names of
    arguments."""
    def network(key: int) -> Any:
        y = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
        return sym.SoftmaxOutput(y, name="softmax"), ("data",), ("softmax_label",)
    mod = mx.mod.BucketingModule(network, default_bucket_key=3, fixed_param_names=["fc_bias"])
    mod.bind([("data", (4, 3))], [("softmax_label", (4,))])
    mod.init_params()
    assert mod._fixed_param_names == ["fc_bias"]
    group = mod._curr_module._exec_group
    by_name = {name: grad is not None for name, grad in zip(group.arg_names, group.execs[0].grad_arrays)}
    assert by_name == {"data": False, "fc_weight": True, "fc_bias": False, "softmax_label": False}
    assert mod._curr_module._optimizer is None
    assert group.batch_size == 4 and group.slices == [slice(0,
                                                            4)] and group.label_names == [
            "softmax_label"] and group.input_grad_arrays is None
    part, data = group.data_arrays[0][0]
    assert part == slice(0, 4) and data.shape == (4, 3) and group.label_arrays is not None and group.state_arrays == []
    mod._curr_module.reshape([("data", (7, 3))], [("softmax_label", (7,))])
    assert mod._curr_module._exec_group.batch_size == 7                     # Keras asks for it before every batch


def test_parameters_by_mxnets_private_names(tmp_path: Path) -> None:
    """Transfer learning asks modules that were loaded and not yet bound."""
    mod, *_ = trained(epochs=1)
    mod.save_checkpoint(str(tmp_path / "m"), 1)
    loaded = mx.mod.Module.load(str(tmp_path / "m"), 1)
    assert {k: v.shape for k, v in loaded._arg_params.items()} == {k: v.shape
                                                                   for k, v in mod.get_params()[
            0].items()} and loaded._aux_params is not None
    assert mx.mod.Module(cases.network(mx))._arg_params is None
