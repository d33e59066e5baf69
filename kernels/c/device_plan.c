/* The launches of a compiled program on an NVIDIA GPU: a table of pointers in, kernels on a stream out, through the
 * driver's functions, whose addresses Python gives (hybrid/runtime/cuda/native.py). After two runs the launches are one
 * CUDA graph; later runs set the kernels whose pointers changed since the last one and launch it. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "device_plan.h"

typedef struct {                               /* CUDA_KERNEL_NODE_PARAMS of CUDA 12 and later */
  void *function;
  unsigned grid[3], block[3], shared;
  void **arguments, **extra;
  void *kernel, *context;
} Kernel;
struct Driver {                                /* in the order of FUNCTIONS in hybrid/runtime/cuda/native.py */
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                void **);
  int (*launch_cooperative)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                            void **);
  int (*synchronize)(void *), (*capturing)(void *, int *), (*current)(void **);
  int (*graph_create)(void **, unsigned), (*graph_add)(void **, void *, void *const *, size_t, const Kernel *);
  int (*graph_instantiate)(void **, void *, unsigned long long), (*graph_set)(void *, void *, const Kernel *);
  int (*graph_launch)(void *, void *), (*graph_destroy)(void *), (*exec_destroy)(void *);
  int (*node_attribute)(void *, int, const void *);
  int (*encode)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *,
                int, int, int, int);           /* cuTensorMapEncodeTiled; NULL: the driver lacks it */
};
enum { MAP_ALIGNED = 64 };                     /* the driver's rule for the address of a CUtensorMap */
typedef struct { unsigned char bytes[128]; } Made;                            /* a CUtensorMap */
struct Plan {
  const Driver *driver;
  Launch *launch;
  Place *place;                                /* of the table's last entries: within the memory of another one */
  void **table, ***argument;                   /* argument: where the kernels' arguments are in the table */
  int *index;                                  /* entries of the table that are arguments, kernel after kernel */
  int launches, entries, places, maps, graphs, sync, runs;
  Map *map;
  Made *made;                                  /* the tensor maps, in map_memory, and the addresses that they are of */
  void *map_memory, **of;
  void *graph, *exec, **node, **last;          /* the graph, its kernels, and the table as they have it */
  long set, built;                             /* kernels that were set anew; graphs that were made */
  pthread_mutex_t lock;
};

enum { COOPERATIVE = 2 };                      /* CU_LAUNCH_ATTRIBUTE_COOPERATIVE */
enum { L2_128B = 2 };                          /* CU_TENSOR_MAP_L2_PROMOTION_L2_128B */
enum { GRAPH_FROM = 2, GRAPH_AFTER = 2 };      /* launches that are worth a graph; runs before there is one */

void hy_device_free(Plan *p) {
  if (!p) return;
  if (p->exec) p->driver->exec_destroy(p->exec);
  if (p->graph) p->driver->graph_destroy(p->graph);
  free(p->launch), free(p->place), free(p->table), free(p->argument), free(p->index), free(p->node), free(p->last);
  free(p->map), free(p->map_memory), free(p->of);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

static void *copied(const void *from, size_t bytes) {
  void *to = malloc(bytes + 1);
  return to && bytes ? memcpy(to, from, bytes) : to;
}

Plan *hy_device_plan(const Driver *driver, const Launch *launch, int launches, const int *index, int entries,
                     const Place *place, int places, const Map *map, int maps, int graphs, int sync) {
  int arguments = launches ? launch[launches - 1].first + launch[launches - 1].count : 0;
  Plan *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  pthread_mutex_init(&p->lock, NULL);
  p->driver = driver, p->launches = launches, p->entries = entries, p->places = places, p->maps = maps;
  p->graphs = graphs && launches >= GRAPH_FROM, p->sync = sync;
  p->launch = copied(launch, launches * sizeof *launch), p->place = copied(place, places * sizeof *place);
  p->index = copied(index, arguments * sizeof *index);
  p->table = calloc(entries + 1, sizeof(void *)), p->last = calloc(entries + 1, sizeof(void *));
  p->argument = calloc(arguments + 1, sizeof(void **)), p->node = calloc(launches + 1, sizeof(void *));
  p->map = copied(map, maps * sizeof *map), p->of = calloc(maps + 1, sizeof(void *));
  p->map_memory = malloc(maps * sizeof(Made) + MAP_ALIGNED);
  if (!p->launch || !p->place || !p->index || !p->table || !p->last || !p->argument || !p->node || !p->map || !p->of
      || !p->map_memory) {
    hy_device_free(p);
    return NULL;
  }
  p->made = (Made *)(((uintptr_t)p->map_memory + MAP_ALIGNED - 1) / MAP_ALIGNED * MAP_ALIGNED);
  for (int i = 0; i < arguments; i++) p->argument[i] = &p->table[index[i]];
  for (int i = 0; i < maps; i++) p->argument[map[i].argument] = (void **)&p->made[i];
  return p;
}

static Kernel kernel_of(const Plan *p, int i) {
  const Launch *l = &p->launch[i];
  Kernel k = {l->function, {l->grid[0], l->grid[1], l->grid[2]}, {l->block[0], l->block[1], l->block[2]}, l->shared,
              (void **)(p->argument + l->first), NULL, NULL, NULL};
  return k;
}

/* Tensor maps anew whose arrays lie elsewhere than before. */
static int map_arrays(Plan *p, int *failed) {
  static const uint32_t every[] = {1, 1, 1};
  for (int i = 0; i < p->maps; i++) {
    const Map *m = &p->map[i];
    void *at = (char *)p->table[p->index[m->argument]] + m->offset;
    if (at == p->of[i]) continue;
    int code = p->driver->encode(&p->made[i], m->type, m->rank, at, m->size, m->stride, m->box, every, 0, m->swizzle,
                                 L2_128B, 0);
    p->of[i] = code ? NULL : at;
    if (code) { *failed = m->launch + 1; return code; }
  }
  return 0;
}

static int each(Plan *p, void *stream, int *failed) {
  for (int i = 0; i < p->launches; i++) {
    Kernel k = kernel_of(p, i);
    const unsigned *g = k.grid, *b = k.block;
    void *f = k.function, **a = k.arguments;
    int code = p->launch[i].cooperative
      ? p->driver->launch_cooperative(f, g[0], g[1], g[2], b[0], b[1], b[2], k.shared, stream, a)
      : p->driver->launch(f, g[0], g[1], g[2], b[0], b[1], b[2], k.shared, stream, a, NULL);
    if (!code && p->sync) code = p->driver->synchronize(stream);
    if (code) { *failed = i + 1; return code; }
  }
  return 0;
}

/* One kernel after the other, as a stream runs them. */
static int build(Plan *p) {
  int code = p->driver->graph_create(&p->graph, 0);
  for (int i = 0; !code && i < p->launches; i++) {
    Kernel k = kernel_of(p, i);
    code = p->driver->graph_add(&p->node[i], p->graph, i ? &p->node[i - 1] : NULL, i > 0, &k);
    int value[16] = {1};                       /* a CUlaunchAttributeValue */
    if (!code && p->launch[i].cooperative) code = p->driver->node_attribute(p->node[i], COOPERATIVE, value);
  }
  if (!code) code = p->driver->graph_instantiate(&p->exec, p->graph, 0);
  memcpy(p->last, p->table, p->entries * sizeof(void *));
  p->built += !code;
  return code;
}

static int changed(const Plan *p, const Launch *l) {
  for (int a = l->first; a < l->first + l->count; a++) if (p->last[p->index[a]] != p->table[p->index[a]]) return 1;
  return 0;
}

static int replay(Plan *p, void *stream, int *failed) {
  if (memcmp(p->last, p->table, p->entries * sizeof(void *))) {
    for (int i = 0; i < p->launches; i++) {
      if (!changed(p, &p->launch[i])) continue;
      Kernel k = kernel_of(p, i);
      int code = p->driver->graph_set(p->exec, p->node[i], &k);
      if (code) { memset(p->last, 0xff, p->entries * sizeof(void *)); *failed = i + 1; return code; }
      p->set++;
    }
    memcpy(p->last, p->table, p->entries * sizeof(void *));
  }
  return p->driver->graph_launch(p->exec, stream);
}

int hy_device_run(Plan *p, void *const *table, void *stream, int capturing, int *failed) {
  int given = p->entries - p->places, code;
  *failed = 0;
  pthread_mutex_lock(&p->lock);                /* the kernels of two calls never mix: they share memory */
  if (given) memcpy(p->table, table, given * sizeof(void *));
  for (int i = 0; i < p->places; i++) p->table[given + i] = (char *)p->table[p->place[i].base] + p->place[i].offset;
  code = map_arrays(p, failed);
  if (!code && p->graphs && !p->sync && !capturing && !p->exec && p->runs++ >= GRAPH_AFTER && build(p)) p->graphs = 0;
  if (!code) code = p->exec && !p->sync && !capturing ? replay(p, stream, failed) : each(p, stream, failed);
  pthread_mutex_unlock(&p->lock);
  return code;
}

int hy_device_capturing(const Driver *driver, void *stream) {
  int status = 0;
  if (!stream) return 0;                       /* the legacy stream cannot be */
  return driver->capturing(stream, &status) ? -1 : status != 0;
}

void *hy_device_current(const Driver *driver) {
  void *context = NULL;
  return driver->current(&context) ? NULL : context;
}

void hy_device_counts(const Plan *p, long *out) { out[0] = p->runs, out[1] = p->built, out[2] = p->set; }
