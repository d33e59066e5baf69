/* What a launcher (launcher.c) is, whether everything is as it was when it was made, and its results. */
typedef void (*Net)(void **);
typedef struct { int slot, ndim; npy_intp dims[32]; PyArray_Descr *descr; PyObject *shape; size_t bytes; } Spec;
enum { MAX_COUNTERS = 4, MAX_OUTPUTS = 64 };
enum { ONE, TUPLE, LIST };                     /* what the results come in */

/* What belongs to a call of a training step beside its program (hybrid/jit/fast_step.py). */
typedef struct { PyObject *slot, *fresh, *lost; } Gradient;
typedef struct {
  PyObject *all;                               /* the tuple that it was read from: keeps every object here */
  /* counts the update and fills in its numbers; false: the slow path, and nothing was done */
  PyObject *prepare;
  PyObject *noted;                             /* called where more is to be done about what was written */
  /* as in hybrid/buffers/derived.py and hybrid/buffers/writes.py: [count], [time], [time of the last write, whether it
   * is listed, count] */
  PyObject *watched, *clock, *group;
  PyObject *updated;                           /* a tuple of the arrays that the program writes */
  Py_ssize_t at_fresh, at_lost;
  int stretches, gradients;
  uintptr_t *start, *stop;                     /* of the memory that it writes, in order */
  Gradient *gradient;
} Step;

/* Names that objects of Python are asked for, made once. */
#define NAMES(X) X(__dict__) X(recording) X(training) X(traces) X(symbolic) X(value) X(list) X(tuple) X(dict) \
    X(number) X(ptr) X(data) X(mem) X(shape) X(dtype) X(flags) \
  X(c_contiguous) X(acquire) X(release) X(track) X(round) X(broken) X(busy) X(np_array) X(plain)
#define DECLARE(name) static PyObject *str_##name;
NAMES(DECLARE)
static PyObject *zero;

#include "launcher_arenas.h"
#include "launcher_device.h"

typedef struct {
  PyObject_HEAD
  vectorcallfunc call;
  Net net;
  PyTypeObject *cls;                           /* NDArray, or a class of the same layout */
  /* keep: everything whose memory the table points to, and the program's library; allocate: a tuple of what makes each
   * result, or None */
  PyObject *ctx, *scope, *keep, *allocate;
  PyObject *places;                            /* a tuple of (where, name or None, value), see places_hold */
  /* of positional and keyword arguments, as hybrid/base/pytree.py describes it; NULL: arrays by position */
  PyObject *form;
  Py_ssize_t at_data, at_ctx, at_ag, at_version;
  int inputs, outputs, kind, slots, arena_slot, training, counters;
  size_t arena_bytes;
  Spec *input, *output;
  void **table;                                /* fixed pointers; the others are filled in at each call */
  Arenas *arenas;                              /* NULL on a GPU */
  PyObject *counter[MAX_COUNTERS], *seen[MAX_COUNTERS];
  Step *step;                                  /* or NULL */
  Device *device;                              /* or NULL: the CPU */
  /* or NULL; in the place of net: called with a list of the arrays, gives a list of the results */
  PyObject *function;
  int refuses;                                 /* every call */
  Py_ssize_t calls;                            /* that it took */
} Launcher;

#define AT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

static int counters_hold(const Launcher *self) {
  for (int i = 0; i < self->counters; i++) {
    PyObject *list = self->counter[i], *now = PyList_GET_SIZE(list) ? PyList_GET_ITEM(list, 0) : NULL;
    if (now != self->seen[i] && (!now || PyObject_RichCompareBool(now, self->seen[i], Py_EQ) != 1)) return 0;
  }
  return 1;
}

/* Whether a list holds the very objects of a tuple. */
static int list_holds(PyObject *list, PyObject *items) {
  Py_ssize_t n = PyTuple_GET_SIZE(items);
  if (PyList_GET_SIZE(list) != n) return 0;
  for (Py_ssize_t i = 0; i < n; i++) if (PyList_GET_ITEM(list, i) != PyTuple_GET_ITEM(items, i)) return 0;
  return 1;
}

/* Whether a dict holds the very keys and values of a tuple, by turns and in this order. */
static int dict_holds(PyObject *dict, PyObject *items) {
  PyObject *key, *value;
  Py_ssize_t at = 0, i = 0, n = PyTuple_GET_SIZE(items);
  if (2 * PyDict_GET_SIZE(dict) != n) return 0;
  for (; PyDict_Next(dict, &at, &key, &value); i += 2) {
    if (i == n || key != PyTuple_GET_ITEM(items, i) || value != PyTuple_GET_ITEM(items, i + 1)) return 0;
  }
  return i == n;
}

/* Whether something that has to be asked says that it is as it was. */
static int asked(PyObject *callable) {
  PyObject *answer = PyObject_CallNoArgs(callable);
  int holds = answer && PyObject_IsTrue(answer) == 1;
  Py_XDECREF(answer);
  return holds;
}

/* Whether an object has the very value as an attribute of its own, or in a slot that a descriptor reads. */
static int attribute_holds(PyObject *object, PyObject *name, PyObject *value) {
  PyObject *now = NULL;
  if (PyUnicode_Check(name)) {
    PyObject *dict = PyObject_GenericGetDict(object, NULL);
    if (dict) now = Py_XNewRef(PyDict_GetItemWithError(dict, name));
    Py_XDECREF(dict);
  } else if (Py_TYPE(name)->tp_descr_get) now = Py_TYPE(name)->tp_descr_get(name, object, (PyObject *)Py_TYPE(object));
  if (!now && PyErr_Occurred()) PyErr_Clear();
  int holds = (now ? now : Py_NotImplemented) == value;
  Py_XDECREF(now);
  return holds;
}

/* CPython's number of the state of a class, which changes with every assignment to it or to its bases; 0 while it has
 * none. */
static unsigned version_of(PyTypeObject *cls) {
#if PY_VERSION_HEX < 0x030D0000
  if (!PyType_HasFeature(cls, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
  return cls->tp_version_tag;
}

/* class_version(a class): that number, which it is given where it has none; 0 where there are none left. */
static PyObject *class_version(PyObject *module, PyObject *cls) {
  if (!PyType_Check(cls)) return PyErr_Format(PyExc_TypeError, "a class has a version, not %.100R", cls);
  _PyType_Lookup((PyTypeObject *)cls, str___dict__);
  return PyLong_FromUnsignedLong(version_of((PyTypeObject *)cls));
}

/* Whether what the compiled code read of Python's objects is as it was (hybrid/jit/free_variables.py): variables in
 * cells and modules, attributes, contents. */
static int places_hold(PyObject *places) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); i++) {
    PyObject *place = PyTuple_GET_ITEM(places, i), *where = PyTuple_GET_ITEM(place, 0),
        *name = PyTuple_GET_ITEM(place, 1);
    PyObject *value = PyTuple_GET_ITEM(place, 2), *now;
    if (PyCell_Check(where)) now = PyCell_GET(where);
    else if (name == Py_None) {
      if (PyType_Check(where) && PyLong_CheckExact(value)) {
        if (PyLong_AsUnsignedLong(value) != version_of((PyTypeObject *)where)) return 0;
      } else if (!(PyList_CheckExact(where) ? list_holds(where, value) : PyDict_CheckExact(where)
          ? dict_holds(where, value) : asked(where))) return 0;
      continue;
    }
    else if (PyDict_CheckExact(where)) now = PyDict_GetItemWithError(where, name);
    else if (PyFunction_Check(where) && PyCode_Check(value) && !PyUnicode_Check(name)) now = PyFunction_GET_CODE(where);
    else if (PyType_Check(where)) now = _PyType_Lookup((PyTypeObject *)where, name);
    else if (attribute_holds(where, name, value)) continue;
    else return 0;
    if ((now ? now : Py_NotImplemented) != value) return 0;
  }
  return 1;
}

/* The thread's own attributes of the scope (borrowed): looked up once while the same thread calls. A thread's number is
 * never given again. */
static PyObject *flags_of(PyObject *scope) {
  static struct { uint64_t thread; PyObject *scope, *flags; } known[2], *last;      /* of two scopes */
  uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
  last = !known[0].scope || known[0].scope == scope ? &known[0] : &known[1];
  if (last->flags && last->thread == thread && last->scope == scope) return last->flags;
  PyObject *flags = PyObject_GetAttr(scope, str___dict__), *old = last->flags;
  if (!flags) return NULL;
  last->thread = thread, last->scope = scope, last->flags = flags;
  Py_XDECREF(old);
  return flags;
}

/* Thread-local flags: 1 when they are as at compile time, 0 when not, -1 with an error. */
static int scope_holds(const Launcher *self) {
  PyObject *d = flags_of(self->scope);
  if (!d) return -1;
  PyObject *recording = PyDict_GetItemWithError(d, str_recording), *training = PyDict_GetItemWithError(d, str_training);
  PyObject *traces = PyDict_GetItemWithError(d, str_traces);
  return recording == Py_False && training == (self->training ? Py_True : Py_False) && traces
      && PyList_CheckExact(traces) && PyList_GET_SIZE(traces) == 0;
}

/* The array of an argument (borrowed) and its address, or NULL when the program was not compiled for it. */
static PyObject *array_of(const Launcher *self, const Spec *spec, PyObject *a, void **at) {
  if (Py_TYPE(a) != self->cls) return NULL;
  PyObject *ctx = AT(a, self->at_ctx), *raw = AT(a, self->at_data);
  if (!ctx || !raw) return NULL;
  if (ctx != self->ctx && PyObject_RichCompareBool(ctx, self->ctx, Py_EQ) != 1) return NULL;
  if (self->device) return fits_device(self->device, spec, raw, at) ? raw : NULL;
  PyArrayObject *x = (PyArrayObject *)raw;
  if (!PyArray_CheckExact(raw) || PyArray_NDIM(x) != spec->ndim
      || (PyArray_DESCR(x) != spec->descr && !PyArray_EquivTypes(PyArray_DESCR(x), spec->descr))) return NULL;
  if (!PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISALIGNED(x)) return NULL;
  const npy_intp *dims = PyArray_DIMS(x);
  for (int i = 0; i < spec->ndim; i++) if (dims[i] != spec->dims[i]) return NULL;
  *at = PyArray_DATA(x);
  return raw;
}

static PyObject *wrap(const Launcher *self, PyObject *raw) {
  PyObject *out = self->cls->tp_alloc(self->cls, 0);
  if (!out) { Py_DECREF(raw); return NULL; }
  AT(out, self->at_data) = raw;
  AT(out, self->at_ctx) = Py_NewRef(self->ctx);
  AT(out, self->at_ag) = Py_NewRef(Py_None);
  AT(out, self->at_version) = Py_NewRef(zero);
  return out;
}

static PyObject *no(void) { if (PyErr_Occurred()) PyErr_Clear(); Py_RETURN_NONE; }

static void drop(PyObject **raw, int n) { while (n--) Py_DECREF(raw[n]); }

/* Arrays for the results, their addresses into the table; making them may run other threads. */
static int allocate(const Launcher *self, PyObject **raw, void **table, void *stream) {
  for (int i = 0; i < self->outputs; i++) {
    const Spec *spec = &self->output[i];
    PyObject *make = PyTuple_GET_ITEM(self->allocate, i);
    if (self->device) raw[i] = result(self->device, i, make, spec, stream, &table[spec->slot]);
    else if (make != Py_None) raw[i] = PyObject_CallNoArgs(make);
    else Py_INCREF(spec->descr),
        raw[i] = PyArray_NewFromDescr(&PyArray_Type, spec->descr, spec->ndim, spec->dims, NULL, NULL, 0, NULL);
    if (!raw[i]) { drop(raw, i); return 0; }
    if (!self->device) table[spec->slot] = PyArray_DATA((PyArrayObject *)raw[i]);
  }
  return 1;
}

static PyObject *wrapped(const Launcher *self, PyObject **raw) {
  if (self->kind == ONE) return wrap(self, raw[0]);
  PyObject *out = self->kind == TUPLE ? PyTuple_New(self->outputs) : PyList_New(self->outputs);
  if (!out) { drop(raw, self->outputs); return NULL; }
  for (int i = 0; i < self->outputs; i++) {
    PyObject *x = wrap(self, raw[i]);
    if (!x) { drop(raw + i + 1, self->outputs - i - 1); Py_DECREF(out); return NULL; }
    if (self->kind == TUPLE) PyTuple_SET_ITEM(out, i, x); else PyList_SET_ITEM(out, i, x);
  }
  return out;
}

static Py_ssize_t offset_of(PyTypeObject *cls, const char *name) {
  PyObject *d = PyObject_GetAttrString((PyObject *)cls, name);
  if (!d) return -1;
  Py_ssize_t at = Py_IS_TYPE(d, &PyMemberDescr_Type) ? ((PyMemberDescrObject *)d)->d_member->offset : -1;
  Py_DECREF(d);
  if (at < 0) PyErr_Format(PyExc_TypeError, "%s.%s is not a slot", cls->tp_name, name);
  return at;
}
