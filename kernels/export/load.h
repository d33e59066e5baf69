
@name@_model *@name@_load(const char *path, int *error) {
  size_t size = 0;
  int code = @NAME@_ERROR_ARGUMENT;
  unsigned char *bytes = path ? hy_read_file(path, &size, &code) : NULL;
  if (!bytes) { hy_set(error, code); return NULL; }
  @name@_model *m = @name@_load_bytes(bytes, size, error);
  free(bytes);
  return m;
}
