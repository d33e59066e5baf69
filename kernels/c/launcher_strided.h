/* Strided(dtype, elements of the argument, byte where the first element lies, dims and strides of what is read, shape
 * of the result, otherwise): a program that puts the elements of one array in another order or shape, or leaves some
 * out, as a function of the raw array: one copy. otherwise: a function of the same, for arrays that are no block of
 * memory. */
typedef struct {
  PyObject_HEAD
  vectorcallfunc call;
  PyArray_Descr *descr;
  PyObject *otherwise;
  npy_intp size, offset, dims[NPY_MAXDIMS], strides[NPY_MAXDIMS], shape[NPY_MAXDIMS];
  int read, ndim;                              /* axes of what is read, and of the result */
} Strided;

static PyObject *array_at(PyArray_Descr *d, int ndim, const npy_intp *dims, const npy_intp *strides, void *data,
    int flags) {
  return PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef((PyObject *)d), ndim, dims, strides, data,
      flags, NULL);
}

static PyObject *strided_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
  Strided *self = (Strided *)object;
  if (names || PyVectorcall_NARGS(nargsf) != 1 || !PyArray_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "a movement of elements takes one array"); return NULL;
  }
  PyArrayObject *x = (PyArrayObject *)args[0];
  if (!is_of(x, self->descr->type_num) || PyArray_SIZE(x) != self->size) {
    PyErr_SetString(PyExc_TypeError, "a movement of elements is called with another array"); return NULL;
  }
  if (!PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISALIGNED(x))
      return PyObject_Vectorcall(self->otherwise, args, nargsf, NULL);
  PyObject *out = array_at(self->descr, self->ndim, self->shape, NULL, NULL, 0);
  PyObject *from = out ? array_at(self->descr, self->read, self->dims, self->strides,
      (char *)PyArray_DATA(x) + self->offset, NPY_ARRAY_ALIGNED) : NULL;
  PyObject *to = from ? array_at(self->descr, self->read, self->dims, NULL, PyArray_DATA((PyArrayObject *)out),
      NPY_ARRAY_CARRAY) : NULL;
  if (!to || PyArray_CopyInto((PyArrayObject *)to, (PyArrayObject *)from)) Py_CLEAR(out);
  Py_XDECREF(from);
  Py_XDECREF(to);
  return out;
}

static int read_sizes(PyObject *tuple, npy_intp *to) {
  int n = (int)PyTuple_GET_SIZE(tuple);
  for (int i = 0; n <= NPY_MAXDIMS && i < n; i++) to[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
  if (n > NPY_MAXDIMS) PyErr_SetString(PyExc_ValueError, "too many axes");
  return PyErr_Occurred() ? -1 : n;
}

/* Whether all that is read lies within the argument, and is as much as the result. */
static int within(const Strided *self) {
  npy_intp item = itemsize_of(self->descr), low = self->offset, high = self->offset, count = 1, wanted = 1;
  for (int i = 0; i < self->read; i++) {
    count *= self->dims[i];
    *(self->strides[i] < 0 ? &low : &high) += (self->dims[i] - 1) * self->strides[i];
  }
  for (int i = 0; i < self->ndim; i++) wanted *= self->shape[i];
  return count > 0 && count == wanted && low >= 0 && high + item <= self->size * item;
}

static PyObject *strided_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *dims, *strides, *shape, *otherwise;
  PyArray_Descr *descr;
  Py_ssize_t size, offset;
  if (!PyArg_ParseTuple(args, "O!nnO!O!O!O", &PyArrayDescr_Type, &descr, &size, &offset, &PyTuple_Type, &dims,
      &PyTuple_Type, &strides, &PyTuple_Type, &shape, &otherwise)) return NULL;
  Strided *self = (Strided *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->call = strided_call, self->descr = (PyArray_Descr *)Py_NewRef((PyObject *)descr),
      self->otherwise = Py_NewRef(otherwise), self->size = size, self->offset = offset;
  self->read = read_sizes(dims, self->dims), self->ndim = read_sizes(shape, self->shape);
  int right = self->read >= 0 && self->ndim >= 0 && read_sizes(strides, self->strides) == self->read
      && plain_type(descr) && within(self);
  if (!right) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "these elements do not lie within the array");
    Py_CLEAR(self);
  }
  return (PyObject *)self;
}

static void strided_dealloc(PyObject *object) {
  Strided *self = (Strided *)object;
  Py_XDECREF((PyObject *)self->descr); Py_XDECREF(self->otherwise);
  Py_TYPE(object)->tp_free(object);
}

static PyMemberDef strided_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Strided, call), READONLY}, {0}};
static PyTypeObject StridedType = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "hybrid_launcher.Strided", .tp_basicsize = sizeof(Strided),
      .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
  .tp_new = strided_new, .tp_dealloc = strided_dealloc, .tp_call = PyVectorcall_Call,
      .tp_vectorcall_offset = offsetof(Strided, call), .tp_members = strided_members,
};
