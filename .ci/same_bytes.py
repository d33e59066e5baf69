"""Writes an sdist again so that the same files make the same bytes: members in order, with one time and no owner."""
from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
from pathlib import Path


def rewritten(data: bytes, when: int) -> bytes:
    """The archive of the same files, all of them changed at one time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, gzip.GzipFile("", "wb", 9, out, mtime=when) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = when, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return out.getvalue()


def main() -> None:
    """Each file named on the command line, in place, with the time of SOURCE_DATE_EPOCH."""
    for name in sys.argv[1:]:
        path = Path(name)
        made = path.with_name(path.name + ".part")
        made.write_bytes(rewritten(path.read_bytes(), int(os.environ["SOURCE_DATE_EPOCH"])))
        made.replace(path)


if __name__ == "__main__":
    main()
