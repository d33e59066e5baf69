/* Functions of libcuda and libcudart where there is no GPU: kernels run in the emulator, device memory is the host's.
 * The stand-in for CuPy (tests/cuda/fake_cupy.py) calls it, and real CuPy does where its runtime module is linked with
 * it (tests/stand_in/cuda/README.md). Launches are done when they return; HYBRID_STAND_IN_NOOP=1 leaves kernels out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum { FAILED = 700, CAPTURE_UNSUPPORTED = 900, NOT_FOUND = 500, NO_MEMORY = 2 };
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
API __thread int stand_in_device = 0;

API struct { long launches, graphs, replays, mallocs, frees, copies, waits, sets; } stand_in_counts;
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
  int (*nargs)(int), (*run)(const EmuLaunch *, int, const int *, void **, const EmuOptions *);
  const char *(*err)(void);
} Module;
typedef struct { Module *m; int k; } Func;
typedef struct Node { Func *fn; unsigned g[3], b[3], shared; int n, cooperative; void **args; struct Node *next; } Node;
typedef struct { Node *first, *last; } Graph;
typedef struct { int capturing; Graph *graph; } Stream;
typedef struct { void *function; unsigned g[3], b[3], shared; void **arguments; } Params;

static Stream *stream_of(void *s) { return (uintptr_t)s > 2 ? s : NULL; }

static int run_node(Node *x) {
  static int noop = -1;
  if (noop < 0) noop = getenv("HYBRID_STAND_IN_NOOP") != NULL;
  stand_in_counts.launches++;
  Module *m = x->fn->m;
  if (!m->so) stand_in_left_out++;
  if (noop || !m->so) return 0;
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
  return 0;
}
static Node *node_of(Func *f, const unsigned *g, const unsigned *b, unsigned shared, void **p) {
  Node *x = calloc(1, sizeof *x);
  x->fn = f, x->shared = shared, x->n = f->m->so ? f->m->nargs(f->k) : 0;
  memcpy(x->g, g, sizeof x->g), memcpy(x->b, b, sizeof x->b);
  x->args = calloc(x->n + 1, sizeof(void *));
  for (int i = 0; i < x->n; i++) x->args[i] = *(void **)p[i];
  return x;
}
static void free_node(Node *x) { free(x->args); free(x); }
static void append(Graph *g, Node *x) { if (g->last) g->last->next = x; else g->first = x; g->last = x; }

static int launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned sh,
                  void *s, void **p, int cooperative) {
  unsigned g[3] = {gx, gy, gz}, b[3] = {bx, by, bz};
  if (pending) return FAILED;                  /* the driver tells of an earlier kernel's error at the next call */
  Node *x = node_of(f, g, b, sh, p);
  x->cooperative = cooperative;
  Stream *stream = stream_of(s);
  if (stream && stream->capturing) { append(stream->graph, x); return 0; }
  int code = run_node(x);
  free_node(x);
  return code;
}
API int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned sh, void *s, void **p, void **extra) {
  return launch(f, gx, gy, gz, bx, by, bz, sh, s, p, 0);
}
API int cuLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                  unsigned sh, void *s, void **p) {
  return launch(f, gx, gy, gz, bx, by, bz, sh, s, p, 1);
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
  return stream_of(s) && stream_of(s)->capturing ? CAPTURE_UNSUPPORTED : now();
}
API int cuStreamIsCapturing(void *s, int *r) { *r = stream_of(s) && stream_of(s)->capturing; return 0; }
API int cuGraphCreate(void **g, unsigned flags) { *g = calloc(1, sizeof(Graph)); return 0; }
API int cuGraphAddKernelNode_v2(void **node, Graph *g, void *const *after, size_t n, const Params *p) {
  append(g, *node = node_of(p->function, p->g, p->b, p->shared, p->arguments));
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
  for (int i = 0; i < x->n; i++) x->args[i] = *(void **)p->arguments[i];
  return 0;
}
API int cuGraphLaunch(Graph *e, void *s) {
  if (stream_of(s) && stream_of(s)->capturing) return CAPTURE_UNSUPPORTED;
  stand_in_counts.replays++;
  for (Node *x = e->first; x; x = x->next) { int r = run_node(x); if (r) return r; }
  return 0;
}
API int cuGraphDestroy(void *g) { return 0; }
API int cuGraphExecDestroy(void *e) { return 0; }
API int cudaStreamIsCapturing(void *s, int *r) { return cuStreamIsCapturing(s, r); }
API int cudaStreamBeginCapture(void *s, int mode) {
  if (!stream_of(s)) return CAPTURE_UNSUPPORTED;
  stream_of(s)->capturing = 1, stream_of(s)->graph = calloc(1, sizeof(Graph));
  return 0;
}
API int cudaStreamEndCapture(void *s, void **g) { stream_of(s)->capturing = 0; *g = stream_of(s)->graph; return 0; }
API int cudaGraphInstantiate(void **e, void *g, unsigned long long f) { return cuGraphInstantiateWithFlags(e, g, f); }
API int cudaGraphDestroy(void *g) { return 0; }
API int cudaGraphExecDestroy(void *g) { return 0; }
API int cudaGraphUpload(void *g, void *s) { return 0; }
API int cudaGraphLaunch(void *e, void *s) { return cuGraphLaunch(e, s); }
