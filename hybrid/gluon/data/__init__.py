"""Datasets, samplers and the DataLoader."""
from __future__ import annotations

from ...base.other_names import DATA as _DATA, hinted as _hinted
from . import vision
from .dataloader import DataLoader, LoaderError, LoaderTimeout, default_batchify_fn, default_mp_batchify_fn
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .sampler import BatchSampler, FilterSampler, IntervalSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["ArrayDataset", "BatchSampler", "DataLoader", "Dataset", "FilterSampler", "IntervalSampler", "LoaderError",
           "LoaderTimeout", "RandomSampler",
           "RecordFileDataset", "Sampler", "SequentialSampler", "SimpleDataset", "default_batchify_fn",
           "default_mp_batchify_fn", "vision"]

_hinted(globals(), _DATA)
