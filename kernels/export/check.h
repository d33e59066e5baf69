
static int hy_overlap(const void *a, size_t an, const void *b, size_t bn) {
  const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return an && bn && x < y + bn && y < x + an;
}
#define HY_INPUT_BYTES(i) @INPUT_BYTES@
#define HY_OUTPUT_BYTES(i) @OUTPUT_BYTES@
/* Whether the arrays of a call can be used. */
static int hy_check(const @name@_model *m@SIZES_TYPE@, const void *workspace, const void *const *inputs, void *const *outputs) {
  if (!m || !workspace || (!inputs && @NAME@_INPUTS) || (!outputs && @NAME@_OUTPUTS)) return @NAME@_ERROR_ARGUMENT;
@FIT@  const size_t room = @name@_workspace_bytes(m@SIZES@);
  for (int i = 0; i < @NAME@_INPUTS; i++) {
    if (!inputs[i]) return @NAME@_ERROR_ARGUMENT;
    if (hy_overlap(inputs[i], HY_INPUT_BYTES(i), workspace, room)) return @NAME@_ERROR_OVERLAP;
  }
  for (int i = 0; i < @NAME@_OUTPUTS; i++) {
    const size_t n = HY_OUTPUT_BYTES(i);
    if (!outputs[i]) return @NAME@_ERROR_ARGUMENT;
    if (hy_overlap(outputs[i], n, workspace, room)) return @NAME@_ERROR_OVERLAP;
    for (int j = 0; j < @NAME@_INPUTS; j++)
      if (hy_overlap(outputs[i], n, inputs[j], HY_INPUT_BYTES(j))) return @NAME@_ERROR_OVERLAP;
    for (int j = 0; j < i; j++)
      if (hy_overlap(outputs[i], n, outputs[j], HY_OUTPUT_BYTES(j))) return @NAME@_ERROR_OVERLAP;
  }
  return @NAME@_OK;
}
