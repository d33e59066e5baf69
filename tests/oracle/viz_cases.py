"""Symbols whose tables and drawings are recorded from MXNet by record_viz.py and made by this library in
tests/mxnet/test_viz.py."""
import contextlib
import io
import sys
import types


def lenet(s):
    x = s.Activation(s.Convolution(s.var("data"), num_filter=6, kernel=(5, 5), name="conv1"), act_type="tanh",
                     name="tanh1")
    x = s.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2), name="pool1")
    x = s.LeakyReLU(s.BatchNorm(x, name="bn1"), name="leaky1")
    x = s.Flatten(x, name="flat")
    x = s.Activation(s.FullyConnected(x, num_hidden=20, name="fc1"), act_type="relu", name="relu1")
    return s.SoftmaxOutput(s.FullyConnected(x, num_hidden=10, no_bias=True, name="fc2"), name="softmax")


def branches(s):
    x = s.Convolution(s.var("data"), num_filter=8, kernel=(3, 3), stride=(2, 2), pad=(1, 1), no_bias=True, name="stem")
    a = s.Convolution(x, num_filter=8, kernel=(1, 1), num_group=4,
                      name="a_convolution_with_a_name_too_long_for_its_column_of_the_table")
    b = s.Pooling(x, pool_type="avg", kernel=(3, 3), pad=(1, 1), name="b")
    x = s.Concat(a, b, name="both")
    parts = s.SliceChannel(x, num_outputs=2, name="parts")
    return s.Pooling(parts[0] + parts[1], global_pool=True, kernel=(1, 1), pool_type="max", name="last")


def words(s):
    return s.mean(s.Embedding(s.var("data"), input_dim=50, output_dim=4, name="embed"), axis=1, name="mean")


CASES = {"lenet": (lenet, {"data": (2, 1, 28, 28)}), "branches": (branches, {"data": (1, 8, 16, 16)}),
         "words": (words, {"data": (3, 7)})}


class Digraph:
    """In place of graphviz's: keeps what is drawn."""

    def __init__(self, **kwargs):
        self.drawn = [["graph", kwargs]]

    def node(self, **kwargs):
        self.drawn.append(["node", kwargs])

    def edge(self, **kwargs):
        self.drawn.append(["edge", kwargs])


def printed(mx, symbol, *args, **kwargs):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        mx.viz.print_summary(symbol, *args, **kwargs)
    return out.getvalue()


def run(mx, name):
    """Everything about a case, as JSON."""
    make, shape = CASES[name]
    symbol = make(mx.sym)
    real = sys.modules.get("graphviz")
    sys.modules["graphviz"] = types.SimpleNamespace(Digraph=Digraph)
    try:
        drawn = [mx.viz.plot_network(symbol, title=name).drawn,
                 mx.viz.plot_network(symbol, shape=shape, node_attrs={"fixedsize": "false"}, hide_weights=False).drawn]
    finally:
        sys.modules.pop("graphviz")
        if real is not None:
            sys.modules["graphviz"] = real
    return {"summary": printed(mx, symbol, shape), "without shapes": printed(mx, symbol),
            "narrow": printed(mx, symbol, shape, 60, [20, 35, 45, 60]), "drawn": drawn}
