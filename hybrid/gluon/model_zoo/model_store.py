"""Files of trained parameters: where they lie, under which names, how they are checked."""
from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any, Callable

from ...base.errors import HybridError
from ...base.atomic import replacing
from ..utils import check_sha1, download
from ..hybrid_block import HybridBlock

# SHA-1 of each published file; the first eight digits are part of its name
_model_sha1 = dict(line.split() for line in """
alexnet 44335d1f0046b328243b32a26a4fbd62d9057b45
densenet121 f27dbf2dbd5ce9a80b102d89c7483342cd33cb31
densenet161 b6c8a95717e3e761bd88d145f4d0a214aaa515dc
densenet169 2603f878403c6aa5a71a124c4a3307143d6820e9
densenet201 1cdbc116bc3a1b65832b18cf53e1cb8e7da017eb
inceptionv3 ed47ec45a937b656fcc94dabde85495bbef5ba1f
mobilenet0.25 9f83e440996887baf91a6aff1cccc1c903a64274
mobilenet0.5 8e9d539cc66aa5efa71c4b6af983b936ab8701c3
mobilenet0.75 529b2c7f4934e6cb851155b22c96c9ab0a7c4dc2
mobilenet1.0 6b8c5106c730e8750bcd82ceb75220a3351157cd
mobilenetv2_1.0 36da4ff1867abccd32b29592d79fc753bca5a215
mobilenetv2_0.75 e2be7b72a79fe4a750d1dd415afedf01c3ea818d
mobilenetv2_0.5 aabd26cd335379fcb72ae6c8fac45a70eab11785
mobilenetv2_0.25 ae8f9392789b04822cbb1d98c27283fc5f8aa0a7
resnet18_v1 a0666292f0a30ff61f857b0b66efc0228eb6a54b
resnet34_v1 48216ba99a8b1005d75c0f3a0c422301a0473233
resnet50_v1 0aee57f96768c0a2d5b23a6ec91eb08dfb0a45ce
resnet101_v1 d988c13d6159779e907140a638c56f229634cb02
resnet152_v1 671c637a14387ab9e2654eafd0d493d86b1c8579
resnet18_v2 a81db45fd7b7a2d12ab97cd88ef0a5ac48b8f657
resnet34_v2 9d6b80bbc35169de6b6edecffdd6047c56fdd322
resnet50_v2 ecdde35339c1aadbec4f547857078e734a76fb49
resnet101_v2 18e93e4f48947e002547f50eabbcc9c83e516aa6
resnet152_v2 f2695542de38cf7e71ed58f02893d82bb409415e
squeezenet1.0 264ba4970a0cc87a4f15c96e25246a1307caf523
squeezenet1.1 33ba0f93753c83d86e1eb397f38a667eaf2e9376
vgg11 dd221b160977f36a53f464cb54648d227c707a05
vgg11_bn ee79a8098a91fbe05b7a973fed2017a6117723a8
vgg13 6bc5de58a05a5e2e7f493e2d75a580d83efde38c
vgg13_bn 7d97a06c3c7a1aecc88b6e7385c2b373a249e95e
vgg16 e660d4569ccb679ec68f1fd3cce07a387252a90a
vgg16_bn 7f01cf050d357127a73826045c245041b0df7363
vgg19 ad2f660d101905472b83590b59708b71ea22b2e5
vgg19_bn f360b758e856f1074a85abd5fd873ed1d98297c3
""".strip().splitlines())
REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"      # MXNET_GLUON_REPO names another


def short_hash(name: str) -> str:
    """The eight digits in a file's name. ValueError for a model without a published file."""
    if name not in _model_sha1:
        raise ValueError(f"there is no trained file for {name!r}; there are files for {', '.join(_model_sha1)}")
    return _model_sha1[name][:8]


def default_root() -> str:
    """The folder of files: ``$MXNET_HOME/models``, else ``~/.mxnet/models``."""
    return str(Path(os.environ.get("MXNET_HOME", Path.home() / ".mxnet")) / "models")


def get_model_file(name: str, root: str | os.PathLike[str] | None = None) -> str:
    """The path of a model's trained parameters, downloaded if they are not there.

    name: for example ``resnet18_v1``. root: the folder, by default ``default_root()``.
    HybridError that says which file to put where when it can be neither found nor downloaded.
    """
    file = f"{name}-{short_hash(name)}"
    folder = Path(root if root is not None else default_root()).expanduser()
    path = folder / f"{file}.params"
    there = path.is_file()
    if there and check_sha1(str(path), _model_sha1[name]):
        return str(path)
    url = f"{os.environ.get('MXNET_GLUON_REPO', REPOSITORY).rstrip('/')}/gluon/models/{file}.zip"
    folder.mkdir(parents=True, exist_ok=True)
    zipped = folder / f"{file}.{os.getpid()}.zip"
    try:
        download(url, path=str(zipped), overwrite=True, retries=0)
        _unpack(zipped, path, _model_sha1[name])
    except (OSError, KeyError, zipfile.BadZipFile, HybridError) as err:
        what = (f"{path} has another SHA-1 than {_model_sha1[name]}: it is damaged or of another model" if there
                else f"there is no file {path}")
        raise HybridError(f"trained parameters of {name}: {what}, and it could not be fetched ({err}). Get "
                          f"{file}.params elsewhere and put it into {folder}, "
                          "or load a file of your own with net.load_parameters(path)") from None
    finally:
        zipped.unlink(missing_ok=True)
    return str(path)


def _unpack(zipped: Path, path: Path, sha1: str) -> None:
    """The one file that is wanted out of a zip file, checked before it takes its place."""
    found = hashlib.sha1()
    with zipfile.ZipFile(zipped) as z, z.open(path.name) as source, replacing(path) as target:
        while block := source.read(1 << 20):
            found.update(block)
            target.write(block)
        if found.hexdigest() != sha1:
            raise HybridError(f"what came has the SHA-1 {found.hexdigest()}, not {sha1}")


def purge(root: str | os.PathLike[str] | None = None) -> None:
    """Remove all .params files of the folder."""
    for path in Path(root if root is not None else default_root()).expanduser().glob("*.params"):
        path.unlink()


def finish(net: Any, name: str, pretrained: bool, ctx: Any, root: Any) -> Any:
    """The network itself, with trained parameters if they are wanted."""
    if pretrained:
        net.load_parameters(get_model_file(name, root), ctx=ctx)
    return net


def variant(build: Callable[..., Any], name: str, text: str, *fixed: Any,
            **options: Any) -> Callable[..., HybridBlock]:
    """A function for one size of a family of networks: ``build`` with its first arguments given."""
    def make(**kwargs: Any) -> Any:
        return build(*fixed, **{**kwargs, **options})
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""{text} for pictures (N, 3, height, width).

    classes: number of outputs (1000). pretrained: load trained parameters, from the folder ``root`` onto the device ``ctx``; see
    ``model_store.get_model_file`` for where they lie. HybridError when they are not there.
    """  # noqa: E501
    return make


__all__ = ["_model_sha1", "default_root", "finish", "get_model_file", "purge", "short_hash", "variant"]
