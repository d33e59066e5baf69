"""Records what MXNet 1.9.1's model zoo gives, into tests/data/zoo.json.gz: MXNET_MKLDNN_ENABLED=0 python
tests/oracle/record_zoo.py

For every model: names and shapes of its parameters (by collect_params, without the network's own prefix, and by
structure, as save_parameters writes them), and the outputs of a small variant of 10 classes on seeded parameters and a
seeded image.
"""
import gzip
import json
from pathlib import Path

import numpy as np


def seeded(name, shape, rng):
    """Numbers for a parameter, such that values neither vanish nor grow through the network."""
    if name.endswith(("gamma", "running_var")):
        return rng.uniform(0.5, 1.5, shape).astype("float32")
    if name.endswith("weight"):
        return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype("float32")
    return (rng.standard_normal(shape) * 0.1).astype("float32")


def fill(net, array):
    """Seeded numbers for all parameters in order; ``array`` makes an array from NumPy's."""
    rng = np.random.RandomState(7)
    for name, p in net.collect_params().items():
        p.set_data(array(seeded(name, p.shape, rng)))


def size_of(name):
    """Height and width of a model's images."""
    return 299 if name == "inceptionv3" else 224


def picture(size):
    """A seeded image (1, 3, size, size)."""
    return np.random.RandomState(8).standard_normal((1, 3, size, size)).astype("float32")


def record():
    import mxnet as mx
    from mxnet.gluon.model_zoo import vision
    names = """alexnet densenet121 densenet161 densenet169 densenet201 inceptionv3 mobilenet0.25 mobilenet0.5 mobilenet0.75 mobilenet1.0 mobilenetv2_0.25
        mobilenetv2_0.5 mobilenetv2_0.75 mobilenetv2_1.0 resnet101_v1 resnet101_v2 resnet152_v1 resnet152_v2 resnet18_v1
        resnet18_v2 resnet34_v1 resnet34_v2
        resnet50_v1 resnet50_v2 squeezenet1.0 squeezenet1.1 vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn""".split()  # noqa: E501
    out = {}
    for name in names:
        x = mx.nd.array(picture(size_of(name)))
        net = vision.get_model(name)
        net.infer_shape(x)
        params = [[p.name[len(net.prefix):], list(p.shape)] for p in net.collect_params().values()]
        structure = list(net._collect_params_with_prefix())
        small = vision.get_model(name, classes=10)
        small.initialize()
        small(x)
        fill(small, mx.nd.array)
        out[name] = {"params": params, "structure": structure,
                     "output": [float(f"{v:.8g}") for v in small(x).asnumpy()[0]]}
        print(name, out[name]["output"][:3], flush=True)
    text = json.dumps(out, separators=(",", ":"))
    (Path(__file__).parent.parent / "data" / "zoo.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    record()
