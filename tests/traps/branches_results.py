"""Results and texts that hold traced values; values that choose, sort and index."""
from __future__ import annotations

import types

import numpy as onp

import hybrid as mx
from hybrid import gluon, nd

from .tools import arr, trap


def signs(f):
    """A function of one array, called on positive, negative, positive and zero ones."""
    for v in (1., -1., 2., 0.):
        yield f(arr(v))


@trap
def formatted(H):
    f = H(lambda x: (x * 2, f"{x.sum().asscalar():.1f}"))
    yield from signs(f)


@trap
def formatted_array(H):
    f = H(lambda x: (x * 2, f"{x}"))
    yield from signs(f)


@trap
def str_of_array(H):
    f = H(lambda x: (x * 2, str(x * 2)))
    yield from signs(f)


@trap
def repr_of_array(H):
    f = H(lambda x: (x * 2, repr(x)))
    yield from signs(f)


@trap
def percent_of_array(H):
    f = H(lambda x: (x * 2, "%s" % (x,)))  # noqa: UP031  the trap
    yield from signs(f)


@trap
def key_by_text(H):
    f = H(lambda x: {f"loss {x.asscalar()}": x * 2})
    yield from signs(f)


@trap
def result_in_object(H):
    f = H(lambda x: types.SimpleNamespace(y=x * 2))
    for v in (1., 2.):
        yield f(arr(v)).y


@trap
def result_generator(H):
    f = H(lambda x: (x * i for i in range(3)))
    for v in (1., 2.):
        yield list(f(arr(v)))


@trap
def result_of_generator_function(H):
    @H
    def f(x):
        yield x
        yield x * 2
    for v in (1., 2.):
        yield list(f(arr(v)))


@trap
def result_closure(H):
    @H
    def f(x):
        y = x * 2
        return lambda z: y + z
    for v in (1., 2.):
        yield f(arr(v))(arr(1.))


@trap
def result_map(H):
    f = H(lambda x: map(lambda i: x * i, range(3)))
    for v in (1., 2.):
        yield list(f(arr(v)))


@trap
def result_async(H):
    @H
    async def f(x):
        return x * 2
    for v in (1., 2.):
        try:
            f(arr(v)).send(None)
        except StopIteration as end:
            yield end.value


@trap
def result_set(H):
    f = H(lambda x: {x.shape[0], 7})
    for v in (1., 2.):
        yield sorted(f(arr(v)))


@trap
def result_exception(H):
    @H
    def f(x):
        raise ValueError(x * 2)
    for v in (1., 2.):
        try:
            f(arr(v))
        except ValueError as err:
            yield err.args[0]


@trap
def raised_by_shape(H):
    @H
    def f(x):
        if x.shape[0] > 2:
            raise ValueError("too long")
        return x * 2
    yield f(arr(1.))
    try:
        f(arr(1., 2., 3.))
    except ValueError as err:
        yield str(err)
    yield f(arr(1.))


@trap
def sorted_by_value(H):
    f = H(lambda x: nd.stack(*sorted([x[0], x[1]], key=lambda v: v.asscalar())))
    yield f(arr(1., 2.)), f(arr(2., 1.))


@trap
def maximum_by_python(H):
    f = H(lambda x: max(x[0], x[1]) * 2)
    yield f(arr(1., 2.)), f(arr(2., 1.))


@trap
def clipped_by_python(H):
    f = H(lambda x: min(max(x, 0.), 1.))
    for v in (.5, -1., 3.):
        yield f(arr(v))


@trap
def dict_with_array_keys(H):
    @H
    def f(x, y):
        d = {x: 1., y: 2.}
        return x * d[x] + y * d[y]
    yield f(arr(1.), arr(2.)), f(arr(3.), arr(4.))


@trap
def identity_of_arguments(H):
    f = H(lambda x, y: x * 2 if x is y else x + y)
    a, b = arr(1.), arr(5.)
    yield f(a, b), f(a, a), f(a, b), f(b, b)


@trap
def identity_by_id(H):
    f = H(lambda x, y: x * 2 if id(x) == id(y) else x + y)
    a, b = arr(1.), arr(5.)
    yield f(a, b), f(a, a), f(b, b)


@trap
def rounded_by_python(H):
    f = H(lambda x: x * round(float(x)))
    for v in (1.2, 2.7):
        yield f(arr(v))


@trap
def indexed_list_by_value(H):
    parts = [10., 20., 30.]
    f = H(lambda x: x * parts[int(x.asscalar())])
    for v in (1., 2.):
        yield f(arr(v))


@trap
def indexed_by_operator(H):
    parts = [10., 20., 30.]
    f = H(lambda x, i: x * parts[i])
    for v in (1, 2):
        yield f(arr(1.), arr(v, dtype="int32"))


@trap
def argmax_used_as_index(H):
    f = H(lambda x: x[int(x.argmax(axis=0).asscalar())])
    yield f(arr(1., 5.)), f(arr(7., 2.))


@trap
def reshaped_by_value(H):
    f = H(lambda x, n: x.reshape((int(n.asscalar()), -1)))
    yield f(nd.arange(6), arr(2.)), f(nd.arange(6), arr(3.))


@trap
def numpy_of_argument(H):
    f = H(lambda x: nd.array(onp.sort(x.asnumpy())))
    yield f(arr(2., 1.)), f(arr(5., 7.))


@trap
def numpy_ufunc(H):
    f = H(lambda x: onp.exp(x))
    yield f(arr(0.)), f(arr(1.))


@trap
def numpy_asarray(H):
    f = H(lambda x: nd.array(onp.asarray(x)) * 2)
    yield f(arr(0.)), f(arr(1.))


@trap
def python_sum_and_len(H):
    f = H(lambda x: sum(x) / len(x))
    yield f(arr(0., 1.)), f(arr(1., 2., 6.))


@trap
def any_all(H):
    f = H(lambda x: x * (2 if any(v > 0 for v in x) else 3))
    yield f(arr(0., 1.)), f(arr(-1., -2.))


@trap
def early_return_by_shape(H):
    @H
    def f(x):
        if x.shape[0] == 1:
            return x
        return x.sum(), x
    yield f(arr(1.)), f(arr(1., 2.)), f(arr(1.))


@trap
def block_if_training(H):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return x * 2 if mx.autograd.is_training() else x * 3
    net = H(Net())
    yield net(arr(1.))
    with mx.autograd.record():
        yield net(arr(1.))
    with mx.autograd.train_mode():
        yield net(arr(1.))
    yield net(arr(1.))


@trap
def is_recording(H):
    f = H(lambda x: x * 2 if mx.autograd.is_recording() else x * 3)
    yield f(arr(1.))
    with mx.autograd.record():
        yield f(arr(1.))
    with mx.autograd.record(train_mode=False):
        yield f(arr(1.))
    yield f(arr(1.))
