"""Writes in place, views, aliases: eager against hybridized, with and without gradients."""
from __future__ import annotations

from hybrid import autograd, nd
from hybrid import np as mnp

from .tools import add, arr, trap


def steps(*statements):
    """A function of one array that runs statements over x and returns y."""
    code = compile("\n".join(statements), __file__, "exec")

    def f(x):
        names = {"x": x, "nd": nd, "mnp": mnp}
        exec(code, names)
        return names["y"]
    return f


def _gradient(f, x):
    """The result and the gradient of its sum, or the name of the error's family."""
    x = x.copy()
    x.attach_grad()
    with autograd.record():
        y = f(x)
        total = (y * y).sum()
    total.backward()
    return y, x.grad


# name: statements over x of shape (3, 2); each also with a gradient
TABLE = {
    "all": ["y = x * 2", "y[:] = y + 1"],
    "row": ["y = x * 2", "y[1] = 5"],
    "row_of_array": ["y = x * 2", "y[1] = x[0]"],
    "column": ["y = x * 2", "y[:, 1] = x[:, 0] * 3"],
    "element": ["y = x * 2", "y[1, 1] = 7"],
    "slice_step": ["y = x * 2", "y[::2] = y[::2] * 10"],
    "negative_index": ["y = x * 2", "y[-1] = 0"],
    "negative_step": ["y = x * 2", "y[::-1] = x"],
    "overlap_down": ["y = x * 1", "y[1:] = y[:-1]"],
    "overlap_up": ["y = x * 1", "y[:-1] = y[1:]"],
    "overlap_reversed": ["y = x * 1", "y[:] = y[::-1]"],
    "overlap_added": ["y = x * 1", "y[1:] += y[:-1]"],
    "mask": ["y = x * 2", "m = y > 2", "y = nd.where(m, y * 0, y)"],
    "index_array": ["y = x * 2", "y[nd.array([0, 2], dtype='int32')] = 9"],
    "index_list": ["y = x * 2", "y[[0, 2]] = x[[1, 1]]"],
    "repeated_index": ["y = x * 2", "y[[1, 1]] = x[[0, 2]]"],
    "row_view_written": ["y = x * 2", "v = y[1]", "v[:] = 5", "y = y + 0"],
    "slice_view_written": ["y = x * 2", "v = y[1:]", "v[:] = v * 2"],
    "view_of_view_written": ["y = x * 2", "v = y[1:][0]", "v[:] = 3"],
    "view_read_after_write": ["z = x * 2", "v = z[1:]", "z[:] = z + 1", "y = v * 1"],
    "reshape_written": ["y = x * 2", "v = y.reshape((-1,))", "v[0] = 50"],
    "reshape_read_after_write": ["z = x * 2", "v = z.reshape((2, 3))", "z[0] = 7", "y = v * 1"],
    "transpose_written": ["y = x * 2", "v = y.T", "v[0] = 50"],
    "transpose_slice_written": ["y = x.T * 1", "v = y[1:]", "v[:] = v * 2"],
    "slice_of_transposed_written": ["z = x.T", "v = z[1:]", "v[:] = v * 2", "y = z * 1"],
    "column_view_written": ["y = x * 2", "v = y[:, 1]", "v[:] = 3"],
    "expand_written": ["y = x * 2", "v = y.expand_dims(0)", "v[:] = 4"],
    "flatten_written": ["y = x * 2", "v = y.flatten()", "v[:] = 4"],
    "slice_axis_written": ["y = x * 2", "v = nd.slice_axis(y, axis=0, begin=0, end=1)", "v[:] = 4"],
    "slice_like_written": ["y = x * 2", "v = y.slice_axis(axis=1, begin=0, end=1)", "v += 4"],
    "split_written": ["y = x * 2", "v = nd.split(y, num_outputs=3, axis=0)", "v[0][:] = 4"],
    "copy_written": ["y = x * 2", "v = y.copy()", "v[:] = 9"],
    "astype_same_written": ["y = x * 2", "v = y.astype('float32', copy=False)", "v[:] = 9"],
    "astype_written": ["y = x * 2", "v = y.astype('float32')", "v[:] = 9"],
    "detach_written": ["y = x * 2", "v = y.detach()", "v[:] = 9"],
    "identity_written": ["y = x * 2", "v = nd.identity(y)", "v[:] = 9"],
    "squeeze_written": ["y = (x * 2).reshape((3, 1, 2))", "v = y.squeeze(1)", "v[0] = 9"],
    "iadd": ["y = x * 2", "z = y", "z += 5"],
    "isub_of_view": ["y = x * 2", "v = y[0:2]", "v -= 5"],
    "imul_of_itself": ["y = x * 2", "y *= y"],
    "idiv_of_row": ["y = x * 2 + 1", "y[1] /= y[0]"],
    "ipow_absent": ["y = x * 2 + 1", "y **= 2"],
    "imod": ["y = x * 5 + 1", "y %= 3"],
    "loop_of_rows": ["y = x * 2", "for i in range(1, 3):", "    y[i] = y[i] + y[i - 1]"],
    "filled_buffer": ["y = nd.zeros((3, 2))", "for i in range(3):", "    y[i] = x[i] * i"],
    "filled_zeros_like": ["y = nd.zeros_like(x)", "y[1:] = x[1:]"],
    "alias": ["z = x * 2", "y = z", "z[0] = 100"],
    "alias_in_list": ["z = x * 2", "parts = [z]", "parts[0][0] = 100", "y = z * 1"],
    "old_value_kept": ["z = x * 2", "old = z * 1", "z[:] = 0", "y = old + z"],
    "expression_before_write": ["z = x * 2", "w = z + 1", "z[:] = 7", "y = w * z"],
    "broadcast_written": ["y = x * 2", "y[:] = nd.array([5., 6.])"],
    "scalar_array_written": ["y = x * 2", "y[0, 0] = nd.array([8.])"],
    "dtype_narrowed": ["y = (x * 2).astype('int32')", "y[0] = 3.7", "y = y.astype('float32')"],
    "out_keyword": ["y = x * 1", "nd.exp(x, out=y)"],
    "out_view": ["y = x * 1", "nd.exp(x[0:1], out=y[1:2])"],
    "out_of_input": ["y = x * 1", "nd.elemwise_mul(y, y, out=y)"],
    "sgd_update": ["y = x * 1", "nd.sgd_update(y, x, out=y, lr=0.1)"],
    "ellipsis": ["y = x * 2", "y[..., 0] = 1"],
    "newaxis": ["y = x * 2", "y[None, 0] = 1"],
    "empty_slice": ["y = x * 2", "y[1:1] = 5"],
    "write_in_branch": ["y = x * 2", "if x.shape[0] > 2:", "    y[0] = 5"],
    "swap_rows": ["y = x * 1", "t = y[0].copy()", "y[0] = y[1]", "y[1] = t"],
    "swap_rows_without_copy": ["y = x * 1", "t = y[0]", "y[0] = y[1]", "y[1] = t"],
    "tuple_assignment": ["y = x * 1", "y[0], y[1] = y[1], y[0]"],
    "np_view_written": ["y = mnp.array([[1., 2.], [3., 4.]]) * x.as_np_ndarray()[:2]", "v = y.T", "v[0] = 9",
                        "y = y * 1"],
    "argument_view_written": ["z = x[1:]", "z[:] = z * 3", "y = x * 1"],
    "argument_written": ["x[0] = 1", "y = x * x"],
    "argument_written_whole": ["x[:] = x * 2", "y = x * x"],
    "setitem_out_of_range": ["y = x * 2", "y[7] = 5"],
    "setitem_wrong_shape": ["y = x * 2", "y[0:2] = nd.ones((3, 5))"],
    "scatter_nd": ["y = nd.scatter_nd(x[0], nd.array([[2, 0]], dtype='int32'), shape=(4,))"],
    "take_after_write": ["z = x * 2", "z[1] = 0", "y = nd.take(z, nd.array([1, 2], dtype='int32'))"],
    "sum_of_view": ["z = x * 2", "v = z[0:2]", "z[0] = 100", "y = v.sum(axis=0)"],
    "concat_then_write": ["z = x * 1", "y = nd.concat(z, z, dim=0)", "z[:] = 0"],
    "stack_then_write": ["y = nd.stack(x, x)", "y[0] = 3", "y = y + 0"],
}


def _play(H, f):
    g = H(f)
    for k in (1., 2.):
        x = (nd.arange(6) * k + .5).reshape((3, 2))
        yield g(x), x


def _play_gradient(H, f):
    g = H(f)
    for k in (1., 2.):
        yield _gradient(g, (nd.arange(6) * k + .5).reshape((3, 2)))


for _name, _row in TABLE.items():
    add(f"inplace.{_name}", lambda H, row=_row: _play(H, steps(*row)))
    add(f"inplace.{_name}.gradient", lambda H, row=_row: _play_gradient(H, steps(*row)))


@trap
def captured_written(H):
    w = arr(1., 2.)

    @H
    def f(x):
        w[:] = w + x
        return w * 2
    for _ in range(3):
        yield f(arr(1., 1.)), w


@trap
def captured_view_written(H):
    w = nd.arange(6)
    v = w[2:4]

    @H
    def f(x):
        v[:] = v + x
        return w * 1
    for _ in range(3):
        yield f(arr(1., 1.)), w, v


@trap
def captured_and_view_read(H):
    w = nd.arange(6)
    v = w[2:4]
    f = H(lambda x: v * x)
    yield f(arr(1., 1.))
    w[:] = 7
    yield f(arr(1., 1.))
    v[:] = 3
    yield f(arr(1., 1.)), w


@trap
def buffer_of_positions(H):
    buffer = nd.zeros((4,))

    @H
    def push(x, i):
        buffer[i] = x
        return buffer.sum()
    for i in range(4):
        yield push(arr(float(i + 1)), i), buffer


@trap
def two_views_given(H):
    base = nd.arange(6)

    @H
    def f(a, b):
        a[:] = a + 10
        return a + b
    yield f(base[0:3], base[3:6]), base
    yield f(base[0:3], base[0:3]), base
    yield f(base[0:3], base[1:4]), base


@trap
def result_is_view_of_argument(H):
    f = H(lambda x: x.reshape((2, 3)))
    x = nd.arange(6)
    y = f(x)
    x[:] = 5
    yield y, x


@trap
def argument_written_by_another_function(H):
    first = H(lambda x: x * 2)

    @H
    def second(x):
        x += 1
        return x
    x = arr(1.)
    yield first(x), second(x), first(x), x


@trap
def gradient_of_captured_written(H):
    w = arr(2.)
    w.attach_grad()
    f = H(lambda x: (x * w).sum())
    for k in (1., 3.):
        with autograd.record():
            y = f(arr(k))
        y.backward()
        yield y, w.grad
        w[:] = w + 1


@trap
def views_of_nothing(H):
    """Sizes of 0, which among MXNet's codes of a reshape keep an axis, are sizes where a view writes to its array."""
    def f(x):
        v = x[1:].reshape((0, -1)) * -1
        w = v.reshape((-1,))
        w[::2] = 0.1
        u = x[:0].reshape((-1,))
        u[nd.array([], dtype="int32")] = 3
        return w, v, u
    g = H(f)
    for _ in range(2):
        yield g(nd.zeros((1, 1)))
        yield _gradient(lambda x: sum(a.sum() for a in g(x)), nd.zeros((1, 1)))


@trap
def one_number_into_nothing(H):
    """A value of one element fits no elements at all."""
    def f(x, y):
        v = nd.abs(x)[1:]
        v[:, 0] = y[:, 1]
        return v
    g = H(f)
    for rows in (2, 1, 3, 1):
        yield g(nd.ones((rows, 2)), nd.ones((1, 2)) * 5)
