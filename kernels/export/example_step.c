/* Loads @name@.weights, makes some training steps with the same data, prints the first numbers of each output and saves the model.
 *
 *     ./example @name@.weights [threads [steps [@RATE_WORD@saved.weights [input.bin …]]]]
 *
 * input.bin: an input's elements as they are in memory, in C order (NumPy: x.tofile("input.bin")); zeros without it. */
#include "@name@.h"
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what, int error) {
  fprintf(stderr, "%s: %s\n", what, @name@_error_text(error));
  return 1;
}

static int transfer(const char *path, void *data, size_t bytes) {
  FILE *file = fopen(path, "rb");
  const size_t done = file ? fread(data, 1, bytes, file) : 0;
  if (file) fclose(file);
  if (done == bytes) return 1;
  fprintf(stderr, "%s: not a file of %lu bytes\n", path, (unsigned long)bytes);
  return 0;
}

static void print(const @name@_array *a, const void *data) {
  printf("%s:", a->name);
  for (size_t i = 0; i < 10; i++) {
    if (a->dtype == @NAME@_FLOAT32 && i * 4 < a->bytes) printf(" %.9g", (double)((const float *)data)[i]);
    else if (a->dtype == @NAME@_FLOAT64 && i * 8 < a->bytes) printf(" %.17g", ((const double *)data)[i]);
    else if (a->dtype == @NAME@_INT32 && i * 4 < a->bytes) printf(" %ld", (long)((const int32_t *)data)[i]);
    else if (a->dtype == @NAME@_INT64 && i * 8 < a->bytes) printf(" %lld", (long long)((const int64_t *)data)[i]);
  }
  printf("\n");
}

int main(int argc, char **argv) {
  int error = 0, wrong = 0;
  @name@_model *model = @name@_load(argc > 1 ? argv[1] : "@name@.weights", &error);
  if (!model) return failed("@name@_load", error);
  error = @name@_set_threads(model, argc > 2 ? atoi(argv[2]) : 1);
  if (error) return @name@_free(model), failed("@name@_set_threads", error);

  void *inputs[@NAME@_INPUTS + 1], *outputs[@NAME@_OUTPUTS + 1];
  const void *given[@NAME@_INPUTS + 1];
  for (int i = 0; i < @NAME@_INPUTS; i++) {
    given[i] = inputs[i] = calloc(@name@_inputs[i].bytes + 1, 1);
    if (inputs[i] && argc > @FIRST@ + i) wrong |= !transfer(argv[@FIRST@ + i], inputs[i], @name@_inputs[i].bytes);
  }
  for (int i = 0; i < @NAME@_OUTPUTS; i++) outputs[i] = malloc(@name@_outputs[i].bytes + 1);

  const int steps = argc > 3 ? atoi(argv[3]) : 1;
@RATE_READ@  void *workspace = malloc(@name@_workspace_bytes(model));
  for (int i = 0; i < steps && !error && !wrong; i++) {
    error = @name@_step_in(model, workspace, given, @RATE_VALUE@outputs);
    for (int k = 0; k < @NAME@_OUTPUTS && !error; k++) print(&@name@_outputs[k], outputs[k]);
  }
  free(workspace);
  if (!error && argc > @FIRST@ - 1) error = @name@_save(model, argv[@FIRST@ - 1]);
  for (int i = 0; i < @NAME@_INPUTS; i++) free(inputs[i]);
  for (int i = 0; i < @NAME@_OUTPUTS; i++) free(outputs[i]);
  @name@_free(model);
  return error ? failed("@name@_step_in", error) : wrong;
}
