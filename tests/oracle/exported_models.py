"""Models of many kinds that both libraries build, export and load. Every case gets the package (``mx``) and gives a
block and its inputs.

record_exported_models.py runs them with MXNet 1.9.1; tests/gluon/test_exported_models.py reads the results.
"""
import numpy as np


def draw(*shape):
    return np.random.uniform(-1, 1, shape).astype("float32")


def chain(mx, *layers):
    net = mx.gluon.nn.HybridSequential()
    for layer in layers:
        net.add(layer)
    return net


def block(mx, forward, **layers):
    """A block of a function (self, F, inputs …) and layers."""
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                for name, layer in layers.items():
                    setattr(self, name, layer)

        def hybrid_forward(self, F, *args, **params):
            return forward(self, F, *args, **params)
    return Net()


def convolutions(mx):
    nn = mx.gluon.nn
    return chain(mx, nn.Conv2D(8, 3, strides=2, padding=1, activation="relu"), nn.BatchNorm(),
                 nn.Conv2D(8, (1, 3), padding=(0, 1), groups=4, use_bias=False),
                 nn.Activation("tanh"), nn.Conv2D(4, 3, dilation=2, padding=2), nn.MaxPool2D(3, 2, 1, ceil_mode=True),
                 nn.AvgPool2D(2, 1, 0, count_include_pad=False), nn.Flatten(),
                 nn.Dense(5, activation="sigmoid")), [draw(2, 3, 17, 19)]


def convolutions_3d(mx):
    nn = mx.gluon.nn
    return chain(mx, nn.Conv3D(4, (2, 3, 3), padding=(1, 1, 1)), nn.MaxPool3D(2, ceil_mode=True),
                 nn.AvgPool3D((1, 2, 2)), nn.GlobalAvgPool3D(),
                 nn.Flatten()), [draw(2, 3, 6, 8, 8)]


def convolutions_1d(mx):
    nn = mx.gluon.nn
    return chain(mx, nn.Conv1D(6, 5, 2, 2), nn.AvgPool1D(3, 2, 1), nn.Conv1D(6, 3, groups=2),
                 nn.Conv1DTranspose(6, 4, 2, 1), nn.GlobalMaxPool1D(), nn.Dense(2)), [draw(3, 4, 40)]


def transposed(mx):
    nn = mx.gluon.nn
    return chain(mx, nn.Conv2DTranspose(6, 4, 2, 1, activation="relu"),
                 nn.Conv2DTranspose(4, 3, (2, 1), 1, output_padding=(1, 0), use_bias=False)), [draw(2, 3, 5, 6)]


def norms(mx):
    nn = mx.gluon.nn
    return chain(mx, nn.BatchNorm(scale=False), nn.InstanceNorm(), nn.GroupNorm(2), nn.LayerNorm(axis=1),
                 nn.BatchNorm(axis=2, center=False, epsilon=1e-3),
                 nn.LayerNorm(scale=False), nn.BatchNorm(use_global_stats=True),
                 nn.InstanceNorm(axis=2, epsilon=1e-3)), [draw(2, 4, 5, 6)]


def activations(mx):
    nn = mx.gluon.nn
    return chain(mx, nn.LeakyReLU(.2), nn.ELU(.7), nn.SELU(), nn.GELU(), nn.Swish(1.5), nn.PReLU(),
                 nn.Activation("softsign"), nn.Activation("softrelu"),
                 nn.HybridLambda("tanh")), [draw(3, 4)]


def embedding(mx):
    nn = mx.gluon.nn
    return chain(mx, nn.Embedding(10, 6), nn.Dropout(.5, axes=(1,)), nn.Dense(4, flatten=False),
                 nn.LayerNorm()), [np.random.randint(0, 10, (3, 5)).astype("float32")]


def unrolled(mx, cell, size=3):
    def forward(self, F, x):
        out, states = self.cell.unroll(4, x, layout="NTC", merge_outputs=True)
        return [out, *states]
    return block(mx, forward, cell=cell), [draw(2, 4, size)]


def cells(mx):
    rnn = mx.gluon.rnn
    stack = rnn.HybridSequentialRNNCell()
    for cell in (rnn.LSTMCell(3), rnn.ResidualCell(rnn.GRUCell(3)), rnn.DropoutCell(.3),
                 rnn.ZoneoutCell(rnn.RNNCell(3), .2, .2)):
        stack.add(cell)
    return unrolled(mx, stack)


def cells_both_ways(mx):
    return unrolled(mx, mx.gluon.rnn.BidirectionalCell(mx.gluon.rnn.LSTMCell(3), mx.gluon.rnn.GRUCell(4)))


def cells_projected(mx):
    return unrolled(mx, mx.gluon.contrib.rnn.LSTMPCell(5, 3))


def cells_convolutional(mx):
    def forward(self, F, x):
        out, states = self.cell.unroll(3, x, layout="NTC", merge_outputs=True)
        return [out, *states]
    return block(mx, forward, cell=mx.gluon.contrib.rnn.Conv2DLSTMCell((2, 6, 6), 4, 3, 3,
                                                                       (1, 1))), [draw(2, 3, 2, 6, 6)]


def residual(mx):
    nn = mx.gluon.nn

    def unit(channels):
        return block(mx, lambda self, F, x: F.Activation(self.b(self.a(x)) + self.c(x), act_type="relu"),
                     a=nn.Conv2D(channels, 3, padding=1, use_bias=False), b=nn.BatchNorm(), c=nn.Conv2D(channels, 1))
    return chain(mx, unit(4), unit(6), nn.GlobalAvgPool2D(), nn.Dense(3)), [draw(2, 3, 8, 8)]


def shared(mx):
    nn = mx.gluon.nn
    first = nn.Dense(4, in_units=4, activation="relu")
    return chain(mx, first, nn.Dense(4, in_units=4, params=first.params), first), [draw(2, 4)]


def several_outputs(mx):
    def forward(self, F, x, y):
        a, b, c = F.split(x, num_outputs=3, axis=1)
        return a * 2, [F.concat(b, y, dim=1), F.broadcast_add(c, y)], x
    return block(mx, forward), [draw(2, 6), draw(2, 2)]


def loop(mx):
    def forward(self, F, x, h):
        return F.contrib.foreach(lambda item, state: (F.tanh(self.d(item) + state), F.sigmoid(state * item)), x, h)
    return block(mx, forward, d=mx.gluon.nn.Dense(4, flatten=False)), [draw(5, 2, 4), draw(2, 4)]


def loop_of_a_cell(mx):
    def forward(self, F, x, h, c):
        out, states = F.contrib.foreach(self.cell, x, [h, c])
        return [out, *states]
    return block(mx, forward, cell=mx.gluon.rnn.LSTMCell(4, input_size=3)), [draw(6, 2, 3), draw(2, 4), draw(2, 4)]


def branch(mx):
    return block(mx, lambda self, F, x, y: F.contrib.cond(F.sum(x) > F.sum(y), lambda: x * y,
                                                          lambda: x - y)), [draw(2, 3), draw(2, 3)]


def concurrent(mx):
    extra, nn = mx.gluon.contrib.nn, mx.gluon.nn
    both = extra.HybridConcurrent(axis=1)
    for layer in (nn.Conv2D(4, 1), extra.Identity(), nn.Conv2D(1, 3, padding=1)):
        both.add(layer)
    return chain(mx, both, extra.PixelShuffle2D(2), extra.SyncBatchNorm(), nn.ReflectionPad2D(2)), [draw(2, 3, 4, 4)]


def deformable(mx):
    return mx.gluon.contrib.cnn.DeformableConvolution(4, 3, padding=1, num_deformable_group=1), [draw(2, 4, 6, 6)]


def modulated(mx):
    return mx.gluon.contrib.cnn.ModulatedDeformableConvolution(4, 3, padding=1), [draw(2, 4, 6, 6)]


def attention(mx):
    nn = mx.gluon.nn

    def forward(self, F, x, mask):
        q, k, v = (F.reshape(F.transpose(F.reshape(t, (0, 0, 2, -1)), (0, 2, 1, 3)), (-3, 0, 0))
                   for t in F.split(self.qkv(x), 3, axis=-1))
        scores = F.batch_dot(F.contrib.div_sqrt_dim(q), k, transpose_b=True)
        scores = F.where(F.repeat(mask, 2, axis=0), scores, -1e18 * F.ones_like(scores))
        found = F.batch_dot(F.softmax(scores, axis=-1), v)
        return self.ln(x + self.o(F.reshape(F.transpose(F.reshape(found, (-4, -1, 2, 0, 0)), (0, 2, 1, 3)),
                                            (0, 0, -3))))
    return block(mx, forward, qkv=nn.Dense(24, flatten=False), o=nn.Dense(8, flatten=False), ln=nn.LayerNorm()), [
        draw(2, 5, 8), (np.random.rand(2, 5, 5) > .3).astype("float32")]


def interleaved(mx):
    def forward(self, F, x):
        scores = F.contrib.interleaved_matmul_selfatt_qk(x, heads=2)
        return scores, F.contrib.interleaved_matmul_selfatt_valatt(x, F.softmax(scores), heads=2)
    return block(mx, forward), [draw(5, 2, 24)]


def numpy_net(mx):
    mx.npx.set_np()
    nn = mx.gluon.nn
    return chain(mx, nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.PReLU(),
                 nn.Flatten(), nn.Dense(8, activation="tanh"),
                 nn.LayerNorm(), nn.Dropout(.5), nn.GELU(), nn.Swish(), nn.SELU(), nn.ELU(), nn.LeakyReLU(.1),
                 nn.Dense(3)), [draw(2, 3, 8, 8)]


def numpy_functions(mx):
    mx.npx.set_np()

    def forward(self, F, x, y):
        np_ = F.np
        return (np_.exp(x), np_.tanh(x), np_.sqrt(np_.absolute(x)), F.npx.relu(x), F.npx.sigmoid(x), x + y,
                2 / (x + 3), np_.maximum(x, y), np_.sum(x), np_.mean(x, axis=1),
                np_.std(x), np_.var(x, axis=1, ddof=1), np_.linalg.norm(x), np_.cumsum(x, axis=1), np_.stack([x, x]),
                np_.squeeze(np_.expand_dims(x, 1), axis=1), x.T,
                np_.average(x, axis=1), F.npx.topk(x, k=2), np_.eye(3), np_.zeros((2,)), np_.matmul(x, x.T),
                np_.full_like(x, 2), np_.ones(()))
    return block(mx, forward), [draw(3, 4), draw(3, 1)]


def numpy_attention(mx):
    mx.npx.set_np()
    return (block(mx,
                  lambda self, F, x, y: F.npx.batch_dot(F.npx.softmax(F.npx.batch_dot(x, y, transpose_b=True) / 8 ** .5, axis=-1), y)), [draw(2, 5, 8), draw(2, 5, 8)])  # noqa: E501


CASES = {f.__name__: f for f in (
    convolutions, convolutions_3d, convolutions_1d, transposed, norms, activations, embedding, cells, cells_both_ways,
    cells_projected, cells_convolutional, residual,
    shared, several_outputs, loop, loop_of_a_cell, branch, concurrent, deformable, modulated, attention, interleaved,
    numpy_net, numpy_functions, numpy_attention)}


def export(mx, make, folder):
    """Build, run and export a model: folder/m-symbol.json, m-0000.params, io.npz (i0 …, o0 …)."""
    np.random.seed(sum(map(ord, make.__name__)))
    net, inputs = make(mx)
    numpy_mode = mx.util.is_np_array()
    try:
        wrap = mx.np.array if numpy_mode else mx.nd.array
        net.initialize(mx.init.Uniform(0.5))
        net.hybridize()
        net(*[wrap(x) for x in inputs])
        for name, p in net.collect_params().items():
            low, high = (.5, 1.5) if "running" in name else (-.5, .5)
            p.set_data(wrap(np.random.uniform(low, high, p.shape).astype("float32")))
        found = []

        def flat(value):
            if isinstance(value, (list, tuple)):
                for v in value:
                    flat(v)
            else:
                found.append(value.asnumpy())
        flat(net(*[wrap(x) for x in inputs]))
        net.export(str(folder / "m"), 0)
    finally:
        mx.npx.reset_np()
    np.savez(folder / "io.npz", **{f"i{k}": x for k, x in enumerate(inputs)},
             **{f"o{k}": x for k, x in enumerate(found)}, numpy=numpy_mode)
