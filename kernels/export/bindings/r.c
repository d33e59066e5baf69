/* What @name@.R calls of the C library. R's numbers are doubles: they are converted to each array's type, and refused
 * where it cannot hold them. */
#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>
#include <math.h>
#include <string.h>
#include "@name@.h"

static void finish(SEXP model) {
  @name@_free(R_ExternalPtrAddr(model));
  R_ClearExternalPtr(model);
}

SEXP @name@_r_load(SEXP path, SEXP threads) {
  int error = 0;
  const char *text = Rf_translateChar(STRING_ELT(path, 0));
  SEXP model = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(model, finish, TRUE);
  @name@_model *m = @name@_load(R_ExpandFileName(text), &error);
  if (!m) Rf_error("%s: %s", text, @name@_error_text(error));
  R_SetExternalPtrAddr(model, m);
  error = @name@_set_threads(m, Rf_asInteger(threads));
  if (error) Rf_error("@name@_set_threads: %s", @name@_error_text(error));
  UNPROTECT(1);
  return model;
}

#define WHOLE(TYPE, LOW, HIGH) \
  for (R_xlen_t i = 0; i < n; i++) { \
    if (!(x[i] >= (LOW) && x[i] <= (HIGH)) || x[i] != floor(x[i])) \
      Rf_error("%s: an element is %g, which its type cannot hold", a->name, x[i]); \
    ((TYPE *)to)[i] = (TYPE)x[i]; \
  } \
  break
#define LARGEST 9007199254740992.0               /* whole numbers up to 2^53 are exact in R */

static void from_r(const @name@_array *a, const double *x, R_xlen_t n, void *to) {
  switch (a->dtype) {
    case @NAME@_FLOAT32: for (R_xlen_t i = 0; i < n; i++) ((float *)to)[i] = (float)x[i]; break;
    case @NAME@_FLOAT64: memcpy(to, x, (size_t)n * sizeof *x); break;
    case @NAME@_INT64: WHOLE(int64_t, -LARGEST, LARGEST);
    case @NAME@_INT32: WHOLE(int32_t, INT32_MIN, INT32_MAX);
    case @NAME@_INT16: WHOLE(int16_t, INT16_MIN, INT16_MAX);
    case @NAME@_INT8: WHOLE(int8_t, INT8_MIN, INT8_MAX);
    case @NAME@_UINT64: WHOLE(uint64_t, 0, LARGEST);
    case @NAME@_UINT32: WHOLE(uint32_t, 0, UINT32_MAX);
    case @NAME@_UINT8: WHOLE(uint8_t, 0, UINT8_MAX);
    case @NAME@_BOOL: WHOLE(uint8_t, 0, 1);
    case @NAME@_UINT16: case @NAME@_FLOAT16: case @NAME@_BFLOAT16: WHOLE(uint16_t, 0, UINT16_MAX);
  }
}

#define NUMBERS(TYPE) for (R_xlen_t i = 0; i < n; i++) y[i] = (double)((const TYPE *)from)[i]; break
#define EXACT(TYPE) \
  for (R_xlen_t i = 0; i < n; i++) { \
    y[i] = (double)((const TYPE *)from)[i]; \
    if (fabs(y[i]) > LARGEST) Rf_error("%s: an element is near %g, where R's numbers are not exact", a->name, y[i]); \
  } \
  break

static void to_r(const @name@_array *a, const void *from, R_xlen_t n, double *y) {
  switch (a->dtype) {
    case @NAME@_FLOAT32: NUMBERS(float);
    case @NAME@_FLOAT64: NUMBERS(double);
    case @NAME@_INT64: EXACT(int64_t);
    case @NAME@_INT32: NUMBERS(int32_t);
    case @NAME@_INT16: NUMBERS(int16_t);
    case @NAME@_INT8: NUMBERS(int8_t);
    case @NAME@_UINT64: EXACT(uint64_t);
    case @NAME@_UINT32: NUMBERS(uint32_t);
    case @NAME@_UINT8: case @NAME@_BOOL: NUMBERS(uint8_t);
    case @NAME@_UINT16: case @NAME@_FLOAT16: case @NAME@_BFLOAT16: NUMBERS(uint16_t);
  }
}

static R_xlen_t elements(const @name@_array *a) {
  R_xlen_t n = 1;
  for (int i = 0; i < a->ndim; i++) n *= (R_xlen_t)a->shape[i];
  return n;
}

/* given: a list of vectors of doubles, in C order and of the right lengths; a list of such. */
SEXP @name@_r_run(SEXP model, SEXP given) {
  const void *inputs[@NAME@_INPUTS];
  void *outputs[@NAME@_OUTPUTS];
  for (int i = 0; i < @NAME@_INPUTS; i++) {
    const R_xlen_t n = elements(&@name@_inputs[i]), got = Rf_xlength(VECTOR_ELT(given, i));
    if (n != got) Rf_error("%s has %.0f elements, got %.0f", @name@_inputs[i].name, (double)n, (double)got);
    void *room = R_alloc(@name@_inputs[i].bytes, 1);
    from_r(&@name@_inputs[i], REAL(VECTOR_ELT(given, i)), n, room);
    inputs[i] = room;
  }
  for (int i = 0; i < @NAME@_OUTPUTS; i++) outputs[i] = R_alloc(@name@_outputs[i].bytes, 1);
  const int error = @name@_run(R_ExternalPtrAddr(model), inputs, outputs);
  if (error) Rf_error("@name@_run: %s", @name@_error_text(error));
  SEXP results = PROTECT(Rf_allocVector(VECSXP, @NAME@_OUTPUTS));
  for (int i = 0; i < @NAME@_OUTPUTS; i++) {
    const R_xlen_t n = elements(&@name@_outputs[i]);
    SET_VECTOR_ELT(results, i, Rf_allocVector(REALSXP, n));
    to_r(&@name@_outputs[i], outputs[i], n, REAL(VECTOR_ELT(results, i)));
  }
  UNPROTECT(1);
  return results;
}
