/* The shortest way from Python into a compiled program: an object that is called with NDArrays, checks that they are what
 * the program was compiled for, allocates the results, calls the program without the GIL and wraps the results: one array, a tuple or a list.
 *
 * Whenever anything is not as it was when the launcher was made (argument class, device, shape, dtype, layout, scopes,
 * counters), it returns None and the caller takes the careful way. Built once for each Python and NumPy, cached on disk.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <structmember.h>
#include <numpy/arrayobject.h>
#include <stdlib.h>

typedef void (*Net)(void **);
typedef struct { int slot, ndim; npy_intp dims[32]; PyArray_Descr *descr; } Spec;
enum { MAX_COUNTERS = 4, MAX_ARENAS = 16, MAX_OUTPUTS = 64 };
enum { ONE, TUPLE, LIST };                     /* what the results come in */

typedef struct {
  PyObject_HEAD
  vectorcallfunc call;
  Net net;
  PyTypeObject *cls;                           /* NDArray, or a class of the same layout */
  PyObject *ctx, *scope, *keep, *allocate;     /* keep: everything whose memory the table points to; allocate: a tuple of what makes each result, or None */
  Py_ssize_t at_data, at_ctx, at_ag, at_version;
  int inputs, outputs, kind, slots, arena_slot, training, counters, arenas;
  size_t arena_bytes;
  Spec *input, *output;
  void **table;                                /* fixed pointers; the others are filled in at each call */
  void *arena[MAX_ARENAS];                     /* free ones: one call holds one */
  PyObject *counter[MAX_COUNTERS], *seen[MAX_COUNTERS];
} Launcher;

static PyObject *str_dict, *str_recording, *str_training, *str_traces, *zero;

#define AT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

static int counters_hold(const Launcher *self) {
  for (int i = 0; i < self->counters; i++) {
    PyObject *list = self->counter[i], *now = PyList_GET_SIZE(list) ? PyList_GET_ITEM(list, 0) : NULL;
    if (now != self->seen[i] && (!now || PyObject_RichCompareBool(now, self->seen[i], Py_EQ) != 1)) return 0;
  }
  return 1;
}

/* The thread's own attributes of the scope (borrowed): looked up once while the same thread calls. A thread's number is never given again. */
static PyObject *flags_of(PyObject *scope) {
  static struct { uint64_t thread; PyObject *scope, *flags; } last;
  uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
  if (last.flags && last.thread == thread && last.scope == scope) return last.flags;
  PyObject *flags = PyObject_GetAttr(scope, str_dict), *old = last.flags;
  if (!flags) return NULL;
  last.thread = thread, last.scope = scope, last.flags = flags;
  Py_XDECREF(old);
  return flags;
}

/* Thread-local flags: 1 when they are as at compile time, 0 when not, -1 with an error. */
static int scope_holds(const Launcher *self) {
  PyObject *d = flags_of(self->scope);
  if (!d) return -1;
  PyObject *recording = PyDict_GetItemWithError(d, str_recording), *training = PyDict_GetItemWithError(d, str_training);
  PyObject *traces = PyDict_GetItemWithError(d, str_traces);
  return recording == Py_False && training == (self->training ? Py_True : Py_False) && traces && PyList_CheckExact(traces) && PyList_GET_SIZE(traces) == 0;
}

/* The array of an argument, or NULL when the program was not compiled for it. */
static PyArrayObject *array_of(const Launcher *self, const Spec *spec, PyObject *a) {
  if (Py_TYPE(a) != self->cls) return NULL;
  PyObject *ctx = AT(a, self->at_ctx), *raw = AT(a, self->at_data);
  if (!ctx || !raw || !PyArray_CheckExact(raw)) return NULL;
  if (ctx != self->ctx && PyObject_RichCompareBool(ctx, self->ctx, Py_EQ) != 1) return NULL;
  PyArrayObject *x = (PyArrayObject *)raw;
  if (PyArray_NDIM(x) != spec->ndim || (PyArray_DESCR(x) != spec->descr && !PyArray_EquivTypes(PyArray_DESCR(x), spec->descr))) return NULL;
  if (!PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISALIGNED(x)) return NULL;
  const npy_intp *dims = PyArray_DIMS(x);
  for (int i = 0; i < spec->ndim; i++) if (dims[i] != spec->dims[i]) return NULL;
  return x;
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

/* Arrays for the results; making them may run other threads. */
static int allocate(const Launcher *self, PyObject **raw) {
  for (int i = 0; i < self->outputs; i++) {
    const Spec *spec = &self->output[i];
    PyObject *make = PyTuple_GET_ITEM(self->allocate, i);
    if (make != Py_None) raw[i] = PyObject_CallNoArgs(make);
    else Py_INCREF(spec->descr), raw[i] = PyArray_NewFromDescr(&PyArray_Type, spec->descr, spec->ndim, spec->dims, NULL, NULL, 0, NULL);
    if (!raw[i]) { drop(raw, i); return 0; }
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

static PyObject *launch(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
  Launcher *self = (Launcher *)object;
  if (names || PyVectorcall_NARGS(nargsf) != self->inputs || !counters_hold(self) || scope_holds(self) != 1) return no();
  PyObject *raw[MAX_OUTPUTS];
  Py_INCREF(self);                             /* another thread may drop this launcher from here on */
  if (!allocate(self, raw)) { Py_DECREF(self); return NULL; }
  void *table[self->slots];
  PyArrayObject *given[self->inputs + 1];
  memcpy(table, self->table, sizeof table);
  for (int i = 0; i < self->inputs; i++) {
    if (!(given[i] = array_of(self, &self->input[i], args[i]))) { drop(raw, self->outputs); Py_DECREF(self); return no(); }
    table[self->input[i].slot] = PyArray_DATA(given[i]);
  }
  for (int i = 0; i < self->outputs; i++) table[self->output[i].slot] = PyArray_DATA((PyArrayObject *)raw[i]);
  void *arena = self->arenas ? self->arena[--self->arenas] : aligned_alloc(64, self->arena_bytes);
  if (!arena) { drop(raw, self->outputs); Py_DECREF(self); return PyErr_NoMemory(); }
  table[self->arena_slot] = arena;
  PyObject *keep = Py_NewRef(self->keep);      /* or an argument's array */
  for (int i = 0; i < self->inputs; i++) Py_INCREF(given[i]);
  Py_BEGIN_ALLOW_THREADS
  self->net(table);
  Py_END_ALLOW_THREADS
  if (self->arenas < MAX_ARENAS) self->arena[self->arenas++] = arena; else free(arena);
  for (int i = 0; i < self->inputs; i++) Py_DECREF(given[i]);
  Py_DECREF(keep);
  PyObject *out = wrapped(self, raw);
  Py_DECREF(self);
  return out;
}

/* ---- making one */
static Py_ssize_t offset_of(PyTypeObject *cls, const char *name) {
  PyObject *d = PyObject_GetAttrString((PyObject *)cls, name);
  if (!d) return -1;
  Py_ssize_t at = Py_IS_TYPE(d, &PyMemberDescr_Type) ? ((PyMemberDescrObject *)d)->d_member->offset : -1;
  Py_DECREF(d);
  if (at < 0) PyErr_Format(PyExc_TypeError, "%s.%s is not a slot", cls->tp_name, name);
  return at;
}

static int read_spec(PyObject *tuple, Spec *spec) {
  PyObject *shape;
  if (!PyArg_ParseTuple(tuple, "iO!O&", &spec->slot, &PyTuple_Type, &shape, PyArray_DescrConverter, &spec->descr)) return -1;
  spec->ndim = (int)PyTuple_GET_SIZE(shape);
  if (spec->ndim > 32) { PyErr_SetString(PyExc_ValueError, "more than 32 axes"); return -1; }
  for (int i = 0; i < spec->ndim; i++) spec->dims[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
  return PyErr_Occurred() ? -1 : 0;
}

static int fill(Launcher *self, PyObject *inputs, PyObject *outputs, PyObject *fixed, PyObject *counters) {
  self->inputs = (int)PyTuple_GET_SIZE(inputs), self->outputs = (int)PyTuple_GET_SIZE(outputs);
  if (self->outputs > MAX_OUTPUTS || self->outputs != PyTuple_GET_SIZE(self->allocate) || (self->kind == ONE && self->outputs != 1)) {
    PyErr_SetString(PyExc_ValueError, "another number of results"); return -1;
  }
  self->input = PyMem_Calloc(self->inputs + 1, sizeof(Spec));
  self->output = PyMem_Calloc(self->outputs + 1, sizeof(Spec));
  self->table = PyMem_Calloc(self->slots, sizeof(void *));
  if (!self->input || !self->output || !self->table) { PyErr_NoMemory(); return -1; }
  for (int i = 0; i < self->inputs; i++) if (read_spec(PyTuple_GET_ITEM(inputs, i), &self->input[i])) return -1;
  for (int i = 0; i < self->outputs; i++) if (read_spec(PyTuple_GET_ITEM(outputs, i), &self->output[i])) return -1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fixed); i++) {
    int slot;
    PyObject *a;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(fixed, i), "iO!", &slot, &PyArray_Type, &a)) return -1;
    self->table[slot] = PyArray_DATA((PyArrayObject *)a);
  }
  self->keep = Py_NewRef(fixed);
  if (PyTuple_GET_SIZE(counters) > MAX_COUNTERS) { PyErr_SetString(PyExc_ValueError, "too many counters"); return -1; }
  for (; self->counters < PyTuple_GET_SIZE(counters); self->counters++) {
    PyObject *list = PyTuple_GET_ITEM(counters, self->counters);
    if (!PyList_CheckExact(list) || !PyList_GET_SIZE(list)) { PyErr_SetString(PyExc_TypeError, "a counter is a list of one number"); return -1; }
    self->counter[self->counters] = Py_NewRef(list);
    self->seen[self->counters] = Py_NewRef(PyList_GET_ITEM(list, 0));
  }
  return 0;
}

/* Launcher(cls, address of net, slots, arena slot, arena bytes, inputs, outputs, fixed, ctx, scope, training, counters, allocate, kind) */
static PyObject *launcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *cls, *inputs, *outputs, *fixed, *ctx, *scope, *counters, *allocate;
  unsigned long long net;
  Py_ssize_t bytes;
  int slots, arena_slot, training, kind;
  if (!PyArg_ParseTuple(args, "O!KiinO!O!O!OOpO!O!i", &PyType_Type, &cls, &net, &slots, &arena_slot, &bytes, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs,
                        &PyTuple_Type, &fixed, &ctx, &scope, &training, &PyTuple_Type, &counters, &PyTuple_Type, &allocate, &kind)) return NULL;
  Launcher *self = (Launcher *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->call = launch;
  self->net = (Net)(uintptr_t)net;
  self->slots = slots, self->arena_slot = arena_slot, self->training = training, self->kind = kind;
  self->arena_bytes = ((size_t)bytes + 64) / 64 * 64;
  self->cls = (PyTypeObject *)Py_NewRef(cls);
  self->allocate = Py_NewRef(allocate);
  self->ctx = Py_NewRef(ctx), self->scope = Py_NewRef(scope);
  self->at_data = offset_of(self->cls, "_data"), self->at_ctx = offset_of(self->cls, "_ctx");
  self->at_ag = offset_of(self->cls, "_ag"), self->at_version = offset_of(self->cls, "_version");
  if (PyErr_Occurred() || fill(self, inputs, outputs, fixed, counters)) { Py_DECREF(self); return NULL; }
  return (PyObject *)self;
}

static void launcher_dealloc(PyObject *object) {
  Launcher *self = (Launcher *)object;
  while (self->arenas) free(self->arena[--self->arenas]);
  for (int i = 0; i < self->counters; i++) { Py_DECREF(self->counter[i]); Py_DECREF(self->seen[i]); }
  for (int i = 0; self->input && i < self->inputs; i++) Py_XDECREF(self->input[i].descr);
  for (int i = 0; self->output && i < self->outputs; i++) Py_XDECREF(self->output[i].descr);
  PyMem_Free(self->input);
  PyMem_Free(self->output);
  PyMem_Free(self->table);
  Py_XDECREF(self->cls); Py_XDECREF(self->ctx); Py_XDECREF(self->scope); Py_XDECREF(self->keep); Py_XDECREF(self->allocate);
  Py_TYPE(object)->tp_free(object);
}

static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, call), READONLY}, {0}};
static PyTypeObject LauncherType = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "hybrid_launcher.Launcher", .tp_basicsize = sizeof(Launcher), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
  .tp_new = launcher_new, .tp_dealloc = launcher_dealloc, .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(Launcher, call),
  .tp_members = members,
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "hybrid_launcher", .m_size = -1};

PyMODINIT_FUNC PyInit_hybrid_launcher(void) {
  import_array();
  if (PyType_Ready(&LauncherType)) return NULL;
  str_dict = PyUnicode_InternFromString("__dict__"), str_recording = PyUnicode_InternFromString("recording");
  str_training = PyUnicode_InternFromString("training"), str_traces = PyUnicode_InternFromString("traces");
  zero = PyLong_FromLong(0);
  PyObject *m = PyModule_Create(&module);
  if (m && PyModule_AddObject(m, "Launcher", Py_NewRef((PyObject *)&LauncherType))) { Py_DECREF(m); return NULL; }
  return m;
}
