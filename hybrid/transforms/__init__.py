"""Function transformations, as in JAX and ``torch.func``: each takes a function and gives a function.

``grad``, ``value_and_grad``, ``vjp``, ``jvp``, ``jacobian``, ``hessian``, ``vmap`` and ``checkpoint`` work on functions
of arrays and on Blocks, eagerly and in hybridized code, and compose: ``vmap(grad(f))`` gives a gradient per example.
"""
from __future__ import annotations

from .batch import vmap
from .derivatives import grad, hessian, jacobian, jvp, value_and_grad, vjp
from .recompute import checkpoint

__all__ = ["checkpoint", "grad", "hessian", "jacobian", "jvp", "value_and_grad", "vjp", "vmap"]
