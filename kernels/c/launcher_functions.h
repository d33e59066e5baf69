/* Calls of public functions (np.where, x.sum) that Python has seen before with arguments of the same kind: arrays of
 * the same shapes and dtypes, and equal other values. Python found out that the function calls one operator, or gives
 * what one function of NumPy's gives (hybrid/autograd/known_functions.py); that one is called here at once, and the
 * function's own Python code does not run.
 */
enum { KEY_ROOM = 512, ENTRY = 4 };                    /* bytes of a key, at most; items of an entry (function_call) */
static struct { PyObject *watched, *casts, *timers; } watching;             /* the lists of functions_setup */
/* The kind of a call's arguments as bytes (the key), and the arrays among them in their order (borrowed). */
typedef struct { char bytes[KEY_ROOM]; Py_ssize_t size; PyObject *array[MOST_INPUTS]; int arrays; } Kind;

/* functions_setup(WATCHED, CASTS, TIMERS): three lists. Unless WATCHED is [0] (no training loop is followed) and the
 * others (casts of mixed precision, timers of operators) are empty, all calls go through Python. */
static PyObject *functions_setup(PyObject *module, PyObject *args) {
  PyObject *watched, *casts, *timers;
  if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &watched, &PyList_Type, &casts, &PyList_Type, &timers))
    return NULL;
  if (!watching.watched) watching.watched = Py_NewRef(watched), watching.casts = Py_NewRef(casts),
      watching.timers = Py_NewRef(timers);
  Py_RETURN_NONE;
}

static int nobody_watches(void) {
  return watching.watched && PyList_GET_SIZE(watching.watched) == 1 && !PyList_GET_SIZE(watching.casts)
      && !PyList_GET_SIZE(watching.timers) && PyLong_AsLong(PyList_GET_ITEM(watching.watched, 0)) == 0;
}

/* Each of these appends to the key: 1, or 0 where there is no room or the value is of no kind that keys hold. */
static int put(Kind *k, const void *what, Py_ssize_t n) {
  if (k->size + n > KEY_ROOM) return 0;
  memcpy(k->bytes + k->size, what, n);
  k->size += n;
  return 1;
}

static int put_text(Kind *k, char tag, PyObject *text) {
  Py_ssize_t n;
  const char *bytes = PyUnicode_AsUTF8AndSize(text, &n);
  return bytes && put(k, &tag, 1) && put(k, &n, sizeof n) && put(k, bytes, n);
}

static int put_array(Kind *k, PyObject *v) {
  PyObject *ctx = AT(v, eager.at_ctx), *data = AT(v, eager.at_data);
  if (!ctx || !data || !PyArray_CheckExact(data) || !on_host(ctx) || k->arrays == MOST_INPUTS) return 0;
  PyArrayObject *x = (PyArrayObject *)data;
  if (k->arrays && AT(k->array[0], eager.at_ctx) != ctx
      && PyObject_RichCompareBool(AT(k->array[0], eager.at_ctx), ctx, Py_EQ) != 1) return 0;
  const char head[] = {'A', Py_TYPE(v) != eager.cls, (char)PyArray_TYPE(x), (char)PyArray_NDIM(x)};
  k->array[k->arrays++] = v;
  return plain_type(PyArray_DESCR(x)) && put(k, head, sizeof head)
      && put(k, PyArray_DIMS(x), sizeof(npy_intp) * PyArray_NDIM(x));
}

static int put_number(Kind *k, PyObject *v) {
  if (PyFloat_CheckExact(v)) {
    double number = PyFloat_AS_DOUBLE(v);
    return put(k, "f", 1) && put(k, &number, sizeof number);
  }
  int overflow;
  long long number = PyLong_AsLongLongAndOverflow(v, &overflow);
  return !overflow && put(k, "i", 1) && put(k, &number, sizeof number);
}

/* Any value: a tag for its type, then what tells it from other values of that type. */
static int put_value(Kind *k, PyObject *v) {
  if (is_array_class(Py_TYPE(v))) return put_array(k, v);
  if (v == Py_None || PyBool_Check(v)) return put(k, v == Py_None ? "N" : v == Py_True ? "T" : "F", 1);
  if (PyLong_CheckExact(v) || PyFloat_CheckExact(v)) return put_number(k, v);
  if (PyUnicode_CheckExact(v)) return put_text(k, 's', v);
  if (PyType_Check(v) && PyType_IsSubtype((PyTypeObject *)v, &PyGenericArrType_Type)
      && !PyType_HasFeature((PyTypeObject *)v, Py_TPFLAGS_HEAPTYPE))
    return put(k, "t", 1) && put(k, &v, sizeof v);
  if (PyArray_DescrCheck(v)) {
    char head[] = {'d', (char)((PyArray_Descr *)v)->type_num};
    return plain_type((PyArray_Descr *)v) && put(k, head, sizeof head);
  }
  if (!PyList_CheckExact(v) && !PyTuple_CheckExact(v)) return 0;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(v);
  int fits = put(k, PyList_CheckExact(v) ? "[" : "(", 1) && put(k, &n, sizeof n);
  if (Py_EnterRecursiveCall(" in a list that is within itself")) return 0;
  for (Py_ssize_t i = 0; fits && i < n; i++)            /* code of ours may run and make the list shorter */
      fits = i < PySequence_Fast_GET_SIZE(v) && put_value(k, PySequence_Fast_GET_ITEM(v, i));
  Py_LeaveRecursiveCall();
  return fits;
}

/* The key of a call (a new reference), the arrays into k. NULL, perhaps with an error set, where Python has to do the
 * call: something records, traces or watches, an argument is of no kind that keys hold, or none is an array. */
static PyObject *kind_of_call(Kind *k, PyObject *args, PyObject *kwargs) {
  PyObject *name, *value, *training = PyTuple_CheckExact(args) && PyDict_CheckExact(kwargs) && nobody_watches()
      ? plainly_eager() : NULL;
  Py_ssize_t at = 0;
  k->size = 0, k->arrays = 0;
  int fits = training && put(k, training == Py_True ? "T" : "F", 1);
  for (Py_ssize_t i = 0; fits && i < PyTuple_GET_SIZE(args); i++) fits = put_value(k, PyTuple_GET_ITEM(args, i));
  while (fits && PyDict_Next(kwargs, &at, &name, &value)) fits = put_text(k, '=', name) && put_value(k, value);
  return fits && k->arrays ? PyBytes_FromStringAndSize(k->bytes, k->size) : NULL;
}

/* function_key(arguments, arguments by name): (the call's key, a tuple of its arrays), or None. */
static PyObject *function_key(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  Kind k;
  PyObject *key = count == 2 && eager.scope ? kind_of_call(&k, args[0], args[1]) : NULL, *arrays;
  if (!key) return no();
  if (!(arrays = PyTuple_New(k.arrays))) { Py_DECREF(key); return NULL; }
  for (int i = 0; i < k.arrays; i++) PyTuple_SET_ITEM(arrays, i, Py_NewRef(k.array[i]));
  return Py_BuildValue("(NN)", key, arrays);
}

/* The result of an operator's function of raw arrays; NULL where Python has to do the call. places: for each argument
 * of the function, the number of one of the call's arrays (in k), or a raw array that is the same at every call. */
static PyObject *call_operator(PyObject *function, PyObject *places, Kind *k, PyObject *cls) {
  PyObject *raw[MOST_INPUTS], *first = Py_NewRef(k->array[0]), *out = NULL;
  int n = (int)PyTuple_GET_SIZE(places);
  for (int i = 0; i < n; i++) {
    PyObject *x = PyTuple_GET_ITEM(places, i);
    raw[i] = Py_NewRef(PyArray_CheckExact(x) ? x : AT(k->array[PyLong_AsLong(x)], eager.at_data));
  }
  PyObject *result = called_quietly(function, raw, n);
  if (result) out = eager_result(result, first, cls);
  drop(raw, n);
  Py_DECREF(first);
  return out;
}

/* The result of a function of NumPy arrays, given the call's own arguments; NULL where Python has to do the call. made:
 * None where the function gives one value; else the class (list, tuple, a named tuple) that holds the several ones. */
static PyObject *call_numpys(PyObject *function, PyObject *made, PyObject *args, PyObject *kwargs, PyObject *cls) {
  PyObject *host, *named, *first, *out = NULL;
  if (!hosts_of(args, kwargs, 1, &host, &named, &first)) return NULL;
  Py_INCREF(first);
  PyObject *token = PyContextVar_Set(eager.variable, eager.nothing);
  PyObject *found = token ? PyObject_Call(function, host, named) : NULL, *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (token && PyContextVar_Reset(eager.variable, token)) Py_CLEAR(found);
  Py_XDECREF(token);
  if (type) PyErr_Restore(type, value, trace);
  PyObject *items = found && made != Py_None ? PySequence_Tuple(found) : Py_XNewRef(found);
  if (items) out = back_of(items, first, cls);
  if (out && made != Py_None && made != (PyObject *)&PyTuple_Type) {
    PyObject *several = made == (PyObject *)&PyList_Type ? PySequence_List(out) : PyObject_CallObject(made, out);
    Py_DECREF(out);
    out = several;
  }
  Py_XDECREF(items);
  Py_XDECREF(found);
  Py_DECREF(first);
  Py_DECREF(host);
  Py_XDECREF(named);
  return out;
}

/* function_call(dict from keys to entries, arguments, arguments by name): the result, or None. An entry is a tuple: a
 * function; places (call_operator), or None for a function of NumPy arrays (call_numpys); made (call_numpys); the class
 * of resulting arrays. Python keeps other things than tuples in the dict too: calls of these are not done here. */
static PyObject *function_call(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  Kind k;
  PyObject *key = count == 3 && eager.scope && PyDict_CheckExact(args[0]) && PyDict_GET_SIZE(args[0])
      ? kind_of_call(&k, args[1], args[2]) : NULL, *out = NULL;
  PyObject *entry = key ? PyDict_GetItemWithError(args[0], key) : NULL;
  Py_XDECREF(key);
  if (!entry || !PyTuple_CheckExact(entry) || PyTuple_GET_SIZE(entry) != ENTRY) return no();
  Py_INCREF(entry);
  PyObject *function = PyTuple_GET_ITEM(entry, 0), *places = PyTuple_GET_ITEM(entry, 1),
      *made = PyTuple_GET_ITEM(entry, 2), *cls = PyTuple_GET_ITEM(entry, 3);
  out = places == Py_None ? call_numpys(function, made, args[1], args[2], cls)
      : call_operator(function, places, &k, cls);
  Py_DECREF(entry);
  if (!out && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;      /* an interrupt */
  return out ? out : no();
}
