  const int steps = argc > 3 ? atoi(argv[3]) : 1;
@RATE_READ@  void *workspace = malloc(@name@_workspace_bytes(model));
  for (int i = 0; i < steps && !error && !wrong; i++) {
    error = @name@_step_in(model, workspace, given, @RATE_VALUE@outputs);
    for (int k = 0; k < @NAME@_OUTPUTS && !error; k++) print(&@name@_outputs[k], outputs[k], @name@_outputs[k].bytes);
  }
  free(workspace);
  if (!error && argc > @FILES@ - 1) error = @name@_save(model, argv[@FILES@ - 1]);
