/* Streams that run late: work waits in its stream until somebody waits for it, and then only what that waiting needs is
 * done. So whoever reads what another stream computes, and waits for nothing, reads what was there before.
 *
 * stand_in_late (HYBRID_STAND_IN_LATE): 0 work is done when it is given; 1 the least that a wait asks for is done; 2
 * before it, what other streams may do already, the newest stream first, so that who overwrites comes before who reads;
 * 3 all streams take turns until it is done, so that who shares memory with another stream meets its work half done.
 * Order is CUDA's: a stream's work one after the other; the legacy null stream's after all that the device's blocking
 * streams were given before it, and theirs after its; events. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "streams.h"

#define API __attribute__((visibility("default")))
enum { DEVICES = 8 };
API int stand_in_late = 0;
extern __thread int stand_in_device;

typedef struct Work { void (*run)(void *); void *data; struct Work *next; int waits; Point after[]; } Work;
struct Stream {
  struct Graph *capture;
  int device, blocking, null;
  long given, done;
  Work *first, *last;
  Point *later;                                /* what the next work waits for, beside the stream's own */
  int waits;
  Stream *older;
};
static Stream *newest, *null_stream[DEVICES];
static __thread Stream *per_thread[DEVICES];
static pthread_mutex_t lists = PTHREAD_MUTEX_INITIALIZER, running = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

__attribute__((constructor)) static void begin(void) {
  const char *late = getenv("HYBRID_STAND_IN_LATE");
  if (late) stand_in_late = atoi(late);
}

struct Graph *hy_capture(Stream *s) { return s->capture; }
void hy_set_capture(Stream *s, struct Graph *g) { s->capture = g; }

static Stream *made(int blocking, int null) {
  Stream *s = calloc(1, sizeof *s);
  s->device = stand_in_device, s->blocking = blocking, s->null = null;
  pthread_mutex_lock(&lists);
  s->older = newest, newest = s;
  pthread_mutex_unlock(&lists);
  return s;
}
Stream *hy_new_stream(int blocking) { return made(blocking, 0); }

Stream *hy_stream(void *handle) {
  if ((uintptr_t)handle > 2) return handle;
  Stream **known = ((uintptr_t)handle == 2 ? per_thread : null_stream) + stand_in_device % DEVICES;
  if (!*known) *known = made(1, (uintptr_t)handle < 2);
  return *known;
}

Point hy_point(Stream *s) { return (Point){s, s->given}; }
int hy_reached(Point p) { return !p.stream || p.stream->done >= p.number; }

void hy_wait_for(Stream *s, Point p) {
  if (hy_reached(p)) return;
  pthread_mutex_lock(&lists);
  s->later = realloc(s->later, (s->waits + 1) * sizeof *s->later);
  s->later[s->waits++] = p;
  pthread_mutex_unlock(&lists);
}

void hy_enqueue(Stream *s, void (*run)(void *), void *data) {
  for (Stream *t = newest; t; t = t->older)
    if (t != s && t->device == s->device && (s->null ? t->blocking : s->blocking && t->null))
      hy_wait_for(s, hy_point(t));
  pthread_mutex_lock(&lists);
  Work *w = calloc(1, sizeof *w + s->waits * sizeof *w->after);
  w->run = run, w->data = data, w->waits = s->waits;
  for (int i = 0; i < s->waits; i++) w->after[i] = s->later[i];
  s->waits = 0, s->given++;
  if (s->last) s->last->next = w; else s->first = w;
  s->last = w;
  pthread_mutex_unlock(&lists);
  if (!stand_in_late) hy_reach(hy_point(s));
}

static void step(Stream *s) {
  pthread_mutex_lock(&lists);
  Work *w = s->first;
  s->first = w->next;
  if (!s->first) s->last = NULL;
  pthread_mutex_unlock(&lists);
  w->run(w->data);
  s->done++;
  free(w);
}

static void reach(Point p) {
  while (!hy_reached(p)) {
    for (int i = 0; i < p.stream->first->waits; i++) reach(p.stream->first->after[i]);
    step(p.stream);
  }
}

static int ready(const Work *w) {
  for (int i = 0; w && i < w->waits; i++) if (!hy_reached(w->after[i])) return 0;
  return w != NULL;
}

/* Whatever needs nothing of one stream. */
static void others(const Stream *but) {
  for (int found = 1; found;) {
    found = 0;
    for (Stream *s = newest; s; s = s->older)
      for (; s != but && ready(s->first); found = 1) step(s);
  }
}

/* One piece of work of each stream after the other. */
static void in_turn(Point p) {
  for (int found = 1; found && !hy_reached(p);) {
    found = 0;
    for (Stream *s = newest; s; s = s->older) if (ready(s->first)) step(s), found = 1;
  }
}

void hy_reach(Point p) {
  if (hy_reached(p)) return;
  pthread_mutex_lock(&running);
  if (stand_in_late == 2) others(p.stream);
  if (stand_in_late == 3) in_turn(p);
  reach(p);
  pthread_mutex_unlock(&running);
}

void hy_reach_device(void) {
  for (Stream *s = newest; s; s = s->older) if (s->device == stand_in_device) hy_reach(hy_point(s));
}

/* A stream's work is done, without the count of waits. */
API void stand_in_reach(void *handle) { hy_reach(hy_point(hy_stream(handle))); }
