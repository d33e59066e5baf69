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

/* An array, its last axis contiguous in memory; of no axes: shape is null, and it has one element. A length of -1 is that of a
 * call, and bytes is then 0. */
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
  @NAME@_ERROR_FINGERPRINT, @NAME@_ERROR_ARRAYS, @NAME@_ERROR_CHECKSUM, @NAME@_ERROR_THREADS, @NAME@_ERROR_MACHINE,
  @NAME@_ERROR_DEVICE, @NAME@_ERROR_SIZES
};
/* Words for an error code. */
const char *@name@_error_text(int error);

typedef struct @name@_model @name@_model;
/* The model with the weights of a file, or of its bytes in memory, which are copied. Null, and a code in *error (which may be null),
 * where they are not this model's. */
@name@_model *@name@_load(const char *path, int *error);
@name@_model *@name@_load_bytes(const void *bytes, size_t size, int *error);
void @name@_free(@name@_model *model);

@CALLS@
@SIZES_API@#ifdef __cplusplus
}
#endif
#endif
