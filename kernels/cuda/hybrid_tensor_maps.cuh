// Copies of boxes of arrays that tensor maps describe (TMA, compute capability 9.0 and later), and what belongs to
// them: PTX on a GPU, functions in the emulator.
//
// The host makes a tensor map of an array (hybrid/runtime/cuda/tensor_maps.py); kernels take it as
// `const hy_tensor_map __grid_constant__ name`. One thread copies a box, whose bytes an mbarrier counts (those outside
// of the array too, which are zeros): it announces them by hy_mbarrier_expect.
#ifndef HYBRID_TENSOR_MAPS_CUH
#define HYBRID_TENSOR_MAPS_CUH
#include "hybrid_async.cuh"

#ifdef CUDA_ON_CPU
typedef EmuTensorMap hy_tensor_map;
HY_FN void hy_prefetch_map(const hy_tensor_map &map) {}
#define HY_BOX(...) emu_tensor_copy(to, &map, __VA_ARGS__, barrier)
HY_FN void hy_copy_box(hy_shared to, const hy_tensor_map &map, hy_shared barrier, int x) { HY_BOX(1, x, 0, 0); }
HY_FN void hy_copy_box(hy_shared to, const hy_tensor_map &map, hy_shared barrier, int x, int y) { HY_BOX(2, x, y, 0); }
HY_FN void hy_copy_box(hy_shared to, const hy_tensor_map &map, hy_shared barrier, int x, int y, int z) {
    HY_BOX(3, x, y, z);
}
#else
struct __align__(64) hy_tensor_map {
    unsigned long long bits[16];
};
#if __CUDA_ARCH__ >= 900
// The map itself is brought near, so that the first copy does not wait for it.
HY_FN void hy_prefetch_map(const hy_tensor_map &map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}
#define HY_BOX(dimensions, names, ...)                                                                            \
    asm volatile("cp.async.bulk.tensor." dimensions ".shared::cluster.global.tile.mbarrier::complete_tx::bytes "  \
                 "[%0], [%1, {" names "}], [%2];"                                                                 \
                 : : "r"(to), "l"(&map), "r"(barrier), __VA_ARGS__ : "memory")
HY_FN void hy_copy_box(hy_shared to, const hy_tensor_map &map, hy_shared barrier, int x) {
    HY_BOX("1d", "%3", "r"(x));
}
HY_FN void hy_copy_box(hy_shared to, const hy_tensor_map &map, hy_shared barrier, int x, int y) {
    HY_BOX("2d", "%3, %4", "r"(x), "r"(y));
}
HY_FN void hy_copy_box(hy_shared to, const hy_tensor_map &map, hy_shared barrier, int x, int y, int z) {
    HY_BOX("3d", "%3, %4, %5", "r"(x), "r"(y), "r"(z));
}
#endif
#endif
#undef HY_BOX

// All warps of a warpgroup give registers of a thread back, or wait for those that others gave back, so that each
// thread has COUNT of them (sm_90a; kernels say how many blocks a multiprocessor runs).
#ifdef CUDA_ON_CPU
template <int COUNT> HY_FN void hy_fewer_registers() {
    static_assert(COUNT >= 24 && COUNT % 8 == 0, "registers");
    emu_set_registers(COUNT, false);
}
template <int COUNT> HY_FN void hy_more_registers() {
    static_assert(COUNT <= 256 && COUNT % 8 == 0, "registers");
    emu_set_registers(COUNT, true);
}
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <int COUNT> HY_FN void hy_fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(COUNT));
}
template <int COUNT> HY_FN void hy_more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(COUNT));
}
#endif

#endif
