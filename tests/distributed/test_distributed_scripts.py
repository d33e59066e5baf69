"""Programs for several processes as people wrote them for MXNet and for Horovod, unchanged under ``python -m
hybrid.as_mxnet``: by mpirun, and by the command line of MXNet's launcher. They learn digits in files of MNIST's format.
"""
from __future__ import annotations

import gzip
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from hybrid import launch

from .test_distributed import needs_mpi, run
from ..paths import ROOT

pytestmark = needs_mpi
DIGITS = ROOT / "examples" / "data" / "digits.npz"

GLUON = '''
import argparse, random
import mxnet as mx
from mxnet import autograd, gluon, kv, nd
from mxnet.gluon import nn

parser = argparse.ArgumentParser()
parser.add_argument("--kv-store", default="dist_sync")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=4)
args = parser.parse_args()
store = kv.create(args.kv_store)


class SplitSampler(gluon.data.sampler.Sampler):
    def __init__(self, length, num_parts=1, part_index=0):
        self.part_len = length // num_parts
        self.start = self.part_len * part_index
        self.end = self.start + self.part_len

    def __iter__(self):
        indices = list(range(self.start, self.end))
        random.shuffle(indices)
        return iter(indices)

    def __len__(self):
        return self.part_len


def transform(data, label):
    return nd.transpose(data.astype("float32"), (2, 0, 1)) / 255, label.astype("float32")


train = gluon.data.vision.MNIST("data", train=True).transform(transform)
test = gluon.data.vision.MNIST("data", train=False).transform(transform)
batches = gluon.data.DataLoader(train, args.batch_size, last_batch="discard",
                                sampler=SplitSampler(len(train), store.num_workers, store.rank))
ctx = [mx.cpu()]
net = nn.HybridSequential()
with net.name_scope():
    net.add(nn.Conv2D(channels=8, kernel_size=5, activation="relu"), nn.MaxPool2D(pool_size=2, strides=2), nn.Flatten(),
            nn.Dense(32, activation="relu"), nn.Dense(10))
net.collect_params().initialize(mx.init.Xavier(magnitude=2.24), ctx=ctx)
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.005}, kvstore=store)
loss = gluon.loss.SoftmaxCrossEntropyLoss()
for epoch in range(args.epochs):
    metric = mx.metric.Accuracy()
    for data, label in batches:
        shares = gluon.utils.split_and_load(data, ctx), gluon.utils.split_and_load(label, ctx)
        with autograd.record():
            outputs = [net(x) for x in shares[0]]
            losses = [loss(z, y) for z, y in zip(outputs, shares[1])]
        for l in losses:
            l.backward()
        trainer.step(args.batch_size * store.num_workers)
        metric.update(shares[1], outputs)
    print("rank %d of %d: epoch %d: train %s=%f" % (store.rank, store.num_workers, epoch, *metric.get()))
metric = mx.metric.Accuracy()
for data, label in gluon.data.DataLoader(test, 100):
    metric.update([label], [net(data)])
print("rank %d of %d: accuracy=%f" % (store.rank, store.num_workers, metric.get()[1]))
'''

MODULE = '''
import argparse, gzip, logging, struct
import mxnet as mx
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--kv-store", default="dist_sync")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--num-epochs", type=int, default=5)
args = parser.parse_args()
kv = mx.kvstore.create(args.kv_store)
logging.basicConfig(level=logging.DEBUG, format="%(asctime)-15s Node[" + str(kv.rank) + "] %(message)s")


def read_data(label, image):
    with gzip.open("data/" + label) as f:
        struct.unpack(">II", f.read(8))
        label = np.frombuffer(f.read(), dtype=np.int8)
    with gzip.open("data/" + image, "rb") as f:
        magic, num, rows, cols = struct.unpack(">IIII", f.read(16))
        image = np.frombuffer(f.read(), dtype=np.uint8).reshape(len(label), rows, cols)
    return label, image.reshape(image.shape[0], 1, 28, 28).astype(np.float32) / 255


label, image = read_data("train-labels-idx1-ubyte.gz", "train-images-idx3-ubyte.gz")
label, image = label[kv.rank::kv.num_workers], image[kv.rank::kv.num_workers]
train = mx.io.NDArrayIter(image, label, args.batch_size, shuffle=True)
val_label, val_image = read_data("t10k-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz")
val = mx.io.NDArrayIter(val_image, val_label, args.batch_size)
data = mx.sym.Flatten(mx.sym.Variable("data"))
fc1 = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=64, name="fc1"), act_type="relu", name="relu1")
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(fc1, num_hidden=10, name="fc2"), name="softmax")
model = mx.mod.Module(symbol=net, context=mx.cpu())
model.fit(train, eval_data=val, eval_metric=["accuracy"], kvstore=kv, optimizer="sgd",
          optimizer_params={"learning_rate": 0.1, "momentum": 0.9}, initializer=mx.init.Xavier(magnitude=2.0),
          num_epoch=args.num_epochs, batch_end_callback=[mx.callback.Speedometer(args.batch_size, 10)])
score = dict(model.score(val, "acc"))
print("rank %d of %d: accuracy=%f" % (kv.rank, kv.num_workers, score["accuracy"]))
'''

HOROVOD = '''
import argparse, logging, time
import horovod.mxnet as hvd
import mxnet as mx
from mxnet import autograd, gluon, nd

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--kv-store", default="unused")
args = parser.parse_args()
hvd.init()
logging.basicConfig(level=logging.INFO)


def iterator(name, shuffle, parts, part):
    return mx.io.MNISTIter(image="data/%s-images-idx3-ubyte" % name, label="data/%s-labels-idx1-ubyte" % name,
                           input_shape=(1, 28, 28), batch_size=args.batch_size, shuffle=shuffle, flat=False,
                           num_parts=parts, part_index=part)


train_data, val_data = iterator("train", True, hvd.size(), hvd.rank()), iterator("t10k", False, 1, 0)
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Conv2D(channels=8, kernel_size=5, activation="relu"), gluon.nn.MaxPool2D(pool_size=2, strides=2),
        gluon.nn.Flatten(), gluon.nn.Dense(32, activation="relu"), gluon.nn.Dense(10))
net.cast("float32")
net.hybridize()
context = mx.cpu(hvd.local_rank())
net.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2), ctx=context)
params = net.collect_params()
if params is not None:
    hvd.broadcast_parameters(params, root_rank=0)
opt = mx.optimizer.create("adam", learning_rate=0.005, rescale_grad=1.0 / args.batch_size)
compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
trainer = hvd.DistributedTrainer(params, opt, compression=compression, gradient_predivide_factor=2.0)
loss_fn, metric = gluon.loss.SoftmaxCrossEntropyLoss(), mx.metric.Accuracy()
for epoch in range(args.epochs):
    tic = time.time()
    train_data.reset()
    metric.reset()
    for nbatch, batch in enumerate(train_data, start=1):
        data, label = batch.data[0].as_in_context(context), batch.label[0].as_in_context(context)
        with autograd.record():
            output = net(data.astype("float32", copy=False))
            loss = loss_fn(output, label)
        loss.backward()
        trainer.step(1)
        metric.update([label], [output])
    if hvd.rank() == 0:
        logging.info("[Epoch %d] train: %s=%f, %.1f s", epoch, *metric.get(), time.time() - tic)
metric = mx.metric.Accuracy()
for batch in val_data:
    metric.update([batch.label[0].as_in_context(context)], [net(batch.data[0].as_in_context(context))])
print("rank %d of %d: accuracy=%f" % (hvd.rank(), hvd.size(), metric.get()[1]))
'''

HOROVOD_MODULE = '''
import argparse, logging
import horovod.mxnet as hvd
import mxnet as mx

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--kv-store", default="unused")
args = parser.parse_args()
hvd.init()


def iterator(name, parts, part):
    return mx.io.MNISTIter(image="data/%s-images-idx3-ubyte" % name, label="data/%s-labels-idx1-ubyte" % name,
                           batch_size=args.batch_size, shuffle=name == "train", flat=True, num_parts=parts,
                           part_index=part)


train, val = iterator("train", hvd.size(), hvd.rank()), iterator("t10k", 1, 0)
fc1 = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64)
fc2 = mx.sym.FullyConnected(mx.sym.Activation(fc1, act_type="relu"), num_hidden=10)
model = mx.mod.Module(symbol=mx.sym.SoftmaxOutput(fc2, name="softmax"), context=mx.cpu(hvd.local_rank()))
model.bind(data_shapes=train.provide_data, label_shapes=train.provide_label)
model.init_params(mx.init.Xavier(magnitude=2))
arg_params, aux_params = model.get_params()
if arg_params is not None:
    hvd.broadcast_parameters(arg_params, root_rank=0)
if aux_params is not None:
    hvd.broadcast_parameters(aux_params, root_rank=0)
model.set_params(arg_params=arg_params, aux_params=aux_params)
opt = mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9, rescale_grad=1.0 / args.batch_size)
opt = hvd.DistributedOptimizer(opt)
model.fit(train, kvstore=None, optimizer=opt, num_epoch=5, eval_metric="acc",
          batch_end_callback=mx.callback.Speedometer(args.batch_size, 10))
print("rank %d of %d: accuracy=%f" % (hvd.rank(), hvd.size(), model.score(val, "acc")[0][1]))
'''
PROGRAMS = {"gluon": GLUON, "module": MODULE, "horovod": HOROVOD, "horovod_module": HOROVOD_MODULE}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs, and the digits in the four files of MNIST below ``data``, gzipped and not."""
    found = tmp_path_factory.mktemp("mnist")
    (found / "data").mkdir()
    with np.load(DIGITS) as f:
        images, labels = (f["images"] * 15.9375).astype(np.uint8), f["labels"].astype(np.uint8)
    wide = np.pad(images.repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2)))
    for name, rows in (("train", slice(0, -360)), ("t10k", slice(-360, None))):
        for file, array in ((f"{name}-images-idx3-ubyte", wide[rows]), (f"{name}-labels-idx1-ubyte", labels[rows])):
            content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
            (found / "data" / file).write_bytes(content)
            (found / "data" / f"{file}.gz").write_bytes(gzip.compress(content))
    for name, text in PROGRAMS.items():                              # of one start: some others learn little
        (found / f"{name}_mnist.py").write_text(f"import mxnet as mx\nmx.random.seed(3)\n{text}")
    return found


def accuracies(starter: list[str], program: str, folder: Path, *arguments: str) -> list[float]:
    """What each rank says it reached, on digits that none has seen."""
    done = run(*starter, sys.executable, "-m", "hybrid.as_mxnet", f"{program}_mnist.py", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    # ranks print at the same time: two lines may be one
    found = dict(re.findall(r"rank (\d) of 2: accuracy=(\d\.\d{6})", done.stdout))
    assert sorted(found) == ["0", "1"], done.stdout
    return [float(found[rank]) for rank in ("0", "1")]


MPIRUN = [str(launch.mpirun()), "-n", "2"]
LAUNCHER = [sys.executable, "-m", "hybrid.launch", "-n", "2", "--launcher", "local"]


@pytest.mark.parametrize("starter", [MPIRUN, LAUNCHER], ids=["mpirun", "launcher"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run_unchanged(program: str, starter: list[str], folder: Path) -> None:
    """All ranks end with the same network, which knows digits of writers that it has not seen."""
    first, second = accuracies(starter, program, folder, "--kv-store", "dist_sync")
    assert first == second and first > 0.82


def test_a_horovod_program_sends_half_as_many_bytes(folder: Path) -> None:
    first, second = accuracies(MPIRUN, "horovod", folder, "--fp16-allreduce")
    assert first == second and first > 0.82
