"""Tensor maps from Python's side, over the stand-in for CuPy and NVIDIA's libraries: made where launches are made, anew
where arrays lie elsewhere, and done without where the driver has none."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import device, runtime
from hybrid.base.errors import DeviceError
from hybrid.runtime import launcher
from hybrid.runtime.cuda import driver_api, native, tensor_maps

from . import fake_cupy
from .cuda_tools import factors, product_of, slices_through_maps, two_products
from .fake_cupy import STATE
from .test_cuda_cupy import stand_in  # noqa: F401  a fixture

pytestmark = [pytest.mark.skipif(launcher.load() is None, reason="no headers of Python"),
              pytest.mark.usefixtures("stand_in", "products_by_warpgroups")]


@pytest.fixture
def products_by_warpgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    slices_through_maps(monkeypatch)


def compiled() -> Any:
    return runtime.compile(two_products(), device.gpu(0))


def counted() -> dict[str, int]:
    return {n: getattr(STATE, n) for n in ("graphs", "replays", "sets", "maps")}


def test_graphs_take_maps_of_arrays_that_lie_elsewhere() -> None:
    """Launches one by one, then a graph; where an array is the same, so is its map."""
    run, before = compiled(), counted()
    kept = [[fake_cupy.CUPY.array(a) for a in factors(seed)] for seed in range(3)]
    for turn in range(9):
        x, w = kept[turn % 3]
        np.testing.assert_array_equal(run([x, w])[0].get(), product_of(*factors(turn % 3)))
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
        given = factors(5)
        np.testing.assert_array_equal(run([fake_cupy.CUPY.array(a) for a in given])[0].get(), product_of(*given))
        assert "hy_copy_box" not in run.report.source.partition("__global__")[2]
        assert "not as slices through tensor maps: the GPU's driver has no cuTensorMapEncodeTiled" in str(run.report)
    finally:
        native.library.cache_clear()


def test_without_a_c_compiler_launches_give_pointers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: None)
    assert "without a C compiler" in native.no_maps()
    assert "hy_cp_async_arrive" in compiled().report.source.partition("__global__")[2]
