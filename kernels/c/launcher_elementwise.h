/* Elementwise(inputs, constants, temporaries, (dtype, shape) of the result, steps, otherwise, np.ufunc): a program of
 * elementwise functions as a list of NumPy's own inner loops, called as a function of raw arrays. Blocks of elements go
 * through all steps, so that what lies between them stays in cache, and a call has none of NumPy's dispatching.
 *
 * inputs: (dtype, whether it has the result's elements, or one) of each. constants: arrays without axes. A step: (a
 * universal function, or the name of a loop in launcher_loops.h; registers of its arguments and, last, of its result;
 * their dtypes). Registers are numbered: inputs, constants, temporaries, the result. otherwise: a function of the same
 * arrays, for those that are large and no block of memory; last NumPy's class of universal functions. ValueError for
 * what has no inner loop.
 */
#include <numpy/ufuncobject.h>
enum { MOST_ARGUMENTS = 5, MOST_STEPS = 64, MOST_REGISTERS = 96, BLOCK = 2048, WIDEST = 8, ON_STACK = 4096,
    MOST_COPIED = 1 << 14, WITHOUT_LOCK = 4096 };
typedef struct { Loop loop; void *data; int count, reg[MOST_ARGUMENTS]; npy_intp stride[MOST_ARGUMENTS]; } Work;
typedef struct {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *keep, *otherwise;                  /* keep: the constants */
  PyArray_Descr *descr;                        /* of the result */
  int inputs, constants, temporaries, works, ndim, type[MOST_INPUTS];
  npy_intp dims[NPY_MAXDIMS], n, stride[MOST_REGISTERS];
  char *constant[MOST_REGISTERS];
  Work *work;
} Elementwise;

static int held_by(const PyArray_Descr *d, npy_intp size) {
  if (d->kind == 'b') return HELD_b;
  if (d->kind == 'f') return size == 2 ? HELD_f16 : size == 4 ? HELD_f32 : size == 8 ? HELD_f64 : -1;
  if (d->kind == 'u') return size == 1 ? HELD_u8 : -1;
  return d->kind != 'i' ? -1 : size == 1 ? HELD_i8 : size == 4 ? HELD_i32 : size == 8 ? HELD_i64 : -1;
}

static void copy_of(char **p, npy_intp const *n, npy_intp const *s, void *data) {
  if (s[0] == s[1]) { memcpy(p[1], p[0], *n * s[1]); return; }
  for (npy_intp i = 0; i < *n; i++) memcpy(p[1] + i * s[1], p[0] + i * s[0], s[1]);
}

static npy_intp itemsize_of(PyArray_Descr *d) {                /* where it lies differs between versions of NumPy */
  PyObject *size = PyObject_GetAttrString((PyObject *)d, "itemsize");
  npy_intp out = size ? PyLong_AsSsize_t(size) : -1;
  Py_XDECREF(size);
  return out;
}

/* ---- calls */
/* All steps, block by block. */
static void follow(const Elementwise *self, char **input, char *out, char *scratch) {
  const int first = self->inputs + self->constants, last = first + self->temporaries;
  npy_intp block = self->works == 1 || self->n < BLOCK ? self->n : BLOCK, room = (block * WIDEST + 63) / 64 * 64;
  char *at[MOST_REGISTERS], *p[MOST_ARGUMENTS];
  for (int r = 0; r < self->inputs; r++) at[r] = input[r];
  for (int r = self->inputs; r < first; r++) at[r] = self->constant[r];
  for (int r = first; r < last; r++) at[r] = scratch + (r - first) * room;
  at[last] = out;
  for (npy_intp start = 0; start < self->n; start += block) {
    npy_intp n = self->n - start < block ? self->n - start : block;
    for (const Work *w = self->work; w < self->work + self->works; w++) {
      for (int k = 0; k < w->count; k++) p[k] = at[w->reg[k]];
      w->loop(p, &n, w->stride, w->data);
    }
    for (int r = 0; r < self->inputs; r++) at[r] += n * self->stride[r];
    at[last] += n * self->stride[last];
  }
}

/* Whether an array has a dtype, under whichever name: int64 is long and long long. */
static int is_of(const PyArrayObject *x, int type) {
  return (PyArray_DESCR(x)->type_num == type || PyArray_EquivTypenums(PyArray_DESCR(x)->type_num, type))
      && PyArray_ISNOTSWAPPED(x);
}

/* The memory of an argument that has the right dtype and size: 1; 0: one that has to be left to the other function; -1:
 * an error. held: a copy that has to be dropped. */
static int read_argument(const Elementwise *self, int i, PyObject *given, char **data, PyObject **held) {
  PyArrayObject *x = (PyArrayObject *)given;
  if (!PyArray_Check(given) || !is_of(x, self->type[i]) || PyArray_SIZE(x) != (self->stride[i] ? self->n : 1)) {
    PyErr_SetString(PyExc_TypeError, "an elementwise program is called with arrays of other dtypes or sizes");
    return -1;
  }
  if (!PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISALIGNED(x)) {
    if (self->n > MOST_COPIED) return 0;
    if (!(*held = PyArray_NewCopy(x, NPY_CORDER))) return -1;
    x = (PyArrayObject *)*held;
  }
  *data = PyArray_DATA(x);
  return 1;
}

static int follow_into(const Elementwise *self, char **input, PyObject *out) {
  npy_intp block = self->n < BLOCK ? self->n : BLOCK;
  size_t bytes = self->works == 1 ? 0 : (size_t)(block * WIDEST + 63) / 64 * 64 * self->temporaries;
  char here[ON_STACK], *scratch = bytes <= sizeof here ? here : PyMem_RawMalloc(bytes);
  if (!scratch) { PyErr_NoMemory(); return -1; }
  if (self->n < WITHOUT_LOCK) follow(self, input, PyArray_DATA((PyArrayObject *)out), scratch);
  else {
    Py_BEGIN_ALLOW_THREADS
    follow(self, input, PyArray_DATA((PyArrayObject *)out), scratch);
    Py_END_ALLOW_THREADS
  }
  if (scratch != here) PyMem_RawFree(scratch);
  return PyErr_Occurred() ? -1 : 0;            /* of loops of integers */
}

static PyObject *elementwise_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
  Elementwise *self = (Elementwise *)object;
  if (names || PyVectorcall_NARGS(nargsf) != self->inputs) {
    PyErr_SetString(PyExc_TypeError, "an elementwise program takes its arrays by position"); return NULL;
  }
  PyObject *held[MOST_INPUTS] = {NULL}, *out = NULL;
  char *input[MOST_INPUTS];
  int go = 1;
  for (int i = 0; go == 1 && i < self->inputs; i++) go = read_argument(self, i, args[i], &input[i], &held[i]);
  if (go == 0) out = PyObject_Vectorcall(self->otherwise, args, nargsf, NULL);
  else if (go == 1 && (out =
      PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef((PyObject *)self->descr), self->ndim, self->dims,
      NULL, NULL, 0, NULL))) {
    Py_INCREF(self);                           /* another thread may drop it while this one is without the lock */
    if (follow_into(self, input, out)) Py_CLEAR(out);
    Py_DECREF(self);
  }
  for (int i = 0; i < self->inputs; i++) Py_XDECREF(held[i]);
  return out;
}

/* ---- making one */
static int plain_type(const PyArray_Descr *d) {
  return (d->type_num <= NPY_DOUBLE || d->type_num == NPY_HALF) && PyArray_ISNBO(d->byteorder);
}

/* NumPy's inner loop of a universal function for the dtypes of its arguments and its result: 1, or 0. */
static int loop_of_ufunc(PyObject *function, PyArray_Descr **dtypes, Work *w) {
  PyUFuncObject *u = (PyUFuncObject *)function;
  if (u->core_enabled || u->nout != 1 || u->nin + 1 != w->count) return 0;
  for (int i = 0; i < u->ntypes; i++) {
    int k = 0;
    while (k < w->count && u->types[i * w->count + k] == dtypes[k]->type_num) k++;
    if (k == w->count && u->functions[i]) {
      w->loop = u->functions[i], w->data = u->data ? (void *)u->data[i] : NULL;
      return 1;
    }
  }
  return 0;
}

static int loop_of(PyObject *function, PyArray_Descr **dtypes, Work *w) {
  npy_intp size = itemsize_of(dtypes[w->count - 1]);
  w->data = NULL;
  if (!PyUnicode_Check(function)) return loop_of_ufunc(function, dtypes, w);
  const int held = held_by(dtypes[0], itemsize_of(dtypes[0]));
  const char *name = PyUnicode_AsUTF8(function);
  if (!name) { PyErr_Clear(); return 0; }
  if (strcmp(name, "where") == 0) { if (w->count == 4 && held == HELD_b) w->loop = where_loop(size); }
  else if (strcmp(name, "cast") == 0) {
    if (w->count == 2) w->loop = dtypes[0]->type_num == dtypes[1]->type_num ? copy_of
        : cast_loop(held, held_by(dtypes[1], size));
  }
  else if (dtypes[0]->type_num == dtypes[w->count - 1]->type_num) {
    w->loop = float_loop(name, w->count, held);
    if (!w->loop) w->loop = integer_loop(name, w->count, held);
  }
  return w->loop != NULL;
}

static int read_work(Elementwise *self, PyObject *given, PyObject *ufunc, Work *w) {
  PyObject *function, *registers, *dtypes;
  PyArray_Descr *d[MOST_ARGUMENTS];
  if (!PyArg_ParseTuple(given, "OO!O!", &function, &PyTuple_Type, &registers, &PyTuple_Type, &dtypes)) return -1;
  w->count = (int)PyTuple_GET_SIZE(registers);
  int fits = w->count >= 2 && w->count <= MOST_ARGUMENTS && PyTuple_GET_SIZE(dtypes) == w->count
      && (PyUnicode_Check(function) || PyObject_IsInstance(function, ufunc) == 1);
  const int count = self->inputs + self->constants + self->temporaries + 1;
  for (int k = 0; fits && k < w->count; k++) {
    w->reg[k] = (int)PyLong_AsLong(PyTuple_GET_ITEM(registers, k));
    d[k] = (PyArray_Descr *)PyTuple_GET_ITEM(dtypes, k);
    fits = PyArray_DescrCheck((PyObject *)d[k]) && plain_type(d[k]) && w->reg[k] >= 0 && w->reg[k] < count;
    if (fits && w->reg[k] < self->inputs) fits = d[k]->type_num == self->type[w->reg[k]] && k + 1 < w->count;
    if (fits) w->stride[k] = w->reg[k] < self->inputs + self->constants ? self->stride[w->reg[k]] : itemsize_of(d[k]);
  }
  if (!fits || w->reg[w->count - 1] < self->inputs + self->constants || !loop_of(function, d, w)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a step has no inner loop");
    return -1;
  }
  return 0;
}

static int read_registers(Elementwise *self, PyObject *inputs, PyObject *constants) {
  self->inputs = (int)PyTuple_GET_SIZE(inputs), self->constants = (int)PyTuple_GET_SIZE(constants);
  for (int i = 0; i < self->inputs; i++) {
    PyArray_Descr *d;
    int whole;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(inputs, i), "O!p", &PyArrayDescr_Type, &d, &whole)) return -1;
    if (!plain_type(d)) { PyErr_SetString(PyExc_ValueError, "a dtype has no inner loops"); return -1; }
    self->type[i] = d->type_num, self->stride[i] = whole ? itemsize_of(d) : 0;
  }
  for (int i = 0; i < self->constants; i++) {
    PyObject *x = PyTuple_GET_ITEM(constants, i);
    if (!PyArray_Check(x) || PyArray_SIZE((PyArrayObject *)x) != 1 || !plain_type(PyArray_DESCR((PyArrayObject *)x))) {
      PyErr_SetString(PyExc_ValueError, "a constant is an array of one number"); return -1;
    }
    self->constant[self->inputs + i] = PyArray_DATA((PyArrayObject *)x), self->stride[self->inputs + i] = 0;
  }
  return 0;
}

static int read_result(Elementwise *self, PyObject *shape) {
  self->ndim = (int)PyTuple_GET_SIZE(shape), self->n = 1;
  if (self->ndim > NPY_MAXDIMS || !plain_type(self->descr)) {
    PyErr_SetString(PyExc_ValueError, "a result has no inner loops"); return -1;
  }
  for (int i = 0; i < self->ndim; i++) self->n *= self->dims[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
  self->stride[self->inputs + self->constants + self->temporaries] = itemsize_of(self->descr);
  return PyErr_Occurred() ? -1 : 0;
}

static PyObject *elementwise_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *inputs, *constants, *shape, *works, *otherwise, *ufunc;
  PyArray_Descr *descr;
  int temporaries;
  if (!PyArg_ParseTuple(args, "O!O!i(O!O!)O!OO!", &PyTuple_Type, &inputs, &PyTuple_Type, &constants, &temporaries,
      &PyArrayDescr_Type, &descr, &PyTuple_Type, &shape,
                        &PyTuple_Type, &works, &otherwise, &PyType_Type, &ufunc)) return NULL;
  if (PyTuple_GET_SIZE(inputs) > MOST_INPUTS || PyTuple_GET_SIZE(works) > MOST_STEPS || !PyTuple_GET_SIZE(works)
      || temporaries < 0
      || PyTuple_GET_SIZE(inputs) + PyTuple_GET_SIZE(constants) + temporaries >= MOST_REGISTERS)
          return PyErr_Format(PyExc_ValueError, "a program is too long");
  Elementwise *self = (Elementwise *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->call = elementwise_call, self->temporaries = temporaries, self->works = (int)PyTuple_GET_SIZE(works);
  self->keep = PyTuple_Pack(2, constants, works), self->otherwise = Py_NewRef(otherwise),
      self->descr = (PyArray_Descr *)Py_NewRef((PyObject *)descr);
  self->work = PyMem_Calloc(self->works, sizeof(Work));
  int wrong = !self->keep || !self->work || read_registers(self, inputs, constants) || read_result(self, shape);
  for (int i = 0; !wrong && i < self->works; i++) wrong =
      read_work(self, PyTuple_GET_ITEM(works, i), ufunc, &self->work[i]);
  if (wrong) Py_CLEAR(self);
  return (PyObject *)self;
}

static void elementwise_dealloc(PyObject *object) {
  Elementwise *self = (Elementwise *)object;
  PyMem_Free(self->work);
  Py_XDECREF(self->keep); Py_XDECREF(self->otherwise); Py_XDECREF((PyObject *)self->descr);
  Py_TYPE(object)->tp_free(object);
}

static PyMemberDef elementwise_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Elementwise, call), READONLY},
    {"works", T_INT, offsetof(Elementwise, works), READONLY},
  {"otherwise", T_OBJECT_EX, offsetof(Elementwise, otherwise), READONLY}, {0}};
static PyTypeObject ElementwiseType = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "hybrid_launcher.Elementwise", .tp_basicsize = sizeof(Elementwise),
      .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
  .tp_new = elementwise_new, .tp_dealloc = elementwise_dealloc, .tp_call = PyVectorcall_Call,
      .tp_vectorcall_offset = offsetof(Elementwise, call), .tp_members = elementwise_members,
};
