"""MXNet's ``mx.test_utils``: comparing arrays, random arrays, checking gradients, distributions and blocks."""
from __future__ import annotations

# MXNet's module has no __all__: programs that import * from it find these too
import bz2
import errno
import gzip
import importlib
import importlib.util
import json
import logging
import numbers
import os
import platform
import struct
import sys
import time
import traceback
import zipfile
from collections import OrderedDict
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.random as rnd
import numpy.testing as npt

import hybrid as mx

from ..buffers.array import array
from ..base.device import Context, current_context
from ..mxnet.features import Features
from ..graph.symbol import Symbol
from ..mxnet.util import getenv, setenv, use_np
from .arrays import (assign_each, assign_each2, collapse_sum_like, create_2d_tensor, create_vector, get_identity_mat,
                     get_identity_mat_batch,
                     new_matrix_with_real_eigvals_2d,
                     new_matrix_with_real_eigvals_nd, new_orthonormal_matrix_2d, new_sym_matrix_with_real_eigvals_2d,
                     new_sym_matrix_with_real_eigvals_nd, np_reduce,
                     rand_coord_2d, rand_shape_2d, rand_shape_3d, rand_shape_nd, random_arrays, random_sample,
                     random_uniform_arrays, same_array)
from .blocks import check_gluon_hybridize_consistency, compare_ndarray_tuple, compare_optimizer
from .compare import (almost_equal, assert_allclose, assert_almost_equal, assert_almost_equal_ignore_nan,
                      assert_almost_equal_with_err, assert_exception,
                      default_atols, default_dtype, default_numeric_eps, default_rtols, effective_dtype, get_atol,
                      get_etol, get_rtol, get_tolerance, get_tols, same)
from .downloads import download, get_bz2_data, get_cifar10, get_mnist_pkl, get_mnist_ubyte, get_zip_data
from .sparse import (create_sparse_array, create_sparse_array_zd, rand_ndarray, rand_sparse_ndarray,
                     shuffle_csr_column_indices)
from .statistics import chi_square_check, gen_buckets_probs_with_ppf, mean_check, var_check, verify_generator
from .fixtures import (DummyIter, default_context, discard_stderr, environment, get_mnist, get_mnist_iterator,
                           has_tvm_ops, is_aarch64_run, is_cd_run,
                           is_op_runnable, list_gpus, retry, set_default_context)
from .symbols import (check_consistency, check_numeric_gradient, check_speed, check_symbolic_backward,
                      check_symbolic_forward, numeric_grad,
                      same_symbol_structure, simple_forward)

np_symbol = mx.sym.np
# other libraries that MXNet's module imports: here when they are asked for
_LAZY = {"ss": "scipy.stats", "requests": "requests"}


def __getattr__(name: str) -> Any:
    if name in _LAZY and importlib.util.find_spec(_LAZY[name].split(".")[0]) is not None:
        return importlib.import_module(_LAZY[name])
    raise AttributeError(f"module 'hybrid.test_utils' has no attribute {name!r}")


__all__ = ["bz2", "get_bz2_data", "get_cifar10", "get_mnist_pkl", "get_mnist_ubyte", "get_zip_data",
           "gzip", "np_symbol", "zipfile", *(name
                                             for name, module in _LAZY.items()
                                             if importlib.util.find_spec(module.split(".")[0]) is not None),
           "create_sparse_array", "create_sparse_array_zd", "rand_sparse_ndarray", "shuffle_csr_column_indices",
           "Context", "DummyIter", "Features", "OrderedDict", "Symbol", "array", "contextmanager", "current_context",
           "errno", "getenv", "json", "logging", "mx",
           "npt", "numbers", "os", "platform", "rnd", "setenv", "struct", "sys", "time", "traceback", "use_np",
           "almost_equal", "assign_each", "assign_each2", "assert_allclose", "assert_almost_equal",
           "assert_almost_equal_ignore_nan", "assert_almost_equal_with_err",
           "assert_exception", "check_consistency", "check_gluon_hybridize_consistency", "check_numeric_gradient",
           "check_speed", "check_symbolic_backward",
           "check_symbolic_forward", "chi_square_check", "collapse_sum_like", "compare_ndarray_tuple",
           "compare_optimizer", "create_2d_tensor", "create_vector",
           "default_atols", "default_context", "default_dtype", "default_numeric_eps", "default_rtols",
           "discard_stderr", "download", "effective_dtype", "environment",
           "gen_buckets_probs_with_ppf", "get_atol", "get_etol", "get_identity_mat", "get_identity_mat_batch",
           "get_mnist", "get_mnist_iterator", "get_rtol",
           "get_tolerance", "get_tols", "has_tvm_ops", "is_aarch64_run", "is_cd_run", "is_op_runnable", "list_gpus",
           "mean_check", "new_matrix_with_real_eigvals_2d",
           "new_matrix_with_real_eigvals_nd", "new_orthonormal_matrix_2d", "new_sym_matrix_with_real_eigvals_2d",
           "new_sym_matrix_with_real_eigvals_nd", "np",
           "np_reduce", "numeric_grad", "rand_coord_2d", "rand_ndarray", "rand_shape_2d", "rand_shape_3d",
           "rand_shape_nd", "random_arrays", "random_sample",
           "random_uniform_arrays", "retry", "same", "same_array", "same_symbol_structure", "set_default_context",
           "simple_forward", "var_check", "verify_generator"]
