
int @name@_step_in(@name@_model *m, void *workspace, const void *const *inputs, @RATE@void *const *outputs) {
  const int error = hy_check(m, workspace, inputs, outputs);
  if (error) return error;
@ADVANCE@  hy_call(m, hy_aligned(workspace), inputs, outputs@GIVEN_RATE@);
  return @NAME@_OK;
}

int @name@_step(@name@_model *m@TYPED@) {
  const void *inputs[@NAME@_INPUTS + 1] = {@IN_VALUES@};
  void *outputs[@NAME@_OUTPUTS + 1] = {@OUT_VALUES@};
  if (!m) return @NAME@_ERROR_ARGUMENT;
  void *workspace = malloc(@name@_workspace_bytes(m));
  if (!workspace) return @NAME@_ERROR_MEMORY;
  const int error = @name@_step_in(m, workspace, inputs, @RATE_VALUE@outputs);
  free(workspace);
  return error;
}

static int hy_put(FILE *file, const void *data, size_t n) { return fwrite(data, 1, n, file) == n; }

/* JSON text of the weights, into `out` where that is given; its length. */
static size_t hy_header(char *out, size_t room, uint32_t crc) {
  size_t n = 0, at = 0;
#define HY_SAY(...) do { const int k_ = snprintf(out ? out + n : NULL, out ? room - n : 0, __VA_ARGS__); n += k_ > 0 ? (size_t)k_ : 0; } while (0)
  HY_SAY("{\"__metadata__\":{\"format\":\"np\",\"hybrid.version\":\"%d\",\"hybrid.fingerprint\":\"%s\",\"hybrid.crc32\":\"%08lx\"}", @NAME@_VERSION,
         @NAME@_FINGERPRINT, (unsigned long)crc);
  for (int i = 0; i < HY_WEIGHTS; i++) {
    const @name@_array *a = &hy_weights[i];
    HY_SAY(",\"%s\":{\"dtype\":\"%s\",\"shape\":[", a->name, hy_dtype_names[a->dtype]);
    for (int k = 0; k < a->ndim; k++) HY_SAY("%s%lld", k ? "," : "", (long long)a->shape[k]);
    HY_SAY("],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)(at + a->bytes));
    at += a->bytes;
  }
  HY_SAY("}");
  while (n % 8) HY_SAY(" ");
#undef HY_SAY
  return n;
}

int @name@_save(const @name@_model *m, const char *path) {
  if (!m || !path) return @NAME@_ERROR_ARGUMENT;
  uint32_t crc = 0;
  for (int i = 0; i < HY_WEIGHTS; i++) crc = hy_crc32_more(crc, (const unsigned char *)m->arrays + hy_places[i].offset, hy_weights[i].bytes);
  const size_t n = hy_header(NULL, 0, crc), name = strlen(path);
  const uint64_t size = n;
  char *text = (char *)malloc(n + 1), *temporary = (char *)malloc(name + 5);
  if (!text || !temporary) { free(text), free(temporary); return @NAME@_ERROR_MEMORY; }
  hy_header(text, n + 1, crc);
  memcpy(temporary, path, name), memcpy(temporary + name, ".tmp", 5);
  FILE *file = fopen(temporary, "wb");
  int done = file && hy_put(file, &size, 8) && hy_put(file, text, n);
  for (int i = 0; done && i < HY_WEIGHTS; i++) done = hy_put(file, m->arrays + hy_places[i].offset, hy_weights[i].bytes);
  if (file && fclose(file)) done = 0;
#ifdef _WIN32
  if (done) remove(path);               /* rename does not replace a file there */
#endif
  if (done && rename(temporary, path)) done = 0;
  if (!done && file) remove(temporary);
  free(text), free(temporary);
  return done ? @NAME@_OK : @NAME@_ERROR_FILE;
}

int64_t @name@_updates(const @name@_model *m) {
  int64_t count = 0;
  if (m) memcpy(&count, m->arrays + HY_COUNT, sizeof count);
  return count;
}
@SEED@