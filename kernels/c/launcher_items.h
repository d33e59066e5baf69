/* x[key], and operators that write into an array, where nothing records, traces or watches. */

/* A key of integers, slices, None and Ellipsis alone. */
static int is_basic_key(PyObject *key) {
  Py_ssize_t n = PyTuple_CheckExact(key) ? PyTuple_GET_SIZE(key) : 1;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *p = PyTuple_CheckExact(key) ? PyTuple_GET_ITEM(key, i) : key;
    if (!PyLong_CheckExact(p) && !PySlice_Check(p) && p != Py_None && p != Py_Ellipsis) return 0;
  }
  return 1;
}

/* The element at a key as an array of its memory: without axes, or (nd) with one. */
static PyObject *element(PyObject *raw, PyObject *key, int of_nd) {
  PyObject *last = PyTuple_Pack(1, of_nd ? Py_None : Py_Ellipsis), *start = PyTuple_CheckExact(key) ? Py_NewRef(key)
      : PyTuple_Pack(1, key), *whole = last && start ? PySequence_Concat(start, last) : NULL;
  PyObject *out = whole ? PyObject_GetItem(raw, whole) : NULL;
  Py_XDECREF(last); Py_XDECREF(start); Py_XDECREF(whole);
  return out;
}

static PyObject *basic_item(PyArrayObject *x, PyObject *key, int of_nd) {
  PyObject *out = PyObject_GetItem((PyObject *)x, key);
  if (out && !PyArray_CheckExact(out)) Py_SETREF(out, element((PyObject *)x, key, of_nd));
  else if (out && of_nd && !PyArray_NDIM((PyArrayObject *)out)) Py_CLEAR(out);
  if (!out || PyArray_IS_C_CONTIGUOUS((PyArrayObject *)out)) return out;
  /* views are ranges of memory; other parts are copies */
  PyObject *copied = PyArray_IS_C_CONTIGUOUS(x) ? PyArray_NewCopy((PyArrayObject *)out, NPY_CORDER) : NULL;
  Py_DECREF(out);
  return copied;
}

/* The key as NumPy takes it: itself where it is basic, the raw array of an index of numbers or truth values (floats
 * become integers); NULL for others. */
static PyObject *plain_key(PyObject *key) {
  if (is_basic_key(key)) return Py_NewRef(key);
  PyObject *raw = is_array_class(Py_TYPE(key)) ? AT(key, eager.at_data) : key;
  if (!raw || !PyArray_CheckExact(raw)) return NULL;
  int type = PyArray_TYPE((PyArrayObject *)raw);
  if (type == NPY_FLOAT || type == NPY_DOUBLE) return PyArray_Cast((PyArrayObject *)raw, NPY_INT64);
  return PyTypeNum_ISINTEGER(type) || PyTypeNum_ISBOOL(type) ? Py_NewRef(raw) : NULL;
}

/* array_item(array, key): the part, or None. */
static PyObject *array_item(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  if (count != 2 || !eager.scope || !is_array_class(Py_TYPE(args[0])) || !plainly_eager()) return no();
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

/* A number, or the raw array of one of ours on a device: without axes where it has one element. */
static PyObject *assigned(PyObject *value, PyObject *ctx) {
  if (PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value)) return Py_NewRef(value);
  if (!is_array_class(Py_TYPE(value)) || AT(value, eager.at_ctx) != ctx) return NULL;
  PyObject *raw = AT(value, eager.at_data);
  if (!raw || !PyArray_CheckExact(raw)) return NULL;
  PyArray_Dims none = {NULL, 0};
  return PyArray_SIZE((PyArrayObject *)raw) == 1 && PyArray_NDIM((PyArrayObject *)raw)
      ? PyArray_Newshape((PyArrayObject *)raw, &none, NPY_CORDER) : Py_NewRef(raw);
}

/* put_item(array, key, value): True where it was put there. */
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

/* Whether a function may write to an array while it reads another, which it reads in place: it is that one, or shares
 * no memory with it. */
static int may_write(PyArrayObject *out, PyArrayObject *x) {
  const char *a = PyArray_DATA(out), *b = PyArray_DATA(x);
  if (!PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISALIGNED(x)) return 0;
  return a + PyArray_NBYTES(out) <= b || b + PyArray_NBYTES(x) <= a
      || (a == b && PyArray_NBYTES(out) == PyArray_NBYTES(x) && PyArray_TYPE(out) == PyArray_TYPE(x));
}

static int elementwise_into(Elementwise *self, PyObject **raw, int n, PyArrayObject *out) {
  char *input[MOST_INPUTS];
  PyObject *held = NULL;
  int go = n == self->inputs && is_of(out, self->descr->type_num) && PyArray_NDIM(out) == self->ndim
      && !memcmp(PyArray_DIMS(out), self->dims, sizeof(npy_intp) * self->ndim);
  for (int i = 0; go == 1 && i < n; i++)
      go = may_write(out, (PyArrayObject *)raw[i]) ? read_argument(self, i, raw[i], &input[i], &held) : 0;
  Py_INCREF(self);
  int done = go == 1 && follow_into(self, input, (PyObject *)out) == 0;
  Py_DECREF(self);
  Py_XDECREF(held);                                           /* NULL: what may_write lets through is not copied */
  return done;
}

/* known_into(the calls that are known of an operator, inputs, attributes, array to write into): True where that was
 * done. */
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
