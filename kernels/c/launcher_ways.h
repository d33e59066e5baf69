/* Ways from a call itself: into an event of a track (launcher_rounds.h), and one of several ways. All give None where
 * they are not to be gone. */
typedef struct { PyObject_HEAD vectorcallfunc call; PyObject *track, *places; int number; } Front;

/* Whether rounds may be put off, as hybrid/base/config.py says it. */
static int defers(void) {
  const char *set = getenv("HYBRID_DEFER");
  return !set || strcmp(set, "0");
}

static PyObject *front_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
  Front *self = (Front *)object;
  PyObject *found = !names && self->track ? target(self->track) : NULL, *out = NULL;
  const Track *track = (Track *)found;
  if (track && track->at == self->number && self->number < track->events - 1) {
    const Event *e = &track->event[self->number];
    PyObject *scope = flags_of(track->scope);
    if (scope && flag(scope, str_recording) == e->recording && PyVectorcall_NARGS(nargsf) == e->inputs
        && places_hold(self->places) && places_hold(e->places)
        && (self->number || defers())) out = put_off((Track *)found, e, args, NULL);
  }
  Py_XDECREF(found);
  if (out != Py_NotImplemented) return out ? out : no();
  Py_DECREF(out);
  return no();
}

/* Front(track, number of the event, places that must hold what they held) */
static PyObject *front_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *track, *places;
  int number;
  if (!PyArg_ParseTuple(args, "O!iO!", &TrackType, &track, &number, &PyTuple_Type, &places) || check_places(places))
      return NULL;
  if (number < 0 || number >= ((Track *)track)->events || ((Track *)track)->event[number].kind != ONE) {
    PyErr_SetString(PyExc_ValueError, "a way leads to an event with one result"); return NULL;
  }
  Front *self = (Front *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->call = front_call, self->number = number, self->places = Py_NewRef(places);
  if (!(self->track = PyWeakref_NewRef(track, NULL))) { Py_DECREF(self); return NULL; }
  return (PyObject *)self;
}

static int front_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(((Front *)object)->track);
  Py_VISIT(((Front *)object)->places);
  return 0;
}

static int front_clear(PyObject *object) {
  Front *self = (Front *)object;
  Py_CLEAR(self->track);
  return 0;
}

static void front_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  Py_XDECREF(((Front *)object)->track);
  Py_XDECREF(((Front *)object)->places);
  Py_TYPE(object)->tp_free(object);
}

static PyTypeObject FrontType = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "hybrid_launcher.Front", .tp_basicsize = sizeof(Front),
      .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
  .tp_new = front_new, .tp_dealloc = front_dealloc, .tp_traverse = front_traverse, .tp_clear = front_clear,
      .tp_call = PyVectorcall_Call,
  .tp_vectorcall_offset = offsetof(Front, call),
};

/* Several fast paths ("ways"): a call takes the first that does not refuse it. hint: for a hash of the arguments'
 * shapes, the way that the last such call took; it is tried first, as most ways take arrays of one shape each.
 * cls: the arrays' class. */
enum { HINTS = 1024 };
typedef struct {
  PyObject_HEAD vectorcallfunc call; PyObject *ways, *cls; Py_ssize_t at_data; short hint[HINTS];
} Either;

/* The place of ``hint`` for such arguments. */
static short *hint_of(Either *self, PyObject *const *args, Py_ssize_t n) {
  Py_uhash_t h = (Py_uhash_t)n;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *data = (PyObject *)Py_TYPE(args[i]) == self->cls ? AT(args[i], self->at_data) : NULL;
    for (int k = 0; data && PyArray_Check(data) && k < PyArray_NDIM((PyArrayObject *)data); k++)
        h = h * 1000003 ^ (Py_uhash_t)PyArray_DIM((PyArrayObject *)data, k);
  }
  return &self->hint[(h ^ h >> 17) % HINTS];
}

static PyObject *either_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
  Either *self = (Either *)Py_NewRef(object);
  short *hint = hint_of(self, args, PyVectorcall_NARGS(nargsf));
  Py_ssize_t n = PyTuple_GET_SIZE(self->ways), first = *hint;
  PyObject *out = n ? PyObject_Vectorcall(PyTuple_GET_ITEM(self->ways, first), args, nargsf, names) : no();
  for (Py_ssize_t i = 0; out == Py_None && i < n; i++) {
    if (i == first) continue;
    Py_DECREF(out);
    out = PyObject_Vectorcall(PyTuple_GET_ITEM(self->ways, i), args, nargsf, names);
    if (out != Py_None) *hint = (short)i;
  }
  Py_DECREF(object);
  return out;
}

/* Either(tuple of callables) */
static PyObject *either_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *ways;
  if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &ways)) return NULL;
  if (PyTuple_GET_SIZE(ways) > SHRT_MAX) { PyErr_SetString(PyExc_ValueError, "too many ways"); return NULL; }
  Either *self = (Either *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->call = either_call, self->ways = Py_NewRef(ways);
  for (Py_ssize_t i = 0; !self->cls && i < PyTuple_GET_SIZE(ways); i++) {
    PyObject *way = PyTuple_GET_ITEM(ways, i), *launcher = Py_TYPE(way) == &LauncherType ? Py_NewRef(way)
        : PyObject_GetAttrString(way, "launched");      /* of a function in Python around one */
    if (!launcher) PyErr_Clear();
    else if (Py_TYPE(launcher) == &LauncherType) self->cls = Py_NewRef((PyObject *)((Launcher *)launcher)->cls),
        self->at_data = ((Launcher *)launcher)->at_data;
    Py_XDECREF(launcher);
  }
  return (PyObject *)self;
}

static int either_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(((Either *)object)->ways); return 0;
}

static void either_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  Py_XDECREF(((Either *)object)->ways);
  Py_XDECREF(((Either *)object)->cls);
  Py_TYPE(object)->tp_free(object);
}

static PyTypeObject EitherType = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "hybrid_launcher.Either", .tp_basicsize = sizeof(Either),
      .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
  .tp_new = either_new, .tp_dealloc = either_dealloc, .tp_traverse = either_traverse, .tp_call = PyVectorcall_Call,
      .tp_vectorcall_offset = offsetof(Either, call),
};
