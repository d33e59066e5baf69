"""Parameters and results of functions that do not say them to Python: those of NumPy's own that programs call on copies
of their arrays, and those that take a list of arrays. ``A`` stands for what can be an array, ``V`` for an array.
"""
from __future__ import annotations

import ast
import functools

from .parameters import Parameter

# NumPy's own, with the parameters that NumPy 1.23 and every later version has; some came with NumPy 2
HOST = """
allclose(a, b, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> _bool
apply_along_axis(func1d: Callable[..., Any], axis: int, arr, *args: Any, **kwargs: Any) -> V
apply_over_axes(func: Callable[..., Any], a, axes: int | Sequence[int]) -> V
argpartition(a, kth: int | Sequence[int], axis: int | None = -1, kind: str = 'introselect') -> V
argwhere(a) -> V
array2string(a, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None,
    separator: str = ' ', prefix: str = '', *, formatter: Any = None, threshold: int | None = None,
    edgeitems: int | None = None, sign: str | None = None, floatmode: str | None = None, suffix: str = '') -> str
array_equal(a1: A, a2: A, equal_nan: bool = False) -> _bool
array_equiv(a1: A, a2: A) -> _bool
array_repr(arr, max_line_width: int | None = None, precision: int | None = None,
    suppress_small: bool | None = None) -> str
array_str(a, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None) -> str
astype(x, dtype: DTypeLike, *, copy: bool = True) -> V
base_repr(number: int, base: int = 2, padding: int = 0) -> str
binary_repr(num: int, width: int | None = None) -> str
bitwise_count(x) -> V
block(arrays: Any) -> V
broadcast_shapes(*args: int | Sequence[int]) -> tuple[int, ...]
choose(a, choices: Sequence[A], out=None, mode: str = 'raise') -> V
common_type(*arrays: A) -> type
compress(condition: A, a, axis: int | None = None, out=None) -> V
corrcoef(x, y: A | None = None, rowvar: bool = True) -> V
cov(m, y: A | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: A | None = None,
    aweights: A | None = None) -> V
cumulative_prod(x, *, axis: int | None = None, dtype=None, out=None, include_initial: bool = False) -> V
cumulative_sum(x, *, axis: int | None = None, dtype=None, out=None, include_initial: bool = False) -> V
diag_indices(n: int, ndim: int = 2) -> tuple[V, ...]
extract(condition: A, arr) -> V
fill_diagonal(a, val: A, wrap: bool = False) -> None
flatnonzero(a) -> V
frexp(x) -> tuple[V, V]
fromfunction(function: Callable[..., Any], shape: Sequence[int], *, dtype: DTypeLike = float, **kwargs: Any) -> V
fromiter(iter: Any, dtype: DTypeLike, count: int = -1) -> V
frompyfunc(func: Callable[..., Any], nin: int, nout: int) -> Callable[..., V]
fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> V
gcd(x1, x2) -> V
genfromtxt(fname: Any, dtype=float, comments: str = '#', delimiter: Any = None, skip_header: int = 0,
    skip_footer: int = 0, converters: Any = None, missing_values: Any = None, filling_values: Any = None,
    usecols: Any = None, names: Any = None, unpack: bool | None = None, invalid_raise: bool = True,
    max_rows: int | None = None, encoding: str | None = None) -> V
geomspace(start: A, stop: A, num: int = 50, endpoint: bool = True, dtype=None, axis: int = 0) -> V
gradient(f: A, *varargs: A, axis=None, edge_order: int = 1) -> V | list[V] | tuple[V, ...]
histogram2d(x, y: A, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: A | None = None) -> tuple[V, V, V]
histogram_bin_edges(a, bins: Any = 10, range: Any = None, weights: A | None = None) -> V
histogramdd(sample: A, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: A | None = None) -> tuple[V, list[V] | tuple[V, ...]]
i0(x) -> V
intersect1d(ar1: A, ar2: A, assume_unique: bool = False) -> V
intersect1d(ar1: A, ar2: A, assume_unique: bool = False, *, return_indices: Literal[True]) -> tuple[V, V, V]
iscomplex(x) -> V
isin(element: A, test_elements: A, assume_unique: bool = False, invert: bool = False) -> V
isreal(x) -> V
isscalar(element: object) -> _bool
ix_(*args: A) -> tuple[V, ...]
kaiser(M: int, beta: float) -> V
lexsort(keys: A, axis: int = -1) -> V
load(file: Any, mmap_mode: str | None = None, allow_pickle: bool = False, fix_imports: bool = True,
    encoding: str = 'ASCII') -> V | dict[str, V] | list[V]
loadtxt(fname: Any, dtype=float, comments: Any = '#', delimiter: str | None = None, converters: Any = None,
    skiprows: int = 0, usecols: Any = None, unpack: bool = False, ndmin: int = 0, encoding: str | None = None,
    max_rows: int | None = None) -> V
mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0) -> tuple[V, ...]
matrix_transpose(x) -> V
matvec(x1, x2) -> V
nanargmax(a, axis: int | None = None, out=None, *, keepdims: bool = False) -> V
nanargmin(a, axis: int | None = None, out=None, *, keepdims: bool = False) -> V
nancumprod(a, axis: int | None = None, dtype=None, out=None) -> V
nancumsum(a, axis: int | None = None, dtype=None, out=None) -> V
nanmedian(a, axis=None, out=None, overwrite_input: bool = False, keepdims: bool = False) -> V
nanpercentile(a, q: A, axis=None, out=None, overwrite_input: bool = False, method: str = 'linear',
    keepdims: bool = False) -> V
nanquantile(a, q: A, axis=None, out=None, overwrite_input: bool = False, method: str = 'linear',
    keepdims: bool = False) -> V
nextafter(x1, x2) -> V
packbits(a, axis: int | None = None, bitorder: str = 'big') -> V
partition(a, kth: int | Sequence[int], axis: int | None = -1, kind: str = 'introselect') -> V
piecewise(x, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> V
place(arr, mask: A, vals: A) -> None
poly(seq_of_zeros: A) -> V
polyadd(a1: A, a2: A) -> V
polyder(p: A, m: int = 1) -> V
polydiv(u: A, v: A) -> tuple[V, V]
polyfit(x, y: A, deg: int, rcond: float | None = None, full: bool = False, w: A | None = None,
    cov: bool | str = False) -> V | tuple[Any, ...]
polyint(p: A, m: int = 1, k: Any = None) -> V
polymul(a1: A, a2: A) -> V
polysub(a1: A, a2: A) -> V
put(a, ind: A, v: A, mode: str = 'raise') -> None
put_along_axis(arr, indices: A, values: A, axis: int | None) -> None
putmask(a, mask: A, values: A) -> None
ravel_multi_index(multi_index: Any, dims: Sequence[int], mode: str = 'raise', order: str = 'C') -> V
roots(p: A) -> V
savetxt(fname: Any, X: A, fmt: Any = '%.18e', delimiter: str = ' ', newline: str = '\\n', header: str = '',
    footer: str = '', comments: str = '# ', encoding: str | None = None) -> None
setdiff1d(ar1: A, ar2: A, assume_unique: bool = False) -> V
setxor1d(ar1: A, ar2: A, assume_unique: bool = False) -> V
signbit(x) -> V
sort_complex(a) -> V
spacing(x) -> V
tril_indices_from(arr, k: int = 0) -> tuple[V, ...]
trim_zeros(filt: A, trim: str = 'fb') -> V
triu_indices_from(arr, k: int = 0) -> tuple[V, ...]
union1d(ar1: A, ar2: A) -> V
unique_all(x) -> tuple[V, V, V, V]
unique_counts(x) -> tuple[V, V]
unique_inverse(x) -> tuple[V, V]
unique_values(x) -> V
unpackbits(a, axis: int | None = None, count: int | None = None, bitorder: str = 'big') -> V
unstack(x, *, axis: int = 0) -> tuple[V, ...]
unwrap(p: A, discont: float | None = None, axis: int = -1, *, period: float = 6.283185307179586) -> V
vander(x, N: int | None = None, increasing: bool = False) -> V
vecmat(x1, x2) -> V
linalg.cond(x, p: Any = None) -> V
linalg.cross(x1, x2, *, axis: int = -1) -> V
linalg.diagonal(x, *, offset: int = 0) -> V
linalg.lstsq(a, b, rcond: Any = None) -> tuple[V, V, int, V]
linalg.matmul(x1, x2) -> V
linalg.matrix_norm(x, *, keepdims: bool = False, ord: Any = 'fro') -> V
linalg.matrix_power(a, n: int) -> V
linalg.matrix_rank(A: A, tol: A | None = None, hermitian: bool = False) -> V
linalg.matrix_transpose(x) -> V
linalg.multi_dot(arrays: Sequence[A], *, out=None) -> V
linalg.outer(x1, x2) -> V
linalg.svdvals(x) -> V
linalg.tensordot(x1, x2, *, axes: Any = 2) -> V
linalg.trace(x, *, offset: int = 0, dtype=None) -> V
linalg.vecdot(x1, x2, *, axis: int = -1) -> V
linalg.vector_norm(x, *, axis=None, keepdims: bool = False, ord: Any = 2) -> V
random.dirichlet(alpha: A, size: S = None) -> V
random.geometric(p: A, size: S = None) -> V
random.hypergeometric(ngood: A, nbad: A, nsample: A, size: S = None) -> V
random.logseries(p: A, size: S = None) -> V
random.negative_binomial(n: A, p: A, size: S = None) -> V
random.noncentral_chisquare(df: A, nonc: A, size: S = None) -> V
random.noncentral_f(dfnum: A, dfden: A, nonc: A, size: S = None) -> V
random.binomial(n: A, p: A, size: S = None) -> V
random.permutation(x: int | A, axis: int = 0) -> V
random.poisson(lam: A = 1.0, size: S = None) -> V
random.standard_cauchy(size: S = None) -> V
random.standard_exponential(size: S = None, dtype=float, method: str = 'zig', out=None) -> V
random.standard_gamma(shape: A, size: S = None, dtype=float, out=None) -> V
random.standard_normal(size: S = None, dtype=float, out=None) -> V
random.standard_t(df: A, size: S = None) -> V
random.triangular(left: A, mode: A, right: A, size: S = None) -> V
random.vonmises(mu: A, kappa: A, size: S = None) -> V
random.wald(mean: A, scale: A, size: S = None) -> V
random.zipf(a: A, size: S = None) -> V
"""
# ours that take any number of arrays, or hand their parameters on
LISTS = """
asarray(a, dtype=None, order: str | None = None, *, copy: bool | None = None, ctx=None, device=None) -> V
broadcast_arrays(*args: A) -> list[V]
column_stack(tup: A, *, dtype=None, out=None) -> V
concatenate(seq: A, axis: int | None = 0, out=None, *, dtype=None) -> V
dstack(tup: A, *, dtype=None, out=None) -> V
einsum(subscripts: str, *operands: A, out=None, optimize: Any = False) -> V
eye(N: int, M: int | None = None, k: int = 0, dtype=None, ctx=None) -> V
hstack(tup: A, *, dtype=None, out=None) -> V
ldexp(x1, x2, out=None) -> V
positive(x, out=None) -> V
row_stack(tup: A, *, dtype=None, out=None) -> V
set_printoptions(precision: int | None = None, threshold: int | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, suppress: bool | None = None, nanstr: str | None = None, infstr: str | None = None,
    formatter: Any = None, sign: str | None = None, floatmode: str | None = None) -> None
stack(arrays: A, axis: int = 0, out=None, *, dtype=None) -> V
transpose(a, axes: Sequence[int] | None = None) -> V
vstack(tup: A, *, dtype=None, out=None) -> V
random.exponential(scale: A = 1.0, size: S = None, dtype=None, ctx=None, out=None) -> V
random.gumbel(loc: A = 0.0, scale: A = 1.0, size: S = None, dtype=None, ctx=None, out=None) -> V
random.laplace(loc: A = 0.0, scale: A = 1.0, size: S = None, dtype=None, ctx=None, out=None) -> V
random.logistic(loc: A = 0.0, scale: A = 1.0, size: S = None, dtype=None, ctx=None, out=None) -> V
random.multinomial(n: int, pvals: A, size: S = None) -> V
random.normal_n(loc: A = 0.0, scale: A = 1.0, batch_shape: S = None, dtype=None, ctx=None) -> V
random.pareto(a: A, size: S = None, dtype=None, ctx=None, out=None) -> V
random.power(a: A, size: S = None, dtype=None, ctx=None, out=None) -> V
random.rand(*size: int, dtype=None, ctx=None, out=None) -> V
random.randn(*size: int, dtype=None, ctx=None, out=None) -> V
random.rayleigh(scale: A = 1.0, size: S = None, dtype=None, ctx=None, out=None) -> V
random.uniform_n(low: A = 0.0, high: A = 1.0, batch_shape: S = None, dtype=None, ctx=None) -> V
random.weibull(a: A, size: S = None, dtype=None, ctx=None, out=None) -> V
"""
SHORT = {"A": "NDArray | numpy.ndarray | float | Sequence[Any]", "S": "int | Sequence[int] | None", "bool": "_bool"}


def _type(node: ast.expr | None, value: str) -> str:
    """A type as a stub file writes it."""
    if node is None:
        return "Any"

    class Long(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.Name:
            return ast.Name({**SHORT, "V": value}.get(name.id, name.id))
    return ast.unparse(ast.fix_missing_locations(Long().visit(node)))


@functools.lru_cache(None)
def _parsed() -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for line in (HOST + LISTS).replace("\n    ", " ").split("\n"):
        path, _, rest = line.partition("(")
        if path:
            found.setdefault(path, []).append(ast.parse(f"def f({rest}: ...").body[0])        # type: ignore[arg-type]
    return found


def said(path: str, value: str) -> list[tuple[list[Parameter], str]]:
    """The parameters and the result of a function, once for each of its forms; none of one that says them itself."""
    return [(_parameters(f.args, value), _type(f.returns, value)) for f in _parsed().get(path, ())]


def _parameters(args: ast.arguments, value: str) -> list[Parameter]:
    def one(a: ast.arg, default: ast.expr | None = None, star: str = "") -> Parameter:
        return Parameter(a.arg, _type(a.annotation, value), ast.unparse(default) if default else None, star)
    blank: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
    out = [one(a, d) for a, d in zip(args.args, [*blank, *args.defaults])]
    if args.vararg:
        out.append(one(args.vararg, star="*"))
    elif args.kwonlyargs:
        out.append(Parameter("*", ""))
    out += [one(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults)]
    return [*out, one(args.kwarg, star="**")] if args.kwarg else out


def names(part: str = "", host: bool = True) -> list[str]:
    """The functions of ``np``, or of a part of it, whose parameters are said here; NumPy's own too with host."""
    numpys = of_numpy()
    return [n.removeprefix(f"{part}.") if part else n for n in _parsed()
            if (host or n not in numpys) and (n.startswith(f"{part}.") or not part and "." not in n)]


def of_numpy() -> list[str]:
    """NumPy's own functions among them, with the part of ``np`` that they are in."""
    return list(dict.fromkeys(line.partition("(")[0] for line in HOST.replace("\n    ", " ").split("\n") if line))
