/* Operators as events of a Track (launcher_rounds.h), as the dispatcher calls them: (operator, class, which of its
 * inputs are there, how many arrays it writes into, ((name of an attribute, value, its class), ...)). In the place of
 * a number that may differ from round to round stands its class alone, as the value. */
static int check_operator(Event *e) {
  if (e->operator == Py_None) { e->operator = NULL; return 0; }
  PyObject *d, *cls, *given, *attrs, *name, *value, *kind;
  int outs, numbers = 0, inputs = 0;
  if (!PyArg_ParseTuple(e->operator, "OOO!iO!", &d, &cls, &PyTuple_Type, &given, &outs, &PyTuple_Type, &attrs))
      return -1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(attrs); i++) {
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(attrs, i), "UOO", &name, &value, &kind)) return -1;
    numbers += value == kind;                  /* a number's class */
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++) inputs += PyTuple_GET_ITEM(given, i) == Py_True;
  if (numbers == e->numbers && numbers < 2 && inputs + outs == e->inputs && outs < 2) return 0;
  PyErr_SetString(PyExc_ValueError, "another number of inputs or numbers");
  return -1;
}

/* Whether attributes are those of an event; the number among them, if it takes one. */
static int same_attributes(PyObject *expected, PyObject *attrs, PyObject **number) {
  if (PyDict_GET_SIZE(attrs) != PyTuple_GET_SIZE(expected)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(expected); i++) {
    PyObject *three = PyTuple_GET_ITEM(expected, i), *now = PyDict_GetItemWithError(attrs, PyTuple_GET_ITEM(three, 0)),
        *value = PyTuple_GET_ITEM(three, 1), *kind = PyTuple_GET_ITEM(three, 2);
    if (!now || (value != now && (PyObject *)Py_TYPE(now) != kind)) return 0;
    if (value == kind) {
      if (PyFloat_CheckExact(now) && !isfinite(PyFloat_AS_DOUBLE(now))) return 0;
      *number = now;
    } else if (value != now) {
      if (PyObject_RichCompareBool(now, value, Py_EQ) != 1) return 0;
      if (PyFloat_CheckExact(now) && signbit(PyFloat_AS_DOUBLE(now)) != signbit(PyFloat_AS_DOUBLE(value))) return 0;
    }
  }
  return 1;
}

/* operator(d, inputs, attributes, class, array to write into or None): as ``take`` for a call of an operator. */
static PyObject *track_operator(PyObject *object, PyObject *const *args, Py_ssize_t n) {
  Track *self = (Track *)object;
  const Event *e = self->at < self->events ? &self->event[self->at] : NULL;
  int at = self->at, found = 0;
  if (n != 5 || !e || !e->operator || !(PyTuple_CheckExact(args[1]) || PyList_CheckExact(args[1]))
      || !PyDict_CheckExact(args[2])) return not_followed();
  PyObject *what = e->operator, *given = PyTuple_GET_ITEM(what, 2), *number = NULL, *xs[e->inputs + 1];
  Py_ssize_t inputs = PySequence_Fast_GET_SIZE(args[1]);
  if (PyTuple_GET_ITEM(what, 0) != args[0] || PyTuple_GET_ITEM(what, 1) != args[3] || PyTuple_GET_SIZE(given) != inputs)
      return not_followed();
  for (Py_ssize_t i = 0; i < inputs; i++) {
    PyObject *x = PySequence_Fast_GET_ITEM(args[1], i);
    if ((PyTuple_GET_ITEM(given, i) == Py_True) != (x != Py_None)) return not_followed();
    if (x != Py_None) xs[found++] = x;
  }
  if ((found < e->inputs) != (args[4] != Py_None)) return not_followed();
  if (found < e->inputs) xs[found] = args[4];
  if (!same_attributes(PyTuple_GET_ITEM(what, 4), args[2], &number) || !places_hold(e->places) || at != self->at)
      return not_followed();
  Py_INCREF(self);
  Py_XINCREF(number);
  PyObject *out = put_off(self, e, xs, &number);
  Py_XDECREF(number);
  Py_DECREF(self);
  return out;
}
