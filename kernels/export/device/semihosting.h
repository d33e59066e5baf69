/* Output of an Arm Cortex-M program without an operating system: semihosting, which debuggers and QEMU understand. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H
#include <stdint.h>

static inline int32_t semihosting(int32_t operation, const void *argument) {
  register int32_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
static inline void print_text(const char *text) { semihosting(0x04, text); }
static inline void print_whole(int32_t x) {
  char text[12], *at = text + 11;
  uint32_t n = x < 0 ? 0u - (uint32_t)x : (uint32_t)x;
  for (*at = 0; at == text + 11 || n; n /= 10) *--at = (char)('0' + n % 10);
  if (x < 0) *--at = '-';
  print_text(at);
}
/* The bits of a float32, as eight hexadecimal digits. */
static inline void print_bits(float x) {
  union { float f; uint32_t u; } bits;
  char text[9];
  bits.f = x;
  for (int i = 0; i < 8; i++) text[i] = "0123456789abcdef"[bits.u >> (28 - 4 * i) & 15];
  text[8] = 0;
  print_text(text);
}
/* A number with four digits behind the point. */
static inline void print_number(float x) {
  const float size = x < 0 ? -x : x;
  if (!(size < 200000.0f)) { print_text("0x"), print_bits(x); return; }
  const int32_t n = (int32_t)(size * 10000.0f + 0.5f);
  if (x < 0) print_text("-");
  print_whole(n / 10000), print_text(".");
  for (int32_t digit = 1000; digit; digit /= 10) print_whole(n / digit % 10);
}
static inline void stop(int status) {
  const uint32_t block[2] = {0x20026, (uint32_t)status};          /* an application's exit, and its status */
  semihosting(0x20, block);
  for (;;) {}
}
#endif
