"""Helpers of training scripts: splitting batches over devices, clipping gradients, checking and fetching files."""
from __future__ import annotations

import hashlib
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Sequence

import numpy as np

from .. import nd
from ..buffers.array import NDArray, NP_CLASS, array, wrap
from ..base.device import Context, array_module, on
from ..base.errors import AttributeValueError, HybridError, warn_user
from ..numpy.extension import is_np_array, is_np_shape
from ..base.scope import tracing
from ..base.atomic import replacing
from .hooks import HookHandle


def split_data(data: Any, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[Any]:
    """Slices of an array along its batch axis, one a device.

    even_split: ValueError unless the slices have equal lengths; otherwise the first ones are longer by one.

    >>> from hybrid import nd
    >>> [s.shape for s in split_data(nd.zeros((5, 2)), 2, even_split=False)]
    [(3, 2), (2, 2)]
    """
    size = data.shape[batch_axis]
    if num_slice < 1:
        raise ValueError(f"num_slice must be 1 or more, got {num_slice}")
    if even_split and size % num_slice:
        raise ValueError(f"data of shape {data.shape} cannot be split evenly into {num_slice} slices along axis "
                         f"{batch_axis}: use a batch size that is a "
                         f"multiple of {num_slice}, or even_split=False")
    length, longer = divmod(size, num_slice)
    ends = np.cumsum([length + 1] * longer + [length] * (num_slice - longer)).tolist()
    before = (slice(None),) * (batch_axis % data.ndim)
    return [data[(*before, slice(begin, end))] for begin, end in zip([0, *ends], ends)]


def split_and_load(data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True) -> list[Any]:
    """``split_data`` with one slice on each device of ``ctx_list``. data may also be a NumPy array or nested lists."""
    if isinstance(ctx_list, Context):
        raise TypeError(f"ctx_list is a list of devices: write [{ctx_list}]")
    if not ctx_list:
        raise ValueError("ctx_list is empty: name at least one device, such as [cpu()]")
    if not isinstance(data, NDArray):
        data = array(np.asarray(data), ctx_list[0], np.float32, NP_CLASS[0] if is_np_array() else NDArray)
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    return [part.as_in_context(ctx) for part, ctx in zip(split_data(data, len(ctx_list), batch_axis, even_split),
                                                         ctx_list)]


def clip_global_norm(arrays: Sequence[Any], max_norm: float, check_isfinite: bool = True) -> Any:
    """Scale arrays in place by ``min(1, max_norm / (norm + 1e-8))``, norm the 2-norm of all their elements together.

    The norm from before, as a number; an array of shape (1,) with ``check_isfinite=False``, which then does not wait
    for the device. A norm that is not finite gives a warning (the arrays are then undefined). Inside hybridized code
    the norm is always an array, and nothing is checked: no value is known there.
    """
    if not arrays:
        raise AttributeValueError("clip_global_norm needs at least one array")
    if not max_norm > 0:
        raise ValueError(f"max_norm must be positive, got {max_norm}")
    if tracing() is not None:
        return _traced_clip(arrays, max_norm)
    first = arrays[0]
    xp = array_module(first.ctx)
    total = None
    for a in arrays:
        with on(a.ctx):
            flat = a._data.reshape(-1)
            wide = flat.astype(xp.float32) if flat.dtype.itemsize < 4 else flat      # float16 would overflow at 256
            square = wrap(xp.dot(wide, wide).reshape(1), a.ctx)
        with on(first.ctx):
            raw = square.as_in_context(first.ctx)._data
            total = raw if total is None else total + raw
    with on(first.ctx):
        norm = xp.sqrt(total)
    if check_isfinite and not np.isfinite(float(norm[0])):
        warn_user("nan or inf is detected. Clipping results will be undefined.")
    with np.errstate(all="ignore"):
        with on(first.ctx):
            scale = wrap(xp.minimum(max_norm / (norm + 1e-8), 1), first.ctx)
        for a in arrays:
            with on(a.ctx):
                a._write(a._data * scale.as_in_context(a.ctx)._data.astype(a._data.dtype))
    return norm.dtype.type(float(norm[0])) if check_isfinite else wrap(norm, first.ctx,
                                                                       type(first) if first.stype == "default"
                                                                       else NDArray)


def _traced_clip(arrays: Sequence[Any], max_norm: float) -> Any:
    wide = [a.astype("float32") if a.dtype == np.float16 else a for a in arrays]
    norm = sum((a * a).sum() for a in wide).sqrt()
    scale = nd.minimum(max_norm / (norm + 1e-8), 1.0)
    for a in arrays:
        a *= scale.astype(a.dtype)
    return norm.reshape((1,))


def check_sha1(filename: str | os.PathLike[str], sha1_hash: str) -> bool:
    """Whether the SHA-1 sum of a file's contents is this one (40 hexadecimal digits)."""
    sha1 = hashlib.sha1()
    with open(filename, "rb") as file:
        while block := file.read(1 << 20):
            sha1.update(block)
    return sha1.hexdigest() == sha1_hash.lower()


def replace_file(src: str | os.PathLike[str], dst: str | os.PathLike[str]) -> None:
    """Rename a file, over what stands there; it is removed when that fails."""
    try:
        os.replace(src, dst)
    except OSError:
        if os.path.exists(src):
            os.remove(src)
        raise


def _get_repo_url() -> str:
    """Where MXNet's models and data sets are: MXNET_GLUON_REPO, or the public address."""
    found = os.environ.get("MXNET_GLUON_REPO", "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/")
    return found if found.endswith("/") else found + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """The address of a file there."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def download(url: str, path: str | os.PathLike[str] | None = None, overwrite: bool = False,
             sha1_hash: str | None = None, retries: int = 5,
             verify_ssl: bool = True) -> str:
    """Fetch a URL into a file and give the file's path.

    path: a file or an existing folder (default: the URL's last part, here). A file that is there and has the right
    ``sha1_hash`` (if one is given) is not fetched again, unless ``overwrite``. The file appears whole or not at all: it
    is written under another name, checked, then renamed. A failure is tried again ``retries`` times, with growing
    pauses; then HybridError. Shows a progress bar where tqdm is installed.
    """
    if retries < 0:
        raise ValueError(f"retries must be 0 or more, got {retries}")
    target = _target(url, path)
    if not overwrite and os.path.exists(target) and (sha1_hash is None or check_sha1(target, sha1_hash)):
        return target
    if not verify_ssl:
        warn_user("verify_ssl=False: the server's certificate is not checked, so the file could be anyone's")
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    for attempt in range(retries + 1):
        try:
            _fetch(url, target, sha1_hash, verify_ssl)
            return target
        except (OSError, HybridError, ValueError) as err:
            final = isinstance(err,
                               urllib.error.HTTPError) and err.code in (401, 403, 404,
                                                                        410) or isinstance(err,
                    ValueError) and not isinstance(err, OSError)
            if final or attempt == retries:
                raise HybridError(f"{url} could not be fetched into {target}: {err}") from err
            print(f"download of {url} failed ({err}); {retries - attempt} more tries")
            time.sleep(min(0.25 * 2**attempt, 8.0))
    raise AssertionError("not reached")


def _target(url: str, path: str | os.PathLike[str] | None) -> str:
    last = urllib.parse.unquote(urllib.parse.urlsplit(url).path).split("/")[-1]
    if path is not None:
        given = os.path.expanduser(os.fspath(path))
        if not os.path.isdir(given):
            return given
        last = os.path.join(given, last) if last else ""
    if not last:
        raise ValueError(f"{url!r} ends in no file name: give path, the file to write")
    return last


def _fetch(url: str, target: str, sha1_hash: str | None, verify_ssl: bool) -> None:
    import ssl  # noqa: PLC0415 - slow to import, and most programs fetch nothing
    context = None if verify_ssl else ssl._create_unverified_context()
    request = urllib.request.Request(url, headers={"User-Agent": "hybrid"})
    sha1 = hashlib.sha1()
    with urllib.request.urlopen(request, timeout=60, context=context) as answer, replacing(target) as out:
        expected = int(answer.headers.get("Content-Length") or 0)
        got = 0
        with _progress(expected, os.path.basename(target)) as bar:
            while block := answer.read(1 << 16):
                out.write(block)
                sha1.update(block)
                got += len(block)
                bar.update(len(block))
        if expected and got != expected:
            raise HybridError(f"{got} of {expected} bytes came")
        if sha1_hash and sha1.hexdigest() != sha1_hash.lower():
            raise HybridError(f"the SHA-1 sum of what came is {sha1.hexdigest()}, not {sha1_hash}: the file there is "
                              f"another one or arrived damaged")


class _NoBar:
    def __enter__(self) -> "_NoBar":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def update(self, n: int) -> None:
        """Nothing to show."""


def _progress(total: int, name: str) -> Any:
    try:
        from tqdm import tqdm  # noqa: PLC0415 - optional
    except ImportError:
        return _NoBar()
    return tqdm(total=total or None, unit="B", unit_scale=True, desc=name)


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """Whether every length is known: none is -1, nor 0 without NumPy semantics (``npx.set_np``), where 0 means
    unknown."""
    if shape is None:
        return False
    unknown = -1 if is_np_shape() else 0
    if any(n < unknown for n in shape):
        raise ValueError(f"a length of a shape is {unknown} or more here, got {tuple(shape)}")
    return (len(shape) > 0 or is_np_shape()) and unknown not in shape


__all__ = ["HookHandle", "check_sha1", "clip_global_norm", "download", "replace_file", "shape_is_known",
           "split_and_load", "split_data"]
