// Row kernels that choose greedily among boxes. HY_T is the element type; the HY_LANES threads of a block share a row.

// Suppression among n boxes (corners) in descending order of score: keep[i] becomes 1 or 0. A kept box drops later ones
// that overlap it by more than the threshold, of its own class or, with force, of any.
HY_FN void hy_nms_HY_T(HY_T *keep, const HY_T *box, const HY_T *id, const HY_T *valid, int n, int limit, int force, HY_T threshold) {
    for (int i = HY_LANE; i < n; i += HY_LANES) keep[i] = valid[i] != 0 && i < limit;
    HY_SYNC;
    for (int i = 0; i < n; i++) {
        const HY_T *a = box + 4 * i;
        if (keep[i] != 0)
            for (int j = i + 1 + HY_LANE; j < n; j += HY_LANES) {
                const HY_T *b = box + 4 * j;
                if (keep[j] == 0 || (!force && id[i] != id[j])) continue;
                HY_T w = hy_min(a[2], b[2]) - hy_max(a[0], b[0]), h = hy_min(a[3], b[3]) - hy_max(a[1], b[1]);
                HY_T both = w > 0 && h > 0 ? w * h : 0;
                HY_T one = a[2] > a[0] && a[3] > a[1] ? (a[2] - a[0]) * (a[3] - a[1]) : 0;
                HY_T two = b[2] > b[0] && b[3] > b[1] ? (b[2] - b[0]) * (b[3] - b[1]) : 0;
                HY_T all = one + two - both;
                if ((all > 0 ? both / all : 0) > threshold) keep[j] = 0;
            }
        HY_SYNC;
    }
}

// Pairs of n rows and m columns, taken in the given order of their n * m scores while the score is good enough and both
// are free: out[i] is row i's column, out[n + j] column j's row, or -1.
HY_FN void hy_match_HY_T(HY_T *out, const HY_T *score, const HY_T *order, int n, int m, int limit, int ascend, HY_T threshold) {
    for (int i = HY_LANE; i < n + m; i += HY_LANES) out[i] = -1;
    HY_SYNC;
    if (HY_LANE == 0) {
        int found = 0;
        for (int k = 0; k < n * m && found < limit; k++) {
            int at = (int)order[k], r = at / m, c = at % m;
            if (out[r] != -1 || out[n + c] != -1) continue;
            if (ascend ? score[at] > threshold : score[at] < threshold) break;
            out[r] = c;
            out[n + c] = r;
            found++;
        }
    }
}
