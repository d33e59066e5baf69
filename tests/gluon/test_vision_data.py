"""MNIST, FashionMNIST, CIFAR and folders of images, from small files in the published formats."""
from __future__ import annotations

import gzip
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid.base import codec
from hybrid.base.errors import FileFormatError, HybridError
from hybrid.gluon.data import DataLoader, vision
from hybrid.gluon.data.vision import transforms


@pytest.fixture(autouse=True)
def nothing_to_fetch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "nowhere").as_uri())


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(n)
    return rng.randint(0, 256, (n, 28, 28)).astype(np.uint8), rng.randint(0, 10, n).astype(np.uint8)


def write_mnist(root: Path, packed: bool = True) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", 7), ("t10k", 4)):
        for name, array in zip((f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"), digits(n)):
            (root / (name + ".gz" * packed)).write_bytes(gzip.compress(idx(array)) if packed else idx(array))


def cifar(n: int, labels: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    rng = np.random.RandomState(n)
    label, pixels = (rng.randint(0, 10, (n, labels)).astype(np.uint8),
                     rng.randint(0, 256, (n, 3, 32, 32)).astype(np.uint8))
    return np.concatenate([label, pixels.reshape(n, -1)], 1).tobytes(), label, pixels.transpose(0, 2, 3, 1)


@pytest.mark.parametrize("packed", [True, False], ids=["gz", "plain"])
@pytest.mark.parametrize("kind", [vision.MNIST, vision.FashionMNIST], ids=["mnist", "fashion"])
def test_mnist(tmp_path: Path, packed: bool, kind: Any) -> None:
    write_mnist(tmp_path, packed)
    for train, n in ((True, 7), (False, 4)):
        pixels, labels = digits(n)
        d = kind(root=str(tmp_path), train=train)
        assert len(d) == n
        x, y = d[2]
        assert x.shape == (28, 28,
                           1) and x.dtype == np.uint8 and isinstance(x,
                                                                     mx.nd.NDArray) and x.ctx == mx.cpu() and isinstance(y, np.int32)  # noqa: E501
        np.testing.assert_array_equal(np.stack([d[i][0].asnumpy() for i in range(n)])[..., 0], pixels)
        assert [int(d[i][1]) for i in range(n)] == labels.tolist()
    x, y = kind(str(tmp_path), transform=lambda x, y: (x.astype("float32") / 255, y + 1))[0]
    assert x.dtype == np.float32 and y == digits(7)[1][0] + 1


def test_mnist_in_a_loader(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    net = transforms.Compose([transforms.Resize(14), transforms.ToTensor(), transforms.Normalize(0.13, 0.31)])
    d = vision.MNIST(tmp_path).transform_first(net)
    expected = [(net(x).asnumpy(), y) for x, y in vision.MNIST(tmp_path)]
    for kw in ({}, {"num_workers": 2}, {"num_workers": 2, "thread_pool": True}):
        got = [(a, b) for x, y in DataLoader(d, 3, **kw)
               for a, b in zip(x.asnumpy(), y.asnumpy())]      # type: ignore[arg-type]
        assert [g[0].shape for g in got] == [(1, 14, 14)] * 7
        for (a, b), (p, q) in zip(got, expected):
            np.testing.assert_array_equal(a, p)
            assert b == q and isinstance(b, np.int32)


def test_default_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    write_mnist(tmp_path / "datasets" / "mnist")
    assert len(vision.MNIST()) == 7
    with pytest.raises(FileNotFoundError, match=r"fashion-mnist.*fashion-mnist"):
        vision.FashionMNIST()
    monkeypatch.delenv("MXNET_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(FileNotFoundError, match=r"home/\.mxnet/datasets/cifar100"):
        vision.CIFAR100()


def test_missing_file_is_named(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    vision.MNIST(tmp_path)
    with pytest.raises(FileNotFoundError,
                       match=r"t10k-labels-idx1-ubyte\.gz or t10k-labels-idx1-ubyte is not in .*could not be "
                             r"fetched.*https://.*root="):
        vision.MNIST(tmp_path, train=False)


@pytest.mark.parametrize(("content", "message"), [
    (gzip.compress(idx(digits(7)[0]))[:-500], "cannot be decompressed"), (b"not gzip", "cannot be decompressed"),
    (gzip.compress(b"text, not idx"),
        "no IDX file"), (gzip.compress(b""), "no IDX file"),
    (gzip.compress(idx(digits(7)[0])[:-5]), "its header says 5488"), (gzip.compress(idx(digits(7)[1])),
        "1 axes, 3 are expected"), (gzip.compress(idx(digits(6)[0])), "6 pictures, but 7 labels"),
    (gzip.compress(struct.pack(">BBBB3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1)), "its header says 792281")],
    ids=["cut", "no-gzip", "no-idx", "empty", "short", "labels", "fewer", "huge"])
def test_damaged_mnist(tmp_path: Path, content: bytes, message: str) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        vision.MNIST(tmp_path)


@pytest.mark.parametrize("where", ["folder", "inside", "archive"])
def test_cifar10(tmp_path: Path, where: str) -> None:
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    folder = tmp_path / "made" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for i, name in enumerate(names):
        (folder / name).write_bytes(cifar(i + 1, 1)[0])
    root = {"folder": folder, "inside": folder.parent, "archive": tmp_path / "root"}[where]
    if where == "archive":
        root.mkdir()
        with tarfile.open(root / "cifar-10-binary.tar.gz", "w:gz") as tar:
            tar.add(folder, "cifar-10-batches-bin")
    train, test = vision.CIFAR10(str(root)), vision.CIFAR10(str(root), train=False)
    assert len(train) == 15 and len(test) == 6
    np.testing.assert_array_equal(train._data.asnumpy(), np.concatenate([cifar(i, 1)[2] for i in range(1, 6)]))
    assert test._label.tolist() == cifar(6, 1)[1][:,
                                                  0].tolist() and test[1][0].shape == (32, 32, 3) and isinstance(test[1][1], np.int32)  # noqa: E501
    # nothing was unpacked
    assert sorted(p.name for p in tmp_path.rglob("*.bin") if where == "archive") == sorted(names) * (where == "archive")


def test_cifar100(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(cifar(5, 2)[0])
    labels, pixels = cifar(5, 2)[1:]
    assert vision.CIFAR100(tmp_path)._label.tolist() == labels[:, 0].tolist()
    fine = vision.CIFAR100(tmp_path, fine_label=True)
    assert fine._label.tolist() == labels[:, 1].tolist()
    np.testing.assert_array_equal(fine._data.asnumpy(), pixels)
    with pytest.raises(FileNotFoundError, match=r"cifar-100-binary\.tar\.gz or test\.bin is not in"):
        vision.CIFAR100(tmp_path, train=False)


def test_damaged_cifar(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(cifar(2, 1)[0][:-1])
    with pytest.raises(FileFormatError, match=r"test_batch\.bin has 6145 bytes.*multiple of 3073"):
        vision.CIFAR10(tmp_path, train=False)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(gzip.compress(b"x" * 5000)[:40])
    with pytest.raises(FileFormatError, match="cannot be read"):
        vision.CIFAR10(tmp_path)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz"):
        pass
    with pytest.raises(FileFormatError, match=r"has no data_batch_1\.bin"):
        vision.CIFAR10(tmp_path)


class _OwnPictures(vision.MNIST):
    """Data of one's own in place of the files'."""

    def _get_data(self) -> None:
        self._data, self._label = mx.nd.zeros((3, 28, 28, 1), dtype="uint8"), [1, 2, 3]


class _OtherFiles(vision.MNIST):
    """Names other files, and skips MNIST's ``__init__``, as MXNet's FashionMNIST does."""

    def __init__(self, root: Any, train: bool = True, transform: Any = None):
        self._train = train
        self._train_data, self._train_label = ("letters.gz", None), ("letters-labels.gz", None)
        self._namespace = "letters"
        super(vision.MNIST, self).__init__(root, transform)


class _OtherBatches(vision.CIFAR10):
    def __init__(self, root: Any, train: bool = True, transform: Any = None):
        self._train, self._test_data = train, [("other.bin", "")]
        self._archive_file, self._namespace = ("other.tar.gz", None), "other"
        super(vision.CIFAR10, self).__init__(root, transform)


def test_datasets_made_of_these(tmp_path: Path) -> None:
    own = _OwnPictures(tmp_path, transform=lambda x, y: (x, -y))
    assert len(own) == 3 and own[1][1] == -2
    pixels, labels = digits(5)
    (tmp_path / "letters.gz").write_bytes(gzip.compress(idx(pixels)))
    (tmp_path / "letters-labels").write_bytes(idx(labels))
    letters = _OtherFiles(tmp_path, transform=lambda x, y: (x, -y))
    assert [y for _, y in letters] == (-labels.astype(int)).tolist()
    assert (letters._data.asnumpy()[..., 0] == pixels).all()
    with pytest.raises(FileNotFoundError, match="letters.gz.*/gluon/dataset/letters/"):
        _OtherFiles(tmp_path / "empty")
    raw, table, pixels = cifar(4, 1)
    (tmp_path / "other.bin").write_bytes(raw)
    other = _OtherBatches(tmp_path, train=False)
    assert (other._data.asnumpy() == pixels).all() and other._label.tolist() == table[:, 0].tolist()


def folders(root: Path) -> None:
    for label, name in enumerate(("bus", "car")):
        (root / name).mkdir(parents=True)
        for i in range(3):
            (root / name / f"{i}.{'png' if i else 'PNG'}").write_bytes(codec.encode(np.full((4, 5, 3), 100 * label + i, np.uint8), 3, ".png"))  # noqa: E501


def test_image_folder(tmp_path: Path) -> None:
    folders(tmp_path)
    d = vision.ImageFolderDataset(str(tmp_path))
    assert d.synsets == ["bus", "car"] and len(d) == 6 and [label for _, label in d.items] == [0, 0, 0, 1, 1, 1]
    for kw in ({}, {"num_workers": 2}):
        (x, y), = DataLoader(d, 6, **kw)                           # type: ignore[arg-type]
        assert x.shape == (6, 4, 5, 3) and x.asnumpy()[:, 0, 0,
                                                       0].tolist() == [0, 1, 2, 100, 101,
                                                                       102] and y.asnumpy().tolist() == [0, 0, 0, 1, 1,
                1]
    assert vision.ImageFolderDataset(tmp_path, 0, lambda x, y: (x.shape, y))[5] == ((4, 5, 1), 1)


def test_image_folder_warns_and_fails_clearly(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="one folder of pictures for each class"):
        vision.ImageFolderDataset(tmp_path / "none")
    with pytest.raises(HybridError, match="holds no folders"):
        vision.ImageFolderDataset(tmp_path)
    folders(tmp_path)
    (tmp_path / "readme.txt").write_text("x")
    (tmp_path / "car" / "notes.txt").write_text("x")
    (tmp_path / "car" / "9.jpg").write_bytes(b"\xff\xd8\xff cut")
    with pytest.warns(UserWarning) as seen:
        d = vision.ImageFolderDataset(tmp_path)
    assert any("not a directory" in str(w.message)
               for w in seen) and any("notes.txt" in str(w.message) for w in seen) and len(d) == 7
    with pytest.raises(FileFormatError, match=r"9\.jpg cannot be decoded"):
        list(DataLoader(d, 7, num_workers=1))
