// Several kernels in one launch, stage after stage: each is a function of its own, which blocks call.
#ifndef HYBRID_STAGES_CUH
#define HYBRID_STAGES_CUH

#include "hybrid_cuda.cuh"

#ifdef CUDA_ON_CPU
#define HY_STAGE static __noinline__
#else
#define HY_STAGE static __device__ __noinline__
#endif

// What a stage takes for blockIdx.
struct hy_place {
    unsigned x;
};

// A barrier of all blocks of a launch, which must all be resident: what a block wrote before it is visible to all
// blocks after it. state: one word, 0 before the first launch. Block 0 adds 0x80000000 - (blocks - 1), each other block
// adds 1, so that the last arrival, whichever block it is, flips the highest bit and leaves 0 below it; the others spin
// until the bit has flipped. waits: false in a block without work after the barrier, which is counted and does not
// wait.
HY_FN void hy_grid_barrier(void *state, unsigned blocks, bool waits) {
    unsigned *word = (unsigned *)state;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        unsigned old = atomicAdd(word, blockIdx.x ? 1u : 0x80000000u - (blocks - 1));
        while (waits && ((old ^ *(volatile unsigned *)word) & 0x80000000u) == 0)
#ifdef CUDA_ON_CPU
            __nanosleep(20);                                // other threads run meanwhile
#else
            ;
#endif
        __threadfence();
    }
    __syncthreads();
}

#endif
