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

// How often each digit occurs in a tile of n pairs: counts[digit][tile]. Lanes count in columns of their own, so that
// each meets a bank of its own whatever the digits are; a word has the counts of four digits, a byte each.
HY_FN void hy_radix_count(const unsigned long long *pairs, unsigned *counts, int n, int tile, int tiles, int shift) {
    static_assert(HY_RADIX_TILE / 32 < 256, "a lane's count is a byte");
    __shared__ __align__(16) unsigned bins[64][32];
    const int lane = threadIdx.x % 32, row = threadIdx.x / 4, part = threadIdx.x % 4;
    for (int w = threadIdx.x / 32; w < 64; w += HY_RADIX_THREADS / 32) bins[w][lane] = 0;
    __syncthreads();
    pairs += tile * HY_RADIX_TILE;
    const int count = n - tile * HY_RADIX_TILE < HY_RADIX_TILE ? n - tile * HY_RADIX_TILE : HY_RADIX_TILE;
    #pragma unroll 1
    for (int i = threadIdx.x; i < count; i += HY_RADIX_THREADS) {
        const unsigned digit = (unsigned)(pairs[i] >> shift);
        atomicAdd(&bins[digit >> 2 & 63][lane], 1u << (digit & 3) * 8);
    }
    __syncthreads();
    unsigned even = 0, odd = 0;                 // two sums a word, of a quarter of the columns
    #pragma unroll
    for (int k = 0; k < 2; k++) {
        const hy_pack<unsigned, 4> four = *(const hy_pack<unsigned, 4> *)&bins[row][part * 8 + (k ^ row % 2) * 4];
        #pragma unroll
        for (int j = 0; j < 4; j++) even += four.x[j] & 0x00ff00ff, odd += four.x[j] >> 8 & 0x00ff00ff;
    }
    #pragma unroll
    for (int d = 1; d < 4; d *= 2) even += __shfl_xor_sync(~0u, even, d), odd += __shfl_xor_sync(~0u, odd, d);
    counts[threadIdx.x * tiles + tile] = (part & 1 ? odd : even) >> part / 2 * 16 & 0xffff;
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

// Votes of a warp about its digits. Returns the lanes that have the same digit as this one; owned[v]: the lanes whose
// digit is this lane's number and 32 v. Lanes without a pair have no digit.
HY_FN unsigned hy_radix_votes(unsigned digit, bool inside, unsigned (&owned)[8]) {
    const unsigned lane = threadIdx.x % 32;
    unsigned own = __ballot_sync(~0u, inside), set[3];
    #pragma unroll
    for (int b = 0; b < 5; b++) own &= __ballot_sync(~0u, digit >> b & 1) ^ (lane >> b & 1) - 1;
    unsigned peers = __shfl_sync(~0u, own, digit % 32);
    #pragma unroll
    for (int b = 0; b < 3; b++) {
        set[b] = __ballot_sync(~0u, digit >> b + 5 & 1);
        peers &= digit >> b + 5 & 1 ? set[b] : ~set[b];
    }
    #pragma unroll
    for (int v = 0; v < 8; v++)
        owned[v] = own & (v & 1 ? set[0] : ~set[0]) & (v & 2 ? set[1] : ~set[1]) & (v & 4 ? set[2] : ~set[2]);
    return peers;
}

// Of a table whose entries number, number + 32, ... the lane of that number has: the entry of each lane's digit.
template <int N>
HY_FN unsigned hy_radix_entry(const unsigned (&own)[N], unsigned digit) {
    unsigned found[N];
    #pragma unroll
    for (int v = 0; v < N; v++) found[v] = __shfl_sync(~0u, own[v], digit % 32);
    #pragma unroll
    for (int half = N / 2, b = N == 8 ? 7 : 6; half; half /= 2, b--)
        #pragma unroll
        for (int v = 0; v < half; v++) found[v] = digit >> b & 1 ? found[v + half] : found[v];
    return found[0];
}

struct hy_radix_tables {                        // of a block, in shared memory
    unsigned next[HY_RADIX_THREADS / 32][256];  // places, by warp and digit
    unsigned short rank[HY_RADIX_TILE];         // of a pair among those of its warp that have its digit
};

// Pairs of a tile go to their places; to.put(place, pair) stores one. Warps have stretches of their own, in order.
// Tables by digit lie in the registers of a warp, which are read at any digits without conflicts of banks.
template <class To>
HY_FN void hy_radix_scatter(const unsigned long long *pairs, const unsigned *starts, int n, int tile, int tiles, int shift,
                            hy_radix_tables &tables, To to) {
    const int warps = HY_RADIX_THREADS / 32, stretch = HY_RADIX_TILE / warps;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, begin = warp * stretch + lane;
    const unsigned below = (1u << lane) - 1;
    pairs += tile * HY_RADIX_TILE, n -= tile * HY_RADIX_TILE;
    unsigned counts[4] = {};                    // so far, of the lower and the upper 128 digits
    #pragma unroll 1
    for (int i = begin; i < begin + stretch; i += 32) {
        unsigned owned[8];
        const unsigned digit = i < n ? (unsigned)(pairs[i] >> shift) & 255 : 0;
        const unsigned peers = hy_radix_votes(digit, i < n, owned), entry = hy_radix_entry(counts, digit);
        tables.rank[i] = (digit & 128 ? entry >> 16 : entry & 0xffff) + __popc(peers & below);
        #pragma unroll
        for (int v = 0; v < 4; v++) counts[v] += __popc(owned[v]) + (__popc(owned[v + 4]) << 16);
    }
    #pragma unroll
    for (int v = 0; v < 8; v++) tables.next[warp][32 * v + lane] = counts[v % 4] >> v / 4 * 16 & 0xffff;
    __syncthreads();
    unsigned place = starts[threadIdx.x * tiles + tile];
    #pragma unroll
    for (int w = 0; w < warps; w++) {
        const unsigned count = tables.next[w][threadIdx.x];
        tables.next[w][threadIdx.x] = place;
        place += count;
    }
    __syncthreads();
    unsigned places[8];
    #pragma unroll
    for (int v = 0; v < 8; v++) places[v] = tables.next[warp][32 * v + lane];
    #pragma unroll 1
    for (int i = begin; i < begin + stretch; i += 32) {
        const unsigned long long pair = i < n ? pairs[i] : 0;
        const unsigned at = hy_radix_entry(places, (unsigned)(pair >> shift) & 255) + tables.rank[i];
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
