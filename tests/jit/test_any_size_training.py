"""Training with programs for any size: recorded calls with their backward pass, and compiled steps, against eager."""
import gc
from collections import Counter
from random import Random

import numpy
import pytest

from hybrid import autograd, gluon, hybridize, nd, random
from hybrid.gluon import nn
from hybrid.ir.at_sizes import guards, refused
from hybrid.jit.compile_policy import eagerly

SIZES = (7, 8, 13, 14, 15, 16, 2, 33, 64, 3, 1, 0, 5)                  # around tiles and vectors


def programs_of(f):
    """The symbolic programs of a function: those of calls, and the two parts of recorded ones."""
    out = []
    for family in f._engine._any_size.families:
        whole = family.entry.program
        out += [whole, *(p for k, v in whole.memo.items() if k[0] == "partition" for p in (v.forward, v.backward))]
    return out


def check_shared(f, most):
    """At most so many programs, one of them symbolic, of which nothing had to be made for one size alone."""
    assert len(f.programs) <= most, [str(p) for p in f.programs]
    assert programs_of(f) and not [why for p in programs_of(f) for why in refused(p)], f._engine._any_size.why


def perceptron(*between, classes=10, seed=0):
    """Two dense layers, and layers between them."""
    random.seed(seed)
    net = nn.HybridSequential()
    net.add(nn.Dense(17, activation="tanh", in_units=20), *between, nn.Dense(classes, in_units=17))
    net.initialize()
    return net


def batch(n, *shape, seed=0):
    """Data and labels of a batch."""
    draw = numpy.random.RandomState(seed + n)
    return nd.array(draw.randn(n, *shape).astype("float32")), nd.array(draw.randint(0, 10, n).astype("float32"))


def close(found, wanted, n):
    """Whether lists of arrays agree."""
    for i, (a, b) in enumerate(zip(found, wanted)):
        assert a.shape == b.shape, n
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=3e-5, err_msg=f"{n}: {i}")


# ---- recorded calls
NETS = {"dropout": lambda: [nn.Dropout(0.5), nn.LayerNorm(in_channels=17)],
        "batch norm": lambda: [nn.BatchNorm(in_channels=17, momentum=0.5)]}


@pytest.mark.parametrize("name", NETS)
def test_a_recorded_call_and_its_backward(name):
    """Losses, gradients and random draws at each size are those of eager calls, of one program for two passes."""
    nets = [perceptron(*NETS[name]()) for _ in range(2)]
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    nets[0].hybridize()
    for n in SIZES:
        if name == "batch norm" and n < 3:                   # differences of next to nothing
            continue
        x, y = batch(n, 20)
        x.attach_grad()
        results = []
        for net in nets:
            random.seed(n)
            with autograd.record():
                out = loss(net(x), y)
            out.backward()
            results.append([v.asnumpy() for v in (out, x.grad, *(p.grad() for p in net.collect_params().values()
                                                                 if p.grad_req != "null"))])
        close(*results, n)
    check_shared(nets[0], 4)


def test_gradients_of_gradients_and_of_some_results_alone():
    """Backward from one of two results, and a gradient that is differentiated again."""
    def parts(x):
        return nd.tanh(x) * x, nd.sqrt(nd.abs(x)).sum(axis=0)
    f = hybridize(parts)
    for n in (3, 5, 8, 17, 2):
        for g in (f, parts):
            x = nd.array(numpy.linspace(-1, 1, n * 2).reshape(n, 2))
            x.attach_grad()
            with autograd.record():
                one, _ = g(x)
            one.backward()
            first = x.grad.asnumpy()
            with autograd.record():
                slope, = autograd.grad(g(x)[0].sum(), [x], create_graph=True)
                total = (slope * slope).sum()
            total.backward()
            if g is f:
                found = first, x.grad.asnumpy()
        close(found, (first, x.grad.asnumpy()), n)
    check_shared(f, 2)


def test_convolutions_and_attention_backward():
    """Over any batch, and over any length."""
    conv = nn.HybridSequential()
    conv.add(nn.Conv2D(4, 3, activation="relu", in_channels=1), nn.MaxPool2D(2), nn.Flatten(), nn.Dense(4))

    class Attention(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Dense(24, flatten=False, in_units=16), nn.Dense(16, flatten=False, in_units=8)

        def forward(self, x):
            q, k, v = nd.split(self.into(x), 3, axis=2)
            return x + self.out(nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True) / 3), v))
    for net, shape in ((conv, lambda n: (n, 1, 6, 6)), (Attention(), lambda n: (2, n, 16))):
        net.initialize()
        net(nd.ones(shape(2)))
        results = {}
        for hybrid in (False, True):
            net.hybridize(hybrid)
            for n in (5, 9, 2, 3, 14, 16, 17):
                x = nd.array(numpy.random.RandomState(n).randn(*shape(n)).astype("float32"))
                x.attach_grad()
                with autograd.record():
                    out = net(x)
                out.backward()
                results.setdefault(n, []).append(
                    [v.asnumpy() for v in (out, x.grad, *(p.grad() for p in net.collect_params().values()))])
        for n, (wanted, found) in results.items():
            close(found, wanted, n)
        check_shared(net, 2)


# ---- compiled steps
def step_of(net, optimizer="sgd", **options):
    """A whole training step as one function."""
    trainer = gluon.Trainer(net.collect_params(), optimizer, options)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    def step(x, y):
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
        return loss.mean()
    return step


@pytest.mark.parametrize("optimizer,options", [("sgd", {"momentum": 0.9, "wd": 1e-3}), ("adam", {})])
def test_steps_of_any_batch(optimizer, options):
    """Parameters after steps of many sizes are those of eager steps; the batch size divides the gradients of each."""
    results = []
    for compiled in (True, False):
        net = perceptron(nn.Dropout(0.3))
        step = step_of(net, optimizer, learning_rate=0.01, **options)
        f = hybridize(step) if compiled else step
        random.seed(3)
        losses = [f(*batch(n, 20)).asnumpy() for n in SIZES if n]
        results.append([*losses, *(p.data().asnumpy() for p in net.collect_params().values())])
        if compiled:
            check_shared(f, 3)
    close(*results, optimizer)


def test_a_step_that_asks_for_its_size_has_a_guard_with_its_line():
    weights = [nd.ones((3,)) for _ in range(2)]
    for w in weights:
        w.attach_grad()

    def step(x, w):
        with autograd.record():
            loss = (x * w).sum() if x.shape[0] > 10 else (x + w).sum()
        loss.backward()
        w -= w.grad * 0.1
        return loss
    guarded = hybridize(lambda x: step(x, weights[0]))
    for n in (20, 30, 4, 6, 11, 10):
        x = nd.ones((n, 3))
        close([guarded(x).asnumpy(), weights[0].asnumpy()], [step(x, weights[1]).asnumpy(), weights[1].asnumpy()], n)
    assert any("test_any_size_training.py" in g for p in guarded.programs for g in p.guards)


def test_large_products_are_one_program():
    """A step of a net whose products are of many tiles, with batches around the heights of those."""
    results = []
    for compiled in (True, False):
        random.seed(1)
        net = nn.HybridSequential()
        net.add(nn.Dense(96, activation="relu", in_units=200), nn.Dense(40, activation="relu", in_units=96),
                nn.Dense(10, in_units=40))
        net.initialize()
        step = step_of(net, learning_rate=0.01, momentum=0.9)
        f = hybridize(step) if compiled else step
        losses = [f(*batch(n, 200)).asnumpy() for n in (8, 100, 13, 14, 15, 257, 31, 32, 33, 2, 600)]
        results.append([*losses, *(p.data().asnumpy() for p in net.collect_params().values())])
        if compiled:
            check_shared(f, 2)
            assert not any("n0" in g for p in f.programs for g in p.guards)
    close(*results, "losses and parameters")


def test_large_convolutions_are_one_program():
    """A batch is a loop around the form that constant sizes have."""
    f = hybridize(lambda x, w: nd.Convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True))
    w = nd.array(numpy.random.RandomState(0).randn(4, 3, 3, 3))
    for n in (2, 3, 4, 40, 41):
        x = nd.array(numpy.random.RandomState(n).randn(n, 3, 8, 8))
        wanted = nd.Convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True).asnumpy()
        numpy.testing.assert_allclose(f(x, w).asnumpy(), wanted, rtol=1e-4, atol=1e-4)
    assert [p.sizes[0][8:].split(",")[0] for p in f.programs] == ["n0"]


def digits():
    """Few channels, pools, a border."""
    return [nn.Conv2D(8, 3, padding=1, activation="relu", in_channels=1), nn.MaxPool2D(2, 2),
            nn.Conv2D(16, 3, activation="relu", in_channels=8), nn.MaxPool2D(2, 2)], (1, 10, 10), 16


def strided():
    """A stride, one filter a channel, groups, BatchNorm."""
    return [nn.Conv2D(16, 3, strides=2, padding=1, in_channels=3), nn.BatchNorm(in_channels=16),
            nn.Conv2D(16, 3, padding=1, groups=16, in_channels=16), nn.Activation("relu"),
            nn.Conv2D(8, 3, padding=1, groups=4, in_channels=16), nn.Conv2D(6, 1, in_channels=8),
            nn.AvgPool2D(2, 2)], (3, 12, 12), 54


@pytest.mark.parametrize("layers", [digits, strided])
def test_training_steps_of_convolutions(layers):
    """Losses and parameters after steps of many batches are those of eager steps, of one program for all of them."""
    results = []
    for compiled in (False, True):
        random.seed(3)
        body, shape, units = layers()
        net = nn.HybridSequential()
        net.add(*body, nn.Flatten(), nn.Dense(10, in_units=units))
        net.initialize()
        loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})

        def step(x, y, net=net, trainer=trainer):
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(x.shape[0] + 1)
            return loss
        f = hybridize(step) if compiled else step
        losses = [f(*batch(n, *shape)).asnumpy() for n in (5, 9, *SIZES)]
        results.append([*losses, *(p.data().asnumpy() for p in net.collect_params().values())])
        if compiled:
            check_shared(f, 4)                                       # none and one may have their own
    close(*results, layers.__name__)


def test_a_step_with_many_lengths_keeps_its_memory():
    """What a function keeps does not grow with sizes that come again and again, nor beyond its bound with new ones."""
    net = nn.Dense(3, in_units=4)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})

    @hybridize
    def step(x):
        with autograd.record():
            loss = nd.square(net(x)).mean()
        loss.backward()
        trainer.step(1)
        return loss
    for n in [*range(2, 32)] * 4:
        step(nd.ones((n, 4)))
    engine = step._engine
    before = len(engine.entries), len(engine.entries.guards), len(engine.cache_misses)
    for n in [*range(2, 32)] * 20:
        step(nd.ones((n, 4)))
    assert (len(engine.entries), len(engine.entries.guards), len(engine.cache_misses)) == before
    check_shared(step, 2)


def test_what_cannot_be_made_for_any_size_is_made_for_each(monkeypatch):
    """Where gradients or code of a symbolic program are refused, each size has its own, with the same results, and no
    other one is tried."""
    from hybrid.passes import partition
    real = partition._partition

    def refusing(program, *args):
        if any(type(d) is not int for n in program.inputs for d in n.shape):
            raise TypeError("not for any size")
        return real(program, *args)
    monkeypatch.setattr(partition, "_partition", refusing)
    net = perceptron()
    net.hybridize()
    for n in (5, 6, 7):
        x, _ = batch(n, 20)
        x.attach_grad()
        for active in (True, False):
            with autograd.record():
                if active:
                    out = net(x)
                else:
                    with eagerly():
                        out = net(x)
            out.backward()
            if active:
                found = out.asnumpy(), x.grad.asnumpy()
        close(found, (out.asnumpy(), x.grad.asnumpy()), n)
    assert [why for p in programs_of(net) for why in refused(p)] == ["not for any size"]
    assert not [g for p in programs_of(net) for g in guards(p)]


# ---- memory
def counts(*names):
    """How many objects there are of types, by their names."""
    gc.collect()
    found = Counter(type(x).__name__ for x in gc.get_objects())
    return {name: found[name] for name in names}


@pytest.mark.parametrize("lengths", [30, pytest.param(80, marks=pytest.mark.thorough)])
def test_a_step_with_many_lengths_keeps_no_more_with_every_round(lengths):
    """A step's launchers are made once for each length, however often others took their place, and they share their
    working memory; more lengths than have a fast path at a time run on."""
    step = hybridize(step_of(perceptron(), learning_rate=0.01))
    data = [batch(n + 4, 20) for n in range(lengths)]
    rounds = Random(0)

    def calls(count):
        for _ in range(count):
            step(*rounds.choice(data))
    calls(40 * lengths)
    had = counts("Launcher", "Entry", "Bound", "CpuProgram")
    calls(40 * lengths)
    assert counts(*had) == had and had["Launcher"]
    assert len(step.programs) <= 3
    exe = next(v for f in step._engine._any_size.families for k, v in f.entry.program.memo.items()
               if k[0] == "executable")
    assert len(exe._arenas) <= 1
