"""exp, log, tanh, erf, sigmoid, sin, pow and others as the C kernels compute them, beside the C library's doubles:
within 2 ulp, NaN and infinity where they belong; those of float64 within 2.5 ulp of long doubles.

A sweep over floats of every exponent; HYBRID_ALL_FLOATS=1 takes every float there is (some minutes for each width).
"""
from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hybrid import ir
from hybrid.codegen import c as printer
from hybrid.codegen import lanes
from hybrid.ir import Program
from hybrid.runtime import cpu, toolchain

STEP = 1 if os.environ.get("HYBRID_ALL_FLOATS") == "1" else 4093
POWERS = ("0.5f", "2.0f", "-1.5f", "3.0f", "0.1f", "1.0000001f", "0.0f", "-0.0f", "37.25f", "-101.0f", "1e30f",
          "16777217.0f", "__builtin_inff()", "-__builtin_inff()",
          '__builtin_nanf("")')

CHECK = r"""
double exp(double), exp2(double), log(double), expm1(double), log1p(double), log2(double), log10(double);
double sin(double), cos(double), tan(double), tanh(double), erf(double), sqrt(double), pow(double, double), atan(double), asin(double), acos(double), sinh(double), cosh(double);
double asinh(double), acosh(double), atanh(double), cbrt(double); int printf(const char *, ...);
static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double softplus(double x) { return (x > 0 ? x : x <= 0 ? 0 : x) + log1p(exp(-__builtin_fabs(x))); }
static double spacing(double want) {
    union { float f; unsigned u; } a, b;
    a.f = (float)__builtin_fabs(want); b.u = a.u < 0x7f7fffffu ? a.u : 0x7f7ffffeu; a.u = b.u + 1;
    return (double)a.f - b.f;
}
#define RUN(name, f, exact) { double worst = 0; float at = 0, odd = 0; long wrong = 0; \
    for (unsigned long first = 0; first < 1ul << 32; first += HYV_LANES * STEP) { \
        union { hy_v v; unsigned u[HYV_LANES]; float f[HYV_LANES]; } x, y; \
        for (int i = 0; i < HYV_LANES; i++) x.u[i] = (unsigned)(first + i * STEP); \
        y.v = f(x.v); \
        for (int i = 0; i < HYV_LANES; i++) { \
            double want = exact((double)x.f[i]), near = (float)want; \
            if (near - near != 0 || y.f[i] - y.f[i] != 0) { if (near != y.f[i] && (near == near || y.f[i] == y.f[i])) { wrong++; odd = x.f[i]; } continue; } \
            double d = __builtin_fabs(y.f[i] - want) / spacing(want); \
            if (d > worst) { worst = d; at = x.f[i]; } } } \
    printf("%s %.9g %.9g %ld %.9g\n", name, worst, at, wrong, odd); }
#define EACH(name, f) static hy_v each_##name(hy_v x) { hy_v y; for (int i = 0; i < HYV_LANES; i++) y[i] = f(x[i]); return y; }
EACH(exp, hy_expf) EACH(log, hy_logf) EACH(tanh, hy_tanhf) EACH(erf, hy_erff) EACH(sigmoid, hy_sigmoidf)
#define VECTORS(name, f) static hy_v vectors_##name(hy_v x) { return HYV_EACH(f, x); }
VECTORS(atan, hy_atanf) VECTORS(asin, hy_asinf) VECTORS(acos, hy_acosf) VECTORS(sinh, hy_sinhf) VECTORS(cosh, hy_coshf)
VECTORS(asinh, hy_asinhf) VECTORS(acosh, hy_acoshf) VECTORS(atanh, hy_atanhf) VECTORS(cbrt, hy_cbrtf)
#define POWER(x) hyv_pow(x, HYV_B(by))
#define EXACT_POWER(x) pow(x, (double)by)
static hy_v below(hy_v x) { return hyv_exp_below(HYV_MAX(HYV_B(-1.0f), HYV_MIN(HYV_B(0.0f), x))); }        /* further down it is less exact */
static double below_exact(double x) { return exp(x > 0 ? 0 : x < -1 ? -1 : x); }
int main(void) {
    RUN("exp", hyv_exp, exp) RUN("log", hyv_log, log) RUN("tanh", hyv_tanh, tanh) RUN("erf", hyv_erf, erf) RUN("sigmoid", hyv_sigmoid, sigmoid) RUN("sqrt", HYV_SQRT, sqrt)
    RUN("one_exp", each_exp, exp) RUN("one_log", each_log, log) RUN("one_tanh", each_tanh, tanh) RUN("one_erf", each_erf, erf) RUN("one_sigmoid", each_sigmoid, sigmoid)
    RUN("two_to", hyv_two_to, exp2) RUN("exp_below", below, below_exact)
    RUN("expm1", hyv_expm1, expm1) RUN("log1p", hyv_log1p, log1p) RUN("softplus", hyv_softplus, softplus) RUN("log2", hyv_log2, log2) RUN("log10", hyv_log10, log10)
    RUN("sin", hyv_sin, sin) RUN("cos", hyv_cos, cos) RUN("tan", hyv_tan, tan)
    RUN("floor", HYV_FLOOR, __builtin_floor) RUN("ceil", HYV_CEIL, __builtin_ceil) RUN("trunc", HYV_TRUNC, __builtin_trunc)
    RUN("rint", HYV_RINT, __builtin_rint)
    RUN("arctan", vectors_atan, atan) RUN("arcsin", vectors_asin, asin) RUN("arccos", vectors_acos, acos) RUN("sinh", vectors_sinh, sinh) RUN("cosh", vectors_cosh, cosh)
    RUN("arcsinh", vectors_asinh, asinh) RUN("arccosh", vectors_acosh, acosh) RUN("arctanh", vectors_atanh, atanh) RUN("cbrt", vectors_cbrt, cbrt)
    const float powers[] = { POWERS };
    for (int k = 0; k < (int)(sizeof powers / sizeof *powers); k++) { const float by = powers[k]; RUN("pow", POWER, EXACT_POWER) }
    return 0;
}
"""  # noqa: E501


DOUBLES = r"""
#define EXACT(f) long double f(long double);
EXACT(expl) EXACT(expm1l) EXACT(tanhl) EXACT(sinhl) EXACT(coshl) EXACT(logl) EXACT(log2l) EXACT(log10l) EXACT(log1pl) EXACT(erfl) EXACT(atanl) EXACT(asinl) EXACT(acosl)
EXACT(asinhl) EXACT(acoshl) EXACT(atanhl) EXACT(cbrtl)
int printf(const char *, ...);
static long double softplusl(long double x) { return (x > 0 ? x : x <= 0 ? 0 : x) + log1pl(expl(-__builtin_fabsl(x))); }
static double spacing(double want) {
    union { double f; unsigned long u; } a, b;
    a.f = __builtin_fabs(want); b.u = a.u < 0x7feffffffffffffful ? a.u : 0x7feffffffffffffeul; a.u = b.u + 1;
    return a.f - b.f;
}
static const double special[] = { 0, -0.0, 1, -1, __builtin_inf(), -__builtin_inf(), __builtin_nan(""), 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1.7976931348623157e308,
    -1.7976931348623157e308, 0.5, -0.5, 710.4, -710.4, 710.5, 709.7, 709.8, 2, -2, 1e-20, 268435456.0, 268435457.0 };
#define RUN(f, exact) { double worst = 0, at = 0, odd = 0; long wrong = 0; unsigned long s = 88172645463325252ul; \
    for (long i = 0; i < COUNT; i++) { \
        union { double f; unsigned long u; } x; s ^= s << 13; s ^= s >> 7; s ^= s << 17; \
        x.u = s;                                                                        /* every exponent, then -8 ... 8, then -1 ... 1 */ \
        if (i % 3) x.f = ((long)(s >> 11) - (1l << 52)) * (i % 3 == 1 ? 0x1p-49 : 0x1p-52); \
        if (i < (long)(sizeof special / sizeof *special)) x.f = special[i]; \
        const double y = f(x.f); const long double want = exact(x.f); const double near = (double)want; \
        if (near - near != 0 || y - y != 0) { if (near != y && (near == near || y == y)) { wrong++; odd = x.f; } continue; } \
        if (near == 0 && y == 0 && __builtin_signbit(near) != __builtin_signbit(y)) { wrong++; odd = x.f; } \
        const double d = (double)(__builtin_fabsl(y - want) / spacing(near)); \
        if (d > worst) { worst = d; at = x.f; } } \
    printf("%s %.9g %.17g %ld %.17g\n", #f, worst, at, wrong, odd); }
int main(void) {
    RUN(hy_exp, expl) RUN(hy_expm1, expm1l) RUN(hy_tanh, tanhl) RUN(hy_sinh, sinhl) RUN(hy_cosh, coshl) RUN(hy_log, logl) RUN(hy_log2, log2l) RUN(hy_log10, log10l)
    RUN(hy_log1p, log1pl) RUN(hy_softplus, softplusl) RUN(hy_erf, erfl) RUN(hy_atan, atanl) RUN(hy_asin, asinl) RUN(hy_acos, acosl) RUN(hy_asinh, asinhl)
    RUN(hy_acosh, acoshl) RUN(hy_atanh, atanhl) RUN(hy_cbrt, cbrtl)
    return 0;
}
"""  # noqa: E501


def _run(cc: str, text: str, folder: Path) -> list[list[str]]:
    """The words of every line that a C program prints."""
    (folder / "check.c").write_text(text)
    flags = [f for f in (*toolchain.FLAGS, *toolchain.machine_flags(cc)) if f not in ("-shared", "-fPIC")]
    built = subprocess.run([cc, *flags, str(folder / "check.c"), "-o", str(folder / "check"), "-lm"],
                           capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    ran = subprocess.run([str(folder / "check")], capture_output=True, text=True, check=True)
    return [line.split() for line in ran.stdout.splitlines()]


def test_doubles(tmp_path: Path) -> None:
    """Functions of float64 beside the C library's long doubles: within 3 ulp, with signed zeros, NaN and infinity."""
    cc = toolchain.compiler()
    if cc is None or np.finfo(np.longdouble).nmant < 60:
        pytest.skip("no C compiler, or no numbers of more digits here")
    lines = _run(cc, printer.prelude() + DOUBLES.replace("COUNT", "3000000" if STEP == 1 else "200000"), tmp_path)
    assert len(lines) == 18
    for name, worst, at, wrong, odd in lines:
        assert float(worst) <= 2.5, f"{name}: {worst} ulp at {at}"
        assert int(wrong) == 0, f"{name}: NaN, infinity or the sign of zero is wrong for {wrong} doubles, such as {odd}"


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no numbers of more digits here")
@pytest.mark.parametrize("fn", ["sin", "cos", "tan"])
def test_angles_of_doubles(fn: str) -> None:
    """Within 4 ulp from 0 to where the C library does it, beside multiples of pi / 2 as well."""
    r = np.random.default_rng(3)
    turns = np.arange(1, 600000, 61) * np.pi / 2
    x = np.concatenate([r.standard_normal(5000) * 3, r.uniform(-1.1e6, 1.1e6, 20001), turns, -np.nextafter(turns, 0),
                        10 ** r.uniform(-320, 22, 5000), [0.0, -0.0, np.inf, np.nan]])
    exe = cpu.compiled(Program((leaf := ir.input(0, x.shape, x.dtype),), (ir.map(fn, leaf),)))
    assert toolchain.vector_bytes() < 32 or f"hyd_{fn}(" in exe.report.source.split("static void k0(")[1]
    got = exe([x])[0]
    with np.errstate(invalid="ignore"):
        want = getattr(np, fn)(x.astype(np.longdouble))
    assert np.nanmax(np.abs(got - want) / np.spacing(np.abs(want.astype(np.float64)))) <= 4
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.signbit(got[-4:-2]), np.signbit(want[-4:-2]))


def test_the_inverse_of_erf() -> None:
    """Values of 60 digits' arithmetic; infinity at the ends, no number beyond."""
    x = np.array([0.5, -0.1, 0.8427, 0.99, 0.999999, -(1 - 2.0 ** -40), 1 - 2.0 ** -53, 1e-200, 0.25, 0.9375])
    want = np.array([0.4769362762044699, -0.08885599049425769, 0.9999980897762505, 1.8213863677184494,
                     3.458910737275499,
                     -5.05125408524939, 5.8635847487551676, 8.86226925452758e-201, 0.2253120550121781,
                     1.3171503349861307])
    special = np.array([0.0, -0.0, 1, -1, 1.5, -np.inf, np.nan])
    exe = cpu.compiled(Program((leaf := ir.input(0, (17,), np.float64),),
                               (ir.map("erfinv", leaf), ir.map("erfinv", ir.cast(leaf, "float32")))))
    got, narrow = exe([np.concatenate([x, special])])
    np.testing.assert_allclose(got[:10], want, rtol=6e-16)
    keep = np.abs(x.astype(np.float32)) < 0.99999
    np.testing.assert_allclose(narrow[:10][keep], want[keep], rtol=3e-6, atol=1e-40)    # of x, which is rounded
    for y in (got[10:], narrow[10:]):
        np.testing.assert_array_equal(y, [0, 0, np.inf, -np.inf, np.nan, np.nan, np.nan])
        assert np.signbit(y[:2]).tolist() == [False, True]


@pytest.mark.parametrize("width", (64, 32, 16), ids=str)
def test_every_exponent(width: int, tmp_path: Path) -> None:
    cc = toolchain.compiler()
    if cc is None or width > toolchain.vector_bytes():
        pytest.skip("no C compiler, or no vectors of this width here")
    text = CHECK.replace("STEP", f"{STEP}ul").replace("POWERS", ", ".join(POWERS))
    lines = _run(cc, printer.prelude() + lanes.support(width // 4, {"hyv_pow", "hyv_log1p"}) + text, tmp_path)
    assert len(lines) == 34 + len(POWERS)
    for name, worst, at, wrong, odd in lines:
        assert float(worst) <= (2.4 if name in ("two_to", "exp_below") else 2), f"{name}: {worst} ulp at {at}"
        assert int(wrong) == 0, f"{name}: NaN or infinity is wrong for {wrong} floats, such as {odd}"


def test_powers_of_both_signs() -> None:
    """Bases and exponents where C's pow has rules of its own, in every pair; and that a kernel uses vectors for it."""
    special = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-45, -1e-45,
                        3e38, -3e38, 16777215, -16777217, 1e-30], np.float32)
    a, b = (np.ascontiguousarray(m).ravel() for m in np.meshgrid(special, special))
    leaves = ir.input(0, a.shape, a.dtype), ir.input(1, b.shape, b.dtype)
    exe = cpu.compiled(Program(leaves, (ir.map("pow", *leaves),)))
    assert toolchain.vector_bytes() < 16 or "hyv_pow(" in exe.report.source.split("void net(")[0].split(
            "static void k0(")[1]
    with np.errstate(all="ignore"):
        want = np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    got = exe([a, b])[0]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=2.5e-7, atol=1.5e-45)
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize("dtype", (np.float32, np.float64), ids=str)
@pytest.mark.parametrize("fn", ("fmod", "mod", "floordiv"))
def test_remainders_have_all_their_bits(fn: str, dtype: type) -> None:
    """Every pair of special numbers, and random ones whose quotients have up to 60 binary digits, as NumPy has them."""
    special = [0.0, -0.0, 1, -1, 3, -3, 0.1, -0.1, 5.5, -7, 1e30, -1e30, 1e-30, 1e-45, np.inf, -np.inf, np.nan]
    rng = np.random.RandomState(5)
    many = rng.randn(2, 20000) * 2.0 ** rng.randint(-30, 30, (2, 20000))
    a, b = (np.concatenate([m.ravel(), r]).astype(dtype) for m, r in zip(np.meshgrid(special, special), many))
    leaves = ir.input(0, a.shape, a.dtype), ir.input(1, b.shape, b.dtype)
    with np.errstate(all="ignore"):
        want = {"fmod": np.fmod, "mod": np.remainder, "floordiv": np.floor_divide}[fn](a, b)
    got = cpu.compiled(Program(leaves, (ir.map(fn, *leaves),)))([a, b])[0]
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def test_sigmoid_of_large_negative_numbers() -> None:
    """exp(-x) overflows there; the result is small, not zero."""
    x = np.array([-88.9, -95, -103, -110, 100, -np.inf, np.inf], np.float32)
    leaf = ir.input(0, x.shape, x.dtype)
    got = cpu.compiled(Program((leaf,), (ir.map("sigmoid", leaf),)))([x])[0]
    np.testing.assert_allclose(got,
                               (np.exp(np.minimum(x,
                                                  0).astype(np.float64)) / (1 + np.exp(-np.abs(x).astype(np.float64)))).astype(np.float32), rtol=2.5e-7, atol=1.5e-45)  # noqa: E501
    assert got[0] > 0 and got[2] > 0 and got[3] == 0


@pytest.mark.parametrize("n", (3, 17, 65, 1024), ids=str)
def test_softmax_of_far_values(n: int) -> None:
    """Also the smallest weights are within 1e-5 of what float64 gives for the same differences."""
    x = (np.random.default_rng(n).standard_normal((67, n)) * 30).astype(np.float32)
    leaf = ir.input(0, x.shape, x.dtype)
    e = ir.map("exp", leaf - ir.reduce("max", leaf, (1,), True))
    got = cpu.compiled(Program((leaf,), (e / ir.reduce("sum", e, (1,), True),)))([x])[0]
    exact = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    exact /= exact.sum(1, keepdims=True)
    seen = exact > 1.2e-38
    np.testing.assert_allclose(got[seen], exact[seen], rtol=1e-5)
    np.testing.assert_allclose(got[~seen], exact[~seen], atol=1e-43)


@pytest.mark.parametrize("fn", ("tanh", "erf"))
def test_functions_plus_one(fn: str) -> None:
    """1 + tanh and 1 + erf are functions of their own: no worse than the sum, better where it is near zero, NaN and
    infinity as the sum's."""
    x = np.concatenate([np.linspace(-12, 12, 100001),
                        [np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0, -0.0]]).astype(np.float32)
    leaf = ir.input(0, x.shape, x.dtype)
    exe = cpu.compiled(Program((leaf,), (ir.map(fn, leaf) + 1.0,)))
    got, wide = exe([x])[0], x.astype(np.float64)
    if toolchain.vector_bytes() >= 16:
        assert {"tanh": "hyv_two_to(v", "erf": "hyv_erf1(v"}[fn] in exe.report.source
    with np.errstate(all="ignore"):
        want = 2 / (1 + np.exp(-2 * wide)) if fn == "tanh" else np.vectorize(math.erfc)(-wide)
    np.testing.assert_allclose(got, want, atol=1.6e-7, rtol=1.2e-7)
    assert got[-6] == 0 and got[-7] == 2 and np.isnan(got[-5])
    below = (wide > (-8 if fn == "tanh" else -2)) & (wide < -1)
    np.testing.assert_allclose(got[below], want[below], rtol=5e-6)


@pytest.mark.parametrize("left", (True, False), ids=("left", "right"))
def test_a_product_with_one_plus_tanh(left: bool) -> None:
    """GELU's form: one division, and the constant before tanh is part of the power of two."""
    x = np.concatenate([np.linspace(-12, 12, 100001), [np.inf, np.nan, 1e30, -1e15, 0.0]]).astype(np.float32)
    leaf = ir.input(0, x.shape, x.dtype)
    total = ir.map("tanh", (leaf + leaf * leaf * leaf * 0.044715) * 0.7978845608) + 1.0
    half = leaf * 0.5
    exe = cpu.compiled(Program((leaf,), (half * total if left else total * half,)))
    got, wide = exe([x])[0], x.astype(np.float64)
    if toolchain.vector_bytes() >= 16:
        assert "/ (hyv_two_to(v" in exe.report.source
    with np.errstate(all="ignore"):
        want = wide / (1 + np.exp(-2 * 0.7978845608 * (wide + 0.044715 * wide ** 3)))
    np.testing.assert_allclose(got, want, atol=2e-7, rtol=1e-6)


def test_one_plus_tanh_that_others_use_too() -> None:
    x = np.linspace(-3, 3, 999).astype(np.float32)
    leaf = ir.input(0, x.shape, x.dtype)
    total = ir.map("tanh", leaf) + 1.0
    got = cpu.compiled(Program((leaf,), (leaf * total, total * total, leaf / total)))([x])
    exact = 1 + np.tanh(x.astype(np.float64))
    for have, want in zip(got, (x * exact, exact * exact, x / exact)):
        np.testing.assert_allclose(have, want, rtol=1e-5)
