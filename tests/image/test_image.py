"""Images against MXNet's own answers (OpenCV inside), and damaged ones."""
from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.base.errors import AttributeValueError, DTypeError, FileFormatError, HybridError, ShapeError
from hybrid.gluon.data.vision import transforms

from ..oracle.record_data import CASES, DECODE, RESIZE, evaluate, inputs, resize_input
from ..paths import DATA

ANSWERS = np.load(DATA / "pictures.npz")
# uint8 results may differ by this: bicubic by OpenCV's vector code, hue and resized float by the order of float32 sums
WITHIN = {"op_hue": 1, "op_hue_back": 1, "resize_short": 1, "resize_short_auto": 1}


def picture(*shape: int, seed: int = 0) -> Any:
    return nd.array(np.random.RandomState(seed).randint(0, 256, shape or (12, 10, 3)), dtype="uint8")


# ---- decoding
@pytest.mark.parametrize("name", list(DECODE), ids=list(DECODE))
def test_imdecode(name: str) -> None:
    file, flag, rgb = DECODE[name]
    expected = ANSWERS[f"decode/{name}"].astype(int)
    out = mx.image.imdecode((DATA / "pictures" / file).read_bytes(), flag, rgb)
    assert out.dtype == np.uint8 and out.shape == expected.shape and out.ctx == mx.cpu()
    # nothing here; another libjpeg may round differently
    assert np.abs(out.asnumpy().astype(int) - expected).max() <= 1


def test_imread_is_imdecode() -> None:
    path = DATA / "pictures" / "colour.png"
    for source in (path.read_bytes(), bytearray(path.read_bytes()), np.fromfile(path, np.uint8),
                   nd.array(np.fromfile(path, np.uint8), dtype="uint8")):
        np.testing.assert_array_equal(mx.image.imdecode(source).asnumpy(), mx.image.imread(str(path)).asnumpy())
    out = nd.zeros((17, 23, 3), dtype="uint8")
    assert mx.image.imread(path, out=out) is out and out.asnumpy().any()
    assert mx.image.imread(path, flag=0).shape == (17, 23, 1)
    assert mx.image.imread(DATA / "pictures" / "alpha.png", flag=-1).shape == (17, 23, 4)


@pytest.mark.parametrize("name", ["colour.jpg", "colour.png", "gray.jpg", "palette.png", "colour.bmp"])
def test_every_truncation_is_an_error(name: str) -> None:
    whole = (DATA / "pictures" / name).read_bytes()
    needed = len(whole) - (30 if name.endswith(".png") else 2)    # checksums and end marks hold no pixels
    for n in range(0, needed, 7):
        with pytest.raises(FileFormatError, match="cannot be decoded|is empty"):
            mx.image.imdecode(whole[:n])


def test_truncated_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.jpg"
    path.write_bytes((DATA / "pictures" / "colour.jpg").read_bytes()[:500])
    with pytest.raises(FileFormatError, match=r"cut\.jpg cannot be decoded: .*500 bytes"):
        mx.image.imread(path)
    with pytest.raises(FileNotFoundError):
        mx.image.imread(tmp_path / "none.jpg")
    with pytest.raises(ValueError, match="got str"):
        mx.image.imdecode("text")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_garbage_never_crashes() -> None:
    rng = np.random.RandomState(0)
    for name in ("colour.jpg", "colour.png", "palette.png", "colour.bmp", "turned.jpg"):
        whole = (DATA / "pictures" / name).read_bytes()
        for _ in range(40):
            raw = bytearray(whole)
            for at in rng.randint(0, len(raw), 4):
                raw[at] = rng.randint(256)
            try:
                assert mx.image.imdecode(raw).ndim == 3
            except FileFormatError:
                pass


def test_without_pillow() -> None:
    code = ("import sys\nsys.modules['PIL'] = None\nimport hybrid as mx\nprint(mx.image.imresize(mx.nd.ones((2, 2, "
            "3)), 4, 4).shape)\n"
            "try: mx.image.imdecode(b'x')\nexcept mx.HybridError as e: print(e)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "(4, 4, 3)" in out and "pip install Pillow" in out


# ---- resizing
@pytest.mark.parametrize("name", list(RESIZE), ids=list(RESIZE))
def test_imresize(name: str) -> None:
    kind, h, w, nh, nw, interp = RESIZE[name]
    x, expected = resize_input(kind, h, w), ANSWERS[f"resize/{name}"]
    for out in (mx.image.imresize(nd.array(x, dtype=x.dtype), nw, nh, interp),
                nd.image.resize(nd.array(x, dtype=x.dtype), (nw, nh), interp=interp)):
        assert out.dtype == expected.dtype and out.shape == expected.shape
        most = 1e-6 if kind == "float32" else 1 if interp == 2 else 0
        assert np.abs(out.asnumpy().astype(np.float64) - expected).max() <= most


@pytest.mark.parametrize("interp", range(5))
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "int32", "float16"])
def test_hybridized_resize(interp: int, dtype: str) -> None:
    x = nd.array(picture(2, 12, 8, 3).asnumpy(), dtype=dtype)
    for size in ((5, 7), (4, 6), (17, 30)):
        eager = nd.image.resize(x, size, interp=interp)
        compiled = mx.hybridize(lambda v, s=size: mx.nd.image.resize(v, s, interp=interp))(x)
        assert compiled.dtype == eager.dtype == np.dtype(dtype)
        most = {"uint8": 0, "float64": 1e-9, "float16": 0.13, "int32": 1}.get(dtype, 1e-4)
        assert np.abs(compiled.asnumpy().astype(float) - eager.asnumpy()).max() <= most


# ---- cases
@pytest.mark.parametrize("name", list(CASES), ids=list(CASES))
def test_as_in_mxnet(name: str) -> None:
    expected = ANSWERS[f"case/{name}"]
    names = {"mx": mx, "nd": nd, **inputs(lambda x, d: nd.array(x, dtype=d))}
    before = {k: v.asnumpy() for k, v in names.items() if k not in ("mx", "nd")}
    out = evaluate(CASES[name], names)
    assert out.shape == expected.shape and out.dtype == expected.dtype
    most = WITHIN.get(name, 0) if expected.dtype == np.uint8 else 2e-3 if "hue" in name or name == "aug_list" else 1e-4
    assert np.abs(out.asnumpy().astype(np.float64) - expected).max() <= most
    for k, v in before.items():
        np.testing.assert_array_equal(names[k].asnumpy(), v)      # nothing changes its input


HYBRID = {"to_tensor": transforms.ToTensor(), "normalize": transforms.Normalize((1, 2, 3), (2, 3, 4)),
          "cast": transforms.Cast("float16"),
          "resize": transforms.Resize((5, 6)),
          "crop_resize": transforms.CropResize(1, 1, 6, 5, (4, 4)), "flip": transforms.RandomFlipLeftRight(),
          "flip_tb": transforms.RandomFlipTopBottom(),
          "brightness": transforms.RandomBrightness(0.5), "contrast": transforms.RandomContrast(0.5),
          "saturation": transforms.RandomSaturation(0.5),
          "hue": transforms.RandomHue(0.3), "jitter": transforms.RandomColorJitter(0.4, 0.3, 0.2, 0.1),
          "jitter_linear": transforms.RandomColorJitter(0.4, 0.3, 0.2),
          "lighting": transforms.RandomLighting(0.1)}


@pytest.mark.parametrize("name", list(HYBRID), ids=list(HYBRID))
def test_hybridized_transform_draws_the_same(name: str) -> None:
    x = picture().astype("float32") if name == "normalize" else picture()
    x = nd.transpose(x, axes=(2, 0, 1)) if name == "normalize" else x
    block = HYBRID[name]
    mx.random.seed(4)
    eager = [block(x).asnumpy() for _ in range(4)]
    block.hybridize()
    mx.random.seed(4)
    compiled = [block(x).asnumpy() for _ in range(4)]
    block.hybridize(False)
    for a, b in zip(eager, compiled):
        assert np.abs(a.astype(float) - b).max() <= (1 if a.dtype == np.uint8 else 1e-4)


@pytest.mark.parametrize("name", list(HYBRID), ids=list(HYBRID))
def test_transform_in_cuda(name: str, cuda_device: Any) -> None:
    raw = picture().asnumpy()
    block, out = HYBRID[name], []
    for ctx in (mx.cpu(), cuda_device):
        x = nd.array(raw.transpose(2, 0, 1), ctx, "float32") if name == "normalize" else nd.array(raw, ctx, "uint8")
        block.hybridize()
        mx.random.seed(4)
        out.append(block(x))
    block.hybridize(False)
    assert out[1].ctx == cuda_device and out[0].dtype == out[1].dtype
    assert np.abs(out[0].asnumpy().astype(float) - out[1].asnumpy()).max() <= (1 if out[0].dtype == np.uint8 else 1e-4)


# ---- random ones
def test_saturation_by_hand() -> None:
    """MXNet's operator takes the gray of one channel alone (its augmenter takes all three); this is the right one."""
    x = picture().asnumpy().astype(np.float32)
    gray = (x * np.array([0.299, 0.587, 0.114], np.float32)).sum(-1, keepdims=True)
    expected = np.clip(x * 1.3 - 0.3 * gray, 0, 255)
    assert np.abs(nd.image.random_saturation(picture(), 1.3, 1.3).asnumpy() - expected).max() <= 1.001
    np.testing.assert_array_equal(nd.image.random_saturation(picture(4, 4, 1), 0.2, 0.2).asnumpy(),
                                  picture(4, 4, 1).asnumpy())


def test_flips_happen_half_of_the_time() -> None:
    x = picture()
    mirrored = x.asnumpy()[:, ::-1]
    seen = [bool((nd.image.random_flip_left_right(x).asnumpy() == mirrored).all()) for _ in range(200)]
    assert 60 < sum(seen) < 140
    batch = nd.stack(*[x] * 200)
    each = (nd.image.random_flip_left_right(batch).asnumpy() == mirrored).reshape(200, -1).all(1)
    assert 60 < each.sum() < 140                                  # each image of a batch draws for itself
    assert all((nd.image.random_flip_top_bottom(x, p=1.0).asnumpy() == x.asnumpy()[::-1]).all() for _ in range(5))


def test_jitter_takes_every_order() -> None:
    """Fixed factors (the strength is drawn from v to v nowhere), so distinct results are distinct orders."""
    x = picture(6, 5, 3)
    results = set()
    factors = {"brightness": (1.5, 1.5), "contrast": (0.5, 0.5), "hue": (0.2, 0.2)}
    for order in (("brightness", "contrast", "hue"), ("hue", "brightness", "contrast"),
                  ("contrast", "hue", "brightness")):
        y = x
        for name in order:
            y = getattr(nd.image, f"random_{name}")(y, *factors[name])
        results.add(y.asnumpy().tobytes())
    assert len(results) == 3
    mx.random.seed(0)
    drawn = {nd.image.random_color_jitter(x, 0.5, 0.5, 0.5, 0.3).asnumpy().tobytes() for _ in range(20)}
    assert len(drawn) == 20
    np.testing.assert_array_equal(nd.image.random_color_jitter(x, 0, 0, 0, 0).asnumpy(), x.asnumpy())


def test_jitter_of_one_kind_is_that_operator() -> None:
    x = picture().astype("float32")
    for name in ("brightness", "contrast", "saturation"):
        mx.random.seed(1)
        out = nd.image.random_color_jitter(x, **{k: 0.4 if k == name else 0.0
                                                 for k in ("brightness", "contrast", "saturation", "hue")}).asnumpy()
        f = _factor(name, x.asnumpy(), out)
        assert 0.6 <= f <= 1.4
        np.testing.assert_allclose(getattr(nd.image, f"random_{name}")(x, f, f).asnumpy(), out, rtol=1e-4, atol=2e-2)


def _factor(name: str, x: np.ndarray, y: np.ndarray) -> float:
    gray = (x * np.array([0.299, 0.587, 0.114], np.float32)).sum(-1, keepdims=True)
    base = {"brightness": 0 * x, "contrast": 0 * x + gray.mean(), "saturation": 0 * x + gray}[name]
    far = np.abs(x - base) > 40
    return float(np.median((y - base)[far] / (x - base)[far]))


def test_random_ranges() -> None:
    x = nd.full((4, 4, 3), 100.0)
    seen = np.array([nd.image.random_brightness(x, 0.5, 1.5).asnumpy()[0, 0, 0] for _ in range(300)]) / 100
    assert 0.5 <= seen.min() < 0.55 and 1.45 < seen.max() <= 1.5
    noise = np.array([nd.image.random_lighting(x, 0.1).asnumpy()[0, 0] - 100 for _ in range(2000)])
    directions = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                           [-0.5836, -0.6948, 0.4203]]) * [55.46, 4.794, 1.148]
    np.testing.assert_allclose(np.cov(noise.T), 0.01 * directions @ directions.T, rtol=0.2)


def test_crops_stay_inside_and_cover() -> None:
    random.seed(0)
    x, rects = picture(20, 30, 3), []
    for _ in range(300):
        out, (x0, y0, w, h) = mx.image.random_size_crop(x, (8, 8), (0.1, 1.0), (0.5, 2.0))
        assert out.shape == (8, 8, 3) and 0 <= x0 <= 30 - w and 0 <= y0 <= 20 - h
        rects.append((x0, y0))
        out, (x0, y0, w, h) = mx.image.random_crop(x, (30, 5))
        assert (x0, w, h) == (0, 30, 5) and out.shape == (5, 30, 3)
    assert len(set(rects)) > 50
    assert {mx.image.random_crop(x, (29, 20))[1][0] for _ in range(50)} == {0, 1}
    assert transforms.RandomCrop(16, pad=4)(picture(16, 16, 3)).shape == (16, 16, 3)
    assert transforms.RandomCrop((3, 4), pad=((2, 2), (9, 9)), pad_value=7)(nd.zeros((1, 1, 3))).shape == (4, 3, 3)


def test_gray_and_apply() -> None:
    x = picture()
    gray = transforms.RandomGray(1.0)(x)
    assert gray.dtype == np.uint8 and (gray.asnumpy() == gray.asnumpy()[..., :1]).all()
    assert transforms.RandomGray(0.0)(x) is x
    assert transforms.RandomApply(transforms.Resize(3),
                                  1.0)(x).shape == (3, 3,
                                                    3) and transforms.RandomApply([transforms.Resize(3)], 0.0)(x) is x


def test_compose_takes_functions_and_np_arrays() -> None:
    net = transforms.Compose([lambda x: x.astype("float32"), transforms.Resize(4), transforms.ToTensor()])
    assert net(picture()).shape == (3, 4, 4)
    given = [transforms.ToTensor()]
    transforms.Compose(given)
    assert len(given) == 1
    out = transforms.ToTensor()(mx.np.array(picture().asnumpy(), dtype="uint8"))
    assert isinstance(out, mx.np.ndarray)
    net = transforms.HybridCompose([transforms.Resize(4), transforms.ToTensor()])
    np.testing.assert_allclose(net(picture()).asnumpy(), nd.image.to_tensor(nd.image.resize(picture(), 4)).asnumpy(),
                               rtol=1e-6)


# ---- bad input
BAD = {"ndim": (lambda: nd.image.to_tensor(nd.ones((2, 2))), ShapeError, "height, width, channels"),
       "channels": (lambda: nd.image.random_contrast(nd.ones((2, 2, 2)), 1, 1), ShapeError, "1 or 3 channels"),
       "factors": (lambda: nd.image.random_hue(picture(), 2, 1), AttributeValueError, "min_factor <= max_factor"),
       "mean": (lambda: nd.image.normalize(nd.ones((3, 2, 2)), (1, 2), 1.0), AttributeValueError,
                "mean has one number"),
       "std": (lambda: nd.image.normalize(nd.ones((3, 2, 2)), 0.0, 0.0), AttributeValueError, "must not be 0"),
       "layout": (lambda: nd.image.normalize(nd.ones((8, 8, 3)), 0.0, 1.0), ShapeError, "as to_tensor gives it"),
       "crop": (lambda: nd.image.crop(picture(), 5, 0, 6, 2), ShapeError, "leaves the picture of 10 x 12"),
       "size": (lambda: nd.image.resize(picture(), (0, 3)), AttributeValueError, "must be positive"),
       "sizes": (lambda: nd.image.resize(picture(), (1, 2, 3)), AttributeValueError, "one number or"),
       "interp": (lambda: mx.image.imresize(picture(), 3, 3, 7), AttributeValueError, "interp must be"),
       "empty": (lambda: mx.image.imresize(nd.zeros((0, 3, 3)), 3, 3), AttributeValueError, "must be positive"),
       "jitter": (lambda: nd.image.random_color_jitter(picture(), -1, 0, 0, 0), AttributeValueError, "negative"),
       "strength": (lambda: transforms.RandomHue(-1), ValueError, "negative"),
       "fixed_crop": (lambda: mx.image.fixed_crop(picture(), 11, 0, 3, 3), ShapeError, "leaves the picture"),
       "normalize": (lambda: mx.image.color_normalize(picture(), nd.ones((3,))), DTypeError, "astype"),
       "border": (lambda: mx.image.copyMakeBorder(picture(), 1, 1, 1, 1, type=9), HybridError, "type of a border"),
       "create": (lambda: mx.image.CreateAugmenter((3, 4, 4), rand_resize=True), HybridError, "rand_crop"),
       "statistics": (lambda: mx.image.CreateAugmenter((3, 4, 4), mean=(1, 2)), HybridError, "mean is True"),
       "compose": (lambda: transforms.Compose([3]), HybridError, "got int: 3")}


@pytest.mark.parametrize("name", list(BAD), ids=list(BAD))
def test_bad_input(name: str) -> None:
    call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        call()


def test_augmenters_describe_themselves() -> None:
    assert mx.image.CastAug().dumps() == '["castaug", {"type": "float32"}]'
    assert mx.image.ColorNormalizeAug(np.array([1.0, 2.0]),
                                      None).dumps() == '["colornormalizeaug", {"mean": [1.0, 2.0], "std": null}]'
    assert mx.image.SequentialAug([mx.image.ResizeAug(3)]).dumps() == ["sequentialaug",
                                                                       ['["resizeaug", {"size": 3, "interp": 2}]']]


def test_symbols_of_pictures() -> None:
    x = mx.sym.var("data")
    out = mx.sym.image.normalize(mx.sym.image.to_tensor(x), (0.1, 0.2, 0.3), (1.0, 2.0, 3.0))
    assert '"op": "_image_to_tensor"' in out.tojson() and '"mean": "(0.1, 0.2, 0.3)"' in out.tojson()
    assert out.infer_shape(data=(4, 5, 3))[1] == [(3, 4, 5)]


def test_compose_compiles_what_comes_often() -> None:
    """The same numbers before and after: a run of transforms is compiled once a shape has come 32 times, the fifth
    shape never."""
    net = transforms.Compose([transforms.RandomFlipLeftRight(), transforms.RandomBrightness(0.3),
                              transforms.ToTensor(), transforms.Normalize(0.4, 0.2)])
    plain = transforms.Compose([*list(net._children.values())[0]._children.values()])
    plain.register_forward_hook(lambda *_: None)
    next(iter(plain._children.values())).register_forward_hook(lambda *_: None)      # a hook keeps a run eager
    run = list(net._children.values())[0]
    x = picture()
    for seed in range(40):
        mx.random.seed(seed)
        out = net(x).asnumpy()
        mx.random.seed(seed)
        np.testing.assert_allclose(out, plain(x).asnumpy(), rtol=1e-5, atol=1e-5)
        assert (run._program is not None) == (seed >= 32)
    for size in range(4, 12):
        for _ in range(40):
            assert net(picture(size, size, 3)).shape == (3, size, size)
    assert sum(n >= 32 for n in run._seen.values()) == 4
    for i in range(300):
        net(picture(1, 1 + i, 3))
    assert len(run._seen) <= 257


def test_copies_of_compiled_blocks() -> None:
    x = picture()
    net = transforms.HybridCompose([transforms.Resize(4), transforms.ToTensor()])
    expected = net(x).asnumpy()
    dense = mx.gluon.nn.HybridSequential()
    dense.add(mx.gluon.nn.Dense(3), mx.gluon.nn.Dense(2))
    dense.initialize()
    dense.hybridize()
    y = nd.ones((2, 4))
    before = dense(y).asnumpy()
    for copied in (lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy):
        np.testing.assert_array_equal(copied(net)(x).asnumpy(), expected)
        twin = copied(dense)
        assert twin._active and twin[0].weight is not dense[0].weight
        np.testing.assert_allclose(twin(y).asnumpy(), before, rtol=1e-6)
        twin[0].weight.set_data(nd.zeros((3, 4)))
        assert not np.allclose(twin(y).asnumpy(), before)
        np.testing.assert_allclose(dense(y).asnumpy(), before, rtol=1e-6)
