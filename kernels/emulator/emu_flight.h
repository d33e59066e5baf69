// What a thread of the emulator has under way: copies that arrive later, products of warpgroups. Included by
// emu_fibers.h.
#pragma once
#include "emu_tensor_map.h"

namespace emu {

const int MAX_ASYNC = 256;                      // copies of a thread under way

struct AsyncCopy {
    void *to;
    const void *from;
    int size, filled, group;                    // bytes written; those of them that are read, the rest are zeros
    void *pc;                                   // where it was issued
    uint64_t *barrier;                          // cp.async.mbarrier.arrive: told when the copy is there
    const EmuTensorMap *map;                    // of a box: where it comes from, and its first element there
    int first[EMU_MAP_DIMENSIONS];
};

// A tile of shared memory as wgmma takes it: lines of 128 or 64 bytes whose 16-byte pieces are swizzled, `stride` bytes
// between groups of 8 lines. Of a turned one, lines hold 64 rows or columns at one depth, and `lead` bytes lie between
// those of the next 64.
struct Matrix {
    const char *at;
    unsigned stride, lead, line;
};
// A product of a warpgroup that nobody waited for yet. Where A comes from registers: those, as they were and where they
// are, which nobody may change before.
struct Product {
    float *d;
    Matrix a, b;
    int group, how, columns, size;              // size: bytes of a factor
    void *pc;                                   // where it was issued
    void (*add)(const Product &);
    float rows[2][8];
    const unsigned *from;
    unsigned kept[4];
};
const int MAX_PRODUCTS = 64;

struct Flight {
    int copies, groups, products, product_groups;
    bool fenced;                                // wgmma.fence came before the products that follow
    AsyncCopy copy[MAX_ASYNC];
    Product product[MAX_PRODUCTS];
};

}  // namespace emu
