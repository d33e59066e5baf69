
int @name@_run_in(const @name@_model *m, void *workspace, const void *const *inputs, void *const *outputs) {
  const int error = hy_check(m, workspace, inputs, outputs);
  if (!error) hy_call(m, hy_aligned(workspace), inputs, outputs);
  return error;
}

int @name@_run(const @name@_model *m, const void *const *inputs, void *const *outputs) {
  if (!m) return @NAME@_ERROR_ARGUMENT;
  void *workspace = malloc(@name@_workspace_bytes(m));
  if (!workspace) return @NAME@_ERROR_MEMORY;
  const int error = @name@_run_in(m, workspace, inputs, outputs);
  free(workspace);
  return error;
}
