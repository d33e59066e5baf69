// Arrays that are too large for a stack
#ifdef _WIN32
extern void *_aligned_malloc(hy_size, hy_size);
extern void _aligned_free(void *);
HY_FN void *hy_large(long bytes) { return _aligned_malloc((hy_size)((bytes + 63) / 64 * 64), 64); }
HY_FN void hy_free(void *p) { _aligned_free(*(void **)p); }
#else
extern void *aligned_alloc(hy_size, hy_size);
extern void free(void *);
HY_FN void *hy_large(long bytes) { return aligned_alloc(64, (hy_size)((bytes + 63) / 64 * 64)); }
HY_FN void hy_free(void *p) { free(*(void **)p); }
#endif
