/* Calls of a program on a GPU (hybrid/runtime/cuda/bound.py): arrays of CuPy, launches through device_plan.c. */
typedef int (*DeviceRun)(void *plan, void *const *table, void *stream, int capturing, int *failed);
enum { RING = 4 };                             /* results of a kind whose memory may be used again */

/* A result's memory: it is used again where only the ring holds the array, its pointer and the pool's block, so that
 * there is no view of it either, and on the stream that it was made for, whose kernels wait for each other. */
typedef struct {
  PyObject *raw, *data, *memory;
  Py_ssize_t data_holders, memory_holders;
  void *at, *stream;
} Slot;
typedef struct { const void *host; int entry, count; } Numbers;

typedef struct {
  DeviceRun run;
  int (*capturing)(const void *driver, void *stream);
  void *(*current)(const void *driver);
  void *plan, *context;
  const void *driver;
  PyObject *all;                               /* the tuple that it was read from: keeps every object here */
  PyObject *stream_of, *array, *arena_of, *failed;
  int numbers, keeps_arena, outputs;
  Numbers *number;                             /* given by value at each call */
  Slot *ring;                                  /* RING for each result */
  int *turn;                                   /* which of them makes room next */
  void *stream, *arena_at;                     /* of the last call */
  PyObject *arena;
} Device;

static int address_of(PyObject *object, PyObject *name, void **out) {
  PyObject *number = PyObject_GetAttr(object, name);
  if (!number) return 0;
  *out = (void *)PyLong_AsSize_t(number);
  Py_DECREF(number);
  return !PyErr_Occurred();
}

static int is_true(PyObject *object, PyObject *name) {
  PyObject *answer = PyObject_GetAttr(object, name);
  int yes = answer && PyObject_IsTrue(answer) == 1;
  Py_XDECREF(answer);
  return yes;
}

/* Whether CuPy's array is what the program was compiled for, and where it lies. */
static int fits_device(const Device *device, const Spec *spec, PyObject *raw, void **at) {
  if ((PyObject *)Py_TYPE(raw) != device->array) return 0;
  PyObject *shape = PyObject_GetAttr(raw, str_shape), *dtype = PyObject_GetAttr(raw, str_dtype);
  PyObject *flags = NULL, *data = NULL;
  int fits = shape && dtype && PyObject_RichCompareBool(shape, spec->shape, Py_EQ) == 1 && PyArray_DescrCheck(dtype)
    && (dtype == (PyObject *)spec->descr || PyArray_EquivTypes((PyArray_Descr *)dtype, spec->descr))
    && (flags = PyObject_GetAttr(raw, str_flags)) && is_true(flags, str_c_contiguous)
    && (data = PyObject_GetAttr(raw, str_data)) && address_of(data, str_ptr, at) && (uintptr_t)*at % 16 == 0;
  Py_XDECREF(shape); Py_XDECREF(dtype); Py_XDECREF(flags); Py_XDECREF(data);
  return fits;
}

static void clear_slot(Slot *slot) {
  Slot old = *slot;
  memset(slot, 0, sizeof *slot);
  Py_XDECREF(old.raw); Py_XDECREF(old.data); Py_XDECREF(old.memory);
}

static int is_free(const Slot *s, void *stream) {
  return s->raw && s->stream == stream && Py_REFCNT(s->raw) == 1 && Py_REFCNT(s->data) <= s->data_holders
    && Py_REFCNT(s->memory) <= s->memory_holders;
}

/* A result's array (a new reference) and its address: one of the ring's that nobody holds, else a new one. */
static PyObject *result(Device *device, int i, PyObject *make, const Spec *spec, void *stream, void **at) {
  Slot *ring = device->ring + i * RING;
  for (Slot *s = ring; s < ring + RING; s++) if (is_free(s, stream)) {
    PyObject *raw = Py_NewRef(s->raw), *shape = PyObject_GetAttr(raw, str_shape);
    int same = shape && PyObject_RichCompareBool(shape, spec->shape, Py_EQ) == 1 && Py_REFCNT(raw) == 2;
    *at = s->at;
    Py_XDECREF(shape);
    if (same) return raw;
    Py_DECREF(raw);
  }
  PyObject *made = PyObject_CallNoArgs(make), *raw, *address, *data, *reusable;
  if (!made) return NULL;
  if (!PyArg_ParseTuple(made, "OOOO", &raw, &address, &data, &reusable)) { Py_DECREF(made); return NULL; }
  *at = (void *)PyLong_AsSize_t(address);
  Py_INCREF(raw), Py_INCREF(data);
  int keep = reusable == Py_True && !PyErr_Occurred();
  Py_DECREF(made);
  PyObject *memory = keep ? PyObject_GetAttr(data, str_mem) : NULL;
  if (!memory) { Py_DECREF(data); if (keep) PyErr_Clear(); return raw; }
  Slot *s = ring + (device->turn[i] = (device->turn[i] + 1) % RING), old = *s;
  *s = (Slot){Py_NewRef(raw), data, memory, Py_REFCNT(data), Py_REFCNT(memory), *at, stream};
  Py_XDECREF(old.raw); Py_XDECREF(old.data); Py_XDECREF(old.memory);
  return raw;
}

/* The working memory for a stream (a new reference to what holds it); NULL with an error. */
static PyObject *arena_for(Device *device, void *stream, void **at) {
  if (device->arena && device->stream == stream) { *at = device->arena_at; return Py_NewRef(device->arena); }
  PyObject *number = PyLong_FromVoidPtr(stream), *both = number ? PyObject_CallOneArg(device->arena_of, number) : NULL;
  Py_XDECREF(number);
  if (!both) return NULL;
  *at = (void *)PyLong_AsSize_t(PyTuple_GET_ITEM(both, 0));
  if (device->keeps_arena) {
    PyObject *old = device->arena;
    device->arena = Py_NewRef(both), device->arena_at = *at, device->stream = stream;
    Py_XDECREF(old);
  }
  return both;
}

/* 1 and CuPy's current stream; 0: the slow path (another device is current, or the stream is captured). */
static int stream_now(const Device *device, void **stream) {
  PyObject *number = PyObject_CallNoArgs(device->stream_of);
  if (!number) return 0;
  *stream = (void *)PyLong_AsSize_t(number);
  Py_DECREF(number);
  return !PyErr_Occurred() && (uintptr_t)*stream != 2       /* a thread's own: one number for many streams */
    && device->current(device->driver) == device->context && !device->capturing(device->driver, *stream);
}

/* 0, or -1 with an error. */
static int run_device(Device *device, void **table, int arena_slot, void *stream) {
  PyObject *arena = arena_for(device, stream, &table[arena_slot]);
  if (!arena) return -1;
  for (const Numbers *n = device->number; n < device->number + device->numbers; n++)
    memcpy(table + n->entry, n->host, n->count * sizeof(void *));
  int code, failed = 0;
  Py_BEGIN_ALLOW_THREADS
  code = device->run(device->plan, table, stream, 0, &failed);
  Py_END_ALLOW_THREADS
  Py_DECREF(arena);
  if (!code) return 0;
  PyObject *raised = PyObject_CallFunction(device->failed, "ii", code, failed);
  Py_XDECREF(raised);
  return -1;
}

static void drop_device(Device *device) {
  if (!device) return;
  for (int i = 0; device->ring && i < RING * device->outputs; i++) clear_slot(&device->ring[i]);
  Py_XDECREF(device->arena);
  Py_XDECREF(device->all);
  PyMem_Free(device->ring);
  PyMem_Free(device->turn);
  PyMem_Free(device->number);
  PyMem_Free(device);
}

/* A Device of (run, capturing, current, plan, driver, context, stream, array class, working memory, error, kept,
 * numbers, whether working memory is kept); kept: (entry, address) of what is the same in each call, into the table.
 * NULL with an error. */
static Device *read_device(PyObject *all, int outputs, void **table, int slots) {
  unsigned long long run, capturing, current, plan, driver, context, host, at;
  PyObject *kept, *numbers;
  Device *d = PyMem_Calloc(1, sizeof *d);
  if (!d) { PyErr_NoMemory(); return NULL; }
  d->all = Py_NewRef(all), d->outputs = outputs;
  if (!PyArg_ParseTuple(all, "KKKKKKOOOOO!O!p", &run, &capturing, &current, &plan, &driver, &context, &d->stream_of,
                        &d->array, &d->arena_of, &d->failed, &PyTuple_Type, &kept, &PyTuple_Type, &numbers,
                        &d->keeps_arena)) goto wrong;
  d->run = (DeviceRun)(uintptr_t)run, d->capturing = (int (*)(const void *, void *))(uintptr_t)capturing;
  d->current = (void *(*)(const void *))(uintptr_t)current;
  d->plan = (void *)(uintptr_t)plan, d->context = (void *)(uintptr_t)context;
  d->driver = (const void *)(uintptr_t)driver;
  d->ring = PyMem_Calloc(RING * outputs + 1, sizeof(Slot)), d->turn = PyMem_Calloc(outputs + 1, sizeof(int));
  d->number = PyMem_Calloc(PyTuple_GET_SIZE(numbers) + 1, sizeof(Numbers));
  if (!d->ring || !d->turn || !d->number) { PyErr_NoMemory(); goto wrong; }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kept); i++) {
    int slot;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(kept, i), "iK", &slot, &at)) goto wrong;
    if (slot < 0 || slot >= slots) {
      PyErr_SetString(PyExc_ValueError, "an entry outside of the table");
      goto wrong;
    }
    table[slot] = (void *)(uintptr_t)at;
  }
  for (; d->numbers < PyTuple_GET_SIZE(numbers); d->numbers++) {
    Numbers *n = &d->number[d->numbers];
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(numbers, d->numbers), "Kii", &host, &n->entry, &n->count)) goto wrong;
    n->host = (const void *)(uintptr_t)host;
  }
  return d;
wrong:
  drop_device(d);
  return NULL;
}
