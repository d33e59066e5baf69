"""State that code changes while it is traced: attributes of blocks, containers, globals."""
from __future__ import annotations


from hybrid import gluon, nd

from .tools import arr, trap

counter, history, total, flag, cache = 0, [], None, False, {}


class Base(gluon.HybridBlock):
    """A block with whatever attributes a case gives it."""

    def __init__(self, **values):
        super().__init__()
        for name, value in values.items():
            setattr(self, name, value)


@trap
def attribute_count(H):
    class M(Base):
        def forward(self, x):
            self.n += 1
            return x * self.n
    m = H(M(n=0))
    for _ in range(4):
        yield m(arr(1., 2.)), m.n


@trap
def attribute_count_not_used(H):
    class M(Base):
        def forward(self, x):
            self.n += 1
            return x * 2
    m = H(M(n=0))
    for _ in range(4):
        yield m(arr(1.)), m.n


@trap
def moving_average(H):
    class M(Base):
        def forward(self, x):
            self.ema = self.ema * 0.5 + x
            return self.ema * 1
    m = H(M(ema=nd.zeros((1,))))
    for i in range(4):
        yield m(arr(float(i))), m.ema


@trap
def hidden_state(H):
    class M(Base):
        def forward(self, x):
            self.h = x if self.h is None else self.h + x
            return self.h * 2
    m = H(M(h=None))
    for i in range(4):
        yield m(arr(1. + i)), m.h


@trap
def hidden_state_reset(H):
    class M(Base):
        def forward(self, x):
            self.h = x if self.h is None else self.h + x
            return self.h * 2
    m = H(M(h=None))
    for i in range(4):
        yield m(arr(1. + i))
        if i == 1:
            m.h = None


@trap
def saved_activation(H):
    class M(Base):
        def forward(self, x):
            self.saved = x * 3
            return self.saved + 1
    m = H(M(saved=None))
    for i in range(3):
        yield m(arr(float(i)))
        yield m.saved


@trap
def saved_input(H):
    class M(Base):
        def forward(self, x):
            self.last = x
            return x + 1
    m = H(M())
    for i in range(3):
        x = arr(float(i))
        yield m(x), m.last, m.last is x


@trap
def saved_shape(H):
    class M(Base):
        def forward(self, x):
            self.shape = x.shape
            return x + 1
    m = H(M())
    for n in (1, 2, 1, 2):
        yield m(nd.ones((n,))), m.shape


@trap
def saved_in_dict(H):
    class M(Base):
        def forward(self, x):
            self.out["a"] = x * 2
            return x
    m = H(M(out={}))
    for i in range(3):
        yield m(arr(float(i))), m.out["a"]


@trap
def appended_attribute(H):
    class M(Base):
        def forward(self, x):
            self.seen.append(x * 2)
            return x + len(self.seen)
    m = H(M(seen=[]))
    for i in range(4):
        yield m(arr(float(i))), len(m.seen), m.seen[-1]


@trap
def appended_number(H):
    class M(Base):
        def forward(self, x):
            self.sizes.append(x.shape[0])
            return x
    m = H(M(sizes=[]))
    for n in (1, 2, 1, 1):
        m(nd.ones((n,)))
        yield m.sizes


@trap
def appended_global(H):
    @H
    def f(x):
        history.append(x + 1)
        return x
    history.clear()
    for i in range(3):
        f(arr(float(i)))
        yield history


@trap
def appended_closure(H):
    losses = []

    @H
    def f(x):
        loss = (x * x).sum()
        losses.append(loss)
        return loss
    for i in range(4):
        f(arr(float(i)))
    yield losses


@trap
def appended_argument(H):
    @H
    def f(x, out):
        out.append(x * 2)
        return x
    out = []
    for i in range(3):
        f(arr(float(i)), out)
        yield out


@trap
def filled_argument_dict(H):
    @H
    def f(x, out):
        out["y"] = x * 2
        return x
    out = {}
    for i in range(3):
        f(arr(float(i)), out)
        yield out


@trap
def global_count(H):
    @H
    def f(x):
        global counter
        counter += 1
        return x * counter
    global counter
    counter = 0
    for _ in range(4):
        yield f(arr(1.)), counter


@trap
def global_array(H):
    @H
    def f(x):
        global total
        total = total + x
        return total * 2
    global total
    total = nd.zeros((1,))
    for i in range(4):
        yield f(arr(float(i))), total


@trap
def global_set_first_time(H):
    @H
    def f(x):
        global flag
        if not flag:
            flag = True
            return x * 100
        return x
    global flag
    flag = False
    for _ in range(3):
        yield f(arr(1.)), flag
