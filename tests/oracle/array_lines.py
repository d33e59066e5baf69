"""Lines of code on arrays, run by MXNet when recording and by hybrid when checking: ``x`` is
``nd.arange(12).reshape((3, 4))``.

A line with ``;`` runs its statements first; what the last part gives is recorded.
"""
from __future__ import annotations

KEYS = """
0
-1
0, 1
-1, -2
1:3
::-1
:, ::2
2:0:-1
-2:
1:100
-100:2
3:3
..., 0
..., -1:
:, -1
1, :
1, ::2
None
..., None
:, None
None, :, None
...
:
nd.array([0, 2])
nd.array([-1])
nd.array([[0, 1], [1, 2]])
nd.array([0, 2]), nd.array([1, 3])
[0, 2]
[0, 2], [1, 3]
onp.array([0, 2])
1, nd.array([0, 1])
:, [0, 1]
:, nd.array([0, 1])
nd.array([0, 1]), slice(1, 3)
slice(0, 2), nd.array([0, 3])
x > 5
(x > 5)
slice(0, 2)
""".strip().splitlines()
GET = [f"x[{k}]" for k in KEYS]
SET = [f"x[{k}] = 7; x" for k in KEYS] + """
x[1:2] = nd.array([1, 1, 1, 1]); x
x[:, 1] = [9, 8, 7]; x
x[:, 1] = onp.array([9, 8, 7]); x
x[::-1] = x.copy(); x
x[[0, 2], [1, 1]] = nd.array([100, 200]); x
x[:, None] = nd.ones((3, 1, 4)); x
x[1:2, 1:3] = nd.array([[5, 6]]); x
x[:] = nd.array([1, 2, 3, 4]); x
x[0, 0] = nd.array([5]); x
x[2] = x[0]; x
x[0:2] = x[1:3].copy(); x
""".strip().splitlines()
VIEWS = """
y = x[1]; y += 100; x
y = x[1:3]; y[:] = 0; x
y = x[1:3][0]; y[:] = 0; x
y = x.reshape((4, 3)); y[0] = -1; x
y = x.T; y[0] = -1; x
y = x.flatten(); y[:] = -1; x
y = x.expand_dims(0); y[:] = -1; x
y = x.astype('float32'); y[:] = -1; x
y = x.astype('float32', copy=False); y is x
y = x.copy(); y[:] = -1; x
y = x.detach(); y[:] = -1; x
y = nd.zeros((3, 4)); x.copyto(y) is y
y = nd.zeros((3, 4)); x.copyto(y); y
y = nd.zeros((3, 4), dtype='int32'); x.copyto(y); y
x.as_in_context(mx.cpu()) is x
y = x.copyto(mx.cpu()); y[:] = -1; x
y = nd.array(x); y[:] = -1; x
y = onp.ones(3, 'float32'); z = nd.array(y); y[:] = 5; z
""".strip().splitlines()
INPLACE = """
x += 1; x
x -= x.copy(); x
x *= 2; x
x /= 2; x
x %= 5; x
x **= 2; x
x += nd.ones((1, 4)); x
x += 1.5; x
y = x; x += 1; y
i = nd.array([1, 2], dtype='int32'); i += 1; i
i = nd.array([1, 2], dtype='int32'); i += 1.7; i
""".strip().splitlines()
MAKE = """
nd.array([])
nd.array(3.0)
nd.array(3.0).shape
nd.array(5)
nd.array(True)
nd.array([[True, False]])
nd.array((1, 2))
nd.array(range(3))
nd.array(onp.arange(3))
nd.array(onp.arange(3).astype('int64'))
nd.array(onp.float64(2))
nd.array(nd.array([1, 2], dtype='int32'))
nd.array([1, 2], dtype='uint8')
nd.zeros(3)
nd.zeros((2, 3), dtype='int32')
nd.ones((2,), dtype=bool)
nd.full((2,), 3)
nd.full((2,), 3, dtype='int32')
nd.arange(3)
nd.arange(1, 7, 2)
nd.arange(0, 1, 0.25)
nd.arange(3, dtype='int32')
nd.arange(5, 0, -2)
nd.arange(2, repeat=2)
nd.linspace(0, 1, 5)
nd.eye(2)
nd.eye(2, 3, 1)
nd.zeros_like(x)
nd.ones_like(x[0])
nd.concatenate([x, x], axis=1).shape
nd.from_dlpack(x.to_dlpack_for_read())
nd.from_numpy(onp.arange(3.0))
nd.empty((2, 3)).shape
nd.moveaxis(x, 0, 1).shape
nd.stack(x, x).shape
""".strip().splitlines()
WHAT = """
repr(x)
str(x)
repr(x[0])
repr(nd.array([1.5, 2], dtype='float16'))
repr(nd.array([1, 0], dtype='bool'))
repr(nd.array([1, 2], dtype='int8'))
repr(nd.array(3.0))
repr(nd.array([1e-7, 1e7]))
x.shape, x.size, x.ndim, x.stype
x.dtype
x.context
x.ctx
x.grad
len(x)
[v.shape for v in x]
[v for v in nd.array([1, 2])]
bool(nd.array([0]))
bool(nd.array([2]))
nd.array([3]).asscalar()
nd.array([3], dtype='int32').asscalar()
nd.array([[2.5]]).asscalar()
x.asnumpy()
x.T
x.T.shape
hash(x) == hash(x)
nd.array([1, 2]).astype(bool)
nd.array([1.5, -2.5]).astype(int)
nd.array([1.5, 2.5]).astype('int8')
nd.array([1.0, float('nan'), float('inf')])
x.tostype('default') is not None
""".strip().splitlines()
DTYPES = """
nd.array([1, 2], dtype='float16') * 2
nd.array([1, 2], dtype='float64').mean()
nd.array([1, 2], dtype='int32').sum()
nd.array([3, 4], dtype='float64').norm()
nd.array([1, 2], dtype='uint8') - 3
nd.array([1.5]) > nd.array([1])
nd.array([1, 2], dtype='int32') > 1
nd.array([1, 2], dtype='int32') == nd.array([1, 3], dtype='int32')
(x == x).dtype
x.argmax(axis=1)
nd.array([1, 2], dtype='int32') * 3
nd.array([7, 2], dtype='int32') % 3
-nd.array([1, 2], dtype='int8')
nd.array([1, 2], dtype='int64') + 1
""".strip().splitlines()
METHODS = """
x.reshape(-1)
x.reshape(4, 3)
x.reshape((0, -1))
x.reshape(shape=(2, 6))
x.reshape((-3,))
x.reshape((-4, 1, 3, 0))
x.reshape((0, -4, 2, 2))
x.reshape((-2,))
x.reshape((0, 0, 1))
x.reshape((-1, 0), reverse=True)
x.sum(), x.mean(axis=1), x.max(axis=0, keepdims=True), x.min(), x.prod(axis=1)
x.sum(axis=(0, 1)), x.sum(axis=-1), x.sum(exclude=True, axis=0)
x.argmax(), x.argmin(), x.argmin(axis=0)
x.transpose(), x.transpose((1, 0)).shape, x.swapaxes(0, 1).shape, x.flip(axis=1)
x.clip(2, 5), x.clip(a_min=2, a_max=5)
x.split(num_outputs=2, axis=1)
x.tile((2, 1)).shape, x.repeat(2, axis=0).shape, x.expand_dims(0).squeeze().shape, x.expand_dims(0).squeeze(axis=0).shape
nd.array([1, 0, 2]).one_hot(3)
x.pick(nd.array([0, 1, 2]))
x.take(nd.array([0, 2]))
x.slice((0, 1), (2, 3)), x.slice_like(nd.zeros((2, 2))), x.slice_axis(axis=1, begin=1, end=None)
nd.ones((1, 4)).broadcast_to((3, 4)).shape, nd.ones((1, 4)).broadcast_like(x).shape, nd.ones((1, 4)).broadcast_axes(axis=0, size=3).shape
x.zeros_like(), x.ones_like()
x.square(), x.sqrt(), x.abs(), x.sign(), x.floor(), x.ceil(), x.rint(), x.round(), x.relu()
x.diag()
x.topk(k=2), x.sort(is_ascend=False), x.argsort(is_ascend=False)
x.expand_dims(axis=1).shape
x.flatten().shape
x.nansum(), x.norm(ord=1, axis=1)
""".strip().splitlines()  # noqa: E501
LINES = [*GET, *SET, *VIEWS, *INPLACE, *MAKE, *WHAT, *DTYPES, *METHODS]

def run(mx, onp, line: str):
    """What the line gives, as plain data."""
    space = {"mx": mx, "nd": mx.nd, "onp": onp, "x": mx.nd.arange(12).reshape((3, 4))}
    *before, last = line.split("; ")
    for statement in before:
        exec(statement, space)                                # noqa: S102  our own lines
    return plain(mx, onp, eval(last, space))                  # noqa: S307


def plain(mx, onp, value):
    """Arrays as [class, shape, dtype, numbers], everything else as it prints."""
    if isinstance(value, mx.nd.NDArray):
        return ["NDArray", list(value.shape), onp.dtype(value.dtype).name,
                onp.round(value.asnumpy().astype("float64"), 5).tolist()]
    if isinstance(value, onp.ndarray):
        return ["ndarray", list(value.shape), value.dtype.name, value.tolist()]
    if isinstance(value, onp.generic):
        return ["number", value.dtype.name, value.item()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(plain(mx, onp, v) for v in value)]
    return repr(value)
