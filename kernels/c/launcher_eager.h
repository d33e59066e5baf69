/* Eager calls of operators that were made before (hybrid/autograd/known_calls.py): from NDArrays to the NumPy function
 * that computes the call, and back.
 *
 * Whatever is not as it is in most calls (other classes, devices, layouts, scopes, several results, an error) gives
 * None, and the dispatcher does the call.
 */
static struct {
  PyObject *scope, *classes, *variable, *nothing; PyTypeObject *cls;
  Py_ssize_t at_data, at_ctx, at_ag, at_version;
} eager;
enum { MOST_INPUTS = 8, FUNCTION = 3, VISIBLE = 4 };          /* the last two: places in a Known */

#include "launcher_elementwise.h"
#include "launcher_strided.h"

/* eager_calls(scope, NDArray, list of the class with NumPy's semantics, NumPy's context variable, its value for no
 * warnings): what the others need. */
static PyObject *eager_setup(PyObject *module, PyObject *args) {
  PyObject *scope, *cls, *classes, *variable, *nothing;
  if (!PyArg_ParseTuple(args, "OO!O!OO", &scope, &PyType_Type, &cls, &PyList_Type, &classes, &variable, &nothing))
      return NULL;
  PyTypeObject *type = (PyTypeObject *)cls;
  eager.at_data = offset_of(type, "_data"), eager.at_ctx = offset_of(type, "_ctx"),
      eager.at_ag = offset_of(type, "_ag"), eager.at_version = offset_of(type, "_version");
  if (PyErr_Occurred()) return NULL;
  if (eager.scope) Py_RETURN_NONE;             /* once in a process */
  eager.scope = Py_NewRef(scope), eager.classes = Py_NewRef(classes);
  eager.variable = Py_NewRef(variable), eager.nothing = Py_NewRef(nothing), eager.cls = (PyTypeObject *)Py_NewRef(cls);
  Py_RETURN_NONE;
}

static int is_array_class(const PyTypeObject *type) {
  return type == eager.cls || (PyList_GET_SIZE(eager.classes) && (PyObject *)type == PyList_GET_ITEM(eager.classes, 0));
}

/* The training flag (borrowed) where operators are eager and nothing is recorded; NULL elsewhere. */
static PyObject *plainly_eager(void) {
  PyObject *d = flags_of(eager.scope);
  if (!d || PyDict_GetItemWithError(d, str_recording) != Py_False
      || PyDict_GetItemWithError(d, str_symbolic) != Py_False) return NULL;
  PyObject *traces = PyDict_GetItemWithError(d, str_traces);
  return traces && PyList_CheckExact(traces) && !PyList_GET_SIZE(traces) ? PyDict_GetItemWithError(d, str_training)
      : NULL;
}

/* The raw arrays of the inputs, one reference each: how many; -1 where one is no dense array on the CPU, or on another
 * device than the first. */
static int eager_inputs(PyObject *inputs, PyObject **raw) {
  PyObject *fast = PySequence_Fast(inputs, "inputs"), *ctx = NULL;
  if (!fast) return -1;
  int n = (int)PySequence_Fast_GET_SIZE(fast), i = 0;
  for (; n <= MOST_INPUTS && i < n; i++) {
    PyObject *x = PySequence_Fast_GET_ITEM(fast, i);
    if (!is_array_class(Py_TYPE(x))) break;
    PyObject *now = AT(x, eager.at_ctx), *data = AT(x, eager.at_data);
    if (!now || !data || !PyArray_CheckExact(data)
        || (ctx && now != ctx && PyObject_RichCompareBool(now, ctx, Py_EQ) != 1)) break;
    ctx = now, raw[i] = Py_NewRef(data);
  }
  if (i < n || !n) { drop(raw, i); i = -1; }
  Py_DECREF(fast);
  return i;
}

static PyObject *shape_of(PyArrayObject *x) {
  PyObject *out = PyTuple_New(PyArray_NDIM(x));
  for (int i = 0; out && i < PyArray_NDIM(x); i++) {
    PyObject *d = PyLong_FromSsize_t(PyArray_DIM(x, i));
    if (d) PyTuple_SET_ITEM(out, i, d); else Py_CLEAR(out);
  }
  return out;
}

/* Items of a tuple in the making; an item that could not be made (NULL) stays missing. */
static void append(PyObject *tuple, Py_ssize_t *at, PyObject *item) { PyTuple_SET_ITEM(tuple, (*at)++, item); }

/* What a call without attributes depends on, as key_of of known_calls.py says it. */
static PyObject *key_of_arrays(PyObject **raw, int n, PyObject *training) {
  PyObject *key = PyTuple_New(n == 1 ? 3 : n == 2 ? 5 : 1 + n);
  Py_ssize_t at = 0;
  if (!key) return NULL;
  if (n > 2) append(key, &at, Py_NewRef(training));
  for (int i = 0; i < n; i++) {
    PyArrayObject *x = (PyArrayObject *)raw[i];
    PyObject *shape = shape_of(x), *dtype = (PyObject *)PyArray_DESCR(x);
    if (n <= 2) { append(key, &at, shape); append(key, &at, Py_NewRef(dtype)); }
    else { append(key, &at, shape ? PyTuple_Pack(2, shape, dtype) : NULL); Py_XDECREF(shape); }
  }
  if (n <= 2) append(key, &at, Py_NewRef(training));
  return key;
}

/* What tells values apart that Python calls equal (told_apart of hybrid/ops/attributes.py). */
static PyObject *told_apart(PyObject *value) {
  if (PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) == 0)
      return PyFloat_FromDouble(copysign(1, PyFloat_AS_DOUBLE(value)));
  return Py_NewRef((PyObject *)Py_TYPE(value));
}

/* The key with the attributes in it; takes the reference to the key without. */
static PyObject *with_attributes(PyObject *key, PyObject *attrs) {
  Py_ssize_t n = PyDict_GET_SIZE(attrs), at = 0, i = 1;
  if (!n || !key) return key;
  PyObject *out = PyTuple_New(1 + 3 * n), *name, *value;
  if (!out) { Py_DECREF(key); return NULL; }
  PyTuple_SET_ITEM(out, 0, key);
  for (; PyDict_Next(attrs, &at, &name, &value); i++) {
    PyTuple_SET_ITEM(out, i, Py_NewRef(name));
    PyTuple_SET_ITEM(out, i + n, Py_NewRef(value));
    PyTuple_SET_ITEM(out, i + 2 * n, told_apart(value));
  }
  return out;
}

/* Whether every item is there: a missing one is an error that has been set. */
static int complete(PyObject *tuple) {
  if (!tuple) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) if (!PyTuple_GET_ITEM(tuple, i)) return 0;
  return 1;
}

/* The function that computes a call (a new reference); NULL where it is not known, has none or gives
 * several results. */
static PyObject *known_function(PyObject *known, PyObject **raw, int n, PyObject *training, PyObject *attrs) {
  PyObject *key = with_attributes(key_of_arrays(raw, n, training), attrs), *function = NULL;
  PyObject *entry = complete(key) ? PyDict_GetItemWithError(known, key) : NULL;
  if (entry && PyTuple_Check(entry) && PyTuple_GET_SIZE(entry) > VISIBLE && PyTuple_GET_ITEM(entry, FUNCTION) != Py_None
      && PyLong_AsLong(PyTuple_GET_ITEM(entry, VISIBLE)) == 1) function = Py_NewRef(PyTuple_GET_ITEM(entry, FUNCTION));
  Py_XDECREF(key);
  return function;
}

/* ---- calls that came lately, found without making keys of Python's objects */
enum { KEPT_CALLS = 512, KEPT_INPUTS = 3, KEPT_AXES = 5, KEPT_ATTRIBUTES = 4 };
typedef struct {
  PyObject *known, *training, *function;       /* known: NULL where there is nothing */
  int inputs, attributes, ndim[KEPT_INPUTS];
  PyArray_Descr *descr[KEPT_INPUTS];
  npy_intp dims[KEPT_INPUTS][KEPT_AXES];
  PyObject *name[KEPT_ATTRIBUTES], *value[KEPT_ATTRIBUTES];
} KeptCall;
static KeptCall kept_calls[KEPT_CALLS];

/* Whether comparing and hashing a value runs nobody's code. */
static int is_plain_value(PyObject *v) {
  if (v == Py_None || PyBool_Check(v) || PyLong_CheckExact(v) || PyFloat_CheckExact(v) || PyUnicode_CheckExact(v))
      return 1;
  if (!PyTuple_CheckExact(v)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(v); i++)
      if (!PyLong_CheckExact(PyTuple_GET_ITEM(v, i)) && PyTuple_GET_ITEM(v, i) != Py_None) return 0;
  return 1;
}

/* Where a call is kept; NULL for one that is not. */
static KeptCall *place_of_call(PyObject *known, PyObject **raw, int n, PyObject *attrs) {
  Py_uhash_t h = (Py_uhash_t)(uintptr_t)known >> 4;
  PyObject *name, *value;
  Py_ssize_t at = 0;
  if (n > KEPT_INPUTS || PyDict_GET_SIZE(attrs) > KEPT_ATTRIBUTES) return NULL;
  for (int i = 0; i < n; i++) {
    PyArrayObject *x = (PyArrayObject *)raw[i];
    if (PyArray_NDIM(x) > KEPT_AXES) return NULL;
    h = h * 1000003 ^ (Py_uhash_t)(uintptr_t)PyArray_DESCR(x) >> 4;
    for (int k = 0; k < PyArray_NDIM(x); k++) h = h * 1000003 ^ (Py_uhash_t)PyArray_DIM(x, k);
  }
  while (PyDict_Next(attrs, &at, &name, &value)) {
    if (!is_plain_value(value)) return NULL;
    h = h * 1000003 ^ (Py_uhash_t)PyObject_Hash(value);
  }
  return &kept_calls[(h ^ h >> 17) % KEPT_CALLS];
}

static int same_value(PyObject *a, PyObject *b) {
  if (a == b) return 1;
  if (Py_TYPE(a) != Py_TYPE(b)) return 0;
  if (PyFloat_CheckExact(a)) return PyFloat_AS_DOUBLE(a) == PyFloat_AS_DOUBLE(b)
      && signbit(PyFloat_AS_DOUBLE(a)) == signbit(PyFloat_AS_DOUBLE(b));
  int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) PyErr_Clear();
  return same == 1;
}

static int is_kept(const KeptCall *c, PyObject *known, PyObject **raw, int n, PyObject *training, PyObject *attrs) {
  PyObject *name, *value;
  Py_ssize_t at = 0;
  if (c->known != known || c->training != training || c->inputs != n || c->attributes != PyDict_GET_SIZE(attrs))
      return 0;
  for (int i = 0; i < n; i++) {
    PyArrayObject *x = (PyArrayObject *)raw[i];
    if (c->descr[i] != PyArray_DESCR(x) || c->ndim[i] != PyArray_NDIM(x)
        || memcmp(c->dims[i], PyArray_DIMS(x), sizeof(npy_intp) * c->ndim[i])) return 0;
  }
  for (int i = 0; PyDict_Next(attrs, &at, &name, &value); i++)
      if (c->name[i] != name || !same_value(c->value[i], value)) return 0;
  return 1;
}

static void keep_call(KeptCall *c, PyObject *known, PyObject **raw, int n, PyObject *training, PyObject *attrs,
    PyObject *function) {
  KeptCall old = *c, made = {.known = Py_NewRef(known), .training = Py_NewRef(training),
      .function = Py_NewRef(function), .inputs = n, .attributes = (int)PyDict_GET_SIZE(attrs)};
  PyObject *name, *value;
  Py_ssize_t at = 0;
  for (int i = 0; i < n; i++) {
    PyArrayObject *x = (PyArrayObject *)raw[i];
    made.descr[i] = (PyArray_Descr *)Py_NewRef((PyObject *)PyArray_DESCR(x)), made.ndim[i] = PyArray_NDIM(x);
    memcpy(made.dims[i], PyArray_DIMS(x), sizeof(npy_intp) * made.ndim[i]);
  }
  for (int i = 0; PyDict_Next(attrs, &at, &name, &value); i++) made.name[i] = Py_NewRef(name),
      made.value[i] = Py_NewRef(value);
  *c = made;
  if (!old.known) return;
  for (int i = 0; i < old.inputs; i++) Py_DECREF((PyObject *)old.descr[i]);
  for (int i = 0; i < old.attributes; i++) { Py_DECREF(old.name[i]); Py_DECREF(old.value[i]); }
  Py_DECREF(old.known); Py_DECREF(old.training); Py_DECREF(old.function);
}

/* The function of a call (a new reference), from those that are kept if it came lately; NULL as known_function. */
static PyObject *function_of_call(PyObject *known, PyObject **raw, int n, PyObject *training, PyObject *attrs) {
  KeptCall *c = place_of_call(known, raw, n, attrs);
  if (c && c->known && is_kept(c, known, raw, n, training, attrs)) return Py_NewRef(c->function);
  PyObject *function = known_function(known, raw, n, training, attrs);
  if (function && c) keep_call(c, known, raw, n, training, attrs, function);
  return function;
}

/* A function of raw arrays called while NumPy warns of nothing. */
static PyObject *called_quietly(PyObject *function, PyObject **raw, int n) {
  /* asks nobody whether to warn */
  if (Py_TYPE(function) == &ElementwiseType) return elementwise_call(function, raw, n, NULL);
  if (Py_TYPE(function) == &StridedType) return strided_call(function, raw, n, NULL);
  PyObject *token = PyContextVar_Set(eager.variable, eager.nothing);
  if (!token) return NULL;
  PyObject *out = PyObject_Vectorcall(function, raw, n, NULL), *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (PyContextVar_Reset(eager.variable, token)) Py_CLEAR(out);
  Py_DECREF(token);
  if (type) PyErr_Restore(type, value, trace);
  return out;
}

/* A result as an NDArray, which takes its reference; NULL for what is no NumPy array in C order. */
static PyObject *eager_result(PyObject *raw, PyObject *first, PyObject *cls) {
  if (!PyArray_CheckExact(raw) || !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)raw)) { Py_DECREF(raw); return NULL; }
  PyTypeObject *type = PyType_Check(cls) ? (PyTypeObject *)cls : Py_TYPE(first);
  PyObject *out = is_array_class(type) ? type->tp_alloc(type, 0) : NULL;
  if (!out) { Py_DECREF(raw); return NULL; }
  AT(out, eager.at_data) = raw, AT(out, eager.at_ctx) = Py_NewRef(AT(first, eager.at_ctx));
  AT(out, eager.at_ag) = Py_NewRef(Py_None), AT(out, eager.at_version) = Py_NewRef(zero);
  return out;
}

/* known_call(the calls that are known of an operator, inputs, attributes, class of the result or None): the result, or
 * None. */
static PyObject *known_call(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  if (count != 4 || !eager.scope || !PyDict_CheckExact(args[0]) || !PyDict_CheckExact(args[2])
      || !(PyTuple_CheckExact(args[1]) || PyList_CheckExact(args[1]))) return no();
  PyObject *training = plainly_eager(), *raw[MOST_INPUTS], *out = NULL;
  int n = training ? eager_inputs(args[1], raw) : -1;
  if (n < 0) return no();
  PyObject *function = function_of_call(args[0], raw, n, training, args[2]);
  if (function) {
    PyObject *first = Py_NewRef(PySequence_Fast_GET_ITEM(args[1], 0)), *result = called_quietly(function, raw, n);
    if (result) out = eager_result(result, first, args[3]);
    Py_DECREF(first);
    Py_DECREF(function);
  }
  drop(raw, n);
  if (!out && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;      /* an interrupt */
  return out ? out : no();
}

#include "launcher_numpy.h"
#include "launcher_functions.h"
#include "launcher_items.h"
#include "launcher_random.h"

static PyMethodDef eager_methods[] = {{"eager_calls", eager_setup, METH_VARARGS, NULL},
  {"known_call", (PyCFunction)(void (*)(void))known_call, METH_FASTCALL, NULL},
  {"class_version", class_version, METH_O, NULL}, {"numpys_types", numpys_setup, METH_O, NULL},
  {"numpys_call", (PyCFunction)(void (*)(void))numpys_call, METH_FASTCALL, NULL},
  {"functions_setup", functions_setup, METH_VARARGS, NULL},
  {"function_key", (PyCFunction)(void (*)(void))function_key, METH_FASTCALL, NULL},
  {"function_call", (PyCFunction)(void (*)(void))function_call, METH_FASTCALL, NULL},
  {"array_item", (PyCFunction)(void (*)(void))array_item, METH_FASTCALL, NULL},
  {"put_item", (PyCFunction)(void (*)(void))put_item, METH_FASTCALL, NULL},
  {"known_into", (PyCFunction)(void (*)(void))known_into, METH_FASTCALL, NULL},
  {"random_bits", random_bits, METH_VARARGS, NULL}, {NULL}};
