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

// The blocks of a launch, all resident, wait until each of them is here: what they wrote before is there behind it. state:
// 0 before the first launch; block 0 turns its highest bit once the others were counted, and the rest is 0 again.
// waits: false in blocks that end here, so that nobody counts on them later.
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
