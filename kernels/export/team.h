/* Threads. A team runs the parts of a parallel loop; parts are handed out one after the other, and the caller takes
 * what is left, so that nothing waits for a thread that has not begun. Without threads (@NAME@_NO_THREADS) the caller
 * takes all. */
#define HY_LOOPS @THREADED@             /* whether there are parallel loops */
typedef struct hy_pool hy_pool;
typedef struct {
  int threads;          /* parts that a loop may have */
  int number, count;    /* of the part that runs now, and of all */
  char *own;            /* memory of this thread's own, in the workspace */
  hy_pool *pool;        /* null where parts run one after the other */
} hy_team;
typedef void (*hy_part)(const void *shared, const hy_team *hy);

#if HY_LOOPS
static void hy_alone(const hy_team *hy, hy_part part, const void *shared, int parts) {
  for (int i = 0; i < parts; i++) {
    const hy_team mine = {hy->threads, i, parts, hy->own, NULL};
    part(shared, &mine);
  }
}
#endif
