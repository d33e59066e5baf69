"""What the ranks of test_distributed.py run: ``mpirun -n N python distributed_worker.py WHAT ARGUMENT``."""
from __future__ import annotations

import os
import sys
import time

import numpy as np

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid import distributed as hvd
from hybrid.base import system
from hybrid.contrib import amp
from hybrid.collective import CollectiveMismatch, sums
from hybrid.runtime import staged
from hybrid.runtime.observers import observe

BATCH = 8


def data(batches: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    return (rng.randn(batches, BATCH, 5).astype("float32"), rng.randn(batches, BATCH, 1).astype("float32"))


def network() -> gluon.nn.HybridSequential:
    """Other random values on every rank: rank 0's count."""
    mx.random.seed(7 + hvd.rank())
    np.random.seed(7 + hvd.rank())
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(7, activation="tanh", in_units=5), gluon.nn.Dense(1, in_units=7))
    net.initialize(mx.init.Xavier())
    return net


def values(net: gluon.Block) -> np.ndarray:
    return np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()])


def train(compiled: bool = False, horovod: bool = False, ctx: int = 1, compression: object = None,
          on_store: bool | None = None, shards: bool = False) -> np.ndarray:
    """Parameters after some steps on this rank's share of each batch."""
    net, loss_of = network(), gluon.loss.L2Loss()
    hvd.broadcast_parameters(net.collect_params())
    if horovod:
        trainer = hvd.DistributedTrainer(net.collect_params(), "adam", {"learning_rate": 0.05},
                                         compression or hvd.Compression.none, gradient_predivide_factor=2.0)
    else:
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05}, kvstore="dist_sync",
                                compression_params=compression, update_on_kvstore=on_store, shard_states=shards)
    share = BATCH // hvd.size()                              # of a batch of 8, three ranks take two each

    def step(x: nd.NDArray, y: nd.NDArray) -> nd.NDArray:
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(share if horovod else BATCH)
        return loss
    if compiled:
        step = mx.hybridize(step)
    rows = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
    for x, y in zip(*data()):
        step(nd.array(x[rows]), nd.array(y[rows]))
    held = hvd.allgather_object(sorted(trainer._updaters[0].states))
    if shards:
        assert sorted(sum(held, [])) == [0, 1, 2, 3] and all(held), held
    return values(net)


def joined(horovod: bool = False, looks: bool = False, scaled: bool = False,
           on_store: bool | None = None) -> np.ndarray:
    """Parameters and gradients after the ordinary loop of a hybridized net, whose rounds are one program with the sums
    in it. looks: some ranks look at their loss before the step, another one each time, and make it by itself."""
    net, loss_of, share = network(), gluon.loss.L2Loss(), BATCH // hvd.size()
    hvd.broadcast_parameters(net.collect_params())
    net.hybridize()
    if horovod:
        trainer = hvd.DistributedTrainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    else:
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02}, kvstore="dist_sync",
                                update_on_kvstore=on_store)
    if scaled:
        amp.init("float16", target_precision_ops=[])
        amp.init_trainer(trainer)
    rows, scales = slice(hvd.rank() * share, (hvd.rank() + 1) * share), []
    for i, (x, y) in enumerate(list(zip(*data())) * 4):
        huge = 1e36 if scaled and i % 10 == 7 and hvd.rank() == hvd.size() - 1 else 1
        with autograd.record():
            loss = loss_of(net(nd.array(x[rows])), nd.array(y[rows])) * huge
            if scaled:
                with amp.scale_loss(loss, trainer) as large:
                    large.backward()
        if not scaled:
            loss.backward()
        if looks and i % 3 == hvd.rank():
            loss.asnumpy()
        trainer.step(share if horovod else BATCH)
        scales.append(trainer._amp_loss_scaler.loss_scale if scaled else 1)
    amp.off()
    assert scales[0] == (4 * scales[-1] if scaled else 1), scales
    assert net._engine.rounds.joined >= 14, net._engine.rounds
    grads = [p.grad().asnumpy().ravel() for p in net.collect_params().values()]
    return np.concatenate([values(net), *(grads if horovod or on_store is False else ())])


def alike(x: np.ndarray) -> None:
    """All ranks have the same bits."""
    assert all(np.array_equal(x, other) for other in hvd.allgather_object(x)), "ranks differ"


def functions() -> None:
    """Each function of the interface, against what NumPy says."""
    r, n = hvd.rank(), hvd.size()
    x = nd.array([1.0, 2.0]) * (r + 1)
    total = np.array([1.0, 2.0], "float32") * (n * (n + 1) / 2)
    for dtype in ("float32", "float64", "float16"):
        got = hvd.allreduce(x.astype(dtype), average=False)
        assert got.dtype == np.dtype(dtype) and np.array_equal(got.asnumpy(), total.astype(dtype))
    assert np.allclose(hvd.allreduce(x).asnumpy(), total / n) and np.array_equal(x.asnumpy(), [r + 1, 2 * r + 2])
    large = nd.arange(2_000_000) % 7
    for y in (hvd.allreduce(large * (r + 1), average=False),
              hvd.grouped_allreduce([x, large * (r + 1)], average=False)[1]):
        assert np.array_equal(y.asnumpy(), large.asnumpy() * (n * (n + 1) / 2))
    same = large * (r + 1)
    twice = hvd.grouped_allreduce_([same, same], prescale_factor=2.0)[0]
    assert np.allclose(twice.asnumpy(), large.asnumpy() * (n + 1))
    a, b = hvd.grouped_allreduce([x, nd.ones((2, 3))], average=False)
    assert np.array_equal(a.asnumpy(), total) and (b.asnumpy() == n).all()
    assert hvd.allgather(nd.full((r + 1, 2), r)).asnumpy()[:, 0].tolist() == [k for k in range(n) for _ in range(k + 1)]
    assert hvd.broadcast(x, n - 1).asnumpy().tolist() == [n, 2 * n] and hvd.broadcast_object(r, 1) == 1
    assert hvd.alltoall(nd.arange(n) + 10 * r).asnumpy().tolist() == [10 * k + r for k in range(n)]
    store = mx.kv.create("dist_sync")
    assert (store.rank, store.num_workers, store.type) == (r, n, "dist_sync")
    out = nd.zeros((2,))
    store.init("w", nd.ones((2,)) * (r + 5))
    store.pull("w", out=out)
    assert out.asnumpy().tolist() == [5, 5]
    store.push("w", [x, x])
    store.pull("w", out=out)
    assert np.array_equal(out.asnumpy(), 2 * total)
    mx.kv.create("horovod").pushpull("v", x, out=out)
    assert np.array_equal(out.asnumpy(), total)
    rows = nd.sparse.row_sparse_array((np.ones((1, 2)), [r]), shape=(n + 1, 2))
    store.init("s", nd.zeros((n + 1, 2)).tostype("row_sparse"))
    store.push("s", rows)
    assert store._values["s"].asnumpy().tolist() == [[1, 1]] * n + [[0, 0]]
    shared = list(hvd.DistributedSampler(9))
    assert sorted(sum(hvd.allgather_object(shared), []))[:1] == [0] and len(shared) == -(-9 // n)
    assert len(set(sum(hvd.allgather_object(list(hvd.SplitSampler(10))), []))) == 10 // n * n


def counted() -> None:
    """Metrics of the ranks' shares are those of all examples, once their sums are added up."""
    rng = np.random.RandomState(5)
    labels, scores = rng.randint(0, 3, 60), rng.rand(60, 3).astype("float32")
    kinds = [mx.metric.Accuracy(), mx.metric.TopKAccuracy(2), mx.metric.CrossEntropy(), mx.metric.Loss(),
             mx.metric.CompositeEvalMetric(["acc", "ce"])]
    for metric in kinds:
        mine, whole = metric, mx.metric.create(metric.get_config())
        share = list(hvd.SplitSampler(60, hvd.size(), hvd.rank()))
        mine.update([nd.array(labels[share])], [nd.array(scores[share])])
        whole.update([nd.array(labels)], [nd.array(scores)])
        parts, wholes = getattr(mine, "metrics", [mine]), getattr(whole, "metrics", [whole])
        for part, want in zip(parts, wholes):
            both = hvd.allreduce(nd.array([part.sum_metric, part.num_inst], dtype="float64"), average=False).asnumpy()
            np.testing.assert_allclose(both[0] / both[1], want.get()[1], rtol=1e-6)


def mismatches() -> None:
    """Ranks that do different things learn what each does."""
    last = hvd.rank() == hvd.size() - 1
    net = gluon.nn.Dense(2, in_units=3 + last)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync")
    for call, told in ((lambda: hvd.allreduce(nd.ones((3 + last,))), "float32(4,)"),
                       (lambda: hvd.barrier() if last else hvd.allreduce(nd.ones((3,))), ": barrier"),
                       (trainer._begin, "number 1 is parameter dense0_weight: float32(2, 3)")):
        try:
            call()
        except CollectiveMismatch as err:
            assert told in str(err), err
        else:
            raise AssertionError(f"no error with {told}")


def normalised(dtype: str = "float32", rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """SyncBatchNorm on shares is BatchNorm on the whole batch: results, gradients, running statistics."""
    rng = np.random.RandomState(3)
    whole, cot = rng.randn(BATCH, 3, 2).astype(dtype) * 3 + 5, rng.randn(BATCH, 3, 2).astype(dtype)
    share = slice(hvd.rank() * BATCH // hvd.size(), (hvd.rank() + 1) * BATCH // hvd.size())
    found = []
    for layer, rows, call in ((gluon.nn.BatchNorm(in_channels=3), slice(None), False),
                              (gluon.nn.SyncBatchNorm(in_channels=3), share, False),
                              (gluon.nn.SyncBatchNorm(in_channels=3), share, True)):
        layer.initialize()
        layer.cast(dtype)
        if call:
            layer.hybridize()
        x = nd.array(whole[rows], dtype=dtype)
        x.attach_grad()
        for _ in range(2):                               # the second time after an update
            with autograd.record():
                out = layer(x)
            out.backward(nd.array(cot[rows], dtype=dtype))
            layer.gamma.data()[:] = layer.gamma.data() * 1.5
        gamma = hvd.allreduce(layer.gamma.grad(), average=False).asnumpy() / (hvd.size() if rows == slice(None) else 1)
        found.append((out.asnumpy(), x.grad.asnumpy(), gamma, layer.running_mean.data().asnumpy(),
                      layer.running_var.data().asnumpy()))
    for got in found[1:]:
        for i, (a, b) in enumerate(zip(found[0], got)):
            np.testing.assert_allclose(a[share] if i < 2 else a, b, rtol=rtol, atol=atol)


def many_normalised() -> np.ndarray:
    """A convolutional network with SyncBatchNorm (BatchNorm in one process) after twelve steps in float64."""
    net, layer = gluon.nn.HybridSequential(), gluon.nn.SyncBatchNorm if hvd.size() > 1 else gluon.nn.BatchNorm
    net.add(gluon.nn.Conv2D(4, 3), layer(), gluon.nn.Conv2D(6, 3), layer(), gluon.nn.Dense(1))
    mx.random.seed(5)
    net.initialize(mx.init.Xavier())
    net.cast("float64")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9}, kvstore="dist_sync")
    for batch in np.random.RandomState(0).randn(12, BATCH, 2, 7, 7)[:, hvd.rank()::hvd.size()]:
        with autograd.record():
            loss = nd.square(nd.tanh(net(nd.array(batch, dtype="float64"))) - 0.1)
        loss.backward()
        trainer.step(BATCH)
    return values(net)


def overlapped() -> None:
    """In a compiled step the sum of a bucket begins as soon as its gradients are there: what later buckets need is
    computed after that, and the sums are waited for when all is done."""
    want, events = train(compiled=True), []
    begin, finish, within = sums.Buckets.begin, sums.Buckets.finish, []

    def noted(program, exe, raw, call):
        if isinstance(exe, staged.StagedProgram):
            within.append(exe)
        elif within:
            events.append(("computed", [n.shape for n in program.order() if n.prim == "dot"]))
        found = call(exe)
        within[:] = [x for x in within if x is not exe]
        return found
    observe(noted)
    sums.Buckets.begin = lambda self, number, *rest: (events.append(("begun", number)), begin(self, number, *rest))[1]
    sums.Buckets.finish = lambda self: (events.append(("finished", 0)), finish(self))[1]
    sums.BUCKET_BYTES = 64                               # a bucket for each weight, with the bias before it
    os.environ["HYBRID_OVERLAP"] = "1"
    try:
        got = train(compiled=True)
    finally:
        observe(noted, False)
        sums.Buckets.begin, sums.Buckets.finish = begin, finish
        sums.BUCKET_BYTES = 4 << 20
        del os.environ["HYBRID_OVERLAP"]
    assert np.allclose(got, want, rtol=1e-6, atol=1e-6), abs(got - want).max()
    step = events[:len(events) // len(data()[0])]
    assert events == step * len(data()[0]), events
    kinds = [(kind, what) if kind == "begun" else (kind,) for kind, what in step]
    assert kinds == [("computed",), ("begun", 0), ("computed",), ("begun", 1), ("computed",), ("begun", 2),
                     ("finished",), ("computed",)], step
    first, second = step[0][1], step[2][1]               # the first layer's weight gradient is not computed before
    assert sorted((5, 7)) not in map(sorted, first) and sorted((5, 7)) in map(sorted, second), step


def joined_and_overlapped() -> None:
    """Rounds of the ordinary loop whose program is cut at each bucket."""
    want = joined()
    sums.BUCKET_BYTES, os.environ["HYBRID_OVERLAP"] = 64, "1"
    try:
        got = joined(looks=True)
    finally:
        sums.BUCKET_BYTES = 4 << 20
        del os.environ["HYBRID_OVERLAP"]
    assert np.allclose(got, want, rtol=1e-6, atol=1e-6), abs(got - want).max()


def module() -> np.ndarray:
    """Parameters of a Module that was fitted on this rank's share of each batch."""
    mx.random.seed(1 + hvd.rank())
    label = mx.sym.Variable("lin_label")
    out = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1), label, name="lin")
    x, y = data()
    share = BATCH // hvd.size()
    rows = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
    batches = mx.io.NDArrayIter(x[:, rows].reshape(-1, 5), y[:, rows].reshape(-1, 1), share, label_name="lin_label")
    found = mx.mod.Module(out, label_names=["lin_label"])
    start = {"fullyconnected0_weight": nd.full((1, 5), 0.1 * (hvd.rank() + 1)),
             "fullyconnected0_bias": nd.zeros((1,))}
    found.fit(batches, num_epoch=2, kvstore="dist_sync", optimizer_params={"learning_rate": 0.1}, eval_metric="mse",
              arg_params=dict(zip(sorted(found._param_names, reverse=True), start.values())))
    return np.concatenate([v.asnumpy().ravel() for _, v in sorted(found.get_params()[0].items())])


def checkpoint(path: str, shards: bool = False) -> np.ndarray:
    """Goes on from a checkpoint where there is one, and writes one."""
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "adam", kvstore="dist_sync", shard_states=shards)
    share, x, y = BATCH // hvd.size(), *data()
    first = 0
    if os.path.exists(path):
        first = hvd.load_checkpoint(path, net, trainer)["next"]
    rows = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
    for i in range(first, first + 2):
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(nd.array(x[i, rows])), nd.array(y[i, rows]))
        loss.backward()
        trainer.step(BATCH)
    hvd.barrier()
    hvd.save_checkpoint(path, net, trainer, {"next": first + 2})
    return values(net)


def fault(what: str) -> None:
    """Something that goes wrong on rank 1."""
    last = hvd.rank() == 1
    hvd.allreduce(nd.ones((3,)))
    if what == "raise" and last:
        raise ValueError("a fault of rank 1")
    if what == "exit" and last:
        sys.exit(0)
    if what in ("kill", "compiler") and last:
        os.kill(os.getpid(), 9)
    if what == "children" and last:                      # its programs, and processes of its, live on
        sleep = os.posix_spawn("/bin/sleep", ["sleep", "45"], dict(os.environ))
        if not os.fork():
            time.sleep(45)
            os._exit(0)
        os.kill(sleep, 0)
        os.kill(os.getpid(), 9)
    if what == "late":
        os.environ["HYBRID_COLLECTIVE_TIMEOUT"] = "2"
        time.sleep(60 if last else 0)
    hvd.allreduce(nd.ones((3,)))


def until_killed(path: str) -> None:
    """Trains and writes checkpoints until somebody kills a rank; the ranks' process ids are in a file."""
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "adam", kvstore="dist_sync")
    first = hvd.load_checkpoint(path + ".ckpt", net, trainer)["next"] if os.path.exists(path + ".ckpt") else 0
    net.hybridize(first % 2 == 1)                        # then most of its rounds are one program
    everybody = hvd.allgather_object(os.getpid())
    if hvd.rank() == 0:
        with open(path + ".part", "w") as f:
            f.write(" ".join(map(str, everybody)))
        os.replace(path + ".part", path + ".pids")
    x, y = data()
    for i in range(first, first + 100000):
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(nd.array(x[i % 5])), nd.array(y[i % 5]))
        loss.backward()
        trainer.step(BATCH * hvd.size())
        hvd.save_checkpoint(path + ".ckpt", net, trainer, {"next": i + 1})


def main(what: str, argument: str) -> None:
    if argument == "compiler":                           # one that runs before the rank joins the job, and lives on
        system.start(["/bin/sleep", "45"], 2, os.open(os.devnull, os.O_WRONLY), dict(os.environ), True)
    hvd.init()
    if what == "fault":
        fault(argument)
        return
    if what == "functions":
        functions()
        counted()
        mismatches()
        hvd.init(deterministic=True)
        functions()
        normalised()
        normalised("float64", 1e-12, 1e-12)
        overlapped()
        joined_and_overlapped()
        first, second = train(), train()
        assert np.array_equal(first, second)
        alike(first)
        return
    if what == "kills":
        return until_killed(argument)
    if what in ("checkpoint", "sharded"):
        found = {"values": checkpoint(argument + ".ckpt", what == "sharded")}
    else:
        found = {"eager": train(), "compiled": train(compiled=True), "horovod": train(horovod=True),
                 "reduce": train(on_store=False), "module": module(), "half": train(compression={"type": "fp16"}),
                 "joined": joined(), "joined horovod": joined(horovod=True), "joined on ranks": joined(on_store=False),
                 "joined where not looked at": joined(looks=True), "joined scaled": joined(scaled=True),
                 "bfloat16": train(compression="bf16"), "normalised": many_normalised(),
                 "horovod half": train(horovod=True, compression=hvd.Compression.fp16),
                 **({"sharded": train(shards=True), "sharded compiled": train(compiled=True, shards=True),
                     "sharded reduce": train(shards=True, on_store=False)} if hvd.size() < 4 else {})}
    for x in found.values():
        alike(x)
    if hvd.rank() == 0:
        np.savez(argument, **found)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
