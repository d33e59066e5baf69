/* How GCC's parallel loops get to hybrid's threads (pool.c) in place of OpenMP's. hy_threads: parts that a loop may have.
 * hy_link: where threads.py writes them, and for how many parts a thread counts; no pool where no loop is parallel (HY_PARALLEL).
 */
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
struct hy_link { int *threads; int parts; void **pool, **me; };
#if defined(HY_PARALLEL) && defined(_OPENMP) && !defined(__clang__)
enum { HY_PARTS = 2 };                 /* of a loop, for each thread: who comes late does fewer */
static void (*hy_pool)(void (*)(void *), void *, int, int);
static int *(*hy_me)(void);
const struct hy_link hy_link = { &hy_threads, HY_PARTS, (void **)&hy_pool, (void **)&hy_me };
#define HY_GLUE HY_OWN __attribute__((optimize("O0")))           /* called once for a loop: not worth the compiler's time */
HY_GLUE void GOMP_parallel(void (*part)(void *), void *data, unsigned threads, unsigned flags) {
  (void)flags;
  if (!hy_pool || (threads < 2 && hy_me()[1] < 2)) part(data);     /* within another loop, its numbers are not those of this one */
  else hy_pool(part, data, (int)threads, hy_threads / HY_PARTS);
}
HY_GLUE int omp_get_thread_num(void) { return hy_me ? hy_me()[0] : 0; }
HY_GLUE int omp_get_num_threads(void) { return hy_me ? hy_me()[1] : 1; }
HY_GLUE _Bool GOMP_single_start(void) { return (hy_me ? hy_me()[0] : 0) == 0; }
#else
const struct hy_link hy_link = { &hy_threads, 1, 0, 0 };
#endif
#elif defined(_OPENMP) && !defined(__clang__)
HY_OWN void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
HY_OWN int omp_get_thread_num(void);
HY_OWN int omp_get_num_threads(void);
HY_OWN _Bool GOMP_single_start(void);
#endif
