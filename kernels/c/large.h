// C only: arrays that are too large for a stack
extern void *aligned_alloc(__SIZE_TYPE__, __SIZE_TYPE__);
extern void free(void *);
HY_FN void *hy_large(long bytes) { return aligned_alloc(64, (__SIZE_TYPE__)((bytes + 63) / 64 * 64)); }
HY_FN void hy_free(void *p) { free(*(void **)p); }

