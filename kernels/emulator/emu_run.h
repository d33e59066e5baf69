// Launches: what Python calls in the compiled emulator module. Included by cuda_on_cpu.h.
#pragma once

struct EmuOptions {
    int order;                                  // of threads and blocks: 0 forward, 1 reverse, 2 random
    unsigned seed;
    int sums;                                   // of tensor cores: 0 rounded one by one, 1 cut off in groups
    int resident;                               // blocks that take turns at their barriers; 1: one after the other
};
struct EmuLaunch {
    int kernel;
    unsigned grid[3], block[3];
    unsigned long dynamic_bytes;
    int cooperative, first_arg, args;           // its arguments: entries first_arg .. of the index list
};

// Number of kernels of this module that have static shared arrays, 1 at least: the arrays lie in one section, so limits
// are multiplied by it.
extern const unsigned emu_sharing;

// What runs once for each launch, or hardly ever: to optimise it, for every module again, takes longer than to run it.
#if defined(__GNUC__) && !defined(__clang__) && !defined(EMU_ONCE)
#define EMU_ONCE __attribute__((optimize("O0")))
#elif !defined(EMU_ONCE)
#define EMU_ONCE
#endif

namespace emu {

const size_t SHARED_LIMIT = 227 * 1024, STATIC_LIMIT = (size_t)48 * 1024;    // as on compute capability 9.0

static EMU_ONCE void describe_deadlock() {
    static const char *const names[] = {"ready", "__syncthreads", "a warp collective", "grid sync",
                                        "a barrier of the first threads", "done"};
    Block *b = M.current_block;
    unsigned count[DONE + 1] = {0};
    for (unsigned i = 0; i < b->threads; i++) count[b->fibers[i].state]++;
    char text[480];
    int n = snprintf(text, sizeof text, "deadlock in block (%u,%u,%u):", b->index.x, b->index.y, b->index.z);
    for (int s = 0; s <= DONE; s++)
        if (count[s]) n += snprintf(text + n, sizeof text - n, " %u threads at %s;", count[s], names[s]);
    for (unsigned i = 0, shown = 0; i < b->threads && shown < 3; i++) {
        const Fiber &f = b->fibers[i];
        if (f.state != AT_WARP) continue;
        n += snprintf(text + n, sizeof text - n, " thread %u in %s mask %08x arrived %08x;", f.tid, f.meeting->what,
                      f.meeting->mask, f.meeting->arrived);
        shown++;
    }
    fail(DEADLOCK, text);
}

static size_t static_bytes() { return __start_emu_shared ? __stop_emu_shared - __start_emu_shared : 0; }

static void start_block(Block *b, size_t index, unsigned threads, char *shared) {
    b->index = {(unsigned)(index % M.grid.x), (unsigned)(index / M.grid.x % M.grid.y),
                (unsigned)(index / ((size_t)M.grid.x * M.grid.y))};
    b->threads = b->live = threads;
    b->position = threads - 1, b->low = 0;
    b->arrived = b->generation = b->first_arrived = b->first_generation = 0;
    b->votes = b->announced = 0;
    b->looked_for = nullptr;
    b->paused = b->spinning = false;
    b->registers = 0;
    b->dynamic_shared = shared;
    memset(shared, 0xff, M.dynamic_bytes);
    for (unsigned i = 0; i < threads; i++) {
        Fiber &f = b->fibers[i];
        f.stack = nullptr;
        f.tid = i;
        f.state = READY;
        Flight &own = *f.flight;
        own.copies = own.groups = own.products = own.product_groups = own.fenced = 0;
    }
    for (unsigned i = 0; i < (threads + 31) / 32; i++) {
        unsigned lanes = threads - i * 32;
        b->warps[i].masks = 0;
        b->warps[i].live = lanes >= 32 ? ~0u : (1u << lanes) - 1;
    }
}

// Runs a block until each of its fibers is done or waits.
static void run_block(Block *b) {
    M.current_block = b;
    block_index = b->index;
    leave(nullptr, &M.main_stack);
    M.current = nullptr;
}

static EMU_ONCE void shuffle(unsigned *order, unsigned n, unsigned *state) {
    for (unsigned i = n - 1; n && i; i--) {
        *state = *state * 1664525u + 1013904223u;
        unsigned j = (*state >> 8) % (i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

// Random orders with an odd seed keep warps together, and each runs as far ahead as it can.
static EMU_ONCE void order_threads(unsigned threads, const EmuOptions &options) {
    for (unsigned i = 0; i < threads; i++) M.order[i] = options.order == 1 ? threads - 1 - i : i;
    M.ahead = options.order == 2 && options.seed % 2;
    unsigned state = options.seed * 2654435761u + 1;
    if (options.order == 2) shuffle(M.order, threads, &state);
    if (!M.ahead) return;
    unsigned warps[32], at = 0, count = (threads + 31) / 32, copy[1024];
    for (unsigned i = 0; i < count; i++) warps[i] = i;
    shuffle(warps, count, &state);
    memcpy(copy, M.order, threads * sizeof *copy);
    for (unsigned w = 0; w < count; w++) {
        M.begin[warps[w]] = at;
        for (unsigned i = 0; i < threads; i++)
            if (copy[i] / 32 == warps[w]) M.order[at++] = copy[i];
    }
}

// One block after the other on the same fibers.
static void run_in_turn(size_t blocks, unsigned threads, char *shared, bool backwards) {
    for (size_t i = 0; i < blocks && !M.error; i++) {
        start_block(&M.blocks[0], backwards ? blocks - 1 - i : i, threads, shared);
        if (static_bytes()) memset(__start_emu_shared, 0xff, static_bytes());
        run_block(&M.blocks[0]);
        if (M.blocks[0].live && !M.error) describe_deadlock();
    }
}

// Blocks that are alive at once: all of a cooperative launch, else a few that take turns at their barriers. The static
// shared section is swapped at each change of block.
static EMU_ONCE void run_together(size_t first, unsigned blocks, unsigned threads, char *dynamic, size_t stride) {
    size_t bytes = static_bytes();
    char *saved = (char *)malloc(blocks * bytes + 1);
    memset(saved, 0xff, blocks * bytes);
    for (unsigned i = 0; i < blocks; i++) {
        start_block(&M.blocks[i], first + i, threads, dynamic + i * stride);
        M.blocks[i].static_shared = saved + i * bytes;
    }
    for (bool alive = true; alive && !M.error;) {
        Block *stuck = nullptr;
        bool progress = false;
        alive = false;
        for (unsigned i = 0; i < blocks && !M.error; i++) {
            Block *b = M.current_block = &M.blocks[i];
            if (!b->live) continue;
            b->paused = false;
            const Block before = *b;
            bool can_run = pick() != nullptr;
            *b = before;
            if (can_run) {
                if (bytes) memcpy(__start_emu_shared, b->static_shared, bytes);
                run_block(b);
                if (bytes) memcpy(b->static_shared, __start_emu_shared, bytes);
                progress = true;
            }
            if (b->live) alive = true, stuck = b;
        }
        if (alive && !progress && !M.error) {
            M.current_block = stuck;
            describe_deadlock();
        }
    }
    free(saved);
}

static EMU_ONCE void reserve_stacks(size_t bytes) {
    if (M.stack_bytes >= bytes) return;
    if (M.stacks) munmap(M.stacks, M.stack_bytes);
    void *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    M.stacks = p == MAP_FAILED ? nullptr : (char *)p;
    M.stack_bytes = M.stacks ? bytes : 0;
    if (!M.stacks) fail(BAD_LAUNCH, "no memory for the stacks of the threads");
}

static EMU_ONCE const char *check_launch(const EmuLaunch &l) {
    size_t threads = (size_t)l.block[0] * l.block[1] * l.block[2];
    if (!threads || threads > 1024 || l.block[2] > 64) return "invalid block size (1 to 1024 threads, z up to 64)";
    if (!l.grid[0] || !l.grid[1] || !l.grid[2] || l.grid[0] > 2147483647u || l.grid[1] > 65535 || l.grid[2] > 65535)
        return "invalid grid size (x 1 to 2^31-1, y and z 1 to 65535)";
    if (static_bytes() > STATIC_LIMIT * emu_sharing) return "more than 48 KiB of static shared memory";
    if (static_bytes() / emu_sharing + l.dynamic_bytes > SHARED_LIMIT) return "more than 227 KiB of shared memory";
    return nullptr;
}

// Tells emu_watch.cpp of a launch, and which memory is the emulator's.
#ifdef EMU_WATCH
extern "C" __attribute__((visibility("hidden"))) char __ehdr_start[], _end[];
static void watch(const char *own, size_t bytes) {
    emu_watch_begin(&M, __start_emu_shared, __stop_emu_shared, __ehdr_start, _end);
    emu_watch_own(own, bytes);
}
static void watch_end() { emu_watch_end(); }
#else
static inline void watch(const char *, size_t) {}
static inline void watch_end() {}
#endif

static EMU_ONCE int run(const EmuLaunch &l, void (*call)(void **), void **args, const EmuOptions &options) {
    M.error = 0;
    M.message[0] = 0;
    M.switches = M.spins = M.grid_arrived = M.grid_generation = 0;
    if (const char *wrong = check_launch(l)) return fail(BAD_LAUNCH, wrong), M.error;
    M.grid = dim3(l.grid[0], l.grid[1], l.grid[2]);
    M.block = dim3(l.block[0], l.block[1], l.block[2]);
    M.dynamic_bytes = l.dynamic_bytes;
    M.call = call;
    M.args = args;
    M.cooperative = l.cooperative;
    unsigned threads = l.block[0] * l.block[1] * l.block[2], warps = (threads + 31) / 32;
    size_t blocks = (size_t)l.grid[0] * l.grid[1] * l.grid[2], stride = (l.dynamic_bytes + 1023) / 1024 * 1024;
    M.sums = options.sums;
    M.resident = l.cooperative || (size_t)options.resident > blocks ? (unsigned)blocks : max(1, options.resident);
    M.interleaved = options.resident > 1 && M.resident > 1;
    reserve_stacks((size_t)M.resident * threads * STACK);
    // the emulator's own memory is one piece: emu_watch.cpp leaves it out
    size_t fiber = sizeof(Fiber) + sizeof(Flight);
    size_t piece = M.resident * (sizeof(Block) + threads * fiber + warps * sizeof(Warp)) + threads * sizeof(unsigned);
    char *own = (char *)calloc(piece, 1);
    Fiber *fibers = (Fiber *)own;
    Flight *flights = (Flight *)(fibers + (size_t)M.resident * threads);
    Warp *all_warps = (Warp *)(flights + (size_t)M.resident * threads);
    M.blocks = (Block *)(all_warps + (size_t)M.resident * warps);
    M.order = (unsigned *)(M.blocks + M.resident);
    char *dynamic = (char *)aligned_alloc(1024, M.resident * stride + 1024);
    for (unsigned i = 0; i < M.resident; i++) {
        M.blocks[i].fibers = fibers + (size_t)i * threads;
        M.blocks[i].warps = all_warps + (size_t)i * warps;
        for (unsigned t = 0; t < threads; t++) M.blocks[i].fibers[t].flight = flights + (size_t)i * threads + t;
    }
    order_threads(threads, options);
    M.current = nullptr;
    watch(own, piece);
    if (!M.error) {
        for (size_t i = 0; i < blocks && M.resident > 1 && !M.error; i += M.resident)
            run_together(i, (unsigned)min(blocks - i, (size_t)M.resident), threads, dynamic, stride);
        if (M.resident == 1) run_in_turn(blocks, threads, dynamic, options.order == 1);
    }
    watch_end();
    free(own), free(dynamic);
    return M.error;
}

// Calls a kernel with the arguments that args points at, as cuLaunchKernel does: pointers, and objects for all threads
// (__grid_constant__).
template <int... I> struct Indices {};
template <int N, int... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I> struct MakeIndices<0, I...> {
    typedef Indices<I...> type;
};
template <class F> struct Caller;
template <class T> struct Argument;
template <class T> struct Argument<T *> {
    static const int bytes = 0;
    static EMU_OWN T *of(void *at) { return *(T **)at; }
};
template <class T> struct Argument<const T &> {
    static const int bytes = sizeof(T);
    static EMU_OWN const T &of(void *at) { return **(const T **)at; }
};
template <class... A> struct Caller<void (*)(A...)> {
    template <void (*K)(A...), int... I> static EMU_QUIET void apply(void **args, Indices<I...>) {
      K(Argument<A>::of(args[I])...);
    }
    template <void (*K)(A...)> static void call(void **args) {
        apply<K>(args, typename MakeIndices<sizeof...(A)>::type());
    }
    static int bytes(int i) {
        static const int of[] = {Argument<A>::bytes..., 0};
        return of[i];
    }
    static const int count = sizeof...(A);
};

struct Kernel {
    const char *name;
    void (*call)(void **);
    int args, (*bytes)(int);
};
template <class F, F K> static Kernel kernel_of(const char *name) {
    return {name, Caller<F>::template call<K>, Caller<F>::count, Caller<F>::bytes};
}

}  // namespace emu

const int EMU_MAX_ARGS = 4096;              // CUDA 12.1 and later: 32,764 bytes
#define EMU_API extern "C" __attribute__((visibility("default")))
#define EMU_KERNEL(k) emu::kernel_of<decltype(&k), &k>(#k),
// in place of:  extern __shared__ T name[];
#define EMU_DYNAMIC_SHARED(T, name) T *name = (T *)emu::M.current_block->dynamic_shared

// Ends a source text: EMU_KERNELS(EMU_KERNEL(a) EMU_KERNEL(b)) makes the functions that Python calls.
#define EMU_KERNELS(...)                                                                                        \
    static const emu::Kernel emu_kernels[] = {__VA_ARGS__};                                                     \
    EMU_API int emu_kernel_args(int kernel) { return emu_kernels[kernel].args; }                                \
    /* of an argument whose entry of the table is the address of an object; 0: the entry is the argument */     \
    EMU_API int emu_argument_bytes(int kernel, int i) { return emu_kernels[kernel].bytes(i); }                  \
    /* a tensor map, or what is not 0 */                                                                        \
    EMU_API int emu_make_map(void *map, int type, uint32_t rank, void *base, const uint64_t *size,              \
                             const uint64_t *stride, const uint32_t *box, int swizzle) {                        \
        const uint32_t every[] = {1, 1, 1};                                                                     \
        EmuTensorMap *to = (EmuTensorMap *)map;                                                                 \
        return emu_encode_tiled(to, type, rank, base, size, stride, box, every, 0, swizzle, 0, 0);              \
    }                                                                                                           \
    EMU_API const char *emu_last_error() { return emu::M.message; }                                             \
    EMU_API unsigned long emu_switches() { return emu::M.switches; }                                            \
    /* 0, or 1 + the number of the launch that failed */                                                        \
    EMU_API int emu_run(const EmuLaunch *launches, int n, const int *index, void **table, const EmuOptions *o) { \
        for (int i = 0; i < n; i++) {                                                                           \
            void *args[EMU_MAX_ARGS]; \
            for (int k = 0; k < launches[i].args; k++) args[k] = &table[index[launches[i].first_arg + k]];      \
            if (emu::run(launches[i], emu_kernels[launches[i].kernel].call, args, *o)) return i + 1;            \
        }                                                                                                       \
        return 0;                                                                                               \
    }
