#if HY_LOOPS && !defined(@NAME@_NO_THREADS) && !defined(_WIN32)
#include <pthread.h>
#include <time.h>
#define HY_THREADED 1
#if defined(__GNUC__) && !defined(__TINYC__)
#define HY_SPIN 200000                  /* nanoseconds of waiting awake: to wake a sleeping thread takes 50 to 100 us */
#define HY_READ(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define HY_WRITE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELEASE)
#else
#define HY_SPIN 0
#define HY_READ(x) (x)
#define HY_WRITE(x, value) ((x) = (value))
#endif
struct hy_worker { hy_pool *pool; int number; pthread_t thread; };
struct hy_pool {
  pthread_mutex_t owner, lock;          /* of who runs a loop now; of all that follows */
  pthread_cond_t wake, done;
  hy_part part;
  const void *shared;
  const hy_team *team;
  int parts, next, finished, stop, workers;
  struct hy_worker *worker;
};

static int64_t hy_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
/* Takes parts while there are any; called with the lock, and returns with it. */
static void hy_help(hy_pool *pool, int number) {
  while (pool->next < pool->parts) {
    const hy_team *team = pool->team;
    const hy_part part = pool->part;
    const void *shared = pool->shared;
    const hy_team mine = {team->threads, pool->next, pool->parts, team->own + (size_t)number * HY_OWN_BYTES, NULL};
    HY_WRITE(pool->next, pool->next + 1);
    pthread_mutex_unlock(&pool->lock);
    part(shared, &mine);
    pthread_mutex_lock(&pool->lock);
    HY_WRITE(pool->finished, pool->finished + 1);
    if (pool->finished == pool->parts) pthread_cond_signal(&pool->done);
  }
}
static void *hy_work(void *given) {
  const struct hy_worker *me = (const struct hy_worker *)given;
  hy_pool *pool = me->pool;
  pthread_mutex_lock(&pool->lock);
  while (!pool->stop) {
    hy_help(pool, me->number);
    if (HY_SPIN > 0) {
      pthread_mutex_unlock(&pool->lock);
      for (int64_t until = hy_now() + HY_SPIN; HY_READ(pool->next) >= HY_READ(pool->parts) && !HY_READ(pool->stop)
           && hy_now() < until;) {}
      pthread_mutex_lock(&pool->lock);
    }
    while (!pool->stop && pool->next >= pool->parts) pthread_cond_wait(&pool->wake, &pool->lock);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}
/* All parts of a loop. While another call has the pool, the caller takes them all. */
static void hy_run(const hy_team *hy, hy_part part, const void *shared, int parts) {
  hy_pool *pool = hy->pool;
  if (!pool || parts < 2 || pthread_mutex_trylock(&pool->owner)) { hy_alone(hy, part, shared, parts); return; }
  pthread_mutex_lock(&pool->lock);
  pool->part = part, pool->shared = shared, pool->team = hy;
  pool->finished = 0;
  HY_WRITE(pool->next, 0);
  HY_WRITE(pool->parts, parts);
  pthread_cond_broadcast(&pool->wake);
  hy_help(pool, 0);
  if (HY_SPIN > 0 && pool->finished < parts) {
    pthread_mutex_unlock(&pool->lock);
    for (int64_t until = hy_now() + HY_SPIN / 2; HY_READ(pool->finished) < parts && hy_now() < until;) {}
    pthread_mutex_lock(&pool->lock);
  }
  while (pool->finished < parts) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  pthread_mutex_unlock(&pool->owner);
}
static void hy_pool_free(hy_pool *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  HY_WRITE(pool->stop, 1);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->workers; i++) pthread_join(pool->worker[i].thread, NULL);
  pthread_mutex_destroy(&pool->owner), pthread_mutex_destroy(&pool->lock);
  pthread_cond_destroy(&pool->wake), pthread_cond_destroy(&pool->done);
  free(pool->worker), free(pool);
}
/* A pool of some threads beside the caller; null where the system gives none. */
static hy_pool *hy_pool_new(int workers) {
  hy_pool *pool = (hy_pool *)calloc(1, sizeof *pool);
  if (!pool) return NULL;
  pool->worker = (struct hy_worker *)calloc((size_t)workers, sizeof *pool->worker);
  pthread_mutex_init(&pool->owner, NULL), pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL), pthread_cond_init(&pool->done, NULL);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, HY_STACK_BYTES);
  for (int i = 0; pool->worker && i < workers; i++) {
    pool->worker[i].pool = pool, pool->worker[i].number = i + 1;
    if (pthread_create(&pool->worker[i].thread, &attributes, hy_work, &pool->worker[i])) break;
    pool->workers++;
  }
  pthread_attr_destroy(&attributes);
  if (pool->workers < workers) { hy_pool_free(pool); return NULL; }
  return pool;
}
#else
#define HY_THREADED 0
#if HY_LOOPS
static void hy_run(const hy_team *hy, hy_part part, const void *shared, int parts) { hy_alone(hy, part, shared, parts); }
#endif
#endif
#if HY_LOOPS
/* The iterations of a loop that a part does, the first ones by the first part. */
static void hy_divide(int64_t count, const hy_team *hy, long *begin, long *end) {
  const int64_t each = count / hy->count, more = count % hy->count, i = hy->number;
  *begin = (long)(i * each + (i < more ? i : more));
  *end = *begin + (long)(each + (i < more));
}
#endif
