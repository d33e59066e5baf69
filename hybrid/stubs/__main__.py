"""``python -m hybrid.stubs`` writes the stub files, ``--check`` says which ones are stale."""
from __future__ import annotations

import sys

from . import stale, write


def main(arguments: list[str]) -> int:
    """Write or check; 1 where a check finds a stale file."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m hybrid.stubs [--check]", file=sys.stderr)
        return 2
    changed = stale() if arguments else write()
    for name in changed:
        print(f"{'stale' if arguments else 'wrote'}: hybrid/{name}")
    return 1 if arguments and changed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
