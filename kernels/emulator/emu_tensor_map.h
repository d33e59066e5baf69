/* Tensor maps of the emulator: what cuTensorMapEncodeTiled makes, whose bits NVIDIA's driver keeps to itself. C and
 * C++, since the stand-in for the driver makes them too. Its limits are the driver's ("CUDA Driver API", "Tensor Map
 * Object Management"), and narrower: up to three dimensions, every element, no interleaving, zeros outside, and lines
 * of a swizzled box that are as long as the swizzle's span. */
#ifndef EMU_TENSOR_MAP_H
#define EMU_TENSOR_MAP_H
#include <stdint.h>
#include <string.h>

enum { EMU_MAP_MAGIC = 0x7e4502a9, EMU_MAP_DIMENSIONS = 3, EMU_MAP_INVALID = 1 };

/* 128 bytes on a boundary of 64. An element at (x, y, z) lies element x + stride[0] y + stride[1] z bytes behind base;
 * x is along memory. A copy moves box[0] x box[1] x box[2] elements, line after line. */
typedef struct {
    uint32_t magic, rank, element, swizzle;     /* element: bytes of one; swizzle: bytes of its span, 0: none */
    char *base;
    uint64_t size[EMU_MAP_DIMENSIONS], stride[EMU_MAP_DIMENSIONS - 1];
    uint32_t box[EMU_MAP_DIMENSIONS], unused[11];
} __attribute__((aligned(64))) EmuTensorMap;

/* Bytes of an element, by CUtensorMapDataType; 0: not known here. */
static inline uint32_t emu_map_element(int type) {
    static const unsigned char bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 0;
}

/* cuTensorMapEncodeTiled: 0, or EMU_MAP_INVALID for what is not allowed. */
static inline int emu_encode_tiled(EmuTensorMap *map, int type, uint32_t rank, void *base, const uint64_t *size,
                                   const uint64_t *stride, const uint32_t *box, const uint32_t *every, int interleave,
                                   int swizzle, int promotion, int fill) {
    EmuTensorMap m = {EMU_MAP_MAGIC, rank, emu_map_element(type), swizzle ? 16u << swizzle : 0, (char *)base, {1, 1, 1},
        {0, 0}, {1, 1, 1}, {0}};
    if ((uintptr_t)map % 64 || !m.element || !rank || rank > EMU_MAP_DIMENSIONS || interleave || fill)
        return EMU_MAP_INVALID;
    if ((uintptr_t)base % 16 || swizzle < 0 || swizzle > 3 || promotion < 0 || promotion > 3) return EMU_MAP_INVALID;
    for (uint32_t i = 0; i < rank; i++) {
        if (!size[i] || size[i] > 1ull << 32 || !box[i] || box[i] > 256 || every[i] != 1) return EMU_MAP_INVALID;
        if (i && (stride[i - 1] % 16 || !stride[i - 1] || stride[i - 1] >> 40)) return EMU_MAP_INVALID;
        m.size[i] = size[i], m.box[i] = box[i];
        if (i) m.stride[i - 1] = stride[i - 1];
    }
    if (box[0] * m.element % 16 || (m.swizzle && box[0] * m.element != m.swizzle)) return EMU_MAP_INVALID;
    memcpy(map, &m, sizeof m);
    return 0;
}
#endif
