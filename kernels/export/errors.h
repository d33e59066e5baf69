/* ---- the model -------------------------------------------------------------------------------------------------- */
const char *@name@_error_text(int error) {
  switch (error) {
    case @NAME@_OK: return "no error";
    case @NAME@_ERROR_ARGUMENT: return "a null pointer, or a number out of its range, was given";
    case @NAME@_ERROR_OVERLAP: return "an output or the workspace overlaps an input or another output";
    case @NAME@_ERROR_MEMORY: return "there is not enough memory";
    case @NAME@_ERROR_FILE: return "the file cannot be opened, read or written";
    case @NAME@_ERROR_FORMAT: return "the file is no safetensors file, or it is damaged";
    case @NAME@_ERROR_VERSION:
      return "the file does not name the format's version that this program reads; export both again";
    case @NAME@_ERROR_FINGERPRINT: return "the weights are those of another model; export both again";
    case @NAME@_ERROR_ARRAYS: return "an array of the file is missing, unknown, or of another type or shape";
    case @NAME@_ERROR_CHECKSUM: return "the arrays of the file are not what was written: their checksum differs";
    case @NAME@_ERROR_THREADS: return "the system gives no such number of threads, or this build has none";
    case @NAME@_ERROR_MACHINE: return "the weights are for processors that store the lowest byte first";
    case @NAME@_ERROR_DEVICE: return "there is no GPU that this program can use, or the GPU or its driver failed";
    case @NAME@_ERROR_SIZES: return "the program is not made for sizes like these";
    default: return "an unknown error code";
  }
}

static void hy_set(int *error, int code) { if (error) *error = code; }
