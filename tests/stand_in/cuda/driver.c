/* Functions of libcuda and libcudart where there is no GPU: kernels run in the emulator, device memory is the host's.
 * The stand-in for CuPy (tests/cuda/fake_cupy.py) calls it, and real CuPy does where its runtime module is linked with
 * it (tests/stand_in/cuda/README.md). Streams may run late (streams.c); HYBRID_STAND_IN_NOOP=1 leaves kernels out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kernels/emulator/emu_tensor_map.h"
#include "streams.h"

#define API __attribute__((visibility("default")))
enum { FAILED = 700, CAPTURE_UNSUPPORTED = 900, NOT_FOUND = 500, NO_MEMORY = 2 };
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
API __thread int stand_in_device = 0;

API struct { long launches, graphs, replays, mallocs, frees, copies, waits, sets, maps; } stand_in_counts;
API char stand_in_fails[64];                   /* a kernel that fails when it is waited for */
API long stand_in_memory = 8l << 30;           /* bytes that cudaMalloc gives */
API int stand_in_version = 13000;
API int stand_in_resident = 1;                 /* blocks of a multiprocessor */
API long stand_in_left_out;                    /* launches of CuPy's own kernels, which do nothing */
static int pending;                            /* the error of a kernel that nobody waited for yet */

typedef struct { int order; unsigned seed; int sums, resident; } EmuOptions;
typedef struct { int kernel; unsigned grid[3], block[3]; unsigned long dynamic_bytes;
  int cooperative, first_arg, args; } EmuLaunch;
typedef struct {
  void *so; char **names; int n;
  int (*nargs)(int), (*bytes)(int, int), (*run)(const EmuLaunch *, int, const int *, void **, const EmuOptions *);
  const char *(*err)(void);
} Module;
typedef struct { Module *m; int k; } Func;
typedef struct Node {
  Func *fn;
  unsigned g[3], b[3], shared;
  int n, cooperative, waits, done;             /* waits: how many nodes it comes after */
  void **args;
  struct Node *next, **after;
} Node;
typedef struct Graph { Node *first, *last; } Graph;
typedef struct { void *function; unsigned g[3], b[3], shared; void **arguments; } Params;

static int left_out(Func *f) {
  static int noop = -1;
  if (noop < 0) noop = getenv("HYBRID_STAND_IN_NOOP") != NULL;
  stand_in_counts.launches++, stand_in_left_out += !f->m->so;
  return noop || !f->m->so;
}
/* An argument as a launch has it: a pointer, or a copy of an object, which is kept as long as the process. */
static void *argument(Func *f, int i, void *given) {
  int bytes = f->m->bytes(f->k, i);
  return bytes ? memcpy(aligned_alloc(64, bytes), given, bytes) : *(void **)given;
}
static void free_node(Node *x) { free(x->args), free(x->after), free(x); }
static void run_node(void *node) {
  Node *x = node;
  Module *m = x->fn->m;
  EmuLaunch l = {x->fn->k, {x->g[0], x->g[1], x->g[2]}, {x->b[0], x->b[1], x->b[2]}, x->shared, x->cooperative, 0,
      x->n};
  EmuOptions o = {0, 1, 0, 1};
  int index[x->n + 1];
  for (int i = 0; i < x->n; i++) index[i] = i;
  pthread_mutex_lock(&one_at_a_time);
  int failed = m->run(&l, 1, index, x->args, &o);
  pthread_mutex_unlock(&one_at_a_time);
  if (failed) fprintf(stderr, "kernel %s: %s\n", m->names[x->fn->k], m->err());
  if (failed || !strcmp(stand_in_fails, m->names[x->fn->k])) pending = FAILED;
  free_node(x);
}
static Node *node_of(Func *f, const unsigned *g, const unsigned *b, unsigned shared, void **p) {
  Node *x = calloc(1, sizeof *x);
  x->fn = f, x->shared = shared, x->n = f->m->so ? f->m->nargs(f->k) : 0;
  memcpy(x->g, g, sizeof x->g), memcpy(x->b, b, sizeof x->b);
  x->args = calloc(x->n + 1, sizeof(void *));
  for (int i = 0; i < x->n; i++) x->args[i] = argument(f, i, p[i]);
  return x;
}
static void append(Graph *g, Node *x, Node *const *after, int waits) {
  x->after = calloc(waits + 1, sizeof *after), x->waits = waits;
  for (int i = 0; i < waits; i++) x->after[i] = after[i];
  if (g->last) g->last->next = x; else g->first = x;
  g->last = x;
}

static int launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned sh,
                  void *s, void **p, int cooperative) {
  unsigned g[3] = {gx, gy, gz}, b[3] = {bx, by, bz};
  if (pending) return FAILED;                  /* the driver tells of an earlier kernel's error at the next call */
  Stream *stream = hy_stream(s);
  Graph *captured = hy_capture(stream);
  if (!captured && left_out(f)) return 0;
  Node *x = node_of(f, g, b, sh, p);
  x->cooperative = cooperative;
  if (captured) append(captured, x, &captured->last, captured->last != NULL); else hy_enqueue(stream, run_node, x);
  return 0;
}
API int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned sh, void *s, void **p, void **extra) {
  return launch(f, gx, gy, gz, bx, by, bz, sh, s, p, 0);
}
API int cuLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                  unsigned sh, void *s, void **p) {
  return launch(f, gx, gy, gz, bx, by, bz, sh, s, p, 1);
}
API int cuTensorMapEncodeTiled(EmuTensorMap *map, int type, uint32_t rank, void *base, const uint64_t *size,
                               const uint64_t *stride, const uint32_t *box, const uint32_t *every, int interleave,
                               int swizzle, int promotion, int fill) {
  stand_in_counts.maps++;
  return emu_encode_tiled(map, type, rank, base, size, stride, box, every, interleave, swizzle, promotion, fill);
}
/* An image: ELF-EMU:, the path of the emulator's library, and its kernels, a line each. */
API int cuModuleLoadData(void **out, const char *image) {
  Module *m = *out = calloc(1, sizeof *m);
  if (strncmp(image, "\x7f""ELF-EMU:", 9)) return 0;
  char *save = NULL, *path = strtok_r(strdup(image + 9), "\n", &save), *name;
  m->so = dlopen(path, RTLD_NOW);
  if (!m->so) { fprintf(stderr, "%s\n", dlerror()); return 200; }
  m->names = calloc(strlen(image), sizeof(char *));
  while ((name = strtok_r(NULL, "\n", &save))) m->names[m->n++] = name;
  m->bytes = dlsym(m->so, "emu_argument_bytes");
  m->nargs = dlsym(m->so, "emu_kernel_args"), m->run = dlsym(m->so, "emu_run"), m->err = dlsym(m->so, "emu_last_error");
  return 0;
}
API int cuModuleGetFunction(void **out, Module *m, const char *name) {
  for (int i = 0; i < m->n || !m->so; i++) {
    if (m->so && strcmp(m->names[i], name)) continue;
    Func *f = *out = calloc(1, sizeof *f);
    f->m = m, f->k = i;
    return 0;
  }
  return NOT_FOUND;
}
API int cuModuleUnload(void *m) { return 0; }
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int threads, size_t shared) {
  *n = stand_in_resident;
  return 0;
}
API int cuFuncSetAttribute(void *f, int a, int v) { return 0; }
API int cuFuncGetAttribute(int *v, int a, void *f) { *v = 0; return 0; }
static const char *name_of(int e) {
  return e == FAILED ? "CUDA_ERROR_ILLEGAL_ADDRESS" :
    e == CAPTURE_UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : e == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
        : "CUDA_ERROR_UNKNOWN";
}
API int cuGetErrorName(int e, const char **s) { *s = name_of(e); return 0; }
API int cuGetErrorString(int e, const char **s) { *s = name_of(e); return 0; }
API int cuCtxGetCurrent(void **c) { *c = (void *)(intptr_t)(0x1000 + stand_in_device); return 0; }
API int cuCtxGetDevice(int *d) { *d = stand_in_device; return 0; }
API int cuInit(unsigned f) { return 0; }
API int cuDriverGetVersion(int *v) { *v = stand_in_version; return 0; }
API int cuGetExportTable(const void **t, const void *u) { *t = NULL; return NOT_FOUND; }
API int cuGetProcAddress(const char *n, void **p, int v,
  unsigned long long f) { return (*p = dlsym(RTLD_DEFAULT, n)) ? 0 : NOT_FOUND; }
API int cuGetProcAddress_v2(const char *n, void **p, int v, unsigned long long f,
  int *st) { return cuGetProcAddress(n, p, v, f); }

/* ---- graphs: a capture's and those made kernel by kernel */
static int now(void) { int code = pending; pending = 0; return code; }
API int cuStreamSynchronize(void *s) {
  stand_in_counts.waits++;
  if (hy_capture(hy_stream(s))) return CAPTURE_UNSUPPORTED;
  hy_reach(hy_point(hy_stream(s)));
  return now();
}
API int cudaDeviceSynchronize(void) {
  stand_in_counts.waits++;
  hy_reach_device();
  return now();
}
API int cuStreamIsCapturing(void *s, int *r) { *r = hy_capture(hy_stream(s)) != NULL; return 0; }
API int cuGraphCreate(void **g, unsigned flags) { *g = calloc(1, sizeof(Graph)); return 0; }
API int cuGraphAddKernelNode_v2(void **node, Graph *g, void *const *after, size_t n, const Params *p) {
  append(g, *node = node_of(p->function, p->g, p->b, p->shared, p->arguments), (Node *const *)after, n);
  return 0;
}
API int cuGraphKernelNodeSetAttribute(Node *x, int attribute, const int *value) {
  if (attribute != 2) return CAPTURE_UNSUPPORTED;
  x->cooperative = *value;
  return 0;
}
API int cuGraphInstantiateWithFlags(void **e, void *g, unsigned long long f) { *e = g;
  stand_in_counts.graphs++; return 0; }
API int cuGraphExecKernelNodeSetParams_v2(void *e, Node *x, const Params *p) {
  stand_in_counts.sets++;
  for (int i = 0; i < x->n; i++) x->args[i] = argument(x->fn, i, p->arguments[i]);
  return 0;
}
/* The next node: the last one that was added of those that wait for none. */
static Node *next_of(const Graph *g) {
  Node *found = NULL;
  for (Node *x = g->first; x; x = x->next) {
    int ready = !x->done;
    for (int i = 0; i < x->waits; i++) ready &= x->after[i]->done;
    if (ready) found = x;
  }
  return found;
}
/* Kernels with their arguments as they are now: a later launch may have others. */
API int cuGraphLaunch(Graph *g, void *s) {
  Stream *stream = hy_stream(s);
  if (hy_capture(stream)) return CAPTURE_UNSUPPORTED;
  stand_in_counts.replays++;
  for (Node *x = g->first; x; x = x->next) x->done = 0;
  for (Node *x; (x = next_of(g)); x->done = 1) {
    if (left_out(x->fn)) continue;
    Node *copy = malloc(sizeof *copy);
    *copy = *x, copy->after = NULL, copy->args = calloc(x->n + 1, sizeof(void *));
    memcpy(copy->args, x->args, x->n * sizeof(void *));
    hy_enqueue(stream, run_node, copy);
  }
  return 0;
}
API int cuGraphDestroy(void *g) { return 0; }
API int cuGraphExecDestroy(void *e) { return 0; }
API int cudaStreamIsCapturing(void *s, int *r) { return cuStreamIsCapturing(s, r); }
API int cudaStreamBeginCapture(void *s, int mode) {
  if ((uintptr_t)s <= 2) return CAPTURE_UNSUPPORTED;
  hy_set_capture(s, calloc(1, sizeof(Graph)));
  return 0;
}
API int cudaStreamEndCapture(void *s, void **g) { *g = hy_capture(s), hy_set_capture(s, NULL); return 0; }
API int cudaGraphInstantiate(void **e, void *g, unsigned long long f) { return cuGraphInstantiateWithFlags(e, g, f); }
API int cudaGraphDestroy(void *g) { return 0; }
API int cudaGraphExecDestroy(void *g) { return 0; }
API int cudaGraphUpload(void *g, void *s) { return 0; }
API int cudaGraphLaunch(void *e, void *s) { return cuGraphLaunch(e, s); }
