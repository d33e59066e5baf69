"""States of float16 weights with sparse storage, saved by versions that kept no float32 copy of these weights."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import nd, optimizer
from hybrid.base.errors import HybridError
from hybrid.optimizer.step import flat

# without those of other tests, and private ones, which other modules register when they are imported
NAMES = sorted(name for name, kind in optimizer.Optimizer.opt_registry.items()
               if kind.__module__.startswith("hybrid.") and not name.startswith("_"))
WEIGHT = np.random.default_rng(0).standard_normal((4, 2)).astype("float16")


def _updater(name: str) -> Any:
    return optimizer.get_updater(optimizer.create(name, multi_precision=True, rescale_grad=0.5))


def _trained(updater: Any, weight: Any, steps: range) -> np.ndarray:
    for k in steps:
        grad = nd.sparse.row_sparse_array((np.full((2, 2), k + 1, "float16"), [k % 2, 3]), shape=(4, 2),
                                          dtype="float16")
        updater(0, grad, weight)
    return weight.asnumpy()  # type: ignore[no-any-return]


def _halves(state: Any) -> Any:
    if isinstance(state, (tuple, list)):
        return type(state)(map(_halves, state))
    return None if state is None else state.astype("float16")


def _structure(state: Any) -> Any:
    """Shapes and dtypes of a state's arrays, in tuples as these are."""
    if isinstance(state, (tuple, list)):
        return tuple(map(_structure, state))
    return None if state is None else (state.shape, np.dtype(state.dtype).name)


@pytest.mark.parametrize("name", NAMES)
def test_they_get_a_copy_and_training_goes_on(name: str) -> None:
    weight = nd.array(WEIGHT, dtype="float16").tostype("row_sparse")
    updater = _updater(name)
    _trained(updater, weight, range(3))
    old = _updater(name)
    old.states = {0: _halves(updater.optimizer.parted_state(updater.states[0])[0])}
    again = _updater(name)
    again.set_states(old.get_states())
    again.optimizer._index_update_count = again.optimizer._all_index_update_counts[0] = {0: 3}
    inner, copy = again.optimizer.parted_state(again.state(0, weight))
    np.testing.assert_array_equal(copy.asnumpy(), weight.asnumpy().astype("float32"))
    for x, y in zip(flat(inner), flat(old.states[0]), strict=True):
        assert x.dtype == copy.dtype == np.float32
        np.testing.assert_array_equal(x.asnumpy(), y.asnumpy().astype("float32"))
    assert np.isfinite(_trained(again, weight, range(3, 6))).all()
    assert _structure(again.states[0]) == _structure(updater.states[0])
    np.testing.assert_array_equal(again.optimizer.parted_state(again.states[0])[1].asnumpy().astype("float16"),
                                  weight.asnumpy())


def test_states_of_other_shapes_are_refused_as_before() -> None:
    old, again = _updater("sgd"), _updater("sgd")
    old.states = {0: nd.zeros((3, 2), dtype="float16")}
    again.set_states(old.get_states())
    with pytest.raises(HybridError, match="a pair with a float32 copy"):
        _trained(again, nd.array(WEIGHT, dtype="float16").tostype("row_sparse"), range(1))
