/* Functions of libcudart for real CuPy where there is no GPU; see driver.c, with which it is linked. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams.h"

#define API __attribute__((visibility("default")))
extern struct { long launches, graphs, replays, mallocs, frees, copies, waits, sets; } stand_in_counts;
extern long stand_in_memory;
extern int stand_in_version;
int cuStreamSynchronize(void *), cuStreamIsCapturing(void *, int *);
static int devices(void) { const char *n = getenv("HYBRID_STAND_IN_DEVICES"); return n ? atoi(n) : 1; }
extern __thread int stand_in_device;

API int cudaGetDeviceCount(int *n) { *n = devices(); return 0; }
API int cudaGetDevice(int *d) { *d = stand_in_device; return 0; }
API int cudaSetDevice(int d) { stand_in_device = d; return 0; }
API int cudaDriverGetVersion(int *v) { *v = stand_in_version; return 0; }
API int cudaRuntimeGetVersion(int *v) { *v = 13000; return 0; }
API int cudaDeviceCanAccessPeer(int *can, int d, int peer) { *can = getenv("HYBRID_STAND_IN_PEERS") != NULL; return 0; }
API int cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return 0; }
/* ---- memory. Pinned memory is read and written when the copy's turn comes, other host memory during the call. */
typedef struct Block { char *at; size_t n; int device; struct Block *next; } Block;
static Block *blocks;
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
/* The device that a place in memory is of; the current one where it is none's. */
static int device_of(const void *at) {
  int found = stand_in_device;
  pthread_mutex_lock(&listing);
  for (Block *b = blocks; b; b = b->next) if ((char *)at >= b->at && (char *)at < b->at + b->n) found = b->device;
  pthread_mutex_unlock(&listing);
  return found;
}
static void given_back(void *p) {
  pthread_mutex_lock(&listing);
  for (Block **at = &blocks; *at; at = &(*at)->next) if ((*at)->at == p) {
    Block *gone = *at;
    *at = gone->next;
    free(gone);
    break;
  }
  pthread_mutex_unlock(&listing);
  free(p);
}
typedef struct Pinned { char *at; size_t n; struct Pinned *next; } Pinned;
static Pinned *all_pinned;
static int pinned(const void *at) {
  for (Pinned *p = all_pinned; p; p = p->next) if ((char *)at >= p->at && (char *)at < p->at + p->n) return 1;
  return 0;
}
API int cudaMalloc(void **p, size_t n) {
  stand_in_counts.mallocs++;
  if ((long)n > stand_in_memory) return 2;
  *p = aligned_alloc(512, (n + 511) / 512 * 512 + 512);
  memset(*p, 0xff, n);                         /* not a number to whoever reads what nobody wrote */
  Block *made = malloc(sizeof *made);
  pthread_mutex_lock(&listing);
  *made = (Block){*p, n, stand_in_device, blocks}, blocks = made;
  pthread_mutex_unlock(&listing);
  return 0;
}
API int cudaFree(void *p) {
  stand_in_counts.frees += p != 0;
  hy_reach_device();
  given_back(p);
  return 0;
}
API int cudaMallocAsync(void **p, size_t n, void *s) { return cudaMalloc(p, n); }
API int cudaFreeAsync(void *p, void *s) {
  stand_in_counts.frees += p != 0;
  hy_enqueue(hy_stream(s), given_back, p);
  return 0;
}
API int cudaHostAlloc(void **p, size_t n, unsigned f) {
  Pinned *made = malloc(sizeof *made);
  *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096 + 4096);
  *made = (Pinned){*p, n, all_pinned}, all_pinned = made;
  return 0;
}
API int cudaFreeHost(void *p) {
  hy_reach_device();
  for (Pinned **at = &all_pinned; *at; at = &(*at)->next) if ((*at)->at == p) {
    Pinned *gone = *at;
    *at = gone->next;
    free(gone);
    break;
  }
  free(p);
  return 0;
}
typedef struct { void *to, *from; size_t n; int value; void *staged; } Copy;
static void copy(void *data) {
  Copy *c = data;
  if (c->from) memmove(c->to, c->from, c->n); else memset(c->to, c->value, c->n);
  free(c->staged), free(c);
}
static void give(void *stream, Copy c) {
  Copy *made = malloc(sizeof *made);
  *made = c;
  hy_enqueue(hy_stream(stream), copy, made);
}
/* The null stream of another device: a copy between devices on the null stream waits for both, and both for it. */
static Stream *null_of(int device) {
  int before = stand_in_device;
  stand_in_device = device;
  Stream *s = hy_stream(NULL);
  stand_in_device = before;
  return s;
}
enum { TO_DEVICE = 1, TO_HOST = 2 };
API int cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream) {
  stand_in_counts.copies++;
  if (hy_capture(hy_stream(stream))) return 900;
  int between = !stream && kind != TO_DEVICE && kind != TO_HOST && device_of(to) != device_of(from);
  Stream *ends[] = {null_of(device_of(from)), null_of(device_of(to))}, *here = hy_stream(stream);
  for (int i = 0; between && i < 2; i++) if (ends[i] != here) hy_wait_for(here, hy_point(ends[i]));
  void *staged = kind == TO_DEVICE && !pinned(from) ? memcpy(malloc(n + 1), from, n) : NULL;
  give(stream, (Copy){to, staged ? staged : (void *)from, n, 0, staged});
  for (int i = 0; between && i < 2; i++) if (ends[i] != here) hy_wait_for(ends[i], hy_point(here));
  if (kind == TO_HOST && !pinned(to)) hy_reach(hy_point(hy_stream(stream)));
  return 0;
}
API int cudaMemcpy(void *to, const void *from, size_t n, int kind) {
  cudaMemcpyAsync(to, from, n, kind, NULL);
  hy_reach(hy_point(hy_stream(NULL)));
  return 0;
}
API int cudaMemsetAsync(void *d, int v, size_t n, void *s) { give(s, (Copy){d, NULL, n, v, NULL}); return 0; }
API int cudaMemset(void *d, int v, size_t n) { return cudaMemsetAsync(d, v, n, NULL); }
API int cudaMemGetInfo(size_t *f, size_t *t) { *f = *t = stand_in_memory; return 0; }

/* ---- streams and events */
enum { NON_BLOCKING = 1, NOT_READY = 600 };
API int cudaStreamCreateWithFlags(void **s, unsigned f) { *s = hy_new_stream(!(f & NON_BLOCKING)); return 0; }
API int cudaStreamCreate(void **s) { return cudaStreamCreateWithFlags(s, 0); }
API int cudaStreamCreateWithPriority(void **s, unsigned f, int p) { return cudaStreamCreateWithFlags(s, f); }
API int cudaStreamDestroy(void *s) { return 0; }                /* its work is done all the same */
API int cudaStreamSynchronize(void *s) { return cuStreamSynchronize(s); }
/* Not done yet when it is asked for first; who asks again finds it done. */
API int cudaStreamQuery(void *s) {
  Point p = hy_point(hy_stream(s));
  if (hy_reached(p)) return 0;
  hy_reach(p);
  return NOT_READY;
}
typedef struct { Point at; int asked; } Event;
API int cudaStreamWaitEvent(void *s, void *e, unsigned f) { hy_wait_for(hy_stream(s), ((Event *)e)->at); return 0; }
API int cudaStreamGetFlags(void *s, unsigned *f) { *f = 0; return 0; }
API int cudaStreamGetPriority(void *s, int *p) { *p = 0; return 0; }
API int cudaLaunchHostFunc(void *s, void (*f)(void *), void *data) { hy_enqueue(hy_stream(s), f, data); return 0; }
API int cudaEventCreateWithFlags(void **e, unsigned f) { *e = calloc(1, sizeof(Event)); return 0; }
API int cudaEventCreate(void **e) { return cudaEventCreateWithFlags(e, 0); }
API int cudaEventDestroy(void *e) { free(e); return 0; }
static void nothing(void *data) {}
API int cudaEventRecord(void *e, void *s) {
  hy_enqueue(hy_stream(s), nothing, NULL);                      /* after what the stream waits for */
  *(Event *)e = (Event){hy_point(hy_stream(s)), 0};
  return 0;
}
API int cudaEventSynchronize(void *e) { hy_reach(((Event *)e)->at); return 0; }
API int cudaEventQuery(void *event) {                           /* CuPy asks about each copy from the host once */
  Event *e = event;
  if (!hy_reached(e->at) && !e->asked++) return NOT_READY;
  hy_reach(e->at);
  return 0;
}
API int cudaEventElapsedTime(float *m, void *a, void *b) { *m = 1; return 0; }
API int cudaDeviceGetAttribute(int *v, int a, int d) {
  *v = a == 75 ? 9 : a == 76 ? 0 : a == 16 ? 132 : a == 10 ? 32 : a == 1 ? 1024 : a == 115;
  return 0;
}
API const char *cudaGetErrorName(int e) {
  return e == 900 ? "cudaErrorStreamCaptureUnsupported" : e == 700 ? "cudaErrorIllegalAddress"
    : e == 2 ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
}
API const char *cudaGetErrorString(int e) { return cudaGetErrorName(e); }
API int cudaGetLastError(void) { return 0; }
API int cudaPeekAtLastError(void) { return 0; }
API int cudaPointerGetAttributes(int *a, const void *p) { memset(a, 0, 32); a[0] = 2;
  a[1] = device_of(p), *(const void **)(a + 2) = p; return 0; }

/* What CuPy links and nothing here calls. */
#define MISSING(name) API int name() { fprintf(stderr, "the stand-in has no " #name "\n"); return 801; }
MISSING(cudaCreateSurfaceObject) MISSING(cudaCreateTextureObject) MISSING(cudaDestroySurfaceObject)
MISSING(cudaDestroyTextureObject) MISSING(cudaDeviceDisablePeerAccess)
MISSING(cudaDeviceGetByPCIBusId) MISSING(cudaDeviceGetDefaultMemPool)
MISSING(cudaDeviceGetLimit) MISSING(cudaDeviceGetMemPool) MISSING(cudaDeviceGetPCIBusId)
MISSING(cudaDeviceSetLimit) MISSING(cudaDeviceSetMemPool) MISSING(cudaFreeArray)
MISSING(cudaGetChannelDesc) MISSING(cudaGetDeviceProperties) MISSING(cudaGetTextureObjectResourceDesc)
MISSING(cudaGetTextureObjectTextureDesc) MISSING(cudaGraphDebugDotPrint) MISSING(cudaHostRegister)
MISSING(cudaHostUnregister) MISSING(cudaIpcCloseMemHandle) MISSING(cudaIpcGetEventHandle)
MISSING(cudaIpcGetMemHandle) MISSING(cudaIpcOpenEventHandle) MISSING(cudaIpcOpenMemHandle)
MISSING(cudaMalloc3DArray) MISSING(cudaMallocArray)
MISSING(cudaMallocFromPoolAsync) MISSING(cudaMallocManaged) MISSING(cudaMemAdvise)
MISSING(cudaMemPoolCreate) MISSING(cudaMemPoolDestroy) MISSING(cudaMemPoolGetAttribute)
MISSING(cudaMemPoolSetAttribute) MISSING(cudaMemPoolTrimTo) MISSING(cudaMemPrefetchAsync)
MISSING(cudaMemcpy2D) MISSING(cudaMemcpy2DAsync) MISSING(cudaMemcpy2DFromArray)
MISSING(cudaMemcpy2DFromArrayAsync) MISSING(cudaMemcpy2DToArray) MISSING(cudaMemcpy2DToArrayAsync)
MISSING(cudaMemcpy3D) MISSING(cudaMemcpy3DAsync) MISSING(cudaMemcpyPeer)
MISSING(cudaMemcpyPeerAsync) MISSING(cudaProfilerStart) MISSING(cudaProfilerStop)
MISSING(cudaStreamAddCallback) 
