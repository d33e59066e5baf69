// Every access of emulated kernels to memory: races, reads and writes outside of arrays, bank conflicts, sectors.
//
// gcc's -fsanitize=thread calls __tsan_readN and __tsan_writeN before each access; they are defined here and not in
// libtsan. Built once, into a library of its own, that modules built with -DEMU_WATCH use
// (hybrid/runtime/cuda/watch.py).
//
// Two accesses to a word, one of them a write, race unless something orders them: the same thread; a barrier of the
// block or the grid; a collective of their warp; arrival at and wait for an mbarrier; between blocks, a fence behind
// the first and an atomic or volatile access before the second. Order is known for warps, by the time of the last event
// of each warp that another one knows of (vector clocks, L. Lamport 1978), and for lanes by their warp's last
// collective.
#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#define EMU_WATCH 1
#define EMU_ONCE                                // launches are the module's: what is not optimised would stay here
#include "cuda_on_cpu.h"

namespace {

const unsigned NOBODY = ~0u;

struct Access {                                 // who came to a word last
    unsigned block, thread = NOBODY, time, bytes;
    void *pc;
    bool atomic, async;
};
struct Word {
    unsigned launch, block;                     // shared memory: whose it was last
    Access write, read[2];                      // readers of two threads
};
struct Range {
    uintptr_t from, to;
};
struct Clock {                                  // of a block that is alive
    unsigned known[32][32], collective[32], proxy[1024];      // proxy: a thread's last proxy fence
};
struct Request {                                // of a warp: one instruction, one time
    uintptr_t at[32];
    unsigned lanes, execution;
};
struct Traffic {                                // of one instruction
    unsigned long requests, cost, least;        // bank passes of shared memory, sectors of global memory
    int size;
    bool write, shared;
    unsigned executions[1024];                  // by thread: how often it executed the instruction
    std::deque<Request> open[32];               // by warp: requests that not all lanes made yet, by execution
};

const emu::Machine *machine;
uintptr_t shared_from, shared_to, image_from, image_to;
std::vector<Range> arrays;                      // of the launch
// the emulator's memory, the threads' own variables
uintptr_t own_from, own_bytes, stacks_from, stacks_bytes;
bool on, asleep, whole, traffic;                // whole: all arrays of the launch are known
unsigned launch, now, atomics;
std::unordered_map<uintptr_t, Word *> pages;    // of 1024 words
struct CachedPage {
    uintptr_t page;
    Word *words;
} page_cache[1024];                             // by the last bits of its number, the page that was looked up last
std::unordered_map<unsigned, Clock> clocks;     // by block
Clock *last_clock;
unsigned last_clocked;
std::unordered_map<const void *, std::pair<unsigned, std::vector<unsigned>>> barriers;       // mbarriers: block, clock
std::unordered_map<unsigned, std::vector<unsigned>> fenced;          // by block: all times
std::unordered_map<unsigned, unsigned> acquired;                     // by block: the last time
unsigned all_ordered;                           // the last barrier of the grid
std::map<std::string, unsigned long> found;
std::unordered_map<uintptr_t, Traffic> flows;   // by twice the instruction's place, 1 more where it is shared memory
std::string text;

unsigned block_number() {
    const uint3 &b = machine->current_block->index;
    return (b.z * machine->grid.y + b.y) * machine->grid.x + b.x;
}

Clock &clock_of(unsigned block) {
    if (last_clock && last_clocked == block) return *last_clock;
    auto it = clocks.find(block);
    if (it == clocks.end()) {
        it = clocks.emplace(block, Clock()).first;
        for (auto &row : it->second.known) std::fill(row, row + 32, 0);
        std::fill(it->second.collective, it->second.collective + 32, now);
        std::fill(it->second.proxy, it->second.proxy + 1024, 0);
    }
    last_clocked = block;
    return *(last_clock = &it->second);
}

bool ordered(const Access &old, unsigned block, unsigned thread, const Clock &c) {
    if (old.thread == NOBODY || old.time <= all_ordered || (old.block == block && old.thread == thread)) return true;
    if (old.block != block) {
        auto fence = fenced.find(old.block);
        auto seen = acquired.find(block);
        if (fence == fenced.end() || seen == acquired.end()) return false;
        auto first = std::lower_bound(fence->second.begin(), fence->second.end(), old.time);
        return first != fence->second.end() && *first <= seen->second;
    }
    unsigned warp = thread / 32, other = old.thread / 32;
    return warp == other ? old.time < c.collective[warp] : old.time <= c.known[warp][other];
}

void say(const char *what, void *a, void *b) {
    char line[240];
    snprintf(line, sizeof line, "%s %lx %lx", what, (unsigned long)((uintptr_t)a - image_from),
             (unsigned long)((uintptr_t)b - image_from));
    if (found.size() < 64 || found.count(line)) found[line]++;
}

// Whether a read through the asynchronous proxy may miss an ordinary write: neither thread has a proxy fence behind it.
bool unfenced(const Access &old, const Access &a, const Clock &c) {
    return old.thread != NOBODY && (old.bytes & a.bytes) && !old.async && old.block == a.block &&
           old.time > c.proxy[old.thread] && old.time > c.proxy[a.thread];
}

void check_word(Word &w, const Access &a, bool write, bool shared, const Clock &c) {
    static const char *const names[2][3] = {{"global write,write", "global write,read", "global read,write"},
                                            {"shared write,write", "shared write,read", "shared read,write"}};
    if (w.launch != launch) w = Word(), w.launch = launch, w.block = a.block;
    auto meets = [&](const Access &old) {
        return old.thread != NOBODY && (old.bytes & a.bytes) && !(old.atomic && a.atomic) &&
               !ordered(old, a.block, a.thread, c);
    };
    if (meets(w.write)) say(names[shared][!write], w.write.pc, a.pc);
    else if (a.async && !write && unfenced(w.write, a, c)) say("unfenced", w.write.pc, a.pc);
    for (int i = 0; i < 2 && write; i++)
        if (meets(w.read[i])) say(names[shared][2], w.read[i].pc, a.pc);
    if (write) {
        w.write = a;
    } else if (w.read[0].thread == a.thread && w.read[0].block == a.block) {
        w.read[0] = a;
    } else {
        w.read[1] = w.read[0];
        w.read[0] = a;
    }
}

Word *words_of(uintptr_t page) {
    CachedPage &s = page_cache[page % 1024];
    if (s.words && s.page == page) return s.words;
    Word *&p = pages[page];
    if (!p) p = (Word *)calloc(1024, sizeof(Word));
    s = {page, p};
    return p;
}

// ---- what the requests of a warp cost
unsigned distinct(uintptr_t *from, uintptr_t *to) {
    std::sort(from, to);
    return std::unique(from, to) - from;
}

// 32 banks of 4 bytes; 8 bytes a lane go by half warps, 16 by quarters.
void pass_banks(Traffic &t, const Request &r) {
    int together = t.size <= 4 ? 32 : t.size == 8 ? 16 : 8;
    for (int first = 0; first < 32; first += together) {
        uintptr_t words[128];
        unsigned n = 0, bank[32] = {0}, most = 0;
        for (int l = first; l < first + together; l++)
            for (int k = 0; k < std::max(4, t.size) && r.lanes >> l & 1; k += 4) words[n++] = (r.at[l] + k) / 4;
        n = distinct(words, words + n);
        for (unsigned i = 0; i < n; i++) most = std::max(most, ++bank[words[i] % 32]);
        t.cost += most, t.least += most > 0;
    }
}

// Sectors of 32 bytes.
void pass_sectors(Traffic &t, const Request &r) {
    uintptr_t starts[32], sectors[96];
    unsigned lanes = 0, n = 0;
    unsigned long bytes = 0;
    for (int l = 0; l < 32; l++) {
        if (!(r.lanes >> l & 1)) continue;
        starts[lanes++] = r.at[l];
        for (uintptr_t s = r.at[l] / 32; s <= (r.at[l] + t.size - 1) / 32; s++) sectors[n++] = s;
    }
    std::sort(starts, starts + lanes);
    for (unsigned i = 0; i < lanes; i++)        // each byte once, however many lanes want it
        bytes += i + 1 < lanes ? std::min<uintptr_t>(t.size, starts[i + 1] - starts[i]) : t.size;
    t.cost += distinct(sectors, sectors + n), t.least += (bytes + 31) / 32;
}

void close_request(Traffic &t, const Request &r) {
    t.requests++;
    if (t.shared) pass_banks(t, r);
    else pass_sectors(t, r);
}

void note_request(uintptr_t at, int size, bool write, bool shared, void *pc, unsigned thread) {
    if (thread >= 64 && thread + 32 < machine->current_block->threads) return;       // first and last warps are enough
    Traffic &t = flows[(uintptr_t)pc << 1 | shared];    // an asynchronous copy reads one memory and writes the other
    t.write = write, t.shared = shared, t.size = size;
    unsigned execution = t.executions[thread]++;
    std::deque<Request> &open = t.open[thread / 32];
    auto r = std::lower_bound(open.begin(), open.end(), execution,
                              [](const Request &o, unsigned n) { return o.execution < n; });
    if (r == open.end() || r->execution != execution) r = open.insert(r, Request{{0}, 0, execution});
    r->at[thread % 32] = at, r->lanes |= 1u << thread % 32;
    if (r->lanes == ~0u) close_request(t, *r), open.erase(r);
}

void close_requests() {
    for (auto &f : flows) {
        for (auto &open : f.second.open) {
            for (const Request &r : open) close_request(f.second, r);
            open.clear();
        }
        std::fill(f.second.executions, f.second.executions + 1024, 0);
    }
}

bool within(const std::vector<Range> &ranges, uintptr_t from, uintptr_t to) {
    for (const Range &r : ranges)
        if (from >= r.from && to <= r.to) return true;
    return false;
}

// Skips accesses while the watch is off, to the threads' stacks, and to the emulator's own memory: most accesses are of
// these.
inline bool ignored(uintptr_t at) { return !on || at - stacks_from < stacks_bytes || at - own_from < own_bytes; }

__attribute__((noinline)) void look_at(uintptr_t at, int size, bool write, void *pc, bool async) {
    if (!machine->current) return;
    emu::Block *b = machine->current_block;
    bool shared = (at >= shared_from && at < shared_to) || at - (uintptr_t)b->dynamic_shared < machine->dynamic_bytes;
    if (!shared) {
        if (at >= image_from && at < image_to) return;
        if (!within(arrays, at, at + size)) {
            if (at - (uintptr_t)machine->main_stack < 65536) return;
            if (whole) return say(write ? "outside write" : "outside read", pc, pc);
        }
    }
    unsigned block = block_number(), thread = machine->current->tid;
    if (traffic && block < 4 && !async) note_request(at, size, write, shared, pc, thread);
    const Clock &c = clock_of(block);
    // static shared memory is one place for all blocks: a block that is not alive any more used the same words
    for (uintptr_t w = at / 4; w <= (at + size - 1) / 4; w++) {
        uintptr_t from = std::max(at, w * 4), to = std::min(at + size, w * 4 + 4);
        Access a{block, thread, now, ((1u << (to - from)) - 1) << (from - w * 4), pc, atomics > 0, async};
        Word &word = words_of(w / 1024)[w % 1024];
        if (shared && word.block != block) word.launch = 0;
        word.block = block;
        check_word(word, a, write, shared, c);
    }
}

inline void touch(uintptr_t at, int size, bool write, void *pc, bool async = false) {
    if (!ignored(at)) look_at(at, size, write, pc, async);
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))
#define PC __builtin_return_address(0)

API void emu_watch_sync(int what, const void *at) {
    if (!on) return;
    unsigned block = block_number(), warp = machine->current->tid / 32;
    Clock &c = clock_of(block);
    switch (what) {
    case emu::BLOCK_SYNC:
        for (auto &row : c.known) std::fill(row, row + 32, now);
        std::fill(c.collective, c.collective + 32, now + 1);
        break;
    case emu::FIRST_SYNC:
        for (unsigned w = 0; w < (uintptr_t)at / 32; w++) {
            std::fill(c.known[w], c.known[w] + (uintptr_t)at / 32, now);
            c.collective[w] = now + 1;
        }
        break;
    case emu::WARP_SYNC: c.collective[warp] = now + 1; break;
    case emu::GRID_SYNC: all_ordered = now; break;
    case emu::FENCE: fenced[block].push_back(now); break;
    case emu::ATOMIC: acquired[block] = now; atomics++; return;
    case emu::ATOMIC_END: atomics--; return;
    case emu::ARRIVAL: {
        auto &b = barriers[at];
        if (b.first != block || b.second.empty()) b = {block, std::vector<unsigned>(32, 0)};
        for (int i = 0; i < 32; i++) b.second[i] = std::max(b.second[i], c.known[warp][i]);
        b.second[warp] = now;
        break;
    }
    case emu::WAITED: {
        auto &b = barriers[at];
        for (size_t i = 0; i < b.second.size() && b.first == block; i++)
            c.known[warp][i] = std::max(c.known[warp][i], b.second[i]);
        break;
    }
    case emu::PROXY_FENCE: c.proxy[machine->current->tid] = now; break;
    case emu::BLOCK_END: clocks.erase(block), last_clock = nullptr; return;
    }
    now++;
}
API void emu_watch_access(const void *at, int size, int came, void *pc) {
    touch((uintptr_t)at, size, came == emu::WRITE || came == emu::ASYNC_WRITE, pc, came >= emu::ASYNC_READ);
}
API void emu_watch_own(const void *at, unsigned long bytes) { own_from = (uintptr_t)at, own_bytes = bytes; }
API void emu_watch_begin(const void *m, const void *from, const void *to, const void *image, const void *end) {
    machine = (const emu::Machine *)m;
    shared_from = (uintptr_t)from, shared_to = (uintptr_t)to, image_from = (uintptr_t)image, image_to = (uintptr_t)end;
    stacks_from = (uintptr_t)machine->stacks, stacks_bytes = machine->stack_bytes;
    clocks.clear(), fenced.clear(), acquired.clear(), barriers.clear(), last_clock = nullptr;
    launch++, all_ordered = now++, atomics = 0, on = !asleep;
    if (pages.size() > 4096) {                  // 512 MB
        for (auto &p : pages) free(p.second);
        pages.clear(), std::fill(page_cache, page_cache + 1024, CachedPage());
    }
}
API void emu_watch_end() { on = false, close_requests(); }

// ---- what Python calls: the arrays of the launches that follow; what was found, a line each, and forgotten
API void emu_watch_arrays(void **at, unsigned long *bytes, int n, int all, int with_traffic) {
    arrays.clear();
    for (int i = 0; i < n; i++) arrays.push_back({(uintptr_t)at[i], (uintptr_t)at[i] + bytes[i]});
    whole = all, traffic = with_traffic;
    found.clear(), flows.clear();
}
// Stops (off = 1) or resumes (off = 0) watching the launches that follow.
API void emu_watch_sleep(int off) { asleep = off; }
API const char *emu_watch_found() {
    text.clear();
    for (auto &f : found) text += f.first + " " + std::to_string(f.second) + "\n";
    for (auto &f : flows) {
        char line[200];
        const Traffic &t = f.second;
        snprintf(line, sizeof line, "traffic %lx %s %s %d %lu %lu %lu\n",
                 (unsigned long)((f.first >> 1) - image_from), t.shared ? "shared" : "global",
                 t.write ? "write" : "read", t.size, t.requests, t.cost, t.least);
        text += line;
    }
    found.clear(), flows.clear();
    return text.c_str();
}

// ---- what gcc calls
API void __tsan_init() {}
API void __tsan_func_entry(void *) {}
API void __tsan_func_exit() {}
API void __tsan_vptr_update(void *, void *) {}
API void __tsan_vptr_read(void *) {}
API void __tsan_read_range(void *a, unsigned long n) { touch((uintptr_t)a, (int)n, false, PC); }
API void __tsan_write_range(void *a, unsigned long n) { touch((uintptr_t)a, (int)n, true, PC); }
#define EMU_HOOKS(n)                                                                            \
    API void __tsan_read##n(void *a) { touch((uintptr_t)a, n, false, PC); }                     \
    API void __tsan_write##n(void *a) { touch((uintptr_t)a, n, true, PC); }                     \
    API void __tsan_unaligned_read##n(void *a) { touch((uintptr_t)a, n, false, PC); }           \
    API void __tsan_unaligned_write##n(void *a) { touch((uintptr_t)a, n, true, PC); }           \
    static void as_atomic##n(void *a, bool write, void *pc) {                                   \
        if (on && machine->current) emu_watch_sync(write ? emu::FENCE : emu::ATOMIC, nullptr);  \
        if (write) atomics++;                                                                   \
        touch((uintptr_t)a, n, write, pc);                                                      \
        if (atomics) atomics--;                                                                 \
    }                                                                                           \
    API void __tsan_volatile_read##n(void *a) { as_atomic##n(a, false, PC); }                   \
    API void __tsan_volatile_write##n(void *a) { as_atomic##n(a, true, PC); }                   \
    API void __tsan_unaligned_volatile_read##n(void *a) { as_atomic##n(a, false, PC); }         \
    API void __tsan_unaligned_volatile_write##n(void *a) { as_atomic##n(a, true, PC); }
EMU_HOOKS(1)
EMU_HOOKS(2)
EMU_HOOKS(4)
EMU_HOOKS(8)
EMU_HOOKS(16)

// A misaligned access: gcc's -fsanitize=alignment calls this with where it stands in the text.
struct Mismatch {
    const char *file;
    unsigned line, column;
    const void *type;
    unsigned char log_align, kind;
};
API void __ubsan_handle_type_mismatch_v1(Mismatch *m, uintptr_t at) {
    if (!on || !machine->current) return;
    char line[240];
    snprintf(line, sizeof line, "misaligned %s:%u %u %u", m->file, m->line, 1u << m->log_align,
             (unsigned)(at % (1u << m->log_align)));
    if (found.size() < 64) found[line]++;
}
API void __ubsan_handle_type_mismatch_v1_abort(Mismatch *m, uintptr_t at) { __ubsan_handle_type_mismatch_v1(m, at); }
