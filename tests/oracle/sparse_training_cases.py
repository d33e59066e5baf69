"""Training with sparse arrays, run under MXNet (record_sparse_training.py) and here (test_sparse_training.py):
gradients, lazy updates, stores, graphs."""
import itertools

import numpy as np

IDS = ([2, 0, 2], [1, 2])


def plain(x):
    """Arrays as storage type, dtype, values and indices; lists and dicts of them; other things as they are."""
    if isinstance(x, (list, tuple)):
        return [plain(y) for y in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in sorted(x.items())}
    if hasattr(x, "asnumpy"):
        out = {"stype": x.stype, "dtype": np.dtype(x.dtype).name,
               "values": x.asnumpy().astype("float64").round(6).tolist()}
        return {**out, "indices": x.indices.asnumpy().tolist()} if x.stype == "row_sparse" else out
    return x


def outcome(name, mx):
    """What a case gives, or the kind of its error."""
    try:
        return plain(CASES[name](mx))
    except Exception as err:                                        # MXNet's errors are of several kinds
        return {"error": isinstance(err, (RuntimeError, ValueError, AssertionError, TypeError, AttributeError))}


def weight(mx):
    return mx.nd.array(np.arange(1, 9).reshape(4, 2) / 8.0)


def rows(mx, numbers):
    return mx.nd.sparse.row_sparse_array((np.array([[i + 1.0, i + 1.5] for i in numbers], "float32"), numbers),
                                         shape=(4, 2))


def embedding(mx, **options):
    net = mx.gluon.nn.Embedding(4, 2, sparse_grad=True, **options)
    net.initialize(mx.init.One())
    net.weight.set_data(weight(mx))
    return net


def backward(mx, net, ids=IDS[0], scale=1.0):
    with mx.autograd.record():
        y = (net(mx.nd.array(ids)) * mx.nd.array(np.arange(1, 1 + 2 * len(ids)).reshape(-1, 2)) * scale).sum()
    y.backward()
    return net.weight.grad()


def embedded(mx, hybrid=False):
    net = embedding(mx)
    if hybrid:
        net.hybridize()
    first = net.weight.grad().copy()
    return first, backward(mx, net), net.weight.data()


def zeroed(mx):
    net = embedding(mx)
    backward(mx, net)
    net.weight.zero_grad()
    return net.weight.grad()


def tied(mx):
    net = embedding(mx)
    with mx.autograd.record():
        y = mx.nd.dot(net(mx.nd.array([1])), net.weight.data(), transpose_b=True).sum()
    y.backward()
    return net.weight.grad()


def looked_up(mx, stype, sparse_grad=True):
    w = weight(mx).tostype(stype)
    w.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        y = mx.nd.Embedding(mx.nd.array([[1, 1], [3, 0]]), w, input_dim=4, output_dim=2, sparse_grad=sparse_grad)
    y.backward()
    return y, w.grad


def taken(mx):
    w = weight(mx)
    w.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        y = mx.nd.take(w, mx.nd.array([1, 1]))
    y.backward()
    return w.grad, mx.autograd.is_recording()


def table(mx):
    net = mx.gluon.contrib.nn.SparseEmbedding(4, 2)
    net.initialize(mx.init.One())
    net.weight.set_data(weight(mx).tostype("row_sparse"))
    return net


def sparse_table(mx, name, **options):
    net = table(mx)
    trainer = mx.gluon.Trainer(net.collect_params(), name, options)
    seen = []
    for ids in IDS:
        seen.append(plain(backward(mx, net, ids)))
        trainer.step(1)
    return seen, net.weight.row_sparse_data(mx.nd.arange(4)), net.weight.row_sparse_data(mx.nd.array([3, 0]))


def trained(mx, name, **options):
    net = embedding(mx)
    trainer = mx.gluon.Trainer(net.collect_params(), name, options)
    for ids, scale in zip((*IDS, [3]), (1.0, 0.5, 0.0)):
        backward(mx, net, ids, scale)
        trainer.step(2)
    return net.weight.data()


def two_devices(mx, stype):
    devices = [mx.cpu(0), mx.cpu(1)]
    p = mx.gluon.Parameter("w", shape=(4, 2), stype=stype, grad_stype="row_sparse")
    p.initialize(mx.init.One(), ctx=devices)
    trainer = mx.gluon.Trainer([p], "sgd", {"learning_rate": 0.5})
    with mx.autograd.record():
        losses = []
        for i, d in enumerate(devices):
            ids = mx.nd.array([i], ctx=d)
            w = p.data(d) if stype == "default" else p.row_sparse_data(ids)
            losses.append(mx.nd.Embedding(ids, w, input_dim=4, output_dim=2, sparse_grad=True).sum())
    for loss in losses:
        loss.backward()
    trainer.step(1)
    return p.list_grad(), p.list_data() if stype == "default" else p.list_row_sparse_data(mx.nd.arange(4))


def updated(mx, name, stypes, dtype="float32", **options):
    """Weight and states after two updates."""
    optimizer = (mx.optimizer.contrib.GroupAdaGrad(**options) if name == "groupadagrad"
                 else mx.optimizer.create(name, **options))
    w, g = (weight(mx).astype(dtype).tostype(stypes[0]),
            mx.nd.sparse.row_sparse_array((np.array([[0.5, -0.25], [0, 0], [1, 0.1]], dtype), [0, 1, 3]),
                                          shape=(4, 2), dtype=dtype))
    g = g.tostype(stypes[1])
    state = optimizer.create_state_multi_precision(0, w)
    for _ in range(2):
        optimizer.update_multi_precision(0, w, g, state)
    return {"weight": {**plain(w), "indices": None},
            "state": without_indices(plain(state)) if name not in ("lbsgd", "sgd0") else None}


def without_indices(state):
    """MXNet stores every row of a row_sparse state, here those that were updated are stored."""
    if isinstance(state, list):
        return [without_indices(s) for s in state]
    return {k: v for k, v in state.items() if k != "indices"} if isinstance(state, dict) else state


def store(mx, values, *calls):
    kv = mx.kv.create("local")
    for key, value in values.items():
        kv.init(key, value(mx))
    return [plain(call(mx, kv)) for call in calls]


def blank(mx, stype="row_sparse"):
    return mx.nd.zeros((4, 2)).tostype(stype)


def pulled(numbers, outs=1, keys="e", stype="row_sparse"):
    def call(mx, kv):
        out = [blank(mx, stype) for _ in range(outs)]
        ids = [mx.nd.array(n) for n in numbers] if isinstance(numbers[0], list) else mx.nd.array(numbers)
        kv.row_sparse_pull(keys, out=out if outs > 1 else out[0], row_ids=ids)
        return out
    return call


def plainly(stype, **options):
    def call(mx, kv):
        out = blank(mx, stype)
        kv.pull("e", out=out, **options)
        return out
    return call


def pushed(*numbers):
    def call(mx, kv):
        kv.push("e", [rows(mx, n) for n in numbers])
    return call


def bound(mx, graph, **stypes):
    """Outputs and gradients of a graph of sparse variables, bound to arrays."""
    sym = graph(mx.sym, *[mx.sym.var(n, stype=s) for n, s in stypes.items()])
    e = sym.bind(mx.cpu(), {n: weight(mx).tostype(s) for n, s in stypes.items()},
                 args_grad={n: blank(mx, s) for n, s in stypes.items()})
    out = e.forward(is_train=True)
    e.backward([mx.nd.ones(o.shape) for o in out])
    return without_indices(plain(out)), without_indices(plain(e.grad_dict))


def storage(mx, graph, shapes, stype_dict=None, **stypes):
    sym = graph(mx.sym, *[mx.sym.var(n, stype=s) for n, s in stypes.items()])
    e = sym.simple_bind(mx.cpu(), stype_dict=stype_dict, **shapes)
    return {n: [a.stype, e.grad_dict[n].stype] for n, a in e.arg_dict.items()}


def module(mx, optimizer, **options):
    x = mx.nd.array((np.arange(32).reshape(8, 4) % 3) * 1.0)
    data, w, b = mx.sym.var("data", stype="csr"), mx.sym.var("weight", stype="row_sparse",
                                                             shape=(4, 2)), mx.sym.var("bias", shape=(2,))
    out = mx.sym.SoftmaxOutput(mx.sym.broadcast_add(mx.sym.sparse.dot(data, w), b), mx.sym.var("softmax_label"),
                               name="softmax")
    it = mx.io.NDArrayIter({"data": x.tostype("csr")}, {"softmax_label": mx.nd.array(np.arange(8) % 2)}, batch_size=4,
                           last_batch_handle="discard")
    m = mx.mod.Module(out, data_names=["data"], label_names=["softmax_label"])
    m.bind(it.provide_data, it.provide_label)
    m.init_params(mx.init.One())
    m.init_optimizer(kvstore=mx.kv.create("local"), optimizer=optimizer, optimizer_params=options)
    for batch in it:
        m.prepare(batch, sparse_row_id_fn=lambda b: {"weight": mx.nd.arange(4)})
        m.forward_backward(batch)
        m.update()
    return m.get_params()[0], m._exec_group.execs[0].grad_dict["weight"].stype


CASES = {
    "embedding": embedded, "embedding hybridized": lambda mx: embedded(mx, True), "zero_grad": zeroed, "tied": tied,
    "take": taken,
    "a row of zeros": lambda mx: backward(mx, embedding(mx), [1, 3], 0.0),
    "look-up in dense": lambda mx: looked_up(mx, "default"),
    "look-up in row_sparse": lambda mx: looked_up(mx, "row_sparse"),
    "out of range": lambda mx: mx.nd.Embedding(mx.nd.array([7]), weight(mx).tostype("row_sparse"), input_dim=4,
                                               output_dim=2, sparse_grad=True).asnumpy(),
    "data() of row_sparse": lambda mx: table(mx).weight.data(), "no trainer": lambda mx: table(mx)(mx.nd.array([1])),
    "row_sparse_data of dense": lambda mx: embedding(mx).weight.row_sparse_data(mx.nd.array([1])),
    "two devices": lambda mx: two_devices(mx, "default"),
    "two devices, row_sparse": lambda mx: two_devices(mx, "row_sparse"),
    "module": lambda mx: module(mx, "sgd", learning_rate=0.5, momentum=0.9),
    "module adagrad": lambda mx: module(mx, "adagrad", learning_rate=0.5),
    "storage of dot": lambda mx: storage(mx, lambda s, x, w: s.dot(x, w), {"x": (3, 4), "w": (4, 2)}, x="csr",
                                         w="row_sparse"),
    "storage of dot, transposed": lambda mx: storage(mx, lambda s, x, w: s.dot(x, w, transpose_a=True),
                                                     {"x": (3, 4), "w": (3, 2)}, x="csr", w="row_sparse"),
    "storage by stype_dict": lambda mx: storage(mx, lambda s, x, w: s.dot(x, w), {"x": (3, 4), "w": (4, 2)},
                                                {"x": "csr", "w": "row_sparse"}, x=None, w=None),
    "storage of a sum": lambda mx: storage(mx, lambda s, x, w: x + w, {"x": (3, 4), "w": (3, 4)}, x="row_sparse",
                                           w="row_sparse"),
    "storage of squares": lambda mx: storage(mx, lambda s, x: s.square(x), {"x": (3, 4)}, x="csr"),
    "storage of a total": lambda mx: storage(mx, lambda s, x: s.sum(x), {"x": (3, 4)}, x="csr"),
    "storage of Embedding": lambda mx: storage(mx,
                                               lambda s, x, w: s.Embedding(x, w, input_dim=4, output_dim=2,
        sparse_grad=True), {"x": (3,)}, x=None, w=None),
}
TRAINED = {"sgd": [{}, {"momentum": 0.9, "wd": 0.1}, {"momentum": 0.9, "wd": 0.1, "lazy_update": False}],
           "adam": [{"wd": 0.1}, {"wd": 0.1, "lazy_update": False}],
           "adagrad": [{}], "ftrl": [{}], "nag": [{"wd": 0.1}, {"momentum": 0.9}], "rmsprop": [{}],
           "lars": [{"momentum": 0.9, "wd": 0.1}], "lbsgd": [{"wd": 0.1}]}
for _name, _kinds in TRAINED.items():
    for _o in _kinds:
        CASES[f"trained {_name} {_o}"] = lambda mx, n=_name, o=_o: trained(mx, n, learning_rate=0.1, **o)
for _name in ("sgd", "adam", "adagrad", "ftrl", "rmsprop"):
    CASES[f"table {_name}"] = lambda mx, n=_name: without_indices(plain(sparse_table(mx, n, learning_rate=0.5)))
_UPDATED = {**TRAINED, "groupadagrad": [{}], "signum": [{}], "lamb": [{}], "adadelta": [{}]}
for _name, _kinds in _UPDATED.items():
    for _o, _stypes in itertools.product(_kinds, (("default", "row_sparse"), ("row_sparse", "row_sparse"),
                                                  ("row_sparse", "default"))):
        CASES[f"updated {_name} {_o} {_stypes}"] = lambda mx, n=_name, o=_o, s=_stypes: updated(mx, n, s,
                **({} if n == "adadelta" else {"learning_rate": 0.5}), **o)
for _name, _o, _stypes in itertools.product(("sgd", "nag", "adam", "ftrl", "rmsprop"), ({}, {"lazy_update": False}), (
        ("default", "row_sparse"), ("row_sparse", "row_sparse"), ("row_sparse", "default"))):
    if _name in ("sgd", "adam") or not _o:
        CASES[f"updated half {_name} {_o} {_stypes}"] = lambda mx, n=_name, o=_o, s=_stypes: updated(
                mx, n, s, "float16", multi_precision=True, learning_rate=0.25, wd=0.125, **o,
                **({"momentum": 0.5} if n in ("sgd", "nag") else {}))


def sparse_value(mx):
    return weight(mx).tostype("row_sparse")


STORES = {"rows": [pulled([2, 0, 2])], "rows of two axes": [pulled([[2, 0]])], "two arrays": [pulled([[2], [0]], 2)],
          "one for all": [pulled([2, 1], 2)],
          "too many": [pulled([[2], [0], [1]], 2)], "into dense": [pulled([2], stype="default")],
          "pull": [plainly("row_sparse")],
          "pull all": [plainly("row_sparse", ignore_sparse=False)], "pull dense": [plainly("default")],
          "push": [pushed([1], [1, 3]), pulled([0, 1, 2, 3])]}
for _name, _calls in STORES.items():
    CASES[f"store {_name}"] = lambda mx, c=_calls: store(mx, {"e": sparse_value}, *c)
CASES["store dense, rows"] = lambda mx: store(mx, {"e": weight}, pulled([2]))
CASES["store dense, pull"] = lambda mx: store(mx, {"e": weight}, plainly("row_sparse"))
CASES["store two keys"] = lambda mx: store(mx, {"e": sparse_value, "f": lambda mx: rows(mx, [0, 1])},
                                           pulled([[2], [0]], 2, ["e", "f"]))
GRAPHS = {"add": lambda s, a, b: a + b, "elemwise_add": lambda s, a, b: s.elemwise_add(a, b),
          "sparse.elemwise_sub": lambda s, a, b: s.sparse.elemwise_sub(a, b),
          "mul": lambda s, a, b: a * b, "elemwise_mul": lambda s, a, b: s.elemwise_mul(a, b),
          "broadcast_mul": lambda s, a, b: s.broadcast_mul(a, b),
          "add_n": lambda s, a, b: s.add_n(a, b)}
for _name, _graph in GRAPHS.items():
    for _a, _b in (("row_sparse", "row_sparse"), ("csr", "csr"), ("csr", "default"), ("row_sparse", "default")):
        CASES[f"graph {_name} {_a} {_b}"] = lambda mx, g=_graph, a=_a, b=_b: bound(mx, g, a=a, b=b)
for _a, _b in itertools.product(("default", "row_sparse", "csr"), repeat=2):
    CASES[f"graph cast {_a} {_b}"] = lambda mx, a=_a, b=_b: bound(mx, lambda s, x: s.cast_storage(x, stype=b), a=a)
for _op in ("square", "relu", "sqrt", "negative", "zeros_like", "sigmoid", "sum", "identity"):
    for _a in ("row_sparse", "csr"):
        CASES[f"graph {_op} {_a}"] = lambda mx, o=_op, a=_a: bound(mx, lambda s, x: getattr(s, o)(x), a=a)
