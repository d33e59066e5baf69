"""What three ranks do with Horovod's names; ``test_horovod_names.py`` runs it."""
from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np

import hybrid as mx
from hybrid import autograd, distributed as hvd, gluon, nd
from hybrid.collective import CollectiveMismatch


def refused(call: Callable[[], Any], told: str, kind: type[Exception] = mx.MXNetError) -> None:
    try:
        call()
    except kind as err:
        assert told in str(err), err
    else:
        raise AssertionError(f"no error with {told!r}")


def reductions(r: int) -> None:
    for dtype in ("float32", "float64", "int32", "int8", "float16"):
        x = nd.array([r + 1, 3 - r, 2], dtype=dtype)
        for op, want in ((hvd.Sum, [6, 6, 6]), (hvd.Average, [2, 2, 2]), (hvd.Min, [1, 1, 2]), (hvd.Max, [3, 3, 2]),
                         (hvd.Product, [6, 6, 8])):
            found = hvd.allreduce(x, op=op)
            assert found.dtype == x.dtype and found.asnumpy().tolist() == want, (dtype, op, found)
    assert hvd.allreduce(nd.array([-r, r], dtype="int32")).asnumpy().tolist() == [-1, 1]
    assert hvd.allreduce(nd.array([-5, 7], dtype="int64"), op=hvd.Sum,
                         postscale_factor=0.5).asnumpy().tolist() == [-7, 10]
    large = nd.full((1_500_000,), r)
    assert (hvd.allreduce(large, op=hvd.Max).asnumpy() == 2).all() and (large.asnumpy() == r).all()
    low, high = hvd.grouped_allreduce([nd.array([r]), nd.array([r + 1.0])], op=hvd.Product)
    assert (low.asscalar(), high.asscalar()) == (0, 6)
    nan = hvd.allreduce(nd.array([np.nan if r == 1 else 1.0]), op=hvd.Min)
    assert np.isnan(nan.asscalar())
    refused(lambda: hvd.allreduce(nd.ones(2), op=hvd.Adasum), "got hvd.Adasum")
    refused(lambda: hvd.allreduce(nd.ones(2), op="sum"), "op is one of hvd.Average, hvd.Sum")
    refused(lambda: hvd.allreduce(nd.ones(2), average=True, op=hvd.Sum), "not both", ValueError)
    refused(lambda: hvd.allreduce(nd.ones(2), op=hvd.Min if r else hvd.Max), "max of 1 arrays", CollectiveMismatch)


def rows(r: int) -> None:
    x = nd.arange(8).reshape((4, 2)) * (r + 1)
    want = (np.arange(8).reshape(4, 2) * 6)[[slice(0, 2), slice(2, 3), slice(3, 4)][r]]
    assert np.array_equal(hvd.reducescatter(x, op=hvd.Sum).asnumpy(), want)
    assert np.array_equal(hvd.grouped_reducescatter([x, x])[1].asnumpy(), want / 3)
    assert hvd.reducescatter(nd.ones(2)).shape == ((1,), (1,), (0,))[r]
    refused(lambda: hvd.reducescatter(x, op=hvd.Min), "op is one of hvd.Average, hvd.Sum; got hvd.Min")
    refused(lambda: hvd.reducescatter(nd.array(1.0)), "got a scalar", ValueError)
    found, lengths = hvd.alltoall(nd.arange(3) + 10 * r, splits=[0, 1, 2])
    assert found.asnumpy().tolist() == [[], [0, 10, 20], [1, 2, 11, 12, 21, 22]][r]
    assert lengths.asnumpy().tolist() == [r] * 3 and lengths.dtype == np.int32
    refused(lambda: hvd.alltoall(nd.arange(3), splits=[1.0, 1.0, 1.0]), "integers, got float64")
    refused(lambda: hvd.alltoall(nd.arange(4)), "4 rows cannot be split")
    pair = hvd.grouped_allgather([nd.array([r]), nd.full((1, 2), r)])
    assert pair[0].asnumpy().tolist() == [0, 1, 2] and pair[1].shape == (3, 2)


def sets(r: int) -> None:
    ends, middle = hvd.ProcessSet([2, 0]), hvd.add_process_set([1])
    refused(lambda: hvd.allreduce(nd.ones(1), process_set=ends), "is not in use")
    assert ends.size() is ends.rank() is ends.included() is None
    assert hvd.add_process_set(ends) is ends and ends.ranks == [0, 2] and ends.process_set_id != middle.process_set_id
    assert (ends.size(), ends.rank(), ends.included()) == (2, {0: 0, 2: 1}.get(r), r != 1)
    refused(lambda: hvd.add_process_set([0, 2]), "already", ValueError)
    refused(lambda: hvd.add_process_set([0, 1, 2]), "already: global_process_set")
    refused(lambda: hvd.add_process_set([1, 3]), "among 0 … 2")
    if r == 1:
        refused(lambda: hvd.allreduce(nd.ones(1), process_set=ends), "rank 1 is not in ProcessSet")
        assert hvd.allreduce(nd.array([5.0]), process_set=middle).asscalar() == 5
    else:
        assert hvd.allreduce(nd.array([r]), process_set=ends).asscalar() == 1
        assert hvd.allgather(nd.array([r]), process_set=ends).asnumpy().tolist() == [0, 2]
        assert hvd.broadcast(nd.array([r]), 2, process_set=ends).asscalar() == 2
        assert hvd.broadcast_object(r, 2, process_set=ends) == 2
        assert hvd.reducescatter(nd.ones(2), op=hvd.Sum, process_set=ends).asnumpy().tolist() == [2]
        refused(lambda: hvd.broadcast(nd.ones(1), 1, process_set=ends), "must be one of [0, 2]")
        refused(lambda: hvd.allreduce(nd.ones(1 + r), process_set=ends), "rank 2: allreduce", CollectiveMismatch)
    trained(r, ends)
    assert hvd.remove_process_set(ends) and not hvd.remove_process_set(ends)
    assert not hvd.remove_process_set(hvd.global_process_set)
    again = hvd.add_process_set([0, 2])
    assert again.process_set_id is not None and ends.process_set_id is None
    hvd.shutdown()
    assert again.process_set_id is None
    other = hvd.ProcessSet([0, 1])
    hvd.init(process_sets=[other])
    assert other.included() == (r < 2)


def trained(r: int, ends: hvd.ProcessSet) -> None:
    """Ranks of the set train together, the other one by itself."""
    w, found = nd.zeros((1,)), []
    opt = hvd.DistributedOptimizer(mx.optimizer.create("sgd", learning_rate=1.0), process_set=ends)
    mx.optimizer.get_updater(opt)(0, nd.array([r + 1.0]), w)
    for hybridized in (False, True):
        net = gluon.nn.Dense(1, use_bias=False, in_units=1, weight_initializer="zeros")
        net.initialize()
        trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, process_set=ends)
        if hybridized:
            net.hybridize()
        for _ in range(4):
            with autograd.record():
                loss = net(nd.array([[r + 1.0]])).sum()
            loss.backward()
            trainer.step(1)
        found.append(net.weight.data().asscalar())
    assert [w.asscalar(), *found] == [-2, -8, -8], found


def some() -> None:
    """A job of the first two ranks alone."""
    from mpi4py import MPI  # noqa: PLC0415
    if MPI.COMM_WORLD.Get_rank() < 2:
        hvd.init(comm=[0, 1])
        assert hvd.size() == 2 and hvd.allreduce(nd.array([hvd.rank()]), op=hvd.Sum).asscalar() == 1


def main() -> None:
    if sys.argv[1] == "some":
        return some()
    hvd.init()
    {"reductions": reductions, "rows": rows, "sets": sets}[sys.argv[1]](hvd.rank())
    assert hvd.is_homogeneous()


if __name__ == "__main__":
    main()
