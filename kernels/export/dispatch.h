/* Instruction sets. With @NAME@_DISPATCH this file is compiled once without more, for what follows below, and once for
 * each of the levels with -D@NAME@_VARIANT=v4, v3 or base and -march=x86-64-v4, x86-64-v3 or x86-64, for the kernels;
 * which of them a model runs is decided when it is loaded. */
#if defined(@NAME@_DISPATCH) && !defined(@NAME@_VARIANT)
#define HY_LEVEL(level) \
  __attribute__((visibility("hidden"))) void @name@_call_##level(const struct @name@_model *m, \
      char *workspace, const void *const *inputs, void *const *outputs@MORE_TYPE@); \
  __attribute__((visibility("hidden"))) void @name@_prepare_##level(struct @name@_model *m, char *once);
HY_LEVEL(v4) HY_LEVEL(v3) HY_LEVEL(base)
static int hy_level(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return 0;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd")
         && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") ? 2 : 1;
}
static void hy_call(const struct @name@_model *m, char *workspace, const void *const *inputs, void *const *outputs@MORE_TYPE@) {
  (m->level == 2 ? @name@_call_v4 : m->level == 1 ? @name@_call_v3 : @name@_call_base)(m, workspace, inputs, outputs@MORE@);
}
static void hy_prepare(struct @name@_model *m, char *once) {
  m->level = hy_level();
  (m->level == 2 ? @name@_prepare_v4 : m->level == 1 ? @name@_prepare_v3 : @name@_prepare_base)(m, once);
}
#endif
#ifndef @NAME@_VARIANT
