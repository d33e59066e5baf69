/* The CUDA driver, opened when a model is loaded: nothing of CUDA is needed to build this file. */
#include <dlfcn.h>
#include <pthread.h>
typedef unsigned long long hy_device_pointer;
typedef struct {
  int (*init)(unsigned), (*device)(int *, int), (*attribute)(int *, int, int);
  int (*retain)(void **, int), (*release)(int), (*push)(void *), (*pop)(void **);
  int (*load)(void **, const void *), (*unload)(void *), (*function)(void **, void *, const char *);
  int (*allow)(void *, int, int);
  int (*allocate)(hy_device_pointer *, size_t), (*give_back)(hy_device_pointer);
  int (*to_device)(hy_device_pointer, const void *, size_t), (*to_host)(void *, hy_device_pointer, size_t);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
} hy_driver;

/* All functions of the driver; 0 where there is no driver, or it is too old. */
static int hy_open_driver(hy_driver *d, void **library) {
  static const char *const names[] = {"cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuModuleLoadData", "cuModuleUnload",
    "cuModuleGetFunction", "cuFuncSetAttribute", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2",
    "cuLaunchKernel"};
  enum { COUNT = sizeof names / sizeof *names };
  void *found[COUNT];
  *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!*library || sizeof found != sizeof *d) return 0;
  for (int i = 0; i < COUNT; i++) if (!(found[i] = dlsym(*library, names[i]))) return 0;
  memcpy(d, found, sizeof found);       /* POSIX: a function's address fits a pointer to data */
  return 1;
}
