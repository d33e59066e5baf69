"""``contrib.io``: a gluon DataLoader as an iterator of the older interface, for modules."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..buffers.array import NDArray
from ..mxnet.data_iter import DataDesc, DataIter
from ..base.dtype import as_dtype
from ..base.errors import ShapeError
from ..nd import array


class DataLoaderIter(DataIter):
    """Batches of a ``gluon.data.DataLoader`` whose samples are (data, label), for ``Module.fit`` and the like.

    loader: the DataLoader; its first batch tells the shapes. data_name, label_name: of the module's inputs. dtype: of
    the data and labels. A last batch that is shorter is filled up with zeros, which ``pad`` counts.

    >>> it = DataLoaderIter(DataLoader(ArrayDataset(x, y), 32))                # doctest: +SKIP
    >>> mx.mod.Module(symbol).fit(it, num_epoch=2)                            # doctest: +SKIP
    """

    def __init__(self, loader: Any, data_name: str = "data", label_name: str = "softmax_label", dtype: Any = "float32"):
        self._loader, self.dtype = loader, as_dtype(dtype)
        self._batches = iter(loader)
        first = next(self._batches, None)
        if not isinstance(first, (list, tuple)) or len(first) != 2 or not all(isinstance(x, NDArray) for x in first):
            raise ShapeError(f"DataLoaderIter takes a DataLoader whose batches are (data, label), got "
                             f"{type(first).__name__}"
                             f"{f' of {len(first)}' if isinstance(first, (list, tuple)) else ''}")
        data, label = first
        super().__init__(data.shape[0])
        self.provide_data = [DataDesc(data_name, data.shape, self.dtype.type)]
        self.provide_label = [DataDesc(label_name, label.shape, self.dtype.type)]
        self._current: Any = None
        self.reset()

    def reset(self) -> None:
        """The next epoch."""
        self._batches = iter(self._loader)

    def iter_next(self) -> bool:
        """Go to the next batch; whether there is one."""
        self._current = next(self._batches, None)
        return self._current is not None

    def _filled(self, x: NDArray) -> list[NDArray]:
        values = x.asnumpy().astype(self.dtype)
        rest = np.zeros((self.getpad(), *values.shape[1:]), self.dtype)
        return [array(np.concatenate([values, rest]), x.context, self.dtype)]

    def getdata(self) -> Any:
        """The data of this batch."""
        return self._filled(self._current[0])

    def getlabel(self) -> Any:
        """The labels of this batch."""
        return self._filled(self._current[1])

    def getpad(self) -> int:
        """How many samples only fill the batch up."""
        return self.batch_size - self._current[0].shape[0]

    def getindex(self) -> Any:
        """Not known: None."""
        return None


__all__ = ["DataLoaderIter"]
