/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) for C, C++ and CUDA.
 *
 * Key (seed, 0x9E3779B9 ^ stream), counter (block low, block high, call counter, stream); element i of a draw is
 * word i & 3 of block i >> 2. hybrid/ir/philox.py computes the same numbers with NumPy. Includes nothing.
 */
#ifndef HYBRID_PHILOX_H
#define HYBRID_PHILOX_H

#ifdef __CUDACC__
#define HYBRID_PHILOX_FN static __device__ __forceinline__
#else
#define HYBRID_PHILOX_FN static inline
#endif

/* Ten rounds on one block: c holds the counter, and the four random words afterwards. */
HYBRID_PHILOX_FN void philox4x32_block(unsigned c[4], unsigned k0, unsigned k1) {
    for (int round = 0; round < 10; round++) {
        unsigned long long p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
        unsigned c0 = (unsigned)(p1 >> 32) ^ c[1] ^ k0;
        unsigned c2 = (unsigned)(p0 >> 32) ^ c[3] ^ k1;
        c[0] = c0;
        c[1] = (unsigned)p1;
        c[2] = c2;
        c[3] = (unsigned)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* The 32 random bits of one element of a draw. */
HYBRID_PHILOX_FN unsigned philox4x32(unsigned seed, unsigned counter, unsigned stream, unsigned long long index) {
    unsigned long long block = index >> 2;
    unsigned c[4] = {(unsigned)block, (unsigned)(block >> 32), counter, stream};
    philox4x32_block(c, seed, 0x9E3779B9u ^ stream);
    switch (index & 3) {                        /* no indexing by a variable: the block stays in registers */
    case 0: return c[0];
    case 1: return c[1];
    case 2: return c[2];
    default: return c[3];
    }
}

#endif
