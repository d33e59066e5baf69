"""Which module of this library stands for each of MXNet's.

Where several stand on the right, the first is the module, and names it lacks are looked up in the others. What is in no
row is not there, and its import says so.
"""
from __future__ import annotations

_SAME = """
autograd base callback executor gluon gluon.contrib gluon.contrib.cnn gluon.contrib.data gluon.contrib.estimator
gluon.contrib.nn gluon.contrib.rnn gluon.data gluon.data.dataloader gluon.data.dataset gluon.data.sampler
gluon.data.vision gluon.data.vision.datasets gluon.data.vision.transforms gluon.loss gluon.model_zoo
gluon.model_zoo.model_store gluon.model_zoo.vision gluon.nn gluon.nn.activations gluon.nn.basic_layers
gluon.nn.conv_layers gluon.rnn gluon.rnn.rnn_cell gluon.rnn.rnn_layer gluon.trainer gluon.utils image io initializer
lr_scheduler metric model module monitor ndarray numpy numpy.linalg numpy.random numpy_extension operator optimizer
profiler random recordio registry symbol test_utils util engine contrib contrib.amp contrib.amp.lists
contrib.amp.loss_scaler contrib.io contrib.text contrib.onnx contrib.quantization contrib.svrg_optimization
contrib.svrg_optimization.svrg_module contrib.svrg_optimization.svrg_optimizer kvstore onnx rnn rnn.io gluon.probability
attribute log libinfo
""".split()

_OTHER = {
    "context": "hybrid.device", "device": "hybrid.device", "name": "hybrid.names", "init": "hybrid.initializer",
    "nd": "hybrid.ndarray",
    "sym": "hybrid.symbol", "np_symbol": "hybrid.symbol.np", "np": "hybrid.numpy", "npx": "hybrid.numpy_extension",
    "rnd": "hybrid.random", "mod": "hybrid.module",
    "viz": "hybrid.viz", "visualization": "hybrid.viz", "mon": "hybrid.monitor", "kv": "hybrid.kvstore",
    "error": "hybrid.errors hybrid.base",
    "gluon.metric": "hybrid.metric", "rnn.rnn": "hybrid.rnn.checkpoint", "rnn.rnn_cell": "hybrid.rnn",
    "attribute": "hybrid.names", "runtime": "hybrid.features", "optimizer.optimizer": "hybrid.optimizer",
    "optimizer.contrib": "hybrid.optimizer.contrib",
    "gluon.block": "hybrid.gluon.block hybrid.gluon.hybrid_block hybrid.gluon.symbol_block hybrid.gluon.naming "
                   "hybrid.gluon",
    "gluon.parameter": "hybrid.gluon.parameter hybrid.gluon.one_parameter hybrid.gluon", "dlpack": "hybrid.ndarray",
    "gluon.data._internal": "hybrid.gluon.data", "gluon.contrib.data.sampler": "hybrid.gluon.data.sampler",
    "gluon.contrib.data.text": "hybrid.contrib.text.wiki",
    "gluon.contrib.nn.basic_layers": "hybrid.gluon.contrib.nn",
    "image.image": "hybrid.image", "image.detection": "hybrid.image", "io.io": "hybrid.io", "io.utils": "hybrid.io",
    "model_zoo": "hybrid.gluon.model_zoo", "module.module": "hybrid.module", "module.base_module": "hybrid.module",
    "module.bucketing_module": "hybrid.module", "module.python_module": "hybrid.module",
    "module.sequential_module": "hybrid.module",
    "numpy.multiarray": "hybrid.numpy", "numpy.fallback_linalg": "hybrid.numpy.linalg",
    "numpy._op": "hybrid.numpy.operators", "numpy_extension._op": "hybrid.numpy.operators",
    "numpy_op_signature": "hybrid.numpy.operators", "_numpy_op_doc": "hybrid.numpy.operators",
    "numpy_dispatch_protocol": "hybrid.numpy.dispatch",
    "numpy_extension.utils": "hybrid.numpy_extension", "ndarray.utils": "hybrid.ndarray", "nd.utils": "hybrid.ndarray",
    "numpy_extension.random": "hybrid.numpy_extension.random", "numpy_extension.image": "hybrid.numpy_extension.image",
    "gluon.contrib.rnn.rnn_cell": "hybrid.gluon.contrib.rnn",
    "gluon.contrib.rnn.conv_rnn_cell": "hybrid.gluon.contrib.conv_rnn hybrid.gluon.contrib.rnn",
    "gluon.contrib.cnn.conv_layers": "hybrid.gluon.contrib.cnn",
    "gluon.contrib.estimator.estimator": "hybrid.gluon.contrib.estimator.estimator",
    "gluon.contrib.estimator.event_handler": "hybrid.gluon.contrib.estimator.event_handler",
    "gluon.contrib.estimator.batch_processor": "hybrid.gluon.contrib.estimator.batch_processor",
    "contrib.text.vocab": "hybrid.contrib.text.vocab",
    "contrib.text.embedding": "hybrid.contrib.text.embedding",
    "contrib.text.utils": "hybrid.contrib.text.utils", "kvstore.kvstore": "hybrid.kvstore",
    "kvstore.base": "hybrid.kvstore", "img": "hybrid.image",
    "contrib.ndarray": "hybrid.ndarray.contrib", "contrib.nd": "hybrid.ndarray.contrib",
    "contrib.symbol": "hybrid.symbol.contrib",
    "onnx.mx2onnx": "hybrid.onnx", "contrib.onnx.mx2onnx": "hybrid.contrib.onnx.library",
    "contrib.onnx.mx2onnx.export_model": "hybrid.contrib.onnx.export",
    # modules of their functions' names
    "contrib.onnx.onnx2mx": "hybrid.contrib.onnx.library",
    "contrib.onnx.onnx2mx.import_model": "hybrid.contrib.onnx.importer",
    "contrib.onnx.onnx2mx.import_to_gluon": "hybrid.contrib.onnx.importer",
    "contrib.sym": "hybrid.symbol.contrib", "contrib.autograd": "hybrid.contrib.autograd",
    "contrib.amp.amp": "hybrid.contrib.amp",
}
for _space in ("ndarray", "symbol"):
    _OTHER[f"{_space}.{_space}"] = _OTHER[f"{_space}.op"] = _OTHER[f"{_space}._internal"] = f"hybrid.{_space}"
    for _part in ("contrib", "image", "linalg", "random", "sparse"):
        _OTHER[f"{_space}.{_part}"] = f"hybrid.{_space}.{_part}"
    _OTHER[f"{_space}.numpy"], _OTHER[f"{_space}.numpy_extension"] = "hybrid.numpy", "hybrid.numpy_extension"
    for _part in ("random", "linalg"):
        _OTHER[f"{_space}.numpy.{_part}"] = f"hybrid.numpy.{_part}"
    for _part in ("random", "image"):
        _OTHER[f"{_space}.numpy_extension.{_part}"] = f"hybrid.numpy_extension.{_part}"
    for _part in ("_op", "_internal"):
        _OTHER[f"{_space}.numpy.{_part}"] = _OTHER[f"{_space}.numpy_extension.{_part}"] = "hybrid.numpy.operators"
    _OTHER.update({f"{_space}.gen_{_part}": f"hybrid.{_space}.{_part}"
                   for _part in ("op", "_internal", "contrib", "image", "linalg", "random")})
_OTHER.update({"ndarray.sparse": "hybrid.sparse", "symbol.numpy": "hybrid.symbol.np",
               "symbol.numpy_extension": "hybrid.symbol.npx",
               "symbol.numpy._symbol": "hybrid.symbol.np", "symbol.numpy.random": "hybrid.symbol.np.random",
               "symbol.numpy.linalg": "hybrid.symbol.np.linalg"})
for _part in ("utils", "io", "arrayprint", "function_base", "stride_tricks", "fallback"):
    _OTHER[f"numpy.{_part}"] = "hybrid.numpy"
for _family in ("alexnet", "densenet", "inception", "mobilenet", "resnet", "squeezenet", "vgg"):
    _OTHER[f"gluon.model_zoo.vision.{_family}"] = f"hybrid.gluon.model_zoo.vision.{_family}"
for _short, _long in (("nd", "ndarray"), ("sym", "symbol")):
    _OTHER.update({f"{_short}{k[len(_long):]}": v for k, v in list(_OTHER.items()) if k.startswith(_long + ".")})

MODULES: dict[str, tuple[str, ...]] = {**{f"mxnet.{name}": (f"hybrid.{name}",) for name in _SAME},
                                       **{f"mxnet.{name}": tuple(targets.split()) for name, targets in _OTHER.items()}}

# packages beside MXNet that its programs import
BESIDE = {name: ("hybrid.distributed",) for name in ("horovod", "horovod.common", "horovod.mxnet",
                                                     "horovod.mxnet.functions", "horovod.mxnet.mpi_ops")}
BESIDE.update({"horovod.mxnet.compression": ("hybrid.distributed.compression",),
               "horovod.common.process_sets": ("hybrid.distributed.process_sets",)})

ABSENT = {        # what MXNet has and this library leaves out, with the reason or the way out
    "mxnet.contrib.tensorrt": "there is one compiler here",
    "mxnet.rtc": "write CUDA kernels with CuPy's RawKernel",
    "mxnet.torch": "exchange arrays with torch through DLPack",
    "mxnet.th": "exchange arrays with torch through DLPack",
    "mxnet.tvmop": "TVM operators are not supported",
    "mxnet.library": "libraries of compiled operators cannot be loaded; define operators with hybrid.ops.registry.op",
    "mxnet.notebook": "MXNet's notebook callbacks are not supported",
}
VERSION = "1.9.1"          # what ``mxnet.__version__`` says: the version whose behaviour is followed
