/* One call: the table of all arrays, then the kernels. */
void @name@_run_in(void *given_workspace, @TYPED@) {
  char *workspace = (char *)given_workspace;
  const void *inputs[] = {@IN_VALUES@};
  void *outputs[] = {@OUT_VALUES@};
  (void)inputs, (void)outputs;
@TABLE@
@CALL@
}

void @name@_run(@TYPED@) {
  static _Alignas(8) unsigned char workspace[@NAME@_WORKSPACE_BYTES];
  @name@_run_in(workspace, @VALUES@);
}
