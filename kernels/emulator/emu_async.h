// Copies that arrive later and the barriers that tell of them, for the emulator. Included by cuda_on_cpu.h.
//
// Bytes of an asynchronous copy are NaN (0xFF) from its issue until somebody waits for it: whoever reads them too
// early, or still reads what they replace, gets a wrong result in every order of threads.
#pragma once

namespace emu {

static bool aligned(const void *p, unsigned bytes, const char *what) {
    if ((uintptr_t)p % bytes == 0) return true;
    char text[200];
    snprintf(text, sizeof text, "%s takes addresses on %u-byte boundaries and got one %u bytes behind", what, bytes,
             (unsigned)((uintptr_t)p % bytes));
    fail(MISALIGNED, text);
    return false;
}

static void deliver_box(const AsyncCopy &c);

static void deliver(const AsyncCopy &c) {
    if (c.map) return deliver_box(c);
    if (!c.barrier) emu_watch_access(c.to, c.size, WRITE, c.pc);
    memcpy(c.to, c.from, c.filled);
    memset((char *)c.to + c.filled, 0, c.size - c.filled);
}

// ---- mbarrier: 64 bits in shared memory. From the low end: arrivals that a phase needs (20 bits), those that are
// missing (20), bytes that are missing (signed, 23), parity of the phase under way.
struct Phase {
    unsigned expected, missing, parity;
    int bytes;
};

static Phase phase_of(uint64_t w) {
    return {(unsigned)(w & 0xfffff), (unsigned)(w >> 20 & 0xfffff), (unsigned)(w >> 63),
        (int)((int64_t)(w << 1) >> 41)};
}

static EMU_QUIET void keep_phase(uint64_t *barrier, Phase p) {
    if (!p.missing && !p.bytes) p.missing = p.expected, p.parity ^= 1;
    *barrier = p.expected | (uint64_t)p.missing << 20 | ((uint64_t)p.bytes & 0x7fffff) << 40 | (uint64_t)p.parity << 63;
}

static bool initialised(Phase p) {
    bool is = p.expected && p.expected < 0xfffff;
    if (!is) fail(BAD_MBARRIER, "an mbarrier was used that was not initialised");
    return is;
}

static EMU_QUIET void arrive(uint64_t *barrier, int bytes, bool counts) {
    if (!aligned(barrier, 8, "an mbarrier")) return;
    Phase p = phase_of(*barrier);
    if (!initialised(p)) return;
    if (counts && !p.missing) return fail(BAD_MBARRIER, "an mbarrier got more arrivals than its phase expects");
    p.missing -= counts;
    p.bytes += bytes;
    keep_phase(barrier, p);
}

// Copies of this block that a barrier counts: cp.async with cp.async.mbarrier.arrive, and cp.async.bulk.
static EMU_QUIET void deliver_to(uint64_t *barrier) {
    Block *b = M.current_block;
    if (b->looked_for == barrier && b->looked == b->announced) return;
    b->looked_for = barrier, b->looked = b->announced;
    unsigned begun = phase_of(*barrier).parity;
    for (unsigned t = 0; t < b->threads; t++) {
        Flight &f = *b->fibers[t].flight;
        int kept = 0, told = 0;
        for (int i = 0; i < f.copies; i++) {
            AsyncCopy c = f.copy[i];
            if (c.barrier != barrier) {
                f.copy[kept++] = c;
                continue;
            }
            if (c.group < 0 && phase_of(*barrier).parity != begun)
                fail(BAD_MBARRIER, "a phase of an mbarrier ended before all of its copies came: fewer bytes were "
                                   "announced");
            if (c.size) deliver(c);
            if (c.group < 0) arrive(barrier, -c.size, false);
            else told += !c.size;
        }
        f.copies = kept;
        for (; told; told--) arrive(barrier, 0, true);
    }
}

static AsyncCopy *new_copy(Flight *me) {
    if (me->copies == MAX_ASYNC) return fail(BAD_ASYNC_COPY, "over 256 cp.async in flight (emulator limit)"), nullptr;
    return &me->copy[me->copies++];
}

// Begins a copy whose bytes an mbarrier counts, which the asynchronous proxy must have seen initialised.
static EMU_QUIET void begin_bulk(AsyncCopy *at, const AsyncCopy &c) {
    emu_watch_access(c.barrier, 8, ASYNC_READ, c.pc);
    emu_watch_access(c.to, c.size, ASYNC_WRITE, c.pc);
    emu_watch_sync(ARRIVAL, c.barrier);
    memset(c.to, 0xff, c.size);
    *at = c;
    M.current_block->announced++;
}

}  // namespace emu

// cp.async: `filled` bytes are read, the rest of `size` are zeros
static EMU_QUIET void emu_cp_async(void *to, const void *from, int size, int filled) {
    if (!emu::aligned(to, size, "cp.async") || (filled && !emu::aligned(from, size, "cp.async"))) return;
    emu::AsyncCopy *c = emu::new_copy(emu::M.current->flight);
    if (!c) return;
    filled = filled < 0 ? 0 : filled < size ? filled : size;
    void *pc = __builtin_return_address(0);
    emu::emu_watch_access(to, size, emu::WRITE, pc);
    if (filled) emu::emu_watch_access(from, filled, emu::READ, pc);
    memset(to, 0xff, size);
    *c = {to, from, size, filled, emu::M.current->flight->groups, pc, nullptr};
}
static inline void emu_cp_async_commit() { emu::M.current->flight->groups++; }
static inline void emu_cp_async_wait(int groups_left) {
    emu::Flight *me = emu::M.current->flight;
    int kept = 0;
    for (int i = 0; i < me->copies; i++) {
        emu::AsyncCopy c = me->copy[i];
        if (!c.barrier && c.group < me->groups - groups_left) emu::deliver(c);
        else me->copy[kept++] = c;
    }
    me->copies = kept;
}
// Copies of this thread until now arrive at the barrier, which then counts one arrival of the thread (.noinc).
static inline void emu_cp_async_arrive(void *barrier) {
    emu::Flight *me = emu::M.current->flight;
    emu::emu_watch_sync(emu::ARRIVAL, barrier);
    if (emu::AsyncCopy *c = emu::new_copy(me)) *c = {nullptr, nullptr, 0, 0, me->groups, nullptr, nullptr};
    for (int i = 0; i < me->copies; i++) {
        if (me->copy[i].barrier) continue;
        me->copy[i].barrier = (uint64_t *)barrier;
        emu::M.current_block->announced++;
    }
}
// cp.async.bulk: one thread copies many bytes, and the barrier counts them
static EMU_QUIET void emu_cp_async_bulk(void *to, const void *from, unsigned size, void *barrier) {
    if (!emu::aligned(to, 16, "cp.async.bulk") || !emu::aligned(from, 16, "cp.async.bulk")) return;
    if (size % 16) return emu::fail(emu::MISALIGNED, "cp.async.bulk copies multiples of 16 bytes");
    emu::AsyncCopy *c = emu::new_copy(emu::M.current->flight);
    if (!c) return;
    void *pc = __builtin_return_address(0);
    emu::emu_watch_access(from, (int)size, emu::ASYNC_READ, pc);
    emu::begin_bulk(c, {to, from, (int)size, (int)size, -1, pc, (uint64_t *)barrier});
}
static EMU_QUIET void emu_mbarrier_init(void *barrier, unsigned count) {
    if (!emu::aligned(barrier, 8, "an mbarrier")) return;
    if (!count || count >= 0xfffff) return emu::fail(emu::BAD_MBARRIER, "an mbarrier takes 1 to 1048574 arrivals");
    emu::emu_watch_access(barrier, 8, emu::WRITE, __builtin_return_address(0));
    emu::keep_phase((uint64_t *)barrier, {count, count, 0, 0});
}
static inline void emu_mbarrier_expect(void *barrier, unsigned bytes) {
    emu::emu_watch_sync(emu::ARRIVAL, barrier);
    emu::arrive((uint64_t *)barrier, (int)bytes, true);
}
static inline void emu_mbarrier_arrive(void *barrier) { emu_mbarrier_expect(barrier, 0); }
// Waits until the phase of this parity is complete. What is under way arrives when the others have had their turn.
static EMU_QUIET void emu_mbarrier_wait(void *barrier, unsigned parity) {
    uint64_t *b = (uint64_t *)barrier;
    if (!emu::aligned(b, 8, "an mbarrier") || !emu::initialised(emu::phase_of(*b))) return;
    for (int turn = 0; emu::phase_of(*b).parity == (parity & 1); turn++) {
        if (turn == 5000)                       // all others ran as far as they could, as often
            emu::fail(emu::BAD_MBARRIER, "a thread waits for a phase of an mbarrier that nobody completes");
        if (turn) emu::deliver_to(b);
        if (emu::phase_of(*b).parity == (parity & 1)) __nanosleep(0);
    }
    emu::emu_watch_sync(emu::WAITED, b);
}
