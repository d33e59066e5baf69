"""Small trainings through mod.Module, run with MXNet by record_module.py and with this library by
tests/module/test_module.py.

Every case gets the package (``mx``) and gives numbers: a dict of lists.
"""
import logging

import numpy as np


def data(n=20):
    rng = np.random.RandomState(3)
    x = rng.standard_normal((n, 6)).astype("float32")
    return x, (x[:, :3].argmax(1)).astype("float32")


def network(mx, classes=3, bias=True):
    x = mx.sym.var("data")
    x = mx.sym.FullyConnected(x, num_hidden=5, name="fc1", no_bias=not bias)
    x = mx.sym.BatchNorm(x, name="bn", fix_gamma=False)
    x = mx.sym.Activation(x, act_type="tanh", name="act")
    x = mx.sym.FullyConnected(x, mx.sym.var("fc2_weight", lr_mult=2.0), num_hidden=classes, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def start(mx, mod, scale=0.5):
    """Seeded parameters, the same in both libraries."""
    rng = np.random.RandomState(5)
    args, aux = mod.get_params()
    new = {n: mx.nd.array(rng.standard_normal(args[n].shape) * scale + (1 if n.endswith("gamma") else 0))
           for n in sorted(args)}
    mod.set_params(new, {n: mx.nd.array(np.ones(aux[n].shape) if n.endswith("var") else np.zeros(aux[n].shape))
                         for n in sorted(aux)})


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
    mod.fit(train, eval_data=mx.io.NDArrayIter(x[:10], y[:10], batch_size=4), num_epoch=3, optimizer="sgd",
            eval_metric=["acc", "ce"],
            optimizer_params={"learning_rate": 0.3, "momentum": 0.9, "wd": 0.01},
            batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch]),
            epoch_end_callback=lambda epoch, symbol, args, aux: seen.append([epoch, len(args), len(aux)]))
    return {**numbers(mod), "lines": lines.lines, "seen": seen,
            "predict": np.round(mod.predict(mx.io.NDArrayIter(x, batch_size=8)).asnumpy().ravel(), 6).tolist()}


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
    return {"grad": mod.get_input_grads()[0].asnumpy().ravel().tolist(),
            "out": mod.get_outputs()[0].asnumpy().ravel().tolist()}


def buckets(mx):
    """Sequences of two lengths with shared parameters."""
    def make(length):
        x = mx.sym.Embedding(mx.sym.var("data"), input_dim=7, output_dim=3, name="embed")
        x = mx.sym.mean(x, axis=1)
        return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=2, name="fc"),
                                    name="softmax"), ("data",), ("softmax_label",)
    mod = mx.mod.BucketingModule(make, default_bucket_key=5, context=mx.cpu())
    mod.bind([("data", (2, 5))], [("softmax_label", (2,))])
    mod.init_params()
    start(mx, mod)
    mod.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5, "momentum": 0.5})
    rng = np.random.RandomState(1)
    out = {}
    for i, length in enumerate([5, 3, 5, 3]):
        batch = mx.io.DataBatch([mx.nd.array(rng.randint(0, 7, (2, length)))], [mx.nd.array([0, 1])], bucket_key=length,
                                provide_data=[mx.io.DataDesc("data", (2, length))],
                                provide_label=[mx.io.DataDesc("softmax_label", (2,))])
        mod.forward(batch)
        mod.backward()
        mod.update()
        out[f"out{i}"] = np.round(mod.get_outputs()[0].asnumpy().ravel().astype("float64"), 7).tolist()
    return {**out, **numbers(mod)}


def rounded(x, digits=6):
    return np.round(np.asarray(x, "float64").ravel(), digits).tolist()


def chain(mx):
    """Two modules and a loss in Python, as one."""
    first = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=5, name="fc1"), act_type="relu",
                              name="act")
    second = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc2")

    def gradient(scores, labels):
        e = np.exp(scores.asnumpy())
        return e / e.sum(1, keepdims=True) - np.eye(3)[labels.asnumpy().astype(int)]
    mod = mx.mod.SequentialModule()
    mod.add(mx.mod.Module(first, label_names=None,
                          context=mx.cpu())).add(mx.mod.Module(second, label_names=None, context=mx.cpu()),
                                                 auto_wiring=True)
    mod.add(mx.mod.PythonLossModule(grad_func=gradient), take_labels=True, auto_wiring=True)
    x, y = data()
    train = mx.io.NDArrayIter(x, y, batch_size=5)
    mod.bind(train.provide_data, train.provide_label)
    mod.init_params()
    start(mx, mod)
    mod.fit(train, num_epoch=3, optimizer_params={"learning_rate": 0.05}, eval_metric="acc")
    return {**numbers(mod), "score": [float(v) for _, v in mod.score(train, "acc")],
            "shapes": [list(s) for _, s in mod.output_shapes]}


def wired_by_name(mx):
    """The second module's data is called as the first one's output, and it takes the labels."""
    first = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc1")
    second = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("fc1_output"), num_hidden=3, name="fc2"),
                                  name="softmax")
    mod = mx.mod.SequentialModule()
    mod.add(mx.mod.Module(first, label_names=None,
                          context=mx.cpu())).add(mx.mod.Module(second, data_names=["fc1_output"], context=mx.cpu()),
                                                 take_labels=True)
    x, y = data()
    train = mx.io.NDArrayIter(x, y, batch_size=5)
    mod.bind(train.provide_data, train.provide_label)
    mod.init_params()
    start(mx, mod)
    mod.fit(train, num_epoch=2, optimizer="adam", optimizer_params={"learning_rate": 0.05})
    return {**numbers(mod), "predict": rounded(mod.predict(train).asnumpy())}


def feed_forward(mx):
    """The oldest interface, on an iterator and on arrays."""
    x, y = data()
    rng = np.random.RandomState(5)
    net = network(mx)
    shapes, _, states = net.infer_shape(data=(5, 6))
    args = {n: mx.nd.array(rng.standard_normal(s))
            for n, s in zip(net.list_arguments(), shapes) if n not in ("data", "softmax_label")}
    aux = {n: mx.nd.array(np.ones(s) if n.endswith("var") else np.zeros(s))
           for n, s in zip(net.list_auxiliary_states(), states)}
    seen = []
    model = mx.model.FeedForward(net, ctx=mx.cpu(), num_epoch=3, optimizer="sgd", arg_params=args, aux_params=aux,
                                 learning_rate=0.2, momentum=0.9, numpy_batch_size=5)
    model.fit(mx.io.NDArrayIter(x, y, batch_size=5), eval_data=(x[:10], y[:10]), eval_metric="acc",
              batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch]),
              epoch_end_callback=lambda epoch, symbol, args, aux: seen.append([epoch, len(args)]))
    out, inputs, labels = model.predict(mx.io.NDArrayIter(x, y, batch_size=6), return_data=True)
    return {**{n: rounded(v.asnumpy()) for n, v in {**model.arg_params, **model.aux_params}.items()}, "seen": seen,
            "predict": rounded(model.predict(x)),
            "again": rounded(out), "inputs": rounded(inputs), "labels": rounded(labels),
            "score": [float(model.score(mx.io.NDArrayIter(x, y, batch_size=5)))]}


def by_optimizer(name, **settings):
    def run(mx):
        x, y = data()
        mod = mx.mod.Module(network(mx, bias=False), context=mx.cpu())
        train = mx.io.NDArrayIter(x, y, batch_size=5)
        mod.bind(train.provide_data, train.provide_label)
        mod.init_params()
        start(mx, mod)
        curve = []
        mod.fit(train, num_epoch=4, optimizer=name, optimizer_params=settings, eval_metric="ce",
                batch_end_callback=lambda p: curve.append(p.eval_metric.get()[1]))
        return {**numbers(mod), "curve": rounded(curve)}
    return run


def pictures(mx):
    """A convolutional network with a schedule, weight decay and a clipped gradient."""
    x = mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv1", no_bias=True)
    x = mx.sym.Activation(mx.sym.BatchNorm(x, name="bn1", fix_gamma=False), act_type="relu", name="relu1")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool1")
    x = mx.sym.Pooling(mx.sym.Convolution(x, kernel=(3, 3), num_filter=6, num_group=2, name="conv2"), global_pool=True,
                       pool_type="avg", kernel=(1, 1), name="pool2")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Flatten(x, name="flat"), num_hidden=3, name="fc"),
                               name="softmax")
    rng = np.random.RandomState(2)
    train = mx.io.NDArrayIter(rng.standard_normal((12, 2, 8, 8)).astype("float32"),
                              rng.randint(0, 3, 12).astype("float32"), batch_size=4)
    mod = mx.mod.Module(net, context=mx.cpu())
    mod.bind(train.provide_data, train.provide_label)
    mod.init_params()
    start(mx, mod)
    schedule = mx.lr_scheduler.FactorScheduler(step=3, factor=0.5, base_lr=0.2)
    mod.fit(train, num_epoch=4, optimizer="sgd", optimizer_params={"lr_scheduler": schedule, "learning_rate": 0.2,
                                                                   "momentum": 0.9, "wd": 0.01, "clip_gradient": 0.05})
    return {**numbers(mod), "predict": rounded(mod.predict(train).asnumpy())}


def two_inputs(mx):
    """Two arrays of data, two labels, two outputs, each with a metric of its own."""
    a, b = mx.sym.FullyConnected(mx.sym.var("a"), num_hidden=4,
                                 name="fca"), mx.sym.FullyConnected(mx.sym.var("b"), num_hidden=4, name="fcb")
    h = mx.sym.tanh(a + b, name="h")
    net = mx.sym.Group([mx.sym.SoftmaxOutput(mx.sym.FullyConnected(h, num_hidden=3, name="fc1"), mx.sym.var("kind"),
                                             name="out1"),
                        mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(h, num_hidden=1, name="fc2"),
                                                      mx.sym.var("size"), name="out2")])
    x, y = data()
    train = mx.io.NDArrayIter({"a": x[:, :3], "b": x[:, 3:]}, {"kind": y, "size": x.sum(1)}, batch_size=8,
                              last_batch_handle="discard")
    mod = mx.mod.Module(net, data_names=["a", "b"], label_names=["kind", "size"], context=mx.cpu())
    mod.bind(train.provide_data, train.provide_label)
    mod.init_params()
    start(mx, mod)
    metric = mx.metric.CompositeEvalMetric([mx.metric.Accuracy(output_names=["out1_output"], label_names=["kind"]),
                                            mx.metric.MSE(output_names=["out2_output"], label_names=["size"])])
    mod.fit(train, num_epoch=3, optimizer="rmsprop", optimizer_params={"learning_rate": 0.01}, eval_metric=metric)
    return {**numbers(mod), "score": rounded([v for _, v in mod.score(train, metric)]),
            "predict": rounded(np.concatenate([o.asnumpy().ravel() for o in mod.predict(train)]))}


CASES = {"fit": fit, "two_devices": two_devices, "fixed": fixed, "steps": steps, "head_gradients": head_gradients,
         "buckets": buckets, "chain": chain,
         "wired_by_name": wired_by_name, "feed_forward": feed_forward, "pictures": pictures, "two_inputs": two_inputs,
         "sgd": by_optimizer("sgd", learning_rate=0.1, momentum=0.9, wd=0.001),
         "adam": by_optimizer("adam", learning_rate=0.01, wd=0.01),
         "adagrad": by_optimizer("adagrad", learning_rate=0.05), "adadelta": by_optimizer("adadelta"),
         "ftrl": by_optimizer("ftrl", learning_rate=0.1),
         "nag": by_optimizer("nag", learning_rate=0.1, momentum=0.5),
         "adamax": by_optimizer("adamax", learning_rate=0.01),
         "nadam": by_optimizer("nadam", learning_rate=0.01), "signum": by_optimizer("signum", learning_rate=0.01),
         "rmsprop_centered": by_optimizer("rmsprop", learning_rate=0.01, centered=True)}
