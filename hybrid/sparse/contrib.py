"""``nd.contrib`` functions of sparse arrays."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..buffers.array import array
from ..base.errors import AttributeValueError
from ..nd.functions import resolve
from .storage import CSRNDArray


def getnnz(data: Any, axis: int | None = None, out: Any = None, **_: Any) -> Any:
    """How many values a csr array stores, explicit zeros included: in all (axis None), in each row (axis 1), in each
    column (axis 0); int64.

    >>> from hybrid import nd
    >>> getnnz(nd.array([[0, 2], [3, 4]]).tostype("csr"), axis=1).asnumpy().tolist()
    [1, 2]
    """
    if not isinstance(data, CSRNDArray) or axis not in (None, 0, 1):
        raise AttributeValueError(f"getnnz takes a csr array and axis None, 0 or 1, got "
                                  f"{getattr(data, 'stype', type(data).__name__)!r} and {axis!r}")
    ends, columns = data._aux
    found = np.diff(ends) if axis == 1 else np.bincount(columns,
                                                        minlength=data.shape[1]) if axis == 0 else np.array(
            [len(columns)])
    made = array(found.astype(np.int64), data._ctx)
    return made if out is None else made.copyto(out)


def SparseEmbedding(data: Any, weight: Any, input_dim: int = 0, output_dim: int = 0, dtype: Any = "float32",
                    deterministic: bool = False,  # noqa: N802
                    **kwargs: Any) -> Any:
    """MXNet's old name of ``Embedding(sparse_grad=True)``."""
    return resolve("nd", "Embedding")(data, weight, input_dim=input_dim, output_dim=output_dim, dtype=dtype,
                                      sparse_grad=True, **kwargs)
