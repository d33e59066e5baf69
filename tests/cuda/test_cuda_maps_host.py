"""Tensor maps from Python's side, over the stand-in for CuPy and NVIDIA's libraries: made where launches are made, anew
where arrays lie elsewhere, and done without where the driver has none."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import device, ir, runtime
from hybrid.base.errors import DeviceError
from hybrid.codegen.printers.cuda import contraction, warpgroup
from hybrid.codegen.printers.cuda.shares import Division
from hybrid.runtime import launcher
from hybrid.runtime.cuda import driver_api, native, tensor_maps

from . import fake_cupy
from .fake_cupy import STATE
from .test_cuda_cupy import stand_in  # noqa: F401  a fixture

pytestmark = [pytest.mark.skipif(launcher.load() is None, reason="no headers of Python"),
              pytest.mark.usefixtures("stand_in", "products_by_warpgroups")]


@pytest.fixture
def products_by_warpgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product is one of warpgroups whose slices a warpgroup of their own copies."""
    monkeypatch.setattr(contraction, "pick_warpgroup", lambda p: Division(warpgroup.TILES[3], 0))
    monkeypatch.setattr(warpgroup, "specializes", lambda division: True)
    monkeypatch.setattr(contraction, "columns_first", lambda k: False)


def compiled() -> Any:
    """relu(x @ w.T) @ w.T: two launches, which are a graph."""
    x, w = (ir.input(i, (64, 64), "float16") for i in range(2))
    inner = ir.map("relu", ir.dot(x, w, ((1,), (1,))))
    return runtime.compile(ir.Program((x, w), (ir.dot(inner, w, ((1,), (1,))),), ()), device.gpu(0))


def given(seed: int) -> list[np.ndarray]:
    return [np.random.default_rng(seed).integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(2)]


def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.maximum(x.astype(np.float32) @ w.T, 0) @ w.T


def counted() -> dict[str, int]:
    return {n: getattr(STATE, n) for n in ("graphs", "replays", "sets", "maps")}


def test_graphs_take_maps_of_arrays_that_lie_elsewhere() -> None:
    """Launches one by one, then a graph; where an array is the same, so is its map."""
    run, before = compiled(), counted()
    kept = [[fake_cupy.CUPY.array(a) for a in given(seed)] for seed in range(3)]
    for turn in range(9):
        x, w = kept[turn % 3]
        np.testing.assert_array_equal(run([x, w])[0].get(), expected(*given(turn % 3)))
    after = {n: count - before[n] for n, count in counted().items()}
    assert after["graphs"] == 1 and after["replays"] >= 6 and after["sets"] >= 6
    assert "hy_copy_box" in run.report.source and "as slices through tensor maps" in str(run.report)
    pointers = [int(a.data.ptr) for a in (*kept[0], *kept[1])]
    plan = run._plan
    at = plan._size * [pointers[0]]
    plan.run(at)
    made = counted()["maps"]
    plan.run(at)
    assert counted()["maps"] == made                         # the same arrays: none is made anew
    plan.run([pointers[2], *at[1:]])
    moved = sum(launch.args[i] == 0 for launch in plan.launches for i, _ in launch.maps)
    assert moved > 0 and counted()["maps"] == made + moved


def test_a_map_that_the_driver_refuses_is_the_kernels_error() -> None:
    plan = compiled()._plan
    with pytest.raises(DeviceError, match="launching kernel k0"):
        plan.run(plan._size * [8])


def test_without_the_drivers_function_slices_come_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    real = driver_api.addresses
    monkeypatch.setattr(driver_api, "addresses", lambda *names: None if tensor_maps.ENCODE in names else real(*names))
    native.library.cache_clear()
    try:
        run = compiled()
        np.testing.assert_array_equal(run([fake_cupy.CUPY.array(a) for a in given(5)])[0].get(), expected(*given(5)))
        assert "hy_copy_box" not in run.report.source.partition("__global__")[2]
        assert "not as slices through tensor maps: the GPU's driver has no cuTensorMapEncodeTiled" in str(run.report)
    finally:
        native.library.cache_clear()


def test_without_a_c_compiler_launches_give_pointers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: None)
    assert "without a C compiler" in native.no_maps()
    assert "hy_cp_async_arrive" in compiled().report.source.partition("__global__")[2]
