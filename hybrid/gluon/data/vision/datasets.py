"""Image datasets, read from the files their makers publish: MNIST, FashionMNIST, CIFAR10, CIFAR100, folders,
records."""
from __future__ import annotations

import gzip
import os
import struct
import tarfile
import zlib
from typing import Any, Callable, Sequence

import numpy as np

from .... import image
from ....serialize import recordio
from ....buffers.array import NDArray, NP_CLASS, wrap
from ....base.device import cpu
from ....base.errors import FileFormatError, HybridError, warn_user
from ....numpy.extension import is_np_array
from ...utils import download
from .. import dataset

REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"           # where MXNet's files are
Transform = Callable[[Any, Any], Any]
_File = tuple[str, "str | None"]                              # its name and its SHA-1


def default_root(name: str) -> str:
    """MXNet's own place, so that files it fetched are found: $MXNET_HOME or ~/.mxnet, then datasets/name."""
    return os.path.join(os.environ.get("MXNET_HOME") or os.path.join("~", ".mxnet"), "datasets", name)


class _FileDataset(dataset._DownloadedDataset):
    """Images and labels that fit into memory. ``root`` holds the files; those that are not there are fetched into it,
    as MXNet does, from the address in ``MXNET_GLUON_REPO`` or MXNet's own, and checked by their SHA-1 sums.

    The attributes and ``_get_data`` have MXNet's names: datasets of one's own set or override them.
    """

    source = ""                                               # where the makers publish the files
    _namespace = ""                                           # the folder of the files, here and where they come from
    _train = True

    def _get_data(self) -> None:
        pixels, labels = self._read()
        if len(pixels) != len(labels):
            raise FileFormatError(f"{self._root}: {len(pixels)} pictures, but {len(labels)} labels; the files do not "
                                  f"belong together")
        cls = NP_CLASS[0] if is_np_array() and NP_CLASS else NDArray
        # on the CPU whatever the default device: single images are picked out and changed there, in worker processes
        # too
        self._data, self._label = wrap(np.ascontiguousarray(pixels), cpu(), cls), labels.astype(np.int32)

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _fetched(self, name: str, sha1: str | None, others: Sequence[str]) -> str:
        """The path of a file, fetched. FileNotFoundError says where to put it where that fails. others: files that
        would do as well."""
        url = f"{os.environ.get('MXNET_GLUON_REPO', REPOSITORY).rstrip('/')}/gluon/dataset/{self._namespace}/{name}"
        try:
            return download(url, path=os.path.join(self._root, name), sha1_hash=sha1, retries=1)
        except (HybridError, OSError) as err:
            me = type(self).__name__
            raise FileNotFoundError(f"{me}: {' or '.join((name, *others))} is not in {self._root}, and could not be "
                                    f"fetched ({err}). Fetch the file from "
                                    f"{self.source} and put it there, or give the folder where it is: {me}(root=...)") from err  # noqa: E501


def _contents(path: str) -> bytes:
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            return file.read()                                   # type: ignore[no-any-return]
    except (EOFError, gzip.BadGzipFile, zlib.error) as err:
        raise FileFormatError(f"{path} cannot be decompressed: {err}; the file is cut off or damaged, fetch it again") from None  # noqa: E501


def read_idx(path: str) -> np.ndarray:
    """An IDX file of bytes, gzipped or not (http://yann.lecun.com/exdb/mnist): two zeros, 8, number of axes, lengths,
    data."""
    raw = _contents(path)
    ndim = raw[3] if len(raw) >= 4 and raw[:3] == b"\0\0\x08" else 0
    if not ndim or len(raw) < 4 + 4 * ndim:
        raise FileFormatError(f"{path} is no IDX file of bytes: it begins with {raw[:4]!r}")
    shape = struct.unpack(f">{ndim}I", raw[4:4 + 4 * ndim])
    expected = int(np.prod(shape, dtype=object))
    if len(raw) - 4 - 4 * ndim != expected:
        raise FileFormatError(f"{path} holds {len(raw) - 4 - 4 * ndim} bytes of data, its header says {expected} "
                              f"(shape {shape}): it is cut off or damaged")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim).reshape(shape)


class MNIST(_FileDataset):
    """Handwritten digits: 60000 (``train``) or 10000 images (28, 28, 1) of uint8, labels 0 to 9 (int32).

    root: the folder of ``train-images-idx3-ubyte.gz`` and the three other files, gzipped or not. transform: called with
    (image, label).
    """
    _namespace, source = "mnist", "https://ossci-datasets.s3.amazonaws.com/mnist/"
    # files and their SHA-1
    _train_data: _File = ("train-images-idx3-ubyte.gz", "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d")
    _train_label: _File = ("train-labels-idx1-ubyte.gz", "2a80914081dc54586dbdf242f9805a6b8d2a15fc")
    _test_data: _File = ("t10k-images-idx3-ubyte.gz", "c3a25af1f52dad7f726cce8cacb138654b760d48")
    _test_label: _File = ("t10k-labels-idx1-ubyte.gz", "763e7fa3757d93b0cdec073cef058b2004252c17")

    def __init__(self, root: str | None = None, train: bool = True, transform: Transform | None = None):
        self._train = train
        super().__init__(default_root(self._namespace) if root is None else root, transform)

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        files = (self._train_data, self._train_label) if self._train else (self._test_data, self._test_label)
        return self._file(files[0], 3)[..., None], self._file(files[1], 1)

    def _file(self, file: _File, ndim: int) -> np.ndarray:
        plain = file[0].removesuffix(".gz")
        names = [file[0], plain, plain.replace("-idx", ".idx")]
        found = next((p for p in (os.path.join(self._root, n) for n in names) if os.path.isfile(p)), None)
        if found is None:
            found = self._fetched(*file, names[1:2])
        out = read_idx(found)
        if out.ndim != ndim:
            raise FileFormatError(f"{found} has {out.ndim} axes, {ndim} are expected: it is another file under this "
                                  f"name")
        return out


class FashionMNIST(MNIST):
    """Zalando's articles of clothing, in the form of MNIST."""
    _namespace, source = "fashion-mnist", "https://github.com/zalandoresearch/fashion-mnist"
    _train_data = ("train-images-idx3-ubyte.gz", "0cf37b0d40ed5169c6b3aba31069a9770ac9043d")
    _train_label = ("train-labels-idx1-ubyte.gz", "236021d52f1e40852b06a4c3008d8de8aef1e40b")
    _test_data = ("t10k-images-idx3-ubyte.gz", "626ed6a7c06dd17c0eec72fa3be1740f146a2863")
    _test_label = ("t10k-labels-idx1-ubyte.gz", "17f9ab60e7257a1620f4ad76bbbaf857c3920701")


class CIFAR10(_FileDataset):
    """50000 (``train``) or 10000 colour images (32, 32, 3) of uint8 in 10 classes, labels int32.

    root: the folder of ``cifar-10-binary.tar.gz``, or of the ``.bin`` files in it. transform: called with (image,
    label).
    """
    _namespace, source = "cifar10", "https://www.cs.toronto.edu/~kriz/cifar.html"
    inside = "cifar-10-batches-bin"
    _archive_file: _File = ("cifar-10-binary.tar.gz", "fab780a1e191a7eda0f345501ccd62d20f7ed891")
    _train_data: Sequence[_File] = [(f"data_batch_{i}.bin", None) for i in range(1, 6)]
    _test_data: Sequence[_File] = [("test_batch.bin", None)]
    label_bytes, label_at = 1, 0

    def __init__(self, root: str | None = None, train: bool = True, transform: Transform | None = None):
        self._train = train
        super().__init__(default_root(self._namespace) if root is None else root, transform)

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        parts = [self._parse(*self._find(name)) for name, _ in (self._train_data if self._train else self._test_data)]
        return np.concatenate([p for p, _ in parts]), np.concatenate([labels for _, labels in parts])

    def _find(self, name: str) -> tuple[str, bytes]:
        for path in (os.path.join(self._root, name), os.path.join(self._root, self.inside, name)):
            if os.path.isfile(path):
                return path, _contents(path)
        archive = os.path.join(self._root, self._archive_file[0])
        if not os.path.isfile(archive):
            archive = self._fetched(*self._archive_file, [name])
        try:
            with tarfile.open(archive) as tar:                   # read in place: nothing is unpacked
                member = next((m for m in tar if m.isfile() and os.path.basename(m.name) == name), None)
                file = tar.extractfile(member) if member is not None else None
                if file is not None:
                    return f"{name} in {archive}", file.read()
        except (tarfile.TarError, EOFError, OSError, zlib.error) as err:
            raise FileFormatError(f"{archive} cannot be read: {err}; it is cut off or damaged, fetch it again") from None  # noqa: E501
        raise FileFormatError(f"{archive} has no {name} in it")

    def _parse(self, path: str, raw: bytes) -> tuple[np.ndarray, np.ndarray]:
        size = self.label_bytes + 3072
        if not raw or len(raw) % size:
            raise FileFormatError(f"{path} has {len(raw)} bytes, which is no multiple of {size} ({self.label_bytes} "
                                  f"for labels, 3072 a picture): it is "
                                  "cut off or another file")
        rows = np.frombuffer(raw, np.uint8).reshape(-1, size)
        return rows[:, self.label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, self.label_at]


class CIFAR100(CIFAR10):
    """CIFAR in 100 classes (``fine_label``) of 20 superclasses (the default)."""
    _namespace, inside = "cifar100", "cifar-100-binary"
    _archive_file = ("cifar-100-binary.tar.gz", "a0bb982c76b83111308126cc779a992fa506b90b")
    _train_data, _test_data = [("train.bin", None)], [("test.bin", None)]
    label_bytes = 2

    def __init__(self, root: str | None = None, fine_label: bool = False, train: bool = True,
                 transform: Transform | None = None):
        self.label_at = int(fine_label)
        super().__init__(root, train, transform)


class ImageRecordDataset(dataset.RecordFileDataset):
    """Images and labels of a ``.rec`` file (with its ``.idx``): ``recordio.pack`` made its records.

    flag: 1 for three channels, 0 for gray. The label is a float, or an array if the record has several.
    """

    def __init__(self, filename: str, flag: int = 1, transform: Transform | None = None):
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx: Any) -> Any:
        header, data = recordio.unpack(super().__getitem__(idx))
        try:
            picture = image.imdecode(data, self._flag)
        except FileFormatError as err:
            raise FileFormatError(f"record {self._record.keys[idx]!r} of {self.filename}: {err}") from None
        return self._transform(picture, header.label) if self._transform is not None else (picture, header.label)


class ImageFolderDataset(dataset.Dataset):
    """Image files in one folder a class: ``root/car/0001.jpg``. The label is the class's place in ``synsets``, sorted
    names.

    items: (file, label) pairs. flag: 1 for three channels, 0 for gray. transform: called with (image, label).
    """

    def __init__(self, root: str, flag: int = 1, transform: Transform | None = None):
        self._root, self._flag, self._transform = os.path.expanduser(os.fspath(root)), flag, transform
        self._exts = [".jpg", ".jpeg", ".png"]
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        if not os.path.isdir(self._root):
            raise FileNotFoundError(f"ImageFolderDataset: {self._root} is no folder; it should hold one folder of "
                                    f"pictures for each class")
        self._list_images(self._root)
        if not self.synsets:
            raise HybridError(f"ImageFolderDataset: {self._root} holds no folders; it should hold one folder of "
                              f"pictures for each class")

    def _list_images(self, root: str) -> None:
        for folder in sorted(os.listdir(root)):
            path = os.path.join(root, folder)
            if not os.path.isdir(path):
                warn_user(f"Ignoring {path}, which is not a directory.")
                continue
            self.synsets.append(folder)
            for name in sorted(os.listdir(path)):
                if os.path.splitext(name)[1].lower() in self._exts:
                    self.items.append((os.path.join(path, name), len(self.synsets) - 1))
                else:
                    warn_user(f"Ignoring {os.path.join(path, name)}: only {', '.join(self._exts)} are read")

    def __getitem__(self, idx: Any) -> Any:
        name, label = self.items[idx]
        picture = image.imread(name, self._flag)
        return self._transform(picture, label) if self._transform is not None else (picture, label)

    def __len__(self) -> int:
        return len(self.items)
