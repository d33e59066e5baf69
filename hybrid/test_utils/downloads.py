"""Data sets that MXNet's examples fetch: into ``data/``, or a folder that is given."""
from __future__ import annotations

import bz2
import os
import zipfile
from typing import Sequence

from ..gluon.utils import download as fetch
from ..base.atomic import replacing

_MNIST = tuple(f"{part}-{kind}" for part in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
_CIFAR = tuple(f"{part}.{kind}" for part in ("train", "test") for kind in ("rec", "lst"))


def download(url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False,
             retries: int = 5) -> str:
    """Fetch a URL into a file (by default under the URL's last part), unless it is there. Its path."""
    path = os.path.join(dirname or "", fname or url.split("/")[-1])
    return fetch(url, path=path, overwrite=overwrite, retries=retries)


def _unpacked(archive: str, folder: str) -> None:
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)                              # names that lead out of the folder are cut by zipfile


def _from_zip(url: str, folder: str, files: Sequence[str]) -> None:
    """Fetch an archive and unpack it, unless the files are there."""
    if not all(os.path.exists(os.path.join(folder, f)) for f in files):
        _unpacked(download(url, dirname="data"), "data")


def get_mnist_pkl() -> None:
    """Fetch MNIST as a pickle into ``data/mnist.pkl.gz``."""
    download("http://deeplearning.net/data/mnist/mnist.pkl.gz", dirname="data")


def get_mnist_ubyte() -> None:
    """Fetch MNIST's four files into ``data/``, unless they are there."""
    _from_zip("http://data.mxnet.io/mxnet/data/mnist.zip", "data", _MNIST)


def get_cifar10() -> None:
    """Fetch CIFAR-10 as record files into ``data/cifar/``, unless they are there."""
    _from_zip("http://data.mxnet.io/mxnet/data/cifar10.zip", os.path.join("data", "cifar"), _CIFAR)


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Fetch a zip archive (named ``data_origin_name`` there) into a folder and unpack it, unless it is there."""
    path = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(path):
        _unpacked(download(url, fname=data_origin_name, dirname=data_dir), data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Fetch a file compressed by bzip2 (named ``data_origin_name`` there) into a folder and decompress it to
    ``data_name``, unless that is there."""
    target = os.path.join(data_dir, data_name)
    if os.path.exists(target):
        return
    source = download(url, fname=data_origin_name, dirname=data_dir)
    with bz2.open(source, "rb") as packed, replacing(target) as out:
        while block := packed.read(1 << 20):
            out.write(block)
    os.remove(source)


__all__ = ["download", "get_bz2_data", "get_cifar10", "get_mnist_pkl", "get_mnist_ubyte", "get_zip_data"]
