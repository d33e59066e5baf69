"""Record files, images and data iterators as MXNet 1.9.1 treats them.

Recorded by ``MXNET_MKLDNN_ENABLED=0 ORACLE_PYTHON tests/oracle/record_data.py`` into data/recordio.* and
data/images.npz. Each case is an expression that the tests evaluate too, with ``mx`` and ``nd`` of the library under
test.
"""
from __future__ import annotations

import pathlib
import random
import struct

import numpy as np

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
MAGIC = struct.pack("<I", 0xCED7230A)
RECORDS = [b"", b"a", b"abcd", b"abcde", MAGIC, MAGIC + MAGIC, b"abcd" + MAGIC, b"abcd" + MAGIC + b"efg",
           b"ab" + MAGIC, MAGIC + b"x",
           b"abcd" + MAGIC + MAGIC + b"zz", bytes(100), MAGIC[:3], b"ab" + MAGIC + MAGIC + b"cd"]
HEADERS = {"number": (0, 3.5, 7, 0), "list": (0, [1.0, 2.5, -3.0], 8, 9), "array": (5, np.arange(4.0), 2**40, 2**63),
           "flag": (9, 2, 1, 1)}

PICTURES = ["colour.jpg", "colour.png", "gray.jpg", "gray.png", "alpha.png", "palette.png", "deep.png", "turned.jpg",
            "colour.bmp"]
DECODE = {f"{name}-{flag}-{rgb}": (name, flag, rgb) for name in PICTURES for flag, rgb in ((1, 1), (0, 1), (1, 0))}

RESIZE = {f"{kind}-{h}x{w}-{nh}x{nw}-{interp}": (kind, h, w, nh, nw, interp)
          for kind in ("uint8", "float32") for h, w in ((7, 9), (12, 8))
          for nh, nw in ((4, 3), (6, 4), (3, 11), (14, 5), (15, 18), (7, 9)) for interp in range(5)}

T = "mx.gluon.data.vision.transforms"
# expressions over u: uint8 (12, 10, 3), f: float32 of it, g: uint8 (12, 10, 1), b: uint8 (2, 12, 10, 3)
CASES = {
    "resize_short": "mx.image.resize_short(u, 6)", "resize_short_area": "mx.image.resize_short(u, 5, 3)",
    "resize_short_auto": "mx.image.resize_short(u, 20, 9)",
    "resize_float": "mx.image.imresize(f, 7, 5, 2)",
    "fixed_crop": "mx.image.fixed_crop(u, 2, 1, 5, 6)",
    "fixed_crop_size": "mx.image.fixed_crop(u, 2, 1, 5, 6, (8, 4), 1)",
    "center_crop": "mx.image.center_crop(u, (5, 4))[0]", "center_crop_odd": "mx.image.center_crop(u, (5, 7))[0]",
    "center_crop_big": "mx.image.center_crop(u, (20, 16), 1)[0]",
    "center_crop_rect": "nd.array(mx.image.center_crop(u, (20, 4))[1])",
    "scale_down": "nd.array(mx.image.scale_down((640, 480), (720, 120)))",
    "random_crop": "mx.image.random_crop(u, (5, 6))[0]",
    "random_crop_rect": "nd.array(mx.image.random_crop(u, (5, 6))[1])",
    "random_size_crop": "mx.image.random_size_crop(u, (6, 6), (0.1, 0.9), (0.7, 1.3), 1)[0]",
    "random_size_crop_rect": "nd.array(mx.image.random_size_crop(u, (6, 6), 0.08, (0.7, 1.3))[1])",
    "random_size_crop_fallback": "nd.array(mx.image.random_size_crop(u, (6, 6), (1.5, 1.9), (0.7, 1.3))[1])",
    "color_normalize": "mx.image.color_normalize(f.copy(), nd.array([1, 2, 3]), nd.array([2, 3, 4]))",
    "color_normalize_mean": "mx.image.color_normalize(f.copy(), nd.array([9]))",
    "border": "mx.image.copyMakeBorder(u, 1, 2, 3, 4)",
    "border_value": "mx.image.copyMakeBorder(u, 1, 2, 3, 4, values=(9, 8, 7))",
    "border_edge": "mx.image.copyMakeBorder(u, 1, 2, 3, 2, type=1)",
    "border_reflect": "mx.image.copyMakeBorder(u, 1, 2, 3, 2, type=2)",
    "border_wrap": "mx.image.copyMakeBorder(u, 1, 2, 3, 2, type=3)",
    "border_101": "mx.image.copyMakeBorder(u, 1, 2, 3, 2, type=4)",
    "aug_brightness": "mx.image.BrightnessJitterAug(0.3)(f.copy())",
    "aug_contrast": "mx.image.ContrastJitterAug(0.3)(f.copy())",
    "aug_saturation": "mx.image.SaturationJitterAug(0.3)(f.copy())", "aug_hue": "mx.image.HueJitterAug(0.3)(f.copy())",
    "aug_jitter": "mx.image.ColorJitterAug(0.3, 0.2, 0.1)(f.copy())",
    "aug_gray": "mx.image.RandomGrayAug(1.0)(f.copy())",
    "aug_lighting": "mx.image.LightingAug(0.1, np.array([55.46, 4.794, 1.148]), np.array([[-0.5675, 0.7192, 0.4009], "
                    "[-0.5808, -0.0045, -0.8140],"
                    " [-0.5836, -0.6948, 0.4203]]))(f.copy())",
    "aug_flip": "mx.image.HorizontalFlipAug(1.0)(u)",
    "aug_normalize": "mx.image.ColorNormalizeAug(nd.array([1, 2, 3]), nd.array([2, 3, 4]))(f.copy())",
    "aug_resize": "mx.image.ForceResizeAug((5, 7), 1)(u)", "aug_crop": "mx.image.RandomCropAug((5, 7), 1)(u)",
    "aug_list": "mx.image.SequentialAug(mx.image.CreateAugmenter((3, 6, 5), resize=8, rand_crop=True, "
                "rand_resize=True, rand_mirror=True, mean=True, std=True,"
                " brightness=0.1, contrast=0.1, saturation=0.1, hue=0.1, pca_noise=0.1, rand_gray=0.5, "
                "inter_method=1))(u)",
    "op_brightness": "nd.image.random_brightness(u, 1.3, 1.3)", "op_contrast": "nd.image.random_contrast(u, 0.6, 0.6)",
    "op_contrast_gray": "nd.image.random_contrast(g, 1.4, 1.4)",
    "op_hue": "nd.image.random_hue(u, 0.2, 0.2)", "op_hue_back": "nd.image.random_hue(u, 0.9, 0.9)",
    "op_hue_float": "nd.image.random_hue(f, 0.4, 0.4)",
    "op_brightness_float": "nd.image.random_brightness(f, 0.3, 0.3)",
    "op_contrast_float": "nd.image.random_contrast(f, 1.7, 1.7)",
    "op_lighting": "nd.image.adjust_lighting(u, (0.1, -0.2, 0.3))",
    "op_lighting_none": "nd.image.random_lighting(u, 0.0)",
    "op_flip": "nd.image.flip_left_right(u)", "op_flip_tb": "nd.image.flip_top_bottom(u)",
    "op_crop": "nd.image.crop(u, 1, 2, 3, 4)",
    "op_crop_batch": "nd.image.crop(b, 1, 2, 3, 4)",
    "op_resize_batch": "nd.image.resize(b, (4, 5))",
    "op_normalize_uint8": "nd.image.normalize(nd.image.to_tensor(u) * 255, (0.1, 0.2, 0.3), (1, 2, 3))",
    "to_tensor": f"{T}.ToTensor()(u)", "to_tensor_batch": f"{T}.ToTensor()(b)", "to_tensor_gray": f"{T}.ToTensor()(g)",
    "normalize": f"{T}.Normalize((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))({T}.ToTensor()(u))",
    "normalize_one": f"{T}.Normalize(0.5, 2.0)({T}.ToTensor()(b))",
    "cast": f"{T}.Cast('float16')(u)", "resize": f"{T}.Resize((5, 7))(u)", "resize_one": f"{T}.Resize(6)(u)",
    "resize_keep": f"{T}.Resize(6, True)(u)",
    "resize_keep_batch": f"{T}.Resize(6, keep_ratio=True, interpolation=0)(b)",
    "crop_resize": f"{T}.CropResize(1, 2, 5, 6)(u)",
    "crop_resize_size": f"{T}.CropResize(1, 2, 5, 6, (4, 3), 1)(u)", "center_crop_block": f"{T}.CenterCrop((4, 6))(u)",
    "center_crop_block_big": f"{T}.CenterCrop(16)(u)",
    "random_resized_crop": f"{T}.RandomResizedCrop(6)(u)",
    "random_resized_crop_args": f"{T}.RandomResizedCrop((7, 5), (0.3, 0.6), (0.5, 2.0), 0)(u)",
    "compose": f"{T}.Compose([{T}.Resize(9), {T}.CenterCrop(6), {T}.ToTensor(), {T}.Normalize((0.4, 0.5, 0.6), (0.2, "
               f"0.3, 0.4))])(u)",
}
ITERATORS = {
    "pad": "mx.io.NDArrayIter(X, Y, 4)", "discard": "mx.io.NDArrayIter(X, Y, 4, last_batch_handle='discard')",
    "roll_over": "mx.io.NDArrayIter(X, Y, 4, last_batch_handle='roll_over')",
    "shuffle": "mx.io.NDArrayIter(X, Y, 3, shuffle=True)",
    "shuffle_roll": "mx.io.NDArrayIter(X, Y, 4, True, 'roll_over')",
    "no_label": "mx.io.NDArrayIter(X, batch_size=5)",
    "dict": "mx.io.NDArrayIter({'b': X, 'a': Y}, {'l': Y}, 4)", "list": "mx.io.NDArrayIter([X, Y], [Y, Y], 4)",
    "big_pad": "mx.io.NDArrayIter(X[:3], Y[:3], 8)",
    "names": "mx.io.NDArrayIter(X, Y, 5, data_name='in', label_name='out')",
    "ndarray": "mx.io.NDArrayIter(nd.array(X, dtype='int32'), nd.array(Y), 4)",
    "roll_twice": "mx.io.NDArrayIter(X[:6], Y[:6], 4, last_batch_handle='roll_over')",
    "resize": "mx.io.ResizeIter(mx.io.NDArrayIter(X, Y, 4), 5)",
    "prefetch": "mx.io.PrefetchingIter(mx.io.NDArrayIter(X, Y, 4))",
    "prefetch_two": "mx.io.PrefetchingIter([mx.io.NDArrayIter(X, Y, 4), mx.io.NDArrayIter(X + 1, Y, 4)], [{'data': "
                    "'d0'}, {'data': 'd1'}],"
                    " [{'softmax_label': 'l0'}, {'softmax_label': 'l1'}])",
}


def inputs(array):
    """The arrays of CASES, made by ``array(values, dtype)``."""
    rng = np.random.RandomState(5)
    u, b = rng.randint(0, 256, (12, 10, 3)), rng.randint(0, 256, (2, 12, 10, 3))
    return {"u": array(u, "uint8"), "f": array(u, "float32"), "g": array(u[..., :1], "uint8"), "b": array(b, "uint8")}


def resize_input(kind, h, w):
    """An image of RESIZE."""
    u = np.random.RandomState(h * w).randint(0, 256, (h, w, 3))
    return u.astype("uint8") if kind == "uint8" else (u / np.float32(255)).astype("float32")


def evaluate(expression, names):
    """The value of a case, after seeding Python's and NumPy's generators."""
    random.seed(3)
    np.random.seed(3)
    return eval(expression, {"np": np, **names})        # noqa: S307 - the expressions are those above


def epochs(iterator, count=3):
    """What an iterator gives in some epochs, as plain numbers: (pad, shapes, values)."""
    out = []
    for _ in range(count):
        for batch in iterator:
            arrays = [*batch.data, *(batch.label or ())]
            out.append([batch.pad, [list(a.shape) for a in arrays],
                        [a.asnumpy().astype("float64").ravel().tolist() for a in arrays]])
        out.append("end")
        iterator.reset()
    return out


def iterator_inputs():
    """X (10, 2) and Y (10,)."""
    return {"X": np.arange(20.0).reshape(10, 2), "Y": np.arange(10.0) * 10}


def record(mx):
    """Write the files."""
    import json
    writer = mx.recordio.MXIndexedRecordIO(str(DATA / "recordio.idx"), str(DATA / "recordio.rec"), "w")
    for i, r in enumerate(RECORDS):
        writer.write_idx(i, r)
    writer.close()
    packed = {k: mx.recordio.pack(mx.recordio.IRHeader(*h), b"picture").hex() for k, h in HEADERS.items()}
    iterators = {}
    for k, e in ITERATORS.items():
        it = evaluate(e, {"mx": mx, "nd": mx.nd, **iterator_inputs()})
        described = [[[d.name, list(d.shape), np.dtype(d.dtype).name, d.layout] for d in part]
                     for part in (it.provide_data, it.provide_label)]
        iterators[k] = {"provide": described, "epochs": epochs(it)}
    (DATA / "recordio.json").write_text(json.dumps({"packed": packed, "iterators": iterators}))
    out = {f"decode/{k}": mx.image.imdecode((DATA / "pictures" / name).read_bytes(), flag, rgb).asnumpy()
           for k, (name, flag, rgb) in DECODE.items()}
    for k, (kind, h, w, nh, nw, interp) in RESIZE.items():
        x = resize_input(kind, h, w)
        out[f"resize/{k}"] = mx.image.imresize(mx.nd.array(x, dtype=x.dtype), nw, nh, interp).asnumpy()
    names = {"mx": mx, "nd": mx.nd, **inputs(lambda x, d: mx.nd.array(x, dtype=d))}
    for k, e in CASES.items():
        out[f"case/{k}"] = evaluate(e, names).asnumpy()
    np.savez_compressed(DATA / "pictures.npz", **out)


if __name__ == "__main__":
    import mxnet
    record(mxnet)
