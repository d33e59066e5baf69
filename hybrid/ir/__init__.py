"""The intermediate representation: nodes, scalar functions, primitives, their gradients, programs."""
from __future__ import annotations

from .build import (argreduce, argsort, bitcast, block_grad, broadcast_shapes,
                    cast, concat, const, cumulate, data, detach, dot,
                    expand, full, gather, input,
                    iota, make, pad, permute, random_bits, reduce, reshape, rows, scatter_add, size_value, slice,
                    unwindow, window, with_grad)
from .build import map_ as map  # noqa: A004  the primitive's name
from .host import HostCall, host
from .node import Node, reached, toposort, users
from .packed import conv  # noqa: F401  its primitive is registered
from .primitives import PRIMS
from .reductions import REDUCTIONS, Reduction, reduce_identity, register_reduction
from .program import Program
from .rowcall import Box, RowKernel, register_rows
from .scan import Body, item, loop, scan
from .running_sums import running_sum
from .scalar import SCALARS, Scalar, register_scalar
from .vjp import GRADS, VJP, register_grad

__all__ = ["Body", "GRADS", "HostCall", "Node", "PRIMS", "Program", "REDUCTIONS", "Reduction",
           "Box", "RowKernel", "SCALARS", "Scalar", "VJP",
           "argreduce", "argsort", "bitcast", "block_grad", "broadcast_shapes", "cast",
           "concat", "const", "cumulate", "data", "detach", "dot", "expand", "full", "gather", "host",
           "input", "iota", "item", "loop", "make", "map", "pad",
           "permute", "random_bits", "reached", "reduce", "reduce_identity", "size_value", "register_grad",
           "register_reduction",
           "register_rows", "register_scalar",
           "reshape", "rows", "running_sum", "scan", "scatter_add",
           "slice", "toposort", "unwindow", "users", "window", "with_grad"]
