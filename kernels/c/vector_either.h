// What vectors of both types have, with the instructions of x86 where there are some (HYV_I), else by GCC's operators.
// CMP is there where masks are bits.
#if HYV_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
typedef HYV_MASK hy_m;
#define HYV_ALL ((HYV_MASK)-1)
#define HYV_CMP(a, b, p) HYV_I(cmp, 512_mask)(a, b, p, HYV_ALL, 4)
#define HYV_SELECT(m, a, b) HYV_I(blendm, _512_mask)(b, a, m)
#define HYV_IEQ(a, b) HYV_WHOLES(a, b, 0)
#define HYV_ILT(a, b) HYV_WHOLES(a, b, 1)
#define HYV_MAX(a, b) HYV_I(max, 512_mask)(a, b, (hy_v){}, HYV_ALL, 4)     // the second where one is NaN
#define HYV_MIN(a, b) HYV_I(min, 512_mask)(a, b, (hy_v){}, HYV_ALL, 4)
#define HYV_SQRT(a) HYV_I(sqrt, 512_mask)(a, (hy_v){}, HYV_ALL, 4)
#define HYV_ROUND(a, how) HYV_I(rndscale, _mask)(a, how, (hy_v){}, HYV_ALL, 4)
#define HYV_LOADM(m, p) HYV_I(loadu, 512_mask)((const HYV_REAL *)(p), (hy_v){}, m)
#define HYV_STOREM(m, p, v) HYV_I(storeu, 512_mask)((HYV_REAL *)(p), v, m)
#else
typedef hy_vi hy_m;
#if HYV_BYTES == 32 && defined(__AVX2__)
#define HYV_SELECT(m, a, b) ((hy_v)HYV_I(blendv, 256)(b, a, (hy_v)(m)))
#define HYV_MAX(a, b) HYV_I(max, 256)(a, b)
#define HYV_MIN(a, b) HYV_I(min, 256)(a, b)
#if defined(__clang__) && __clang_major__ >= 18            // later ones have lost the other name
#define HYV_SQRT(a) __builtin_elementwise_sqrt(a)
#else
#define HYV_SQRT(a) HYV_I(sqrt, 256)(a)
#endif
#define HYV_ROUND(a, how) HYV_I(round, 256)(a, how)
#endif
#endif
// a store past the caches
#if defined(__AVX512F__) && HYV_BYTES == 64
#define HYV_PAST(p, v) HYV_I(movnt, 512)(p, v)
#elif defined(__AVX__) && HYV_BYTES == 32
#define HYV_PAST(p, v) HYV_I(movnt, 256)(p, v)
#elif defined(__SSE2__) && HYV_BYTES == 16
#define HYV_PAST(p, v) HYV_I(movnt, )(p, v)
#else
#define HYV_PAST(p, v) HYV_STORE(p, v)
#endif
// after stores past the caches: they are seen before what is stored later
#ifdef __SSE__
#define HYV_STREAMED __builtin_ia32_sfence()
#else
#define HYV_STREAMED
#endif

#define HYV_LOAD(p) (*(const hy_vu *)(p))
#define HYV_STORE(p, v) (*(hy_vu *)(p) = (v))
#define HYV_BITS(v) ((hy_vi)(v))
#define HYV_FLOAT(v) ((hy_v)(v))
// a function of numbers without branches, of every element: the compiler makes it one of vectors
#define HYV_EACH(f, x) ({ union { hy_v v; HYV_REAL each[HYV_LANES]; } a_ = { x }, b_; \
    _Pragma("omp simd") for (int i_ = 0; i_ < HYV_LANES; i_++) b_.each[i_] = f(a_.each[i_]); b_.v; })

#ifdef HYV_CMP
#define HYV_EQ(a, b) HYV_CMP(a, b, 0)
#define HYV_LT(a, b) HYV_CMP(a, b, 1)
#define HYV_LE(a, b) HYV_CMP(a, b, 2)
#define HYV_NE(a, b) HYV_CMP(a, b, 4)
#define HYV_NAN(a, b) HYV_CMP(a, b, 3)
#define HYV_NOT(m) ((hy_m)~(m))
#define HYV_FIRST(n) ((hy_m)((1u << (n)) - 1))
#define HYV_ANY(m) (m)
#define HYV_HAS(m, i) ((m) >> (i) & 1)
#else
#define HYV_EQ(a, b) ((hy_m)((a) == (b)))
#define HYV_LT(a, b) ((hy_m)((a) < (b)))
#define HYV_LE(a, b) ((hy_m)((a) <= (b)))
#define HYV_NE(a, b) ((hy_m)((a) != (b)))
#define HYV_NAN(a, b) ((hy_m)(((a) != (a)) | ((b) != (b))))
#define HYV_IEQ(a, b) ((hy_m)((a) == (b)))
#define HYV_ILT(a, b) ((hy_m)((a) < (b)))
#define HYV_NOT(m) (~(m))
#define HYV_HAS(m, i) ((m)[i])
#ifndef HYV_SELECT
#define HYV_SELECT(m, a, b) ((hy_v)(((m) & (hy_vi)(a)) | (~(m) & (hy_vi)(b))))
HY_FN hy_v HYV_MAX(hy_v a, hy_v b) { return HYV_SELECT(HYV_LT(b, a), a, b); }
HY_FN hy_v HYV_MIN(hy_v a, hy_v b) { return HYV_SELECT(HYV_LT(a, b), a, b); }
HY_FN hy_v HYV_SQRT(hy_v a) { for (int i = 0; i < HYV_LANES; i++) a[i] = HYV_OF(sqrt)(a[i]); return a; }
#endif
HY_FN hy_m HYV_FIRST(int n) { hy_m m; for (int i = 0; i < HYV_LANES; i++) m[i] = i < n ? -1 : 0; return m; }
HY_FN int HYV_ANY(hy_m m) { HYV_WHOLE any = 0; for (int i = 0; i < HYV_LANES; i++) any |= m[i]; return any != 0; }
#ifndef HYV_LOADM
HY_FN hy_v HYV_LOADM(hy_m m, const HYV_REAL *p) {
    union { hy_v v; HYV_REAL f[HYV_LANES]; } u = { (hy_v){} };
    for (int i = 0; i < HYV_LANES; i++) if (m[i]) u.f[i] = p[i];
    return u.v;
}
#endif
HY_FN void HYV_STOREM(hy_m m, HYV_REAL *p, hy_v v) { for (int i = 0; i < HYV_LANES; i++) if (m[i]) p[i] = v[i]; }
#endif

#ifdef HYV_ROUND
#define HYV_RINT(a) HYV_ROUND(a, 8)
#define HYV_FLOOR(a) HYV_ROUND(a, 9)
#define HYV_CEIL(a) HYV_ROUND(a, 10)
#define HYV_TRUNC(a) HYV_ROUND(a, 11)
#else
#define HYV_RINT(a) HYV_EACH(HYV_OF(rint), a)
#define HYV_FLOOR(a) HYV_EACH(HYV_OF(floor), a)
#define HYV_CEIL(a) HYV_EACH(HYV_OF(ceil), a)
#define HYV_TRUNC(a) HYV_EACH(HYV_OF(trunc), a)
#endif

// lanes first ... end - 1; either may lie outside of the vector
HY_FN hy_m HYV_RANGE(long first, long end) {
    int a = first < 0 ? 0 : first > HYV_LANES ? HYV_LANES : (int)first,
        b = end < 0 ? 0 : end > HYV_LANES ? HYV_LANES : (int)end;
    return (hy_m)(HYV_FIRST(b) & HYV_NOT(HYV_FIRST(a)));
}
#define HYV_GT(a, b) HYV_LT(b, a)
#define HYV_GE(a, b) HYV_LE(b, a)
#define HYV_IGT(a, b) HYV_ILT(b, a)
#define HYV_ILE(a, b) HYV_NOT(HYV_ILT(b, a))
#define HYV_IGE(a, b) HYV_NOT(HYV_ILT(a, b))
#define HYV_INE(a, b) HYV_NOT(HYV_IEQ(a, b))
#define HYV_FIRSTARG(a, b) (a)
#define HYV_ABS(a) HYV_FLOAT(HYV_BITS(a) & ~HYV_TOP)
#define HYV_SIGN(a, s) HYV_FLOAT((HYV_BITS(a) & ~HYV_TOP) | (HYV_BITS(s) & HYV_TOP))
#define HYV_RELU(a) ({ hy_v a_ = (a); HYV_SELECT(HYV_LE(a_, (hy_v){}), (hy_v){}, a_); })
#define HYV_MAXN(a, b) ({ hy_v a_ = (a), b_ = (b); HYV_SELECT(HYV_NAN(a_, a_), a_, HYV_MAX(a_, b_)); })
#define HYV_MINN(a, b) ({ hy_v a_ = (a), b_ = (b); HYV_SELECT(HYV_NAN(a_, a_), a_, HYV_MIN(a_, b_)); })

// A sum goes into a total and begins again at zero; lost: what rounding the total lost so far. In the end that counts
// where it is a number. Both are in memory meanwhile: the loop within has its registers for itself.
#define HYV_FLUSH(sum, total, lost) { const hy_v y_ = (total) + (sum), z_ = y_ - (total); \
    (lost) += ((total) - (y_ - z_)) + ((sum) - z_); (total) = y_; (sum) = (hy_v){}; \
    __asm__("" : "+m"(total), "+m"(lost)); }
#define HYV_ADD_BLOCK(sum, total) { (total) += (sum); (sum) = (hy_v){}; }
HY_FN hy_v hyv_total(hy_v sum, hy_v total, hy_v lost) {
    HYV_FLUSH(sum, total, lost)
    const hy_v y = total + lost;
    return HYV_SELECT(HYV_NAN(y, y), total, y);
}
// the elements of two vectors with the numbers ``at``, those of the second after those of the first
#ifdef __clang__
HY_FN hy_v HYV_SHUFFLE(hy_v a, hy_v b, hy_vi at) {
    hy_v o;
    for (int i = 0; i < HYV_LANES; i++) o[i] = at[i] < HYV_LANES ? a[at[i]] : b[at[i] - HYV_LANES];
    return o;
}
#else
#define HYV_SHUFFLE __builtin_shuffle
#endif
// Reductions of one vector, by halves; those of the greatest and least element leave NaN out.
#define HYV_FOLD(f) for (int h = HYV_LANES / 2; h; h /= 2) v = f(v, HYV_SHUFFLE(v, v, HYV_COUNT ^ h)); return v[0];
#define HYV_PLUS(a, b) ((a) + (b))
#define HYV_TIMES(a, b) ((a) * (b))
HY_FN HYV_REAL hyv_sum(hy_v v) { HYV_FOLD(HYV_PLUS) }
HY_FN HYV_REAL hyv_prod(hy_v v) { HYV_FOLD(HYV_TIMES) }
HY_FN HYV_REAL hyv_max(hy_v v) { HYV_FOLD(HYV_MAX) }
HY_FN HYV_REAL hyv_min(hy_v v) { HYV_FOLD(HYV_MIN) }
// The better of two searches (least: 1 where the least element is sought), lane by lane: NaN is best, then the value,
// then the first place.
HY_FN void hyv_first_of(hy_v *best, hy_vi *where, hy_v x, hy_vi at, int least) {
    hy_m old = HYV_NAN(*best, *best), fresh = HYV_NAN(x, x), sooner = HYV_ILT(at, *where);
    hy_m value = (hy_m)(HYV_LT(least ? x : *best, least ? *best : x) & HYV_NOT(old)),
        tie = (hy_m)((HYV_EQ(x, *best) | (old & fresh)) & sooner);
    hy_m m = (hy_m)(value | tie | (fresh & HYV_NOT(old)));
    *best = HYV_SELECT(m, x, *best), *where = HYV_BITS(HYV_SELECT(m, HYV_FLOAT(at), HYV_FLOAT(*where)));
}
HY_FN HYV_WHOLE hyv_first(hy_v best, hy_vi where, int least) {
    hy_m nan = HYV_NAN(best, best);
    hy_m m = HYV_ANY(nan) ? nan : HYV_EQ(best, HYV_B(least ? hyv_min(best) : hyv_max(best)));
    // bits of places are in the order of the floats
    union { HYV_REAL f; HYV_WHOLE i; } first = { hyv_min(HYV_SELECT(m, HYV_FLOAT(where), HYV_B(HYV_MOST))) };
    return first.i;
}
