# SPDX-License-Identifier: Apache-2.0
"""When two values are the same: the rule of ONNX's test runner, wider for narrow types and long sums."""

import numpy as np

from graph import type_of

# rtol, and atol for each unit of the largest value
TOLERANCE = {"float": (1e-3, 1e-6), "double": (1e-6, 1e-9), "float16": (4e-3, 1e-3), "bfloat16": (3e-2, 8e-3), "complex64": (1e-3, 1e-6),
             "complex128": (1e-6, 1e-9), "float8e4m3fn": (0.13, 0.02), "float8e4m3fnuz": (0.13, 0.02), "float8e5m2": (0.26, 0.02),
             "float8e5m2fnuz": (0.26, 0.02), "float8e8m0": (0, 0), "float4e2m1": (0, 0), "float6e2m3": (0, 0), "float6e3m2": (0, 0)}


def differ(got, want, times=1, atol=0, steps=0, only_shape=False, t=None):
    """None, or how they differ. times, atol: of the tolerance; steps: by how much integers may differ."""
    if isinstance(want, list) or isinstance(got, list):
        if not isinstance(got, list) or not isinstance(want, list) or len(got) != len(want):
            return f"sequence of {len(got) if isinstance(got, list) else got}, expected {len(want) if isinstance(want, list) else want}"
        for i, (g, w) in enumerate(zip(got, want)):
            d = _maps(g, w) if isinstance(w, dict) else differ(g, w, times, atol, steps, only_shape, t)
            if d:
                return f"element {i}: {d}"
        return None
    if want is None or got is None:
        return None if want is got else f"optional: {'nothing' if got is None else 'something'}, expected the contrary"
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    tg, tw = type_of(got), type_of(want)
    if tg != tw:
        return f"type {tg}, expected {tw}"
    if only_shape or got.size == 0:
        return None
    if tw in ("string", "bool"):
        bad = np.asarray(got != want)
    elif tw in TOLERANCE:
        bad = _floats(got, want, tw, times, atol)
    elif steps:
        bad = np.abs(got.astype(np.float64) - want.astype(np.float64)) > steps
    else:
        bad = np.asarray(got.astype(object) != want.astype(object)) if tw in ("int4", "uint4", "int2", "uint2") else np.asarray(got != want)
    if not np.any(bad):
        return None
    i = tuple(int(x[0]) for x in np.nonzero(np.atleast_1d(bad)))
    g, w = np.atleast_1d(got)[i], np.atleast_1d(want)[i]
    return f"{int(np.sum(bad))} of {bad.size} differ, first at {list(i)}: got {g!r}, expected {w!r}"


def _floats(got, want, t, times, extra):
    rtol, unit = TOLERANCE[t]
    wide = np.complex128 if t.startswith("complex") else np.float64
    with np.errstate(all="ignore"):
        g, w = got.astype(wide), want.astype(wide)
        finite = np.isfinite(w)
        top = float(np.abs(w[finite]).max()) if np.any(finite) else 0.0
        close = np.abs(g - w) <= extra + times * (1e-7 + unit * top + rtol * np.abs(w))
        same = close | (g == w) | (np.isnan(g) & np.isnan(w))
        return ~np.asarray(np.where(finite, same, (g == w) | (np.isnan(g) & np.isnan(w))))


def _maps(g, w):
    if not isinstance(g, dict) or list(map(str, sorted(g, key=str))) != list(map(str, sorted(w, key=str))):
        return f"map {g}, expected {w}"
    for k, v in w.items():
        if abs(float(g[k]) - float(v)) > 1e-6 + 1e-3 * abs(float(v)):
            return f"map[{k}] {g[k]}, expected {v}"
    return None
