
int @name@_run_in(const @name@_model *m@SIZES_TYPE@, void *workspace, const void *const *inputs, void *const *outputs) {
  const int error = hy_check(m@SIZES@, workspace, inputs, outputs);
  if (!error) hy_call(m, hy_aligned(workspace), inputs, outputs@SIZES@);
  return error;
}

int @name@_run(const @name@_model *m@SIZES_TYPE@, const void *const *inputs, void *const *outputs) {
  if (!m) return @NAME@_ERROR_ARGUMENT;
@FIT@  void *workspace = malloc(@name@_workspace_bytes(m@SIZES@));
  if (!workspace) return @NAME@_ERROR_MEMORY;
  const int error = @name@_run_in(m@SIZES@, workspace, inputs, outputs);
  free(workspace);
  return error;
}
