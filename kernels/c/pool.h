/* How parallel loops get to hybrid's threads (pool.c) in place of OpenMP's: the functions that GCC (GOMP_…) and clang
 * (__kmpc_…) make of them. hy_threads: parts that a loop may have. hy_link: where threads.py writes them, and for how
 * many parts a thread counts; no pool where no loop is parallel (HY_PARALLEL).
 */
#define HY_OWN __attribute__((visibility("hidden")))
/* a large program is compiled in HY_UNITS units at the same time; here it is one whole */
#ifndef HY_UNIT
#define HY_UNIT 0
#define HY_UNITS 1
#define HY_KERNEL static
static int hy_threads = 1;
#else
#define HY_KERNEL HY_OWN
extern HY_OWN int hy_threads;
#endif
#define HY_HAS(n) ((n) % HY_UNITS == HY_UNIT)
#if HY_UNIT == 0
#if HY_UNITS > 1
int hy_threads = 1;
#endif
struct hy_link { int *threads; int parts; void **pool, **me; };
#if defined(HY_PARALLEL) && defined(_OPENMP)
enum { HY_PARTS = 2 };                 /* of a loop, for each thread: who comes late does fewer */
static void (*hy_pool)(void (*)(void *), void *, int, int);
static int *(*hy_me)(void);
const struct hy_link hy_link = { &hy_threads, HY_PARTS, (void **)&hy_pool, (void **)&hy_me };
static int hy_part_number(void) { return hy_me ? hy_me()[0] : 0; }
static int hy_part_count(void) { return hy_me ? hy_me()[1] : 1; }
static void hy_team(void (*part)(void *), void *data, unsigned threads) {
  /* within another loop, its numbers are not those of this one */
  if (!hy_pool || (threads < 2 && hy_me()[1] < 2)) part(data);
  else hy_pool(part, data, (int)threads, hy_threads / HY_PARTS);
}
#ifndef __clang__
/* called once for a loop: not worth the compiler's time */
#define HY_GLUE HY_OWN __attribute__((optimize("O0")))
HY_GLUE void GOMP_parallel(void (*part)(void *), void *data, unsigned threads, unsigned flags) {
  (void)flags;
  hy_team(part, data, threads);
}
HY_GLUE int omp_get_thread_num(void) { return hy_part_number(); }
HY_GLUE int omp_get_num_threads(void) { return hy_part_count(); }
HY_GLUE _Bool GOMP_single_start(void) { return hy_part_number() == 0; }
#else
/* clang gives a loop's variables one by one, as addresses, to a function of as many arguments; more than it has do no
 * harm */
enum { HY_MOST = 64 };
struct hy_fork { void *function, *given[HY_MOST]; };
#define HY_ADDRESSES void *, void *, void *, void *, void *, void *, void *, void *
typedef void (*hy_micro)(int *, int *, HY_ADDRESSES, HY_ADDRESSES, HY_ADDRESSES, HY_ADDRESSES, HY_ADDRESSES,
    HY_ADDRESSES, HY_ADDRESSES,
                         HY_ADDRESSES);
#define HY_8(i) , g[i], g[i + 1], g[i + 2], g[i + 3], g[i + 4], g[i + 5], g[i + 6], g[i + 7]
static void hy_forked(void *data) {
  struct hy_fork *f = (struct hy_fork *)data;
  void **g = f->given;
  int number = hy_part_number(), zero = 0;
  ((hy_micro)f->function)(&number, &zero HY_8(0) HY_8(8) HY_8(16) HY_8(24) HY_8(32) HY_8(40) HY_8(48) HY_8(56));
}
static _Thread_local int hy_wanted;
HY_OWN int __kmpc_global_thread_num(void *place) { (void)place; return hy_part_number(); }
HY_OWN void __kmpc_push_num_threads(void *place, int me, int threads) { (void)place, (void)me, hy_wanted = threads; }
HY_OWN void __kmpc_fork_call(void *place, int count, void *function, ...) {
  struct hy_fork f = { function, { 0 } };
  __builtin_va_list rest;
  (void)place;
  __builtin_va_start(rest, function);
  if (count > HY_MOST) __builtin_trap();                          /* no loop of ours uses so many variables */
  for (int i = 0; i < count; i++) f.given[i] = __builtin_va_arg(rest, void *);
  __builtin_va_end(rest);
  hy_team(hy_forked, &f, (unsigned)hy_wanted);
}
/* each use ends in a semicolon, so that what a program does not name is kept (codegen/program/tree_shaking.py) */
#define HY_STATIC(name, T) \
    HY_OWN void name(void *place, int me, int how, int *last, T *from, T *to, T *step, T by, T chunk) { \
  T n = (T)hy_part_count(), k = (T)hy_part_number(), all = (*to - *from) / by + 1, each = all / n, more = all % n; \
  T first = k * each + (k < more ? k : more), size = each + (k < more); \
  (void)place, (void)me, (void)how, (void)chunk; \
  *last = first + size == all, *step = all * by, *to = *from + (first + size - 1) * by, *from += first * by; }
HY_STATIC(__kmpc_for_static_init_4, int);
HY_STATIC(__kmpc_for_static_init_4u, unsigned);
HY_STATIC(__kmpc_for_static_init_8, long);
HY_STATIC(__kmpc_for_static_init_8u, unsigned long);
HY_OWN void __kmpc_for_static_fini(void *place, int me) { (void)place, (void)me; }
HY_OWN int __kmpc_single(void *place, int me) { (void)place, (void)me; return hy_part_number() == 0; }
HY_OWN void __kmpc_end_single(void *place, int me) { (void)place, (void)me; }
#endif
#else
const struct hy_link hy_link = { &hy_threads, 1, 0, 0 };
#endif
#elif defined(_OPENMP) && !defined(__clang__)
HY_OWN void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
HY_OWN int omp_get_thread_num(void);
HY_OWN int omp_get_num_threads(void);
HY_OWN _Bool GOMP_single_start(void);
#endif
