"""The scope of a GPU: the device before is current again, and the first error is raised, whatever else fails."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hybrid import gpu
from hybrid.base.errors import DeviceError, OutOfMemoryError as NoMemory
from hybrid.base.gpu_scope import OnGpu
from hybrid.runtime.cuda import driver_api
from hybrid.runtime.cuda.native import failure


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


class CUDADriverError(RuntimeError):
    """As CuPy's."""


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


class Fake:
    """What the scope takes of CuPy. fails: the calls that raise."""

    def __init__(self, *fails: str):
        self.current, self.fails = 0, fails
        self.cuda = SimpleNamespace(Device=self.device, runtime=SimpleNamespace(
            getDevice=lambda: self.current, memGetInfo=lambda: self.done("memGetInfo", (1 << 20, 1 << 30))))

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_bytes=lambda: self.done("free_bytes", 0))

    def done(self, name: str, value: Any) -> Any:
        if name in self.fails:
            raise CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
        return value

    def device(self, number: int) -> Any:
        def leave(*_: Any) -> None:
            self.current = 0
            self.done("leave", None)
        return SimpleNamespace(__enter__=lambda: setattr(self, "current", number), __exit__=leave)


def _raised(cupy: Any, err: BaseException) -> BaseException:
    with pytest.raises(BaseException) as found, OnGpu(cupy, gpu(1)):
        assert cupy.current == 1
        raise err
    assert cupy.current == 0
    return found.value


@pytest.mark.parametrize("err", [
    OutOfMemoryError("Out of memory allocating 5 bytes."), CUDARuntimeError("cudaErrorMemoryAllocation: out of memory"),
    CUDADriverError("CUDA_ERROR_OUT_OF_MEMORY: out of memory")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("fails", [(), ("memGetInfo",), ("free_bytes",), ("leave",), ("memGetInfo", "leave")], ids=str)
def test_too_little_memory(err: Exception, fails: tuple[str, ...]) -> None:
    found = _raised(Fake(*fails), err)
    assert isinstance(found, NoMemory) and found.__cause__ is err
    text = str(found)
    assert "gpu(1) is out of memory: " in text and "gpu(1).empty_cache()" in text and str(err).rstrip(".") in text
    assert ("1.0 MB of 1.0 GB are free" in text) == (not {"memGetInfo", "free_bytes"} & set(fails))


@pytest.mark.parametrize("fails", [(), ("memGetInfo", "leave")], ids=str)
def test_other_errors(fails: tuple[str, ...]) -> None:
    found = _raised(Fake(*fails), CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access"))
    assert isinstance(found, DeviceError) and not isinstance(found, NoMemory) and "HYBRID_CUDA_SYNC" in str(found)
    own = KeyError("of the user's code")
    assert _raised(Fake(*fails), own) is own


def test_a_device_that_cannot_be_left_is_told_where_nothing_else_failed() -> None:
    with pytest.raises(CUDARuntimeError), OnGpu(Fake("leave"), gpu(1)):  # type: ignore[arg-type]
        pass


def test_too_little_memory_for_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_api, "error_name", {2: "CUDA_ERROR_OUT_OF_MEMORY"}.__getitem__)
    assert isinstance(failure("CUDA_ERROR_OUT_OF_MEMORY", "k0", True), NoMemory)
    with pytest.raises(NoMemory, match="loading: CUDA_ERROR_OUT_OF_MEMORY"):
        driver_api.check(2, "loading")
    assert not isinstance(failure("CUDA_ERROR_ILLEGAL_ADDRESS", "k0", True), NoMemory)
