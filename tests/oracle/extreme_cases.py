"""Operators of one array at points where formulas break: name -> function of the module (mxnet, or hybrid under its
name) and the array."""
import numpy as np

POINTS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 100.0, -100.0, 0.5, -3.0], "float32")
CASES = {}
for _kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
    CASES[f"Activation {_kind}"] = lambda mx, x, k=_kind: mx.nd.Activation(x, act_type=k)
for _kind in ("leaky", "elu", "selu", "gelu"):
    CASES[f"LeakyReLU {_kind}"] = lambda mx, x, k=_kind: mx.nd.LeakyReLU(x, act_type=k)
CASES["LeakyReLU prelu"] = lambda mx, x: mx.nd.LeakyReLU(x.reshape((1, -1)), mx.nd.array([0.25]), act_type="prelu")
for _name in ("abs sign exp expm1 sin cos tan arctan arcsin arccos sinh cosh tanh arcsinh arccosh arctanh erf erfinv "
              "sigmoid relu softsign square negative floor ceil rint round trunc fix degrees radians hard_sigmoid cbrt "
              "rcbrt logical_not identity zeros_like ones_like log log1p log2 log10 sqrt rsqrt reciprocal gamma "
              "gammaln softmax log_softmax softmin BlockGrad").split():
    CASES[_name] = lambda mx, x, n=_name: getattr(mx.nd, n)(x)
CASES["clip"] = lambda mx, x: mx.nd.clip(x, -1, 1)
CASES["smooth_l1"] = lambda mx, x: mx.nd.smooth_l1(x, scalar=1.0)
CASES["hard_sigmoid 0.5 0.1"] = lambda mx, x: mx.nd.hard_sigmoid(x, alpha=0.5, beta=0.1)
for _name, _call in {
        "maximum 0": lambda mx, x: mx.nd.maximum(x, 0.0), "minimum 0": lambda mx, x: mx.nd.minimum(x, 0.0),
        "power 2": lambda mx, x: x ** 2, "power 0.5": lambda mx, x: x ** 0.5, "power -1": lambda mx, x: x ** -1.0,
        "power 0": lambda mx, x: x ** 0.0, "2 power": lambda mx, x: 2.0 ** x, "1 power": lambda mx, x: 1.0 ** x,
        "mod 2": lambda mx, x: x % 2.0, "2 mod": lambda mx, x: 2.0 % x, "1 divided": lambda mx, x: 1.0 / x,
        "hypot 0": lambda mx, x: mx.nd.broadcast_hypot(x, mx.nd.zeros((1,))),
        "greater 0": lambda mx, x: x > 0, "equal itself": lambda mx, x: x == x,
        "not equal itself": lambda mx, x: x != x,
        "lesser equal 0": lambda mx, x: x <= 0, "where": lambda mx, x: mx.nd.where(x > 0, x, x * 2),
        "max": lambda mx, x: mx.nd.max(x), "min": lambda mx, x: mx.nd.min(x),
        "argmax": lambda mx, x: mx.nd.argmax(x, axis=0), "argmin": lambda mx, x: mx.nd.argmin(x, axis=0),
        "cumsum": lambda mx, x: mx.nd.cumsum(x), "nansum": lambda mx, x: mx.nd.nansum(x),
        "nanprod": lambda mx, x: mx.nd.nanprod(x), "norm": lambda mx, x: mx.nd.norm(x),
        "isnan": lambda mx, x: mx.nd.contrib.isnan(x), "isinf": lambda mx, x: mx.nd.contrib.isinf(x),
        "int32": lambda mx, x: mx.nd.clip(x, -5, 5).astype("float16").astype("float32"),
}.items():
    CASES[_name] = _call
