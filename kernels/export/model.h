
static char *hy_aligned(void *p) { return (char *)p + (64 - ((uintptr_t)p & 63)) % 64; }

/* Puts the weights where the program finds them, and computes what it takes from them. */
static int hy_fill(@name@_model *m, const unsigned char *bytes, size_t size) {
  char *to[HY_WEIGHTS + 1] = {0};
  void *temporary = HY_TEMPORARY_BYTES > 0 ? malloc(HY_TEMPORARY_BYTES + 64) : NULL;
  if (HY_TEMPORARY_BYTES > 0 && !temporary) return @NAME@_ERROR_MEMORY;
  char *once = temporary ? hy_aligned(temporary) : NULL;
  for (int i = 0; i < HY_WEIGHTS; i++) to[i] = (hy_places[i].kept ? m->arrays : once) + hy_places[i].offset;
  const int error = hy_read_weights(bytes, size, to);
  if (!error) hy_prepare(m, once);
  free(temporary);
  return error;
}

/* Large weights begin at a huge page, and the system is asked for such pages: fewer misses of address translation. */
enum { HY_UNIT = HY_ARRAYS_BYTES < 1 << 21 ? 64 : 1 << 21 };

@name@_model *@name@_load_bytes(const void *bytes, size_t size, int *error) {
  if (!bytes) { hy_set(error, @NAME@_ERROR_ARGUMENT); return NULL; }
  @name@_model *m = (@name@_model *)calloc(1, sizeof *m);
  if (m && !(m->allocated = malloc((size_t)HY_ARRAYS_BYTES + HY_UNIT))) { free(m); m = NULL; }
  if (!m) { hy_set(error, @NAME@_ERROR_MEMORY); return NULL; }
  m->arrays = (char *)m->allocated + (HY_UNIT - ((uintptr_t)m->allocated & (HY_UNIT - 1))) % HY_UNIT, m->threads = 1;
#ifdef MADV_HUGEPAGE
  if (HY_UNIT > 64) madvise(m->arrays, HY_ARRAYS_BYTES, MADV_HUGEPAGE);
#endif
  const int code = hy_fill(m, (const unsigned char *)bytes, size);
  hy_set(error, code);
  if (code) { @name@_free(m); return NULL; }
  return m;
}

void @name@_free(@name@_model *m) {
  if (!m) return;
#if HY_THREADED
  hy_pool_free(m->pool);
#endif
  free(m->allocated), free(m);
}

int @name@_set_threads(@name@_model *m, int threads) {
  if (!m || threads < 1 || threads > 1024) return @NAME@_ERROR_ARGUMENT;
#if HY_THREADED
  hy_pool *pool = threads > 1 ? hy_pool_new(threads - 1) : NULL;
  if (threads > 1 && !pool) return @NAME@_ERROR_THREADS;
  hy_pool_free(m->pool);
  m->pool = pool, m->threads = threads;
  return @NAME@_OK;
#elif HY_LOOPS
  return threads > 1 ? @NAME@_ERROR_THREADS : @NAME@_OK;
#else
  return @NAME@_OK;                     /* no loop is worth several threads */
#endif
}

size_t @name@_workspace_bytes(const @name@_model *m@SIZES_TYPE@) {
  return m@AND_FIT@ ? 64 + (size_t)HY_WORKSPACE_BYTES + (size_t)HY_OWN_BYTES * (size_t)m->threads : 0;
}
