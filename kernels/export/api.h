/* @name@: a compiled network. Written by hybrid; README.md beside this file shows how it is built and called.
 *
 * Inputs, in order:
@SAID_INPUTS@
 * Outputs, in order:
@SAID_OUTPUTS@
 */
#ifndef @NAME@_H
#define @NAME@_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define @NAME@_VERSION @VERSION_NUMBER@                        /* of the weights file's format */
#define @NAME@_FINGERPRINT "@FINGERPRINT@"     /* of this model: its weights file repeats it */
#define @NAME@_INPUTS @COUNT_INPUTS@
#define @NAME@_OUTPUTS @COUNT_OUTPUTS@

/* Types of elements. FLOAT16 and BFLOAT16 are given as the 16 bits of each number. */
typedef enum { @DTYPES@ } @name@_dtype;

/* An array, its last axis contiguous in memory; of no axes: shape is null, and it has one element. */
typedef struct {
  const char *name;
  @name@_dtype dtype;
  int ndim;
  const int64_t *shape;
  size_t bytes;
} @name@_array;
extern const @name@_array @name@_inputs[];
extern const @name@_array @name@_outputs[];

enum {
  @NAME@_OK,
  @NAME@_ERROR_ARGUMENT, @NAME@_ERROR_OVERLAP, @NAME@_ERROR_MEMORY, @NAME@_ERROR_FILE, @NAME@_ERROR_FORMAT, @NAME@_ERROR_VERSION,
  @NAME@_ERROR_FINGERPRINT, @NAME@_ERROR_ARRAYS, @NAME@_ERROR_CHECKSUM, @NAME@_ERROR_THREADS, @NAME@_ERROR_MACHINE
};
/* Words for an error code. */
const char *@name@_error_text(int error);

typedef struct @name@ @name@;
/* The model with the weights of a file, or of its bytes in memory, which are copied. Null, and a code in *error (which may be null),
 * where they are not this model's. */
@name@ *@name@_load(const char *path, int *error);
@name@ *@name@_load_bytes(const void *bytes, size_t size, int *error);
void @name@_free(@name@ *model);

/* How many threads a call uses, 1 at first. Not while a call runs. */
int @name@_set_threads(@name@ *model, int threads);

/* Computes the outputs from the inputs; an error code. Any number of threads may call it with one model at the same time. */
int @name@_run(const @name@ *model, const void *const *inputs, void *const *outputs);
/* The same in memory of the caller's, of @name@_workspace_bytes: nothing is allocated. Each call that runs needs its own. */
int @name@_run_in(const @name@ *model, void *workspace, const void *const *inputs, void *const *outputs);
size_t @name@_workspace_bytes(const @name@ *model);

#ifdef __cplusplus
}
#endif
#endif
