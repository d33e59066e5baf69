/* The random bits of a draw: Philox4x32-10 (include/philox.h) of many blocks at once, as loops that the compiler makes
 * vectors of.
 */
enum { BLOCKS = 64 };

static void philox_blocks(npy_uint32 *out, npy_uint64 first, npy_uint32 seed, npy_uint32 call, npy_uint32 stream) {
  npy_uint32 a[BLOCKS], b[BLOCKS], c[BLOCKS], d[BLOCKS], k0 = seed, k1 = 0x9E3779B9u ^ stream;
  for (int i = 0; i < BLOCKS; i++) {
    a[i] = (npy_uint32)(first + i), b[i] = (npy_uint32)((first + i) >> 32);
    c[i] = call, d[i] = stream;
  }
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
    for (int i = 0; i < BLOCKS; i++) {
      npy_uint64 p = (npy_uint64)0xD2511F53u * a[i], q = (npy_uint64)0xCD9E8D57u * c[i];
      a[i] = (npy_uint32)(q >> 32) ^ b[i] ^ k0, b[i] = (npy_uint32)q;
      c[i] = (npy_uint32)(p >> 32) ^ d[i] ^ k1, d[i] = (npy_uint32)p;
    }
  for (int i = 0; i < BLOCKS; i++)
    out[4 * i] = a[i], out[4 * i + 1] = b[i], out[4 * i + 2] = c[i], out[4 * i + 3] = d[i];
}

/* random_bits(array, seed, call, stream) fills a new array of 32-bit words. */
static PyObject *random_bits(PyObject *module, PyObject *args) {
  PyArrayObject *array;
  unsigned seed, call, stream;
  if (!PyArg_ParseTuple(args, "O!III", &PyArray_Type, &array, &seed, &call, &stream)) return NULL;
  if (!PyArray_ISCARRAY(array) || PyArray_TYPE(array) != NPY_UINT32) {
    PyErr_SetString(PyExc_TypeError, "the words of a draw are uint32, one behind the other"); return NULL;
  }
  npy_uint32 *out = PyArray_DATA(array), rest[4 * BLOCKS];
  const npy_intp n = PyArray_SIZE(array), whole = n / (4 * BLOCKS) * (4 * BLOCKS);
  Py_BEGIN_ALLOW_THREADS
  for (npy_intp at = 0; at < whole; at += 4 * BLOCKS) philox_blocks(out + at, at / 4, seed, call, stream);
  if (whole < n) {
    philox_blocks(rest, whole / 4, seed, call, stream);
    memcpy(out + whole, rest, (n - whole) * sizeof(npy_uint32));
  }
  Py_END_ALLOW_THREADS
  Py_RETURN_NONE;
}

