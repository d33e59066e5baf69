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

/* What belongs to a call of a training step beside its program (hybrid/step_call.py). */
typedef struct { PyObject *slot, *fresh, *lost; } Gradient;
typedef struct {
  PyObject *all;                               /* the tuple that it was read from: keeps every object here */
  PyObject *prepare;                           /* counts the update and fills in its numbers; false: the careful way, and nothing was done */
  PyObject *noted;                             /* called where more is to be done about what was written */
  PyObject *tokens, *clock, *group;            /* as in hybrid/watch.py and hybrid/writes.py: [token, ...], [time], [time of the last write, whether it is listed] */
  PyObject *updated;                           /* a tuple of the arrays that the program writes */
  Py_ssize_t at_fresh, at_lost;
  int stretches, gradients;
  uintptr_t *start, *stop;                     /* of the memory that it writes, in order */
  Gradient *gradient;
} Step;

typedef struct {
  PyObject_HEAD
  vectorcallfunc call;
  Net net;
  PyTypeObject *cls;                           /* NDArray, or a class of the same layout */
  PyObject *ctx, *scope, *keep, *allocate;     /* keep: everything whose memory the table points to; allocate: a tuple of what makes each result, or None */
  PyObject *places;                            /* a tuple of (cell or dict, name or None, value) */
  Py_ssize_t at_data, at_ctx, at_ag, at_version;
  int inputs, outputs, kind, slots, arena_slot, training, counters, arenas;
  size_t arena_bytes;
  Spec *input, *output;
  void **table;                                /* fixed pointers; the others are filled in at each call */
  void *arena[MAX_ARENAS];                     /* free ones: one call holds one */
  PyObject *counter[MAX_COUNTERS], *seen[MAX_COUNTERS];
  Step *step;                                  /* or NULL */
  int refuses;                                 /* every call */
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

/* Whether the variables outside of the compiled function that it read are what they were: cells, or names in a module's dict (hybrid/surroundings.py). */
static int places_hold(const Launcher *self) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->places); i++) {
    PyObject *place = PyTuple_GET_ITEM(self->places, i), *where = PyTuple_GET_ITEM(place, 0), *name = PyTuple_GET_ITEM(place, 1);
    PyObject *now = PyCell_Check(where) ? PyCell_GET(where) : PyDict_GetItemWithError(where, name);
    if ((now ? now : Py_None) != PyTuple_GET_ITEM(place, 2)) return 0;
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

/* ---- training steps */
static void set(PyObject *object, Py_ssize_t at, PyObject *value) {
  PyObject *old = AT(object, at);
  AT(object, at) = Py_NewRef(value);
  Py_XDECREF(old);
}

/* Whether an array lies in memory that the program writes. */
static int overlaps(const Step *step, PyArrayObject *x) {
  uintptr_t first = (uintptr_t)PyArray_DATA(x), end = first + PyArray_NBYTES(x);
  int low = 0, high = step->stretches;         /* the last stretch that begins before the end */
  while (low < high) {
    int middle = (low + high) / 2;
    if (step->start[middle] < end) low = middle + 1; else high = middle;
  }
  return low && step->stop[low - 1] > first;
}

/* 1: the update is counted; 0: the careful way; -1: an error. */
static int prepared(const Step *step) {
  PyObject *answer = PyObject_CallNoArgs(step->prepare);
  int yes = answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  return yes;
}

static PyObject *one_more(PyObject *number) { return number ? PyLong_FromLongLong(PyLong_AsLongLong(number) + 1) : NULL; }

/* The arrays that the program updates were written, and the gradients it used are not there. 1, or -1 with an error. */
static int note(const Launcher *self, const Step *step) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(step->updated); i++) {
    PyObject *x = PyTuple_GET_ITEM(step->updated, i), *version = one_more(AT(x, self->at_version));
    if (!version) return -1;
    set(x, self->at_version, version);
    Py_DECREF(version);
  }
  PyObject *now = one_more(PyList_GetItem(step->clock, 0));
  if (!now || PyList_SetItem(step->clock, 0, Py_NewRef(now)) || PyList_SetItem(step->group, 0, now)) return -1;
  for (const Gradient *g = step->gradient; g < step->gradient + step->gradients; g++) {
    set(g->slot, step->at_fresh, g->fresh);
    set(g->slot, step->at_lost, g->lost);
  }
  if (!PyList_GET_SIZE(step->tokens) && PyList_GetItem(step->group, 1) == Py_True) return 1;
  PyObject *done = PyObject_CallNoArgs(step->noted);
  Py_XDECREF(done);
  return done ? 1 : -1;
}

static PyObject *launch(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
  Launcher *self = (Launcher *)object;
  if (names || self->refuses || PyVectorcall_NARGS(nargsf) != self->inputs || !counters_hold(self) || scope_holds(self) != 1 || !places_hold(self)) return no();
  PyObject *raw[MAX_OUTPUTS];
  Py_INCREF(self);                             /* another thread may drop this launcher from here on */
  if (!allocate(self, raw)) { Py_DECREF(self); return NULL; }
  void *table[self->slots];
  PyArrayObject *given[self->inputs + 1];
  memcpy(table, self->table, sizeof table);
  for (int i = 0; i < self->inputs; i++) {
    given[i] = array_of(self, &self->input[i], args[i]);
    if (!given[i] || (self->step && overlaps(self->step, given[i]))) { drop(raw, self->outputs); Py_DECREF(self); return no(); }
    table[self->input[i].slot] = PyArray_DATA(given[i]);
  }
  for (int i = 0; i < self->outputs; i++) table[self->output[i].slot] = PyArray_DATA((PyArrayObject *)raw[i]);
  void *arena = self->arenas ? self->arena[--self->arenas] : aligned_alloc(64, self->arena_bytes);
  if (!arena) { drop(raw, self->outputs); Py_DECREF(self); return PyErr_NoMemory(); }
  table[self->arena_slot] = arena;
  PyObject *keep = Py_NewRef(self->keep);      /* or an argument's array */
  for (int i = 0; i < self->inputs; i++) Py_INCREF(given[i]);
  int go = self->step ? prepared(self->step) : 1;
  if (go == 1) {
    Py_BEGIN_ALLOW_THREADS
    self->net(table);
    Py_END_ALLOW_THREADS
    if (self->step) go = note(self, self->step);
  }
  if (self->arenas < MAX_ARENAS) self->arena[self->arenas++] = arena; else free(arena);
  for (int i = 0; i < self->inputs; i++) Py_DECREF(given[i]);
  Py_DECREF(keep);
  PyObject *out = go == 1 ? wrapped(self, raw) : NULL;
  if (go != 1) drop(raw, self->outputs);
  Py_DECREF(self);
  return go ? out : no();
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

static int check_places(PyObject *places) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); i++) {
    PyObject *where, *name, *value;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(places, i), "OOO", &where, &name, &value)) return -1;
    if (!PyCell_Check(where) && !PyDict_Check(where)) { PyErr_SetString(PyExc_TypeError, "a variable is in a cell or in a dict"); return -1; }
  }
  return 0;
}

static uintptr_t *addresses(PyObject *list) {
  uintptr_t *out = PyMem_Calloc(PyList_GET_SIZE(list) + 1, sizeof *out);
  for (Py_ssize_t i = 0; out && i < PyList_GET_SIZE(list); i++) out[i] = PyLong_AsSize_t(PyList_GET_ITEM(list, i));
  return out;
}

static void drop_step(Step *step) {
  if (!step) return;
  Py_XDECREF(step->all);
  PyMem_Free(step->start);
  PyMem_Free(step->stop);
  PyMem_Free(step->gradient);
  PyMem_Free(step);
}

static int read_gradients(Step *step, PyObject *all) {
  step->gradient = PyMem_Calloc(PyTuple_GET_SIZE(all) + 1, sizeof(Gradient));
  if (!step->gradient) { PyErr_NoMemory(); return -1; }
  for (; step->gradients < PyTuple_GET_SIZE(all); step->gradients++) {
    Gradient *g = &step->gradient[step->gradients];
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(all, step->gradients), "OO!O!", &g->slot, &PyBool_Type, &g->fresh, &PyBool_Type, &g->lost)) return -1;
    step->at_fresh = offset_of(Py_TYPE(g->slot), "fresh"), step->at_lost = offset_of(Py_TYPE(g->slot), "lost");
    if (PyErr_Occurred()) return -1;
  }
  return 0;
}

/* A Step of (prepare, noted, tokens, clock, group, starts, stops, updated, gradients). */
static int read_step(Launcher *self, PyObject *all) {
  Step *step = self->step = PyMem_Calloc(1, sizeof(Step));
  PyObject *starts, *stops, *gradients;
  if (!step) { PyErr_NoMemory(); return -1; }
  step->all = Py_NewRef(all);
  if (!PyArg_ParseTuple(all, "OOO!O!O!O!O!O!O!", &step->prepare, &step->noted, &PyList_Type, &step->tokens, &PyList_Type, &step->clock, &PyList_Type, &step->group,
                        &PyList_Type, &starts, &PyList_Type, &stops, &PyTuple_Type, &step->updated, &PyTuple_Type, &gradients)) return -1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(step->updated); i++)
    if (Py_TYPE(PyTuple_GET_ITEM(step->updated, i)) != self->cls) { PyErr_SetString(PyExc_TypeError, "an updated array of another class"); return -1; }
  step->stretches = (int)PyList_GET_SIZE(starts);
  step->start = addresses(starts), step->stop = addresses(stops);
  if (PyErr_Occurred() || !step->start || !step->stop || PyList_GET_SIZE(stops) != step->stretches) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "stretches of memory have a start and a stop");
    return -1;
  }
  return read_gradients(step, gradients);
}

/* Launcher(cls, address of net, slots, arena slot, arena bytes, inputs, outputs, fixed, ctx, scope, training, counters, places, allocate, kind, step or None) */
static PyObject *launcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *cls, *inputs, *outputs, *fixed, *ctx, *scope, *counters, *places, *allocate, *step;
  unsigned long long net;
  Py_ssize_t bytes;
  int slots, arena_slot, training, kind;
  if (!PyArg_ParseTuple(args, "O!KiinO!O!O!OOpO!O!O!iO", &PyType_Type, &cls, &net, &slots, &arena_slot, &bytes, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs,
                        &PyTuple_Type, &fixed, &ctx, &scope, &training, &PyTuple_Type, &counters, &PyTuple_Type, &places, &PyTuple_Type, &allocate, &kind, &step)) return NULL;
  Launcher *self = (Launcher *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->call = launch;
  self->net = (Net)(uintptr_t)net;
  self->slots = slots, self->arena_slot = arena_slot, self->training = training, self->kind = kind;
  self->arena_bytes = ((size_t)bytes + 64) / 64 * 64;
  self->cls = (PyTypeObject *)Py_NewRef(cls);
  self->allocate = Py_NewRef(allocate), self->places = Py_NewRef(places);
  self->ctx = Py_NewRef(ctx), self->scope = Py_NewRef(scope);
  self->at_data = offset_of(self->cls, "_data"), self->at_ctx = offset_of(self->cls, "_ctx");
  self->at_ag = offset_of(self->cls, "_ag"), self->at_version = offset_of(self->cls, "_version");
  if (PyErr_Occurred() || check_places(places) || fill(self, inputs, outputs, fixed, counters) || (step != Py_None && read_step(self, step))) { Py_DECREF(self); return NULL; }
  return (PyObject *)self;
}

static int launcher_traverse(PyObject *object, visitproc visit, void *arg) {
  Launcher *self = (Launcher *)object;
  if (self->step) Py_VISIT(self->step->all);
  Py_VISIT(self->places);
  return 0;
}

/* Of a cycle of garbage (a step's Trainer may lead back to the step): nobody calls it again, and it takes no call. */
static int launcher_clear(PyObject *object) {
  Launcher *self = (Launcher *)object;
  Step *step = self->step;
  self->step = NULL, self->refuses = 1;
  drop_step(step);
  Py_CLEAR(self->places);
  return 0;
}

static void launcher_dealloc(PyObject *object) {
  Launcher *self = (Launcher *)object;
  PyObject_GC_UnTrack(object);
  while (self->arenas) free(self->arena[--self->arenas]);
  for (int i = 0; i < self->counters; i++) { Py_DECREF(self->counter[i]); Py_DECREF(self->seen[i]); }
  for (int i = 0; self->input && i < self->inputs; i++) Py_XDECREF(self->input[i].descr);
  for (int i = 0; self->output && i < self->outputs; i++) Py_XDECREF(self->output[i].descr);
  PyMem_Free(self->input);
  PyMem_Free(self->output);
  PyMem_Free(self->table);
  drop_step(self->step);
  Py_XDECREF(self->cls); Py_XDECREF(self->ctx); Py_XDECREF(self->scope); Py_XDECREF(self->keep); Py_XDECREF(self->allocate); Py_XDECREF(self->places);
  Py_TYPE(object)->tp_free(object);
}

static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, call), READONLY}, {0}};
static PyTypeObject LauncherType = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "hybrid_launcher.Launcher", .tp_basicsize = sizeof(Launcher), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
  .tp_new = launcher_new, .tp_dealloc = launcher_dealloc, .tp_traverse = launcher_traverse, .tp_clear = launcher_clear, .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(Launcher, call),
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
