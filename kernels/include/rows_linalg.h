// Row kernels of linear algebra. HY_T is the element type; the HY_LANES threads of a block share a row (in C there is
// one).

// y -= f x, for the elements from, from + step, ... below n; x and y do not overlap. In C step is 1, and sixteen
// elements are computed at a time, in vectors.
HY_FN void hy_less_HY_T(HY_T *y, const HY_T *x, HY_T f, int n, int from, int step) {
    int c = from;
    if (HY_LANES == 1) for (; c + 16 <= n; c += 16) {
        HY_T t[16];
        for (int k = 0; k < 16; k++) t[k] = y[c + k] - f * x[c + k];
        for (int k = 0; k < 16; k++) y[c + k] = t[k];
    }
    for (; c < n; c += step) y[c] -= f * x[c];
}

// Cholesky factor of the lower triangle of a (n x n): a = out outT, column by column; nan where a is not positive.
// Until all is done, row j holds a copy of column j right of the diagonal, so that vectors can be read.
HY_FN void hy_potrf_HY_T(HY_T *out, const HY_T *a, int n) {
    for (int i = HY_LANE; i < n * n; i += HY_LANES) out[i] = a[i];
    HY_SYNC;
    for (int j = 0; j < n; j++) {
        HY_T d = out[j * n + j];
        d = d > 0 ? HY_SQRT(d) : HY_NAN;
        HY_SYNC;
        for (int i = j + HY_LANE; i < n; i += HY_LANES)
            out[j * n + i] = out[i * n + j] = i == j ? d : out[i * n + j] / d;
        HY_SYNC;
        for (int i = j + 1 + HY_LANE; i < n; i += HY_LANES)
            hy_less_HY_T(out + i * n + j + 1, out + j * n + j + 1, out[i * n + j], i - j, 0, 1);
        HY_SYNC;
    }
    for (int i = HY_LANE; i < n * n; i += HY_LANES) if (i % n > i / n) out[i] = 0;
}

// x of a x = b (or aT x = b), a (n x n) triangular, b and x (n x m); on GPUs a lane owns columns; in C,
// row after row is computed.
HY_FN void hy_trsm_HY_T(HY_T *x, const HY_T *a, const HY_T *b, int n, int m, int lower, int transpose) {
    for (int step = 0; HY_LANES == 1 && step < n; step++) {
        int up = lower != transpose, i = up ? step : n - 1 - step;
        for (int c = 0; c < m; c++) x[i * m + c] = b[i * m + c];
        for (int k = up ? 0 : i + 1; k < (up ? i : n); k++)
            hy_less_HY_T(x + i * m, x + k * m, transpose ? a[k * n + i] : a[i * n + k], m, 0, 1);
        for (int c = 0; c < m; c++) x[i * m + c] /= a[i * n + i];
    }
    if (HY_LANES == 1) return;
    for (int c = HY_LANE; c < m; c += HY_LANES)
        for (int step = 0; step < n; step++) {
            int up = lower != transpose, i = up ? step : n - 1 - step;
            HY_T s = b[i * m + c];
            for (int k = up ? 0 : i + 1; k < (up ? i : n); k++) s -= (transpose ? a[k * n + i] : a[i * n + k])
                * x[k * m + c];
            x[i * m + c] = s / a[i * n + i];
        }
}

// Inverse by Gauss and Jordan with row pivots; work: n more columns of the result, out is (n x 2n) with the inverse on
// the right.
HY_FN void hy_inverse_HY_T(HY_T *out, const HY_T *a, int n) {
    int w = 2 * n;
    for (int i = HY_LANE; i < n * w; i += HY_LANES) out[i] = i % w < n ? a[i / w * n + i % w] : i % w - n == i / w;
    HY_SYNC;
    for (int j = 0; j < n; j++) {
        int p = j;
        for (int i = j + 1; i < n; i++) if (HY_ABS(out[i * w + j]) > HY_ABS(out[p * w + j])) p = i;
        HY_T d = out[p * w + j];
        HY_SYNC;
        for (int c = HY_LANE; c < w; c += HY_LANES) {
            HY_T t = out[p * w + c];
            out[p * w + c] = out[j * w + c];
            out[j * w + c] = t / d;
        }
        HY_SYNC;
        for (int i = 0; i < n; i++) {                               // left of column j the row is zero
            HY_T f = out[i * w + j];
            if (i != j) hy_less_HY_T(out + i * w + j + 1, out + j * w + j + 1, f, w - j - 1, HY_LANE, HY_LANES);
        }
        HY_SYNC;
        for (int i = HY_LANE; i < n; i += HY_LANES) out[i * w + j] = i == j;
        HY_SYNC;
    }
}

// x of a x = b, a (n x n), b (n x m), by elimination with row pivots: out (n x (n + m)) holds what a became, and x on
// the right.
HY_FN void hy_gesv_HY_T(HY_T *out, const HY_T *a, const HY_T *b, int n, int m) {
    int w = n + m;
    for (int i = HY_LANE; i < n * w; i += HY_LANES) out[i] = i % w < n ? a[i / w * n + i % w]
        : b[i / w * m + i % w - n];
    HY_SYNC;
    for (int j = 0; j < n; j++) {
        int p = j;
        for (int i = j + 1; i < n; i++) if (HY_ABS(out[i * w + j]) > HY_ABS(out[p * w + j])) p = i;
        HY_SYNC;
        for (int c = j + HY_LANE; p != j && c < w; c += HY_LANES) {
            HY_T t = out[p * w + c];
            out[p * w + c] = out[j * w + c];
            out[j * w + c] = t;
        }
        HY_SYNC;
        for (int i = j + 1 + HY_LANE; i < n; i += HY_LANES) {
            HY_T f = out[i * w + j] / out[j * w + j];
            hy_less_HY_T(out + i * w + j + 1, out + j * w + j + 1, f, w - j - 1, 0, 1);
        }
        HY_SYNC;
    }
    for (int j = n - 1; j >= 0; j--) {                              // a lane owns columns
        for (int k = j + 1; k < n; k++)
            hy_less_HY_T(out + j * w + n, out + k * w + n, out[j * w + k], m, HY_LANE, HY_LANES);
        for (int c = n + HY_LANE; c < w; c += HY_LANES) out[j * w + c] /= out[j * w + j];
    }
}

// Sign and log of the determinant, by elimination with row pivots: out (n + 2) x n, of which the first two hold the
// result.
HY_FN void hy_slogdet_HY_T(HY_T *out, const HY_T *a, int n) {
    HY_T *u = out + 2, sign = 1, total = 0;
    for (int i = HY_LANE; i < n * n; i += HY_LANES) u[i] = a[i];
    HY_SYNC;
    for (int j = 0; j < n; j++) {
        int p = j;
        for (int i = j + 1; i < n; i++) if (HY_ABS(u[i * n + j]) > HY_ABS(u[p * n + j])) p = i;
        HY_T d = u[p * n + j];
        sign *= (p == j ? 1 : -1) * (d < 0 ? -1 : d != 0);
        total += HY_LOG(HY_ABS(d));
        HY_SYNC;
        for (int c = j + HY_LANE; c < n; c += HY_LANES) {
            HY_T t = u[p * n + c];
            u[p * n + c] = u[j * n + c];
            u[j * n + c] = t;
        }
        HY_SYNC;
        for (int i = j + 1 + HY_LANE; i < n; i += HY_LANES) {
            HY_T f = d == 0 ? 0 : u[i * n + j] / d;
            hy_less_HY_T(u + i * n + j + 1, u + j * n + j + 1, f, n - j - 1, 0, 1);
        }
        HY_SYNC;
    }
    if (HY_LANE == 0) { out[0] = sign; out[1] = total; }
}

// Eigenvalues and eigenvectors of a symmetric matrix, of which one triangle is read, by Jacobi's rotations, in turn
// (Golub and Van Loan 8.5): out, (2n + 1) x n, holds the eigenvectors as rows, the eigenvalues in ascending order, and
// the matrix that becomes diagonal. Numbers whose squares a type may not hold are scaled by the largest; of those that
// are not finite all results are NaN.
HY_FN void hy_syevd_HY_T(HY_T *out, const HY_T *a, int n, int lower) {
    HY_T *w = out + n * n, *s = w + n, most = 0, odd = 0;
    for (int i = 0; i < n * n; i++) {
        HY_T x = (i % n <= i / n) == lower || i % n == i / n ? HY_ABS(a[i]) : 0;
        most = x > most ? x : most;
        odd += x - x;
    }
    HY_T unit = 1;                                                  // a power of 2
    while (most > 0 && most / unit < HY_EPS) unit *= HY_EPS;
    while (odd == 0 && most / unit > 1 / HY_EPS) unit /= HY_EPS;
    for (int i = HY_LANE; i < n * n; i += HY_LANES) {
        out[i] = (i / n == i % n) + odd;
        s[i] = ((i % n <= i / n) == lower || i % n == i / n ? a[i] : a[i % n * n + i / n]) / unit + odd;
    }
    HY_SYNC;
    for (int sweep = 0; sweep < 60; sweep++) {
        HY_T off = 0, on = 0;
        for (int i = 0; i < n * n; i++) *(i / n == i % n ? &on : &off) += s[i] * s[i];
        if (!(off > on * HY_EPS * HY_EPS)) break;
        for (int p = 0; p < n - 1; p++)
            for (int q = p + 1; q < n; q++) {
                HY_T g = s[p * n + q], x = s[p * n + p], y = s[q * n + q], c = 1, t = 0;
                if (g != 0) {
                    HY_T h = (y - x) / (2 * g);
                    t = (h < 0 ? -1 : 1) / (HY_ABS(h) + HY_SQRT(h * h + 1));
                    c = 1 / HY_SQRT(t * t + 1);
                }
                HY_T r = t * c;
                HY_SYNC;
                for (int k = HY_LANE; k < n; k += HY_LANES) {
                    HY_T u = s[k * n + p], v = s[k * n + q];
                    s[k * n + p] = c * u - r * v;
                    s[k * n + q] = r * u + c * v;
                    u = out[p * n + k], v = out[q * n + k];
                    out[p * n + k] = c * u - r * v;
                    out[q * n + k] = r * u + c * v;
                }
                HY_SYNC;
                for (int k = HY_LANE; k < n; k += HY_LANES) {
                    HY_T u = s[p * n + k], v = s[q * n + k];
                    s[p * n + k] = c * u - r * v;
                    s[q * n + k] = r * u + c * v;
                }
                HY_SYNC;
            }
    }
    for (int i = 0; i < n; i++) {                                  // ascending, by selection
        int best = i;
        for (int j = i + 1; j < n; j++) if (s[j * n + j] < s[best * n + best]) best = j;
        HY_T low = s[best * n + best], high = s[i * n + i];
        HY_SYNC;
        for (int k = HY_LANE; k < n; k += HY_LANES) {
            HY_T t = out[i * n + k];
            out[i * n + k] = out[best * n + k];
            out[best * n + k] = t;
        }
        if (HY_LANE == 0) { s[best * n + best] = high; s[i * n + i] = low; w[i] = low * unit; }
        HY_SYNC;
    }
    for (int i = HY_LANE; i < n; i += HY_LANES) {                  // the largest component is positive
        int best = 0;
        for (int k = 1; k < n; k++) if (HY_ABS(out[i * n + k]) > HY_ABS(out[i * n + best]) * (1 + 64 * HY_EPS)) best =
            k;
        if (out[i * n + best] < 0) for (int k = 0; k < n; k++) out[i * n + k] = -out[i * n + k];
    }
}
