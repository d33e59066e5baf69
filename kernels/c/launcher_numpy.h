/* Calls of NumPy's own functions with arrays of ours (hybrid/numpy/fallback.py): the function sees read-only views of
 * their elements, and its results come back as arrays of ours. Whatever is not as it is in most calls is for Python.
 */
enum { COPIED = 1 << 14 };                                  /* bytes of a result up to which it is copied here */
static struct { char types[64]; PyObject *host; } own;      /* by number: dtypes that arrays of ours have; a device */

/* numpys_types(numbers): of the dtypes that arrays may have. */
static PyObject *numpys_setup(PyObject *module, PyObject *numbers) {
  PyObject *fast = PySequence_Fast(numbers, "numbers");
  for (Py_ssize_t i = 0; fast && i < PySequence_Fast_GET_SIZE(fast); i++) {
    long number = PyLong_AsLong(PySequence_Fast_GET_ITEM(fast, i));
    if (number >= 0 && number < (long)sizeof own.types) own.types[number] = 1;
  }
  Py_XDECREF(fast);
  return fast && !PyErr_Occurred() ? Py_NewRef(Py_None) : NULL;
}

/* Whether the arrays of a device lie in memory that NumPy reads. */
static int on_host(PyObject *ctx) {
  if (ctx == own.host) return 1;
  PyObject *type = PyObject_GetAttrString(ctx, "device_type");
  int host = type && PyUnicode_Check(type) && PyUnicode_CompareWithASCIIString(type, "gpu");
  Py_XDECREF(type);
  if (host) { PyObject *old = own.host; own.host = Py_NewRef(ctx); Py_XDECREF(old); }
  return host;
}

/* A view of an array's elements that nobody may write; writeable: it is not marked read-only, for functions that copy
 * what is (COPYING of fallback.py). */
static PyObject *view_of(PyArrayObject *x, int writeable) {
  int flags = PyArray_FLAGS(x) & ~NPY_ARRAY_OWNDATA & ~(writeable ? 0 : NPY_ARRAY_WRITEABLE);
  PyArray_Descr *descr = (PyArray_Descr *)Py_NewRef((PyObject *)PyArray_DESCR(x));
  PyObject *seen = PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x),
                                        PyArray_DATA(x), flags, NULL);
  if (seen && PyArray_SetBaseObject((PyArrayObject *)seen, Py_NewRef((PyObject *)x)) < 0) Py_CLEAR(seen);
  return seen;
}

/* What the function is given for an argument, NULL for one that Python has to look at. first: the first array. */
static PyObject *host_of(PyObject *v, int writeable, PyObject **first) {
  if (is_plain_value(v) || PyArray_IsScalar(v, Generic) || PySlice_Check(v) || PyType_Check(v) || PyArray_DescrCheck(v))
    return Py_NewRef(v);
  if (PyList_CheckExact(v) || PyTuple_CheckExact(v)) {
    if (Py_EnterRecursiveCall(" in a list that is within itself")) return NULL;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(v);
    PyObject *out = PyTuple_New(n), *list;
    for (Py_ssize_t i = 0; out && i < n; i++) {
      PyObject *item = i < PySequence_Fast_GET_SIZE(v) ? host_of(PySequence_Fast_GET_ITEM(v, i), writeable, first)
          : NULL;
      if (item) PyTuple_SET_ITEM(out, i, item); else Py_CLEAR(out);
    }
    Py_LeaveRecursiveCall();
    if (!out || PyTuple_CheckExact(v)) return out;
    list = PySequence_List(out);
    Py_DECREF(out);
    return list;
  }
  if (!is_array_class(Py_TYPE(v))) return NULL;
  PyObject *ctx = AT(v, eager.at_ctx), *data = AT(v, eager.at_data);
  if (!ctx || !data || !PyArray_CheckExact(data) || !on_host(ctx)) return NULL;
  if (!*first) *first = v;
  return view_of((PyArrayObject *)data, writeable);
}

/* An array of ours for one that the function has just made, or for a copy of a small one; NULL for others. */
static PyObject *array_back(PyArrayObject *x, PyObject *first, PyObject *cls) {
  int number = PyArray_TYPE(x);
  if (number < 0 || number >= (int)sizeof own.types || !own.types[number] || !PyArray_ISNOTSWAPPED(x)) return NULL;
  if (PyArray_IS_C_CONTIGUOUS(x) && PyArray_ISWRITEABLE(x) && !PyArray_BASE(x) && PyArray_ISALIGNED(x))
    return eager_result(Py_NewRef((PyObject *)x), first, cls);
  PyObject *copied = PyArray_NBYTES(x) <= COPIED ? PyArray_NewCopy(x, NPY_CORDER) : NULL;
  return copied ? eager_result(copied, first, cls) : NULL;
}

/* What comes back for a result, NULL for what Python has to look at. */
static PyObject *back_of(PyObject *v, PyObject *first, PyObject *cls) {
  if (PyArray_CheckExact(v)) return array_back((PyArrayObject *)v, first, cls);
  if (PyArray_IsScalar(v, Generic)) {
    PyObject *x = PyArray_FromScalar(v, NULL), *out = x ? array_back((PyArrayObject *)x, first, cls) : NULL;
    Py_XDECREF(x);
    return out;
  }
  if (PyTuple_CheckExact(v) || PyList_CheckExact(v)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(v);
    PyObject *out = PyTuple_New(n), *list;
    for (Py_ssize_t i = 0; out && i < n; i++) {
      PyObject *item = back_of(PySequence_Fast_GET_ITEM(v, i), first, cls);
      if (item) PyTuple_SET_ITEM(out, i, item); else Py_CLEAR(out);
    }
    if (!out || PyTuple_CheckExact(v)) return out;
    list = PySequence_List(out);
    Py_DECREF(out);
    return list;
  }
  return is_plain_value(v) ? Py_NewRef(v) : NULL;
}

/* The arguments as the function is given them: 1; 0: Python has to look at them. */
static int hosts_of(PyObject *args, PyObject *kwargs, int writeable, PyObject **host, PyObject **named,
    PyObject **first) {
  *named = NULL, *first = NULL, *host = host_of(args, writeable, first);
  if (*host && PyDict_GET_SIZE(kwargs)) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    *named = PyDict_New();
    while (*named && PyDict_Next(kwargs, &at, &name, &value)) {
      PyObject *item = host_of(value, writeable, first);
      if (!item || PyDict_SetItem(*named, name, item)) Py_CLEAR(*named);
      Py_XDECREF(item);
    }
    if (!*named) Py_CLEAR(*host);
  }
  if (*host && *first) return 1;
  Py_CLEAR(*host);
  Py_CLEAR(*named);
  PyErr_Clear();
  return 0;
}

/* numpys_call(function, arguments, arguments by name, class of the results, whether views are not marked read-only,
 * what makes other results arrays of ours, called with a result, the first array and the class): what the function
 * gives; NotImplemented where Python has to call it. */
static PyObject *numpys_call(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  PyObject *host, *named, *first;
  if (count != 6 || !eager.scope || !PyTuple_CheckExact(args[1]) || !PyDict_CheckExact(args[2]) || !plainly_eager()
      || !hosts_of(args[1], args[2], args[4] == Py_True, &host, &named, &first)) {
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
  }
  Py_INCREF(first);                                          /* its list may lose it meanwhile */
  PyObject *found = PyObject_Call(args[0], host, named), *out = NULL;
  if (found) {
    out = back_of(found, first, args[3]);
    if (!out && !PyErr_Occurred()) out = PyObject_CallFunctionObjArgs(args[5], found, first, args[3], NULL);
    Py_DECREF(found);
  }
  Py_DECREF(first);
  Py_DECREF(host);
  Py_XDECREF(named);
  return out;
}
