"""State that errors, threads and blocks keep from call to call."""
from __future__ import annotations

import threading
import types
import weakref


from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap

LEVEL, TABLE, ROWS, STACK, WORDS = 2, {"k": 2.}, [[1., 2.], [3., 4.]], [], ("a", "b")


@trap
def truth_of_containers(H):
    s = []
    f = H(lambda x: x * 2 if s else x)
    yield f(arr(1.))
    s.append(1)
    yield f(arr(1.))


@trap
def dict_order_changes(H):
    d = {"a": 1., "b": 2.}
    f = H(lambda x: x * next(iter(d.values())))
    yield f(arr(1.))
    d["a"] = d.pop("a")
    yield f(arr(1.))


@trap
def popped_and_put_back(H):
    d = {"k": 2.}

    @H
    def f(x):
        k = d.pop("k")
        d["k"] = k
        return x * k
    yield f(arr(1.)), d
    d["k"] = 5.
    yield f(arr(1.)), d


@trap
def list_reversed_in_trace(H):
    ks = [1., 2.]

    @H
    def f(x):
        ks.reverse()
        return x * ks[0]
    for _ in range(3):
        yield f(arr(1.)), ks


@trap
def weak_key_dictionary(H):
    class Key:
        pass
    key, d = Key(), weakref.WeakKeyDictionary()
    d[key] = 2.
    f = H(lambda x: x * d[key])
    yield f(arr(1.))
    d[key] = 5.
    yield f(arr(1.))


@trap
def thread_local_attribute(H):
    local = threading.local()
    local.k = 2.
    f = H(lambda x: x * getattr(local, "k", 1.))
    yield f(arr(1.))
    local.k = 5.
    yield f(arr(1.))
    seen = []
    t = threading.Thread(target=lambda: seen.append(f(arr(1.))))
    t.start()
    t.join()
    yield seen


@trap
def calls_from_threads_with_state(H):
    f = H(lambda x, k: x * k)
    seen = {}

    def work(k):
        seen[k] = [f(arr(1.), k).asnumpy() for _ in range(3)]
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    yield [seen[k] for k in range(4)]


@trap
def lock_in_trace(H):
    lock, o = threading.Lock(), types.SimpleNamespace(k=2.)

    @H
    def f(x):
        with lock:
            return x * o.k
    yield f(arr(1.)), lock.locked()
    o.k = 5.
    yield f(arr(1.)), lock.locked()


@trap
def event_is_set(H):
    e = threading.Event()
    f = H(lambda x: x * 2 if e.is_set() else x)
    yield f(arr(1.))
    e.set()
    yield f(arr(1.))


@trap
def block_list_attribute(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.scales = [1., 2.]

        def forward(self, x):
            for k in self.scales:
                x = x * k
            return x
    net = H(Net())
    yield net(arr(1.))
    net.scales.append(5.)
    yield net(arr(1.))
    net.scales = [3.]
    yield net(arr(1.))


@trap
def block_attribute_of_plain_object(H):
    class Config:
        k = 2.

    class Net(gluon.HybridBlock):
        def __init__(self, config):
            super().__init__()
            self.config = config

        def forward(self, x):
            return x * self.config.k
    c = Config()
    net = H(Net(c))
    yield net(arr(1.))
    c.k = 5.
    yield net(arr(1.))
    Config.k = 6.
    del c.k
    yield net(arr(1.))


@trap
def block_property_of_child(H):
    class Child(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self._k = 2.

        @property
        def k(self):
            return self._k

        def forward(self, x):
            return x + 1

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.child = Child()

        def forward(self, x):
            return self.child(x) * self.child.k
    net = H(Net())
    yield net(arr(1.))
    net.child._k = 5.
    yield net(arr(1.))


@trap
def block_class_counter(H):
    class Net(gluon.HybridBlock):
        calls = 0

        def forward(self, x):
            Net.calls += 1
            return x * Net.calls
    net = H(Net())
    for _ in range(3):
        yield net(arr(1.)), Net.calls


@trap
def running_mean_by_hand(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.mean = nd.zeros((2,))
            self.n = 0

        def forward(self, x):
            if autograd.is_training():
                self.n += 1
                self.mean = self.mean + (x.mean(axis=0) - self.mean) / self.n
            return x - self.mean
    net = H(Net())
    for k in range(3):
        with autograd.record():
            yield net(nd.ones((4, 2)) * k)
        yield net(nd.ones((4, 2))), net.mean, net.n


@trap
def running_mean_as_constant(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.mean = self.params.get("mean", shape=(2,), init="zeros", grad_req="null")

        def hybrid_forward(self, F, x, mean):
            return x - mean
    net = Net()
    net.initialize()
    net = H(net)
    for k in range(3):
        net.mean.set_data(nd.ones((2,)) * k)
        yield net(nd.ones((4, 2)))


@trap
def dropout_rate_attribute_annealed(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.rate = 0.

        def forward(self, x):
            return nd.Dropout(x, p=self.rate, mode="always")
    net = H(Net())
    yield net(nd.ones((4,)))
    net.rate = 1.
    yield net(nd.ones((4,)))


@trap
def step_counter_schedules(H):
    o = types.SimpleNamespace(step=0)

    @H
    def f(x):
        o.step += 1
        return x * (0.5 if o.step > 2 else 1.)
    for _ in range(4):
        yield f(arr(1.)), o.step


@trap
def cache_keyed_by_length(H):
    made = {}

    @H
    def f(x):
        n = x.shape[0]
        if n not in made:
            made[n] = nd.arange(n)
        return x + made[n]
    for n in (2, 3, 2, 3):
        yield f(nd.ones((n,))), sorted(made)
    made[2] = nd.ones((2,)) * 9
    yield f(nd.ones((2,)))


@trap
def lazily_made_attribute(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.table = None

        def forward(self, x):
            if self.table is None:
                self.table = nd.arange(x.shape[0])
            return x + self.table
    net = H(Net())
    for _ in range(3):
        yield net(nd.ones((3,)))
    yield net.table
    net.table = nd.ones((3,)) * 5
    yield net(nd.ones((3,)))


@trap
def attention_weights_kept(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weights = None

        def forward(self, x):
            self.weights = nd.softmax(x)
            return self.weights * x
    net = H(Net())
    for k in range(3):
        yield net(arr(1., 2. + k)), net.weights


@trap
def loss_list_appended(H):
    losses = []
    net = nn.Dense(1, in_units=2)
    net.initialize(init="ones")

    @H
    def f(x):
        loss = net(x).sum()
        losses.append(loss)
        return loss
    for k in range(3):
        yield f(nd.ones((1, 2)) * k), len(losses)
    yield losses
