"""Ways in which user code writes hybrid_forward: run by MXNet when recording and by hybrid when checking.

Each is the ``hybrid_forward`` of a block with the parameters named in ``idiom``.
"""

from __future__ import annotations

import numpy as onp

IDIOMS: dict = {}


def idiom(**parameters):
    """Register a hybrid_forward; parameters: shapes, or functions of ``nn`` that give a layer."""

    def add(f):
        IDIOMS[f.__name__] = (f, parameters)
        return f

    return add


@idiom()
def shape_use(self, F, x):
    return F.reshape(x, (x.shape[0], -1)) * x.shape[1]


@idiom()
def shape_unpack(self, F, x):
    b, c, w = x.shape
    return x.reshape((b * c, w)).sum(axis=0) + F.ones((w,)) * c


@idiom()
def loops(self, F, x):
    out = []
    for i in range(3):
        out.append(F.slice_axis(x, axis=1, begin=i, end=i + 1) * i)
    return F.concat(*out, dim=1)


@idiom()
def stackit(self, F, x):
    return F.stack(*[x * i for i in range(3)], axis=0)


@idiom()
def split3(self, F, x):
    a, b, c = F.split(x, num_outputs=3, axis=1)
    return a + b * c


@idiom()
def split_sq(self, F, x):
    return [o for o in F.split(x, num_outputs=3, axis=1, squeeze_axis=True)]


@idiom()
def tuple_out(self, F, x):
    return x + 1, (x * 2, [x - 1])


@idiom()
def dict_like(self, F, x):
    d = {"a": x, "b": F.relu(x)}
    return d["a"] + d["b"]


@idiom(w=(4,))
def bmul(self, F, x, w):
    return F.broadcast_mul(x, F.reshape(w, (1, 1, 4)))


@idiom(w=(4,))
def plus_broadcast(self, F, x, w):
    return F.broadcast_add(x, w) - F.broadcast_sub(x, w)


@idiom()
def inplace(self, F, x):
    y = x * 1
    y += 2
    y *= 3
    return y


@idiom()
def index(self, F, x):
    return x[0] + x[:, 1:2].sum() + x[..., -1].mean()


@idiom()
def ifattr(self, F, x):
    if self.params is not None:
        x = F.tanh(x)
    return x


@idiom()
def noneargs(self, F, x, m=None):
    if m is not None:
        x = x * m
    return x


@idiom()
def wherec(self, F, x):
    return F.where(x > 0, x, F.zeros_like(x) - 1)


@idiom()
def comp(self, F, x):
    return (x > 0) * x + (x <= 0) * 2 + (x == 0) + (x != 0) * 0.5


@idiom()
def swap(self, F, x):
    return x.swapaxes(1, 2).expand_dims(0).squeeze(axis=0)


@idiom()
def reduce(self, F, x):
    return F.sum(x, axis=(1, 2)), F.mean(x, axis=1,
                                         keepdims=True), F.max(x,
                                                               axis=-1), F.min(x), F.norm(x, axis=1), F.prod(x,
            axis=0), F.argmax(x, axis=1)


@idiom()
def softs(self, F, x):
    return F.softmax(x, axis=1), F.log_softmax(x), F.softmax(x, temperature=2.0), F.softmin(x)


@idiom()
def consts(self, F, x):
    return x + F.ones_like(x) * F.arange(0, 4) + F.zeros((2, 3, 4)) + F.full((4,), 2)


@idiom()
def embed(self, F, x):
    return F.one_hot(F.argmax(x, axis=-1), 4)


@idiom()
def picks(self, F, x):
    return F.pick(x, F.argmax(x, axis=-1), axis=-1), F.take(x, F.argmax(F.mean(x, axis=(1, 2)), axis=0), axis=0)


@idiom()
def clipexp(self, F, x):
    return F.clip(F.exp(x), 0.5, 2).log().sqrt().square()


@idiom()
def dots(self, F, x):
    return F.batch_dot(x, x, transpose_b=True), F.dot(x, F.reshape(x, (4, 6)))


@idiom()
def namearg(self, F, x):
    return F.relu(x, name="myrelu")


@idiom(fc=lambda nn: nn.Dense(3, flatten=False, weight_initializer="ones"), act=lambda nn: nn.Activation("relu"))
def children(self, F, x):
    return self.act(self.fc(x))


@idiom()
def stopg(self, F, x):
    return F.stop_gradient(x) * x


@idiom()
def padflip(self, F, x):
    return F.flip(F.pad(x.expand_dims(1), mode="constant", constant_value=1, pad_width=(0, 0, 0, 0, 1, 1, 2, 0)),
                  axis=3)


@idiom()
def tilerep(self, F, x):
    return F.tile(x, (1, 2, 1)), F.repeat(x, 2, axis=1)


@idiom()
def ln(self, F, x):
    return F.LayerNorm(x, F.ones((4,)), F.zeros((4,)))


@idiom()
def fcs(self, F, x):
    return F.FullyConnected(x, F.ones((5, 12)), F.zeros((5,)),
                            num_hidden=5), F.Activation(x, "sigmoid"), F.LeakyReLU(x, act_type="leaky", slope=0.1)


@idiom()
def transp(self, F, x):
    return F.transpose(x, (2, 0, 1)), x.transpose()


@idiom()
def slike(self, F, x):
    return F.slice_like(x, F.zeros((1, 2, 4)), axes=(0, 1)), F.slice(x, begin=(0, 1, None),
                                                                     end=(2, 3, None)), F.reshape_like(x,
            F.zeros((4, 6)))


@idiom()
def npfn(self, F, x):
    return x * onp.float32(2) + onp.sqrt(2)


@idiom()
def powers(self, F, x):
    return x**2 + 2**x + abs(x) + (-x) + x % 0.7 + 1 / (x + 3)


@idiom()
def logic(self, F, x):
    return F.broadcast_logical_and(x > 0, x < 0.5) + F.logical_not(x > 0)


@idiom()
def cast(self, F, x):
    return F.cast(x, "int32").astype("float64"), x.astype("float16")


@idiom()
def addn(self, F, x):
    return F.add_n(x, x, x) + F.ElementWiseSum(x, x)


@idiom()
def seqmask(self, F, x):
    return F.SequenceMask(x.transpose((1, 0, 2)), F.arange(1, 3), use_sequence_length=True)


@idiom()
def kw(self, F, x, **kwargs):
    return x * kwargs.get("scale", 3)


def block(mx, name):
    """A block with that hybrid_forward, and its parameters."""
    f, parameters = IDIOMS[name]

    class Net(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                for key, made in parameters.items():
                    setattr(self, key, self.params.get(key, shape=made, init=mx.init.Constant(0.5))
                            if isinstance(made, tuple) else made(mx.gluon.nn))

        hybrid_forward = f

    return Net(prefix=name + "_")


def flat(value):
    """The arrays in a result."""
    if isinstance(value, (list, tuple)):
        return [a for v in value for a in flat(v)]
    return [value.asnumpy()]


def run(mx, name, hybridized, path=None):
    """Results and, where a path is given, the exported graph as text."""
    net = block(mx, name)
    net.initialize()
    if hybridized:
        net.hybridize()
    x = mx.nd.array(onp.linspace(-1, 1, 24).reshape(2, 3, 4))
    out = flat(net(x))
    if path is None:
        return out, None
    net.export(path)
    with open(path + "-symbol.json") as file:
        return out, file.read()
