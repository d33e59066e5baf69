  error = @name@_run(model@SIZES@, given, outputs);
  for (int i = 0; i < @NAME@_OUTPUTS && !error; i++) {
    const size_t bytes = @OUTPUT_BYTES@;
    print(&@name@_outputs[i], outputs[i], bytes);
    if (argc > @FILES@ + @NAME@_INPUTS + i) wrong |= !transfer(argv[@FILES@ + @NAME@_INPUTS + i], "wb", outputs[i], bytes);
  }
