/* x[key], x[key] = value, and operators that write into an array (x += y, out=), in eager code that records and traces
 * nothing. Whatever is not as it is in most calls gives None, and Python does it.
 */

/* A key of integers, slices, None and Ellipsis alone. */
static int is_basic_key(PyObject *key) {
  Py_ssize_t n = PyTuple_CheckExact(key) ? PyTuple_GET_SIZE(key) : 1;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *p = PyTuple_CheckExact(key) ? PyTuple_GET_ITEM(key, i) : key;
    if (!PyLong_CheckExact(p) && !PySlice_Check(p) && p != Py_None && p != Py_Ellipsis) return 0;
  }
  return 1;
}

/* The one element at a key as a view, where NumPy's own x[key] would give a number: an array without axes, or of shape
 * (1,) where of_nd says that x is an nd.NDArray. */
static PyObject *element(PyObject *raw, PyObject *key, int of_nd) {
  PyObject *last = PyTuple_Pack(1, of_nd ? Py_None : Py_Ellipsis), *start = PyTuple_CheckExact(key) ? Py_NewRef(key)
      : PyTuple_Pack(1, key), *whole = last && start ? PySequence_Concat(start, last) : NULL;
  PyObject *out = whole ? PyObject_GetItem(raw, whole) : NULL;
  Py_XDECREF(last); Py_XDECREF(start); Py_XDECREF(whole);
  return out;
}

/* x[key] of a basic key by MXNet's rules; NULL where Python has to do it. of_nd: as above. */
static PyObject *basic_item(PyArrayObject *x, PyObject *key, int of_nd) {
  PyObject *out = PyObject_GetItem((PyObject *)x, key);
  if (out && !PyArray_CheckExact(out)) Py_SETREF(out, element((PyObject *)x, key, of_nd));
  else if (out && of_nd && !PyArray_NDIM((PyArrayObject *)out)) Py_CLEAR(out);
  if (!out || PyArray_IS_C_CONTIGUOUS((PyArrayObject *)out)) return out;
  /* a part is a view where it is one range of memory, else a copy */
  PyObject *copied = PyArray_IS_C_CONTIGUOUS(x) ? PyArray_NewCopy((PyArrayObject *)out, NPY_CORDER) : NULL;
  Py_DECREF(out);
  return copied;
}

/* The key for NumPy's indexing (a new reference): itself where it is basic; for an array of integers, floats (cast to
 * integers) or truth values its raw array; NULL for other keys. */
static PyObject *plain_key(PyObject *key) {
  if (is_basic_key(key)) return Py_NewRef(key);
  PyObject *raw = is_array_class(Py_TYPE(key)) ? AT(key, eager.at_data) : key;
  if (!raw || !PyArray_CheckExact(raw)) return NULL;
  int type = PyArray_TYPE((PyArrayObject *)raw);
  if (type == NPY_FLOAT || type == NPY_DOUBLE) return PyArray_Cast((PyArrayObject *)raw, NPY_INT64);
  return PyTypeNum_ISINTEGER(type) || PyTypeNum_ISBOOL(type) ? Py_NewRef(raw) : NULL;
}

/* array_item(array, key): array[key], or None. */
static PyObject *array_item(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  if (count != 2 || !eager.scope || !is_array_class(Py_TYPE(args[0])) || !AT(args[0], eager.at_ctx)
      || !plainly_eager()) return no();
  PyObject *data = AT(args[0], eager.at_data), *key = data && PyArray_CheckExact(data) ? plain_key(args[1]) : NULL;
  if (!key) return no();
  Py_INCREF(data);
  PyObject *raw = PyArray_CheckExact(key) ? PyObject_GetItem(data, key)
      : basic_item((PyArrayObject *)data, key, Py_TYPE(args[0]) == eager.cls);
  Py_DECREF(data);
  Py_DECREF(key);
  PyObject *out = raw ? eager_result(raw, args[0], Py_None) : NULL;
  return out ? out : no();
}

/* What NumPy is to assign for a value (a new reference): a number itself; of an array of ours on the device ctx its raw
 * array, without axes where it has one element; NULL for other values. */
static PyObject *assigned(PyObject *value, PyObject *ctx) {
  if (PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value)) return Py_NewRef(value);
  if (!is_array_class(Py_TYPE(value)) || AT(value, eager.at_ctx) != ctx) return NULL;
  PyObject *raw = AT(value, eager.at_data);
  if (!raw || !PyArray_CheckExact(raw)) return NULL;
  PyArray_Dims none = {NULL, 0};
  return PyArray_SIZE((PyArrayObject *)raw) == 1 && PyArray_NDIM((PyArrayObject *)raw)
      ? PyArray_Newshape((PyArrayObject *)raw, &none, NPY_CORDER) : Py_NewRef(raw);
}

/* put_item(array, key, value): True where array[key] = value was done; else None, and Python has to do it. */
static PyObject *put_item(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  if (count != 3 || !eager.scope || !is_array_class(Py_TYPE(args[0])) || !plainly_eager()) return no();
  PyObject *data = AT(args[0], eager.at_data), *ctx = AT(args[0], eager.at_ctx), *key = NULL, *value = NULL;
  int done = 0;
  if (!data || !ctx || !PyArray_CheckExact(data)) return no();
  Py_INCREF(data);
  if ((key = plain_key(args[1])) && (value = assigned(args[2], ctx))) done = PyObject_SetItem(data, key, value) == 0;
  Py_DECREF(data);
  Py_XDECREF(key);
  Py_XDECREF(value);
  return done ? Py_NewRef(Py_True) : no();
}

/* Whether an elementwise function may write to out while it reads x: they share no memory, or are the same elements of
 * the same dtype. */
static int may_write(PyArrayObject *out, PyArrayObject *x) {
  const char *a = PyArray_DATA(out), *b = PyArray_DATA(x);
  if (!PyArray_IS_C_CONTIGUOUS(x)) return 0;
  return a + PyArray_NBYTES(out) <= b || b + PyArray_NBYTES(x) <= a
      || (a == b && PyArray_NBYTES(out) == PyArray_NBYTES(x) && PyArray_TYPE(out) == PyArray_TYPE(x));
}

/* Runs a program on raw arrays and writes its result into out: 1; 0 where Python has to do it. */
static int elementwise_into(Elementwise *self, PyObject **raw, int n, PyArrayObject *out) {
  char *input[MOST_INPUTS];
  PyObject *held[MOST_INPUTS] = {NULL};
  int go = n == self->inputs && is_of(out, self->descr->type_num) && PyArray_NDIM(out) == self->ndim
      && !memcmp(PyArray_DIMS(out), self->dims, sizeof(npy_intp) * self->ndim);
  for (int i = 0; go == 1 && i < n; i++)
      go = may_write(out, (PyArrayObject *)raw[i]) ? read_argument(self, i, raw[i], &input[i], &held[i]) : 0;
  if (go == 1) {
    Py_INCREF(self);                           /* another thread may drop it while this one is without the lock */
    go = !follow_into(self, input, (PyObject *)out);
    Py_DECREF(self);
  }
  for (int i = 0; i < n; i++) Py_XDECREF(held[i]);
  return go == 1;
}

/* known_into(the calls that are known of an operator, inputs, attributes, array to write the result into): True where
 * that was done; else None, and Python has to do it. */
static PyObject *known_into(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  if (count != 4 || !eager.scope || !PyDict_CheckExact(args[0]) || !PyDict_CheckExact(args[2])
      || !is_array_class(Py_TYPE(args[3])) || AT(args[3], eager.at_ag) != Py_None) return no();
  PyObject *training = plainly_eager(), *raw[MOST_INPUTS], *out = AT(args[3], eager.at_data);
  if (!training || !out || !PyArray_CheckExact(out) || !PyArray_ISCARRAY((PyArrayObject *)out)) return no();
  int n = eager_inputs(args[1], raw), done = 0;
  if (n < 0) return no();
  PyObject *function = function_of_call(args[0], raw, n, training, args[2]);
  Py_INCREF(out);
  if (function && Py_TYPE(function) == &ElementwiseType)
      done = elementwise_into((Elementwise *)function, raw, n, (PyArrayObject *)out);
  Py_DECREF(out);
  Py_XDECREF(function);
  drop(raw, n);
  return done ? Py_NewRef(Py_True) : no();
}
