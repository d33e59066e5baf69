"""Writes an sdist or a wheel again so that the same files make the same bytes: members in order, with one time, no
owner, and rights that do not follow the umask of whoever built it."""
from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
import time
import zipfile
from pathlib import Path


def _mode(old: int) -> int:
    """Rights of a file: whether it is a program is all that is kept."""
    return 0o755 if old & 0o100 else 0o644


def rewritten(data: bytes, when: int) -> bytes:
    """The archive of the same files, all of them changed at one time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, gzip.GzipFile("", "wb", 9, out, mtime=when) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = when, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() else _mode(member.mode)
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return out.getvalue()


def rewritten_wheel(data: bytes, when: int) -> bytes:
    """The same of a wheel, whose members keep their order: its metadata come last."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            made = zipfile.ZipInfo(member.filename, time.gmtime(when)[:6])
            made.create_system = 3                               # Unix, on every system
            made.external_attr = (0o100000 | _mode(member.external_attr >> 16)) << 16
            made.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(made, old.read(member))
    return out.getvalue()


def main() -> None:
    """Each file named on the command line, in place, with the time of SOURCE_DATE_EPOCH."""
    for name in sys.argv[1:]:
        path = Path(name)
        made = path.with_name(path.name + ".part")
        again = rewritten_wheel if path.suffix == ".whl" else rewritten
        made.write_bytes(again(path.read_bytes(), int(os.environ["SOURCE_DATE_EPOCH"])))
        made.replace(path)


if __name__ == "__main__":
    main()
