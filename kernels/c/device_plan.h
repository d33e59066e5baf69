/* What Python and device_plan.c tell each other (native.py gives this text to cffi: no lines that begin with #). */
typedef struct Driver Driver;                  /* the driver's functions, in the order of native.py's FUNCTIONS */
typedef struct Plan Plan;
typedef struct { void *function; unsigned grid[3], block[3], shared; int cooperative, first, count; } Launch;
typedef struct { int base; size_t offset; } Place;
typedef struct {                               /* an argument that is a tensor map, not a pointer: what it describes */
  int argument, launch, type, swizzle; uint32_t rank; size_t offset;
  uint64_t size[3], stride[2]; uint32_t box[3];
} Map;

/* entries: of the table, its last `places` among them. Everything is copied but the driver's functions; an array of
 * no elements may be NULL. NULL: no memory. */
Plan *hy_device_plan(const Driver *driver, const Launch *launch, int launches, const int *index, int entries,
                     const Place *place, int places, const Map *map, int maps, int graphs, int sync);

/* Launch all. table: one entry for each of the plan's but the places. 0, or the driver's error and in *failed 1 + the
 * number of the kernel. A stream that is being captured takes the kernels one by one: they are part of its own
 * graph. */
int hy_device_run(Plan *p, void *const *table, void *stream, int capturing, int *failed);

/* Whether a stream is being captured; -1: the driver cannot say. */
int hy_device_capturing(const Driver *driver, void *stream);

/* The calling thread's context; NULL: none. */
void *hy_device_current(const Driver *driver);

/* Runs before there was a graph, graphs that were made, kernels that were set anew. */
void hy_device_counts(const Plan *p, long *out);

void hy_device_free(Plan *p);
