// Vectors of float32 from and to numbers of 8 bits in memory, a quarter of the bytes. What is stored are whole numbers
// that the type has.
typedef signed char hy_i8u __attribute__((vector_size(HYV_BYTES / 4), aligned(1), may_alias));
typedef unsigned char hy_u8u __attribute__((vector_size(HYV_BYTES / 4), aligned(1), may_alias));

#if HYV_BYTES == 64 && defined(__AVX512BW__) && defined(__AVX512VL__) && !defined(__clang__)
typedef char hy_bytes __attribute__((vector_size(16)));
#define HYV_SIGNED(b) __builtin_convertvector((hy_vi)__builtin_ia32_pmovsxbd512_mask((hy_bytes)(b), (hy_vi){}, \
    HYV_ALL), hy_v)
#define HYV_UNSIGNED(b) __builtin_convertvector((hy_vi)__builtin_ia32_pmovzxbd512_mask((hy_bytes)(b), (hy_vi){}, \
    HYV_ALL), hy_v)
#define HYV_NARROW(v) __builtin_ia32_pmovdb512_mask(__builtin_convertvector(v, hy_vi), (hy_bytes){}, HYV_ALL)
#define HYV_LOADM_I8(m, p) HYV_SIGNED(__builtin_ia32_loaddquqi128_mask((const char *)(p), (hy_bytes){}, m))
#define HYV_LOADM_U8(m, p) HYV_UNSIGNED(__builtin_ia32_loaddquqi128_mask((const char *)(p), (hy_bytes){}, m))
#define HYV_STOREM_I8(m, p, v) __builtin_ia32_storedquqi128_mask((char *)(p), HYV_NARROW(v), m)
#define HYV_STOREM_U8(m, p, v) HYV_STOREM_I8(m, p, v)
#else
HY_FN hy_v HYV_SIGNED(hy_i8u b) { hy_v v; for (int i = 0; i < HYV_LANES; i++) v[i] = (float)b[i]; return v; }
HY_FN hy_v HYV_UNSIGNED(hy_u8u b) { hy_v v; for (int i = 0; i < HYV_LANES; i++) v[i] = (float)b[i]; return v; }
HY_FN hy_i8u HYV_NARROW(hy_v v) {
  hy_i8u b; for (int i = 0; i < HYV_LANES; i++) b[i] = (signed char)(int)v[i]; return b;
}
HY_FN hy_v HYV_LOADM_I8(hy_m m, const signed char *p) {
  hy_v v = {}; for (int i = 0; i < HYV_LANES; i++) if (HYV_HAS(m, i)) v[i] = (float)p[i]; return v;
}
HY_FN hy_v HYV_LOADM_U8(hy_m m, const unsigned char *p) {
  hy_v v = {}; for (int i = 0; i < HYV_LANES; i++) if (HYV_HAS(m, i)) v[i] = (float)p[i]; return v;
}
HY_FN void HYV_STOREM_I8(hy_m m, void *p, hy_v v) {
  for (int i = 0; i < HYV_LANES; i++) if (HYV_HAS(m, i)) ((signed char *)p)[i] = (signed char)(int)v[i];
}
#define HYV_STOREM_U8(m, p, v) HYV_STOREM_I8(m, p, v)
#endif

#define HYV_LOAD_I8(p) HYV_SIGNED(*(const hy_i8u *)(p))
#define HYV_LOAD_U8(p) HYV_UNSIGNED(*(const hy_u8u *)(p))
#define HYV_STORE_I8(p, v) (*(hy_i8u *)(p) = (hy_i8u)HYV_NARROW(v))
#define HYV_STORE_U8(p, v) HYV_STORE_I8(p, v)
