"""Small behaviours of Gluon, Symbols and Modules: run by MXNet when recording and by hybrid when checking.

Each function takes the library and gives text, numbers, lists and dicts; ``raises`` tells whether a call raises what a program catches.
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
    return [s.attr_dict(), again.attr_dict() == s.attr_dict(), s.attr("wd_mult"), s.attr("__wd_mult__"), s.attr("ctx_group")]


@habit
def parts_of_symbols(mx):
    a = mx.sym.var("a")
    g = mx.sym.Group([a, mx.sym.split(a, 3, axis=0, name="sp")])
    return [a[0:1].list_outputs(), g[1:3].list_outputs(), g["sp_output1"].list_outputs(), raises(ValueError, lambda: g["q"]), raises(ValueError, lambda: mx.sym.relu(a)["q"])]


def _module(mx):
    net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), name="bn")
    mod = mx.mod.Module(net, label_names=None, context=[mx.cpu(0), mx.cpu(1)])
    args = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.ones((2,)), "bn_gamma": mx.nd.ones((2,)), "bn_beta": mx.nd.ones((2,))}
    return mod, args, {"bn_moving_mean": mx.nd.zeros((2,)), "bn_moving_var": mx.nd.ones((2,))}


@habit
def values_of_unknown_names(mx):
    mod, args, aux = _module(mx)
    mod.bind([("data", (4, 3))])
    more = dict(args, q=mx.nd.ones((1,)))
    return [raises(ValueError, mod.init_params, mx.init.One(), more, aux), raises(ValueError, mod.set_params, more, aux),
            raises(ValueError, mod.set_params, more, aux, allow_missing=True),
            raises(ValueError, mod.set_params, more, aux, allow_missing=True, allow_extra=True), raises(ValueError, mod.set_params, args, {}, allow_missing=True), mod.label_shapes]


@habit
def calls_out_of_order(mx):
    mod, args, aux = _module(mx)
    out = [raises(AssertionError, mod.init_params), raises(AssertionError, mod.get_params), raises(AssertionError, mod.forward, None),
           raises(AssertionError, lambda: mod.data_shapes)]
    mod.bind([("data", (4, 3))], for_training=False)
    out += [raises(AssertionError, mod.init_optimizer), raises(AssertionError, mod.get_outputs)]
    mod.init_params()
    return out + [raises(AssertionError, mod.update), raises(AssertionError, mod.get_input_grads), raises(AssertionError, mod.backward),
                  raises(NotImplementedError, mx.mod.BaseModule().forward, None)]


@habit
def executors_of_a_module(mx):
    mod, args, aux = _module(mx)
    mod.bind([("data", (4, 3))], inputs_need_grad=True)
    mod.init_params()
    g = mod._exec_group
    return [[[x.shape for x in row] for row in rows] for rows in (g.param_arrays, g.grad_arrays, g.aux_arrays, g.input_grad_arrays)] + [
        g.param_names, [e.arg_dict["data"].shape for e in g.execs]]
