"""Checkpoints of a job: rank 0 writes one file, whole or not at all; a job of any number of ranks goes on from it."""
from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from .. import collective
from ..base.atomic import write_bytes
from ..base.errors import FileFormatError, HybridError, MissingFileError

FORMAT = "hybrid.distributed checkpoint 1"


def save_checkpoint(path: str | os.PathLike[str], net: Any, trainer: Any = None,
                    extra: dict[str, Any] | None = None) -> None:
    """Write a network's parameters, a Trainer's states and a dict of numbers and text (the epoch, say) to one file.

    All ranks call it; rank 0 writes, and all go on when the file is there.
    """
    world = collective.start()
    error: str | None = None
    with trainer.whole_states() if trainer is not None else contextlib.nullcontext():
        if world.rank == 0:
            try:
                write_bytes(path, _packed(net, trainer, extra))
            except OSError as err:
                error = f"{type(err).__name__}: {err}"
    error = world.broadcast_object(error, 0, "save_checkpoint")
    if error is not None:
        raise HybridError(f"save_checkpoint: rank 0 could not write {os.fspath(path)!r}: {error}")


def load_checkpoint(path: str | os.PathLike[str], net: Any, trainer: Any = None) -> dict[str, Any]:
    """Read on rank 0 what ``save_checkpoint`` wrote, into the networks and Trainers of all ranks. The dict that was
    saved with it.

    The number of ranks may be another than that of the job that wrote it: parameters and states are the same on all.
    """
    world = collective.start()
    data = None
    if world.rank == 0 and Path(path).is_file():
        data = Path(path).read_bytes()
    data = world.broadcast_object(data, 0, "load_checkpoint")
    if data is None:
        raise MissingFileError(f"rank 0 finds no file {os.fspath(path)!r}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            about = json.loads(parts.read("about.json"))
            files = {n: parts.read(n) for n in parts.namelist()}
    except (zipfile.BadZipFile, KeyError, ValueError) as err:
        raise FileFormatError(f"{os.fspath(path)!r} is no checkpoint of hybrid.distributed: {err}") from None
    if about.get("format") != FORMAT:
        raise FileFormatError(f"{os.fspath(path)!r}: the format is {about.get('format')!r}, expected {FORMAT!r}")
    if trainer is not None and "trainer.states" not in files:
        raise FileFormatError(f"{os.fspath(path)!r} was saved without a Trainer's states: load it without a Trainer")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("net.params", "trainer.states"):
            if name in files:
                Path(folder, name).write_bytes(files[name])
        net.load_parameters(str(Path(folder, "net.params")))
        if trainer is not None:
            trainer.load_states(str(Path(folder, "trainer.states")))
    return about["extra"]


def _packed(net: Any, trainer: Any, extra: dict[str, Any] | None) -> bytes:
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(out, "w") as parts:
        parts.writestr("about.json", json.dumps({"format": FORMAT, "extra": extra or {}}))
        net.save_parameters(str(Path(folder, "net.params")))
        parts.write(Path(folder, "net.params"), "net.params")
        if trainer is not None:
            trainer.save_states(str(Path(folder, "trainer.states")))
            parts.write(Path(folder, "trainer.states"), "trainer.states")
    return out.getvalue()
