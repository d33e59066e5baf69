"""The same random bits from NumPy, C and CUDA, and the published answers of Philox4x32-10."""
from __future__ import annotations

import shutil
import subprocess

import cffi
import numpy as np
import pytest

from hybrid.ir import philox
from hybrid.runtime.cuda import sources

from .cuda_tools import PLACES, run_cuda

# Random123's known answers (kat_vectors): counter, key, result
KNOWN = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
     [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]
SEED, CALL, STREAM, COUNT = 0xDEADBEEF, 41, 3, 1003

CUDA = r"""
#include "hybrid_cuda.cuh"
#include "philox.h"
extern "C" __global__ void draw(const unsigned *key, unsigned *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1003) out[i] = philox4x32(key[0], key[1], 3u, i);
}
"""


@pytest.fixture(scope="module")
def c_library(tmp_path_factory):
    """philox.h compiled as plain C."""
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("philox")
    (folder / "p.c").write_text(
        '#include "philox.h"\n'
        "void block(unsigned *c, unsigned a, unsigned b) { philox4x32_block(c, a, b); }\n"
        "unsigned bits(unsigned s, unsigned c, unsigned t, unsigned long long i) { return philox4x32(s, c, t, i); }\n")
    subprocess.run([gcc, "-O2", "-shared", "-fPIC", f"-I{sources.kernels_folder() / 'include'}", str(folder / "p.c"),
                    "-o",
                    str(folder / "p.so")], check=True)
    ffi = cffi.FFI()
    ffi.cdef("void block(unsigned *, unsigned, unsigned); unsigned bits(unsigned, unsigned, unsigned, unsigned long "
             "long);")
    return ffi, ffi.dlopen(str(folder / "p.so"))


def numpy_bits(count: int) -> np.ndarray:
    return philox.random_bits(np, np.array([SEED, CALL], np.uint32), (count,), STREAM)


@pytest.mark.parametrize("counter, key, expected", KNOWN)
def test_known_answers(c_library, counter, key, expected):
    words = philox.philox4x32(np, [np.array([w], np.uint64) for w in counter], key)
    assert [int(w[0]) for w in words] == expected
    ffi, lib = c_library
    c = ffi.new("unsigned[4]", counter)
    lib.block(c, *key)
    assert list(c) == expected


def test_c_draws_what_numpy_draws(c_library):
    _, lib = c_library
    assert [lib.bits(SEED, CALL, STREAM, i) for i in range(COUNT)] == numpy_bits(COUNT).tolist()


def test_block_numbers_use_64_bits(c_library):
    _, lib = c_library
    index = 4 * (2**32 + 5) + 2
    words = philox.philox4x32(np, [np.array([w], np.uint64) for w in (5, 1, CALL, STREAM)], [SEED, 0x9E3779B9 ^ STREAM])
    assert lib.bits(SEED, CALL, STREAM, index) == int(words[2][0])


@pytest.mark.parametrize("order, seed", PLACES)
def test_cuda_draws_what_numpy_draws(order, seed):
    _, out = run_cuda(CUDA, [("draw", (8, 1, 1), (128, 1, 1), 0, (0, 1))],
                          [np.array([SEED, CALL], np.uint32), np.zeros(COUNT, np.uint32)], order, seed)
    assert np.array_equal(out, numpy_bits(COUNT))


def test_a_shape_is_filled_in_order_and_streams_differ():
    key = np.array([SEED, CALL], np.uint32)
    assert np.array_equal(philox.random_bits(np, key, (7, 11), STREAM).reshape(-1), numpy_bits(77))
    assert philox.random_bits(np, key, (0, 3), STREAM).shape == (0, 3)
    assert not np.array_equal(philox.random_bits(np, key, (77,), STREAM + 1), numpy_bits(77))
