/* @name@: a compiled network for devices without an operating system. Written by hybrid; README.md beside this file
 * shows how it is built and called. It uses no heap, no files, no threads and no standard input or output.
 *
 * Inputs, in order:
@SAID_INPUTS@
 * Outputs, in order:
@SAID_OUTPUTS@
 */
#ifndef @NAME@_H
#define @NAME@_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define @NAME@_FINGERPRINT "@FINGERPRINT@"     /* of this model */
#define @NAME@_WEIGHT_BYTES @WEIGHT_BYTES@        /* of constants, in the program's read-only memory */
#define @NAME@_WORKSPACE_BYTES @WORKSPACE_BYTES@        /* of memory that a call writes, at an address that 8 divides */
#define @NAME@_STACK_BYTES @STACK_BYTES@        /* of arrays on the stack during a call, other variables not counted */
@SIZES@

/* Computes the outputs from the inputs: arrays in C order, which may not overlap. Its workspace is a static array: no two
 * calls may run at the same time. */
void @name@_run(@TYPED@);
/* The same in a workspace of the caller's; without calls of @name@_run the linker leaves the static one out
 * (-ffunction-sections -fdata-sections -Wl,--gc-sections). */
void @name@_run_in(void *workspace, @TYPED@);

#ifdef __cplusplus
}
#endif
#endif
