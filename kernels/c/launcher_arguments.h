/* The arrays among a call's arguments: by position alone, or of any form that hybrid/base/pytree.py describes; and the
 * numbers that are inputs. */
typedef union { double real; int64_t integer; } Number;
typedef struct { const Launcher *self; void **table; PyObject **given; Number *number; int n, numbers; } Taken;

static int take(Taken *t, PyObject *x) {
  if (t->n == t->self->inputs) return 0;
  const Spec *spec = &t->self->input[t->n];
  void *at = NULL;
  PyObject *a = array_of(t->self, spec, x, &at);
  if (!a || (t->self->step && overlaps(t->self->step, at, spec->bytes))) return 0;
  t->table[spec->slot] = at;
  t->given[t->n++] = Py_NewRef(a);
  return 1;
}

static int is_plain(PyTypeObject *type) {
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type
      || type == &PyBytes_Type;
}

/* A number of the class that a form names, into the memory of its input: a real one, or an integer between two others.
 * An input of -1 reads it not. */
static int take_number(Taken *t, PyObject *form, PyObject *x) {
  if ((PyObject *)Py_TYPE(x) != PyTuple_GET_ITEM(form, 2)) return 0;
  long at = PyLong_AsLong(PyTuple_GET_ITEM(form, 1));
  if (at < 0) return 1;
  if (t->self->device || t->self->function) return 0;
  Number *number = &t->number[at];
  if (PyTuple_GET_ITEM(form, 3) == Py_None) {
    number->real = PyFloat_AsDouble(x);
    if (number->real == -1.0 && PyErr_Occurred()) return 0;
  } else {
    PyObject *plain = PyNumber_Index(x);
    int overflow = 1;
    long long value = plain ? PyLong_AsLongLongAndOverflow(plain, &overflow) : 0;
    Py_XDECREF(plain);
    if (overflow || value < PyLong_AsLongLong(PyTuple_GET_ITEM(form, 3))
        || value > PyLong_AsLongLong(PyTuple_GET_ITEM(form, 4))) return 0;
    number->integer = value;
  }
  t->table[t->self->input[at].slot] = number;
  t->numbers++;
  return 1;
}

static int take_form(Taken *t, PyObject *form, PyObject *x);

static int take_items(Taken *t, PyObject *forms, PyObject *const *items, Py_ssize_t n) {
  if (PyTuple_GET_SIZE(forms) != n) return 0;
  for (Py_ssize_t i = 0; i < n; i++) if (!take_form(t, PyTuple_GET_ITEM(forms, i), items[i])) return 0;
  return 1;
}

/* Another thread may change a list meanwhile, so that neither its items nor their places can be counted on. */
static int take_list(Taken *t, PyObject *forms, PyObject *list) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(forms); i++) {
    if (PyList_GET_SIZE(list) != PyTuple_GET_SIZE(forms)) return 0;
    PyObject *x = Py_NewRef(PyList_GET_ITEM(list, i));
    int fits = take_form(t, PyTuple_GET_ITEM(forms, i), x);
    Py_DECREF(x);
    if (!fits) return 0;
  }
  return PyList_GET_SIZE(list) == PyTuple_GET_SIZE(forms);
}

/* The order of the keys counts: a function may go through them. */
static int take_dict(Taken *t, PyObject *forms, PyObject *dict) {
  PyObject *key, *x;
  Py_ssize_t at = 0, n = PyTuple_GET_SIZE(forms);
  for (Py_ssize_t i = 0; i < n; i++) {
    if (PyDict_GET_SIZE(dict) != n || !PyDict_Next(dict, &at, &key, &x)) return 0;
    PyObject *pair = PyTuple_GET_ITEM(forms, i), *name = PyTuple_GET_ITEM(pair, 0);
    Py_INCREF(key), Py_INCREF(x);
    int fits = (key == name || PyObject_RichCompareBool(key, name, Py_EQ) == 1)
        && take_form(t, PyTuple_GET_ITEM(pair, 1), x);
    Py_DECREF(key), Py_DECREF(x);
    if (!fits) return 0;
  }
  return PyDict_GET_SIZE(dict) == n;
}

/* Whether an argument has a form; its arrays are taken in order. */
static int take_form(Taken *t, PyObject *form, PyObject *x) {
  if (PyUnicode_Check(form)) return take(t, x);
  PyObject *kind = PyTuple_GET_ITEM(form, 0), *rest = PyTuple_GET_ITEM(form, 1);
  if (kind == str_value) {
    PyObject *value = PyTuple_GET_ITEM(form, 2);
    if ((PyObject *)Py_TYPE(x) != rest) return 0;
    if (x == value || !is_plain(Py_TYPE(x))) return x == value;
    /* 0.0 and -0.0 */
    if (PyFloat_CheckExact(x) && signbit(PyFloat_AS_DOUBLE(x)) != signbit(PyFloat_AS_DOUBLE(value))) return 0;
    return PyObject_RichCompareBool(x, value, Py_EQ) == 1;
  }
  if (kind == str_number) return take_number(t, form, x);
  if (kind == str_list) return PyList_CheckExact(x) && take_list(t, rest, x);
  if (kind == str_tuple) return PyTuple_CheckExact(x)
      && take_items(t, rest, ((PyTupleObject *)x)->ob_item, PyTuple_GET_SIZE(x));
  return kind == str_dict && PyDict_CheckExact(x) && take_dict(t, rest, x);
}

static int take_all(Taken *t, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  PyObject *form = t->self->form;
  if (!form) {
    if (names || n != t->self->inputs) return 0;
    while (t->n < n) if (!take(t, args[t->n])) return 0;
    return 1;
  }
  PyObject *by_position = PyTuple_GET_ITEM(form, 0), *by_name = PyTuple_GET_ITEM(form, 1);
  if (PyTuple_GET_SIZE(by_name) != (names ? PyTuple_GET_SIZE(names) : 0) || !take_items(t, by_position, args, n))
      return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(by_name); i++) {
    PyObject *pair = PyTuple_GET_ITEM(by_name, i), *name = PyTuple_GET_ITEM(names, i),
        *wanted = PyTuple_GET_ITEM(pair, 0);
    /* their order counts, as that of a dict */
    if (name != wanted && PyUnicode_Compare(name, wanted)) return 0;
    if (!take_form(t, PyTuple_GET_ITEM(pair, 1), args[n + i])) return 0;
  }
  return t->n + t->numbers == t->self->inputs;
}

/* (forms of positional arguments, pairs of name and form): what take_form reads is there. */
static int check_one(PyObject *form, int inputs) {
  if (PyUnicode_Check(form)) return 0;
  PyObject *kind = PyTuple_Check(form) && PyTuple_GET_SIZE(form) > 1 ? PyTuple_GET_ITEM(form, 0) : NULL,
      *rest = kind ? PyTuple_GET_ITEM(form, 1) : NULL;
  if (kind == str_value && PyTuple_GET_SIZE(form) == 3) return 0;
  if (kind == str_number && PyTuple_GET_SIZE(form) == 5) return PyLong_AsLong(rest) >= inputs
      || !PyType_Check(PyTuple_GET_ITEM(form, 2));
  int wrong = !rest || !PyTuple_Check(rest) || (kind != str_list && kind != str_tuple && kind != str_dict);
  for (Py_ssize_t i = 0; !wrong && i < PyTuple_GET_SIZE(rest); i++) {
    PyObject *item = PyTuple_GET_ITEM(rest, i);
    if (kind != str_dict) wrong = check_one(item, inputs);
    else wrong = !PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2 || check_one(PyTuple_GET_ITEM(item, 1), inputs);
  }
  return wrong;
}

static int check_form(PyObject *form, int inputs) {
  if (!form) return 0;
  PyObject *both = PyTuple_Check(form) && PyTuple_GET_SIZE(form) == 2 ? form : NULL;
  PyObject *first = both ? Py_BuildValue("(OO)", str_tuple, PyTuple_GET_ITEM(form, 0)) : NULL,
      *second = both ? Py_BuildValue("(OO)", str_dict, PyTuple_GET_ITEM(form, 1)) : NULL;
  int wrong = !first || !second || check_one(first, inputs) || check_one(second, inputs);
  Py_XDECREF(first); Py_XDECREF(second);
  if (wrong && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a form of arguments that is none");
  return wrong;
}
