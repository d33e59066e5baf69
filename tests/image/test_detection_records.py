"""ImageDetRecordIter's random changes, drawn boxes, changes of colour and affine maps; what is not random is compared
with MXNet in test_file_iterators.py."""
from __future__ import annotations

import colorsys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import recordio
from hybrid.base.errors import AttributeValueError, FileFormatError, ShapeError
from hybrid.image.colours import shifted
from hybrid.image.warp import affine

pytest.importorskip("PIL")
GRID = [(k, k % 10 / 10 + 0.02, k // 10 / 10 + 0.02, k % 10 / 10 + 0.08, k // 10 / 10 + 0.08) for k in range(100)]


def write(path: Path, pixels: np.ndarray, *labels: Any) -> str:
    with recordio.MXRecordIO(str(path), "w") as rec:
        for i, label in enumerate(labels):
            rec.write(recordio.pack_img(recordio.IRHeader(0, np.array(label, np.float32), i, 0), pixels,
                                        img_fmt=".png"))
    return str(path)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image of 40 x 80 whose red and green tell the place, with a hundred small boxes."""
    y, x = np.indices((40, 80))
    blue_first = np.stack([0 * x, y * 6, x * 3], -1).astype(np.uint8)
    return write(tmp_path_factory.mktemp("records") / "grid.rec", blue_first, [2, 5, *np.ravel(GRID)])


def samples(path: str, count: int = 8, **options: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    it = mx.io.ImageDetRecordIter(path_imgrec=path, data_shape=options.pop("data_shape", (3, 40, 80)), batch_size=1,
                                  preprocess_threads=2, **options)
    found = []
    for _ in range(count):
        it.reset()
        batch = next(it)
        label = batch.label[0].asnumpy()[0]
        found.append((batch.data[0].asnumpy()[0], label[6:4 + int(label[3])].reshape(-1, 5)))
    return found


def extent(boxes: np.ndarray) -> np.ndarray:
    """Left, top, width and height of the part, from boxes that are whole: all of them were 0.06 wide and high."""
    whole = boxes[(boxes[:, 1:3] > 0).all(1) & (boxes[:, 3:] < 1).all(1)]
    size = 0.06 / np.median(whole[:, 3:] - whole[:, 1:3], axis=0)
    kind = int(whole[0, 0])
    return np.concatenate([np.array(GRID[kind][1:3]) - whole[0, 1:3] * size, size])


@pytest.mark.parametrize("scale, aspect, size", [(0.5, 1.0, (0.3536, 0.7071)), (0.5, 2.0, (0.5, 0.5)),
                                                 (0.3, 4.0, (0.4243, 0.2121))], ids=["square", "wide", "flat"])
def test_crops_have_the_size_that_mxnet_gives_them(grid: str, scale: float, aspect: float,
                                                   size: tuple[float, float]) -> None:
    places = set()
    for pixels, boxes in samples(grid, rand_crop_prob=1, min_crop_scales=scale, max_crop_scales=(scale,),
                                 min_crop_aspect_ratios=aspect, max_crop_aspect_ratios=aspect):
        x, y, w, h = extent(boxes)
        np.testing.assert_allclose((w, h), size, atol=2e-3)
        # the pixels come from where the boxes say
        np.testing.assert_allclose(pixels[:2, 0, 0], (int(x * 80) * 3, int(y * 40) * 6), atol=6)
        places.add((round(x, 3), round(y, 3)))
    assert len(places) == 8


def test_padding_keeps_every_box(grid: str) -> None:
    for pixels, boxes in samples(grid, rand_pad_prob=1, max_pad_scale=3, fill_value=7):
        _, _, w, h = extent(boxes)
        assert len(boxes) == 100 and 1 <= w <= 3 and abs(w - h) < 0.05
        assert (pixels == 7).all(0).mean() == pytest.approx(1 - 1 / (w * h), abs=0.05)


def test_samplers_and_probabilities(grid: str) -> None:
    widths = [extent(boxes)[2] for _, boxes in samples(grid, 24, rand_crop_prob=0.5, num_crop_sampler=2,
                                                       min_crop_scales=(0.3, 0.9), max_crop_scales=(0.3, 0.9))]
    kinds = [sum(low < w < high for w in widths) for low, high in ((0.2, 0.22), (0.6, 0.9), (0.99, 1.01))]
    assert sum(kinds) == 24 and min(kinds) > 0


def test_constraints_on_crops(tmp_path: Path) -> None:
    path = write(tmp_path / "two.rec", np.zeros((32, 32, 3), np.uint8), [2, 5, 0, 0, 0, 0.4, 0.4, 1, 0.6, 0.6, 1, 1])
    crop = {"rand_crop_prob": 1, "min_crop_scales": 0.5, "max_crop_scales": 0.5, "data_shape": (3, 32, 32),
            "max_crop_trials": 2000}
    for _, boxes in samples(path, min_crop_object_coverages=0.9, **crop):
        assert len(boxes) == 1 and (boxes[0, 3:] - boxes[0, 1:3]).prod() * 0.25 >= 0.9 * 0.16
    for _, boxes in samples(path, crop_emit_mode="overlap", emit_overlap_thresh=0.5, **crop):
        assert all((b[3:] - b[1:3]).prod() * 0.25 > 0.5 * 0.16 - 1e-6 for b in boxes)
    for _, boxes in samples(path, min_crop_overlaps=0.99, max_crop_trials=3,
                            **{k: v for k, v in crop.items() if k != "max_crop_trials"}):
        assert len(boxes) == 2                                # no part is allowed: the whole image


def test_colours_of_detection_records(tmp_path: Path) -> None:
    path = write(tmp_path / "one.rec", np.full((8, 8, 3), (50, 100, 200), np.uint8), [2, 5, 0, 0, 0, 1, 1])
    start = np.array(colorsys.rgb_to_hls(200 / 255, 100 / 255, 50 / 255))
    for k, (name, units) in enumerate((("hue", 180), ("illumination", 255), ("saturation", 255))):
        found = [x[:, 0, 0] / 255 for x, _ in samples(path, data_shape=(3, 8, 8),
                                                      **{f"max_random_{name}": 10, f"random_{name}_prob": 1})]
        moved = abs(np.array([colorsys.rgb_to_hls(*v) for v in found]) - start)
        assert 0.01 < moved[:, k].max() < 10.5 / units and np.delete(moved, k, 1).max() < 0.01
    # its probability is 0
    assert all((x[:, 0, 0] == (200, 100, 50)).all()
               for x, _ in samples(path, 3, data_shape=(3, 8, 8), max_random_hue=20))
    factors = [x[0, 0, 0] / 200 for x, _ in samples(path, data_shape=(3, 8, 8), max_random_contrast=0.2,
                                                    random_contrast_prob=1)]
    assert 0.79 < min(factors) < max(factors) < 1.21


@pytest.mark.parametrize("change", [(0, 0, 0), (30, 0, 0), (0, 40, 0), (0, -40, 0), (0, 0, 60), (10, -20, 30)],
                         ids=["none", "hue", "lighter", "darker", "richer", "all"])
def test_hue_lightness_and_saturation(change: tuple[int, int, int]) -> None:
    """Against Python's colorsys, one pixel at a time."""
    pixels = np.random.RandomState(0).randint(0, 256, (6, 7, 3)).astype(np.uint8)
    pixels[0, :3] = [[0, 0, 0], [255, 255, 255], [90, 90, 90]]
    hue, light, rich = change
    for before, after in zip(pixels.reshape(-1, 3), shifted(pixels, *change).reshape(-1, 3)):
        h, level, s = colorsys.rgb_to_hls(*(before / 255))
        h, level, s = min(1, max(0, h + hue / 180)), min(1, max(0, level + light / 255)), min(1, max(0, s + rich / 255))
        np.testing.assert_allclose(np.array(colorsys.hls_to_rgb(h, level, s)) * 255, after, atol=0.51)


def test_the_classification_iterator_changes_them_too(grid: str) -> None:
    plain, changed = (next(mx.io.ImageRecordIter(path_imgrec=grid, data_shape=(3, 40, 80), batch_size=1,
                                                 **more)).data[0].asnumpy()
                      for more in ({}, {"random_h": 20, "random_s": 20, "random_l": 20, "seed": 3}))
    assert plain.shape == changed.shape and 0.5 < abs(plain - changed).mean() < 80


def test_affine_maps() -> None:
    pixels = np.random.RandomState(1).randint(0, 256, (5, 7, 3)).astype(np.uint8)
    same, turned = np.array([[1, 0, 0], [0, 1, 0]], float), np.array([[-1, 0, 6], [0, -1, 4]], float)
    for nearest in (False, True):
        assert (affine(pixels, same, (5, 7), 9,
                       nearest) == pixels).all() and (affine(pixels, turned, (5, 7), 9,
                                                             nearest) == pixels[::-1, ::-1]).all()
    half = affine(pixels, same + np.array([[0, 0, 0.5], [0, 0, 0]]), (6, 8), 100)
    assert (half[:5, 1:7] == np.floor((pixels[:, :-1].astype(float) + pixels[:, 1:]) / 2 + 0.5)).all()
    assert (half[:5, 0] == np.floor((pixels[:, 0].astype(float) + 100) / 2 + 0.5)).all() and (half[5] == 100).all()


BAD: dict[str, tuple[Any, Any, str]] = {
    "plain labels": ({"label": [3.0]}, FileFormatError, "picture 0: a label of 1 numbers"),
    "cut off": ({"label": [2, 5, 0, 0.1, 0.1, 0.5]}, FileFormatError, "a head of at least 2"),
    "short width": ({"label_pad_width": 5}, AttributeValueError, "label_pad_width is 5.*of 7 numbers"),
    "other width": ({"label_width": 12}, ShapeError, "has 7 numbers, label_width is 12"),
    "dtype": ({"dtype": "uint8"}, AttributeValueError, "dtype is not supported"),
    "mode": ({"resize_mode": "stretch"}, AttributeValueError, "force, fit, shrink; got 'stretch'"),
    "samplers": ({"num_crop_sampler": 2, "min_crop_scales": (0.1, 0.2, 0.3)}, AttributeValueError,
                 "3 values for num_crop_sampler=2"),
    "range": ({"min_crop_scales": 0.5, "max_crop_scales": 0.4}, AttributeValueError, "above max_crop_scales"),
    "shape": ({"data_shape": (2, 8, 8)}, ShapeError, "1 or 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_clear_errors(name: str, tmp_path: Path) -> None:
    given, kind, words = BAD[name]
    path = write(tmp_path / "bad.rec", np.zeros((8, 8, 3), np.uint8), given.get("label", [2, 5, 0, 0.1, 0.1, 0.5, 0.5]))
    with pytest.raises(kind, match=words):
        mx.io.ImageDetRecordIter(**{"path_imgrec": path, "data_shape": (3, 8, 8), "batch_size": 1,
                                    **{k: v for k, v in given.items() if k != "label"}})


@pytest.mark.parametrize("kind", ["ImageDetRecordIter", "ImageRecordIter"])
def test_unknown_options_are_warned_of(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path / "plain.rec", np.zeros((8, 8, 3), np.uint8), [2, 5, 0, 0.1, 0.1, 0.5, 0.5])
    with pytest.warns(UserWarning, match="no option and_mirror: ignored"):
        it = getattr(mx.io, kind)(path_imgrec=path, data_shape=(3, 8, 8), batch_size=1, label_width=7, and_mirror=True)
    assert next(it).data[0].shape == (1, 3, 8, 8)


def test_boxes_drawn(tmp_path: Path) -> None:
    path = write(tmp_path / "draw.rec", np.full((20, 30, 3), 9, np.uint8), [2, 5, 1, 0.2, 0.5, 0.8, 0.9],
                 [2, 5, 0, 0, 0, 0.5, 0.5])
    it = mx.image.ImageDetIter(2, (3, 20, 30), path_imgrec=path)
    first, second = it.draw_next(color=(255, 0, 0), thickness=1)
    assert first.dtype == np.uint8 and first.shape == (20, 30, 3)
    frame = np.argwhere((first == (255, 0, 0)).all(-1))
    assert frame.min(0).tolist() == [10, 6] and frame.max(0).tolist() == [17, 24] and (first[12, 10] == 9).all()
    assert np.argwhere((second == (255, 0, 0)).all(-1)).max(0).tolist() == [10, 15]
    normal = mx.image.ImageDetIter(1, (3, 20, 30), path_imgrec=path, mean=True, std=True)
    picture = next(normal.draw_next(mean=True, std=True, color=(0, 255, 0), id2labels={1: "cat"}))
    # with a word beside the frame
    assert abs(picture[19, 29].astype(int) - 9).max() <= 1 and ((picture == (0, 255, 0)).all(-1)).sum() > len(frame)
    with pytest.raises(AttributeValueError, match="windows"):
        next(normal.draw_next(waitKey=1))
