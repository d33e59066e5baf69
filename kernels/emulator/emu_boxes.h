// Copies of boxes through tensor maps (cp.async.bulk.tensor), for the emulator. Included by cuda_on_cpu.h.
#pragma once

namespace emu {

// The elements of a box's line that are in the array: the first of them, how many, and where they lie.
struct Line {
    unsigned first, count;
    const char *from;
};
static EMU_OWN inline Line line_of(const EmuTensorMap &m, const int *first, unsigned line) {
    const long long y = (long long)first[1] + line % m.box[1], z = (long long)first[2] + line / m.box[1];
    const long long low = first[0] < 0 ? -(long long)first[0] : 0, left = (long long)m.size[0] - first[0];
    const long long high = left < m.box[0] ? left : m.box[0];
    if (y < 0 || z < 0 || y >= (long long)m.size[1] || z >= (long long)m.size[2] || low >= high) return {0, 0, nullptr};
    return {(unsigned)low, (unsigned)(high - low),
        m.base + (first[0] + low) * m.element + y * (long long)m.stride[0] + z * (long long)m.stride[1]};
}

// A piece of 16 bytes lies where the bits of its address from bit 4 on are XORed with those from bit 7 on, as many as
// number the pieces of the swizzle's span.
static EMU_QUIET void deliver_box(const AsyncCopy &c) {
    const EmuTensorMap &m = *c.map;
    const unsigned bytes = m.box[0] * m.element, pieces = m.swizzle ? m.swizzle / 16 - 1 : 0;
    char text[256 * 8];
    for (unsigned line = 0; line < m.box[1] * m.box[2]; line++) {
        const Line l = line_of(m, c.first, line);
        memset(text, 0, bytes);
        if (l.count) memcpy(text + l.first * m.element, l.from, l.count * m.element);
        for (unsigned i = 0; i < bytes; i += 16) {
            const uintptr_t at = (uintptr_t)c.to + line * bytes + i;
            memcpy((char *)(at ^ (at >> 7 & pieces) << 4), text + i, 16);
        }
    }
}

}  // namespace emu

// A thread has `count` registers from now on. Before, it has its share of a multiprocessor's, which runs one such
// block; who wants more waits until others gave back as many.
static EMU_QUIET void emu_set_registers(int count, bool more) {
    emu::Block *b = emu::M.current_block;
    const int share = 65536 / (int)b->threads / 8 * 8, before = share < 255 ? share : 255;
    if (more ? count < before : count > before)
        return emu::fail(emu::BAD_REGISTERS,
                         "setmaxnreg.inc of fewer registers than there are, or setmaxnreg.dec of more");
    for (int turn = 0; more && b->registers < count - before; turn++) {
        if (turn == 5000) emu::fail(emu::BAD_REGISTERS, "a thread waits for registers that nobody gives back");
        __nanosleep(0);
    }
    b->registers += before - count;
}

// One thread copies a box to shared memory, and the barrier counts its bytes, those outside of the array (zeros) too.
static EMU_QUIET void emu_tensor_copy(void *to, const EmuTensorMap *map, unsigned rank, int x, int y, int z,
                                      void *barrier) {
    if (!emu::aligned(to, 128, "a copy through a tensor map")) return;
    if (map->magic != EMU_MAP_MAGIC || map->rank != rank)
        return emu::fail(emu::BAD_ASYNC_COPY, map->magic != EMU_MAP_MAGIC
                         ? "a copy through something that is no tensor map"
                         : "a copy through a tensor map of other dimensions");
    emu::AsyncCopy *c = emu::new_copy(emu::M.current->flight);
    if (!c) return;
    void *pc = __builtin_return_address(0);
    const unsigned lines = map->box[1] * map->box[2];
    emu::AsyncCopy box = {to, nullptr, (int)(lines * map->box[0] * map->element), 0, -1, pc, (uint64_t *)barrier, map,
        {x, y, z}};
    for (unsigned line = 0; line < lines; line++) {
        const emu::Line l = emu::line_of(*map, box.first, line);
        if (l.count) emu::emu_watch_access(l.from, (int)(l.count * map->element), emu::ASYNC_READ, pc);
    }
    emu::begin_bulk(c, box);
}
