"""Small trainings through mod.Module, run with MXNet by record_module.py and with this library by tests/test_module.py.

Every case gets the package (``mx``) and gives numbers: a dict of lists.
"""
import logging

import numpy as np


def data(n=20):
    rng = np.random.RandomState(3)
    x = rng.standard_normal((n, 6)).astype("float32")
    return x, (x[:, :3].argmax(1)).astype("float32")


def network(mx, classes=3):
    x = mx.sym.var("data")
    x = mx.sym.FullyConnected(x, num_hidden=5, name="fc1")
    x = mx.sym.BatchNorm(x, name="bn", fix_gamma=False)
    x = mx.sym.Activation(x, act_type="tanh", name="act")
    x = mx.sym.FullyConnected(x, mx.sym.var("fc2_weight", lr_mult=2.0), num_hidden=classes, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def start(mx, mod, scale=0.5):
    """Seeded parameters, the same in both libraries."""
    rng = np.random.RandomState(5)
    args, aux = mod.get_params()
    new = {n: mx.nd.array(rng.standard_normal(args[n].shape) * scale + (1 if n.endswith("gamma") else 0)) for n in sorted(args)}
    mod.set_params(new, {n: mx.nd.array(np.ones(aux[n].shape) if n.endswith("var") else np.zeros(aux[n].shape)) for n in sorted(aux)})


def numbers(mod):
    args, aux = mod.get_params()
    return {n: np.round(v.asnumpy().ravel().astype("float64"), 7).tolist() for n, v in sorted({**args, **aux}.items())}


class Lines(logging.Handler):
    """Keeps what is logged, but for times."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        text = record.getMessage()
        if "Time cost" not in text:
            self.lines.append(text)


def fit(mx, context=None, **kwargs):
    x, y = data()
    logger = logging.Logger("fit")
    lines = Lines()
    logger.addHandler(lines)
    mod = mx.mod.Module(network(mx), context=context or mx.cpu(), logger=logger, **kwargs)
    train = mx.io.NDArrayIter(x, y, batch_size=8)
    mod.bind(train.provide_data, train.provide_label)
    mod.init_params()
    start(mx, mod)
    seen = []
    mod.fit(train, eval_data=mx.io.NDArrayIter(x[:10], y[:10], batch_size=4), num_epoch=3, optimizer="sgd", eval_metric=["acc", "ce"],
            optimizer_params={"learning_rate": 0.3, "momentum": 0.9, "wd": 0.01},
            batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch]), epoch_end_callback=lambda epoch, symbol, args, aux: seen.append([epoch, len(args), len(aux)]))
    return {**numbers(mod), "lines": lines.lines, "seen": seen, "predict": np.round(mod.predict(mx.io.NDArrayIter(x, batch_size=8)).asnumpy().ravel(), 6).tolist()}


def two_devices(mx):
    return fit(mx, context=[mx.cpu(0), mx.cpu(1)])


def fixed(mx):
    return fit(mx, fixed_param_names=["fc1_weight", "bn_gamma"])


def steps(mx):
    """bind, forward, backward, update by hand, with gradients of the data and batches of other sizes."""
    x, y = data(12)
    mod = mx.mod.Module(network(mx), context=mx.cpu())
    mod.bind([("data", (4, 6))], [("softmax_label", (4,))], inputs_need_grad=True)
    mod.init_params()
    start(mx, mod)
    mod.init_optimizer(optimizer="nag", optimizer_params=(("learning_rate", 0.1), ("momentum", 0.9)))
    out = {}
    for i, (a, b) in enumerate([(0, 4), (4, 10), (0, 4)]):
        mod.forward(mx.io.DataBatch([mx.nd.array(x[a:b])], [mx.nd.array(y[a:b])]), is_train=True)
        mod.backward()
        mod.update()
        out[f"grad{i}"] = np.round(mod.get_input_grads()[0].asnumpy().ravel().astype("float64"), 7).tolist()
        out[f"out{i}"] = np.round(mod.get_outputs()[0].asnumpy().ravel().astype("float64"), 7).tolist()
    metric = mx.metric.create("acc")
    mod.update_metric(metric, [mx.nd.array(y[0:4])])
    return {**out, **numbers(mod), "metric": list(metric.get()), "shapes": [list(s) for _, s in mod.output_shapes]}


def head_gradients(mx):
    """A network without a loss, whose output's gradient is given."""
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc", no_bias=True)
    mod = mx.mod.Module(x, label_names=None, context=mx.cpu())
    mod.bind([("data", (3, 4))], inputs_need_grad=True, grad_req="add")
    mod.init_params()
    start(mx, mod)
    batch = mx.io.DataBatch([mx.nd.array(np.arange(12).reshape(3, 4) / 10)])
    for _ in range(2):
        mod.forward(batch, is_train=True)
        mod.backward([mx.nd.array([[1, 2], [3, 4], [5, 6]])])
    return {"grad": mod.get_input_grads()[0].asnumpy().ravel().tolist(), "out": mod.get_outputs()[0].asnumpy().ravel().tolist()}


def buckets(mx):
    """Sequences of two lengths with shared parameters."""
    def make(length):
        x = mx.sym.Embedding(mx.sym.var("data"), input_dim=7, output_dim=3, name="embed")
        x = mx.sym.mean(x, axis=1)
        return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=2, name="fc"), name="softmax"), ("data",), ("softmax_label",)
    mod = mx.mod.BucketingModule(make, default_bucket_key=5, context=mx.cpu())
    mod.bind([("data", (2, 5))], [("softmax_label", (2,))])
    mod.init_params()
    start(mx, mod)
    mod.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5, "momentum": 0.5})
    rng = np.random.RandomState(1)
    out = {}
    for i, length in enumerate([5, 3, 5, 3]):
        batch = mx.io.DataBatch([mx.nd.array(rng.randint(0, 7, (2, length)))], [mx.nd.array([0, 1])], bucket_key=length,
                                provide_data=[mx.io.DataDesc("data", (2, length))], provide_label=[mx.io.DataDesc("softmax_label", (2,))])
        mod.forward(batch)
        mod.backward()
        mod.update()
        out[f"out{i}"] = np.round(mod.get_outputs()[0].asnumpy().ravel().astype("float64"), 7).tolist()
    return {**out, **numbers(mod)}


CASES = {"fit": fit, "two_devices": two_devices, "fixed": fixed, "steps": steps, "head_gradients": head_gradients, "buckets": buckets}
