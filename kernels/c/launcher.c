/* The fast path from Python into a compiled program: an object that is called with NDArrays, checks that they are what
 * the program was compiled for, allocates the results, calls the program without the GIL and wraps the results: one
 * array, a tuple or a list.
 *
 * Whenever anything is not as it was when the launcher was made (argument class, device, shape, dtype, layout, scopes,
 * counters), it returns None and the caller takes the slow path. Built once for each Python and NumPy, cached on disk.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <structmember.h>
#include <numpy/arrayobject.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#ifdef _WIN32
#define aligned_alloc(to, bytes) _aligned_malloc(bytes, to)
#define free _aligned_free
#endif

/* Compiled in HY_UNITS units (hybrid/runtime/shared_objects.py), or else as one. */
#ifndef HY_UNIT
#define HY_UNIT 0
#define HY_UNITS 1
#endif
#define HY_HAS(n) ((n) % HY_UNITS == HY_UNIT)
#if HY_UNITS > 1
#define HY_OF_ALL __attribute__((visibility("hidden")))
#else
#define HY_OF_ALL static
#endif
#include "launcher_loops.h"

#if HY_UNIT == HY_UNITS - 1
#include "launcher_checks.h"
#include "launcher_step.h"
#include "launcher_arguments.h"
#include "launcher_eager.h"

/* The program on a table that has all but the arena, and what belongs to a step: 1; 0: the slow path; -1: an error. */
static int run(Launcher *self, void **table, void *stream) {
  if (self->device) {
    int go = self->step ? prepared(self->step) : 1;
    if (go == 1 && run_device(self->device, table, self->arena_slot, stream)) go = -1;
    return go == 1 && self->step ? note(self, self->step) : go;
  }
  size_t bytes = self->arena_bytes;
  void *arena = take_arena(self->arenas, &bytes);
  if (!arena) { PyErr_NoMemory(); return -1; }
  table[self->arena_slot] = arena;
  int go = self->step ? prepared(self->step) : 1;
  if (go == 1) {
    Py_BEGIN_ALLOW_THREADS
    self->net(table);
    Py_END_ALLOW_THREADS
    if (self->step) go = note(self, self->step);
  }
  give_arena(self->arenas, arena, bytes);
  return go;
}

/* The results of a function of Python that does the program's work: 1; -1: an error. */
static int called(const Launcher *self, PyObject **given, int n, PyObject **raw) {
  PyObject *function = Py_NewRef(self->function), *arrays = PyList_New(n), *results = NULL;
  for (int i = 0; arrays && i < n; i++) PyList_SET_ITEM(arrays, i, Py_NewRef(given[i]));
  if (arrays) results = PyObject_CallOneArg(function, arrays);
  Py_DECREF(function);
  Py_XDECREF(arrays);
  int fits = results && PyList_CheckExact(results) && PyList_GET_SIZE(results) == self->outputs;
  for (int i = 0; fits && i < self->outputs; i++) raw[i] = Py_NewRef(PyList_GET_ITEM(results, i));
  if (results && !fits) PyErr_SetString(PyExc_TypeError, "a program's results are a list");
  Py_XDECREF(results);
  return fits ? 1 : -1;
}

static PyObject *launch(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
  Launcher *self = (Launcher *)object;
  if (self->refuses || !counters_hold(self) || scope_holds(self) != 1) return no();
  PyObject *raw[MAX_OUTPUTS], *given[self->inputs + 1], *out = NULL;
  void *table[self->slots];
  Number number[self->inputs + 1];
  Taken taken = {self, table, given, number, 0, 0};
  Py_INCREF(self);                             /* another thread may drop this launcher from here on, */
  PyObject *keep = Py_NewRef(self->keep);      /* or an argument's array */
  memcpy(table, self->table, sizeof table);
  void *stream = NULL;
  int go = places_hold(self->places) && take_all(&taken, args, PyVectorcall_NARGS(nargsf), names)
      && (!self->device || stream_now(self->device, &stream));
  if (go == 1 && self->function) {
    go = called(self, given, taken.n, raw);
    self->calls += go == 1;
    if (go == 1) out = wrapped(self, raw);
  }
  else if (go == 1 && !allocate(self, raw, table, stream)) go = -1;
  else if (go == 1) {
    go = run(self, table, stream);
    self->calls += go == 1;
    if (go == 1) out = wrapped(self, raw); else drop(raw, self->outputs);
  }
  drop(given, taken.n);
  Py_DECREF(keep);
  Py_DECREF(self);
  return go ? out : no();
}

/* ---- making one */
static int read_spec(PyObject *tuple, Spec *spec) {
  PyObject *shape;
  if (!PyArg_ParseTuple(tuple, "iO!O&", &spec->slot, &PyTuple_Type, &shape, PyArray_DescrConverter, &spec->descr))
      return -1;
  spec->ndim = (int)PyTuple_GET_SIZE(shape);
  if (spec->ndim > 32) { PyErr_SetString(PyExc_ValueError, "more than 32 axes"); return -1; }
  PyObject *itemsize = PyObject_GetAttrString((PyObject *)spec->descr, "itemsize");
  spec->shape = Py_NewRef(shape), spec->bytes = itemsize ? PyLong_AsSize_t(itemsize) : 0;
  Py_XDECREF(itemsize);
  for (int i = 0; i < spec->ndim; i++) spec->bytes *= spec->dims[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
  return PyErr_Occurred() ? -1 : 0;
}

static int fill(Launcher *self, PyObject *inputs, PyObject *outputs, PyObject *fixed, PyObject *counters) {
  self->inputs = (int)PyTuple_GET_SIZE(inputs), self->outputs = (int)PyTuple_GET_SIZE(outputs);
  if (self->outputs > MAX_OUTPUTS || self->outputs != PyTuple_GET_SIZE(self->allocate)
      || (self->kind == ONE && self->outputs != 1)) {
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
  if (PyTuple_GET_SIZE(counters) > MAX_COUNTERS) { PyErr_SetString(PyExc_ValueError, "too many counters"); return -1; }
  for (; self->counters < PyTuple_GET_SIZE(counters); self->counters++) {
    PyObject *list = PyTuple_GET_ITEM(counters, self->counters);
    if (!PyList_CheckExact(list) || !PyList_GET_SIZE(list)) {
      PyErr_SetString(PyExc_TypeError, "a counter is a list of one number"); return -1;
    }
    self->counter[self->counters] = Py_NewRef(list);
    self->seen[self->counters] = Py_NewRef(PyList_GET_ITEM(list, 0));
  }
  return 0;
}

static int check_places(PyObject *places) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); i++) {
    PyObject *where, *name, *value;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(places, i), "OOO", &where, &name, &value)) return -1;
    if (name == Py_None && !PyCell_Check(where) && (PyList_CheckExact(where) || PyDict_CheckExact(where))
        && !PyTuple_Check(value)) {
      PyErr_SetString(PyExc_TypeError, "the contents of a list or dict are given as a tuple"); return -1;
    }
  }
  return 0;
}

static PyTypeObject LauncherType;
#include "launcher_rounds.h"
#include "launcher_operators.h"
#include "launcher_track.h"
#include "launcher_ways.h"

/* Launcher(cls, address of net, slots, arena slot, arena bytes, inputs, outputs, fixed, ctx, scope, training, counters,
 * places, form or None, allocate, kind, step or None,
 * library of net: what is mapped while a call runs, for a GPU what launcher_device.h reads, or None, a function of
 * Python: with either the address of net is 0) */
static PyObject *launcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *cls, *inputs, *outputs, *fixed, *ctx, *scope, *counters, *places, *form, *allocate, *step, *library,
      *device = Py_None, *function = NULL;
  unsigned long long net;
  Py_ssize_t bytes;
  int slots, arena_slot, training, kind;
  if (!PyArg_ParseTuple(args, "O!KiinO!O!O!OOpO!O!OO!iOO|OO", &PyType_Type, &cls, &net, &slots, &arena_slot, &bytes,
      &PyTuple_Type, &inputs, &PyTuple_Type, &outputs,
                        &PyTuple_Type, &fixed, &ctx, &scope, &training, &PyTuple_Type, &counters, &PyTuple_Type,
                            &places, &form, &PyTuple_Type, &allocate, &kind, &step,
                        &library, &device, &function)) return NULL;
  Launcher *self = (Launcher *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->call = launch;
  self->net = (Net)(uintptr_t)net;
  self->slots = slots, self->arena_slot = arena_slot, self->training = training, self->kind = kind;
  self->arena_bytes = ((size_t)bytes + 64) / 64 * 64;
  self->cls = (PyTypeObject *)Py_NewRef(cls);
  self->allocate = Py_NewRef(allocate), self->places = Py_NewRef(places),
      self->form = form == Py_None ? NULL : Py_NewRef(form);
  self->ctx = Py_NewRef(ctx), self->scope = Py_NewRef(scope), self->function = Py_XNewRef(function);
  if (!(self->keep = PyTuple_Pack(2, fixed, library)) || (net && !(self->arenas = join_arenas(self->net)))) {
    Py_DECREF(self); return NULL;
  }
  self->at_data = offset_of(self->cls, "_data"), self->at_ctx = offset_of(self->cls, "_ctx");
  self->at_ag = offset_of(self->cls, "_ag"), self->at_version = offset_of(self->cls, "_version");
  if (PyErr_Occurred() || check_places(places) || check_form(self->form, (int)PyTuple_GET_SIZE(inputs))
      || fill(self, inputs, outputs, fixed, counters)
      || (device != Py_None && !(self->device = read_device(device, self->outputs, self->table, slots)))
          || (step != Py_None && read_step(self, step))) { Py_DECREF(self); return NULL; }
  return (PyObject *)self;
}

static int launcher_traverse(PyObject *object, visitproc visit, void *arg) {
  Launcher *self = (Launcher *)object;
  if (self->step) Py_VISIT(self->step->all);
  if (self->device) Py_VISIT(self->device->all);
  Py_VISIT(self->keep);
  Py_VISIT(self->function);
  Py_VISIT(self->allocate);
  Py_VISIT(self->places);
  Py_VISIT(self->form);
  return 0;
}

/* Of a cycle of garbage (a step's Trainer, or an argument that is no array, may lead back to the function): nobody
 * calls it again, and it takes no call. */
static int launcher_clear(PyObject *object) {
  Launcher *self = (Launcher *)object;
  Step *step = self->step;
  self->step = NULL, self->refuses = 1;
  drop_step(step);
  Device *device = self->device;
  self->device = NULL;
  drop_device(device);
  Py_CLEAR(self->keep);
  Py_CLEAR(self->function);
  Py_CLEAR(self->allocate);
  Py_CLEAR(self->places);
  Py_CLEAR(self->form);
  return 0;
}

static void launcher_dealloc(PyObject *object) {
  Launcher *self = (Launcher *)object;
  PyObject_GC_UnTrack(object);
  leave_arenas(self->arenas);
  for (int i = 0; i < self->counters; i++) { Py_DECREF(self->counter[i]); Py_DECREF(self->seen[i]); }
  for (int i = 0; self->input && i < self->inputs; i++) {
    Py_XDECREF(self->input[i].descr);
    Py_XDECREF(self->input[i].shape);
  }
  for (int i = 0; self->output && i < self->outputs; i++) {
    Py_XDECREF(self->output[i].descr);
    Py_XDECREF(self->output[i].shape);
  }
  PyMem_Free(self->input);
  PyMem_Free(self->output);
  PyMem_Free(self->table);
  drop_step(self->step);
  drop_device(self->device);
  Py_XDECREF(self->cls); Py_XDECREF(self->ctx); Py_XDECREF(self->scope); Py_XDECREF(self->keep);
  Py_XDECREF(self->function); Py_XDECREF(self->allocate); Py_XDECREF(self->places); Py_XDECREF(self->form);
  Py_TYPE(object)->tp_free(object);
}

static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, call), READONLY},
  {"calls", T_PYSSIZET, offsetof(Launcher, calls), READONLY}, {0}};
static PyTypeObject LauncherType = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "hybrid_launcher.Launcher", .tp_basicsize = sizeof(Launcher),
      .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
  .tp_new = launcher_new, .tp_dealloc = launcher_dealloc, .tp_traverse = launcher_traverse, .tp_clear = launcher_clear,
      .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(Launcher, call),
  .tp_members = members,
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "hybrid_launcher", .m_size = -1,
    .m_methods = eager_methods};

PyMODINIT_FUNC PyInit_hybrid_launcher(void) {
  import_array();
  if (PyType_Ready(&LauncherType) || PyType_Ready(&TrackType) || PyType_Ready(&FrontType) || PyType_Ready(&EitherType)
      || PyType_Ready(&ElementwiseType) || PyType_Ready(&StridedType)) return NULL;
#define MAKE(name) str_##name = PyUnicode_InternFromString(#name);
  NAMES(MAKE)
  zero = PyLong_FromLong(0);
  PyObject *m = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED /* calls rely on Python's global lock: Python switches it on when this module is loaded */
  if (m) PyUnstable_Module_SetGIL(m, Py_MOD_GIL_USED);
#endif
  PyTypeObject *types[] = {&LauncherType, &TrackType, &FrontType, &EitherType, &ElementwiseType, &StridedType};
  for (int i = 0; m && i < 6; i++)
      if (PyModule_AddObject(m, strchr(types[i]->tp_name, '.') + 1, Py_NewRef((PyObject *)types[i]))) Py_CLEAR(m);
  return m;
}
#endif
