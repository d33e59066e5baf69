"""Data iterators of MXNet's older interface: over arrays in memory, text files, MNIST's files and images in RecordIO
files."""
from __future__ import annotations

from ..base.other_names import hinted as _hinted
from ..mxnet.data_iter import DataBatch, DataDesc, DataIter, NDArrayIter, PrefetchingIter, ResizeIter
from .detection import ImageDetRecordIter
from .records import ImageRecordInt8Iter, ImageRecordIter, ImageRecordUInt8Iter
from .rows import CSVIter, LibSVMIter, MNISTIter, MXDataIter

# MXNet's older names of the same
ImageRecordIter_v1, ImageRecordUInt8Iter_v1 = ImageRecordIter, ImageRecordUInt8Iter

__all__ = ["CSVIter", "DataBatch", "DataDesc", "DataIter", "ImageDetRecordIter", "ImageRecordInt8Iter",
           "ImageRecordIter", "ImageRecordIter_v1",
           "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1", "LibSVMIter", "MNISTIter", "MXDataIter", "NDArrayIter",
           "PrefetchingIter", "ResizeIter"]

_hinted(globals())
