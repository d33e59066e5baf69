// The fiber machine: one fiber a CUDA thread, switched by hand on one OS thread. Included by cuda_on_cpu.h.
#pragma once
#if defined(EMU_UCONTEXT) || !(defined(__x86_64__) || defined(__aarch64__))
#define EMU_USE_UCONTEXT 1
#include <ucontext.h>
#endif
#include "emu_flight.h"
extern "C" __attribute__((weak, visibility("hidden"))) char __start_emu_shared[], __stop_emu_shared[];

namespace emu {

enum State { READY, AT_BLOCK_BARRIER, AT_WARP, AT_GRID_BARRIER, AT_FIRST_BARRIER, DONE };
enum Error { BAD_LAUNCH = 1, DEADLOCK, BAD_COLLECTIVE, BAD_ASYNC_COPY, NOT_COOPERATIVE, ENDLESS_SPIN, MISALIGNED,
    BAD_MBARRIER, BAD_REGISTERS };

const int MAX_MASKS = 32;                       // each other lane waits in one at most, so one is always free
static size_t STACK = 64 * 1024;                // virtual memory; only touched pages are real

// ---- what emu_watch.cpp is told, where it is there
enum Sync { BLOCK_SYNC, FIRST_SYNC, WARP_SYNC, GRID_SYNC, FENCE, ATOMIC, ATOMIC_END, ARRIVAL, WAITED, BLOCK_END,
    PROXY_FENCE };
enum Came { READ, WRITE, ASYNC_READ, ASYNC_WRITE };           // ASYNC: through the asynchronous proxy
#ifdef EMU_WATCH
#define EMU_QUIET __attribute__((noinline, no_sanitize("thread"), no_sanitize("alignment")))  // its own work
#define EMU_OWN __attribute__((no_sanitize("thread"), no_sanitize("alignment")))      // the same, may be inline
extern "C" void emu_watch_sync(int what, const void *at);
extern "C" void emu_watch_access(const void *at, int size, int came, void *pc);
extern "C" void emu_watch_own(const void *at, unsigned long bytes);
extern "C" void emu_watch_begin(const void *machine, const void *shared, const void *end, const void *image,
    const void *stop);
extern "C" void emu_watch_end();
#else
#define EMU_QUIET inline
#define EMU_OWN
static inline void emu_watch_sync(int, const void *) {}
static inline void emu_watch_access(const void *, int, int, void *) {}
#endif
struct Atomic {
    Atomic() { emu_watch_sync(ATOMIC, nullptr); }
    ~Atomic() { emu_watch_sync(ATOMIC_END, nullptr); }
};

// One warp collective of one mask; values of two generations, so that a fast lane cannot overwrite a slow one's.
struct Rendezvous {
    unsigned mask, arrived, generation;
    const char *what;
    uint64_t value[2][32][4];
};

struct Warp {
    Rendezvous meeting[MAX_MASKS];
    int masks;
    unsigned live;
};

struct Fiber {
    void *stack;                                // saved stack pointer; null before the fiber has started
    unsigned tid, generation;
    State state;
    const Rendezvous *meeting;
    uint3 index;
    Flight *flight;                             // apart: those who look for the next fiber read many of these
};

struct Block {
    Fiber *fibers;
    Warp *warps;
    unsigned threads, live, arrived, generation;
    unsigned first_arrived, first_generation;   // the barrier of a block's first threads
    unsigned announced;                         // copies and arrivals for mbarriers until now
    unsigned looked;                            // those until the last search for one mbarrier's
    const uint64_t *looked_for;                 // the mbarrier of that search
    int votes, result[2];                       // __syncthreads_count and its kin
    char *dynamic_shared, *static_shared;
    uint3 index;
    unsigned position, low;                     // in the order of threads; none before `low` can run
    bool paused;                                // at a barrier of all its threads, for another block to run
    bool spinning;                              // a thread waits in a loop: others come first
    int registers;                              // that threads gave back and nobody took
};

struct Machine {
    dim3 grid, block;
    size_t dynamic_bytes;
    void (*call)(void **);
    void **args;
    Block *current_block, *blocks;
    unsigned resident;                          // blocks alive at once: all in a cooperative launch, else one
    Fiber *current;
    void *main_stack;
    unsigned *order, begin[32];                 // of threads; where in it each warp begins, where warps run ahead
    char *stacks;
    size_t stack_bytes;
    unsigned grid_arrived, grid_generation;
    unsigned long switches, spins;
    bool cooperative, interleaved;
    bool ahead;                                 // warps run as far ahead of the others as they can
    int sums;                                   // of tensor cores: see emu_tensor.h
    int error;
    char message[512];
};

static Machine M;
static uint3 thread_index, block_index;

static void fail(int code, const char *message) {
    if (M.error) return;                        // the first error is the cause, later ones follow from it
    M.error = code;
    snprintf(M.message, sizeof M.message, "%s", message);
}

static EMU_OWN inline int lane() { return M.current->tid & 31; }
static EMU_OWN inline Warp &warp_of(Fiber *f) { return M.current_block->warps[f->tid >> 5]; }

// ---- stacks
static void fiber_main();

#ifdef EMU_USE_UCONTEXT
static ucontext_t *contexts;
static size_t context_count;
static void switch_stack(void **save, void *to) {
    ucontext_t here;
    *save = &here;
    swapcontext(&here, (ucontext_t *)to);
}
static void *new_stack(char *low) {
    if (context_count < M.stack_bytes / STACK) {        // stacks grow between launches only, when nobody uses a context
        free(contexts);
        context_count = M.stack_bytes / STACK;
        contexts = (ucontext_t *)calloc(context_count, sizeof *contexts);
    }
    ucontext_t *c = &contexts[(low - M.stacks) / STACK];
    getcontext(c);
    c->uc_stack.ss_sp = low;
    c->uc_stack.ss_size = STACK;
    c->uc_link = 0;
    makecontext(c, fiber_main, 0);
    return c;
}
#elif defined(__x86_64__)
extern "C" void emu_switch_stack(void **save, void *to);
asm(".text\n.local emu_switch_stack\n.type emu_switch_stack,@function\n"
    "emu_switch_stack:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size emu_switch_stack,.-emu_switch_stack\n");
static inline void switch_stack(void **save, void *to) { emu_switch_stack(save, to); }
static void *new_stack(char *low) {
    uintptr_t *p = (uintptr_t *)((uintptr_t)(low + STACK) & ~(uintptr_t)15);
    *--p = 0;                                   // keeps the stack aligned as after a call
    *--p = (uintptr_t)fiber_main;
    for (int saved = 0; saved < 6; saved++) *--p = 0;
    return p;
}
#else                                           // aarch64
extern "C" void emu_switch_stack(void **save, void *to);
asm(".text\n.local emu_switch_stack\n.type emu_switch_stack,%function\n"
    "emu_switch_stack:\n"
    "sub sp,sp,#160\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\n"
    "stp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
    "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\n"
    "ldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd sp,sp,#160\nret\n"
    ".size emu_switch_stack,.-emu_switch_stack\n");
static inline void switch_stack(void **save, void *to) { emu_switch_stack(save, to); }
static void *new_stack(char *low) {
    uintptr_t *p = (uintptr_t *)((uintptr_t)(low + STACK) & ~(uintptr_t)15) - 20;
    memset(p, 0, 160);
    p[11] = (uintptr_t)fiber_main;              // x30, the return address
    return p;
}
#endif

// ---- scheduling
static EMU_OWN inline bool runnable(const Fiber *f) {
    switch (f->state) {
    case READY: return true;
    case AT_BLOCK_BARRIER: return M.current_block->generation != f->generation;
    case AT_WARP: return f->meeting->generation != f->generation;
    case AT_GRID_BARRIER: return M.grid_generation != f->generation;
    case AT_FIRST_BARRIER: return M.current_block->first_generation != f->generation;
    default: return false;
    }
}

// The next fiber of this block, in the order of threads, that has not started or can go on; null when none can.
static EMU_OWN Fiber *pick() {
    Block *b = M.current_block;
    if (b->paused) return nullptr;
    const bool ahead = M.ahead && !b->spinning;
    for (unsigned i = ahead ? b->low : 0; i < b->threads; i++) {
        unsigned k = ahead ? i : b->position + 1 + i;
        if (k >= b->threads) k -= b->threads;
        Fiber *f = &b->fibers[M.order[k]];
        if (f->state == DONE || (f->stack && !runnable(f))) continue;
        b->position = k, b->low = ahead ? k : 0;
        b->spinning = false;
        return f;
    }
    return nullptr;
}

static EMU_OWN inline void resume(Fiber *f) {
    M.current = f;
    f->state = READY;
    thread_index = f->index;
}

static EMU_OWN void set_index(Fiber *f) {
    unsigned t = f->tid;
    f->index = {t % M.block.x, t / M.block.x % M.block.y, t / (M.block.x * M.block.y)};
}

// Leaves the current stack for the next fiber's, or for the launcher's when no fiber of the block can run.
static EMU_OWN void leave(Fiber *self, void **save) {
    Fiber *next = M.error ? nullptr : pick();
    if (next && next == self) return resume(next);
    M.switches++;
    if (next) {
        if (!next->stack) {
            size_t slot = (M.current_block - M.blocks) * (size_t)M.current_block->threads + next->tid;
            next->stack = new_stack(M.stacks + slot * STACK);
            set_index(next);
        }
        resume(next);
        switch_stack(save, next->stack);
    } else {
        switch_stack(save, M.main_stack);
    }
    if (self) resume(self);                     // somebody switched back
}

static EMU_OWN inline void wait_at(State state, unsigned generation, const Rendezvous *meeting = nullptr) {
    Fiber *me = M.current;
    me->state = state;
    me->generation = generation;
    me->meeting = meeting;
    leave(me, &me->stack);
}

static EMU_OWN void release_block(Block *b) {
    emu_watch_sync(BLOCK_SYNC, nullptr);
    b->result[b->generation & 1] = b->votes;
    b->arrived = 0;
    b->votes = 0;
    b->generation++;
    b->low = 0;
    b->paused = M.interleaved;
}

static EMU_OWN inline void release_warp(Rendezvous &r) {
    Block *b = M.current_block;
    emu_watch_sync(WARP_SYNC, nullptr);
    const unsigned begin = M.begin[M.current->tid / 32];
    if (begin < b->low) b->low = begin;
    r.arrived = 0;
    r.generation++;
}

// A thread that returned counts as arrived everywhere.
static EMU_OWN void retire(Fiber *me) {
    Block *b = M.current_block;
    me->state = DONE;
    b->live--;
    const Flight &own = *me->flight;
    for (int i = 0; i < own.copies; i++)
        if (!own.copy[i].barrier) fail(BAD_ASYNC_COPY, "a thread ended with cp.async copies that it did not wait for");
    if (own.products) fail(BAD_ASYNC_COPY, "a thread ended with wgmma products that it did not wait for");
    for (unsigned i = 0; i < b->threads && !b->live; i++)
        if (b->fibers[i].flight->copies)
            fail(BAD_ASYNC_COPY, "a block ended with copies for whose mbarrier no thread waited");
    Warp &w = warp_of(me);
    w.live &= ~(1u << (me->tid & 31));
    for (int i = 0; i < w.masks; i++) {
        Rendezvous &r = w.meeting[i];
        if (r.arrived && r.arrived == (r.mask & w.live)) release_warp(r);
    }
    if (b->live && b->arrived == b->live) release_block(b);
    if (!b->live) emu_watch_sync(BLOCK_END, nullptr);
}

static void fiber_main() {
    for (;;) {
        M.call(M.args);
        Fiber *me = M.current;
        retire(me);
        Fiber *next = M.error ? nullptr : pick();
        if (next && !next->stack) {             // not started yet: it can have this stack
            next->stack = me->stack ? me->stack : (void *)1;
            set_index(next);
            resume(next);
            continue;
        }
        void *dead;
        M.switches++;
        if (next) resume(next);
        switch_stack(&dead, next ? next->stack : M.main_stack);
        abort();                                // nobody switches back to a finished fiber
    }
}

// ---- barriers
static EMU_OWN int block_barrier(int vote) {
    Block *b = M.current_block;
    b->votes += vote;
    unsigned generation = b->generation;
    if (++b->arrived == b->live) release_block(b);
    else wait_at(AT_BLOCK_BARRIER, generation);
    return b->result[generation & 1];
}

static EMU_OWN void grid_barrier() {
    if (!M.cooperative) {
        fail(NOT_COOPERATIVE, "grid sync in a kernel that was not launched cooperatively");
        wait_at(AT_GRID_BARRIER, M.grid_generation);
    }
    unsigned live = 0;
    for (unsigned i = 0; i < M.resident; i++) live += M.blocks[i].live;
    if (++M.grid_arrived == live) {
        emu_watch_sync(GRID_SYNC, nullptr);
        M.grid_arrived = 0;
        M.grid_generation++;
        for (unsigned i = 0; i < M.resident; i++) M.blocks[i].low = 0;
    } else {
        wait_at(AT_GRID_BARRIER, M.grid_generation);
    }
}

// Whether lanes wait in it, or were released and have not read its values yet.
static EMU_OWN bool in_use(const Warp &w, const Rendezvous &r) {
    if (r.arrived) return true;
    unsigned first = (unsigned)(&w - M.current_block->warps) * 32;
    for (unsigned t = first; t < first + 32 && t < M.current_block->threads; t++) {
        const Fiber &f = M.current_block->fibers[t];
        if (f.state == AT_WARP && f.meeting == &r) return true;
    }
    return false;
}

static EMU_OWN Rendezvous *find_meeting(Warp &w, unsigned mask) {
    for (int i = 0; i < w.masks; i++)
        if (w.meeting[i].mask == mask) return &w.meeting[i];
    Rendezvous *r = nullptr;
    if (w.masks < MAX_MASKS) r = &w.meeting[w.masks++];
    for (int i = 0; i < w.masks && !r; i++)
        if (!in_use(w, w.meeting[i])) r = &w.meeting[i];
    r->mask = mask;
    r->arrived = r->generation = 0;
    return r;
}

// A warp collective: each lane brings 32 bytes and sees all the others' in r->value[*slot].
static EMU_OWN Rendezvous *meet(unsigned mask, const char *what, uint64_t a, uint64_t b, unsigned *slot, uint64_t c = 0,
    uint64_t d = 0) {
    Fiber *me = M.current;
    Warp &w = warp_of(me);
    unsigned self = me->tid & 31;
    Rendezvous *r = find_meeting(w, mask);
    if (!(mask >> self & 1)) fail(BAD_COLLECTIVE, "a lane calls a warp collective whose mask does not name it");
    if (r->arrived && strcmp(r->what, what)) fail(BAD_COLLECTIVE, "lanes of one mask meet in different collectives");
    unsigned generation = r->generation;
    *slot = generation & 1;
    if (M.error) wait_at(AT_WARP, generation, r);                    // does not come back
    r->what = what;
    r->value[*slot][self][0] = a;
    r->value[*slot][self][1] = b;
    r->value[*slot][self][2] = c;
    r->value[*slot][self][3] = d;
    r->arrived |= 1u << self;
    if (r->arrived == (mask & w.live)) release_warp(*r);
    else wait_at(AT_WARP, generation, r);
    return r;
}

}  // namespace emu

#define threadIdx emu::thread_index
#define blockIdx emu::block_index
#define blockDim emu::M.block
#define gridDim emu::M.grid
static constexpr int warpSize = 32;
