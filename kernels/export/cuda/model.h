
/* ---- the model: its module, and its memory on the GPU ---------------------------------------------------------------- */
struct @name@_model {
  hy_driver cuda;
  void *library, *context, *module, *functions[HY_KERNELS + 1];
  int device, retained;
  hy_device_pointer arrays, work;       /* weights; inputs, results and intermediate values */
  hy_device_pointer table[HY_PLACES + 1];
  pthread_mutex_t lock;                 /* of a call: its memory is the model's */
};

/* The program for the GPU's architecture: its own, or that of an earlier GPU of its family; else text for the driver. */
static const hy_image *hy_image_for(int major, int minor) {
  const hy_image *best = NULL;
  for (int i = 0; i < HY_IMAGES; i++) {
    const hy_image *one = &hy_images[i];
    const int newer = one->major > major || (one->major == major && one->minor > minor);
    if (newer || (!one->text && one->major != major)) continue;
    if (!best || best->text > one->text || (best->text == one->text && best->major * 100 + best->minor < one->major * 100 + one->minor)) best = one;
  }
  return best;
}

static int hy_begin(@name@_model *m) {
  int major = 0, minor = 0;
  if (!hy_open_driver(&m->cuda, &m->library)) return 0;
  if (m->cuda.init(0) || m->cuda.device(&m->device, 0) || m->cuda.retain(&m->context, m->device)) return 0;
  m->retained = 1;
  if (m->cuda.attribute(&major, 75, m->device) || m->cuda.attribute(&minor, 76, m->device)) return 0;
  const hy_image *image = hy_image_for(major, minor);
  if (!image || m->cuda.push(m->context)) return 0;
  int done = !m->cuda.load(&m->module, image->bytes);
  for (int i = 0; done && i < HY_KERNELS; i++) done = !m->cuda.function(&m->functions[i], m->module, hy_kernels[i]);
  for (int i = 0; done && i < HY_LAUNCHES; i++)        /* 8: the most dynamic shared memory */
    if (hy_launches[i].shared > 48 * 1024) done = !m->cuda.allow(m->functions[hy_launches[i].kernel], 8, (int)hy_launches[i].shared);
  done = done && !m->cuda.allocate(&m->arrays, HY_ARRAYS_BYTES) && !m->cuda.allocate(&m->work, HY_WORK_BYTES);
  for (int i = 0; i < HY_PLACES; i++) m->table[i] = (hy_where[i].weight ? m->arrays : m->work) + hy_where[i].offset;
  void *mine;
  m->cuda.pop(&mine);
  return done;
}

@name@_model *@name@_load_bytes(const void *bytes, size_t size, int *error) {
  if (!bytes) { hy_set(error, @NAME@_ERROR_ARGUMENT); return NULL; }
  @name@_model *m = (@name@_model *)calloc(1, sizeof *m);
  char *staged = (char *)malloc(HY_ARRAYS_BYTES), *to[HY_WEIGHTS + 1] = {0};
  int code = m && staged ? @NAME@_OK : @NAME@_ERROR_MEMORY;
  for (int i = 0; !code && i < HY_WEIGHTS; i++) to[i] = staged + hy_weight_offsets[i];
  if (!code) code = hy_read_weights((const unsigned char *)bytes, size, to);
  if (m) pthread_mutex_init(&m->lock, NULL);
  if (!code && !hy_begin(m)) code = @NAME@_ERROR_DEVICE;
  if (!code) {
    void *mine;
    if (m->cuda.push(m->context) || m->cuda.to_device(m->arrays, staged, HY_ARRAYS_BYTES)) code = @NAME@_ERROR_DEVICE;
    m->cuda.pop(&mine);
  }
  free(staged);
  hy_set(error, code);
  if (code) { @name@_free(m); return NULL; }
  return m;
}

void @name@_free(@name@_model *m) {
  if (!m) return;
  if (m->retained && !m->cuda.push(m->context)) {
    void *mine;
    if (m->arrays) m->cuda.give_back(m->arrays);
    if (m->work) m->cuda.give_back(m->work);
    if (m->module) m->cuda.unload(m->module);
    m->cuda.pop(&mine);
  }
  if (m->retained) m->cuda.release(m->device);
  if (m->library) dlclose(m->library);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

int @name@_set_threads(@name@_model *m, int threads) { return !m || threads < 1 || threads > 1024 ? @NAME@_ERROR_ARGUMENT : @NAME@_OK; }

/* The memory of a call is on the GPU, and the model's. */
size_t @name@_workspace_bytes(const @name@_model *m) { return m ? 1 : 0; }
