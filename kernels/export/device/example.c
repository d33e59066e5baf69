/* Runs @name@ once on zeros and prints the outputs by semihosting: to a debugger, or to QEMU. */
#include "@name@.h"
#include "semihosting.h"

@ARRAYS@

int main(void) {
  @name@_run(@VALUES@);
@PRINTS@
  return 0;
}
