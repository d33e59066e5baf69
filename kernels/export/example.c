/* Loads @name@.weights, @DOES@.
 *
 *     ./example @name@.weights [threads @GIVEN@]
 *
 *@SIZES_SAID@ input.bin: an input's elements as they are in memory, in C order (NumPy: x.tofile("input.bin")); zeros without it.@OUTPUTS_SAID@ */
#include "@name@.h"
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what, int error) {
  fprintf(stderr, "%s: %s\n", what, @name@_error_text(error));
  return 1;
}

static int transfer(const char *path, const char *mode, void *data, size_t bytes) {
  FILE *file = fopen(path, mode);
  size_t done = 0;
  if (file) {
    done = *mode == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file);
    if (fclose(file)) done = 0;
  }
  if (done == bytes) return 1;
  fprintf(stderr, "%s: not a file of %lu bytes\n", path, (unsigned long)bytes);
  return 0;
}

static void print(const @name@_array *a, const void *data, size_t bytes) {
  printf("%s:", a->name);
  for (size_t i = 0; i < 10; i++) {
    if (a->dtype == @NAME@_FLOAT32 && i * 4 < bytes) printf(" %.9g", (double)((const float *)data)[i]);
    else if (a->dtype == @NAME@_FLOAT64 && i * 8 < bytes) printf(" %.17g", ((const double *)data)[i]);
    else if (a->dtype == @NAME@_INT32 && i * 4 < bytes) printf(" %ld", (long)((const int32_t *)data)[i]);
    else if (a->dtype == @NAME@_INT64 && i * 8 < bytes) printf(" %lld", (long long)((const int64_t *)data)[i]);
  }
  printf("\n");
}

int main(int argc, char **argv) {
  int error = 0, wrong = 0;
  @name@_model *model = @name@_load(argc > 1 ? argv[1] : "@name@.weights", &error);
  if (!model) return failed("@name@_load", error);
  error = @name@_set_threads(model, argc > 2 ? atoi(argv[2]) : 1);
  if (error) return @name@_free(model), failed("@name@_set_threads", error);

@SIZES_READ@  void *inputs[@NAME@_INPUTS + 1], *outputs[@NAME@_OUTPUTS + 1];
  const void *given[@NAME@_INPUTS + 1];
  for (int i = 0; i < @NAME@_INPUTS; i++) {
    const size_t bytes = @INPUT_BYTES@;
    given[i] = inputs[i] = calloc(bytes + 1, 1);
    if (inputs[i] && argc > @FILES@ + i) wrong |= !transfer(argv[@FILES@ + i], "rb", inputs[i], bytes);
  }
  for (int i = 0; i < @NAME@_OUTPUTS; i++) outputs[i] = malloc(@OUTPUT_BYTES@ + 1);

@CALL@  for (int i = 0; i < @NAME@_INPUTS; i++) free(inputs[i]);
  for (int i = 0; i < @NAME@_OUTPUTS; i++) free(outputs[i]);
  @name@_free(model);
  return error ? failed("the call", error) : wrong;
}
