// Radix sort of long rows by many blocks: digits of 8 bits from the low end, each stable, so that equal keys keep their
// order. A pair has its key in the upper 32 bits and its place in the lower ones.
#ifndef HYBRID_SORT_CUH
#define HYBRID_SORT_CUH
#include "hybrid_cuda.cuh"

#define HY_RADIX_THREADS 256
#define HY_RADIX_TILE 4096                      // pairs of a block

// A float as an unsigned number in the same order; NaN is the greatest, and the zeros are equal.
HY_FN unsigned hy_radix_key(float x) {
    const unsigned u = __float_as_uint(x + 0.0f);
    return x != x ? 0xffffffffu : u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}

// How often each digit occurs in a tile of n pairs: counts[digit][tile].
HY_FN void hy_radix_count(const unsigned long long *pairs, unsigned *counts, int n, int tile, int tiles, int shift) {
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = tile * HY_RADIX_TILE + threadIdx.x, last = i + HY_RADIX_TILE; i < last && i < n; i += HY_RADIX_THREADS)
        atomicAdd(&bins[pairs[i] >> shift & 255], 1u);
    __syncthreads();
    counts[threadIdx.x * tiles + tile] = bins[threadIdx.x];
}

// Counts become the places at which each digit of each tile begins. By one block of 1024 threads.
HY_FN void hy_radix_scan(unsigned *counts, int total) {
    __shared__ unsigned sums[32];
    const int each = (total + 1023) / 1024, first = threadIdx.x * each, lane = threadIdx.x % 32;
    const int last = first + each < total ? first + each : total;
    unsigned own = 0;
    for (int i = first; i < last; i++) own += counts[i];
    unsigned before = own;
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(~0u, before, d);
        if (lane >= d) before += other;
    }
    if (lane == 31) sums[threadIdx.x / 32] = before;
    __syncthreads();
    unsigned start = before - own;
    for (int w = 0; w < (int)threadIdx.x / 32; w++) start += sums[w];
    for (int i = first; i < last; i++) {
        const unsigned count = counts[i];
        counts[i] = start;
        start += count;
    }
}

// The lanes of a warp that have a pair with the same digit as this one; those without pairs do not count.
HY_FN unsigned hy_radix_peers(unsigned digit, bool inside) {
    unsigned peers = __ballot_sync(~0u, inside);
    #pragma unroll
    for (int b = 0; b < 8; b++) {
        const unsigned set = __ballot_sync(~0u, digit >> b & 1);
        peers &= digit >> b & 1 ? set : ~set;
    }
    return peers;
}

// Pairs of a tile go to their places; to.put(place, pair) stores one. Warps have stretches of their own, in order.
// next: shared memory for a place for each warp and digit.
template <class To>
HY_FN void hy_radix_scatter(const unsigned long long *pairs, const unsigned *starts, int n, int tile, int tiles, int shift,
                            unsigned (*next)[256], To to) {
    const int warps = HY_RADIX_THREADS / 32, stretch = HY_RADIX_TILE / warps;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = tile * HY_RADIX_TILE + warp * stretch + lane;
    const unsigned below = (1u << lane) - 1;
    for (int w = 0; w < warps; w++) next[w][threadIdx.x] = 0;
    __syncthreads();
    for (int i = first; i < first + stretch; i += 32) {
        const unsigned digit = i < n ? (unsigned)(pairs[i] >> shift) & 255 : 0;
        const unsigned peers = hy_radix_peers(digit, i < n);
        if (i < n && !(peers & below)) next[warp][digit] += __popc(peers);
        __syncwarp();
    }
    __syncthreads();
    unsigned place = starts[threadIdx.x * tiles + tile];
    for (int w = 0; w < warps; w++) {
        const unsigned count = next[w][threadIdx.x];
        next[w][threadIdx.x] = place;
        place += count;
    }
    __syncthreads();
    for (int i = first; i < first + stretch; i += 32) {
        const unsigned long long pair = i < n ? pairs[i] : 0;
        const unsigned digit = (unsigned)(pair >> shift) & 255, peers = hy_radix_peers(digit, i < n);
        const unsigned at = next[warp][digit] + __popc(peers & below);
        __syncwarp();
        if (i < n && !(peers & below)) next[warp][digit] += __popc(peers);
        __syncwarp();
        if (i < n) to.put(at, pair);
    }
}

struct hy_radix_pairs {
    unsigned long long *to;
    __device__ void put(unsigned at, unsigned long long pair) const { to[at] = pair; }
};
struct hy_radix_places {
    long long *to;
    __device__ void put(unsigned at, unsigned long long pair) const { to[at] = (long long)(pair & 0xffffffffu); }
};
#endif
