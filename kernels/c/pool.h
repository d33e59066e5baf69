/* How GCC's parallel loops get to hybrid's threads (pool.c) in place of OpenMP's. hy_threads: threads a loop may use. */
#define HY_OWN __attribute__((visibility("hidden")))
#ifndef HY_UNIT                        /* a large program is compiled in HY_UNITS units at the same time; here it is one whole */
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
#if defined(_OPENMP) && !defined(__clang__)
enum { HY_PARTS = 2 };                 /* of a loop, for each thread: who comes late does fewer */
static void (*hy_pool)(void (*)(void *), void *, int, int);
static int *(*hy_me)(void);
HY_OWN void GOMP_parallel(void (*part)(void *), void *data, unsigned threads, unsigned flags) {
  (void)flags;
  if (threads < 2 || !hy_pool) part(data); else hy_pool(part, data, (int)threads, hy_threads / HY_PARTS);
}
HY_OWN int omp_get_thread_num(void) { return hy_me ? hy_me()[0] : 0; }
HY_OWN int omp_get_num_threads(void) { return hy_me ? hy_me()[1] : 1; }
HY_OWN _Bool GOMP_single_start(void) { return omp_get_thread_num() == 0; }
/* what is set already is not written again: another thread may be reading it, in a program that both have loaded */
void hy_set_threads(int n, void *pool, void *me) {
  void (*run)(void (*)(void *), void *, int, int) = (void (*)(void (*)(void *), void *, int, int))pool;
  int *(*who)(void) = (int *(*)(void))me, parts = n > 1 && pool ? n * HY_PARTS : 1;
  if (hy_pool != run) hy_pool = run;
  if (hy_me != who) hy_me = who;
  if (hy_threads != parts) hy_threads = parts;
}
#else
void hy_set_threads(int n, void *pool, void *me) { (void)pool; (void)me; hy_threads = n; }
#endif
#elif defined(_OPENMP) && !defined(__clang__)
HY_OWN void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
HY_OWN int omp_get_thread_num(void);
HY_OWN int omp_get_num_threads(void);
HY_OWN _Bool GOMP_single_start(void);
#endif
