"""Functions that layers of the library call are found also where ``gc.freeze`` keeps them from Python's collector."""
import gc

import pytest

from hybrid import gluon, nd
from hybrid.jit.reads import Reader

X = nd.ones((1,))


@pytest.fixture(autouse=True)
def frozen():
    yield
    gc.unfreeze()


def _numbers():
    """What a network gives before and after a variable changes that a function of a layer reads."""
    factor = 2.0

    def scaled(x):
        return x * factor

    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.HybridLambda(lambda F, x: scaled(x)))
    net.hybridize()
    gc.freeze()
    found = [net(X).asscalar()]
    factor = 7.0
    return [*found, net(X).asscalar()]


def test_functions_of_layers_are_found(recwarn):
    assert _numbers() == [2, 7] and not recwarn


def test_where_functions_are_not_found_code_runs_as_plain_python(monkeypatch):
    monkeypatch.setattr(Reader, "blocks", lambda self: [])
    with pytest.warns(UserWarning, match=r"watched after gc\.freeze\(\): such calls run as plain"):
        assert _numbers() == [2, 7]
