
int @name@_seed(@name@_model *m, uint32_t seed) {
  const uint32_t state[2] = {seed, 0};
  if (!m) return @NAME@_ERROR_ARGUMENT;
  memcpy(m->arrays + HY_RANDOM, state, sizeof state);
  return @NAME@_OK;
}
