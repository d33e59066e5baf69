"""Iterators over tables, MNIST's files, record files and lists of images, against batches recorded from MXNet 1.9.1;
damaged files."""
from __future__ import annotations

import gzip
import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid.alias.check import check_source
from hybrid.base.errors import AttributeValueError, FileFormatError, HybridError, ShapeError

from ..paths import DATA, TESTS

pytest.importorskip("PIL")
RECORDED = json.loads((DATA / "file_iterators.json").read_text())
_spec = importlib.util.spec_from_file_location("file_iterators", TESTS / "oracle" / "file_iterators.py")
assert _spec is not None and _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    cases.write(path, mx.recordio)
    return path


@pytest.mark.parametrize("name", cases.CASES)
def test_as_mxnet(name: str, folder: Path) -> None:
    random.seed(3)
    found, expected = cases.outline(cases.CASES[name], mx, folder), RECORDED[name]
    assert (found["data"], found["label"]) == (expected["data"], expected["label"])
    assert len(found["batches"]) == len(expected["batches"])
    for mine, theirs in zip(found["batches"], expected["batches"]):
        assert mine[:2] == theirs[:2] and mine[5] == theirs[5]
        for k in (2, 3, 4):
            np.testing.assert_allclose(mine[k], theirs[k], rtol=1e-4, atol=2e-3)


def test_random_crops_and_orders_follow_the_seed(folder: Path) -> None:
    options = {"path_imgrec": str(folder / "p.rec"), "data_shape": (3, 16, 16), "batch_size": 7, "shuffle": True,
               "rand_crop": True, "rand_mirror": True}
    first, second, other = (next(mx.io.ImageRecordIter(**options, seed=s)) for s in (1, 1, 2))
    assert (first.data[0].asnumpy() == second.data[0].asnumpy()).all() and (first.index == second.index).all()
    assert not (first.data[0].asnumpy() == other.data[0].asnumpy()).all()
    assert sorted(first.label[0].asnumpy().tolist()) == [0, 1, 2, 3, 4, 5, 6]


def test_every_change_of_colours_and_parts_of_random_area(folder: Path) -> None:
    it = mx.io.ImageRecordIter(path_imgrec=str(folder / "p.rec"), data_shape=(3, 16, 16), batch_size=3,
                               random_resized_crop=True, min_random_area=0.3, max_aspect_ratio=1.3,
                               min_aspect_ratio=0.7, brightness=0.2, contrast=0.2, saturation=0.2, pca_noise=0.1,
                               max_random_contrast=0.1, max_random_illumination=3)
    for batch in it:
        x = batch.data[0].asnumpy()
        assert x.shape == (3, 3, 16, 16) and np.isfinite(x).all() and x.std() > 1


def test_random_turns_scales_and_ratios(folder: Path) -> None:
    options = {"path_imgrec": str(folder / "p.rec"), "data_shape": (3, 16, 16), "batch_size": 7, "fill_value": 0}
    plain = next(mx.io.ImageRecordIter(**options)).data[0].asnumpy()
    for change in ({"max_rotate_angle": 40}, {"max_shear_ratio": 0.3},
                   {"max_random_scale": 1.5, "min_random_scale": 0.8}, {"max_aspect_ratio": 0.3},
                   {"min_aspect_ratio": 0.5, "max_aspect_ratio": 2}):
        first, same, other = (next(mx.io.ImageRecordIter(**options, **change, seed=s)).data[0].asnumpy()
                              for s in (1, 1, 2))
        assert (first == same).all() and abs(first - other).mean() > 1 and abs(first - plain).mean() > 1


def test_mean_of_a_file(folder: Path) -> None:
    mean = np.random.RandomState(0).uniform(0, 99, (3, 16, 16)).astype("float32")
    mx.nd.save(str(folder / "mean.params"), {"mean_img": mx.nd.array(mean)})
    options = {"path_imgrec": str(folder / "p.rec"), "data_shape": (3, 16, 16), "batch_size": 2}
    plain, less = (next(mx.io.ImageRecordIter(**options, **more)).data[0].asnumpy()
                   for more in ({}, {"mean_img": str(folder / "mean.params")}))
    np.testing.assert_allclose(plain - mean, less, atol=1e-4)


def test_compressed_digits(folder: Path) -> None:
    for name in ("digits", "kinds"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    a = next(mx.io.MNISTIter(image=str(folder / "digits.gz"), label=str(folder / "kinds.gz"), batch_size=5,
                             shuffle=False))
    b = next(mx.io.MNISTIter(image=str(folder / "digits"), label=str(folder / "kinds"), batch_size=5, shuffle=False))
    assert (a.data[0].asnumpy() == b.data[0].asnumpy()).all()


def test_shuffled_digits_are_all_there(folder: Path) -> None:
    it = mx.io.MNISTIter(image=str(folder / "digits"), label=str(folder / "kinds"), batch_size=5, seed=7)
    orders = []
    for _ in range(2):
        orders.append([v for b in it for v in b.label[0].asnumpy().tolist()])
        it.reset()
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(10)) and orders[0] != orders[1]


def test_boxes_of_two_iterators_get_one_shape(folder: Path) -> None:
    train = mx.image.ImageDetIter(2, (3, 16, 16), imglist=cases.BOXES, path_root=str(folder))
    test = train.sync_label_shape(mx.image.ImageDetIter(1, (3, 8, 8), imglist=cases.BOXES[:1], path_root=str(folder)))
    assert test.provide_label[0].shape == (1, 2, 5) and next(test).label[0].shape == (1, 2, 5)
    with pytest.raises(ShapeError, match="at least 2 objects"):
        train.reshape(label_shape=(1, 5))


def test_crops_and_borders_keep_boxes_on_their_objects() -> None:
    """A bright square stays where its box says."""
    image = np.zeros((60, 80, 3), "uint8")
    image[15:30, 20:40] = 255
    label = np.array([[1, 0.25, 0.25, 0.5, 0.5]], "float32")
    random.seed(0)
    augmenters = [mx.image.DetRandomCropAug(min_object_covered=0.95, area_range=(0.3, 0.9)),
                  mx.image.DetRandomPadAug(area_range=(1.5, 3), pad_val=(0, 0, 0)),
                  mx.image.DetHorizontalFlipAug(1.0)]
    for augmenter in augmenters * 10:
        picture, box = augmenter(mx.nd.array(image, dtype="uint8"), label)
        rows, columns = np.nonzero(picture.asnumpy()[..., 0])
        h, w = picture.shape[:2]
        np.testing.assert_allclose(box[0, 1:], [columns.min() / w, rows.min() / h, (columns.max() + 1) / w,
                                                (rows.max() + 1) / h], atol=0.03)


BAD = {
    "no file": (lambda d: mx.io.CSVIter(data_csv=str(d / "nowhere.csv"), data_shape=(4,)), FileNotFoundError,
                "nowhere"),
    "words": (lambda d: mx.io.CSVIter(data_csv=str(d / "p.lst"), data_shape=(4,)), FileFormatError, "comma-separated"),
    "line length": (lambda d: mx.io.CSVIter(data_csv=str(d / "data.csv"), data_shape=(5,)), ShapeError, "4 numbers"),
    "svm index": (lambda d: mx.io.LibSVMIter(data_libsvm=str(d / "rows.svm"), data_shape=(2,)), FileFormatError,
                  "line 1"),
    "no digits": (lambda d: mx.io.MNISTIter(image=str(d / "data.csv"), label=str(d / "kinds")), FileFormatError,
                  "MNIST"),
    "swapped": (lambda d: mx.io.MNISTIter(image=str(d / "kinds"), label=str(d / "digits")), FileFormatError, "0x801"),
    "no records": (lambda d: mx.io.ImageRecordIter(path_imgrec=str(d / "data.csv"), data_shape=(3, 8, 8),
                                                   batch_size=1), HybridError, "data.csv"),
    "rotation": (lambda d: mx.io.ImageRecordIter(path_imgrec=str(d / "p.rec"), data_shape=(3, 8, 8), batch_size=1,
                                                 rotate_list=(10, 20)), AttributeValueError, "ImageIter"),
    "list": (lambda d: mx.image.ImageIter(1, (3, 8, 8), path_imglist=str(d / "data.csv"), path_root=str(d)),
             FileFormatError, "line 1"),
    "no boxes": (lambda d: mx.image.ImageDetIter(1, (3, 8, 8), imglist=[[1.0, "0.png"]], path_root=str(d)),
                 FileFormatError, "label"),
    "shuffled without an index": (lambda d: mx.image.ImageIter(1, (3, 8, 8), path_imgrec=str(d / "p.rec"),
                                                               shuffle=True), AttributeValueError, "path_imgidx"),
}


@pytest.mark.parametrize("name", BAD)
def test_clear_errors(name: str, folder: Path) -> None:
    make, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        make(folder)


def test_the_check_knows_options_that_are_passed_on() -> None:
    text = """import mxnet as mx
mx.io.ImageRecordIter(path_imgrec="a", data_shape=(3, 2, 2), batch_size=1, resize=256, mean_r=1, rand_crop=True, preprocess_threads=4)
mx.image.ImageIter(3, (3, 4, 4), path_imgrec="x", rand_crop=True, resize=3)
mx.image.ImageDetIter(3, (3, 4, 4), path_imgrec="x", rand_crop=1, min_object_covered=.3)
mx.io.MNISTIter(image="x", silent=True, input_shape=(784,))
mx.image.ImageIter(3, (3, 4, 4), path_imgrec="x", colour=1)
mx.io.ImageDetRecordIter(path_imgrec="a", data_shape=(3, 4, 4), batch_size=1, rand_crop_prob=0.5, aug_seq="det_aug_default", label_pad_width=9)
mx.io.ImageDetRecordIter(path_imgrec="a", rand_crop=0.5)
"""  # noqa: E501
    first, second = check_source(text, "a.py")
    assert (first.line, second.line) == (6, 8) and "colour" in first.text and "rand_crop" in second.text


def test_a_damaged_picture(folder: Path, tmp_path: Path) -> None:
    """ImageIter leaves it out, as MXNet does; ImageRecordIter names it."""
    data: Any = bytearray((folder / "p.rec").read_bytes())
    at = data.index(b"IHDR", data.index(b"IHDR") + 4)                  # of the second one
    data[at:at + 8] = b"\0" * 8
    (tmp_path / "bad.rec").write_bytes(data)
    assert sum(b.data[0].shape[0] for b in mx.image.ImageIter(2, (3, 16, 16),
                                                              path_imgrec=str(tmp_path / "bad.rec"))) == 6
    with pytest.raises(FileFormatError, match=r"bad\.rec: picture"):
        list(mx.io.ImageRecordIter(path_imgrec=str(tmp_path / "bad.rec"), data_shape=(3, 16, 16), batch_size=2))
