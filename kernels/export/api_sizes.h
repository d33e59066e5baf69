
/* Sizes that each call gives: @SIZES_LIST@. For sizes that the program is not made for, calls give @NAME@_ERROR_SIZES, and the
 * functions here 0 or -1. */
/* Bytes of an input or output, by its number. */
size_t @name@_input_bytes(int input@SIZES_TYPE@);
size_t @name@_output_bytes(int output@SIZES_TYPE@);
/* The lengths of an input or output are put into `shape`; how many there are. */
int @name@_input_shape(int input@SIZES_TYPE@, int64_t *shape);
int @name@_output_shape(int output@SIZES_TYPE@, int64_t *shape);
