
/* ---- sizes that a call gives ---------------------------------------------------------------------------------------- */
static int hy_fit(@ALONE@) {
  return @CONDITIONS@;
}
size_t @name@_input_bytes(int input@SIZES_TYPE@) {
  if (!hy_fit(@VALUES@)) return 0;
  switch (input) {
@BYTES_IN@
    default: return 0;
  }
}
size_t @name@_output_bytes(int output@SIZES_TYPE@) {
  if (!hy_fit(@VALUES@)) return 0;
  switch (output) {
@BYTES_OUT@
    default: return 0;
  }
}
int @name@_input_shape(int input@SIZES_TYPE@, int64_t *shape) {
  if (!shape || !hy_fit(@VALUES@)) return -1;
  switch (input) {
@SHAPES_IN@
    default: return -1;
  }
}
int @name@_output_shape(int output@SIZES_TYPE@, int64_t *shape) {
  if (!shape || !hy_fit(@VALUES@)) return -1;
  switch (output) {
@SHAPES_OUT@
    default: return -1;
  }
}
