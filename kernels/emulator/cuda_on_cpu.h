// cuda_on_cpu.h - runs generated CUDA C kernels on the CPU, for correctness tests without a GPU.
//
//   g++ -std=c++17 -O1 -shared -fPIC -x c++ kernel.cu -o kernel.so     (the text includes this header first and
//                                                                       ends with EMU_KERNELS, see emu_run.h)
//
// One CUDA thread is one fiber, all on one OS thread, deterministic. A fiber runs until it meets a barrier or a warp
// collective, then the next runnable one runs. A kernel without barriers never switches: the first fiber's stack is
// reused for each thread in turn.
//
// What it checks: deadlocks (divergent __syncthreads, wrong shuffle masks) are reported and do not hang; shared
// memory is filled with NaN before each block; threads run in forward, reverse or random order, so a missing
// barrier changes the result; bytes of cp.async arrive only at its wait.
//
//   emu_types.h   vector types, bit casts           emu_fibers.h  stacks, scheduling, rendezvous
//   emu_device.h  __syncthreads, shuffles, atomics  emu_run.h     launches: the functions that Python calls
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CUDA_ON_CPU 1
#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
// behind the type (const T __grid_constant__ name): one object for all threads
#define __grid_constant__ &
#define __constant__ static
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict
// every static shared variable lands in one section, so that one memset can poison them all
#define __shared__ static __attribute__((section("emu_shared")))

#include "emu_types.h"
#include "emu_fibers.h"
#include "emu_device.h"
#include "emu_async.h"
#include "emu_boxes.h"
#include "emu_tensor.h"
#include "emu_run.h"
