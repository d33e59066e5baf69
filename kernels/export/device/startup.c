/* What an Arm Cortex-M4 does before main: switches the floating-point unit on, copies data, clears the rest. */
#include "semihosting.h"

extern uint32_t data_load, data_begin, data_end, bss_begin, bss_end, stack_top;
int main(void);

static void reset(void) {
  *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20;                 /* CPACR: coprocessors 10 and 11 */
  __asm__ volatile("dsb\n isb");
  const uint32_t *from = &data_load;
  for (uint32_t *to = &data_begin; to < &data_end;) *to++ = *from++;
  for (uint32_t *to = &bss_begin; to < &bss_end;) *to++ = 0;
  stop(main());
}
static void fault(void) { print_text("a fault of the processor\n"), stop(70); }

__attribute__((section(".vectors"), used)) void *const vectors[] = {
  &stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault};
