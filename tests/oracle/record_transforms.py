"""Records derivatives by JAX into tests/data/transforms.json: ``PYTHON_WITH_JAX tests/oracle/record_transforms.py``."""
from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[1] / "transforms"))
from transform_cases import CASES, function, point  # noqa: E402

jax.config.update("jax_enable_x64", True)


def rounded(x: object) -> object:
    """Nested lists of numbers of nine digits."""
    return [rounded(v) for v in x] if isinstance(x, list) else float(f"{x:.9g}")


def main() -> None:
    """Write the file."""
    out = {}
    for name, expression, shape in CASES:
        f = function(expression, jnp)
        x, xs, v = point(shape), point(shape, 3), point(shape)[::-1].copy()
        found = {"value": f(x), "jacobian": jax.jacobian(f)(x), "jvp": jax.jvp(f, (x,), (v,))[1],
                 "hessian": jax.hessian(lambda x, f=f: f(x).sum())(x), "vmap": jax.vmap(f)(xs),
                 "per_example": jax.vmap(jax.grad(lambda x, f=f: f(x).sum()))(xs)}
        out[name] = {k: rounded(jnp.asarray(a).tolist()) for k, a in found.items()}
    Path(__file__).parents[1].joinpath("data",
                                       "transforms.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
