/* The threads that compiled programs share. GCC turns a parallel loop into a function and a call of GOMP_parallel;
 * programs bring a GOMP_parallel of their own that comes here (pool.h). Unlike OpenMP's, a parallel loop never waits
 * for a thread that has not begun: its parts are handed out one after the other, and the caller takes what is left. On
 * a busy machine it is as fast as one thread, where OpenMP waits until the system runs every thread.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

typedef void (*Part)(void *);
/* nanoseconds of waiting awake: to wake a sleeping thread takes 50 to 100 us, which is more than what lies between most
 * loops */
enum { MOST_THREADS = 256, SPIN_WORKER = 200000, SPIN_CALLER = 100000 };

static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
/* What threads that take parts write is in a cache line with what they read then; what they write at the end is in
 * another one. */
static struct {
  _Alignas(64) _Atomic uint64_t state;       /* loop's number << 32 | parts << 16 | next part */
  Part part;
  void *data;
  int parts;
  _Alignas(64) _Atomic int unfinished;       /* parts */
} job;
static _Atomic int sleepers, caller_sleeps;
static int workers;
static _Thread_local struct { int number, count; } me = {0, 1};

/* Threads that a loop may have at most now: fewer while compilers work beside the program. */
int hy_pool_most = MOST_THREADS;

int *hy_pool_me(void) { return &me.number; }

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int waiting(uint64_t s) { return (s & 0xffff) < (s >> 16 & 0xffff); }

/* Take parts, one after the other, as long as there are; 0 when there was none. */
static int help(void) {
  int did = 0;
  for (uint64_t s = atomic_load(&job.state); waiting(s);) {
    if (!atomic_compare_exchange_weak(&job.state, &s, s + 1)) continue;
    me.number = (int)(s & 0xffff), me.count = job.parts;         /* the loop cannot end before this is counted below */
    job.part(job.data);
    did++, s = atomic_load(&job.state);
  }
  if (!did) return 0;
  me.number = 0, me.count = 1;
  if (atomic_fetch_sub(&job.unfinished, did) == did && atomic_load(&caller_sleeps)) {
    pthread_mutex_lock(&lock);
    pthread_cond_signal(&done);
    pthread_mutex_unlock(&lock);
  }
  return 1;
}

static void *work(void *unused) {
  (void)unused;
  for (;;) {
    for (int64_t until = now() + SPIN_WORKER; now() < until;) {
      if (help()) until = now() + SPIN_WORKER;
      else for (int i = 0; i < 8; i++) relax();
    }
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&sleepers, 1);
    while (!waiting(atomic_load(&job.state))) pthread_cond_wait(&wake, &lock);
    atomic_fetch_sub(&sleepers, 1);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

#ifndef _WIN32
/* A forked process has none of the threads, and its locks may be taken by them. */
static void forked(void) {
  pthread_mutex_init(&owner, NULL), pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&wake, NULL), pthread_cond_init(&done, NULL);
  workers = 0;
  atomic_store(&sleepers, 0), atomic_store(&caller_sleeps, 0), atomic_store(&job.unfinished, 0),
      atomic_store(&job.state, 0);
}
#endif

static void hire(int wanted) {
#ifndef _WIN32                                                    /* which has neither forks nor signals for threads */
  static int registered;
  if (!registered) pthread_atfork(NULL, NULL, forked), registered = 1;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);                    /* signals are for Python's own threads */
#endif
  for (; workers < wanted && workers < MOST_THREADS; workers++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL)) break;         /* the caller does more itself */
    pthread_detach(thread);
  }
#ifndef _WIN32
  pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
}

static void alone(Part part, void *data, int parts) {
  int number = me.number, count = me.count;
  for (int i = 0; i < parts; i++) {
    me.number = i, me.count = parts;
    part(data);
  }
  me.number = number, me.count = count;
}

/* All parts of a loop, by as many threads. Within another loop, or while another thread runs one, the caller does them
 * all. */
void hy_pool_run(Part part, void *data, int parts, int threads) {
  int most = __atomic_load_n(&hy_pool_most, __ATOMIC_RELAXED);
  if (threads > most) threads = most;
  if (me.count > 1 || threads < 2 || parts > 0xffff || pthread_mutex_trylock(&owner)) {
    alone(part, data, parts);
    return;
  }
  if (workers < threads - 1) hire(threads - 1);
  job.part = part, job.data = data, job.parts = parts;
  atomic_store(&job.unfinished, parts);
  uint64_t number = (atomic_load(&job.state) >> 32) + 1;
  atomic_store(&job.state, number << 32 | (uint64_t)parts << 16);
  if (atomic_load(&sleepers)) {
    pthread_mutex_lock(&lock);
    if (threads == 2) pthread_cond_signal(&wake); else pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
  }
  help();
  for (int64_t until = now() + SPIN_CALLER; atomic_load(&job.unfinished) && now() < until;) relax();
  if (atomic_load(&job.unfinished)) {
    pthread_mutex_lock(&lock);
    atomic_store(&caller_sleeps, 1);
    while (atomic_load(&job.unfinished)) pthread_cond_wait(&done, &lock);
    atomic_store(&caller_sleeps, 0);
    pthread_mutex_unlock(&lock);
  }
  pthread_mutex_unlock(&owner);
}
