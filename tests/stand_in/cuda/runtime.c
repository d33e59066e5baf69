/* Functions of libcudart for real CuPy where there is no GPU; see driver.c, with which it is linked. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
API int cudaMalloc(void **p, size_t n) {
  stand_in_counts.mallocs++;
  if ((long)n > stand_in_memory) return 2;
  *p = aligned_alloc(512, (n + 511) / 512 * 512 + 512);
  memset(*p, 0xff, n);                         /* not a number to whoever reads what nobody wrote */
  return 0;
}
API int cudaFree(void *p) { stand_in_counts.frees += p != 0; free(p); return 0; }
API int cudaMallocAsync(void **p, size_t n, void *s) { return cudaMalloc(p, n); }
API int cudaFreeAsync(void *p, void *s) { return cudaFree(p); }
API int cudaHostAlloc(void **p, size_t n, unsigned f) { *p = aligned_alloc(4096,
  (n + 4095) / 4096 * 4096 + 4096); return 0; }
API int cudaFreeHost(void *p) { free(p); return 0; }
API int cudaMemcpy(void *d, const void *s, size_t n, int k) { stand_in_counts.copies++; memmove(d, s, n); return 0; }
API int cudaMemcpyAsync(void *d, const void *s, size_t n, int k, void *stream) {
  int capturing = 0;
  stand_in_counts.copies++;
  cuStreamIsCapturing(stream, &capturing);
  if (capturing) return 900;
  memmove(d, s, n);
  return 0;
}
API int cudaMemset(void *d, int v, size_t n) { memset(d, v, n); return 0; }
API int cudaMemsetAsync(void *d, int v, size_t n, void *s) { memset(d, v, n); return 0; }
API int cudaMemGetInfo(size_t *f, size_t *t) { *f = *t = stand_in_memory; return 0; }
API int cudaStreamCreate(void **s) { *s = calloc(1, 64); return 0; }
API int cudaStreamCreateWithFlags(void **s, unsigned f) { return cudaStreamCreate(s); }
API int cudaStreamCreateWithPriority(void **s, unsigned f, int p) { return cudaStreamCreate(s); }
API int cudaStreamDestroy(void *s) { return 0; }
API int cudaStreamSynchronize(void *s) { return cuStreamSynchronize(s); }
API int cudaDeviceSynchronize(void) { return cuStreamSynchronize(0); }
API int cudaStreamQuery(void *s) { return 0; }
API int cudaStreamWaitEvent(void *s, void *e, unsigned f) { return 0; }
API int cudaStreamGetFlags(void *s, unsigned *f) { *f = 0; return 0; }
API int cudaStreamGetPriority(void *s, int *p) { *p = 0; return 0; }
API int cudaEventCreateWithFlags(void **e, unsigned f) { *e = calloc(1, 8); return 0; }
API int cudaEventCreate(void **e) { return cudaEventCreateWithFlags(e, 0); }
API int cudaEventDestroy(void *e) { return 0; }
API int cudaEventRecord(void *e, void *s) { return 0; }
API int cudaEventSynchronize(void *e) { return 0; }
API int cudaEventQuery(void *e) { return 0; }
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
  *(const void **)(a + 2) = p; return 0; }

/* What CuPy links and nothing here calls. */
#define MISSING(name) API int name() { fprintf(stderr, "the stand-in has no " #name "\n"); return 801; }
MISSING(cudaCreateSurfaceObject) MISSING(cudaCreateTextureObject) MISSING(cudaDestroySurfaceObject)
MISSING(cudaDestroyTextureObject) MISSING(cudaDeviceCanAccessPeer) MISSING(cudaDeviceDisablePeerAccess)
MISSING(cudaDeviceEnablePeerAccess) MISSING(cudaDeviceGetByPCIBusId) MISSING(cudaDeviceGetDefaultMemPool)
MISSING(cudaDeviceGetLimit) MISSING(cudaDeviceGetMemPool) MISSING(cudaDeviceGetPCIBusId)
MISSING(cudaDeviceSetLimit) MISSING(cudaDeviceSetMemPool) MISSING(cudaFreeArray)
MISSING(cudaGetChannelDesc) MISSING(cudaGetDeviceProperties) MISSING(cudaGetTextureObjectResourceDesc)
MISSING(cudaGetTextureObjectTextureDesc) MISSING(cudaGraphDebugDotPrint) MISSING(cudaHostRegister)
MISSING(cudaHostUnregister) MISSING(cudaIpcCloseMemHandle) MISSING(cudaIpcGetEventHandle)
MISSING(cudaIpcGetMemHandle) MISSING(cudaIpcOpenEventHandle) MISSING(cudaIpcOpenMemHandle)
MISSING(cudaLaunchHostFunc) MISSING(cudaMalloc3DArray) MISSING(cudaMallocArray)
MISSING(cudaMallocFromPoolAsync) MISSING(cudaMallocManaged) MISSING(cudaMemAdvise)
MISSING(cudaMemPoolCreate) MISSING(cudaMemPoolDestroy) MISSING(cudaMemPoolGetAttribute)
MISSING(cudaMemPoolSetAttribute) MISSING(cudaMemPoolTrimTo) MISSING(cudaMemPrefetchAsync)
MISSING(cudaMemcpy2D) MISSING(cudaMemcpy2DAsync) MISSING(cudaMemcpy2DFromArray)
MISSING(cudaMemcpy2DFromArrayAsync) MISSING(cudaMemcpy2DToArray) MISSING(cudaMemcpy2DToArrayAsync)
MISSING(cudaMemcpy3D) MISSING(cudaMemcpy3DAsync) MISSING(cudaMemcpyPeer)
MISSING(cudaMemcpyPeerAsync) MISSING(cudaProfilerStart) MISSING(cudaProfilerStop)
MISSING(cudaStreamAddCallback) 
