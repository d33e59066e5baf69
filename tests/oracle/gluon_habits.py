"""Small behaviours of Gluon, Symbols and Modules: run by MXNet when recording and by hybrid when checking.

Each function takes the library and gives text, numbers, lists and dicts; ``raises`` tells whether a call raises what a
program catches.
"""
from __future__ import annotations

HABITS: dict = {}


def habit(f):
    """Register a case."""
    HABITS[f.__name__] = f
    return f


def raises(kind, call, *args, **kwargs):
    """True if the call raises an error that is caught as ``kind``; else the error's name, "" without one."""
    try:
        call(*args, **kwargs)
    except Exception as err:                                  # noqa: BLE001  its kind is what is asked for
        return isinstance(err, kind) or type(err).__name__
    return ""


@habit
def graph_text(mx):
    s = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="fc", no_bias=True), name="bn")
    return [s.debug_str(), mx.sym.Group([mx.sym.var("x"), s[0]]).debug_str(), mx.sym.var("q").debug_str()]


@habit
def hidden_notes(mx):
    with mx.AttrScope(ctx_group="dev2"):
        x = mx.sym.var("x", attr={"force_mirroring": "True", "lr_mult": "3", "own": "r"})
        s = mx.sym.FullyConnected(x, num_hidden=2, name="f", attr={"wd_mult": ".5", "__lr_mult__": "2"})
    again = mx.sym.load_json(s.tojson())
    return [s.attr_dict(), again.attr_dict() == s.attr_dict(), s.attr("wd_mult"), s.attr("__wd_mult__"),
            s.attr("ctx_group")]


@habit
def parts_of_symbols(mx):
    a = mx.sym.var("a")
    g = mx.sym.Group([a, mx.sym.split(a, 3, axis=0, name="sp")])
    return [a[0:1].list_outputs(), g[1:3].list_outputs(), g["sp_output1"].list_outputs(),
            raises(ValueError, lambda: g["q"]), raises(ValueError, lambda: mx.sym.relu(a)["q"])]


def _module(mx):
    net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), name="bn")
    mod = mx.mod.Module(net, label_names=None, context=[mx.cpu(0), mx.cpu(1)])
    args = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.ones((2,)), "bn_gamma": mx.nd.ones((2,)),
            "bn_beta": mx.nd.ones((2,))}
    return mod, args, {"bn_moving_mean": mx.nd.zeros((2,)), "bn_moving_var": mx.nd.ones((2,))}


@habit
def values_of_unknown_names(mx):
    mod, args, aux = _module(mx)
    mod.bind([("data", (4, 3))])
    more = dict(args, q=mx.nd.ones((1,)))
    return [raises(ValueError, mod.init_params, mx.init.One(), more, aux),
            raises(ValueError, mod.set_params, more, aux),
            raises(ValueError, mod.set_params, more, aux, allow_missing=True),
            raises(ValueError, mod.set_params, more, aux, allow_missing=True, allow_extra=True),
            raises(ValueError, mod.set_params, args, {}, allow_missing=True), mod.label_shapes]


@habit
def calls_out_of_order(mx):
    mod, args, aux = _module(mx)
    out = [raises(AssertionError, mod.init_params), raises(AssertionError, mod.get_params),
           raises(AssertionError, mod.forward, None),
           raises(AssertionError, lambda: mod.data_shapes)]
    mod.bind([("data", (4, 3))], for_training=False)
    out += [raises(AssertionError, mod.init_optimizer), raises(AssertionError, mod.get_outputs)]
    mod.init_params()
    return out + [raises(AssertionError, mod.update), raises(AssertionError, mod.get_input_grads),
                  raises(AssertionError, mod.backward),
                  raises(NotImplementedError, mx.mod.BaseModule().forward, None)]


@habit
def executors_of_a_module(mx):
    mod, args, aux = _module(mx)
    mod.bind([("data", (4, 3))], inputs_need_grad=True)
    mod.init_params()
    g = mod._exec_group
    return [[[x.shape for x in row] for row in rows] for rows in (g.param_arrays, g.grad_arrays, g.aux_arrays,
                                                                  g.input_grad_arrays)] + [
        g.param_names, [e.arg_dict["data"].shape for e in g.execs]]


@habit
def names_and_scopes(mx):
    block = mx.gluon.block
    net = mx.gluon.nn.HybridSequential(prefix="n_")
    with net.name_scope():
        inside = block._BlockScope._current.value is net._scope
        made = block._BlockScope.create(None, None, "hint")[0]
    with mx.AttrScope(y="hi"):
        notes = mx.AttrScope._current.value.get({})
    return [inside, block._BlockScope._current.value is None, made, notes,
            isinstance(mx.name.NameManager._current.value, mx.name.NameManager)]


@habit
def graph_of_a_block(mx):
    net = mx.gluon.nn.Dense(2, in_units=2, prefix="d_")
    net.initialize()
    net.hybridize()
    before = list(net._cached_graph)
    net(mx.nd.ones((1, 2)))
    inputs, out = net._cached_graph
    return [before, [i.list_outputs() for i in inputs], out.list_outputs(),
            net._get_graph(mx.nd.ones((1, 2)))[1].list_arguments()]


@habit
def unknown_functions(mx):
    nn = mx.gluon.nn
    return [raises(AssertionError, nn.Lambda, "nothing"), raises(AssertionError, nn.HybridLambda, "nothing"),
            raises(ValueError, nn.Lambda, 4),
            raises(AssertionError, mx.autograd.grad, mx.nd.ones((1,)), [])]


@habit
def stores_of_a_trainer(mx):
    found = []
    for contexts, update in (([mx.cpu(0)], None), ([mx.cpu(0), mx.cpu(1)], None), ([mx.cpu(0), mx.cpu(1)], False)):
        w = mx.gluon.Parameter("w", shape=(2,))
        w.initialize(mx.init.One(), ctx=contexts)
        trainer = mx.gluon.Trainer([w], "sgd", {"learning_rate": 0.5, "momentum": 0.5}, kvstore="local",
                                   update_on_kvstore=update)
        with mx.autograd.record():
            losses = [x * x for x in w.list_data()]
        mx.autograd.backward(losses)
        trainer.step(1)
        store = trainer._kvstore
        updater = store._updater if trainer._update_on_kvstore else trainer._updaters[0]
        found.append([store.type if store is not None else None, trainer._update_on_kvstore, sorted(updater.states),
                      updater.optimizer is trainer.optimizer,
                      [x.asnumpy().tolist() for x in w.list_data()]])
    return found


@habit
def norm_of_gradients(mx):
    return [type(mx.gluon.utils.clip_global_norm([mx.nd.array([3, 4])], 1)).__name__,
            float(mx.gluon.utils.clip_global_norm([mx.nd.array([3, 4])], 1))]


@habit
def shapes_with_lengths_of_zero(mx):
    sym, out = mx.sym, []
    with mx.util.np_shape(True):
        a, b = sym.var("a"), sym.var("b", shape=(0, 3))
        out += [(a + 1).infer_shape_partial(), (a + 1).infer_shape(), (b + 1).infer_shape(),
                sym.FullyConnected(b, num_hidden=2).infer_shape(),
                sym.concat(a, b, dim=0).infer_shape(a=(2, 3)), sym.concat(a, b, dim=0).infer_shape_partial(a=(-1, 3)),
                (a + 1).infer_shape(a=())]
        out.append((a * 2).simple_bind(mx.cpu(), a=(0, 2)).forward()[0].shape)
    return out + [(b + 1).infer_shape_partial(), (b + 1).infer_shape()]


@habit
def shapes_of_lengths(mx):
    x, n = mx.sym.var("x"), mx.sym.var("n")
    return [f(x, n, use_sequence_length=True).infer_shape(x=(4, 2, 3))
            for f in (mx.sym.SequenceMask, mx.sym.SequenceLast, mx.sym.SequenceReverse)] + [
        mx.sym.var("a", shape=3).infer_shape()]


@habit
def batches_of_data_alone(mx):
    import collections
    batch = collections.namedtuple("Batch", ["data"])
    mod = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.var("data"), name="softmax"))
    mod.bind([("data", (2, 3))], for_training=False)
    mod.init_params()
    mod.forward(batch([mx.nd.zeros((2, 3))]))
    return mod.get_outputs()[0].asnumpy().tolist()


@habit
def inputs_that_are_counted(mx):
    return [mx.sym.Concat(name="c", num_args=3).list_arguments(),
            mx.sym.Concat(mx.sym.var("a"), name="d", num_args=2).list_arguments(),
            mx.sym.ElementWiseSum(name="e", num_args=2).list_arguments()]


@habit
def types_behind_casts(mx):
    out = mx.sym.var("data") + mx.sym.cast(mx.sym.var("prev"), dtype="float32")

    def names(found):
        return [None if part is None else [None if t is None else t.__name__ for t in part] for part in found]
    return [names(out.infer_type(data="float32")), names(out.infer_type_partial(data="float32")),
            names(out.infer_type(prev="float16"))]


@habit
def several_devices(mx):
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.BatchNorm(in_channels=2), mx.gluon.nn.Dense(1, in_units=2))
    net.initialize(mx.init.One(), ctx=contexts)
    net.hybridize()
    trainer, out = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}), []
    for _ in range(3):
        with mx.autograd.record():
            losses = [(net(x) ** 2).sum()
                      for x in mx.gluon.utils.split_and_load(mx.nd.array([[1, 2], [3, 5], [4, 1], [2, 7]]), contexts)]
        mx.autograd.backward(losses)
        trainer.step(4)
        out.append([x.asnumpy().tolist() for p in (net[0].running_mean, net[0].beta) for x in p.list_data()])
    beside = net[0].beta.data(contexts[1]) * net[0].gamma.data(contexts[0])
    out += [str(beside.context), beside.asnumpy().tolist()]
    net.collect_params().reset_ctx(mx.cpu(0))
    return out + [net[0].running_mean.data().asnumpy().tolist()]


@habit
def names_of_custom_outputs(mx):
    class Prop(mx.operator.CustomOpProp):
        def list_arguments(self):
            return ["a", "b"]

        def list_outputs(self):
            return ["x", "y"]

        def infer_shape(self, in_shape):
            return in_shape, in_shape, []
    mx.operator.register("habit_of_two")(Prop)
    s = mx.sym.Custom(mx.sym.var("p"), op_type="habit_of_two", name="c")
    return [s.list_outputs(), s.list_arguments(), s.attr_dict()]


@habit
def layouts_of_results(mx):
    desc = mx.io.DataDesc("data", (3, 4, 2), layout="TNC")
    mod = mx.mod.Module(mx.sym.Activation(mx.sym.var("data"), act_type="relu", __layout__="TNC"),
                        context=[mx.cpu(0), mx.cpu(1)], label_names=None)
    mod.bind([desc], inputs_need_grad=True)
    mod.init_params()
    x = mx.nd.arange(24).reshape((3, 4, 2))
    mod.forward(mx.io.DataBatch([x], []))
    mod.backward([x])
    return [mod.get_outputs()[0].asnumpy().tolist(), [o.shape for o in mod.get_outputs(merge_multi_context=False)[0]],
            mod.get_input_grads()[0].asnumpy().tolist()]
