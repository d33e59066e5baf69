/* What belongs to a call of a training step beside its program (hybrid/jit/fast_step.py): before it, after it, and
 * reading what Python says of it. */
static void set(PyObject *object, Py_ssize_t at, PyObject *value) {
  PyObject *old = AT(object, at);
  AT(object, at) = Py_NewRef(value);
  Py_XDECREF(old);
}

/* Whether an array lies in memory that the program writes. */
static int overlaps(const Step *step, const void *at, size_t bytes) {
  uintptr_t first = (uintptr_t)at, end = first + bytes;
  int low = 0, high = step->stretches;         /* the last stretch that begins before the end */
  while (low < high) {
    int middle = (low + high) / 2;
    if (step->start[middle] < end) low = middle + 1; else high = middle;
  }
  return low && step->stop[low - 1] > first;
}

/* 1: the update is counted; 0: the slow path; -1: an error. */
static int prepared(const Step *step) {
  PyObject *answer = PyObject_CallNoArgs(step->prepare);
  int yes = answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  return yes;
}

static PyObject *one_more(PyObject *number) {
  return number ? PyLong_FromLongLong(PyLong_AsLongLong(number) + 1) : NULL;
}

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
  PyObject *watched = PyList_GetItem(step->watched, 0), *unmet = PyList_GetItem(step->group, 2);
  if (!watched || !unmet) return -1;
  if (PyList_GetItem(step->group, 1) == Py_True
      && (watched == unmet || PyObject_RichCompareBool(watched, unmet, Py_EQ) == 1)) return 1;
  PyObject *done = PyObject_CallNoArgs(step->noted);
  Py_XDECREF(done);
  return done ? 1 : -1;
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
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(all, step->gradients), "OO!O!", &g->slot, &PyBool_Type, &g->fresh,
        &PyBool_Type, &g->lost)) return -1;
    step->at_fresh = offset_of(Py_TYPE(g->slot), "fresh"), step->at_lost = offset_of(Py_TYPE(g->slot), "lost");
    if (PyErr_Occurred()) return -1;
  }
  return 0;
}

/* A Step of (prepare, noted, watched, clock, group, starts, stops, updated, gradients). */
static int read_step(Launcher *self, PyObject *all) {
  Step *step = self->step = PyMem_Calloc(1, sizeof(Step));
  PyObject *starts, *stops, *gradients;
  if (!step) { PyErr_NoMemory(); return -1; }
  step->all = Py_NewRef(all);
  if (!PyArg_ParseTuple(all, "OOO!O!O!O!O!O!O!", &step->prepare, &step->noted, &PyList_Type, &step->watched,
      &PyList_Type, &step->clock, &PyList_Type, &step->group,
                        &PyList_Type, &starts, &PyList_Type, &stops, &PyTuple_Type, &step->updated, &PyTuple_Type,
                            &gradients)) return -1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(step->updated); i++)
    if (Py_TYPE(PyTuple_GET_ITEM(step->updated, i)) != self->cls) {
      PyErr_SetString(PyExc_TypeError, "an updated array of another class"); return -1;
    }
  step->stretches = (int)PyList_GET_SIZE(starts);
  step->start = addresses(starts), step->stop = addresses(stops);
  if (PyErr_Occurred() || !step->start || !step->stop || PyList_GET_SIZE(stops) != step->stretches) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "stretches of memory have a start and a stop");
    return -1;
  }
  return read_gradients(step, gradients);
}
