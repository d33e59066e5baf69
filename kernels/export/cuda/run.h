
/* One call: inputs to the GPU, the kernels, outputs back, which waits for them. */
static int hy_call(@name@_model *m, const void *const *inputs, void *const *outputs) {
  int failed = 0;
  for (int i = 0; !failed && i < @NAME@_INPUTS; i++) failed = m->cuda.to_device(m->table[i], inputs[i], @name@_inputs[i].bytes);
  for (int i = 0; !failed && i < HY_LAUNCHES; i++) {
    const hy_launch *l = &hy_launches[i];
    void *arguments[HY_MOST_ARGUMENTS + 1];
    for (int k = 0; k < l->count; k++) arguments[k] = &m->table[hy_arguments[l->first + k]];
    failed = m->cuda.launch(m->functions[l->kernel], l->blocks, 1, 1, l->threads, 1, 1, l->shared, NULL, arguments, NULL);
  }
  for (int i = 0; !failed && i < @NAME@_OUTPUTS; i++) failed = m->cuda.to_host(outputs[i], m->table[hy_results[i]], @name@_outputs[i].bytes);
  return failed;
}

int @name@_run_in(const @name@_model *model, void *workspace, const void *const *inputs, void *const *outputs) {
  const int error = hy_check(model, workspace, inputs, outputs);
  if (error) return error;
  @name@_model *m = (@name@_model *)(uintptr_t)model;         /* its memory on the GPU, under its lock */
  void *mine;
  pthread_mutex_lock(&m->lock);
  int failed = m->cuda.push(m->context);
  if (!failed) {
    failed = hy_call(m, inputs, outputs);
    m->cuda.pop(&mine);
  }
  pthread_mutex_unlock(&m->lock);
  return failed ? @NAME@_ERROR_DEVICE : @NAME@_OK;
}

int @name@_run(const @name@_model *m, const void *const *inputs, void *const *outputs) {
  char workspace[1];
  return @name@_run_in(m, workspace, inputs, outputs);
}
