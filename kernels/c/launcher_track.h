/* How a Track (launcher_rounds.h) is made of what Python knows of a path's events (hybrid/jit/deferred/followed.py),
 * and how it goes. */
static PyObject *listed(PyObject **items, int n) {
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) PyList_SET_ITEM(list, i, Py_NewRef(items[i]));
  return list;
}

/* give(): (thread, events put off, arrays from outside, weak references to results, [(array, memory, what stood for
 * it)], numbers); the track is free for another round, and whoever called sees to the rest: memory goes back into its
 * slots, counters go down. Under the lock. */
static PyObject *track_give(PyObject *object, PyObject *none) {
  Track *self = (Track *)object;
  PyObject *hidden = PyList_New(self->hiddens), *given = listed(self->given, self->outsides),
      *results = listed(self->result, self->results);
  for (int i = 0; hidden && i < self->hiddens; i++) {
    Hidden *h = &self->hidden[i];
    PyObject *three = PyTuple_Pack(3, h->x, h->raw, h->old ? h->old : Py_None);
    if (three) PyList_SET_ITEM(hidden, i, three); else Py_CLEAR(hidden);
  }
  PyObject *numbers = PyList_GetSlice(self->numbers, 0, PyList_GET_SIZE(self->numbers)),
      *out = hidden && given && results && numbers
      ? Py_BuildValue("kiNNNN", self->thread, self->at, given, results, hidden, numbers) : NULL;
  if (!out) return NULL;
  while (self->hiddens) {
    Hidden *h = &self->hidden[--self->hiddens];
    Py_DECREF(h->x); Py_DECREF(h->raw); Py_XDECREF(h->old);
  }
  forget(self);
  return out;
}

/* memory(): what is out of its slots now. */
static PyObject *track_memory(PyObject *object, PyObject *none) {
  Track *self = (Track *)object;
  PyObject *list = PyList_New(self->hiddens);
  for (int i = 0; list && i < self->hiddens; i++) PyList_SET_ITEM(list, i, Py_NewRef(self->hidden[i].raw));
  return list;
}

static int read_input(Track *self, Input *in, PyObject *of) {
  in->outside = -1;
  if (PyLong_Check(of)) { in->result = (int)PyLong_AsLong(of); return in->result < 0 ? -1 : 0; }
  PyObject *shape;
  in->result = -1;
  if (PyTuple_Check(of) && PyTuple_GET_SIZE(of) == 1) {
    in->held = PyTuple_GET_ITEM(of, 0);
    return same_layout(self, Py_TYPE(in->held));
  }
  if (!PyArg_ParseTuple(of, "iO!O&O!OO", &in->outside, &PyTuple_Type, &shape, PyArray_DescrConverter, &in->descr,
      &PyType_Type, &in->cls, &in->ctx, &in->promise)) return -1;
  in->ndim = (int)PyTuple_GET_SIZE(shape);
  if (in->ndim > 32 || Py_TYPE(in->promise) != self->promise) {
    PyErr_SetString(PyExc_ValueError, "an array from outside has at most 32 axes and a promise"); return -1;
  }
  for (int i = 0; i < in->ndim; i++) in->dims[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
  if (in->outside >= self->most_outside) self->most_outside = in->outside + 1;
  return same_layout(self, in->cls);
}

static int read_made(Track *self, Made *m, PyObject *of) {
  if (!PyArg_ParseTuple(of, "O!OOO!", &PyTuple_Type, &m->shape, &m->dtype, &m->ctx, &PyType_Type, &m->cls)) return -1;
  return same_layout(self, m->cls);
}

static int read_pairs(const Track *self, PyObject *away, PyObject *slots) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(away); i++) {
    PyObject *x, *promise;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(away, i), "OO!", &x, self->promise, &promise)
        || same_layout(self, Py_TYPE(x))) return -1;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(slots); i++) {
    PyObject *x, *slot, *grad;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(slots, i), "OOO", &x, &slot, &grad) || same_layout(self, Py_TYPE(x)))
        return -1;
    if (offset_of(Py_TYPE(slot), "grad") != self->at_grad) return -1;
  }
  return 0;
}

/* (what, inputs, structure, training, recording, numpy arrays, kind of the results, results, away, slots, places, how
 * many numbers it takes, None or what it is as an operator) */
static int read_event(Track *self, Event *e, PyObject *of) {
  PyObject *inputs, *made;
  if (!PyArg_ParseTuple(of, "OO!OpppiO!O!O!O!iO", &e->what, &PyTuple_Type, &inputs, &e->structure, &e->training,
      &e->recording, &e->np_array, &e->kind, &PyTuple_Type, &made,
                        &PyTuple_Type, &e->away, &PyTuple_Type, &e->slots, &PyTuple_Type, &e->places, &e->numbers,
                        &e->operator)) return -1;
  e->inputs = (int)PyTuple_GET_SIZE(inputs), e->results = (int)PyTuple_GET_SIZE(made);
  e->input = PyMem_Calloc(e->inputs + 1, sizeof(Input)), e->made = PyMem_Calloc(e->results + 1, sizeof(Made));
  if (!e->input || !e->made) { PyErr_NoMemory(); return -1; }
  if (check_operator(e)) return -1;
  if ((e->kind == ONE && e->results != 1) || (e->kind == NONE && e->results)) {
    PyErr_SetString(PyExc_ValueError, "another number of results"); return -1;
  }
  for (int i = 0; i < e->inputs; i++) if (read_input(self, &e->input[i], PyTuple_GET_ITEM(inputs, i))) return -1;
  for (int i = 0; i < e->results; i++) if (read_made(self, &e->made[i], PyTuple_GET_ITEM(made, i))) return -1;
  self->most_results += e->results, self->most_hidden += (int)PyTuple_GET_SIZE(e->away);
  return read_pairs(self, e->away, e->slots) || check_places(e->places);
}

static int room(Track *self) {
  self->most_hidden += self->most_outside;
  self->hidden = PyMem_Calloc(self->most_hidden + 1, sizeof(Hidden));
  self->given = PyMem_Calloc(self->most_outside + 1, sizeof(PyObject *)),
      self->result = PyMem_Calloc(self->most_results + 1, sizeof(PyObject *));
  if (!self->hidden || !self->given || !self->result) { PyErr_NoMemory(); return -1; }
  if (PyTuple_GET_SIZE(self->alive) == self->most_results) return 0;
  PyErr_SetString(PyExc_ValueError, "of each result it is said whether it is alive");
  return -1;
}

/* Track(NDArray, Promise, (scope, state, lock, counter of rebinds, memory that others share, watched, put off, live
 * tracks, list of the program, alive, lists that are empty), events) */
static PyObject *track_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *all, *events, *slot;
  PyTypeObject *cls, *promise;
  if (!PyArg_ParseTuple(args, "O!O!OO!O!", &PyType_Type, &cls, &PyType_Type, &promise, &slot, &PyTuple_Type, &all,
      &PyTuple_Type, &events)) return NULL;
  Track *self = (Track *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->all = Py_NewRef(args), self->promise = promise;
  self->at_data = offset_of(cls, "_data"), self->at_ctx = offset_of(cls, "_ctx"), self->at_ag = offset_of(cls, "_ag"),
      self->at_version = offset_of(cls, "_version");
  self->at_away = offset_of(cls, "_away"), self->at_shape = offset_of(promise, "shape"),
      self->at_dtype = offset_of(promise, "dtype");
  self->at_round = offset_of(promise, "round"), self->at_error = offset_of(promise, "error"),
      self->at_grad = offset_of((PyTypeObject *)slot, "grad");
  self->events = (int)PyTuple_GET_SIZE(events), self->made_events = self->events,
      self->event = PyMem_Calloc(self->events + 1, sizeof(Event));
  int fine = !PyErr_Occurred() && self->event
      && PyArg_ParseTuple(all, "OOOO!O!O!O!O!O!O!O!", &self->scope, &self->state, &self->lock, &PyList_Type,
      &self->rebinds, &PyDict_Type, &self->shared, &PyList_Type,
    &self->watched, &PyList_Type, &self->put_off, &PyList_Type, &self->live, &PyList_Type, &self->fast, &PyTuple_Type,
        &self->alive, &PyTuple_Type, &self->empty);
  for (int i = 0; fine && i < self->events; i++) fine = !read_event(self, &self->event[i], PyTuple_GET_ITEM(events, i));
  self->steps = self->events && !self->event[self->events - 1].inputs;
  if (!fine || room(self) || !(self->numbers = PyList_New(0))) { Py_DECREF(self); return NULL; }
  self->seen = Py_NewRef(PyList_GET_ITEM(self->rebinds, 0));
  return (PyObject *)self;
}

static int track_traverse(PyObject *object, visitproc visit, void *arg) {
  Track *self = (Track *)object;
  Py_VISIT(self->all);
  Py_VISIT(self->path);
  for (int i = 0; i < self->hiddens; i++) {
    Py_VISIT(self->hidden[i].x); Py_VISIT(self->hidden[i].raw);
    Py_VISIT(self->hidden[i].old);
  }
  for (int i = 0; i < self->outsides; i++) Py_VISIT(self->given[i]);
  return 0;
}

/* Of a cycle of garbage: nothing is put off just now, for then the list of live tracks holds it, and it takes
 * no event. */
static int track_clear(PyObject *object) {
  Track *self = (Track *)object;
  self->events = 0;
  Py_CLEAR(self->all);
  Py_CLEAR(self->path);
  return 0;
}

static void track_dealloc(PyObject *object) {
  Track *self = (Track *)object;
  PyObject_GC_UnTrack(object);
  if (self->weak) PyObject_ClearWeakRefs(object);
  show(self);
  if (self->given && self->result) forget(self);
  for (int i = 0; self->event && i < self->made_events; i++) {
    Event *e = &self->event[i];
    for (int k = 0; e->input && k < e->inputs; k++) Py_XDECREF(e->input[k].descr);
    PyMem_Free(e->input);
    PyMem_Free(e->made);
  }
  PyMem_Free(self->event); PyMem_Free(self->hidden); PyMem_Free(self->given); PyMem_Free(self->result);
  Py_XDECREF(self->seen); Py_XDECREF(self->numbers); Py_XDECREF(self->all); Py_XDECREF(self->path);
  Py_TYPE(object)->tp_free(object);
}

static PyMethodDef track_methods[] = {
  {"take", (PyCFunction)(void (*)(void))track_take, METH_FASTCALL, NULL},
  {"operator", (PyCFunction)(void (*)(void))track_operator, METH_FASTCALL, NULL},
  {"finish", (PyCFunction)(void (*)(void))track_finish, METH_FASTCALL, NULL},
  {"give", track_give, METH_NOARGS, NULL}, {"memory", track_memory, METH_NOARGS, NULL}, {NULL}};
static PyMemberDef track_members[] = {{"path", T_OBJECT_EX, offsetof(Track, path), 0},
  {"rebinds", T_OBJECT_EX, offsetof(Track, seen), READONLY}, {"at", T_INT, offsetof(Track, at), READONLY},
  {"events", T_INT, offsetof(Track, events), READONLY}, {NULL}};
static PyTypeObject TrackType = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "hybrid_launcher.Track", .tp_basicsize = sizeof(Track),
      .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_weaklistoffset = offsetof(Track, weak),
  .tp_new = track_new, .tp_dealloc = track_dealloc, .tp_traverse = track_traverse, .tp_clear = track_clear,
      .tp_methods = track_methods, .tp_members = track_members,
};
