/* Rounds of a training loop that go the way of those before them (hybrid/jit/deferred/followed.py): a Track knows the
 * events of such a round, puts them off one after another and has one program do them at the step.
 *
 * Whatever is not as it was gives NotImplemented, and nothing has changed; ``give`` hands what was put off so far to
 * Python, which goes on from there.
 */
enum { NONE = LIST + 1 };                      /* of an event without results, beside ONE and TUPLE */
enum { MOST_SHARED = 256 };                    /* pieces of memory others may write: with more, nothing is followed */
typedef struct {
  /* held: the array itself, where it is the same in every round */
  PyObject *held; int result, outside; PyArray_Descr *descr; PyTypeObject *cls; PyObject *ctx, *shape, *promise;
  int ndim; npy_intp dims[32];
} Input;
typedef struct { PyObject *shape, *dtype, *ctx; PyTypeObject *cls; } Made;
typedef struct {
  PyObject *what, *structure, *places;         /* places: as those of a launcher */
  /* (array, promise) of each array that it reads or writes and no event before it */
  PyObject *away;
  PyObject *slots;                             /* of ``backward``: (array, slot, gradient) */
  PyObject *operator;                          /* of an operator: see launcher_operators.h; else NULL */
  int training, recording, np_array, inputs, results, kind, numbers;
  Input *input;
  Made *made;
} Event;
typedef struct { PyObject *x, *raw, *old; } Hidden;
typedef struct {
  PyObject_HEAD
  /* all: the tuple that it was read from: keeps every object here; path: what Python knows of it */
  PyObject *weak, *all, *path;
  PyObject *scope, *state, *lock, *rebinds, *seen, *shared, *watched, *put_off, *live, *fast, *alive, *empty;
  PyTypeObject *promise;
  Py_ssize_t at_data, at_ctx, at_ag, at_version, at_away, at_shape, at_dtype, at_round, at_error, at_grad;
  int events, made_events, at, outsides, results, hiddens, most_hidden, most_results, most_outside;
  Event *event;
  Hidden *hidden;
  unsigned long thread;                        /* that puts the round off */
  PyObject **given, **result;                  /* arrays from outside; weak references to results */
  PyObject *numbers;                           /* a list: its events' numbers that may differ from round to round */
  int steps;                                   /* whether a Trainer's step ends the round */
} Track;

/* The object of a weak reference, a new reference, or NULL. */
static PyObject *target(PyObject *ref) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject *x = NULL;
  PyWeakref_GetRef(ref, &x);
  return x;
#else
  PyObject *x = PyWeakref_GET_OBJECT(ref);
  return x == Py_None ? NULL : Py_NewRef(x);
#endif
}

/* Whether a class has its slots where this track looks for them. */
static int same_layout(const Track *self, PyTypeObject *cls) {
  if (offset_of(cls, "_data") == self->at_data && offset_of(cls, "_away") == self->at_away
      && offset_of(cls, "_ag") == self->at_ag && offset_of(cls, "_ctx") == self->at_ctx) return 0;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an array of another layout");
  return -1;
}

static int add_to(PyObject *counter, long by) {
  PyObject *now = PyLong_FromLong(PyLong_AsLong(PyList_GET_ITEM(counter, 0)) + by);
  return now ? PyList_SetItem(counter, 0, now) : -1;
}

/* A flag in the thread's own attributes of a scope; those that were never set are false. */
static int flag(PyObject *dict, PyObject *name) {
  PyObject *value = PyDict_GetItemWithError(dict, name);
  return value && value != Py_False && value != Py_None;
}

static int lock_taken(const Track *self) {
  PyObject *args[] = {self->lock, Py_False}, *got = PyObject_VectorcallMethod(str_acquire, args, 2, NULL);
  int yes = got == Py_True;
  Py_XDECREF(got);
  return yes;
}

static void unlock(const Track *self) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_XDECREF(PyObject_CallMethodNoArgs(self->lock, str_release));
  PyErr_Restore(type, value, trace);
}

/* Whether this thread is where the event is due, with the flags that it had. */
static int due(const Track *self, const Event *e, PyObject *scope, PyObject *state) {
  PyObject *track = PyDict_GetItemWithError(state, str_track);
  if (self->at) { if (track != (PyObject *)self || self->thread != PyThread_get_thread_ident()) return 0; }
  else if ((track && track != Py_None) || flag(state, str_round) || flag(state, str_broken)) return 0;
  PyObject *traces = PyDict_GetItemWithError(scope, str_traces), *now = PyList_GET_ITEM(self->rebinds, 0);
  if (flag(state, str_busy) || !traces || !PyList_CheckExact(traces) || PyList_GET_SIZE(traces)
      || flag(scope, str_plain)) return 0;
  if (flag(scope, str_recording) != e->recording || flag(scope, str_training) != e->training
      || flag(scope, str_np_array) != e->np_array) return 0;
  if (now != self->seen && PyObject_RichCompareBool(now, self->seen, Py_EQ) != 1) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->empty); i++) if (PyList_GET_SIZE(PyTuple_GET_ITEM(self->empty, i)))
      return 0;
  return 1;
}

/* Whether others may write some of an array's memory: values of ``shared`` are (weakref, first address,
   end address). */
static int is_shared(const Track *self, PyObject *raw) {
  if (!PyDict_GET_SIZE(self->shared)) return 0;
  if (!PyArray_CheckExact(raw) || PyDict_GET_SIZE(self->shared) > MOST_SHARED) return 1;
  PyArrayObject *x = (PyArrayObject *)raw;
  size_t start = (size_t)PyArray_DATA(x), stop = start + PyArray_ITEMSIZE(x);
  for (int i = 0; i < PyArray_NDIM(x); i++) {
    npy_intp reach = (PyArray_DIM(x, i) - 1) * PyArray_STRIDE(x, i);
    if (reach < 0) start += reach; else stop += reach;
  }
  PyObject *key, *three;
  for (Py_ssize_t at = 0; PyDict_Next(self->shared, &at, &key, &three);) {
    size_t first = 0, last = 0;
    PyObject *ref;
    if (!PyArg_ParseTuple(three, "Onn", &ref, &first, &last)) { PyErr_Clear(); return 1; }
    if (first < stop && start < last) return 1;
  }
  return 0;
}

/* Whether arrays from outside are on the devices that they were on: comparing these may run other code. */
static int on_devices(const Track *self, const Event *e, PyObject *const *xs) {
  for (int i = 0; i < e->inputs; i++) {
    const Input *in = &e->input[i];
    if (in->held || in->result >= 0 || in->outside < self->outsides) continue;
    PyObject *ctx = Py_TYPE(xs[i]) == in->cls ? AT(xs[i], self->at_ctx) : NULL;
    if (!ctx || (ctx != in->ctx && PyObject_RichCompareBool(ctx, in->ctx, Py_EQ) != 1)) return 0;
  }
  return 1;
}

static int is_result(const Track *self, int number, PyObject *x) {
  PyObject *now = number < self->results ? target(self->result[number]) : NULL;
  Py_XDECREF(now);
  return now == x;
}

/* Whether an array from outside is what an event takes: plain, with memory of its own, and in no other round. */
static int fits(const Track *self, const Input *in, PyObject *x) {
  if (Py_TYPE(x) != in->cls || !AT(x, self->at_data) || AT(x, self->at_ag) != Py_None || !AT(x, self->at_ctx)) return 0;
  PyObject *old = AT(x, self->at_away);
  if (old && Py_TYPE(old) == self->promise) return 0;
  PyArrayObject *raw = (PyArrayObject *)AT(x, self->at_data);
  if (!PyArray_CheckExact(raw) || is_shared(self, (PyObject *)raw) || PyArray_NDIM(raw) != in->ndim
      || (PyArray_DESCR(raw) != in->descr && !PyArray_EquivTypes(PyArray_DESCR(raw), in->descr))) return 0;
  for (int i = 0; i < in->ndim; i++) if (PyArray_DIM(raw, i) != in->dims[i]) return 0;
  return 1;
}

static int fits_all(const Track *self, const Event *e, PyObject *const *xs) {
  for (int i = 0; i < e->inputs; i++) {
    const Input *in = &e->input[i];
    if (in->held) {
      if (in->held != xs[i]) return 0;
    } else if (in->result >= 0) {
      if (!is_result(self, in->result, xs[i])) return 0;
    } else if (in->outside < self->outsides) {
      if (self->given[in->outside] != xs[i]) return 0;
    } else {
      if (!fits(self, in, xs[i])) return 0;
      for (int k = 0; k < i; k++) if (xs[k] == xs[i]) return 0;
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(e->away); k++)
          if (PyTuple_GET_ITEM(PyTuple_GET_ITEM(e->away, k), 0) == xs[i]) return 0;
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(e->away); i++) {
    PyObject *raw = AT(PyTuple_GET_ITEM(PyTuple_GET_ITEM(e->away, i), 0), self->at_data);
    if (!raw || is_shared(self, raw)) return 0;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(e->slots); i++) {
    PyObject *three = PyTuple_GET_ITEM(e->slots, i), *slot = PyTuple_GET_ITEM(three, 1);
    if (AT(PyTuple_GET_ITEM(three, 0), self->at_ag) != slot || AT(slot, self->at_grad) != PyTuple_GET_ITEM(three, 2))
        return 0;
  }
  return 1;
}

/* An array's memory goes out of its slot, and a promise stands for it. */
static void hide(Track *self, PyObject *x, PyObject *promise) {
  Hidden *h = &self->hidden[self->hiddens++];
  h->x = Py_NewRef(x), h->raw = AT(x, self->at_data), h->old = AT(x, self->at_away);
  AT(x, self->at_data) = NULL, AT(x, self->at_away) = Py_NewRef(promise);
  set(promise, self->at_round, (PyObject *)self);
}

/* The results of an event, as promises: into ``out``, with weak references to them. */
static int promised(const Track *self, const Event *e, PyObject **out, PyObject **refs) {
  for (int i = 0; i < e->results; i++) {
    const Made *m = &e->made[i];
    PyObject *x = m->cls->tp_alloc(m->cls, 0), *promise = x ? self->promise->tp_alloc(self->promise, 0) : NULL;
    refs[i] = promise ? PyWeakref_NewRef(x, NULL) : NULL;
    if (!refs[i]) { Py_XDECREF(x); Py_XDECREF(promise); drop(out, i); drop(refs, i); return -1; }
    AT(promise, self->at_shape) = Py_NewRef(m->shape), AT(promise, self->at_dtype) = Py_NewRef(m->dtype);
    AT(promise, self->at_round) = Py_NewRef((PyObject *)self), AT(promise, self->at_error) = Py_NewRef(Py_None);
    AT(x, self->at_ctx) = Py_NewRef(m->ctx), AT(x, self->at_version) = Py_NewRef(zero), AT(x, self->at_away) = promise;
    out[i] = x;
  }
  return 0;
}

static int begin_round(Track *self, PyObject *state) {
  self->thread = PyThread_get_thread_ident();
  return PyList_Append(self->live, (PyObject *)self) || add_to(self->watched, 1) || add_to(self->put_off, 1)
      || PyDict_SetItem(state, str_track, (PyObject *)self) ? -1 : 0;
}

static int end_round(Track *self, PyObject *state) {
  Py_ssize_t at = PySequence_Index(self->live, (PyObject *)self);
  return at < 0 || PySequence_DelItem(self->live, at) || PyDict_SetItem(state, str_track, Py_None)
      || add_to(self->put_off, -1) || add_to(self->watched, -1) ? -1 : 0;
}

static PyObject *not_followed(void) { if (PyErr_Occurred()) PyErr_Clear(); return Py_NewRef(Py_NotImplemented); }

/* Results as Python gets them: one array; a tuple of what is put together otherwise; None. */
static PyObject *given_back(const Event *e, PyObject **out) {
  if (e->kind == ONE) return out[0];
  if (e->kind == NONE) Py_RETURN_NONE;
  PyObject *tuple = PyTuple_New(e->results);
  for (int i = 0; i < e->results; i++) if (tuple) PyTuple_SET_ITEM(tuple, i, out[i]); else Py_DECREF(out[i]);
  return tuple;
}

static int add_numbers(const Track *self, PyObject *const *xs, int n) {
  while (n-- && !PyList_Append(self->numbers, *xs)) xs++;
  return n < 0 ? 0 : -1;
}

/* The next event with these arrays and numbers is put off, where it is the one that is due. */
static PyObject *put_off(Track *self, const Event *e, PyObject *const *xs, PyObject *const *numbers) {
  PyObject *out[e->results + 1], *refs[e->results + 1];
  int at = self->at;
  if (promised(self, e, out, refs)) return NULL;
  PyObject *scope = flags_of(self->scope), *state = scope ? flags_of(self->state) : NULL;
  /* making results may run other code */
  if (at != self->at || !state || !on_devices(self, e, xs) || !due(self, e, scope, state) || !fits_all(self, e, xs)
      || !lock_taken(self)) {
    drop(out, e->results), drop(refs, e->results);
    return not_followed();
  }
  if ((!at && begin_round(self, state)) || add_numbers(self, numbers, e->numbers)) {
    unlock(self); drop(out, e->results); drop(refs, e->results); return NULL;
  }
  for (int i = 0; i < e->inputs; i++) if (e->input[i].outside >= self->outsides) {
    self->given[self->outsides++] = Py_NewRef(xs[i]);
    hide(self, xs[i], e->input[i].promise);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(e->away); i++)
      hide(self, PyTuple_GET_ITEM(PyTuple_GET_ITEM(e->away, i), 0), PyTuple_GET_ITEM(PyTuple_GET_ITEM(e->away, i), 1));
  for (int i = 0; i < e->results; i++) self->result[self->results++] = refs[i];
  self->at++;
  unlock(self);
  return given_back(e, out);
}

/* Whether an event is the one that is due: the same call of the same thing. */
static const Event *expected(const Track *self, PyObject *what, PyObject *structure, Py_ssize_t n) {
  const Event *e = self->at < self->events ? &self->event[self->at] : NULL;
  int at = self->at;
  if (!e || e->inputs != n
      || (e->structure != structure && PyObject_RichCompareBool(e->structure, structure, Py_EQ) != 1)) return NULL;
  if (e->what != what && PyObject_RichCompareBool(e->what, what, Py_EQ) != 1) return NULL;
  return at == self->at && places_hold(e->places) ? e : NULL;
}

/* take(what, arrays, structure, numbers): the result of the next event, put off; NotImplemented where another one is
 * due. */
static PyObject *track_take(PyObject *object, PyObject *const *args, Py_ssize_t n) {
  Track *self = (Track *)object;
  if (n != 4 || !(PyTuple_CheckExact(args[1]) || PyList_CheckExact(args[1])) || !PyTuple_CheckExact(args[3]))
      return not_followed();
  const Event *e = expected(self, args[0], args[2], PySequence_Fast_GET_SIZE(args[1]));
  if (!e || (self->steps && e == self->event + self->events - 1) || e->numbers != PyTuple_GET_SIZE(args[3]))
      return not_followed();
  Py_INCREF(self);
  PyObject *out = put_off(self, e, PySequence_Fast_ITEMS(args[1]), &PyTuple_GET_ITEM(args[3], 0));
  Py_DECREF(self);
  return out;
}

/* Memory comes back into its slots. */
static void show(Track *self) {
  while (self->hiddens) {
    Hidden *h = &self->hidden[--self->hiddens];
    PyObject *promise = AT(h->x, self->at_away);
    AT(h->x, self->at_data) = h->raw, AT(h->x, self->at_away) = h->old;
    if (promise) set(promise, self->at_round, Py_None);
    Py_XDECREF(promise);
    Py_DECREF(h->x);
  }
}

static void drop_all(PyObject **xs, int n) { while (n--) Py_XDECREF(xs[n]); }

/* Whether just those results are alive that the program gives; one that is a copy (None) may be. Puts them into out. */
static int alive(const Track *self, PyObject **out) {
  for (int i = 0; i < self->results; i++) {
    PyObject *given = PyTuple_GET_ITEM(self->alive, i);
    out[i] = target(self->result[i]);
    if (given != Py_None && !out[i] == (given == Py_True)) { drop_all(out, i + 1); return 0; }
  }
  return 1;
}

/* Results of the program into the arrays given for them; one may be a copy of what the last event writes. */
static int fill_results(const Track *self, PyObject **out, int n, PyObject *values) {
  Py_ssize_t k = 0;
  for (int i = 0; i < n; i++) if (out[i] && PyTuple_GET_ITEM(self->alive, i) == Py_None) {
    PyObject *raw = AT(self->event[self->events - 1].input[0].held, self->at_data),
        *copy = raw && PyArray_Check(raw) ? PyArray_NewCopy((PyArrayObject *)raw, NPY_CORDER) : NULL;
    if (!copy) return -1;
    set(out[i], self->at_data, copy);
    Py_DECREF(copy);
    set(out[i], self->at_ag, Py_None), set(out[i], self->at_away, Py_None);
  } else if (out[i]) {
    PyObject *y = PyTuple_CheckExact(values) && k < PyTuple_GET_SIZE(values) ? PyTuple_GET_ITEM(values, k++) : NULL;
    if (!y || Py_TYPE(y) != Py_TYPE(out[i])) {
      PyErr_SetString(PyExc_RuntimeError, "a round of a training loop gave other results"); return -1;
    }
    set(out[i], self->at_data, AT(y, self->at_data));
    set(out[i], self->at_ag, Py_None), set(out[i], self->at_away, Py_None);
  }
  return 0;
}

/* The program on the arrays from outside and the numbers, while this thread puts nothing off and records nothing. A new
 * reference to what it gives. */
static PyObject *done(Track *self, PyObject *scope, PyObject *state) {
  PyObject *fast = Py_NewRef(PyList_GET_ITEM(self->fast, 0)), *out = NULL;
  int recording = flag(scope, str_recording), numbers = (int)PyList_GET_SIZE(self->numbers);
  PyObject *given[self->outsides + numbers + 1];
  for (int i = 0; i < self->outsides; i++) given[i] = self->given[i];
  for (int i = 0; i < numbers; i++) given[self->outsides + i] = PyList_GET_ITEM(self->numbers, i);
  if (fast == Py_None) out = Py_NewRef(Py_None);
  else if (!PyDict_SetItem(state, str_busy, Py_True) && !(recording && PyDict_SetItem(scope, str_recording, Py_False)))
      out = PyObject_Vectorcall(fast, given, self->outsides + numbers, NULL);
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyDict_SetItem(state, str_busy, Py_False);
  if (recording) PyDict_SetItem(scope, str_recording, Py_True);
  PyErr_Restore(type, value, trace);
  Py_DECREF(fast);
  return out;
}

/* The round is over or given away. */
static void forget(Track *self) {
  int results = self->results, outsides = self->outsides;
  self->results = self->outsides = 0;
  while (results) Py_DECREF(self->result[--results]);
  while (outsides) Py_DECREF(self->given[--outsides]);
  self->at = 0;
  if (self->numbers) PyList_SetSlice(self->numbers, 0, PyList_GET_SIZE(self->numbers), NULL);
}

/* finish(what): the step that ends a round, or None behind its last event, does all of it by one program: True.
 * NotImplemented where that is not due; False, or an error, where the program does not take it: then everything is as
 * before the step, and ``give`` says what the round was. */
static PyObject *track_finish(PyObject *object, PyObject *const *args, Py_ssize_t n) {
  Track *self = (Track *)object;
  const Event *last = self->event + self->events - 1,
      *e = n != 1 ? NULL : args[0] != Py_None ? expected(self, args[0], Py_None, 0)
      : self->events && self->at == self->events ? last : NULL;
  PyObject *scope = flags_of(self->scope), *state = scope ? flags_of(self->state) : NULL, *out[self->most_results + 1],
      *values = NULL;
  if (!e || e != last || !state || !due(self, e, scope, state) || !lock_taken(self))
      return not_followed();
  int results = self->results, full = 0;
  if (!alive(self, out)) { unlock(self); return not_followed(); }
  Py_INCREF(self);
  self->at = self->events;
  show(self);
  if (!end_round(self, state)) values = done(self, scope, state);
  if (values && values != Py_None) full = fill_results(self, out, results, values) ? -1 : 1;
  if (full == 1) forget(self);
  drop_all(out, results);
  unlock(self);
  Py_DECREF(self);
  if (!values || full < 0) { Py_XDECREF(values); return NULL; }
  Py_DECREF(values);
  return Py_NewRef(full ? Py_True : Py_False);
}
